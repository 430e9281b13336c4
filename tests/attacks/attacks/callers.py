"""One caller against the others: failures that it causes, invented names, and web pages in its browser."""

import http.client
import json

from attacks import attack
from harness import client
from harness.many import at_once

# The faults that one caller causes while others use the same upstream.
FAULTS = {"credit": 402, "no-response": 404, "image-url": 403}


@attack("blame", "one caller's 402, 403 and 404 again and again, and 501s of embeddings; then others ask the same upstream", quick=True)
def blame(stage):
    config = stage.config(breaker='{ failures = 5, open = "5s", open_max = "60s" }')
    for kind in FAULTS:
        config.model(kind, f"picky-{kind}")
    config.model("embeds", "picky-embeddings")
    with stage.gateway(config) as gate:
        for kind, status in FAULTS.items():
            theirs = [gate.ask(kind, user="mallory", temperature=number / 10) for number in range(12)]
            stage.must(all(answer.is_error for answer in theirs), f"{kind}: the caller at fault got {theirs[0]}")
            others = [gate.ask(kind, stream=stream) for stream in [True, False]]
            stage.must(all(answer.is_good for answer in others), f"after one caller's {status} ({kind}) another got {others[0]}")
        for number in range(8):
            client.fetch(gate.port, "POST", "/v1/embeddings", json.dumps({"model": "embeds", "input": f"text {number}"}), {"content-type": "application/json"})
        answer = gate.ask("embeds")
        stage.must(answer.is_good, f"after eight 501s of embeddings a chat got {answer}")
        open_breakers = gate.metric("photofinish_breaker_open")
        stage.must(not open_breakers, f"{open_breakers:.0f} breakers are open")


@attack("invented-names", "1,100 budgets, 10,000 invented upstreams, 20,500 junk requests and a restart; then known models are asked")
def invented_names(stage):
    config = stage.config().model("learnt", "good", "later", policy="adaptive").model("fresh", "slow", "early-hints", policy="adaptive")
    with stage.gateway(config, exact=False) as gate:
        for _ in range(6):
            gate.ask("learnt")
        asked = [*[("learnt", {"x-photofinish-budget": f"{number / 10_000 + 0.001:.4f}"}) for number in range(1_100)],
                 *[("good", {"x-photofinish-upstreams": ",".join(f"good/i-{number}-{name}" for name in range(64)), "x-photofinish-policy": "adaptive",
                             "x-photofinish-max-attempts": "1"}) for number in range(160)],
                 *[(f"good/junk-{number}", {}) for number in range(20_500)]]
        counts = merged(at_once(8, lambda worker: keep_asking(gate.port, asked[worker::8])))
        for _ in range(6):
            answer = gate.ask("fresh")
            stage.must(answer.is_good, f"a known model is answered {answer}")
        gate.settle()
        samples, bucket = known(gate)
        stage.must(samples.get("slow/m", 0) + samples.get("early-hints/m", 0) >= 3, f"nothing is learnt of a configured upstream any more: {samples}")
        stage.must(bucket.get("fresh") is not None, "a configured model has no budget any more")
        stage.note(f"{sum(counts.values())} requests: {counts}; RSS {gate.memory():.0f} MB")
    with stage.gateway(config, exact=False) as gate:
        samples, _ = known(gate)
        stage.note(f"after a restart, samples of the configured upstreams: {samples}")
        stage.must(min(samples.get("good/m", 0), samples.get("later/m", 0)) >= 3, f"what was learnt of configured upstreams is pushed out: {samples}")


def known(gate):
    """Samples by upstream and the budget by model, of configured names only."""
    standing = json.loads(client.fetch(gate.port, "GET", "/api/routing").body)
    samples = {line["upstream"]: round(line["samples"], 1) for line in standing["upstreams"]
               if line["upstream"] in ("good/m", "later/m", "slow/m", "early-hints/m")}
    return samples, {line["model"]: line["bucket"] for line in standing["models"]}


def merged(counts):
    out = {}
    for count in counts:
        for status, number in count.items():
            out[status] = out.get(status, 0) + number
    return out


def keep_asking(port, asked):
    """Sends the requests over one connection; returns the count of each status."""
    connection, counts = http.client.HTTPConnection("127.0.0.1", port, timeout=20), {}
    for model, headers in asked:
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps({"model": model, "messages": [{"role": "user", "content": "x"}]}),
                               {"content-type": "application/json"} | headers)
            answer = connection.getresponse()
            answer.read()
            status = answer.status
        except (OSError, http.client.HTTPException) as error:
            status = type(error).__name__
            connection.close()
        counts[status] = counts.get(status, 0) + 1
    connection.close()
    return counts


@attack("web-pages", "a foreign page's requests: Origin, Sec-Fetch-Site, and a Host by DNS rebinding", quick=True)
def web_pages(stage):
    config = stage.config().model("evil", "good")
    with stage.gateway(config) as gate:
        port = gate.port
        body = json.dumps({"model": "evil", "messages": [{"role": "user", "content": "spend"}]})
        foreign = [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}, {"Host": "evil.example"},
                   {"Host": f"evil.example:{port}"}, {"Host": "127.0.0.1.evil.example"}, {"Host": "localhost.evil.example"}]
        paths = ["/v1/chat/completions", "/api/races", "/api/stats", "/metrics", "/v1/models", "/"]
        for headers in foreign:
            statuses = [client.fetch(port, "POST" if "chat" in path else "GET", path, body if "chat" in path else None,
                                     {"content-type": "text/plain"} | headers).status for path in paths]
            stage.must(set(statuses) <= {403, 421}, f"{headers}: {dict(zip(paths, statuses))}")
        for headers in [{"Host": f"localhost:{port}"}, {"Host": f"127.0.0.1:{port}"}, {"Host": f"[::1]:{port}"}, {"Sec-Fetch-Site": "same-origin"}]:
            answer = client.fetch(port, "GET", "/v1/models", None, headers)
            stage.must(answer.status == 200, f"GET /v1/models with {headers}: {answer.status}")
        # The probe uses the good model in the meantime; no race of the page is among the rows.
        gate.settle()
        evil = gate.rows("SELECT count(*) FROM race WHERE model = 'evil'")[0][0]
        stage.must(not evil, f"{evil} requests of a foreign page were raced")
        stage.note(f"{len(foreign)} foreign heads on {len(paths)} paths; {evil} of their requests were raced")
