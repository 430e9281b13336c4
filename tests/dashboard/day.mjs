// A day of requests to simulated providers, so that pages have something to show: races are run and then moved over the last two days.
import { execFileSync } from "node:child_process";
import { gateway, temporary } from "./harness.mjs";

const SIMULATED = {
  aster: 'ttft = "130ms", jitter = 0.35, tail = 0.02, tokens_per_second = 160, tokens = 40, prefill = 40000, seed = 3',
  birch: 'ttft = "170ms", jitter = 0.5, tail = 0.04, tokens_per_second = 120, tokens = 40, failures = 0.05, failure = "500", prefill = 200000, seed = 5',
  cedar: 'ttft = "260ms", jitter = 0.3, tokens_per_second = 90, tokens = 40, prefill = 300000, seed = 7',
  dune: 'ttft = "240ms", jitter = 0.6, tail = 0.05, tokens_per_second = 70, tokens = 40, failures = 0.02, failure = "429", prefill = 60000, seed = 9',
};

export function day(port = 0) {
  const upstream = ([name, input, output]) => `{ upstream = "${name}", input_price = ${input}, output_price = ${output}, context = 131072 }`;
  const model = (name, upstreams, more) => `[models."${name}"]\nupstreams = [${upstreams.map(upstream).join(", ")}]\n${more}\n`;
  return `[server]\nlisten = "127.0.0.1:${port}"\n[store]\nurl = "sqlite:history.db"\n[race]\nlook = 0.4\nbudget = 10\naudit = 0.05\n`
    + Object.entries(SIMULATED).map(([name, settings]) => `[providers.${name}]\nsimulate = { ${settings} }\n`).join("")
    + '[providers.elm]\nbase_url = "http://127.0.0.1:9/v1"\napi_key = "${NO_SUCH_KEY:-}"\n'
    + model("gpt-oss-120b", [["aster/openai/gpt-oss-120b", 0.15, 0.6], ["birch/gpt-oss-120b", 0.1, 0.5], ["cedar/openai/gpt-oss-120b", 0.05, 0.25], ["dune/openai/gpt-oss-120b-turbo", 0.12, 0.45]], 'policy = "race"\naliases = ["oss"]')
    + model("llama-3.3-70b", [["aster/llama-3.3-70b-versatile", 0.59, 0.79], ["cedar/meta-llama/llama-3.3-70b-instruct", 0.4, 0.6], ["elm/llama-3.3-70b", 0.3, 0.5]], 'policy = "hedge"\nhedge_after = "200ms"')
    + model("qwen3-32b", [["birch/qwen3-32b", 0.2, 0.4], ["dune/qwen/qwen3-32b", 0.15, 0.35]], 'policy = "fallback"');
}

async function one(served, model, characters) {
  const body = { model, stream: true, max_tokens: 60, messages: [{ role: "user", content: "planted-prompt ".repeat(Math.ceil(characters / 15)) }] };
  await (await fetch(`${served.base}/v1/chat/completions`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) })).text();
}

/** Requests of several sizes, so many at once. */
export async function traffic(served, times, model = "gpt-oss-120b", abreast = 24) {
  for (let at = 0; at < times; at += abreast) {
    await Promise.all(Array.from({ length: Math.min(abreast, times - at) }, (_, place) => one(served, model, [600, 600, 4000, 14_000, 60_000][(at + place * 3) % 5])));
  }
}

// The races of the last minutes are spread over 47 hours, more of them by day; most failures of birch come to lie within 50 minutes of the last night.
const SPREAD = `
import random, sqlite3, time
random.seed(11)
base = sqlite3.connect('history.db', timeout=10)
now, hour = int(time.time() * 1e6), 3600 * 10**6
night = now - 9 * hour
failed = {row[0] for row in base.execute("SELECT race_id FROM attempt WHERE provider = 'birch' AND outcome = 'failed'")}
races = [row[0] for row in base.execute('SELECT race_id FROM race')]
for race in races:
    if race in failed and random.random() < 0.75:
        at = night + random.random() * 50 / 60 * hour
    else:
        while True:
            back = random.random() * 47
            if random.random() < (1 if 8 <= (time.gmtime(time.time() - back * 3600).tm_hour) <= 19 else 0.35): break
        at = now - 60 * 10**6 - back * hour
    # An id begins with the time in milliseconds, and figures are read by it.
    digits = f'{int(at) // 1000:012x}'
    moved = f'{digits[:8]}-{digits[8:]}{race[13:]}'
    base.execute('UPDATE race_row SET race_id = ?, started_at = ? WHERE race_id = ?', (moved, int(at), race))
    base.execute('UPDATE attempt_row SET race_id = ? WHERE race_id = ?', (moved, race))
base.execute('DELETE FROM rollup')
base.execute('DELETE FROM rollup_span')
base.execute('INSERT INTO rollup_span (hours, start) SELECT DISTINCT 1, started_at / 3600000000 * 3600000000 FROM race')
def incident(upstream, kind, began, minutes, factor, attempts, failures, usual):
    ended = int(began + minutes * 60 * 10**6)
    base.execute('INSERT INTO incident VALUES (?,?,?,?,?,?,?,?,?,0,?,?,0,?,?,?,0,1,NULL,0,3,0,NULL,0)', (f'{int(began)}-{kind}-{upstream}', upstream, kind, 'ended', int(began), ended, ended, ended, factor, attempts, failures, usual, 12, 30.0))
incident('birch/gpt-oss-120b', 'failures', night, 50, None, 41, 24, 0.01)
incident('dune/openai/gpt-oss-120b-turbo', 'slower', now - 3.4 * hour, 38, 3.1, 55, 0, 0.01)
base.commit()
`;

/** A gateway with two days of races of three models. */
export async function dayOfRaces(races = 1000) {
  const first = await gateway([], temporary(), 0, day());
  await traffic(first, races);
  await traffic(first, Math.round(races / 6), "llama-3.3-70b");
  await traffic(first, Math.round(races / 10), "qwen3-32b");
  await first.end();
  execFileSync("python3", ["-c", SPREAD], { cwd: first.folder });
  return gateway([], first.folder, 0, day());
}
