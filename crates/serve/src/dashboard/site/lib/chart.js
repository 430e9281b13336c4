// What the charts share: the width of their place, scales, axes and legends.
import { html, useEffect, useRef, useState } from "./html.js";
import { short, style } from "./figures.js";

/** The width of an element in pixels, followed as it changes. @returns {[{ current: HTMLElement | null }, number]} */
export function useWidth() {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const [width, set] = useState(0);
  useEffect(() => {
    if (!place.current) return;
    const watch = new ResizeObserver(([entry]) => set(Math.floor(entry.contentRect.width)));
    watch.observe(place.current);
    return () => watch.disconnect();
  }, []);
  return [place, width];
}

/** A step of 1, 2 or 5 times a power of ten, so that about so many fit. @param {number} most @param {number} about */
export function ticks(most, about) {
  if (!(most > 0)) return [0];
  const rough = most / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough) ?? rough;
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, place) => Number((place * step).toPrecision(12)));
}

/** @param {number} ms */
export function time(ms) {
  return ms >= 1000 ? `${short(ms / 1000)} s` : `${short(ms)} ms`;
}

/** The names of a chart with their line and mark. @param {{ names: string[], all?: string[] }} props */
export function Legend({ names, all = names }) {
  return html`<ul class="legend">${names.map((name) => {
    const { colour, dash } = style(all, name);
    return html`<li><svg viewBox="0 0 42 14" aria-hidden="true"><line x1="1" x2="41" y1="7" y2="7" class=${`line c${colour}`} stroke-dasharray=${dash} /></svg>
      <strong>${letter(all, name)}</strong> <span class="mono">${name}</span></li>`;
  })}</ul>`;
}

/** Lines of one chart: readers cannot tell more apart. */
const DRAWN = 12;

/** The names with the largest weight, in their own order. @param {string[]} names @param {(name: string) => number} weight */
export function heaviest(names, weight) {
  const kept = new Set([...names].sort((a, b) => weight(b) - weight(a)).slice(0, DRAWN));
  return names.filter((name) => kept.has(name));
}

/** A letter for each name, which is at its line too. @param {string[]} names @param {string} name */
export function letter(names, name) {
  const at = names.indexOf(name);
  return at < 26 ? String.fromCharCode(65 + at) : `${String.fromCharCode(64 + Math.floor(at / 26))}${String.fromCharCode(65 + (at % 26))}`;
}
