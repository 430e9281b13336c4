// What happened: when upstreams failed, were slow, or became slower than in the week before.
import { html } from "../lib/html.js";
import { link, useChoices } from "../lib/address.js";
import { Figure, moment } from "../lib/figures.js";
import { Filters, windowOf } from "../lib/filters.js";
import { incidentsOf, State, useIncidents } from "../lib/incidents.js";
import { Upstream } from "../lib/names.js";
import { Answer } from "../lib/states.js";
import { Table } from "../lib/table.js";

/** The figure over time that shows a kind. @type {Record<string, string>} */
const FIGURE = { failures: "failures", slower: "ttft", week_slower: "ttft", tok_s: "tok_s", week_tok_s: "tok_s" };

export function Incidents() {
  const [choices] = useChoices();
  const window = windowOf(choices);
  const found = useIncidents(window);
  const incidents = incidentsOf(found.data, null);
  const at = (/** @type {number} */ micros) => `${moment(micros).replace(" ", "T")}Z`;
  const races = (/** @type {Api.Incident} */ one) => link("races", { upstream: one.upstream ?? "", since: at(one.began_at - 60e6), until: at((one.ended_at ?? one.last_at) + 60e6) });
  const over = (/** @type {Api.Incident} */ one) => FIGURE[one.kind] && html` <a href=${link("time", { since: "7d", provider: one.upstream?.split("/")[0] ?? "", metric: FIGURE[one.kind] })} aria-label=${`${one.upstream ?? "the gateway"} over 7 days`}>7 days</a>`;
  const seen = [
    { name: "upstream", title: "Upstream", cell: (/** @type {Api.Incident} */ one) => (one.upstream === null ? html`<strong>the gateway</strong> <small class="quiet">${one.upstreams} upstreams</small>` : html`<${Upstream} name=${one.upstream} href=${races(one)} />`) },
    { name: "what", title: "What happened", wide: true, cell: (/** @type {Api.Incident} */ one) => html`${one.words} <a href=${races(one)} aria-label=${`Races of ${one.upstream ?? "the gateway"} from ${one.began}`}>Races</a>${over(one)}` },
    { name: "state", title: "State", cell: (/** @type {Api.Incident} */ one) => html`<${State} one=${one} />` },
    { name: "attempts", title: "Attempts", number: true, cell: (/** @type {Api.Incident} */ one) => html`<${Figure} value=${one.attempts} />` },
  ];
  const unwatched = found.data?.not_watched ?? [];
  return html`<h1>Incidents</h1>
    <${Filters} only=${["provider"]} source=${false} />
    <${Answer} asked=${found} empty=${incidents.length === 0} none="No incident in this range: no upstream failed or was slow for long enough to be sure of it.">
      <${Table} caption="Newest first. An upstream leads to its races of that time." columns=${seen} rows=${incidents.slice(0, 500)} id=${(/** @type {Api.Incident} */ one) => one.incident_id} /><//>
    ${unwatched.length > 0 && html`<p class="quiet">Asked too seldom to be watched for slowness: ${unwatched.slice(0, 12).map((one) => one.upstream).join(", ")}${unwatched.length > 12 ? ` and ${unwatched.length - 12} more` : ""}.</p>`}
    <p>What failed at all: <a href=${link("races", { since: window.since, outcome: "error" })}>races without an answer</a>, and <a href=${link("leaderboard", { since: window.since, sort: "-failure_share" })}>upstreams by their share of failures</a>.</p>`;
}
