// Races as they run, newest on top. Nothing of prompts or answers.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { here, link, useChoices } from "../lib/address.js";
import { ApiError, LOGGED_OUT, send, useApi } from "../lib/api.js";
import { time, useWidth } from "../lib/chart.js";
import { moment, percent, short } from "../lib/figures.js";
import { Id } from "../lib/id.js";
import { ending, LEGEND, Lanes } from "../lib/lanes.js";
import { Dot, shortened, Upstream } from "../lib/names.js";
import { Table } from "../lib/table.js";

/** Races that are kept and drawn, the newest. */
const DRAWN = 12;
/** First tokens of clients that a late one is held against. */
const FIRSTS = 300;
/** New races a second that are drawn, after a burst that fills the page: a reader could not follow more. */
const NEW_MOST = 6;
/** Seconds that the rate is counted over. */
const RATE_OVER = 10;
/** Least time between two drawings, in ms: 30 a second are enough for the eye. */
const DRAW_EVERY = 33;

/** @typedef {{ id: string, zero: number, lanes: Map<number, import("../lib/lanes.js").Lane>, model: string, user?: string, policy?: string, began?: number, hedged?: boolean, done?: Api.LiveEvent, drawn?: { key: string, node: any } }} LiveRace `zero`:
 * when its request was read, on this page's clock; `drawn`: of one that is over */
/** @typedef {{ state: "connecting" | "open" | "gone" | "refused", said?: string, model: string, races: Map<string, LiveRace>, room: number, filled: number, running: Set<string>, inFlight: number, wins: Map<string, number>, decided: number, failed: number, ended: number[], firsts: number[], missed: number, since: number }} Feed
 * `model`: only its races; empty: all. `room`: races that may be drawn now, as of `filled`. `running`: of the races that are drawn */

/** @param {string} [model] @param {number} [room] @returns {Feed} */
export function empty(model = "", room = DRAWN) {
  return { state: "connecting", model, races: new Map(), room, filled: performance.now(), running: new Set(), inFlight: 0, wins: new Map(), decided: 0, failed: 0, ended: [], firsts: [], missed: 0, since: performance.now() };
}

/** Takes one event in. A race whose beginning was not sent is counted at its end and not drawn.
 * @param {Feed} feed @param {Api.LiveEvent} event @param {number} now */
export function take(feed, event, now) {
  const id = event.race_id ?? "";
  switch (event.event) {
    case "running":
      feed.inFlight = event.running ?? 0;
      return;
    case "lagged":
      // Ends may be among what was missed: what seems to run may be over.
      feed.missed += event.missed ?? 0;
      for (const lost of feed.running) feed.races.delete(lost);
      feed.running.clear();
      return;
    case "race":
      if ((feed.model && event.model !== feed.model) || !hasRoom(feed, now)) return;
      feed.races.set(id, { id, zero: now, lanes: new Map(), model: event.model ?? "", user: event.user, policy: event.policy, began: event.started_at });
      feed.running.add(id);
      if (feed.races.size > DRAWN) {
        const oldest = feed.races.keys().next().value ?? "";
        feed.races.delete(oldest);
        feed.running.delete(oldest);
      }
      return;
    case "done":
      done(feed, event, now);
      return;
  }
  const race = feed.races.get(id);
  if (race && event.attempt !== undefined) step(race, event.attempt, event, now);
}

/** Takes room for one more. @param {Feed} feed @param {number} now */
function hasRoom(feed, now) {
  feed.room = Math.min(Math.max(DRAWN, feed.room), feed.room + ((now - feed.filled) / 1000) * NEW_MOST);
  feed.filled = now;
  if (feed.room < 1) return false;
  feed.room -= 1;
  return true;
}

/** @param {Feed} feed @param {Api.LiveEvent} event @param {number} now */
function done(feed, event, now) {
  if (feed.model && event.model !== feed.model) return;
  const race = feed.races.get(event.race_id ?? "");
  if (race) race.done = event;
  feed.running.delete(event.race_id ?? "");
  feed.ended.push(now);
  feed.decided += 1;
  if (event.client_ttft_ms !== undefined) {
    feed.firsts.push(event.client_ttft_ms);
    if (feed.firsts.length > FIRSTS) feed.firsts.shift();
  }
  if (event.outcome !== "ok") feed.failed += 1;
  else if (event.upstream) feed.wins.set(event.upstream, (feed.wins.get(event.upstream) ?? 0) + 1);
}

/** @param {LiveRace} race @param {number} attempt @param {Api.LiveEvent} event @param {number} now */
function step(race, attempt, event, now) {
  /** @type {import("../lib/lanes.js").Lane} */
  const lane = race.lanes.get(attempt) ?? { attempt, upstream: event.upstream ?? "", dispatch: event.at_ms ?? 0 };
  if (race.lanes.size === 0) race.zero = now - (event.at_ms ?? 0);
  race.lanes.set(attempt, lane);
  if (event.start_reason === "hedge") race.hedged = true;
  if (event.event === "connect") lane.connect = event.at_ms;
  if (event.event === "headers") lane.headers = event.at_ms;
  if (event.event === "first_token") lane.first = event.at_ms;
  if (event.event === "commit") lane.winner = true;
  if (event.event === "end") Object.assign(lane, { end: event.at_ms, outcome: event.outcome, failure: event.failure, audited: event.audited });
}

export function Live() {
  const [choices, choose] = useChoices();
  const model = choices.get("model") ?? "";
  const config = useApi("/api/config");
  const feed = useRef(/** @type {Feed} */ (empty(model)));
  if (feed.current.model !== model) feed.current = { ...empty(model), state: feed.current.state, inFlight: feed.current.inFlight };
  const [, draw] = useState(0);
  const [place, width] = useWidth();
  const [paused, setPaused] = useState(false);
  const held = useRef(/** @type {{ at: number, races: LiveRace[] } | null} */ (null));
  useEffect(() => watch(feed, () => draw((turn) => turn + 1)), []);
  const now = performance.now();
  const kept = feed.current;
  const newest = () => [...kept.races.values()].reverse();
  const pause = () => {
    // What is held is a copy: the races of the feed go on.
    held.current = paused ? null : { at: now, races: newest().map((race) => ({ ...race, lanes: new Map([...race.lanes].map(([at, lane]) => [at, { ...lane }])) })) };
    setPaused(!paused);
  };
  const shown = held.current ?? { at: now, races: newest() };
  const most = shared(shown.races, shown.at);
  const slow = lateFrom(kept.firsts);
  while (kept.ended.length > 0 && kept.ended[0] < now - RATE_OVER * 1000) kept.ended.shift();
  return html`<h1>Live</h1>
    <p class="filters"><button type="button" class="main" aria-pressed=${paused} onClick=${pause}>${paused ? "▶ Go on" : "❚❚ Pause"}</button>
      <label>Model<input list="live-models" value=${model} placeholder="all" onChange=${(/** @type {any} */ event) => choose({ model: event.target.value.trim() })} />
        <datalist id="live-models">${(config.data?.models ?? []).map((one) => html`<option value=${one.model} />`)}</datalist></label>
      <span role="status">${said(kept, paused)}</span></p>
    ${kept.state === "refused" && html`<p class="note bad" role="alert">${kept.said}</p>`}
    ${kept.missed > 0 && html`<p class="note warn" role="status">This page was too slow for ${kept.missed} events: some lanes and counts lack them. The <a href=${link("races")}>races</a> have all.</p>`}
    <dl class="facts"><${Fact} name=${`Ended per second, last ${RATE_OVER} s`} value=${short(kept.ended.length / Math.min(RATE_OVER, Math.max(1, (now - kept.since) / 1000)))} />
      <${Fact} name=${model ? "In flight, all models" : "In flight"} value=${kept.inFlight} /><${Fact} name="Ended since this page was opened" value=${kept.decided} />
      <${Fact} name="Not ok" value=${kept.failed} /></dl>
    ${shown.races.length === 0
    ? html`<div class="note">No race yet. Send a request, for example:<pre class="command">curl ${location.origin}/v1/chat/completions -H 'content-type: application/json' -d '{"model": "demo", "stream": true, "messages": [{"role": "user", "content": "Hello"}]}'</pre></div>`
    : html`<p class="caption">${LEGEND}. One scale for all: to ${time(most)}${shown.races.some((race) => [...race.lanes.values()].some((lane) => (lane.end ?? 0) > most)) ? "; longer answers end at its edge" : ""}.</p>${shown.races.map((race, place) => drawnRace(race, shown.at, width, most, slow, place === 0))}`}
    <div ref=${place}></div><${Wins} feed=${kept} />`;
}

/** @param {Feed} feed @param {boolean} paused */
function said(feed, paused) {
  if (paused && feed.state === "open") return "Paused: lanes stop, counts go on.";
  return { connecting: "Connecting …", open: `Watching. The ${DRAWN} newest races; of more than ${NEW_MOST} a second only some are drawn. The counts have all.`, gone: "The gateway does not answer. Trying again.", refused: "Not watching." }[feed.state];
}

/** Follows the events until the page is left. @param {{ current: Feed }} feed @param {() => void} draw */
function watch(feed, draw) {
  let over = false;
  let drawn = 0;
  let asked = 0;
  /** @type {EventSource | undefined} */
  let source;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const soon = () => {
    if (asked) return;
    asked = requestAnimationFrame((now) => {
      asked = 0;
      if (over) return;
      // A few ms of tolerance: frames come every 16.7 ms.
      const due = now - drawn >= DRAW_EVERY - 4;
      if (due) {
        drawn = now;
        draw();
      }
      // What runs grows with time, also without an event.
      if (!due || feed.current.running.size > 0) soon();
    });
  };
  const open = () => {
    source = new EventSource(here("/api/live"));
    source.onopen = () => {
      feed.current = { ...empty(feed.current.model), state: "open" };
      soon();
    };
    source.onmessage = (message) => {
      take(feed.current, JSON.parse(message.data), performance.now());
      soon();
    };
    source.onerror = () => {
      feed.current.state = "gone";
      feed.current.running.clear();
      soon();
      // After a refusal a browser gives up.
      if (source?.readyState === EventSource.CLOSED) void refused();
    };
  };
  const refused = async () => {
    try {
      await send("/dashboard/session");
      feed.current.state = "refused";
      feed.current.said = "The gateway refused: too many pages watch, or it is shutting down. Trying again every 5 seconds.";
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) dispatchEvent(new Event(LOGGED_OUT));
    }
    soon();
    if (!over) timer = setTimeout(open, 5000);
  };
  open();
  const second = setInterval(soon, 1000);
  return () => {
    over = true;
    source?.close();
    clearTimeout(timer);
    clearInterval(second);
    cancelAnimationFrame(asked);
  };
}

/** The end of the scale of these races: four times the last first token, or the last end if that is sooner. @param {LiveRace[]} races @param {number} now */
function shared(races, now) {
  const lanes = races.flatMap((race) => [...race.lanes.values()].map((lane) => ({ first: lane.first ?? (lane.end === undefined ? now - race.zero : 0), end: lane.end ?? now - race.zero })));
  const most = Math.min(Math.max(100, ...lanes.map((lane) => lane.end)), Math.max(100, ...lanes.map((lane) => lane.first)) * 4);
  const power = 10 ** Math.floor(Math.log10(most));
  return ([1, 1.5, 2, 3, 5, 7.5, 10].find((step) => step * power >= most) ?? 10) * power;
}

/** Firsts from which a median says what is usual. */
const ENOUGH = 10;

/** A client's first token after this is late: twice the median of those that were seen. @param {number[]} firsts */
function lateFrom(firsts) {
  return firsts.length < ENOUGH ? Infinity : [...firsts].sort((a, b) => a - b)[Math.floor(firsts.length / 2)] * 2;
}

/** A race that is over is drawn once: the same node is left alone. @param {LiveRace} race @param {number} now @param {number} width @param {number} most @param {number} slow @param {boolean} axis */
function drawnRace(race, now, width, most, slow, axis) {
  const key = `${width} ${most} ${axis}`;
  if (race.drawn?.key === key) return race.drawn.node;
  const node = html`<${One} key=${race.id} race=${race} now=${now} width=${width} most=${most} slow=${slow} axis=${axis} />`;
  // Losers that are audited or drained end later than their race.
  if (race.done && [...race.lanes.values()].every((lane) => lane.end !== undefined)) race.drawn = { key, node };
  return node;
}

/** @param {{ race: LiveRace, now: number, width: number, most: number, slow: number, axis: boolean }} props */
function One({ race, now, width, most, slow, axis }) {
  const lanes = [...race.lanes.values()].sort((a, b) => a.attempt - b.attempt);
  const runs = lanes.some((lane) => lane.end === undefined) && !race.done;
  const winner = lanes.find((lane) => lane.winner);
  const short = shortened(lanes.map((lane) => lane.upstream));
  const first = race.done?.client_ttft_ms;
  const late = first !== undefined && first > slow;
  const ok = race.done?.outcome === "ok";
  return html`<section class="race"><div class=${`lanes ${race.done ? (!ok ? "wrong" : late ? "tardy" : "over") : ""}`}>
    <p class="head">${race.began !== undefined && html`<span>${moment(race.began).slice(11)}</span>`}
      ${race.done ? html`<strong class=${ok ? "" : "bad"}>${ok ? html`✓ ${winner && html`<${Dot} name=${winner.upstream} />${short.get(winner.upstream)}`}` : `✕ ${race.done.outcome?.replace("_", " ")}`}</strong>${first !== undefined && html`<strong>${time(first)}</strong>`}` : html`<strong>${winner ? html`<${Dot} name=${winner.upstream} />${short.get(winner.upstream)} answers` : "racing …"}</strong>`}
      ${late && html`<span class="mark warn" title=${`its first token came after ${time(slow)}: more than twice the median of those on this page`}>late</span>`}
      ${race.hedged && html`<span class="mark" title="those before were late, so another one was started">one more started</span>`}
      <bdi class="quiet">${race.model}</bdi>${race.user && html`<bdi class="quiet">${race.user}</bdi>`}<span class="quiet">${race.policy ?? ""}</span>${race.done?.at_ms !== undefined && html`<span class="quiet">took ${time(race.done.at_ms)}</span>`}<${Id} id=${race.id} href=${link(`races/${race.id}`)} /></p>
    <div class="chart">${width > 0 && html`<${Lanes} lanes=${lanes} now=${runs ? now - race.zero : race.done?.at_ms} width=${width - 16} most=${most} axis=${axis} />`}</div>
    <p class="hidden">${lanes.map((lane) => `${lane.upstream}: ${ending(lane)}`).join("; ")}</p></div></section>`;
}

/** @param {{ name: string, value: any }} props */
function Fact({ name, value }) {
  return html`<div class="fact"><dt>${name}</dt><dd>${value}</dd></div>`;
}

/** @param {{ feed: Feed }} props */
function Wins({ feed }) {
  const all = [...feed.wins].sort((a, b) => b[1] - a[1]);
  const sum = all.reduce((sum, [, count]) => sum + count, 0);
  const columns = [
    { name: "upstream", title: "Upstream", cell: (/** @type {[string, number]} */ [name]) => html`<${Upstream} name=${name} />` },
    { name: "wins", title: "Wins", number: true, cell: (/** @type {[string, number]} */ [, count]) => count },
    { name: "share", title: "Share", number: true, cell: (/** @type {[string, number]} */ [, count]) => percent(count / sum) },
  ];
  return html`<h2>Wins by upstream</h2>${sum === 0 ? html`<p class="quiet">No race was won since this page was opened.</p>` : html`<${Table} caption="Since this page was opened" columns=${columns} rows=${all} id=${(/** @type {[string, number]} */ row) => row[0]} />`}`;
}
