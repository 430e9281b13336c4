"""The part of HTTP/2 that the attacks need: frames, a client's preface, and a server that counts requests.

Headers are written as literals without an index, and never decoded: a kind that needs a path has a separate
listener.
"""

import asyncio
import collections
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, ACK = 1, 4, 1
INITIAL_WINDOW, MAX_FRAME = 4, 5


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def settings(**values):
    names = {"table": 1, "push": 2, "streams": 3, "window": 4, "frame": 5, "list": 6}
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", names[name], value) for name, value in values.items()))


def window(stream, size):
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", size))


def integer(value, bits):
    most = (1 << bits) - 1
    if value < most:
        return bytes([value])
    out, value = [most], value - most
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes([*out, value])


def literal(name, value):
    name, value = name.encode(), value.encode() if isinstance(value, str) else value
    return b"\0" + integer(len(name), 7) + name + integer(len(value), 7) + value


def block(headers):
    return b"".join(literal(name, value) for name, value in headers)


def request(stream, authority, path="/healthz", method="GET", extra=(), body=None):
    headers = [(":method", method), (":scheme", "http"), (":authority", authority), (":path", path), *extra]
    flags = END_HEADERS | (END_STREAM if body is None else 0)
    out = frame(HEADERS, flags, stream, block(headers))
    for at in range(0, len(body or b""), 16_384):
        last = END_STREAM if at + 16_384 >= len(body) else 0
        out += frame(DATA, last, stream, body[at:at + 16_384])
    return out


def gets(first, count, authority="127.0.0.1"):
    """GETs of `/` in 13 bytes each, but for the first on a connection, which adds the authority to the table."""
    out = []
    for stream in range(first, first + 2 * count, 2):
        named = b"\x41" + integer(len(authority), 7) + authority.encode() if stream == 1 else b"\xbe"
        out.append(frame(HEADERS, END_STREAM | END_HEADERS, stream, b"\x82\x86\x84" + named))
    return b"".join(out)


class Serving:
    """A connection of the scripted provider. A kind's `play` gets it with the stream of each request.

    `count` is called once for each complete request. A provider does not process an incomplete request, and the
    gateway may send it again: a GOAWAY that arrives before a request's body was sent ends the request in hyper.
    """

    def __init__(self, reader, writer, count):
        self.reader, self.writer, self.count = reader, writer, count
        self.credit = collections.defaultdict(int)  # by stream; 0 is the connection's
        self.credit[0] = 65_535
        self.initial, self.max_frame, self.number = 65_535, 16_384, 0
        self.more = asyncio.Event()
        self.tasks = set()
        self.ended = set()
        self.bodies, self.whole = collections.defaultdict(bytes), set()  # of requests, where `keeps_bodies`
        self.keeps_bodies = False

    async def send(self, data):
        if self.writer.is_closing():
            raise ConnectionResetError  # asyncio would only warn of it
        self.writer.write(data)
        await self.writer.drain()

    async def run(self, play):
        await self.reader.readexactly(len(PREFACE))
        await self.send(settings(streams=1000) + window(0, 1 << 24))
        while True:
            head = await self.reader.readexactly(9)
            size, kind, flags, stream = int.from_bytes(head[:3], "big"), head[3], head[4], int.from_bytes(head[5:], "big")
            payload = await self.reader.readexactly(size)
            if kind in (HEADERS, DATA) and flags & END_STREAM:
                self.count()
            if kind == SETTINGS and not flags & ACK:
                await self.obey(payload)
            elif kind == PING and not flags & ACK:
                await self.send(frame(PING, ACK, 0, payload))
            elif kind == WINDOW_UPDATE:
                self.credit[stream] += int.from_bytes(payload, "big")
                self.more.set()
            elif kind == DATA and self.keeps_bodies and flags & END_STREAM:
                self.bodies[stream] += payload
                self.whole.add(stream)
                self.more.set()
            elif kind == DATA and size:
                if self.keeps_bodies:
                    self.bodies[stream] += payload
                await self.send(window(0, size) + (window(stream, size) if not flags & END_STREAM else b""))
            elif kind == RST_STREAM:
                self.ended.add(stream)
                self.more.set()
            elif kind == HEADERS:
                self.credit[stream] += self.initial
                self.number += 1
                task = asyncio.ensure_future(self.play(play, stream))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)
            elif kind == GOAWAY:
                return

    async def obey(self, payload):
        for at in range(0, len(payload), 6):
            name, value = struct.unpack(">HI", payload[at:at + 6])
            if name == INITIAL_WINDOW:
                for stream in self.credit:
                    if stream:
                        self.credit[stream] += value - self.initial
                self.initial = value
        await self.send(frame(SETTINGS, ACK))
        self.more.set()

    async def play(self, play, stream):
        try:
            await play(self, stream)
        except (ConnectionError, TimeoutError, asyncio.IncompleteReadError):
            pass

    async def body(self, stream):
        """The complete body of a request."""
        while stream not in self.whole:
            self.more.clear()
            await self.more.wait()
        return self.bodies.pop(stream)

    async def reset(self, stream, code):
        await self.send(frame(RST_STREAM, 0, stream, struct.pack(">I", code)))

    async def goaway(self, last, code=0):
        """Announces the last processed stream, and closes."""
        await self.send(frame(GOAWAY, 0, 0, struct.pack(">II", last, code)))
        self.writer.close()

    async def headers(self, stream, status, headers=(), end=False):
        flags = END_HEADERS | (END_STREAM if end else 0)
        await self.send(frame(HEADERS, flags, stream, block([(":status", str(status)), *headers])))

    async def data(self, stream, data, end=False):
        """Sends as the windows allow, and waits for more. False if the stream has ended."""
        data = data if isinstance(data, bytes) else data.encode()
        while data:
            if stream in self.ended:
                return False
            size = min(len(data), self.credit[0], self.credit[stream], self.max_frame)
            if size <= 0:
                self.more.clear()
                await self.more.wait()
                continue
            self.credit[0] -= size
            self.credit[stream] -= size
            part, data = data[:size], data[size:]
            await self.send(frame(DATA, END_STREAM if end and not data else 0, stream, part))
        return True

    def end(self):
        for task in list(self.tasks):
            task.cancel()
