// Races, newest first, page by page.
import { html } from "../lib/html.js";
import { link, useChoices } from "../lib/address.js";
import { useApi } from "../lib/api.js";
import { Figure, moment } from "../lib/figures.js";
import { Choice, Filters, windowOf } from "../lib/filters.js";
import { Upstream } from "../lib/names.js";
import { namesOf, useSchemas } from "../lib/schemas.js";
import { Answer } from "../lib/states.js";
import { Table } from "../lib/table.js";
import { Race } from "./race.js";

/** @param {{ rest: string }} props */
export function Races({ rest }) {
  return rest ? html`<${Race} id=${rest} />` : html`<${List} />`;
}

function List() {
  const schemas = useSchemas();
  const [choices, choose] = useChoices();
  const before = choices.get("before") ?? "";
  const asked = useApi("/api/races", { ...windowOf(choices), outcome: choices.get("outcome") ?? "", upstream: choices.get("upstream") ?? "", before }, before ? 0 : 10);
  const races = asked.data?.races ?? [];
  const columns = [
    { name: "race", member: "started_at", title: "Begun (UTC)", cell: (/** @type {any} */ race) => html`<a class="mono" href=${link(`races/${race.race_id}`)}>${moment(race.started_at)}</a>` },
    { name: "winner", member: "upstream", title: "Winner", cell: (/** @type {any} */ race) => (race.upstream ? html`<${Upstream} name=${race.upstream} />` : "–") },
    { name: "client_ttft_ms", title: "TTFT (ms)", number: true, cell: (/** @type {any} */ race) => html`<${Figure} value=${race.client_ttft_ms} unit="ms" />` },
    { name: "outcome", title: "Outcome", cell: (/** @type {any} */ race) => html`<span class=${race.outcome === "ok" ? "good" : race.outcome === "client_gone" ? "quiet" : "bad"}>${race.outcome === "ok" ? "✓ ok" : `✕ ${race.outcome.replace("_", " ")}`}</span>` },
    { name: "model", title: "Model", cell: (/** @type {any} */ race) => race.model },
    { name: "user", title: "User", cell: (/** @type {any} */ race) => race.user ?? "–" },
    { name: "attempts", title: "Attempts", number: true, cell: (/** @type {any} */ race) => race.attempts },
    { name: "duration_ms", title: "Took (ms)", number: true, cell: (/** @type {any} */ race) => html`<${Figure} value=${race.duration_ms} unit="ms" />` },
    { name: "policy", title: "Policy", cell: (/** @type {any} */ race) => race.policy ?? "–" },
  ];
  return html`<h1>Races</h1>
    <${Filters}><${Choice} name="outcome" title="Outcome" values=${[["", "all"], ...namesOf(schemas, "RaceOutcome").map(([name]) => [name, name.replaceAll("_", " ")])]} usual="" />
      <label>Upstream<input value=${choices.get("upstream") ?? ""} placeholder="PROVIDER/MODEL" onChange=${(/** @type {any} */ event) => choose({ upstream: event.target.value.trim(), before: "" })} /></label><//>
    <${Answer} asked=${asked} empty=${races.length === 0} none=${before ? "There are no older races." : undefined}>
      <${Table} of="Race" caption=${before ? "Older races" : "The newest races; read again every 10 seconds"} columns=${columns} rows=${races} id=${(/** @type {any} */ race) => race.race_id} />
    <//>
    <p class="more">${before && html`<a href=${newest(choices)}>Newest</a>`}
      ${asked.data?.next && html`<a href=${older(choices, asked.data.next)}>Older</a>`}</p>`;
}

/** @param {URLSearchParams} choices */
function newest(choices) {
  const query = new URLSearchParams(choices);
  query.delete("before");
  return link("races", query);
}

/** @param {URLSearchParams} choices @param {string} before */
function older(choices, before) {
  const query = new URLSearchParams(choices);
  query.set("before", before);
  return link("races", query);
}
