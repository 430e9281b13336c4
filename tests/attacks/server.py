"""The scripted provider: a separate process that plays the kinds of `providers.py`, and counts their requests.

The first part of a path names the kind: `/stall/v1/chat/completions` is played by `stall`. Kinds below HTTP have
separate listeners, and so have kinds with HTTP/2 over TLS. It prints its ports as one line of JSON and then reads
one command per line: `counts` prints the number of requests of each kind. It exits when its standard input ends.
"""

import collections
import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import providers  # noqa: E402
from harness import http2, serving  # noqa: E402
from harness.exchange import GONE, Exchange  # noqa: E402


class Counts:
    def __init__(self):
        self.seen = collections.Counter()       # exchanges that need a row each, by kind
        self.lists = collections.Counter()      # requests for a list of models, by kind: the gateway's own, without rows
        self.connections = collections.Counter()  # connections, by kind or listener
        self.bodies = collections.Counter()     # bytes of bodies, by kind


async def http1(reader, writer, counts, kind=None):
    """Plays the path's kind, or always this kind."""
    number, only = 0, kind
    try:
        while True:
            exchange = Exchange(reader, writer, number)
            if not await exchange.read_head():
                return
            kind = only or providers.KINDS.get(exchange.kind)
            if number == 0:
                counts.connections[exchange.kind] += 1
            (counts.lists if exchange.asks_for_list() else counts.seen)[exchange.kind] += 1
            number += 1
            if kind is None:
                await exchange.send("HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}")
                continue
            if kind.reads_body:
                await exchange.read_body()
                counts.bodies[exchange.kind] += len(exchange.body)
            await kind.play(exchange)
            if not exchange.keep:
                return
    except GONE:
        pass
    finally:
        writer.close()


def raw(kind, counts):
    async def serve(reader, writer):
        counts.connections[kind.name] += 1
        try:
            await kind.play(Exchange(reader, writer, 0))
        except GONE:
            pass
        finally:
            writer.close()
    return serve


def over_http2(kind, counts):
    async def serve(reader, writer):
        counts.connections[kind.name] += 1
        if writer.get_extra_info("ssl_object").selected_alpn_protocol() != "h2":
            return await http1(reader, writer, counts, providers.KINDS["good"])
        connection = http2.Serving(reader, writer, lambda: counts.seen.update([kind.name]))
        try:
            await connection.run(kind.play)
        except GONE:
            pass
        finally:
            connection.end()
            writer.close()
    return serve


async def main(certificate):
    counts, listeners = Counts(), serving.Listeners()
    tls = serving.tls(certificate, "h2", "http/1.1") if certificate else None
    await listeners.add("http", lambda reader, writer: http1(reader, writer, counts))
    for kind in providers.KINDS.values():
        if kind.level in ("tcp", "tls"):
            await listeners.add(kind.name, raw(kind, counts))
        if kind.level == "h2" and tls:
            await listeners.add(kind.name, over_http2(kind, counts), ssl=tls)
    async for word in serving.commands(listeners.ports):
        if word == "counts":
            print(json.dumps({"seen": counts.seen, "lists": counts.lists, "connections": counts.connections, "bodies": counts.bodies,
                              "flooded": providers.FLOODED}), flush=True)


if __name__ == "__main__":
    serving.run(main(sys.argv[1] if len(sys.argv) > 1 else None))
