"""A gateway that is replaced while clients ask: no request may be lost."""

import collections
import contextlib
import random
import select
import socket
import threading
import time

from attacks import attack
from harness import client, http2
from harness.gateway import Gateway

# New connections; kept connections; the same over HTTP/2.
CLIENTS = {"new": 7, "kept": 7, "h2": 6}
# One after the other: the service manager keeps the socket while no gateway runs. Beside: the new gateway first.
WAYS = ["activated, one after the other", "activated, beside", "taken over"]
ROUNDS = 6
# Longer than an answer takes on a busy machine.
DRAIN_S = 20
# A pause between two requests is shorter than the time for which a gateway that stops waits for the next one.
PAUSE_MAX_S = 0.2


class Lost(Exception):
    """A request was sent and has no whole answer."""


def checked(model, status, text, ends):
    done = model == "good" or "[DONE]" in text
    if status != 200 or client.GOOD not in text or not ends or not done:
        raise Lost(f"{model}: status {status}, {'whole' if ends else 'cut'}: {text[-200:]!r}")


class Http1:
    """Sends requests over one connection after the other, or over one as long as the gateway keeps it."""

    def __init__(self, port, keeps):
        self.port, self.keeps, self.sock = port, keeps, None

    def ask(self, model):
        if self.sock and is_closed(self.sock):
            self.close()
        self.sock = self.sock or client.connect(self.port, timeout=60)
        keeps = "" if self.keeps else "connection: close\r\n"
        self.sock.sendall(client.request(model, stream=model != "good").replace(b"content-type", keeps.encode() + b"content-type", 1))
        head, _, body = self.read(b"", lambda data: b"\r\n\r\n" in data).partition(b"\r\n\r\n")
        lines = head.decode("latin-1").lower().split("\r\n")
        status = client.statuses(head + b"\r\n")[0]
        length = next((int(line.split(":")[1]) for line in lines if line.startswith("content-length:")), None)
        is_whole = (lambda data: len(data) >= length) if length is not None else (lambda data: data.endswith(b"0\r\n\r\n"))
        body = self.read(body, is_whole)
        if "connection: close" in lines:
            self.close()
        checked(model, status, body.decode(errors="replace"), is_whole(body))

    def read(self, data, is_whole):
        while not is_whole(data):
            part = self.sock.recv(65_536)
            if not part:
                raise Lost(f"closed after {data[-100:]!r}")
            data += part
        return data

    def close(self):
        if self.sock:
            self.sock.close()
            self.sock = None


class Http2:
    """Sends requests over one connection until a GOAWAY."""

    def __init__(self, port):
        self.port, self.sock = port, None

    def open(self):
        self.sock = client.connect(self.port, http2.PREFACE + http2.settings() + http2.window(0, 1 << 24), timeout=60)
        self.data, self.stream, self.last = b"", -1, None

    def ask(self, model):
        while self.sock and select.select([self.sock], [], [], 0)[0]:
            # As clients do that read all the time: what the gateway said meanwhile is known.
            try:
                self.frames(once=True)
            except (Lost, OSError):
                self.close()
            if self.sock and self.last is not None:
                self.close()
        if not self.sock:
            self.open()
        self.stream += 2
        body = client.request(model, stream=model != "good").split(b"\r\n\r\n", 1)[1]
        self.sock.sendall(http2.request(self.stream, "127.0.0.1", "/v1/chat/completions", "POST", [("content-type", "application/json")], body))
        status, text, ends = 0, b"", False
        while not ends:
            for kind, flags, stream, payload in self.frames():
                if stream != self.stream:
                    continue
                if kind == http2.RST_STREAM:
                    raise Lost(f"{model}: reset after {text[-100:]!r}")
                if kind == http2.HEADERS and not status:
                    status = 200 if payload[:1] == b"\x88" else 1
                if kind == http2.DATA:
                    text += payload
                ends = ends or kind in (http2.HEADERS, http2.DATA) and bool(flags & http2.END_STREAM)
            if self.last is not None and self.stream > self.last and not ends:
                # The protocol says that it was not worked on: clients send it again.
                self.close()
                return self.ask(model)
        checked(model, status, text.decode(errors="replace"), ends)
        return None

    def frames(self, once=False):
        """The frames of the next read, or of the next that has some."""
        found = []
        while not found:
            part = self.sock.recv(65_536)
            if not part:
                raise Lost(f"closed during stream {self.stream}")
            self.data += part
            while len(self.data) >= 9 and len(self.data) >= 9 + (size := int.from_bytes(self.data[:3], "big")):
                kind, flags, stream, payload = self.data[3], self.data[4], int.from_bytes(self.data[5:9], "big"), self.data[9:9 + size]
                self.data = self.data[9 + size:]
                found.append((kind, flags, stream, payload))
                if kind == http2.GOAWAY:
                    self.last = int.from_bytes(payload[:4], "big") & 0x7FFFFFFF
                # The gateway may have closed the connection after the last answer, which is among the frames.
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    self.sock.sendall(reaction(kind, flags, stream, payload))
            if once:
                break
        return found

    def close(self):
        if self.sock:
            self.sock.close()
            self.sock = None


def reaction(kind, flags, stream, payload):
    """What a client sends when it gets this frame."""
    if kind == http2.PING and not flags & http2.ACK:
        return http2.frame(http2.PING, http2.ACK, 0, payload)
    if kind == http2.SETTINGS and not flags & http2.ACK:
        return http2.frame(http2.SETTINGS, http2.ACK)
    if kind == http2.DATA and payload:
        return http2.window(0, len(payload)) + (b"" if flags & http2.END_STREAM else http2.window(stream, len(payload)))
    return b""


def is_closed(sock):
    """As every pool of connections checks before it uses one again."""
    if not select.select([sock], [], [], 0)[0]:
        return False
    try:
        return not sock.recv(1, socket.MSG_PEEK)
    except OSError:
        return True


class Load:
    """Clients that ask one request after the other until told to stop."""

    def __init__(self, port):
        self.over, self.lock = threading.Event(), threading.Lock()
        self.answers, self.lost = collections.Counter(), []
        makes = {"new": lambda: Http1(port, False), "kept": lambda: Http1(port, True), "h2": lambda: Http2(port)}
        self.threads = [threading.Thread(target=self.run, args=(kind, makes[kind](), random.Random(number)), daemon=True)
                        for kind, count in CLIENTS.items() for number in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self, kind, asker, pick):
        while not self.over.is_set():
            model = "slow" if pick.random() < 0.3 else "good"
            try:
                asker.ask(model)
                with self.lock:
                    self.answers[kind] += 1
            except (Lost, OSError, IndexError) as error:
                with self.lock:
                    self.lost.append(f"{time.monotonic():.2f} {kind}: {type(error).__name__} {error}")
                asker.close()
            self.over.wait(pick.random() * PAUSE_MAX_S)
        asker.close()

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join(60)


class Succession:
    """One gateway after the other in one folder, on one port."""

    def __init__(self, stage, way):
        self.stage, self.way, self.number, self.exits = stage, way, 0, []
        self.config = stage.config().model("slow", "slow").text().replace('drain = "2s"', f'drain = "{DRAIN_S}s"')
        self.socket = None
        if way.startswith("activated"):
            self.socket = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.gate = self.start()

    def start(self):
        self.number += 1
        options = ["--take-over"] if self.number > 1 and not self.socket else []
        folder = self.stage.folder / self.way.replace(" ", "-").replace(",", "")
        gate = Gateway(self.stage.binary, folder, self.config, self.stage.scripted, options=options, passed=self.socket, log=f"{self.number}.log")
        self.config = self.config.replace('listen = "127.0.0.1:0"', f'listen = "127.0.0.1:{gate.port}"')
        return gate

    def replace(self):
        if self.way.endswith("other"):
            self.stop()
            self.gate = self.start()
        else:
            new = self.start()
            self.stop()
            self.gate = new

    def stop(self):
        code, seconds = self.gate.stop()
        self.exits.append(seconds)
        self.stage.must(code == 0, f"{self.way}: exit code {code}: {self.gate.text()[-300:]}")
        log = self.gate.text()
        self.stage.must("panicked" not in log and "the drain ran out" not in log, f"{self.way}: in the log: {log[-500:]}")

    def end(self):
        if self.gate.alive():
            self.gate.process.kill()
            self.gate.process.wait()
        if self.socket:
            self.socket.close()


@attack("restart-under-load", "20 clients while the gateway is replaced again and again, under a service manager and by --take-over")
def restart_under_load(stage):
    for way in WAYS:
        succession = Succession(stage, way)
        try:
            load = Load(succession.gate.port)
            for _ in range(2 if stage.quick else ROUNDS):
                time.sleep(0.7)
                succession.replace()
            time.sleep(0.7)
            load.stop()
            succession.stop()
            look(stage, succession, load)
        finally:
            succession.end()


def look(stage, succession, load):
    way, rows = succession.way, succession.gate.rows
    answers = sum(load.answers.values())
    stage.note(f"{way}: {len(succession.exits)} stops, {dict(load.answers)} answers, {len(load.lost)} lost; a stop took {max(succession.exits):.2f} s at most")
    stage.must(not load.lost, f"{way}: {len(load.lost)} requests were lost, such as: {'; '.join(load.lost[:5])}")
    stage.must(all(load.answers[kind] > 20 for kind in CLIENTS), f"{way}: too few answers to say anything: {dict(load.answers)}")
    # Both gateways write into one database.
    won = rows("SELECT count(*) FROM attempt WHERE outcome = 'won'")[0][0]
    others = rows("SELECT outcome, count(*) FROM race WHERE outcome <> 'ok' GROUP BY 1")
    stage.must(won == answers and not others, f"{way}: {won} rows for {answers} answers; other races: {others}")
    stage.must(rows("PRAGMA integrity_check")[0][0] == "ok", f"{way}: integrity_check")
    stage.figure("rows", won, lambda a, b: a + b)
    stage.figure("exit_s", round(max(succession.exits), 1))
    with contextlib.suppress(OSError):
        stage.must(not (succession.gate.folder / "history.db.spill").stat(), f"{way}: rows are left in the spill file")
