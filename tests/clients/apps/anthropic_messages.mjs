// The Anthropic Node SDK: messages and token counts.

import assert from "node:assert/strict";
import * as kit from "./kit.mjs";
import { check, scripted } from "./kit.mjs";

const { Anthropic } = await kit.load("@anthropic-ai/sdk");
const client = new Anthropic({ baseURL: kit.url, apiKey: kit.token, maxRetries: 0, timeout: 60_000 });
const ask = { model: kit.model, max_tokens: 24, system: "Be brief.", messages: [{ role: "user", content: "Say hello" }] };
const tools = [{ name: "weather", description: "The weather of a city", input_schema: kit.weather }];

check("messages whole with headers", async () => {
  const { data, response } = await client.messages.create(ask).withResponse();
  assert.ok(response.headers.get("x-photofinish-race"));
  assert.equal(data.type, "message");
  assert.ok(data.content[0].text.length > 0 && ["end_turn", "max_tokens"].includes(data.stop_reason));
  assert.ok(data.usage.input_tokens > 0 && data.usage.output_tokens > 0);
});

check("messages stream", async () => {
  const kinds = [];
  for await (const event of await client.messages.create({ ...ask, stream: true })) kinds.push(event.type);
  assert.equal(kinds[0], "message_start");
  assert.deepEqual(kinds.slice(-3), ["content_block_stop", "message_delta", "message_stop"]);
});

check("messages stream helper", async () => {
  let text = "";
  const stream = client.messages.stream(ask).on("text", (delta) => (text += delta));
  const message = await stream.finalMessage();
  assert.equal(message.content[0].text, text);
  assert.ok(text.length > 0);
});

check("messages abort", async () => {
  const stream = client.messages.stream({ model: kit.longModel, max_tokens: 4000, messages: [{ role: "user", content: "count to 2000" }] });
  const aborted = new Promise((resolve) => stream.once("abort", resolve));
  stream.once("text", () => stream.abort());
  await aborted;
});

check("count tokens", async () => {
  const { input_tokens } = await client.messages.countTokens({ model: kit.model, messages: ask.messages });
  assert.ok(input_tokens > 0);
});

check("messages errors", async () => {
  const bad = await kit.raised(() => client.messages.create({ ...ask, messages: "hello" }), Anthropic.BadRequestError);
  assert.equal(bad.error.type, "error");
  await kit.raised(() => client.messages.create({ ...ask, model: "no-such-model" }), Anthropic.NotFoundError);
  if (!kit.triesWrongToken) return;
  const stranger = new Anthropic({ baseURL: kit.url, apiKey: "wrong", maxRetries: 0 });
  await kit.raised(() => stranger.messages.create(ask), Anthropic.AuthenticationError);
});

scripted("messages tools round trip", async () => {
  const turns = [{ role: "user", content: "The weather of Paris and Rome?" }];
  const first = await client.messages.stream({ ...ask, messages: turns, tools }).finalMessage();
  assert.equal(first.stop_reason, "tool_use");
  const calls = first.content.filter((block) => block.type === "tool_use");
  assert.deepEqual(calls.map((call) => call.input.city), ["Paris", "Rome"]);
  const results = calls.map((call, at) => ({ type: "tool_result", tool_use_id: call.id, content: ["sunny", "cloudy"][at] }));
  turns.push({ role: "assistant", content: first.content }, { role: "user", content: results });
  const second = await client.messages.create({ ...ask, messages: turns, tools });
  kit.has(second.content[0].text, "calls=2", "sunny", "cloudy", "system=Be brief.");
});

scripted("messages thinking and image", async () => {
  const image = { type: "image", source: { type: "base64", media_type: "image/png", data: kit.png } };
  const content = [{ type: "text", text: "What is this?" }, image];
  const thinking = { type: "enabled", budget_tokens: 1024 };
  const message = await client.messages.create({ ...ask, max_tokens: 4000, thinking, messages: [{ role: "user", content }] });
  assert.equal(message.content[0].type, "thinking");
  kit.has(message.content[1].text, "images=1");
});

await kit.run();
