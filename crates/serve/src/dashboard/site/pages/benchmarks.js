// Runs of benchmarks: the list, and what one run found.
import { html } from "../lib/html.js";
import { here, link, useChoices } from "../lib/address.js";
import { question, useAnswer, useApi } from "../lib/api.js";
import { Cost, costText, Figure, moment, percent, short } from "../lib/figures.js";
import { isolated } from "../lib/names.js";
import { Plots } from "../lib/plot.js";
import { Answer } from "../lib/states.js";
import { Table } from "../lib/table.js";

/** @typedef {{ value: number, low: number | null, high: number | null }} Estimate a number with its 95 % interval */
/** @typedef {{ n: number, p5: number, p50: Estimate, p95: Estimate }} Quantiles */
/** @typedef {{ target: string, users: number | null, request_rate: number | null, ends: Record<string, number>, ttft_ms: Quantiles | null, client_ttft_ms: Quantiles | null,
 *   tok_s: Quantiles | null, tok_s_all: number | null, answers_per_second: number, attainment: Estimate | null, goodput: number | null, notes: string[], doubts: string[], ended: string | null }} Stage
 * one target under one load */
/** @typedef {{ figure: string, base: string, other: string, load: string, ratio: Estimate, margin: number, verdict: string | { cannot_tell: { more: number } } }} Comparison */
/** @typedef {{ stages: Stage[], curves: { target: string, knee_users: number | null, most_users?: number | null, half_speed_users: number | null, drift: string | null }[], comparisons: Comparison[], not_compared?: string[],
 *   found: { target: string, attain: number, passes: number | null, fails: number | null, first_missed: string | null }[],
 *   workload: { name: string, input_tokens: number, output_tokens: number }, cut_short: string | null }} Result what a benchmark stores */

/** @param {{ rest: string }} props */
export function Benchmarks({ rest }) {
  return rest ? html`<${Run} id=${rest} />` : html`<${List} />`;
}

function List() {
  const [choices] = useChoices();
  const before = choices.get("before") ?? "";
  const asked = useApi("/api/runs", { before }, before ? 0 : 15);
  const runs = /** @type {any[]} */ (asked.data?.runs ?? []);
  const columns = [
    { name: "label", title: "Run", cell: (/** @type {any} */ run) => html`<a href=${link(`benchmarks/${run.run_id}`)}>${run.label ?? run.run_id.slice(0, 13)}</a>` },
    { name: "target", title: "Target", cell: (/** @type {any} */ run) => html`<span class="mono">${run.target}</span>` },
    { name: "started_at", title: "Began (UTC)", cell: (/** @type {any} */ run) => moment(run.started_at) },
    { name: "trust", title: "Trust", cell: (/** @type {any} */ run) => html`<${Trust} run=${run} />` },
    { name: "cost_usd_max", title: "Cost", number: true, cell: (/** @type {any} */ run) => html`<${Cost} least=${run.cost_usd_min} most=${run.cost_usd_max} />` },
  ];
  const none = html`No run yet. A benchmark is a command; it costs what its requests cost:<pre class="command">photofinish bench PROVIDER/MODEL --max-cost 1</pre>`;
  const to = (/** @type {string} */ place) => link("benchmarks", { before: place });
  return html`<h1>Benchmarks</h1>
    <p>Their races count in no figure of clients. Over time: <a href=${link("time", { source: "probe", since: "7d" })}>probes by upstream</a>; <a href=${link("leaderboard", { source: "probe", since: "7d" })}>the whole distribution of probes</a>.</p>
    <${Answer} asked=${asked} empty=${runs.length === 0} none=${before ? "There are no older runs." : none}>
      <${Table} of="Run" caption=${before ? "Older runs" : "The newest runs"} columns=${columns} rows=${runs} id=${(/** @type {any} */ run) => run.run_id} /><//>
    <p class="more">${before && html`<a href=${to("")}>Newest</a>`}${asked.data?.next && html`<a href=${to(asked.data.next)}>Older</a>`}</p>`;
}

/** @param {{ run: any }} props */
function Trust({ run }) {
  if (run.ended_at === null) return html`<span class="quiet">◌ has not ended</span>`;
  if (run.trust === null) return html`<span class="quiet">– not checked</span>`;
  return run.trust === "trusted" ? html`<span class="good">✓ trusted</span>` : html`<span class="bad">✕ ${run.trust}</span>`;
}

/** @param {{ id: string }} props */
function Run({ id }) {
  const asked = useAnswer(`/api/runs/${encodeURIComponent(id)}`);
  const run = /** @type {any} */ (asked.data);
  return html`<p><a href=${link("benchmarks")}>Benchmarks</a></p><h1>Run ${run?.label ?? html`<span class="mono">${id}</span>`}</h1>
    <${Answer} asked=${asked}>${run && html`<p><span class="mono">${run.target}</span>, ${moment(run.started_at)} UTC${run.machine ? `, on ${run.machine}` : ""}${(run.cost_usd_min ?? null) === null ? "" : `, ${costText(run.cost_usd_min, run.cost_usd_max)}`}: <${Trust} run=${run} />.</p>
      ${!run.result?.stages ? html`<${Raw} run=${run} />` : html`<${Found} result=${run.result} />`}`}<//>
    <h2>The same elsewhere</h2><pre class="command">curl '${location.origin}${here(question(`/api/runs/${id}`))}'</pre>`;
}

/** @param {{ run: any }} props */
function Raw({ run }) {
  return run.result === null ? html`<p class="note" role="status">It has no figures: it still runs, or was killed.</p>` : html`<pre class="command">${JSON.stringify(run.result, null, 2)}</pre>`;
}

/** @param {Stage} stage */
function load(stage) {
  if (stage.users !== null) return stage.users === 1 ? "1 user" : `${stage.users} users`;
  return stage.request_rate === null ? "" : `${short(stage.request_rate)}/s`;
}

/** @param {Stage} stage */
const counts = (stage) => stage.doubts.length === 0 && stage.ended === null && stage.ttft_ms !== null;
/** Time to the first token as a client feels it: in an open loop from the planned time. @param {Stage} stage */
const ttft = (stage) => stage.client_ttft_ms ?? stage.ttft_ms;

/** What a search says of one target. @param {Result["found"][number]} found */
function rate(found) {
  const parts = [found.passes !== null ? `${short(found.passes)}/s passes` : "no rate was found that passes", found.fails !== null ? `${short(found.fails)}/s fails` : "no rate was found that fails"];
  return `${isolated(found.target)}: ${percent(found.attain)} of the requests meet every target: ${parts.join(", ")}${found.first_missed ? `; ${found.first_missed} breaks first` : ""}.`;
}

/** @param {{ result: Result }} props */
function Found({ result }) {
  const stages = result.stages.filter(counts);
  const spoiled = result.stages.filter((stage) => stage.doubts.length > 0 || stage.ended !== null);
  const { workload } = result;
  const words = result.curves.flatMap((curve) => [
    curve.knee_users !== null && `${isolated(curve.target)}: from ${curve.knee_users} users on, doubling them adds less than 10 % to the tokens of all.`,
    curve.knee_users === null && (curve.most_users ?? 0) > 1 && `${isolated(curve.target)}: no knee up to ${curve.most_users} users.`,
    curve.half_speed_users !== null && `${isolated(curve.target)}: with ${curve.half_speed_users} users one has at most half the speed of one alone.`,
    curve.drift !== null && `${isolated(curve.target)}: ${curve.drift}.`,
  ]).filter(Boolean).concat(result.found.map(rate));
  return html`<p class="quiet">Workload ${workload.name}: ${workload.input_tokens} tokens in, ${workload.output_tokens} out.</p>
    ${result.cut_short && html`<p class="note warn">It was ended before its plan: ${result.cut_short}.</p>`}
    ${words.length > 0 && html`<ul class="plain">${words.map((text) => html`<li>${text}</li>`)}</ul>`}
    ${stages.length > 0 && html`<${Levels} stages=${stages} title="Time to the first token" unit="ms" lines=${[{ title: "p50", of: (/** @type {Stage} */ stage) => ttft(stage)?.p50.value }, { title: "p95", of: (/** @type {Stage} */ stage) => ttft(stage)?.p95.value }]} />
      <${Levels} stages=${stages} title="Speed of one user, and of all" unit="tokens/s" lines=${[{ title: "one user", of: (/** @type {Stage} */ stage) => stage.tok_s?.p50.value }, { title: "all", of: (/** @type {Stage} */ stage) => stage.tok_s_all }]} />`}
    <${Stages} stages=${result.stages} />
    ${spoiled.length > 0 && html`<h2>What does not count</h2><ul class="note warn">${spoiled.map((stage) => html`<li><span class="mono">${stage.target}</span>, ${load(stage)}: ${[...stage.doubts, stage.ended].filter(Boolean).join("; ")}</li>`)}</ul>`}
    ${result.comparisons.length > 0 && html`<${Compared} all=${result.comparisons} />`}
    ${(result.not_compared ?? []).length > 0 && html`<ul class="note warn">${result.not_compared?.map((why) => html`<li>${why}</li>`)}</ul>`}`;
}

/** @param {{ stages: Stage[] }} props */
function Stages({ stages }) {
  const estimate = (/** @type {Estimate | undefined} */ one, unit = "") => html`<${Figure} value=${one?.value} unit=${unit} about=${one ? `95 %: ${one.low ?? "?"} to ${one.high ?? "?"}` : undefined} />`;
  const columns = [
    { name: "target", title: "Target", cell: (/** @type {Stage} */ stage) => html`<span class="mono">${stage.target}</span>` },
    { name: "load", title: "Load", cell: (/** @type {Stage} */ stage) => `${load(stage)}${counts(stage) ? "" : " ✕"}` },
    { name: "requests", title: "Requests", number: true, cell: (/** @type {Stage} */ stage) => Object.values(stage.ends).reduce((sum, count) => sum + count, 0) },
    { name: "p50", title: "TTFT p50 (ms)", number: true, cell: (/** @type {Stage} */ stage) => estimate(ttft(stage)?.p50, "ms") },
    { name: "p95", title: "p95", number: true, cell: (/** @type {Stage} */ stage) => estimate(ttft(stage)?.p95, "ms") },
    { name: "user", title: "tok/s of a user", number: true, cell: (/** @type {Stage} */ stage) => estimate(stage.tok_s?.p50, "tokens/s") },
    { name: "all", title: "of all", number: true, cell: (/** @type {Stage} */ stage) => html`<${Figure} value=${stage.tok_s_all} unit="tokens/s" />` },
    { name: "goodput", title: "Goodput (/s)", number: true, about: "answers within every target, per second", cell: (/** @type {Stage} */ stage) => html`<${Figure} value=${stage.goodput} unit="requests/s" />` },
    { name: "met", title: "Met the targets", number: true, cell: (/** @type {Stage} */ stage) => percent(stage.attainment?.value) },
  ];
  return html`<h2>Every level</h2><${Table} caption="✕ does not count; – not known; the title has the 95 % interval" columns=${columns} rows=${stages} id=${(/** @type {Stage} */ stage) => String(stages.indexOf(stage))} />`;
}

/** One figure over the levels, a line for each target and part. @param {{ stages: Stage[], title: string, unit: string, lines: { title: string, of: (stage: Stage) => number | null | undefined }[] }} props */
function Levels({ stages, title, unit, lines }) {
  const levels = [...new Set(stages.map(load))];
  const drawn = [...new Set(stages.map((stage) => stage.target))].flatMap((target) => lines.map((line) => ({
    name: `${line.title}: ${target}`,
    // A level that ran again at the end is drawn once.
    points: levels.map((level, at) => /** @type {[number, number | null]} */ ([at, stages.filter((stage) => stage.target === target && load(stage) === level).map(line.of).find((value) => value != null) ?? null])),
  }))).filter((line) => line.points.some(([, value]) => value !== null)).map((line, at) => ({ ...line, label: line.name, hue: at % 8 }));
  return html`<h2>${title}</h2>
    <figure><${Plots} kind="class" lines=${drawn} stops=${levels.map((_, at) => at)} from=${-0.15} to=${Math.max(0.15, levels.length - 0.85)} head=${(/** @type {number} */ at) => levels[at]} tick=${(/** @type {number} */ at) => levels[at] ?? ""}
      text=${short} about=${`${title} over the levels; the table below has every figure`} /><figcaption>${unit}, by level. A missing point: the level does not count, or nothing was measured.</figcaption></figure>`;
}

/** @type {Record<string, string>} */
const FIGURES = { ttft: "TTFT", tok_s: "tok/s", e2e: "end to end", answered: "share answered" };
/** @type {Record<string, string>} */
const VERDICTS = { better: "✓ better", worse: "✕ worse", same: "= the same" };

/** @param {{ all: Comparison[] }} props */
function Compared({ all }) {
  const verdict = (/** @type {Comparison} */ one) => (typeof one.verdict === "string" ? (VERDICTS[one.verdict] ?? one.verdict) : `? cannot tell: about ${one.verdict.cannot_tell.more} more requests of each would`);
  const columns = [
    { name: "what", title: "Figure", cell: (/** @type {Comparison} */ one) => FIGURES[one.figure] ?? one.figure },
    { name: "other", title: "Of", cell: (/** @type {Comparison} */ one) => html`<span class="mono">${one.other}</span>` },
    { name: "base", title: "Against", cell: (/** @type {Comparison} */ one) => html`<span class="mono">${one.base}</span>` },
    { name: "load", title: "Load", cell: (/** @type {Comparison} */ one) => one.load },
    { name: "ratio", title: "Ratio", number: true, cell: (/** @type {Comparison} */ one) => html`<${Figure} value=${one.ratio.value} about=${`95 %: ${one.ratio.low ?? "?"} to ${one.ratio.high ?? "?"}`} />` },
    { name: "verdict", title: "Verdict", cell: (/** @type {Comparison} */ one) => `${verdict(one)} (margin ${percent(one.margin)})` },
  ];
  return html`<h2>Compared</h2><${Table} caption="With a 95 % interval in the title of each ratio" columns=${columns} rows=${all} id=${(/** @type {Comparison} */ one) => String(all.indexOf(one))} />`;
}
