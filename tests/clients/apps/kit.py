"""Shared parts of the Python client scripts: the address of the gateway, the abilities of the model behind it, and one
printed line per check."""

import base64
import os
import sys
import traceback

URL = os.environ["PF_URL"]
TOKEN = os.environ["PF_TOKEN"]
SPENT_TOKEN = os.environ["PF_SPENT_TOKEN"]  # of a user whose budget is spent
MODEL = os.environ["PF_MODEL"]
LONG_MODEL = os.environ["PF_LONG_MODEL"]  # generates until its client leaves
EMBEDDER = os.environ.get("PF_EMBEDDER", MODEL)
SCRIPTED = os.environ["PF_UPSTREAM"] == "script"  # it calls tools, and its answer lists what the upstream received
DIALECTS = os.environ["PF_DIALECTS"].split(",")  # of the upstreams
# A wrong token is sent once by each client: after ten within a minute the gateway refuses them with 429.
TRIES_WRONG_TOKEN = len(DIALECTS) == 1 and os.environ["PF_DIALECT"] == DIALECTS[0]
# llama-server's own Responses streams have neither sequence numbers nor output indexes, and its answers lack members that the
# SDKs require. The gateway passes them on as they are.
BARE_RESPONSES = not SCRIPTED and "responses" in DIALECTS

# A red pixel, and a minimal PDF.
PNG = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC")
PDF = base64.b64encode(b"%PDF-1.4\n1 0 obj<<>>endobj\ntrailer<<>>\n%%EOF\n").decode()
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "celsius": {"type": "integer"}},
          "required": ["city", "celsius"], "additionalProperties": False}

checks = []


def check(function):
    """Runs with every upstream."""
    checks.append(function)
    return function


def scripted(function):
    """Runs only with the scripted upstream."""
    return check(function) if SCRIPTED else function


def has(text, *parts):
    """Checks that the upstream received all of these, by its digest."""
    missing = [part for part in parts if part not in text]
    assert not missing, f"{missing} not in {text!r}"


def cannot_say(*dialects):
    """Whether all upstreams use one of these dialects, which cannot express a feature."""
    return set(DIALECTS) <= set(dialects)


def refused_once(kind, ask):
    """Spends a budget, and checks that then it is an error of the SDK's own, and is not asked for again. `ask` gets options of an httpx client."""
    for _ in range(50):
        sent = []
        try:
            ask({"event_hooks": {"request": [sent.append]}})
        except kind as error:
            assert "are spent" in str(error), error
            assert len(sent) == 1, f"{len(sent)} requests"
            return
    raise AssertionError(f"no {kind.__name__}")


def run():
    failed = 0
    for function in checks:
        name = function.__name__.replace("_", " ")
        try:
            function()
            print(f"ok {name}", flush=True)
        except Exception as error:
            failed += 1
            where = traceback.extract_tb(error.__traceback__)[1:2] or traceback.extract_tb(error.__traceback__)
            print(f"FAIL {name}: {type(error).__name__}: {' '.join(str(error).split())[:600]} (line {where[-1].lineno})", flush=True)
            if os.environ.get("PF_TRACE"):
                traceback.print_exc()
    sys.exit(failed > 0)
