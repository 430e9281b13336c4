// The parts of the pages that need no browser: axes, names, and the sentence of a race.
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { check } from "./harness.mjs";

const site = resolve(import.meta.dirname, "../../crates/serve/src/dashboard/site/lib");
const { apart, beside, cut, dates, scale, spread, widthOf } = await import(join(site, "axis.js"));
const { learn, colour, shortened, clip } = await import(join(site, "names.js"));
const { costText, dollars, percent, rate, short } = await import(join(site, "figures.js"));
const { story } = await import(join(site, "story.js"));
const { barOf, wordsOf } = await import(join(site, "limits.js"));

const collide = (ticks, width) => ticks.some(({ px, text }, at) => px - widthOf(text) / 2 < -0.5 || px + widthOf(text) / 2 > width + 0.5 || (at > 0 && px - widthOf(text) / 2 < ticks[at - 1].px + widthOf(ticks[at - 1].text) / 2 - 0.5));

function axes() {
  const usual = Array.from({ length: 60 }, (_, at) => 150 + at * 3);
  const far = cut([...usual, 30_000]);
  check("one timeout of 30 s does not squeeze sixty values, and is counted", [far.high < 600, far.beyond], [true, 1]);
  const dots = Array.from({ length: 24 }, (_, at) => ({ px: (at * 97) % 340, y: 20 + (at * 31) % 60, text: `provider-${at}/model` }));
  const besides = beside(dots, 340, 248);
  const touch = besides.some((one, at) => besides.some((other, place) => place > at && one.left < other.left + widthOf(other.text) && other.left < one.left + widthOf(one.text) && Math.abs(one.y - other.y) < 16));
  check("labels beside points never touch, and lie in the drawing", [touch, besides.every((one) => one.left >= 0 && one.left + widthOf(one.text) <= 340 && one.y <= 248), besides.length > 8], [false, true, true]);
  check("values that are near are not cut", cut(usual), { high: 327, beyond: 0 });
  const bad = [];
  let least = Infinity;
  for (const span of [1, 10, 59, 600, 3600, 7200, 86_400, 90_001, 604_800, 2_678_400, 31_536_000, 315_360_000]) {
    for (const begin of [1_767_225_599, 1_709_164_800, 1_795_734_767.5]) {
      for (const width of [120, 300, 360, 700, 1200, 2500]) {
        const x = scale(begin, begin + span, 60, width - 20);
        const { times, days } = dates(x, width - 80, width);
        if (collide(times, width) || collide(days, width)) bad.push([span, begin, width]);
        if (span >= 10 && width > 300) least = Math.min(least, times.length);
      }
    }
  }
  check("ticks of time neither touch nor leave the drawing", bad, []);
  check("and there are some", least >= 1);
  const many = apart(Array.from({ length: 50 }, (_, at) => ({ at, px: at * 9, text: `$${at}.00` })), 460);
  check("ticks of money do not touch", [collide(many, 460), many.length > 3], [false, true]);
  const labels = spread([10, 11, 12, 200, 201, 240].map((y) => ({ y })), 24, 12, 252).map(({ y }) => y);
  check("labels at the ends of lines are 24 pixels apart, within the chart", labels.every((y, at) => y >= 12 && y <= 252 && (at === 0 || y - labels[at - 1] >= 24)) || labels);
}

function names() {
  const all = ["aster/openai/gpt-oss-120b", "birch/gpt-oss-120b", "birch/gpt-oss-120b-turbo", "dune/openai/gpt-oss-120b"];
  check("names are cut where they are alike", [...shortened(all).values()], ["aster", "birch/…120b", "birch/…120b-turbo", "dune"]);
  check("two models of one provider keep what differs", [...shortened(["x/meta-llama/llama-3.3-70b-instruct", "x/meta-llama/llama-3.1-8b-instruct"]).values()], ["x/…3-70b-instruct", "x/…1-8b-instruct"].map((text) => text.replace("-instruct", "…")));
  const hostile = Array.from({ length: 300 }, (_, at) => `p${at % 7}/<b>\u202e${"long-".repeat(40)}${at}`);
  check("short names of 300 hostile ones are all different", new Set(shortened(hostile).values()).size, 300);
  check("a name is cut in its middle", clip("gpt-oss-120b-of-somebody-turbo", 13), "gpt-os…-turbo");
  learn({ models: [{ upstreams: all.map((upstream) => ({ upstream })) }, { upstreams: [{ upstream: "dune/llama" }, { upstream: "aster/llama" }] }] });
  check("upstreams of a model have different colours", new Set(all.map(colour)).size, all.length);
  check("a provider has its colour in the next model too", [colour("dune/llama"), colour("aster/llama")], [colour(all[3]), colour(all[0])]);
  check("numbers as text", [dollars(6.3156), dollars(0.87123), dollars(0.0000781), dollars(12_345.6), rate(0.00078), rate(12), percent(0.0789), percent(0.9996), percent(1), short(0.00001)], ["6.32", "0.87", "0.000078", "12,346", "2.81 /h", "12 /s", "7.9 %", "99.96 %", "100 %", "0.000010"]);
}

/** The cases of the program's own test. */
function costs() {
  const cases = JSON.parse(readFileSync(resolve(import.meta.dirname, "../../crates/facts/src/estimate/cost/texts.json"), "utf8"));
  check("a cost has the digits that the program writes", cases.map(([least, most]) => costText(least, most)), cases.map(([, , text]) => text));
}

/** A race of attempts, each `{ upstream, start, first?, end?, outcome, … }` in ms since the request was read. */
function told(attempts, race = {}) {
  const rows = attempts.map((one, ordinal) => ({
    ordinal, upstream: one.upstream, start_reason: one.reason ?? "first", dispatch_us: one.start * 1000, failure: one.failure ?? null, predicted_us: one.predicted === undefined ? null : one.predicted * 1000, outcome: one.outcome,
    first_token_us: one.first === undefined ? null : (one.first - one.start) * 1000, cancel_us: one.end === undefined ? null : (one.end - one.start) * 1000, eof_us: null, ttft_obs_us: null,
    cost_usd_min: one.cost ?? null, cost_usd_max: one.cost ?? null, racing: one.outcome === "lost" ? "cut" : null,
  }));
  const winner = rows.find((row) => row.outcome === "won");
  return story({ race: { outcome: winner ? "ok" : "error", winner: winner?.ordinal ?? null, client_ttft_ms: winner ? attempts[winner.ordinal].first : null, duration_ms: 900, http_status: 200, look: null, ...race }, attempts: rows });
}

function sentences() {
  const late = { upstream: "cedar/m", start: 0, end: 500, outcome: "lost", cost: 0.0001 };
  const hedge = { upstream: "aster/m", start: 296, first: 493, reason: "hedge", outcome: "won" };
  check("a cut first attempt: what was saved is not known", told([late, hedge]), "aster won: the client had its first token after 493 ms; cedar had no token at 296 ms, so aster was started; cedar, the first of the plan, had no token when it was cut off at 500 ms, so what racing saved is not known; racing cost $0.0001.");
  check("a prediction is told where it was missed", told([{ ...late, predicted: 190 }, hedge]).includes("cedar had no token at 296 ms (predicted: after 190 ms), so aster was started"));
  check("an audited first attempt: what was saved is known", told([{ ...late, first: 800, end: 800 }, hedge]).includes("cedar, the first of the plan, had its token at 800 ms: racing saved 307 ms"));
  check("the first of the plan won: nothing was saved", told([{ ...late, outcome: "won", first: 200 }, { ...hedge, outcome: "lost", first: undefined, end: 210 }]).includes("cedar was the first of the plan, so the others saved nothing"));
  check("a failure is told with what followed", told([{ upstream: "cedar/m", start: 0, outcome: "failed", failure: "server_error", end: 40 }, { ...hedge, start: 41, reason: "fallback" }]).includes("cedar failed (server error), so aster was started at 41 ms; the first of the plan, cedar, failed, so without another attempt the client would have had an error"));
  check("no winner", told([{ upstream: "cedar/m", start: 0, outcome: "failed", failure: "timeout", end: 40 }]), "No upstream answered: the client got its error after 900 ms; cedar failed (timeout) at 40 ms.");
  check("a client that left", told([{ ...late, outcome: "client_gone" }], { outcome: "client_gone" }).startsWith("The client left after 900 ms, before its first token"));
  check("a name that turns the direction turns no sentence", told([{ ...late, upstream: "\u202eevil/m", outcome: "won", first: 200 }]).startsWith("\u2068\u202eevil\u2069 won"));
  check("a rejected request", told([], { outcome: "rejected", http_status: 400 }), "The gateway rejected it with status 400.");
}

/** Of kinds that no page knows. */
function limits() {
  const rate = { limit: "images", unit: "images a day", allowed: 50, used: 12, left: 38, full_in_ms: 61_000 };
  check("a limit is a bar, whatever its kind", barOf(rate), { what: "images: 50 images a day", used: 12, most: 50, text: "12", left: "38", back: "in 61 s" });
  const money = { limit: "credit.hour", unit: "nano_usd", allowed: 5e9, used: 2e9, left: 2.5e9, full_in_ms: null, reserved: 5e8, ends_at: "12:00", runs_out_at: "11:30" };
  check("money has what is reserved in its bar", barOf(money), { what: "credit.hour: $5.00", used: 2.5e9, most: 5e9, text: "$2.50", left: "$2.50", back: "12:00; runs out 11:30" });
  check("a setting that nothing uses up is said in words, one that is used up is not", wordsOf({ set: { images: 50, credit: { hour: 5 }, zones: ["a", "b"], none: [], by: { "x-*": { day: 1.5 } }, strict: true }, uses: [rate, money] }), "zones = a, b; none = none; by = x-* day 1.5; strict = true");
}

export function parts() {
  axes();
  names();
  costs();
  limits();
  sentences();
}
