"""A client over a raw socket that records when each byte arrived and checks everything: chunks, lengths, trailers,
events."""

import asyncio
import dataclasses
import json
import time

from speech import QUESTION

MESSAGES = [{"role": "user", "content": QUESTION}]
# The path of each surface, and the members of a plain request.
SURFACES = {
    "chat": ("/v1/chat/completions", {"messages": MESSAGES}),
    "completions": ("/v1/completions", {"prompt": QUESTION}),
    "responses": ("/v1/responses", {"input": QUESTION}),
    "messages": ("/v1/messages", {"messages": MESSAGES, "max_tokens": 500}),
    "embeddings": ("/v1/embeddings", {"input": QUESTION}),
}
BODY_MAX = 32 << 20


@dataclasses.dataclass
class Seen:
    """What a client received. Times are seconds of the machine's monotonic clock."""

    status: int = 0
    headers: dict = dataclasses.field(default_factory=dict)
    trailers: dict = dataclasses.field(default_factory=dict)
    body: bytes = b""
    marks: list = dataclasses.field(default_factory=list)  # (bytes of the body so far, time)
    cut: str = ""  # why the body is incomplete
    begun: float = 0.0
    head_at: float = 0.0
    end_at: float = 0.0

    def at(self, offset):
        """When the body had grown beyond this byte."""
        return next((when for size, when in self.marks if size > offset), self.end_at)

    @property
    def race(self):
        return self.headers.get("x-photofinish-race")

    def __str__(self):
        text = self.body.decode(errors="replace")
        text = text if len(text) < 400 else f"{text[:120]} … {text[-260:]}"
        return f"{self.status} after {self.end_at - self.begun:.2f} s{', cut: ' + self.cut if self.cut else ''} {text!r}"


async def call(port, surface, model, stream, timeout=20.0, headers=None, **members):
    path, usual = SURFACES[surface]
    asked = {"model": model} | usual | members
    if surface != "embeddings":
        asked["stream"] = stream
    if surface == "chat" and stream:
        asked.setdefault("stream_options", {"include_usage": True})
    return await send(port, path, json.dumps(asked).encode(), headers, timeout)


async def send(port, path, body, headers=None, timeout=20.0, method="POST"):
    seen, writer = Seen(begun=time.monotonic()), None
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
            lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", "content-type: application/json", f"content-length: {len(body)}", "te: trailers",
                     *[f"{name}: {value}" for name, value in (headers or {}).items()]]
            writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            await writer.drain()
            seen.begun = time.monotonic()
            await receive(reader, seen)
    except TimeoutError:
        seen.cut = f"no end after {timeout:g} s"
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
        seen.cut = f"{type(error).__name__}: {error}"
    finally:
        if writer:
            writer.close()
    seen.end_at = time.monotonic()
    return seen


async def receive(reader, seen):
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    seen.head_at = time.monotonic()
    seen.status = int(head[0].split(" ")[1])
    seen.headers = fields(head[1:])
    if "chunked" in seen.headers.get("transfer-encoding", ""):
        while size := int((await reader.readline()).split(b";")[0], 16):
            take(seen, (await reader.readexactly(size + 2))[:-2])
        trailers = []
        while line := (await reader.readline()).rstrip(b"\r\n"):
            trailers.append(line.decode("latin-1"))
        seen.trailers = fields(trailers)
    else:
        left = int(seen.headers.get("content-length", 0))
        while left:
            part = await reader.read(min(left, 65_536))
            if not part:
                raise asyncio.IncompleteReadError(b"", left)
            take(seen, part)
            left -= len(part)


def take(seen, part):
    seen.body += part
    seen.marks.append((len(seen.body), time.monotonic()))
    if len(seen.body) > BODY_MAX:
        raise ValueError("the body has no end")


def fields(lines):
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
