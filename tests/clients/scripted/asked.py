"""Reads a request in any of the six dialects into one form, so that one script answers them all.

Not for validation: the script ignores everything that it does not use.
"""

import dataclasses
import json
import re


@dataclasses.dataclass
class Asked:
    """The parts of a request that the script's answer depends on."""

    dialect: str
    system: str = ""
    last: str = ""  # the last text of the user
    images: int = 0
    files: int = 0
    tools: list = dataclasses.field(default_factory=list)
    custom: list = dataclasses.field(default_factory=list)  # those of them with plain text input
    namespaces: dict = dataclasses.field(default_factory=dict)  # namespace and name of those of them in one, by both names
    calls: int = 0  # tool calls in the conversation
    results: list = dataclasses.field(default_factory=list)  # results of the calls after the user's last text
    reasoned: int = 0  # reasoning of earlier turns in the request
    thinks: bool = False
    schema: bool = False
    stops: list = dataclasses.field(default_factory=list)
    options: dict = dataclasses.field(default_factory=dict)

    def user(self, text):
        # Clients add their own reminders after the user's text, also after a result.
        if text and not self.results:
            self.last = text

    def digest(self):
        """The request as the script received it, as the text of its answer: this is how a client's check sees what
        passed the gateway."""
        said = [f"system={self.system[:40]}", f"user={self.last[-60:]}", f"images={self.images}", f"files={self.files}",
                f"tools={len(self.tools)}", f"calls={self.calls}", f"results={'+'.join(r[:40] for r in self.results)}",
                f"reasoned={self.reasoned}", f"schema={int(self.schema)}", f"stops={'+'.join(self.stops)}"]
        said += [f"{name}={value}" for name, value in self.options.items() if value is not None]
        return "seen: " + "; ".join(said) + "."


def read(dialect, body):
    asked = Asked(dialect)
    READERS[dialect](asked, body)
    return asked


def plain(content):
    """The text of a member that is a string, an object or a list of parts with `text`."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content] if content else []
    return "".join(part if isinstance(part, str) else part.get("text") or json.dumps(part.get("json", "")).strip('"') for part in parts)


def chat(asked, body):
    asked.tools = [tool[tool["type"]]["name"] for tool in body.get("tools") or [] if tool["type"] in tool]
    asked.schema = (body.get("response_format") or {}).get("type") == "json_schema"
    asked.thinks = body.get("reasoning_effort") not in (None, "none")
    stop = body.get("stop") or []
    asked.stops = [stop] if isinstance(stop, str) else stop
    asked.options = {"max": body.get("max_tokens") or body.get("max_completion_tokens"), "temperature": body.get("temperature")}
    for message in body["messages"]:
        role, content = message["role"], message.get("content")
        if role in ("system", "developer"):
            asked.system += plain(content)
        elif role == "user":
            parts = content if isinstance(content, list) else []
            asked.images += sum(part["type"] == "image_url" for part in parts)
            asked.files += sum(part["type"] == "file" for part in parts)
            asked.user(plain(content))
        elif role == "tool":
            asked.results.append(plain(content))
        else:
            asked.calls += len(message.get("tool_calls") or [])
            asked.reasoned += bool(message.get("reasoning_content"))


def responses(asked, body):
    asked.system = body.get("instructions") or ""
    items = body["input"]
    items = [{"role": "user", "content": items}] if isinstance(items, str) else items
    offered = [*(body.get("tools") or []), *(tool for item in items if item.get("type") == "additional_tools" for tool in item["tools"])]
    for tool in offered:
        if tool["type"] == "namespace":
            names = {f"{tool['name']}__{inner['name']}": inner for inner in tool["tools"]}
            asked.namespaces |= {joined: (tool["name"], inner["name"]) for joined, inner in names.items()}
            asked.custom += [joined for joined, inner in names.items() if inner["type"] == "custom"]
        elif tool["type"] in ("function", "custom"):
            asked.tools.append(tool["name"])
    asked.tools += asked.namespaces
    asked.custom += [tool["name"] for tool in offered if tool["type"] == "custom"]
    asked.schema = ((body.get("text") or {}).get("format") or {}).get("type") == "json_schema"
    asked.thinks = bool((body.get("reasoning") or {}).get("effort"))
    asked.options = {"max": body.get("max_output_tokens"), "temperature": body.get("temperature")}
    for item in items:
        kind = item.get("type", "message")
        if kind in ("function_call_output", "custom_tool_call_output"):
            asked.results.append(plain(item["output"]))
        elif kind in ("function_call", "custom_tool_call"):
            asked.calls += 1
        elif kind == "reasoning":
            asked.reasoned += 1
        elif kind == "message" and item["role"] in ("system", "developer"):
            asked.system += plain(item["content"])
        elif kind == "message" and item["role"] == "user":
            parts = item["content"] if isinstance(item["content"], list) else []
            asked.images += sum(part["type"] == "input_image" for part in parts)
            asked.files += sum(part["type"] == "input_file" for part in parts)
            asked.user(plain(item["content"]))


def messages(asked, body):
    asked.system = plain(body.get("system"))
    asked.tools = [tool["name"] for tool in body.get("tools") or []]
    form = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    asked.schema = form.get("type") == "json_schema"
    asked.thinks = (body.get("thinking") or {}).get("type") in ("enabled", "adaptive")
    asked.stops = body.get("stop_sequences") or []
    asked.options = {"max": body.get("max_tokens"), "temperature": body.get("temperature")}
    for message in body["messages"]:
        content = message["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        kinds = [block["type"] for block in content]
        if message["role"] != "user":
            asked.calls += kinds.count("tool_use")
            asked.reasoned += kinds.count("thinking") + kinds.count("redacted_thinking")
            continue
        asked.images += kinds.count("image")
        asked.files += kinds.count("document")
        asked.results += [plain(block.get("content")) for block in content if block["type"] == "tool_result"]
        asked.user("".join(block["text"] for block in content if block["type"] == "text"))


def camel(value):
    """Google's clients may write `inline_data` for `inlineData`."""
    if isinstance(value, list):
        return [camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {re.sub("_(.)", lambda found: found[1].upper(), key): camel(item) for key, item in value.items()}


def gemini(asked, body):
    body = camel(body)
    asked.system = plain((body.get("systemInstruction") or {}).get("parts"))
    asked.tools = [one["name"] for tool in body.get("tools") or [] for one in tool.get("functionDeclarations") or []]
    config = body.get("generationConfig") or {}
    asked.schema = bool(config.get("responseJsonSchema") or config.get("responseSchema"))
    asked.thinks = bool((config.get("thinkingConfig") or {}).get("includeThoughts"))
    asked.stops = config.get("stopSequences") or []
    asked.options = {"max": config.get("maxOutputTokens"), "temperature": config.get("temperature")}
    for content in body["contents"]:
        parts = content["parts"]
        asked.calls += sum("functionCall" in part for part in parts)
        asked.reasoned += sum("thoughtSignature" in part for part in parts)
        if content.get("role") == "model":
            continue
        for part in parts:
            data = part.get("inlineData") or part.get("fileData") or {}
            image = data.get("mimeType", "image/").startswith("image/")
            asked.images += bool(data) and image
            asked.files += bool(data) and not image
            if "functionResponse" in part:
                answer = part["functionResponse"]["response"]
                asked.results.append(" ".join(str(value) for value in answer.values()))
        asked.user("".join(part.get("text", "") for part in parts))


def bedrock(asked, body):
    asked.system = plain(body.get("system"))
    asked.tools = [tool["toolSpec"]["name"] for tool in (body.get("toolConfig") or {}).get("tools", []) if "toolSpec" in tool]
    asked.schema = "outputConfig" in body
    extra = body.get("additionalModelRequestFields") or {}
    asked.thinks = bool(extra.get("thinking") or extra.get("reasoning_config"))
    config = body.get("inferenceConfig") or {}
    asked.stops = config.get("stopSequences") or []
    asked.options = {"max": config.get("maxTokens"), "temperature": config.get("temperature")}
    for message in body["messages"]:
        blocks = message["content"]
        if message["role"] != "user":
            asked.calls += sum("toolUse" in block for block in blocks)
            asked.reasoned += sum("reasoningContent" in block for block in blocks)
            continue
        asked.images += sum("image" in block for block in blocks)
        asked.files += sum("document" in block for block in blocks)
        asked.results += [plain(block["toolResult"]["content"]) for block in blocks if "toolResult" in block]
        asked.user("".join(block.get("text", "") for block in blocks))


def ollama(asked, body):
    asked.tools = [tool["function"]["name"] for tool in body.get("tools") or []]
    asked.schema = isinstance(body.get("format"), dict)
    asked.thinks = bool(body.get("think"))
    options = body.get("options") or {}
    stop = options.get("stop") or []
    asked.stops = [stop] if isinstance(stop, str) else stop
    asked.options = {"max": options.get("num_predict"), "temperature": options.get("temperature")}
    for message in body["messages"]:
        asked.calls += len(message.get("tool_calls") or [])
        asked.reasoned += bool(message.get("thinking"))
        if message["role"] == "system":
            asked.system += message["content"]
        elif message["role"] == "user":
            asked.images += len(message.get("images") or [])
            asked.user(message["content"])
        elif message["role"] == "tool":
            asked.results.append(message["content"])


def ollama_generate(asked, body):
    messages = [{"role": "system", "content": body.get("system") or ""},
                {"role": "user", "content": body["prompt"], "images": body.get("images")}]
    ollama(asked, body | {"messages": messages})


READERS = {"openai": chat, "responses": responses, "anthropic": messages, "gemini": gemini, "bedrock": bedrock, "ollama": ollama,
           "ollama_generate": ollama_generate}
