// Incidents: of a model's upstreams, over charts and in words.
import { html } from "./html.js";
import { link } from "./address.js";
import { useApi } from "./api.js";
import { Dot, isolated } from "./names.js";

/** Those of the range, newest first. @param {Record<string, string>} window */
export function useIncidents(window) {
  return useApi("/api/incidents", { since: window.since, until: window.until, provider: window.provider }, 60);
}

/** Those of these upstreams, and of the gateway; or of all, without the parts of one of the gateway. @param {Api.IncidentList | undefined} list @param {string[] | null} upstreams */
export function incidentsOf(list, upstreams) {
  return (list?.incidents ?? []).filter((one) => (upstreams === null ? one.part_of === null : one.upstream === null || upstreams.includes(one.upstream)));
}

/** As a chart over time draws them. @param {Api.Incident[]} incidents @returns {import("./plot.js").Incident[]} */
export function drawnIncidents(incidents) {
  return incidents.map((one) => ({ from: one.began_at / 1e6, to: (one.ended_at ?? (one.state === "open" ? Date.now() * 1000 : one.last_at)) / 1e6, text: `${isolated(one.upstream ?? "the gateway")}: ${one.words}`, slow: one.kind !== "failures" }));
}

const SHOWN = 8;

/** @param {{ incidents: Api.Incident[], model?: string, since: string }} props */
export function Happened({ incidents, model = "", since }) {
  if (incidents.length === 0) return html`<p class="quiet">No incident.</p>`;
  const races = (/** @type {Api.Incident} */ one) => link("races", { model, upstream: one.upstream ?? "", since: moment(one.began_at - 60e6), until: moment((one.ended_at ?? one.last_at) + 60e6) });
  return html`<ul class="happened">${incidents.slice(0, SHOWN).map((one) => html`<li key=${one.incident_id}>
      <${State} one=${one} /> ${one.upstream === null ? html`<strong>The gateway</strong>, ${one.upstreams} upstreams` : html`<span class="nowrap"><${Dot} name=${one.upstream} /><strong>${one.upstream}</strong></span>`}: ${one.words}. <a href=${races(one)} aria-label=${`Races of ${one.upstream ?? "the gateway"} from ${one.began}`}>Races</a></li>`)}</ul>
    ${incidents.length > SHOWN && html`<p><a href=${link("incidents", { since })}>All ${incidents.length} incidents</a></p>`}`;
}

/** @param {{ one: Api.Incident }} props */
export function State({ one }) {
  return one.state === "open" ? html`<span class="mark bad">goes on</span>` : one.state === "ended" ? html`<span class="mark">over</span>` : html`<span class="mark warn">end unknown</span>`;
}

/** @param {number} micros */
function moment(micros) {
  return `${new Date(micros / 1000).toISOString().slice(0, 19)}Z`;
}
