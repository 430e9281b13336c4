"""The sixteen scenarios of a public failover suite (failoverbench/failoverbench): the same model names, the same
faults, and the requirements of that suite.

`failover.toml` is the configuration for them; it also works unchanged with that suite's own provider. The name of
the model selects the fault, and every healthy answer is the same sixty words. `flap` also runs under each policy.
"""

import asyncio
import dataclasses
import time
import typing

import caller
import faults
import grammar
from speech import TEXT, pieces

# Seconds. `full` has the times of the published suite, `quick` the times of its fast profile.
TIMES = {"full": {"retry_after": 2, "slow_first": 20, "stall": 30, "no_answer": 120, "outage": 60, "pace": 0.015},
         "quick": {"retry_after": 2, "slow_first": 3, "stall": 4, "no_answer": 15, "outage": 6, "pace": 0.005}}
# `open` of the breaker in seconds, for an outage of the preferred upstream under each policy.
OPENS = {"full": 5.0, "quick": 1.0}
FALLBACK, PICKY = "fb-ok", "fb-ok-noprefill"


# --- Behaviour of the provider ---------------------------------------------------------------------------------------

async def paced(x, say, words, ending):
    for word in say.words(words):
        await x.send(faults.chunk(word))
        await asyncio.sleep(x.times["pace"])
    for part in ending:
        await x.send(faults.chunk(part))


async def answer(x, say, cut=None, stall=None, slow=False, broken=None, done=True):
    """The usual answer at a pace, or the rest of it after a prefix."""
    given = say.prefix() or ""
    words = pieces(len(given.split()) if TEXT.startswith(given) else 0)
    if not say.asked.get("stream"):
        return await faults.good(x, say)
    await x.send(faults.STREAM)
    if slow:
        await asyncio.sleep(x.times["slow_first"])
    await x.send(faults.chunk(say.begin()))
    if cut or stall:
        await paced(x, say, words[:cut or stall], [])
        if stall:
            await x.linger(x.times["stall"])
        return x.close()
    if broken:
        await paced(x, say, words[:broken], [])
        await x.send(faults.chunk('data: {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [{"delta": {"content": \n\n'))
        words = words[broken:]
    counted = say.chunk({}, usage=say.usage).replace('"choices":[{"index":0,"delta":{},"finish_reason":null}]', '"choices":[]')
    await paced(x, say, words, [say.finish(counted=False), counted, *([say.done()] if done else [])])
    await x.send(faults.LAST)


def limited(once, after):
    async def play(x, say):
        if once and x.attempt > 1:
            return await answer(x, say)
        headers = f"retry-after: {x.times['retry_after']}\r\n" if after else ""
        await x.send(faults.whole(429, say.error("Rate limit reached for this model.", "rate_limit_error", "rate_limit_exceeded"), headers))
    return play


async def broken_once(x, say):
    if x.attempt > 1:
        return await answer(x, say)
    await x.send(faults.whole(500, say.error("The server had an error while processing your request.", "server_error")))


async def overloaded(x, say):
    await x.send(faults.whole(503, say.error(faults.BUSY["message"], "server_error", "overloaded")))


async def reset_once(x, say):
    if x.attempt > 1:
        return await answer(x, say)
    x.reset()


async def no_answer(x, say):
    await x.linger(x.times["no_answer"])
    x.close()


async def flap(x, say):
    """Healthy for a while (not at all in S15), down for a minute, then healthy."""
    at = time.monotonic() - x.times["begun"] - x.times.get("warm", 0)
    x.line["healthy"], x.line["healed"] = not 0 <= at < x.times["outage"], at >= x.times["outage"]
    await (answer(x, say) if x.line["healthy"] else overloaded(x, say))


async def picky(x, say):
    if say.prefix() is not None:
        return await faults.no_prefix(x, say)
    await answer(x, say)


def with_options(**options):
    async def play(x, say):
        await answer(x, say, **options)
    return play


async def too_long(x, say):
    await faults.FAULTS["context"].play(x, say)


async def refused(x, say):
    await faults.FAULTS["policy"].play(x, say)


PLAYS = {
    FALLBACK: answer, PICKY: picky, "flap": flap,
    "fb-s01-429-retry-after": limited(True, True), "fb-s02-429-persistent": limited(False, False), "fb-s03-500-then-200": broken_once,
    "fb-s04-503-persistent": overloaded, "fb-s05-reset": reset_once, "fb-s06-no-response": no_answer, "fb-s07-slow-ttft": with_options(slow=True),
    "fb-s08-stream-cut": with_options(cut=40), "fb-s09-stream-stall": with_options(stall=20), "fb-s10-malformed-chunk": with_options(broken=10),
    "fb-s11-no-done": with_options(done=False), "fb-s12-context-length": too_long, "fb-s13-content-filter": refused,
    "fb-s14-stream-cut": with_options(cut=40), "fb-s15-flap": flap, "fb-s16-503-persistent": overloaded,
}


# --- Expected results ------------------------------------------------------------------------------------------------

@dataclasses.dataclass
class Result:
    """One scenario's results: the answers, and what the first upstream received."""

    answers: list  # (seconds since the beginning, Seen, Judged) of each answer
    first: list
    begun: float
    outage: float
    problems: list = dataclasses.field(default_factory=list)

    @property
    def seen(self):
        return self.answers[-1][1]

    @property
    def judged(self):
        return self.answers[-1][2]

    @property
    def seconds(self):
        return self.seen.end_at - self.seen.begun

    def must(self, holds, text):
        if not holds:
            self.problems.append(text)

    def whole(self):
        """The client has the whole answer, every word."""
        self.must(self.judged.kind == "whole" and self.judged.text == TEXT, f"not the whole answer: {self.judged}, status {self.seen.status}")

    def asked(self, least, most):
        self.must(least <= len(self.first) <= most, f"the first upstream was asked {len(self.first)} times, not {least} to {most}")

    def within(self, seconds):
        self.must(self.seconds <= seconds, f"it took {self.seconds:.1f} s, more than {seconds}")

    def gap(self):
        return self.first[1]["at"] - self.first[0]["at"] if len(self.first) > 1 else None


@dataclasses.dataclass(frozen=True)
class Scenario:
    id: str
    title: str
    model: str
    check: typing.Callable
    # A sequence of requests: how many, and seconds between them, in `full` and `quick`.
    sequence: dict | None = None


SCENARIOS: list[Scenario] = []


def scenario(id, title, model, **options):
    def add(check):
        SCENARIOS.append(Scenario(id, title, model, check, **options))
        return check
    return add


@scenario("S01", "429 with Retry-After: 2, once", "fb-s01-429-retry-after")
def s01(result):
    result.whole()
    result.asked(2, 6)
    result.must((result.gap() or 0) >= 1.8, f"the second request came after {result.gap()} s, before Retry-After was over")


@scenario("S02", "429 without Retry-After, always", "fb-s02-429-persistent")
def s02(result):
    result.whole()
    result.asked(1, 6)
    soon = [line for line in result.first if line["at"] - result.first[0]["at"] < 3]
    result.must(len(soon) <= 4, f"{len(soon)} requests within 3 s")


@scenario("S03", "500 once, then healthy", "fb-s03-500-then-200")
def s03(result):
    result.whole()
    result.asked(2, 6)


@scenario("S04", "503, always", "fb-s04-503-persistent")
def s04(result):
    result.whole()
    result.asked(1, 6)


@scenario("S05", "reset before the head, once", "fb-s05-reset")
def s05(result):
    result.whole()


@scenario("S06", "no answer at all", "fb-s06-no-response")
def s06(result):
    result.whole()
    result.asked(1, 1)
    result.within(100)


@scenario("S07", "the first token after 20 s", "fb-s07-slow-ttft")
def s07(result):
    result.whole()
    result.within(15)


@scenario("S08", "cut after 40 of 60 tokens", "fb-s08-stream-cut")
def s08(result):
    result.whole()


@scenario("S09", "stalls after 20 of 60 tokens", "fb-s09-stream-stall")
def s09(result):
    result.whole()
    result.within(45)


@scenario("S10", "one event is broken JSON", "fb-s10-malformed-chunk")
def s10(result):
    result.whole()


@scenario("S11", "no [DONE] at the end", "fb-s11-no-done")
def s11(result):
    result.whole()
    result.within(8)
    result.must(result.judged.usage, "no usage")


@scenario("S12", "the prompt is too long for the model", "fb-s12-context-length")
def s12(result):
    result.whole()
    result.asked(1, 1)


@scenario("S13", "refused by a content policy", "fb-s13-content-filter")
def s13(result):
    result.must(result.judged.kind == "error", f"not an error: {result.judged}")
    result.must("safety system" in result.judged.message, f"without the provider's reason: {result.judged.message[:120]}")
    result.asked(1, 1)


@scenario("S14", "cut, and the fallback refuses a prefix", "fb-s14-stream-cut")
def s14(result):
    result.whole()


@scenario("S15", "down for a minute, then healthy", "fb-s15-flap", sequence={"full": (20, 4.0), "quick": (10, 1.2)})
def s15(result):
    wrong = [f"{at:.1f} s: {judged}" for at, seen, judged in result.answers if judged.kind != "whole" or judged.text != TEXT]
    result.must(not wrong, f"{len(wrong)} of {len(result.answers)} answers are not whole: {wrong[:2]}")
    back = [line["at"] - result.begun - result.outage for line in result.first if line["healthy"]]
    result.must(back and back[0] <= 30, f"back at the first upstream {f'{back[0]:.1f} s' if back else 'never'} after it was well")


@scenario("S16", "503 always: who is named, and what is counted", "fb-s16-503-persistent")
def s16(result):
    result.whole()
    result.asked(1, 6)
    result.must(result.judged.model == FALLBACK, f"the answer names {result.judged.model}")
    result.must(result.judged.usage, "no usage")


async def play(one, port, provider_log, profile):
    """Runs a scenario and collects the provider's log. `provider_log(models)` does not wait."""
    count, pause = one.sequence[profile] if one.sequence else (1, 0)
    begun, answers = time.monotonic(), []
    for at in range(count):
        await asyncio.sleep(max(0.0, begun + at * pause - time.monotonic()))
        asked_at = time.monotonic() - begun
        seen = await caller.call(port, "chat", one.model, True, timeout=130)
        answers.append((asked_at, seen, grammar.judge("chat", True, seen)))
    lines = [line for line in provider_log() if line["at"] >= begun]
    result = Result(answers, [line for line in lines if line["kind"] == one.model], begun, TIMES[profile]["outage"])
    for _, _, judged in answers:
        for problem in judged.problems:
            result.must(False, f"the client: {problem}")
    one.check(result)
    return result
