// One race: its attempts on one clock, and all that its rows say.
import { html, useEffect, useState } from "../lib/html.js";
import { link } from "../lib/address.js";
import { useAnswer } from "../lib/api.js";
import { time, useWidth } from "../lib/chart.js";
import { Cost, Figure, moment } from "../lib/figures.js";
import { Id } from "../lib/id.js";
import { ending, LEGEND, Lanes } from "../lib/lanes.js";
import { Upstream } from "../lib/names.js";
import { marked, meaning, useSchemas } from "../lib/schemas.js";
import { useConfig } from "../lib/session.js";
import { Answer } from "../lib/states.js";
import { story } from "../lib/story.js";
import { Folded, Table, useNumbers } from "../lib/table.js";

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
  const config = useConfig();
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
    <${Folded} summary=${`Every event (${events.length})`}>${() => html`<${Table} of="Event" caption="Milliseconds since the request was read" columns=${EVENTS} rows=${events} id=${(/** @type {any} */ event) => String(event.at)} />`}<//>
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
  { name: "at", member: "at_ms", title: "At (ms)", cell: (/** @type {any} */ event) => html`<data class="number" value=${event.at_ms}>${event.at_ms}</data>` },
  { name: "event", title: "Event", cell: (/** @type {any} */ event) => event.event.replaceAll("_", " ") },
  { name: "attempt", title: "Attempt", number: true, cell: (/** @type {any} */ event) => event.attempt ?? "–" },
  { name: "upstream", title: "Upstream", cell: (/** @type {any} */ event) => html`<span class="mono">${event.upstream ?? "client"}</span>` },
];

/** @param {{ attempts: any[], lanes: import("../lib/lanes.js").Lane[] }} props */
function Attempts({ attempts, lanes }) {
  const number = useNumbers("Attempt");
  const schemas = useSchemas();
  const columns = [
    { name: "upstream", title: "Attempt", cell: (/** @type {any} */ row) => html`<${Upstream} name=${row.upstream} />` },
    { name: "start_reason", title: "Why started", cell: (/** @type {any} */ row) => meaning(schemas, "StartReason", row.start_reason) },
    { name: "outcome", title: "What became of it", cell: (/** @type {any} */ row) => ending(lanes[attempts.indexOf(row)]) },
    number("dispatch_us", "Started (ms)"),
    { name: "ttft_ms", title: "TTFT (ms)", number: true, cell: (/** @type {any} */ row) => (row.ttft_event === 1 ? html`<${Figure} value=${row.ttft_ms} unit="ms" />` : row.ttft_obs_us === null ? "–" : html`<${Figure} value=${row.ttft_obs_us / 1000} unit="ms" sign=">" />`) },
    number("tok_s", "tok/s"),
    number("gap_p50_us", "Gap p50 (ms)"),
    number("gap_p95_us", "p95 (ms)"),
    number("gap_p99_us", "p99 (ms)"),
    number("output_tokens", "Tokens out"),
    { name: "cost", member: "cost_usd_max", title: "Cost", number: true, cell: (/** @type {any} */ row) => html`<${Cost} least=${row.cost_usd_min} most=${row.cost_usd_max} />` },
    { name: "racing", title: "Racing", cell: (/** @type {any} */ row) => row.racing ?? "–" },
    { name: "price_source", title: "Its price", cell: (/** @type {any} */ row) => row.price_source ?? "–" },
    { name: "http_status", title: "Status", number: true, cell: (/** @type {any} */ row) => row.http_status ?? "–" },
  ];
  return html`<h2>Attempts</h2>${attempts.length === 0
    ? html`<p class="note">No attempt was started.</p>`
    : html`<${Table} of="Attempt" caption="One row for each attempt that was started" columns=${columns} rows=${attempts} id=${(/** @type {any} */ row) => String(row.ordinal)} />`}`;
}

/** @param {{ race: any, attempts: any[] }} props */
function Why({ race, attempts }) {
  const schemas = useSchemas();
  const left = race.left_out ?? [];
  const codes = String(race.why ?? "").split(" ").filter(Boolean);
  const count = attempts.length === 1 ? "1 attempt" : `${attempts.length} attempts`;
  return html`<h2>Why these</h2>
    <p><strong>${count}.</strong> ${race.policy ? html`Policy <strong>${race.policy}</strong>: ${marked(meaning(schemas, "Policy", race.policy))}.` : "No plan was made."}</p>
    ${codes.length > 0 && html`<ul>${codes.map((code) => html`<li key=${code}>${marked(meaning(schemas, "DecisionReason", code))}</li>`)}</ul>`}
    <p class="quiet">As stored: for ${race.optimise ?? "–"}, plan <span class="mono">${race.plan ?? "–"}</span>, why <span class="mono">${race.why ?? "–"}</span>.</p>
    ${left.length > 0
    ? html`<p>Left out:</p><ul>${left.map((/** @type {any} */ one) => html`<li><span class="mono">${one.upstream}</span>: ${meaning(schemas, "LeftOutReason", one.reason)}</li>`)}</ul>`
    : html`<p class="quiet">No upstream was left out.</p>`}
    ${race.rescued_by !== null && html`<p>The answer broke off; attempt ${race.rescued_by} continued it.</p>`}`;
}
