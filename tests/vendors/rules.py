"""The table of rules, and whether a request breaks one. Not for answers: see `fakes.py`."""

import dataclasses
import json
import pathlib
import re
import tomllib

from . import orders, signatures

TABLE = pathlib.Path(__file__).with_name("rules.toml")


@dataclasses.dataclass(frozen=True)
class Broken:
    """A rule that a request breaks, and the answer of the vendor."""

    rule: str
    status: int
    body: str


@dataclasses.dataclass(frozen=True)
class Found:
    """What of a request a condition is about."""

    path: tuple = ()
    value: object = ""
    count: int = 1


class Table:
    def __init__(self, path=TABLE):
        table = tomllib.loads(path.read_text())
        self.vendors, self.rules = table["vendor"], table["rule"]
        for rule in self.rules:
            if not re.match(r"20\d\d-?.*https://", rule.get("source", "")):
                raise ValueError(f"{rule['id']}: no public source with its date")

    def of(self, vendor, dialect, model):
        return [rule for rule in self.rules
                if vendor in rule["vendors"] and rule.get("dialect", dialect) == dialect and re.fullmatch(rule.get("models", ".*"), model)]

    def broken(self, vendor, dialect, model, body, headers):
        """The first rule that this request breaks."""
        for rule in self.of(vendor, dialect, model):
            found = [meets(condition, vendor, body, headers) for condition in rule["when"]]
            if all(found):
                return Broken(rule["id"], rule.get("status", 400), self.refusal(vendor, rule, model, found[0]))
        return None

    def refusal(self, vendor, rule, model, found):
        words = vocabulary(model, found)
        if "body" in rule:
            return fill(rule["body"], words)
        says = {name: json.dumps(fill(rule[name], words)) if rule.get(name) else "null" for name in ("says", "param", "code", "type")}
        return fill(self.vendors[vendor]["shape"], says | {"status": str(rule.get("status", 400))})


def fill(text, words):
    return re.sub(r"\{(\w+)\}", lambda found: words.get(found[1], found[0]), text)


def vocabulary(model, found):
    """The words that a refusal may contain."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in found.path).lstrip(".")
    member = str(found.path[-1]) if found.path else ""
    return {"model": model, "path": path, "loc": ".".join(map(str, found.path)), "locs": ",".join(json.dumps(part) for part in found.path),
            "member": member, "camel": re.sub("_(.)", lambda letter: letter[1].upper(), member), "value": str(found.value)[:200],
            "length": str(len(str(found.value))), "count": str(found.count), "index": str(next((part for part in found.path if isinstance(part, int)), 0))}


def meets(condition, vendor, body, headers):
    """What meets this condition, or None."""
    if "not" in condition:
        return None if meets(condition["not"], vendor, body, headers) else Found()
    if "order" in condition:
        found = orders.ORDERS[condition["order"]](body)
        return Found(*found) if found else None
    if "header" in condition:
        value = headers.get(condition["header"]) or ""
        return Found((condition["header"],), value) if fits(condition, value, vendor) else None
    if "keyword" in condition:
        every = [((*path, *inner), word) for path, schema in at(body, condition["keyword"]) for inner, word in keywords(schema)]
    else:
        every = [found for pattern in condition["at"].split("|") for found in at(body, pattern)]
    if condition.get("absent"):
        return None if every else Found((condition["at"],))
    if "more" in condition:
        return Found((condition["at"],), count=len(every)) if len(every) > condition["more"] else None
    if condition.get("twice"):
        values = [value for _, value in every]
        every = [found for found in every if values.count(found[1]) > 1]
    return next((Found(path, value) for path, value in every if fits(condition, value, vendor)), None)


def fits(condition, value, vendor):
    if condition.get("foreign"):
        return isinstance(value, str) and value != signatures.of(vendor)
    if "longer" in condition:
        return len(str(value)) > condition["longer"]
    text = value if isinstance(value, str) else json.dumps(value)
    if "like" in condition:
        return re.fullmatch(condition["like"], text) is not None
    return "unlike" not in condition or re.fullmatch(condition["unlike"], text) is None


def at(body, pattern):
    """All values at a path such as `tools.*.name`, with `*` for any member or item, `**` for any depth and `-1` for the last item."""
    found = [((), body)]
    for part in pattern.split("."):
        found = [inner for path, value in found for inner in step(path, value, part)]
    return found


def step(path, value, part):
    if part == "**":
        return every_depth(path, value)
    if isinstance(value, dict):
        names = list(value) if part == "*" else [part] if value.get(part) is not None else []
        return [((*path, name), value[name]) for name in names]
    if isinstance(value, list):
        places = range(len(value)) if part == "*" else [len(value) - 1] if part == "-1" and value else []
        return [((*path, place), value[place]) for place in places]
    return []


def every_depth(path, value):
    found = [(path, value)]
    for inner, deeper in step(path, value, "*"):
        found += every_depth(inner, deeper)
    return found


def keywords(schema, path=()):
    """The keywords of a schema at any depth, without the names of properties."""
    if not isinstance(schema, dict):
        return []
    found = [(path, word) for word in schema]
    for word, value in schema.items():
        if word == "properties" and isinstance(value, dict):
            for name, inner in value.items():
                found += keywords(inner, (*path, word, name))
        elif isinstance(value, dict) and word not in ("enum", "default", "example"):
            found += keywords(value, (*path, word))
        elif isinstance(value, list) and word in ("anyOf", "oneOf", "allOf"):
            for place, inner in enumerate(value):
                found += keywords(inner, (*path, word, place))
    return found
