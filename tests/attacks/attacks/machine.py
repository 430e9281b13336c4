"""The machine's limits: descriptors, memory, and a name server that does not answer."""

import collections
import contextlib
import os
import resource
import socket
import time

from attacks import attack
from attacks.answers import clean, schema_body
from attacks.clients import crowd_of
from harness import client
from harness.many import at_once, timed


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
