// A table that sorts by its columns. The order is in the address.
import { html, useState } from "./html.js";
import { Figure } from "./figures.js";
import { explained, unitOf, useSchemas } from "./schemas.js";

/**
 * @template R
 * @typedef {object} Column
 * @property {string} name in the address
 * @property {any} title
 * @property {(row: R) => any} cell
 * @property {(row: R) => number | string | null | undefined} [order] none: it does not sort
 * @property {boolean} [number]
 * @property {string} [about] what it is, if `of` of the table does not say it
 * @property {string} [member] of the schema, if it is not `name`
 * @property {boolean} [wide] on a phone it has a line of its own
 */

/** What is made only once somebody opens it: the table behind a chart may have thousands of cells.
 * @param {{ summary: string, children: () => any }} props */
export function Folded({ summary, children }) {
  const [open, setOpen] = useState(false);
  return html`<details onToggle=${(/** @type {any} */ event) => setOpen(event.currentTarget.open)}><summary>${summary}</summary>${open && children()}</details>`;
}

/** @template R
 * @param {{ caption: string, columns: Column<R>[], rows: R[], id: (row: R) => string, sort?: string,
 *   onSort?: (sort: string) => void, of?: string }} props `sort`: the name of a column, with `-` before it from the largest; `of`: the
 *   schema of a row, which says what its members are */
export function Table({ caption, columns, rows, id, sort = "", onSort, of = "" }) {
  const schema = useSchemas()[of];
  const [by, down] = [sort.replace(/^-/, ""), sort.startsWith("-")];
  const order = columns.find((column) => column.name === by)?.order;
  const sorted = order ? [...rows].sort((a, b) => (down ? -1 : 1) * compare(order(a), order(b)) || 0) : rows;
  // Unknown values come last, in either order.
  if (order) sorted.sort((a, b) => Number(order(a) == null) - Number(order(b) == null));
  const head = columns.map((column) => {
    const own = column.name === by;
    const next = own && !down ? `-${column.name}` : column.name;
    const label = html`${column.title}${own ? (down ? " ↓" : " ↑") : ""}`;
    return html`<th role="columnheader" scope="col" class=${column.number ? "number" : ""} title=${column.about ?? explained(schema, column.member ?? column.name)} aria-sort=${own ? (down ? "descending" : "ascending") : undefined}>
      ${column.order && onSort ? html`<button type="button" onClick=${() => onSort(next)}>${label}</button>` : label}
    </th>`;
  });
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}><table role="table">
    <caption>${caption}</caption>
    <thead role="rowgroup"><tr role="row">${head}</tr></thead>
    <tbody role="rowgroup">${sorted.map((row) => html`<tr role="row" key=${id(row)}>${columns.map((column, at) => html`<${at === 0 ? "th" : "td"}
      role=${at === 0 ? "rowheader" : "cell"} scope=${at === 0 ? "row" : undefined} data-label=${at === 0 ? undefined : typeof column.title === "string" ? column.title : column.name} class=${`${column.number ? "number" : at === 0 ? "name" : ""} ${column.wide ? "wide" : ""}`}>${column.cell(row)}<//>`)}</tr>`)}</tbody>
  </table></div>`;
}

/** Columns of numbers with the units of a schema: `number(member, title)`. Microseconds are shown as milliseconds. @param {string} of */
export function useNumbers(of) {
  const schema = useSchemas()[of];
  return (/** @type {string} */ name, /** @type {string} */ title) => {
    const [scale, unit] = name.endsWith("_us") ? [1000, "ms"] : [1, unitOf(schema, name)];
    const value = (/** @type {any} */ row) => (row[name] == null ? null : row[name] / scale);
    return { name, title, number: true, order: value, cell: (/** @type {any} */ row) => html`<${Figure} value=${value(row)} unit=${unit} />` };
  };
}

/** @param {any} a @param {any} b */
function compare(a, b) {
  if (a == null || b == null) return 0;
  return typeof a === "string" ? a.localeCompare(b) : a - b;
}
