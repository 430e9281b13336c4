"""The answer of the scripted upstream: pieces of output that depend on the request, the same in every dialect.

Not for writing them in a dialect: see `streams.py`.
"""

import base64
import dataclasses
import json

SIGNATURE = base64.b64encode(b"signed by the script, to be handed back").decode()
# The tool that is called, and its arguments: the first of these that the client offers. The client must run the tool
# with these arguments without asking.
ARGUMENTS = {
    "weather": [{"city": "Paris"}, {"city": "Rome"}],
    "mcp__sky__weather": [{"city": "Paris"}],  # Codex: a tool of an MCP server
    "Weather-weather": [{"city": "Paris"}],  # Semantic Kernel: plugin and function
    "Bash": [{"command": "echo sunny", "description": "Say the weather"}],
    "bash": [{"command": "echo sunny", "description": "Say the weather"}],
    "run_shell_command": [{"command": "echo sunny", "description": "Say the weather", "is_background": False}],
    "run_commands": [{"commands": ["echo sunny"]}],
    "exec_command": [{"cmd": "echo sunny"}],
    "shell_command": [{"command": "echo sunny"}],
    "shell": [{"command": ["echo", "sunny"]}],
    "llm_version": [{}],
    "note": [{"input": "it is sunny\nin \"Paris\""}],
}
ANSWER = {"city": "Paris", "celsius": 21}
# Some clients request structured output through a tool with one of these names. smolagents requests every answer through
# the last one.
SCHEMA_TOOLS = {"json", "final_result", "City"}
ANSWER_TOOL = "final_answer"


@dataclasses.dataclass
class Piece:
    """A piece of output: `reasoning`, `text`, or a tool's call."""

    kind: str
    text: str
    name: str = ""
    is_custom: bool = False  # a call with plain-text arguments
    namespace: str = ""  # of the called tool


@dataclasses.dataclass
class Answer:
    pieces: list
    finish: str  # stop, length or tools
    input_tokens: int
    output_tokens: int
    cached_tokens: int = 4
    signature: str = SIGNATURE  # of its reasoning


def answer(asked):
    """The user's last words select the answer: `weather` calls a tool (two at once if only our tool is offered), the
    server handles `fail` and `slow`, and all others get the digest."""
    pieces = [Piece("reasoning", "The user asks, so I think. ")] if asked.thinks else []
    tool = next((name for name in ARGUMENTS if name in asked.tools), None)
    if tool and "weather" in asked.last.lower() and not asked.results:
        is_custom = tool in asked.custom
        namespace, name = asked.namespaces.get(tool, ("", tool))
        pieces += [Piece("call", given["input"] if is_custom else json.dumps(given), name, is_custom, namespace) for given in ARGUMENTS[tool]]
        finish = "tools"
    elif schema_tool := next((name for name in asked.tools if name in SCHEMA_TOOLS), None):
        pieces.append(Piece("call", json.dumps(ANSWER), schema_tool))
        finish = "tools"
    elif ANSWER_TOOL in asked.tools:
        pieces.append(Piece("call", json.dumps({"answer": asked.digest()}), ANSWER_TOOL))
        finish = "tools"
    elif "count to" in asked.last:
        pieces += [Piece("text", f"{number} ") for number in range(2000)]
        finish = "length"
    else:
        pieces.append(Piece("text", json.dumps(ANSWER) if asked.schema else asked.digest()))
        finish = "stop"
    return Answer(pieces, finish, 40 + len(asked.last.split()), 7 * len(pieces))


def fragments(text, size=9):
    """A text split into streamed parts."""
    return [text[at : at + size] for at in range(0, len(text), size)] or [""]
