// The models that apps can ask for, with their upstreams.
import { html } from "../lib/html.js";
import { link, useChoices } from "../lib/address.js";
import { useApi } from "../lib/api.js";
import { Answer } from "../lib/states.js";
import { Table } from "../lib/table.js";

export function Models() {
  const asked = useApi("/api/routing", {}, 10);
  const [choices, choose] = useChoices();
  const find = choices.get("find") ?? "";
  const on = new Map((asked.data?.upstreams ?? []).map((/** @type {any} */ upstream) => [upstream.upstream, upstream.on]));
  const all = (asked.data?.models ?? []).map((/** @type {any} */ model) => ({
    ...model,
    on: model.why.filter((/** @type {any} */ why) => on.get(why.upstream)).length,
  }));
  const rows = all.filter((/** @type {any} */ model) => `${model.model} ${model.alias_of ?? ""} ${model.why.map((/** @type {any} */ why) => why.upstream).join(" ")}`.includes(find));
  const columns = [
    { name: "model", title: "Model", order: (/** @type {any} */ row) => row.model, cell: (/** @type {any} */ row) => html`<a href=${link("routing", { model: row.model })}>${row.model}</a>` },
    { name: "alias", title: "Alias of", order: (/** @type {any} */ row) => row.alias_of, cell: (/** @type {any} */ row) => row.alias_of ?? "–" },
    { name: "policy", title: "Policy", order: (/** @type {any} */ row) => row.policy, cell: (/** @type {any} */ row) => row.policy },
    {
      name: "on",
      title: "Upstreams on",
      number: true,
      order: (/** @type {any} */ row) => row.on,
      cell: (/** @type {any} */ row) => html`${row.on} of ${row.why.length}`,
    },
    {
      name: "upstreams",
      title: "Upstreams",
      cell: (/** @type {any} */ row) => row.why.map((/** @type {any} */ why) => html`<div class=${on.get(why.upstream) ? "" : "quiet"} title=${why.text}>${on.get(why.upstream) ? "●" : "○"} <span class="mono">${why.upstream}</span></div>`),
    },
  ];
  return html`<h1>Models</h1>
    <div class="filters"><label>Name contains<input type="search" value=${find} onInput=${(/** @type {any} */ event) => choose({ find: event.target.value })} /></label></div>
    <${Answer} asked=${asked} empty=${rows.length === 0} none=${find ? "No model has this in its name or upstreams." : "The configuration has no model."}>
      <${Table} caption="● on, ○ off: the reason is the title of each" columns=${columns} rows=${rows} id=${(/** @type {any} */ row) => row.model}
        sort=${choices.get("sort") ?? "model"} onSort=${(/** @type {string} */ sort) => choose({ sort })} />
    <//>`;
}
