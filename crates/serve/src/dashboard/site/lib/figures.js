// Numbers and times as text. What is shown may be rounded; the element's value and title have every digit of the API.
import { html } from "./html.js";

/** Three digits that matter, without an exponent. @param {number} value */
export function short(value) {
  const size = Math.abs(value);
  if (size !== 0 && size < 0.001) return value.toPrecision(2);
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return value.toLocaleString("en-US", { maximumFractionDigits: digits });
}

/** A number with every digit in its title.
 * @param {{ value: number | null | undefined, unit?: string, sign?: string, about?: string }} props */
export function Figure({ value, unit = "", sign = "", about }) {
  if (value === null || value === undefined) return html`<span class="quiet" title=${about ?? "not known"}>–</span>`;
  return html`<data value=${String(value)} title=${`${about ? `${about}: ` : ""}${sign}${value}${unit ? ` ${unit}` : ""}`}>${sign}${short(value)}</data>`;
}

/** A quantile of a group: `>` where the data say only that it is later, as in \`stats\`.
 * @param {{ group: Record<string, any>, name: string }} props */
export function Quantile({ group, name }) {
  const over = group[`${name.replace(/_ms$/, "")}_over_ms`];
  if ((group[name] ?? null) === null && over !== undefined) {
    return html`<${Figure} value=${over} unit="ms" sign=">" about="not reached; later than" />`;
  }
  return html`<${Figure} value=${group[name]} unit="ms" />`;
}

/** Costs that are bounds get a `~` or a `>`, as in \`stats\`.
 * @param {{ value: number | null | undefined, basis: string, least?: number | null, most?: number | null }} props */
export function Cost({ value, basis, least, most }) {
  const known = value ?? least;
  if (known === null || known === undefined) return html`<span class="quiet" title=${basis}>–</span>`;
  const sign = value === null || value === undefined ? ">" : ["reported", "computed"].includes(basis) ? "" : "~";
  const range = least !== undefined && most !== undefined ? `; from ${least ?? "?"} to ${most ?? "?"} USD` : "";
  return html`<data value=${String(known)} title=${`${sign}${known} USD, ${basis}${range}`}>${sign}$${dollars(known)}</data>`;
}

/** @param {number} usd */
export function dollars(usd) {
  const size = Math.abs(usd);
  if (size === 0 || size >= 100) return usd.toLocaleString("en-US", { maximumFractionDigits: size === 0 ? 0 : 2 });
  if (size >= 0.01) return usd.toLocaleString("en-US", { maximumFractionDigits: 4 });
  return usd.toFixed(Math.min(12, 2 - Math.floor(Math.log10(size))));
}

/** @param {number | null | undefined} share */
export function percent(share) {
  return share === null || share === undefined ? "–" : `${short(share * 100)} %`;
}

/** UTC, as everywhere in the API. @param {number} micros since 1970 */
export function moment(micros) {
  return new Date(micros / 1000).toISOString().replace("T", " ").slice(0, 19);
}

/** @param {number | null | undefined} seconds */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 60) return `${short(seconds)} s`;
  if (seconds < 3600) return `${short(seconds / 60)} min`;
  return seconds < 172_800 ? `${short(seconds / 3600)} h` : `${short(seconds / 86_400)} d`;
}

/** The place of a name among all: its colour, dash and mark. @param {string[]} names @param {string} name */
export function style(names, name) {
  const at = Math.max(0, names.indexOf(name));
  return { colour: at % 8, dash: ["", "7 3", "2 3", "9 3 2 3", "4 2", "1 4", "12 4", "5 2 1 2"][(at + Math.floor(at / 8)) % 8] };
}
