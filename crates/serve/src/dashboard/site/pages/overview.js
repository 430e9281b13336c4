// Five answers about one model: is it well, how fast, what did it cost, who wins, what happened.
import { html, useMemo } from "../lib/html.js";
import { go, link } from "../lib/address.js";
import { useApi } from "../lib/api.js";
import { clockOf, dayOf } from "../lib/axis.js";
import { Cost, Figure, Gained, Marks, percent, shareOf, short } from "../lib/figures.js";
import { drawnIncidents, Happened, incidentsOf, useIncidents } from "../lib/incidents.js";
import { manyAttempts, ModelSwitch, useModel } from "../lib/model.js";
import { Dot, colour, shortened } from "../lib/names.js";
import { Answer, Source } from "../lib/states.js";
import { Strip } from "../lib/strip.js";

const DAY = { since: "24h" };
/** Seconds of a part of the strips. */
const STEP = 1800;
/** Upstreams with a strip. */
const STRIPS = 8;
/** Answers that failed are counted up to this. */
const COUNTED = 1000;

export function Overview() {
  const { model, group, models, asked } = useModel(DAY);
  const found = useIncidents({ ...DAY, until: "", provider: "" });
  return html`<div class="head"><h1>Overview</h1>${models.length > 0 && html`<${ModelSwitch} model=${model} models=${models} />`}<span class="quiet">the last 24 hours, UTC</span></div>
    <${Answer} asked=${asked} empty=${model === null} none=${html`<${Welcome} />`}>${model !== null && html`<${OneModel} model=${model} group=${group} key=${model} rolled=${asked.rolled} found=${found} many=${manyAttempts(models)} />`}<//>`;
}

function Welcome() {
  return html`<h2>No request in the last 24 hours</h2><p>Send one, and this page answers: is it well, how fast is it, what does it cost, who wins, what happened.</p>
    <pre class="command">curl ${location.origin}/v1/chat/completions -H 'content-type: application/json' -d '{"model": "demo", "stream": true, "messages": [{"role": "user", "content": "Hello"}]}'</pre>
    <p><a href=${link("leaderboard", { since: "30d" })}>Older requests</a> · <a href=${link("playground")}>Playground</a> · <a href=${link("status")}>Status</a></p>`;
}

/** @param {{ model: string, group: Api.Group | undefined, rolled: string | null, found: import("../lib/api.js").Asked<Api.IncidentList>, many: boolean }} props */
function OneModel({ model, group, rolled, found, many }) {
  const series = useApi("/api/history", { ...DAY, model, metric: "failures", by: "upstream", every: many ? "1h" : "" }, 60);
  const names = useMemo(() => {
    /** @type {Map<string, number>} */
    const attempts = new Map();
    for (const point of series.data ?? []) if (typeof point.upstream === "string") attempts.set(point.upstream, (attempts.get(point.upstream) ?? 0) + point.samples);
    return [...attempts].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  }, [series.data]);
  const incidents = incidentsOf(found.data, names);
  if (!group) return html`<div class="note empty" role="status">No request for this model in the last 24 hours.</div>`;
  return html`<div class="cards">
    <section class="card whole" aria-labelledby="well"><h2 id="well">Is it well?</h2><${Well} model=${model} group=${group} series=${series} names=${names} incidents=${incidents} known=${found.data !== undefined} /></section>
    <section class="card" aria-labelledby="fast"><h2 id="fast">How fast?</h2><${Fast} model=${model} group=${group} /></section>
    <section class="card" aria-labelledby="cost"><h2 id="cost">What did it cost?</h2><${Paid} model=${model} group=${group} /></section>
    <section class="card" aria-labelledby="wins"><h2 id="wins">Who wins?</h2><${Wins} model=${model} /></section>
    <section class="card" aria-labelledby="happened"><h2 id="happened">What happened?</h2><${Answer} asked=${found}><${Happened} incidents=${incidents} model=${model} since="24h" /><//></section>
  </div><${Marks} /><${Source} rolled=${rolled} />`;
}

/** @param {{ model: string, group: Api.Group, series: import("../lib/api.js").Asked<Api.Point[]>, names: string[], incidents: Api.Incident[], known: boolean }} props `known`: incidents were read */
function Well({ model, group, series, names, incidents, known }) {
  const routing = useApi("/api/routing", { model }, 60);
  const refused = (routing.data?.upstreams ?? []).flatMap((upstream) => upstream.refuses.map((text) => `${upstream.upstream} ${text}`));
  const failed = useApi("/api/races", { ...DAY, model, outcome: "error", limit: String(COUNTED) }, 60);
  const errors = failed.data?.races.length;
  const open = incidents.filter((one) => one.state === "open");
  const to = Math.ceil(Date.now() / 1000 / STEP) * STEP;
  const from = to - 86_400;
  const short = shortened(names);
  const drawn = drawnIncidents(incidents);
  const said = open.length > 0 ? html`<span class="mark bad">${open.length} ${open.length === 1 ? "incident goes" : "incidents go"} on</span>` : !known ? "" : html`<span class="good">✓ No incident goes on.</span>`;
  return html`<p class="lead">${said} ${errors !== undefined && html`<a href=${link("races", { ...DAY, model, outcome: "error" })}>${errors === 0 ? "None" : errors >= COUNTED ? `${COUNTED} or more` : errors}</a> of <${Figure} value=${group.requests} /> requests ended in an error.`}</p>
    ${refused.map((text) => html`<p key=${text}><span class="mark bad">${text}</span> <span class="quiet">Others answered them; it goes last for such requests.</span></p>`)}
    <${Answer} asked=${series} empty=${names.length === 0} none="No upstream was asked.">
      <div class="strip">${names.slice(0, STRIPS).map((name) => {
    const points = merged((series.data ?? []).filter((point) => point.upstream === name), from);
    const attempts = points.reduce((sum, point) => sum + point.attempts, 0);
    const share = points.reduce((sum, point) => sum + point.share * point.attempts, 0) / Math.max(1, attempts);
    return html`<div class="row" key=${name}><a class="name" title=${name} href=${link("races", { ...DAY, model, upstream: name })}><${Dot} name=${name} />${short.get(name)}</a>
        <${Strip} name=${name} from=${from} to=${to} step=${STEP} points=${points} incidents=${drawn.filter((one, at) => incidents[at].upstream === null || incidents[at].upstream === name)}
          open=${(/** @type {number} */ at) => go(link("races", { model, upstream: name, since: iso(at), until: iso(at + STEP) }))} />
        <span class="number" title="share of its attempts that failed">${percent(share)} failed</span></div>`;
  })}<div class="row"><span class="name"></span><${Hours} from=${from} to=${to} /><span class="number"></span></div></div>
      <p class="caption">Grey: attempts that went well; orange from the bottom: the share that failed, red: a quarter or more, and at least three; thin: not asked. A line above: an incident.${names.length > STRIPS ? ` The ${STRIPS} of ${names.length} upstreams with most attempts.` : ""}</p>
    <//>`;
}

/** The hours below the strips. @param {{ from: number, to: number }} props */
function Hours({ from, to }) {
  return html`<span class="hours" aria-hidden="true"><span>${dayOf(from)} ${clockOf(from)}</span><span>${clockOf((from + to) / 2)}</span><span>${clockOf(to)}</span></span>`;
}

/** Points in parts of half an hour: shorter ones together, one of a whole hour in both of its parts. @param {Api.Point[]} points @param {number} from */
function merged(points, from) {
  /** @type {Map<number, { at: number, share: number, attempts: number }>} */
  const parts = new Map();
  for (const point of points) {
    const begin = Date.parse(point.start ?? "") / 1000;
    const cells = Math.max(1, Math.round((point.span_s ?? 0) / STEP));
    for (let cell = 0; cell < cells; cell += 1) {
      const at = Math.floor((begin - from) / STEP + cell) * STEP + from;
      const part = parts.get(at) ?? { at, share: 0, attempts: 0 };
      const own = point.samples / cells;
      if (part.attempts + own > 0) part.share = (part.share * part.attempts + (point.failure_share ?? 0) * own) / (part.attempts + own);
      part.attempts += own;
      parts.set(at, part);
    }
  }
  return [...parts.values()].filter((part) => part.at >= from);
}

/** @param {{ model: string, group: Api.Group }} props */
function Fast({ model, group }) {
  const before = useApi("/api/stats", { since: "48h", until: "24h", model, by: "model" }, 300);
  const yesterday = /** @type {Api.Group[]} */ (before.data ?? []).find((one) => one.model === model);
  const each = (/** @type {"p50" | "p95"} */ name, /** @type {number} */ enough) => {
    const now = group[`client_ttft_${name}_ms`];
    const then = yesterday?.[`client_ttft_${name}_ms`] ?? null;
    const few = group.client_ttft_samples < enough;
    const thenFew = (yesterday?.client_ttft_samples ?? 0) < enough;
    return html`<div><dt>${name === "p50" ? "Half of the clients waited less than" : "95 of 100 waited less than"}</dt><dd>${few && now !== null ? "~" : ""}<${Figure} value=${now} unit="ms" /> ms
      <small>${then === null ? "yesterday: not known" : html`${thenFew ? "~" : ""}${short(then)} ms the day before${now === null ? "" : ` (${change(now, then)})`}`}</small></dd></div>`;
  };
  return html`<dl class="big">${each("p50", 20)}${each("p95", 200)}</dl>
    <p class="caption">To the first token, as clients felt it: ${group.client_ttft_samples.toLocaleString("en-US")} streamed requests. <a href=${link("time", { model, metric: "client_ttft", by: "model", since: "7d" })}>Is it getting slower?</a></p>`;
}

/** @param {number} now @param {number} then */
function change(now, then) {
  const part = then > 0 ? now / then - 1 : 0;
  return Math.abs(part) < 0.02 ? "about the same" : `${part > 0 ? "+" : "−"}${percent(Math.abs(part))}`;
}

/** @param {{ model: string, group: Api.Group }} props */
function Paid({ model, group }) {
  const compared = useApi("/api/stats", { ...DAY, model, compare: "true" }, 60);
  const gained = /** @type {Api.ModelComparison[]} */ (compared.data ?? []).find((one) => one.model === model);
  const each = (/** @type {number | null} */ usd) => (usd === null ? null : (usd / Math.max(1, group.requests)) * 1000);
  const less = (/** @type {number | null} */ all, /** @type {number | null} */ part) => (all === null || part === null ? null : Math.max(0, all - part));
  const rest = { least: less(group.cost_usd_min, group.extra_cost_usd_min), most: less(group.cost_usd_max, group.extra_cost_usd_max) };
  const share = shareOf({ least: group.extra_cost_usd_min, most: group.extra_cost_usd_max }, rest);
  const said = (/** @type {Api.ModelComparison} */ one) => html`What racing gained at the median${one.best_upstream ? `, against ${one.best_upstream} alone` : ""}: <${Gained} one=${one} at="p50" />.`;
  if (group.cost_usd_min === null) return html`<p>No price is known of its upstreams, so its cost is unknown. A price comes from the catalogue, or from <code>input_price</code> and <code>output_price</code>. Simulated providers cost nothing.</p>${gained && html`<p>${said(gained)}</p>`}`;
  return html`<dl class="big"><div><dt>In all</dt><dd><${Cost} least=${group.cost_usd_min} most=${group.cost_usd_max} /><small><${Cost} least=${each(group.cost_usd_min)} most=${each(group.cost_usd_max)} /> for 1,000 requests</small></dd></div>
      <div title="attempts that were not the answer, and shadows"><dt>of it racing</dt><dd><${Cost} least=${group.extra_cost_usd_min} most=${group.extra_cost_usd_max} /><small>${share && `${share} of all`}</small></dd></div></dl>
    <p>${gained ? said(gained) : compared.data ? "What racing gained is unknown: no upstream was asked by chance (looks)." : ""}</p>
    <p class="caption"><a href=${link("costs", { model })}>What it paid for</a> · <a href=${link("whatif", { model })}>What if it raced less?</a></p>`;
}

/** @param {{ model: string }} props */
function Wins({ model }) {
  const asked = useApi("/api/stats", { ...DAY, model, by: "upstream,input" }, 60);
  const groups = /** @type {Api.Group[]} */ (asked.data ?? []).filter((group) => typeof group.upstream === "string");
  const classes = [...new Set(groups.map((group) => group.input ?? "unknown"))].sort((a, b) => size(a) - size(b));
  const names = [...new Set(groups.map((group) => group.upstream ?? ""))];
  const short = shortened(names);
  const rows = classes.map((name) => {
    const own = groups.filter((group) => (group.input ?? "unknown") === name && group.wins > 0).sort((a, b) => b.wins - a.wins);
    return { name, own, sum: own.reduce((sum, group) => sum + group.wins, 0) };
  }).filter((row) => row.sum > 0);
  const seen = names.filter((name) => rows.some((row) => row.own.some((group) => group.upstream === name))).sort();
  return html`<${Answer} asked=${asked} empty=${rows.length === 0} none="No race was won.">
    <div class="wins" role="list">${rows.map((row) => {
    const said = row.own.map((group) => `${group.upstream} ${percent(group.wins / row.sum)}`).join(", ");
    return html`<span key=${`${row.name} size`}>${row.name}</span><span class="stack" role="listitem" aria-label=${`${row.name} tokens: ${said}`} title=${said}>${row.own.map((group) => html`<i key=${group.upstream} class=${`b${colour(group.upstream ?? "")}`} style=${{ flex: `${group.wins} 1 0%` }}></i>`)}</span>
      <span class="number" title=${`${row.own[0].upstream} won most`}>${percent(Math.round((row.own[0].wins / row.sum) * 100) / 100)}</span>`;
  })}</div>
    <ul class="legend">${seen.slice(0, 12).map((name) => html`<li key=${name} title=${name}><${Dot} name=${name} />${short.get(name)}</li>`)}</ul>
    <p class="caption">Races won, by the tokens of the prompt (estimated); the figure is the share of the one that won most. Who wins is not who would be fastest alone: see the <a href=${link("leaderboard", { model })}>leaderboard</a>.</p>
  <//>`;
}

/** The first number of a class of sizes. @param {string} name */
function size(name) {
  const number = /\d+/.exec(name);
  return number ? Number(number[0]) * (/^\d+k/.test(name) ? 1000 : 1) : Infinity;
}

/** @param {number} seconds */
function iso(seconds) {
  return `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`;
}
