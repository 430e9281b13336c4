// A series over time, drawn by uPlot on a canvas. The table behind it has every point.
import { html, useEffect, useRef } from "./html.js";
import { short, style } from "./figures.js";
import { letter, useWidth } from "./chart.js";

/** @typedef {{ name: string, values: (number | null)[] }} Line */

/** @type {Promise<any> | undefined} */
let loading;

/** uPlot is a script without exports, and only this page needs it. @returns {Promise<any>} */
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

/** @param {{ times: number[], lines: Line[], names: string[], unit: string, about: string, onRange?: (from: number, to: number) => void }} props `times`: seconds */
export function Series({ times, lines, names, unit, about, onRange }) {
  const [place, width] = useWidth();
  const drawn = useRef(/** @type {HTMLDivElement | null} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  const shape = lines.map((line) => line.name).join("\n");
  useEffect(() => {
    if (width === 0) return;
    let over = false;
    const theme = matchMedia("(prefers-color-scheme: dark)");
    const draw = async () => {
      const uPlot = await plotter().catch(() => undefined);
      if (over || !uPlot || !drawn.current) return;
      plot.current?.destroy();
      plot.current = new uPlot(options(uPlot, width, lines, names, unit, onRange), [times, ...lines.map((line) => line.values)], drawn.current);
    };
    void draw();
    theme.addEventListener("change", draw);
    return () => {
      over = true;
      theme.removeEventListener("change", draw);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [width, shape, unit]);
  useEffect(() => {
    plot.current?.setData([times, ...lines.map((line) => line.values)]);
  }, [times, lines]);
  return html`<div class="chart" ref=${place} role="img" aria-label=${about}><div ref=${drawn}></div></div>`;
}

/** UTC as everywhere: the time of day, and the day where it begins. @param {number} at @param {number | undefined} before */
function label(at, before) {
  const iso = new Date(at * 1000).toISOString();
  const day = iso.slice(0, 10);
  const same = before !== undefined && new Date(before * 1000).toISOString().slice(0, 10) === day;
  const time = at % 60 === 0 ? iso.slice(11, 16) : iso.slice(11, 19);
  return same ? time : at % 86_400 === 0 ? day : `${time}\n${day}`;
}

/** All times, with room for the letters at the end. uPlot would give a single one years. @param {any} plot */
function span(plot) {
  const [from, to] = [plot.data[0][0], plot.data[0].at(-1)];
  return from === undefined || from === to ? [(from ?? 0) - 1800, (from ?? 0) + 1800] : [from, to + (to - from) * 0.03];
}

/** @param {any} uPlot @param {number} width @param {Line[]} lines @param {string[]} names @param {string} unit @param {((from: number, to: number) => void) | undefined} onRange */
function options(uPlot, width, lines, names, unit, onRange) {
  const css = getComputedStyle(document.documentElement);
  const colour = (/** @type {string} */ name) => css.getPropertyValue(name).trim();
  const axis = { stroke: colour("--text"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") }, font: "12px system-ui, sans-serif" };
  return {
    width: Math.max(120, width),
    height: 320,
    tzDate: (/** @type {number} */ seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    legend: { show: false },
    cursor: { drag: { x: true, y: false, setScale: false } },
    hooks: {
      setSelect: [(/** @type {any} */ plot) => {
        const { left, width } = plot.select;
        if (width > 8 && onRange) onRange(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
        plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
      }],
      // The letter of a line is at its last point, so colour is not the only sign.
      draw: [(/** @type {any} */ plot) => {
        const context = plot.ctx;
        context.save();
        context.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
        context.fillStyle = colour("--text");
        context.textAlign = "left";
        context.textBaseline = "alphabetic";
        lines.forEach((line) => {
          const at = line.values.findLastIndex((value) => value !== null);
          const value = line.values[at];
          if (at < 0 || value === null) return;
          context.fillText(letter(names, line.name), plot.valToPos(plot.data[0][at], "x", true) + 5 * devicePixelRatio, plot.valToPos(value, "y", true) + 4 * devicePixelRatio);
        });
        context.restore();
      }],
    },
    scales: { x: { time: true, range: span }, y: { range: (/** @type {any} */ _, /** @type {number} */ low, /** @type {number} */ high) => [Math.min(0, low ?? 0), Math.max(high ?? 1, 1e-12) * 1.08] } },
    axes: [{ ...axis, values: (/** @type {any} */ _, /** @type {number[]} */ all) => all.map((at, place) => label(at, all[place - 1])) }, { ...axis, size: 76, values: (/** @type {any} */ _, /** @type {number[]} */ all) => all.map((value) => `${short(value)}${unit === "ms" ? " ms" : ""}`) }],
    series: [{}, ...lines.map((line) => {
      const { colour: number, dash } = style(names, line.name);
      return { label: line.name, stroke: colour(`--s${number}`), width: 2, dash: dash ? dash.split(" ").map(Number) : undefined, spanGaps: false, points: { show: true, size: 5, fill: colour("--ground") } };
    })],
  };
}
