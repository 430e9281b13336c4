"""Shared parts of the scripted providers of `attacks` and `faults`: listeners on free ports, TLS, commands on standard
input."""

import asyncio
import json
import logging
import resource
import ssl
import sys


def tls(certificate, *protocols):
    """The context of a TLS server with this certificate and these ALPN protocols."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.set_alpn_protocols(list(protocols))
    return context


class Listeners:
    """Listeners on loopback, by name."""

    def __init__(self):
        self.ports = {}

    async def add(self, name, serve, **options):
        server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20, backlog=2048, **options)
        self.ports[name] = server.sockets[0].getsockname()[1]


async def commands(ports):
    """Prints the ports as one line of JSON; then yields the lines of standard input until it ends."""
    print(json.dumps(ports), flush=True)
    lines = asyncio.StreamReader(limit=1 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := (await lines.readline()).decode():
        yield line.strip()


def run(main):
    """Runs the provider with the maximum number of descriptors."""
    # asyncio logs a warning for every write to a gateway that has left.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(main)
