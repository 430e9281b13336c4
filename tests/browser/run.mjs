#!/usr/bin/env node
// Drives Chromium against a gateway without users: see README.md.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";

const repository = resolve(import.meta.dirname, "../..");
const { values: options } = parseArgs({
  options: {
    kits: { type: "string", default: "." },
    gateway: { type: "string", default: join(repository, "target/release/photofinish") },
    chromium: { type: "string", default: "/usr/bin/chromium" },
  },
});
const { chromium } = createRequire(resolve(options.kits, "package.json"))("playwright-core");

const CHAT = "/v1/chat/completions";
const PROMPT = JSON.stringify({ model: "demo", messages: [{ role: "user", content: "hello" }] });
let wrong = 0;

function check(what, found, expected) {
  const ok = JSON.stringify(found) === JSON.stringify(expected);
  wrong += ok ? 0 : 1;
  console.log(`${ok ? "ok   " : "WRONG"} ${what}: ${JSON.stringify(found)}${ok ? "" : `, not ${JSON.stringify(expected)}`}`);
}

// An empty page under any name; its scripts come from the checks below.
async function pages() {
  const server = createServer((_, answer) => answer.setHeader("content-type", "text/html").end("<!doctype html><p>a page"));
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return { port: server.address().port, end: () => server.close() };
}

async function gateway(cors) {
  const folder = mkdtempSync(join(tmpdir(), "photofinish-browser-"));
  const config = `[server]\nlisten = "127.0.0.1:0"\ncors = ["${cors}"]\n[providers.sim]\nsimulate = { ttft = "1ms", tokens = 3 }\n`
    + `[models.demo]\nupstreams = ["sim/demo"]\n`;
  writeFileSync(join(folder, "config.toml"), config);
  const process = spawn(options.gateway, ["serve"], { cwd: folder, env: { NO_COLOR: "1" }, stdio: ["ignore", "ignore", "pipe"] });
  const ended = new Promise((done) => process.once("exit", done));
  const port = await new Promise((done, fail) => {
    let log = "";
    process.stderr.on("data", (bytes) => {
      log += bytes;
      const found = /listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(log);
      if (found) done(Number(found[1]));
    });
    process.once("error", fail);
    process.once("exit", () => fail(new Error(`the gateway ended:\n${log}`)));
  });
  const end = async () => {
    process.kill("SIGTERM");
    await ended;
    rmSync(folder, { recursive: true });
  };
  return { port, end };
}

// Rows come a little after their answers; an own request before the look makes sure that earlier ones are there.
async function races(port) {
  const answer = await fetch(`http://127.0.0.1:${port}${CHAT}`, { method: "POST", body: PROMPT });
  const id = answer.headers.get("x-photofinish-race");
  await answer.text();
  for (;;) {
    const { races } = await (await fetch(`http://127.0.0.1:${port}/api/races`)).json();
    if (races.some((race) => race.race_id === id)) return races.length - 1;
    await new Promise((done) => setTimeout(done, 50));
  }
}

// The statuses that Chromium saw of the gateway while the page did something; a page of another origin cannot read them.
async function statuses(page, port, act) {
  const seen = [];
  const note = (response) => new URL(response.url()).port === String(port) && seen.push(response.status());
  page.on("response", note);
  await act();
  for (let waits = 0; waits < 30 && seen.length === 0; waits += 1) await page.waitForTimeout(100);
  await page.waitForTimeout(300);
  page.off("response", note);
  return seen;
}

// The same of what Chromium withholds from the page, and so tells nobody but its own debugger.
async function withheld(page, act) {
  const seen = [];
  const session = await page.context().newCDPSession(page);
  session.on("Network.responseReceivedExtraInfo", (response) => seen.push(response.statusCode));
  await session.send("Network.enable");
  await act();
  await page.waitForTimeout(300);
  await session.detach();
  return seen;
}

const inPage = {
  blind: ([url, body]) => fetch(url, { method: "POST", mode: "no-cors", headers: { "content-type": "text/plain" }, body }).catch(() => {}),
  form: ([url, body]) => {
    const form = Object.assign(document.createElement("form"), { method: "post", action: url, enctype: "text/plain" });
    const input = Object.assign(document.createElement("input"), { name: body.slice(0, -1) + ',"x":"', value: '"}' });
    form.append(input);
    document.body.append(form);
    form.submit();
  },
  load: ([kind, url]) => new Promise((done) => {
    document.body.append(Object.assign(document.createElement(kind), { src: url, onload: done, onerror: done }));
  }),
  framed: ([url, body]) => new Promise((done) => {
    const script = `fetch(${JSON.stringify(url)},{method:"POST",mode:"no-cors",body:${JSON.stringify(body)}})`
      + `.catch(()=>{}).then(()=>parent.postMessage(0,"*"))`;
    addEventListener("message", done, { once: true });
    const frame = Object.assign(document.createElement("iframe"), { srcdoc: `<script>${script}</script>` });
    frame.setAttribute("sandbox", "allow-scripts");
    document.body.append(frame);
  }),
  // What the page itself gets to know.
  read: ([url, init]) => fetch(url, init).then(async (answer) => [answer.status, (await answer.text()).length > 0], () => "blocked"),
};

async function foreign(browser, origin, port) {
  const page = await browser.newPage();
  await page.goto(origin);
  const target = `http://localhost:${port}`;
  const tries = [
    ["a blind POST", () => page.evaluate(inPage.blind, [target + CHAT, PROMPT])],
  ];
  for (const [what, act] of tries) check(`${origin}: ${what}`, await statuses(page, port, act), [403]);
  const framed = () => page.evaluate(inPage.framed, [target + CHAT, PROMPT]);
  check(`${origin}: a POST from a frame without an origin`, await withheld(page, framed), [403]);
  for (const [kind, path] of [["img", "/api/races"], ["script", "/v1/models"]]) {
    const act = () => page.evaluate(inPage.load, [kind, target + path]);
    check(`${origin}: ${kind}`, await withheld(page, act), [403]);
  }
  check(`${origin}: reading`, await page.evaluate(inPage.read, [`${target}/api/races`, {}]), "blocked");
  check(`${origin}: a JSON POST`, await page.evaluate(inPage.read, [target + CHAT, { method: "POST", headers: { "content-type": "application/json" }, body: PROMPT }]), "blocked");
  const form = () => Promise.all([page.waitForNavigation(), page.evaluate(inPage.form, [target + CHAT, PROMPT])]);
  check(`${origin}: a form`, await statuses(page, port, form), [403]);
  await page.goto(origin);
  const link = () => Promise.all([page.waitForNavigation(), page.evaluate((url) => { location.href = url; }, `${target}/api/races`)]);
  check(`${origin}: a link`, await statuses(page, port, link), [403]);
  await page.close();
}

async function friendly(browser, origin, port, own) {
  const page = await browser.newPage();
  await page.goto(origin);
  const post = { method: "POST", headers: { "content-type": "application/json" }, body: PROMPT };
  const target = own ? "" : `http://localhost:${port}`;
  check(`${origin}: a JSON POST`, await page.evaluate(inPage.read, [target + CHAT, post]), [200, true]);
  check(`${origin}: reading`, await page.evaluate(inPage.read, [`${target}/v1/models`, {}]), [200, true]);
  await page.close();
}

// The page came from the attacker's address; by now its name leads to the gateway.
async function rebound(browser, origin, port) {
  const page = await browser.newPage();
  await page.route(`${origin}/page`, (route) => route.fulfill({ contentType: "text/html", body: "<!doctype html><p>a page" }));
  await page.goto(`${origin}/page`);
  const post = { method: "POST", headers: { "content-type": "application/json" }, body: PROMPT };
  for (const [path, init] of [["/api/races", {}], ["/", {}], ["/metrics", {}], [CHAT, post]]) {
    check(`${origin}${path}, its name led here`, await page.evaluate(inPage.read, [path, init]), [421, true]);
  }
  await page.close();
}

const served = await pages();
const app = `http://app.example:${served.port}`;
const { port, end } = await gateway(app);
// The last one is for newer versions, which would stop some of it themselves: here the gateway has to.
const browser = await chromium.launch({
  executablePath: options.chromium,
  args: [
    "--no-sandbox",
    "--host-resolver-rules=MAP *.example 127.0.0.1, MAP localhost 127.0.0.1",
    "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests,PrivateNetworkAccessSendPreflights,IsolateSandboxedIframes",
  ],
});
try {
  console.log(`Chromium ${browser.version()}`);
  await foreign(browser, `http://evil.example:${served.port}`, port);
  await foreign(browser, `http://localhost:${served.port}`, port);
  await rebound(browser, `http://evil.example:${port}`, port);
  check("races that these pages began", await races(port), 0);
  await friendly(browser, app, port, false);
  await friendly(browser, `http://localhost:${port}`, port, true);
  check("races of the listed page and the own one", await races(port), 2 + 1);
} finally {
  await browser.close();
  await end();
  served.end();
}
console.log(wrong ? `${wrong} wrong` : "all as it has to be");
process.exitCode = wrong ? 1 : 0;
