"""Providers against the gateway: answers that cost more to read than to send, that stall, are wrong, or quote a key."""

import json
import time

import providers
from attacks import attack
from harness import client
from harness.many import at_once, timed
from stage import KEY


def two_at_once(stage, kinds, streams, total, **options):
    """Requests each kind twice at the same time while the probe runs; returns seconds by kind."""
    config = stage.config()
    config.total = f"{total}s"
    for kind in kinds:
        config.model(kind, kind)
    with stage.gateway(config, **options) as gate:
        for kind in kinds:
            for stream in streams:
                answers = at_once(2, lambda _: timed(lambda: gate.ask(kind, stream=stream, timeout=total + 15)))
                worst = max(seconds for seconds, _ in answers)
                stage.note(f"{kind}, {'streamed' if stream else 'whole'}: {worst:.1f} s, {[answer.status for _, answer in answers]}")
                stage.must(worst <= total + 2, f"{kind}: {worst:.1f} s, although total = {total}s")
                for _, answer in answers:
                    stage.must(answer.is_answer or answer.is_error, f"{kind}: {answer}")
                if worst > total + 2 or not gate.alive():
                    return


@attack("sse-lines", "events of 690,000 data lines and of 2,000,000 comment lines, two at once", quick=True)
def sse_lines(stage):
    two_at_once(stage, ["data-lines", "comment-lines"], [True, False], total=10)


@attack("assembly", "40,000 tool calls, 20,000 reasoning details, 20,000 choices to clients that do not stream, two at once", quick=True)
def assembly(stage):
    two_at_once(stage, ["many-calls", "many-details", "many-choices"], [False], total=10)


@attack("assembly-translated", "the same, to clients of Responses and Messages")
def assembly_translated(stage):
    config = stage.config()
    for kind in ["many-calls", "many-details"]:
        config.model(kind, kind)
    with stage.gateway(config) as gate:
        for kind in ["many-calls", "many-details"]:
            for surface in ["responses", "messages"]:
                for stream in [True, False]:
                    seconds, answer = timed(lambda: gate.ask(kind, surface=surface, stream=stream, timeout=25))
                    stage.note(f"{kind}, {surface}, {'streamed' if stream else 'whole'}: {seconds:.1f} s, {answer.status}")
                    stage.must(seconds <= 12, f"{kind}, {surface}: {seconds:.1f} s, although total = 10s")


def clean(answer):
    return answer.is_answer or answer.is_error


def alone(stage, gate, kind):
    for stream in [True, False]:
        seconds, answer = timed(lambda: gate.ask(f"alone-{kind.name}", stream=stream, timeout=25))
        expected = {"answer": answer.is_answer, "error": answer.is_error, "any": clean(answer),
                    "empty": answer.is_empty or clean(answer), "first": answer.is_answer or not stream and clean(answer)}[kind.alone]
        # A token may have been sent before the failure; the answer must show the failure.
        stage.must(expected or kind.token and clean(answer), f"{kind.name} alone, {'streamed' if stream else 'whole'}: {answer}")
        stage.must(seconds <= 12, f"{kind.name} alone: {seconds:.1f} s, although total = 10s")
        stage.must(KEY[:12] not in answer.text + str(answer.headers), f"{kind.name}: the key went to the client: {answer.headers} {answer}")
        stage.must("smuggled" not in answer.text, f"{kind.name}: an answer that was meant for nobody")


def beside(stage, gate, kind):
    for stream in [True, False]:
        answer = gate.ask(f"race-{kind.name}", stream=stream, timeout=25)
        # A kind that has sent a token may have won: a stream keeps its winner. A whole answer can still come from
        # another upstream.
        stage.must(answer.is_good or (stream and kind.token or kind.alone in ("answer", "any", "first")) and clean(answer),
                   f"{kind.name} beside a good one, {'streamed' if stream else 'whole'}: {answer}")
        stage.must(KEY[:12] not in answer.text + str(answer.headers), f"{kind.name}: the key went to the client: {answer.headers}")


@attack("provider-kinds", "each kind of bad provider alone, and beside a good one", quick=True)
def provider_kinds(stage):
    kinds = [kind for kind in providers.KINDS.values() if stage.scripted.has(kind) and kind.name not in providers.DIALECTS
             and kind.name not in ("redirected", "later", "good") and not kind.endless and not (kind.big and stage.quick)]
    config = stage.config()
    for kind in kinds:
        config.model(f"alone-{kind.name}", kind.name).model(f"race-{kind.name}", kind.name, "later")
    with stage.gateway(config) as gate:
        at_once(len(kinds), lambda number: (alone(stage, gate, kinds[number]), beside(stage, gate, kinds[number])), workers=8)
        seen = stage.scripted.counts()["seen"].get("redirected", 0)
        stage.must(not seen, f"a redirect was followed {seen} times")
    bad = sum(not kind.good for kind in kinds)
    stage.note(f"{len(kinds)} kinds, {bad} of them bad, each asked four times")


# How an answer without end is recorded, by the kind of its provider. A fast machine reads more empty events than an answer that is
# assembled or translated may have before its time is over.
ENDLESS = {"endless-text": {"endless"}, "endless-thinking": {"endless"}, "endless-blanks": {"endless"}, "endless-arguments": {"endless"},
           "endless-pings": {"timeout"}, "endless-empty": {"timeout", "endless"}}
# A stream ends after 3 s, and a whole answer after `total`, 10 s; longer answers sooner.
STREAM_TOTAL = 3
# What `max_tokens` is called.
LIMITS = {"chat": "max_tokens", "responses": "max_output_tokens", "messages": "max_tokens"}


def endless_answer(stage, gate, kind, surface, stream):
    most = 12 if not stream else STREAM_TOTAL + 2
    seconds, answer = timed(lambda: gate.ask(kind, surface=surface, stream=stream, timeout=most + 20, **{LIMITS[surface]: 16}))
    name = f"{kind}, {surface}, {'streamed' if stream else 'whole'}"
    stage.must(answer.is_error, f"{name}: no clean error: {answer}")
    stage.must(seconds <= most, f"{name}: {seconds:.1f} s")
    return seconds


@attack("endless-answers", "words, thoughts, white space, arguments, pings, empty events and heads without an end; also for `bench` and `probe`")
def endless_answers(stage):
    config = stage.config()
    config.stream_total = f"{STREAM_TOTAL}s"
    for kind in [*ENDLESS, "endless-head"]:
        config.model(kind, kind)
        # A rescue must not go on with such an answer.
        config.model(f"rescued-{kind}", kind, "later", policy="fallback", rescue="continue")
    with stage.gateway(config) as gate:
        calls = [(kind, surface, stream) for kind in ENDLESS for surface in LIMITS for stream in (True, False)]
        worst = max(at_once(len(calls), lambda number: endless_answer(stage, gate, *calls[number]), workers=12))
        for kind in ENDLESS:
            stage.must(gate.ask(f"rescued-{kind}", stream=True, max_tokens=16).is_error, f"{kind}: it was rescued")
            stage.must(gate.ask(f"rescued-{kind}", max_tokens=16, timeout=30).is_good or "timeout" in ENDLESS[kind],
                       f"{kind}: a client that does not stream did not get the next upstream's answer")
        gate.settle()
        for kind, failures in ENDLESS.items():
            told = set(gate.rows("SELECT outcome, failure FROM attempt WHERE provider = ?", kind))
            stage.must(told and told <= {("failed_mid", failure) for failure in failures}, f"{kind}: the rows say {told}")
        stage.note(f"{len(calls)} answers without end: all ended within {worst:.1f} s, and are recorded")
    commands_end(stage)


def commands_end(stage):
    """`bench` and `probe` against such servers, at the same time. Here no timeout of the configuration helps them."""
    config, kinds = stage.config(), [*ENDLESS, "endless-head"]
    config.total, config.stream_total = "1h", "1h"
    for kind in kinds:
        config.model(kind, kind)
    with stage.gateway(config, name="commands") as gate:
        bench = ["--duration", "1s", "--concurrency", "1", "--input-tokens", "20", "--output-tokens", "4", "--json"]
        # So long a request is awaited: the block and 30 s, or the ping's minute.
        calls = [(["bench", f"{kind}/m", *bench], 31) for kind in kinds] + [(["probe", "--upstreams", f"{kind}/m", "--json"], 60) for kind in kinds]
        ended = at_once(len(calls), lambda number: timed(lambda: gate.command(*calls[number][0], timeout=150)))
        for (words, most), (seconds, (code, text)) in zip(calls, ended):
            stage.must(seconds <= most + 20, f"{' '.join(words[:3])}: {seconds:.1f} s")
            stage.must(code == 1 and ("endless" in text or "timeout" in text), f"{' '.join(words[:3])}: exit code {code}: {text[-300:]}")
        stage.note(", ".join(f"{name}: {max(s for (words, _), (s, _) in zip(calls, ended) if words[0] == name):.0f} s" for name in ("bench", "probe")))


@attack("pool-closer", "a provider that closes pooled connections after it has read the next request", quick=True)
def pool_closer(stage):
    config = stage.config().model("closer", "pool-closer")
    with stage.gateway(config) as gate:
        before = stage.scripted.counts()["seen"].get("pool-closer", 0)
        answers = [gate.ask("closer") for _ in range(60)]
        gate.settle()
        seen = stage.scripted.counts()["seen"]["pool-closer"] - before
        rows = gate.rows("SELECT count(*) FROM attempt WHERE provider = 'pool-closer'")[0][0]
        told = sum(int(answer.headers.get("x-photofinish-attempts", 0)) for answer in answers)
        stage.note(f"60 requests: the provider saw {seen}, there are {rows} rows, the headers tell {told} attempts")
        stage.must(seen == rows, f"the provider saw {seen} requests, there are {rows} rows")
        stage.must(all(clean(answer) for answer in answers), "an answer was cut")


# Bytes that a provider may get rid of on an idle connection: those that the systems of both sides keep, and what the
# gateway reads before it closes.
FLOODED_MAX = 16 << 20


@attack("idle-floods", "providers that answer well, and then send frames or bytes without end on the idle connection", quick=True)
def idle_floods(stage):
    kinds = [kind for kind in providers.KINDS.values() if "idle" in kind.name and stage.scripted.has(kind) and kind.name != "idle-before-call"]
    config = stage.config()
    for kind in kinds:
        config.model(f"flood-{kind.name}", kind.name)
    with stage.gateway(config) as gate:
        before = gate.memory()
        for kind in kinds:
            stage.must(gate.ask(f"flood-{kind.name}").is_answer, f"{kind.name}: no answer before the flood")
        cpu = gate.cpu()
        time.sleep(12)  # idle connections of HTTP/1.1 are looked at every 10 s
        cpu = gate.cpu() - cpu
        flooded = stage.scripted.counts()["flooded"]
        time.sleep(1)
        later = stage.scripted.counts()["flooded"]
        for kind in kinds:
            name = kind.name
            stage.must(flooded.get(name), f"{name}: it has not flooded")
            stage.must(later.get(name) == flooded.get(name) and later.get(name, 0) < FLOODED_MAX,
                       f"{name}: {later.get(name, 0) / 1e6:.1f} MB were taken, {(later.get(name, 0) - flooded.get(name, 0)) / 1e6:.1f} MB in the last second")
            # The next flood follows the answer at once, and may spoil it.
            stage.must(any(gate.ask(f"flood-{name}").is_answer for _ in range(3)), f"{name}: no answer after the flood")
        stage.note(f"{len(kinds)} kinds of flood, {sum(later.values()) / 1e6:.1f} MB in all, {cpu:.2f} s of CPU, RSS + {gate.memory() - before:.0f} MB")
        stage.must(cpu < 3, f"{cpu:.1f} s of CPU for idle connections")


@attack("h2-stalled", "clients that read nothing of long answers from an HTTP/2 provider; then others ask it", quick=True)
def h2_stalled(stage):
    if not stage.scripted.has(providers.KINDS["h2-long"]):
        stage.skip("openssl is not there, so no provider speaks HTTP/2")
    config = stage.config().model("long", "h2-long")
    with stage.gateway(config) as gate:
        stalled = []
        for number in range(12):
            stalled.append(client.connect(gate.port, client.request("long"), receive=4096))
            try:
                stalled[-1].recv(500)  # its winner streams; from now on no bytes are read
            except OSError:
                stage.must(False, f"client {number + 1} has nothing after 5 s")
                break
        time.sleep(1.5)
        answers = at_once(6, lambda _: timed(lambda: first_bytes(gate.port, client.request("long"))))
        worst = max(seconds for seconds, _ in answers)
        connections = stage.scripted.counts()["connections"]["h2-long"]
        stage.note(f"beside 12 stalled clients 6 others had their first token after at most {worst:.2f} s; {connections} connections, RSS {gate.memory():.0f} MB")
        for _, data in answers:
            stage.must(providers.GOOD.encode() in data, f"a client beside the stalled ones got {data[-120:]!r}")
        for sock in stalled:
            client.hang_up(sock)


def first_bytes(port, data, timeout=15, enough=b"good answer"):
    out = b""
    try:
        with client.connect(port, data, timeout=timeout) as sock:
            while enough not in out and (part := sock.recv(4096)):
                out += part
    except OSError:
        pass
    return out


@attack("cold-burst", "150 requests at once to an HTTP/2 provider that no connection leads to", quick=True)
def cold_burst(stage):
    if not stage.scripted.has(providers.KINDS["h2-good"]):
        stage.skip("openssl is not there, so no provider speaks HTTP/2")
    config = stage.config().model("cold", "h2-good")
    with stage.gateway(config) as gate:
        before = stage.scripted.counts()["connections"].get("h2-good", 0)
        # All clients connect before the first connection to the provider exists.
        data, socks = client.request("cold"), [client.connect(gate.port, timeout=15) for _ in range(150)]
        for sock in socks:
            sock.sendall(data)
        bad = [got for got in map(whole, socks) if providers.GOOD.encode() not in got]
        opened = stage.scripted.counts()["connections"].get("h2-good", 0) - before
        stage.note(f"150 requests at once opened {opened} connections")
        stage.must(opened <= 16, f"{opened} connections to one address, where 16 is the bound")
        stage.must(not bad, f"{len(bad)} of 150 got no answer: {bad[:1]}")


def whole(sock):
    """Reads until the stream is done."""
    out = b""
    try:
        while b"[DONE]" not in out and (part := sock.recv(65_536)):
            out += part
    except OSError:
        pass
    sock.close()
    return out


def schema_body(model, size):
    """A request with a tool whose schema has this many bytes."""
    one = {"type": "object", "properties": {"a": {"type": "string", "enum": ["x", "y"]}, "b": {"type": ["integer", "null"], "minimum": 1}}}
    text = json.dumps(one)
    properties = ",".join(f'"p{number}":{text}' for number in range(size // (len(text) + 10)))
    return ('{"model":"%s","messages":[{"role":"user","content":"hello"}],"tools":[{"type":"function","function":{"name":"f","parameters":'
            '{"type":"object","properties":{%s}}}}]}' % (model, properties))


@attack("schemas", "six bodies of 24 MB of schema at once, each for four foreign dialects")
def schemas(stage):
    config = stage.config().model("foreign", "anthropic", "gemini", "bedrock", "ollama")
    config.total = "30s"
    body = schema_body("foreign", 24_000_000)
    with stage.gateway(config, exit_max=15) as gate:
        answers = at_once(6, lambda _: timed(lambda: gate.ask("foreign", body=body, timeout=90)))
        stage.note(f"answered after {', '.join(f'{seconds:.1f} s: {answer.status}' for seconds, answer in answers)}")
        stage.must(all(clean(answer) for _, answer in answers), f"an answer was cut: {[str(answer)[:100] for _, answer in answers]}")


@attack("terminal", "escapes and direction marks in names and messages, shown by the commands", quick=True)
def terminal(stage):
    names = ["\x1b[2Jcleared", "\u202egnp.exe", "\u2066name\u2069", "line\u2028break", "wide" * 100, "bell\x07", "c1\x9b31m"]
    config = stage.config().model("escapes", "escapes").model("told", "escapes-told")
    with stage.gateway(config) as gate:
        for name in names:
            gate.ask(f"good/{name}")
        gate.ask("escapes")
        gate.settle()
        bad = {chr(code) for code in [*range(0x20), *range(0x7F, 0xA0), 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]} - {"\n"}
        asked = [["race", "hi", "--model", model] for model in ["told", "escapes"]]
        for words in [*asked, ["stats"], ["stats", "--by", "model"], ["history"], ["routing", "--url", f"http://127.0.0.1:{gate.port}"], ["check"]]:
            _, output = gate.command(*words)
            shown = sorted(bad & set(output))
            stage.must(not shown, f"`{' '.join(words[:3])}` prints {shown}")
        log = gate.log.read_text(errors="replace")
        stage.must(not bad & set(log), f"the log has {sorted(bad & set(log))}")
    stage.note(f"{len(names)} names, six commands and the log")


