"""A gateway of the tested program, and the certificate of its providers.

It listens on loopback at a free port, writes into a separate folder, and is ended by its process id.
"""

import contextlib
import json
import pathlib
import re
import resource
import signal
import sqlite3
import subprocess
import time

from harness import client

TICK = 100  # per second, of /proc/PID/stat


def certificate(folder):
    """A self-signed certificate for localhost with its key, in one file. None if there is no `openssl`."""
    path, key, asked = folder / "localhost.pem", folder / "key.pem", folder / "openssl.cnf"
    # It is not a CA certificate, because a server could not use that for itself.
    asked.write_text("[req]\ndistinguished_name = name\nx509_extensions = as\nprompt = no\n[name]\nCN = localhost\n"
                     "[as]\nbasicConstraints = critical,CA:FALSE\nsubjectAltName = DNS:localhost\n")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
               "-config", str(asked), "-keyout", str(key), "-out", str(path)]
    try:
        if subprocess.run(command, capture_output=True).returncode != 0:
            return None
    except FileNotFoundError:
        return None
    path.write_text(path.read_text() + key.read_text())
    return path


# Passes the socket of a service manager, as systemd does: descriptor 3, and the process it is for.
ACTIVATED = ["/bin/sh", "-c", 'exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" "$@"']


class Gateway:
    """The tested gateway. `wrap` is a command prefix, `options` are for `serve`, `limits` are the limits of its process.
    `passed` is a listening socket that the service manager keeps, `token` is an admin's if the config has users."""

    def __init__(self, binary, folder, config, scripted, database="history.db", wrap=(), options=(), limits=None, env=None, wait=20, passed=None,
                 log="gateway.log", token=None):
        self.binary, self.folder, self.scripted, self.database = binary, folder, scripted, database
        self.own = {"authorization": f"Bearer {token}"} if token else {}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.toml").write_text(config if isinstance(config, str) else config.text(database))
        self.log = folder / log
        variables = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "NO_COLOR": "1"} | (env or {})
        if scripted.certificate:
            variables["SSL_CERT_FILE"] = str(scripted.certificate)

        def limited():
            for name, value in (limits or {}).items():
                resource.setrlimit(name, value if isinstance(value, tuple) else (value, value))

        command = [*wrap, *(ACTIVATED if passed else []), str(binary), "--config", "config.toml", "serve", *options]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, cwd=folder, env=variables, stdin=passed or subprocess.DEVNULL, stdout=log, stderr=log,
                                            preexec_fn=limited)
        end = time.monotonic() + wait
        while not (found := re.search(r"listening on https?://[\d.]+:(\d+)", self.text())):
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                raise RuntimeError(f"the gateway does not listen after {wait} s: {self.text()[-600:]}")
            time.sleep(0.02)
        self.port = int(found[1])
        self.killed = False  # an attack has ended it on purpose
        self.pid = self.process.pid

    def text(self):
        return re.sub(r"\x1b\[[0-9;]*m", "", self.log.read_text(errors="replace"))

    def ask(self, model, headers=None, **options):
        return client.ask(self.port, model, headers=self.own | (headers or {}), **options)

    def alive(self):
        return self.process.poll() is None

    # --- Figures of the kernel ---

    def memory(self, name="VmRSS"):
        """In MB."""
        try:
            text = pathlib.Path(f"/proc/{self.pid}/status").read_text()
            return int(re.search(rf"{name}:\s+(\d+)", text)[1]) / 1024
        except (OSError, TypeError):
            return 0.0

    def cpu(self):
        """In seconds."""
        try:
            fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / TICK
        except OSError:
            return 0.0

    def descriptors(self):
        """All descriptors except connections to providers: idle ones are kept for the next request, within separate
        bounds."""
        towards = {f"{port:04X}" for port in self.scripted.ports.values()}
        pooled = set()
        for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[2].split(":")[1] in towards:
                pooled.add(f"socket:[{fields[9]}]")
        count = 0
        for path in pathlib.Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                count += str(path.readlink()) not in pooled
        return count

    def threads(self):
        return len(list(pathlib.Path(f"/proc/{self.pid}/task").iterdir()))

    # --- Figures of the gateway ---

    def ready(self):
        return json.loads(client.fetch(self.port, "GET", "/readyz", headers=self.own).body or b"{}")

    def metric(self, name):
        """The sum of a metric's series."""
        lines = client.fetch(self.port, "GET", "/metrics", headers=self.own).text.splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name) and line[len(name)] in " {")

    def running(self):
        return int(self.metric("photofinish_races_in_flight") or self.metric("photofinish_in_flight"))

    def settle(self, seconds=8.0):
        """Waits until no race runs and no row waits."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            ready = self.ready()
            if not ready.get("races_running") and not ready.get("records_queued"):
                time.sleep(0.3)
                return True
            time.sleep(0.1)
        return False

    def rows(self, query, *values):
        path = self.folder / self.database
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)) as database:
            return database.execute(query, values).fetchall()

    def command(self, *words, timeout=30):
        """Another command of the program with this config: exit code and output."""
        done = subprocess.run([str(self.binary), "--config", "config.toml", *words], cwd=self.folder, capture_output=True, timeout=timeout,
                              env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "NO_COLOR": "1"})
        return done.returncode, done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")

    def stop(self, seconds=40):
        """Sends SIGTERM; returns the exit code and seconds. The code is None if it had to be killed."""
        begun = time.monotonic()
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            code = None
        return code, time.monotonic() - begun
