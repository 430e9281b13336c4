"""What is played apart from the matrix: the sixteen scenarios, a provider that flaps, under each policy, and how soon the next one answers."""

import asyncio
import json
import statistics
import time

import caller
import grammar
import scenarios
from faults import FAULTS
from matrix import POLICIES, Case, collect, config
from speech import TEXT

# Faults that show at once, before a token.
PROMPT = ("429", "500", "503", "400", "401", "404", "context", "reset", "error-frame", "error-in-200", "wrong-type", "empty", "noise", "foreign", "refused-port")
# From the failure to the client's first token, where a healthy candidate answers at once.
AFTER_MAX_MS = 10.0


class Log:
    """What the provider saw so far, for several that look at it."""

    def __init__(self, provider):
        self.provider, self.lines = provider, []

    def __call__(self):
        self.lines += self.provider.log()
        return self.lines


def play_scenarios(start, provider, here, profile, only, told):
    """`start(name, config text, variables)` gives a running gateway. Results by id; the long one runs beside the others."""
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
    """A favourite that is down for a minute and then well: (worst wait, seconds from its healing to its first request, problems) by policy."""
    outage = scenarios.TIMES[profile]["outage"]
    opens = 5.0 if profile == "full" else 1.0
    lines = ["[server]", 'listen = "127.0.0.1:0"', "", "[race]", "audit = 0", f'breaker = {{ failures = 5, open = "{opens:g}s", open_max = "60s" }}',
             'hedge_after = "500ms"', "", "[providers.bad]", f"base_url = {json.dumps(provider.url('http', ''))}", "", "[providers.good]",
             f"base_url = {json.dumps(provider.url('http', ''))}", ""]
    for policy in POLICIES:
        lines += [f'[models."flap-{policy}"]', f'upstreams = ["bad/flap~{policy}", {{ upstream = "good/good-later~{policy}", weight = 0 }}]', f'policy = "{policy}"', ""]
    provider.set(**scenarios.TIMES[profile])
    begun, waits, wrong = time.monotonic(), {policy: [] for policy in POLICIES}, {policy: [] for policy in POLICIES}
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
    results, log = {}, provider.log()
    for policy in POLICIES:
        bad = [line for line in log if line["kind"] == "flap" and line["case"] == policy]
        during = [line for line in bad if not line["healthy"]]
        back = next((line["at"] - begun - outage for line in bad if line["healthy"]), None)
        problems = [f"{policy}: {len(wrong[policy])} of {len(waits[policy])} answers are not whole: {wrong[policy][:2]}"] if wrong[policy] else []
        if back is None or back > opens + 1.5:
            problems.append(f"{policy}: asked again {f'{back:.1f} s' if back else 'never'} after it was well; `open` is {opens:g} s")
        if len(during) > 5 + outage / opens + 3:
            problems.append(f"{policy}: asked {len(during)} times while it was down")
        results[policy] = {"asked": len(during), "requests": len(waits[policy]), "back": back, "worst": max(waits[policy]), "problems": problems}
        told(f"flap under {policy}: asked {len(during)} times in {outage} s, back after {back if back is None else round(back, 1)} s")
    return results


def play_after(start, provider, times, told):
    """One request after another to each fault that shows at once, with a healthy upstream behind it: milliseconds by fault."""
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
        waits[case.fault.name].append((first - (ended[-1] if ended else case.seen.begun)) * 1000)
    every = [wait for found in waits.values() for wait in found]
    told(f"first token after a failure: median {statistics.median(every):.1f} ms of {len(every)}, worst {max(every):.1f} ms")
    return waits
