// A figure over time.
import { html, useMemo } from "../lib/html.js";
import { go, link, useChoices } from "../lib/address.js";
import { question, useAnswer } from "../lib/api.js";
import { heaviest, time } from "../lib/chart.js";
import { Cost, dollars, Figure, Marks, percent, rate, short } from "../lib/figures.js";
import { Choice, Filters, windowOf } from "../lib/filters.js";
import { drawnIncidents, Happened, incidentsOf, useIncidents } from "../lib/incidents.js";
import { manyAttempts, ModelSwitch, useModel } from "../lib/model.js";
import { moments, MULTIPLES, Plots } from "../lib/plot.js";
import { unitOf, useSchemas, withSchema } from "../lib/schemas.js";
import { Answer, Source } from "../lib/states.js";
import { Folded, Table } from "../lib/table.js";

const METRICS = [["ttft", "attempt TTFT"], ["client_ttft", "client TTFT"], ["tok_s", "tok/s"], ["goodput", "goodput"], ["failures", "failures"], ["cost", "cost"], ["requests", "requests"], ["input_tokens", "tokens of prompts"], ["output_tokens", "tokens generated"]];
/** @type {Record<string, string>} the member of a point */
const MEMBERS = { ttft: "ttft_ms", client_ttft: "client_ttft_ms", tok_s: "tok_s", goodput: "goodput", failures: "failure_share", cost: "cost_usd_min", requests: "requests", input_tokens: "input_tokens", output_tokens: "output_tokens" };
const BY = [["upstream", "upstream"], ["model", "model"], ["user", "user"]];
const STEPS = [["", "as fits"], ["1m", "1 minute"], ["10m", "10 minutes"], ["1h", "1 hour"], ["6h", "6 hours"], ["1d", "1 day"]];
const QUANTILES = [["", "median"], ["0.95", "p95"], ["0.99", "p99"]];

const SCALES = [["", "linear"], ["log", "logarithmic"]];
/** @type {Record<string, (value: number) => string>} */
const TEXTS = { ms: time, "tokens/s": (value) => short(value), "requests/s": rate, USD: (value) => `$${dollars(value)}`, requests: short, tokens: short, "": percent };

export function OverTime() {
  const [choices, choose] = useChoices();
  const metric = choices.get("metric") ?? "ttft";
  const by = choices.get("by") ?? "upstream";
  const member = MEMBERS[metric] ?? MEMBERS.ttft;
  const schema = useSchemas().Point;
  const unit = unitOf(schema, member);
  const has = ["ttft", "client_ttft", "tok_s"].includes(metric);
  const window = windowOf(choices);
  const { model, models, asked: known } = useModel(window);
  // A day of this number of attempts is read from roll-ups, which have whole hours.
  const usual = window.since === "24h" && !window.until && manyAttempts(models) ? "1h" : coarse(window, (by === "upstream" ? (models.find((one) => one.model === model)?.requests ?? 0) : models.reduce((sum, one) => sum + one.requests, 0)));
  // Upstreams are compared within a model.
  const own = by === "upstream" ? (model ?? "") : window.model;
  const waits = !known.data && !known.error;
  const asked = withSchema(useAnswer(waits ? null : question("/api/history", { ...window, model: own, metric, by, every: choices.get("every") ?? usual, quantile: has ? (choices.get("quantile") ?? "") : "" }), 20), schema);
  const { names, times, lines, step } = useMemo(() => aligned(asked.data ?? [], by, member), [asked.data, by, member]);
  const drawn = useMemo(() => heaviest(names, weight(asked.data ?? [], by), MULTIPLES), [names]);
  const shown = useMemo(() => lines.filter((line) => drawn.includes(line.name)), [lines, drawn]);
  const found = useIncidents(window);
  const incidents = incidentsOf(found.data, by === "upstream" ? names : null);
  const zoom = (/** @type {number} */ from, /** @type {number} */ to) => choose({ since: text(from), until: text(Math.max(to, from + 60)) });
  const open = (/** @type {number} */ at, /** @type {string | null} */ name) => go(link("races", { model: own, provider: window.provider, source: window.source, user: by === "user" ? (name ?? "") : window.user, ...(by !== "user" && name ? { [by]: name } : {}), since: text(at), until: text(at + step) }));
  const title = METRICS.find(([name]) => name === metric)?.[1] ?? metric;
  return html`<div class="head"><h1>Over time</h1>${by === "upstream" && models.length > 0 && html`<${ModelSwitch} model=${model} models=${models} />`}</div>
    <${Filters} only=${by === "upstream" ? ["provider", "user"] : undefined}><${Choice} name="metric" title="Figure" values=${METRICS} usual="ttft" /><${Choice} name="by" title="By" values=${BY} usual="upstream" />
      <${Choice} name="every" title="Step" values=${STEPS} usual="" />${has && html`<${Choice} name="quantile" title="Quantile" values=${QUANTILES} usual="" />`}<${Choice} name="scale" title="Scale" values=${SCALES} usual="" /><//>
    <${Answer} asked=${asked} empty=${lines.length === 0}>
      <figure><${Plots} kind="time" lines=${shown} stops=${times} from=${times[0]} to=${times.at(-1)} head=${moments} text=${TEXTS[unit]} logY=${choices.get("scale") === "log"} incidents=${drawnIncidents(incidents)}
        about=${`${title} by ${by}, ${times.length} steps; the table below has every point`} onRange=${zoom} open=${open} />
        <figcaption>${title[0].toUpperCase()}${title.slice(1)}${unit ? `, ${unit}` : ""}; UTC. A gap: no attempt, ${metric === "cost" ? "or no price is known. Where a cost is only bounded, its lower bound is drawn" : "or the quantile was not reached"}${incidents.length > 0 ? ". A bar above: an incident" : ""}. A click opens the races of the step; a drag shows a shorter range.</figcaption></figure>
      ${drawn.length < names.length && html`<p class="note">Drawn: the ${drawn.length} of ${names.length} with most samples. The table has ${asked.left > 0 ? `these ${names.length}; ${asked.left} more with fewer samples are in neither` : "all"}; a filter draws others.</p>`}
      ${incidents.length > 0 && html`<h2>Incidents of this range</h2><${Happened} incidents=${incidents} model=${own} since=${window.since} />`}
      <${Folded} summary="The series as a table">${() => html`<${Points} points=${asked.data ?? []} by=${by} member=${member} unit=${unit} />`}<//>
      <${Marks} /><${Source} rolled=${asked.rolled} />
    <//>`;
}

const SECONDS = { m: 60, h: 3600, d: 86_400, w: 604_800 };

/** A longer step where few requests would leave more gaps than lines: 12 requests each, and eight steps at least. Empty: as fits.
 * @param {Record<string, string>} window @param {number} requests */
function coarse(window, requests) {
  const [, count, unit] = /^(\d+)([mhdw])$/.exec(window.since ?? "") ?? [];
  if (!count || window.until || requests === 0) return "";
  const range = Number(count) * SECONDS[/** @type {"m"} */ (unit)];
  const steps = Object.entries({ "10m": 600, "1h": 3600, "6h": 21_600, "1d": 86_400 }).filter(([, step]) => step * 8 <= range);
  const fit = steps.find(([, step]) => step >= (range * 12) / requests) ?? steps.at(-1);
  return fit && fit[1] * 96 > range ? fit[0] : "";
}

/** @param {number} seconds */
function text(seconds) {
  return `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`;
}

/** Samples behind each line. @param {any[]} points @param {string} by */
function weight(points, by) {
  /** @type {Map<string, number>} */
  const samples = new Map();
  for (const point of points) samples.set(point[by] ?? "unknown", (samples.get(point[by] ?? "unknown") ?? 0) + point.samples);
  return (/** @type {string} */ name) => samples.get(name) ?? 0;
}

/** One time axis for all series. @param {any[]} points @param {string} by @param {string} member */
function aligned(points, by, member) {
  const of = (/** @type {any} */ point) => point[by] ?? "unknown";
  const names = [...new Set(points.map(of))].sort();
  const seen = [...new Set(points.map((point) => Date.parse(point.start) / 1000))].sort((a, b) => a - b);
  // A step without an attempt has no point, and no line may lead across it.
  const step = Math.max(1, ...points.map((point) => point.span_s ?? 0));
  const times = seen.flatMap((time, at) => (at > 0 && time - seen[at - 1] > step * 1.5 ? [seen[at - 1] + step, time] : [time]));
  /** @type {Map<string, Map<number, any>>} */
  const byName = new Map(names.map((name) => [name, new Map()]));
  for (const point of points) byName.get(of(point))?.set(Date.parse(point.start) / 1000, point);
  const lines = names.map((name) => ({
    name,
    points: times.map((time) => /** @type {[number, number | null]} */ ([time, byName.get(name)?.get(time)?.[member] ?? null])),
    rough: new Set([...(byName.get(name) ?? [])].filter(([, point]) => point.firm === false).map(([time]) => time)),
    ...(by === "upstream" ? {} : { label: name, hue: names.indexOf(name) % 8 }),
  }));
  return { names, times, lines, step };
}

/** @param {{ points: any[], by: string, member: string, unit: string }} props */
function Points({ points, by, member, unit }) {
  const over = `${member.replace(/_ms$/, "")}_over_ms`;
  const columns = [
    { name: "start", title: "From (UTC)", cell: (/** @type {any} */ point) => point.start },
    { name: "by", title: by, cell: (/** @type {any} */ point) => html`<span class="mono">${point[by] ?? "unknown"}</span>` },
    { name: "value", member, title: unit || "share", number: true, cell: (/** @type {any} */ point) => member === "cost_usd_min" ? html`<${Cost} least=${point.cost_usd_min} most=${point.cost_usd_max} />` : (point[member] === null && point[over] !== undefined ? html`<${Figure} value=${point[over]} unit=${unit} sign=">" />` : html`${point.firm === false ? "~" : ""}<${Figure} value=${point[member]} unit=${unit} />`) },
    { name: "samples", title: "Samples", number: true, cell: (/** @type {any} */ point) => point.samples },
  ];
  return html`<${Table} of="Point" caption="~ few samples; > later than this" columns=${columns} rows=${points.slice(-1000)} id=${(/** @type {any} */ point) => `${point.start} ${point[by]}`} />
    ${points.length > 1000 && html`<p class="quiet">The newest 1,000 of ${points.length} points.</p>`}`;
}
