// What the Node client scripts share: where the gateway is, what the model behind it can do, and one printed line a check.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const env = process.env;
export const url = env.PF_URL;
export const token = env.PF_TOKEN;
export const model = env.PF_MODEL;
export const longModel = env.PF_LONG_MODEL; // goes on until its client leaves
export const embedder = env.PF_EMBEDDER ?? model;
export const isScripted = env.PF_UPSTREAM === "script"; // tools are called, and the answer tells what the upstream was sent
export const dialects = env.PF_DIALECTS.split(","); // of the upstreams
// A wrong token is sent once by each client: after ten within a minute the gateway refuses them with 429.
export const triesWrongToken = dialects.length === 1 && env.PF_DIALECT === dialects[0];
// llama-server's own Responses streams have neither sequence numbers nor output indexes, and its answers lack members that the
// SDKs require. The gateway passes them on as they are.
export const isBareResponses = !isScripted && dialects.includes("responses");

export const png =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";
export const weather = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };

// The clients lie outside the repository.
const require = createRequire(join(env.PF_KITS, "node", "package.json"));
export const load = async (name) => import(pathToFileURL(require.resolve(name)));

const checks = [];
// Runs with every upstream.
export const check = (name, run) => checks.push([name, run]);
// Runs only where the upstream is the scripted one.
export const scripted = (name, run) => isScripted && check(name, run);

// The upstream was sent all of these, as its digest says.
export function has(text, ...parts) {
  const missing = parts.filter((part) => !text.includes(part));
  assert.equal(missing.length, 0, `${JSON.stringify(missing)} not in ${JSON.stringify(text)}`);
}

// Gives the error that a call must raise.
export async function raised(call, kind) {
  try {
    await call();
  } catch (error) {
    if (kind) assert.ok(error instanceof kind, `${error.constructor.name}: ${error.message}`);
    return error;
  }
  throw new Error("no error");
}

export async function run() {
  let failed = 0;
  for (const [name, body] of checks) {
    try {
      await body();
      console.log(`ok ${name}`);
    } catch (error) {
      failed += 1;
      const line = error.stack?.split("\n").find((text) => text.includes("/apps/") && !text.includes("kit.mjs"))?.match(/:(\d+):\d+/)?.[1];
      console.log(`FAIL ${name}: ${error.constructor.name}: ${String(error.message).replace(/\s+/g, " ").slice(0, 600)} (line ${line})`);
      if (env.PF_TRACE) console.error(error);
    }
  }
  process.exit(failed > 0 ? 1 : 0);
}
