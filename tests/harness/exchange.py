"""One HTTP/1.1 request as a scripted provider reads and answers it, byte by byte where needed."""

import asyncio
import json
import socket
import ssl
import struct

BODY_MAX = 64 << 20
# The gateway has left, or this process is about to exit.
GONE = (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, TimeoutError, asyncio.CancelledError)


class Exchange:
    """One request, and the connection that its answer goes to."""

    def __init__(self, reader, writer, number):
        self.reader, self.writer, self.number = reader, writer, number
        self.method = self.path = self.kind = ""
        self.headers, self.body = {}, b""
        self.keep = True

    async def read_head(self):
        """False if the client has left."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return False
        first, *lines = head.decode("latin-1").split("\r\n")
        self.method, self.path, _ = first.split(" ", 2)
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        self.kind = self.path.split("/")[1]
        return True

    async def read_body(self):
        if "chunked" in self.headers.get("transfer-encoding", ""):
            while size := int((await self.reader.readline()).split(b";")[0] or b"0", 16):
                self.body += await self.reader.readexactly(size)
                await self.reader.readline()
            await self.reader.readline()
        elif length := int(self.headers.get("content-length", 0)):
            self.body = await self.reader.readexactly(min(length, BODY_MAX))

    @property
    def key(self):
        return self.headers.get("authorization", "").removeprefix("Bearer ") or self.headers.get("x-api-key", "")

    def asks_for_list(self):
        """Of a provider's models: the gateway asks for it by itself."""
        path = self.path.split("?")[0]
        return self.method == "GET" and (path.endswith("/models") or path.endswith("/api/tags"))

    def asked(self):
        try:
            return json.loads(self.body)
        except ValueError:
            return {}

    async def send(self, *parts):
        for part in parts:
            if self.writer.is_closing():
                raise ConnectionResetError  # asyncio would only warn of it
            self.writer.write(part if isinstance(part, bytes) else part.encode())
            await self.writer.drain()

    async def drip(self, data, pause, step=1):
        for at in range(0, len(data), step):
            await self.send(data[at:at + step])
            await asyncio.sleep(pause)

    async def linger(self, seconds):
        """Waits until the client leaves, at most this long."""
        try:
            await asyncio.wait_for(self.reader.read(1), seconds)
        except asyncio.TimeoutError:
            pass

    def close(self):
        self.keep = False

    def reset(self):
        """Closes with a reset instead of an end."""
        self.keep = False
        reset(self.writer)


def reset(writer):
    sock = writer.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
