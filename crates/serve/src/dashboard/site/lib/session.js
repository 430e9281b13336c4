// Who looks at the pages, and what they may see and do there. The gateway decides it anew with each request: this only leaves out what it
// would refuse.
import { useAnswer } from "./api.js";

/** @typedef {{ user: string | null, role: string, version: string }} Session */

/** @type {Session} */
let session = { user: null, role: "admin", version: "" };

/** @param {Session} known */
export const begin = (known) => {
  session = known;
};
export const who = () => session.user;
/** All figures, and the configuration. */
export const seesFigures = () => ["admin", "viewer"].includes(session.role);
/** Other users' keys. */
export const changesOthers = () => ["admin", "lead"].includes(session.role);
/** The configuration in force. */
export const reloads = () => session.role === "admin";
/** Own keys. Without users there are none. */
export const changesKeys = () => session.role !== "viewer" && session.user !== null;

/** The configuration, for names and colours; nothing for who may not see it. @param {number} [every] seconds; 0: once
 * @returns {import("./api.js").Asked<Api.Configuration>} */
export function useConfig(every = 0) {
  return useAnswer(seesFigures() ? "/api/config" : null, every);
}
