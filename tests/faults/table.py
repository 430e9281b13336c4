"""The table of a run, as Markdown: `run --table` writes `docs/records/faults.md`."""

import collections
import datetime
import statistics

from faults import ALL, FAULTS
from matrix import FIRST_TOKEN_S, IDLE_S, POLICIES, SERIAL, TOTAL_S
from scenarios import OPENS, SCENARIOS, TIMES

HEAD = """# Faults

What happens when a provider fails: what the client sees, how often the provider is asked, and what the attempt's row says. `{command}` wrote this page on {day}, with scripted providers on raw
sockets, this version of the gateway, and clients that check every byte. `tests/faults/README.md` lists the faults with their expectations, and how to run them.

{counts}

## Every fault

Each fault was played on every surface that it fits (chat, completions, responses, messages, embeddings; chat, responses and messages also translated from another dialect), for clients that stream and for clients that do not.

- *Alone*: the model has only this upstream. *With a healthy one*: another upstream follows, under policies that ask one after the other (`fallback`, `fastest`, `weighted`). Under `race`, `hedge` and `adaptive` the client sees the same or better.
- *Asked*: requests at the failing provider / at the healthy one. *Row*: outcome and failure of the failing attempt.
- "whole": the complete answer. "broken": the stream ends in the error event of its surface, without its normal end. "empty": an answer without a token. A number: the HTTP status.
- `first_token` was {first:g} s, `idle` {idle:g} s, `total` {total:g} s; `retries` and `rescue` were off.

"""

ONWARD_HEAD = """
## With `retries` and `rescue`

The same with `retries = 2` and `rescue = "continue"`, for the faults that these change. *Waited*: median time from the request to the whole answer.

"""


def shown(case):
    if case.judged.kind == "error":
        return str(case.seen.status)
    return case.judged.kind


def most_common(values):
    """The values, the most frequent first, joined with "or"."""
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


def by_fault(found, column, last_cell):
    """One line for each fault: what clients saw, the number of requests, and a last cell with the cases next to a
    healthy upstream."""
    lines = [f"| fault | what the provider does | alone: stream | whole | with a healthy one: stream | whole | asked | {column} |", "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for name, fault in FAULTS.items():
        mine = [case for case in found if case.fault.name == name]
        if not mine:
            continue
        cells = []
        for beside in (False, True):
            for stream in (True, False):
                cells.append(most_common(shown(case) for case in mine if case.beside is beside and case.stream is stream and case.policy in SERIAL))
        serial = [case for case in mine if case.beside and case.policy in SERIAL]
        lines.append(f"| `{name}` | {fault.what} | {' | '.join(cells)} | {asked(serial)} | {last_cell(serial)} |")
    return lines


def fault_lines(found):
    return by_fault(found, "row", lambda cases: most_common(filter(None, (row_of(case) for case in cases))))


def policy_lines(found):
    lines = ["| policy | requests with a healthy upstream | whole | broken | other | median wait for the first token |", "| --- | --- | --- | --- | --- | --- |"]
    for policy in POLICIES:
        mine = [case for case in found if case.beside and case.policy == policy]
        kinds = collections.Counter(case.judged.kind for case in mine)
        waits = [case.seen.at(case.judged.first) - case.seen.begun for case in mine if case.judged.first is not None and case.stream]
        other = len(mine) - kinds["whole"] - kinds["broken"]
        lines.append(f"| `{policy}` | {len(mine)} | {kinds['whole']} | {kinds['broken']} | {other} | {statistics.median(waits) * 1000 if waits else 0:.0f} ms |")
    return lines


def onward_lines(found):
    return by_fault(found, "waited", lambda cases: f"{statistics.median(case.seen.end_at - case.seen.begun for case in cases):.2f} s")


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
            client = f"{whole} of {len(result.answers)} whole; back {back:.1f} s after recovery" if back is not None else f"{whole} whole; never back"
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
    counts = (f"{len(plain) + len(onward)} cases: {len(FAULTS)} faults on {len(ALL)} surfaces under {len(POLICIES)} policies. With a healthy upstream {whole} of "
              f"{sum(case.beside for case in plain)} requests got the whole answer without `retries` and `rescue`; the others broke off after a part of it, or were refused by a content "
              f"policy.\n\n**First token after a failure**, with a healthy candidate that answers at once: median {statistics.median(every):.1f} ms, 95 % within "
              f"{sorted(every)[int(len(every) * 0.95)]:.1f} ms, of {len(every)} (target: a median of at most 10 ms). After silence it "
              f"takes `first_token` plus {statistics.median(late):.0f} ms (median of {len(late)}, many at once).")
    parts = [HEAD.format(command=command, day=datetime.date.today(), counts=counts, first=FIRST_TOKEN_S, idle=IDLE_S, total=TOTAL_S), *fault_lines(plain), "\n## Policies\n",
             *policy_lines(plain), ONWARD_HEAD, *onward_lines(onward), "\n## A favourite that fails, then recovers\n",
             f"The first upstream is healthy, answers 503 for {outage} s, and recovers. Each policy is asked every 0.4 s; the breaker's `open` is "
             f"{OPENS[profile]:g} s. *Asked*: requests that it got while it failed.\n",
             "| policy | requests, all whole | asked | asked again after recovery | worst wait for a first token |", "| --- | --- | --- | --- | --- |",
             *[flap_line(policy, one) for policy, one in flaps.items()],
             "\n## First token after a failure\n", "| fault | median | worst | of |", "| --- | --- | --- | --- |",
             *[f"| `{name}` | {statistics.median(found):.1f} ms | {max(found):.1f} ms | {len(found)} |" for name, found in waits.items() if found],
             "\n## Sixteen scenarios\n",
             "A public failover suite ([failoverbench](https://github.com/failoverbench/failoverbench)), with its model names, requirements and times (" + {"full": "the published", "quick": "the fast"}[profile] + " ones). One configuration,",
             "`tests/faults/failover.toml`, serves all sixteen; nothing in it is for one of them.\n", *scenario_lines(results), ""]
    path.write_text("\n".join(parts))
