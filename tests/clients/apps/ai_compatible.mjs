// The Vercel AI SDK with its provider for servers that speak chat completions.

import { run } from "./ai_checks.mjs";
import * as kit from "./kit.mjs";

const { createOpenAICompatible } = await kit.load("@ai-sdk/openai-compatible");
const options = { name: "gateway", baseURL: `${kit.url}/v1`, apiKey: kit.token, includeUsage: true, supportsStructuredOutputs: true };
const provider = createOpenAICompatible(options);
await run((model) => provider.chatModel(model));
