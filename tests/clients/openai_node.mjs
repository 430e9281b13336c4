// Drives the gateway with the OpenAI Node SDK over the llama-servers. Run by hand; README.md beside it says how.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

// The SDK lies outside the repository: NODE_MODULES is the folder with its node_modules.
const OpenAI = createRequire(join(process.env.NODE_MODULES ?? ".", "package.json"))("openai");

const TOKEN = "tester-token";

async function gateway(binary, folder) {
  const config = join(dirname(fileURLToPath(import.meta.url)), "config.toml");
  const env = { ...process.env, HISTORY: join(folder, "history.db") };
  const child = spawn(binary, ["--config", config, "serve"], { env, stdio: ["ignore", "ignore", "pipe"] });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  let log = "";
  const url = await new Promise((resolve, reject) => {
    child.stderr.setEncoding("utf8").on("data", (text) => {
      log += text;
      const found = log.match(/listening on (http:\/\/\S+)/);
      if (found) resolve(found[1]);
    });
    ended.then((code) => reject(new Error(`the gateway ended with ${code}: ${log}`)));
  });
  const stop = async () => {
    child.kill("SIGINT");
    assert.equal(await ended, 0, log);
  };
  return { url, stop };
}

async function run(url) {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: TOKEN, maxRetries: 0 });
  const messages = [{ role: "user", content: "Hello" }];

  const models = [];
  for await (const model of client.models.list()) models.push(model.id);
  assert.deepEqual(models.sort(), ["audited", "tiny"]);
  assert.equal((await client.models.retrieve("tiny")).id, "tiny");

  const whole = await client.chat.completions.create({ model: "tiny", messages, max_tokens: 20 });
  assert.equal(whole.object, "chat.completion");
  assert.ok(whole.choices[0].message.content.length > 0 && whole.usage.completion_tokens > 0);
  console.log(`whole: ${whole.usage.completion_tokens} tokens, ${whole.choices[0].finish_reason}`);

  const options = { model: "tiny", messages, max_tokens: 20, stream: true, stream_options: { include_usage: true } };
  const { data: stream, response } = await client.chat.completions.create(options).withResponse();
  let [chunks, text, usage] = [0, "", null];
  for await (const chunk of stream) {
    assert.equal(chunk.object, "chat.completion.chunk");
    chunks += 1;
    text += chunk.choices[0]?.delta?.content ?? "";
    usage = chunk.usage ?? usage;
  }
  assert.ok(text.length > 0 && usage.completion_tokens > 0);
  const upstream = response.headers.get("x-photofinish-upstream");
  console.log(`stream: ${chunks} chunks, ${usage.completion_tokens} tokens, won by ${upstream}`);

  const helper = client.chat.completions.stream({ model: "tiny", messages, max_tokens: 20 });
  assert.equal((await helper.finalChatCompletion()).choices[0].message.role, "assistant");

  const endless = await client.chat.completions.create({ model: "long/tiny", messages, max_tokens: 4000, stream: true });
  let seen = 0;
  for await (const chunk of endless) {
    seen += chunk.choices.length;
    if (seen === 3) endless.controller.abort();
  }
  assert.ok(seen < 100, "the stream went on after the abort");
  console.log(`abort: after ${seen} chunks`);

  const before = new AbortController();
  const pending = client.chat.completions.create({ model: "tiny", messages, max_tokens: 4000 }, { signal: before.signal });
  before.abort();
  await assert.rejects(pending, OpenAI.APIUserAbortError);

  const stranger = new OpenAI({ baseURL: `${url}/v1`, apiKey: "wrong-token", maxRetries: 0 });
  const raises = async (promise, kind) => {
    const error = await promise.then(() => null, (error) => error);
    assert.ok(error instanceof kind, `${error}`);
    console.log(`${kind.name}: ${error.status} ${error.code}`);
  };
  await raises(stranger.chat.completions.create({ model: "tiny", messages }), OpenAI.AuthenticationError);
  await raises(client.chat.completions.create({ model: "tinny", messages }), OpenAI.NotFoundError);
  await raises(client.models.retrieve("tinny"), OpenAI.NotFoundError);
  await raises(client.chat.completions.create({ model: "tiny" }), OpenAI.BadRequestError);
}

const binary = process.argv[2];
if (!binary) throw new Error("usage: node openai_node.mjs PATH-OF-THE-GATEWAY");
const folder = mkdtempSync(join(tmpdir(), "gateway-"));
const { url, stop } = await gateway(binary, folder);
try {
  await run(url);
} finally {
  await stop();
  rmSync(folder, { recursive: true });
}
console.log("ok");
