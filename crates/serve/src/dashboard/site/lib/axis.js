// Scales and ticks: labels that never collide, and an end of the axis that one outlier does not move.

import { clip } from "./names.js";

/** @typedef {{ at: number, px: number, text: string }} Tick */
/** @typedef {{ px: (value: number) => number, value: (px: number) => number, low: number, high: number, log: boolean }} Scale */

/** The width of a text of 12 pixels, rather too wide. @param {string} text */
export function widthOf(text) {
  return [...text].length * 7.7 + 8;
}

/** @param {number} low @param {number} high @param {number} from @param {number} to pixels @param {boolean} [log] @returns {Scale} */
export function scale(low, high, from, to, log = false) {
  const own = log ? Math.max(low, high / 1e6, 1e-12) : low;
  const f = log ? Math.log : (/** @type {number} */ value) => value;
  const span = f(high) - f(own) || 1;
  return {
    low: own, high, log,
    px: (value) => from + ((f(Math.max(value, log ? own : value)) - f(own)) / span) * (to - from),
    value: (px) => {
      const at = f(own) + ((px - from) / (to - from || 1)) * span;
      return log ? Math.exp(at) : at;
    },
  };
}

/** Where an axis may end so that a few far values do not squeeze the others, and how many lie beyond. @param {number[]} values */
export function cut(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const most = sorted.at(-1) ?? 0;
  const near = sorted[Math.floor((sorted.length - 1) * 0.95)] ?? 0;
  if (sorted.length < 20 || near <= 0 || most <= near * 2.5) return { high: most, beyond: 0 };
  const high = near * 1.4;
  return { high, beyond: sorted.filter((value) => value > high).length };
}

/** A step of 1, 2 or 5 times a power of ten, so that about `about` fit between both. @param {number} most @param {number} about @param {number} [least] */
export function ticks(most, about, least = 0) {
  if (!(most > least)) return [least];
  const rough = (most - least) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough) ?? rough;
  const first = Math.ceil(least / step - 1e-9);
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 - first }, (_, place) => Number(((first + place) * step).toPrecision(12)));
}

/** @param {Scale} of @param {number} about @returns {number[]} */
export function steps(of, about) {
  if (!of.log) return ticks(of.high, about, of.low);
  /** @type {number[]} */
  const all = [];
  for (let power = 10 ** Math.floor(Math.log10(of.low)); power <= of.high; power *= 10) all.push(power, power * 2, power * 5);
  return all.filter((at) => at >= of.low * 0.999 && at <= of.high * 1.001).map((at) => Number(at.toPrecision(12)));
}

/** Moves labels into a drawing of this width, and leaves out what would touch the one before. @param {Tick[]} all @param {number} width */
export function apart(all, width) {
  let end = -Infinity;
  return all.flatMap((tick) => {
    const half = widthOf(tick.text) / 2;
    const px = Math.max(half, Math.min(tick.px, width - half));
    if (px - half < end) return [];
    end = px + half;
    return [{ ...tick, px }];
  });
}

const SPANS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 1_209_600, 2_419_200, 7_257_600, 31_536_000];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** @param {number} seconds since 1970 @param {boolean} [year] */
export function dayOf(seconds, year = false) {
  const date = new Date(seconds * 1000);
  return `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}${year ? ` ${date.getUTCFullYear()}` : ""}`;
}

/** @param {number} seconds since 1970 */
export function clockOf(seconds) {
  return new Date(seconds * 1000).toISOString().slice(11, seconds % 60 === 0 ? 16 : 19);
}

/** Ticks at whole times of UTC, and below them the day, where it begins. @param {Scale} of @param {number} room pixels @param {number} width of the drawing @returns {{ times: Tick[], days: Tick[] }} */
export function dates(of, room, width) {
  const fits = Math.max(1, room / 64);
  const step = SPANS.find((span) => (of.high - of.low) / span <= fits) ?? SPANS[SPANS.length - 1];
  const whole = step >= 86_400;
  /** @type {Tick[]} */
  const times = [];
  for (let at = Math.ceil(of.low / step) * step; at <= of.high; at += step) times.push({ at, px: of.px(at), text: whole ? dayOf(at) : clockOf(at) });
  const days = times.filter(({ at }, place) => place === 0 || (whole ? new Date(at * 1000).getUTCFullYear() !== new Date(times[place - 1].at * 1000).getUTCFullYear() : at % 86_400 === 0))
    .map((tick) => ({ ...tick, text: whole ? String(new Date(tick.at * 1000).getUTCFullYear()) : dayOf(tick.at, true) }));
  // The day of the first tick gives way to one that begins close after it.
  if (days.length > 1 && days[1].px - days[0].px < (widthOf(days[0].text) + widthOf(days[1].text)) / 2) days.shift();
  return { times: apart(times, width), days: apart(days, width) };
}

/** Moves labels apart that would overlap, within these bounds. @template {{ y: number }} T @param {T[]} labels @param {number} gap @param {number} low @param {number} high @returns {T[]} */
export function spread(labels, gap, low, high) {
  const sorted = [...labels].sort((a, b) => a.y - b.y).map((label) => ({ ...label }));
  sorted.forEach((label, at) => {
    label.y = Math.max(label.y, at === 0 ? low : sorted[at - 1].y + gap);
  });
  for (let at = sorted.length - 1; at >= 0; at -= 1) {
    const most = at === sorted.length - 1 ? high : sorted[at + 1].y - gap;
    sorted[at].y = Math.min(sorted[at].y, most);
  }
  return sorted;
}

/** Puts a label next to each point, on the side with room, and below those that it would touch; what finds no room above `bottom` is left out.
 * @template {{ px: number, y: number, text: string }} T @param {T[]} points @param {number} width of the drawing @param {number} bottom @returns {(T & { left: number })[]} */
export function beside(points, width, bottom) {
  /** @type {(T & { left: number, right: number })[]} */
  const placed = [];
  for (const point of [...points].sort((a, b) => a.y - b.y)) {
    const room = Math.max(point.px, width - point.px) - 12;
    const text = clip(point.text, Math.min(24, (room - 8) / 7.7));
    const left = point.px + 12 + widthOf(text) > width ? point.px - 12 - widthOf(text) : point.px + 12;
    const label = { ...point, text, left, right: left + widthOf(text) };
    const touched = () => placed.find((other) => other.left < label.right && label.left < other.right && Math.abs(other.y - label.y) < 16);
    for (let other = touched(); other; other = touched()) label.y = other.y + 16;
    placed.push(label);
  }
  return placed.filter((label) => label.y <= bottom);
}
