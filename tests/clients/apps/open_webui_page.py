"""Open WebUI, without its browser: its own API asks the gateway as its page does, over chat completions and in Ollama's mode."""

import contextlib
import json
import os
import pathlib
import subprocess
import time
import urllib.request

import cli
import kit
from kit import check, scripted

import socket

with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    PORT = probe.getsockname()[1]
ENV = {"OPENAI_API_BASE_URL": kit.URL + "/v1", "OPENAI_API_KEY": kit.TOKEN, "OLLAMA_BASE_URL": kit.URL, "WEBUI_AUTH": "false",
       "DATA_DIR": str(cli.HOME), "WEBUI_SECRET_KEY": "secret", "OFFLINE_MODE": "true", "PATH": os.environ["PATH"], "HOME": str(cli.HOME),
       "ENABLE_PERSISTENT_CONFIG": "true", "RAG_EMBEDDING_ENGINE": "openai"}
log = open(cli.HOME / "log", "wb")
server = subprocess.Popen([cli.KITS / "open-webui/bin/open-webui", "serve", "--host", "127.0.0.1", "--port", str(PORT)], env=ENV, cwd=cli.HOME,
                          stdin=subprocess.DEVNULL, stdout=log, stderr=log)
session = ""


def call(path, body=None):
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {session}"} if session else {})
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{path}: {error.code}: {error.read().decode()[:400]}") from None


def wait():
    end = time.monotonic() + 240
    while time.monotonic() < end and server.poll() is None:
        with contextlib.suppress(OSError):
            return call("/health")
        time.sleep(1)
    raise RuntimeError((cli.HOME / "log").read_text()[-2000:])


def asked(path, text, **more):
    return call(path, {"model": kit.MODEL, "messages": [{"role": "user", "content": text}], **more})


@check
def list_of_models():
    ids = [model["id"] for model in json.loads(call("/api/models"))["data"]]
    assert kit.MODEL in ids, ids


@check
def question():
    text = json.loads(asked("/api/chat/completions", "Say hello", stream=False))["choices"][0]["message"]["content"]
    assert text


@check
def streamed_question():
    out = asked("/api/chat/completions", "Say hello", stream=True)
    events = [json.loads(line[6:]) for line in out.splitlines() if line.startswith("data: {")]
    text = "".join(event["choices"][0]["delta"].get("content") or "" for event in events if event.get("choices"))
    assert text
    if kit.SCRIPTED:
        kit.has(text, "user=Say hello")


@scripted
def tool_called():
    tools = [{"type": "function", "function": {"name": "weather", "parameters": kit.WEATHER}}]
    message = json.loads(asked("/api/chat/completions", "What is the weather?", stream=False, tools=tools))["choices"][0]["message"]
    assert message["tool_calls"][0]["function"]["name"] == "weather", message


@check
def ollama_mode():
    call("/ollama/config/update", {"ENABLE_OLLAMA_API": True, "OLLAMA_BASE_URLS": [kit.URL], "OLLAMA_API_CONFIGS": {"0": {"enable": True, "key": kit.TOKEN}}})
    assert kit.MODEL in call("/ollama/api/tags")
    assert "version" in call("/ollama/api/version")
    out = asked("/ollama/api/chat", "Say hello", stream=True)
    assert json.loads(out.splitlines()[-1])["done"], out[-300:]


try:
    wait()
    session = json.loads(call("/api/v1/auths/signin", {"email": "", "password": ""}))["token"]
    kit.run()
finally:
    server.terminate()
    try:
        server.wait(10)
    except subprocess.TimeoutExpired:
        server.kill()
    if os.environ.get("PF_TRACE"):
        print(pathlib.Path(cli.HOME / "log").read_text()[-4000:])
