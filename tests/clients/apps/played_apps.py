"""Calls of apps that cannot be installed here, as their sources and documentation show them: Zed, JetBrains AI, Cursor and Crush.
The apps themselves do not run."""

import json
import urllib.error
import urllib.request

import kit
from kit import check, scripted

FUNCTION = {"name": "weather", "description": "The weather of a city.", "parameters": kit.WEATHER}
TOOL = {"type": "function", "function": FUNCTION}
SYSTEM = {"role": "system", "content": "Be brief."}
# Cursor's tool for edits: free text by a grammar.
PATCH = {"type": "custom", "name": "ApplyPatch", "description": "Edits files.",
         "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}}


def call(path, body=None, **headers):
    headers = {"authorization": f"Bearer {kit.TOKEN}", "content-type": "application/json"} | headers
    request = urllib.request.Request(kit.URL + path, None if body is None else json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{path}: {error.code}: {error.read().decode()[:400]}") from None


def user(text):
    return {"role": "user", "content": text}


def streamed(body):
    """The text, the tools' calls and the usage of streamed chat completions."""
    lines = call("/v1/chat/completions", {"model": kit.MODEL, "stream": True, **body}).splitlines()
    assert lines[-2:] == ["data: [DONE]", ""] or "data: [DONE]" in lines, lines[-3:]
    chunks = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    assert all(chunk["object"] == "chat.completion.chunk" for chunk in chunks), chunks[0]
    text, calls, usage = "", {}, None
    for chunk in chunks:
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            text += choice["delta"].get("content") or ""
            for part in choice["delta"].get("tool_calls") or []:
                known = calls.setdefault(part["index"], part)
                if known is not part and part.get("function"):
                    known["function"]["arguments"] += part["function"].get("arguments") or ""
    return text, list(calls.values()), usage


def with_tool(body):
    """A question, the call of a tool, its result, and the answer."""
    _, calls, _ = streamed(body | {"tools": [TOOL], "messages": [SYSTEM, user("What is the weather?")]})
    calls = [{"id": called["id"], "type": "function", "function": called["function"]} for called in calls]
    assert calls and json.loads(calls[0]["function"]["arguments"])["city"], calls
    results = [{"role": "tool", "tool_call_id": called["id"], "content": "sunny"} for called in calls]
    turns = [SYSTEM, user("What is the weather?"), {"role": "assistant", "content": None, "tool_calls": calls}, *results]
    text, _, usage = streamed(body | {"tools": [TOOL], "messages": turns})
    kit.has(text, "results=sunny")
    assert usage is None or usage["completion_tokens"] > 0, usage


ZED = {"stream_options": {"include_usage": True}, "max_completion_tokens": 4000, "temperature": 1.0, "tool_choice": "auto"}


@check
def zed_chat():
    text, _, usage = streamed(ZED | {"tools": [TOOL], "messages": [SYSTEM, user("Say hello")]})
    assert text and usage["prompt_tokens"] > 0 and usage["total_tokens"] > 0, usage


@scripted
def zed_tool():
    with_tool(ZED)


@check
def zed_responses():
    part = {"type": "input_text", "text": "Say hello"}
    body = {"model": kit.MODEL, "input": [{"type": "message", "role": "user", "content": [part]}], "store": False, "stream": True,
            "parallel_tool_calls": True, "tools": [{"type": "function", **FUNCTION}], "reasoning": {"effort": "low", "summary": "auto"},
            "include": ["reasoning.encrypted_content"], "prompt_cache_key": "thread"}
    events = [json.loads(line[6:]) for line in call("/v1/responses", body).splitlines() if line.startswith("data: {")]
    assert events[-1]["type"] == "response.completed" and events[-1]["response"]["usage"]["output_tokens"] > 0, events[-1]


@check
def zed_ollama():
    models = json.loads(call("/api/tags"))["models"]
    (found,) = [model for model in models if model["name"].split(":")[0] == kit.MODEL]
    assert {"modified_at", "size", "digest"} <= found.keys(), found
    assert {"format", "family", "families", "parameter_size", "quantization_level"} <= found["details"].keys(), found
    assert "tools" in json.loads(call("/api/show", {"model": found["name"]}))["capabilities"]
    body = {"model": found["name"], "messages": [SYSTEM, user("Say hello")], "stream": True, "keep_alive": -1, "tools": [],
            "options": {"num_ctx": 4096, "stop": [], "temperature": 1.0}, "think": False}
    parts = [json.loads(line) for line in call("/api/chat", body).splitlines()]
    assert parts[-1]["done"] and parts[-1]["eval_count"] > 0 and all({"model", "created_at", "message"} <= part.keys() for part in parts)


@check
def jetbrains_test_connection():
    assert kit.MODEL in [model["id"] for model in json.loads(call("/v1/models"))["data"]]


@check
def jetbrains_chat():
    text, _, _ = streamed({"messages": [SYSTEM, user("Say hello")], "temperature": 0.0})
    assert text


@scripted
def jetbrains_tool():
    with_tool({"temperature": 0.0})


@check
def cursor_verify():
    answer = json.loads(call("/v1/chat/completions", {"model": kit.MODEL, "messages": [user("Say hello")], "max_tokens": 10}))
    assert answer["choices"][0]["message"]["content"]


@check
def cursor_ask():
    """Chat completions, with a tool that has the shape of the Responses API among the others."""
    text, _, _ = streamed({"messages": [SYSTEM, user("Say hello")], "tools": [TOOL, PATCH], "stream_options": {"include_usage": True}})
    assert text
    if kit.SCRIPTED:
        kit.has(text, "tools=2")


CURSOR_AGENT = {"tools": [{"type": "function", **FUNCTION}, PATCH], "tool_choice": "auto", "reasoning": {"effort": "low", "summary": "auto"},
                "text": {"verbosity": "low"}, "store": False, "include": ["reasoning.encrypted_content"]}


@check
def cursor_agent():
    """The body of the Responses API, sent to chat completions, whose answer is expected."""
    text, _, _ = streamed(CURSOR_AGENT | {"input": [SYSTEM, user("Say hello")]})
    assert text
    if kit.SCRIPTED:
        kit.has(text, "system=Be brief.", "user=Say hello", "tools=2")


@scripted
def cursor_agent_tool():
    question = user("What is the weather?")
    _, calls, _ = streamed(CURSOR_AGENT | {"input": [SYSTEM, question]})
    turns = [SYSTEM, question]
    for called in calls:
        turns.append({"type": "function_call", "call_id": called["id"], **called["function"]})
        turns.append({"type": "function_call_output", "call_id": called["id"], "output": "sunny"})
    text, _, _ = streamed(CURSOR_AGENT | {"input": turns})
    kit.has(text, "results=sunny")


CRUSH = {"stream_options": {"include_usage": True}, "max_tokens": 4000, "user": "crush"}


@check
def crush_chat():
    parts = [{"type": "text", "text": "Say hello"}]
    text, _, usage = streamed(CRUSH | {"tools": [TOOL], "messages": [SYSTEM, {"role": "user", "content": parts}]})
    assert text and usage["completion_tokens"] > 0, usage


@scripted
def crush_tool():
    with_tool(CRUSH)


kit.run()
