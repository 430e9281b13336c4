"""Every fault on every surface under every policy, streaming and not, alone and next to a healthy upstream: expected
and actual results."""

import asyncio
import collections
import contextlib
import dataclasses
import json
import pathlib
import subprocess
import sys

import caller
import grammar
from faults import ALL, FAULTS
from speech import TEXT, USAGE_OUT

# What `config.schema.json` has: it is written from the declarations.
SETTINGS = json.loads((pathlib.Path(__file__).parents[2] / "config.schema.json").read_text())["definitions"]["RaceSettings"]["properties"]
POLICIES = tuple(choice["const"] for choice in SETTINGS["policy"]["anyOf"] if "const" in choice)
# Those that ask one upstream after the other.
SERIAL = ("fallback", "weighted")
BESIDE = tuple(policy for policy in POLICIES if policy not in SERIAL)
LOSERS = ("lost", "drained")  # cut, or read to the end
# Concurrent requests. More would measure the machine.
AT_ONCE = 24
# Timeouts of the config, in seconds: silence before the first token, silence after it, and the whole request; and the
# delay of a slow answer.
FIRST_TOKEN_S, IDLE_S, TOTAL_S, SLOW_S = 2.0, 2.0, 8.0, 4.0
# Allowed delay of a time-out on a shared machine, in seconds.
LATE_S = 4.0


class Provider:
    """The scripted provider's process."""

    def __init__(self, here, certificate, untrusted):
        self.certificate = certificate
        command = [sys.executable, str(here / "provider.py")] + ([str(certificate), str(untrusted)] if certificate else [])
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ports = json.loads(self.process.stdout.readline())

    def command(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def log(self):
        return self.command("log")

    def set(self, **times):
        self.command(f"set {json.dumps(times)}")

    def url(self, level, name):
        port = self.ports.get(name if level == "raw" else level, self.ports["http"])
        host = {"dns": "nobody.invalid", "h2": "localhost", "untrusted": "localhost"}.get(level, "127.0.0.1")
        scheme = "https" if level in ("h2", "untrusted", "raw") else "http"
        return f"{scheme}://{host}:{port}/v1"

    def stop(self):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()


@dataclasses.dataclass
class Case:
    id: str
    fault: object
    surface: str
    stream: bool
    policy: str
    beside: bool
    onward: bool  # retries and rescue are on
    seen: object = None
    judged: object = None
    exchanges: list = dataclasses.field(default_factory=list)
    rows: list = dataclasses.field(default_factory=list)
    race: object = None
    problems: list = dataclasses.field(default_factory=list)
    after_ms: object = None  # from the failure to the client's first token, in milliseconds

    def __str__(self):
        return f"{self.fault.name}: {self.surface}{' streamed' if self.stream else ''}, {self.policy}{'' if self.beside else ' alone'}{', going on' if self.onward else ''}"

    @property
    def of(self):
        """The surface that the client calls."""
        return self.surface.split("/")[0]

    def must(self, holds, text):
        if not holds:
            self.problems.append(text)
        return holds


def cases(quick, only, tls, onward):
    """The product of all dimensions. `quick` has each fault on each surface, and all policies only on chat."""
    out = []

    def add(*parts):
        out.append(Case(f"{'o' if onward else 'c'}{len(out)}", *parts, onward))

    for fault in FAULTS.values():
        if only and fault.name not in only or fault.level in ("h2", "untrusted") and not tls:
            continue
        if onward and not (fault.once or fault.mid or fault.silent or fault.stops):
            continue
        for surface in fault.surfaces:
            for stream in (True, False) if surface != "embeddings" else (False,):
                for policy in POLICIES:
                    if not quick or surface == "chat" or policy == "fallback":
                        add(fault, surface, stream, policy, True)
                add(fault, surface, stream, "fallback", False)
    return out


def config(found, provider, onward):
    lines = ["[server]", 'listen = "127.0.0.1:0"', 'drain = "2s"', 'event_max = "64KiB"', 'max_in_flight = 4096', "", "[store]", 'url = "sqlite:history.db"', "",
             "[race]", "audit = 0", "look = 0", "breaker = { failures = 0 }", 'hedge_after = "100ms"', 'keepalive = "off"',
             f'timeouts = {{ connect = "5s", first_token = "{FIRST_TOKEN_S}s", idle = "{IDLE_S}s", total = "{TOTAL_S}s" }}', *(ONWARD if onward else OFF), ""]
    dialects = {"": ["openai", "responses", "anthropic"], "-openai": ["openai"], "-anthropic": ["anthropic"]}
    for ending, spoken in dialects.items():
        for name in ("bad", "good"):
            lines += [f'[providers."{name}{ending}"]', f"base_url = {json.dumps(provider.url('http', ''))}", f"dialect = {json.dumps(spoken)}", ""]
    for fault in {case.fault.name: case.fault for case in found}.values():
        if fault.level != "http":
            lines += [f'[providers."{fault.name}"]', f"base_url = {json.dumps(provider.url(fault.level, fault.name))}", ""]
    for case in found:
        ending = "-" + case.surface.split("/")[1] if "/" in case.surface else ""
        bad = f"{'bad' + ending if case.fault.level == 'http' else case.fault.name}/{case.fault.name}~{case.id}"
        good = f"good{ending}/{case.fault.healthy}{'-later' if case.policy in BESIDE else ''}~{case.id}"
        upstreams = [f"{{ upstream = {json.dumps(bad)} }}"] + ([f"{{ upstream = {json.dumps(good)}, weight = 0 }}"] if case.beside else [])
        lines += [f'[models."{case.id}"]', f"upstreams = [{', '.join(upstreams)}]", f'policy = "{case.policy}"', ""]
    return "\n".join(lines)


# Keys of `[race]` for the first pass and for the second.
OFF = ["retries = 0", 'rescue = "off"']
ONWARD = ["retries = 2", "max_attempts = 6", 'rescue = "continue"', 'content_policy = "continue"']


async def play(found, port, progress):
    """Requests all cases, slow ones first, with limited concurrency."""
    gate, alone = asyncio.Semaphore(AT_ONCE), asyncio.Semaphore(1)

    async def one(case):
        # Silent cases only wait, so they run in addition to the limit. HTTP/2 cases share a connection that is broken
        # on purpose, so they run one at a time.
        async with contextlib.nullcontext() if case.fault.silent else alone if case.fault.level == "h2" else gate:
            case.seen = await caller.call(port, case.of, case.id, case.stream, **case.fault.members)
        progress()

    await asyncio.gather(*[one(case) for case in sorted(found, key=lambda case: not case.fault.silent)])


def collect(found, gate, lines):
    """Joins what the client, the provider and the rows report about each case."""
    gate.settle()
    exchanges = collections.defaultdict(list)
    for line in lines:
        exchanges[line["case"]].append(line)
    names = ("race_id", "ordinal", "provider", "model_sent", "start_reason", "outcome", "failure", "http_status", "dispatch_us", "first_token_us", "output_tokens", "first_kind", "conn_reused")
    rows = collections.defaultdict(list)
    for row in gate.rows(f"SELECT {', '.join(names)} FROM attempt ORDER BY race_id, ordinal"):
        rows[row[0]].append(dict(zip(names, row)))
    races = {row[0]: row for row in gate.rows("SELECT race_id, outcome, attempts, winner, http_status FROM race")}
    for case in found:
        case.exchanges = exchanges[case.id]
        case.rows, case.race = rows[case.seen.race], races.get(case.seen.race)
        case.judged = grammar.judge(case.of, case.stream, case.seen)


# --- Expected results -----------------------------------------------------------------------------------------------

def expected(case):
    """The allowed kinds of answer, each with its status or None."""
    fault = case.fault
    alone = fault.alone if not isinstance(fault.alone, tuple) else fault.alone[0 if case.stream else 1]
    own = [("error", alone)] if isinstance(alone, int) else [(alone, 200)]
    if case.onward and fault.once:
        return [("whole", 200)]
    if not case.beside:
        # If the only pooled connection dies, the request is sent over a new one.
        return own + [("whole", 200)] * (fault.once and fault.resent > 1)
    if fault.usable:
        return [("whole", 200)]
    if fault.stops and not case.onward:
        # An attempt that ran in parallel may still win.
        return own + [("whole", 200)] * (case.policy in BESIDE)
    if fault.mid and case.stream and (not case.onward or fault.lost):
        return own + [("whole", 200)] * (case.policy in BESIDE)
    return [("whole", 200)]


def check(case):
    """Fills in the problems of the case."""
    judged, seen, fault = case.judged, case.seen, case.fault
    for problem in judged.problems:
        case.must(False, f"the client: {problem}")
    right = expected(case)
    if not case.must((judged.kind, seen.status) in right, f"the client saw {judged} with {seen.status}, expected {right}"):
        return
    if judged.kind == "whole" and fault.text and case.of != "embeddings":
        case.must(judged.text == TEXT, f"the client got {len(judged.text.split())} of 60 words: … {judged.text[-60:]!r}")
    if judged.kind == "broken" and fault.text:
        case.must(TEXT.startswith(judged.text), f"what came before the break is no beginning: {judged.text[-60:]!r}")
        case.must(judged.text, "nothing was delivered before the break")
    for arguments in judged.arguments if judged.kind == "whole" and judged.finish not in ("length", "max_tokens", "incomplete") else []:
        try:
            json.loads(arguments)
        except ValueError:
            case.must(False, f"a tool call's arguments are no JSON: {arguments!r}")
        case.must(fault.name != "tool-cut" and fault.name != "tool-broken", f"a cut tool call was delivered as a whole one: {arguments!r}")
    if judged.kind == "error" and seen.status == 429:
        after = seen.headers.get("retry-after", "")
        most = 60 if fault.name == "429" else 2
        case.must(after.isdigit() and 1 <= int(after) <= most, f"a 429 with retry-after {after!r}, at most {most} is right")
    if judged.kind == "error" and judged.attempts:
        case.must(len(judged.attempts) == len({attempt["upstream"] for attempt in judged.attempts}) or case.onward or fault.resent > 1,
                  "an upstream is told twice")
    exchanged(case)
    recorded(case)
    timed(case)


def exchanged(case):
    """Checks what the provider received."""
    fault = case.fault
    bad = [line for line in case.exchanges if line["kind"] == fault.name]
    healthy = [line for line in case.exchanges if line["kind"] != fault.name]
    # With `onward`: two retries. To continue a broken answer without another upstream: up to six more attempts, the
    # maximum of a race.
    most = fault.resent + (2 if case.onward else 0) + (6 if case.onward and fault.mid else 0)
    case.must(len(bad) <= most, f"the failing provider was asked {len(bad)} times, at most {most} were right")
    if case.policy in SERIAL or not case.beside:
        case.must(bad or fault.unseen, "the failing provider was never asked")
    if not case.beside:
        return
    case.must(len(healthy) <= (2 if case.policy in BESIDE else 1), f"the healthy provider was asked {len(healthy)} times")
    if case.policy in SERIAL and (fault.usable or fault.stops and not case.onward):
        case.must(not healthy, "somebody else was asked for nothing")


def recorded(case):
    """Checks the rows."""
    if not case.must(case.race, "no row of the race"):
        return
    _, outcome, attempts, winner, _ = case.race
    case.must(attempts == len(case.rows), f"the race tells {attempts} attempts, there are {len(case.rows)} rows")
    good = case.judged.kind in ("whole", "empty")
    case.must(outcome == ("ok" if good else "error") or case.judged.kind == "empty", f"the race's outcome is {outcome}, the client saw {case.judged.kind}")
    http = [line for line in case.exchanges]
    case.must(len(http) <= len(case.rows) + case.fault.resent - 1, f"{len(http)} exchanges and {len(case.rows)} rows")
    for row in case.rows:
        if not row["model_sent"].startswith(case.fault.name + "~"):
            continue
        wanted, failures, status = case.fault.row
        case.must(case.fault.name != "reasoning-details" or row["first_kind"] in ("reasoning", None), f"the row's first token was {row['first_kind']}")
        case.must(not case.fault.tokens or row["output_tokens"] == USAGE_OUT or row["outcome"] == "lost", f"the row tells {row['output_tokens']} output tokens")
        if row["outcome"] in LOSERS and (case.policy in BESIDE or case.onward) or row["start_reason"] == "rescue":
            continue
        if case.fault.once and row["outcome"] == "won" and (case.onward or case.fault.resent > 1) or case.fault.name == "signature" and row["outcome"] == "won":
            continue
        if case.fault.silent and not case.beside and row["outcome"] == "won":
            continue
        if row["outcome"] == "failed" and row["failure"] in ("reset", "closed") and (case.fault.resent > 1 or row["conn_reused"] and row["http_status"] is None):
            continue  # a pooled connection had died, perhaps through another case: the request was sent again over a new one
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        wanted = ("empty",) if case.fault.lost and not case.stream and "empty" in wanted else wanted
        failures = failures if isinstance(failures, tuple) else (failures,)
        case.must(row["outcome"] in wanted and row["failure"] in failures and (status is None or row["http_status"] in (status, None)),
                  f"the row says {row['outcome']}, {row['failure']}, {row['http_status']}; expected {case.fault.row}")


def timed(case):
    """Measures the time from the failure to the client's first token."""
    if not (case.beside and case.policy in SERIAL and case.judged.kind == "whole" and case.stream) or case.fault.usable or case.onward:
        return
    first = case.seen.at(case.judged.first or 0)
    ends = [line["ended"] for line in case.exchanges if line["kind"] == case.fault.name and line["ended"]]
    if case.fault.silent:
        waited = first - case.seen.begun
        case.must(waited <= FIRST_TOKEN_S + LATE_S, f"the first token came {waited:.1f} s after the request, first_token is {FIRST_TOKEN_S:g} s")
        case.after_ms = (waited - FIRST_TOKEN_S) * 1000
    elif ends and not case.fault.mid:
        case.after_ms = max((first - ends[-1]) * 1000, 0.0)
