// What limits allow, what is used of each and when it comes back: bars of the levels that `/api/me` and the lists of users have.
import { html } from "./html.js";
import { dollars, short } from "./figures.js";
import { Table } from "./table.js";

const NANO = 1e9;

/** @param {{ levels: any[] }} props */
export function Limits({ levels }) {
  const rows = levels.flatMap((level) => barsOf(level).map((bar) => ({ ...bar, level: nameOf(level) })));
  const models = levels.filter((level) => level.models || level.deny);
  const columns = [
    { name: "level", title: "Of", cell: (/** @type {any} */ row) => row.level },
    { name: "what", title: "Limit", cell: (/** @type {any} */ row) => row.what },
    { name: "used", title: "Used", wide: true, cell: (/** @type {any} */ row) => html`<meter min="0" max=${row.limit || 1} high=${row.limit * 0.8} value=${row.used} aria-label=${`${row.what} of ${row.level}`}></meter> ${row.text}` },
    { name: "left", title: "Left", number: true, cell: (/** @type {any} */ row) => row.left },
    { name: "back", title: "Back (UTC)", cell: (/** @type {any} */ row) => row.back },
  ];
  return html`<h2>Limits</h2>
    ${rows.length === 0 && models.length === 0 && html`<p class="quiet">There are none.</p>`}
    ${rows.length > 0 && html`<${Table} caption="What each limit allows, and what is used of it" columns=${columns} rows=${rows} id=${(/** @type {any} */ row) => `${row.level} ${row.what}`} />`}
    ${models.map((level) => html`<p class="quiet">${nameOf(level)}: ${level.models ? `only ${level.models.join(", ")}` : "all models"}${level.deny?.length ? `, not ${level.deny.join(", ")}` : ""}</p>`)}`;
}

/** @param {any} level */
const nameOf = (level) => (level.level === "everybody" ? "everybody" : `${level.level} ${level.name}`);

/** Each limit of a level as a bar. @param {any} level */
function barsOf(level) {
  const rate = (/** @type {any} */ of, /** @type {string} */ what) => of && { what, limit: of.per_minute, used: Math.max(0, of.per_minute - of.left), text: `${short(Math.max(0, of.per_minute - of.left))} of ${short(of.per_minute)}`, left: short(of.left), back: of.full_in_ms > 0 ? `in ${short(of.full_in_ms / 1000)} s` : "–" };
  const budget = (/** @type {any} */ of) => ({ what: `USD, ${of.span}`, limit: of.budget_nano_usd / NANO, used: (of.spent_nano_usd + of.reserved_nano_usd) / NANO, text: `$${dollars((of.spent_nano_usd + of.reserved_nano_usd) / NANO)} of $${dollars(of.budget_nano_usd / NANO)}`, left: `$${dollars(of.left_nano_usd / NANO)}`, back: `${of.ends_at ?? "never"}${of.runs_out_at ? `; runs out ${of.runs_out_at}` : ""}` });
  const { streams } = level;
  return [
    rate(level.requests, "requests a minute"), rate(level.tokens, "tokens a minute"),
    streams && { what: "requests at once", limit: streams.limit, used: streams.running, text: `${streams.running} of ${streams.limit}`, left: Math.max(0, streams.limit - streams.running), back: "–" },
    ...level.budgets.map(budget),
  ].filter(Boolean);
}
