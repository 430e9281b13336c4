// Keys of users: make one, see it once, what it used, take it back; and what each user, team, key or model used.
import { html, useState } from "../lib/html.js";
import { useChoices } from "../lib/address.js";
import { send, useApi } from "../lib/api.js";
import { Cost, costText, Figure } from "../lib/figures.js";
import { Choice, Filters, windowOf } from "../lib/filters.js";
import { Limits } from "../lib/limits.js";
import { changesKeys, changesOthers, reloads, who } from "../lib/session.js";
import { Answer, Source } from "../lib/states.js";
import { Table, useNumbers } from "../lib/table.js";

const BY = [["user", "user"], ["team", "team"], ["key", "key"], ["model", "model"], ["tag", "tag"], ["day", "day"]];

export function Keys() {
  const [choices, choose] = useChoices();
  const by = choices.get("use") ?? "user";
  const after = choices.get("after") ?? "";
  const keys = useApi("/api/keys", { after, limit: "1000" }, 30);
  const users = useApi("/api/users", {}, 30);
  const teams = useApi("/api/teams", {}, 30);
  const used = useApi("/api/usage", { ...windowOf(choices), by: "key" }, 30);
  const usage = useApi("/api/usage", { ...windowOf(choices), by }, 30);
  const plain = (/** @type {any} */ user) => reloads() || user.name === who() || (user.role ?? "user") === "user";
  const names = (users.data?.users ?? []).filter(plain).map((/** @type {any} */ user) => user.name);
  const sort = (/** @type {string} */ name) => ({ sort: choices.get(name) ?? "", onSort: (/** @type {string} */ by) => choose({ [name]: by }) });
  return html`<h1>Keys</h1>
    <${Answer} asked=${users}>${users.data && changesOthers() && (names.length ? html`<${NewKey} users=${names} again=${keys.again} />` : html`<p class="note">The configuration has no users, so no key is needed. Give it a user with <code>role = "admin"</code> first.</p>`)}<//>
    <${Answer} asked=${keys}>${keys.data && html`<${Listed} keys=${keys.data.keys} groups=${used.data?.groups ?? []} again=${keys.again} range="the range below" ...${sort("sort")} /><${Pages} after=${after} next=${keys.data.next} onPage=${(/** @type {string} */ after) => choose({ after })} />`}<//>
    ${(users.data?.next || teams.data?.next) && html`<p class="note">Below are the limits of the first users and teams, by name, and of the keys above. All of them: <code>photofinish user list --json</code>.</p>`}
    <${Answer} asked=${teams}>${teams.data && users.data && html`<${Limits} levels=${[...teams.data.teams, ...users.data.users, ...(keys.data?.keys ?? [])].map((one) => one.standing).filter(Boolean)} />`}<//>
    <h2>Usage</h2>
    <${Filters} source=${false}><${Choice} name="use" title="By" values=${BY} usual="user" /><//>
    <${Answer} asked=${usage} empty=${usage.data?.total.attempts === 0}>${usage.data && html`<${Used} by=${by} usage=${usage.data} ...${sort("order")} /><${Source} rolled=${usage.rolled} />`}<//>`;
}

/** To the next page of a list, and back to its first. @param {{ after: string, next: string | null, onPage: (after: string) => void }} props */
function Pages({ after, next, onPage }) {
  return (after || next) && html`<p class="filters">${after && html`<button type="button" onClick=${() => onPage("")}>First page</button>`}${next && html`<button type="button" onClick=${() => onPage(next)}>Next page</button>`}</p>`;
}

/** @param {{ users?: string[], again: () => void }} props Without `users` it is a key of one's own. */
export function NewKey({ users, again }) {
  const [made, setMade] = useState(/** @type {{ key?: string, text?: string }} */ ({}));
  const [busy, setBusy] = useState(false);
  const make = async (/** @type {any} */ event) => {
    event.preventDefault();
    const form = event.currentTarget;
    const [user, name, expires] = ["user", "name", "expires"].map((field) => form.elements.namedItem(field)?.value.trim());
    setBusy(true);
    try {
      const answer = await send("/api/keys", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ user, name, expires: expires || undefined }) });
      setMade({ key: (await answer.json()).key });
      form.reset();
    } catch (error) {
      setMade({ text: error instanceof Error ? error.message : String(error) });
    }
    setBusy(false);
    again();
  };
  return html`<form onSubmit=${make}><div class="filters">
      ${users && html`<label>User<select name="user">${users.map((user) => html`<option value=${user}>${user}</option>`)}</select></label>`}
      <label>What it is for<input name="name" required maxlength="64" autocomplete="off" /></label>
      <label>Lives for<input name="expires" placeholder="90d, for ever" autocomplete="off" /></label>
      <button class="main" type="submit" disabled=${busy}>Make a key</button></div></form>
    ${made.key && html`<${Shown} text=${made.key} seen=${() => setMade({})} />`}
    ${made.text && html`<p class="note bad" role="alert">${made.text}</p>`}`;
}

/** The text of a new key, once. @param {{ text: string, seen: () => void }} props */
function Shown({ text, seen }) {
  return html`<div class="note good" role="status"><strong>It is shown only now:</strong><pre class="command">${text}</pre>
    <p class="filters"><button type="button" onClick=${seen}>I have it</button></p></div>`;
}

/** @param {{ keys: any[], groups: any[], again: () => void, range: string, sort: string, onSort: (sort: string) => void }} props */
export function Listed({ keys, groups, again, range, sort, onSort }) {
  const [asks, ask] = useState("");
  const [problem, tell] = useState("");
  const [text, show] = useState("");
  const used = new Map(groups.map((group) => [group.key, group]));
  const change = async (/** @type {string} */ id, /** @type {string} */ method, /** @type {string} */ what) => {
    try {
      const answer = await (await send(`/api/keys/${encodeURIComponent(id)}${what}`, { method })).json();
      show(answer.key ?? "");
      tell("");
    } catch (error) {
      tell(error instanceof Error ? error.message : String(error));
    }
    ask("");
    again();
  };
  const columns = [
    { name: "name", title: "Key", cell: (/** @type {any} */ row) => html`${row.name} <span class="mono quiet">${row.id}</span>`, order: (/** @type {any} */ row) => row.name },
    { name: "user", title: "User", cell: (/** @type {any} */ row) => row.user, order: (/** @type {any} */ row) => row.user },
    { name: "state", title: "State", cell: (/** @type {any} */ row) => html`<span class=${row.state === "active" ? "good" : "quiet"}>${row.state === "active" ? "● " : "○ "}${row.state}</span>`, order: (/** @type {any} */ row) => row.state },
    { name: "expires_at", title: "Until", cell: (/** @type {any} */ row) => row.expires_at ?? "–", order: (/** @type {any} */ row) => row.expires_at },
    { name: "answers", title: "Answers", number: true, cell: (/** @type {any} */ row) => html`<${Figure} value=${used.get(row.id)?.answers ?? 0} />`, order: (/** @type {any} */ row) => used.get(row.id)?.answers ?? 0 },
    { name: "cost", title: "Cost", number: true, cell: (/** @type {any} */ row) => html`<${Cost} least=${used.get(row.id)?.cost_usd_min ?? 0} most=${used.has(row.id) ? used.get(row.id).cost_usd_max : 0} />`, order: (/** @type {any} */ row) => used.get(row.id)?.cost_usd_min ?? 0 },
    { name: "revoke", title: "Change", cell: (/** @type {any} */ row) => row.state === "active" && (asks === row.id ? html`<button type="button" onClick=${() => change(row.id, "DELETE", "")}>For good</button> <button type="button" onClick=${() => ask("")}>Keep</button>` : html`<button type="button" onClick=${() => ask(row.id)} aria-label=${`Revoke ${row.name}`}>Revoke</button>
      <button type="button" onClick=${() => change(row.id, "POST", "/rotate")} aria-label=${`Rotate ${row.name}`}>Rotate</button>`) },
  ].filter((column) => column.name !== "revoke" || changesKeys());
  if (keys.length === 0) return html`<p class="quiet">No key was made yet.</p>`;
  return html`${problem && html`<p class="note bad" role="alert">${problem}</p>`}${text && html`<${Shown} text=${text} seen=${() => show("")} />`}
    <${Table} of="Key" caption=${`Answers and cost are of ${range}. A key that is rotated counts for 24 hours more`} columns=${columns} rows=${keys} id=${(/** @type {any} */ row) => row.id} sort=${sort} onSort=${onSort} />`;
}

/** @param {{ by: string, usage: any, sort: string, onSort: (sort: string) => void }} props */
function Used({ by, usage, sort, onSort }) {
  const number = useNumbers("UsageGroup");
  const money = (/** @type {string} */ name, /** @type {string} */ title) => ({ name, title, member: `${name}_min`, number: true, cell: (/** @type {any} */ row) => html`<${Cost} least=${row[`${name}_min`]} most=${row[`${name}_max`]} />`, order: (/** @type {any} */ row) => row[`${name}_min`] });
  const columns = [
    { name: by, title: by[0].toUpperCase() + by.slice(1), cell: (/** @type {any} */ row) => row[by] ?? html`<span class="quiet">none</span>`, order: (/** @type {any} */ row) => row[by] },
    number("answers", "Answers"),
    number("attempts", "Attempts"),
    number("output_tokens", "Tokens out"),
    money("cost_usd", "Cost"),
    money("extra_cost_usd", "Racing"),
  ];
  return html`${usage.about_range && html`<p class="note">${usage.about_range}</p>`}<${Table} of="UsageGroup" caption=${`In all ${costText(usage.total.cost_usd_min, usage.total.cost_usd_max)}, of it racing ${costText(usage.total.extra_cost_usd_min, usage.total.extra_cost_usd_max)}`} columns=${columns} rows=${usage.groups} id=${(/** @type {any} */ row) => String(row[by])} sort=${sort} onSort=${onSort} />`;
}
