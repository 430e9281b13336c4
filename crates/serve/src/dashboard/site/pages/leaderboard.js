// Who is fast, out of every attempt: losers that were cut off count for as long as they were watched.
import { html } from "../lib/html.js";
import { here, link, useChoices } from "../lib/address.js";
import { question, useApi } from "../lib/api.js";
import { letter, Legend, ticks, useWidth } from "../lib/chart.js";
import { Curves } from "../lib/curve.js";
import { Cost, dollars, Figure, percent, Quantile, short, style } from "../lib/figures.js";
import { Filters, windowOf } from "../lib/filters.js";
import { Answer, Source } from "../lib/states.js";
import { Folded, Table } from "../lib/table.js";

/** A quantile may stand without a mark with ten samples beyond it, as in \`stats\`. @param {number} samples @param {number} p */
const firm = (samples, p) => samples * Math.min(p, 1 - p) >= 10 - 1e-6;

export function Leaderboard() {
  const [choices, choose] = useChoices();
  const asked = useApi("/api/stats", { ...windowOf(choices), by: "upstream" }, 15);
  const compared = useApi("/api/stats", { ...windowOf(choices), compare: "true" }, 30);
  const curves = useApi("/api/distribution", windowOf(choices), 30);
  const groups = asked.data ?? [];
  const names = groups.map((/** @type {any} */ group) => group.upstream ?? "unknown").sort();
  const alone = choices.get("alone") === "true";
  return html`<h1>Leaderboard</h1><${Filters} />
    <h2>Compared: each upstream alone</h2>
    <${Answer} asked=${compared} empty=${false}>${compared.data && (compared.data.length > 0
      ? compared.data.map((/** @type {any} */ model) => html`<${Compared} model=${model} names=${names} key=${model.model} />`)
      : html`<p class="note">No looks in this range, so nothing can be compared. Under <code>adaptive</code> and <code>race</code> two requests of a hundred look at one upstream of their model, if it has several; elsewhere <code>look</code> sets it.</p>`)}<//>
    <h2>As asked</h2>
    <p class="quiet">What each upstream took for the requests that it got. A policy that chooses sends them different ones, so these figures are no ranking.</p>
    <${Answer} asked=${asked} empty=${groups.length === 0}>
      <${Board} groups=${groups} names=${names} />
      <${Source} rolled=${asked.rolled} />
      <p><a href=${here(question("/api/stats", { ...windowOf(choices), by: "upstream" }))}>The same as JSON, with every digit</a></p>
    <//>
    <h2>Time to first token, whole</h2>
    <${Answer} asked=${curves} empty=${curves.data?.upstreams.length === 0}>${curves.data && html`
      <label class="tick"><input type="checkbox" checked=${alone} onChange=${(/** @type {any} */ event) => choose({ alone: event.target.checked ? "true" : "" })} /> also what first tokens alone would draw (thin): too fast, because losers are cut off</label>
      <${Legend} names=${curves.data.upstreams.map((/** @type {any} */ curve) => curve.upstream)} all=${names} />
      <figure><${Curves} curves=${curves.data.upstreams} names=${names} alone=${alone} />
        <figcaption>Share of attempts with a first token, estimated by Kaplan and Meier; shaded: 95 % band; a tick: attempts were cut off there.${curves.data.left_out > 0 ? ` ${curves.data.left_out} upstreams with fewer attempts are not drawn.` : ""}</figcaption></figure>
      <${Few} curves=${curves.data.upstreams} />
      <${Folded} summary="The curves as a table">${() => curves.data?.upstreams.map((/** @type {any} */ curve) => html`<${Points} curve=${curve} key=${curve.upstream} />`)}<//>`}
    <//>
    ${groups.length > 0 && html`<${Prices} groups=${groups} names=${names} />`}`;
}

/** How long each upstream of a model alone would have taken. @param {{ model: Api.ModelComparison, names: string[] }} props */
function Compared({ model, names }) {
  const time = (/** @type {string} */ at, /** @type {string} */ title) => ({
    name: at, title, number: true,
    cell: (/** @type {any} */ row) => row[`ttft_${at}_ms`] === null
      ? html`<span class="quiet">too few to compare</span>`
      : html`<${Figure} value=${row[`ttft_${at}_ms`]} unit="ms" /> <span class="quiet">(${short(row[`ttft_${at}_low_ms`])} to ${short(row[`ttft_${at}_high_ms`])})</span>`,
  });
  const columns = [
    { name: "upstream", title: "Upstream", cell: (/** @type {any} */ row) => html`<strong>${letter(names, row.upstream)}</strong> <span class="mono">${row.upstream}</span>` },
    time("p50", "TTFT p50 (ms)"),
    time("p95", "p95"),
    { name: "looks", title: "Looks", number: true, cell: (/** @type {any} */ row) => html`<${Figure} value=${row.looks} />` },
    { name: "failed", title: "Failed", number: true, cell: (/** @type {any} */ row) => html`<${Figure} value=${row.failed} />` },
    { name: "out", title: "Not started", about: "draws while its breaker was open, it cooled down, or the budget was used up", number: true, cell: (/** @type {any} */ row) => html`<${Figure} value=${row.out} />` },
  ];
  return html`<${Table} caption=${`${model.model}: for the requests that the model got, from looks; between the bounds of 95 %`} columns=${columns} rows=${model.upstreams} id=${(/** @type {any} */ row) => row.upstream} />`;
}

/** @param {{ groups: any[], names: string[] }} props */
function Board({ groups, names }) {
  const [choices, choose] = useChoices();
  const query = new URLSearchParams(choices);
  query.delete("sort");
  query.delete("alone");
  const races = (/** @type {string} */ upstream) => {
    const own = new URLSearchParams(query);
    own.set("upstream", upstream);
    return link("races", own);
  };
  const quantile = (/** @type {string} */ name, /** @type {string} */ title, /** @type {number} */ p, seen = "ttft_effective") => ({
    name, title, number: true,
    order: (/** @type {any} */ row) => row[`${name}_ms`] ?? (row[`${name}_over_ms`] === undefined ? null : row[`${name}_over_ms`] + 1e9),
    cell: (/** @type {any} */ row) => html`${(row[`${name}_ms`] ?? null) !== null && !firm(row[seen], p) ? html`<span title="few samples">~</span>` : ""}<${Quantile} group=${row} name=${`${name}_ms`} />`,
  });
  const number = (/** @type {string} */ name, /** @type {string} */ title, unit = "", about = "") => ({
    name, title, about, number: true, order: (/** @type {any} */ row) => row[name], cell: (/** @type {any} */ row) => html`<${Figure} value=${row[name]} unit=${unit} />`,
  });
  const speed = (/** @type {string} */ name, /** @type {string} */ title, /** @type {number} */ p) => ({
    ...number(name, title, "tokens/s"),
    cell: (/** @type {any} */ row) => html`${row[name] !== null && !firm(row.tok_s_samples, p) ? html`<span title="few samples">~</span>` : ""}<${Figure} value=${row[name]} unit="tokens/s" />`,
  });
  const columns = [
    { name: "upstream", title: "Upstream", order: (/** @type {any} */ row) => row.upstream, cell: (/** @type {any} */ row) => html`<strong>${letter(names, row.upstream ?? "unknown")}</strong> <a class="mono" href=${races(row.upstream ?? "")}>${row.upstream ?? "unknown"}</a>` },
    number("attempts", "Attempts"),
    { ...number("win_share", "Wins"), cell: (/** @type {any} */ row) => html`<data value=${row.wins} title=${`${row.wins} of ${row.attempts}`}>${percent(row.win_share)}</data>` },
    quantile("ttft_p50", "TTFT p50 (ms)", 0.5),
    quantile("ttft_p95", "p95", 0.95),
    quantile("ttft_p99", "p99", 0.99),
    ...(groups.some((group) => group.whole_samples !== undefined)
      ? [quantile("whole_p50", "Whole p50 (ms)", 0.5, "whole_samples"), quantile("whole_p95", "p95", 0.95, "whole_samples")]
      : []),
    speed("tok_s_p50", "tok/s p50", 0.5),
    speed("tok_s_p5", "p5", 0.05),
    number("goodput", "Goodput (/s)", "requests/s", "requests within 1 s to the first token and 50 ms for each further one, per second of the range"),
    { ...number("failure_share", "Failures"), cell: (/** @type {any} */ row) => html`<span class=${row.failures > 0 ? "bad" : ""} title=${kinds(row)}>${percent(row.failure_share)}</span>${commonest(row)}` },
    { name: "cost", title: "Cost", number: true, order: (/** @type {any} */ row) => row.cost_usd ?? row.cost_usd_min, cell: (/** @type {any} */ row) => html`<${Cost} value=${row.cost_usd} basis=${row.cost_basis} least=${row.cost_usd_min} most=${row.cost_usd_max} />` },
    { name: "extra", title: "of it losers", number: true, order: (/** @type {any} */ row) => row.extra_cost_usd, cell: (/** @type {any} */ row) => html`<${Cost} value=${row.extra_cost_usd} basis=${row.extra_cost_basis} least=${row.extra_cost_usd_min} most=${row.extra_cost_usd_max} />` },
    number("censored", "Cut off", "", "attempts that were cut off before their first token"),
  ];
  return html`<${Table} caption="~ few samples; > later than this, because so many were cut off; – not known" columns=${columns} rows=${groups}
    id=${(/** @type {any} */ row) => String(row.upstream)} sort=${choices.get("sort") ?? "-attempts"} onSort=${(/** @type {string} */ sort) => choose({ sort })} />`;
}

/** The kinds of failure that are most of them. @param {any} row */
function commonest(row) {
  const all = Object.entries(row.failures_by_kind).sort((a, b) => b[1] - a[1]).slice(0, 2);
  return all.map(([kind, count]) => html`<small class="kind">${count} ${kind}</small>`);
}

/** @param {any} row */
function kinds(row) {
  const all = Object.entries(row.failures_by_kind).map(([kind, count]) => `${count} ${kind}`);
  return `${row.failures} of ${row.attempts}${all.length ? `: ${all.join(", ")}` : ""}`;
}

/** @param {{ curves: import("../lib/curve.js").Curve[] }} props */
function Few({ curves }) {
  const few = curves.filter((curve) => curve.ttft_effective < 20);
  if (few.length === 0) return null;
  return html`<p class="note warn">Few first tokens (under 20, so even a median is uncertain): ${few.map((curve) => `${curve.upstream} (${short(curve.ttft_effective)})`).join(", ")}.</p>`;
}

/** @param {{ curve: import("../lib/curve.js").Curve }} props */
function Points({ curve }) {
  const number = (/** @type {string} */ name, /** @type {string} */ title) => ({ name, title, number: true, cell: (/** @type {any} */ row) => html`<${Figure} value=${row[name]} />` });
  const columns = [number("ms", "ms"), number("waiting", "Still waiting"), number("low", "Band from"), number("high", "to"), number("at_risk", "At risk"), number("events", "First tokens"), number("cut", "Cut off")];
  return html`<${Table} caption=${`${curve.upstream}: ${curve.ttft_samples} first tokens, ${curve.censored} cut off`} columns=${columns} rows=${curve.points} id=${(/** @type {any} */ row) => String(row.ms)} />`;
}

/** Speed against price. @param {{ groups: any[], names: string[] }} props */
function Prices({ groups, names }) {
  const [place, width] = useWidth();
  const each = (/** @type {any} */ group) => (group.cost_usd ?? group.cost_usd_min) / group.attempts;
  const known = groups.filter((group) => group.ttft_p50_ms !== null && (group.cost_usd ?? group.cost_usd_min) !== null && group.attempts > 0);
  const most = [Math.max(1e-9, ...known.map(each)) * 1.1, Math.max(1, ...known.map((group) => group.ttft_p50_ms)) * 1.1];
  const inner = Math.max(100, width - 90);
  const x = (/** @type {number} */ usd) => 60 + (usd / most[0]) * inner;
  const y = (/** @type {number} */ ms) => 250 - (ms / most[1]) * 230;
  return html`<h2>Speed against price</h2>${known.length === 0
    ? html`<p class="note">No upstream of this range has both a median and a price. A price comes from the catalogue, or from <code>input_price</code> and <code>output_price</code> in the configuration.</p>`
    : html`<figure><div class="chart" ref=${place}>${width > 0 && html`<svg width=${width} height="290" viewBox=${`0 0 ${width} 290`} role="img" aria-label=${known.map((group) => `${group.upstream}: ${group.ttft_p50_ms} ms, ${each(group)} USD an attempt`).join("; ")}>
        ${ticks(most[1], 4).map((ms) => html`<g><line class="grid" x1="60" x2=${60 + inner} y1=${y(ms)} y2=${y(ms)} /><text x="54" y=${y(ms) + 4} text-anchor="end">${short(ms)} ms</text></g>`)}
        ${ticks(most[0], Math.max(2, inner / 120)).map((usd) => html`<text x=${x(usd)} y="270" text-anchor="middle">$${dollars(usd)}</text>`)}
        ${known.map((group) => html`<g><circle class=${`f${style(names, group.upstream).colour}`} cx=${x(each(group))} cy=${y(group.ttft_p50_ms)} r="6" /><text x=${x(each(group)) + 9} y=${y(group.ttft_p50_ms) + 4}>${letter(names, group.upstream)}</text></g>`)}
      </svg>`}</div><figcaption>Across: mean cost of an attempt; up: median TTFT, both as asked. The letters and figures are those of the table above.</figcaption></figure>`}`;
}
