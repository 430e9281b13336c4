"""One caller against the others: failures that it causes, places that it takes, invented names, guessed tokens, and web
pages in its browser."""

import collections
import http.client
import json
import select
import threading
import time

from attacks import attack
from harness import client
from harness.many import at_once, timed, until

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
    config.model("learnt-later", "later", policy="adaptive")  # beside a faster one it is cancelled, and has no sample
    with stage.gateway(config, exact=False) as gate:
        for _ in range(6):
            gate.ask("learnt")
            gate.ask("learnt-later")
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


# Tokens are as long as they should be.
def token_of(user):
    return f"{user}-0123456789abcdef0123456789abcdef"


def with_users(*users):
    tables = [f"[users.{user}]\ntoken = {json.dumps(token_of(user))}" for user in users]
    return "\n".join([*tables, f"[users.admin]\ntoken = {json.dumps(token_of('admin'))}\nrole = 'admin'"])


# What one user sends, and what all others together ask meanwhile.
HANGING, SLOW_BODIES, SLOW_RATE, OTHERS = 1_560, 1_100, 2_253, 25


@attack("one-user-takes-all", "one user's 1,560 hanging requests, then 1,100 bodies at 2.2 KB/s, with max_in_flight = 1000; five others ask 25 times")
def one_user_takes_all(stage):
    others = [f"other-{number}" for number in range(5)]
    config = stage.config(server={"max_in_flight": 1_000}, extra=with_users("mallory", *others)).model("hang", "never")
    config.total = "60s"
    with stage.gateway(config, token=token_of("admin")) as gate:
        head = b"authorization: Bearer %s\r\n" % token_of("mallory").encode()

        def others_are_served(meanwhile):
            asked = at_once(OTHERS, lambda number: gate.ask("good", {"authorization": f"Bearer {token_of(others[number % 5])}"}), workers=5)
            good = sum(answer.is_good for answer in asked)
            bad = collections.Counter(answer.status for answer in asked if not answer.is_good)
            stage.must(good == OTHERS, f"{good} of {OTHERS} requests of others were served beside {meanwhile}; the rest: {dict(bad)}")

        data = client.request("hang").replace(b"content-type", head + b"content-type", 1)
        socks = [client.connect(gate.port, data, timeout=10) for _ in range(HANGING)]
        until(10, lambda: gate.running() >= 500 and len(answered(socks)) + gate.running() >= HANGING)
        stage.note(f"{HANGING} hanging requests: {gate.running()} in the race, {len(answered(socks))} refused")
        others_are_served(f"{HANGING} hanging requests of one")
        for sock in socks:
            client.hang_up(sock)
        stage.must(until(20, lambda: gate.running() <= 2), f"{gate.running()} races run on after their client has left")

        slow = (b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\n%scontent-type: application/json\r\n"
                b"content-length: 30000000\r\n\r\n{" % head)
        socks = [client.connect(gate.port, slow, timeout=10) for _ in range(SLOW_BODIES)]
        over = threading.Event()
        trickling = threading.Thread(target=trickle, args=(socks, over))
        trickling.start()
        until(10, lambda: len(answered(socks)) + gate.metric("photofinish_arriving") >= SLOW_BODIES)
        stage.note(f"{SLOW_BODIES} slow bodies: {gate.metric('photofinish_arriving'):.0f} on their way, {gate.running()} in the race, "
                   f"{len(answered(socks))} refused")
        others_are_served(f"{SLOW_BODIES} slow bodies of one")
        over.set()
        trickling.join()
        for sock in socks:
            client.hang_up(sock)


def answered(socks):
    """Those that have an answer, or are closed."""
    poller = select.poll()
    for sock in socks:
        poller.register(sock, select.POLLIN)
    return [descriptor for descriptor, _ in poller.poll(0)]


def trickle(socks, over):
    """Sends a second's worth of each body, every second."""
    gone = set()
    while not over.is_set():
        begun = time.monotonic()
        for sock in socks:
            if sock in gone:
                continue
            try:
                sock.setblocking(False)
                sock.send(b" " * SLOW_RATE)
            except BlockingIOError:
                pass
            except OSError:
                gone.add(sock)
        over.wait(max(0.0, 1 - (time.monotonic() - begun)))


# Where a guesser sends a token: method, path, header.
GUESSED = [("POST", "/v1/chat/completions", "authorization"), ("POST", "/v1/messages", "x-api-key"), ("GET", "/v1beta/models?key=", None),
           ("GET", "/api/stats", "authorization"), ("GET", "/api/races", "authorization"), ("GET", "/metrics", "authorization"),
           ("POST", "/dashboard/session", "authorization"), ("GET", "/v1/models", "x-goog-api-key")]
GUESS_FOR = 4


@attack("guessing", "wrong tokens on eight paths, one after the other and from 64 connections at once; right ones in between", quick=True)
def guessing(stage):
    with stage.gateway(stage.config(extra=with_users("ann")), token=token_of("admin")) as gate:
        seconds, statuses = timed(lambda: [guess(gate.port, number, "127.0.0.2") for number in range(13)])
        stage.note(f"13 guesses one after the other took {seconds:.1f} s: {statuses}")
        stage.must(statuses == [401] * 10 + [429] * 3, f"ten wrong tokens, then three refusals, were expected, and came: {statuses}")
        stage.must(seconds >= 4.5, f"guesses are not slowed: 13 took {seconds:.1f} s")
        sent = 13
        for connections in [8, 64]:
            counts, right = guess_on(gate, connections)
            bad = [answer.status for _, answer in right if not answer.is_good]
            stage.must(right and not bad, f"{len(bad)} of {len(right)} requests with the right token failed beside {connections} guessing connections: {set(bad)}")
            rate, sent = sum(counts.values()) / GUESS_FOR, sent + sum(counts.values())
            stage.note(f"{connections} connections: {rate:.0f} guesses a second, {dict(counts)}")
            stage.must(rate <= connections * 3, f"{connections} connections guess {rate:.0f} times a second")
            stage.must(set(counts) <= {401, 429}, f"wrong tokens were answered {dict(counts)}")
        counted = gate.metric("photofinish_wrong_tokens_total")
        stage.must(counted >= sent, f"{counted:.0f} of {sent} wrong tokens are counted")
        lines = [line for line in gate.text().splitlines() if "wrong token" in line]
        stage.note(f"{len(lines)} lines of the log tell of {sent} guesses")
        stage.must(all(any(f"address={address}" in line for line in lines) for address in ["127.0.0.1", "127.0.0.2"]), "the log does not name the addresses")
        stage.must(10 <= len(lines) <= 100, f"{len(lines)} lines of the log tell of {sent} guesses")
        stage.must("guess-" not in gate.text() and token_of("ann")[:12] not in gate.text(), "a token stands in the log")


def guess_on(gate, connections):
    """Guesses on so many connections for some seconds, and asks with a right token from the same address meanwhile. The counts
    of the answers to the guesses, and the other answers with their seconds."""
    begun, counts, right = time.monotonic(), collections.Counter(), []

    def keep_guessing(number):
        open_connection, statuses = http.client.HTTPConnection("127.0.0.1", gate.port, timeout=20), collections.Counter()
        while time.monotonic() - begun < GUESS_FOR:
            try:
                statuses[guess(gate.port, number, None, open_connection)] += 1
            except (OSError, http.client.HTTPException):
                open_connection.close()  # it was closed behind a body that nobody reads
            number += connections
        open_connection.close()
        return statuses

    def ask_in_between():
        while time.monotonic() - begun < GUESS_FOR:
            right.append(timed(lambda: gate.ask("good", {"authorization": f"Bearer {token_of('ann')}"}, timeout=5)))
            time.sleep(0.1)

    asking = threading.Thread(target=ask_in_between)
    asking.start()
    for statuses in at_once(connections, keep_guessing):
        counts += statuses
    asking.join()
    return counts, right


def guess(port, number, source=None, connection=None):
    """Sends a wrong token to one of the paths; returns the status."""
    method, path, header = GUESSED[number % len(GUESSED)]
    guessed = f"guess-{number:026d}"
    headers = {"content-type": "application/json"} | ({header: f"Bearer {guessed}" if header == "authorization" else guessed} if header else {})
    path, body = path if header else path + guessed, "{}" if method == "POST" else None
    if connection is None:
        return client.fetch(port, method, path, body, headers, source=source).status
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    answer.read()
    return answer.status
