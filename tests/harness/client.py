"""The client side: complete requests over `http.client`, and raw sockets for requests that a real client would not
send."""

import http.client
import json
import socket
import struct

GOOD = "the good answer"
SURFACES = {
    "chat": ("/v1/chat/completions", lambda model: {"model": model, "messages": [{"role": "user", "content": "Who is first?"}]}),
    "responses": ("/v1/responses", lambda model: {"model": model, "input": "Who is first?"}),
    "messages": ("/v1/messages", lambda model: {"model": model, "max_tokens": 100, "messages": [{"role": "user", "content": "Who is first?"}]}),
}


class Answer:
    def __init__(self, status, headers, body, cut=None):
        self.status, self.headers, self.body, self.cut = status, headers, body, cut

    @property
    def text(self):
        return self.body.decode(errors="replace")

    @property
    def is_good(self):
        return self.status == 200 and GOOD in self.text and not self.cut and not self.broken

    @property
    def broken(self):
        """A stream that reports that it broke off."""
        marks = ["photofinish_stream_broken", '"type":"error"', "event: error", 'data: {"error"', '"type":"response.failed"']
        return self.status == 200 and any(mark in self.text for mark in marks)

    @property
    def is_error(self):
        """An error that clients can recognise: an error status with an object, or an error event in a stream."""
        if self.cut:
            return False
        if 400 <= self.status < 600:
            try:
                return "error" in json.loads(self.body)
            except ValueError:
                return False
        return self.broken

    @property
    def is_answer(self):
        """A finished answer with content."""
        return self.status == 200 and not self.cut and not self.broken and len(self.body) > 100 and (
            "[DONE]" in self.text or "message_stop" in self.text or "response.completed" in self.text or "response.incomplete" in self.text
            or self.text.startswith("{") and self.text.rstrip().endswith("}"))

    @property
    def is_empty(self):
        """A finished answer without content."""
        return self.status == 200 and not self.cut and len(self.body) > 0

    def __str__(self):
        text = self.text if len(self.text) < 240 else f"{self.text[:80]} … {self.text[-150:]}"
        return f"{self.status}{' cut, ' + self.cut if self.cut else ''} {text!r}"


def ask(port, model, stream=False, surface="chat", headers=None, body=None, timeout=20, source=None, **members):
    path, make = SURFACES[surface]
    body = body if body is not None else json.dumps(make(model) | {"stream": stream} | members)
    return fetch(port, "POST", path, body, {"content-type": "application/json"} | (headers or {}), timeout, source)


def fetch(port, method, path, body=None, headers=None, timeout=20, source=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout, source_address=source and (source, 0))
    data, status, told, cut = b"", 0, {}, None
    try:
        try:
            connection.request(method, path, body, headers or {})
        except (BrokenPipeError, ConnectionResetError):
            pass  # the answer came before all was read
        answer = connection.getresponse()
        status, told = answer.status, {name.lower(): value for name, value in answer.getheaders()}
        try:
            data = answer.read()
        except http.client.IncompleteRead as part:
            data, cut = part.partial, "the body broke off"
    except (OSError, http.client.HTTPException, ValueError) as error:
        cut = f"{type(error).__name__}: {error}"
    finally:
        connection.close()
    return Answer(status, told, data, cut)


def request(model, stream=True, host="127.0.0.1", **members):
    """The bytes of one request to the chat surface."""
    body = json.dumps(SURFACES["chat"][1](model) | {"stream": stream} | members).encode()
    return b"POST /v1/chat/completions HTTP/1.1\r\nhost: %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
        host.encode(), len(body), body)


def connect(port, data=b"", receive=None, timeout=5, source=None):
    sock = socket.socket()
    if receive:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    sock.settimeout(timeout)
    if source:
        sock.bind((source, 0))
    sock.connect(("127.0.0.1", port))
    if data:
        sock.sendall(data)
    return sock


def raw(port, data, timeout=5):
    """Everything received after sending these bytes, until the other side closes or is silent."""
    out = b""
    try:
        with connect(port, data, timeout=timeout) as sock:
            while part := sock.recv(65_536):
                out += part
    except OSError:
        pass
    return out


def statuses(data):
    """The status of each HTTP/1.1 answer in these bytes."""
    return [int(part[:3]) for part in data.decode("latin-1").split("HTTP/1.1 ")[1:] if part[:3].isdigit()]


def hang_up(sock):
    """Closes with a reset, like a killed client."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        pass
    sock.close()
