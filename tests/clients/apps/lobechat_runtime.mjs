// LobeChat's runtime for models, which its server and its page call: chat completions, the Responses API and the list of models.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { check, has, isScripted, model, run, scripted, token, url, weather } from "./kit.mjs";

const { LobeOpenAI } = createRequire(join(process.env.PF_KITS, "lobechat", "package.json"))("./openai.cjs");
const runtime = new LobeOpenAI({ apiKey: token, baseURL: `${url}/v1` });

// Its answers are events of its own: `text` with a piece, `tool_calls` with the deltas.
async function ask(text, more = {}) {
  const answer = await runtime.chat({ model, messages: [{ role: "user", content: text }], temperature: 1, ...more });
  const lines = (await answer.text()).split("\n");
  const of = (kind) => lines.flatMap((line, at) => (line === `event: ${kind}` ? [JSON.parse(lines[at + 1].slice(6))] : []));
  assert.deepEqual(of("error"), []);
  return { text: of("text").join(""), calls: of("tool_calls").flat(), usage: of("usage") };
}

check("list of models", async () => {
  const ids = (await runtime.models()).map(({ id }) => id);
  assert.ok(ids.includes(model), ids.join());
});

for (const apiMode of ["chatCompletion", "responses"]) {
  check(`streamed question by ${apiMode}`, async () => {
    const { text, usage } = await ask("Say hello", { apiMode });
    assert.ok(text);
    assert.ok(usage[0].totalOutputTokens > 0, JSON.stringify(usage));
    if (isScripted) has(text, "user=Say hello");
  });

  scripted(`tool called by ${apiMode}`, async () => {
    const { calls } = await ask("What is the weather?", { apiMode, tools: [{ type: "function", function: { name: "weather", parameters: weather } }] });
    assert.ok(calls.some((call) => call.function?.name === "weather"), JSON.stringify(calls));
  });
}

await run();
