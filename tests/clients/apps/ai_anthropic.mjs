// The Vercel AI SDK with its Anthropic provider.

import { run } from "./ai_checks.mjs";
import * as kit from "./kit.mjs";

const { createAnthropic } = await kit.load("@ai-sdk/anthropic");
const provider = createAnthropic({ baseURL: `${kit.url}/v1`, apiKey: kit.token });
await run((model) => provider(model));
