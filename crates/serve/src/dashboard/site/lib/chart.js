// What drawings share: the width of their place, and times as text.
import { useEffect, useRef, useState } from "./html.js";
import { short } from "./figures.js";

/** The width of an element in pixels, followed as it changes. @returns {[{ current: HTMLElement | null }, number]} */
export function useWidth() {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const [width, set] = useState(0);
  useEffect(() => {
    if (!place.current) return;
    const watch = new ResizeObserver(([entry]) => set(Math.floor(entry.contentRect.width)));
    watch.observe(place.current);
    return () => watch.disconnect();
  }, []);
  return [place, width];
}

/** @param {number} ms */
export function time(ms) {
  return ms >= 1000 ? `${short(ms / 1000)} s` : `${short(ms)} ms`;
}

/** The names with the largest weight, in their own order. @param {string[]} names @param {(name: string) => number} weight @param {number} most */
export function heaviest(names, weight, most) {
  const kept = new Set([...names].sort((a, b) => weight(b) - weight(a)).slice(0, most));
  return names.filter((name) => kept.has(name));
}
