// One race: its attempts on one clock, and all that its rows say.
import { html, useEffect, useState } from "../lib/html.js";
import { link } from "../lib/address.js";
import { useAnswer, useApi } from "../lib/api.js";
import { time, useWidth } from "../lib/chart.js";
import { Cost, Figure, moment } from "../lib/figures.js";
import { Id } from "../lib/id.js";
import { ending, LEGEND, Lanes } from "../lib/lanes.js";
import { Upstream } from "../lib/names.js";
import { Answer } from "../lib/states.js";
import { story } from "../lib/story.js";
import { Folded, Table } from "../lib/table.js";

/** @param {{ id: string }} props */
export function Race({ id }) {
  const [over, setOver] = useState(false);
  const asked = useAnswer(`/api/races/${encodeURIComponent(id)}`, over ? 0 : 2);
  const ended = asked.data?.race != null;
  // Once more after its row: the rows of drained and audited losers come later.
  useEffect(() => {
    if (ended) setOver(true);
  }, [ended]);
  const unwritten = asked.error?.code === "photofinish_unknown_race";
  return html`<div class="head"><h1>Race <${Id} id=${id} /></h1><a href=${link("races")}>All races</a></div>
    ${unwritten ? html`<div class="note" role="status">No row of this race is written: it is still running, its rows were removed, or it never was. The page looks again every 2 seconds.</div>` : html`<${Answer} asked=${asked}>${asked.data && html`<${Whole} whole=${asked.data} id=${id} />`}<//>`}`;
}

/** The lanes of the rows. @param {any} whole @returns {import("../lib/lanes.js").Lane[]} */
export function lanesOf(whole) {
  const ms = (/** @type {any} */ row, /** @type {string} */ name) => (row[name] === null ? undefined : (row.dispatch_us + row[name]) / 1000);
  return whole.attempts.map((/** @type {any} */ row) => ({
    attempt: row.ordinal,
    upstream: row.upstream,
    dispatch: row.dispatch_us / 1000,
    connect: ms(row, "connect_us"),
    headers: ms(row, "headers_us"),
    first: ms(row, "first_token_us"),
    end: ms(row, "cancel_us") ?? ms(row, "eof_us") ?? ms(row, "finish_us") ?? ms(row, "ttft_obs_us"),
    outcome: row.outcome,
    failure: row.failure,
    audited: row.audited === 1,
    winner: whole.race !== null && whole.race.winner === row.ordinal,
  }));
}

/** @param {{ whole: any, id: string }} props */
function Whole({ whole, id }) {
  const [place, width] = useWidth();
  const config = useApi("/api/config");
  const { race, attempts, timeline } = whole;
  const lanes = lanesOf(whole);
  const moments = timeline.filter((/** @type {any} */ event) => event.attempt === null && event.at_ms > 0);
  const events = timeline.map((/** @type {any} */ event, /** @type {number} */ at) => ({ ...event, at, upstream: attempts.find((/** @type {any} */ row) => row.ordinal === event.attempt)?.upstream }));
  return html`
    ${race === null && html`<p class="note warn" role="status">The race is still running: only its attempts that have ended are written. The page looks again every 2 seconds.</p>`}
    ${race && html`<p class="lead">${story(whole)}</p>
      <p class="quiet">${moment(race.started_at)} UTC, model <strong>${race.model}</strong>${race.user ? `, user ${race.user}` : ""}: <strong>${race.outcome.replaceAll("_", " ")}</strong>${race.http_status ? `, status ${race.http_status}` : ""}.${" "}
      ${race.client_ttft_ms === null ? "The client got no token" : html`The client's first token after <${Figure} value=${race.client_ttft_ms} unit="ms" /> ms`}${race.overhead_ms !== null ? html`, of which <${Figure} value=${race.overhead_ms} unit="ms" /> ms are the gateway's` : ""}${race.duration_ms !== null ? html`; the end after <${Figure} value=${race.duration_ms} unit="ms" /> ms` : ""}.</p>`}
    <figure><div class="chart" ref=${place}>${width > 0 && html`<${Lanes} lanes=${lanes} width=${width} row=${attempts.length > 8 ? 24 : 40} events=${moments.map((/** @type {any} */ event) => ({ at: event.at_ms, name: event.event.replaceAll("_", " ") }))} />`}</div>
      <figcaption>${LEGEND}; a dashed upright line: what the client saw (${moments.map((/** @type {any} */ event) => `${event.event.replaceAll("_", " ")} ${time(event.at_ms)}`).join(", ") || "nothing"})</figcaption></figure>
    ${race?.plan && html`<${Planned} race=${race} attempts=${attempts} />`}
    ${race && html`<${Why} race=${race} attempts=${attempts} />`}
    <${Attempts} attempts=${attempts} lanes=${lanes} />
    <${Folded} summary=${`Every event (${events.length})`}>${() => html`<${Table} caption="Milliseconds since the request was read" columns=${EVENTS} rows=${events} id=${(/** @type {any} */ event) => String(event.at)} />`}<//>
    <${Folded} summary="The same elsewhere">${() => html`<pre class="command">curl '${location.origin}/api/races/${id}'</pre>
      <pre class="command">sqlite3 '${config.data?.store ?? "photofinish.db"}' "SELECT * FROM attempt WHERE race_id = '${id}' ORDER BY ordinal"</pre>`}<//>`;
}

/** Each upstream of the plan: when it was to start, what was predicted for it then, and what came. @param {{ race: any, attempts: any[] }} props */
function Planned({ race, attempts }) {
  const rows = String(race.plan).split(" ").filter((part) => part.includes("@")).map((part, place) => {
    const cut = part.lastIndexOf("@");
    return { upstream: part.slice(0, cut), when: part.slice(cut + 1), attempt: attempts.find((row) => row.upstream === part.slice(0, cut)), place };
  });
  const planned = (/** @type {string} */ when) => (when === "0" ? "at once" : when === "failure" ? "after a failure" : when === "…" ? "…" : `${when.replace(/ms$/, " ms")}, if no token had come`);
  const columns = [
    { name: "upstream", title: "Upstream", cell: (/** @type {any} */ row) => html`<${Upstream} name=${row.upstream} />` },
    { name: "planned", title: "Planned start", cell: (/** @type {any} */ row) => planned(row.when) },
    { name: "started", title: "Started", number: true, cell: (/** @type {any} */ row) => (row.attempt ? time(row.attempt.dispatch_us / 1000) : "not started") },
    { name: "predicted", title: "Predicted", about: "when it was started, from what was learnt until then", number: true, cell: (/** @type {any} */ row) => (row.attempt?.predicted_us == null ? "–" : html`<data value=${String(row.attempt.predicted_us)} title=${`${row.attempt.predicted_us} µs`}>${time(row.attempt.predicted_us / 1000)}</data>`) },
    { name: "came", title: "Came", number: true, cell: (/** @type {any} */ row) => came(row.attempt) },
  ];
  const unknown = rows.some(({ attempt }) => attempt && attempt.predicted_us === null);
  return html`<h2>What was predicted, and what came</h2><${Table} caption=${`Of each attempt the time from its start to its first token, or to all of a plain answer. A prompt of about ${race.input_tokens_estimate.toLocaleString("en-US")} tokens${unknown ? ". –: too little was known of the upstream" : ""}`} columns=${columns} rows=${rows} id=${(/** @type {any} */ row) => String(row.place)} />`;
}

/** The time from its start to its first token, or to all of a plain answer. @param {any} attempt */
function came(attempt) {
  if (!attempt) return "–";
  const us = attempt.plain ? attempt.eof_us : attempt.ttft_event === 1 ? attempt.ttft_obs_us : null;
  if (us !== null) return html`<strong>${time(us / 1000)}</strong>`;
  const waited = attempt.plain ? attempt.cancel_us : attempt.ttft_obs_us;
  return waited === null ? "no token" : html`<span title="cut off then: later than this">> ${time(waited / 1000)}</span>`;
}

const EVENTS = [
  { name: "at", title: "At (ms)", cell: (/** @type {any} */ event) => html`<data class="number" value=${event.at_ms}>${event.at_ms}</data>` },
  { name: "event", title: "Event", cell: (/** @type {any} */ event) => event.event.replaceAll("_", " ") },
  { name: "attempt", title: "Attempt", number: true, cell: (/** @type {any} */ event) => event.attempt ?? "–" },
  { name: "upstream", title: "Upstream", cell: (/** @type {any} */ event) => html`<span class="mono">${event.upstream ?? "client"}</span>` },
];

/** @param {{ attempts: any[], lanes: import("../lib/lanes.js").Lane[] }} props */
function Attempts({ attempts, lanes }) {
  const number = (/** @type {string} */ name, /** @type {string} */ title, unit = "", scale = 1) => ({
    name, title, number: true, cell: (/** @type {any} */ row) => html`<${Figure} value=${row[name] === null ? null : row[name] / scale} unit=${unit} />`,
  });
  const columns = [
    { name: "upstream", title: "Attempt", cell: (/** @type {any} */ row) => html`<${Upstream} name=${row.upstream} />` },
    { name: "start", title: "Why started", cell: (/** @type {any} */ row) => STARTS[row.start_reason] ?? row.start_reason },
    { name: "outcome", title: "What became of it", cell: (/** @type {any} */ row) => ending(lanes[attempts.indexOf(row)]) },
    number("dispatch_us", "Started (ms)", "ms", 1000),
    { name: "ttft", title: "TTFT (ms)", number: true, cell: (/** @type {any} */ row) => (row.ttft_event === 1 ? html`<${Figure} value=${row.ttft_ms} unit="ms" />` : row.ttft_obs_us === null ? "–" : html`<${Figure} value=${row.ttft_obs_us / 1000} unit="ms" sign=">" />`) },
    number("tok_s", "tok/s", "tokens/s"),
    number("gap_p50_us", "Gap p50 (ms)", "ms", 1000),
    number("gap_p99_us", "p99 (ms)", "ms", 1000),
    number("output_tokens", "Tokens out"),
    { name: "cost", title: "Cost", number: true, cell: (/** @type {any} */ row) => html`<${Cost} least=${row.cost_usd_min} most=${row.cost_usd_max} />` },
    { name: "racing", title: "Racing", about: "what it was for if it was not the answer", cell: (/** @type {any} */ row) => row.racing ?? "–" },
    { name: "price", title: "Its price", cell: (/** @type {any} */ row) => row.price_source ?? "–" },
    { name: "status", title: "Status", number: true, cell: (/** @type {any} */ row) => row.http_status ?? "–" },
  ];
  return html`<h2>Attempts</h2>${attempts.length === 0
    ? html`<p class="note">No attempt was started.</p>`
    : html`<${Table} caption="One row for each attempt that was started" columns=${columns} rows=${attempts} id=${(/** @type {any} */ row) => String(row.ordinal)} />`}`;
}

/** @type {Record<string, string>} what a policy starts */
const POLICIES = {
  race: "starts all upstreams at once",
  hedge: "starts the next upstream a fixed time after the one before",
  fallback: "starts the next upstream after a failure, or when one is late",
  weighted: "starts one upstream drawn by its weight, the others after a failure or when it is late",
  adaptive: "starts the best upstream by what it has learned, and others when that pays and the budget allows it",
};
/** @type {Record<string, string>} the codes of the column `why` */
const REASONS = {
  listed: "the order is that of the configuration",
  best: "the best one alone: another was not worth its cost",
  hedge: "another one was planned for when the first is late",
  hedged: "the first was late, so another one was started",
  session: "the upstream that answered the session before went first",
  cold: "too little is known of some, so they started at once",
  revisit: "one that used to lead was asked beside the best, to find out whether it is as it was",
  look: "the request drew an upstream to ask it too, so that upstreams can be compared",
  overdue: "an attempt was late, so the next one started",
  capped: "an attempt was late, but too many others had been replaced lately",
  budget: "another one would have paid, but the budget for extras was used up",
  throttled: "no extra: it would have gone to an upstream that fails too often",
  alone: "there was only one to choose",
  rule: "the simple rule decided",
  held: "a first token was held back for one that should end sooner",
  crowded: "no extras: the gateway was crowded",
  quality: "an upstream that answers worse than the others started after them",
  last_resort: "no other was left, so one was asked that answers worse and had been left out",
};
/** @type {Record<string, string>} the column `start_reason` */
const STARTS = { first: "at the start", hedge: "those before were late", fallback: "one before had failed", retry: "the same again after a failure", rescue: "the answer had broken off" };

/** @param {{ race: any, attempts: any[] }} props */
function Why({ race, attempts }) {
  const left = race.left_out ?? [];
  const codes = String(race.why ?? "").split(" ").filter(Boolean);
  const count = attempts.length === 1 ? "1 attempt" : `${attempts.length} attempts`;
  return html`<h2>Why these</h2>
    <p><strong>${count}.</strong> ${race.policy ? html`The policy <strong>${race.policy}</strong> ${POLICIES[race.policy] ?? ""}` : "No plan was made"}${codes.map((code) => `; ${REASONS[code] ?? code}`).join("")}.</p>
    <p class="quiet">As stored: for ${race.optimise ?? "–"}, plan <span class="mono">${race.plan ?? "–"}</span>, why <span class="mono">${race.why ?? "–"}</span>.</p>
    ${left.length > 0
    ? html`<p>Left out:</p><ul>${left.map((/** @type {any} */ one) => html`<li><span class="mono">${one.upstream}</span>: ${one.reason.replaceAll("_", " ")}</li>`)}</ul>`
    : html`<p class="quiet">No upstream was left out.</p>`}
    ${race.rescued_by !== null && html`<p>The answer broke off; attempt ${race.rescued_by} continued it.</p>`}`;
}
