// Who is fast, within one model: ranked by looks alone; what each took as it was asked is no ranking.
import { html } from "../lib/html.js";
import { go, here, link, useChoices } from "../lib/address.js";
import { question, useApi } from "../lib/api.js";
import { scale } from "../lib/axis.js";
import { heaviest, time } from "../lib/chart.js";
import { Cost, dollars, Figure, Marks, percent, Quantile, rate, short } from "../lib/figures.js";
import { Choice, Filters, windowOf } from "../lib/filters.js";
import { ModelSwitch, useModel } from "../lib/model.js";
import { colour, shortened, Upstream } from "../lib/names.js";
import { MOST, MULTIPLES, Plot, Plots } from "../lib/plot.js";
import { Answer, Source } from "../lib/states.js";
import { Folded, Table, useNumbers } from "../lib/table.js";

/** A quantile needs no mark with ten samples beyond it, as in \`stats\`. @param {number} samples @param {number} p */
const firm = (samples, p) => samples * Math.min(p, 1 - p) >= 10 - 1e-6;
/** `mix_cost_usd`: what the model's mean request would cost there alone. @typedef {Api.UpstreamComparison & { mix_cost_usd?: number | null }} Looked */
const SCALES = [["", "cut at 97 %"], ["log", "logarithmic"], ["whole", "whole"]];

export function Leaderboard() {
  const [choices, choose] = useChoices();
  const window = windowOf(choices);
  const { model, models, asked: known } = useModel(window);
  const waits = model === null && !known.data && !known.error;
  return html`<div class="head"><h1>Leaderboard</h1>${models.length > 0 && html`<${ModelSwitch} model=${model} models=${models} />`}</div>
    <${Filters} only=${["provider", "user"]} />
    ${waits ? html`<div class="note wait" role="status">Reading …</div>` : html`<${OneModel} window=${{ ...window, model: model ?? "" }} choices=${choices} choose=${choose} />`}`;
}

/** @param {{ window: Record<string, string>, choices: URLSearchParams, choose: (changes: Record<string, string>) => void }} props */
function OneModel({ window, choices, choose }) {
  const asked = useApi("/api/stats", { ...window, by: "upstream" }, 15);
  const compared = useApi("/api/stats", { ...window, compare: "true" }, 30);
  const curves = useApi("/api/distribution", window, 30);
  const groups = /** @type {Api.Group[]} */ (asked.data ?? []);
  const open = (/** @type {string | null} */ name) => go(link("races", { ...window, upstream: name ?? "" }));
  const model = /** @type {Api.ModelComparison[]} */ (compared.data ?? []).find((one) => one.model === window.model);
  const alone = choices.get("alone") === "true";
  return html`
    <h2>Ranked: each upstream alone</h2>
    <${Answer} asked=${compared}>${model ? html`<${Ranked} model=${model} />` : html`<p class="note empty">No looks in this range, so nothing can be ranked. Under <code>adaptive</code> and <code>race</code> some requests look at one upstream of their model, if it has several; elsewhere <code>look</code> sets it.</p>`}<//>
    <h2>As asked</h2>
    <p class="quiet">What each upstream took for the requests that it got. A policy that chooses sends them different ones, so these figures are no ranking.</p>
    <${Answer} asked=${asked} empty=${groups.length === 0}>
      <${Board} groups=${groups} />
      <p class="more"><a href=${here(question("/api/stats", { ...window, by: "upstream" }))}>The same as JSON, with every digit</a></p><${Source} rolled=${asked.rolled} />
    <//>
    <h2>Time to first token, whole</h2>
    <${Answer} asked=${curves} empty=${curves.data?.upstreams.length === 0}>${curves.data && html`
      <div class="filters"><${Choice} name="scale" title="Axis" values=${SCALES} usual="" /><label class="tick"><input type="checkbox" checked=${alone} onChange=${(/** @type {any} */ event) => choose({ alone: event.target.checked ? "true" : "" })} /> also what first tokens alone would draw (thin): too fast, because losers are cut off</label></div>
      <${Curves} curves=${curves.data.upstreams} alone=${alone} axis=${choices.get("scale") ?? ""} open=${open} left=${curves.data.left_out} />
      <${Folded} summary="The curves as a table">${() => curves.data?.upstreams.map((/** @type {any} */ curve) => html`<${Points} curve=${curve} key=${curve.upstream} />`)}<//>`}
    <//>
    ${model && html`<${Prices} upstreams=${model.upstreams} open=${open} />`}<${Marks} />`;
}

/** 1 and how many are surely faster, by the bounds of 95 %. @param {Looked[]} all @param {Looked} one @param {"p50" | "p95"} at */
function rank(all, one, at) {
  const low = one[`ttft_${at}_low_ms`];
  return low === null ? null : 1 + all.filter((other) => other !== one && (other[`ttft_${at}_high_ms`] ?? Infinity) < low).length;
}

/** How long each upstream of a model alone would have taken. @param {{ model: Api.ModelComparison }} props */
function Ranked({ model }) {
  const all = /** @type {Looked[]} */ (model.upstreams);
  const most = Math.max(1, ...all.flatMap((one) => [one.ttft_p50_high_ms ?? 0, one.ttft_p95_high_ms ?? 0]));
  const share = (/** @type {number | null} */ ms) => `${((ms ?? 0) / most) * 100}%`;
  const labels = shortened(all.map((one) => one.upstream));
  const known = all.filter((one) => one.ttft_p50_ms !== null);
  // A place among some of them is none: places are given once the median of each is known, but for those that could not be asked.
  const few = all.filter((one) => one.ttft_p50_ms === null && !one.away);
  const ranks = new Map(all.map((one) => [one, few.length > 0 ? null : rank(all, one, "p50")]));
  const shared = (/** @type {number | null | undefined} */ place) => [...ranks.values()].filter((other) => other === place).length > 1;
  const first = known.filter((one) => ranks.get(one) === 1);
  // One alone is best only if its bounds lie below those of every other.
  const best = first.length === 1 && known.length > 1 ? first[0] : null;
  const rows = [...all].sort((a, b) => (ranks.get(a) ?? 99) - (ranks.get(b) ?? 99) || (a.ttft_p50_ms ?? 1e12) - (b.ttft_p50_ms ?? 1e12));
  const took = (/** @type {"p50" | "p95"} */ at, /** @type {string} */ title) => ({
    name: at, member: `ttft_${at}_ms`, title, number: true,
    cell: (/** @type {Looked} */ row) => row[`ttft_${at}_ms`] === null
      ? html`<span class="quiet">too few looks</span>`
      : html`<${Figure} value=${row[`ttft_${at}_ms`]} unit="ms" /> ms <small class="quiet">${short(row[`ttft_${at}_low_ms`] ?? 0)} to ${short(row[`ttft_${at}_high_ms`] ?? 0)}</small>
        <span class="bar" aria-hidden="true"><i class=${`b${colour(row.upstream)}`} style=${{ width: share(row[`ttft_${at}_ms`]) }}></i><b style=${{ left: share(row[`ttft_${at}_low_ms`]), right: share(most - (row[`ttft_${at}_high_ms`] ?? 0)) }}></b></span>`,
  });
  const columns = [
    { name: "upstream", title: "Upstream", cell: (/** @type {Looked} */ row) => html`<${Upstream} name=${row.upstream} />` },
    {
      name: "rank", title: "Place", cell: (/** @type {Looked} */ row) => {
        const place = ranks.get(row);
        return place === null || place === undefined ? html`<span class="quiet">–</span>` : html`${shared(place) ? "= " : ""}${place}${row === best ? html` <span class="mark">best</span>` : ""}`;
      },
    },
    took("p50", "TTFT p50"), took("p95", "p95"),
    { name: "failed", title: "Failed", number: true, cell: (/** @type {Looked} */ row) => html`<span title=${`${row.failed} of ${row.looks + row.failed} looks`}>${percent(row.failed_share)}</span>` },
    { name: "looks", title: "Looks", number: true, cell: (/** @type {Looked} */ row) => html`<${Figure} value=${row.looks} />` },
    { name: "out", title: "Not started", number: true, cell: (/** @type {Looked} */ row) => html`<${Figure} value=${row.out} />` },
  ];
  const said = best ? html`<strong>${labels.get(best.upstream)}</strong> is the fastest, beyond what chance explains.` : first.length > 1 ? html`Of <strong>${first.map((one) => labels.get(one.upstream)).join(", ")}</strong> none is surely the fastest: what they differ by may be chance.` : few.length > 0 ? `No places yet: ${few.map((one) => `${labels.get(one.upstream)} has ${one.looks} ${one.looks === 1 ? "look" : "looks"}`).join(", ")}, and each needs ${model.needed_p50}.` : "None of them could be asked by a look.";
  return html`<p class="lead">${said}</p><${Table} of="UpstreamComparison" caption="For the requests that the model got, from looks; small: the bounds of 95 %. Upstreams share a place (=) where their bounds overlap." columns=${columns} rows=${rows} id=${(/** @type {any} */ row) => row.upstream} />`;
}

/** @param {{ groups: Api.Group[] }} props */
function Board({ groups }) {
  const [choices, choose] = useChoices();
  const query = new URLSearchParams(choices);
  for (const name of ["sort", "alone", "scale"]) query.delete(name);
  const races = (/** @type {string} */ upstream) => {
    const own = new URLSearchParams(query);
    own.set("upstream", upstream);
    return link("races", own);
  };
  const quantile = (/** @type {string} */ name, /** @type {string} */ title, /** @type {number} */ p, seen = "ttft_effective") => ({
    name, member: `${name}_ms`, title, number: true,
    order: (/** @type {any} */ row) => row[`${name}_ms`] ?? (row[`${name}_over_ms`] === undefined ? null : row[`${name}_over_ms`] + 1e9),
    cell: (/** @type {any} */ row) => html`${(row[`${name}_ms`] ?? null) !== null && !firm(row[seen], p) ? html`<span title="few samples">~</span>` : ""}<${Quantile} group=${row} name=${`${name}_ms`} />`,
  });
  const speed = (/** @type {string} */ name, /** @type {string} */ title, /** @type {number} */ p) => ({
    name, title, number: true, order: (/** @type {any} */ row) => row[name],
    cell: (/** @type {any} */ row) => html`${row[name] !== null && !firm(row.tok_s_samples, p) ? html`<span title="few samples">~</span>` : ""}<${Figure} value=${row[name]} unit="tokens/s" />`,
  });
  const more = choices.get("more") === "true";
  const all = [
    { name: "upstream", title: "Upstream", order: (/** @type {any} */ row) => row.upstream, cell: (/** @type {any} */ row) => html`<${Upstream} name=${row.upstream ?? null} href=${races(row.upstream ?? "")} />` },
    ...(groups.some((/** @type {any} */ group) => group.common_input)
      ? [{ name: "common_input", title: "Mostly", cell: (/** @type {any} */ row) => (row.common_input ? html`${row.common_input} <small class="quiet">${percent(row.common_input_share)}</small>` : "–") }]
      : []),
    quantile("ttft_p50", "TTFT p50 (ms)", 0.5),
    quantile("ttft_p95", "p95", 0.95),
    more && quantile("ttft_p99", "p99", 0.99),
    ...(groups.some((group) => group.whole_samples !== undefined)
      ? [quantile("whole_p50", "Whole p50 (ms)", 0.5, "whole_samples"), quantile("whole_p95", "p95", 0.95, "whole_samples")]
      : []),
    speed("tok_s_p50", "tok/s p50", 0.5),
    more && speed("tok_s_p5", "p5", 0.05),
    { name: "failure_share", title: "Failures", number: true, order: (/** @type {any} */ row) => row.failure_share, cell: (/** @type {any} */ row) => html`<${Failures} row=${row} />` },
    ...(groups.some((group) => group.judged !== undefined)
      ? [{ name: "broken_share", title: "Broken calls", number: true, order: (/** @type {any} */ row) => row.broken_share ?? null, cell: (/** @type {any} */ row) => html`<${Broken} row=${row} />` }]
      : []),
    { name: "attempts", title: "Attempts", number: true, order: (/** @type {any} */ row) => row.attempts, cell: (/** @type {any} */ row) => html`<${Figure} value=${row.attempts} />` },
    { name: "win_share", title: "Wins", number: true, order: (/** @type {any} */ row) => row.win_share, cell: (/** @type {any} */ row) => html`<data value=${row.wins} title=${`${row.wins} of ${row.attempts}`}>${percent(row.win_share)}</data>` },
    { name: "cost", member: "cost_usd_min", title: "Cost", number: true, order: (/** @type {any} */ row) => row.cost_usd_min, cell: (/** @type {any} */ row) => html`<${Cost} least=${row.cost_usd_min} most=${row.cost_usd_max} />` },
    more && { name: "extra", member: "extra_cost_usd_min", title: "of it racing", number: true, order: (/** @type {any} */ row) => row.extra_cost_usd_min, cell: (/** @type {any} */ row) => html`<${Cost} least=${row.extra_cost_usd_min} most=${row.extra_cost_usd_max} />` },
    more && { name: "goodput", title: "Goodput", number: true, order: (/** @type {any} */ row) => row.goodput, cell: (/** @type {any} */ row) => (row.goodput === null ? "–" : html`<data value=${String(row.goodput)} title=${`${row.goodput} requests/s`}>${rate(row.goodput)}</data>`) },
    more && { name: "censored", title: "Cut off", number: true, order: (/** @type {any} */ row) => row.censored, cell: (/** @type {any} */ row) => html`<${Figure} value=${row.censored} />` },
  ];
  const columns = /** @type {import("../lib/table.js").Column<any>[]} */ (all.filter(Boolean));
  return html`<${Table} of="Group" caption="In the order of the attempts; a title sorts" columns=${columns} rows=${groups}
    id=${(/** @type {any} */ row) => String(row.upstream)} sort=${choices.get("sort") ?? "-attempts"} onSort=${(/** @type {string} */ sort) => choose({ sort })} />
    <p class="more"><button type="button" aria-pressed=${more} onClick=${() => choose({ more: more ? "" : "true" })}>${more ? "Fewer columns" : "More columns"}</button></p>`;
}

/** One rate; its kinds for who asks. @param {{ row: any }} props */
function Failures({ row }) {
  const kinds = /** @type {[string, number][]} */ (Object.entries(row.failures_by_kind)).sort((a, b) => b[1] - a[1]);
  if (kinds.length === 0) return html`<span title=${`${row.failures} of ${row.attempts}`}>${percent(row.failure_share)}</span>`;
  return html`<details><summary title=${`${row.failures} of ${row.attempts}`}>${percent(row.failure_share)}</summary><ul>${kinds.map(([kind, count]) => html`<li>${count} ${kind.replaceAll("_", " ")}</li>`)}</ul></details>`;
}

/** @param {{ row: any }} props */
function Broken({ row }) {
  if (row.judged === undefined) return html`<span class="quiet" title="no answer was checked">–</span>`;
  return html`<span title=${`${row.broken} of ${row.judged} checked answers`}>${percent(row.broken_share)}</span> <small class="quiet">${percent(row.broken_share_min)} to ${percent(row.broken_share_max)}</small>`;
}

/** @typedef {{ upstream: string, ttft_samples: number, censored: number, ttft_effective: number,
 *   points: { ms: number, waiting: number, low: number | null, high: number | null, at_risk: number, events: number, cut: number }[],
 *   seen_alone: { ms: number, waiting: number }[] }} Curve */

/** The share of attempts with a first token. @param {{ curves: Curve[], alone: boolean, axis: string, open: (name: string | null) => void, left: number }} props */
function Curves({ curves, alone, axis, open, left }) {
  const kept = new Set(heaviest(curves.map((curve) => curve.upstream), (name) => curves.find((curve) => curve.upstream === name)?.ttft_effective ?? 0, MOST * 4));
  const drawn = curves.filter((curve) => kept.has(curve.upstream) && curve.points.length > 0);
  const all = Math.max(1, ...drawn.map((curve) => curve.points.at(-1)?.ms ?? 0));
  // Where three of a hundred still wait: the last few would squeeze all others.
  const near = Math.max(1, ...drawn.map((curve) => (curve.points.find((point) => point.waiting <= 0.03) ?? curve.points.at(-1))?.ms ?? 0)) * 1.15;
  const to = axis === "" ? Math.min(all, near) : all;
  const from = axis === "log" ? Math.max(1, Math.min(...drawn.map((curve) => curve.points[0].ms)) * 0.8) : 0;
  const across = scale(from, to, 0, 120, axis === "log");
  const stops = Array.from({ length: 121 }, (_, at) => across.value(at));
  const lines = drawn.map((curve) => ({
    name: curve.upstream,
    points: /** @type {[number, number][]} */ ([[from, 0], ...curve.points.map((point) => [point.ms, 1 - point.waiting])]),
    band: /** @type {[number, number, number][]} */ (curve.points.filter((point) => point.low !== null && point.high !== null).map((point) => [point.ms, 1 - (point.high ?? 0), 1 - (point.low ?? 0)])),
    ticks: /** @type {[number, number][]} */ (curve.points.filter((point) => point.cut > 0).map((point) => [point.ms, 1 - point.waiting])),
    ...(alone && curve.seen_alone.length > 0 ? { thin: /** @type {[number, number][]} */ ([[from, 0], ...curve.seen_alone.map((point) => [point.ms, 1 - point.waiting])]) } : {}),
  }));
  const few = curves.filter((curve) => curve.ttft_effective < 20);
  const beyond = drawn.reduce((sum, curve) => sum + curve.points.filter((point) => point.ms > to).reduce((sum, point) => sum + point.events + point.cut, 0), 0);
  return html`<figure><${Plots} kind="plain" step lines=${lines} stops=${stops} from=${from} to=${to} logX=${axis === "log"} high=${1} head=${(/** @type {number} */ ms) => `within ${time(ms)}`} tick=${time} text=${percent}
      about=${`Share of attempts with a first token by time. ${drawn.map((curve) => `${curve.upstream}: ${curve.ttft_samples} first tokens, ${curve.censored} cut off`).join("; ")}`} open=${(/** @type {number} */ _, /** @type {string | null} */ name) => open(name)} />
    <figcaption>Share of attempts with a first token, estimated by Kaplan and Meier; shaded: 95 % band; a tick: attempts were cut off there.${to < all ? ` The axis ends at ${time(to)}, where at most 3 % wait; ${beyond} first tokens and cuts lie beyond, the last at ${time(all)}.` : ""}${left > 0 ? ` ${left} upstreams with fewer attempts are not drawn.` : ""}</figcaption></figure>
    ${few.length > 0 && html`<p class="note warn">Few first tokens (under 20, so even a median is uncertain): ${few.map((curve) => `${curve.upstream} (${short(curve.ttft_effective)})`).join(", ")}.</p>`}`;
}

/** @param {{ curve: Curve }} props */
function Points({ curve }) {
  const number = useNumbers("CurvePoint");
  const columns = [number("ms", "ms"), number("waiting", "Still waiting"), number("low", "Band from"), number("high", "to"), number("at_risk", "At risk"), number("events", "First tokens"), number("cut", "Cut off")];
  return html`<${Table} of="CurvePoint" caption=${`${curve.upstream}: ${curve.ttft_samples} first tokens, ${curve.censored} cut off`} columns=${columns} rows=${curve.points} id=${(/** @type {any} */ row) => String(row.ms)} />`;
}

/** Speed against price: what each alone would take and cost. @param {{ upstreams: Looked[], open: (name: string | null) => void }} props */
function Prices({ upstreams, open }) {
  const all = upstreams.flatMap((one) => (one.ttft_p50_ms !== null && typeof one.mix_cost_usd === "number" ? [{ name: one.upstream, ms: one.ttft_p50_ms, low: one.ttft_p50_low_ms ?? one.ttft_p50_ms, high: one.ttft_p50_high_ms ?? one.ttft_p50_ms, usd: one.mix_cost_usd * 1000, looks: one.looks }] : []));
  const known = all.sort((a, b) => b.looks - a.looks).slice(0, MULTIPLES);
  const lines = known.map(({ name, ms, low, high, usd }) => ({ name, points: /** @type {[number, number][]} */ ([[usd, ms]]), band: /** @type {[number, number, number][]} */ ([[usd, low, high]]) }));
  const amount = (/** @type {number} */ usd) => `$${dollars(usd)}`;
  return html`<h2>Speed against price</h2>${known.length === 0
    ? html`<p class="note empty">No upstream of this range has both a median by looks and a price. A price comes from the catalogue, or from <code>input_price</code> and <code>output_price</code> in the configuration.</p>`
    : html`<figure><${Plot} kind="plain" form="points" lines=${lines} stops=${[...new Set(known.map((one) => one.usd))].sort((a, b) => a - b)} from=${0} to=${Math.max(1e-9, ...known.map((one) => one.usd)) * 1.15} high=${Math.max(1, ...known.map((one) => one.high)) * 1.1}
        head=${(/** @type {number} */ usd) => `${amount(usd)} for 1,000 requests`} tick=${amount} text=${time} about="Median time to the first token against the price of each upstream alone" open=${(/** @type {number} */ _, /** @type {string | null} */ name) => open(name)} />
      <figcaption>Across: what 1,000 of the model's mean requests would cost there alone; up: its median time to the first token by looks, with its bounds of 95 %. Left and low is better. A click opens the races of the upstream.${all.length > known.length ? ` The ${known.length} of ${all.length} with most looks.` : ""}</figcaption></figure>`}`;
}
