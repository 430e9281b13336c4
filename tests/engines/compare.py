"""Compares a server's own answer with the one through the gateway, member by member and, where nothing is put together,
byte by byte."""

import json
import re

# What each answer has anew, and how it is written. Only that it is there, and of the same type, is compared.
OF_REQUEST = {"id", "item_id", "call_id", "created", "created_at", "completed_at", "timings", "request_id"}
MASK = re.compile(rf'"({"|".join(sorted(OF_REQUEST))})"\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|\{{[^{{}}]*\}})')
# By how much of itself a number may differ by rounding: measured on llama.cpp: up to a third of this.
ROUNDING = 0.01
# Bytes of a value that is shown.
SHOWN_MAX = 160


class Number(str):
    """As it is written: every digit counts."""


def parse(text):
    return json.loads(text, parse_float=Number, parse_int=Number)


def masked(text):
    return MASK.sub(lambda found: f'"{found[1]}":{kind(parse(found[2]))}', text)


def kind(value):
    if isinstance(value, dict):
        return "object"
    return {Number: "number", str: "string", list: "list", type(None): "null"}.get(type(value), "boolean")


def events(body):
    """The events of a stream, as texts."""
    return [event for event in body.replace("\r\n", "\n").split("\n\n") if event.strip()]


def data(event):
    """The parsed data of an event; None if it has none."""
    lines = [line[5:].strip() for line in event.split("\n") if line.startswith("data:")]
    try:
        return parse("\n".join(lines))
    except ValueError:
        return None


def shown(value):
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX // 2]} … {text[-SHOWN_MAX // 2:]}"


def general(path):
    """The path of every item."""
    return re.sub(r"\[\d+\]", "[]", path)


def differences(own, got, path="", assembled=False):
    """(path, what differs) for each member. `assembled`: a member that is null may as well be absent, and no content be
    empty."""
    name = path.rsplit(".", 1)[-1]
    if assembled and own in (None, "") and got in (None, ""):
        return
    if name in OF_REQUEST and own is not None:
        if kind(own) != kind(got):
            yield path, f"is {kind(got)}, not {kind(own)}"
    elif isinstance(own, dict) and isinstance(got, dict):
        for name in [*own, *(got.keys() - own.keys())]:
            inner = f"{path}.{name}" if path else name
            if assembled:
                yield from differences(own.get(name), got.get(name), inner, assembled)
            elif name not in got:
                yield inner, f"is lost: {shown(own[name])}"
            elif name not in own:
                yield inner, f"is not the server's: {shown(got[name])}"
            else:
                yield from differences(own[name], got[name], inner)
    elif isinstance(own, list) and isinstance(got, list):
        if len(own) != len(got):
            yield path, f"has {len(got)} items, not {len(own)}: {shown(got)}, not {shown(own)}"
        for at, (one, other) in enumerate(zip(own, got)):
            yield from differences(one, other, f"{path}[{at}]", assembled)
    elif own != got or type(own) is not type(got):
        yield path, f"{shown(got)}, not {shown(own)}"


def is_failure(status, _media_type, body):
    """Whether a server says by an answer that it failed: a 5xx, or an error in a 200."""
    if status >= 500 or status == 0:
        return True
    parts = [data(event) for event in events(body)] if status == 200 else []
    parts += [parse(body)] if status == 200 and body.startswith("{") else []
    parts = [part for part in parts if isinstance(part, dict)]
    return any(part.get("error") or (part.get("response") or {}).get("error") for part in parts)


def is_rounding(what):
    """Whether a difference is one of rounding: servers compute two requests at once otherwise than one."""
    numbers = re.fullmatch(r'"(-?[0-9.e-]+)", not "(-?[0-9.e-]+)"', what)
    if not numbers or "." not in numbers[1] or "." not in numbers[2]:
        return False
    one, other = float(numbers[1]), float(numbers[2])
    return abs(one - other) <= ROUNDING * max(abs(one), abs(other))


def plain(own, got, assembled):
    """Of two whole answers: of their bytes, but where one was put together."""
    if masked(own) == masked(got):
        return []
    try:
        found = list(differences(parse(own), parse(got), assembled=assembled))
    except ValueError as error:
        return [("", f"{error}: {shown(got)}, not {shown(own)}")]
    return found if found or assembled else [("", f"the bytes differ, the members do not: {shown(got)}, not {shown(own)}")]


def streams(own, got):
    """Of two streams, event by event."""
    if "[DONE]" not in own:
        # Some servers send none, and SDKs wait for it.
        got = got.removesuffix("data: [DONE]\n\n")
    if masked(own) == masked(got):
        return []
    ours, theirs = events(got), events(own)
    found = []
    for at in range(max(len(ours), len(theirs))):
        one, other = theirs[at] if at < len(theirs) else "", ours[at] if at < len(ours) else ""
        if masked(one) != masked(other):
            parts = (data(one), data(other))
            inner = list(differences(*parts)) if None not in parts else []
            found += [(f"event {at}: {path}", what) for path, what in inner] or [(f"event {at}", f"{shown(other)}, not {shown(one)}")]
    return found or [("", "the bytes between the events differ")]
