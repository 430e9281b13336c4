// The address of the page: it holds all that a reader chose, so that it can be shared. Nothing else remembers a choice.
import { useCallback, useEffect, useState } from "./html.js";

/** The path of the gateway: `/`, or a path below which a proxy serves it. */
const HOME = new URL("../../../", import.meta.url).pathname;
export const ROOT = `${HOME}dashboard`;
const CHANGED = "photofinish:address";

/** The address of a path of the gateway. @param {string} path begins with a slash */
export function here(path) {
  return HOME + path.slice(1);
}

/** @returns {{ page: string, rest: string, query: URLSearchParams }} */
export function address() {
  const [page = "", ...rest] = location.pathname.slice(ROOT.length).split("/").filter(Boolean);
  return { page, rest: rest.map(decode).join("/"), query: new URLSearchParams(location.search) };
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The address of a page with these choices; empty ones are left out.
 * @param {string} page @param {Record<string, string | undefined> | URLSearchParams} [query] */
export function link(page, query = {}) {
  const pairs = query instanceof URLSearchParams ? [...query] : Object.entries(query);
  const kept = new URLSearchParams();
  for (const [name, value] of pairs) if (value) kept.set(name, value);
  const text = kept.toString();
  return `${ROOT}/${page}${text ? `?${text}` : ""}`;
}

/** @param {string} to @param {boolean} [replace] */
export function go(to, replace = false) {
  if (to === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", to);
  dispatchEvent(new Event(CHANGED));
}

/** The address, followed as it changes. */
export function useAddress() {
  const [now, set] = useState(address);
  useEffect(() => {
    const follow = () => set(address());
    addEventListener("popstate", follow);
    addEventListener(CHANGED, follow);
    return () => {
      removeEventListener("popstate", follow);
      removeEventListener(CHANGED, follow);
    };
  }, []);
  return now;
}

/** The choices in the address, and a function that changes some of them.
 * @returns {[URLSearchParams, (changes: Record<string, string>) => void]} */
export function useChoices() {
  const { query } = useAddress();
  const change = useCallback(/** @param {Record<string, string>} changes */ (changes) => {
    const next = address();
    for (const [name, value] of Object.entries(changes)) {
      if (value) next.query.set(name, value);
      else next.query.delete(name);
    }
    const text = next.query.toString();
    go(`${location.pathname}${text ? `?${text}` : ""}`);
  }, []);
  return [query, change];
}

/** Follows a link within the dashboard without loading the page again. @param {MouseEvent} event */
export function follow(event) {
  const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  const anchor = event.target instanceof Element ? event.target.closest("a") : null;
  if (!plain || event.defaultPrevented || !anchor || anchor.target || anchor.origin !== location.origin) return;
  const path = anchor.pathname;
  if (!(path === ROOT || path.startsWith(`${ROOT}/`)) || path.startsWith(`${ROOT}/assets/`) || anchor.hash) return;
  event.preventDefault();
  const other = path !== location.pathname;
  go(path + anchor.search);
  if (other) {
    scrollTo(0, 0);
    document.getElementById("main")?.focus();
  }
}
