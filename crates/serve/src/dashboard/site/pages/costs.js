// What attempts cost, by what they were for, and what racing gained for it.
import { html } from "../lib/html.js";
import { go, link, useChoices } from "../lib/address.js";
import { useApi } from "../lib/api.js";
import { dayOf } from "../lib/axis.js";
import { Cost, dollars, Figure, Gained, shareOf } from "../lib/figures.js";
import { Choice, Filters, windowOf } from "../lib/filters.js";
import { Upstream } from "../lib/names.js";
import { Plot } from "../lib/plot.js";
import { explained, useSchemas } from "../lib/schemas.js";
import { Answer, Source } from "../lib/states.js";
import { Table } from "../lib/table.js";

/** Days that are drawn, the newest. */
const DAYS = 92;
const BY = [["day", "day"], ["model", "model"], ["user", "user"], ["upstream", "upstream"]];
/** Members of the answer and what they are called; all but the first are racing. @type {[string, string][]} */
const PARTS = [["answers", "Answers"], ["cut", "Extras at once"], ["late", "Extras later"], ["looks", "Looks"], ["audits", "Audits"], ["drains", "Drains"], ["failed", "Failed"], ["shadows", "Shadows"]];

export function Costs() {
  const [choices, choose] = useChoices();
  const schema = useSchemas().CostParts;
  const by = choices.get("by") ?? "day";
  const asked = useApi("/api/costs", { ...windowOf(choices), by }, 30);
  const gains = useApi("/api/stats", { ...windowOf(choices), compare: "true" }, 30);
  const groups = asked.data?.groups ?? [];
  const total = /** @type {any} */ (asked.data?.total);
  const parts = PARTS.filter(([name]) => total?.[name] && (!["failed", "shadows"].includes(name) || total[name].cost_usd_max !== 0));
  const left = asked.data?.left_out ?? 0;
  const known = total && total.all.cost_usd_min !== null;
  return html`<h1>Costs</h1><${Filters}><${Choice} name="by" title="By" values=${BY} usual="day" /><//>
    <${Answer} asked=${asked} empty=${total?.attempts === 0}>${total && html`
      ${known && html`<p class="lead">Attempts cost <strong><${Sum} sum=${total.all} /></strong>; <span title=${asked.data?.about_racing}><strong><${Sum} sum=${total.racing} /></strong> of it was racing${share(total) && html` (${share(total)})`}</span>.</p>
        <p class="quiet">${asked.data?.about_racing}</p>`}
      ${asked.data?.about_range && html`<p class="note">${asked.data.about_range}</p>`}
      <dl class="facts">${parts.map(([name, title]) => html`<div class="fact" title=${explained(schema, name)}><dt><i class=${`dot b${hue(name)}`}></i>${title}</dt><dd><${Sum} sum=${total[name]} /></dd></div>`)}</dl>
      ${!known && html`<p class="note">No attempt of this range has a price, so nothing can be said of its cost. A price comes from the catalogue, or from <code>input_price</code> and <code>output_price</code> in the configuration. Simulated providers cost nothing.</p>`}
      ${known && by === "day" && html`<${Days} groups=${groups} parts=${parts} />`}
      <${Parts} groups=${groups} by=${by} parts=${parts} known=${known} sort=${choices.get("sort") ?? (by === "day" ? "" : "-all")} onSort=${(/** @type {string} */ sort) => choose({ sort })} />
      ${left > 0 && html`<p class="quiet">${left} more groups are only in the total.</p>`}
      <${Source} rolled=${asked.rolled} />`}
    <//>
    <h2>What racing gained for it</h2>
    <${Answer} asked=${gains} empty=${(gains.data ?? []).length === 0}><${Gains} models=${gains.data ?? []} /><//>`;
}

/** @param {{ sum: any }} props */
function Sum({ sum }) {
  return html`<${Cost} least=${sum.cost_usd_min} most=${sum.cost_usd_max} />`;
}

/** @param {any} sum */
const amount = (sum) => sum.cost_usd_min ?? 0;

/** The share of racing. @param {any} total */
function share(total) {
  const of = (/** @type {any} */ sum) => ({ least: sum.cost_usd_min, most: sum.cost_usd_max });
  return shareOf(of(total.racing), of(total.answers));
}

/** The colour of a part. @param {string} name */
const hue = (name) => `p${PARTS.findIndex(([part]) => part === name)}`;
/** @param {any} group @param {typeof PARTS} parts */
const whole = (group, parts) => parts.reduce((sum, [name]) => sum + amount(group[name]), 0);
const DAY = 86_400_000;
/** @param {number} ms since 1970 */
const begin = (ms) => new Date(ms).toISOString().slice(0, 19) + "Z";

/** The address of the races of a group. @param {URLSearchParams} choices @param {string} by @param {any} group */
const racesOf = (choices, by, group) => link("races", { ...windowOf(choices), ...(by === "day" ? { since: begin(Date.parse(group.day)), until: begin(Date.parse(group.day) + DAY) } : { [by]: group[by] }) });

/** Each day as a bar of its parts; a day without an attempt is a gap. @param {{ groups: any[], parts: typeof PARTS }} props */
function Days({ groups, parts }) {
  const [choices] = useChoices();
  const byDay = new Map(groups.map((group) => [Date.parse(group.day) / DAY, group]));
  const last = Math.max(...byDay.keys());
  const first = Math.max(Math.min(...byDay.keys()), last - DAYS + 1);
  const stops = Array.from({ length: last - first + 1 }, (_, at) => first + at);
  const lines = parts.map(([name, title]) => ({
    name: title, label: title, hue: hue(name),
    points: stops.map((day) => /** @type {[number, number | null]} */ ([day, byDay.has(day) ? amount(byDay.get(day)[name]) : null])),
  }));
  return html`<figure><${Plot} kind="class" form="bars" lines=${lines} stops=${stops} from=${first - 0.6} to=${last + 0.6} head=${(/** @type {number} */ day) => dayOf(day * 86_400, true)} tick=${(/** @type {number} */ day) => dayOf(day * 86_400)}
      text=${(/** @type {number} */ usd) => `$${dollars(usd)}`} about="Cost of each day by what it was for; the table below has the same"
      open=${(/** @type {number} */ day) => byDay.has(day) && go(racesOf(choices, "day", byDay.get(day)))} />
    <figcaption>The cost of each day (UTC), in the colours of the figures above.${first > Math.min(...byDay.keys()) ? ` The newest ${DAYS} days.` : ""} Where a cost is only bounded, its lower bound is drawn. A click opens the races of the day.</figcaption></figure>`;
}

/** @param {{ groups: any[], by: string, parts: typeof PARTS, known: boolean, sort: string, onSort: (sort: string) => void }} props */
function Parts({ groups, by, parts, known, sort, onSort }) {
  const [choices] = useChoices();
  const most = Math.max(1e-12, ...groups.map((group) => whole(group, parts)));
  const bar = (/** @type {any} */ row) => html`<span class="bar parts" aria-hidden="true">${parts.map(([name, title]) => amount(row[name]) > 0 && html`<i key=${name} class=${`b${hue(name)}`} title=${`${title}: $${dollars(amount(row[name]))}`} style=${{ width: `${(amount(row[name]) / most) * 100}%` }}></i>`)}</span>`;
  const columns = [
    { name: by, title: by[0].toUpperCase() + by.slice(1), order: (/** @type {any} */ row) => row[by], cell: (/** @type {any} */ row) => html`${row[by] === null ? "unknown" : html`<a href=${racesOf(choices, by, row)}>${row[by]}</a>`}${known && by !== "day" && bar(row)}` },
    { name: "attempts", title: "Attempts", number: true, order: (/** @type {any} */ row) => row.attempts, cell: (/** @type {any} */ row) => html`<${Figure} value=${row.attempts} />` },
    .../** @type {[string, string][]} */ ([["all", "All"], ["racing", "Racing"], ...parts]).map(([name, title]) => ({
      name, title, number: true, order: (/** @type {any} */ row) => amount(row[name]), cell: (/** @type {any} */ row) => html`<${Sum} sum=${row[name]} />`,
    })),
  ];
  return html`<${Table} of="CostParts" caption="A range has the bounds of what it can have cost; the title of each has every digit" columns=${columns} rows=${groups} id=${(/** @type {any} */ row) => String(row[by])} sort=${sort} onSort=${onSort} />`;
}

/** @param {{ models: Api.ModelComparison[] }} props */
function Gains({ models }) {
  const columns = [
    { name: "model", title: "Model", cell: (/** @type {any} */ row) => row.model },
    { name: "best_upstream", title: "Best alone", cell: (/** @type {any} */ row) => (row.best_upstream === null ? "–" : html`<${Upstream} name=${row.best_upstream} />`) },
    { name: "client_p50_ms", title: "Clients p50 (ms)", number: true, cell: (/** @type {any} */ row) => html`<${Figure} value=${row.client_p50_ms} unit="ms" />` },
    { name: "gain_p50_ms", title: "At p50", cell: (/** @type {any} */ row) => html`<${Gained} one=${row} at="p50" />` },
    { name: "client_p95_ms", title: "Clients p95 (ms)", number: true, cell: (/** @type {any} */ row) => html`<${Figure} value=${row.client_p95_ms} unit="ms" />` },
    { name: "gain_p95_ms", title: "At p95", cell: (/** @type {any} */ row) => html`<${Gained} one=${row} at="p95" />` },
  ];
  return html`<${Table} of="ModelComparison" caption="Against the upstream that alone would be the best, by looks; in brackets the bounds of 95 %" columns=${columns} rows=${models} id=${(/** @type {any} */ row) => String(row.model)} />`;
}
