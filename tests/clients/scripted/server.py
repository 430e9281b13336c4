"""The scripted upstream: one HTTP server for all six dialects. It does what a random model never does, such as calling
a tool. Not a simulation of speed: see the gateway's own simulator.
"""

import collections
import http.server
import itertools
import json
import re
import threading
import time

from . import asked as asking
from . import play, streams

KEY = "sk-script"
PATHS = [
    (re.compile(r"^/v1/chat/completions$"), "openai"),
    (re.compile(r"^/v1/responses$"), "responses"),
    (re.compile(r"^/v1/messages$"), "anthropic"),
    (re.compile(r"^/v1beta/models/([^/:]+):streamGenerateContent\?alt=sse$"), "gemini"),
    (re.compile(r"^/model/([^/]+)/converse-stream$"), "bedrock"),
    (re.compile(r"^/api/chat$"), "ollama"),
    (re.compile(r"^/api/generate$"), "ollama_generate"),
]
TYPES = {"bedrock": "application/vnd.amazon.eventstream", "ollama": "application/x-ndjson", "ollama_generate": "application/x-ndjson"}
KEPT = re.compile(r"^/v1/(files|batches)(?:/([^/?]+))?(?:/(\w+))?(?:\?.*)?$")
KEY_HEADERS = {"anthropic": "x-api-key", "gemini": "x-goog-api-key"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.keep(b"")

    do_DELETE = do_GET

    def keep(self, body):
        """Files and batches: one of each, and the file is the last that was sent."""
        kind, name, part = KEPT.match(self.path).groups()
        if self.headers.get("authorization") != f"Bearer {KEY}":
            return self.json(401, {"error": {"message": "no key", "type": "invalid_request_error"}})
        if kind == "files" and self.command == "POST":
            self.server.file = body
        if part == "content":
            return self.bytes(200, "application/octet-stream", self.server.file)
        one = {"id": "file-1", "object": "file", "bytes": len(self.server.file), "created_at": streams.NOW, "filename": "a.jsonl",
               "purpose": "batch", "status": "processed"}
        if kind == "batches":
            one = {"id": "batch-1", "object": "batch", "endpoint": "/v1/chat/completions", "input_file_id": "file-1", "created_at": streams.NOW,
                   "completion_window": "24h", "status": "cancelling" if part else "validating"}
        if self.command == "DELETE":
            one = {"id": name, "object": "file", "deleted": True}
        self.json(200, one if name or self.command == "POST" else {"object": "list", "data": [one], "has_more": False})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if KEPT.match(self.path):
            return self.keep(body)
        try:
            body = json.loads(body)
            self.path = self.path.removesuffix("?beta=true")
            plain = {"/v1/messages/count_tokens": self.count, "/v1/embeddings": self.embed, "/v1/completions": self.complete,
                     "/api/embed": self.ollama_embed, "/v1/rerank": self.rerank}
            if self.path in plain:
                return plain[self.path](body)
            if self.path.startswith("/v1beta/") and self.path.endswith(":countTokens"):
                return self.json(200, {"totalTokens": 11})
            if self.path.startswith("/v1beta/") and self.path.endswith(":batchEmbedContents"):
                return self.json(200, {"embeddings": [{"values": [0.5, 0.25]} for _ in body["requests"]]})
            dialect, model = self.dialect(body)
            if dialect:
                return self.stream(dialect, model, body)
        except (BrokenPipeError, ConnectionResetError):
            return self.hung_up()
        except Exception as error:
            self.server.trouble.append(f"{self.path}: {error!r}: {json.dumps(body)[:2000] if isinstance(body, dict) else body[:2000]}")
            return self.json(500, {"error": {"message": repr(error), "type": "server_error"}})
        self.json(404, {"error": {"message": f"no {self.path} here", "type": "not_found"}})

    def dialect(self, body):
        for pattern, dialect in PATHS:
            if found := pattern.match(self.path):
                return dialect, found[1] if found.groups() else body["model"]
        return None, None

    def stream(self, dialect, model, body):
        asked = asking.read(dialect, body)
        self.server.asked[dialect] += 1
        self.server.bodies.append((dialect, body))
        name = KEY_HEADERS.get(dialect, "authorization")
        if KEY not in (self.headers.get(name) or ""):
            return self.error(dialect, 401, f"no key in {name}")
        if dialect == "anthropic" and not self.headers.get("anthropic-version"):
            return self.error(dialect, 400, "anthropic-version: header is required")
        if dialect in ("openai", "responses", "anthropic") and body.get("stream") is not True:
            return self.error(dialect, 400, "the script only streams")
        if "fail now" in asked.last:
            return self.error(dialect, 400, "the script was told to fail")
        self.send_response(200)
        self.send_header("content-type", TYPES.get(dialect, "text/event-stream"))
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in streams.write(dialect, play.answer(asked), model, self.server.id):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
            time.sleep(0.0005)
        self.wfile.write(b"0\r\n\r\n")

    def hung_up(self):
        """The gateway may cancel a loser at any byte."""
        self.server.hung_up += 1
        self.close_connection = True

    def count(self, body):
        self.json(200, {"input_tokens": 11})

    def embed(self, body):
        given = body["input"] if isinstance(body["input"], list) else [body["input"]]
        # The numbers are base64 if the client requested it, as the official clients do.
        numbers = "AAAAPwAAgD4=" if body.get("encoding_format") == "base64" else [0.5, 0.25]
        data = [{"object": "embedding", "index": index, "embedding": numbers} for index, _ in enumerate(given)]
        self.json(200, {"object": "list", "model": body["model"], "data": data, "usage": {"prompt_tokens": 3, "total_tokens": 3}})

    def ollama_embed(self, body):
        given = body["input"] if isinstance(body["input"], list) else [body["input"]]
        self.json(200, {"model": body["model"], "embeddings": [[0.5, 0.25] for _ in given], "prompt_eval_count": 3})

    def rerank(self, body):
        results = [{"index": index, "relevance_score": 1 / (index + 1)} for index, _ in enumerate(body["documents"])]
        self.json(200, {"id": self.server.id("r-"), "results": results[:body.get("top_n")], "meta": {"billed_units": {"search_units": 1}}})

    def complete(self, body):
        head = {"id": self.server.id("cmpl-"), "object": "text_completion", "created": streams.NOW, "model": body["model"]}
        events = [head | {"choices": [{"text": text, "index": 0, "logprobs": None, "finish_reason": None}]} for text in ("Once", " upon")]
        events.append(head | {"choices": [{"text": "", "index": 0, "logprobs": None, "finish_reason": "stop"}]})
        events.append(head | {"choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}})
        whole = b"".join(map(streams.sse, events)) + streams.sse("[DONE]")
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(whole)))
        self.end_headers()
        self.wfile.write(whole)

    def error(self, dialect, status, message):
        shapes = {"anthropic": {"type": "error", "error": {"type": "invalid_request_error", "message": message}},
                  "gemini": {"error": {"code": status, "message": message, "status": "INVALID_ARGUMENT"}},
                  "bedrock": {"message": message}, "ollama": {"error": message}, "ollama_generate": {"error": message}}
        self.json(status, shapes.get(dialect, {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}))

    def json(self, status, body):
        self.bytes(status, "application/json", json.dumps(body).encode())

    def bytes(self, status, content_type, body):
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    """Serves on a free loopback port from a separate thread, until `shutdown`."""

    daemon_threads = True

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.file = b""
        self.asked = collections.Counter()
        self.bodies = collections.deque(maxlen=200)
        self.trouble = []  # requests that the script could not read: a bug of the gateway or of the script
        self.hung_up = 0
        self.numbers = itertools.count(1)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        """A gateway that cancels a loser may close at any byte."""

    def id(self, prefix):
        return f"{prefix}{next(self.numbers):024d}"

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"
