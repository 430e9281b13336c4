"""What a stream says as a whole: written anew here, so that the gateway's own assembler is not its own judge."""

from compare import data, events, parse

# Members of a delta that name something and do not grow.
NAMES = {"role", "id", "type", "index", "name", "finish_reason", "stop_reason", "object", "model"}


def grown(before, more, name=""):
    if more is None:
        return before
    if isinstance(before, dict) and isinstance(more, dict):
        return before | {key: grown(before.get(key), value, key) for key, value in more.items()}
    if isinstance(before, list) and isinstance(more, list):
        items = list(before)
        for item in more:
            same = [at for at, old in enumerate(items) if isinstance(item, dict) and "index" in item and old.get("index") == item["index"]]
            if same:
                items[same[0]] = grown(items[same[0]], item)
            else:
                items.append(item)
        return items
    if type(before) is str and type(more) is str and name not in NAMES:
        return before + more
    return more


def choices(chunks):
    """Of chat and completions."""
    whole, by_index = {}, {}
    for chunk in chunks:
        for choice in chunk.get("choices") or []:
            by_index[choice["index"]] = grown(by_index.get(choice["index"], {}), choice)
        whole |= {name: value for name, value in chunk.items() if value is not None}
    whole["object"] = whole["object"].removesuffix(".chunk")
    whole["choices"] = [by_index[index] for index in sorted(by_index, key=int)]
    for choice in whole["choices"]:
        if "delta" in choice:
            choice["message"] = choice.pop("delta")
            for call in choice["message"].get("tool_calls") or []:
                call.pop("index", None)
    return whole


def parsed(arguments):
    """Where they are cut, a message has none."""
    try:
        return parse(arguments)
    except ValueError:
        return {}


def message(parts):
    """Of Anthropic's messages."""
    whole = {}
    for part in parts:
        match part.get("type"):
            case "message_start":
                whole = part["message"] | {"content": []}
            case "content_block_start":
                whole["content"].append(part["content_block"])
            case "content_block_delta":
                block = whole["content"][int(part["index"])]
                for name, value in part["delta"].items():
                    if name != "type":
                        block[name] = block.get(name, "") + value
            case "content_block_stop":
                block = whole["content"][int(part["index"])]
                if "partial_json" in block:
                    text = block.pop("partial_json")
                    block["input"] = parsed(text)
            case "message_delta":
                whole = grown(whole, part["delta"])
                whole["usage"] = whole.get("usage", {}) | part.get("usage", {})
    return whole


def folded(surface, body):
    """The whole answer, or None if it cannot be told."""
    parts = [part for part in map(data, events(body)) if isinstance(part, dict)]
    try:
        if surface == "messages":
            return message(parts)
        if surface == "responses":
            return [part["response"] for part in parts if "response" in part][-1]
        return choices(parts)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None
