// Whether the gateway is well: the store, the providers, what waits.
import { html } from "../lib/html.js";
import { useAnswer, useApi } from "../lib/api.js";
import { Answer } from "../lib/states.js";
import { Table } from "../lib/table.js";
import { useChoices } from "../lib/address.js";

/** @typedef {{ ready: boolean, store: string, draining: boolean, providers_on: number, without_token: string[], races_running: number,
 *   unauthorized: number, records_queued: number, records_spilled: number, records_dropped: number }} Ready */

export function Status() {
  const asked = useAnswer(/** @type {string} */ ("/readyz"), 5);
  const routing = useApi("/api/routing", {}, 5);
  return html`<h1>Status</h1>
    <${Answer} asked=${asked}>${asked.data && html`<${Facts} ready=${asked.data} />`}<//>
    <h2>Providers</h2>
    <${Answer} asked=${routing} empty=${routing.data?.upstreams.length === 0} none="No model has an upstream.">
      ${routing.data && html`<${Providers} routing=${routing.data} />`}
    <//>`;
}

/** @param {{ ready: Ready }} props */
function Facts({ ready }) {
  const store = { ok: "Every row is written.", delayed: "Rows wait, none is lost.", failing: "Rows are being lost: see the log." }[ready.store];
  const facts = [
    ["Races running", ready.races_running],
    ["Providers on", ready.providers_on],
    ["Rows that wait", ready.records_queued],
    ["Rows in the file next to the database", ready.records_spilled],
    ["Rows lost", ready.records_dropped],
    ["Requests without a valid token", ready.unauthorized],
  ];
  return html`<p class=${`note ${ready.ready ? "good" : "bad"}`} role="status">
      <strong>${ready.draining ? "Shutting down." : ready.ready ? "Ready." : "Not ready."}</strong> Store: ${ready.store}. ${store}
      ${ready.without_token.length > 0 && html` Without a token yet: ${ready.without_token.join(", ")}.`}</p>
    <dl class="facts">${facts.map(([name, value]) => html`<div class="fact"><dt>${name}</dt><dd><data value=${value}>${value}</data></dd></div>`)}</dl>`;
}

/** One row for each provider of a model. @param {{ routing: any }} props */
function Providers({ routing }) {
  const [choices, choose] = useChoices();
  /** @type {Map<string, { name: string, on: boolean, upstreams: number, inFlight: number, breakers: string[], why: string }>} */
  const all = new Map();
  for (const upstream of routing.upstreams) {
    const name = upstream.upstream.split("/")[0];
    /** @type {{ name: string, on: boolean, upstreams: number, inFlight: number, breakers: string[], why: string }} */
    const row = all.get(name) ?? { name, on: false, upstreams: 0, inFlight: 0, breakers: [], why: "" };
    row.on ||= upstream.on;
    row.upstreams += 1;
    row.inFlight += upstream.in_flight;
    if (upstream.breaker !== "closed") row.breakers.push(`${upstream.upstream}: ${upstream.breaker}`);
    if (upstream.cooling_down_s !== null) row.breakers.push(`${upstream.upstream}: cools down`);
    all.set(name, row);
  }
  for (const why of routing.models.flatMap((/** @type {any} */ model) => model.why)) {
    const row = all.get(why.upstream.split("/")[0]);
    if (row && why.code === "off") row.why = why.text;
  }
  const rows = [...all.values()];
  const columns = [
    { name: "provider", title: "Provider", cell: (/** @type {any} */ row) => row.name, order: (/** @type {any} */ row) => row.name },
    {
      name: "on",
      title: "State",
      cell: (/** @type {any} */ row) => (row.on ? html`<span class="good">● on</span>` : html`<span class="quiet">○ off</span>`),
      order: (/** @type {any} */ row) => (row.on ? 0 : 1),
    },
    { name: "upstreams", title: "Upstreams", number: true, cell: (/** @type {any} */ row) => row.upstreams, order: (/** @type {any} */ row) => row.upstreams },
    { name: "flight", title: "In flight", number: true, cell: (/** @type {any} */ row) => row.inFlight, order: (/** @type {any} */ row) => row.inFlight },
    { name: "why", title: "Why, and what is left out", cell: (/** @type {any} */ row) => [row.on ? "" : row.why, ...row.breakers].filter(Boolean).join("; ") || "–" },
  ];
  return html`<${Table} caption="Providers of the configured models" columns=${columns} rows=${rows} id=${(/** @type {any} */ row) => row.name}
    sort=${choices.get("sort") ?? "on"} onSort=${(/** @type {string} */ sort) => choose({ sort })} />`;
}
