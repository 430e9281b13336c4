#!/usr/bin/env node
// Measures the live page while races run: how soon an event is drawn, frames, tasks and memory. See README.md.
import { readFileSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { loadavg } from "node:os";
import { check, chromium, faults, gateway, opened, options, temporary } from "./harness.mjs";

/** Races a second, and for how long, of the two loads. */
const USUAL = { rate: 50, seconds: 60 };
const HEAVY = { rate: Number(options.rate), seconds: Number(options.seconds) };
/** Requests that run at once, at most. */
const ABREAST = 1000;
const SIMULATED = [["aster", "60ms"], ["birch", "110ms"], ["cedar", "180ms"]];

function config() {
  return `[server]\nlisten = "127.0.0.1:0"\nmax_in_flight = ${ABREAST + 100}\n[store]\nurl = "sqlite:history.db"\n[race]\npolicy = "race"\n`
    + SIMULATED.map(([name, ttft]) => `[providers.${name}]\nsimulate = { ttft = "${ttft}", jitter = 0.4, tokens_per_second = 200, tokens = 12 }\n`).join("")
    + `[models.demo]\nupstreams = [${SIMULATED.map(([name]) => `"${name}/demo"`).join(", ")}]\n`;
}

/** Sends so many requests a second, whatever becomes of those before. */
function load(served, { rate, seconds }) {
  const agent = new Agent({ keepAlive: true, maxSockets: ABREAST });
  const body = JSON.stringify({ model: "demo", stream: true, messages: [{ role: "user", content: "planted-prompt" }] });
  const headers = { "content-type": "application/json", "content-length": body.length };
  const told = { sent: 0, ended: 0, failed: 0, left: 0, running: 0 };
  const one = () => {
    told.sent += 1;
    told.running += 1;
    let over = false;
    const end = (ok) => {
      if (over) return;
      over = true;
      told.running -= 1;
      told[ok ? "ended" : "failed"] += 1;
    };
    const asked = request(`${served.base}/v1/chat/completions`, { agent, method: "POST", headers }, (answer) => {
      answer.resume();
      answer.on("end", () => end(answer.statusCode === 200));
      answer.on("error", () => end(false));
    });
    asked.on("error", () => end(false));
    asked.end(body);
  };
  const began = performance.now();
  return new Promise((done) => {
    const timer = setInterval(() => {
      const over = (performance.now() - began) / 1000;
      let due = Math.min(rate * seconds, Math.floor(over * rate)) - told.sent - told.left;
      for (; due > 0; due -= 1) {
        if (told.running < ABREAST) one();
        else told.left += 1;
      }
      if (over < seconds || (told.running > 0 && over < seconds + 10)) return;
      clearInterval(timer);
      agent.destroy();
      done(told);
    }, 5);
  });
}

/** Runs in the page: when an event was made, by its own times, and when the drawing had it. */
function probe() {
  const races = new Map();
  const seen = { delays: {}, lost: 0, messages: 0, missed: 0, frames: [], draws: [], tasks: [] };
  globalThis.seen = seen;
  const note = (event) => {
    seen.messages += 1;
    if (event.event === "lagged") seen.missed += event.missed;
    if (event.event === "race") races.set(event.race_id, { began: event.started_at / 1000, counts: { dispatch: 0, first_token: 0, end: 0, done: 0 }, waits: [], shown: false });
    const race = races.get(event.race_id);
    if (!race || !(event.event in race.counts)) return;
    race.counts[event.event] += 1;
    race.waits.push({ kind: event.event, count: race.counts[event.event], made: race.began + event.at_ms });
    if (event.event === "done") setTimeout(() => {
      races.delete(event.race_id);
      // A race that is not shown is one of more than six a second.
      if (race.shown) seen.lost += race.waits.length;
    }, 3000);
  };
  globalThis.EventSource = class extends EventSource {
    constructor(...given) {
      super(...given);
      this.addEventListener("message", (message) => note(JSON.parse(message.data)));
    }
  };
  /** What the drawing of a race has. */
  const drawn = (section) => ({
    dispatch: section.querySelectorAll("g.lane").length,
    first_token: section.querySelectorAll("path.first").length,
    end: (section.querySelector("p.hidden")?.textContent ?? "").split("; ").filter((one) => !/: (runs|leads|first token)$/.test(one)).length,
    done: section.querySelector(".over, .tardy, .wrong") ? 1 : 0,
  });
  let fresh = [];
  const after = new MessageChannel();
  after.port1.onmessage = () => {
    const now = Date.now();
    for (const { kind, made } of fresh) (seen.delays[kind] ??= []).push(now - made);
    fresh = [];
  };
  const second = () => Math.floor(performance.now() / 1000);
  const watch = () => {
    seen.draws[second()] = (seen.draws[second()] ?? 0) + 1;
    for (const section of document.querySelectorAll("section.race")) {
      const race = races.get(section.querySelector("a[title]")?.title);
      if (!race) continue;
      race.shown = true;
      if (race.waits.length === 0) continue;
      const has = drawn(section);
      race.waits = race.waits.filter((wait) => {
        if (has[wait.kind] < wait.count) return true;
        fresh.push(wait);
        return false;
      });
    }
    // The page draws before a frame is painted; the task after it comes when it was.
    if (fresh.length > 0) after.port2.postMessage(0);
  };
  addEventListener("DOMContentLoaded", () => new MutationObserver(watch).observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true }));
  const frame = () => {
    seen.frames[second()] = (seen.frames[second()] ?? 0) + 1;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  new PerformanceObserver((list) => seen.tasks.push(...list.getEntries().map((one) => ({ at: Math.round(one.startTime), ms: Math.round(one.duration) })))).observe({ type: "longtask" });
}

const quantile = (values, q) => [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * q))] ?? null;
const megabytes = (bytes) => Math.round(bytes / 1e5) / 10;

/** The heap after a collection, the nodes of the document, and what its process has resident. */
async function memory(session, browser, collect) {
  if (collect) await session.send("HeapProfiler.collectGarbage");
  const { metrics } = await session.send("Performance.getMetrics");
  const of = (name) => metrics.find((one) => one.name === name).value;
  const { processInfo } = await browser.send("SystemInfo.getProcessInfo");
  const resident = processInfo.filter((one) => one.type === "renderer").map((one) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${one.id}/status`, "utf8"))?.[1] ?? 0) * 1024);
  return { heap: megabytes(of("JSHeapUsedSize")), nodes: of("Nodes"), listeners: of("JSEventListeners"), resident: megabytes(Math.max(0, ...resident)) };
}

/** Watches one load. The first ten seconds and what a collection for the measurement costs do not count. */
async function watched(browser, served, settings) {
  const { page, go, context, complaints } = await opened(browser, served);
  await page.addInitScript(probe);
  await go("/live");
  await page.getByText("Watching.").waitFor();
  const [session, whole] = [await context.newCDPSession(page), await browser.newBrowserCDPSession()];
  await session.send("Performance.enable");
  const before = loadavg()[0];
  const traffic = load(served, settings);
  await new Promise((done) => setTimeout(done, 10_000));
  const first = await memory(session, whole, true);
  const from = await page.evaluate(() => {
    Object.assign(globalThis.seen, { delays: {}, lost: 0, messages: 0, missed: 0, tasks: [] });
    return performance.now();
  });
  const heaps = [];
  const until = performance.now() + (settings.seconds - 12) * 1000;
  while (performance.now() < until) {
    await new Promise((done) => setTimeout(done, 2000));
    heaps.push((await memory(session, whole, false)).heap);
  }
  const seen = await page.evaluate(() => ({ ...globalThis.seen, now: performance.now() }));
  const last = await memory(session, whole, true);
  const told = await traffic;
  await context.close();
  // Whole seconds alone.
  const within = (all) => Array.from({ length: Math.floor(seen.now / 1000) - Math.ceil(from / 1000) }, (_, at) => all[Math.ceil(from / 1000) + at] ?? 0);
  const delays = Object.values(seen.delays).flat();
  return {
    asked: settings.rate, ran: Math.round((told.ended / settings.seconds) * 10) / 10, failed: told.failed, left: told.left, seconds: settings.seconds, load: [before, loadavg()[0]].map((one) => Math.round(one * 10) / 10),
    events: seen.messages, missed: seen.missed, samples: delays.length, lost: seen.lost, p50: Math.round(quantile(delays, 0.5)), p95: Math.round(quantile(delays, 0.95)), p99: Math.round(quantile(delays, 0.99)), most: Math.round(Math.max(...delays)),
    byKind: Object.fromEntries(Object.entries(seen.delays).map(([kind, all]) => [kind, { n: all.length, p50: Math.round(quantile(all, 0.5)), p95: Math.round(quantile(all, 0.95)) }])),
    frames: { mean: Math.round(within(seen.frames).reduce((sum, one) => sum + one, 0) / within(seen.frames).length), p5: quantile(within(seen.frames), 0.05), least: Math.min(...within(seen.frames)), below30: within(seen.frames).filter((one) => one < 30).length },
    draws: { mean: Math.round(within(seen.draws).reduce((sum, one) => sum + one, 0) / within(seen.draws).length), least: Math.min(...within(seen.draws)) },
    tasks: { over50: seen.tasks.length, longest: Math.max(0, ...seen.tasks.map((one) => one.ms)), over200: seen.tasks.filter((one) => one.ms > 200) },
    memory: { first, last, heap: [Math.min(...heaps), Math.max(...heaps)] }, complaints,
  };
}

const browser = await chromium.launch({ executablePath: options.chromium, args: ["--no-sandbox"] });
const served = await gateway([], temporary(), 0, config());
try {
  for (const settings of [USUAL, HEAVY]) {
    const found = await watched(browser, served, settings);
    console.log(JSON.stringify(found, null, 1).replace(/\n\s{2,}/g, " "));
    const name = `${settings.rate} races/s`;
    check(`${name}: as many ran, and none failed`, [found.ran >= settings.rate * 0.97, found.failed] , [true, 0]);
    check(`${name}: at least 200 events were drawn, and none was lost`, [found.samples >= 200, found.lost, found.missed], [true, 0, 0]);
    check(`${name}: an event is drawn within 100 ms, p95`, found.p95 <= 100 || found.p95);
    check(`${name}: at least 30 frames in every second`, found.frames.below30, 0);
    check(`${name}: no task over 200 ms`, found.tasks.over200, []);
    // What a page keeps is bounded by number: the races that it draws, and times of the last 10 seconds.
    check(`${name}: what the page keeps does not grow`, [found.memory.last.heap <= found.memory.first.heap + 8, found.memory.last.nodes <= 15_000, found.memory.last.resident <= found.memory.first.resident + 64], [true, true, true]);
    check(`${name}: the browser complains of nothing`, found.complaints, []);
  }
} finally {
  await browser.close();
  await served.end();
  rmSync(served.folder, { recursive: true });
}
process.exit(faults() === 0 ? 0 : 1);
