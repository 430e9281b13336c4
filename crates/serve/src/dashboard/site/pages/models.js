// The models that apps can ask for: what they cost, how much they read, who serves them, and what one more key would add.
import { html } from "../lib/html.js";
import { link, useChoices } from "../lib/address.js";
import { useApi } from "../lib/api.js";
import { dollars, short } from "../lib/figures.js";
import { Upstream } from "../lib/names.js";
import { Answer } from "../lib/states.js";
import { Table } from "../lib/table.js";

/** Providers that are off and named as the next key. */
const KEYS = 3;

export function Models() {
  const asked = useApi("/api/config", {}, 15);
  const routing = useApi("/api/routing", {}, 15);
  const verified = useApi("/api/verdicts", {}, 60);
  const found = new Map((verified.data?.verdicts ?? []).map((one) => /** @type {[string, Api.HostVerdicts]} */ ([`${one.model} ${one.upstream}`, one])));
  const [choices, choose] = useChoices();
  const find = (choices.get("find") ?? "").toLowerCase();
  const why = new Map((routing.data?.models ?? []).flatMap((model) => model.why.map((one) => /** @type {[string, string]} */ ([`${model.model} ${one.upstream}`, one.text]))));
  const all = (asked.data?.models ?? []).map((model) => ({ ...model, running: model.upstreams.filter((one) => one.on), priced: model.upstreams.filter((one) => one.on && one.price) }));
  const rows = all.filter((model) => `${model.model} ${model.aliases.join(" ")} ${model.upstreams.map((one) => one.upstream).join(" ")}`.toLowerCase().includes(find));
  /** @typedef {(typeof all)[number]} Row */
  const columns = [
    { name: "model", title: "Model", order: (/** @type {Row} */ row) => row.model, cell: (/** @type {Row} */ row) => html`<a href=${link("leaderboard", { model: row.model })}>${row.model}</a>${row.aliases.length > 0 && html`<small class="quiet"> also ${row.aliases.join(", ")}</small>`}` },
    { name: "on", title: "Hosts on", number: true, order: (/** @type {Row} */ row) => row.running.length, cell: (/** @type {Row} */ row) => html`${row.running.length} of ${row.upstreams.length}` },
    { name: "input", title: "Input, $ per million", number: true, order: (/** @type {Row} */ row) => least(row.priced, (price) => price.input), cell: (/** @type {Row} */ row) => range(row.priced.map((one) => one.price?.input ?? 0), dollars) },
    { name: "output", title: "Output", number: true, order: (/** @type {Row} */ row) => least(row.priced, (price) => price.output), cell: (/** @type {Row} */ row) => range(row.priced.map((one) => one.price?.output ?? 0), dollars) },
    { name: "context", title: "Context", about: "tokens of prompt and answer", number: true, order: (/** @type {Row} */ row) => Math.max(0, ...row.running.map((one) => one.context ?? 0)), cell: (/** @type {Row} */ row) => range(row.running.flatMap((one) => (one.context === null ? [] : [one.context])), thousands) },
    { name: "abilities", title: "Can", about: "what the catalogue says of the hosts that are on; of several, what all can", cell: (/** @type {Row} */ row) => abilities(row.running) },
    { name: "policy", title: "Policy", order: (/** @type {Row} */ row) => row.policy, cell: (/** @type {Row} */ row) => html`<a href=${link("routing", { model: row.model })}>${row.policy}</a>` },
    {
      name: "hosts", title: "Hosts", wide: true,
      cell: (/** @type {Row} */ row) => row.upstreams.slice(0, 12).map((one) => html`<div class=${`host ${one.on ? "" : "quiet"}`} title=${why.get(`${row.model} ${one.upstream}`)}><span class="hidden">${one.on ? "on" : "off"}</span><span aria-hidden="true">${one.on ? "●" : "○"}</span> <${Upstream} name=${one.upstream} /><${Verdict} found=${found.get(`${row.model} ${one.upstream}`)} /></div>`)
        .concat(row.upstreams.length > 12 ? [html`<div class="quiet">and ${row.upstreams.length - 12} more</div>`] : []),
    },
  ];
  return html`<h1>Models</h1>
    <${Answer} asked=${asked} empty=${all.length === 0} none="The configuration has no model.">
      ${asked.data && html`<${OneMoreKey} config=${asked.data} />`}
      <div class="filters"><label>Name contains<input type="search" value=${choices.get("find") ?? ""} onInput=${(/** @type {any} */ event) => choose({ find: event.target.value })} /></label></div>
      ${rows.length === 0 ? html`<p class="note empty">No model has this in its name or upstreams.</p>` : html`<${Table} caption="Prices and context of the hosts that are on, from the least to the most; ● on, ○ off" columns=${columns} rows=${rows} id=${(/** @type {any} */ row) => row.model}
        sort=${choices.get("sort") ?? "-on"} onSort=${(/** @type {string} */ sort) => choose({ sort })} />`}
      ${(asked.data?.models_left_out ?? 0) > 0 && html`<p class="quiet">${asked.data?.models_left_out} more models are not shown.</p>`}
    <//>`;
}

/** What the key of a provider that is off would add, the most useful first. @param {{ config: Api.Configuration }} props */
function OneMoreKey({ config }) {
  const off = config.providers.filter((provider) => !provider.on && provider.keys === 0).map((provider) => {
    const own = config.models.filter((model) => model.upstreams.some((one) => !one.on && one.upstream.startsWith(`${provider.provider}/`)));
    const hosts = (/** @type {Api.ConfiguredModel} */ model) => model.upstreams.filter((one) => one.on).length;
    return { provider: provider.provider, fresh: own.filter((model) => hosts(model) === 0).length, raced: own.filter((model) => hosts(model) === 1).length, wider: own.filter((model) => hosts(model) > 1).length };
  }).filter((one) => one.fresh + one.raced + one.wider > 0).sort((a, b) => b.raced - a.raced || b.fresh - a.fresh || b.wider - a.wider);
  if (off.length === 0) return html`<p class="lead">Every provider that these models name is on.</p>`;
  const parts = (/** @type {(typeof off)[number]} */ one) => [one.raced > 0 && `a second host to race for ${counted(one.raced)}`, one.fresh > 0 && `a first host for ${counted(one.fresh)}`, one.wider > 0 && `one more host for ${counted(one.wider)}`].filter(Boolean).join(", ");
  return html`<p class="lead">One more key would add: ${off.slice(0, KEYS).map((one, at) => html`${at > 0 ? "; " : ""}<strong>${one.provider}</strong>, ${parts(one)}`)}.</p>`;
}

/** What `photofinish verify` found about a host, with its age. @param {{ found: Api.HostVerdicts | undefined }} props */
function Verdict({ found }) {
  if (!found) return null;
  const differs = found.wrong.map((one) => `${one.fact}: ${one.answer}${one.detail && ` (${one.detail})`}`).join("; ");
  return html`<small class="quiet"> verified ${found.age}: ${differs || `no difference in ${found.said} facts`}</small>`;
}

/** What all of these can. @param {Api.ConfiguredUpstream[]} running */
function abilities(running) {
  const all = running.slice(1).reduce((kept, one) => kept.filter((name) => one.abilities.includes(name)), running[0]?.abilities ?? []);
  return all.length > 0 ? all.join(", ") : html`<span class="quiet">–</span>`;
}

/** @param {number} models */
const counted = (models) => (models === 1 ? "one model" : `${models} models`);

/** @param {Api.ConfiguredUpstream[]} priced @param {(price: Api.ConfiguredPrice) => number} of */
const least = (priced, of) => (priced.length === 0 ? null : Math.min(...priced.map((one) => (one.price ? of(one.price) : Infinity))));

/** @param {number} tokens */
const thousands = (tokens) => (tokens >= 1000 ? `${short(Math.round(tokens / 1000))}k` : String(tokens));

/** @param {number[]} values @param {(value: number) => string} text */
function range(values, text) {
  if (values.length === 0) return html`<span class="quiet" title="not known">–</span>`;
  const [low, high] = [text(Math.min(...values)), text(Math.max(...values))];
  return low === high ? low : `${low} to ${high}`;
}
