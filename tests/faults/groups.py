"""The groups outside the matrix: the sixteen scenarios, a provider that flaps under each policy, and how fast the next
upstream answers."""

import asyncio
import json
import statistics
import time

import caller
import grammar
import scenarios
from faults import FAULTS, STREAMED
from matrix import POLICIES, Case, collect, config, play
from speech import TEXT

# Faults that fail at once, before a token.
PROMPT = ("429", "500", "503", "400", "401", "404", "context", "reset", "error-frame", "error-in-200", "wrong-type", "empty", "noise", "foreign", "refused-port")
# Maximum time from the failure to the client's first token if a healthy candidate answers at once.
AFTER_MAX_MS = 10.0
# Seconds without any token, during which clients get keep-alives.
SILENT_S = 5


class Log:
    """The provider's log so far, for several readers."""

    def __init__(self, provider):
        self.provider, self.lines = provider, []

    def __call__(self):
        self.lines += self.provider.log()
        return self.lines


def play_scenarios(start, provider, here, profile, only, told):
    """`start(name, config text, variables)` returns a running gateway. Returns results by id; the long scenario runs in
    parallel with the others."""
    provider.set(**scenarios.TIMES[profile])
    found = [one for one in scenarios.SCENARIOS if not only or one.id in only]
    with start("failover", (here / "failover.toml").read_text(), {"LISTEN": "127.0.0.1:0", "WALL": f"http://127.0.0.1:{provider.ports['http']}"}) as gate:
        log, results = Log(provider), {}

        async def one(scenario):
            results[scenario.id] = await scenarios.play(scenario, gate.port, log, profile)
            told(f"{scenario.id} {'solved' if not results[scenario.id].problems else 'FAILED'}: {scenario.title}, {results[scenario.id].seconds:.1f} s")

        async def in_turn(those):
            for scenario in those:
                await one(scenario)

        async def all_of_them():
            await asyncio.gather(in_turn([one for one in found if not one.sequence]), *[one(scenario) for scenario in found if scenario.sequence])

        asyncio.run(all_of_them())
    return {one.id: results[one.id] for one in found}


def play_flap(start, provider, profile, told):
    """A preferred upstream that is healthy, down for a minute and then healthy; returns the results by policy."""
    outage, warm = scenarios.TIMES[profile]["outage"], 6 if profile == "full" else 3
    opens = scenarios.OPENS[profile]
    lines = ["[server]", 'listen = "127.0.0.1:0"', "", "[store]", 'url = "sqlite:history.db"', "", "[race]", "audit = 0", "look = 0", "retries = 0", f'breaker = {{ failures = 5, open = "{opens:g}s", open_max = "60s" }}',
             'hedge_after = "500ms"', "", "[providers.bad]", f"base_url = {json.dumps(provider.url('http', ''))}", "", "[providers.good]",
             f"base_url = {json.dumps(provider.url('http', ''))}", ""]
    for policy in POLICIES:
        lines += [f'[models."flap-{policy}"]', f'upstreams = ["bad/flap~{policy}", {{ upstream = "good/good-later~{policy}", weight = 0 }}]', f'policy = "{policy}"', ""]
    provider.set(**scenarios.TIMES[profile], warm=warm)
    begun, waits, wrong = time.monotonic() + warm, {policy: [] for policy in POLICIES}, {policy: [] for policy in POLICIES}
    end = begun + outage + opens + 4

    async def ask(policy, gate):
        while time.monotonic() < end:
            seen = await caller.call(gate.port, "chat", f"flap-{policy}", True)
            judged = grammar.judge("chat", True, seen)
            if judged.kind != "whole" or judged.text != TEXT or judged.problems:
                wrong[policy].append(f"{seen.begun - begun:.1f} s: {judged}")
            waits[policy].append(seen.at(judged.first or 0) - seen.begun)
            await asyncio.sleep(0.4)

    async def all_of_them(gate):
        await asyncio.gather(*[ask(policy, gate) for policy in POLICIES])

    with start("flap", "\n".join(lines), {}) as gate:
        asyncio.run(all_of_them(gate))
    provider.set(warm=0)
    results, log = {}, provider.log()
    for policy in POLICIES:
        bad = [line for line in log if line["kind"] == "flap" and line["case"] == policy]
        during = [line for line in bad if not line["healthy"]]
        back = next((line["at"] - begun - outage for line in bad if line["healed"]), None)
        problems = [f"{policy}: {len(wrong[policy])} of {len(waits[policy])} answers are not whole: {wrong[policy][:2]}"] if wrong[policy] else []
        if back is None or back > opens + 1.5:
            problems.append(f"{policy}: asked again {f'{back:.1f} s' if back else 'never'} after it was well; `open` is {opens:g} s")
        if len(during) > 5 + outage / opens + 3:
            problems.append(f"{policy}: asked {len(during)} times while it was down")
        results[policy] = {"asked": len(during), "requests": len(waits[policy]), "back": back, "worst": max(waits[policy]), "problems": problems}
        told(f"flap under {policy}: asked {len(during)} times in {outage} s, back after {back if back is None else round(back, 1)} s")
    return results


def play_alive(start, provider, told):
    """Keep-alives on every surface while no upstream sends a token, and what follows them: an answer, or the failure of
    all. Returns problems."""
    provider.set(slow=SILENT_S)
    lines = ["[server]", 'listen = "127.0.0.1:0"', "", "[store]", 'url = "sqlite:history.db"', "", "[race]", "audit = 0", "look = 0", "retries = 0", "breaker = { failures = 0 }", 'keepalive = "2s"', 'policy = "fallback"',
             f'timeouts = {{ first_token = "{SILENT_S + 4}s", total = "{SILENT_S + 2}s" }}', ""]
    for ending, spoken in {"": ["openai", "responses", "anthropic"], "-openai": ["openai"], "-anthropic": ["anthropic"]}.items():
        lines += [f'[providers."bad{ending}"]', f"base_url = {json.dumps(provider.url('http', ''))}", f"dialect = {json.dumps(spoken)}", ""]
    found = []
    for surface in STREAMED:
        ending = "-" + surface.split("/")[1] if "/" in surface else ""
        for fault in ("slow", "silent"):
            for stream in (True, False):
                case = Case(f"k{len(found)}", FAULTS[fault], surface, stream, "fallback", False, False)
                found.append(case)
                lines += [f'[models."{case.id}"]', f'upstreams = ["bad{ending}/{fault}~{case.id}"]', ""]
    with start("alive", "\n".join(lines), {}) as gate:
        asyncio.run(play(found, gate.port, lambda: None))
        collect(found, gate, provider.log())
    problems = []
    for case in found:
        for problem in alive(case):
            problems.append(f"alive, {case}: {problem}; {case.seen}")
    told(f"signs of life: {len(found)} cases, {len(problems)} problems")
    return problems


def alive(case):
    """The problems of a case that waited for a long time."""
    judged, seen = case.judged, case.seen
    wrong = list(judged.problems)
    wanted = "whole" if case.fault.name == "slow" else "broken" if case.stream else "error"
    if judged.kind != wanted:
        wrong.append(f"{judged}, expected {wanted}")
    waited = seen.head_at - seen.begun
    if not case.stream:
        return wrong + (["a client that does not stream got its head early"] if wanted == "whole" and waited < SILENT_S - 0.5 else [])
    if not 1.8 <= waited <= 3.5:
        wrong.append(f"the head came after {waited:.1f} s, `keepalive` is 2 s")
    signs = seen.body.count(b"event: ping") if case.of == "messages" else len(judged.comments)
    # The gateway's keep-alives come at 2 and at 4 s. Those of the provider come every 0.5 s and may be passed on.
    if signs < 2:
        wrong.append(f"{signs} signs of life in {seen.end_at - seen.begun:.1f} s")
    if judged.kind == "broken" and not str(judged.message):
        wrong.append("the failure of all has no message")
    return wrong


def play_face(start, provider, told):
    """Invalid requests on every surface: each gets the right status, and an error in the shape of its surface. Returns
    problems."""
    provider.set()
    lines = ["[server]", 'listen = "127.0.0.1:0"', "", "[store]", 'url = "sqlite:history.db"', "", "[providers.bad]",
             f"base_url = {json.dumps(provider.url('http', ''))}", 'dialect = ["openai", "responses", "anthropic"]', "", "[models.good]", 'upstreams = ["bad/good~face"]', ""]
    wrong = {
        "no JSON": (b"{", None, 400, "photofinish_invalid_request"), "no object": (b"[]", None, 400, "photofinish_invalid_request"),
        "no model": (b'{"stream": false}', None, 400, "photofinish_invalid_request"),
        "a model that is a number": (b'{"model": 5}', None, 400, "photofinish_invalid_request"),
        "an unknown model": (b'{"model": "goood"}', None, 404, "model_not_found"),
        "a bad header": (b'{"model": "good"}', {"x-photofinish-policy": "fastets"}, 400, "photofinish_bad_header"),
        "a model that is not there": (b'{"model": "bad/404~face"}', None, 502, "photofinish_all_failed"),
    }
    problems, count = [], 0

    async def all_of_them(port):
        nonlocal count
        for surface, (path, usual) in caller.SURFACES.items():
            for name, (body, headers, status, code) in wrong.items():
                if b'": "' in body:
                    body = json.dumps(usual | json.loads(body)).encode()
                seen = await caller.send(port, path, body, headers)
                judged = grammar.judge(surface, False, seen)
                found = list(judged.problems)
                if (seen.status, judged.code) != (status, code):
                    found.append(f"{seen.status} {judged.code}, expected {status} {code}")
                problems.extend(f"face, {surface}, {name}: {problem}; {seen}" for problem in found)
                count += 1
            seen = await caller.send(port, path, b"", method="GET")
            if seen.status != 405 or seen.headers.get("allow") is None:
                problems.append(f"face, {surface}, GET: {seen}, allow {seen.headers.get('allow')}")
            seen = await caller.call(port, surface, "good", False)
            judged = grammar.judge(surface, False, seen)
            if judged.kind != "whole" or judged.problems or not judged.usage:
                problems.append(f"face, {surface}: {judged}; {seen}")
            count += 2
        for path, key in (("/v1/models", "data"), ("/v1/models/good", "id")):
            seen = await caller.send(port, path, b"", method="GET")
            if seen.status != 200 or key not in json.loads(seen.body):
                problems.append(f"face, {path}: {seen}")
            count += 1

    with start("face", "\n".join(lines), {}) as gate:
        asyncio.run(all_of_them(gate.port))
    told(f"what clients send wrong: {count} requests, {len(problems)} problems")
    return problems


def play_after(start, provider, times, told):
    """Sends requests one after another to each fault that fails at once, with a healthy upstream as fallback;
    milliseconds by fault."""
    provider.set()
    found = [Case(f"d{fault}-{at}", FAULTS[fault], "chat", True, "fallback", True, False) for at in range(times) for fault in PROMPT]

    async def in_turn(gate):
        for case in found:
            case.seen = await caller.call(gate.port, case.of, case.id, case.stream)

    with start("after", config(found, provider, False), {}) as gate:
        asyncio.run(in_turn(gate))
        collect(found, gate, provider.log())
    waits = {fault: [] for fault in PROMPT}
    for case in found:
        if case.judged.kind != "whole":
            continue
        ended = [line["ended"] for line in case.exchanges if line["kind"] == case.fault.name and line["ended"]]
        first = case.seen.at(case.judged.first)
        # The provider records the end of its answer a moment after it was sent.
        waits[case.fault.name].append(max(first - (ended[-1] if ended else case.seen.begun), 0.0) * 1000)
    every = [wait for found in waits.values() for wait in found]
    told(f"first token after a failure: median {statistics.median(every):.1f} ms of {len(every)}, worst {max(every):.1f} ms")
    return waits
