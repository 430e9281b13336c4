"""Requests `/healthz` and a good model while an attack runs, from a separate address and process, and records the
longest wait.

It prints one line of JSON when its standard input ends.
"""

import http.client
import json
import socket
import sys
import threading
import time

# A different address than the attackers': the limits for one host must not affect another.
SOURCE = ("127.0.0.9", 0)
BODY = json.dumps({"model": "good", "messages": [{"role": "user", "content": "probe"}]})


class Line:
    """One request, repeated."""

    def __init__(self, method, path, body, pause, headers):
        self.method, self.path, self.body, self.pause, self.headers = method, path, body, pause, headers
        self.waits, self.bad = [], []
        self.begun = None  # of the running request

    def run(self, port, over):
        while not over.is_set():
            self.begun = time.monotonic()
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60, source_address=SOURCE)
                connection.request(self.method, self.path, self.body, self.headers)
                answer = connection.getresponse()
                answer.read()
                if answer.status != 200:
                    self.bad.append(str(answer.status))
                connection.close()
            except (OSError, http.client.HTTPException) as error:
                if over.is_set():
                    return
                self.bad.append(type(error).__name__)
            self.waits.append(time.monotonic() - self.begun)
            self.begun = None
            over.wait(self.pause)

    def told(self):
        begun = self.begun
        waits = self.waits + ([time.monotonic() - begun] if begun else [])
        return {"worst_ms": round(max(waits, default=0) * 1000), "asked": len(waits), "bad": self.bad[:5], "bad_count": len(self.bad)}


def main(port, headers):
    socket.setdefaulttimeout(60)
    over = threading.Event()
    lines = {"healthz": Line("GET", "/healthz", None, 0.05, {}),
             "good": Line("POST", "/v1/chat/completions", BODY, 0.2, {"content-type": "application/json"} | headers)}
    for line in lines.values():
        threading.Thread(target=line.run, args=(port, over), daemon=True).start()
    sys.stdin.read()
    # A running request counts with its wait so far.
    told = {name: line.told() for name, line in lines.items()}
    over.set()
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
