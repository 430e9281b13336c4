// The distribution of TTFT as a curve that rises, with its band, and ticks where attempts were cut off.
import { html } from "./html.js";
import { letter, ticks, time, useWidth } from "./chart.js";
import { style } from "./figures.js";

/** @typedef {{ upstream: string, ttft_samples: number, censored: number, ttft_effective: number,
 *   points: { ms: number, waiting: number, low: number | null, high: number | null, at_risk: number, events: number, cut: number }[],
 *   seen_alone: { ms: number, waiting: number }[] }} Curve */

const HEIGHT = 320;

/** @param {{ curves: Curve[], names: string[], alone: boolean }} props */
export function Curves({ curves, names, alone }) {
  const [place, width] = useWidth();
  const most = Math.max(1, ...curves.flatMap((curve) => curve.points.map((point) => point.ms)));
  const inner = Math.max(100, width - 70);
  const x = (/** @type {number} */ ms) => 44 + (ms / most) * inner;
  const y = (/** @type {number} */ waiting) => 10 + waiting * (HEIGHT - 46);
  const said = curves.map((curve) => `${curve.upstream}: ${curve.ttft_samples} first tokens, ${curve.censored} cut off`).join("; ");
  return html`<div class="chart" ref=${place}>${width > 0 && html`<svg width=${width} height=${HEIGHT} viewBox=${`0 0 ${width} ${HEIGHT}`} role="img" aria-label=${`Share of attempts with a first token by time. ${said}`}>
    ${[0, 0.25, 0.5, 0.75, 1].map((share) => html`<g><line class="grid" x1="44" x2=${44 + inner} y1=${y(1 - share)} y2=${y(1 - share)} />
      <text x="38" y=${y(1 - share) + 4} text-anchor="end">${share * 100} %</text></g>`)}
    ${ticks(most, Math.max(2, inner / 100)).map((at) => html`<g><line class="grid" x1=${x(at)} x2=${x(at)} y1=${y(0)} y2=${y(1)} /><text x=${x(at)} y=${HEIGHT - 14} text-anchor="middle">${time(at)}</text></g>`)}
    ${curves.map((curve) => html`<${One} key=${curve.upstream} curve=${curve} names=${names} x=${x} y=${y} alone=${alone} />`)}
  </svg>`}</div>`;
}

/** @param {{ curve: Curve, names: string[], x: (ms: number) => number, y: (waiting: number) => number, alone: boolean }} props */
function One({ curve, names, x, y, alone }) {
  const { colour, dash } = style(names, curve.upstream);
  const points = curve.points;
  const last = points.at(-1);
  if (!last) return null;
  const banded = points.filter((point) => point.low !== null && point.high !== null);
  const band = `${steps(banded.map((point) => ({ ms: point.ms, waiting: point.high ?? 0 })), x, y)} ${banded.length ? back(banded, x, y) : ""}`;
  return html`<g>
    ${banded.length > 1 && html`<path class=${`band f${colour}`} d=${band} />`}
    <path class=${`line c${colour}`} stroke-dasharray=${dash} d=${steps([{ ms: 0, waiting: 1 }, ...points], x, y)} />
    <path class=${`c${colour}`} d=${points.filter((point) => point.cut > 0).map((point) => `M${x(point.ms).toFixed(1)} ${(y(point.waiting) - 5).toFixed(1)}v10`).join("")} />
    ${alone && curve.seen_alone.length > 0 && html`<path class=${`line alone c${colour}`} d=${steps([{ ms: 0, waiting: 1 }, ...curve.seen_alone], x, y)} />`}
    <text x=${x(last.ms) + 5} y=${y(last.waiting) + 4}>${letter(names, curve.upstream)}</text>
  </g>`;
}

/** @param {{ ms: number, waiting: number }[]} points @param {(ms: number) => number} x @param {(waiting: number) => number} y */
function steps(points, x, y) {
  return points.map((point, at) => (at === 0 ? `M${x(point.ms)} ${y(point.waiting)}` : `H${x(point.ms).toFixed(1)}V${y(point.waiting).toFixed(1)}`)).join("");
}

/** The lower edge of the band, from right to left. @param {any[]} points @param {(ms: number) => number} x @param {(waiting: number) => number} y */
function back(points, x, y) {
  let path = "";
  for (let at = points.length - 1; at >= 0; at -= 1) {
    path += `L${x(points[at].ms).toFixed(1)} ${y(points[at].low).toFixed(1)}`;
    if (at > 0) path += `L${x(points[at].ms).toFixed(1)} ${y(points[at - 1].low).toFixed(1)}`;
  }
  return `${path}Z`;
}
