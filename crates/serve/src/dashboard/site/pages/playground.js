// One real race: a prompt, a model or upstreams, a policy. It costs what any request costs.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { here, link, useChoices } from "../lib/address.js";
import { ApiError, send, useApi } from "../lib/api.js";
import { time, useWidth } from "../lib/chart.js";
import { readEvents } from "../lib/events.js";
import { dollars } from "../lib/figures.js";
import { Choice } from "../lib/filters.js";
import { Id } from "../lib/id.js";
import { LEGEND, Lanes } from "../lib/lanes.js";
import { Dot } from "../lib/names.js";
import { namesOf, useSchemas } from "../lib/schemas.js";
import { empty, take } from "./live.js";

/** Characters of an answer that are shown. */
const SHOWN = 200_000;

/** What was typed last, also after a log-in. Memory alone: a prompt is kept nowhere. */
let typed = "";

export function Playground() {
  const config = useApi("/api/config");
  const schemas = useSchemas();
  const [choices, choose] = useChoices();
  const [prompt, setPrompt] = useState(typed);
  typed = prompt;
  const [run, setRun] = useState(/** @type {{ state: "idle" | "running" | "over", text: string, race?: string, error?: string }} */ ({ state: "idle", text: "" }));
  const [, draw] = useState(0);
  const feed = useRef(empty("", Infinity));
  const stop = useRef(/** @type {AbortController | null} */ (null));
  const models = /** @type {any[]} */ (config.data?.models ?? []);
  const model = choices.get("model") ?? models.find((one) => one.upstreams.some((/** @type {any} */ upstream) => upstream.on))?.model ?? "";
  const most = Number(choices.get("max") ?? "200");
  useEffect(() => {
    const source = new EventSource(here("/api/live"));
    source.onmessage = (message) => {
      take(feed.current, JSON.parse(message.data), performance.now());
      draw((turn) => turn + 1);
    };
    const timer = setInterval(() => draw((turn) => turn + 1), 100);
    return () => {
      source.close();
      clearInterval(timer);
      stop.current?.abort();
    };
  }, []);
  const ask = async (/** @type {Event} */ event) => {
    event.preventDefault();
    stop.current?.abort();
    const own = new AbortController();
    stop.current = own;
    setRun({ state: "running", text: "" });
    /** @type {Record<string, string>} */
    const headers = { "content-type": "application/json" };
    if (choices.get("policy")) headers["x-photofinish-policy"] = choices.get("policy") ?? "";
    let text = "";
    /** @type {string | undefined} */
    let error;
    try {
      const body = JSON.stringify({ model, stream: true, max_tokens: most, messages: [{ role: "user", content: prompt }] });
      const answer = await send("/v1/chat/completions", { method: "POST", headers, body, signal: own.signal });
      const race = answer.headers.get("x-photofinish-race") ?? undefined;
      setRun({ state: "running", text, race });
      await readEvents(answer, (data) => {
        if (data === "[DONE]") return;
        const part = JSON.parse(data);
        if (part.error) error = part.error.message;
        text = (text + (part.choices?.[0]?.delta?.content ?? "")).slice(0, SHOWN);
        setRun({ state: "running", text, race, error });
      });
      setRun({ state: "over", text, race, error });
    } catch (problem) {
      const said = own.signal.aborted ? "Stopped." : problem instanceof ApiError ? problem.message : "The answer broke off.";
      setRun((before) => ({ ...before, state: "over", error: said }));
    }
  };
  return html`<h1>Playground</h1>
    <form onSubmit=${ask}>
      <div class="filters"><label class="long">Model, or upstreams with commas between<input list="playground-models" value=${model} required onChange=${(/** @type {any} */ event) => choose({ model: event.target.value.trim() })} />
        <datalist id="playground-models">${models.map((one) => html`<option value=${one.model} />`)}</datalist></label>
        <${Choice} name="policy" title="Policy" values=${[["", "the model's own"], ...namesOf(schemas, "Policy").map(([name]) => [name, name])]} usual="" />
        <label>Most tokens<input type="number" min="1" max="100000" value=${most} onChange=${(/** @type {any} */ event) => choose({ max: event.target.value === "200" ? "" : event.target.value })} /></label></div>
      <label>Prompt<textarea rows="4" required value=${prompt} onInput=${(/** @type {any} */ event) => setPrompt(event.target.value)}></textarea></label>
      <p class="lead">${price(models.find((one) => one.model === model || one.aliases.includes(model)), prompt, most)}</p>
      <p class="filters"><button class="main" type="submit" disabled=${run.state === "running" || !model}>Run one race</button>
        ${run.state === "running" && html`<button type="button" onClick=${() => stop.current?.abort()}>Stop</button>`}</p>
    </form>
    ${run.error && html`<p class="note bad" role="alert">${run.error}</p>`}
    ${run.race && html`<${Raced} race=${feed.current.races.get(run.race)} id=${run.race} />`}
    ${(run.text || run.state === "over") && html`<h2>Answer</h2><pre class="command" aria-live="polite">${run.text || "(no text)"}</pre>`}`;
}

/** What it may cost: nothing is known of an upstream without a price. @param {any} model @param {string} prompt @param {number} most */
function price(model, prompt, most) {
  if (!model) return "What it costs is not known before the race: upstreams are named, or the model is unknown.";
  const input = new TextEncoder().encode(prompt).length / 4;
  const on = model.upstreams.filter((/** @type {any} */ upstream) => upstream.on);
  const priced = on.filter((/** @type {any} */ upstream) => upstream.price);
  const each = priced.map((/** @type {any} */ upstream) => (input * upstream.price.input + most * upstream.price.output) / 1e6);
  if (on.length === 0) return "None of its upstreams is on.";
  if (priced.length === 0) return `No price is known of its ${on.length} upstreams that are on.`;
  const all = each.reduce((/** @type {number} */ sum, /** @type {number} */ usd) => sum + usd, 0);
  const some = priced.length < on.length ? ` Of ${on.length - priced.length} no price is known.` : "";
  return html`It will cost <strong>$${dollars(Math.min(...each))}</strong> at the cheapest alone, at most <strong>$${dollars(all)}</strong> if every upstream runs to its end. <span class="quiet">Estimated, with about ${Math.round(input)} tokens of prompt and all ${most} of the answer.${some}</span>`;
}

/** @param {{ race: import("./live.js").LiveRace | undefined, id: string }} props */
function Raced({ race, id }) {
  const [place, width] = useWidth();
  const lanes = [...(race?.lanes.values() ?? [])].sort((a, b) => a.attempt - b.attempt);
  const winner = lanes.find((lane) => lane.winner);
  return html`<h2>Race <${Id} id=${id} href=${link(`races/${id}`)} /></h2>
    <p class="lead" role="status">${winner ? html`<${Dot} name=${winner.upstream} /><strong>${winner.upstream}</strong> won after ${time((winner.first ?? 0))}.` : race ? "Racing …" : "Its events did not come: the race's page has its rows."}</p>
    <div class="chart" ref=${place}>${width > 0 && race && html`<${Lanes} lanes=${lanes} now=${race.done ? race.done.at_ms ?? undefined : performance.now() - race.zero} width=${width} row=${40} />`}</div><p class="caption">${LEGEND}</p>`;
}
