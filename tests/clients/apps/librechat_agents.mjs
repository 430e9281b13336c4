// LibreChat's library for its agents, which makes the calls of its custom endpoints: chat completions, always streamed.

import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import assert from "node:assert/strict";
import { check, has, isScripted, model, run, scripted, token, url } from "./kit.mjs";

const require = createRequire(join(process.env.PF_KITS, "librechat", "package.json"));
const load = async (name) => import(pathToFileURL(require.resolve(name)));
const { Providers, Run } = await load("@librechat/agents");
const { HumanMessage } = await load("@langchain/core/messages");
const { tool } = await load("@langchain/core/tools");

const llmConfig = { provider: Providers.OPENAI, model, apiKey: token, streaming: true, user: "0123456789abcdef", maxRetries: 0, configuration: { baseURL: `${url}/v1` } };

async function ask(text, tools = []) {
  const graph = { type: "standard", instructions: "Be brief.", llmConfig, tools };
  const agent = await Run.create({ runId: crypto.randomUUID(), graphConfig: graph, returnContent: true });
  const config = { configurable: { thread_id: crypto.randomUUID() }, streamMode: "values", version: "v2" };
  const content = await agent.processStream({ messages: [new HumanMessage(text)] }, config);
  return { agent, content, text: content.map((part) => part.text ?? "").join("") };
}

check("streamed question", async () => {
  const { text } = await ask("Say hello");
  assert.ok(text);
  if (isScripted) has(text, "system=Be brief.", "user=Say hello");
});

check("title of a conversation", async () => {
  const { agent, content } = await ask("Say hello");
  const options = { provider: Providers.OPENAI, inputText: "Say hello", contentParts: content, clientOptions: { ...llmConfig, streaming: false }, titleMethod: "completion", chainOptions: {} };
  const { title } = await agent.generateTitle(options);
  assert.ok(title);
});

scripted("tool run for the model", async () => {
  const weather = tool(async ({ city }) => (city === "Paris" ? "sunny" : "cloudy"), {
    name: "weather",
    description: "The weather of a city.",
    schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  });
  const { text } = await ask("What is the weather?", [weather]);
  has(text, "sunny");
});

await run();
