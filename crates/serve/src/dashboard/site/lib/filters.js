// The choice of a range, a model, a provider and a user, in the address. The names come from the configuration, so no list needs a
// scan of the history.
import { html } from "./html.js";
import { useChoices } from "./address.js";
import { useConfig } from "./session.js";

const RANGES = [["15m", "15 minutes"], ["1h", "1 hour"], ["6h", "6 hours"], ["24h", "24 hours"], ["7d", "7 days"], ["30d", "30 days"], ["all", "everything"]];
const USUAL = "24h";
const SOURCES = [["", "clients"], ["probe", "probes"], ["bench", "benchmarks"], ["shadow", "shadows"], ["all", "all"]];

/** What the API takes, from the choices in the address.
 * @param {URLSearchParams} choices @returns {Record<string, string>} */
export function windowOf(choices) {
  const since = choices.get("since") ?? USUAL;
  /** @type {Record<string, string>} */
  const asked = { since: since === "all" ? "" : since };
  for (const name of ["until", "model", "provider", "user", "source"]) asked[name] = choices.get(name) ?? "";
  return asked;
}

/** @param {{ only?: string[], source?: boolean, children?: any }} props `only`: which of model, provider and user */
export function Filters({ only = ["model", "provider", "user"], source = true, children }) {
  const [choices, choose] = useChoices();
  const config = useConfig();
  const since = choices.get("since") ?? USUAL;
  const known = RANGES.some(([value]) => value === since) && !choices.get("until");
  /** @type {Record<string, string[]>} */
  const names = {
    model: (config.data?.models ?? []).flatMap((/** @type {any} */ one) => [one.model, ...one.aliases]),
    provider: (config.data?.providers ?? []).filter((/** @type {any} */ one) => one.on).map((/** @type {any} */ one) => one.provider),
    user: (config.data?.users ?? []).map((/** @type {any} */ one) => one.user),
  };
  const range = (/** @type {any} */ event) => {
    const value = event.target.value;
    if (value === "own") choose({ since: choices.get("since") ?? new Date(Date.now() - 86_400_000).toISOString().slice(0, 16) + ":00Z", until: new Date().toISOString().slice(0, 16) + ":00Z", before: "" });
    else choose({ since: value === USUAL ? "" : value, until: "", before: "" });
  };
  const moment = (/** @type {string} */ name, /** @type {string} */ title) => html`<label>${title}
    <input value=${choices.get(name) ?? ""} placeholder="2026-01-31T09:00:00Z" onChange=${(/** @type {any} */ event) => choose({ [name]: event.target.value.trim(), before: "" })} /></label>`;
  return html`<div class="filters" role="group" aria-label="Filters">
    <label>Range<select value=${known ? since : "own"} onChange=${range}>
      ${RANGES.map(([value, title]) => html`<option value=${value}>${title}</option>`)}
      <option value="own">from … to …</option>
    </select></label>
    ${!known && [moment("since", "From (UTC, or an age)"), moment("until", "To")]}
    ${only.filter((name) => name !== "user" || names.user.length > 0 || choices.get("user")).map((name) => html`<label key=${name}>${name[0].toUpperCase() + name.slice(1)}
      <input list=${`names-of-${name}`} value=${choices.get(name) ?? ""} placeholder="all"
        onChange=${(/** @type {any} */ event) => choose({ [name]: event.target.value.trim(), before: "" })} />
      <datalist id=${`names-of-${name}`}>${names[name].slice(0, 500).map((value) => html`<option value=${value} />`)}</datalist></label>`)}
    ${source && only.includes("provider") && html`<${Choice} name="source" title="Asked by" values=${SOURCES} usual="" />`}
    ${children}
  </div>`;
}

/** One of a few values, in the address.
 * @param {{ name: string, title: string, values: string[][], usual: string }} props */
export function Choice({ name, title, values, usual }) {
  const [choices, choose] = useChoices();
  return html`<label>${title}<select value=${choices.get(name) ?? usual}
    onChange=${(/** @type {any} */ event) => choose({ [name]: event.target.value === usual ? "" : event.target.value, before: "" })}>
    ${!values.some(([value]) => value === (choices.get(name) ?? usual)) && html`<option>${choices.get(name) ?? usual}</option>`}${values.map(([value, text]) => html`<option value=${value}>${text}</option>`)}</select></label>`;
}
