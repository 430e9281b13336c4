"""One server that plays all vendors, each under its name: `/openai/v1/chat/completions`. It refuses what the vendor's rules refuse, and
answers everything else with the next step of the run that the request names. Not a simulation of speed.
"""

import collections
import http.server
import itertools
import json
import pathlib
import re
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "clients"))
from scripted import asked as asking  # noqa: E402
from scripted import streams  # noqa: E402

from . import rules, signatures, steps, wholes  # noqa: E402

KEY = "sk-vendor"
PATHS = [
    (re.compile(r"^/v1/chat/completions$"), "openai"),
    (re.compile(r"^/v1/responses$"), "responses"),
    (re.compile(r"^/v1/messages(?:\?beta=true)?$"), "anthropic"),
    (re.compile(r"^/v1beta/models/([^/:]+):(?:streamGenerateContent\?alt=sse|generateContent)$"), "gemini"),
    (re.compile(r"^/model/([^/]+)/converse(?:-stream)?$"), "bedrock"),
]
COUNTS = re.compile(r"/messages/count_tokens|:countTokens")
STREAM_TYPES = {"bedrock": "application/vnd.amazon.eventstream"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer(404, {"error": {"message": f"no {self.path} here", "type": "not_found"}})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
        _, vendor, rest = self.path.split("/", 2)
        path = "/" + rest
        known = self.server.table.vendors.get(vendor)
        if known and COUNTS.search(path):
            return self.answer(200, {"input_tokens": 11, "totalTokens": 11})
        found = next(((dialect, hit) for pattern, dialect in PATHS if (hit := pattern.match(path))), None)
        if not known or not found or found[0] not in known["dialects"]:
            return self.refuse(vendor, path, "no-such-path", 404, json.dumps({"error": {"message": f"no {path} at {vendor}", "type": "not_found"}}))
        if not any(KEY in (self.headers.get(name) or "") for name in (known.get("key", "authorization"), "authorization", "x-api-key")):
            return self.refuse(vendor, path, "no-key", 401, json.dumps({"error": {"message": "no key", "type": "authentication_error"}}))
        dialect, hit = found
        model = hit[1].replace("%3A", ":") if hit.groups() else body.get("model", "")
        self.serve(vendor, dialect, model, path, body)

    def serve(self, vendor, dialect, model, path, body):
        broken = self.server.table.broken(vendor, dialect, model, body, self.headers)
        if broken:
            self.server.sent.append((vendor, dialect, broken.rule, body))
            return self.refuse(vendor, dialect, broken.rule, broken.status, broken.body)
        asked = asking.read(dialect, body)
        self.server.served[vendor, dialect] += 1
        self.server.sent.append((vendor, dialect, "", body))
        answer = self.server.runs.answer(asked, body, self.server.table.vendors[vendor].get("reasons", False))
        answer.signature = signatures.of(vendor)
        events = list(streams.write(dialect, answer, model, self.ids(vendor)))
        is_stream = body.get("stream") is True or "tream" in path
        if not is_stream:
            return self.answer(200, wholes.of(dialect, answer, events, model, self.ids(vendor)))
        self.send(200, STREAM_TYPES.get(dialect, "text/event-stream"), b"".join(events))

    def ids(self, vendor):
        form = self.server.table.vendors[vendor].get("call_ids")

        def id(prefix):
            number = next(self.server.numbers)
            if prefix == "call_" and form:
                return f"{number:09d}" if form == "nine" else f"functions.tool:{number}"
            return f"{prefix}{number:024d}"

        return id

    def refuse(self, vendor, dialect, rule, status, body):
        self.server.refused[vendor, dialect, rule] += 1
        self.send(status, "application/json", body.encode())

    def answer(self, status, body):
        self.send(status, "application/json", json.dumps(body).encode())

    def send(self, status, content_type, body):
        self.send_response(status)
        self.send_header("content-type", content_type)
        if status == 400 and self.path.startswith("/bedrock/"):
            self.send_header("x-amzn-errortype", "ValidationException")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    """Serves on a free loopback port from a thread of its own, until `shutdown`."""

    daemon_threads = True

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.table = rules.Table()
        self.runs = steps.Runs()
        self.refused = collections.Counter()  # by vendor, dialect and rule
        self.served = collections.Counter()  # by vendor and dialect
        self.sent = collections.deque(maxlen=400)  # vendor, dialect, the rule that was broken, and the request
        self.numbers = itertools.count(1)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        """A gateway may hang up at any byte."""

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"
