// One model at a time: the busiest of the range, or the one of the address.
import { html } from "./html.js";
import { useChoices } from "./address.js";
import { useApi } from "./api.js";

/** @param {Record<string, string>} window @returns {{ model: string | null, group: Api.Group | undefined, models: Api.Group[], asked: import("./api.js").Asked<any> }} `model`: null while it is not known */
export function useModel(window) {
  const [choices] = useChoices();
  const asked = useApi("/api/stats", { ...window, model: "", by: "model" }, 30);
  const groups = /** @type {Api.Group[]} */ (asked.data ?? []);
  const models = groups.filter((group) => typeof group.model === "string").sort((a, b) => b.requests - a.requests);
  const chosen = choices.get("model") || (asked.data ? (models[0]?.model ?? null) : null);
  return { model: chosen, group: models.find((group) => group.model === chosen), models, asked };
}

/** More attempts than figures are read from row by row. @param {Api.Group[]} models */
export const manyAttempts = (models) => models.reduce((sum, one) => sum + one.attempts, 0) > 150_000;

/** The switch of models, with their requests. @param {{ model: string | null, models: Api.Group[] }} props */
export function ModelSwitch({ model, models }) {
  const [, choose] = useChoices();
  const known = models.some((one) => one.model === model);
  return html`<label>Model<select value=${model ?? ""} onChange=${(/** @type {any} */ event) => choose({ model: event.target.value === models[0]?.model ? "" : event.target.value })}>
    ${!known && html`<option value=${model ?? ""}>${(model ?? "none").slice(0, 80)}</option>`}
    ${models.slice(0, 500).map((one) => html`<option key=${one.model} value=${one.model}>${(one.model ?? "").slice(0, 80)} · ${one.requests.toLocaleString("en-US")}</option>`)}</select></label>`;
}
