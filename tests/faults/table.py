"""The table of a run, as Markdown: `run --table` writes `docs/records/faults.md`."""

import collections
import datetime
import statistics

from faults import ALL, FAULTS
from matrix import FIRST_TOKEN_S, IDLE_S, POLICIES, SERIAL, TOTAL_S
from scenarios import OPENS, TIMES

PAGE = """# Faults

What a client sees when a provider fails. `{command}` wrote this page on {day}, with scripted providers on raw sockets and clients that check every byte. `tests/faults/README.md` says how to run it.

- **Cases**: {cases}, of {faults} faults on {surfaces} surfaces under {policies} policies. With a healthy upstream {whole} of {beside} requests got the whole answer without `retries` and `rescue`; the others broke off after a part of it, or were refused by a content policy.
- **First token after a failure**, with a healthy upstream that answers at once: {after_ms:.1f} ms at the median (at most 10 wanted), 95 % within {after_p95_ms:.1f} ms, of {afters}. After silence it takes `first_token` and {late_ms:.0f} ms (median of {lates}, many at once).
- **A favourite that answers 503 for {outage} s**, under each policy, asked every 0.4 s, with a breaker's `open` of {open:g} s: it was asked {asked} times meanwhile, and again {back} after its recovery. {flapped}, the worst wait for a first token {worst} ms.
- **Public scenarios**: {solved} of the {scenarios} scenarios of [failoverbench](https://github.com/failoverbench/failoverbench), with its {times} times and one configuration for all (`tests/faults/failover.toml`), were solved{unsolved}.

## Every fault

`tests/faults/run --list` says what each fault is. *Alone*: the model has only this upstream. *Healthy*: another one follows, under policies that ask one after the other; under `race`, `hedge` and `adaptive` the client sees the same or better. *Going on*: the same with `retries = 2` and `rescue = "continue"`, where that changes it; then {once} faults that happen once are also whole alone. Two values: the first for clients that stream, the second for others.

"whole": the complete answer. "broken": the stream ends in the error event of its surface. "empty": an answer without a token. A number: the status. `first_token` was {first:g} s, `idle` {idle:g} s, `total` {total:g} s.

| faults | alone | healthy | going on |
| --- | --- | --- | --- |
{rows}
"""


def shown(case):
    if case.judged.kind == "error":
        return str(case.seen.status)
    return case.judged.kind


def most_common(values):
    """The values, the most frequent first, joined with "or"."""
    return " or ".join(value for value, _ in collections.Counter(values).most_common(3)) or "–"


def seen_of(found, name, beside):
    """What clients saw of a fault: those that stream, and the others."""
    mine = [case for case in found if case.fault.name == name and case.beside is beside and case.policy in SERIAL]
    return tuple(most_common(shown(case) for case in mine if case.stream is stream) for stream in (True, False))


def cell(seen):
    streamed, plain = seen
    return streamed if streamed == plain else f"{streamed}, {plain}"


def outcome(alone, healthy, onward):
    changed = cell(onward) if onward and onward != healthy else ""
    return cell(alone), cell(healthy), changed


def span(values, digits=0):
    low, high = (f"{value:.{digits}f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def write(path, command, profile, plain, onward, results, flaps, waits):
    every = sorted(wait for found in waits.values() for wait in found)
    late = [case.after_ms for case in plain if case.after_ms is not None and case.fault.silent]
    beside = [case for case in plain if case.beside]
    played, gone_on = {case.fault.name for case in plain}, {case.fault.name for case in onward}
    outcomes = collections.defaultdict(list)
    for name in FAULTS:
        if name in played:
            outcomes[outcome(seen_of(plain, name, False), seen_of(plain, name, True), name in gone_on and seen_of(onward, name, True))].append(f"`{name}`")
    rows = [f"| {', '.join(names)} | {' | '.join(cells)} |" for cells, names in outcomes.items()]
    once = [name for name in gone_on if FAULTS[name].once and set(seen_of(onward, name, False)) == {"whole"}]
    unsolved = [name for name, result in results.items() if result.problems]
    backs = [one["back"] for one in flaps.values()]
    path.write_text(PAGE.format(
        command=command, day=datetime.date.today(), cases=len(plain) + len(onward), faults=len(FAULTS), surfaces=len(ALL), policies=len(POLICIES),
        whole=sum(case.judged.kind == "whole" for case in beside), beside=len(beside),
        after_ms=statistics.median(every), after_p95_ms=every[int(len(every) * 0.95)], afters=len(every), late_ms=statistics.median(late), lates=len(late),
        outage=TIMES[profile]["outage"], open=OPENS[profile], asked=span([one["asked"] for one in flaps.values()]), back="never" if None in backs else span(backs, 1) + " s",
        flapped="Not all was as expected" if any(one["problems"] for one in flaps.values()) else "Every answer was whole",
        worst=span([one["worst"] * 1000 for one in flaps.values()]), solved=len(results) - len(unsolved), scenarios=len(results),
        times={"full": "published", "quick": "fast"}[profile], unsolved=f", not {', '.join(unsolved)}" if unsolved else "",
        once=len(once), first=FIRST_TOKEN_S, idle=IDLE_S, total=TOTAL_S, rows="\n".join(rows)))
