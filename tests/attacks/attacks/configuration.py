"""The configuration while it runs: a file that is half written, and files that hang."""

import contextlib
import http.client
import json
import os
import ssl
import subprocess
import threading
import time

from attacks import attack
from harness import client
from harness.many import at_once, timed, until

TOKEN = "token-of-ann-0123456789"
ANN = {"authorization": f"Bearer {TOKEN}"}
USERS = f'[users.ann]\ntoken = "{TOKEN}"\nrole = "admin"\n'


class Asking:
    """Repeats a call from a thread, and keeps its results."""

    def __init__(self, play):
        self.results, self.stopping = [], threading.Event()
        self.thread = threading.Thread(target=self.run, args=(play,), daemon=True)
        self.thread.start()

    def run(self, play):
        while not self.stopping.wait(0.02):
            self.results.append(play())

    def stop(self):
        self.stopping.set()
        self.thread.join()
        return self.results


def write_slowly(path, text, cut, pause):
    """As a program does that has not closed the file yet."""
    with open(path, "w") as file:
        file.write(text[:cut])
        file.flush()
        time.sleep(pause)
        file.write(text[cut:])


def told(gate, headers):
    """Why the file is not in force, and what accepts it."""
    config = json.loads(client.fetch(gate.port, "GET", "/api/config", headers=headers).body or b"{}")
    return config.get("problems") or "", (config.get("accept") or "").removeprefix("POST ")


def tells(stage, gate, why):
    """Waits until all places tell it; returns the request that accepts the file."""
    stage.must(until(8, lambda: why in told(gate, ANN)[0]), f"/api/config does not tell {why!r}: {told(gate, ANN)}")
    ready = json.loads(client.fetch(gate.port, "GET", "/readyz", headers=ANN).body)
    stage.must(why in (ready.get("configuration_refused") or ""), f"/readyz does not tell {why!r}: {ready}")
    metrics = client.fetch(gate.port, "GET", "/metrics", headers=ANN).text
    stage.must("\nphotofinish_config_refused 1\n" in metrics, "the metric does not tell it")
    stage.must(why in gate.text(), f"the log does not tell {why!r}")
    return told(gate, ANN)[1]


@attack("half-written-config", "a configuration cut before [users] or policy, or emptied, while requests come", quick=True)
def half_written_config(stage):
    before_users(stage)
    before_policy(stage)


def before_users(stage):
    config = stage.config(extra=USERS)
    with stage.gateway(config, good_fails=True, name="users") as gate:
        path = gate.folder / "config.toml"
        whole = path.read_text()
        cut = whole.index("[users")
        models = lambda headers: client.fetch(gate.port, "GET", "/v1/models", headers=headers).status  # noqa: E731
        without, with_token = Asking(lambda: models({})), Asking(lambda: gate.ask("good", headers=ANN).is_good)
        for pause in (0.3, 0.6, 0.9, 0.6):
            write_slowly(path, whole, cut, pause)
            time.sleep(0.2)
        for text, why in [(whole[:cut], "users are gone"), ("", "the file is empty"), ("# emptied\n", "the file is empty")]:
            path.write_text(text)
            time.sleep(4)
            tells(stage, gate, why)
            path.write_text(whole)
            stage.must(until(8, lambda: told(gate, ANN) == ("", "")), f"the file is back, and still told: {told(gate, ANN)}")
        path.write_text(whole[:cut])
        accept = tells(stage, gate, "users are gone")
        statuses, served = without.stop(), with_token.stop()
        stage.note(f"{len(statuses)} requests without a token, {len(served)} with one")
        stage.must(set(statuses) == {401}, f"without a token: {sorted(set(statuses))}")
        stage.must(all(served), f"{served.count(False)} of {len(served)} requests with a token were not answered")

        post = lambda path, headers: client.fetch(gate.port, "POST", path, headers=headers).status  # noqa: E731
        for wrong, headers, expected in [(accept, {}, 401), ("/api/reload", ANN, 422), ("/api/reload?accept=0123456789ab", ANN, 422),
                                         (accept, ANN | {"origin": "https://evil.example"}, 403)]:
            stage.must((status := post(wrong, headers)) == expected, f"POST {wrong} is {status}, not {expected}")
        stage.must(models({}) == 401, "a refused request opened the gateway")
        stage.must((status := post(accept, ANN)) == 200, f"POST {accept} is {status}")
        stage.must(models({}) == 200, "the accepted file is not in force")
        path.write_text(whole)
        stage.must(until(8, lambda: models({}) == 401), "users that come back are not in force")
        path.write_text(whole[:cut])
        tells(stage, gate, "users are gone")
        gate.process.send_signal(1)  # SIGHUP
        time.sleep(4)
        stage.must(models({}) == 401, "SIGHUP takes all authentication away")


def before_policy(stage):
    config = stage.config(extra="")
    config.model("single", "good", "later", "slow", "stall", policy="fallback")
    with stage.gateway(config, name="policy") as gate:
        path = gate.folder / "config.toml"
        whole = path.read_text()
        cut = whole.index('policy = "fallback"')
        attempts = Asking(lambda: gate.ask("single").headers.get("x-photofinish-attempts"))
        for _ in range(8):
            write_slowly(path, whole, cut, 0.7)
            time.sleep(0.1)
        seen = attempts.stop()
        stage.note(f"{len(seen)} requests while the policy was cut off eight times")
        stage.must(set(seen) == {"1"}, f"attempts of a request: {sorted(set(map(str, seen)))}")


def make_pipe(path):
    path.rename(path.with_suffix(".kept"))
    os.mkfifo(path)


def put_back(path):
    path.with_suffix(".kept").rename(path)


@attack("blocked-files", "a named pipe as certificate, key, ca_file or configuration", quick=True)
def blocked_files(stage):
    if not stage.scripted.certificate:
        stage.skip("there is no openssl for a certificate")
    for name in ("cert.pem", "key.pem"):
        behind_tls(stage, name)
    behind_plain(stage)
    starts(stage)


def install(stage, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("cert.pem", "key.pem", "ca.pem"):
        (folder / name).write_bytes(stage.scripted.certificate.read_bytes())


def behind_tls(stage, name):
    install(stage, stage.folder / name)
    config = stage.config(server={})
    config.server = 'tls = { cert = "cert.pem", key = "key.pem" }'
    context = ssl._create_unverified_context()

    def ask(gate):
        connection = http.client.HTTPSConnection("127.0.0.1", gate.port, timeout=5, context=context)
        with contextlib.closing(connection):
            connection.request("GET", "/healthz")
            return connection.getresponse().status

    with stage.gateway(config, probe=False, exit_max=5, name=name) as gate:
        threads = gate.threads()
        asking = Asking(lambda: attempt_of(lambda: timed(lambda: ask(gate))))
        make_pipe(gate.folder / name)
        time.sleep(5)
        gate.process.send_signal(1)  # SIGHUP
        time.sleep(2)
        answers = asking.stop()
        good = [seconds for seconds, status in answers if status == 200]
        stage.note(f"{name}: {len(good)} of {len(answers)} answered, {max(good, default=0):.2f} s at most; {gate.threads() - threads} threads more")
        stage.must(len(good) == len(answers) and max(good, default=9) < 2, f"{name} blocks requests: {answers[-1:]}")
        stage.must(gate.threads() - threads <= 4, f"{gate.threads() - threads} threads more")
        stage.must("the old one stays in force" in gate.text() and name in gate.text(), f"the log does not tell of {name}")


def attempt_of(play):
    try:
        return play()
    except OSError as error:
        return 60.0, str(error)


def behind_plain(stage):
    folder = stage.folder / "plain"
    install(stage, folder)
    far = '[providers.far]\nbase_url = "https://far.example/v1"\nca_file = "ca.pem"\n'
    with stage.gateway(stage.config(extra=far), exit_max=5, name="plain") as gate:
        threads = gate.threads()
        for name in ("ca.pem", "config.toml"):
            make_pipe(folder / name)
            stage.must(until(8, lambda: name in told(gate, {})[0]), f"{name}: not told: {told(gate, {})}")
            for _ in range(3):
                gate.process.send_signal(1)  # SIGHUP
                time.sleep(0.5)
            put_back(folder / name)
            stage.must(until(8, lambda: not told(gate, {})[0]), f"{name} is back, and still told: {told(gate, {})}")
        make_pipe(folder / "ca.pem")
        time.sleep(3)
        stage.must(gate.threads() - threads <= 4, f"{gate.threads() - threads} threads more")


def starts(stage):
    """A start whose files hang ends with an error."""
    def start(name):
        folder = stage.folder / f"start-{name}"
        install(stage, folder)
        config = stage.config()
        config.server = 'tls = { cert = "cert.pem", key = "key.pem" }'
        config.extra = '[providers.keyed]\nbase_url = "http://keyed.example/v1"\napi_key = "file:secret"\n'
        (folder / "secret").write_text("a-key")
        (folder / "config.toml").write_text(config.text())
        make_pipe(folder / name)
        process = subprocess.Popen([str(stage.binary), "--config", "config.toml", "serve"], cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                   env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "NO_COLOR": "1"})
        begun = time.monotonic()
        try:
            _, said = process.communicate(timeout=25)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return name, None, time.monotonic() - begun, ""
        return name, process.returncode, time.monotonic() - begun, said.decode(errors="replace")

    names = ["cert.pem", "key.pem", "secret", "config.toml"]
    for name, code, seconds, said in at_once(len(names), lambda number: start(names[number])):
        stage.note(f"a start with {name} as a pipe: exit code {code} after {seconds:.1f} s")
        said = " ".join(said.split())  # its lines are wrapped
        stage.must(code == 2 and "does not answer" in said and (name in said or name == "secret"), f"a start with {name} as a pipe: {code}, {said[:300]}")
