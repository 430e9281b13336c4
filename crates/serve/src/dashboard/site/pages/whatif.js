// What another policy would have done with the recorded requests.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { useChoices } from "../lib/address.js";
import { ApiError, question, send } from "../lib/api.js";
import { time } from "../lib/chart.js";
import { readEvents } from "../lib/events.js";
import { dollars, Figure, percent, short } from "../lib/figures.js";
import { Choice, Filters, windowOf } from "../lib/filters.js";
import { ModelSwitch, useModel } from "../lib/model.js";
import { Plot } from "../lib/plot.js";
import { namesOf, useSchemas } from "../lib/schemas.js";
import { Table } from "../lib/table.js";

/** The budgets of the frontier: what extras may cost, as a share of what single attempts would. */
const BUDGETS = [0, 0.02, 0.05, 0.1, 0.2, 0.5, 1];
/** Requests behind a first answer, and behind each budget: a core plays them within seconds. */
const FIRST = 2000;
const NEWEST = 5000;

/** @param {Record<string, string>} asked @param {AbortSignal} signal @param {(over: number, of: number) => void} progressed */
async function replay(asked, signal, progressed) {
  /** @type {any} */
  let last;
  const answer = await send(question("/api/replay", asked), { signal });
  await readEvents(answer, (data) => {
    const event = JSON.parse(data);
    if (event.event === "progress") progressed(event.over, event.of);
    else last = event;
  });
  if (!last) throw new ApiError(0, "broken", "The answer broke off.");
  if (last.event === "failed") throw new ApiError(500, "", last.message);
  return last;
}

export function WhatIf() {
  const [choices, choose] = useChoices();
  const schemas = useSchemas();
  const budget = choices.get("budget") ?? "0.1";
  const policy = choices.get("policy") ?? "adaptive";
  const [run, setRun] = useState(/** @type {{ said?: string, error?: string, answer?: any, frontier?: any[] }} */ ({}));
  const stop = useRef(/** @type {AbortController | null} */ (null));
  useEffect(() => () => stop.current?.abort(), []);
  const { since, until } = windowOf(choices);
  const { model: busiest, models } = useModel(windowOf(choices));
  const model = busiest ?? "";
  const window = { since, until, model };
  const begin = async (/** @type {(signal: AbortSignal) => Promise<void>} */ work) => {
    stop.current?.abort();
    const own = new AbortController();
    stop.current = own;
    try {
      await work(own.signal);
    } catch (error) {
      if (!own.signal.aborted) setRun((before) => ({ ...before, said: undefined, error: error instanceof Error ? error.message : String(error) }));
    }
  };
  const progress = (/** @type {string} */ what) => (/** @type {number} */ over, /** @type {number} */ of) => setRun((before) => ({ ...before, said: `${what}: ${over} of ${of} runs` }));
  const play = () => begin(async (signal) => {
    setRun({ said: "Reading the requests …" });
    // The newest give a first answer within seconds; all of them replace it.
    const first = await replay({ ...window, policy, budget, newest: String(FIRST) }, signal, progress(`The newest ${FIRST}`));
    setRun({ answer: first });
    if (first.event === "answer" && !first.answer.cut_to_newest) return;
    setRun({ answer: first, said: "A first answer. Replaying all …" });
    setRun({ answer: await replay({ ...window, policy, budget }, signal, progress("A first answer; replaying all")) });
  });
  const draw = () => begin(async (signal) => {
    /** @type {any[]} */
    const frontier = [];
    setRun((before) => ({ ...before, error: undefined, said: "Reading the requests …", frontier }));
    for (const one of BUDGETS) {
      const replayed = await replay({ ...window, policy: "adaptive", budget: String(one), newest: String(NEWEST) }, signal, progress(`Budget ${percent(one)}`));
      if (replayed.event !== "answer") return setRun({ answer: replayed });
      frontier.push({ budget: one, row: replayed.answer.rows.at(-1), unit: replayed.answer.cost_unit, recorded: replayed.answer.rows[0], counted: replayed.answer.counted });
      setRun((before) => ({ ...before, answer: before.answer ?? replayed, frontier: [...frontier] }));
    }
    setRun((before) => ({ ...before, said: undefined }));
  });
  const cancel = () => {
    stop.current?.abort();
    setRun((before) => ({ ...before, said: undefined }));
  };
  return html`<div class="head"><h1>What if</h1>${models.length > 0 && html`<${ModelSwitch} model=${busiest} models=${models} />`}</div>
    <p>Plays the recorded requests again under another policy: what was seen as it was, what was cut off drawn from what the upstream usually did. One replay runs at a time, on one core.</p>
    <${Filters} only=${[]} />
    <p class="filters"><button class="main" type="button" onClick=${draw} disabled=${run.said !== undefined}>Suggest three budgets</button>
      ${run.said !== undefined && html`<button type="button" onClick=${cancel}>Stop</button>`}<span role="status">${run.said ?? ""}</span></p>
    ${run.error && html`<p class="note bad" role="alert">${run.error}</p>`}
    <${Suggestions} points=${run.frontier ?? []} over=${run.frontier !== undefined && run.said === undefined} />
    ${(run.frontier?.length ?? 0) > 0 && html`<${Frontier} points=${run.frontier} choose=${(/** @type {number} */ budget) => choose({ budget: String(budget) })} />`}
    <h2>One policy</h2>
    <div class="filters"><${Choice} name="policy" title="Policy" values=${namesOf(schemas, "Policy").map(([name]) => [name, name])} usual="adaptive" />
      <label class="long">Budget for extras: ${percent(Number(budget))}<input type="range" min="0" max="1" step="0.01" value=${budget} onInput=${(/** @type {any} */ event) => choose({ budget: event.target.value === "0.1" ? "" : event.target.value })} /></label>
      <button type="button" onClick=${play} disabled=${run.said !== undefined}>Replay</button></div>
    ${run.answer?.event === "nothing" && html`<p class="note" role="status">Too little history of this range: ${run.answer.requests} requests, and a replay needs an upstream that was asked in at least 30 of them.${run.answer.plain > 0 ? ` ${run.answer.plain} more went up plain and cannot be replayed: they have no first token.` : ""}</p>`}
    ${run.answer?.event === "answer" && html`<${Answer} answer=${run.answer.answer} />`}`;
}

/** @typedef {{ budget: number, row: any, unit: string, recorded: any, counted: number }} Budgeted */
/** @param {Budgeted} point @param {"p50" | "p99"} name */
const took = (point, name) => /** @type {number | null} */ (point.row[`ttft_${name}_ms`]?.value ?? null);
/** For a thousand requests. @param {Budgeted} point */
const paid = (point) => (point.row.cost?.value == null ? null : thousand(point, point.row.cost.value));
/** @param {Budgeted} point @param {number} sum */
const thousand = (point, sum) => (sum / Math.max(1, point.counted)) * 1000;
/** @param {Budgeted} point @param {number} cost */
const amount = (point, cost) => (point.unit === "usd" ? `$${dollars(cost)}` : `${short(cost)} tokens`);

/** The cheapest, the quickest, and the least budget that has most of the gain. @param {{ points: Budgeted[], over: boolean }} props */
function Suggestions({ points, over }) {
  const known = points.filter((point) => took(point, "p99") !== null && paid(point) !== null);
  const least = Math.min(...known.map((point) => took(point, "p99") ?? 0));
  const first = known[0];
  const gain = first ? (took(first, "p99") ?? 0) - least : 0;
  const of = (/** @type {number} */ share) => known.find((point) => (took(first, "p99") ?? 0) - (took(point, "p99") ?? 0) >= gain * share - 1e-9);
  /** @type {[string, string, Budgeted | undefined][]} */
  const all = [["Cheapest", "no extras", first], ["Balanced", "the least budget with four fifths of the gain at p99", of(0.8)], ["Quickest", "the least budget with all of it", of(0.99)]];
  return html`<div class="suggest">${all.map(([title, about, point]) => html`<section class="card" key=${title} aria-label=${title}><strong>${title}</strong><span class="quiet">${about}</span>
      ${over && point && title === "Balanced" && point === all[2][2] ? html`<p>The quickest, too: no smaller budget has most of the gain.</p>` : over && point ? html`<${Suggested} point=${point} />` : html`<p class="quiet">${over ? "Not known." : points.length > 0 ? `${points.length} of ${BUDGETS.length} budgets are played …` : "Not played yet."}</p>`}</section>`)}</div>`;
}

/** @param {{ point: Budgeted }} props */
function Suggested({ point }) {
  const before = { p50: point.recorded.ttft_p50_ms?.value ?? null, p99: point.recorded.ttft_p99_ms?.value ?? null };
  const cost = paid(point) ?? 0;
  const more = point.recorded.cost?.value == null ? null : cost - thousand(point, point.recorded.cost.value);
  const each = (/** @type {"p50" | "p99"} */ name) => {
    const now = took(point, name);
    return now === null ? "–" : html`${point.row[`ttft_${name}_ms`].guess ? "≈" : ""}${time(now)}${before[name] !== null ? html` <small class="quiet">${signed(now - before[name], "ms")}</small>` : ""}`;
  };
  return html`<dl class="facts"><div class="fact"><dt>Budget</dt><dd>${percent(point.budget)}</dd></div><div class="fact"><dt>TTFT p50</dt><dd>${each("p50")}</dd></div><div class="fact"><dt>p99</dt><dd>${each("p99")}</dd></div>
    <div class="fact"><dt>1,000 requests</dt><dd>${amount(point, cost)}${more !== null ? html` <small class="quiet">${more >= 0 ? "+" : "−"}${amount(point, Math.abs(more))}</small>` : ""}</dd></div></dl>
    <p class="caption">Small: against what was recorded.</p>`;
}

/** @param {number} value @param {string} unit */
function signed(value, unit) {
  return `${value >= 0 ? "+" : "−"}${short(Math.abs(value))} ${unit}`;
}

/** @param {{ answer: any }} props */
function Answer({ answer }) {
  const money = answer.cost_unit === "usd";
  const figures = Object.keys(answer.rows[0]).filter((name) => typeof answer.rows[0][name] === "object");
  const cell = (/** @type {string} */ name) => (/** @type {any} */ row) => {
    const { value, low, high, guess, change } = row[name];
    const sign = guess ? "≈" : "";
    const unit = name.endsWith("_ms") ? "ms" : name === "cost" ? answer.cost_unit : "";
    if (name === "unanswered") return html`<div><data value=${String(value)} title=${`${value}; 90 %: ${low} to ${high}`}>${percent(value)}</data></div>${change ? html`<small class="quiet">${change > 0 ? "+" : ""}${short(change * 100)} points</small>` : ""}`;
    return html`<div>${name === "cost" && money && value !== null ? html`<data value=${String(value)} title=${`${value} USD; 90 %: ${low} to ${high}`}>${sign}$${dollars(value)}</data>` : html`<${Figure} value=${value} unit=${unit} sign=${sign} about=${`90 %: ${low} to ${high}`} />`}</div>
      ${change !== undefined && change !== null && html`<small class="quiet" title="against what was recorded">${change > 0 ? "+" : ""}${name === "attempts_per_request" ? short(change) : `${short(change * 100)} %`}</small>`}`;
  };
  const columns = [{ name: "row", title: "Policy", cell: (/** @type {any} */ row) => (row.little_known?.length > 0 ? html`${row.row} <small class="quiet">too little known of ${row.little_known.join(", ")}</small>` : row.row) }, ...figures.map((name) => ({ name, title: name.replaceAll("_", " ").replace("ttft", "TTFT"), number: true, cell: cell(name) })),
    { name: "drawn", title: "drawn", number: true, about: "share of its answers that were drawn and not seen", cell: (/** @type {any} */ row) => (row.drawn === undefined ? "–" : percent(row.drawn)) }];
  const warnings = [
    answer.cut_to_newest && `Only the newest ${answer.newest} requests of all models are read.`,
    answer.plain > 0 && `Left out: ${answer.plain} requests that went up plain, for want of a first token to play.`,
    answer.counted < 1000 && `p99 of ${answer.counted} requests rests on few of them.`,
    answer.stretches < 10 && "So few stretches of time make the intervals rough, and rather too narrow.",
    !money && "No upstream of this model has a price: cost is in tokens.",
    answer.rows.some((/** @type {any} */ row) => figures.some((name) => row[name].guess)) && "≈ a guess: longer than any attempt was watched.",
    answer.little_known.length > 0 && `Too little is known of ${answer.little_known.map((/** @type {any} */ one) => `${one.upstream} (${one.attempts} of 30 attempts)`).join(", ")}: a policy that would ask it often has no figure.`,
    "Not known to any replay: what an upstream does under more load than it had, and rate limits that it would have met.",
  ].filter(Boolean);
  return html`<h2>${answer.model}, ${answer.requests} requests</h2><p class="quiet">${answer.since} to ${answer.until}; ${answer.counted} count, the first ${answer.warm_up} only teach; played ${answer.draws} times.</p>
    <${Table} caption="Means over the draws; the title has the 90 % interval; below, the change against what was recorded" columns=${columns} rows=${answer.rows} id=${(/** @type {any} */ row) => row.row} />
    <ul class="note warn">${warnings.map((text) => html`<li>${text}</li>`)}</ul>`;
}

/** @param {{ points: Budgeted[], choose: (budget: number) => void }} props */
function Frontier({ points, choose }) {
  const names = /** @type {("p50" | "p99")[]} */ (["p50", "p99"]);
  const money = points[0].unit === "usd";
  const known = points.filter((point) => paid(point) !== null).sort((a, b) => (paid(a) ?? 0) - (paid(b) ?? 0));
  const stops = known.map((point) => paid(point) ?? 0);
  const at = (/** @type {number} */ cost) => known[stops.indexOf(cost)];
  const lines = names.map((name, place) => ({ name, label: name, hue: place, points: known.map((point) => /** @type {[number, number | null]} */ ([paid(point) ?? 0, took(point, name)])) }));
  const columns = [
    { name: "budget", title: "Budget", cell: (/** @type {Budgeted} */ point) => percent(point.budget) },
    ...names.map((name) => ({ name, title: `TTFT ${name} (ms)`, number: true, cell: (/** @type {Budgeted} */ point) => html`<${Figure} value=${took(point, name)} unit="ms" sign=${point.row[`ttft_${name}_ms`]?.guess ? "≈" : ""} />` })),
    { name: "cost", title: "1,000 requests", number: true, cell: (/** @type {Budgeted} */ point) => (paid(point) === null ? "–" : html`<data value=${String(paid(point))} title=${`${paid(point)} ${money ? "USD" : "tokens"}`}>${amount(point, paid(point) ?? 0)}</data>`) },
  ];
  const drawn = known.length > 1 && stops[0] < stops[stops.length - 1];
  return html`<h2>The frontier of budgets</h2>${!drawn ? html`<p class="note">${known.length === 0 ? "Too little is known for a figure." : "Every budget that is known costs the same, so there is nothing to draw."}</p>` : html`<figure><${Plot} kind="plain" lines=${lines} stops=${stops} from=${Math.min(...stops)} to=${Math.max(...stops)} head=${(/** @type {number} */ cost) => `budget ${percent(at(cost)?.budget)}: ${amount(points[0], cost)}`}
      tick=${(/** @type {number} */ cost) => (money ? `$${dollars(cost)}` : short(cost))} text=${time} about="TTFT against cost for each budget; the table below has the figures" open=${(/** @type {number} */ cost) => choose(at(cost).budget)} />
      <figcaption>Upwards the clients' TTFT, from 0. Across what 1,000 requests cost with all attempts, in ${money ? "USD" : "tokens"}, from ${amount(points[0], stops[0])} on and not from 0. Each point is a budget; a click takes its budget for one policy below.</figcaption></figure>`}
    <${Table} caption="Each budget" columns=${columns} rows=${points} id=${(/** @type {any} */ point) => String(point.budget)} />`;
}
