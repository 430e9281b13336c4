// The dashboard over data, clocks and databases that are not as usual.
import { execFileSync, spawn } from "node:child_process";
import { chmodSync, chownSync, mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { ask, check, gateway, opened, options, overlaps, PAGES, temporary, violations, written } from "./harness.mjs";

const WEEK = "since=2020-01-06&until=2020-01-13";
/** The longest name that a model or an upstream may have, of markup, quotes, right-to-left marks and emoji. */
const ODD = Array.from("<script>alert(1)</script>\"'`&amp;\u202e\u2067\u{1f3c1}".repeat(10)).slice(0, 190).join("");
/** 10 KB of markup, quotes, right-to-left marks and emoji. */
const LONG = "<script>alert(1)</script>\"'`&amp;\u202e\u2067\u{1f3c1}".repeat(180).slice(0, 9_000) + "\u{1f600}".repeat(250);

function world(port) {
  const simulated = (name, more) => `[providers.${name}]\nsimulate = { ttft = "15ms", jitter = 0.4, ${more} }\n`;
  const model = (name, upstreams, policy) => `[models.${JSON.stringify(name)}]\npolicy = "${policy}"\nmax_attempts = 16\nupstreams = [${upstreams.join(", ")}]\n`;
  const priced = (name) => `{ upstream = "${name}", input_price = 0.5, output_price = 2.0 }`;
  const many = Array.from({ length: 500 }, (_, at) => `"quick/m${at}"`);
  return `[server]\nlisten = "127.0.0.1:${port}"\n[store]\nurl = "sqlite:history.db"\n`
    + simulated("quick", "tokens_per_second = 400, tokens = 12") + simulated("slow", "tokens_per_second = 10, tokens = 80")
    + model("one", ['"quick/one"'], "fallback") + model("half", [priced("quick/a"), priced("quick/b"), '"quick/c"', '"quick/d"'], "race")
    + model("many", many, "fallback") + model("wide", Array.from({ length: 16 }, (_, at) => `"quick/openai/gpt-oss-120b-w${at}"`), "race") + model("slow", ['"slow/one"', '"slow/two"'], "race") + model(ODD, [JSON.stringify(`quick/${ODD}`)], "fallback");
}

/** Runs SQL on the database of a gateway that runs. */
function sql(served, text) {
  execFileSync("python3", ["-c", "import sqlite3, sys\nbase = sqlite3.connect('history.db', timeout=10)\nbase.executescript(sys.argv[1])\nbase.commit()", text], { cwd: served.folder });
}

/** Every page with these choices: it holds together, says nothing senseless, and the browser has no complaint. */
async function visit(browser, served, what, query = "", more = [], thorough = false) {
  const { page, complaints, go, context } = await opened(browser, served);
  for (const path of [...PAGES.map((name) => `/${name}${query}`), ...more]) {
    for (const width of thorough ? [390, 1280, 2560] : [390]) {
      await page.setViewportSize({ width, height: 900 });
      await go(path);
      const text = await page.locator("main").innerText();
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      check(`${what}: ${path} ${width}: nothing is wider than the window`, Math.max(0, wide), 0);
      check(`${what}: ${path} ${width}: no text lies on another`, await overlaps(page), []);
      check(`${what}: ${path} ${width}: it makes sense`, /NaN|Infinity|undefined|Invalid Date|\[object|This page broke/.exec(text)?.[0] ?? "", "");
    }
    if (thorough) check(`${what}: ${path}: axe`, await violations(page), []);
    if (options.shots) {
      mkdirSync(options.shots, { recursive: true });
      await page.screenshot({ path: join(options.shots, `${`${what} ${path}`.replace(/\W+/g, "-").slice(0, 100)}.png`) });
    }
  }
  // The browser itself tells of every answer that is no 2xx.
  check(`${what}: the browser complains of nothing`, complaints.filter((text) => !/status of (400|404|503)/.test(text)), []);
  await context.close();
}

const latest = async (served, query = "limit=1") => (await (await fetch(`${served.base}/api/races?${query}`)).json()).races;

async function oddData(browser, served) {
  const [only] = await written(served, await ask(served, 1, undefined, "one"));
  await visit(browser, served, "one attempt in all", "", [`/races/${only.race_id}`, "/time?metric=cost", "/costs?by=upstream"], true);
  await ask(served, 20, undefined, "half");
  for (let at = 0; at < 500; at += 20) await Promise.all(Array.from({ length: 20 }, (_, one) => ask(served, 1, undefined, `quick/m${at + one}`)));
  // Sixteen upstreams in each race: more lines than one chart may have.
  await ask(served, 12, undefined, "wide");
  const odd = await ask(served, 4, undefined, ODD);
  await ask(served, 2, undefined, LONG);
  await ask(served, 2, undefined, `quick/${LONG}`);
  await ask(served, 2, undefined, `nobody/${LONG}`);
  await written(served, odd);
  const [long] = await latest(served);
  await visit(browser, served, "500 upstreams, names of 10 KB, half of the prices", "", [`/races/${long.race_id}`, "/costs?by=upstream", "/costs?by=model", "/time?by=model", "/time?model=wide", "/overview?model=wide", "/leaderboard?model=wide", "/load?model=wide", "/playground?model=half", `/races?model=${encodeURIComponent(LONG.slice(0, 500))}`]);
  await visit(browser, served, "an empty week", `?${WEEK}`);
  await visit(browser, served, "a range that ends before it begins", "?since=2026-01-02&until=2026-01-01");
}

async function runningRace(browser, served) {
  const { page, complaints, go, context } = await opened(browser, served);
  await go("/live");
  const begun = ask(served, 1, undefined, "slow");
  await page.locator(".race a").first().waitFor();
  const id = await page.locator(".race a").first().getAttribute("title");
  await page.locator(".race a").first().click();
  await page.getByText("still running").waitFor({ timeout: 5000 }).then(() => check("a race that runs says so", true), async () => check("a race that runs says so", await page.locator("main").innerText()));
  check("a race that runs: axe", await violations(page), []);
  await begun;
  await page.getByText("The client's first token").waitFor({ timeout: 15_000 }).then(() => check("and its page shows its end by itself", true), async () => check("and its page shows its end by itself", await page.locator("main").innerText()));
  check("a race that runs: the browser complains of nothing", complaints.filter((text) => !text.includes("status of 404")), []);
  await context.close();
  const columns = execFileSync("python3", ["-c", "import sqlite3\nprint(','.join(row[1] for row in sqlite3.connect('history.db').execute('PRAGMA table_info(attempt_row)')))"], { cwd: served.folder }).toString().trim().split(",");
  const copied = (ordinal) => columns.map((name) => (name === "ordinal" ? ordinal : name === "dispatch_us" ? `dispatch_us + ${ordinal} * 900` : `"${name}"`)).join(",");
  sql(served, Array.from({ length: 30 }, (_, at) => `INSERT INTO attempt_row SELECT ${copied(at + 2)} FROM attempt_row WHERE race_id = '${id}' AND ordinal = 1;`).join("\n"));
  await visit(browser, served, "32 attempts", "?since=1h", [`/races/${id}`]);
  const seen = await opened(browser, served);
  await seen.go(`/races/${id}`);
  check("a race of 32 attempts has 32 lanes", (await seen.page.locator(".chart svg").first().getAttribute("aria-label")).split("; ").length, 32);
  await seen.context.close();
}

async function jumped(browser, served) {
  // One race a month ahead, one before 1970 was over, and one whose client saw its first token before it asked.
  const [first, second, third] = await latest(served, "limit=3&outcome=ok");
  sql(served, `UPDATE race_row SET started_at = started_at + 2592000000000 WHERE race_id = '${first.race_id}';
    UPDATE race_row SET started_at = 86400000000 WHERE race_id = '${second.race_id}';
    UPDATE race_row SET first_token_sent_us = -5000, done_us = -4000 WHERE race_id = '${third.race_id}';`);
  const ids = [first, second, third].map((race) => `/races/${race.race_id}`);
  await visit(browser, served, "a clock that jumped", "?since=all", [...ids, "/time?since=24h"]);
}

async function noDatabase(browser, served) {
  const { page, go, context } = await opened(browser, served);
  const moved = (from, to) => readdirSync(from).filter((name) => name.startsWith("history.db")).forEach((name) => renameSync(join(from, name), join(to, name)));
  const aside = join(served.folder, "aside");
  mkdirSync(aside);
  await go("/leaderboard?since=1h");
  const before = await page.locator("tbody tr").count();
  moved(served.folder, aside);
  await page.getByText("There is no history").or(page.getByText("history.db")).first().waitFor({ timeout: 25_000 });
  const told = await page.locator("main").innerText();
  check("a database that is removed: the page says so, and that its figures are old", [/cannot be read/.test(told), /from before/.test(told), before > 0], [true, true, true]);
  check("a database that is removed: axe", await violations(page), []);
  moved(aside, served.folder);
  await page.waitForFunction(() => !document.body.innerText.includes("from before"), undefined, { timeout: 60_000 });
  check("and when it is back the page goes on by itself", await page.locator("tbody tr").count(), before);
  await context.close();
}

async function locked(browser, served) {
  const text = "import sqlite3, sys\nbase = sqlite3.connect('history.db', timeout=10)\nbase.execute('BEGIN IMMEDIATE')\nprint('locked', flush=True)\nsys.stdin.read()";
  const holder = spawn("python3", ["-c", text], { cwd: served.folder, stdio: ["pipe", "pipe", "inherit"] });
  await new Promise((done) => holder.stdout.once("data", done));
  await visit(browser, served, "a database that another process locks", "?since=1h");
  const ids = await ask(served, 4, undefined, "one");
  check("the gateway answers meanwhile", ids.length, 4);
  holder.stdin.end();
  await new Promise((done) => holder.once("exit", done));
  check("and no row is lost", (await written(served, ids)).length, 4);
}

async function readOnly(browser) {
  if (process.getuid?.() !== 0) return console.log("skip  a database that cannot be written: it needs root");
  const folder = temporary();
  const first = await gateway([], folder, 0, world(0));
  await ask(first, 8, undefined, "half");
  await first.end();
  for (const name of readdirSync(folder)) chmodSync(join(folder, name), 0o444);
  chownSync(folder, 65_534, 65_534);
  chmodSync(folder, 0o555);
  try {
    const served = await gateway([], folder, 0, world(0), { uid: 65_534, gid: 65_534 });
    await ask(served, 4, undefined, "half");
    await visit(browser, served, "a database that cannot be written");
    await served.end();
  } catch (error) {
    check("a database that cannot be written is told at the start", /read-only|readonly|permission|write/i.test(String(error)) || String(error));
  }
  rmSync(folder, { recursive: true });
}

async function endedSession(browser) {
  const served = await gateway([["ann", "admin"]], temporary(), 0, world(0) + '[users.ann]\ntoken = "ann-token-0123456789"\nrole = "admin"\n');
  const { page, context } = await opened(browser, served);
  await page.goto(`${served.base}/dashboard/playground?model=slow`);
  const logIn = async () => {
    await page.getByLabel("Token", { exact: true }).fill("ann-token-0123456789");
    await page.keyboard.press("Enter");
  };
  await logIn();
  await page.getByLabel("Prompt").fill("planted-prompt");
  await page.getByRole("button", { name: "Run one race" }).click();
  await page.getByRole("heading", { name: "Answer" }).waitFor();
  const [cookie] = await context.cookies();
  await fetch(`${served.base}/dashboard/session`, { method: "DELETE", headers: { cookie: `${cookie.name}=${cookie.value}`, origin: served.base } });
  const length = async () => (await page.locator("pre").last().innerText()).length;
  const begun = await length();
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached", timeout: 20_000 });
  check("an answer goes on to its end when its session ends", await length() > begun);
  await page.getByRole("button", { name: "Run one race" }).click();
  await page.getByLabel("Token", { exact: true }).waitFor();
  await logIn();
  await page.getByLabel("Prompt").waitFor();
  check("the next one asks for the token, and the prompt is still there", await page.getByLabel("Prompt").inputValue(), "planted-prompt");
  await page.goto(`${served.base}/dashboard/time?metric=client_ttft`);
  const reader = page.getByRole("slider").first();
  await reader.waitFor();
  const box = await reader.boundingBox();
  await page.mouse.move(box.x + box.width * 0.2, box.y + 50);
  await page.mouse.down();
  const [last] = await context.cookies();
  await fetch(`${served.base}/dashboard/session`, { method: "DELETE", headers: { cookie: `${last.name}=${last.value}`, origin: served.base } });
  await page.mouse.move(box.x + box.width * 0.8, box.y + 50, { steps: 4 });
  await page.mouse.up();
  await page.getByLabel("Token", { exact: true }).waitFor();
  await logIn();
  await page.getByRole("heading", { name: "Over time" }).waitFor();
  check("a session that ends while a chart is dragged: the page asks for the token, and then shows the range that was chosen", ["since", "until"].every((name) => new URL(page.url()).searchParams.get(name)) || page.url());
  await context.close();
  await served.end();
  rmSync(served.folder, { recursive: true });
}

export async function badInput(browser) {
  await endedSession(browser);
  const served = await gateway([], temporary(), 0, world(0));
  await oddData(browser, served);
  await runningRace(browser, served);
  await jumped(browser, served);
  await noDatabase(browser, served);
  await locked(browser, served);
  await served.end();
  rmSync(served.folder, { recursive: true });
  await readOnly(browser);
}
