// Ollama's library for Node: chat, generate, embed, and what it asks about models.

import assert from "node:assert/strict";
import * as kit from "./kit.mjs";
import { check, scripted } from "./kit.mjs";

const { Ollama } = await kit.load("ollama");
const connected = (key) => new Ollama({ host: kit.url, headers: { authorization: `Bearer ${key}` } });
const client = connected(kit.token);
const messages = [{ role: "system", content: "Be brief." }, { role: "user", content: "Say hello" }];
const ask = { model: kit.model, messages, options: { num_predict: 24, temperature: 0.5 } };
const tools = [{ type: "function", function: { name: "weather", description: "The weather of a city", parameters: kit.weather } }];

function finished(response) {
  assert.ok(response.done && ["stop", "length"].includes(response.done_reason), JSON.stringify(response));
  assert.ok(response.prompt_eval_count > 0 && response.eval_count > 0, JSON.stringify(response));
  return response;
}

async function collect(stream) {
  const lines = [];
  for await (const line of stream) lines.push(line);
  return lines;
}

const textOf = (lines) => lines.map((line) => line.message.content).join("");

check("models list, show and version", async () => {
  assert.ok((await client.list()).models.map((model) => model.model).includes(kit.model));
  assert.ok((await client.show({ model: kit.model })).capabilities.includes("tools"));
  assert.match((await client.version()).version, /^\d+\.\d+\.\d+$/);
});

check("chat whole", async () => {
  const response = finished(await client.chat(ask));
  assert.equal(response.message.role, "assistant");
  assert.ok(response.message.content && response.model && response.created_at);
  if (kit.isScripted) kit.has(response.message.content, "system=Be brief.", "user=Say hello", "max=24", "temperature=0.5");
});

check("chat stream", async () => {
  const lines = await collect(await client.chat({ ...ask, stream: true }));
  finished(lines.at(-1));
  assert.ok(textOf(lines));
  if (kit.isScripted) kit.has(textOf(lines), "user=Say hello", "max=24");
});

check("chat abort in the stream", async () => {
  const endless = { model: kit.longModel, messages: [{ role: "user", content: "count to 2000" }], options: { num_predict: 4000 }, stream: true };
  const stream = await client.chat(endless);
  const error = await kit.raised(async () => {
    for await (const line of stream) if (line.message.content) stream.abort();
  });
  assert.equal(error.name, "AbortError");
});

check("generate whole and streamed", async () => {
  const asked = { model: kit.model, prompt: "Say hello", system: "Be brief.", options: ask.options };
  const { response } = finished(await client.generate(asked));
  const lines = await collect(await client.generate({ ...asked, stream: true }));
  finished(lines.at(-1));
  assert.ok(response && lines.map((line) => line.response).join(""));
  if (kit.isScripted) kit.has(response, "system=Be brief.", "user=Say hello", "max=24");
});

scripted("embeddings", async () => {
  if (kit.dialects.join() !== "ollama") return;
  assert.equal((await client.embed({ model: kit.model, input: ["hello", "world"] })).embeddings.length, 2);
});

async function refused(status, call) {
  const error = await kit.raised(call);
  assert.equal(error.status_code, status, `${error.name}: ${error.message}`);
  return error;
}

check("errors", async () => {
  const unknown = { ...ask, model: "no-such-model" };
  kit.has((await refused(404, () => client.chat(unknown))).message, "no-such-model");
  await refused(404, () => client.chat({ ...unknown, stream: true }));
  await refused(404, () => client.show({ model: "no-such-model" }));
  if (kit.triesWrongToken) await refused(401, () => connected("wrong").chat(ask));
});

scripted("upstream error", async () => {
  const failing = { ...ask, messages: [{ role: "user", content: "fail now" }] };
  kit.has((await refused(400, () => client.chat(failing))).message, "told to fail");
});

scripted("tools round trip, whole and streamed", async () => {
  const asked = [{ role: "user", content: "The weather of Paris and Rome?" }];
  const whole = async () => (await client.chat({ ...ask, messages: asked, tools })).message.tool_calls;
  const streamed = async () => (await collect(await client.chat({ ...ask, messages: asked, tools, stream: true }))).flatMap((line) => line.message.tool_calls ?? []);
  for (const first of [whole, streamed]) {
    const calls = await first();
    assert.deepEqual(calls.map((call) => [call.function.name, call.function.arguments]), [["weather", { city: "Paris" }], ["weather", { city: "Rome" }]]);
    const results = ["sunny", "cloudy"].map((content) => ({ role: "tool", tool_name: "weather", content }));
    const turns = [...asked, { role: "assistant", content: "", tool_calls: calls }, ...results];
    kit.has(finished(await client.chat({ ...ask, messages: turns, tools })).message.content, "calls=2", "sunny", "cloudy", "tools=1");
  }
});

scripted("image, schema and thinking", async () => {
  const image = [{ role: "user", content: "What is this?", images: [kit.png] }];
  kit.has((await client.chat({ ...ask, messages: image })).message.content, "images=1");
  const format = { type: "object", properties: { city: { type: "string" }, celsius: { type: "integer" } }, required: ["city", "celsius"] };
  assert.deepEqual(JSON.parse((await client.chat({ ...ask, format })).message.content), { city: "Paris", celsius: 21 });
  const { message } = await client.chat({ ...ask, options: {}, think: true });
  assert.ok(message.thinking.startsWith("The user asks"), JSON.stringify(message));
});

await kit.run();
