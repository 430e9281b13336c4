"""The Codex CLI, which speaks the Responses API: `codex exec` with a provider of its config."""

import json
import pathlib
import sys

import cli
import kit
from kit import check, scripted

(cli.HOME / "config.toml").write_text(f"""
model = "{kit.MODEL}"
model_provider = "gateway"
approval_policy = "never"
sandbox_mode = "danger-full-access"

[model_providers.gateway]
name = "gateway"
base_url = "{kit.URL}/v1"
env_key = "GATEWAY_TOKEN"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
""")


def codex(prompt, *flags):
    """The events of a run, by type of item."""
    out = cli.run(cli.node("codex"), "exec", "--json", "--skip-git-repo-check", *flags, prompt, CODEX_HOME=str(cli.HOME), GATEWAY_TOKEN=kit.TOKEN)
    events = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    items = {}
    for event in events:
        if event["type"] == "item.completed":
            items.setdefault(event["item"]["type"], []).append(event["item"])
    assert events[-1]["type"] == "turn.completed" and events[-1]["usage"]["output_tokens"] > 0, events[-1]
    return items


@check
def question():
    (message,) = codex("Say hello")["agent_message"]
    assert message["text"]
    if kit.SCRIPTED:
        kit.has(message["text"], "system=You are", "Say hello;")


@scripted
def command_run_for_the_model():
    items = codex("What is the weather?")
    (command,) = items["command_execution"]
    assert command["exit_code"] == 0 and "sunny" in command["aggregated_output"], command
    kit.has(items["agent_message"][-1]["text"], "calls=1", "results=Chunk ID")


@scripted
def tool_of_an_mcp_server():
    server = pathlib.Path(__file__).with_name("mcp_sky.py")
    flags = ["-c", f"mcp_servers.sky.command={json.dumps(sys.executable)}", "-c", f"mcp_servers.sky.args={json.dumps([str(server)])}"]
    items = codex("What is the weather?", *flags)
    (call,) = items["mcp_tool_call"]
    assert (call["server"], call["tool"], call["status"]) == ("sky", "weather", "completed"), call
    kit.has(items["agent_message"][-1]["text"], "calls=1", "sunny")


kit.run()
