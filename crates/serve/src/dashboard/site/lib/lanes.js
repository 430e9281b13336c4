// A race as lanes on one clock, with the marks of `photofinish race`: · connecting, ─ sent, ━ headers, ◆ first token, █ streaming,
// × cut, ! failed. The marks say all that the colours say.
import { html } from "./html.js";
import { apart, ticks } from "./axis.js";
import { time } from "./chart.js";
import { clip, colour, shortened } from "./names.js";

/** @typedef {{ attempt: number, upstream: string, dispatch: number, connect?: number, headers?: number, first?: number, end?: number, outcome?: string,
 *   failure?: string | null, winner?: boolean, audited?: boolean }} Lane times in ms since the request was read */

export const LEGEND = "· connecting  ─ sent  ━ headers  ◆ first token  █ streaming  × cut  ! failed";
const ROW = 22;

/** What became of it, in words. @param {Lane} lane */
export function ending(lane) {
  if (lane.failure) return `failed: ${lane.failure}`;
  if (lane.outcome === "won") return "won";
  if (lane.outcome === "lost") return lane.audited ? "lost, but measured" : "lost: cancelled";
  if (lane.outcome === "drained") return "lost: read to its end";
  if (lane.outcome) return lane.outcome.replaceAll("_", " ");
  if (lane.winner) return "leads";
  return lane.first !== undefined ? "first token" : "runs";
}

/** @param {{ lanes: Lane[], now?: number, width: number, events?: { at: number, name: string }[], most?: number, row?: number, axis?: boolean }} props `now`: ms of a race that runs; `most`: end of the scale, which several races share */
export function Lanes({ lanes, now, width, events = [], most: given, row: high = ROW, axis = true }) {
  const ends = lanes.map((lane) => lane.end ?? now ?? lane.first ?? lane.dispatch);
  const most = given ?? Math.max(100, ...ends, ...events.map((event) => event.at)) * 1.02;
  const narrow = width < 620;
  const names = narrow ? 0 : Math.min(200, width * 0.25);
  const words = narrow ? 0 : 176;
  const room = Math.max(60, width - names - words - 16);
  const row = narrow ? high + 20 : high;
  const x = (/** @type {number} */ ms) => names + 8 + (Math.min(most, Math.max(0, ms)) / most) * room;
  const foot = axis ? 24 : 2;
  const height = lanes.length * row + foot;
  const short = shortened(lanes.map((lane) => lane.upstream));
  const said = lanes.map((lane) => `${lane.upstream} ${ending(lane)} at ${time(lane.end ?? lane.first ?? lane.dispatch)}`).join("; ");
  const marks = apart(ticks(most, Math.max(2, room / 110)).map((at) => ({ at, px: x(at), text: time(at) })), width);
  return html`<svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${said || "no attempt yet"}>
    ${marks.map(({ at, px, text }) => html`<g><line class="grid" x1=${x(at)} x2=${x(at)} y1="0" y2=${height - foot + 4} />
      ${axis && html`<text x=${px} y=${height - 4} text-anchor="middle">${text}</text>`}</g>`)}
    ${lanes.map((lane, place) => {
      const y = place * row + (narrow ? row - high / 2 : row / 2);
      const won = lane.winner || lane.outcome === "won";
      const name = short.get(lane.upstream) ?? lane.upstream;
      const took = lane.first !== undefined ? time(lane.first - lane.dispatch) : lane.end !== undefined ? `> ${time(lane.end - lane.dispatch)}` : "";
      return html`<g key=${lane.attempt} class=${`lane ${won ? "won" : ""}`}><title>${lane.upstream}</title>
        <text x="0" y=${narrow ? y - high / 2 - 3 : y + 4} class=${won ? "winner" : "strong"}>${won ? "✓ " : ""}${clip(name, narrow ? width / 7.6 - 3 - `${ending(lane)} ${took}`.length : names / 7.6 - 3)}${narrow ? ` · ${ending(lane)} ${took}` : ""}</text>
        <${Bar} lane=${lane} x=${x} y=${y} now=${now} />
        ${!narrow && html`<text x=${names + room + 20} y=${y + 4} class=${won ? "winner" : ""}>${clip(`${ending(lane)} ${took}`, 28)}</text>`}
      </g>`;
    })}
    ${events.map((event) => html`<g><line class="moment" x1=${x(event.at)} x2=${x(event.at)} y1="0" y2=${height - foot + 4}><title>${event.name} ${time(event.at)}</title></line></g>`)}
  </svg>`;
}

/** @param {{ lane: Lane, x: (ms: number) => number, y: number, now?: number }} props */
function Bar({ lane, x, y, now }) {
  const hue = colour(lane.upstream);
  const end = lane.end ?? now ?? lane.first ?? lane.headers ?? lane.connect ?? lane.dispatch;
  const upto = (/** @type {(number | undefined)[]} */ ...at) => x(Math.min(end, at.find((ms) => ms !== undefined) ?? end));
  const won = lane.winner || lane.outcome === "won";
  const part = (/** @type {string} */ name, /** @type {number | undefined} */ from, /** @type {number} */ to) =>
    from !== undefined && from <= end && to > x(from) && html`<line class=${`part ${name} c${hue}`} x1=${x(from)} x2=${to} y1=${y} y2=${y} />`;
  const last = lane.failure ? "!" : lane.outcome && !won ? "×" : "";
  return html`
    ${part("connecting", lane.dispatch, upto(lane.connect, lane.headers, lane.first))}
    ${part("sent", lane.connect, upto(lane.headers, lane.first))}
    ${part("headers", lane.headers, upto(lane.first))}
    ${part("streaming", lane.first, x(end))}
    ${lane.first !== undefined && html`<path class=${`first f${hue}`} d=${`M${x(lane.first)} ${y - 8} l6 8 l-6 8 l-6 -8 z`}><title>first token ${time(lane.first - lane.dispatch)} after its dispatch</title></path>`}
    ${last && html`<text class=${last === "!" ? "failed" : "cut"} x=${x(end)} y=${y + 5} text-anchor="middle">${last}</text>`}`;
}
