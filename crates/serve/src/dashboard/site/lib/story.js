// What happened in a race, in one sentence or a few: only what its rows say.
import { time } from "./chart.js";
import { costText } from "./figures.js";
import { isolated, shortened } from "./names.js";

/** @param {any} row a time of an attempt, in ms since the request was read @param {string} name */
const at = (row, name) => (row[name] === null ? null : (row.dispatch_us + row[name]) / 1000);
/** @param {any} row */
const over = (row) => at(row, "cancel_us") ?? at(row, "eof_us") ?? at(row, "ttft_obs_us");

/** @param {{ race: any, attempts: any[] }} whole */
export function story({ race, attempts }) {
  if (!race) return "";
  const names = shortened(attempts.map((row) => row.upstream));
  const name = (/** @type {any} */ row) => isolated(names.get(row.upstream) ?? row.upstream);
  const winner = attempts.find((row) => row.ordinal === race.winner);
  const parts = [begin(race, winner, name)];
  for (const row of attempts) {
    const before = attempts.filter((other) => other.ordinal < row.ordinal);
    const start = row.dispatch_us / 1000;
    if (row.start_reason === "hedge") {
      const late = before.filter((other) => (at(other, "first_token_us") ?? Infinity) > start && (over(other) ?? Infinity) > start);
      const predicted = late.every((other) => other.predicted_us != null) ? late.map((other) => time(other.predicted_us / 1000)).join(" and ") : "";
      parts.push(`${late.length > 0 ? `${late.map(name).join(" and ")} had no token` : "those before were late"} at ${time(start)}${predicted ? ` (predicted: after ${predicted})` : ""}, so ${name(row)} was started`);
    } else if (row.start_reason === "fallback") {
      const failed = before.filter((other) => other.failure !== null || ["failed", "timeout", "empty", "refused"].includes(other.outcome)).at(-1);
      parts.push(`${failed ? `${name(failed)} failed (${(failed.failure ?? failed.outcome).replaceAll("_", " ")})` : "one before had failed"}, so ${name(row)} was started at ${time(start)}`);
    } else if (row.start_reason === "retry") parts.push(`${name(row)} was asked again at ${time(start)}`);
    else if (row.start_reason === "rescue") parts.push(`the answer broke off, and ${name(row)} continued it from ${time(start)}`);
    else if (race.look === row.upstream && row.ordinal > 0) parts.push(`${name(row)} was asked too, so that upstreams can be compared`);
  }
  if (winner) parts.push(...saved(race, attempts, winner, name));
  else parts.push(...attempts.filter((row) => row.failure !== null).map((row) => `${name(row)} failed (${row.failure.replaceAll("_", " ")})${over(row) === null ? "" : ` at ${time(over(row) ?? 0)}`}`));
  const cost = paid(attempts);
  if (cost) parts.push(cost);
  return `${parts.filter(Boolean).join("; ")}.`;
}

/** @param {any} race @param {any} winner @param {(row: any) => string} name */
function begin(race, winner, name) {
  const end = race.duration_ms === null ? "" : ` after ${time(race.duration_ms)}`;
  if (race.outcome === "rejected") return `The gateway rejected it${race.http_status ? ` with status ${race.http_status}` : ""}`;
  if (race.outcome === "client_gone") return `The client left${end}${winner ? `, while ${name(winner)} answered` : ", before its first token"}`;
  if (race.outcome === "shutdown") return `The gateway was shut down${end}`;
  if (!winner) return `No upstream answered${race.duration_ms === null ? "" : `: the client got its error${end}`}`;
  if (race.outcome !== "ok") return `${name(winner)} was first, but its answer broke off${end}`;
  return race.client_ttft_ms === null ? `${name(winner)} won with its whole answer${end}` : `${name(winner)} won: the client had its first token after ${time(race.client_ttft_ms)}`;
}

/** What the race saved, as far as the first attempt was watched. @param {any} race @param {any[]} attempts @param {any} winner @param {(row: any) => string} name */
function saved(race, attempts, winner, name) {
  const first = attempts[0];
  if (attempts.length === 1 || race.client_ttft_ms === null) return [];
  if (winner === first) return [`${name(first)} was the first of the plan, so the others saved nothing`];
  if (first.outcome === "failed" || first.outcome === "timeout" || first.outcome === "refused") return [`the first of the plan, ${name(first)}, failed, so without another attempt the client would have had an error`];
  const token = at(first, "first_token_us");
  const won = at(winner, "first_token_us");
  if (token !== null && won !== null) {
    const gain = token - won;
    return [gain > 0 ? `${name(first)}, the first of the plan, had its token at ${time(token)}: racing saved ${time(gain)}` : `${name(first)}, the first of the plan, had its first token at ${time(token)}, but did not win: racing saved no time to it`];
  }
  const end = over(first);
  return [end === null ? "what racing saved is not known" : `${name(first)}, the first of the plan, had no token when it was cut off at ${time(end)}, so what racing saved is not known`];
}

/** What racing cost: its attempts, as the API names them. @param {any[]} attempts */
function paid(attempts) {
  const racing = attempts.filter((row) => row.racing !== null);
  const priced = racing.filter((row) => row.cost_usd_min !== null);
  if (priced.length === 0) return "";
  const least = priced.reduce((sum, row) => sum + row.cost_usd_min, 0);
  const most = priced.length === racing.length && racing.every((row) => row.cost_usd_max !== null) ? racing.reduce((sum, row) => sum + row.cost_usd_max, 0) : null;
  return most === 0 ? "racing cost nothing" : `racing cost ${costText(least, most)}`;
}
