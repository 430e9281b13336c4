// What attempts cost, by what they were for, and what racing gained for it.
import { html } from "../lib/html.js";
import { link, useChoices } from "../lib/address.js";
import { useApi } from "../lib/api.js";
import { apart, ticks } from "../lib/axis.js";
import { useWidth } from "../lib/chart.js";
import { Cost, dollars, Figure, short } from "../lib/figures.js";
import { Choice, Filters, windowOf } from "../lib/filters.js";
import { clip, shortened } from "../lib/names.js";
import { Answer, Source } from "../lib/states.js";
import { Table } from "../lib/table.js";

const BY = [["day", "day"], ["model", "model"], ["user", "user"], ["upstream", "upstream"]];
/** Members of the answer, what they are called, and what they are. @type {[string, string, string][]} */
const PARTS = [
  ["answers", "Single attempts", "attempts that did not lose, failed ones included: what one attempt for each request would cost"],
  ["cut", "Extras at once", "losers that started with the first and were cut off"],
  ["late", "Extras later", "losers that started because others were late or failed, and were cut off"],
  ["looks", "Looks", "losers that their request drew, so that upstreams can be compared"],
  ["audits", "Audits", "losers that ran on to be measured: audits, revisits and trials"],
  ["drains", "Drains", "losers that were read to their end, because their provider bills a cancelled answer in full"],
  ["rolled_extras", "Losers of whole hours", "losers of hours that were rolled up without saying why a loser ran"],
];

export function Costs() {
  const [choices, choose] = useChoices();
  const by = choices.get("by") ?? "day";
  const asked = useApi("/api/costs", { ...windowOf(choices), by }, 30);
  const gains = useApi("/api/stats", { ...windowOf(choices), compare: "true" }, 30);
  const groups = asked.data?.groups ?? [];
  const total = /** @type {any} */ (asked.data?.total);
  const parts = PARTS.filter(([name]) => total?.[name] && (name !== "rolled_extras" || total[name].cost_usd_max !== 0));
  const left = asked.data?.left_out ?? 0;
  const known = total && (total.all.cost_usd !== null || total.all.cost_usd_min !== null);
  return html`<h1>Costs</h1><${Filters}><${Choice} name="by" title="By" values=${BY} usual="day" /><//>
    <${Answer} asked=${asked} empty=${total?.attempts === 0}>${total && html`
      <dl class="facts"><div class="fact"><dt>All attempts</dt><dd><${Sum} sum=${total.all} /></dd></div>
        <div class="fact" title="all that is no single attempt"><dt>Of it racing</dt><dd><${Sum} sum=${racing(total)} /></dd></div>
        ${parts.map(([name, title, about]) => html`<div class="fact" title=${about}><dt>${title}</dt><dd><${Sum} sum=${total[name]} /></dd></div>`)}</dl>
      ${!known && html`<p class="note">No attempt of this range has a price, so nothing can be said of its cost. A price comes from the catalogue, or from <code>input_price</code> and <code>output_price</code> in the configuration. Simulated providers cost nothing.</p>`}
      ${known && html`<${Bars} groups=${groups} by=${by} parts=${parts} />`}
      <${Parts} groups=${groups} by=${by} parts=${parts} sort=${choices.get("sort") ?? ""} onSort=${(/** @type {string} */ sort) => choose({ sort })} />
      ${left > 0 && html`<p class="quiet">${left} more groups are only in the total.</p>`}
      <${Source} rolled=${asked.rolled} />`}
    <//>
    <h2>What racing gained for it</h2>
    <${Answer} asked=${gains} empty=${(gains.data ?? []).length === 0}><${Gains} models=${gains.data ?? []} /><//>`;
}

/** @param {{ sum: any }} props */
function Sum({ sum }) {
  return html`<${Cost} value=${sum.cost_usd} basis=${sum.cost_basis} least=${sum.cost_usd_min} most=${sum.cost_usd_max} />`;
}

/** All parts but the first as one sum. @param {any} total */
function racing(total) {
  const parts = PARTS.slice(1).map(([name]) => total[name]).filter(Boolean);
  const least = parts.reduce((sum, part) => sum + (part.cost_usd_min ?? 0), 0);
  const most = parts.every((part) => part.cost_usd_max !== null) ? parts.reduce((sum, part) => sum + part.cost_usd_max, 0) : null;
  if (parts.every((part) => part.cost_usd_min === null)) return { cost_usd: null, cost_basis: "unknown", cost_usd_min: null, cost_usd_max: null };
  const basis = least === most ? "computed" : least > 0 ? "at_least" : "at_most";
  return { cost_usd: basis === "at_most" ? most : least, cost_basis: basis, cost_usd_min: least, cost_usd_max: most };
}

/** @param {any} sum */
const amount = (sum) => sum.cost_usd ?? sum.cost_usd_min ?? 0;

/** @param {{ groups: any[], by: string, parts: typeof PARTS }} props */
function Bars({ groups, by, parts }) {
  const [place, width] = useWidth();
  const shown = groups.slice(-40);
  const labels = shortened(shown.map((group) => group[by] ?? "unknown"));
  const most = Math.max(1e-12, ...shown.map((group) => parts.reduce((sum, [name]) => sum + amount(group[name]), 0)));
  const names = Math.min(220, width * 0.34);
  const inner = Math.max(60, width - names - 110);
  const height = shown.length * 24 + 24;
  return html`<figure><ul class="legend">${parts.map(([name, title], at) => html`<li key=${name}><svg viewBox="0 0 42 14" aria-hidden="true"><rect class=${`paid${at}`} width="42" height="14" /><rect class=${`hatch h${at}`} width="42" height="14" fill=${`url(#hatch${at})`} /></svg> ${at + 1} ${title}</li>`)}</ul>
    <div class="chart" ref=${place}>${width > 0 && html`<svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${`Cost by ${by}; the table below has the same`}>
      <defs>${parts.map((_, at) => html`<pattern id=${`hatch${at}`} width="6" height="6" patternUnits="userSpaceOnUse" patternTransform=${`rotate(${[0, 45, -45, 90, 0, 45, -45, 90][at % 8]})`}>${at > 0 && html`<rect class="gap" width="2" height="6" />`}</pattern>`)}</defs>
      ${apart(ticks(most, Math.max(2, inner / 110)).map((usd) => ({ at: usd, px: names + (usd / most) * inner, text: `$${dollars(usd)}` })), width).map(({ at, px, text }) => html`<g><line class="grid" x1=${names + (at / most) * inner} x2=${names + (at / most) * inner} y1="0" y2=${height - 20} /><text x=${px} y=${height - 5} text-anchor="middle">${text}</text></g>`)}
      ${shown.map((group, row) => {
    let at = names;
    return html`<g key=${row}><text x="0" y=${row * 24 + 16}>${clip(labels.get(group[by] ?? "unknown") ?? "", names / 8)}</text>
          ${parts.map(([name], part) => {
      const wide = (amount(group[name]) / most) * inner;
      const from = at;
      at += wide;
      return wide > 0 && html`<g><rect class=${`paid${part}`} x=${from} y=${row * 24 + 4} width=${wide} height="17" /><rect x=${from} y=${row * 24 + 4} width=${wide} height="17" fill=${`url(#hatch${part})`} /></g>`;
    })}
          <text x=${at + 6} y=${row * 24 + 17}>$${dollars(parts.reduce((sum, [name]) => sum + amount(group[name]), 0))}</text></g>`;
  })}
    </svg>`}</div><figcaption>${shown.length < groups.length ? `The last 40 of ${groups.length} groups. ` : ""}Where a cost is only bounded, its lower bound is drawn.</figcaption></figure>`;
}

/** @param {{ groups: any[], by: string, parts: typeof PARTS, sort: string, onSort: (sort: string) => void }} props */
function Parts({ groups, by, parts, sort, onSort }) {
  const [choices] = useChoices();
  const races = (/** @type {any} */ row) => link("races", { ...windowOf(choices), ...(by === "day" ? { since: `${row.day}T00:00:00Z`, until: `${new Date(Date.parse(`${row.day}T00:00:00Z`) + 86_400_000).toISOString().slice(0, 19)}Z` } : { [by]: row[by] }) });
  const columns = [
    { name: by, title: by[0].toUpperCase() + by.slice(1), order: (/** @type {any} */ row) => row[by], cell: (/** @type {any} */ row) => (row[by] === null ? "unknown" : html`<a href=${races(row)}>${row[by]}</a>`) },
    { name: "attempts", title: "Attempts", number: true, order: (/** @type {any} */ row) => row.attempts, cell: (/** @type {any} */ row) => html`<${Figure} value=${row.attempts} />` },
    ...[/** @type {[string, string, string]} */ (["all", "All", "every attempt"]), ...parts].map(([name, title, about]) => ({
      name, title, about, number: true, order: (/** @type {any} */ row) => amount(row[name]), cell: (/** @type {any} */ row) => html`<${Sum} sum=${row[name]} />`,
    })),
  ];
  return html`<${Table} caption="~ a bound; > at least this; the title of each has both bounds" columns=${columns} rows=${groups} id=${(/** @type {any} */ row) => String(row[by])} sort=${sort} onSort=${onSort} />`;
}

/** @param {{ models: Api.ModelComparison[] }} props */
function Gains({ models }) {
  const columns = [
    { name: "model", title: "Model", cell: (/** @type {any} */ row) => row.model },
    { name: "best", title: "Best alone", about: "the upstream with the least median, by looks", cell: (/** @type {any} */ row) => html`<span class="mono">${row.best_upstream ?? "–"}</span>` },
    { name: "clients50", title: "Clients p50 (ms)", number: true, cell: (/** @type {any} */ row) => html`<${Figure} value=${row.client_p50_ms} unit="ms" />` },
    { name: "gain50", title: "At p50", cell: (/** @type {any} */ row) => gain(row, "p50") },
    { name: "clients95", title: "Clients p95 (ms)", number: true, cell: (/** @type {any} */ row) => html`<${Figure} value=${row.client_p95_ms} unit="ms" />` },
    { name: "gain95", title: "At p95", cell: (/** @type {any} */ row) => gain(row, "p95") },
  ];
  return html`<${Table} caption="Against the best upstream alone, by looks; between the bounds of 95 %" columns=${columns} rows=${models} id=${(/** @type {any} */ row) => String(row.model)} />`;
}

/** @param {any} row @param {"p50" | "p95"} at */
function gain(row, at) {
  if (row[`verdict_${at}`] === "unknown") return html`<span class="quiet">cannot be told yet: ${row.upstreams[0]?.looks ?? 0} looks of about 200</span>`;
  const [value, low, high] = ["", "_low", "_high"].map((bound) => row[`gain_${at}${bound}_ms`]);
  return html`${row[`verdict_${at}`]} <${Figure} value=${Math.abs(value)} unit="ms" /> <span class="quiet">(${short(Math.min(Math.abs(low), Math.abs(high)))} to ${short(Math.max(Math.abs(low), Math.abs(high)))})</span>`;
}
