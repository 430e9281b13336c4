// The OpenAI Node SDK: the Responses API.

import assert from "node:assert/strict";
import * as kit from "./kit.mjs";
import { check, scripted } from "./kit.mjs";

const { OpenAI } = await kit.load("openai");
const client = new OpenAI({ baseURL: `${kit.url}/v1`, apiKey: kit.token, maxRetries: 0, timeout: 60_000 });
const ask = { model: kit.model, input: "Say hello", instructions: "Be brief.", max_output_tokens: 24 };
const tools = [{ type: "function", name: "weather", description: "The weather", parameters: kit.weather, strict: true }];

check("responses whole", async () => {
  const response = await client.responses.create(ask);
  assert.equal(response.object, "response");
  assert.ok(response.output_text && ["completed", "incomplete"].includes(response.status));
  assert.ok(response.usage.input_tokens > 0 && response.usage.output_tokens > 0);
});

check("responses stream", async () => {
  let [text, last] = ["", null];
  for await (const event of await client.responses.create({ ...ask, stream: true })) {
    if (event.type === "response.output_text.delta") text += event.delta;
    last = event;
  }
  assert.ok(["response.completed", "response.incomplete"].includes(last.type), last.type);
  assert.equal(last.response.output.at(-1).content[0].text, text);
  assert.ok(text.length > 0);
});

check("responses stream helper", async () => {
  if (kit.isBareResponses) return;
  const stream = client.responses.stream(ask);
  let deltas = 0;
  stream.on("response.output_text.delta", () => (deltas += 1));
  const final = await stream.finalResponse();
  assert.ok(deltas > 0 && final.output_text.length > 0);
});

check("responses abort", async () => {
  const stream = await client.responses.create({ model: kit.longModel, input: "count to 2000", max_output_tokens: 4000, stream: true });
  for await (const event of stream) if (event.type === "response.output_text.delta") break;
  stream.controller.abort();
});

check("responses errors", async () => {
  await kit.raised(() => client.responses.create({ ...ask, input: 7 }), OpenAI.BadRequestError);
  await kit.raised(() => client.responses.create({ ...ask, model: "no-such-model" }), OpenAI.NotFoundError);
});

scripted("responses tools round trip", async () => {
  const input = [{ role: "user", content: "The weather of Paris and Rome?" }];
  const first = await client.responses.stream({ model: kit.model, input, tools }).finalResponse();
  const calls = first.output.filter((item) => item.type === "function_call");
  assert.deepEqual(calls.map((call) => JSON.parse(call.arguments).city), ["Paris", "Rome"]);
  input.push(...first.output.map(({ parsed_arguments, ...item }) => item));
  input.push(...calls.map((call, at) => ({ type: "function_call_output", call_id: call.call_id, output: ["sunny", "cloudy"][at] })));
  const second = await client.responses.create({ ...ask, input, tools });
  kit.has(second.output_text, "calls=2", "sunny", "cloudy", "system=Be brief.");
});

await kit.run();
