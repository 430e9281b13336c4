// What the gateway has learned of each upstream, and whom it would ask now.
import { html } from "../lib/html.js";
import { useChoices } from "../lib/address.js";
import { useApi } from "../lib/api.js";
import { Figure, span } from "../lib/figures.js";
import { Answer } from "../lib/states.js";
import { Table } from "../lib/table.js";

export function Routing() {
  const [choices, choose] = useChoices();
  const model = choices.get("model") ?? "";
  const all = useApi("/api/routing", {}, 30);
  const asked = useApi("/api/routing", { model }, 3);
  const names = (all.data?.models ?? []).map((/** @type {any} */ model) => model.model);
  return html`<h1>Routing</h1>
    <div class="filters"><label>Model<select value=${model} onChange=${(/** @type {any} */ event) => choose({ model: event.target.value })}>
      <option value="">all</option>
      ${model && !names.includes(model) && html`<option value=${model}>${model}</option>`}
      ${names.map((/** @type {string} */ name) => html`<option value=${name}>${name}</option>`)}
    </select></label></div>
    <${Answer} asked=${asked} empty=${asked.data?.upstreams.length === 0} none="No model has an upstream.">
      ${asked.data && html`<${Upstreams} all=${asked.data.upstreams} />
        ${asked.data.left_out > 0 && html`<p class="quiet">${asked.data.left_out} more are not shown.</p>`}
        <h2>Whom a request would ask now</h2>
        ${asked.data.models.map((/** @type {any} */ model) => html`<${Order} model=${model} key=${model.model} />`)}`}
    <//>`;
}

/** @param {{ all: any[] }} props */
function Upstreams({ all }) {
  const [choices, choose] = useChoices();
  const predicted = (/** @type {any} */ row, /** @type {string} */ name) => row.predicted.find((/** @type {any} */ one) => one.input_tokens === 2000)?.[name];
  const hasWhole = all.some((row) => (predicted(row, "whole_p50_ms") ?? null) !== null);
  const number = (/** @type {string} */ name, /** @type {string} */ title, /** @type {(row: any) => any} */ order, unit = "", about = "") => ({
    name, title, order, about, number: true, cell: (/** @type {any} */ row) => html`<${Figure} value=${order(row)} unit=${unit} />`,
  });
  const columns = [
    { name: "upstream", title: "Upstream", order: (/** @type {any} */ row) => row.upstream, cell: (/** @type {any} */ row) => html`<span class="mono">${row.upstream}</span>` },
    { name: "state", title: "State", order: state, cell: (/** @type {any} */ row) => html`<span class=${row.on && row.breaker === "closed" ? "good" : "quiet"}>${state(row)}</span>` },
    number("p50", "TTFT p50 (ms)", (row) => predicted(row, "ttft_p50_ms"), "ms", "predicted for 2,000 input tokens"),
    number("p95", "p95 (ms)", (row) => predicted(row, "ttft_p95_ms"), "ms", "predicted for 2,000 input tokens"),
    ...(hasWhole
      ? [
          number("whole", "Whole p50 (ms)", (row) => predicted(row, "whole_p50_ms"), "ms", "time to a whole plain answer, predicted likewise"),
          number("whole95", "p95 (ms)", (row) => predicted(row, "whole_p95_ms"), "ms", "time to a whole plain answer, predicted likewise"),
        ]
      : []),
    number("level", "Level now", (row) => row.level_factor, "", "the present factor on the times above"),
    number("load", "Load slope", (row) => row.load_slope, "", "how much each attempt in flight slows the others"),
    number("tpot", "TPOT (ms)", (row) => row.tpot_ms, "ms", "time per output token"),
    number("samples", "Samples", (row) => row.samples, "", "weight of what was learned"),
    number("flight", "In flight", (row) => row.in_flight),
    { name: "seen", title: "Last seen", number: true, order: (/** @type {any} */ row) => row.last_observation_s, cell: (/** @type {any} */ row) => span(row.last_observation_s) },
  ];
  return html`<${Table} caption="Upstreams; times are predictions for 2,000 input tokens" columns=${columns} rows=${all}
    id=${(/** @type {any} */ row) => row.upstream} sort=${choices.get("sort") ?? ""} onSort=${(/** @type {string} */ sort) => choose({ sort })} />`;
}

/** @param {any} row */
function state(row) {
  if (!row.on) return "○ off";
  if (row.cooling_down_s !== null) return `◌ cools down ${span(row.cooling_down_s)}`;
  if (row.breaker !== "closed") return `✕ breaker ${row.breaker}${row.breaker_wait_s ? ` ${span(row.breaker_wait_s)}` : ""}`;
  return row.throttled ? "◐ throttled" : "● on";
}

/** @param {{ model: any }} props */
function Order({ model }) {
  const place = (/** @type {string} */ name) => model.order.indexOf(name) + 1;
  const why = [...model.why].sort((a, b) => (place(a.upstream) || 99) - (place(b.upstream) || 99));
  return html`<details open=${model.order.length > 0}>
    <summary><strong>${model.model}</strong>${model.alias_of ? ` (alias of ${model.alias_of})` : ""}: ${model.policy}, for ${model.optimise}</summary>
    <p class="quiet">${model.learns ? "Learns. " : "Does not learn. "}Budget for extras ${model.budget}${model.bucket !== null ? html`; <${Figure} value=${model.bucket} /> of <${Figure} value=${model.bucket_capacity} /> ${model.unit} are left` : ""}.</p>
    <ol class="plain">${why.map((one) => html`<li><span class="mono">${one.upstream}</span>: ${place(one.upstream) ? `place ${place(one.upstream)}; ` : ""}${one.text}</li>`)}</ol>
  </details>`;
}
