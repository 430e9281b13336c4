// What another policy would have done with the recorded requests.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { useChoices } from "../lib/address.js";
import { ApiError, question, send } from "../lib/api.js";
import { letter, ticks, time, useWidth } from "../lib/chart.js";
import { readEvents } from "../lib/events.js";
import { dollars, Figure, percent, short } from "../lib/figures.js";
import { Choice, Filters, windowOf } from "../lib/filters.js";
import { Table } from "../lib/table.js";

const POLICIES = [["adaptive", "adaptive"], ["race", "race"], ["hedge", "hedge"], ["fallback", "fallback"], ["weighted", "weighted"]];
/** The budgets of the frontier: what extras may cost, as a share of what single attempts would. */
const BUDGETS = [0, 0.02, 0.05, 0.1, 0.2, 0.5, 1];

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
  const budget = choices.get("budget") ?? "0.1";
  const policy = choices.get("policy") ?? "adaptive";
  const [run, setRun] = useState(/** @type {{ said?: string, error?: string, answer?: any, frontier?: any[] }} */ ({}));
  const stop = useRef(/** @type {AbortController | null} */ (null));
  useEffect(() => () => stop.current?.abort(), []);
  const { since, until, model } = windowOf(choices);
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
    setRun({ answer: await replay({ ...window, policy, budget }, signal, progress("Replaying")) });
  });
  const draw = () => begin(async (signal) => {
    /** @type {any[]} */
    const frontier = [];
    setRun((before) => ({ ...before, error: undefined, said: "Reading the requests …", frontier }));
    for (const one of BUDGETS) {
      const replayed = await replay({ ...window, policy: "adaptive", budget: String(one) }, signal, progress(`Budget ${percent(one)}`));
      if (replayed.event !== "answer") return setRun({ answer: replayed });
      frontier.push({ budget: one, row: replayed.answer.rows.at(-1), unit: replayed.answer.cost_unit });
      setRun((before) => ({ ...before, answer: before.answer ?? replayed, frontier: [...frontier] }));
    }
    setRun((before) => ({ ...before, said: undefined }));
  });
  const cancel = () => {
    stop.current?.abort();
    setRun((before) => ({ ...before, said: undefined }));
  };
  return html`<h1>What if</h1>
    <p>Plays the recorded requests again under another policy: what was seen as it was, what was cut off drawn from what the upstream usually did. One replay runs at a time, on one core.</p>
    <${Filters} only=${["model"]}><${Choice} name="policy" title="Policy" values=${POLICIES} usual="adaptive" />
      <label>Budget for extras: ${percent(Number(budget))}<input type="range" min="0" max="1" step="0.01" value=${budget} onInput=${(/** @type {any} */ event) => choose({ budget: event.target.value === "0.1" ? "" : event.target.value })} /></label><//>
    <p class="filters"><button class="main" type="button" onClick=${play} disabled=${run.said !== undefined}>Replay</button>
      <button type="button" onClick=${draw} disabled=${run.said !== undefined}>Draw the frontier of budgets</button>
      ${run.said !== undefined && html`<button type="button" onClick=${cancel}>Stop</button>`}<span role="status">${run.said ?? ""}</span></p>
    ${run.error && html`<p class="note bad" role="alert">${run.error}</p>`}
    ${run.answer?.event === "nothing" && html`<p class="note" role="status">Too little history of this range: ${run.answer.requests} requests, and a replay needs an upstream that was asked in at least 30 of them.${run.answer.plain > 0 ? ` ${run.answer.plain} more went up plain and cannot be replayed: they have no first token.` : ""}</p>`}
    ${run.answer?.event === "answer" && html`<${Answer} answer=${run.answer.answer} />`}
    ${(run.frontier?.length ?? 0) > 0 && html`<${Frontier} points=${run.frontier} />`}`;
}

/** @param {{ answer: any }} props */
function Answer({ answer }) {
  const money = answer.cost_unit === "usd";
  const figures = Object.keys(answer.rows[0]).filter((name) => typeof answer.rows[0][name] === "object");
  const cell = (/** @type {string} */ name) => (/** @type {any} */ row) => {
    const { value, low, high, guess, change } = row[name];
    const sign = guess ? "~" : "";
    const unit = name.endsWith("_ms") ? "ms" : name === "cost" ? answer.cost_unit : "";
    if (name === "unanswered") return html`<div><data value=${String(value)} title=${`${value}; 90 %: ${low} to ${high}`}>${percent(value)}</data></div>${change ? html`<small class="quiet">${change > 0 ? "+" : ""}${short(change * 100)} points</small>` : ""}`;
    return html`<div>${name === "cost" && money && value !== null ? html`<data value=${String(value)} title=${`${value} USD; 90 %: ${low} to ${high}`}>${sign}$${dollars(value)}</data>` : html`<${Figure} value=${value} unit=${unit} sign=${sign} about=${`90 %: ${low} to ${high}`} />`}</div>
      ${change !== undefined && change !== null && html`<small class="quiet" title="against what was recorded">${change > 0 ? "+" : ""}${name === "attempts_per_request" ? short(change) : `${short(change * 100)} %`}</small>`}`;
  };
  const columns = [{ name: "row", title: "Policy", cell: (/** @type {any} */ row) => row.row }, ...figures.map((name) => ({ name, title: name.replaceAll("_", " "), number: true, cell: cell(name) })),
    { name: "drawn", title: "drawn", number: true, about: "share of its answers that were drawn and not seen", cell: (/** @type {any} */ row) => (row.drawn === undefined ? "–" : percent(row.drawn)) }];
  const warnings = [
    answer.cut_to_newest && "Only the newest 200,000 requests of all models are read.",
    answer.plain > 0 && `Left out: ${answer.plain} requests that went up plain, for want of a first token to play.`,
    answer.counted < 1000 && `p99 of ${answer.counted} requests rests on few of them.`,
    answer.stretches < 10 && "So few stretches of time make the intervals rough, and rather too narrow.",
    !money && "No upstream of this model has a price: cost is in tokens.",
    answer.rows.some((/** @type {any} */ row) => figures.some((name) => row[name].guess)) && "~ a guess: longer than any attempt was watched.",
    answer.left_out.length > 0 && `Left out, watched too seldom: ${answer.left_out.map((/** @type {any} */ one) => `${one.upstream} (${one.watched})`).join(", ")}.`,
    "Not known to any replay: what an upstream does under more load than it had, and rate limits that it would have met.",
  ].filter(Boolean);
  return html`<h2>${answer.model}, ${answer.requests} requests</h2><p class="quiet">${answer.since} to ${answer.until}; ${answer.counted} count, the first ${answer.warm_up} only teach; played ${answer.draws} times.</p>
    <${Table} caption="Means over the draws; the title has the 90 % interval; below, the change against what was recorded" columns=${columns} rows=${answer.rows} id=${(/** @type {any} */ row) => row.row} />
    <ul class="note warn">${warnings.map((text) => html`<li>${text}</li>`)}</ul>`;
}

/** @param {{ points: { budget: number, row: any, unit: string }[] }} props */
function Frontier({ points }) {
  const [place, width] = useWidth();
  const names = ["p50", "p99"];
  const value = (/** @type {any} */ point, /** @type {string} */ name) => point.row[`ttft_${name}_ms`]?.value ?? null;
  const most = [Math.max(1e-12, ...points.map((point) => point.row.cost?.value ?? 0)) * 1.08, Math.max(1, ...points.flatMap((point) => names.map((name) => value(point, name) ?? 0))) * 1.08];
  const inner = Math.max(80, width - 110);
  const x = (/** @type {number} */ cost) => 66 + (cost / most[0]) * inner;
  const y = (/** @type {number} */ ms) => 250 - (ms / most[1]) * 235;
  const money = points[0].unit === "usd";
  const columns = [
    { name: "budget", title: "Budget", cell: (/** @type {any} */ point) => percent(point.budget) },
    ...names.map((name) => ({ name, title: `TTFT ${name} (ms)`, number: true, cell: (/** @type {any} */ point) => html`<${Figure} value=${value(point, name)} unit="ms" sign=${point.row[`ttft_${name}_ms`]?.guess ? "~" : ""} />` })),
    { name: "cost", title: money ? "Cost (USD)" : "Cost (tokens)", number: true, cell: (/** @type {any} */ point) => html`<${Figure} value=${point.row.cost?.value} unit=${point.unit} />` },
  ];
  return html`<h2>The frontier of budgets</h2><figure><div class="chart" ref=${place}>${width > 0 && html`<svg width=${width} height="284" viewBox=${`0 0 ${width} 284`} role="img" aria-label="TTFT against cost for each budget; the table below has the figures">
      ${ticks(most[1], 4).map((ms) => html`<g><line class="grid" x1="66" x2=${66 + inner} y1=${y(ms)} y2=${y(ms)} /><text x="60" y=${y(ms) + 4} text-anchor="end">${time(ms)}</text></g>`)}
      ${ticks(most[0], Math.max(2, inner / 130)).map((cost) => html`<text x=${x(cost)} y="272" text-anchor="middle">${money ? `$${dollars(cost)}` : short(cost)}</text>`)}
      ${names.map((name, at) => {
    const known = points.filter((point) => value(point, name) !== null && point.row.cost?.value !== null);
    return html`<g key=${name}><path class=${`line c${at}`} stroke-dasharray=${at ? "7 3" : ""} d=${known.map((point, place) => `${place ? "L" : "M"}${x(point.row.cost.value)} ${y(value(point, name))}`).join("")} />
        ${known.map((point, place) => html`<g><circle class=${`f${at}`} cx=${x(point.row.cost.value)} cy=${y(value(point, name))} r="5" />
          ${(place === known.length - 1 || x(known[place + 1].row.cost.value) - x(point.row.cost.value) > 52) && html`<text x=${x(point.row.cost.value) + 7} y=${y(value(point, name)) - 6}>${letter(names, name)} ${percent(point.budget)}</text>`}</g>`)}</g>`;
  })}
    </svg>`}</div><figcaption>A: p50, B: p99 of the clients' TTFT; across: cost of all attempts; each point a budget; where points are close, the last of them is named.</figcaption></figure>
    <${Table} caption="Each budget" columns=${columns} rows=${points} id=${(/** @type {any} */ point) => String(point.budget)} />`;
}
