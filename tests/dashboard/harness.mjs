// What every check of the dashboard uses: gateways, traffic, a browser that counts its complaints.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";

const repository = resolve(import.meta.dirname, "../..");
export const { values: options } = parseArgs({
  options: {
    kits: { type: "string", default: "." },
    gateway: { type: "string", default: join(process.env.CARGO_TARGET_DIR ?? join(repository, "target"), "release/photofinish") },
    chromium: { type: "string", default: "/usr/bin/chromium" },
    shots: { type: "string" },
    only: { type: "string" },
    rate: { type: "string", default: "500" },
    seconds: { type: "string", default: "600" },
  },
});
const kits = createRequire(resolve(options.kits, "package.json"));
export const { chromium } = kits("playwright-core");
const axe = readFileSync(kits.resolve("axe-core/axe.min.js"), "utf8");
export const WIDTHS = [390, 1280, 2560];
export const PAGES = ["overview", "live", "races", "leaderboard", "time", "load", "incidents", "benchmarks", "costs", "whatif", "keys", "models", "routing", "status", "playground"];
// A name that would do harm where text becomes markup or breaks a layout.
export const HOSTILE = "<img/src=x/onerror=alert(1)>\"'&\u202e\u{1f600}" + "x".repeat(60);
let wrong = 0;
export const faults = () => wrong;

export function check(what, found, expected = true) {
  const ok = JSON.stringify(found) === JSON.stringify(expected);
  wrong += ok ? 0 : 1;
  console.log(`${ok ? "ok   " : "WRONG"} ${what}${ok ? "" : `: ${JSON.stringify(found)}, not ${JSON.stringify(expected)}`}`);
}

export function config(port, users) {
  const model = (name) => `[models.${JSON.stringify(name)}]\nupstreams = [{ upstream = "quick/demo", input_price = 0.5, output_price = 2.0 }, "late/demo", "broken/fail-500"]\n`;
  const provider = (name, ttft) => `[providers.${name}]\nsimulate = { ttft = "${ttft}", jitter = 0.4, tokens_per_second = 400, tokens = 12 }\n`;
  const people = users.map(([name, role, limits = ""]) => `[users.${name}]\ntoken = "${name}-token-0123456789"\nrole = "${role}"\n${limits}`).join("");
  return `[server]\nlisten = "127.0.0.1:${port}"\n[store]\nurl = "sqlite:history.db"\n[race]\npolicy = "race"\naudit = 0.1\n`
    + provider("quick", "20ms") + provider("late", "60ms") + provider("broken", "5ms") + model("demo")
    + `[models.${JSON.stringify(HOSTILE)}]\nupstreams = ['quick/<b>"&${"y".repeat(60)}']\n` + people;
}

export function temporary() {
  return mkdtempSync(join(tmpdir(), "photofinish-dashboard-"));
}

/** `text`: its configuration, another than the usual one. `as`: how it is started. */
export async function gateway(users = [], folder = temporary(), port = 0, text = config(port, users), as = {}) {
  writeFileSync(join(folder, "config.toml"), text);
  const child = spawn(resolve(options.gateway), ["serve"], { cwd: folder, env: { NO_COLOR: "1" }, stdio: ["ignore", "ignore", "pipe"], ...as });
  const ended = new Promise((done) => child.once("exit", done));
  let log = "";
  const listens = await new Promise((done, fail) => {
    child.stderr.on("data", (bytes) => {
      log += bytes;
      const found = /listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(log);
      if (found) done(Number(found[1]));
    });
    child.once("exit", () => fail(new Error(`the gateway ended:\n${log}`)));
  });
  const end = async (signal = "SIGTERM") => {
    child.kill(signal);
    await ended;
  };
  return { folder, port: listens, base: `http://127.0.0.1:${listens}`, end, log: () => log };
}

export async function ask(served, times, token, model = "demo") {
  const one = async () => {
    const answer = await fetch(`${served.base}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", ...(token ? { authorization: `Bearer ${token}` } : {}) },
      body: JSON.stringify({ model, stream: true, messages: [{ role: "user", content: "planted-prompt" }] }),
    });
    await answer.text();
    return answer.headers.get("x-photofinish-race");
  };
  const ids = [];
  for (let at = 0; at < times; at += 4) ids.push(...await Promise.all(Array.from({ length: Math.min(4, times - at) }, one)));
  return ids;
}

/** The rows of these races, in the order of `ids`. They are written a moment after the answers: this waits for them. */
export async function written(served, ids, seconds = 20) {
  const asked = ids.filter((id) => id !== null);
  const end = Date.now() + 1000 * seconds;
  for (;;) {
    const { races } = await (await fetch(`${served.base}/api/races?limit=1000`)).json();
    const rows = asked.map((id) => races.find((race) => race.race_id === id));
    if (rows.every(Boolean)) return rows;
    if (Date.now() > end) throw new Error(`${rows.filter((row) => !row).length} of ${asked.length} rows were not written within ${seconds} s`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

/** A page that counts every complaint of the browser. */
export async function opened(browser, served, settings = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...settings });
  const page = await context.newPage();
  const complaints = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && complaints.push(`${message.text()} ${message.location().url}`));
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("requestfailed", (request) => !/ERR_ABORTED/.test(request.failure()?.errorText ?? "") && complaints.push(`failed: ${request.url()}`));
  page.on("request", (request) => !request.url().startsWith(served.base) && !request.url().startsWith("data:") && complaints.push(`elsewhere: ${request.url()}`));
  const go = async (path) => {
    await page.goto(`${served.base}/dashboard${path}`);
    await page.waitForSelector("main h1");
    await page.waitForFunction(() => !document.body.innerText.includes("Reading …"));
    await page.waitForTimeout(150);
  };
  return { page, complaints, go, context };
}

export async function violations(page) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }));
  return found.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 2).map((node) => node.target.join(" ")).join(", ")}`);
}

/** Texts that lie on one another, by the boxes of what is visible of them. */
export async function overlaps(page) {
  return page.evaluate(() => {
    const boxes = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const parent = node.parentElement;
      // The bar of the groups floats over the end of what is on the screen of a phone.
      if (!node.data.trim() || parent.closest(".hidden, .skip, noscript, option, datalist, nav.groups, title, defs")) continue;
      if (!parent.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      for (const rect of range.getClientRects()) {
        const box = { text: node.data.trim().slice(0, 40), node, left: rect.left + 1, right: rect.right - 1, top: rect.top + rect.height * 0.18, bottom: rect.bottom - rect.height * 0.18 };
        for (let over = parent; over; over = over.parentElement) {
          if (getComputedStyle(over).overflowX === "visible") continue;
          const clip = over.getBoundingClientRect();
          Object.assign(box, { left: Math.max(box.left, clip.left), right: Math.min(box.right, clip.right), top: Math.max(box.top, clip.top), bottom: Math.min(box.bottom, clip.bottom) });
        }
        if (box.right > box.left && box.bottom > box.top) boxes.push(box);
      }
    }
    boxes.sort((a, b) => a.top - b.top);
    const found = [];
    boxes.forEach((one, at) => {
      for (let next = at + 1; next < boxes.length && boxes[next].top < one.bottom; next += 1) {
        const other = boxes[next];
        if (other.node !== one.node && other.left < one.right && one.left < other.right) found.push(`${one.text} | ${other.text}`);
      }
    });
    return found.slice(0, 5);
  });
}

/** Texts of drawings that their drawing cuts off. */
export async function cutOff(page) {
  return page.evaluate(() => [...document.querySelectorAll(".chart svg text")].flatMap((text) => {
    const [own, frame] = [text.getBoundingClientRect(), text.closest("svg").getBoundingClientRect()];
    return own.width > 0 && (own.left < frame.left - 1 || own.right > frame.right + 1 || own.bottom > frame.bottom + 3) ? [text.textContent.slice(0, 40)] : [];
  }).slice(0, 5));
}

/** A proxy that serves a gateway below a path of its own, such as `/llm`, and takes the path away. */
export async function below(served, path) {
  const proxy = createServer((asked, answer) => {
    if (!asked.url.startsWith(`${path}/`)) return void answer.writeHead(404).end();
    const options = { host: "127.0.0.1", port: served.port, method: asked.method, path: asked.url.slice(path.length), headers: asked.headers };
    const up = request(options, (came) => {
      answer.writeHead(came.statusCode, came.headers);
      came.pipe(answer);
    });
    up.on("error", () => answer.destroy());
    answer.on("close", () => up.destroy());
    asked.pipe(up);
  });
  await new Promise((done) => proxy.listen(0, "127.0.0.1", done));
  return { ...served, base: `http://127.0.0.1:${proxy.address().port}${path}`, close: () => proxy.closeAllConnections() ?? proxy.close() };
}
