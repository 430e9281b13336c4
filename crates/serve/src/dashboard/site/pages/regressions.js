// What happened, and what became worse: incidents, and the last hours against the same hours of the seven days before.
import { html } from "../lib/html.js";
import { link, useChoices } from "../lib/address.js";
import { useApi } from "../lib/api.js";
import { Figure, moment, percent } from "../lib/figures.js";
import { Choice, Filters, windowOf } from "../lib/filters.js";
import { incidentsOf, State, useIncidents } from "../lib/incidents.js";
import { Upstream } from "../lib/names.js";
import { Answer } from "../lib/states.js";
import { Table } from "../lib/table.js";

const SINCE = [["1h", "the last hour"], ["3h", "the last 3 hours"], ["6h", "the last 6 hours"], ["24h", "the last 24 hours"]];
/** @type {Record<string, string>} */
const WHAT = { ttft: "first tokens come later", tpot: "tokens come slower", failures: "more attempts fail" };

export function Regressions() {
  const [choices, choose] = useChoices();
  const since = choices.get("now") ?? "1h";
  const model = choices.get("model") ?? "";
  const asked = useApi("/api/stats", { regressions: "true", since, model }, 60);
  const rows = /** @type {Api.Regression[]} */ (asked.data ?? []);
  const figure = (/** @type {string} */ name) => (name === "ttft" || name === "slower" ? "ttft" : name === "tpot" || name === "tok_s" ? "tok_s" : "failures");
  const over = (/** @type {Api.Regression} */ row) => link("time", { since: "7d", provider: row.upstream.split("/")[0], metric: figure(row.figure) });
  const columns = [
    { name: "upstream", title: "Upstream", order: (/** @type {Api.Regression} */ row) => row.upstream, cell: (/** @type {Api.Regression} */ row) => html`<${Upstream} name=${row.upstream} href=${over(row)} />` },
    { name: "figure", title: "What", wide: true, order: (/** @type {Api.Regression} */ row) => row.figure, cell: (/** @type {Api.Regression} */ row) => html`<span class="bad">▲ ${WHAT[row.figure] ?? row.figure}</span>${row.quantile !== null ? ` (p${Math.round(row.quantile * 100)})` : ""}` },
    { name: "before", title: "Before", number: true, cell: (/** @type {Api.Regression} */ row) => (row.before_share !== null ? percent(row.before_share) : html`<${Figure} value=${row.before_ms} unit="ms" /> ms`) },
    { name: "now", title: "Now", number: true, cell: (/** @type {Api.Regression} */ row) => (row.now_share !== null ? percent(row.now_share) : html`<${Figure} value=${row.now_ms} unit="ms" /> ms`) },
    { name: "ratio", title: "Ratio", number: true, order: (/** @type {Api.Regression} */ row) => row.ratio, cell: (/** @type {Api.Regression} */ row) => html`<${Figure} value=${row.ratio} />` },
    { name: "p", member: "p_value", title: "By chance", number: true, order: (/** @type {Api.Regression} */ row) => row.p_value, cell: (/** @type {Api.Regression} */ row) => html`<${Figure} value=${row.p_value} />` },
    { name: "attempts", title: "Attempts before, now", number: true, cell: (/** @type {Api.Regression} */ row) => `${row.attempts_before}, ${row.attempts_now}` },
  ];
  const window = windowOf(choices);
  const found = useIncidents(window);
  const incidents = incidentsOf(found.data, null);
  const at = (/** @type {number} */ micros) => `${moment(micros).replace(" ", "T")}Z`;
  const races = (/** @type {Api.Incident} */ one) => link("races", { upstream: one.upstream ?? "", since: at(one.began_at - 60e6), until: at((one.ended_at ?? one.last_at) + 60e6) });
  const seen = [
    { name: "upstream", title: "Upstream", cell: (/** @type {Api.Incident} */ one) => (one.upstream === null ? html`<strong>the gateway</strong> <small class="quiet">${one.upstreams} upstreams</small>` : html`<${Upstream} name=${one.upstream} href=${races(one)} />`) },
    { name: "what", member: "words", title: "What happened", wide: true, cell: (/** @type {Api.Incident} */ one) => html`${one.words} <a href=${races(one)} aria-label=${`Races of ${one.upstream ?? "the gateway"} from ${one.began}`}>Races</a>` },
    { name: "state", title: "State", cell: (/** @type {Api.Incident} */ one) => html`<${State} one=${one} />` },
    { name: "attempts", title: "Attempts", number: true, cell: (/** @type {Api.Incident} */ one) => html`<${Figure} value=${one.attempts} />` },
  ];
  const unwatched = found.data?.not_watched ?? [];
  return html`<h1>Incidents</h1>
    <${Filters} only=${["provider"]} source=${false} />
    <${Answer} asked=${found} empty=${incidents.length === 0} none="No incident in this range: no upstream failed or was slow for long enough to be sure of it.">
      <${Table} of="Incident" caption="Newest first. An upstream leads to its races of that time." columns=${seen} rows=${incidents.slice(0, 500)} id=${(/** @type {Api.Incident} */ one) => one.incident_id} /><//>
    ${unwatched.length > 0 && html`<p class="quiet">Asked too seldom to be watched for slowness: ${unwatched.slice(0, 12).map((one) => one.upstream).join(", ")}${unwatched.length > 12 ? ` and ${unwatched.length - 12} more` : ""}.</p>`}
    <h2>Worse than in the same hours before</h2>
    <div class="filters" role="group" aria-label="What is compared"><${Choice} name="now" title="Now is" values=${SINCE} usual="1h" />
      <label>Model<input value=${choices.get("model") ?? ""} placeholder="all" onChange=${(/** @type {any} */ event) => choose({ model: event.target.value.trim() })} /></label></div>
    <${Answer} asked=${asked} empty=${rows.length === 0} none="Nothing is worse than in the same hours of the 7 days before, or too little was seen in one of them to tell.">
      <${Table} of="Regression" caption=${`Since ${since} against the same hours of the 7 days before; an upstream leads to the figure over time`} columns=${columns} rows=${rows}
        id=${(/** @type {Api.Regression} */ row) => `${row.upstream} ${row.figure}`} sort=${choices.get("sort") ?? "p"} onSort=${(/** @type {string} */ sort) => choose({ sort })} />
    <//>
    <p>What failed at all since then: <a href=${link("races", { since, model, outcome: "error" })}>races without an answer</a>, and <a href=${link("leaderboard", { since, model, sort: "-failure_share" })}>upstreams by their share of failures</a>.</p>`;
}
