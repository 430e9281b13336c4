"""The history: a full disk, a locked, missing or corrupt database, a wrong clock, a killed process."""

import contextlib
import os
import pathlib
import shutil
import sqlite3
import tempfile
import threading
import time

from attacks import attack
from harness import client
from harness.many import at_once, until

FILL = 'head -c 16m /dev/zero > store/fill 2>/dev/null; '


def tmpfs(before=""):
    """A command prefix that gives the gateway a tmpfs of 3 MB at `store`."""
    script = f'mkdir -p store && mount -t tmpfs -o size=3m none store || exit 9; {before}exec "$@"'
    return ["unshare", "-m", "sh", "-c", script, "sh"]


def inside(gate, name):
    """A file as the gateway sees it, in its mount namespace."""
    return pathlib.Path(f"/proc/{gate.pid}/root{gate.folder}/store/{name}")


def count_inside(gate):
    """The number of races in a database that only the gateway sees. SQLite would look for it on the host's disk, so a
    copy is read."""
    with tempfile.TemporaryDirectory(prefix="attacks-") as folder:
        for suffix in ["", "-wal"]:
            with contextlib.suppress(FileNotFoundError):
                shutil.copy(inside(gate, f"history.db{suffix}"), f"{folder}/history.db{suffix}")
        try:
            with contextlib.closing(sqlite3.connect(f"{folder}/history.db")) as database:
                return database.execute("SELECT count(*) FROM race").fetchone()[0]
        except sqlite3.Error:
            return -1


def count(path, table="race"):
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=3)) as database:
        return database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def count_or(path, table="race"):
    try:
        return count(path, table)
    except sqlite3.Error:
        return -1


def ask_good(stage, gate, times=40):
    bad = [answer for answer in at_once(times, lambda _: gate.ask("good"), workers=8) if not answer.is_good]
    stage.must(not bad, f"{len(bad)} of {times} were not answered: {bad[:1] and bad[0]}")


def stays_ready(stage, gate):
    answer = client.fetch(gate.port, "GET", "/readyz")
    stage.must(answer.status == 200, f"/readyz is {answer.status} for a store that only delays rows: {answer.text[:200]}")


def root_only(stage):
    if os.geteuid() != 0 or not shutil.which("unshare"):
        stage.skip("only root may mount a tmpfs")


@attack("store-full-at-start", "a disk that is full at the start, and free again later", quick=True)
def store_full_at_start(stage):
    root_only(stage)
    with stage.gateway(database="store/history.db", wrap=tmpfs(FILL), rows=False) as gate:
        ask_good(stage, gate)
        stays_ready(stage, gate)
        inside(gate, "fill").unlink()
        came = until(25, lambda: count_inside(gate) >= 40, pause=0.3)
        stage.must(came, f"25 s after there was room again there are {count_inside(gate)} of 40 rows")
        stage.note(f"{count_inside(gate)} races once there was room again")


@attack("store-full", "a disk that fills while it runs, and is free again later", quick=True)
def store_full(stage):
    root_only(stage)
    with stage.gateway(database="store/history.db", wrap=tmpfs(), rows=False) as gate:
        ask_good(stage, gate, 10)
        gate.settle()
        with contextlib.suppress(OSError), open(inside(gate, "fill"), "wb", buffering=0) as fill:
            while True:
                fill.write(bytes(4096))
        ask_good(stage, gate, 400)
        stays_ready(stage, gate)
        inside(gate, "fill").unlink()
        came = until(25, lambda: count_inside(gate) >= 410, pause=0.3)
        stage.must(came, f"25 s after there was room again there are {count_inside(gate)} of 410 rows")
        stage.note(f"{count_inside(gate)} races once there was room again")


@contextlib.contextmanager
def locked(path):
    """Blocks all other writers and, without a write-ahead log, all readers."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=5)) as database:
        database.execute("BEGIN EXCLUSIVE")
        yield
        database.execute("ROLLBACK")


@attack("store-locked-at-start", "a database that another process has locked at the start", quick=True)
def store_locked_at_start(stage):
    with stage.gateway(probe=False) as gate:
        ask_good(stage, gate, 5)
    path = stage.folder / "gateway/history.db"
    before = count(path)
    with contextlib.ExitStack() as stack:
        stack.enter_context(locked(path))
        begun = time.monotonic()
        with stage.gateway(exact=False) as gate:
            stage.note(f"listens after {time.monotonic() - begun:.1f} s")
            ask_good(stage, gate)
            stays_ready(stage, gate)
            stack.close()
            came = until(20, lambda: count_or(path) >= before + 40, pause=0.3)
            stage.must(came, f"20 s after the lock was gone there are {count_or(path) - before} of 40 rows")


@attack("store-locked", "a database that another process locks for six seconds under load", quick=True)
def store_locked(stage):
    with stage.gateway() as gate:
        ask_good(stage, gate, 10)
        path = stage.folder / "gateway/history.db"
        with locked(path):
            end = time.monotonic() + 6
            asked = 0
            while time.monotonic() < end:
                ask_good(stage, gate, 40)
                asked += 40
                time.sleep(0.2)
            stays_ready(stage, gate)
        came = until(20, lambda: count_or(path) >= asked + 10, pause=0.3)
        stage.must(came, f"20 s after the lock was gone there are {count_or(path)} of {asked + 10} rows")


@attack("store-deleted", "a database that is deleted while it runs", quick=True)
def store_deleted(stage):
    with stage.gateway(rows=False) as gate:
        ask_good(stage, gate, 20)
        gate.settle()
        for path in gate.folder.glob("history.db*"):
            path.unlink()
        ask_good(stage, gate, 40)
        path = gate.folder / "history.db"
        told = until(12, lambda: path.exists() and count_or(path) > 0 and "was removed or replaced" in gate.text(), pause=0.3)
        stage.must(told, "nothing tells that the database is gone, or there is no new one")
        ask_good(stage, gate, 40)
        stage.note(f"a new database has {count_or(path)} races; told: {last_warning(gate)}")


def last_warning(gate):
    lines = [line for line in gate.text().splitlines() if " WARN " in line or " ERROR " in line]
    return lines[-1][:200] if lines else "nothing"


def rows_of(path):
    """The rows of a database, or none if it cannot be read."""
    return sum(max(count_or(path, table), 0) for table in ("race", "attempt"))


def set_aside(gate):
    """The files that the gateway moved out of its way."""
    return sorted(path for path in gate.folder.glob("history.db.damaged-*") if not path.name.endswith(("-wal", "-shm")))


def overwrite(path, start):
    """Writes noise over all of a file from `start` on."""
    with open(path, "r+b") as file:
        size = file.seek(0, 2)
        file.seek(start)
        file.write(os.urandom(max(size - start, 0)))
    return size - start


def every_row_is_told(stage, gate):
    """Each row is in the new database, or counted with the file that was set aside, or counted as lost."""
    def told():
        asked = gate.metric("photofinish_races_total") + gate.metric("photofinish_attempts_total")
        aside, lost = gate.metric("photofinish_records_set_aside_total"), gate.metric("photofinish_records_dropped_total")
        return int(asked), rows_of(gate.folder / "history.db"), int(aside), int(lost)
    seen = []
    fits = until(20, lambda: seen.append(told()) or seen[-1][0] == sum(seen[-1][1:]), pause=0.1)
    asked, there, aside, lost = seen[-1]
    stage.must(fits, f"of {asked} rows {there} are in the new database, {aside} in the one set aside, {lost} lost")
    stage.note(f"of {asked} rows {there} are in the new database, {aside} in the one set aside, {lost} lost")


def noise_while_it_runs(stage, start, rounds=20):
    """Overwrites the database from `start` on while it is written, and looks at what becomes of the rows."""
    with stage.gateway(rows=False, exact=False) as gate:
        ask_good(stage, gate, 60)
        gate.settle()
        time.sleep(3)  # until these rows were read back: later ones are written again
        path = gate.folder / "history.db"
        with contextlib.closing(sqlite3.connect(path)) as file:
            file.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the few rows may be in the log alone
        stage.note(f"{overwrite(path, start)} bytes of noise from byte {start} on")
        begun = time.monotonic()
        for _ in range(rounds):
            ask_good(stage, gate, 30)
            if set_aside(gate):
                break
            time.sleep(0.2)
        until(15, lambda: set_aside(gate), pause=0.1)
        aside = set_aside(gate)
        if not stage.must(aside, f"nothing tells that the database is noise; /readyz: {gate.ready()}"):
            return
        stage.note(f"set aside as {aside[0].name} after {time.monotonic() - begun:.1f} s")
        ask_good(stage, gate, 60)
        stage.must(until(10, lambda: gate.ready().get("store") == "ok", pause=0.1), f"the new database takes no rows: {gate.ready()}")
        gate.settle()
        every_row_is_told(stage, gate)
        stays_ready(stage, gate)
        ready = gate.ready()
        stage.must(ready.get("set_aside") == aside[0].name and ready.get("records_set_aside", 0) > 0, f"/readyz does not tell it: {ready}")
        answer = client.fetch(gate.port, "GET", "/api/stats")
        stage.must(answer.status == 200 and aside[0].name == answer.headers.get("x-photofinish-set-aside"), f"/api/stats: {answer}")
        stage.must("set aside" in gate.text(), "the log does not tell it")
        _, checked = gate.command("check")
        stage.must(aside[0].name in checked, f"`check` does not tell it: {checked[-300:]}")
    with stage.gateway(rows=False, exact=False, probe=False) as gate:
        ask_good(stage, gate, 5)
    with contextlib.closing(sqlite3.connect(path)) as database:
        stage.must(database.execute("PRAGMA integrity_check").fetchone() == ("ok",), "the new database is damaged")


@attack("store-noise", "a database that is overwritten with noise while it runs, and at the next start", quick=True)
def store_noise(stage):
    noise_while_it_runs(stage, 0)
    path = stage.folder / "gateway/history.db"
    overwrite(path, 0)
    try:
        with stage.gateway(rows=False, exact=False, probe=False):
            stage.must(False, "it starts over a file of which nothing shows that it is its own")
    except RuntimeError as error:
        stage.must("Move it away" in str(error), f"the refused start does not say what to do: {error}")
        stage.note("a start over noise is refused: nothing shows that the file is a history")


@attack("store-noise-behind-page-1", "a database of which all but the first page is noise, while it runs and at the next start", quick=True)
def store_noise_behind_page_1(stage):
    noise_while_it_runs(stage, 4096)
    path = stage.folder / "gateway/history.db"
    overwrite(path, 4096)
    with stage.gateway(rows=False, exact=False) as gate:
        ask_good(stage, gate, 40)
        stage.must(until(15, lambda: len(set_aside(gate)) == 2, pause=0.1), f"a start over it does not set it aside: {gate.text()[-400:]}")
        stage.must(until(10, lambda: gate.ready().get("store") == "ok", pause=0.1), f"the new database takes no rows: {gate.ready()}")
        gate.settle()
        every_row_is_told(stage, gate)
        stage.note("a start over it serves, and sets it aside too")


@attack("clock-ahead", "a clock that is 400 days ahead for a while: the history must survive it")
def clock_ahead(stage):
    library = next(iter(sorted(pathlib.Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)
    if library is None:
        stage.skip("faketime is not installed")
    with stage.gateway(probe=False) as gate:
        ask_good(stage, gate, 100)
    path = stage.folder / "gateway/history.db"
    before = count(path)
    environment = {"LD_PRELOAD": str(library), "FAKETIME": "+400d", "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1"}
    with stage.gateway(env=environment, exact=False, healthz_max=5_000) as gate:
        ask_good(stage, gate, 20)
        time.sleep(12)
    stage.note(f"{before} races before, {count(path)} after 12 s with the clock ahead")
    stage.must(count(path) >= before, f"of {before} races {count(path)} are left")


@attack("kill-9", "kill -9 under load, again and again: the database stays sound, no race without its attempts", quick=True)
def kill_9(stage):
    config = stage.config().model("slow", "slow", "later").model("bad", "close-mid-answer", "good")
    for number in range(2 if stage.quick else 5):
        with stage.gateway(config, rows=False) as gate:
            over = threading.Event()
            workers = [threading.Thread(target=keep_on, args=(gate, over), daemon=True) for _ in range(8)]
            for worker in workers:
                worker.start()
            time.sleep(1.0 + 0.13 * number)
            gate.process.kill()
            gate.process.wait()
            over.set()
            for worker in workers:
                worker.join(5)
            check = gate.rows("PRAGMA integrity_check")[0][0]
            torn = gate.rows("SELECT count(*) FROM race WHERE attempts <> (SELECT count(*) FROM attempt WHERE attempt.race_id = race.race_id)")[0][0]
            orphans = gate.rows("SELECT count(*) FROM attempt WHERE race_id NOT IN (SELECT race_id FROM race)")[0][0]
            stage.note(f"round {number + 1}: {count(gate.folder / 'history.db')} races")
            stage.must(check == "ok", f"integrity_check: {check}")
            stage.must(not torn and not orphans, f"{torn} races with other numbers of rows than of attempts, {orphans} attempts without a race")
            gate.killed = True


def keep_on(gate, over):
    while not over.is_set():
        for model in ["good", "bad", "slow"]:
            with contextlib.suppress(Exception):
                client.ask(gate.port, model, stream=True, timeout=3)
