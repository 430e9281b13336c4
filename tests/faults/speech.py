"""The parts of answers in each dialect that a provider speaks: events of a stream, whole answers and errors.

A stream is `begin`, `words` or `call`, `finish` and `done`; a fault leaves out a part or inserts something between
parts.
"""

import json

# Every healthy answer is these sixty words. A shortened one cannot look complete, and another upstream can continue it.
TEXT = (
    "A race is run by several horses and won by the first that shows its nose at the line. "
    "Whoever falls on the way is left behind without a word, for the others run on. "
    "What the crowd sees is one clean finish, never two halves that do not fit, and the judge keeps "
    "a picture of each that ran."
)
WORDS = TEXT.split()
assert len(WORDS) == 60, len(WORDS)
ARGUMENTS = '{"path":"/srv/data","recursive":true,"exclude":["/srv/data/keep","/srv/data/tmp"]}'
CUT_ARGUMENTS = '{"path":"/srv/data","recursive":true,"exclude":["/srv/data/ke'
USAGE_IN, USAGE_OUT = 21, 60
QUESTION = "Who is first?"


def pieces(start=0, end=None):
    """Words as tokens: all but the first of an answer begin with a space."""
    return [word if at == 0 else " " + word for at, word in enumerate(WORDS)][start:end]


def sse(data, event=None):
    text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
    return (f"event: {event}\n" if event else "") + f"data: {text}\n\n"


class Chat:
    """OpenAI's chat completions."""

    name = "openai"

    def __init__(self, model, asked=None):
        self.model, self.asked = model, asked or {}

    def chunk(self, delta, finish=None, **members):
        return sse({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": self.model,
                    "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]} | members)

    @property
    def usage(self):
        return {"prompt_tokens": USAGE_IN, "completion_tokens": USAGE_OUT, "total_tokens": USAGE_IN + USAGE_OUT}

    def begin(self):
        return self.chunk({"role": "assistant", "content": ""})

    def words(self, words):
        return [self.chunk({"content": word}) for word in words]

    def reasoning(self, text):
        return self.chunk({"reasoning_content": text})

    def call(self, arguments):
        call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "list_files", "arguments": ""}}
        half = len(arguments) // 2
        return [self.chunk({"tool_calls": [call]}),
                *[self.chunk({"tool_calls": [{"index": 0, "function": {"arguments": part}}]}) for part in (arguments[:half], arguments[half:])]]

    def finish(self, reason="stop", counted=True):
        return self.chunk({}, {"tool": "tool_calls"}.get(reason, reason), **({"usage": self.usage} if counted else {}))

    def done(self):
        return sse("[DONE]")

    def error_event(self, message="the engine broke", kind="server_error"):
        return sse({"error": {"message": message, "type": kind, "param": None, "code": None}})

    def whole(self, text):
        return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": self.model, "usage": self.usage,
                "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}

    def error(self, message, kind="invalid_request_error", code=None):
        return {"error": {"message": message, "type": kind, "param": None, "code": code}}

    def prefix(self):
        """The beginning that the request wants continued, or None."""
        last = (self.asked.get("messages") or [{}])[-1]
        content = last.get("content")
        if last.get("role") != "assistant":
            return None
        return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or [])

    def has_thinking(self):
        return '"thinking"' in json.dumps(self.asked.get("messages"))


class Completions(Chat):
    """The older completions."""

    def chunk(self, delta, finish=None, **members):
        text = delta.get("content") or ""
        return sse({"id": "cmpl-1", "object": "text_completion", "created": 1, "model": self.model,
                    "choices": [{"index": 0, "text": text, "finish_reason": finish, "logprobs": None}]} | members)

    def whole(self, text):
        return {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": self.model, "usage": self.usage,
                "choices": [{"index": 0, "text": text, "finish_reason": "stop", "logprobs": None}]}

    def prefix(self):
        """The prompt and a beginning."""
        prompt = self.asked.get("prompt")
        return prompt[len(QUESTION):] if isinstance(prompt, str) and len(prompt) > len(QUESTION) else None


class Embeddings(Chat):
    def whole(self, text):
        return {"object": "list", "model": self.model, "data": [{"object": "embedding", "index": 0, "embedding": [0.1, 0.2]}],
                "usage": {"prompt_tokens": 4, "total_tokens": 4}}

    def prefix(self):
        return None


class Messages(Chat):
    """Anthropic's messages."""

    name = "anthropic"

    def __init__(self, model, asked=None):
        super().__init__(model, asked)
        self.open, self.index = False, -1

    def event(self, value):
        return sse(value, value["type"])

    def begin(self):
        return self.event({"type": "message_start", "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": self.model, "content": [], "stop_reason": None, "stop_sequence": None,
            "usage": {"input_tokens": USAGE_IN, "output_tokens": 1}}}) + self.event({"type": "ping"})

    def block(self, value):
        close = self.close()
        self.open, self.index = True, self.index + 1
        return close + self.event({"type": "content_block_start", "index": self.index, "content_block": value})

    def close(self):
        if not self.open:
            return ""
        self.open = False
        return self.event({"type": "content_block_stop", "index": self.index})

    def delta(self, value):
        return self.event({"type": "content_block_delta", "index": self.index, "delta": value})

    def words(self, words):
        start = "" if self.open else self.block({"type": "text", "text": ""})
        parts = [self.delta({"type": "text_delta", "text": word}) for word in words]
        return [start + parts[0], *parts[1:]] if parts else []

    def reasoning(self, text):
        return self.block({"type": "thinking", "thinking": "", "signature": ""}) + self.delta({"type": "thinking_delta", "thinking": text})

    def call(self, arguments):
        half = len(arguments) // 2
        return [self.block({"type": "tool_use", "id": "toolu_1", "name": "list_files", "input": {}}),
                *[self.delta({"type": "input_json_delta", "partial_json": part}) for part in (arguments[:half], arguments[half:])]]

    def finish(self, reason="stop"):
        reason = {"stop": "end_turn", "tool": "tool_use", "length": "max_tokens", "content_filter": "refusal"}[reason]
        return self.close() + self.event({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None},
                                          "usage": {"output_tokens": USAGE_OUT}})

    def done(self):
        return self.event({"type": "message_stop"})

    def error_event(self, message="the engine broke", kind="api_error"):
        return self.event({"type": "error", "error": {"type": {"server_error": "api_error"}.get(kind, kind), "message": message}})

    def whole(self, text):
        return {"id": "msg_1", "type": "message", "role": "assistant", "model": self.model, "content": [{"type": "text", "text": text}],
                "stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": USAGE_IN, "output_tokens": USAGE_OUT}}

    def error(self, message, kind="invalid_request_error", code=None):
        kind = {"server_error": "api_error"}.get(kind, kind)
        return {"type": "error", "error": {"type": kind, "message": message} | ({"code": code} if code else {})}


class Responses(Chat):
    """OpenAI's responses."""

    name = "responses"

    def __init__(self, model, asked=None):
        super().__init__(model, asked)
        self.sequence, self.item, self.text, self.said = -1, None, "", []

    def event(self, kind, **members):
        self.sequence += 1
        return sse({"type": kind, "sequence_number": self.sequence} | members, kind)

    def response(self, status, **members):
        return {"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": self.model, "output": self.said, "error": None,
                "incomplete_details": None, "usage": None, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "instructions": None,
                "metadata": {}, "temperature": 1.0, "top_p": 1.0} | members

    def begin(self):
        return self.event("response.created", response=self.response("in_progress")) + self.event(
            "response.in_progress", response=self.response("in_progress"))

    def start(self):
        self.item = {"id": "item_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
        return self.event("response.output_item.added", output_index=0, item=self.item) + self.event(
            "response.content_part.added", item_id="item_1", output_index=0, content_index=0, part={"type": "output_text", "text": "", "annotations": []})

    def words(self, words):
        out = [self.start()] if self.item is None else []
        for word in words:
            self.text += word
            out.append(self.event("response.output_text.delta", item_id="item_1", output_index=0, content_index=0, delta=word, logprobs=[]))
        return ["".join(out[:2]), *out[2:]] if len(out) > 1 and out[0].startswith("event: response.output_item") else out

    def reasoning(self, text):
        item = {"id": "rs_1", "type": "reasoning", "summary": []}
        return self.event("response.output_item.added", output_index=0, item=item) + self.event(
            "response.reasoning_summary_text.delta", item_id="rs_1", output_index=0, summary_index=0, delta=text)

    def call(self, arguments):
        self.item = {"id": "item_1", "type": "function_call", "call_id": "call_1", "name": "list_files", "arguments": "", "status": "in_progress"}
        self.text, half = arguments, len(arguments) // 2
        return [self.event("response.output_item.added", output_index=0, item=self.item),
                *[self.event("response.function_call_arguments.delta", item_id="item_1", output_index=0, delta=part)
                  for part in (arguments[:half], arguments[half:])]]

    def finish(self, reason="stop"):
        self.reason = reason
        if self.item is None:
            return ""
        if self.item["type"] == "function_call":
            item = self.item | {"arguments": self.text, "status": "completed"}
            self.said = [item]
            return self.event("response.function_call_arguments.done", item_id="item_1", output_index=0, arguments=self.text) + self.event(
                "response.output_item.done", output_index=0, item=item)
        part = {"type": "output_text", "text": self.text, "annotations": [], "logprobs": []}
        item = self.item | {"content": [part], "status": "completed"}
        self.said = [item]
        return self.event("response.output_text.done", item_id="item_1", output_index=0, content_index=0, text=self.text, logprobs=[]) + self.event(
            "response.content_part.done", item_id="item_1", output_index=0, content_index=0, part=part) + self.event(
            "response.output_item.done", output_index=0, item=item)

    @property
    def usage(self):
        return {"input_tokens": USAGE_IN, "output_tokens": USAGE_OUT, "total_tokens": USAGE_IN + USAGE_OUT,
                "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}

    def done(self):
        reason = getattr(self, "reason", "stop")
        if reason in ("length", "content_filter"):
            why = {"reason": {"length": "max_output_tokens"}.get(reason, reason)}
            return self.event("response.incomplete", response=self.response("incomplete", usage=self.usage, incomplete_details=why))
        return self.event("response.completed", response=self.response("completed", usage=self.usage))

    def error_event(self, message="the engine broke", kind="server_error"):
        return self.event("error", code=kind, message=message, param=None)

    def whole(self, text):
        self.said = [{"id": "item_1", "type": "message", "role": "assistant", "status": "completed",
                      "content": [{"type": "output_text", "text": text, "annotations": []}]}]
        return self.response("completed", usage=self.usage)

    def prefix(self):
        last = self.asked.get("input")
        last = last[-1] if isinstance(last, list) and last else {}
        if last.get("role") != "assistant":
            return None
        content = last.get("content")
        return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or [])

    def has_thinking(self):
        return '"reasoning"' in json.dumps(self.asked.get("input"))


# Keys are paths after `/v1`.
DIALECTS = {"/chat/completions": Chat, "/completions": Completions, "/embeddings": Embeddings, "/messages": Messages, "/responses": Responses}


def speaking(path, model, asked):
    """The dialect of this request."""
    name = path.split("?")[0].removeprefix("/v1")
    return DIALECTS[name](model, asked) if name in DIALECTS else None
