// How speed depends on load: over the attempts in flight at an upstream.
import { html } from "../lib/html.js";
import { go, link, useChoices } from "../lib/address.js";
import { useApi } from "../lib/api.js";
import { heaviest, time } from "../lib/chart.js";
import { Figure, Marks, percent, short } from "../lib/figures.js";
import { Choice, Filters, windowOf } from "../lib/filters.js";
import { ModelSwitch, useModel } from "../lib/model.js";
import { Upstream } from "../lib/names.js";
import { MULTIPLES, Plots } from "../lib/plot.js";
import { unitOf, useSchemas, withSchema } from "../lib/schemas.js";
import { Answer, Source } from "../lib/states.js";
import { Folded, Table } from "../lib/table.js";

const METRICS = [["ttft_p50_ms", "TTFT p50"], ["ttft_p95_ms", "TTFT p95"], ["tok_s_p50", "tok/s p50"], ["tok_s_p5", "tok/s p5"], ["failure_share", "share of failures"]];

export function Load() {
  const [choices] = useChoices();
  const metric = choices.get("metric") ?? "ttft_p50_ms";
  const { model, models, asked } = useModel(windowOf(choices));
  return html`<div class="head"><h1>Load</h1>${models.length > 0 && html`<${ModelSwitch} model=${model} models=${models} />`}</div><${Filters} only=${["provider", "user"]}><${Choice} name="metric" title="Figure" values=${METRICS} usual="ttft_p50_ms" /><//>
    ${model === null && !asked.error && !asked.data ? html`<div class="note wait" role="status">Reading …</div>` : html`<${Over} metric=${metric} model=${model ?? ""} /><${Marks} />`}`;
}

/** The first number in a class's name, for its order. @param {string | null} name */
function order(name) {
  const number = /\d+/.exec((name ?? "").replaceAll(",", ""));
  const scaled = number ? Number(number[0]) * (/^\D*\d+k/i.test(name ?? "") ? 1000 : 1) : Infinity;
  return /^[<≤]/.test(name ?? "") ? scaled - 0.5 : /^[>≥]/.test(name ?? "") ? scaled + 0.5 : scaled;
}

/** @param {{ metric: string, model: string }} props */
function Over({ metric, model }) {
  const [choices] = useChoices();
  const schema = useSchemas().Group;
  const asked = withSchema(useApi("/api/stats", { ...windowOf(choices), model, by: "upstream,concurrency" }, 30), schema);
  const groups = /** @type {any[]} */ (asked.data ?? []);
  const names = [...new Set(groups.map((group) => String(group.upstream ?? "unknown")))].sort();
  const classes = [...new Set(groups.map((group) => String(group.concurrency ?? "unknown")))].sort((a, b) => order(a) - order(b) || a.localeCompare(b));
  const drawn = heaviest(names, (name) => groups.reduce((sum, group) => sum + ((group.upstream ?? "unknown") === name ? group.attempts : 0), 0), MULTIPLES);
  const over = `${metric.replace(/_ms$/, "")}_over_ms`;
  const unit = unitOf(schema, metric);
  const lines = drawn.map((name) => ({
    name,
    points: classes.map((one, at) => /** @type {[number, number | null]} */ ([at, groups.find((group) => (group.upstream ?? "unknown") === name && String(group.concurrency ?? "unknown") === one)?.[metric] ?? null])),
  }));
  const columns = [
    { name: "upstream", title: "Upstream", cell: (/** @type {any} */ row) => html`<${Upstream} name=${row.upstream ?? null} />` },
    { name: "class", title: "In flight", cell: (/** @type {any} */ row) => row.concurrency ?? "unknown" },
    { name: "value", title: unit || "Share", number: true, cell: (/** @type {any} */ row) => (row[metric] === null && row[over] !== undefined ? html`<${Figure} value=${row[over]} unit=${unit} sign=">" />` : html`<${Figure} value=${row[metric]} unit=${unit} />`) },
    { name: "attempts", title: "Attempts", number: true, cell: (/** @type {any} */ row) => row.attempts },
  ];
  const rows = [...groups].sort((a, b) => String(a.upstream).localeCompare(String(b.upstream)) || order(a.concurrency) - order(b.concurrency));
  return html`<h2>Over the attempts in flight at the upstream</h2>
    <p class="quiet">As asked: requests of other sizes and hours come with other loads, so a line says how one upstream bears its load, and two lines do not compare upstreams. The <a href=${link("leaderboard", { model })}>leaderboard</a> does.</p><${Answer} asked=${asked} empty=${groups.length === 0}>
    ${drawn.length < names.length && html`<p class="note">Drawn: the ${drawn.length} of ${names.length} upstreams with most attempts. The table has all; a filter draws others.</p>`}
    <figure><${Plots} kind="class" lines=${lines} stops=${classes.map((_, at) => at)} from=${-0.15} to=${Math.max(0.15, classes.length - 0.85)} head=${(/** @type {number} */ at) => `${classes[at]} in flight`}
      tick=${(/** @type {number} */ at) => classes[at] ?? ""} text=${unit === "ms" ? time : unit ? short : percent} about=${`${METRICS.find(([name]) => name === metric)?.[1]} by the attempts in flight: the table below has every figure`}
      open=${(/** @type {number} */ _, /** @type {string | null} */ name) => go(link("races", { ...windowOf(choices), model, upstream: name ?? "" }))} />
      <figcaption>${METRICS.find(([name]) => name === metric)?.[1]}${unit && unit !== "ms" ? `, ${unit}` : ""}. A missing point: no attempt, or the quantile was not reached.</figcaption></figure>
    <${Source} rolled=${asked.rolled} />
    <${Folded} summary="The figures as a table">${() => html`<${Table} of="Group" caption="> later than this" columns=${columns} rows=${rows} id=${(/** @type {any} */ row) => `${row.upstream} ${row.concurrency}`} />`}<//>
  <//>`;
}
