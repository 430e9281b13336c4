"""Clients against the listener: floods, idle connections, missing bodies, invalid heads."""

import collections
import contextlib
import re
import resource
import selectors
import ssl
import subprocess
import time

from attacks import attack
from harness import client, http2
from harness.gateway import Gateway
from harness.many import at_once, timed, until


def opened(port, data, source=None):
    """An HTTP/2 connection that has sent its preface and this data."""
    return client.connect(port, http2.PREFACE + http2.settings() + data, source=source, timeout=3)


def pour(sock, data, most, seconds):
    """Sends the data repeatedly; returns the number of bytes before the other side closed."""
    sent, end = 0, time.monotonic() + seconds
    sock.setblocking(False)
    while sent < most and time.monotonic() < end:
        try:
            sent += sock.send(memoryview(data)[sent % len(data):])
        except BlockingIOError:
            time.sleep(0.001)
        except OSError:
            break
        try:
            if not sock.recv(1 << 20):
                break
        except BlockingIOError:
            pass
        except OSError:
            break
    return sent


def resets(first, count):
    """Requests, each of which is cancelled at once."""
    return b"".join(http2.request(first + 2 * number, "127.0.0.1") + http2.frame(http2.RST_STREAM, 0, first + 2 * number, b"\0\0\0\x08")
                    for number in range(count))


@attack("h2-floods", "PING, SETTINGS, rapid reset, CONTINUATION, empty frames, window overflow and priority floods over HTTP/2", quick=True)
def h2_floods(stage):
    open_head = http2.frame(http2.HEADERS, 0, 1, http2.block([(":method", "GET")]))
    floods = {
        "ping": (b"", http2.frame(http2.PING, 0, 0, b"12345678") * 1000),
        "settings": (b"", http2.settings(window=100_000) * 1000),
        "continuation": (open_head, http2.frame(http2.CONTINUATION, 0, 1, http2.literal("a", "b" * 1000)) * 30),
        "empty-data": (http2.frame(http2.HEADERS, http2.END_HEADERS, 1, http2.block([(":method", "POST"), (":scheme", "http"), (":authority", "127.0.0.1"),
                       (":path", "/v1/chat/completions")])), http2.frame(http2.DATA, 0, 1) * 1000),
        "priority": (b"", http2.frame(http2.PRIORITY, 0, 3, b"\0\0\0\0\1") * 1000),
        "window": (b"", http2.window(0, 0x7FFFFFFF) * 10),
        "unknown": (b"", http2.frame(0xEE, 0, 0, b"x" * 100) * 1000),
    }
    with stage.gateway() as gate:
        for name, (opening, data) in floods.items():
            cpu = gate.cpu()
            with contextlib.suppress(OSError), opened(gate.port, opening) as sock:
                sent = pour(sock, data, 20_000_000, 1.0)
                stage.note(f"{name}: {sent / 1e6:.1f} MB, {gate.cpu() - cpu:.2f} s of CPU")
        cpu, sent = gate.cpu(), 0
        with contextlib.suppress(OSError), opened(gate.port, b"") as sock:
            sock.settimeout(1)
            for at in range(0, 20_000, 200):
                sock.sendall(resets(1 + 2 * at, 200))
                sent += 200
                sock.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    if not sock.recv(1 << 20):
                        break
                sock.setblocking(True)
                sock.settimeout(1)
        stage.note(f"rapid reset: {sent} requests, {gate.cpu() - cpu:.2f} s of CPU")
        stage.must(gate.memory() < 300, f"RSS {gate.memory():.0f} MB after the floods")


@attack("h2-zero-window", "200 requests over HTTP/2 whose windows stay shut")
def h2_zero_window(stage):
    config = stage.config().model("long", "long")
    body = client.request("long").split(b"\r\n\r\n", 1)[1]
    with stage.gateway(config) as gate:
        head = [("content-type", "application/json")]
        asked = b"".join(http2.request(1 + 2 * number, "127.0.0.1", "/v1/chat/completions", "POST", head, body) for number in range(50))
        socks = [client.connect(gate.port, http2.PREFACE + http2.settings(window=0) + asked) for _ in range(4)]
        time.sleep(1.5)
        stage.note(f"RSS {gate.memory():.0f} MB with 200 answers that nobody takes")
        for sock in socks:
            client.hang_up(sock)


# What `memory = "64MiB"` lets clients hold is 16 MiB; its account is right within a factor of two, and what is being closed
# is held a moment longer. So the process may grow by this many MB, whatever is sent.
HELD_MAX = 64
SMALL = {"memory": "64MiB"}


def sent_until(seconds, most, begin, port, held):
    """Opens connections with `begin(number)` until `most` bytes were sent; returns the bytes and the connections."""
    sent, count, end = 0, 0, time.monotonic() + seconds
    while sent < most and time.monotonic() < end:
        try:
            data = begin(count)
            held.append(client.connect(port, data, timeout=2))
            sent, count = sent + len(data), count + 1
        except OSError:
            time.sleep(0.01)  # it takes no more at the moment
        for sock in held[:-300]:
            sock.close()
        del held[:-300]
    return sent, count


@attack("h2-window-zero-gets", "10 MB of GETs of 13 bytes over HTTP/2, 1,000 a connection, whose windows stay shut or open by one byte, where memory = 64 MiB", quick=True)
def h2_window_zero_gets(stage):
    with stage.gateway(stage.config(server=SMALL)) as gate:
        before, held = gate.memory(), []
        for window in (0, 1):
            gets = http2.gets(1, 1_000)
            sent, count = sent_until(20, 5_000_000, lambda _: http2.PREFACE + http2.settings(window=window) + gets, gate.port, held)
            time.sleep(1.5)  # most of it is read only now
            stage.note(f"windows of {window}: {sent / 1e6:.1f} MB over {count} connections; RSS {gate.memory():.0f} MB; "
                       f"memory_clients_bytes {gate.metric('photofinish_memory_clients_bytes') / 1e6:.1f} MB")
            stage.must(sent >= 5_000_000, f"only {sent / 1e6:.1f} MB could be sent")
        grown = gate.memory("VmHWM") - before
        stage.note(f"RSS + {grown:.0f} MB at most")
        stage.must(grown <= HELD_MAX, f"{grown:.0f} MB more for answers that nobody takes")
        for sock in held:
            client.hang_up(sock)
        freed = until(10, lambda: gate.metric("photofinish_memory_clients_bytes") < 1e6)
        stage.must(freed, f"{gate.metric('photofinish_memory_clients_bytes') / 1e6:.1f} MB are counted after all have left")


# Heads of HTTP/2 that are dear to hold: 400 headers of a byte each, by the table; and a long one.
DEAR_HEADS = {"400 headers": (b"\x40\x01a\x01b" + b"\xbe" * 399, b"\xbe" * 400), "12 KB": (b"\0\x01a" + http2.integer(12_000, 7) + b"b" * 12_000,) * 2}


def posts(count, first, further):
    """POSTs whose bodies do not come. `first`: the headers of the first one, which fills the table of the others."""
    pseudo = b"\x83\x86\x01\x09127.0.0.1\x04\x14/v1/chat/completions"
    return b"".join(http2.frame(http2.HEADERS, http2.END_HEADERS, 1 + 2 * number, pseudo + (further if number else first)) for number in range(count))


@attack("h2-waiting-posts", "POSTs over HTTP/2 whose bodies do not come, with 400 headers or 12 KB of them, 100 a connection, where memory = 64 MiB", quick=True)
def h2_waiting_posts(stage):
    with stage.gateway(stage.config(server=SMALL)) as gate:
        before, held = gate.memory(), []
        for name, headers in DEAR_HEADS.items():
            data = http2.PREFACE + http2.settings(window=0) + posts(100, *headers)
            sent, count = sent_until(20, min(384 * len(data), 60_000_000), lambda _: data, gate.port, held)
            time.sleep(1.5)
            stage.note(f"{name}: {sent / 1e6:.1f} MB over {count} connections; RSS {gate.memory():.0f} MB; "
                       f"memory_clients_bytes {gate.metric('photofinish_memory_clients_bytes') / 1e6:.1f} MB")
        grown = gate.memory("VmHWM") - before
        stage.note(f"RSS + {grown:.0f} MB at most")
        stage.must(grown <= HELD_MAX, f"{grown:.0f} MB more for requests whose bodies do not come")
        for sock in held:
            client.hang_up(sock)
        freed = until(10, lambda: gate.metric("photofinish_memory_clients_bytes") < 1e6)
        stage.must(freed, f"{gate.metric('photofinish_memory_clients_bytes') / 1e6:.1f} MB are counted after all have left")


@attack("handshakes", "20,000 TLS handshakes that are not finished, and 3,000 that are, where memory = 64 MiB")
def handshakes(stage):
    if not stage.scripted.certificate:
        stage.skip("openssl is not there, so the gateway has no certificate")
    certificate = str(stage.scripted.certificate)
    config = stage.config(server=SMALL)
    config.server += f'\ntls = {{ cert = "{certificate}", key = "{certificate}" }}'
    gate = Gateway(stage.binary, stage.folder / "gateway", config, stage.scripted)
    try:
        secure = ssl._create_unverified_context()
        before, held, waits = gate.memory(), [], []
        # Records of a handshake whose message is never whole.
        beginnings = [b"", b"\x16\x03\x01", b"\x16\x03\x01\x40\x00\x01\x00\xff\xf0" + b"x" * 16_000]
        for number in range(20_000):
            with contextlib.suppress(OSError):
                held.append(client.connect(gate.port, beginnings[number % 3], timeout=2))
            if number % 1_000 == 999:
                waits.append(timed(lambda: over_tls(gate.port, secure)))
                for sock in held[:-4_000]:
                    sock.close()
                del held[:-4_000]
        half = gate.memory("VmHWM") - before
        for sock in held:
            client.hang_up(sock)
        held = []
        for number in range(3_000):
            with contextlib.suppress(OSError):
                held.append(secure.wrap_socket(client.connect(gate.port, timeout=5), server_hostname="localhost"))
            if number % 500 == 499:
                waits.append(timed(lambda: over_tls(gate.port, secure)))
        whole = gate.memory("VmHWM") - before
        stage.note(f"RSS + {half:.0f} MB with handshakes that are not finished, + {whole:.0f} MB in all; another address waited {max(seconds for seconds, _ in waits):.2f} s at most")
        stage.must(whole <= HELD_MAX, f"{whole:.0f} MB more for handshakes")
        stage.must(all(answer == b"HTTP/1.1 200" for _, answer in waits), f"/healthz from another address: {waits}")
        stage.figure("rss_peak_mb", round(gate.memory("VmHWM")))
        stage.figure("cpu_s", round(gate.cpu(), 2))
        for sock in held:
            client.hang_up(sock)
        stage.end(gate, 10)
    finally:
        if gate.alive():
            gate.process.kill()
            gate.process.wait()


def over_tls(port, secure):
    """How the answer to /healthz begins for another address."""
    try:
        with secure.wrap_socket(client.connect(port, timeout=10, source="127.0.0.7"), server_hostname="localhost") as sock:
            sock.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            return sock.recv(12)
    except OSError as error:
        return repr(error)


@attack("idle-h2", "3,000 HTTP/2 connections of one host, which only acknowledge PINGs, under ulimit -n 2048", quick=True)
def idle_h2(stage):
    with stage.gateway(exact=False, limits={resource.RLIMIT_NOFILE: 2048}) as gate:
        begun = time.monotonic()
        socks = [sock for part in at_once(4, lambda _: idle(gate.port, 750, begun + 10)) for sock in part]
        opened_in = time.monotonic() - begun
        cut = linger_acknowledging(socks, 3.0)
        seconds, answer = timed(lambda: gate_answers(gate.port))
        stage.note(f"{len(socks)} connections in {opened_in:.1f} s, {cut} were cut; another address then had /healthz after {seconds:.2f} s; RSS {gate.memory():.0f} MB")
        stage.must(answer.status == 200, f"/healthz from another address: {answer}")
        for sock in socks:
            client.hang_up(sock)


def gate_answers(port):
    return client.fetch(port, "GET", "/healthz", timeout=10, source="127.0.0.7")


def idle(port, count, end):
    """Opens up to `count` HTTP/2 connections, until the other side accepts no more."""
    socks = []
    while len(socks) < count and time.monotonic() < end:
        try:
            socks.append(opened(port, b""))
            socks[-1].setblocking(False)
        except OSError:
            break
    return socks


def linger_acknowledging(socks, seconds):
    """Answers PINGs and SETTINGS; returns the number of connections that the other side closed."""
    with selectors.DefaultSelector() as selector:
        for sock in socks:
            selector.register(sock, selectors.EVENT_READ)
        cut, end = 0, time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            for key, _ in selector.select(min(left, 0.5)):
                try:
                    data = key.fileobj.recv(4096)
                    if not data:
                        raise ConnectionError
                    key.fileobj.send(http2.frame(http2.SETTINGS, http2.ACK))
                except BlockingIOError:
                    continue
                except OSError:
                    cut += 1
                    selector.unregister(key.fileobj)
        return cut


HEADS = {
    "no Host": (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
    "two Hosts": (b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nhost: localhost\r\n\r\n", 400),
    "two lengths": (b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 2\r\ncontent-length: 30\r\n\r\n{}", 400),
    "a length that is no number": (b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: +2\r\n\r\n{}", 400),
    "a space before the colon": (b"GET /healthz HTTP/1.1\r\nhost : 127.0.0.1\r\n\r\n", 400),
    "a NUL": (b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx: a\0b\r\n\r\n", 400),
    "a bare CR": (b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx: a\rb\r\n\r\n", 400),
    "bare line feeds": (b"GET /healthz HTTP/1.1\nhost: 127.0.0.1\n\n", 400),
    "one bare line feed": (b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx: y\ncontent-length: 3\r\n\r\nabc", 400),
    "a folded header": (b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx: y\r\n z\r\n\r\n", 400),
    "10,000 headers": (b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n" + b"x: y\r\n" * 10_000 + b"\r\n", 431),
    "a header of 2 MB": (b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx: " + b"y" * 2_000_000 + b"\r\n\r\n", 431),
    "a path of 200 KB": (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", 431),
}
for coding in ["gzip, chunked", "chunked, chunked", "Chunked;x=y", "gzip", "chunked\r\ntransfer-encoding: chunked", "chunked\r\ncontent-length: 5"]:
    HEADS[f"transfer-encoding: {coding}"] = (f"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: {coding}\r\n\r\n0\r\n\r\n".encode(), 400)
HEADS["transfer-encoding with HTTP/1.0"] = (b"GET /healthz HTTP/1.0\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400)
SMUGGLED = b"GET /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
SMUGGLING = {
    "CL.TE": b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n%s"
             % (5 + len(SMUGGLED), SMUGGLED),
    "odd TE": b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: xchunked\r\ncontent-length: 0\r\n\r\n" + SMUGGLED,
    "LF.CL": b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nx: y\ncontent-length: 0\r\ncontent-length: %d\r\n\r\n%s" % (len(SMUGGLED), SMUGGLED),
    "TE.TE": b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "chunk extension": b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n2;a\n=b\r\n{}\r\n0\r\n\r\n",
}


@attack("heads", "heads of HTTP/1.1 that are too large, ambiguous or meant to smuggle a second request", quick=True)
def heads(stage):
    with stage.gateway() as gate:
        for name, (data, expected) in HEADS.items():
            got = client.statuses(client.raw(gate.port, data, timeout=2))
            # A reset before the answer is read is a refusal too, if more was sent than the gateway reads.
            stage.must(got == [expected] or not got and len(data) > 60_000, f"{name}: {got}, where {expected} is right")
        for name, data in SMUGGLING.items():
            got = client.raw(gate.port, data, timeout=2)
            stage.must(b'"object":"list"' not in got, f"{name}: a smuggled request was answered: {client.statuses(got)}")
        counts = at_once(40, lambda _: len(client.raw(gate.port, HEADS["10,000 headers"][0], timeout=2)))
        stage.note(f"{len(HEADS)} heads, {len(SMUGGLING)} ways to smuggle, then {len(counts)} floods of headers at once")


# Heads that do not end: none, a short and a long one, and one of HTTP/2 whose headers each take a byte.
HALF_HEADS = [b"", b"GET /healthz HTTP/1.1\r\nhost: 1", b"GET /healthz HTTP/1.1\r\nhost: 1\r\nx: " + b"y" * 60_000,
              http2.PREFACE + http2.settings() + http2.frame(http2.HEADERS, 0, 1, b"\x82\x86\x84\x41\x011" + b"\x40\x01a\x01b" + b"\xbe" * 400)]


@attack("half-heads", "6,000 connections that send nothing, or heads that do not end, where memory = 64 MiB", quick=True)
def half_heads(stage):
    with stage.gateway(stage.config(server=SMALL)) as gate:
        before, socks = gate.memory(), []
        for number in range(6_000):
            with contextlib.suppress(OSError):
                socks.append(client.connect(gate.port, HALF_HEADS[number % len(HALF_HEADS)], timeout=3))
        time.sleep(1.5)
        grown = gate.memory("VmHWM") - before
        stage.note(f"{len(socks)} connections, RSS + {grown:.0f} MB at most")
        stage.must(grown <= HELD_MAX, f"{grown:.0f} MB more for heads that do not end")
        for sock in socks:
            client.hang_up(sock)


@attack("stalled-clients", "1,000 clients that read nothing of answers of 1.5 MiB")
def stalled_clients(stage):
    config = stage.config().model("long", "longer")
    with stage.gateway(config) as gate:
        before = gate.memory()
        socks = []
        for _ in range(1_000):
            with contextlib.suppress(OSError):
                socks.append(client.connect(gate.port, client.request("long"), receive=4096, timeout=3))
        until(10, lambda: gate.ready().get("races_running", 0) >= len(socks) * 0.95)
        time.sleep(2)
        grown = gate.memory() - before
        stage.note(f"{len(socks)} stalled clients, {gate.ready().get('races_running')} races run, RSS + {grown:.0f} MB ({grown * 1024 / max(len(socks), 1):.0f} KB each)")
        # 64 KiB each that its client does not take, 64 KiB behind them, and a read buffer of 64 KiB: all of it where much comes at once.
        stage.must(grown <= 220, f"{grown:.0f} MB for {len(socks)} stalled clients")
        for sock in socks:
            client.hang_up(sock)
        stage.must(until(10, lambda: gate.ready().get("races_running", 0) <= 2), "races run on after their clients left")


@attack("slow-bodies", "40 bodies of which one byte comes every second")
def slow_bodies(stage):
    with stage.gateway() as gate:
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n{"
        socks, ended, begun = [client.connect(gate.port, head) for _ in range(40)], {}, time.monotonic()
        while len(ended) < len(socks) and time.monotonic() - begun < 45:
            for number, sock in enumerate(socks):
                if number in ended:
                    continue
                try:
                    sock.send(b" ")
                    sock.setblocking(False)
                    ended[number] = (time.monotonic() - begun, sock.recv(4096)[:12])
                except BlockingIOError:
                    pass
                except OSError:
                    ended[number] = (time.monotonic() - begun, b"")
            time.sleep(1)
        last = max((seconds for seconds, _ in ended.values()), default=0)
        stage.note(f"{len(ended)} of {len(socks)} were ended, after {last:.0f} s at most: {set(data for _, data in ended.values())}")
        stage.must(len(ended) == len(socks), f"{len(socks) - len(ended)} bodies of a byte a second are still waited for after 45 s")
        for sock in socks:
            client.hang_up(sock)


@attack("leaving", "2,000 clients that leave at every stage of a request", quick=True)
def leaving(stage):
    config = stage.config().model("slow", "slow", "never")
    with stage.gateway(config) as gate:
        data = client.request("slow")

        def leave(number):
            try:
                with client.connect(gate.port, data[:len(data) if number % 4 else number % len(data)]) as sock:
                    if number % 4 == 2:
                        sock.recv(200)
                    if number % 4 == 3:
                        time.sleep(0.02)
                    client.hang_up(sock)
            except OSError:
                pass
        at_once(800 if stage.quick else 2_000, leave, workers=32)
        stage.must(until(10, lambda: gate.ready().get("races_running", 0) <= 2), f"{gate.ready().get('races_running')} races run on")


# Admitted clients, and clients that arrive once all admitted ones have their first token. `CROWD_ANSWER`: each admitted
# client gets 200 events within four seconds.
CROWD_INSIDE, CROWD_OUTSIDE = 1_000, 8_000
CROWD_ANSWER = ["--ttft", "200ms", "--jitter", "0", "--tokens", "200", "--tokens-per-second", "50"]


@attack("crowd", "8,000 clients at once while 1,000 are served, all that one address may have; these keep their pace, the others are told at once")
def crowd(stage):
    with simulated(stage, CROWD_ANSWER) as port:
        extra = f'[providers.simulated]\nbase_url = "http://127.0.0.1:{port}/v1"\n[models.crowd]\nupstreams = ["simulated/m"]'
        # One address gets all but an eighth; the probe asks from another one.
        config = stage.config(server={"max_in_flight": CROWD_INSIDE * 8 // 7 + 8}, extra=extra)
        config.connect = "5s"  # a slow machine is not the point
        with stage.gateway(config, good_fails=True) as gate:
            crowd_of(gate.port, "crowd", CROWD_INSIDE)  # opens the connections and touches the processes' memory
            alone = crowd_of(gate.port, "crowd", CROWD_INSIDE)
            ends = crowd_of(gate.port, "crowd", CROWD_INSIDE, CROWD_OUTSIDE)
    inside, outside = [end for end in ends if not end.later], [end for end in ends if end.later]
    stage.note(f"{CROWD_INSIDE} inside without a crowd: {times(alone)}; with it: {times(inside)}")
    refused = sorted(end.whole for end in outside if end.status == 503)
    stage.note(f"{len(outside)} at once from outside: {collections.Counter(end.status for end in outside)}, refused after "
               f"{at(refused, 0.5) * 1000:.0f} ms in the middle, {at(refused, 0.99) * 1000:.0f} ms at p99")
    stage.must({end.status for end in inside} == {200}, f"of those inside: {collections.Counter(end.status for end in inside)}")
    stage.must({end.status for end in outside} <= {200, 503}, f"of those outside: {collections.Counter(end.status for end in outside)}")


@contextlib.contextmanager
def simulated(stage, options):
    """Runs a simulated provider in a separate process, because no script is as fast as the gateway; yields its port."""
    command = [str(stage.binary), "simulate", "--listen", "127.0.0.1:0", *options]
    stage.folder.mkdir(parents=True, exist_ok=True)
    said = stage.folder / "simulated.log"
    with open(said, "wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        until(10, lambda: "base_url=" in said.read_text())
        port = int(re.search(r"base_url=http://127\.0\.0\.1:(\d+)", said.read_text())[1])
        stage.scripted.ports["simulated"] = port
        yield port
    finally:
        stage.scripted.ports.pop("simulated", None)
        process.terminate()
        process.wait(10)


def at(ordered, share):
    return ordered[int(len(ordered) * share)] if ordered else 0


def times(ends):
    figures = [sorted(getattr(end, name) for end in ends) for name in ("first", "gap", "whole")]
    told = [f"{at(figure, 0.5) * 1000:.0f} and {at(figure, 0.99) * 1000:.0f} ms" for figure in figures]
    return f"p50 and p99 of the first byte {told[0]}, of the longest gap {told[1]}, of the whole {told[2]}"


class End:
    """One request of a crowd; times are seconds since it was sent."""

    def __init__(self, sock, later):
        self.sock, self.later, self.data, self.status = sock, later, b"", 0
        self.sent = self.read = time.monotonic()
        self.first = self.gap = self.whole = 0.0

    def take(self, part):
        """Whether it has ended."""
        now, self.data = time.monotonic(), self.data + part
        if self.first:
            self.gap = max(self.gap, now - self.read)
        self.read, self.first, self.whole = now, self.first or now - self.sent, now - self.sent
        head = self.data.startswith(b"HTTP/1.1 200")
        is_whole = self.data.endswith(b"\r\n0\r\n\r\n") if head else b"\r\n\r\n" in self.data
        if is_whole:
            self.status = client.statuses(self.data)[0]
        return is_whole or not part


def crowd_of(port, model, count, later=0, early=False):
    """Opens all connections, then sends `count` requests at once, and `later` more when the first answers have begun.
    `early`: each request is sent as soon as its connection is open."""
    data, ends = client.request(model), []
    socks = [client.connect(port, data if early else b"", timeout=10) for _ in range(count + later)]
    with selectors.DefaultSelector() as selector:
        def send(few, is_later):
            for sock in few:
                sock.setblocking(False)
                if not early:
                    sock.send(data)
                ends.append(End(sock, is_later))
                selector.register(sock, selectors.EVENT_READ, ends[-1])

        send(socks[:count], False)
        waiting, deadline = socks[count:], time.monotonic() + 30
        while selector.get_map() and time.monotonic() < deadline:
            if waiting and all(end.first for end in ends):
                send(waiting, True)
                waiting = []
            for key, _ in selector.select(0.5):
                try:
                    part = key.fileobj.recv(65_536)
                except OSError:
                    part = b""
                if key.data.take(part):
                    selector.unregister(key.fileobj)
    for sock in socks:
        sock.close()
    return ends
