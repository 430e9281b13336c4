// The OpenAI Node SDK: chat completions, completions, embeddings and models.

import assert from "node:assert/strict";
import * as kit from "./kit.mjs";
import { check, scripted } from "./kit.mjs";

const { OpenAI } = await kit.load("openai");
const client = new OpenAI({ baseURL: `${kit.url}/v1`, apiKey: kit.token, maxRetries: 0, timeout: 60_000 });
const messages = [{ role: "system", content: "Be brief." }, { role: "user", content: "Say hello" }];
const ask = { model: kit.model, messages, max_tokens: 24 };
const tools = [{ type: "function", function: { name: "weather", description: "The weather of a city", parameters: kit.weather } }];

check("models list and retrieve", async () => {
  const ids = [];
  for await (const model of client.models.list()) ids.push(model.id);
  assert.ok(ids.includes(kit.model));
  assert.equal((await client.models.retrieve(kit.model)).id, kit.model);
});

check("chat whole with headers", async () => {
  const { data, response } = await client.chat.completions.create(ask).withResponse();
  for (const name of ["race", "upstream", "ttft-ms", "attempts"]) assert.ok(response.headers.get(`x-photofinish-${name}`), name);
  assert.equal(data.object, "chat.completion");
  assert.ok(data.id && data.created > 0 && data.model);
  assert.ok(data.choices[0].message.content && ["stop", "length"].includes(data.choices[0].finish_reason));
  assert.ok(data.usage.prompt_tokens > 0 && data.usage.completion_tokens > 0);
});

for (const include_usage of [false, true]) {
  check(`chat stream ${include_usage ? "with" : "without"} usage`, async () => {
    let [text, usages, finishes] = ["", [], []];
    for await (const chunk of await client.chat.completions.create({ ...ask, stream: true, stream_options: { include_usage } })) {
      assert.equal(chunk.object, "chat.completion.chunk");
      if (chunk.usage) usages.push(chunk.usage);
      text += chunk.choices[0]?.delta?.content ?? "";
      if (chunk.choices[0]?.finish_reason) finishes.push(chunk.choices[0].finish_reason);
    }
    assert.ok(text.length > 0);
    assert.equal(finishes.length, 1);
    assert.equal(usages.length, include_usage ? 1 : 0);
  });
}

check("chat stream helper", async () => {
  const final = await client.chat.completions.stream(ask).finalChatCompletion();
  assert.equal(final.choices[0].message.role, "assistant");
  assert.ok(final.choices[0].message.content);
});

check("chat abort in the stream", async () => {
  const endless = { model: kit.longModel, max_tokens: 4000, stream: true, messages: [{ role: "user", content: "count to 2000" }] };
  const stream = await client.chat.completions.create(endless);
  for await (const chunk of stream) {
    if (chunk.choices[0]?.delta?.content) break;
  }
  stream.controller.abort();
});

check("chat abort of a whole answer", async () => {
  const endless = { model: kit.longModel, max_tokens: 4000, messages: [{ role: "user", content: "count to 2000" }] };
  await kit.raised(() => client.chat.completions.create(endless, { signal: AbortSignal.timeout(100) }), OpenAI.APIUserAbortError);
});

check("chat errors", async () => {
  await kit.raised(() => client.chat.completions.create({ ...ask, messages: "hello" }), OpenAI.BadRequestError);
  await kit.raised(() => client.chat.completions.create({ ...ask, model: "no-such-model" }), OpenAI.NotFoundError);
  if (!kit.triesWrongToken) return;
  const stranger = new OpenAI({ baseURL: `${kit.url}/v1`, apiKey: "wrong", maxRetries: 0 });
  await kit.raised(() => stranger.chat.completions.create(ask), OpenAI.AuthenticationError);
});

scripted("chat upstream error", async () => {
  const call = () => client.chat.completions.create({ ...ask, messages: [{ role: "user", content: "fail now" }] });
  kit.has((await kit.raised(call, OpenAI.BadRequestError)).error.message, "told to fail");
});

scripted("chat tools runner", async () => {
  const asked = [];
  const weather = {
    type: "function",
    function: { ...tools[0].function, parse: JSON.parse, function: ({ city }) => (asked.push(city), city === "Paris" ? "sunny" : "cloudy") },
  };
  const turns = [{ role: "user", content: "The weather of Paris and Rome?" }];
  for (const stream of [false, true]) {
    asked.length = 0;
    const runner = client.chat.completions.runTools({ model: kit.model, stream, messages: turns, tools: [weather] });
    kit.has(await runner.finalContent(), "calls=2", "sunny", "cloudy");
    assert.deepEqual(asked.sort(), ["Paris", "Rome"]);
  }
});

scripted("chat image and options", async () => {
  const image = { type: "image_url", image_url: { url: `data:image/png;base64,${kit.png}` } };
  const content = [{ type: "text", text: "What is this?" }, image];
  const answer = await client.chat.completions.create({ ...ask, temperature: 0.5, messages: [{ role: "user", content }] });
  kit.has(answer.choices[0].message.content, "images=1", "temperature=0.5", "max=24");
});

check("completions", async () => {
  const asked = { model: kit.model, prompt: "Once", max_tokens: 8 };
  if (!kit.dialects.includes("openai")) return refused(() => client.completions.create(asked));
  assert.equal((await client.completions.create(asked)).object, "text_completion");
  let text = "";
  for await (const chunk of await client.completions.create({ ...asked, stream: true })) text += chunk.choices[0]?.text ?? "";
  assert.ok(text.length > 0);
});

check("embeddings", async () => {
  const asked = { model: kit.embedder, input: ["hello", "world"] };
  if (!["openai", "gemini", "ollama"].some((dialect) => kit.dialects.includes(dialect))) {
    // Bedrock's dialect has embeddings, and the scripted model is none that makes them.
    const code = kit.dialects.includes("bedrock") ? "photofinish_invalid_request" : "photofinish_no_upstream";
    return refused(() => client.embeddings.create({ ...asked, model: kit.model }), code);
  }
  const { data, usage } = await client.embeddings.create(asked);
  // Gemini counts no tokens of embeddings.
  assert.ok(data.length === 2 && data[0].embedding.length > 1 && (usage.prompt_tokens > 0 || kit.dialects.includes("gemini")));
});

async function refused(call, code = "photofinish_no_upstream") {
  assert.equal((await kit.raised(call, OpenAI.BadRequestError)).code, code);
}

await kit.run();
