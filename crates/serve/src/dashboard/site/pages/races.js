// Races, the newest or the slowest first; found by an id.
import { html } from "../lib/html.js";
import { link, useChoices } from "../lib/address.js";
import { useApi } from "../lib/api.js";
import { Cost, Figure, moment } from "../lib/figures.js";
import { Choice, Filters, windowOf } from "../lib/filters.js";
import { Upstream } from "../lib/names.js";
import { namesOf, useSchemas } from "../lib/schemas.js";
import { Answer } from "../lib/states.js";
import { Table } from "../lib/table.js";
import { Race } from "./race.js";

const ORDERS = [["", "the newest"], ["ttft", "the last first token"], ["duration", "the longest"]];

/** @param {{ rest: string }} props */
export function Races({ rest }) {
  return rest ? html`<${Race} id=${rest} />` : html`<${List} />`;
}

function List() {
  const schemas = useSchemas();
  const [choices, choose] = useChoices();
  const before = choices.get("before") ?? "";
  const order = choices.get("order") ?? "";
  const named = Object.fromEntries(["outcome", "upstream", "longer", "id"].map((name) => [name, choices.get(name) ?? ""]));
  const asked = useApi("/api/races", { ...windowOf(choices), ...named, order, before: order ? "" : before }, before || order ? 0 : 10);
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
    { name: "tokens", member: "output_tokens", title: "Tokens in, out", number: true, cell: (/** @type {any} */ race) => html`<${Figure} value=${race.input_tokens} />, <${Figure} value=${race.output_tokens} />` },
    { name: "cost", member: "cost_usd_min", title: "Cost", number: true, cell: (/** @type {any} */ race) => html`<${Cost} least=${race.cost_usd_min} most=${race.cost_usd_max} />` },
    { name: "policy", title: "Policy", cell: (/** @type {any} */ race) => race.policy ?? "–" },
  ];
  const typed = (/** @type {string} */ name, /** @type {string} */ title, /** @type {string} */ example) => html`<label>${title}<input value=${choices.get(name) ?? ""} placeholder=${example} onChange=${(/** @type {any} */ event) => choose({ [name]: event.target.value.trim(), before: "" })} /></label>`;
  return html`<h1>Races</h1>
    <${Filters}><${Choice} name="order" title="First" values=${ORDERS} usual="" />${typed("longer", "Longer than", "2s")}${typed("id", "Id", "race or answer")}<${Choice} name="outcome" title="Outcome" values=${[["", "all"], ...namesOf(schemas, "RaceOutcome").map(([name]) => [name, name.replaceAll("_", " ")])]} usual="" />${typed("upstream", "Upstream", "PROVIDER/MODEL")}<//>
    <${Answer} asked=${asked} empty=${races.length === 0} none=${before ? "There are no older races." : undefined}>
      <${Table} of="Race" caption=${order ? "The slowest of the range" : before ? "Older races" : "The newest races; read again every 10 seconds"} columns=${columns} rows=${races} id=${(/** @type {any} */ race) => race.race_id} />
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
