// The Vercel AI SDK with its OpenAI provider, which speaks the Responses API.

import { run } from "./ai_checks.mjs";
import * as kit from "./kit.mjs";

const { createOpenAI } = await kit.load("@ai-sdk/openai");
const provider = createOpenAI({ baseURL: `${kit.url}/v1`, apiKey: kit.token });
await run((model) => provider.responses(model), true);
