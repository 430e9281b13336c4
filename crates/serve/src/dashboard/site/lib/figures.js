// Numbers and times as text. What is shown may be rounded; the element's value and title have every digit of the API.
import { html } from "./html.js";

/** Three digits that matter, without an exponent. @param {number} value */
export function short(value) {
  const size = Math.abs(value);
  if (size !== 0 && size < 0.001) return Number(value.toPrecision(2)).toFixed(Math.min(12, 1 - Math.floor(Math.log10(size))));
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

/** What something cost: an amount, or the bounds of it, as in \`stats\`.
 * @param {{ least: number | null | undefined, most: number | null | undefined }} props */
export function Cost({ least, most }) {
  if (least === null || least === undefined) return html`<span class="quiet" title="no price is known">unknown</span>`;
  return html`<data value=${String(least)} title=${`from ${least} to ${most ?? "?"} USD`}>${costText(least, most)}</data>`;
}

/** With the digits that it can bear: as \`Cost\` of the program writes it. @param {number | null | undefined} least @param {number | null | undefined} most */
export function costText(least, most) {
  if (least === null || least === undefined) return "unknown";
  if (most === null || most === undefined) return `$${dollars(least)} or more`;
  // Two digits of what is uncertain, and three of the amount.
  const decimals = Math.min(decimalsFor(most - least, 2), Math.max(2, decimalsFor(most, 3)));
  const [low, high] = [least, most].map((usd) => amount(usd, decimals === 1 ? 2 : decimals));
  return low === high ? `$${dollars(most)}` : `$${low}–${high}`;
}

const DECIMALS = 12;

/** Decimals with which an amount has this number of digits. @param {number} usd @param {number} digits */
function decimalsFor(usd, digits) {
  let decimals = 0;
  // A difference of two decimal numbers may be a little less than it is.
  while (decimals < DECIMALS && usd * 10 ** decimals < 10 ** (digits - 1) * (1 - 1e-9)) decimals += 1;
  return decimals;
}

/** @param {number} usd @param {number} decimals */
function amount(usd, decimals) {
  const power = 10 ** decimals;
  if (Math.round(usd * power) === 0) return "0";
  return (Math.round(usd * power) / power).toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

/** A share of a sum, by the bounds of both; empty where nothing can be said.
 * @param {{ least: number | null, most: number | null }} part @param {{ least: number | null, most: number | null }} rest */
export function shareOf(part, rest) {
  if (part.least === null || part.most === null || rest.least === null || rest.most === null || part.most + rest.least <= 0) return "";
  const [low, high] = [part.least + rest.most > 0 ? part.least / (part.least + rest.most) : 0, part.most / (part.most + rest.least)].map(percent);
  return low === high ? low : `${low} to ${high}`;
}

/** Two digits that matter below a dollar, cents above, dollars from a thousand on. @param {number} usd */
export function dollars(usd) {
  const text = amount(usd, usd >= 1000 ? 0 : Math.max(2, decimalsFor(usd, 2)));
  return text.replace(/(\.\d\d\d*?)0+$/, "$1");
}

/** A rate in the unit in which it is 1 or more. @param {number} second */
export function rate(second) {
  if (second === 0) return "0 /s";
  const [times, unit] = [[1, "s"], [60, "min"], [3600, "h"], [86_400, "day"]].find(([times]) => second * Number(times) >= 1) ?? [86_400 * 30, "30 days"];
  return `${short(second * Number(times))} /${unit}`;
}

/** @param {number | null | undefined} share */
export function percent(share) {
  if (share === null || share === undefined) return "–";
  const hundred = share * 100;
  // Two digits; more where a share close to all of it would become all.
  const text = hundred === 0 ? "0" : Math.abs(hundred) < 10 ? short(Number(hundred.toPrecision(2))) : hundred > 99 && hundred < 100 ? String(Math.floor(hundred * 100) / 100) : Math.round(hundred).toLocaleString("en-US");
  return `${text} %`;
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

/** What the marks of figures say, with an example: once on a page. */
export function Marks() {
  return html`<p class="caption marks">~182: few samples. >240: later than 240 ms, because attempts were cut off before (a loser that was cancelled after 240 ms had not answered by then). –: not known. Between the bounds, or in the shaded band, lies the truth in 95 of 100 such cases.</p>`;
}

/** What racing gained over the best upstream alone, or why that is not known. @param {{ one: Api.ModelComparison, at: "p50" | "p95" }} props */
export function Gained({ one, at }) {
  const [value, low, high] = [one[`gain_${at}_ms`], one[`gain_${at}_low_ms`], one[`gain_${at}_high_ms`]];
  if (value === null || low === null || high === null) {
    const least = [...one.upstreams].filter((upstream) => upstream[`ttft_${at}_ms`] === null).sort((a, b) => a.looks - b.looks)[0];
    return html`<span class="quiet">not known yet${least ? `: ${least.upstream} has ${least.looks} ${least.looks === 1 ? "look" : "looks"}, and ${one[`needed_${at}`]} of each are needed` : ""}</span>`;
  }
  const bounds = low < 0 === high < 0 ? `${short(Math.min(Math.abs(low), Math.abs(high)))} to ${short(Math.max(Math.abs(low), Math.abs(high)))} ms` : `between ${short(Math.abs(low))} ms lost and ${short(Math.abs(high))} ms gained`;
  if (one[`verdict_${at}`] === "unknown") return html`<span class="quiet">not known yet: ${bounds}</span>`;
  return html`<strong>${one[`verdict_${at}`]} <${Figure} value=${Math.abs(value)} unit="ms" /> ms</strong> <span class="quiet">(${bounds})</span>`;
}
