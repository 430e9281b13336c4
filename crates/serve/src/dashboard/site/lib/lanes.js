// A race as lanes on one clock, with the marks of `photofinish race`: · connecting, ─ sent, ━ headers, ◆ first token, █ streaming,
// × cut, ! failed. The marks say all that the colours say.
import { html } from "./html.js";
import { ticks, time } from "./chart.js";

/** @typedef {{ attempt: number, upstream: string, dispatch: number, connect?: number, headers?: number, first?: number, end?: number, outcome?: string,
 *   failure?: string | null, winner?: boolean, audited?: boolean }} Lane times in ms since the request was read */

export const LEGEND = "· connecting  ─ sent  ━ headers  ◆ first token  █ streaming  × cut  ! failed";
const ROW = 22;

/** What became of it, in words. @param {Lane} lane */
export function ending(lane) {
  if (lane.failure) return `failed: ${lane.failure}`;
  if (lane.outcome === "won") return "won";
  if (lane.outcome === "lost") return lane.audited ? "lost, measured to its first token" : "lost: cancelled";
  if (lane.outcome === "drained") return "lost: read to its end";
  if (lane.outcome) return lane.outcome.replaceAll("_", " ");
  if (lane.winner) return "leads";
  return lane.first !== undefined ? "first token" : "runs";
}

/** @param {{ lanes: Lane[], now?: number, width: number, events?: { at: number, name: string }[] }} props `now`: ms of a race that runs */
export function Lanes({ lanes, now, width, events = [] }) {
  const ends = lanes.map((lane) => lane.end ?? now ?? lane.first ?? lane.dispatch);
  const most = Math.max(100, ...ends, ...events.map((event) => event.at)) * 1.02;
  const narrow = width < 620;
  const names = narrow ? 0 : Math.min(260, width * 0.3);
  const words = narrow ? 0 : 190;
  const room = Math.max(60, width - names - words - 16);
  const row = narrow ? ROW * 2 : ROW;
  const x = (/** @type {number} */ ms) => names + 8 + (Math.max(0, ms) / most) * room;
  const height = lanes.length * row + 24;
  const said = lanes.map((lane) => `${lane.upstream} ${ending(lane)} at ${time(lane.end ?? lane.first ?? lane.dispatch)}`).join("; ");
  return html`<svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${said || "no attempt yet"}>
    ${ticks(most, Math.max(2, room / 110)).map((at) => html`<g><line class="grid" x1=${x(at)} x2=${x(at)} y1="0" y2=${height - 18} />
      <text x=${x(at)} y=${height - 4} text-anchor="middle">${time(at)}</text></g>`)}
    ${lanes.map((lane, place) => {
      const y = place * row + (narrow ? row - ROW / 2 : row / 2);
      return html`<g key=${lane.attempt}>
        <text x=${narrow ? 2 : 0} y=${narrow ? y - ROW / 2 - 1 : y + 4} class=${lane.winner || lane.outcome === "won" ? "winner" : ""}>${clip(lane.upstream, narrow ? width / 8 : names / 7.2)}${narrow ? `  ${ending(lane)}` : ""}</text>
        <${Bar} lane=${lane} x=${x} y=${y} now=${now} />
        ${!narrow && html`<text x=${names + room + 18} y=${y + 4} class=${lane.winner || lane.outcome === "won" ? "winner" : ""}>${clip(`${ending(lane)} ${lane.first !== undefined ? time(lane.first - lane.dispatch) : lane.end !== undefined ? `> ${time(lane.end - lane.dispatch)}` : ""}`, 29)}</text>`}
      </g>`;
    })}
    ${events.map((event) => html`<g><line class="moment" x1=${x(event.at)} x2=${x(event.at)} y1="0" y2=${height - 18}><title>${event.name} ${time(event.at)}</title></line></g>`)}
  </svg>`;
}

/** @param {{ lane: Lane, x: (ms: number) => number, y: number, now?: number }} props */
function Bar({ lane, x, y, now }) {
  const end = lane.end ?? now ?? lane.first ?? lane.headers ?? lane.connect ?? lane.dispatch;
  const upto = (/** @type {(number | undefined)[]} */ ...at) => x(Math.min(end, at.find((ms) => ms !== undefined) ?? end));
  const won = lane.winner || lane.outcome === "won";
  const part = (/** @type {string} */ name, /** @type {number | undefined} */ from, /** @type {number} */ to) =>
    from !== undefined && from <= end && to > x(from) && html`<line class=${`part ${name} ${won ? "won" : ""}`} x1=${x(from)} x2=${to} y1=${y} y2=${y} />`;
  const last = lane.failure ? "!" : lane.outcome && !won ? "×" : "";
  return html`
    ${part("connecting", lane.dispatch, upto(lane.connect, lane.headers, lane.first))}
    ${part("sent", lane.connect, upto(lane.headers, lane.first))}
    ${part("headers", lane.headers, upto(lane.first))}
    ${part("streaming", lane.first, x(end))}
    ${lane.first !== undefined && html`<path class=${`first ${won ? "won" : ""}`} d=${`M${x(lane.first)} ${y - 7} l6 7 l-6 7 l-6 -7 z`}><title>first token ${time(lane.first - lane.dispatch)} after its dispatch</title></path>`}
    ${last && html`<text class=${last === "!" ? "failed" : "cut"} x=${x(end)} y=${y + 5} text-anchor="middle">${last}</text>`}`;
}

/** @param {string} text @param {number} most */
export function clip(text, most) {
  return text.length > most ? `${text.slice(0, Math.max(1, Math.floor(most) - 1))}…` : text;
}
