"""Rules about the order of turns that a path cannot say. Each takes a request and gives the path and value of what breaks the rule, or
None.
"""


def messages_of(body):
    return list(enumerate(body.get("messages") or []))


def blocks(message):
    content = message.get("content")
    return content if isinstance(content, list) else []


def system_later(body):
    """A system turn that is not the first."""
    has_system = bool(body.get("system"))
    for index, message in messages_of(body):
        if message["role"] in ("system", "developer") and (index or has_system):
            return ("messages", index, "role"), message["role"]
    return None


def user_after_tool(body):
    turns = messages_of(body)
    for (_, before), (index, message) in zip(turns, turns[1:]):
        if before["role"] == "tool" and message["role"] == "user":
            return ("messages", index, "role"), "user"
    return None


def last_turn_not_user(body):
    turns = messages_of(body)
    last = turns[-1][1] if turns else {"role": "nothing"}
    is_taken = last["role"] in ("user", "tool") or last.get("prefix")
    return None if is_taken else (("messages", len(turns) - 1, "role"), last["role"])


def result_without_call(body):
    known = set()
    for index, message in messages_of(body):
        if message["role"] == "assistant":
            known = {call["id"] for call in message.get("tool_calls") or []}
        elif message["role"] == "tool" and message.get("tool_call_id") not in known:
            return ("messages", index, "role"), message.get("tool_call_id")
        elif message["role"] != "tool":
            known = set()
    return None


def call_without_result(body):
    turns = messages_of(body)
    for index, message in turns:
        missing = {call["id"] for call in message.get("tool_calls") or []}
        for _, after in turns[index + 1:]:
            if after["role"] != "tool":
                break
            missing.discard(after.get("tool_call_id"))
        if missing:
            return ("messages", index, "role"), ", ".join(sorted(missing))
    return None


def call_without_reasoning(body):
    for index, message in messages_of(body):
        if message.get("tool_calls") and not message.get("reasoning_content"):
            return ("messages", index), ""
    return None


CALLS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output", "local_shell_call": "local_shell_call_output",
         "tool_search_call": "tool_search_output"}


def items(body, kinds):
    given = body.get("input")
    return [(index, item) for index, item in enumerate(given if isinstance(given, list) else []) if item.get("type") in kinds]


def item_call_without_output(body):
    answered = {item.get("call_id") for _, item in items(body, CALLS.values())}
    return next(((("input", index), item["call_id"]) for index, item in items(body, CALLS) if item.get("call_id") not in answered
                 and item.get("execution") != "server"), None)


def item_output_without_call(body):
    called = {item.get("call_id") for _, item in items(body, CALLS)}
    return next(((("input", index), item["call_id"]) for index, item in items(body, CALLS.values()) if item.get("call_id") not in called
                 and item.get("execution") != "server"), None)


def item_reasoning_last(body):
    """Reasoning that an output of the model does not follow."""
    given = body.get("input")
    given = given if isinstance(given, list) else []
    for index, item in enumerate(given):
        after = given[index + 1] if index + 1 < len(given) else {}
        follows = after.get("type") in CALLS or after.get("role") == "assistant" or str(after.get("type", "")).endswith("_call")
        if item.get("type") == "reasoning" and not follows:
            return ("input", index), item.get("id")
    return None


def tool_use_without_result(body):
    turns = messages_of(body)
    for index, message in turns:
        asked = {block["id"] for block in blocks(message) if block["type"] == "tool_use"}
        after = turns[index + 1][1] if index + 1 < len(turns) else {}
        missing = asked - {block.get("tool_use_id") for block in blocks(after) if block["type"] == "tool_result"}
        if missing:
            return ("messages", index), ", ".join(sorted(missing))
    return None


def thinking_without_signature(body):
    for index, message in messages_of(body):
        if any(block["type"] == "thinking" and not block.get("signature") for block in blocks(message)):
            return ("messages", index), ""
    return None


def tool_use_without_thinking(body):
    for index, message in messages_of(body):
        kinds = [block["type"] for block in blocks(message)]
        if "tool_use" in kinds and "thinking" not in kinds:
            return ("messages", index), ""
    return None


def bedrock_call_without_result(body):
    turns = messages_of(body)
    for index, message in turns:
        asked = {block["toolUse"]["toolUseId"] for block in blocks(message) if "toolUse" in block}
        after = turns[index + 1][1] if index + 1 < len(turns) else {}
        missing = asked - {block["toolResult"]["toolUseId"] for block in blocks(after) if "toolResult" in block}
        if missing:
            return ("messages", index + 1), ", ".join(sorted(missing))
    return None


def bedrock_error_without_content(body):
    for index, message in messages_of(body):
        for block in blocks(message):
            result = block.get("toolResult") or {}
            if result.get("status") == "error" and not result.get("content"):
                return ("messages", index), ""
    return None


def contents(body):
    return list(enumerate(body.get("contents") or []))


def calls_in(content):
    return [part for part in content.get("parts") or [] if "functionCall" in part]


def responses_in(content):
    return [part for part in content.get("parts") or [] if "functionResponse" in part]


def gemini_call_without_signature(body):
    """In the running turn, the first call of each step."""
    turns = contents(body)
    is_question = [content.get("role") != "model" and not responses_in(content) for _, content in turns]
    start = max((index for index, is_one in enumerate(is_question) if is_one), default=0)
    for index, content in turns[start:]:
        first = next(iter(calls_in(content)), None)
        if first and not first.get("thoughtSignature"):
            return ("contents", index), first["functionCall"]["name"]
    return None


def gemini_call_out_of_turn(body):
    turns = contents(body)
    for index, content in turns:
        if calls_in(content) and (not index or turns[index - 1][1].get("role") == "model"):
            return ("contents", index), ""
    return None


def gemini_response_count(body):
    turns = contents(body)
    for index, content in turns:
        after = turns[index + 1][1] if index + 1 < len(turns) else {}
        if calls_in(content) and len(calls_in(content)) != len(responses_in(after)):
            return ("contents", index), ""
    return None


ORDERS = {order.__name__: order for order in (
    system_later, user_after_tool, last_turn_not_user, result_without_call, call_without_result, call_without_reasoning,
    item_call_without_output, item_output_without_call, item_reasoning_last, tool_use_without_result, thinking_without_signature,
    tool_use_without_thinking, bedrock_call_without_result, bedrock_error_without_content, gemini_call_without_signature,
    gemini_call_out_of_turn, gemini_response_count)}
