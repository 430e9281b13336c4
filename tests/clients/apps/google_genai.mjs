// The Google Gen AI SDK for Node: content, streams, chats, token counts and models.

import assert from "node:assert/strict";
import * as kit from "./kit.mjs";
import { check, scripted } from "./kit.mjs";

const { GoogleGenAI, ApiError, Type } = await kit.load("@google/genai");
const connected = (apiKey, more) => new GoogleGenAI({ apiKey, ...more, httpOptions: { baseUrl: kit.url, timeout: 60_000 } });
const client = connected(kit.token);
const config = { systemInstruction: "Be brief.", maxOutputTokens: 24 };
const ask = { model: kit.model, contents: "Say hello", config };
const weather = [{ functionDeclarations: [{ name: "weather", description: "The weather of a city", parametersJsonSchema: kit.weather }] }];

function good(response) {
  const [candidate] = response.candidates;
  assert.ok(["STOP", "MAX_TOKENS"].includes(candidate.finishReason), candidate.finishReason);
  const usage = response.usageMetadata;
  assert.ok(usage.promptTokenCount > 0 && usage.candidatesTokenCount > 0, JSON.stringify(usage));
  return response.text;
}

async function collect(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

const textOf = (chunks) => chunks.map((chunk) => chunk.text ?? "").join("");

check("models list and get", async () => {
  for (const apiVersion of ["v1", "v1beta"]) {
    const other = connected(kit.token, { apiVersion });
    const names = (await collect(await other.models.list())).map((model) => model.name);
    assert.ok(names.includes(`models/${kit.model}`), JSON.stringify(names));
    assert.equal((await other.models.get({ model: kit.model })).name, `models/${kit.model}`);
  }
});

check("content whole with headers", async () => {
  const response = await client.models.generateContent(ask);
  const text = good(response);
  for (const name of ["race", "upstream"]) assert.ok(response.sdkHttpResponse.headers[`x-photofinish-${name}`], name);
  assert.ok(text && response.modelVersion && response.responseId);
  if (kit.isScripted) kit.has(text, "system=Be brief.", "user=Say hello", "max=24");
});

check("content stream", async () => {
  const chunks = await collect(await client.models.generateContentStream(ask));
  assert.ok(textOf(chunks));
  assert.equal(chunks.filter((chunk) => chunk.candidates?.[0].finishReason).length, 1);
  assert.ok(chunks.at(-1).usageMetadata.candidatesTokenCount > 0);
  if (kit.isScripted) kit.has(textOf(chunks), "user=Say hello", "max=24");
});

check("content abort in the stream", async () => {
  const abort = new AbortController();
  const endless = { model: kit.longModel, contents: "count to 2000", config: { maxOutputTokens: 4000, abortSignal: abort.signal } };
  await kit.raised(async () => {
    for await (const chunk of await client.models.generateContentStream(endless)) if (chunk.text) abort.abort();
  });
});

check("chat of two turns", async () => {
  const chat = client.chats.create({ model: kit.model, config });
  assert.ok(good(await chat.sendMessage({ message: "Say hello" })));
  const last = textOf(await collect(await chat.sendMessageStream({ message: "Again" })));
  assert.ok(last);
  if (kit.isScripted) kit.has(last, "user=Again");
});

check("count tokens", async () => {
  const { totalTokens } = await client.models.countTokens({ model: kit.model, contents: "Say hello" });
  assert.ok(totalTokens > 0);
  // If no upstream can count, the gateway returns its own estimate.
  if (kit.isScripted && kit.dialects.join() === "gemini") assert.equal(totalTokens, 11);
});

async function refused(status, name, call) {
  const error = await kit.raised(call, ApiError);
  assert.equal(error.status, status, error.message);
  assert.equal(JSON.parse(error.message).error.status, name, error.message);
  return error;
}

check("content errors", async () => {
  const unknown = { ...ask, model: "no-such-model" };
  await refused(404, "NOT_FOUND", () => client.models.generateContent(unknown));
  await refused(404, "NOT_FOUND", () => client.models.generateContentStream(unknown));
  await refused(404, "NOT_FOUND", () => client.models.get({ model: "no-such-model" }));
  if (kit.triesWrongToken) await refused(401, "UNAUTHENTICATED", () => connected("wrong").models.generateContent(ask));
});

scripted("upstream error", async () => {
  const failing = { ...ask, contents: "fail now" };
  kit.has((await refused(400, "INVALID_ARGUMENT", () => client.models.generateContent(failing))).message, "told to fail");
  kit.has((await refused(400, "INVALID_ARGUMENT", () => client.models.generateContentStream(failing))).message, "told to fail");
});

scripted("functions round trip, whole and streamed", async () => {
  const asked = { role: "user", parts: [{ text: "The weather of Paris and Rome?" }] };
  const options = { model: kit.model, config: { ...config, tools: weather } };
  const whole = async () => (await client.models.generateContent({ ...options, contents: [asked] })).candidates[0].content.parts;
  const streamed = async () => {
    const chunks = await collect(await client.models.generateContentStream({ ...options, contents: [asked] }));
    return chunks.flatMap((chunk) => chunk.candidates[0].content.parts ?? []);
  };
  for (const first of [whole, streamed]) {
    const parts = await first();
    const calls = parts.filter((part) => part.functionCall).map((part) => part.functionCall);
    assert.deepEqual(calls.map((call) => [call.name, call.args]), [["weather", { city: "Paris" }], ["weather", { city: "Rome" }]]);
    const results = calls.map(({ id, name }, at) => ({ functionResponse: { id, name, response: { output: ["sunny", "cloudy"][at] } } }));
    const contents = [asked, { role: "model", parts }, { role: "user", parts: results }];
    kit.has(good(await client.models.generateContent({ ...options, contents })), "calls=2", "sunny", "cloudy", "tools=1");
  }
});

scripted("image and options", async () => {
  const parts = [{ text: "What is this?" }, { inlineData: { data: kit.png, mimeType: "image/png" } }];
  const answer = await client.models.generateContent({ ...ask, contents: [{ role: "user", parts }], config: { ...config, temperature: 0.5 } });
  kit.has(good(answer), "images=1", "temperature=0.5", "max=24");
});

scripted("structured output", async () => {
  const responseSchema = { type: Type.OBJECT, properties: { city: { type: Type.STRING }, celsius: { type: Type.INTEGER } } };
  const answer = await client.models.generateContent({ ...ask, config: { responseMimeType: "application/json", responseSchema } });
  assert.deepEqual(JSON.parse(answer.text), { city: "Paris", celsius: 21 });
});

scripted("thoughts", async () => {
  const answer = await client.models.generateContent({ ...ask, config: { thinkingConfig: { includeThoughts: true, thinkingBudget: 1024 } } });
  const thoughts = answer.candidates[0].content.parts.filter((part) => part.thought).map((part) => part.text);
  assert.ok(thoughts.join("").startsWith("The user asks"), JSON.stringify(answer.candidates));
  kit.has(answer.text, "user=Say hello");
});

await kit.run();
