"""An answer as a stream in each of the six dialects, as the vendors send it: the parts that a client or a gateway
reads, including the vendors' initial roles, ids and empty pieces.
"""

import json
import struct
import zlib

from .play import fragments

NOW = 1_760_000_000


def write(dialect, answer, model, ids):
    """Yields the bytes of the stream, one event each; `ids` returns an id for each name."""
    return WRITERS[dialect](answer, model, ids)


def sse(data, event=None):
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def chat(answer, model, ids):
    head = {"id": ids("chatcmpl-"), "object": "chat.completion.chunk", "created": NOW, "model": model}

    def chunk(delta, finish=None):
        return sse(head | {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]})

    yield chunk({"role": "assistant", "content": ""})
    calls = 0
    for piece in answer.pieces:
        if piece.kind == "call":
            function = {"name": piece.name, "arguments": ""}
            yield chunk({"tool_calls": [{"index": calls, "id": ids("call_"), "type": "function", "function": function}]})
            for text in fragments(piece.text):
                yield chunk({"tool_calls": [{"index": calls, "function": {"arguments": text}}]})
            calls += 1
        else:
            for text in fragments(piece.text):
                yield chunk({"reasoning_content" if piece.kind == "reasoning" else "content": text})
    yield chunk({}, {"stop": "stop", "length": "length", "tools": "tool_calls"}[answer.finish])
    usage = {"prompt_tokens": answer.input_tokens, "completion_tokens": answer.output_tokens,
             "total_tokens": answer.input_tokens + answer.output_tokens,
             "prompt_tokens_details": {"cached_tokens": answer.cached_tokens}}
    yield sse(head | {"choices": [], "usage": usage})
    yield sse("[DONE]")


def responses(answer, model, ids):
    sequence = 0

    def event(kind, **members):
        nonlocal sequence
        sequence += 1
        return sse({"type": kind, "sequence_number": sequence - 1} | members, kind)

    response = {"id": ids("resp_"), "object": "response", "created_at": NOW, "status": "in_progress", "model": model,
                "output": [], "error": None, "incomplete_details": None, "instructions": None, "metadata": {},
                "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "temperature": 1.0, "top_p": 1.0, "usage": None}
    yield event("response.created", response=response)
    yield event("response.in_progress", response=response)
    output = []
    for index, piece in enumerate(answer.pieces):
        # Long answers are one message of many pieces.
        if piece.kind == "text" and output and output[-1]["type"] == "message":
            output[-1]["content"][0]["text"] += piece.text
            continue
        output.append(item_of(piece, ids, answer.signature))
    for index, item in enumerate(output):
        yield from item_events(event, index, item)
    usage = {"input_tokens": answer.input_tokens, "input_tokens_details": {"cached_tokens": answer.cached_tokens, "cache_write_tokens": 0},
             "output_tokens": answer.output_tokens, "output_tokens_details": {"reasoning_tokens": 0},
             "total_tokens": answer.input_tokens + answer.output_tokens}
    cut = answer.finish == "length"
    status = "incomplete" if cut else "completed"
    done = response | {"status": status, "output": output, "usage": usage,
                       "incomplete_details": {"reason": "max_output_tokens"} if cut else None}
    yield event(f"response.{status}", response=done)


def item_of(piece, ids, signature):
    if piece.kind == "reasoning":
        return {"id": ids("rs_"), "type": "reasoning", "summary": [{"type": "summary_text", "text": piece.text}],
                "encrypted_content": signature}
    if piece.kind == "compaction":
        return {"id": ids("cmp_"), "type": "compaction", "encrypted_content": signature}
    namespace = {"namespace": piece.namespace} if piece.namespace else {}
    if piece.is_custom:
        return {"id": ids("ctc_"), "type": "custom_tool_call", "status": "completed", "call_id": ids("call_"), "name": piece.name,
                "input": piece.text} | namespace
    if piece.kind == "call":
        return {"id": ids("fc_"), "type": "function_call", "status": "completed", "call_id": ids("call_"), "name": piece.name,
                "arguments": piece.text} | namespace
    part = {"type": "output_text", "text": piece.text, "annotations": [], "logprobs": []}
    return {"id": ids("msg_"), "type": "message", "status": "completed", "role": "assistant", "content": [part]}


def item_events(event, index, item):
    at = {"item_id": item["id"], "output_index": index}
    empty = {"message": {"status": "in_progress", "content": []}, "function_call": {"status": "in_progress", "arguments": ""},
             "reasoning": {"summary": []}, "custom_tool_call": {"status": "in_progress", "input": ""}}
    yield event("response.output_item.added", output_index=index, item=item | empty.get(item["type"], {}))
    if item["type"] == "function_call":
        for text in fragments(item["arguments"]):
            yield event("response.function_call_arguments.delta", delta=text, **at)
        yield event("response.function_call_arguments.done", arguments=item["arguments"], name=item["name"], **at)
    elif item["type"] == "custom_tool_call":
        for text in fragments(item["input"]):
            yield event("response.custom_tool_call_input.delta", delta=text, **at)
        yield event("response.custom_tool_call_input.done", input=item["input"], **at)
    elif item["type"] == "reasoning":
        part = item["summary"][0]
        yield event("response.reasoning_summary_part.added", summary_index=0, part=part | {"text": ""}, **at)
        for text in fragments(part["text"]):
            yield event("response.reasoning_summary_text.delta", summary_index=0, delta=text, **at)
        yield event("response.reasoning_summary_text.done", summary_index=0, text=part["text"], **at)
        yield event("response.reasoning_summary_part.done", summary_index=0, part=part, **at)
    elif item["type"] == "message":
        part = item["content"][0]
        yield event("response.content_part.added", content_index=0, part=part | {"text": ""}, **at)
        for text in fragments(part["text"]):
            yield event("response.output_text.delta", content_index=0, delta=text, logprobs=[], **at)
        yield event("response.output_text.done", content_index=0, text=part["text"], logprobs=[], **at)
        yield event("response.content_part.done", content_index=0, part=part, **at)
    yield event("response.output_item.done", output_index=index, item=item)


def messages(answer, model, ids):
    def event(kind, **members):
        return sse({"type": kind} | members, kind)

    usage = {"input_tokens": answer.input_tokens - answer.cached_tokens, "cache_creation_input_tokens": 0,
             "cache_read_input_tokens": answer.cached_tokens, "output_tokens": 1}
    message = {"id": ids("msg_"), "type": "message", "role": "assistant", "model": model, "content": [], "stop_reason": None,
               "stop_sequence": None, "usage": usage}
    yield event("message_start", message=message)
    yield event("ping")
    for index, (kind, name, texts) in enumerate(joined(answer.pieces)):
        block = {"reasoning": {"type": "thinking", "thinking": "", "signature": ""}, "text": {"type": "text", "text": ""},
                 "call": {"type": "tool_use", "id": ids("toolu_"), "name": name, "input": {}}}[kind]
        delta, member = {"reasoning": ("thinking_delta", "thinking"), "text": ("text_delta", "text"),
                         "call": ("input_json_delta", "partial_json")}[kind]
        yield event("content_block_start", index=index, content_block=block)
        for text in [""] + texts if kind == "call" else texts:
            yield event("content_block_delta", index=index, delta={"type": delta, member: text})
        if kind == "reasoning":
            yield event("content_block_delta", index=index, delta={"type": "signature_delta", "signature": answer.signature})
        yield event("content_block_stop", index=index)
    reason = {"stop": "end_turn", "length": "max_tokens", "tools": "tool_use"}[answer.finish]
    yield event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage={"output_tokens": answer.output_tokens})
    yield event("message_stop")


def joined(pieces):
    """Joins adjacent texts into one block."""
    blocks = []
    for piece in pieces:
        if piece.kind == "text" and blocks and blocks[-1][0] == "text":
            blocks[-1][2].extend(fragments(piece.text))
        else:
            blocks.append((piece.kind, piece.name, fragments(piece.text)))
    return blocks


def gemini(answer, model, ids):
    head = {"modelVersion": model, "responseId": ids("g")}
    usage = {"promptTokenCount": answer.input_tokens, "cachedContentTokenCount": answer.cached_tokens,
             "totalTokenCount": answer.input_tokens}

    def chunk(parts, **members):
        return sse({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0} | members], "usageMetadata": usage} | head)

    for piece in answer.pieces:
        if piece.kind == "call":
            call = {"name": piece.name, "args": json.loads(piece.text)}
            yield chunk([{"functionCall": call, "thoughtSignature": answer.signature}])
        for text in fragments(piece.text) if piece.kind != "call" else []:
            yield chunk([{"text": text} | ({"thought": True} if piece.kind == "reasoning" else {})])
    usage |= {"candidatesTokenCount": answer.output_tokens, "totalTokenCount": answer.input_tokens + answer.output_tokens}
    yield chunk([{"text": ""}], finishReason={"length": "MAX_TOKENS"}.get(answer.finish, "STOP"))


def frame(kind, payload):
    """A message of AWS' event stream: lengths, headers, payload and checksums."""
    headers = b""
    for name, value in ((":event-type", kind), (":content-type", "application/json"), (":message-type", "event")):
        headers += struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", 7, len(value)) + value.encode()
    body = json.dumps(payload).encode()
    prelude = struct.pack("!II", 16 + len(headers) + len(body), len(headers))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + headers + body
    return message + struct.pack("!I", zlib.crc32(message))


def bedrock(answer, model, ids):
    yield frame("messageStart", {"role": "assistant"})
    for index, (kind, name, texts) in enumerate(joined(answer.pieces)):
        at = {"contentBlockIndex": index}
        if kind == "call":
            yield frame("contentBlockStart", at | {"start": {"toolUse": {"toolUseId": ids("tooluse_"), "name": name}}})
        for text in texts:
            delta = {"text": {"text": text}, "call": {"toolUse": {"input": text}}, "reasoning": {"reasoningContent": {"text": text}}}
            yield frame("contentBlockDelta", at | {"delta": delta[kind]})
        if kind == "reasoning":
            yield frame("contentBlockDelta", at | {"delta": {"reasoningContent": {"signature": answer.signature}}})
        yield frame("contentBlockStop", at)
    yield frame("messageStop", {"stopReason": {"stop": "end_turn", "length": "max_tokens", "tools": "tool_use"}[answer.finish]})
    fresh = answer.input_tokens - answer.cached_tokens
    usage = {"inputTokens": fresh, "outputTokens": answer.output_tokens, "cacheReadInputTokens": answer.cached_tokens,
             "totalTokens": answer.input_tokens + answer.output_tokens}
    yield frame("metadata", {"usage": usage, "metrics": {"latencyMs": 12}})


def ollama(answer, model, ids):
    return ollama_lines(answer, model, lambda message: {"message": {"role": "assistant", "content": ""} | message})


def ollama_generate(answer, model, ids):
    return ollama_lines(answer, model, lambda message: {"response": message.pop("content", "")} | message)


def ollama_lines(answer, model, output):
    """`output` puts a message into the members of one of Ollama's calls."""

    def line(message, **members):
        head = {"model": model, "created_at": "2026-01-01T00:00:00Z"} | output(message)
        return (json.dumps(head | {"done": False} | members) + "\n").encode()

    for piece in answer.pieces:
        if piece.kind == "call":
            function = {"name": piece.name, "arguments": json.loads(piece.text)}
            yield line({"tool_calls": [{"function": function}]})
        for text in fragments(piece.text) if piece.kind != "call" else []:
            yield line({"thinking" if piece.kind == "reasoning" else "content": text})
    yield line({}, done=True, done_reason="length" if answer.finish == "length" else "stop", total_duration=9_000_000,
               load_duration=1_000_000, prompt_eval_count=answer.input_tokens, prompt_eval_duration=2_000_000,
               eval_count=answer.output_tokens, eval_duration=5_000_000)


WRITERS = {"openai": chat, "responses": responses, "anthropic": messages, "gemini": gemini, "bedrock": bedrock, "ollama": ollama,
           "ollama_generate": ollama_generate}
