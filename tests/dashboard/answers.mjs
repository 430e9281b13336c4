// The questions that the pages answer, asked as a reader would: with the keyboard, the pointer, and the tree of a screen reader.
import { rmSync } from "node:fs";
import { dayOfRaces } from "./day.mjs";
import { check, cutOff, opened, options, overlaps, violations, WIDTHS } from "./harness.mjs";

const api = async (served, path) => (await fetch(`${served.base}${path}`)).json();

async function overview(browser, served) {
  const { page, go, complaints, context } = await opened(browser, served);
  await page.goto(`${served.base}/dashboard`);
  await page.locator(".strip .row").first().waitFor();
  await page.waitForFunction(() => !document.body.innerText.includes("Reading …"));
  const [group] = (await api(served, "/api/stats?since=24h&by=model")).sort((a, b) => b.requests - a.requests);
  const values = await page.$$eval("main data", (all) => all.map((one) => one.value));
  for (const name of ["requests", "client_ttft_p50_ms", "client_ttft_p95_ms", "cost_usd_min", "extra_cost_usd_min"]) check(`the overview has the digits of ${name}`, values.includes(String(group[name])) || values);
  const tree = await page.locator("main").ariaSnapshot();
  check("a screen reader meets the five questions in order", [...tree.matchAll(/heading "([^"]*\?)"/g)].map(([, text]) => text), ["Is it well?", "How fast?", "What did it cost?", "Who wins?", "What happened?"]);
  check("and each strip says what it is", (tree.match(/slider "[^"]*the last 24 hours, \d+ failed attempts, \d+ incidents/g) ?? []).length, 4);
  check("and who wins, by size", (tree.match(/listitem "[^"]* tokens: [^"]* %/g) ?? []).length, 4);
  const { incidents } = await api(served, "/api/incidents?since=24h");
  check("incidents are in words, newest first", await page.locator(".happened li strong").allInnerTexts(), incidents.map((one) => one.upstream));
  check("and over the strips", await page.locator(".strip .incident").count(), incidents.length);
  // By keyboard alone: the model, a strip, its incident, the races of that time.
  await page.getByLabel("Model").focus();
  const reached = [];
  for (let at = 0; at < 40; at += 1) {
    await page.keyboard.press("Tab");
    reached.push(await page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent ?? ""));
    if (reached.at(-1).startsWith("birch/")) break;
  }
  const strip = page.getByRole("slider", { name: /^birch\// });
  check("Tab reaches the strip of an upstream", await strip.evaluate((one) => one === document.activeElement) || reached);
  await page.keyboard.press("End");
  let said = "";
  for (let at = 0; at < 48 && !said.includes("attempts failed ("); at += 1) {
    await page.keyboard.press("ArrowLeft");
    said = (await strip.getAttribute("aria-valuetext")) ?? "";
  }
  check("arrow keys read what failed and the incident", /\d % of \d+ attempts failed; birch\/.*\d+ of \d+ attempts failed/.test(said) || said);
  await page.keyboard.press("Enter");
  await page.locator("tbody tr").first().waitFor();
  const query = new URL(page.url()).searchParams;
  check("Enter opens the races of that half hour", [query.get("upstream"), (Date.parse(query.get("until")) - Date.parse(query.get("since"))) / 60_000], ["birch/gpt-oss-120b", 30]);
  await go("/overview");
  await page.getByLabel("Model").selectOption("llama-3.3-70b");
  await page.waitForFunction(() => document.querySelectorAll(".strip .row").length === 3);
  check("another model is one choice away, and in the address", new URL(page.url()).searchParams.get("model"), "llama-3.3-70b");
  check("the overview: the browser complains of nothing", complaints, []);
  await context.close();
}

async function charts(browser, served) {
  const { page, go, complaints, context } = await opened(browser, served);
  await go("/time?metric=failures");
  await page.locator(".canvas canvas").first().waitFor();
  const reader = page.getByRole("slider").first();
  check("incidents lie over the series", await page.locator(".chart rect.incident").count() >= 2);
  check("four upstreams have a label at the ends of their lines", await page.locator(".chart .end").count(), 4);
  await reader.focus();
  await page.keyboard.press("Home");
  // A step in which all four were asked.
  let said = "";
  for (let at = 0; at < 90 && said.split(", ").length < 4; at += 1) {
    await page.keyboard.press("ArrowRight");
    said = (await reader.getAttribute("aria-valuetext")) ?? "";
  }
  const tip = await page.locator(".tip").innerText();
  check("arrow keys show time and values", /^\d+ \w+ \d\d:\d\d UTC: .* ~?\d.* %/.test(said) && tip.includes("UTC") || [said, tip]);
  await page.keyboard.press("ArrowDown");
  check("and choose a line, which stands out", await page.locator(".chart .end.dim").count(), 3);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Races" }).waitFor();
  check("Enter opens the races of that step and line", ["upstream", "since", "until"].every((name) => new URL(page.url()).searchParams.get(name)) || page.url());
  await page.goBack();
  await page.locator(".canvas canvas").first().waitFor();
  const box = await reader.boundingBox();
  await page.mouse.move(box.x + box.width * 0.3, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 60, { steps: 4 });
  await page.mouse.up();
  await page.waitForFunction(() => new URLSearchParams(location.search).get("until"));
  const query = new URL(page.url()).searchParams;
  check("a drag shows a shorter range", (Date.parse(query.get("until")) - Date.parse(query.get("since"))) / 3_600_000 < 12);
  await go("/leaderboard");
  check("a bar stands only where there is a rank", await page.locator("table").nth(1).locator(".bar, .mark").count(), 0);
  const [compared] = (await api(served, "/api/stats?since=24h&compare=true")).filter((one) => one.model === "gpt-oss-120b");
  const sure = compared.upstreams.filter((one) => compared.upstreams.every((other) => other === one || (one.ttft_p50_high_ms ?? Infinity) < (other.ttft_p50_low_ms ?? -Infinity)));
  check("a best is marked only where the bounds say so", await page.locator(".mark", { hasText: "best" }).count(), sure.length);
  await page.route(/compare=true/, async (route) => {
    const answer = await route.fetch();
    const models = await answer.json();
    models.forEach((one) => one.upstreams.forEach((upstream, at) => Object.assign(upstream, { mix_cost_usd: at === 0 ? null : 0.0004 + 0.000001 * at, ttft_p50_ms: 180 + at, ttft_p50_low_ms: 150, ttft_p50_high_ms: 220 })));
    await route.fulfill({ response: answer, json: models });
  });
  await go("/leaderboard");
  const priced = compared.upstreams.slice(1);
  check("speed against price has the upstreams of which both are known", await page.locator(".plot circle").count(), priced.length);
  const prices = page.getByRole("slider", { name: /^Median time to the first token against the price/ });
  await prices.focus();
  await page.keyboard.press("ArrowRight");
  const first = (await prices.getAttribute("aria-valuetext")) ?? "";
  check("and arrow keys read it with its bounds", /^\$0\.40 for 1,000 requests: \w+\/\S+ [\d.]+ ms \([\d.]+ ms to [\d.]+ ms\)$/.test(first) || first);
  check("and no text of it is cut off", [await overlaps(page), await cutOff(page)], [[], []]);
  if (options.shots) await page.screenshot({ path: `${options.shots}/speed-against-price.png`, fullPage: true });
  await page.unroute(/compare=true/);
  await go("/costs");
  const paid = page.getByRole("slider", { name: /^Cost of each day/ });
  await paid.focus();
  await page.keyboard.press("End");
  const day = (await paid.getAttribute("aria-valuetext")) ?? "";
  const { groups } = await api(served, "/api/costs?since=24h&by=day");
  check("arrow keys read a day of costs: its parts, and their sum", /^\d+ \w+ \d{4}: .*Answers \$[\d.]+.*, together \$[\d.]+$/.test(day) || day);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Races" }).waitFor();
  check("Enter opens the races of that day", new URL(page.url()).searchParams.get("since"), `${groups.at(-1).day}T00:00:00Z`);
  await go("/costs?by=upstream");
  check("upstreams have a bar of their parts beside the names", await page.locator("tbody .bar.parts").count(), (await api(served, "/api/costs?since=24h&by=upstream")).groups.length);
  const colours = async () => page.$$eval(".upstream", (all) => Object.fromEntries(all.map((one) => [one.title, one.querySelector(".dot").className])));
  await go("/leaderboard");
  const ranked = await colours();
  await go("/races?model=gpt-oss-120b");
  const raced = await colours();
  check("an upstream has one colour on every page", Object.entries(raced).filter(([name, dot]) => ranked[name] !== dot), []);
  check("charts: the browser complains of nothing", complaints, []);
  await context.close();
}

async function oneRace(browser, served) {
  const { page, go, context } = await opened(browser, served);
  const { races } = await api(served, "/api/races?model=llama-3.3-70b&since=48h&limit=300");
  const [hedged] = races.filter((race) => race.winner === 1 && String(race.why).includes("hedged"));
  await go(`/races/${hedged.race_id}`);
  const lead = await page.locator(".lead").first().innerText();
  check("a race begins with what happened", /^\w+ won: the client had its first token after [\d.]+ m?s; \w+ had no token at [\d.]+ ms(?: \(predicted: after [\d.]+ m?s\))?, so \w+ was started; .*racing cost/.test(lead) || lead);
  check("its events are folded", await page.locator("details[open]").count(), 0);
  const copied = await page.getByRole("button", { name: /^copy/ }).first();
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await copied.click();
  check("the whole id is copied", await page.evaluate(() => navigator.clipboard.readText()), hedged.race_id);
  await context.close();
}

async function look(browser, served) {
  for (const theme of ["light", "dark"]) {
    const { page, go, context } = await opened(browser, served, { colorScheme: theme, reducedMotion: "reduce" });
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 900 });
      for (const path of ["/overview", "/leaderboard", "/time", "/load", "/costs?by=upstream", "/incidents", "/models"]) {
        await go(path);
        const rows = await page.$$eval("header.top nav a", (links) => new Set(links.filter((link) => !link.closest(".groups") || innerWidth > 760).map((link) => Math.round(link.getBoundingClientRect().top))).size);
        check(`${path} ${theme} ${width}: the navigation has one row`, rows, 1);
        check(`${path} ${theme} ${width}: no text lies on another`, await overlaps(page), []);
        const hidden = await page.$$eval(".scroll", (all) => all.filter((one) => one.scrollWidth > one.clientWidth + 1).length);
        if (width === 390) check(`${path} ${theme}: no figure is behind a scroll to the side`, hidden, 0);
      }
      if (width === 390) check(`${theme}: on a phone the groups are at the bottom`, await page.$eval("nav.groups", (bar) => Math.round(bar.getBoundingClientRect().bottom) === innerHeight));
    }
    await go("/overview");
    check(`${theme}: the overview with data: axe`, await violations(page), []);
    check(`${theme}: nothing moves for who wants no motion`, await page.evaluate(() => document.getAnimations().length), 0);
    await page.emulateMedia({ media: "print" });
    check(`${theme}: print shows the report alone`, await page.locator("header.top").isVisible(), false);
    await context.close();
  }
}

export async function answers(browser) {
  const served = await dayOfRaces(420);
  await overview(browser, served);
  await charts(browser, served);
  await oneRace(browser, served);
  await look(browser, served);
  await served.end();
  rmSync(served.folder, { recursive: true });
}
