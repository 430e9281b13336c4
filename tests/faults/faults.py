"""The faults: what a provider does, and what the client, the provider and the rows must then show.

The provider's process plays them, `run` checks the results. A name that ends in `-once` fails for the first request
of a case and answers well from then on.
"""

import asyncio
import dataclasses
import email.utils
import json
import time
import typing

from speech import ARGUMENTS, CUT_ARGUMENTS, TEXT, Chat, Messages, Responses, pieces

ALL = ("chat", "completions", "responses", "messages", "embeddings", "responses/openai", "messages/openai", "chat/anthropic")
STREAMED = tuple(name for name in ALL if name != "embeddings")
TOOLS = tuple(name for name in STREAMED if name != "completions")
CHAT = ("chat",)
OPENAI = ("chat", "completions", "responses/openai", "messages/openai")


@dataclasses.dataclass(frozen=True)
class Fault:
    name: str
    what: str
    play: typing.Callable
    # What a client sees without another upstream: a status, "whole", "broken" (a stream that reports that it broke
    # off), "empty". Of two values, the second is for a client that does not stream.
    alone: object
    # The attempt's row next to a healthy upstream: outcome, failure, status (None: not checked).
    row: tuple
    surfaces: tuple = ALL
    # The failure comes after a token: a streaming client has received a part of the answer.
    mid: bool = False
    # The stream still gets its end, or the delivered part cannot be continued: `rescue` changes nothing for a streaming
    # client.
    lost: bool = False
    # The provider's answer is usable, so no other upstream is needed.
    usable: bool = False
    # The first exchange fails and the next one is good.
    once: bool = False
    # The provider is silent until a time-out or a hedging policy decides.
    silent: bool = False
    # No other upstream is tried, and the client gets this status, even if there are healthy upstreams.
    stops: bool = False
    # How it is reached: http, a separate listener (h2, tls, raw), or an address without a listener (dns, closed).
    level: str = "http"
    # Requests that the provider may receive without `retries`. A request that it did not process may be sent again, and
    # so may one over a pooled connection that died.
    resent: int = 1
    # The provider may receive no request: the connection fails before.
    unseen: bool = False
    # Request members that trigger it.
    members: dict = dataclasses.field(default_factory=dict)
    # The row must have the token counts.
    tokens: bool = False
    # Whether the text is the usual one.
    text: bool = True
    # The upstream that is tried next.
    healthy: str = "good"


FAULTS: dict[str, Fault] = {}


def fault(name, what, **options):
    def add(play):
        FAULTS[name] = Fault(name, what, play, **options)
        return play
    return add


# --- The bytes --------------------------------------------------------------------------------------------------------

REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests", 500: "Internal Server Error",
           503: "Service Unavailable"}
JSON, EVENTS = "content-type: application/json\r\n", "content-type: text/event-stream\r\n"


def head(status, headers):
    return f"HTTP/1.1 {status} {REASONS[status]}\r\nx-request-id: req-1\r\n{headers}".encode()


def whole(status, body, headers="", kind=JSON, length=None):
    body = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    return head(status, f"{kind}{headers}content-length: {len(body) if length is None else length}\r\n\r\n") + body


def chunk(text):
    data = text if isinstance(text, bytes) else text.encode()
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


LAST = b"0\r\n\r\n"
STREAM = head(200, EVENTS + "transfer-encoding: chunked\r\n\r\n")
# Pause between tokens, so that a cut comes after the tokens before it and not together with them.
PACE_S = 0.002


async def stream(x, *parts, end=True):
    """The head, then the parts; several tokens in a list are sent one by one."""
    await x.send(STREAM)
    await body(x, *parts, end=end)


async def body(x, *parts, end=True):
    for part in parts:
        for piece in part if isinstance(part, list) else [part]:
            if piece:
                await x.send(chunk(piece))
                if isinstance(part, list) and len(part) <= 30:
                    await asyncio.sleep(PACE_S)
    if end:
        await x.send(LAST)


async def good(x, say, words=None):
    """The usual answer, or the rest of it if the request contains a beginning."""
    given = say.prefix()
    if given is not None and not (given and TEXT.startswith(given)):
        given = None
    if say.asked.get("stream"):
        if words is None:
            words = pieces(len(given.split())) if given else pieces()
        await stream(x, say.begin(), say.words(words), say.finish(), say.done())
    else:
        await x.send(whole(200, say.whole(TEXT[len(given):] if given else TEXT)))


def tokens(say, count):
    """This many words, after those in the request."""
    given = len((say.prefix() or "").split())
    return say.begin(), say.words(pieces(given, given + count))


# --- A status ---------------------------------------------------------------------------------------------------------

def refused(name, what, status, message, kind="invalid_request_error", code=None, headers="", **options):
    async def play(x, say):
        if options.get("once") and x.attempt > 1:
            return await good(x, say)
        extra = headers() if callable(headers) else headers
        await x.send(whole(status, say.error(message, kind, code), extra))
    failure = {429: "rate_limited", 500: "server_error", 503: "overloaded", 401: "unauthorized", 404: "not_found"}.get(status)
    options.setdefault("alone", {500: 502, 503: 502, 401: 502, 404: 502}.get(status, status))
    options.setdefault("row", ("failed", failure, status))
    fault(name, what, **options)(play)


def soon():
    return f"retry-after: {email.utils.formatdate(time.time() + 2, usegmt=True)}\r\n"


LIMITED = {"message": "Rate limit reached for requests", "kind": "rate_limit_error", "code": "rate_limit_exceeded"}
BUSY = {"message": "The engine is currently overloaded. Please try again later.", "kind": "server_error", "code": "overloaded"}
refused("429", "429 without a Retry-After, always", 429, **LIMITED)
refused("429-seconds", "429 with `Retry-After: 2`, always", 429, headers="retry-after: 2\r\n", **LIMITED)
refused("429-date", "429 with a Retry-After that is a date, two seconds ahead", 429, headers=soon, **LIMITED)
refused("429-ms", "429 with `retry-after-ms: 1500`", 429, headers="retry-after-ms: 1500\r\n", **LIMITED)
refused("429-once", "429 with `Retry-After: 1` once, then healthy", 429, headers="retry-after: 1\r\n", once=True, **LIMITED)
refused("500", "500, always", 500, "The server had an error", "server_error")
refused("500-once", "500 once, then healthy", 500, "The server had an error", "server_error", once=True)
refused("503", "503, always", 503, **BUSY)
refused("503-once", "503 with `Retry-After: 1` once, then healthy", 503, headers="retry-after: 1\r\n", alone=503, once=True, **BUSY)
refused("401", "401: the key is not valid", 401, "Incorrect API key provided", code="invalid_api_key")
refused("404", "404: no such model", 404, "The model does not exist or you do not have access to it", code="model_not_found")
refused("400", "400: a parameter that this vendor does not know", 400, "Unknown parameter: frobnicate", row=("failed", "bad_request", 400))
refused("context", "400: the prompt is too long for the model", 400, "This model's maximum context length is 8192 tokens. However, your messages "
        "resulted in 9631 tokens. Please reduce the length of the messages.", code="context_length_exceeded", row=("failed", "context_length", 400))
refused("policy", "400: refused by a content policy", 400, "Your request was rejected as a result of our safety system.",
        code="content_policy_violation", stops=True, row=("refused", "content_policy", 400))


THOUGHTS = [{"role": "user", "content": "Who is first?"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "Let me see.", "signature": "c2lnbmVkIGVsc2V3aGVyZQ=="},
                                              {"type": "text", "text": "The grey one."}]},
            {"role": "user", "content": "And now?"}]


@fault("signature", "400: the signature of a thinking block comes from another vendor", surfaces=("messages",), alone="whole", usable=True,
       row=("failed", "bad_request", 400), resent=2, members={"messages": THOUGHTS})
async def signature(x, say):
    if say.has_thinking():
        await x.send(whole(400, say.error("messages.1.content.0: Invalid `signature` in `thinking` block")))
    else:
        await good(x, say)


# --- No answer --------------------------------------------------------------------------------------------------------

@fault("reset", "resets the connection before its head, always", alone=502, row=("failed", "reset", None), resent=2)
async def reset(x, say):
    x.reset()


@fault("reset-once", "resets the connection before its head once, then answers", alone=502, once=True, row=("failed", "reset", None),
       resent=2)
async def reset_once(x, say):
    if x.attempt > 1:
        return await good(x, say)
    x.reset()


@fault("silent", "takes the request and sends nothing", alone=504, row=("timeout", "timeout", None), silent=True)
async def silent(x, say):
    await x.linger(30)
    x.close()


@fault("headers-silent", "sends its head at once and then nothing", alone=504, row=("timeout", "timeout", 200), silent=True)
async def headers_silent(x, say):
    await x.send(STREAM if say.asked.get("stream") else head(200, JSON + "content-length: 900\r\n\r\n"))
    await x.linger(30)
    x.close()


@fault("slow", "its first token comes long after its head", alone="whole", row=("timeout", "timeout", 200), silent=True, surfaces=STREAMED)
async def slow(x, say):
    await x.send(STREAM)
    begun = time.monotonic()
    while time.monotonic() - begun < x.slow_s:
        await asyncio.sleep(min(0.5, x.slow_s))
        await x.send(chunk(": still here\n\n"))
    await body(x, say.begin(), say.words(pieces()), say.finish(), say.done())


@fault("dns", "its name cannot be resolved", alone=502, row=("failed", "dns", None), level="dns", surfaces=CHAT, unseen=True)
async def dns(x, say):
    raise AssertionError("nobody gets here")


@fault("refused-port", "nothing listens on its port", alone=502, row=("failed", "connect", None), level="closed", surfaces=CHAT, unseen=True)
async def refused_port(x, say):
    raise AssertionError("nobody gets here")


@fault("tls-untrusted", "its certificate comes from an untrusted authority", alone=502, row=("failed", "tls", None), level="untrusted", surfaces=CHAT, unseen=True)
async def tls_untrusted(x, say):
    await good(x, say)


@fault("tls-garbage", "answers the TLS handshake with noise", alone=502, row=("failed", "tls", None), level="raw", surfaces=CHAT, unseen=True)
async def tls_garbage(x, say):
    await x.reader.read(100)
    await x.send(b"\x7fnot a record of TLS\n" * 4)


@fault("tls-closed", "closes within the TLS handshake", alone=502, row=("failed", ("tls", "closed", "reset"), None), level="raw", surfaces=CHAT, unseen=True)
async def tls_closed(x, say):
    await x.reader.read(100)


@fault("endless-headers", "headers without an end", alone=502, row=("failed", "protocol", None))
async def endless_headers(x, say):
    await x.send(b"HTTP/1.1 200 OK\r\n")
    for at in range(20_000):
        await x.send(f"x-filler-{at}: {'a' * 60}\r\n")
    x.close()


# --- An invalid answer ----------------------------------------------------------------------------------------------

@fault("wrong-type", "200 with a page of HTML", alone=502, row=("failed", "malformed", 200))
async def wrong_type(x, say):
    await x.send(whole(200, "<html><body>Sign in to continue</body></html>", kind="content-type: text/html\r\n"))


@fault("json-for-stream", "a whole answer in JSON where a stream was asked for", alone="whole", row=("won", None, 200), usable=True, surfaces=STREAMED)
async def json_for_stream(x, say):
    await x.send(whole(200, say.whole(TEXT)))


@fault("error-in-200", "200 with an error in JSON", alone=502, row=("failed", ("in_stream_error", "server_error", "overloaded"), 200))
async def error_in_200(x, say):
    await x.send(whole(200, say.error("the engine broke", "server_error")))


@fault("error-frame", "an error event before any token", alone=502, row=("failed", ("in_stream_error", "server_error"), 200), surfaces=STREAMED)
async def error_frame(x, say):
    await stream(x, say.begin(), say.error_event())


@fault("empty", "finishes without a token", alone="empty", row=("empty", None, 200), surfaces=STREAMED)
async def empty(x, say):
    await stream(x, say.begin(), say.finish(), say.done())


# A streaming client has already received it.
NOTHING = {"alone": "empty", "row": (("won", "empty"), None, 200), "mid": True, "text": False, "lost": True}


@fault("whitespace", "an answer of white space alone", surfaces=STREAMED, **NOTHING)
async def whitespace(x, say):
    await stream(x, say.begin(), say.words([" ", "\n", " "]), say.finish(), say.done())


@fault("reasoning", "reasoning, and then the end without an answer", surfaces=("chat", "messages"), **NOTHING)
async def reasoning(x, say):
    await stream(x, say.begin(), say.reasoning("Let me see which one is first."), say.finish(), say.done())


@fault("foreign", "events of another dialect in a 200", alone=502, row=("failed", "malformed", 200), surfaces=STREAMED)
async def foreign(x, say):
    other = {"openai": Messages, "responses": Chat, "anthropic": Responses}[say.name](say.model)
    await stream(x, other.begin(), other.words(pieces(0, 10)), other.finish(), other.done())


@fault("noise", "events that are no JSON", alone=502, row=("failed", "malformed", 200), surfaces=STREAMED)
async def noise(x, say):
    await stream(x, *[f"data: <<<{word}>>>\n\n" for word in pieces(0, 10)])


@fault("filtered", "a finish reason `content_filter` without a word", alone=("empty", "empty"), stops=True, row=("refused", "content_policy", 200),
       surfaces=("chat", "messages"))
async def filtered(x, say):
    await stream(x, say.begin(), say.finish("content_filter"), say.done())


# --- After the first token --------------------------------------------------------------------------------------------

@fault("cut", "closes after 40 of 60 tokens", alone=("broken", 502), row=("failed_mid", "closed", 200), mid=True, surfaces=STREAMED)
async def cut(x, say):
    await stream(x, *tokens(say, 40), end=False)
    x.close()


@fault("cut-picky", "the same, and the next one refuses to continue a beginning", alone=("broken", 502), row=("failed_mid", "closed", 200), mid=True,
       surfaces=tuple(name for name in STREAMED if name != "completions"), healthy="no-prefix")
async def cut_picky(x, say):
    await cut(x, say)


@fault("reset-mid", "resets the connection after 20 of 60 tokens", alone=("broken", 502), row=("failed_mid", ("reset", "closed"), 200), mid=True,
       surfaces=STREAMED)
async def reset_mid(x, say):
    await stream(x, *tokens(say, 20), end=False)
    await asyncio.sleep(0.05)
    x.reset()


@fault("stall", "sends nothing more after 20 of 60 tokens", alone=("broken", 502), row=("failed_mid", "idle_timeout", 200), mid=True, surfaces=STREAMED)
async def stall(x, say):
    await stream(x, *tokens(say, 20), end=False)
    await x.linger(30)
    x.close()


@fault("error-mid", "an error event after 20 of 60 tokens", alone=("broken", 502), row=("failed_mid", ("in_stream_error", "server_error"), 200), mid=True,
       surfaces=STREAMED)
async def error_mid(x, say):
    await stream(x, *tokens(say, 20), say.error_event())


@fault("malformed-event", "one event that is broken JSON among good ones", alone=("broken", 502), row=("failed_mid", "malformed", 200), mid=True,
       surfaces=STREAMED)
async def malformed_event(x, say):
    await stream(x, *tokens(say, 10), 'data: {"id": "broken", "choices": [{"delta": {"content": \n\n', say.words(pieces(10)), say.finish(), say.done())


@fault("no-done", "a whole answer without `[DONE]` (messages: without `message_stop`)", alone="whole", row=("won", None, 200), usable=True,
       surfaces=("chat", "completions", "messages", "messages/openai", "responses/openai", "chat/anthropic"))
async def no_done(x, say):
    await stream(x, say.begin(), say.words(pieces()), say.finish())


@fault("behind-done", "counts its tokens in an event behind `[DONE]`", alone="whole", row=("won", None, 200), usable=True, tokens=True,
       surfaces=("chat", "messages/openai", "responses/openai"))
async def behind_done(x, say):
    counted = say.chunk({}, usage=say.usage).replace('"choices":[{"index":0,"delta":{},"finish_reason":null}]', '"choices":[]')
    await stream(x, say.begin(), say.words(pieces()), say.finish(counted=False), say.done(), counted)


@fault("reasoning-details", "reasoning that comes as `reasoning_details` only, then the answer", alone="whole", row=("won", None, 200), usable=True,
       surfaces=("chat", "messages/openai", "responses/openai"))
async def reasoning_details(x, say):
    detail = {"type": "reasoning.text", "text": "Let me see.", "format": "unknown", "index": 0}
    await stream(x, say.begin(), say.chunk({"content": "", "reasoning_details": [detail]}), say.words(pieces()), say.finish(), say.done())


@fault("no-finish", "`[DONE]` (messages: `message_stop`) without a finish reason, 20 tokens short", alone=("broken", 502),
       row=("failed_mid", "closed", 200), mid=True, surfaces=("chat", "completions", "messages", "messages/openai", "responses/openai", "chat/anthropic"))
async def no_finish(x, say):
    await stream(x, *tokens(say, 40), say.done())


@fault("neither", "ends well at the level of HTTP, without a finish reason and without an end", alone=("broken", 502), row=("failed_mid", "closed", 200),
       mid=True, surfaces=STREAMED)
async def neither(x, say):
    await stream(x, *tokens(say, 40))


@fault("length-short", "a content-length that ends it in the middle", alone=("broken", 502), row=("failed_mid", ("closed", "malformed"), 200), mid=True,
       surfaces=STREAMED, resent=2)
async def length_short(x, say):
    begin, words = tokens(say, 40)
    data = "".join([begin, *words]).encode()
    await x.send(whole(200, data, kind=EVENTS, length=len(data)))
    x.close()


@fault("length-long", "a content-length that is never reached: closes before", alone=("broken", 502), row=("failed_mid", "closed", 200), mid=True,
       surfaces=STREAMED, resent=2)
async def length_long(x, say):
    begin, words = tokens(say, 40)
    data = "".join([begin, *words]).encode()
    await x.send(whole(200, data, kind=EVENTS, length=len(data) + 5_000))
    x.close()


@fault("gigantic", "an event that is larger than `event_max`, after 5 tokens", alone=("broken", 502), row=("failed_mid", "malformed", 200), mid=True,
       surfaces=STREAMED)
async def gigantic(x, say):
    await stream(x, *tokens(say, 5), say.words([" " + "x" * (200 << 10)])[0], say.words(pieces(5)), say.finish(), say.done())


# --- Tool calls -------------------------------------------------------------------------------------------------------

NO_ARGUMENTS = {"row": ("failed_mid", ("closed", "malformed"), 200), "mid": True, "surfaces": TOOLS, "text": False}


@fault("tool-cut", "a tool call that is cut in its arguments, then the end without a finish reason", alone=("broken", 502), **NO_ARGUMENTS)
async def tool_cut(x, say):
    await stream(x, say.begin(), say.call(CUT_ARGUMENTS), say.done())


@fault("tool-broken", "a tool call that is cut in its arguments, and finished as if it were whole", alone=("broken", 502), **NO_ARGUMENTS)
async def tool_broken(x, say):
    await stream(x, say.begin(), say.call(CUT_ARGUMENTS), say.finish("tool"), say.done())


@fault("tool-length", "a tool call that is cut by `max_tokens`, and says so", alone="whole", row=("won", None, 200), usable=True, surfaces=TOOLS, text=False)
async def tool_length(x, say):
    await stream(x, say.begin(), say.call(CUT_ARGUMENTS), say.finish("length"), say.done())


@fault("tool-good", "a whole tool call: no fault", alone="whole", row=("won", None, 200), usable=True, surfaces=TOOLS, text=False)
async def tool_good(x, say):
    await stream(x, say.begin(), say.call(ARGUMENTS), say.finish("tool"), say.done())


# --- HTTP/2 -----------------------------------------------------------------------------------------------------------

H2_HEAD = [("content-type", "text/event-stream"), ("x-request-id", "req-1")]


async def h2_good(c, stream_id, say):
    if not say.asked.get("stream"):
        await c.headers(stream_id, 200, [("content-type", "application/json")])
        return await c.data(stream_id, json.dumps(say.whole(TEXT)), end=True)
    await c.headers(stream_id, 200, H2_HEAD)
    await c.data(stream_id, "".join([say.begin(), *say.words(pieces()), say.finish(), say.done()]), end=True)


def h2(name, what, resent=1, **options):
    """`play(connection, stream, dialect, attempt)` runs over HTTP/2 and TLS."""
    return fault(name, what, level="h2", surfaces=CHAT, resent=resent, **options)


@h2("goaway-once", "GOAWAY before the request is processed, once", alone="whole", usable=True, row=("won", None, 200), resent=2)
async def goaway_once(c, stream_id, say, attempt):
    if attempt > 1:
        return await h2_good(c, stream_id, say)
    await c.goaway(0)


@h2("goaway", "GOAWAY before the request is processed, always", alone=502, row=("failed", ("closed", "protocol", "connect"), None), resent=8)
async def goaway(c, stream_id, say, attempt):
    await c.goaway(0)


@h2("goaway-mid", "GOAWAY and the end of the connection after 20 tokens", alone=("broken", 502), row=("failed_mid", ("closed", "reset", "protocol"), 200), mid=True)
async def goaway_mid(c, stream_id, say, attempt):
    await c.headers(stream_id, 200, H2_HEAD)
    await c.data(stream_id, "".join([say.begin(), *say.words(pieces(0, 20))]))
    await asyncio.sleep(0.02)
    await c.goaway(stream_id)


@h2("refused-stream-once", "REFUSED_STREAM once", alone="whole", usable=True, row=("won", None, 200), resent=2)
async def refused_stream_once(c, stream_id, say, attempt):
    if attempt > 1:
        return await h2_good(c, stream_id, say)
    await c.reset(stream_id, 7)


@h2("refused-stream", "REFUSED_STREAM, always", alone=502, row=("failed", ("closed", "protocol", "reset"), None), resent=4)
async def refused_stream(c, stream_id, say, attempt):
    await c.reset(stream_id, 7)


@h2("h2-reset-mid", "RST_STREAM with INTERNAL_ERROR after 20 tokens", alone=("broken", 502), row=("failed_mid", ("reset", "closed", "protocol"), 200), mid=True)
async def h2_reset_mid(c, stream_id, say, attempt):
    await c.headers(stream_id, 200, H2_HEAD)
    await c.data(stream_id, "".join([say.begin(), *say.words(pieces(0, 20))]))
    await asyncio.sleep(0.02)
    await c.reset(stream_id, 2)


# --- Healthy ones, used together with the faults --------------------------------------------------------------------

# Later than the failures, so that the healthy ones do not win too early when all start at once.
LATER_S = 0.25


async def later(x, say):
    await asyncio.sleep(LATER_S)
    await good(x, say)


async def no_prefix(x, say):
    if say.prefix() is not None:
        return await x.send(whole(400, say.error("This model does not support assistant message prefill. The conversation must end with a user message.",
                                                 code="invalid_prefill")))
    await good(x, say)


async def no_prefix_later(x, say):
    await asyncio.sleep(LATER_S)
    await no_prefix(x, say)


HEALTHY = {"good": good, "good-later": later, "no-prefix": no_prefix, "no-prefix-later": no_prefix_later}
