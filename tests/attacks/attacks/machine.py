"""The machine's limits: descriptors, memory, and a name server that does not answer."""

import collections
import contextlib
import itertools
import os
import resource
import socket
import time

from attacks import attack
from attacks.answers import clean, schema_body
from attacks.clients import crowd_of
from harness import client
from harness.many import at_once, timed
from stage import memory_group


@attack("descriptors", "600 clients at once under ulimit -n 256", quick=True)
def descriptors(stage):
    config = stage.config(breaker='{ failures = 5, open = "30s", open_max = "60s" }').model("slow", "slow")
    config.connect = "5s"  # a slow machine is not the point
    with stage.gateway(config, limits={resource.RLIMIT_NOFILE: 256}, good_fails=True, healthz_max=5_000) as gate:
        counts = collections.Counter(end.status for end in crowd_of(gate.port, "slow", 600, early=True))
        time.sleep(1)
        answer = gate.ask("slow")
        gate.settle()
        blamed = dict(gate.rows("SELECT failure, count(*) FROM attempt WHERE failure IN ('connect', 'dns', 'tls') GROUP BY 1"))
        others = gate.rows("SELECT outcome, failure, count(*) FROM attempt WHERE outcome <> 'won' GROUP BY 1, 2")
        log = len(gate.text()) // 1024
        stage.note(f"ends: {dict(counts)}; attempts that did not win: {others or 'none'}; {log} KB of log")
        stage.must(not blamed, f"providers were blamed for our descriptors: {blamed}")
        stage.must(not gate.metric("photofinish_breaker_open"), "a breaker is open")
        stage.must(answer.is_good, f"after the burst: {answer}")
        stage.must(set(counts) <= {200, 429, 503, 0}, f"other ends than an answer or a refusal: {counts}")
        stage.must(log < 1024, f"{log} KB of log")


@attack("announced", "200 connections that announce 31 MB each and send 10 bytes, under ulimit -v 6 GB", quick=True)
def announced(stage):
    with stage.gateway(limits={resource.RLIMIT_AS: 6 << 30}) as gate:
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 32500000\r\n\r\n" + b"{" * 10
        socks = []
        for _ in range(200):
            with contextlib.suppress(OSError):
                socks.append(client.connect(gate.port, head))
        time.sleep(2)
        stage.note(f"{len(socks)} connections: RSS {gate.memory():.0f} MB, address space {gate.memory('VmSize'):.0f} MB")
        stage.must(gate.alive(), "the process was aborted")
        stage.must(gate.memory("VmSize") < 4_000, f"address space {gate.memory('VmSize'):.0f} MB: what is announced is allocated")
        for sock in socks:
            client.hang_up(sock)


@attack("bodies", "ten bodies of 31 MB at once, each for three foreign dialects")
def bodies(stage):
    config = stage.config(server={"memory": "1GiB"}).model("foreign", "anthropic", "gemini", "ollama")
    config.total = "30s"
    text = '{"model":"foreign","messages":[{"role":"user","content":"%s"}]}' % ("word " * 6_200_000)
    with stage.gateway(config, exit_max=15) as gate:
        before = gate.memory()
        answers = at_once(10, lambda _: timed(lambda: gate.ask("foreign", body=text, timeout=90)))
        peak = gate.memory("VmHWM")
        gate.settle()
        time.sleep(10)  # the gateway checks its free memory every 5 s
        after = gate.memory()
        counts = {}
        for _, answer in answers:
            counts[answer.status] = counts.get(answer.status, 0) + 1
        stage.note(f"{counts}, {max(seconds for seconds, _ in answers):.1f} s at most; RSS {before:.0f} MB before, {peak:.0f} MB at most, {after:.0f} MB after")
        stage.must(all(clean(answer) or answer.status == 503 for _, answer in answers), "an answer was cut")
        stage.must(after - before <= 128, f"{after - before:.0f} MB were kept afterwards")
        stage.must(peak - before <= 1_536, f"{peak - before:.0f} MB were in use, `memory` and half as much again")
        stage.must(peak <= 1_500, f"{peak:.0f} MB for ten bodies")


@attack("memory-limit", "ten bodies of 20 MB of schema where memory = 256 MiB, under ulimit -v 1.5 GB")
def memory_limit(stage):
    config = stage.config(server={"memory": "256MiB"}).model("foreign", "anthropic", "gemini", "ollama")
    config.total = "30s"
    text = schema_body("foreign", 20_000_000)
    with stage.gateway(config, limits={resource.RLIMIT_AS: 3 << 29}, exit_max=15, good_fails=True) as gate:
        answers = at_once(10, lambda _: gate.ask("foreign", body=text, timeout=60))
        counts = {}
        for answer in answers:
            counts[answer.status] = counts.get(answer.status, 0) + 1
        stage.note(f"ends: {counts}; address space {gate.memory('VmPeak'):.0f} MB at most")
        if stage.must(gate.alive(), "the process was aborted"):
            stage.must(gate.ask("good").is_good, "no answer afterwards")


@attack("dns-hangs", "600 requests to names that a silent name server is asked for; then others need a name", quick=True)
def dns_hangs(stage):
    if os.geteuid() != 0:
        stage.skip("only root may give the gateway a resolv.conf of its own")
    address = f"127.66.{os.getpid() % 200 + 20}.66"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silence:
        try:
            silence.bind((address, 53))
        except OSError as error:
            stage.skip(f"no silent name server: {error}")
        folder = stage.folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "resolv.conf").write_text(f"nameserver {address}\n")
        script = 'mount --bind "$1" /etc/resolv.conf || exit 9; shift; exec "$@"'
        wrap = ["unshare", "-m", "sh", "-c", script, "sh", str(folder / "resolv.conf")]
        hangs = "\n".join(f'[providers.hang{n}]\nbase_url = "http://hang{n}.example.com/v1"\napi_key = "k"\n' for n in range(8))
        named = f'[providers.named]\nbase_url = "http://localhost:{stage.scripted.ports["http"]}/later/v1"\napi_key = "k"\n'
        models = "".join(f'[models.hang{n}]\nupstreams = ["hang{n}/m"]\n' for n in range(8))
        models += '[models.named]\nupstreams = ["named/m"]\n[models.mixed]\nupstreams = ["hang0/m", "named/m"]\n'
        config = stage.config(extra=hangs + named + models)
        try:
            gateway = stage.gateway(config, wrap=wrap, exact=False, exit_max=6)
            with gateway as gate:
                with contextlib.ExitStack() as stack:
                    for number in range(600):
                        with contextlib.suppress(OSError):
                            stack.enter_context(client.connect(gate.port, client.request(f"hang{number % 8}")))
                    time.sleep(0.5)
                    seconds, answer = timed(lambda: gate.ask("named", timeout=30))
                    stage.must(answer.is_good and seconds < 3, f"a provider with a name that is known: {seconds:.1f} s, {answer}")
                    mixed_for, answer = timed(lambda: gate.ask("mixed", timeout=30))
                    stage.must(answer.is_good and mixed_for < 3, f"raced beside one that hangs: {mixed_for:.1f} s, {answer}")
                    asked_for, answer = timed(lambda: client.fetch(gate.port, "GET", "/api/stats", timeout=30))
                    stage.must(answer.status == 200 and asked_for < 3, f"/api/stats: {asked_for:.1f} s, {answer.status}")
                    stage.note(f"600 look-ups hang: a known name took {seconds:.2f} s, a race {mixed_for:.2f} s, /api/stats {asked_for:.2f} s; {gate.threads()} threads")
                    stage.must(gate.threads() < 200, f"{gate.threads()} threads")
        except RuntimeError as error:
            if "listen" in str(error) and "mount" in str(error):
                stage.skip("no mount namespace may be made here")
            raise


def frame(first, text, final=True):
    """A frame of a client, under a mask of zeros."""
    return bytes([(0x80 if final else 0) | first, 0xff]) + len(text).to_bytes(8, "big") + bytes(4) + text


def post(port, path, body):
    return client.fetch(port, "POST", path, body, {"content-type": "application/json"}, timeout=60)


def upgraded(port):
    """A WebSocket."""
    head = (b"GET /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n"
            b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
    sock = client.connect(port, head, timeout=10)
    sock.recv(4096)
    return sock


def pushed(sock, data):
    """Sends it as far as it is taken."""
    with contextlib.suppress(OSError):
        sock.sendall(data)
    return sock


def filled(before, one, after):
    """Makes a text of about a size: as many of `one` as it takes."""
    def make(size):
        count = (size - len(before) - len(after)) // (len(one) + 1)
        return before + b",".join([one] * count) + after
    return make


# What is small on the wire and large in memory, by path.
DOORS = {
    "members": ("/v1/chat/completions", filled(b'{"model":"good","messages":[{"role":"user","content":"x"}],', b'"":0', b"}")),
    "turns": ("/v1/chat/completions", filled(b'{"model":"foreign","messages":[', b"{}", b"]}")),
    "parts": ("/v1/chat/completions", filled(b'{"model":"foreign","messages":[{"role":"user","content":[', b'{"type":"text","text":""}', b"]}]}")),
    "tools": ("/v1/chat/completions", filled(b'{"model":"foreign","messages":[{"role":"user","content":"x"}],"tools":[',
                                                     b'{"type":"function","function":{"name":"a"}}', b"]}")),
    "numbers": ("/v1/chat/completions", filled(b'{"model":"foreign","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":'
                                                       b'{"name":"a","parameters":{"enum":[', b"1", b"]}}}]}")),
    "stops": ("/v1/chat/completions", filled(b'{"model":"foreign","messages":[{"role":"user","content":"x"}],"stop":[', b'""', b"]}")),
    "escapes": ("/v1/messages", lambda size: b'{"model":"good","max_tokens":9,"messages":[{"role":"user","content":"' + b"\\u0041" * (size // 6 - 20) + b'"}]}'),
    "blocks": ("/v1/messages", filled(b'{"model":"good","max_tokens":9,"messages":[{"role":"user","content":[', b'{"type":"text","text":"x"}', b"]}]}")),
    "items": ("/v1/responses", filled(b'{"model":"good","input":[', b'{"role":"user","content":"x"}', b"]}")),
    "references": ("/v1/responses", filled(b'{"model":"good","input":[', b'{"type":"item_reference","id":"x"}', b"]}")),
    "conversation": ("/v1/conversations", filled(b'{"items":[', b'{"role":"user","content":"x"}', b"]}")),
    "inputs": ("/v1/embeddings", filled(b'{"model":"good","input":[', b'""', b"]}")),
    "contents": ("/v1beta/models/good:generateContent", filled(b'{"contents":[', b'{"parts":[{"text":""}]}', b"]}")),
    "ollama": ("/api/chat", filled(b'{"model":"good","messages":[', b'{"role":"user","content":""}', b"]}")),
    "nested": ("/v1/chat/completions", lambda size: b"[" * size),
}
# Bytes of a body, and how many come at once.
DOORS_AT_ONCE = [(31 << 20, 12), (1 << 20, 40)]


@attack("doors", "the worst of each door, many at once, in a control group of 256 MB with memory by default")
def doors(stage):
    config = stage.config().model("foreign", "anthropic", "gemini", "ollama")
    config.total = "20s"
    with memory_group(256) as wrap, stage.gateway(config, wrap=wrap, probe=False, rows=False, exit_max=30) as gate:
        idle = gate.memory()
        large = b"{" * (31 << 20)
        for name, data in [("frames", [frame(1, large)]), ("garbage", [frame(1, b"x" * (1 << 20))] * 8), ("no end", [frame(1, large, final=False)])]:
            socks = at_once(36, lambda _, data=data: [pushed(sock := upgraded(gate.port), part) for part in data] and sock)
            peak = gate.memory("VmHWM")
            stage.note(f"{len(socks)} sockets, {name}: RSS {gate.memory():.0f} MB, at most {peak:.0f}; {gate.metric('photofinish_memory_used_bytes') / 1e6:.0f} MB counted")
            if not stage.must(gate.alive(), f"the process was ended by sockets ({name})"):
                return
            for sock in socks:
                client.hang_up(sock)
            gate.settle()
        for (name, (path, make)), (size, count) in itertools.product(DOORS.items(), DOORS_AT_ONCE):
            body = make(size)
            statuses = at_once(count, lambda _, path=path, body=body: post(gate.port, path, body).status)
            if not stage.must(gate.alive(), f"the process was ended by {count} times {size >> 10} KiB of {name}"):
                return
            stage.note(f"{count} times {size >> 10} KiB of {name}: {dict(collections.Counter(statuses))}; RSS {gate.memory():.0f} MB, at most {gate.memory('VmHWM'):.0f}")
        gate.settle()
        answer = gate.ask("good")
        stage.must(answer.is_good, f"afterwards: {answer}")
        stage.note(f"idle {idle:.0f} MB")

