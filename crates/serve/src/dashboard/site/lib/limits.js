// What limits allow, what is used of each and when it comes back: bars of the levels that `/api/me` and the lists of users have. It knows no
// kind of limit: each is shown as it comes, those that nothing uses up in words.
import { html } from "./html.js";
import { dollars, short } from "./figures.js";
import { Table } from "./table.js";

const NANO = 1e9;

/** @param {{ levels: any[] }} props */
export function Limits({ levels }) {
  const rows = levels.flatMap((level) => level.uses.map((/** @type {any} */ use) => ({ ...barOf(use), level: nameOf(level) })));
  const words = levels.map((level) => [nameOf(level), wordsOf(level)]).filter(([, text]) => text);
  const columns = [
    { name: "level", title: "Of", cell: (/** @type {any} */ row) => row.level },
    { name: "what", title: "Limit", cell: (/** @type {any} */ row) => row.what },
    { name: "used", title: "Used", wide: true, cell: (/** @type {any} */ row) => html`<meter min="0" max=${row.most || 1} high=${row.most * 0.8} value=${row.used} aria-label=${`${row.what} of ${row.level}`}></meter> ${row.text}` },
    { name: "left", title: "Left", number: true, cell: (/** @type {any} */ row) => row.left },
    { name: "back", title: "Back (UTC)", cell: (/** @type {any} */ row) => row.back },
  ];
  return html`<h2>Limits</h2>
    ${rows.length === 0 && words.length === 0 && html`<p class="quiet">There are none.</p>`}
    ${rows.length > 0 && html`<${Table} caption="What each limit allows, and what is used of it" columns=${columns} rows=${rows} id=${(/** @type {any} */ row) => `${row.level} ${row.what}`} />`}
    ${words.map(([name, text]) => html`<p class="quiet">${name}: ${text}</p>`)}`;
}

/** @param {any} level */
const nameOf = (level) => (level.level === "everybody" ? "everybody" : `${level.level} ${level.name}`);

/** What requests use up of a limit. @param {any} use */
export function barOf({ limit, unit, allowed, used, left, full_in_ms, reserved = 0, ends_at, runs_out_at }) {
  const amount = (/** @type {number} */ value) => (unit === "nano_usd" ? `$${dollars(value / NANO)}` : short(value));
  const what = unit === "nano_usd" ? `${limit}: ${amount(allowed)}` : `${limit}: ${amount(allowed)} ${unit}`;
  const back = full_in_ms > 0 ? `in ${short(full_in_ms / 1000)} s` : unit === "nano_usd" ? ends_at ?? "never" : "–";
  return { what, used: used + reserved, most: used + reserved + left, text: amount(used + reserved), left: amount(left), back: runs_out_at ? `${back}; runs out ${runs_out_at}` : back };
}

/** The settings of a level that no bar shows. @param {any} level @returns {string} */
export function wordsOf({ set, uses }) {
  const has = (/** @type {string} */ key) => uses.some((/** @type {any} */ use) => use.limit.split(".")[0] === key);
  /** @type {(value: any) => string} */
  const words = (value) => (Array.isArray(value) ? value.join(", ") || "none" : value && typeof value === "object" ? Object.entries(value).map(([key, of]) => `${key} ${words(of)}`).join(", ") : String(value));
  return Object.entries(set).filter(([key]) => !has(key)).map(([key, value]) => `${key} = ${words(value)}`).join("; ");
}
