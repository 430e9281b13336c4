// Questions to the gateway. The cookie of the session goes along by itself; no script sees it or a token.
import { here } from "./address.js";
import { useCallback, useEffect, useRef, useState } from "./html.js";

/** The session has ended, or never began. */
export const LOGGED_OUT = "photofinish:logged-out";
/** Attempts are dated after now, up to its `detail`. */
export const AHEAD = "photofinish:ahead";

export class ApiError extends Error {
  /** @param {number} status 0: there was no answer @param {string} code @param {string} message @param {number} [wait] seconds */
  constructor(status, code, message, wait) {
    super(message);
    this.status = status;
    this.code = code;
    this.wait = wait;
  }
}

/** @param {string} path @param {Record<string, string | undefined> | URLSearchParams} [query] */
export function question(path, query = {}) {
  const pairs = query instanceof URLSearchParams ? [...query] : Object.entries(query);
  const kept = new URLSearchParams();
  for (const [name, value] of pairs) if (value) kept.set(name, value);
  const text = kept.toString();
  return text ? `${path}?${text}` : path;
}

/** @param {string} url a path of the gateway @param {RequestInit} [options] @returns {Promise<Response>} */
export async function send(url, options = {}) {
  let answer;
  try {
    answer = await fetch(here(url), { credentials: "same-origin", cache: "no-store", ...options });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "gone", "The gateway does not answer.");
  }
  // A gateway that is not ready says so with a 503.
  if (answer.ok || (answer.status === 503 && url === "/readyz")) return answer;
  const refusal = await answer.json().catch(() => null);
  const wait = Number(answer.headers.get("retry-after")) || undefined;
  const error = new ApiError(answer.status, refusal?.error?.code ?? "", refusal?.error?.message ?? `status ${answer.status}`, wait);
  if (answer.status === 401 && !url.startsWith("/dashboard/")) dispatchEvent(new Event(LOGGED_OUT));
  throw error;
}

/**
 * @template T
 * @typedef {object} Asked
 * @property {T | undefined} data of the last good answer, of this question
 * @property {ApiError | undefined} error of the last answer
 * @property {boolean} busy a question is on its way
 * @property {string | null} rolled until when the answer reads whole hours
 * @property {number} left groups that the answer has no room for
 * @property {() => void} again asks once more
 */

/** Asks when the question changes, every `every` seconds, and again by itself while the gateway is gone.
 * @template T
 * @param {string | null} url null: nothing to ask
 * @param {number} [every] seconds; 0: once
 * @returns {Asked<T>} */
export function useAnswer(url, every = 0) {
  const [held, hold] = useState(/** @type {{ url: string | null, data?: T, error?: ApiError, rolled?: string | null, left?: number }} */ ({ url: null }));
  const [busy, setBusy] = useState(false);
  const [turn, setTurn] = useState(0);
  const gone = useRef(0);
  useEffect(() => {
    if (url === null) return;
    const stop = new AbortController();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    const ask = async () => {
      setBusy(true);
      let wait = every;
      try {
        const answer = await send(url, { signal: stop.signal });
        const data = /** @type {T} */ (await answer.json());
        gone.current = 0;
        const said = (/** @type {string} */ name) => answer.headers.get(`x-photofinish-${name}`);
        hold({ url, data, rolled: said("rolled-until"), left: Number(said("left-out")) });
        const ahead = said("ahead-until");
        if (ahead) dispatchEvent(new CustomEvent(AHEAD, { detail: ahead }));
      } catch (error) {
        if (stop.signal.aborted) return;
        const known = error instanceof ApiError ? error : new ApiError(0, "broken", "The answer broke off.");
        hold((before) => ({ ...before, url, data: before.url === url ? before.data : undefined, error: known }));
        const passes = known.status === 0 || known.status === 503;
        gone.current = passes ? gone.current + 1 : 0;
        if (passes) wait = known.wait ?? Math.min(2 ** gone.current, 15);
      }
      setBusy(false);
      if (wait > 0) timer = setTimeout(() => (document.hidden ? wake() : void ask()), wait * 1000);
    };
    // A hidden page sends no requests.
    const wake = () => document.addEventListener("visibilitychange", ask, { once: true, signal: stop.signal });
    void ask();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [url, every, turn]);
  const own = held.url === url;
  const again = useCallback(() => setTurn((turn) => turn + 1), []);
  const { data, error, rolled = null, left } = own ? held : {};
  return { data, error, busy, rolled, left: left || 0, again };
}

/** The answer of a path of the API, with its type.
 * @template {keyof Api.Answers} P
 * @param {P} path @param {Record<string, string | undefined> | URLSearchParams} [query] @param {number} [every] seconds; 0: once
 * @returns {Asked<Api.Answers[P]>} */
export function useApi(path, query, every) {
  return useAnswer(question(path, query), every);
}
