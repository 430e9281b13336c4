// A day of an upstream as a strip: what failed in each half hour, and its incidents.
import { html, useState } from "./html.js";
import { useWidth } from "./chart.js";
import { clockOf } from "./axis.js";
import { percent } from "./figures.js";
import { moments } from "./plot.js";

const HEIGHT = 32;
const BAR = 22;

/** @param {{ name: string, from: number, to: number, step: number, points: { at: number, share: number, attempts: number }[], incidents: import("./plot.js").Incident[], open: (at: number) => void }} props seconds */
export function Strip({ name, from, to, step, points, incidents, open }) {
  const [place, width] = useWidth();
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  const cells = Math.max(1, Math.round((to - from) / step));
  const byCell = new Map(points.map((point) => [Math.floor((point.at - from) / step), point]));
  const x = (/** @type {number} */ seconds) => ((Math.min(Math.max(seconds, from), to) - from) / (to - from)) * width;
  const wide = width / cells;
  const described = (/** @type {number} */ cell) => {
    const point = byCell.get(cell);
    const begin = from + cell * step;
    const during = incidents.filter((one) => one.from < begin + step && one.to > begin);
    return `${moments(begin)} to ${clockOf(begin + step)}: ${point ? `${percent(point.share)} of ${Math.round(point.attempts)} attempts failed` : "not asked"}${during.map((one) => `; ${one.text}`).join("")}`;
  };
  const failed = points.reduce((sum, point) => sum + point.share * point.attempts, 0);
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const now = at ?? (event.key === "ArrowLeft" ? cells : -1);
    const next = { ArrowRight: Math.min(cells - 1, now + 1), ArrowLeft: Math.max(0, now - 1), Home: 0, End: cells - 1 }[event.key];
    if (next !== undefined) setAt(next);
    else if (event.key === "Enter" && at !== null) open(from + at * step);
    else return;
    event.preventDefault();
  };
  const cellOf = (/** @type {PointerEvent} */ event) => Math.min(cells - 1, Math.max(0, Math.floor((event.clientX - /** @type {HTMLElement} */ (event.currentTarget).getBoundingClientRect().left) / wide)));
  return html`<div class="chart" ref=${place} tabindex="0" role="slider" aria-label=${`${name}: the last 24 hours, ${Math.round(failed)} failed attempts, ${incidents.length} incidents. Arrow keys read it, Enter opens the races`}
      aria-valuemin="0" aria-valuemax=${cells - 1} aria-valuenow=${at ?? 0} aria-valuetext=${at === null ? "not read yet" : described(at)} title=${at === null ? undefined : described(at)}
      onKeyDown=${keys} onBlur=${() => setAt(null)} onPointerMove=${(/** @type {PointerEvent} */ event) => setAt(cellOf(event))} onPointerLeave=${() => setAt(null)} onClick=${(/** @type {any} */ event) => open(from + cellOf(event) * step)}>
    ${width > 0 && html`<svg width=${width} height=${HEIGHT} viewBox=${`0 0 ${width} ${HEIGHT}`} aria-hidden="true">
      ${Array.from({ length: cells }, (_, cell) => {
    const point = byCell.get(cell);
    const gap = wide > 4 ? 1 : 0;
    const bad = point ? (point.share > 0 ? Math.max(4, point.share * BAR) : 0) : 0;
    return html`<g><rect class=${point ? "calm" : "none"} x=${cell * wide} y=${point ? HEIGHT - BAR : HEIGHT - 4} width=${Math.max(0.5, wide - gap)} height=${point ? BAR : 4} rx="1" />
          ${bad > 0 && html`<rect class=${point && point.share >= 0.25 && point.share * point.attempts > 2.5 ? "down" : "late"} x=${cell * wide} y=${HEIGHT - bad} width=${Math.max(0.5, wide - gap)} height=${bad} />`}
          ${at === cell && html`<rect class="axis" x=${cell * wide} y=${HEIGHT - BAR} width=${Math.max(1, wide - gap)} height=${BAR} />`}</g>`;
  })}
      ${incidents.map((one) => html`<rect class=${`incident ${one.slow ? "slow" : ""}`} x=${x(one.from)} y="2" width=${Math.max(4, x(one.to) - x(one.from))} height="5" rx="1"><title>${one.text}</title></rect>`)}
    </svg>`}
    ${at !== null && html`<p class="hidden" role="status">${described(at)}</p>`}</div>`;
}
