// Whom a request would ask now and why, and what was learned of each upstream.
import { html } from "../lib/html.js";
import { useChoices } from "../lib/address.js";
import { useApi } from "../lib/api.js";
import { time } from "../lib/chart.js";
import { dollars, Figure, percent, short, span } from "../lib/figures.js";
import { useModel } from "../lib/model.js";
import { colour, shortened, Upstream } from "../lib/names.js";
import { Answer } from "../lib/states.js";
import { Table } from "../lib/table.js";

export function Routing() {
  const [choices, choose] = useChoices();
  const all = useApi("/api/routing", {}, 30);
  const { model: busiest, asked: known } = useModel({ since: "24h" });
  const names = /** @type {string[]} */ ((all.data?.models ?? []).map((/** @type {any} */ model) => model.model));
  const model = choices.get("model") || (busiest !== null && names.includes(busiest) ? busiest : known.data || known.error ? (names[0] ?? "") : "");
  const asked = useApi("/api/routing", { model }, 3);
  return html`<div class="head"><h1>Routing</h1><label>Model<select value=${model} onChange=${(/** @type {any} */ event) => choose({ model: event.target.value })}>
      ${!names.includes(model) && html`<option value=${model}>${model}</option>`}
      ${names.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
    </select></label></div>
    <${Answer} asked=${asked} empty=${asked.data?.upstreams.length === 0} none="No model has an upstream.">
      ${asked.data && html`${asked.data.models.map((/** @type {any} */ one) => html`<${First} model=${one} upstreams=${asked.data?.upstreams ?? []} key=${one.model} />`)}
        <${Upstreams} all=${asked.data.upstreams} models=${asked.data.models} />
        ${asked.data.left_out > 0 && html`<p class="quiet">${asked.data.left_out} more are not shown.</p>`}`}
    <//>`;
}

/** Whom a request would ask, in a sentence. @param {{ model: any, upstreams: any[] }} props */
function First({ model, upstreams }) {
  const names = shortened(upstreams.map((one) => one.upstream));
  const [first, ...rest] = model.order.map((/** @type {string} */ name) => names.get(name) ?? name);
  const left = (/** @type {number} */ amount) => (model.unit === "usd" ? `$${dollars(amount)}` : `${short(amount)} ${model.unit}`);
  const next = rest.length === 0 ? "" : model.policy === "race" ? html`, and with it ${rest.join(", ")}` : html`; if more are needed, ${rest.join(", then ")}`;
  return html`<p class="lead">${first === undefined ? "No upstream can be asked now." : html`A request would ask <strong>${first}</strong> first${next}.`}</p>
    <p class="quiet">Policy ${model.policy}, for ${model.optimise}; it ${model.learns ? "orders upstreams by what was learned" : "does not learn"}. Extras may cost ${percent(model.budget)} of what single attempts do${model.bucket !== null ? `; ${left(model.bucket)} of at most ${left(model.bucket_capacity)} ${model.unit === "usd" ? "is" : "are"} left for them now` : ""}.</p>`;
}

/** @param {{ all: any[], models: any[] }} props */
function Upstreams({ all, models }) {
  const [choices, choose] = useChoices();
  const more = choices.get("more") === "true";
  const predicted = (/** @type {any} */ row, /** @type {string} */ name) => row.predicted.find((/** @type {any} */ one) => one.input_tokens === 2000)?.[name] ?? null;
  const hasWhole = all.some((row) => predicted(row, "whole_p50_ms") !== null);
  const most = Math.max(1, ...all.map((row) => predicted(row, "ttft_p50_ms") ?? 0));
  const place = (/** @type {any} */ row) => {
    const at = models.map((model) => model.order.indexOf(row.upstream)).find((at) => at >= 0);
    return at === undefined ? null : at + 1;
  };
  const why = (/** @type {any} */ row) => models.flatMap((model) => model.why).find((/** @type {any} */ one) => one.upstream === row.upstream)?.text ?? "–";
  const words = (/** @type {any} */ row) => [why(row), ...row.refuses, ...row.learnt.map((/** @type {string} */ one) => `learnt: ${one}`)].join("; ");
  const number = (/** @type {string} */ name, /** @type {string} */ title, /** @type {(row: any) => any} */ order, unit = "", about = /** @type {string | undefined} */ (undefined)) => ({
    name, title, order, about, number: true, cell: (/** @type {any} */ row) => html`<${Figure} value=${order(row)} unit=${unit} />`,
  });
  const columns = [
    { name: "upstream", title: "Upstream", order: (/** @type {any} */ row) => row.upstream, cell: (/** @type {any} */ row) => html`<${Upstream} name=${row.upstream} />` },
    { name: "place", title: "Place", number: true, order: place, cell: (/** @type {any} */ row) => place(row) ?? "–" },
    { name: "state", title: "State", order: state, cell: (/** @type {any} */ row) => html`<span class=${row.on && row.breaker === "closed" ? "good" : "quiet"}>${state(row)}</span>` },
    {
      name: "p50", title: "TTFT p50", about: "predicted for 2,000 input tokens", number: true, order: (/** @type {any} */ row) => predicted(row, "ttft_p50_ms"), cell: (/** @type {any} */ row) => {
        const ms = predicted(row, "ttft_p50_ms");
        return ms === null ? html`<span class="quiet">too little known</span>` : html`<data value=${String(ms)} title=${`${ms} ms`}>${time(ms)}</data><span class="bar" aria-hidden="true"><i class=${`b${colour(row.upstream)}`} style=${{ width: `${(ms / most) * 100}%` }}></i></span>`;
      },
    },
    number("p95", "p95 (ms)", (row) => predicted(row, "ttft_p95_ms"), "ms", "predicted for 2,000 input tokens"),
    ...(hasWhole
      ? [
          number("whole", "Whole p50 (ms)", (row) => predicted(row, "whole_p50_ms"), "ms", "time to a whole plain answer, predicted likewise"),
          number("whole95", "p95 (ms)", (row) => predicted(row, "whole_p95_ms"), "ms", "time to a whole plain answer, predicted likewise"),
        ]
      : []),
    { name: "why", title: "Why", wide: true, cell: words },
    ...(more
      ? [
          number("level_factor", "Level now", (row) => row.level_factor),
          number("load_slope", "Load slope", (row) => row.load_slope),
          number("tpot_ms", "TPOT (ms)", (row) => row.tpot_ms, "ms"),
          number("samples", "Samples", (row) => row.samples),
          number("in_flight", "In flight", (row) => row.in_flight),
        ]
      : []),
    { name: "last_observation_s", title: "Last seen", number: true, order: (/** @type {any} */ row) => row.last_observation_s, cell: (/** @type {any} */ row) => span(row.last_observation_s) },
  ];
  return html`<${Table} of="UpstreamNow" caption="In the order in which a request would ask them; times are predictions for 2,000 input tokens" columns=${columns} rows=${all}
    id=${(/** @type {any} */ row) => row.upstream} sort=${choices.get("sort") ?? "place"} onSort=${(/** @type {string} */ sort) => choose({ sort })} />
    <p class="more"><button type="button" aria-pressed=${more} onClick=${() => choose({ more: more ? "" : "true" })}>${more ? "Fewer columns" : "More columns"}</button></p>`;
}

/** @param {any} row */
function state(row) {
  if (!row.on) return "○ off";
  if (row.cooling_down_s !== null) return `◌ cools down ${span(row.cooling_down_s)}`;
  if (row.breaker !== "closed") return `✕ breaker ${row.breaker}${row.breaker_wait_s ? ` ${span(row.breaker_wait_s)}` : ""}`;
  return row.throttled ? "◐ throttled" : "● on";
}
