// The checks of the Vercel AI SDK, the same for each of its providers.

import assert from "node:assert/strict";
import * as kit from "./kit.mjs";
import { check, scripted } from "./kit.mjs";

// `isResponses`: the provider speaks the Responses API.
export async function run(provide, isResponses = false) {
  const { generateText, streamText, generateObject, stepCountIs, tool, jsonSchema } = await kit.load("ai");
  globalThis.AI_SDK_LOG_WARNINGS = false;
  const ask = { model: provide(kit.model), system: "Be brief.", prompt: "Say hello", maxOutputTokens: 24, maxRetries: 0 };

  check("generateText", async () => {
    const { text, usage, finishReason } = await generateText(ask);
    assert.ok(text.length > 0 && ["stop", "length"].includes(finishReason), finishReason);
    assert.ok(usage.inputTokens > 0 && usage.outputTokens > 0, JSON.stringify(usage));
    if (kit.isScripted) kit.has(text, "system=Be brief.", "user=Say hello", "max=24");
  });

  check("streamText", async () => {
    if (isResponses && kit.isBareResponses) return;
    const result = streamText({ ...ask, onError: () => {} });
    let text = "";
    for await (const part of result.textStream) text += part;
    assert.ok(text.length > 0);
    assert.ok(["stop", "length"].includes(await result.finishReason), await result.finishReason);
    assert.ok((await result.usage).outputTokens > 0);
  });

  check("streamText abort", async () => {
    const gone = new AbortController();
    const result = streamText({ ...ask, model: provide(kit.longModel), prompt: "count to 2000", maxOutputTokens: 4000, abortSignal: gone.signal, onError: () => {} });
    for await (const part of result.fullStream) if (part.type === "text-delta") gone.abort();
  });

  check("errors", async () => {
    const error = await kit.raised(() => generateText({ ...ask, model: provide("no-such-model") }));
    assert.equal(error.statusCode, 404);
    kit.has(error.message, "no-such-model");
  });

  scripted("tools in steps", async () => {
    const asked = [];
    const weather = tool({
      description: "The weather of a city",
      inputSchema: jsonSchema(kit.weather),
      execute: async ({ city }) => (asked.push(city), city === "Paris" ? "sunny" : "cloudy"),
    });
    const steps = { ...ask, maxOutputTokens: undefined, prompt: "The weather of Paris and Rome?", tools: { weather }, stopWhen: stepCountIs(3) };
    kit.has((await generateText(steps)).text, "calls=2", "sunny", "cloudy");
    const streamed = streamText({ ...steps, onError: () => {} });
    kit.has(await streamed.text, "calls=2", "sunny", "cloudy");
    assert.deepEqual(asked.sort(), ["Paris", "Paris", "Rome", "Rome"]);
  });

  scripted("generateObject", async () => {
    const properties = { city: { type: "string" }, celsius: { type: "integer" } };
    const schema = jsonSchema({ type: "object", properties, required: ["city", "celsius"], additionalProperties: false });
    const { object } = await generateObject({ ...ask, maxOutputTokens: undefined, schema });
    assert.deepEqual(object, { city: "Paris", celsius: 21 });
  });

  scripted("image", async () => {
    const content = [{ type: "text", text: "What is this?" }, { type: "image", image: Buffer.from(kit.png, "base64"), mediaType: "image/png" }];
    const { text } = await generateText({ ...ask, prompt: undefined, messages: [{ role: "user", content }] });
    kit.has(text, "images=1");
  });

  await kit.run();
}
