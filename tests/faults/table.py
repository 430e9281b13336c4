"""The table of a run, as Markdown: `docs/faults.md` is written by `run --table`."""

import collections
import datetime
import statistics

from faults import ALL, FAULTS
from matrix import FIRST_TOKEN_S, IDLE_S, POLICIES, SERIAL, TOTAL_S
from scenarios import OPENS, SCENARIOS, TIMES

HEAD = """# Faults

What happens when a provider fails: what the client sees, how often the provider is asked, and what the row of the attempt says. `{command}`
wrote this page on {day}: scripted providers on raw sockets, a gateway of this version, and clients that check every byte that
they get. [`tests/faults`](../tests/faults/README.md) has the faults, what is expected of each, and how to run them again.

{counts}

## Every fault

Each was played on every surface that it makes sense for (chat, completions, responses, messages and embeddings; chat, responses and messages translated
from another dialect too), for clients that stream and for those that do not. *Alone*: the model has this upstream only. *Beside a healthy one*: another upstream follows in the list,
and the policy asks one after the other (`fallback`, `fastest`, `weighted`); under `race`, `hedge` and `adaptive` the client sees the same or better. *Asked* is how many requests the failing provider
saw and, behind the slash, the healthy one. *Row* is the outcome of the failing attempt, with its failure. "whole": the whole answer, every word of it.
`first_token` was {first:g} s, `idle` {idle:g} s and `total` {total:g} s; `retries` and `rescue` were off, as by default. `broken`: the stream ends in the error event of its surface, without its normal end.

"""

ONWARD_HEAD = """
## With `retries` and `rescue`

The same with `retries = 2` and `rescue = "continue"`, for faults that these change. *Waited*: from the request to the whole answer, median.

"""


def told(case):
    if case.judged.kind == "error":
        return str(case.seen.status)
    return case.judged.kind


def most_common(values):
    """The values, the most frequent first, with "or" between."""
    return " or ".join(value for value, _ in collections.Counter(values).most_common(3)) or "–"


def row_of(case):
    for row in case.rows:
        if row["model_sent"].startswith(case.fault.name + "~"):
            return f"`{row['outcome']}`" + (f" `{row['failure']}`" if row["failure"] and row["failure"] != row["outcome"] else "")
    return None


def asked(found):
    counts = collections.Counter()
    for case in found:
        bad = sum(line["kind"] == case.fault.name for line in case.exchanges)
        counts[f"{bad}/{len(case.exchanges) - bad}"] += 1
    return most_common(counts.elements())


def fault_lines(found):
    lines = ["| fault | what the provider does | alone: stream | whole | beside a healthy one: stream | whole | asked | row |", "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for name, fault in FAULTS.items():
        mine = [case for case in found if case.fault.name == name]
        if not mine:
            continue
        cells = []
        for beside in (False, True):
            for stream in (True, False):
                cells.append(most_common(told(case) for case in mine if case.beside is beside and case.stream is stream and (case.policy in SERIAL)))
        serial = [case for case in mine if case.beside and case.policy in SERIAL]
        rows = most_common(filter(None, (row_of(case) for case in serial)))
        lines.append(f"| `{name}` | {fault.what} | {' | '.join(cells)} | {asked(serial)} | {rows} |")
    return lines


def policy_lines(found):
    lines = ["| policy | requests beside a healthy upstream | whole | broken | other | median wait for the first token |", "| --- | --- | --- | --- | --- | --- |"]
    for policy in POLICIES:
        mine = [case for case in found if case.beside and case.policy == policy]
        kinds = collections.Counter(case.judged.kind for case in mine)
        waits = [case.seen.at(case.judged.first) - case.seen.begun for case in mine if case.judged.first is not None and case.stream]
        other = len(mine) - kinds["whole"] - kinds["broken"]
        lines.append(f"| `{policy}` | {len(mine)} | {kinds['whole']} | {kinds['broken']} | {other} | {statistics.median(waits) * 1000 if waits else 0:.0f} ms |")
    return lines


def onward_lines(found):
    lines = ["| fault | what the provider does | alone: stream | whole | beside a healthy one: stream | whole | asked | waited |", "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for name, fault in FAULTS.items():
        mine = [case for case in found if case.fault.name == name]
        if not mine:
            continue
        cells = []
        for beside in (False, True):
            for stream in (True, False):
                cells.append(most_common(told(case) for case in mine if case.beside is beside and case.stream is stream and case.policy in SERIAL))
        serial = [case for case in mine if case.beside and case.policy in SERIAL]
        waits = [case.seen.end_at - case.seen.begun for case in serial]
        lines.append(f"| `{name}` | {fault.what} | {' | '.join(cells)} | {asked(serial)} | {statistics.median(waits):.2f} s |")
    return lines


def scenario_lines(results):
    lines = ["| | scenario | client | first upstream asked | seconds |", "| --- | --- | --- | --- | --- |"]
    for one in SCENARIOS:
        result = results.get(one.id)
        if result is None:
            continue
        gap = f", {result.gap():.1f} s apart" if result.gap() and not one.sequence else ""
        if one.sequence:
            whole = sum(judged.kind == "whole" for _, _, judged in result.answers)
            back = next((line["at"] - result.begun - result.outage for line in result.first if line["healthy"]), None)
            client = f"{whole} of {len(result.answers)} whole; back {back:.1f} s after it was well" if back is not None else f"{whole} whole; never back"
        else:
            client = "whole" if result.judged.kind == "whole" else f"{result.judged.kind} {result.seen.status}"
        solved = "" if not result.problems else " **not solved**"
        lines.append(f"| {one.id} | {one.title} | {client}{solved} | {len(result.first)}{gap} | {result.seconds:.1f} |")
    return lines


def flap_line(policy, one):
    back = "never" if one["back"] is None else f"{one['back']:.1f} s"
    return f"| `{policy}` | {one['requests']} | {one['asked']} | {back} | {one['worst'] * 1000:.0f} ms |"


def write(path, command, profile, plain, onward, results, flaps, waits):
    every = [wait for found in waits.values() for wait in found]
    outage = TIMES[profile]["outage"]
    whole = sum(case.judged.kind == "whole" for case in plain if case.beside)
    late = [case.after_ms for case in plain if case.after_ms is not None and case.fault.silent]
    counts = (f"{len(plain) + len(onward)} cases: {len(FAULTS)} faults on {len(ALL)} surfaces under {len(POLICIES)} policies. Beside a healthy upstream {whole} of "
              f"{sum(case.beside for case in plain)} requests got the whole answer without `retries` and `rescue`; the others had a part of it before the harm, or were refused by a content "
              f"policy.\n\n**First token after a failure**, where a healthy candidate answers at once: median {statistics.median(every):.1f} ms, 95 % within "
              f"{sorted(every)[int(len(every) * 0.95)]:.1f} ms, of {len(every)} (target: a median of at most 10 ms). After silence it "
              f"is the time-out (`first_token`), and {statistics.median(late):.0f} ms more (median of {len(late)}, many at once).")
    parts = [HEAD.format(command=command, day=datetime.date.today(), counts=counts, first=FIRST_TOKEN_S, idle=IDLE_S, total=TOTAL_S), *fault_lines(plain), "\n## Policies\n",
             *policy_lines(plain), ONWARD_HEAD, *onward_lines(onward), "\n## A favourite that is down, and then well\n",
             f"The first upstream is well, answers 503 for {outage} s, and is well again; each policy is asked every 0.4 s, with a breaker whose `open` is "
             f"{OPENS[profile]:g} s. *Asked*: requests that it saw while it was down.\n",
             "| policy | requests, all whole | asked | asked again after it was well | worst wait for a first token |", "| --- | --- | --- | --- | --- |",
             *[flap_line(policy, one) for policy, one in flaps.items()],
             "\n## First token after a failure\n", "| fault | median | worst | of |", "| --- | --- | --- | --- |",
             *[f"| `{name}` | {statistics.median(found):.1f} ms | {max(found):.1f} ms | {len(found)} |" for name, found in waits.items() if found],
             "\n## Sixteen scenarios\n",
             "Those of a public failover suite ([failoverbench](https://github.com/failoverbench/failoverbench)), played with its model names, its demands and its times (" + {"full": "the published", "quick": "the fast"}[profile] + " ones) by",
             "[`failover.toml`](../tests/faults/failover.toml): one configuration for all sixteen, nothing in it for one of them.\n", *scenario_lines(results), ""]
    path.write_text("\n".join(parts))
