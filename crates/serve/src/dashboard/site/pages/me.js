// What a user may know of themselves: what they used, each limit and what is left of it, and their keys.
import { html } from "../lib/html.js";
import { link, useChoices } from "../lib/address.js";
import { useApi } from "../lib/api.js";
import { Cost, Figure } from "../lib/figures.js";
import { Limits } from "../lib/limits.js";
import { changesKeys } from "../lib/session.js";
import { Answer } from "../lib/states.js";
import { Listed, NewKey } from "./keys.js";

export function Me() {
  const [choices, choose] = useChoices();
  const me = useApi("/api/me", {}, 15);
  const keys = useApi("/api/keys", { mine: "true" }, 30);
  const used = useApi("/api/usage", { since: "30d", by: "key" }, 60);
  const again = () => {
    keys.again();
    me.again();
  };
  return html`<h1>Me</h1>
    <${Answer} asked=${me}>${me.data && html`<${Facts} me=${me.data} /><${Limits} levels=${me.data.limits} />`}<//>
    <h2>Keys</h2>
    ${changesKeys() && html`<${NewKey} again=${again} />`}
    <${Answer} asked=${keys}>${keys.data && html`<${Listed} keys=${keys.data.keys} groups=${used.data?.groups ?? []} again=${again} range="the last 30 days" sort=${choices.get("sort") ?? ""} onSort=${(/** @type {string} */ sort) => choose({ sort })} />`}<//>
    <p class="more"><a href=${link("races")}>Requests</a><a href=${link("costs")}>Costs</a></p>`;
}

/** @param {{ me: any }} props */
function Facts({ me }) {
  const facts = [["User", me.user], ["Role", me.role], ["Team", me.team ?? "none"], ["Keys that count", me.keys]];
  const spans = [["Today", me.today], ["This month", me.month]].filter(([, used]) => used);
  return html`<dl class="facts">${facts.map(([name, value]) => html`<div class="fact"><dt>${name}</dt><dd>${value}</dd></div>`)}
    ${spans.map(([name, used]) => html`<div class="fact"><dt>${name} (UTC)</dt><dd><${Figure} value=${used.answers} /> answers, <${Cost} least=${used.attempts ? used.cost_usd_min : 0} most=${used.attempts ? used.cost_usd_max : 0} /></dd></div>`)}</dl>
    ${spans.length === 0 && html`<p class="note warn">What was used cannot be read now.</p>`}`;
}
