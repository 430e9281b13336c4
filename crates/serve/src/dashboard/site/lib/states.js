// What a page shows while it has no figures, and why. A page never shows a number that it does not know.
import { html } from "./html.js";

/** @param {{ asked: import("./api.js").Asked<any>, empty?: boolean, none?: any, children?: any }} props */
export function Answer({ asked, empty, none, children }) {
  const { data, error, again } = asked;
  const trouble = error && html`<${Trouble} error=${error} old=${data !== undefined} again=${again} />`;
  if (data === undefined) return trouble ?? html`<div class="note wait" role="status">Reading …</div>`;
  if (empty) return html`${trouble}<div class="note empty" role="status">${none ?? "There is nothing in this range. Choose a longer one, or send a request."}</div>`;
  return html`${trouble}${children}`;
}

/** @param {{ error: import("./api.js").ApiError, old: boolean, again: () => void }} props */
function Trouble({ error, old, again }) {
  const gone = error.status === 0;
  return html`<div class=${`note ${gone ? "warn" : "bad"}`} role="alert">
    <strong>${title(error)}</strong>
    ${" "}${gone ? "Trying again." : error.message}
    ${old && html`<div>What is shown is from before.</div>`}
    <div><button type="button" onClick=${again}>Ask again</button></div>
  </div>`;
}

/** @param {import("./api.js").ApiError} error */
function title(error) {
  if (error.status === 0) return "The gateway does not answer.";
  if (error.code === "photofinish_history_unavailable") return "The history cannot be read.";
  return error.status === 503 ? "The gateway is busy." : "That did not work.";
}

/** Says what the figures were read from. @param {{ rolled: string | null }} props */
export function Source({ rolled }) {
  const text = rolled ? `Whole hours until ${rolled}, then single attempts: times are exact to 1.6 %.` : "Every attempt of the range was read.";
  return html`<p class="caption">${text} All times are UTC.</p>`;
}
