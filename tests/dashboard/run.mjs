#!/usr/bin/env node
// Drives the dashboard in Chromium: see README.md.
import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { answers } from "./answers.mjs";
import { badInput } from "./bad-input.mjs";
import { ask, below, check, chromium, config, cutOff, faults, gateway, HOSTILE, opened, options, overlaps, PAGES, violations, WIDTHS, written } from "./harness.mjs";
import { parts } from "./parts.mjs";

async function everyPage(browser, served, race) {
  for (const theme of ["light", "dark"]) {
    const { page, complaints, go, context } = await opened(browser, served, { colorScheme: theme });
    for (const path of [...PAGES.map((name) => `/${name}`), `/races/${race}`, "/leaderboard?alone=true&sort=-ttft_p95&scale=log&more=true", "/time?metric=failures&by=model", "/time?scale=log&metric=client_ttft", "/costs?by=upstream", ...["overview", "leaderboard", "time", "load"].map((name) => `/${name}?model=${encodeURIComponent(HOSTILE)}`)]) {
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 900 });
        await go(path);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        check(`${path} ${theme} ${width}: nothing is wider than the window`, Math.max(0, wide), 0);
        check(`${path} ${theme} ${width}: no text lies on another`, await overlaps(page), []);
        check(`${path} ${theme} ${width}: no text of a drawing is cut off`, await cutOff(page), []);
        if (width === 2560) continue;
        check(`${path} ${theme} ${width}: axe`, await violations(page), []);
        check(`${path} ${theme} ${width}: no prompt`, (await page.content()).includes("planted"), false);
      }
      if (options.shots) {
        mkdirSync(options.shots, { recursive: true });
        for (const width of WIDTHS) {
          await page.setViewportSize({ width, height: 900 });
          await page.waitForTimeout(100);
          await page.screenshot({ path: join(options.shots, `${path.replace(/\W+/g, "-").slice(0, 60)}-${theme}-${width}.png`), fullPage: width !== 2560 });
        }
      }
    }
    check(`${theme}: the browser complains of nothing`, complaints, []);
    await context.close();
  }
}

async function figures(browser, served) {
  const { page, go, context } = await opened(browser, served);
  await go("/leaderboard?model=demo");
  const told = JSON.parse(execFileSync(options.gateway, ["stats", "--since", "24h", "--model", "demo", "--json"], { cwd: served.folder, env: {} }));
  // The table of what was asked leads to races, that of looks does not.
  const rows = await page.$$eval("tbody tr", (rows) => rows.filter((row) => row.querySelector("a")).map((row) => [row.querySelector(".upstream")?.title, ...[...row.querySelectorAll("data")].map((data) => data.value)]));
  check("the leaderboard has every upstream", told.length, rows.length);
  for (const group of told) {
    const row = rows.find(([name]) => name === group.upstream) ?? [];
    const median = group.ttft_p50_ms ?? group.ttft_p50_over_ms ?? null;
    check(`${group.upstream}: the page has the digits of stats --json`, [group.attempts, group.wins, ...(median === null ? [] : [median])].every((value) => row.includes(String(value))) || row.join(" "));
  }
  for (const [path, summary] of [["/time", "The series as a table"], ["/load", "The figures as a table"], ["/leaderboard", "The curves as a table"]]) {
    await go(path);
    const tables = await page.locator("table").count();
    await page.getByText(summary).last().click();
    await page.waitForFunction((count) => document.querySelectorAll("table").length > count, tables);
    check(`${path}: the table behind the chart opens`, await page.locator("details[open] tbody tr").count() > 0);
  }
  await page.getByRole("button", { name: /^Attempts/ }).focus();
  await page.keyboard.press("Enter");
  check("a sorting by keyboard is in the address", new URL(page.url()).searchParams.get("sort"), "attempts");
  await page.getByLabel("Range").selectOption("1h");
  check("a filter is in the address", new URL(page.url()).searchParams.get("since"), "1h");
  await page.reload();
  await page.waitForSelector("tbody tr");
  check("both survive a reload", [await page.getByLabel("Range").inputValue(), await page.locator("th[aria-sort=ascending]").first().innerText()], ["1h", "Attempts ↑"]);
  await page.goBack();
  check("back undoes one", new URL(page.url()).searchParams.get("since"), null);
  await page.goto(`${served.base}/dashboard`);
  await page.waitForSelector("h1");
  const reached = [];
  for (let at = 0; at < 18; at += 1) {
    await page.keyboard.press("Tab");
    reached.push(await page.evaluate(() => document.activeElement?.textContent));
  }
  check("Tab reaches the content, every group, its pages and the first control", ["To the content", "Speed", "Money", "Set-up", "Live"].every((text) => reached.includes(text)) && reached.some((text) => text?.includes("demo")) || reached);
  for (const [path, words] of [["/leaderboard?since=2030-01-01", "lies in the future"], ["/leaderboard?since=1h&until=2h", "must be before"], ["/races?model=nobody", "There is nothing in this range"], ["/time?metric=nonsense", "nonsense"], ["/races/nonsense", "invalid value"]]) {
    await go(path);
    check(`${path} says what is wrong`, (await page.locator("main").innerText()).includes(words) || await page.locator("main").innerText());
  }
  await page.goto(`${served.base}/dashboard/nowhere`).catch(() => undefined);
  check("an unknown page is a 404", (await page.content()).includes("photofinish_not_found"));
  const plain = await browser.newContext({ javaScriptEnabled: false });
  const still = await plain.newPage();
  await still.goto(`${served.base}/dashboard`);
  check("without JavaScript the page says what to do", (await still.locator("noscript").innerText()).includes("needs JavaScript"));
  await plain.close();
  await context.close();
}

async function live(browser, served) {
  const { page, go, complaints, context } = await opened(browser, served);
  await go("/live");
  await page.getByText("Watching.").waitFor();
  const ids = await ask(served, 12);
  await page.waitForFunction(() => document.querySelectorAll(".lanes.over").length === 12);
  const told = await page.$$eval(".race", (races) => races.map((race) => [race.querySelector("a")?.title, race.querySelector("svg")?.getAttribute("aria-label")]));
  check("the lanes are the races", told.map(([id]) => id).sort(), [...ids].sort());
  const rows = await written(served, ids);
  const winners = new Map(rows.map((row) => [row.race_id, row.upstream]));
  check("the winners of the lanes are those of the rows", told.filter(([id, said]) => !said?.includes(`${winners.get(id)} won`)), []);
  await page.getByRole("button", { name: "Pause" }).click();
  await ask(served, 4);
  await page.waitForFunction(() => document.body.innerText.includes("\n16\n"));
  check("paused, lanes stand still and counts go on", await page.$$eval(".race a", (links) => links.map((link) => link.title)), told.map(([id]) => id));
  await served.end("SIGKILL");
  await page.getByText("The gateway does not answer.").waitFor();
  check("a gateway that is gone is told", true);
  const again = await gateway([], served.folder, served.port);
  await page.getByText("Watching.").or(page.getByText("Paused:")).first().waitFor({ timeout: 20_000 });
  check("and it comes back by itself", true);
  check("only the lost connection is complained of", complaints.filter((text) => !/ERR_|failed: /.test(text)), []);
  await context.close();
  return again;
}

async function replayed(browser, served) {
  const { page, go, complaints, context } = await opened(browser, served);
  await go("/whatif?model=demo");
  await page.getByRole("button", { name: "Replay", exact: true }).click();
  await page.getByRole("heading", { name: /^demo, \d+ requests/ }).waitFor();
  const told = JSON.parse(execFileSync(options.gateway, ["replay", "--since", "24h", "--model", "demo", "--policy", "adaptive", "--budget", "0.1", "--json"], { cwd: served.folder, env: {} }));
  const rows = await page.$$eval("tbody tr", (rows) => rows.map((row) => row.querySelector("data")?.value));
  check("what if: the digits of replay --json", rows, told.rows.map((row) => String(row.ttft_p50_ms.value)));
  check("what if: axe", await violations(page), []);
  await page.getByRole("button", { name: "Suggest three budgets" }).click();
  await page.getByRole("heading", { name: "The frontier of budgets" }).waitFor();
  await page.waitForFunction(() => [...document.querySelectorAll("table")].some((table) => table.querySelectorAll("tbody tr").length === 7), undefined, { timeout: 60_000 });
  check("three suggestions, in time and money", await page.locator(".suggest .card").allInnerTexts().then((texts) => texts.length === 3 && texts.every((text) => /ms|The quickest, too/.test(text)) || texts));
  check("the frontier has every budget: axe", await violations(page), []);
  await go("/playground?model=demo");
  await page.getByLabel("Prompt").fill("Who is first?");
  check("the price stands there before the race", /\$.*Estimated/s.test(await page.locator("form").innerText()));
  await page.getByRole("button", { name: "Run one race" }).click();
  await page.getByRole("heading", { name: "Answer" }).waitFor();
  await page.getByRole("button", { name: "Run one race" }).isEnabled();
  await page.waitForFunction(() => document.querySelector(".chart svg")?.getAttribute("aria-label")?.includes("won"));
  check("the playground draws its race and shows the answer", (await page.locator("pre").last().innerText()).length > 10);
  check("the playground: axe", await violations(page), []);
  check("what if and the playground: the browser complains of nothing", complaints, []);
  await context.close();
}

/** A stage of a benchmark, as `photofinish bench` stores it. */
function stage(target, users, ttft, speed, doubts = []) {
  const near = (value) => ({ n: 100, effective: 100, mean: value, p5: value * 0.8, p25: value * 0.9, p50: { value, low: value * 0.95, high: value * 1.05 }, p75: value * 1.1, p90: { value: value * 1.3, low: null, high: null }, p95: { value: value * 1.5, low: value, high: null }, p99: { value: value * 2, low: value, high: null } });
  return { target, users, request_rate: null, arrivals: null, seconds: 10, warm_up: 3, ends: { answered: 100 }, failures: {}, ttft_ms: near(ttft), client_ttft_ms: null, tpot_ms: near(1000 / speed), tok_s: near(speed), e2e_ms: near(ttft * 5), tok_s_all: speed * users * 0.9, answers_per_second: users, attainment: { value: 0.97, low: 0.9, high: 0.99 }, goodput: users * 0.97, cost_usd: [0, 0], notes: [], doubts, ended: null };
}

async function benchmarks(browser, served) {
  const { page, go, complaints, context } = await opened(browser, served);
  await go("/benchmarks");
  check("benchmarks: without a run the page names the command", (await page.locator("main").innerText()).includes("photofinish bench"));
  const targets = ["quick/demo", HOSTILE];
  const stages = targets.flatMap((target, at) => [1, 4, 16].map((users) => stage(target, users, 100 + 20 * users * (at + 1), 200 / users, users === 16 && at === 1 ? ["the client woke late: p99 9.9 ms"] : [])));
  const compare = (figure, verdict) => ({ figure, base: targets[0], other: targets[1], load: "4 users", pairs: 90, ratio: { value: 1.4, low: 1.2, high: 1.6 }, margin: 0.05, verdict });
  const result = { version: 1, run_id: "x", label: "main", started_at: 0, seconds: 60, targets, workload: { name: "1k", input_tokens: 1000, output_tokens: 1000 }, prefix: 0, seed: 1, slo: null, stages, curves: [{ target: targets[0], knee_users: 4, half_speed_users: 4, drift: null }, { target: targets[1], knee_users: null, most_users: 16, half_speed_users: null, drift: null }], found: [{ target: targets[0], attain: 0.9, passes: 4, fails: 4.4, first_missed: "ttft", trials: [] }], not_compared: ["16 users were not compared"], comparisons: [compare("ttft", "worse"), compare("tok_s", { cannot_tell: { more: 120 } })], cost_usd_min: 0, cost_usd_max: 0.02, calibration_ms: 0.2, machine: "linux x86_64, 2 cores", cut_short: null };
  const insert = "import sqlite3, sys, json\nbase = sqlite3.connect('history.db', timeout=10)\nbase.executemany('INSERT INTO run VALUES (?,?,?,?,?,?,?,?,?,?,?,?)', json.loads(sys.argv[1]))\nbase.commit()";
  const id = (digit) => `0190000${digit}-0000-7000-8000-000000000000`;
  execFileSync("python3", ["-c", insert, JSON.stringify([
    [id(1), "bench", "main", 1_767_000_000_000_000, 1_767_000_060_000_000, targets.join(" "), "{}", "linux x86_64, 2 cores", "the client woke late: p99 9.9 ms", 0.02, 0.02, JSON.stringify(result)],
    [id(2), "bench", HOSTILE, 1_767_000_100_000_000, null, "quick/demo", "{}", null, null, null, null, null],
    [id(3), "probe", null, 1_767_000_200_000_000, 1_767_000_201_000_000, "quick/demo", "{}", null, "trusted", 0.001, 0.001, "{}"],
  ])], { cwd: served.folder });
  for (const [path, words] of [["/benchmarks", ["✕ the client woke late", "◌ has not ended", "✓ trusted", "$0.02"]], [`/benchmarks/${id(1)}`, ["What does not count", "the client woke late", "from 4 users on", "no knee up to 16 users", "4/s passes, 4.4/s fails; ttft breaks first", "16 users were not compared", "✕ worse", "about 120 more requests"]], [`/benchmarks/${id(2)}`, ["still runs"]], [`/benchmarks/${id(3)}`, ["trusted"]], ["/benchmarks/nobody", ["no run has"]]]) {
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 900 });
      await go(path);
      check(`${path} ${width}: nothing is wider than the window`, Math.max(0, await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)), 0);
      if (options.shots) await page.screenshot({ path: join(options.shots, `${path.replace(/\W+/g, "-")}-${width}.png`), fullPage: true });
    }
    const text = await page.locator("main").innerText();
    check(`${path}: says what it found`, words.filter((word) => !text.includes(word)), []);
    check(`${path}: axe`, await violations(page), []);
  }
  check("benchmarks: the browser complains of nothing", complaints.filter((text) => !text.includes("status of 404")), []);
  await context.close();
}

const PLANTED = "-token-0123456789";

/** What a plain user and a viewer see, and what they may press. */
async function roles(browser, served) {
  const { page, context } = await opened(browser, served);
  const logIn = async (name) => {
    await page.goto(`${served.base}/dashboard`);
    await page.getByLabel("Token").fill(`${name}${PLANTED}`);
    await page.keyboard.press("Enter");
    await page.locator("nav.pages").waitFor();
  };
  const titles = () => page.locator("nav.groups li").allInnerTexts().then((all) => all.map((text) => text.trim()));
  await logIn("bob");
  check("a user begins with their own page", await page.locator("h1").innerText(), "Me");
  check("a user sees few pages", await titles(), ["Now", "Money", "Me"]);
  await page.getByText("Role").waitFor();
  check("a user sees each limit as a bar", await page.locator("meter").count(), 2);
  check("me: axe", await violations(page), []);
  await page.getByLabel("What it is for").fill("laptop");
  await page.getByRole("button", { name: "Make a key" }).click();
  const text = await page.locator("pre.command").innerText();
  check("a user makes a key and sees it", [/^pf_/.test(text), text.length], [true, 62]);
  await page.getByRole("button", { name: "I have it" }).click();
  await page.getByRole("button", { name: "Rotate laptop" }).click();
  const next = await page.locator("pre.command").innerText();
  check("a user rotates it", /^pf_/.test(next) && next !== text);
  await page.getByRole("button", { name: "I have it" }).click();
  await page.getByRole("button", { name: "Revoke laptop" }).first().click();
  await page.getByRole("button", { name: "For good" }).click();
  await page.getByText("revoked").first().waitFor();
  check("a user revokes it", true);
  check("me with keys: axe", await violations(page), []);
  await page.goto(`${served.base}/dashboard/status`);
  await page.getByText("No such page").waitFor();
  check("a user finds no page of admins", true);
  await page.goto(`${served.base}/dashboard/races`);
  await page.getByText("There is nothing in this range").waitFor();
  check("a user sees no races of others", true);
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("Token").waitFor();
  await logIn("vic");
  check("a viewer begins with the overview", await page.locator("h1").innerText(), "Overview");
  await page.goto(`${served.base}/dashboard/status`);
  await page.getByText("Listens on").waitFor();
  check("a viewer has no button that reads the file", await page.getByRole("button", { name: "Read the file again" }).count(), 0);
  await page.goto(`${served.base}/dashboard/keys`);
  await page.getByText("laptop").first().waitFor();
  check("a viewer has no button for keys", await page.getByRole("button", { name: /Make a key|Revoke|Rotate/ }).count(), 0);
  await context.close();
}

async function sessions(browser) {
  const served = await gateway([["ann", "admin"], ["bob", "user", "rpm = 60\nbudget = { day = 1.0 }\nmodels = [\"demo\"]\n"], ["vic", "viewer"], ["prom", "metrics"]]);
  await ask(served, 4, "ann-token-0123456789");
  await roles(browser, served);
  const { page, context } = await opened(browser, served);
  await page.goto(`${served.base}/dashboard/races?since=1h`);
  const field = page.getByLabel("Token");
  const submit = async (token) => {
    await field.fill(token);
    await page.keyboard.press("Enter");
  };
  await field.waitFor();
  check("log in: axe", await violations(page), []);
  await submit("wrong");
  await page.getByText("does not know this token").waitFor();
  await submit("prom-token-0123456789");
  await page.getByText("may not do this").waitFor();
  check("a user with the role metrics stays out", true);
  await submit("ann-token-0123456789");
  await page.locator("tbody tr").first().waitFor();
  check("an admin sees the page that was asked for", page.url(), `${served.base}/dashboard/races?since=1h`);
  check("no script sees the cookie", await page.evaluate(() => document.cookie), "");
  check("no storage is used", await page.evaluate(() => localStorage.length + sessionStorage.length), 0);
  const [cookie] = await context.cookies();
  check("the cookie is HttpOnly and strict", [cookie.httpOnly, cookie.sameSite], [true, "Strict"]);
  const foreign = await context.newPage();
  await foreign.goto(`data:text/html,<iframe src="${served.base}/dashboard"></iframe><img src="${served.base}/api/stats">`);
  await foreign.waitForTimeout(500);
  check("a foreign page gets no frame of it", (await foreign.frames()[1]?.content().catch(() => ""))?.includes("id=\"app\"") ?? false, false);
  await foreign.close();
  await page.getByRole("button", { name: "Log out" }).click();
  await field.waitFor();
  check("logging out leads to the log-in", true);
  check("the cookie is of no use then", (await fetch(`${served.base}/api/stats`, { headers: { cookie: `${cookie.name}=${cookie.value}` } })).status, 401);
  await submit("ann-token-0123456789");
  await page.locator("tbody tr").first().waitFor();
  writeFileSync(join(served.folder, "config.toml"), config(served.port, [["bob", "user"], ["vic", "viewer"], ["prom", "metrics"], ["eve", "admin"]]));
  await page.goto(`${served.base}/dashboard/status`);
  await field.waitFor({ timeout: 15_000 });
  check("a session ends with its user, and the page says so", true);
  check("no token is in the log", served.log().includes("token-0123456789"), false);
  await context.close();
  await served.end();
  rmSync(served.folder, { recursive: true });
}

async function subPath(browser) {
  const gate = await gateway([["ann", "admin"]]);
  const ids = await ask(gate, 4, "ann-token-0123456789");
  const served = await below(gate, "/llm");
  const { page, complaints, go, context } = await opened(browser, served);
  await page.goto(`${served.base}/dashboard`);
  await page.getByLabel("Token").fill("ann-token-0123456789");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Live" }).click();
  await page.getByText("Watching.").waitFor();
  check("below a path: /dashboard shows the first page, and live its events", true);
  for (const path of ["/", ...PAGES.map((name) => `/${name}`), `/races/${ids[0]}`]) {
    await go(path);
    check(`below a path: ${path} has its heading`, (await page.locator("main h1").first().innerText()).length > 0);
  }
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Races" }).click();
  check("below a path: links stay there", new URL(page.url()).pathname, "/llm/dashboard/races");
  check("below a path: the browser complains of the log-in alone", complaints.filter((text) => !text.includes("401")), []);
  await context.close();
  served.close();
  await gate.end();
  rmSync(gate.folder, { recursive: true });
}

async function usual(browser) {
  parts();
  await answers(browser);
  const empty = await gateway();
  const { page, complaints, go, context } = await opened(browser, empty);
  for (const name of PAGES) {
    await go(`/${name}`);
    check(`/${name} without a row: axe`, await violations(page), []);
  }
  check("without a row the browser complains of nothing", complaints, []);
  await context.close();
  const ids = [...await ask(empty, 60), ...await ask(empty, 4, undefined, HOSTILE)];
  await written(empty, ids);
  await everyPage(browser, empty, ids.at(-1));
  await figures(browser, empty);
  await replayed(browser, empty);
  await benchmarks(browser, empty);
  const again = await live(browser, empty);
  await again.end();
  rmSync(again.folder, { recursive: true });
  await sessions(browser);
  await subPath(browser);
}

const browser = await chromium.launch({ executablePath: options.chromium, args: ["--no-sandbox"] });
try {
  if (options.only !== "bad") await usual(browser);
  if (options.only !== "usual") await badInput(browser);
} finally {
  await browser.close();
}
console.log(faults() === 0 ? "dashboard: all as it has to be" : `dashboard: ${faults()} wrong`);
process.exit(faults() === 0 ? 0 : 1);
