// Whether the gateway is well: the store, the providers, what waits; and its configuration.
import { html, useState } from "../lib/html.js";
import { send, useAnswer, useApi } from "../lib/api.js";
import { reloads } from "../lib/session.js";
import { Answer } from "../lib/states.js";
import { Table } from "../lib/table.js";
import { useChoices } from "../lib/address.js";

/** @typedef {{ ready: boolean, store: string, draining: boolean, providers_on?: number, without_token?: string[], races_running?: number,
 *   unauthorized?: number, records_queued?: number, records_spilled?: number, records_dropped?: number, store_problem?: string | null,
 *   set_aside?: string | null, configuration_refused?: string | null, accept?: string | null }} Ready only an admin sees more than the first three */

export function Status() {
  const asked = useAnswer(/** @type {string} */ ("/readyz"), 5);
  const routing = useApi("/api/routing", {}, 5);
  const config = useApi("/api/config", {}, 5);
  return html`<h1>Status</h1>
    <${Answer} asked=${asked}>${asked.data && html`<${Facts} ready=${asked.data} />`}<//>
    <${Answer} asked=${config}>${config.data && html`<h2>Providers</h2><${Providers} config=${config.data} routing=${routing.data} />
      <${Configuration} config=${config.data} again=${config.again} />`}<//>`;
}

/** @param {{ ready: Ready }} props */
function Facts({ ready }) {
  const store = { ok: "Every row is written.", delayed: `${(ready.records_queued ?? 0) + (ready.records_spilled ?? 0)} rows wait, none is lost.`, damaged: "The database seems damaged: rows wait while it is examined or set aside.", failing: `Rows are being lost, ${ready.records_dropped ?? 0} so far: see the log.` }[ready.store];
  const facts = [
    ["Races running", ready.races_running],
    ["Providers on", ready.providers_on],
    ["Requests without a valid token", ready.unauthorized],
  ];
  return html`<p class=${`note ${ready.ready ? "good" : "bad"}`} role="status">
      <strong>${ready.draining ? "Shutting down." : ready.ready ? "Ready." : "Not ready."}</strong> Store: ${ready.store}. ${store}
      ${ready.store_problem && html` ${ready.store_problem}.`}
      ${ready.set_aside && html` A damaged database was set aside as ${ready.set_aside}; earlier rows are in it.`}
      ${(ready.without_token ?? []).length > 0 && html` Without a token yet: ${ready.without_token?.join(", ")}.`}</p>
    <dl class="facts">${facts.map(([name, value]) => html`<div class="fact"><dt>${name}</dt><dd>${value === undefined ? "–" : html`<data value=${value}>${value}</data>`}</dd></div>`)}</dl>`;
}

/** @param {{ config: Api.Configuration, routing: Api.Answers["/api/routing"] | undefined }} props */
function Providers({ config, routing }) {
  const [choices, choose] = useChoices();
  const rows = config.providers.map((/** @type {any} */ provider) => {
    const own = (routing?.upstreams ?? []).filter((upstream) => upstream.upstream.startsWith(`${provider.provider}/`));
    const out = own.filter((upstream) => upstream.breaker !== "closed" || upstream.cooling_down_s !== null);
    return { ...provider, flight: own.reduce((sum, upstream) => sum + upstream.in_flight, 0), out };
  });
  const columns = [
    { name: "provider", title: "Provider", cell: (/** @type {any} */ row) => row.provider, order: (/** @type {any} */ row) => row.provider },
    {
      name: "on",
      title: "State",
      cell: (/** @type {any} */ row) => (row.on ? html`<span class="good">● on${row.simulated ? ", simulated" : ""}</span>` : html`<span class="quiet">○ off</span>`),
      order: (/** @type {any} */ row) => (row.on ? 0 : 1),
    },
    { name: "host", title: "Host", cell: (/** @type {any} */ row) => html`<span class="mono">${row.simulated ? "–" : (row.host ?? "–")}</span>` },
    { name: "keys", title: "Keys", number: true, cell: (/** @type {any} */ row) => row.keys, order: (/** @type {any} */ row) => row.keys },
    { name: "flight", title: "In flight", number: true, cell: (/** @type {any} */ row) => row.flight, order: (/** @type {any} */ row) => row.flight },
    { name: "why", title: "Why it is off, and what is left out", cell: (/** @type {any} */ row) => [row.on ? "" : row.why_off, ...row.out.map((/** @type {any} */ upstream) => `${upstream.upstream}: ${upstream.breaker === "closed" ? "cools down" : `breaker ${upstream.breaker}`}`)].filter(Boolean).join("; ") || "–" },
  ];
  return html`<${Table} of="ConfiguredProvider" caption="Providers of the configuration" columns=${columns} rows=${rows} id=${(/** @type {any} */ row) => row.provider}
    sort=${choices.get("sort") ?? "on"} onSort=${(/** @type {string} */ sort) => choose({ sort })} />`;
}

/** @param {{ config: Api.Configuration, again: () => void }} props */
function Configuration({ config, again }) {
  const [said, say] = useState(/** @type {{ ok: boolean, text: string } | null} */ (null));
  const [busy, setBusy] = useState(false);
  /** @param {string} path */
  const reload = async (path) => {
    setBusy(true);
    try {
      await send(path, { method: "POST" });
      say({ ok: true, text: "The new configuration is in force." });
    } catch (error) {
      say({ ok: false, text: error instanceof Error ? error.message : String(error) });
    }
    setBusy(false);
    again();
  };
  const facts = [["File", config.source], ["Listens on", config.server.listen.join(", ")], ["History", `${config.store}, kept ${config.retention}`], ["Catalogue of models", config.catalogue], ["Users", config.users.length ? config.users.map((/** @type {any} */ user) => `${user.user}${user.role === "user" ? "" : ` (${user.role})`}`).join(", ") : "none: this machine alone"]];
  return html`<h2>Configuration</h2>
    <dl class="facts wide">${facts.map(([name, value]) => html`<div class="fact"><dt>${name}</dt><dd class="small">${value}</dd></div>`)}</dl>
    ${config.problems && html`<div class="note bad" role="alert"><strong>The file on disk is not in force:</strong> the configuration before it goes on.<pre>${config.problems}</pre>
      ${config.accept && reloads() && html`<p class="filters"><button type="button" onClick=${() => reload(config.accept?.replace("POST ", "") ?? "")} disabled=${busy}>Accept what it drops</button></p>`}</div>`}
    ${config.warnings.length > 0 && html`<ul class="note warn">${config.warnings.map((/** @type {string} */ warning) => html`<li>${warning}</li>`)}</ul>`}
    ${reloads() && html`<p class="filters"><button type="button" onClick=${() => reload("/api/reload")} disabled=${busy}>${busy ? "Reading …" : "Read the file again"}</button></p>`}
    ${said && html`<div class=${`note ${said.ok ? "good" : "bad"}`} role="status">${said.ok ? said.text : html`<pre>${said.text}</pre>`}</div>`}`;
}
