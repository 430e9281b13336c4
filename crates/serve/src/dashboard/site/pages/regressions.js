// What became worse, against the same hours of the seven days before.
import { html } from "../lib/html.js";
import { link, useChoices } from "../lib/address.js";
import { useApi } from "../lib/api.js";
import { Figure, percent } from "../lib/figures.js";
import { Choice } from "../lib/filters.js";
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
  const over = (/** @type {Api.Regression} */ row) => link("time", { since: "7d", provider: row.upstream.split("/")[0], metric: row.figure === "ttft" ? "ttft" : row.figure === "tpot" ? "tok_s" : "failures" });
  const columns = [
    { name: "upstream", title: "Upstream", order: (/** @type {Api.Regression} */ row) => row.upstream, cell: (/** @type {Api.Regression} */ row) => html`<a class="mono" href=${over(row)}>${row.upstream}</a>` },
    { name: "figure", title: "What", order: (/** @type {Api.Regression} */ row) => row.figure, cell: (/** @type {Api.Regression} */ row) => html`<span class="bad">▲ ${WHAT[row.figure] ?? row.figure}</span>${row.quantile !== null ? ` (p${Math.round(row.quantile * 100)})` : ""}` },
    { name: "before", title: "Before", number: true, cell: (/** @type {Api.Regression} */ row) => (row.before_share !== null ? percent(row.before_share) : html`<${Figure} value=${row.before_ms} unit="ms" /> ms`) },
    { name: "now", title: "Now", number: true, cell: (/** @type {Api.Regression} */ row) => (row.now_share !== null ? percent(row.now_share) : html`<${Figure} value=${row.now_ms} unit="ms" /> ms`) },
    { name: "ratio", title: "Ratio", number: true, order: (/** @type {Api.Regression} */ row) => row.ratio, cell: (/** @type {Api.Regression} */ row) => html`<${Figure} value=${row.ratio} />` },
    { name: "p", title: "By chance", number: true, about: "how often chance alone would give such a difference", order: (/** @type {Api.Regression} */ row) => row.p_value, cell: (/** @type {Api.Regression} */ row) => html`<${Figure} value=${row.p_value} />` },
    { name: "attempts", title: "Attempts before, now", number: true, cell: (/** @type {Api.Regression} */ row) => `${row.attempts_before}, ${row.attempts_now}` },
  ];
  return html`<h1>Regressions</h1>
    <div class="filters" role="group" aria-label="Filters"><${Choice} name="now" title="Now is" values=${SINCE} usual="1h" />
      <label>Model<input value=${choices.get("model") ?? ""} placeholder="all" onChange=${(/** @type {any} */ event) => choose({ model: event.target.value.trim() })} /></label></div>
    <p>What failed at all since then: <a href=${link("races", { since, model, outcome: "error" })}>races without an answer</a>, and <a href=${link("leaderboard", { since, model, sort: "-failure_share" })}>upstreams by their share of failures</a>.</p>
    <${Answer} asked=${asked} empty=${rows.length === 0} none="Nothing is worse than in the same hours of the 7 days before, or too little was seen in one of them to tell.">
      <${Table} caption=${`Since ${since} against the same hours of the 7 days before; a link leads to the figure over time`} columns=${columns} rows=${rows}
        id=${(/** @type {Api.Regression} */ row) => `${row.upstream} ${row.figure}`} sort=${choices.get("sort") ?? "p"} onSort=${(/** @type {string} */ sort) => choose({ sort })} />
    <//>`;
}
