// The names of upstreams: one colour for each on every page, and a short form that still differs from the others.
import { html } from "./html.js";

const COLOURS = 8;
/** @type {Map<string, number>} */
const known = new Map();

/** Gives each upstream the colour of its provider, or the rarest within its model where that is taken; in the order of the configuration. @param {Api.Configuration} config */
export function learn(config) {
  known.clear();
  /** @type {Map<string, number>} */
  const hosts = new Map();
  for (const { upstreams } of config.models) {
    const used = Array(COLOURS).fill(0);
    for (const { upstream } of upstreams) if (known.has(upstream)) used[known.get(upstream) ?? 0] += 1;
    for (const { upstream } of upstreams) {
      if (known.has(upstream)) continue;
      const [host] = split(upstream);
      const rarest = Math.min(...used);
      const own = hosts.get(host);
      // A colour that no provider has yet goes first.
      const taken = new Set(hosts.values());
      const free = used.findIndex((count, at) => count === rarest && !taken.has(at));
      const colour = own !== undefined && used[own] === rarest ? own : free >= 0 ? free : used.indexOf(rarest);
      if (own === undefined) hosts.set(host, colour);
      known.set(upstream, colour);
      used[colour] += 1;
    }
  }
}

/** The number of its colour. What the configuration does not name has one by its letters. @param {string} name */
export function colour(name) {
  const own = known.get(name);
  if (own !== undefined) return own;
  let sum = 0;
  for (const letter of name) sum = (sum * 31 + (letter.codePointAt(0) ?? 0)) % 65_521;
  return sum % COLOURS;
}

/** The parts of a name by which these names differ: the provider where that is enough. @param {string[]} names @returns {Map<string, string>} */
export function shortened(names) {
  /** @type {Map<string, string[]>} */
  const hosts = new Map();
  for (const name of new Set(names)) {
    const [host] = split(name);
    hosts.set(host, [...(hosts.get(host) ?? []), name]);
  }
  /** @type {Map<string, string>} */
  const all = new Map();
  for (const [host, own] of hosts) {
    const rests = own.map((name) => split(name)[1]);
    const [from, to] = own.length > 1 ? common(rests) : [0, 0];
    for (const name of own) {
      const rest = split(name)[1];
      const middle = `${from > 0 ? "…" : ""}${rest.slice(from, rest.length - to)}${to > 0 ? "…" : ""}`;
      all.set(name, own.length === 1 && host ? host : host ? `${host}/${middle}` : middle);
    }
  }
  return all;
}

/** @param {string} name */
function split(name) {
  const at = name.indexOf("/");
  return at < 0 ? ["", name] : [name.slice(0, at), name.slice(at + 1)];
}

/** How many letters all begin and end with, up to a boundary of words. @param {string[]} names @returns {[number, number]} */
function common(names) {
  const least = Math.min(...names.map((name) => name.length));
  let [from, to] = [0, 0];
  for (let at = 0; at < least && names.every((name) => name[at] === names[0][at]); at += 1) if (/[-/_. :]/.test(names[0][at])) from = at + 1;
  for (let at = 1; at < least - from && names.every((name) => name.at(-at) === names[0].at(-at)); at += 1) if (/[-/_. :]/.test(names[0].at(-at) ?? "")) to = at;
  return from + to > 4 ? [from > 2 ? from : 0, to > 2 ? to : 0] : [0, 0];
}

/** Cut in its middle, where most names are alike. @param {string} text @param {number} most letters */
export function clip(text, most) {
  const letters = [...text];
  if (letters.length <= most) return text;
  const room = Math.max(2, Math.floor(most) - 1);
  return `${letters.slice(0, Math.ceil(room / 2)).join("")}…${letters.slice(letters.length - Math.floor(room / 2)).join("")}`;
}

/** A name within a sentence: its marks of direction must not turn what follows. @param {string} name */
export function isolated(name) {
  return /[\u0590-\u08ff\u200f\u202a-\u202e\u2066-\u2069]/.test(name) ? `\u2068${name}\u2069` : name;
}

/** The mark of an upstream: its colour before its name. @param {{ name: string }} props */
export function Dot({ name }) {
  return html`<i class=${`dot b${colour(name)}`} aria-hidden="true"></i>`;
}

/** An upstream in a table: the provider first, what it calls the model below. @param {{ name: string | null, href?: string }} props */
export function Upstream({ name, href }) {
  if (name === null) return html`<span class="quiet">unknown</span>`;
  const [host, rest] = split(name);
  const whole = html`<strong>${host || rest}</strong>${host && html`<small class="model">${rest}</small>`}`;
  return html`<span class="upstream" title=${name}><${Dot} name=${name} />${href ? html`<a href=${href}>${whole}</a>` : html`<span>${whole}</span>`}</span>`;
}
