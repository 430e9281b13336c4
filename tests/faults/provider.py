"""The scripted provider: a separate process that plays the faults and logs what it received.

The model's name selects the fault and the case: `cut~c17` is the fault `cut` for the case `c17`; the scenarios have
names of their own. It prints its ports as one line of JSON. Then it reads one command per line: `log` prints the log
since the last call, `set {…}` changes times and resets every case to its first attempt. It exits when its standard
input ends. It logs no prompt.
"""

import collections
import json
import pathlib
import socket
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import scenarios  # noqa: E402
import speech  # noqa: E402
from faults import FAULTS, HEALTHY, whole  # noqa: E402
from harness import http2, serving  # noqa: E402
from harness.exchange import GONE, Exchange  # noqa: E402


class Book:
    """The log, and the number of requests per case."""

    def __init__(self):
        self.lines, self.attempts = [], collections.Counter()
        self.times = {"slow": 3.0}

    def enter(self, model, asked, path, prefix):
        self.attempts[model] += 1
        kind, _, case = model.partition("~")
        line = {"kind": kind, "case": case, "attempt": self.attempts[model], "at": time.monotonic(), "ended": None, "left": False, "path": path,
                "stream": bool(asked.get("stream")), "prefix": prefix, "messages": len(asked.get("messages") or asked.get("input") or [])}
        self.lines.append(line)
        return line

    def take(self):
        lines, self.lines = self.lines, []
        return lines


async def http1(reader, writer, book):
    number = 0
    try:
        while True:
            x = Exchange(reader, writer, number)
            if not await x.read_head():
                return
            await x.read_body()
            number += 1
            asked = x.asked()
            model = str(asked.get("model", ""))
            say = speech.speaking(x.path, model, asked)
            kind = model.partition("~")[0]
            play = HEALTHY.get(kind) or scenarios.PLAYS.get(kind) or (FAULTS[kind].play if kind in FAULTS else None)
            if play is None or say is None:
                await x.send(whole(404, {"error": {"message": f"nothing is played for {model} at {x.path}", "type": "invalid_request_error", "code": None}}))
                continue
            line = book.enter(model, asked, x.path, say.prefix() is not None)
            x.attempt, x.slow_s, x.times, x.line = line["attempt"], book.times["slow"], book.times, line
            try:
                await play(x, say)
                line["ended"] = time.monotonic()
            except GONE:
                line["left"], line["ended"] = True, time.monotonic()
                raise
            if not x.keep:
                return
    except GONE:
        pass
    finally:
        writer.close()


def raw(kind):
    async def serve(reader, writer):
        try:
            await FAULTS[kind].play(Exchange(reader, writer, 0), None)
        except GONE:
            pass
        finally:
            writer.close()
    return serve


def over_http2(book):
    async def play(connection, stream):
        asked = json.loads(await connection.body(stream))
        model = asked["model"]
        line = book.enter(model, asked, "/v1/chat/completions", False)
        await FAULTS[line["kind"]].play(connection, stream, speech.Chat(model, asked), line["attempt"])
        line["ended"] = time.monotonic()

    async def serve(reader, writer):
        connection = http2.Serving(reader, writer, lambda: None)
        connection.keeps_bodies = True
        try:
            await connection.run(play)
        except GONE:
            pass
        finally:
            connection.end()
            writer.close()
    return serve


def closed_port():
    """A port without a listener. The socket is kept, so that no other process can use the port."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    return sock


async def main(trusted, untrusted):
    book, listeners = Book(), serving.Listeners()
    await listeners.add("http", lambda reader, writer: http1(reader, writer, book))
    for fault in FAULTS.values():
        if fault.level == "raw":
            await listeners.add(fault.name, raw(fault.name))
    if trusted:
        await listeners.add("h2", over_http2(book), ssl=serving.tls(trusted, "h2"))
        await listeners.add("untrusted", lambda reader, writer: http1(reader, writer, book), ssl=serving.tls(untrusted, "http/1.1"))
    closed = closed_port()
    listeners.ports["closed"] = closed.getsockname()[1]
    async for line in serving.commands(listeners.ports):
        word, _, rest = line.partition(" ")
        if word == "log":
            print(json.dumps(book.take()), flush=True)
        elif word == "set":
            book.times.update(json.loads(rest))
            book.attempts.clear()
            book.times["begun"] = time.monotonic()
            print("{}", flush=True)
    closed.close()


if __name__ == "__main__":
    serving.run(main(*(sys.argv[1:] or [None, None])))
