"""Drives the gateway with the OpenAI Python SDK over three llama-servers, and checks every answer and every row.

Run by hand; see README.md in this directory. Not for timing: the machine, the servers and a debug build share two
cores.
"""

import argparse
import asyncio
import collections
import contextlib
import inspect
import json
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import tempfile
import time
import urllib.request

import openai
from openai.types.chat import ChatCompletion, ChatCompletionChunk

HERE = pathlib.Path(__file__).resolve().parent
SERVERS = {"fast": (18081, "sk-test-1"), "slow": (18082, "sk-test-2"), "long": (18083, "sk-test-3")}
TOKEN = "tester-token"
KINDS = ["stream", "stream", "stream+usage", "whole", "whole+tools", "stream+tools", "abort", "long prompt"]
TOOLS = [{
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}]
TIMES = ["connect_us", "headers_us", "first_byte_us", "first_event_us", "first_token_us", "last_token_us", "eof_us"]


@contextlib.contextmanager
def gateway(binary, folder):
    """The gateway's address, and the path of its log; stopped cleanly at the end."""
    log = folder / "gateway.log"
    env = os.environ | {"HISTORY": str(folder / "history.db")}
    command = [binary, "--config", str(HERE / "config.toml"), "serve"]
    with open(log, "w") as out, subprocess.Popen(command, env=env, stderr=out) as process:
        try:
            for _ in range(200):
                if found := re.search(r"listening on (http://\S+)", log.read_text()):
                    break
                assert process.poll() is None, log.read_text()
                time.sleep(0.05)
            yield found[1], log
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0, log.read_text()


class Run:
    """The results of the requests, by race."""

    def __init__(self, client):
        self.client = client
        self.usage = {}
        self.races = []
        self.aborted = set()
        self.counts = collections.Counter()

    async def one(self, number):
        kind = KINDS[number % len(KINDS)]
        request = {
            "model": "tiny",
            "max_tokens": 16 + number % 17,
            "messages": [{"role": "user", "content": f"Tell me about number {number}."}],
        }
        if kind == "long prompt":
            request["messages"][0]["content"] = f"{number}: " + "a word and then another one " * 25
            request["stream"] = number % 16 < 8
        if "tools" in kind:
            request["tools"] = TOOLS
        if kind == "abort":
            request["max_tokens"] = 2000
        if kind.startswith(("stream", "abort")):
            request["stream"] = True
        if kind == "stream+usage":
            request["stream_options"] = {"include_usage": True}
        raw = await self.client.chat.completions.with_raw_response.create(**request)
        race = raw.headers["x-photofinish-race"]
        self.races.append(race)
        self.counts[kind] += 1
        answer = raw.parse()
        answer = await answer if inspect.isawaitable(answer) else answer
        if request.get("stream"):
            await self.stream(kind, race, answer)
        else:
            self.whole(race, answer)

    async def stream(self, kind, race, chunks):
        finished = usage = None
        async for chunk in chunks:
            ChatCompletionChunk.model_validate(chunk.to_dict())
            usage = chunk.usage or usage
            for choice in chunk.choices:
                finished = choice.finish_reason or finished
                if kind == "abort" and (choice.delta.content or choice.delta.tool_calls):
                    await chunks.close()
                    self.aborted.add(race)
                    return
        assert finished in ("stop", "length", "tool_calls"), finished
        assert (usage is not None) == (kind == "stream+usage"), f"{kind}: {usage}"
        if usage:
            self.usage[race] = usage

    def whole(self, race, answer):
        ChatCompletion.model_validate(answer.to_dict())
        (choice,) = answer.choices
        assert answer.object == "chat.completion" and choice.message.role == "assistant"
        message = choice.message.to_dict()
        assert message.get("content") or message.get("tool_calls") or message.get("reasoning_content"), answer
        assert choice.finish_reason in ("stop", "length", "tool_calls")
        self.usage[race] = answer.usage


async def requests(url, count, concurrency):
    async with openai.AsyncOpenAI(base_url=url + "/v1", api_key=TOKEN, max_retries=0, timeout=120) as client:
        assert {model.id async for model in client.models.list()} == {"tiny", "audited"}
        run, limit = Run(client), asyncio.Semaphore(concurrency)

        async def limited(number):
            async with limit:
                await run.one(number)

        began = time.monotonic()
        await asyncio.gather(*(limited(number) for number in range(count)))
        print(f"{count} requests in {time.monotonic() - began:.1f} s: {dict(run.counts)}")
        return run


def fetch(url, token, body=None):
    """The text of an answer, and its headers; without the SDK, which hides some parts."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=60) as answer:
        return answer.read().decode(), answer.headers


def busy(name):
    """The number of busy slots of a llama-server."""
    port, key = SERVERS[name]
    slots, _ = fetch(f"http://127.0.0.1:{port}/slots", key)
    return sum(slot["is_processing"] for slot in json.loads(slots))


def connections(name):
    """Connections to a llama-server that both sides hold open; Linux only."""
    port = f":{SERVERS[name][0]:04X}"
    lines = pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(remote.endswith(port) and state == "01" for _, _, remote, state, *_ in map(str.split, lines))


def until_closed():
    """Waits for the connections to close. None stays idle: llama-server closes them after every stream."""
    began = time.monotonic()
    while open_ones := {name: count for name in SERVERS if (count := connections(name))}:
        assert time.monotonic() - began < 5, f"connections that stay open: {open_ones}"
        time.sleep(0.005)
    return (time.monotonic() - began) * 1000


def until_idle(names):
    began = time.monotonic()
    while any(busy(name) for name in names):
        assert time.monotonic() - began < 120, "slots still at work: something was not cancelled"
        time.sleep(0.005)
    return (time.monotonic() - began) * 1000


def cancels(url):
    """Losers stop at the winner's first token, and the winner stops when its client leaves."""
    client = openai.OpenAI(base_url=url + "/v1", api_key=TOKEN, max_retries=0)
    request = {"model": "slow/tiny,long/tiny", "messages": [{"role": "user", "content": "Go on."}]}
    races, losers, winners = [], [], []
    for _ in range(10):
        raw = client.chat.completions.with_raw_response.create(**request, max_tokens=4000, stream=True)
        races.append(raw.headers["x-photofinish-race"])
        winner = raw.headers["x-photofinish-upstream"].split("/")[0]
        losers.append(until_idle({"slow", "long"} - {winner}))
        assert busy(winner), "the winner goes on"
        raw.parse().close()
        winners.append(until_idle([winner]))
    for who, waits in (("loser after the first token", losers), ("winner after the client left", winners)):
        print(f"slot of the {who} free within: median {sorted(waits)[5]:.0f} ms, most {max(waits):.0f} ms")
    return races


def audits(url):
    """Losers that run on to their first token."""
    client = openai.OpenAI(base_url=url + "/v1", api_key=TOKEN, max_retries=0)
    races = []
    for number in range(10):
        request = {"model": "audited", "messages": [{"role": "user", "content": f"Audit {number}"}], "max_tokens": 12}
        races.append(client.chat.completions.with_raw_response.create(**request).headers["x-photofinish-race"])
    until_closed()
    return races


def same_bytes(url):
    """Compares llama-server's own stream with the one through the gateway."""
    port, key = SERVERS["long"]
    request = {"model": "tiny", "stream": True, "stream_options": {"include_usage": True}, "max_tokens": 12,
               "temperature": 0, "seed": 1, "timings_per_token": True, "return_progress": True,
               "cache_prompt": False, "messages": [{"role": "user", "content": "Hello"}]}

    def body(base, token, model):
        text, headers = fetch(base + "/v1/chat/completions", token, request | {"model": model})
        text = re.sub(r'"id":"[^"]*"', '"id":"…"', text)
        return re.sub(r'("created"|"\w+_(?:ms|per_second)"):[-0-9.e+]+', r"\1:…", text), headers

    direct, _ = body(f"http://127.0.0.1:{port}", key, "tiny")
    passed, headers = body(url, TOKEN, "long/tiny")
    assert direct == passed, f"llama-server:\n{direct}\ngateway:\n{passed}"
    members = set(re.findall(r'"(timings|prompt_progress|usage|system_fingerprint)":', passed))
    print(f"through the gateway as from llama-server: {passed.count('data:')} events, with {sorted(members)}")
    return [headers["x-photofinish-race"]]


def errors(url):
    """Two answers that the SDK must raise as the right class; one of them is a rejected race."""
    def raised(kind, token, model):
        client = openai.OpenAI(base_url=url + "/v1", api_key=token, max_retries=0)
        try:
            client.chat.completions.create(model=model, messages=[{"role": "user", "content": "x"}])
        except kind as error:
            print(f"{kind.__name__}: {error.code}: {error.body['message']}")
        else:
            raise AssertionError(f"no {kind.__name__}")

    raised(openai.AuthenticationError, "wrong-token", "tiny")
    raised(openai.NotFoundError, TOKEN, "tinny")


def rows(folder, log, run, extra, audited):
    """Checks the invariants of races and attempts."""
    database = sqlite3.connect(folder / "history.db")
    database.row_factory = sqlite3.Row
    all_of = lambda query: [dict(row) for row in database.execute(query)]
    races = {race["race_id"]: race for race in all_of("SELECT * FROM race")}
    attempts = all_of("SELECT * FROM attempt")
    assert len(races) == len(run.races) + len(extra) + 1, f"{len(races)} races"
    assert set(run.races) | set(extra) <= set(races)
    assert len(attempts) == sum(race["attempts"] for race in races.values())
    # A short answer may have been sent completely before the client left.
    broken = {race for race in run.races if races[race]["outcome"] != "ok"}
    assert broken <= run.aborted and all(races[race]["outcome"] == "client_gone" for race in broken), broken
    won = {}
    for attempt in attempts:
        times = [attempt[name] for name in TIMES if attempt[name] is not None]
        assert times == sorted(times), attempt
        assert (attempt["ttft_event"] == 1) == (attempt["first_token_us"] is not None), attempt
        if attempt["first_token_us"] is not None:
            assert attempt["ttft_obs_us"] == attempt["first_token_us"], attempt
        if races[attempt["race_id"]]["winner"] == attempt["ordinal"]:
            won[attempt["race_id"]] = attempt
    for attempt in attempts:
        if attempt["race_id"] in audited and attempt["outcome"] != "won":
            assert (attempt["audited"], attempt["ttft_event"]) == (1, 1) and attempt["outcome"] in ("lost", "drained"), attempt
    for race, usage in run.usage.items():
        counted = (won[race]["input_tokens"], won[race]["output_tokens"], won[race]["tok_src"])
        assert counted == (usage.prompt_tokens, usage.completion_tokens, "usage"), f"{counted} is not {usage}"
    text = log.read_text()
    assert "contradict" not in text, text
    secrets = [key for _, key in SERVERS.values()] + [TOKEN]
    stored = b"".join(path.read_bytes() for path in folder.iterdir()).decode(errors="replace")
    assert not any(secret in stored for secret in secrets), "a secret in the log or the database"
    print(f"{len(races)} races, {len(attempts)} attempts; usage of {len(run.usage)} winners as the SDK got it; no secret stored")
    for what, of, column in [("race outcomes", races.values(), "outcome"), ("attempt outcomes", attempts, "outcome"),
                             ("winners", won.values(), "provider"), ("reused connection", attempts, "conn_reused"),
                             ("audited", attempts, "audited"), ("censored by", attempts, "censor_cause"), ("failures", attempts, "failure")]:
        print(f"{what}: {dict(collections.Counter(row[column] for row in of))}")
    overhead = sorted(row["ms"] for row in all_of("SELECT overhead_ms AS ms FROM race_speed WHERE overhead_ms IS NOT NULL"))
    print(f"overhead of {len(overhead)} streams: median {overhead[len(overhead) // 2]:.2f} ms, most {overhead[-1]:.2f} ms")
    print("warnings in the log:", [line for line in text.splitlines() if " WARN " in line or " ERROR " in line] or "none")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", help="the gateway, e.g. target/debug/photofinish")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--concurrency", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        with gateway(options.binary, folder) as (url, log):
            run = asyncio.run(requests(url, options.requests, options.concurrency))
            print(f"every connection closed {until_closed():.0f} ms after the last request")
            print(f"all slots idle {until_idle(SERVERS):.0f} ms after it: a prompt under way is cut only between batches")
            extra = same_bytes(url) + cancels(url)
            audited = audits(url)
            extra += audited
            errors(url)
        rows(folder, log, run, extra, audited)
    print("ok")


if __name__ == "__main__":
    main()
