"""The bad providers, and the few good ones that race against them: what each does, and what its client must see.

Used by `run provider-kinds` (each alone, and together with a good one), by other attacks that need one of them, and
by `soak`.
"""

import asyncio
import collections
import dataclasses
import gzip
import json
import typing

from harness.client import GOOD


@dataclasses.dataclass(frozen=True)
class Kind:
    name: str
    what: str
    play: typing.Callable
    # What a client must see that uses only this provider: an answer, a clean error, or "any" of them. "empty": an
    # answer without a token may be passed on. "first": an answer, and later one or a clean error.
    alone: str = "error"
    # Whether a token comes before the failure. It may then win a race, and a stream may break.
    token: bool = False
    # http: a path of the shared listener; tcp, tls: a listener below HTTP; h2: a listener for HTTP/2 over TLS.
    level: str = "http"
    # It sends megabytes: rare in the soak.
    big: bool = False
    reads_body: bool = True
    # It reports that it did not process the request. The same attempt may then send the request again.
    unworked: bool = False
    # It goes on until its client leaves. Only attacks that bound the answer play it.
    endless: bool = False
    good: bool = False


KINDS: dict[str, Kind] = {}


def kind(name, what, **options):
    def add(play):
        KINDS[name] = Kind(name, what, play, **options)
        return play
    return add


def without_row(seen, rows):
    """Kinds that received more requests than there are rows, each with both numbers."""
    return {name: (count, rows.get(name, 0)) for name, count in seen.items() if count > rows.get(name, 0) and not (name in KINDS and KINDS[name].unworked)}


# --- Parts of answers -----------------------------------------------------------------------------------------------

def chunk(delta, finish=None, **members):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]} | members


def event(value):
    return f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n"


ROLE = event(chunk({"role": "assistant", "content": ""}))
TOKEN = event(chunk({"content": "a bad token "}))
USAGE = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}
FINISH = event(chunk({}, "stop", usage=USAGE))
DONE = event("[DONE]")
BAD_STREAM = ROLE + TOKEN + FINISH + DONE
GOOD_STREAM = ROLE + event(chunk({"content": GOOD})) + FINISH + DONE
STREAM = "content-type: text/event-stream\r\n"


def answered(body, status="200 OK", headers="content-type: application/json\r\n"):
    body = body if isinstance(body, bytes) else body.encode()
    return f"HTTP/1.1 {status}\r\n{headers}content-length: {len(body)}\r\n\r\n".encode() + body


def error(status, message, headers="", **members):
    body = json.dumps({"error": {"message": message, "type": "error", "code": None} | members})
    return answered(body, status, "content-type: application/json\r\n" + headers)


def chunked(data):
    data = data if isinstance(data, bytes) else data.encode()
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


LAST = b"0\r\n\r\n"


def stream_head(headers=STREAM):
    return f"HTTP/1.1 200 OK\r\n{headers}transfer-encoding: chunked\r\n\r\n"


async def stream(x, *parts, end=True):
    await x.send(stream_head(), *[chunked(part) for part in parts], *([LAST] if end else []))


def said(name, what, *parts, **options):
    """A kind that sends these bytes and closes."""
    async def play(x):
        await x.send(*parts)
        x.close()
    kind(name, what, **options)(play)


def streamed(name, what, *parts, **options):
    """A kind that answers with this whole event stream, and keeps the connection open."""
    async def play(x):
        await stream(x, *parts)
    kind(name, what, **options)(play)


# --- Good providers -------------------------------------------------------------------------------------------------

@kind("good", "a plain answer, at once", alone="answer", good=True)
async def good(x):
    await stream(x, GOOD_STREAM)


@kind("later", "the good answer after 40 ms", alone="answer", good=True)
async def later(x):
    await asyncio.sleep(0.04)
    await stream(x, GOOD_STREAM)


@kind("long", "the good answer, then 512 KiB more", alone="answer", good=True, big=True)
async def long(x):
    await stream(x, ROLE, event(chunk({"content": GOOD})), *[event(chunk({"content": "x" * 4000}))] * 128, FINISH, DONE)


@kind("longer", "the good answer, then 1.5 MiB more", alone="answer", good=True, big=True)
async def longer(x):
    await stream(x, ROLE, event(chunk({"content": GOOD})), *[event(chunk({"content": "x" * 32_000}))] * 48, FINISH, DONE)


@kind("slow", "the good answer in twenty pieces over a second", alone="answer", good=True)
async def slow(x):
    await x.send(stream_head(), chunked(ROLE + event(chunk({"content": GOOD}))))
    for _ in range(20):
        await asyncio.sleep(0.05)
        await x.send(chunked(event(chunk({"content": " and"}))))
    await x.send(chunked(FINISH + DONE), LAST)


streamed("escapes-told", "a plain answer of terminal escapes and direction marks",
         ROLE, event(chunk({"content": "\x1b[2Jcleared \u202egnp.exe \u2066\x9b31m\x07"})), FINISH, DONE, alone="answer", token=True)


# --- Status and head --------------------------------------------------------------------------------------------------

said("status-999", "status 999", answered("{}", "999 Weird"))
said("status-600", "status 600", answered("{}", "600 Beyond"))
said("status-000", "status 000", answered("{}", "000 None"))
said("status-99", "a status of two digits", answered("{}", "99 Short"))
said("status-204", "204 without a body", "HTTP/1.1 204 No Content\r\n\r\n")
said("status-101", "101, another protocol", "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nhello")
said("http-0.9", "no status line", "hello, I am an answer\n")
said("http-1.0", "an answer of HTTP/1.0 without a length", f"HTTP/1.0 200 OK\r\n{STREAM}\r\n{BAD_STREAM}", alone="answer", token=True)
said("redirect", "307 to another path, which must not be asked",
     "HTTP/1.1 307 Temporary Redirect\r\nlocation: /redirected/v1/chat/completions\r\ncontent-length: 0\r\n\r\n")
said("redirected", "where the redirect leads: nobody may come here", answered("{}"))
said("two-lengths", "two different content-lengths", f"HTTP/1.1 200 OK\r\n{STREAM}content-length: 10\r\ncontent-length: 4000\r\n\r\n{BAD_STREAM}",
     alone="any", token=True)
said("length-and-chunked", "content-length beside transfer-encoding",
     f"HTTP/1.1 200 OK\r\n{STREAM}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n", chunked(BAD_STREAM), LAST, alone="any", token=True)
said("header-8mib", "one header of 8 MiB", "HTTP/1.1 200 OK\r\nx-long: ", b"a" * (8 << 20), "\r\n\r\n", big=True)
said("headers-5000", "5,000 headers", "HTTP/1.1 200 OK\r\n", "".join(f"x-{n}: y\r\n" for n in range(5000)), "content-length: 0\r\n\r\n")
said("header-nul", "a NUL in a header", "HTTP/1.1 200 OK\r\nx-a: b\0c\r\ncontent-length: 0\r\n\r\n")
said("header-fold", "a folded header, and one without a name", "HTTP/1.1 200 OK\r\nx-a: b\r\n c\r\n: d\r\ncontent-length: 0\r\n\r\n")
said("close-mid-head", "closes inside its head", "HTTP/1.1 200 OK\r\ncontent-ty")


@kind("endless-1xx", "102 Processing without an end", reads_body=True)
async def endless_1xx(x):
    for _ in range(30_000):
        await x.send(b"HTTP/1.1 102 Processing\r\n\r\n" * 20)
        await asyncio.sleep(0.001)
    x.close()


@kind("early-hints", "three 103s, then the good answer", alone="answer", good=True)
async def early_hints(x):
    await x.send("HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" * 3)
    await stream(x, GOOD_STREAM)


@kind("slow-head", "its head a byte every 200 ms")
async def slow_head(x):
    await x.drip(stream_head(), 0.2)
    x.close()


# --- No answer --------------------------------------------------------------------------------------------------------

@kind("never", "reads, and says nothing")
async def never(x):
    await x.linger(30)
    x.close()


@kind("close-at-once", "closes after the request")
async def close_at_once(x):
    x.close()


@kind("reset-at-once", "resets after the request")
async def reset_at_once(x):
    x.reset()


@kind("close-unread", "answers 413 and closes before it has read the body", reads_body=False)
async def close_unread(x):
    await x.send(error("413 Payload Too Large", "too large"))
    x.close()


@kind("pool-closer", "answers the first request of a connection; closes it after reading the second", alone="any")
async def pool_closer(x):
    if x.number:
        x.close()
        return
    await stream(x, GOOD_STREAM)


@kind("reset-at-accept", "resets each connection", level="tcp")
async def reset_at_accept(x):
    x.reset()


@kind("silent", "accepts connections, and never reads", level="tcp")
async def silent(x):
    await asyncio.sleep(20)


@kind("tls-garbage", "answers a TLS hello with noise", level="tls")
async def tls_garbage(x):
    await x.reader.read(100)
    await x.send(bytes(range(256)) * 8)


@kind("tls-silence", "never answers a TLS hello", level="tls")
async def tls_silence(x):
    await asyncio.sleep(20)


@kind("tls-alert", "answers a TLS hello with a fatal alert", level="tls")
async def tls_alert(x):
    await x.reader.read(100)
    await x.send(b"\x15\x03\x03\x00\x02\x02\x28")


# --- Bodies -----------------------------------------------------------------------------------------------------------

said("html", "200 with an HTML page", answered("<html><body>Sign in</body></html>", headers="content-type: text/html\r\n"))
said("empty", "200 with an empty event stream", answered("", headers=STREAM))
said("not-json", "200 with JSON that breaks off", answered('{"choices": [{"mess'))
said("wrong-types", "200 with members of the wrong types", answered('{"choices": "none", "usage": [], "id": 7}'))
streamed("done-only", "[DONE] alone", DONE, alone="empty")
streamed("role-only", "a role, then [DONE]", ROLE, DONE, alone="empty")
streamed("finish-only", "a finish reason without a token", ROLE, FINISH, DONE, alone="empty")
streamed("no-done", "ends without finish reason and [DONE]", ROLE, TOKEN, alone="any", token=True)
streamed("bad-utf8", "a token that is no UTF-8", ROLE, b'data: {"choices":[{"index":0,"delta":{"content":"\xff\xfe\xc0"}}]}\n\n', FINISH, DONE,
         alone="any", token=True)
streamed("nuls", "NULs between and inside events", b"\0\0\0data: \0{}\n\n", TOKEN, b"\0" * 5000 + b"\n\n", FINISH, DONE, alone="any", token=True)
streamed("bad-json", "an event that is no JSON", event('{"choices": [{'), DONE, alone="empty")
streamed("deep-json", "50,000 brackets in one event", event("[" * 50_000 + "]" * 50_000), DONE, alone="empty")
streamed("odd-numbers", "numbers beyond sense in usage", ROLE, TOKEN,
         event('{"choices":[],"usage":{"prompt_tokens":-1,"completion_tokens":1e400,"total_tokens":99999999999999999999}}'), FINISH, DONE,
         alone="any", token=True)
streamed("error-event", "an error event instead of a token", ROLE, event({"error": {"message": "broke", "type": "server_error"}}))
streamed("error-after-token", "an error event after a token", ROLE, TOKEN, event({"error": {"message": "broke"}}), token=True)
said("short-body", "less body than content-length says", f"HTTP/1.1 200 OK\r\n{STREAM}content-length: 99999\r\n\r\n{ROLE}{TOKEN}", token=True)
said("long-body", "more body than content-length says", f"HTTP/1.1 200 OK\r\n{STREAM}content-length: {len(ROLE)}\r\n\r\n{BAD_STREAM}")
said("chunk-garbage", "a chunk size that is no number", stream_head(), chunked(ROLE), "zz\r\nhello\r\n")
said("chunk-huge", "a chunk of 2^64 bytes", stream_head(), "FFFFFFFFFFFFFFFF\r\ndata: x")
said("close-mid-answer", "closes after a token", stream_head(), chunked(ROLE + TOKEN), token=True)
said("gzip", "gzip, which nobody asked for", answered(gzip.compress(BAD_STREAM.encode()), headers=STREAM + "content-encoding: gzip\r\n"),
     alone="answer", token=True)
said("gzip-bomb", "20 MB of zeros in 20 KB of gzip", answered(gzip.compress(bytes(20_000_000), 6), headers=STREAM + "content-encoding: gzip\r\n"))


@kind("second-answer", "a second answer behind the first, for the next request on the connection", alone="any")
async def second_answer(x):
    # In one write: what arrives after the next request was sent cannot be told from that request's own answer.
    first, second = chunked(GOOD_STREAM) + LAST, BAD_STREAM.replace("a bad token", "a smuggled token")
    await x.send(stream_head().encode() + first + answered(second, headers=STREAM))


@kind("reset-mid-answer", "resets after a token", token=True)
async def reset_mid_answer(x):
    await stream(x, ROLE + TOKEN, end=False)
    await asyncio.sleep(0.02)
    x.reset()


@kind("stall", "a token, then silence", token=True)
async def stall(x):
    await stream(x, ROLE + TOKEN, end=False)
    await x.linger(30)
    x.close()


@kind("slow-body", "its stream a byte every 100 ms", alone="any", token=True)
async def slow_body(x):
    await x.send(f"HTTP/1.1 200 OK\r\n{STREAM}\r\n")
    await x.drip(BAD_STREAM, 0.1)
    x.close()


@kind("comments", "comments every 50 ms and no token")
async def comments(x):
    await x.send(stream_head())
    for _ in range(400):
        await x.send(chunked(": wait\n\n"))
        await asyncio.sleep(0.05)
    x.close()


@kind("endless-prelude", "empty chunks without an end, as fast as they go", big=True)
async def endless_prelude(x):
    await x.send(stream_head())
    for _ in range(400):
        await x.send(chunked(ROLE * 100))
    x.close()


@kind("endless-line", "a line of 16 MiB", big=True)
async def endless_line(x):
    await x.send(stream_head(), chunked("data: "))
    for _ in range(256):
        await x.send(chunked(b"a" * 65_536))
    x.close()


@kind("huge-error", "500 with 10 MB of message", big=True)
async def huge_error(x):
    await x.send(error("500 Internal Server Error", "m" * 10_000_000))


# --- Work that must be linear ---------------------------------------------------------------------------------------

DATA_LINES = b"data:y\n" * 690_000 + b"\n"
COMMENT_LINES = b":\r" * 2_000_000 + b"\r"


@kind("data-lines", "a token, then one event of 690,000 data lines", alone="any", token=True, big=True)
async def data_lines(x):
    await stream(x, ROLE + TOKEN, DATA_LINES, FINISH + DONE)


@kind("comment-lines", "a token, then 2,000,000 comment lines that end in CR", alone="any", token=True, big=True)
async def comment_lines(x):
    await stream(x, ROLE + TOKEN, COMMENT_LINES, FINISH + DONE)


def many(count, delta, step=50):
    """Events of 50 items each, as one text."""
    return "".join(event(chunk(delta(range(at, at + step)))) for at in range(0, count, step))


def call(index):
    return {"index": index, "id": f"call_{index}", "type": "function", "function": {"name": "f", "arguments": "{}"}}


MANY_CALLS = many(40_000, lambda of: {"tool_calls": [call(index) for index in of]})
MANY_DETAILS = many(20_000, lambda of: {"reasoning_details": [{"type": "reasoning.text", "index": index, "text": "t"} for index in of]})
MANY_CHOICES = "".join(
    event(chunk({}) | {"choices": [{"index": index, "delta": {"content": "c"}, "finish_reason": None} for index in range(at, at + 50)]})
    for at in range(0, 20_000, 50))


@kind("many-calls", "40,000 tool calls", alone="any", token=True, big=True)
async def many_calls(x):
    await stream(x, ROLE, MANY_CALLS, FINISH, DONE)


@kind("many-details", "20,000 reasoning details", alone="any", token=True, big=True)
async def many_details(x):
    await stream(x, ROLE, MANY_DETAILS, FINISH, DONE)


@kind("many-choices", "20,000 choices", alone="any", token=True, big=True)
async def many_choices(x):
    await stream(x, ROLE, MANY_CHOICES, FINISH, DONE)


# --- Answers without end ----------------------------------------------------------------------------------------------

def endless(name, what, part, pause=0.0):
    """A kind that sends a token and then this event until its client leaves, a day at most."""
    async def play(x):
        await x.send(stream_head(), chunked(ROLE + TOKEN))
        end = asyncio.get_running_loop().time() + 86_400
        while asyncio.get_running_loop().time() < end:
            await x.send(chunked(part))
            await asyncio.sleep(pause)
    kind(name, what, token=True, endless=True)(play)


WORDS = "word after word after word after word   "
endless("endless-text", "words without an end", event(chunk({"content": WORDS})))
endless("endless-thinking", "thoughts without an end", event(chunk({"reasoning_content": WORDS})))
endless("endless-blanks", "white space without an end", event(chunk({"content": " " * 40})))
endless("endless-arguments", "arguments of a call without an end",
        event(chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": '"word": 1, "word": 2, "word": 3, '}}]})))
endless("endless-pings", "a token, then comments every 20 ms", ": ping\n\n", 0.02)
endless("endless-empty", "a token, then empty events as fast as they go", event(chunk({"content": ""})) * 20)


@kind("endless-head", "a head without an end, a header every 20 ms", endless=True)
async def endless_head(x):
    await x.send("HTTP/1.1 200 OK\r\n")
    for number in range(4_000_000):
        await x.send(f"x-{number % 50}: y\r\n" if number < 50 else "a")
        await asyncio.sleep(0.02)


# --- Error messages -------------------------------------------------------------------------------------------------

def refused(name, what, status, message, headers="", **members):
    async def play(x):
        await x.send(error(status, message, headers, **members))
    kind(name, what)(play)


refused("rate-limited", "429", "429 Too Many Requests", "slow down", "retry-after: 1\r\n")
refused("huge-retry-after", "429 for a million years", "429 Too Many Requests", "slow down", "retry-after: 99999999999999999999\r\n")
refused("odd-retry-after", "429 with a retry-after that is negative", "429 Too Many Requests", "slow down", "retry-after: -5\r\n")
refused("server-error", "500", "500 Internal Server Error", "broke")
refused("overloaded", "529", "529 Overloaded", "overloaded")
refused("escapes", "a message of terminal escapes and direction marks", "400 Bad Request", "\x1b[2J\x1b]0;owned\x07\u202egnp.exe\u0000\r\n")
refused("credit", "402 about this request alone", "402 Payment Required",
        "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only afford 9000.")
refused("no-response", "404 about an earlier response", "404 Not Found", "Previous response with id 'resp_1' not found.",
        code="previous_response_not_found", param="previous_response_id")
refused("image-url", "403 about an image's URL", "403 Forbidden", "Access to the image URL was denied.")
refused("not-implemented", "501, as servers answer calls that they have not", "501 Not Implemented", "not implemented")


@kind("wrong-key", "401 that quotes the key")
async def wrong_key(x):
    await x.send(error("401 Unauthorized", f"Incorrect API key provided: {x.key}"))


@kind("key-in-headers", "a good answer whose headers quote the key", alone="any", token=True)
async def key_in_headers(x):
    head = stream_head(STREAM + f"x-debug: Bearer {x.key}\r\nwww-authenticate: {x.key}\r\nset-cookie: k={x.key}\r\nx-request-id: {x.key}\r\n")
    await x.send(head, chunked(BAD_STREAM), LAST)


@kind("key-in-error-headers", "400 whose headers quote the key")
async def key_in_error_headers(x):
    await x.send(error("400 Bad Request", "no", f"x-debug: Bearer {x.key}\r\nx-request-id: {x.key}\r\n"))


@kind("key-escaped", "400 that quotes the key in JSON escapes")
async def key_escaped(x):
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in x.key)
    await x.send(answered('{"error": {"message": "bad key %s", "type": "x"}}' % escaped, "400 Bad Request"))


@kind("key-in-page", "403 with a page that quotes the key")
async def key_in_page(x):
    await x.send(answered(f"<html>{x.key}</html>", "403 Forbidden", "content-type: text/html\r\n"))


def picky(fault):
    """Refuses one kind of request, and answers all others."""
    @kind(f"picky-{fault}", f"{fault} for the user mallory, an answer for everybody else", alone="answer", good=True)
    async def play(x):
        await KINDS[fault if x.asked().get("user") == "mallory" else "good"].play(x)


for words in ("credit", "no-response", "image-url"):
    picky(words)


@kind("picky-embeddings", "501 to embeddings, an answer to chats", alone="answer", good=True)
async def picky_embeddings(x):
    await KINDS["not-implemented" if x.path.endswith("/embeddings") else "good"].play(x)


# --- Other dialects: enough for a translation ---

DIALECTS = {"anthropic": "anthropic", "gemini": "gemini", "bedrock": "bedrock", "ollama": "ollama", "responses": "responses"}
for foreign in DIALECTS:
    refused(foreign, f"a refusal, where {foreign} is spoken", "400 Bad Request", "no")


# --- HTTP/2 -----------------------------------------------------------------------------------------------------------

SSE = [("content-type", "text/event-stream")]


@kind("h2-good", "a plain answer over HTTP/2", alone="answer", level="h2", good=True)
async def h2_good(c, s):
    await c.headers(s, 200, SSE)
    await c.data(s, GOOD_STREAM, end=True)


@kind("h2-long", "the good answer over HTTP/2, then 8 MB more", alone="answer", level="h2", good=True, big=True)
async def h2_long(c, s):
    await c.headers(s, 200, SSE)
    await c.data(s, ROLE + event(chunk({"content": GOOD})))
    for _ in range(2000):
        if not await c.data(s, event(chunk({"content": "x" * 4000}))):
            return
    await c.data(s, FINISH + DONE, end=True)


@kind("h2-goaway", "GOAWAY instead of an answer, then the end", level="h2")
async def h2_goaway(c, s):
    await c.send(b"\0\0\x08\x07\0\0\0\0\0" + s.to_bytes(4, "big") + b"\0\0\0\0")
    c.writer.close()


@kind("h2-goaway-mid", "GOAWAY with an error after a token", level="h2", token=True)
async def h2_goaway_mid(c, s):
    await c.headers(s, 200, SSE)
    await c.data(s, ROLE + TOKEN)
    await c.send(b"\0\0\x08\x07\0\0\0\0\0" + s.to_bytes(4, "big") + b"\0\0\0\x02")
    c.writer.close()


@kind("h2-close-mid", "closes after a token", level="h2", token=True)
async def h2_close_mid(c, s):
    await c.headers(s, 200, SSE)
    await c.data(s, ROLE + TOKEN)
    c.writer.close()


def reset_with(name, what, code, **options):
    @kind(name, what, level="h2", **options)
    async def play(c, s):
        await c.send(b"\0\0\x04\x03\0" + s.to_bytes(4, "big") + code.to_bytes(4, "big"))


reset_with("h2-refused", "REFUSED_STREAM for every request", 7, unworked=True)
reset_with("h2-http11-required", "HTTP_1_1_REQUIRED for every request; a plain answer over HTTP/1.1", 13, alone="answer", good=True, unworked=True)
reset_with("h2-reset", "INTERNAL_ERROR for every request", 2)


@kind("h2-garbage", "noise instead of frames", level="h2")
async def h2_garbage(c, s):
    await c.send(bytes(range(256)) * 64)


@kind("h2-silent", "acknowledges, and never answers", level="h2")
async def h2_silent(c, s):
    await asyncio.sleep(20)


@kind("h2-settings", "10,000 SETTINGS, then the end", level="h2")
async def h2_settings(c, s):
    for _ in range(100):
        await c.send(b"\0\0\0\x04\0\0\0\0\0" * 100)
    c.writer.close()


# Bytes that kinds got rid of on connections that were idle, by kind.
FLOODED = collections.Counter()
FLOOD_MAX = 64 << 20


async def flood(name, send, data):
    """Sends until the other side closes, or for far more than it should read."""
    while FLOODED[name] < FLOOD_MAX:
        await send(data)
        FLOODED[name] += len(data)
        await asyncio.sleep(0)  # a TLS connection that its peer has ended takes writes and drops them


def flooding(name, what, frames):
    """A kind that answers well over HTTP/2, and then sends these frames on the idle connection."""
    @kind(name, what, alone="first", level="h2", good=True, big=True)
    async def play(c, s):
        await c.headers(s, 200, SSE)
        await c.data(s, GOOD_STREAM, end=True)
        await flood(name, c.send, frames * 1_000)


flooding("h2-idle-pings", "PING without end on an idle connection", b"\0\0\x08\x06\0\0\0\0\0" + b"12345678")
flooding("h2-idle-settings", "SETTINGS without end on an idle connection", b"\0\0\0\x04\0\0\0\0\0")
flooding("h2-idle-priorities", "PRIORITY without end on an idle connection", b"\0\0\x05\x02\0\0\0\0\x01\0\0\0\0\x01")
flooding("h2-idle-data", "empty DATA without end for a stream that has ended", b"\0\0\0\0\0\0\0\0\x01")
flooding("h2-idle-heads", "heads without end for a stream that has ended", b"\0\0\x01\x01\x04\0\0\0\x01\x88")
flooding("h2-idle-unknown", "frames of an unknown type without end on an idle connection", b"\0\0\x08\xee\0\0\0\0\0" + b"12345678")


@kind("idle-bytes", "bytes without end on an idle connection", alone="first", good=True, big=True)
async def idle_bytes(x):
    await x.send(answered(GOOD_STREAM, headers=STREAM))
    await flood("idle-bytes", x.send, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n" * 1_000)


@kind("h2-continuation", "8 MB of CONTINUATION for one header block", level="h2", big=True)
async def h2_continuation(c, s):
    number = s.to_bytes(4, "big")
    await c.send(b"\0\0\x01\x01\0" + number + b"\x88")
    part = b"\0\x01a\x7f\x80\x01" + b"b" * 255
    part *= 60
    for _ in range(512):
        await c.send(len(part).to_bytes(3, "big") + b"\x09\0" + number + part)
    c.writer.close()


@kind("h2-headers", "a header list of 1 MB", level="h2", big=True)
async def h2_headers(c, s):
    number, part = s.to_bytes(4, "big"), b"\0\x01a\x7f\xa1\x1e" + b"b" * 4000
    await c.send((1).to_bytes(3, "big") + b"\x01\0" + number + b"\x88")
    for _ in range(250):
        await c.send(len(part).to_bytes(3, "big") + b"\x09\0" + number + part)
    await c.send(b"\0\0\0\x09\x04" + number)
    await c.data(s, BAD_STREAM, end=True)
