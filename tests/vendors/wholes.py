"""An answer that is not streamed, in each dialect."""

import json

from scripted import streams


def of(dialect, answer, events, model, ids):
    return WHOLES[dialect](answer, events, model, ids)


def chat(answer, events, model, ids):
    text = "".join(piece.text for piece in answer.pieces if piece.kind == "text")
    reasoning = "".join(piece.text for piece in answer.pieces if piece.kind == "reasoning")
    calls = [{"id": ids("call_"), "type": "function", "function": {"name": piece.name, "arguments": piece.text}}
             for piece in answer.pieces if piece.kind == "call"]
    message = {"role": "assistant", "content": text or None}
    message |= {"tool_calls": calls} if calls else {}
    message |= {"reasoning_content": reasoning} if reasoning else {}
    usage = {"prompt_tokens": answer.input_tokens, "completion_tokens": answer.output_tokens, "total_tokens": answer.input_tokens + answer.output_tokens}
    return {"id": ids("chatcmpl-"), "object": "chat.completion", "created": streams.NOW, "model": model, "usage": usage,
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}]}


def responses(answer, events, model, ids):
    """The last event of the stream has it whole."""
    data = next(line for line in events[-1].decode().splitlines() if line.startswith("data: "))
    return json.loads(data.removeprefix("data: "))["response"]


def messages(answer, events, model, ids):
    content = []
    for piece in answer.pieces:
        if piece.kind == "call":
            content.append({"type": "tool_use", "id": ids("toolu_"), "name": piece.name, "input": json.loads(piece.text)})
        elif piece.kind == "reasoning":
            content.append({"type": "thinking", "thinking": piece.text, "signature": answer.signature})
        else:
            content.append({"type": "text", "text": piece.text})
    usage = {"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens}
    return {"id": ids("msg_"), "type": "message", "role": "assistant", "model": model, "content": content, "usage": usage,
            "stop_reason": "tool_use" if answer.finish == "tools" else "end_turn", "stop_sequence": None}


def gemini(answer, events, model, ids):
    parts = []
    for piece in answer.pieces:
        if piece.kind == "call":
            parts.append({"functionCall": {"name": piece.name, "args": json.loads(piece.text)}, "thoughtSignature": answer.signature})
        else:
            parts.append({"text": piece.text} | ({"thought": True} if piece.kind == "reasoning" else {}))
    usage = {"promptTokenCount": answer.input_tokens, "candidatesTokenCount": answer.output_tokens,
             "totalTokenCount": answer.input_tokens + answer.output_tokens}
    return {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}], "usageMetadata": usage,
            "modelVersion": model, "responseId": ids("g")}


def bedrock(answer, events, model, ids):
    content = []
    for piece in answer.pieces:
        if piece.kind == "call":
            content.append({"toolUse": {"toolUseId": ids("tooluse_"), "name": piece.name, "input": json.loads(piece.text)}})
        elif piece.kind == "reasoning":
            content.append({"reasoningContent": {"reasoningText": {"text": piece.text, "signature": answer.signature}}})
        else:
            content.append({"text": piece.text})
    usage = {"inputTokens": answer.input_tokens, "outputTokens": answer.output_tokens, "totalTokens": answer.input_tokens + answer.output_tokens}
    return {"output": {"message": {"role": "assistant", "content": content}}, "stopReason": "tool_use" if answer.finish == "tools" else "end_turn",
            "usage": usage, "metrics": {"latencyMs": 12}}


WHOLES = {"openai": chat, "responses": responses, "anthropic": messages, "gemini": gemini, "bedrock": bedrock}
