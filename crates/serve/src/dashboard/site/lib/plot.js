// The chart that every page uses: axes, labels at the ends of lines, and a reader that shows the values under the pointer or by arrow keys.
// Series over time are drawn by uPlot on a canvas, other lines as SVG.
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { useWidth } from "./chart.js";
import { apart, beside, clockOf, cut, dates, dayOf, scale, spread, steps, widthOf } from "./axis.js";
import { clip, colour, shortened } from "./names.js";

/** @typedef {[number, number | null]} Point */
/** @typedef {{ name: string, points: Point[], label?: string, hue?: number | string, rough?: Set<number>, band?: [number, number, number][], ticks?: [number, number][], thin?: [number, number][] }} Line `rough`: where samples are few */
/** @typedef {{ from: number, to: number, text: string, slow: boolean }} Incident seconds */
/**
 * @typedef {object} Shape
 * @property {string} about what it shows, in words
 * @property {Line[]} lines
 * @property {"time" | "plain" | "class"} kind of the values across
 * @property {number[]} stops where it can be read, in order
 * @property {(x: number) => string} head of what is read
 * @property {(x: number) => string} [tick]
 * @property {(y: number) => string} text of a value
 * @property {"lines" | "bars" | "points"} [form] bars: the lines of a stop are stacked; points: each line is one, its band its bounds
 * @property {boolean} [step] lines go in steps
 * @property {boolean} [logX]
 * @property {boolean} [logY]
 * @property {number} [from] @property {number} [to] of the values across
 * @property {number} [high] end of the upward axis
 * @property {number} [height]
 * @property {Incident[]} [incidents]
 * @property {(x: number, name: string | null) => void} [open] of a click, or Enter
 * @property {(from: number, to: number) => void} [onRange] of a drag
 */

/** Lines of one chart: readers cannot distinguish more. */
export const MOST = 6;
/** Charts side by side. */
export const MULTIPLES = 24;
const DASHES = ["", "8 3", "2 3", "10 3 2 3", "5 2", "1 4"];

/** @param {Line[]} lines */
function labels(lines) {
  const short = shortened(lines.map((line) => line.name));
  return new Map(lines.map((line) => [line.name, line.label ?? short.get(line.name) ?? line.name]));
}

/** One chart, or one for each line where they are too many. @param {Shape} props */
export function Plots(props) {
  const { lines } = props;
  if (lines.length <= MOST) return html`<${Plot} ...${props} />`;
  const high = props.high ?? cut(lines.flatMap((line) => line.points.flatMap(([, y]) => (y === null ? [] : [y])))).high;
  const short = labels(lines);
  return html`<div class="grid-of">${lines.slice(0, MULTIPLES).map((line) => html`<div key=${line.name}><h3 title=${line.name}><i class=${`dot b${line.hue ?? colour(line.name)}`}></i>${short.get(line.name)}</h3>
    <${Plot} ...${props} lines=${[line]} high=${high} height=${136} about=${`${line.name}: ${props.about}`} /></div>`)}</div>`;
}

/** @param {Shape} props */
export function Plot(props) {
  const { lines, kind, stops, text, height = 296, incidents = [], open, onRange, logX = false, logY = false, step = false, form = "lines" } = props;
  const [place, width] = useWidth();
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  const [on, setOn] = useState(/** @type {string | null} */ (null));
  const [drag, setDrag] = useState(/** @type {{ from: number, to: number } | null} */ (null));
  const [row, setRow] = useState(0);
  const short = useMemo(() => labels(lines), [lines]);
  const values = useMemo(() => (form === "bars" ? stops.map((stop) => heap(lines, stop).at(-1)?.to ?? 0) : lines.flatMap((line) => line.points.flatMap(([, y]) => (y === null ? [] : [y])))), [lines, stops]);
  const wide = width >= 620 && lines.length > 1 && form === "lines";
  const names = wide ? Math.min(176, Math.max(...lines.map((line) => widthOf(short.get(line.name) ?? ""))) + 20) : 12;
  const own = cut(values);
  const high = props.high ?? (logY ? Math.max(1e-12, ...values) : own.high) * 1.06;
  const y = scale(logY ? Math.min(...values.filter((value) => value > 0), high / 10) : 0, high || 1, height - 40, incidents.length > 0 ? 16 : 8, logY);
  const marks = steps(y, height < 200 ? 2 : 6);
  const left = Math.max(32, ...marks.map((value) => widthOf(text(value))));
  const right = Math.max(left + 40, width - names);
  const x = scale(props.from ?? stops[0] ?? 0, props.to ?? stops.at(-1) ?? 1, left, right, logX);
  if (!(x.high > x.low)) Object.assign(x, scale(x.low - 1800, x.low + 1800, left, right));
  const axis = kind === "time" ? dates(x, right - left, width)
    : { times: apart((kind === "class" ? stops : steps(x, Math.max(2, (right - left) / 80))).map((value) => ({ at: value, px: x.px(value), text: props.tick?.(value) ?? String(value) })), width), days: [] };
  const beyond = values.filter((value) => value > y.high).length;
  const read = (/** @type {Line} */ line, /** @type {number} */ stop) => valueAt(line, stop, step);
  const shown = at === null || stops.length === 0 ? null : stops[Math.min(at, stops.length - 1)];
  const readings = shown === null ? [] : lines.flatMap((line) => {
    const value = read(line, shown);
    return value === null ? [] : [{ line, value }];
  });
  if (form === "bars") readings.reverse();
  else readings.sort((a, b) => b.value - a.value);
  const described = (/** @type {Line} */ line, /** @type {number} */ value) => {
    const bounds = form === "points" ? line.band?.find(([at]) => at === shown) : undefined;
    return `${shown !== null && line.rough?.has(shown) ? "~" : ""}${text(value)}${bounds ? ` (${text(bounds[1])} to ${text(bounds[2])})` : ""}`;
  };
  const total = form === "bars" && shown !== null && readings.length > 1 ? text(heap(lines, shown).at(-1)?.to ?? 0) : "";
  const during = shown === null || kind !== "time" ? [] : incidents.filter((one) => one.from < shown + gap(stops) && one.to > shown);
  const nearest = (/** @type {PointerEvent} */ event) => {
    const box = /** @type {HTMLElement} */ (event.currentTarget).getBoundingClientRect();
    const px = event.clientX - box.left + left;
    const up = event.clientY - box.top + y.px(y.high);
    if (form === "points") {
      const far = (/** @type {Line} */ line) => Math.hypot(x.px(line.points[0][0]) - px, y.px(line.points[0][1] ?? 0) - up);
      const one = [...lines].sort((a, b) => far(a) - far(b))[0];
      return { best: Math.max(0, stops.indexOf(one?.points[0][0])), px, name: one?.name ?? null };
    }
    let best = 0;
    stops.forEach((stop, place) => {
      if (Math.abs(x.px(stop) - px) < Math.abs(x.px(stops[best]) - px)) best = place;
    });
    if (form === "bars") {
      const part = heap(lines, stops[best]).find(({ from, to }) => up <= y.px(from) && up >= y.px(to));
      return { best, px, name: part?.line.name ?? null };
    }
    const close = lines.map((line) => ({ name: line.name, off: Math.abs(y.px(Math.min(y.high, read(line, stops[best]) ?? Infinity)) - up) })).sort((a, b) => a.off - b.off)[0];
    return { best, px, name: close && close.off < 24 ? close.name : null };
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const now = at ?? (event.key === "ArrowLeft" ? stops.length : -1);
    const to = { ArrowRight: Math.min(stops.length - 1, now + 1), ArrowLeft: Math.max(0, now - 1), Home: 0, End: stops.length - 1, PageUp: Math.min(stops.length - 1, now + 10), PageDown: Math.max(0, now - 10) }[event.key];
    if (to !== undefined) setAt(to);
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      const next = (row + (event.key === "ArrowDown" ? 1 : lines.length - 1)) % Math.max(1, lines.length);
      setRow(next);
      setOn((readings[next]?.line ?? lines[next])?.name ?? null);
    } else if (event.key === "Enter" && shown !== null) open?.(shown, on);
    else if (event.key === "Escape") {
      setAt(null);
      setOn(null);
    } else return;
    event.preventDefault();
  };
  const ends = spread(lines.flatMap((line) => {
    const last = line.points.findLast(([, value]) => value !== null);
    return last ? [{ line, y: y.px(Math.min(y.high, last[1] ?? 0)) }] : [];
  }), 24, 12, height - 44);
  const said = shown === null ? "" : `${props.head(shown)}: ${readings.map(({ line, value }) => `${line.name} ${described(line, value)}`).join(", ") || "no value"}${total ? `, together ${total}` : ""}${during.map((one) => `; ${one.text}`).join("")}`;
  const legend = lines.length > 1 && !wide && form === "lines";
  const reader = { left: `${left}px`, top: `${y.px(y.high)}px`, width: `${right - left}px`, height: `${height - 40 - y.px(y.high)}px` };
  return html`<div class="plot">
    ${legend && html`<ul class="legend">${lines.map((line, place) => html`<li key=${line.name}><svg viewBox="0 0 24 12" aria-hidden="true"><line x1="0" x2="24" y1="6" y2="6" class=${`line c${line.hue ?? colour(line.name)}`} stroke-dasharray=${DASHES[place % 6]} /></svg>${short.get(line.name)}</li>`)}</ul>`}
    <div class="chart" ref=${place}>${width > 0 && html`
    <svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} aria-hidden="true">
      ${marks.map((value) => html`<g><line class="grid" x1=${left} x2=${right} y1=${y.px(value)} y2=${y.px(value)} /><text x=${left - 8} y=${y.px(value) + 4} text-anchor="end">${text(value)}</text></g>`)}
      ${axis.times.map((one) => html`<text x=${one.px} y=${height - 20} text-anchor="middle">${one.text}</text>`)}
      ${axis.days.map((one) => html`<text x=${one.px} y=${height - 4} text-anchor="middle">${one.text}</text>`)}
      ${incidents.map((one) => html`<rect class=${`incident ${one.slow ? "slow" : ""}`} x=${x.px(Math.max(one.from, x.low))} y="2" width=${Math.max(3, x.px(Math.min(one.to, x.high)) - x.px(Math.max(one.from, x.low)))} height="6"><title>${one.text}</title></rect>`)}
      ${form === "bars" && html`<${Bars} lines=${lines} stops=${stops} x=${x} y=${y} on=${on} />`}
      ${form === "points" && html`<${Dots} lines=${lines} names=${short} x=${x} y=${y} width=${width} on=${on} />`}
      ${form === "lines" && kind !== "time" && lines.map((line, place) => html`<${Drawn} key=${line.name} line=${line} dash=${DASHES[place % 6]} x=${x} y=${y} step=${step} dim=${on !== null && on !== line.name} dots=${stops.length <= 40 && !step} />`)}
      ${values.length === 0 && html`<text x=${(left + right) / 2} y=${height / 2 - 16} text-anchor="middle">no value</text>`}
      ${shown !== null && html`<line class="cross" x1=${x.px(shown)} x2=${x.px(shown)} y1=${y.px(y.high)} y2=${height - 40} />`}
      ${drag && html`<rect class="band fill0" x=${Math.min(drag.from, drag.to)} y=${y.px(y.high)} width=${Math.abs(drag.to - drag.from)} height=${height - 40 - y.px(y.high)} />`}
    </svg>
    ${kind === "time" && html`<div class="canvas" style=${{ ...reader, zIndex: "0" }}><${Canvas} lines=${lines} stops=${stops} width=${right - left} height=${height - 40 - y.px(y.high)} x=${[x.low, x.high]} y=${[y.low, y.high]} log=${logY} on=${on} /></div>`}
    <div class="reader" tabindex="0" role="slider" aria-label=${`${props.about}. Arrow keys read its values${open ? ", Enter opens the races" : ""}`} aria-valuemin="0" aria-valuemax=${Math.max(0, stops.length - 1)} aria-valuenow=${at ?? 0} aria-valuetext=${said || "not read yet"}
      style=${reader} onKeyDown=${keys} onBlur=${() => setAt(null)}
      onPointerMove=${(/** @type {PointerEvent} */ event) => {
    const { best, px, name } = nearest(event);
    setAt(best);
    setOn(name);
    if (drag) setDrag({ from: drag.from, to: px });
  }}
      onPointerDown=${(/** @type {PointerEvent} */ event) => onRange && event.button === 0 && setDrag({ from: nearest(event).px, to: nearest(event).px })}
      onPointerLeave=${() => {
    setAt(null);
    setOn(null);
    setDrag(null);
  }}
      onPointerUp=${(/** @type {PointerEvent} */ event) => {
    const { best, name } = nearest(event);
    if (drag && onRange && Math.abs(drag.to - drag.from) > 8) onRange(x.value(Math.min(drag.from, drag.to)), x.value(Math.max(drag.from, drag.to)));
    else if (event.button === 0 && stops.length > 0) open?.(stops[best], name);
    setDrag(null);
  }}></div>
    ${wide && ends.map(({ line, y: up }) => html`<button type="button" key=${line.name} class=${`end ${on !== null && on !== line.name ? "dim" : ""}`} title=${line.name} style=${{ left: `${right + 6}px`, top: `${up - 12}px`, width: `${names - 6}px` }}
      onMouseEnter=${() => setOn(line.name)} onMouseLeave=${() => setOn(null)} onFocus=${() => setOn(line.name)} onBlur=${() => setOn(null)} onClick=${() => open?.(stops.at(-1) ?? 0, line.name)}><i class=${`dot b${line.hue ?? colour(line.name)}`}></i>${clip(short.get(line.name) ?? "", (names - 20) / 7)}</button>`)}
    ${shown !== null && html`<div class="tip" style=${x.px(shown) > width / 2 ? { right: `${width - x.px(shown) + 12}px`, top: "16px" } : { left: `${x.px(shown) + 12}px`, top: "16px" }}><strong>${props.head(shown)}</strong>
      <ul>${readings.map(({ line, value }) => html`<li key=${line.name} class=${on === line.name ? "on" : ""}><span><i class=${`dot b${line.hue ?? colour(line.name)}`}></i>${clip(short.get(line.name) ?? "", 26)}</span><span>${described(line, value)}</span></li>`)}${total && html`<li><span>together</span><span>${total}</span></li>`}</ul>
      ${readings.length === 0 && html`<div class="quiet">no value</div>`}${during.map((one) => html`<div class="warn">▲ ${one.text}</div>`)}</div>`}
    `}</div>
    ${beyond > 0 && html`<p class="caption">The axis ends at ${text(y.high)} so that the others can be distinguished: ${beyond} ${beyond === 1 ? "value lies" : "values lie"} above.</p>`}
  </div>`;
}

/** @param {Line} line @param {number} stop @param {boolean} step */
function valueAt(line, stop, step) {
  if (!step) return line.points.find(([at]) => at === stop)?.[1] ?? null;
  const before = line.points.findLast(([at]) => at <= stop);
  // Beyond its last point nothing is known.
  return before && stop <= (line.points.at(-1)?.[0] ?? 0) ? before[1] : null;
}

/** What is stacked at a stop, from below. @param {Line[]} lines @param {number} stop */
function heap(lines, stop) {
  let from = 0;
  return lines.map((line) => {
    const part = { line, from, to: from + (valueAt(line, stop, false) ?? 0) };
    from = part.to;
    return part;
  });
}

/** @param {{ lines: Line[], stops: number[], x: import("./axis.js").Scale, y: import("./axis.js").Scale, on: string | null }} props */
function Bars({ lines, stops, x, y, on }) {
  const wide = Math.max(2, Math.min(48, (x.px(1) - x.px(0)) * 0.7));
  return stops.map((stop) => html`<g key=${stop}>${heap(lines, stop).map(({ line, from, to }) => {
    const [low, high] = [y.px(Math.min(from, y.high)), y.px(Math.min(to, y.high))];
    return low - high > 0.2 && html`<rect key=${line.name} class=${`f${line.hue ?? colour(line.name)} ${on !== null && on !== line.name ? "dim" : ""}`} x=${x.px(stop) - wide / 2} y=${high} width=${wide} height=${Math.max(0.5, low - high - 1)} />`;
  })}</g>`);
}

/** @param {{ lines: Line[], names: Map<string, string>, x: import("./axis.js").Scale, y: import("./axis.js").Scale, width: number, on: string | null }} props */
function Dots({ lines, names, x, y, width, on }) {
  const points = lines.flatMap((line) => line.points.flatMap(([at, value]) => (value === null ? [] : [{ line, px: x.px(at), y: y.px(Math.min(value, y.high)), text: names.get(line.name) ?? line.name }])));
  const dim = (/** @type {Line} */ line) => (on !== null && on !== line.name ? "dim" : "");
  return html`${points.map(({ line, px, y: up }) => html`<g key=${line.name} class=${dim(line)}>
      ${line.band?.map(([, low, high]) => html`<line class=${`line c${line.hue ?? colour(line.name)}`} x1=${px} x2=${px} y1=${y.px(Math.min(low, y.high))} y2=${y.px(Math.min(high, y.high))} />`)}
      <circle class=${`f${line.hue ?? colour(line.name)}`} cx=${px} cy=${up} r="6" /></g>`)}
    ${beside(points, width, y.px(y.low)).map((label) => html`<text key=${label.line.name} class=${`strong halo ${dim(label.line)}`} x=${label.left} y=${label.y + 4}>${label.text}</text>`)}`;
}

/** The least distance of two stops. @param {number[]} stops */
function gap(stops) {
  return stops.reduce((least, stop, at) => (at === 0 ? least : Math.min(least, stop - stops[at - 1])), Infinity);
}

/** @param {{ line: Line, dash: string, x: import("./axis.js").Scale, y: import("./axis.js").Scale, step: boolean, dim: boolean, dots: boolean }} props */
function Drawn({ line, dash, x, y, step, dim, dots }) {
  const hue = line.hue ?? colour(line.name);
  const up = (/** @type {number} */ value) => y.px(Math.min(value, y.high)).toFixed(1);
  const over = (/** @type {number} */ at) => x.px(Math.min(at, x.high)).toFixed(1);
  const path = (/** @type {Point[]} */ points) => points.map(([at, value], place) => (value === null ? "" : place === 0 || points[place - 1][1] === null ? `M${over(at)} ${up(value)}` : step ? `H${over(at)}V${up(value)}` : `L${over(at)} ${up(value)}`)).join("");
  const banded = (line.band ?? []).filter(([at]) => at <= x.high);
  const below = banded.flatMap(([at, low], place) => [...(step && place > 0 ? [[at, banded[place - 1][1]]] : []), [at, low]]).reverse();
  const band = banded.length > 1 ? `${path(banded.map(([at, , top]) => [at, top]))}${below.map(([at, low]) => `L${over(at)} ${up(low)}`).join("")}Z` : "";
  return html`<g class=${dim ? "dim" : ""}>
    ${band && html`<path class=${`band f${hue}`} d=${band} />`}
    <path class=${`line c${hue}`} stroke-dasharray=${dash} d=${path(line.points.filter(([at]) => at <= x.high || !step))} />
    ${line.ticks && html`<path class=${`c${hue}`} d=${line.ticks.filter(([at]) => at <= x.high).map(([at, value]) => `M${over(at)} ${(Number(up(value)) - 4).toFixed(1)}v8`).join("")} />`}
    ${line.thin && html`<path class=${`line thin c${hue}`} d=${path(line.thin.filter(([at]) => at <= x.high))} />`}
    ${dots && line.points.map(([at, value]) => value !== null && html`<circle class=${`f${hue}`} cx=${over(at)} cy=${up(value)} r="3.5" />`)}
  </g>`;
}

/** @type {Promise<any> | undefined} */
let loading;

/** uPlot is a script without exports, and only charts over time need it. @returns {Promise<any>} */
function plotter() {
  loading ??= new Promise((done, fail) => {
    const script = document.createElement("script");
    script.src = new URL("../vendor/uplot.js", import.meta.url).href;
    script.onload = () => done(/** @type {any} */ (globalThis).uPlot);
    script.onerror = () => {
      loading = undefined;
      fail(new Error("uPlot did not load"));
    };
    const sheet = document.createElement("link");
    sheet.rel = "stylesheet";
    sheet.href = new URL("../vendor/uplot.css", import.meta.url).href;
    document.head.append(sheet, script);
  });
  return loading;
}

/** The lines alone: axes and labels are text of the page. @param {{ lines: Line[], stops: number[], width: number, height: number, x: [number, number], y: [number, number], log: boolean, on: string | null }} props */
function Canvas({ lines, stops, width, height, x, y, log, on }) {
  const drawn = useRef(/** @type {HTMLDivElement | null} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  const data = useMemo(() => {
    const place = new Map(stops.map((stop, at) => [stop, at]));
    return [stops, ...lines.map((line) => {
      const values = /** @type {(number | null)[]} */ (stops.map(() => null));
      // What lies beyond the axis is drawn at its end.
      for (const [at, value] of line.points) values[place.get(at) ?? 0] = value === null ? null : Math.min(value, y[1]);
      return values;
    })];
  }, [lines, stops, y[1]]);
  useEffect(() => {
    let over = false;
    const theme = matchMedia("(prefers-color-scheme: dark)");
    const draw = async () => {
      const uPlot = await plotter().catch(() => undefined);
      if (over || !uPlot || !drawn.current) return;
      plot.current?.destroy();
      const css = getComputedStyle(document.documentElement);
      plot.current = new uPlot({
        width, height, padding: [0, 0, 0, 0], legend: { show: false }, cursor: { show: false },
        scales: { x: { time: false, range: x }, y: { range: y, distr: log ? 3 : 1 } },
        axes: [{ show: false }, { show: false }],
        series: [{}, ...lines.map((line, at) => ({
          stroke: css.getPropertyValue(`--s${line.hue ?? colour(line.name)}`).trim(), width: 2, dash: DASHES[at % 6].split(" ").filter(Boolean).map(Number), spanGaps: false, alpha: on === null || on === line.name ? 1 : 0.22,
          points: { show: true, size: 5, fill: css.getPropertyValue("--ground").trim(), filter: (/** @type {any} */ _, /** @type {number} */ series) => dotted(data[series]) },
        }))],
      }, data, drawn.current);
    };
    void draw();
    theme.addEventListener("change", draw);
    return () => {
      over = true;
      theme.removeEventListener("change", draw);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [width, height, data, ...x, ...y, log, on]);
  return html`<div ref=${drawn}></div>`;
}

/** Which points have a dot: all of a few, else those that no line reaches. @param {(number | null)[]} values */
function dotted(values) {
  return values.flatMap((value, at) => (value !== null && (values.length <= 80 || ((values[at - 1] ?? null) === null && (values[at + 1] ?? null) === null)) ? [at] : []));
}

/** UTC, with the day. @param {number} seconds */
export function moments(seconds) {
  return `${dayOf(seconds)} ${clockOf(seconds)} UTC`;
}
