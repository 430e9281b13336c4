"""Checks a client's answer strictly by the rules of its surface. Returns its kind, its text, and every violated rule.

An answer is `whole`, `empty` (finished without content), `error` (an error status with the surface's object),
`broken` (a stream that begins well and ends in an error event), or `cut` (it ends without an end event or error,
which is never right).
"""

import dataclasses
import json

SSE_TYPE, JSON_TYPE = "text/event-stream", "application/json"


@dataclasses.dataclass
class Judged:
    kind: str = ""
    text: str = ""
    arguments: list = dataclasses.field(default_factory=list)  # of tool calls, one by one
    finish: object = None
    code: object = None
    message: str = ""
    model: object = None
    usage: object = None
    first: object = None  # the byte at which the first payload begins
    comments: list = dataclasses.field(default_factory=list)  # (text, byte)
    problems: list = dataclasses.field(default_factory=list)
    attempts: list = dataclasses.field(default_factory=list)

    def must(self, holds, text):
        if not holds:
            self.problems.append(text)

    def __str__(self):
        told = {"whole": f"whole ({len(self.text.split())} words, {self.finish})", "error": f"error {self.code}: {self.message[:160]}",
                "broken": f"broken after {len(self.text.split())} words: {self.message[:160]}"}
        return told.get(self.kind, self.kind) + (f" PROBLEMS {self.problems[:3]}" if self.problems else "")


def judge(surface, streaming, seen):
    judged = Judged()
    if seen.cut:
        judged.kind = "cut"
        judged.problems.append(f"the answer does not end: {seen.cut}")
        return judged
    if seen.status != 200:
        error(surface, seen, judged)
    elif streaming and surface != "embeddings":
        judged.must(seen.headers.get("content-type", "").startswith(SSE_TYPE), f"content-type {seen.headers.get('content-type')}")
        READERS[surface](events(seen.body, judged), judged)
    else:
        judged.must(seen.headers.get("content-type", "").startswith(JSON_TYPE), f"content-type {seen.headers.get('content-type')}")
        try:
            WHOLES[surface](json.loads(seen.body), judged)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as why:
            judged.kind = judged.kind or "cut"
            judged.problems.append(f"not an answer of {surface}: {type(why).__name__}: {why}")
    if seen.status == 200 and judged.kind != "cut":
        judged.must("x-photofinish-race" in seen.headers, "no x-photofinish-race")
        # A head that was sent before there was a winner names no upstream: a comment and a trailer do.
        early = "x-photofinish-upstream" in seen.headers.get("trailer", "")
        judged.must("x-request-id" in seen.headers or surface == "messages" and "request-id" in seen.headers, "no x-request-id")
        judged.must("x-photofinish-attempts" in seen.headers, "no x-photofinish-attempts")
        if judged.kind in ("whole", "empty"):
            told = "x-photofinish-upstream" in (seen.trailers if early else seen.headers)
            judged.must(told and (not early or any(text.startswith("x-photofinish-upstream: ") for text, _ in judged.comments)), "no x-photofinish-upstream")
    return judged


def error(surface, seen, judged):
    judged.kind, judged.code = "error", seen.status
    judged.must(seen.headers.get("content-type", "").startswith(JSON_TYPE), f"an error as {seen.headers.get('content-type')}")
    judged.must("x-photofinish-race" in seen.headers, "an error without x-photofinish-race")
    try:
        value = json.loads(seen.body)
        inner = value["error"]
        judged.message, judged.code = inner["message"], inner.get("code") or seen.status
        judged.attempts = inner.get("attempts", [])
        judged.must(isinstance(inner["message"], str) and inner["message"], "an error without a message")
        judged.must(isinstance(inner["type"], str), "an error without a type")
        if surface == "messages":
            judged.must(value.get("type") == "error", "an error of messages has the type `error`")
        else:
            judged.must("type" not in value, "an error of OpenAI's has no type at the top")
            judged.must("code" in inner and "param" in inner, "an error of OpenAI's has code and param")
    except (ValueError, KeyError, TypeError) as why:
        judged.problems.append(f"not an error of {surface}: {type(why).__name__}: {why}: {seen.body[:200]!r}")


def events(body, judged):
    """(name, data, byte) of each event; comments are stored in `judged`."""
    at, name, data, begun = 0, None, [], 0
    try:
        body.decode()
    except UnicodeDecodeError as why:
        judged.problems.append(f"the stream is no UTF-8: {why}")
    out = []
    for raw in body.split(b"\n"):
        line = raw.rstrip(b"\r").decode(errors="replace")
        if not line:
            if data:
                out.append((name, "\n".join(data), begun))
            name, data = None, []
            begun = at + len(raw) + 1
        elif line.startswith(":"):
            judged.comments.append((line[1:].strip(), at))
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif line.startswith("event:"):
            name = line[6:].strip()
        elif not line.startswith(("id:", "retry:")):
            judged.problems.append(f"a line that is no field: {line[:80]!r}")
        at += len(raw) + 1
    judged.must(not data, "the last event is not ended by an empty line")
    return out


def decoded(data, judged):
    try:
        value = json.loads(data)
        judged.must(isinstance(value, dict), f"an event that is no object: {data[:80]}")
        return value if isinstance(value, dict) else {}
    except ValueError:
        judged.problems.append(f"an event that is no JSON: {data[:80]!r}")
        return {}


def note(judged, at):
    if judged.first is None:
        judged.first = at


def conclude(judged, ended, payload):
    """The kind of a stream that did not end in an error."""
    if judged.kind:
        return
    judged.kind = "cut" if not ended or judged.finish is None else "whole" if payload else "empty"
    judged.must(ended, "the stream has no end")
    judged.must(judged.finish is not None, "the stream has no finish reason")


def chat(found, judged):
    """Chat, and completions, whose chunks have `text`."""
    ids, done, calls, payload = set(), 0, {}, False
    for name, data, at in found:
        judged.must(not done, "an event behind [DONE]")
        judged.must(not judged.kind, "an event behind the error")
        if data == "[DONE]":
            done += 1
            continue
        value = decoded(data, judged)
        if "error" in value:
            judged.kind, judged.message = "broken", str(value["error"].get("message"))
            judged.code = value["error"].get("code")
            continue
        judged.must(value.get("object") in ("chat.completion.chunk", "text_completion"), f"object {value.get('object')!r}")
        ids.add(value.get("id"))
        judged.model, judged.usage = value.get("model") or judged.model, value.get("usage") or judged.usage
        for choice in value.get("choices", []):
            delta = choice.get("delta") or {}
            text = delta.get("content") or choice.get("text") or ""
            judged.must(not (judged.finish and (text or delta.get("tool_calls"))), "a token behind the finish reason")
            judged.must(not (judged.finish and choice.get("finish_reason")), "two finish reasons")
            judged.text += text
            if text or delta.get("tool_calls") or delta.get("reasoning_content"):
                note(judged, at)
            payload = payload or bool(text.strip() or delta.get("tool_calls"))
            for call in delta.get("tool_calls") or []:
                judged.must(call.get("index") in calls or (call.get("id") and call["function"].get("name")), "a call without its beginning")
                calls[call.get("index")] = calls.get(call.get("index"), "") + (call.get("function", {}).get("arguments") or "")
            judged.finish = choice.get("finish_reason") or judged.finish
    judged.arguments = list(calls.values())
    judged.must(len(ids) <= 1, f"chunks have {len(ids)} ids: {sorted(map(str, ids))[:3]}")
    judged.must(done <= 1 and not (done and judged.kind), "an end behind an error, or two ends")
    conclude(judged, done, payload)


def messages(found, judged):
    opened, index, begun, ended, block, payload = None, -1, False, False, None, False
    for name, data, at in found:
        value = decoded(data, judged)
        kind = value.get("type")
        judged.must(name == kind, f"event {name!r} holds {kind!r}")
        judged.must(not ended and not judged.kind, f"{kind} behind the end")
        if kind == "ping":
            continue
        if kind == "error":
            judged.kind, judged.message, judged.code = "broken", str(value["error"].get("message")), value["error"].get("type")
        elif kind == "message_start":
            judged.must(not begun, "two message_start")
            begun, judged.model = True, value["message"].get("model")
            judged.usage = value["message"].get("usage")
        elif kind == "content_block_start":
            judged.must(begun and opened is None and value["index"] == index + 1, f"block {value['index']} begins while {opened} is open, after {index}")
            opened = index = value["index"]
            block = value["content_block"]["type"]
            if block == "tool_use":
                judged.arguments.append("")
                payload = True
                note(judged, at)
        elif kind == "content_block_delta":
            judged.must(value["index"] == opened, "a delta outside its block")
            delta = value["delta"]
            text = delta.get("text") or ""
            judged.text += text
            payload = payload or bool(text.strip())
            if text or delta.get("thinking") or delta.get("partial_json"):
                note(judged, at)
            if delta["type"] == "input_json_delta" and judged.arguments:
                judged.arguments[-1] += delta["partial_json"]
        elif kind == "content_block_stop":
            judged.must(value["index"] == opened, "a stop outside its block")
            opened = None
        elif kind == "message_delta":
            judged.must(opened is None, "message_delta inside a block")
            judged.finish = value["delta"].get("stop_reason") or judged.finish
            judged.usage = (judged.usage or {}) | (value.get("usage") or {})
        elif kind == "message_stop":
            ended = True
        else:
            judged.problems.append(f"an event of the type {kind!r}")
    conclude(judged, ended, payload)


def responses(found, judged):
    number, ended, failed, items, payload, calls = -1, False, False, set(), False, {}
    for at_event, (name, data, at) in enumerate(found):
        value = decoded(data, judged)
        kind = value.get("type", "")
        judged.must(name == kind, f"event {name!r} holds {kind!r}")
        # A failure may first send `error`, and `response.failed` then ends the stream.
        judged.must(not ended and (not judged.kind or kind == "response.failed" and not failed), f"{kind} behind the end")
        failed = kind == "response.failed"
        # The events that were held back at the break have used up their numbers.
        skips = kind == "error" and (value.get("sequence_number") or 0) > number
        judged.must(value.get("sequence_number") == number + 1 or skips, f"sequence_number {value.get('sequence_number')} behind {number} ({kind})")
        number = value.get("sequence_number", number + 1)
        judged.must(at_event or kind in ("response.created", "error", "response.failed"), f"begins with {kind}")
        judged.model = (value.get("response") or {}).get("model") or judged.model
        if kind == "error":
            judged.kind, judged.message, judged.code = "broken", str(value.get("message")), value.get("code")
        elif kind == "response.failed":
            why = value["response"].get("error") or {}
            judged.kind, judged.message, judged.code = "broken", str(why.get("message")), why.get("code")
        elif kind == "response.output_item.added":
            items.add(value["item"]["id"])
            if value["item"]["type"] == "function_call":
                calls[value["item"]["id"]] = ""
                payload = True
                note(judged, at)
        elif kind.endswith(".delta"):
            judged.must(value.get("item_id") in items, f"{kind} of an item that was not added")
            note(judged, at)
            if kind == "response.output_text.delta":
                judged.text += value["delta"]
                payload = payload or bool(value["delta"].strip())
            elif kind == "response.function_call_arguments.delta":
                calls[value["item_id"]] = calls.get(value["item_id"], "") + value["delta"]
        elif kind in ("response.completed", "response.incomplete"):
            ended = True
            answer = value["response"]
            judged.usage, judged.finish = answer.get("usage"), answer["status"]
            judged.must(answer["status"] == kind.removeprefix("response."), f"{kind} with the status {answer['status']}")
            for item in answer.get("output", []):
                if item["type"] == "message":
                    told = "".join(part.get("text", "") for part in item["content"])
                    judged.must(told == judged.text, f"response.completed repeats {len(told.split())} of {len(judged.text.split())} words")
    judged.arguments = list(calls.values())
    conclude(judged, ended, payload)


def whole_chat(value, judged):
    judged.must(value["object"] == "chat.completion", f"object {value['object']!r}")
    message, judged.finish = value["choices"][0]["message"], value["choices"][0]["finish_reason"]
    judged.must(isinstance(judged.finish, str), f"finish_reason {judged.finish!r}")
    judged.must(isinstance(value["id"], str) and value["id"], "no id")
    judged.text, judged.model, judged.usage = message.get("content") or "", value["model"], value.get("usage")
    for call in message.get("tool_calls") or []:
        judged.arguments.append(call["function"]["arguments"])
        judged.must(call.get("id") and call["function"].get("name"), "a call without id or name")
    judged.kind = "whole" if judged.text.strip() or judged.arguments else "empty"


def whole_completions(value, judged):
    judged.must(value["object"] == "text_completion", f"object {value['object']!r}")
    judged.text, judged.finish = value["choices"][0]["text"], value["choices"][0]["finish_reason"]
    judged.must(isinstance(judged.finish, str), f"finish_reason {judged.finish!r}")
    judged.model, judged.usage = value["model"], value.get("usage")
    judged.kind = "whole" if judged.text.strip() else "empty"


def whole_messages(value, judged):
    judged.must(value["type"] == "message" and value["role"] == "assistant", f"type {value['type']!r}")
    judged.finish, judged.model, judged.usage = value["stop_reason"], value["model"], value.get("usage")
    judged.must(isinstance(judged.finish, str), f"stop_reason {judged.finish!r}")
    for block in value["content"]:
        judged.text += block.get("text", "") if block["type"] == "text" else ""
        if block["type"] == "tool_use":
            judged.arguments.append(json.dumps(block["input"]))
    judged.kind = "whole" if judged.text.strip() or judged.arguments else "empty"


def whole_responses(value, judged):
    judged.must(value["object"] == "response", f"object {value['object']!r}")
    judged.finish, judged.model, judged.usage = value["status"], value["model"], value.get("usage")
    judged.must(judged.finish in ("completed", "incomplete"), f"status {judged.finish!r}")
    for item in value["output"]:
        if item["type"] == "message":
            judged.text += "".join(part.get("text", "") for part in item["content"])
        elif item["type"] == "function_call":
            judged.arguments.append(item["arguments"])
    judged.kind = "whole" if judged.text.strip() or judged.arguments else "empty"


def whole_embeddings(value, judged):
    judged.must(value["object"] == "list" and isinstance(value["data"][0]["embedding"], (list, str)), "no embedding")
    judged.model, judged.usage, judged.kind = value["model"], value.get("usage"), "whole"


READERS = {"chat": chat, "completions": chat, "messages": messages, "responses": responses}
WHOLES = {"chat": whole_chat, "completions": whole_completions, "messages": whole_messages, "responses": whole_responses, "embeddings": whole_embeddings}
