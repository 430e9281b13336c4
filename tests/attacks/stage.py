"""The environment of an attack: the scripted provider, a separate gateway with a probe, and their measurements.

All processes listen on loopback at a free port, write into a temporary folder, and are ended by process id.
"""

import contextlib
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import threading
import time

import providers
from harness.gateway import Gateway, certificate

HERE = pathlib.Path(__file__).resolve().parent
KEY = "sk-attacked-{}-0123456789abcdef"

# The maximum wait for `/healthz` during an attack. The gateway's own bound is far lower; this one is for a shared
# machine, where the attacker, the provider and the gateway share two cores.
HEALTHZ_MAX_MS = 2_000
EXIT_MAX_S = 10.0
DRAIN_S = 2


class Providers:
    """The scripted provider's process."""

    def __init__(self, folder):
        self.certificate = certificate(folder)
        command = [sys.executable, str(HERE / "server.py")] + ([str(self.certificate)] if self.certificate else [])
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ports = json.loads(self.process.stdout.readline())
        self.lock = threading.Lock()

    def counts(self):
        with self.lock:
            self.process.stdin.write("counts\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())

    def has(self, kind):
        return kind.level == "http" or kind.name in self.ports

    def base_url(self, name):
        kind = providers.KINDS[name]
        if kind.level == "http":
            return f"http://127.0.0.1:{self.ports['http']}/{name}/v1"
        scheme = "http" if kind.level == "tcp" else "https"
        host = "localhost" if kind.level == "h2" else "127.0.0.1"
        return f"{scheme}://{host}:{self.ports[name]}/{name}/v1"

    def stop(self):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()


def quoted(value):
    return json.dumps(value)


class Config:
    """A config of scripted providers. `model(name, kinds…)` races them; each kind becomes a provider of the same name.
    """

    def __init__(self, scripted, server="", store="", race="", breaker='{ failures = 0 }', extra=""):
        self.scripted, self.server, self.store, self.race, self.breaker, self.extra = scripted, server, store, race, breaker, extra
        self.kinds, self.models = {}, {}
        self.total, self.connect = "10s", "1s"
        self.stream_total = None
        self.model("good", "good")

    def model(self, name, *kinds, **settings):
        self.models[name] = (kinds, settings)
        self.kinds.update(dict.fromkeys(kinds))
        return self

    def text(self, database="history.db", listen="127.0.0.1:0"):
        lines = ["[server]", f"listen = {quoted(listen)}", f'drain = "{DRAIN_S}s"', self.server, "", "[store]", f'url = "sqlite:{database}"', self.store, "",
                 "[race]", 'policy = "race"', "audit = 0", "look = 0", *([] if "retries" in self.race else ["retries = 0"]), 'rescue = "off"', f"breaker = {self.breaker}",
                 f'timeouts = {{ connect = "{self.connect}", first_token = "4s", idle = "2s", total = "{self.total}"'
                 + (f', stream_total = "{self.stream_total}"' if self.stream_total else "") + " }", self.race, ""]
        for name in self.kinds:
            dialect = providers.DIALECTS.get(name)
            lines += [f"[providers.{quoted(name)}]", f"base_url = {quoted(self.scripted.base_url(name))}", f"api_key = {quoted(KEY.format(name))}"]
            lines += [f"dialect = {quoted(dialect)}"] if dialect else []
            lines += [""]
        for name, (kinds, settings) in self.models.items():
            lines += [f"[models.{quoted(name)}]", f"upstreams = {json.dumps([kind + '/m' for kind in kinds])}"]
            lines += [f"{key} = {quoted(value)}" for key, value in settings.items()] + [""]
        return "\n".join(lines + [self.extra, ""])


class Probe:
    """Requests `/healthz` and the good model from a separate process."""

    def __init__(self, port, headers):
        self.process = subprocess.Popen([sys.executable, str(HERE / "probe.py"), str(port), json.dumps(headers)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def stop(self):
        try:
            output, _ = self.process.communicate(timeout=20)
            return json.loads(output)
        except (subprocess.TimeoutExpired, ValueError):
            self.process.kill()
            self.process.wait()
            return {"healthz": {"worst_ms": 60_000, "asked": 0, "bad": ["probe stuck"], "bad_count": 1},
                    "good": {"worst_ms": 60_000, "asked": 0, "bad": [], "bad_count": 0}}


class Skipped(Exception):
    """This machine cannot run the attack, for the given reason."""


@contextlib.contextmanager
def memory_group(mib):
    """A control group with so much memory. Yields the command that puts a program into it."""
    v1 = pathlib.Path("/sys/fs/cgroup/memory")
    root, limit = (v1, "memory.limit_in_bytes") if v1.is_dir() else (pathlib.Path("/sys/fs/cgroup"), "memory.max")
    group = root / f"photofinish-{os.getpid()}"
    try:
        group.mkdir()
        (group / limit).write_text(str(mib << 20))
    except OSError as why:
        with contextlib.suppress(OSError):
            group.rmdir()
        raise Skipped(f"no control group can be made: {why}") from why
    try:
        yield ["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "sh"]
    finally:
        with contextlib.suppress(OSError):
            group.rmdir()


class Stage:
    """One attack's run: its problems, its notes and its figures."""

    def __init__(self, binary, folder, scripted, quick=False):
        self.binary, self.folder, self.scripted, self.quick = binary, folder, scripted, quick
        self.problems, self.notes, self.figures = [], [], {}
        self.begun = time.monotonic()

    def must(self, holds, text):
        if not holds:
            self.problems.append(text)
        return bool(holds)

    def note(self, text):
        self.notes.append(text)

    def config(self, server=None, **options):
        """`server` holds keys of `[server]`."""
        lines = "\n".join(f"{key} = {quoted(value)}" for key, value in (server or {}).items())
        return Config(self.scripted, server=lines, **options)

    def skip(self, why):
        raise Skipped(why)

    @contextlib.contextmanager
    def gateway(self, config=None, *, probe=True, healthz_max=HEALTHZ_MAX_MS, good_fails=False, rows=True, exact=True, exit_max=EXIT_MAX_S,
                name="gateway", **options):
        """A gateway with a probe; measured, stopped and checked at the end of the block.

        `good_fails`: the attack may make the good model fail. `rows`: check the database. `exact`: every exchange
        has its row.
        """
        before, old = self.scripted.counts()["seen"], 0
        with contextlib.suppress(sqlite3.Error, OSError):
            with contextlib.closing(sqlite3.connect(f"file:{self.folder / name / 'history.db'}?mode=ro", uri=True, timeout=0.1)) as database:
                old = database.execute("SELECT count(*) FROM attempt").fetchone()[0]
        gate = Gateway(self.binary, self.folder / name, config or self.config(), self.scripted, **options)
        probing = None
        try:
            gate.ask("good")
            time.sleep(0.1)
            first = {"cpu": gate.cpu(), "fds": gate.descriptors(), "rss": gate.memory(), "threads": gate.threads()}
            probing = Probe(gate.port, gate.own) if probe else None
            yield gate
            told = probing.stop() if probing else None
            probing = None
            if gate.killed:
                return
            self.look(gate, first, told, healthz_max, good_fails)
            self.end(gate, exit_max)
            if rows:
                self.look_at_rows(gate, before, exact)
                self.figures["rows"] -= old
            self.look_for_secrets(gate)
        finally:
            if probing:
                probing.stop()
            if gate.alive():
                gate.process.kill()
                gate.process.wait()

    def figure(self, name, value, pick=max):
        self.figures[name] = value if name not in self.figures else pick(self.figures[name], value)

    def look(self, gate, first, told, healthz_max, good_fails):
        if not self.must(gate.alive(), f"the gateway ended with {gate.process.poll()}: {gate.text()[-300:]}"):
            return
        gate.settle()
        time.sleep(0.2)
        if told:
            healthz, good = told["healthz"], told["good"]
            self.figure("healthz_ms", healthz["worst_ms"])
            self.figure("good_ms", good["worst_ms"])
            self.must(healthz["worst_ms"] <= healthz_max, f"/healthz took {healthz['worst_ms']} ms")
            self.must(not healthz["bad_count"], f"/healthz failed {healthz['bad_count']} of {healthz['asked']} times: {healthz['bad']}")
            self.must(good_fails or not good["bad_count"], f"the good model failed {good['bad_count']} of {good['asked']} times: {good['bad']}")
        self.figure("cpu_s", round(gate.cpu() - first["cpu"], 2), lambda a, b: round(a + b, 2))
        self.figure("rss_peak_mb", round(gate.memory("VmHWM")))
        self.figure("rss_after_mb", round(gate.memory()))
        extra = gate.descriptors() - first["fds"]
        self.figure("fds_more", extra)
        self.must(extra <= 16, f"{extra} more descriptors than before are open")

    def end(self, gate, exit_max):
        if not gate.alive():
            return
        code, seconds = gate.stop()
        self.figure("exit_s", round(seconds, 1))
        self.must(code == 0, f"exit code {code} at SIGTERM" if code is not None else "it did not end within 40 s of SIGTERM")
        self.must(seconds <= exit_max, f"SIGTERM took {seconds:.1f} s")
        log = gate.text()
        self.figure("log_kb", len(log) // 1024)
        for word in ("panicked", "contradict"):
            self.must(word not in log, f"in the log: {next((line for line in log.splitlines() if word in line), '')[:200]}")

    def look_at_rows(self, gate, before, exact):
        """Checks that every exchange has a row, that every race has as many attempt rows as it states, and that the
        file is valid."""
        try:
            check = gate.rows("PRAGMA integrity_check")[0][0]
            rows = dict(gate.rows("SELECT provider, count(*) FROM attempt GROUP BY provider"))
            torn = gate.rows("SELECT count(*) FROM race WHERE attempts <> (SELECT count(*) FROM attempt WHERE attempt.race_id = race.race_id)")[0][0]
        except sqlite3.Error as error:
            self.must(False, f"the database cannot be read: {error}")
            self.figures.setdefault("rows", 0)
            return
        after = self.scripted.counts()["seen"]
        seen = {kind: after[kind] - before.get(kind, 0) for kind in after if after[kind] > before.get(kind, 0)}
        self.must(check == "ok", f"integrity_check: {check}")
        self.must(not torn, f"{torn} races have other numbers of rows than of attempts")
        self.figures["rows"] = self.figures.get("rows", 0) + sum(rows.values())
        self.figures["seen"] = self.figures.get("seen", 0) + sum(seen.values())
        more = providers.without_row(seen, rows)
        self.must(not exact or not more, f"providers saw more requests than there are rows: {more} (seen, rows)")

    def look_for_secrets(self, gate):
        for path in gate.folder.iterdir():
            if path.is_file() and path.name != "config.toml" and KEY[:12].encode() in path.read_bytes():
                self.must(False, f"a key stands in {path.name}")
