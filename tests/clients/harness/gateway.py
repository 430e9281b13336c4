"""The gateway under test: its process, and its output.

It gets a separate config, database and port, and is ended by its process id.
"""

import contextlib
import re
import signal
import sqlite3
import subprocess
import time

from . import upstreams

TOKEN = "tester-token"
SPENT_TOKEN = "spent-token"
COUNTS = ("count_tokens", "gemini_count_tokens")
# The gateway itself answers these without an upstream: a token count that no upstream offers, and loading a model.
OWN_ANSWERS = (*COUNTS, "ollama_chat", "ollama_generate")
# These answers have no first token, and not all of them usage.
WITHOUT_TOKENS = (*COUNTS, "embeddings", "ollama_embed", "gemini_embed_batch", "rerank", "provider")


class Gateway:
    def __init__(self, binary, folder, config):
        self.folder = folder
        (folder / "config.toml").write_text(config)
        env = {"PATH": upstreams.PATH, "HOME": str(folder), "TESTER_TOKEN": TOKEN, "SPENT_TOKEN": SPENT_TOKEN} | upstreams.ENV
        self.log = folder / "gateway.log"
        with open(self.log, "wb") as log:
            command = [str(binary), "--config", "config.toml", "serve"]
            self.process = subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        upstreams.wait_until(self.listens, 20, lambda: f"the gateway does not listen:\n{self.text()}")
        self.url = re.search(r"listening on (http://\S+)", self.text())[1]

    def text(self):
        return re.sub(r"\x1b\[[0-9;]*m", "", self.log.read_text(errors="replace"))

    def listens(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"the gateway ended with {self.process.returncode}:\n{self.text()}")
        return "listening on http" in self.text()

    def stop(self):
        """Stops it; returns the problems."""
        self.process.send_signal(signal.SIGINT)
        try:
            code = self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return "the gateway did not end within 40 s"
        return None if code == 0 else f"the gateway ended with exit code {code}"

    def rows(self, query, *values):
        with contextlib.closing(sqlite3.connect(f"file:{self.folder / 'history.db'}?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(query, values)]

    def last_race(self):
        return self.rows("SELECT coalesce(max(race_id), '') AS last FROM race")[0]["last"]

    def settled(self, since):
        """The races since then with their attempts, once all rows are written."""
        end, seen = time.monotonic() + 8, None
        while True:
            races = self.rows("SELECT * FROM race WHERE race_id > ? ORDER BY race_id", since)
            attempts = self.rows("SELECT * FROM attempt WHERE race_id > ? ORDER BY race_id, ordinal", since)
            whole = sum(race["attempts"] for race in races) == len(attempts)
            if (whole and (len(races), len(attempts)) == seen) or time.monotonic() > end:
                return races, attempts
            seen = (len(races), len(attempts))
            time.sleep(0.3)

    def secrets(self, *words):
        """Files of the gateway that contain one of these."""
        files = [path for path in self.folder.iterdir() if path.is_file()]
        return [path.name for path in files if any(word.encode() in path.read_bytes() for word in words)]


def wrong_rows(races, attempts, dialects, surface):
    """The problems in the rows of one client's run."""
    wrong = []
    if not races:
        return ["no race was written"]
    by_race = {race["race_id"]: [] for race in races}
    for attempt in attempts:
        by_race.setdefault(attempt["race_id"], []).append(attempt)
    for race in races:
        own = by_race[race["race_id"]]
        name = f"{race['api']} race {race['race_id'][-6:]} ({race['outcome']})"
        if len(own) != race["attempts"]:
            wrong.append(f"{name}: {race['attempts']} attempts, {len(own)} rows")
        if race["outcome"] == "ok":
            wrong += [f"{name}: {text}" for text in wrong_winner(race, own)]
        if race["outcome"] not in ("ok", "client_gone", "rejected", "error"):
            wrong.append(f"{name}: unexpected outcome")
        spoken = {attempt["dialect"] for attempt in own}
        if not spoken <= set(dialects) | {"openai"}:
            wrong.append(f"{name}: dialects {spoken}")
    raced = [race for race in races if race["api"] == surface and race["outcome"] == "ok"]
    if not raced:
        wrong.append(f"no {surface} race was won")
    # Of several dialects, only one may be able to express everything that this client sends.
    if raced and len(dialects) == 1 and not any(race["attempts"] > 1 for race in raced):
        wrong.append(f"no {surface} race had two attempts")
    return wrong


def wrong_winner(race, attempts):
    if race["api"] in OWN_ANSWERS and not attempts:
        return []
    won = [attempt for attempt in attempts if attempt["outcome"] == "won"]
    if [attempt["ordinal"] for attempt in won] != [race["winner"]]:
        return [f"winner {race['winner']}, won: {[attempt['ordinal'] for attempt in won]}"]
    wrong = []
    if race["api"] not in WITHOUT_TOKENS:
        if won[0]["ttft_event"] != 1:
            wrong.append("the winner has no first token")
        if won[0]["tok_src"] != "usage" or not won[0]["input_tokens"] or not won[0]["output_tokens"]:
            wrong.append(f"no usage: {won[0]['tok_src']} {won[0]['input_tokens']} {won[0]['output_tokens']}")
        elif won[0]["provider"].startswith(("script-", "double-")) and race["api"] != "completions":
            cached = None if won[0]["dialect"] == "ollama" else 4
            if won[0]["cached_input_tokens"] != cached or won[0]["input_tokens"] < 40:
                wrong.append(f"{won[0]['dialect']}: {won[0]['cached_input_tokens']} of {won[0]['input_tokens']} input tokens cached")
        if not won[0]["finish_reason"]:
            wrong.append("no finish reason")
    for loser in attempts:
        if loser["outcome"] not in ("won", "lost", "drained"):
            wrong.append(f"attempt {loser['ordinal']} ({loser['dialect']}): {loser['outcome']} {loser['failure']} {loser['http_status']}")
    return wrong
