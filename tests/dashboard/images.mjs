#!/usr/bin/env node
// Makes the pictures of the manual from a day of simulated races: `tests/dashboard/images.mjs --kits DIR` (and the options of run.mjs).
import { rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { dayOfRaces, traffic } from "./day.mjs";
import { chromium, opened, options } from "./harness.mjs";

const folder = resolve(import.meta.dirname, "../../docs/images");
const served = await dayOfRaces(2000);
const browser = await chromium.launch({ executablePath: options.chromium, args: ["--no-sandbox"] });

/** A race in which one more attempt was started because the first was late, and won. */
async function hedged() {
  const json = async (path) => (await fetch(`${served.base}${path}`)).json();
  for (const race of (await json("/api/races?model=llama-3.3-70b&since=48h&limit=500")).races.filter((race) => race.winner === 1)) {
    const whole = await json(`/api/races/${race.race_id}`);
    if (whole.attempts[1].start_reason === "hedge") return race.race_id;
  }
  throw new Error("no hedge won: ask for more races");
}

try {
  const race = await hedged();
  for (const theme of ["light", "dark"]) {
    const { page, go, complaints, context } = await opened(browser, served, { colorScheme: theme, viewport: { width: 1280, height: 900 } });
    const shoot = (name) => page.screenshot({ path: join(folder, `${name}-${theme}.png`) });
    await go("/overview");
    await page.waitForTimeout(500);
    await shoot("overview");
    await go("/live");
    await page.getByText("Watching.").waitFor();
    await traffic(served, 14, "llama-3.3-70b", 2);
    const last = [traffic(served, 3, "gpt-oss-120b", 3), traffic(served, 1, "llama-3.3-70b", 1)];
    await page.waitForTimeout(330);
    await shoot("live");
    await Promise.all(last);
    await go(`/races/${race}`);
    await shoot("race");
    if (complaints.length > 0) throw new Error(complaints.join("\n"));
    await context.close();
  }
} finally {
  await browser.close();
  await served.end();
  rmSync(served.folder, { recursive: true });
}
