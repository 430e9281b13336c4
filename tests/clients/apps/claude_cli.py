"""Claude Code, which speaks messages: `claude -p` with a base URL."""

import json

import cli
import kit
from kit import check, scripted

ENV = {"ANTHROPIC_BASE_URL": kit.URL, "ANTHROPIC_AUTH_TOKEN": kit.TOKEN, "ANTHROPIC_MODEL": kit.MODEL, "ANTHROPIC_SMALL_FAST_MODEL": kit.MODEL,
       "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "60"}


def claude(prompt, *flags, **env):
    return cli.run(cli.node("claude"), "-p", prompt, "--allowed-tools", "Bash", *flags, **ENV | env)


def result(events):
    done = events[-1]
    assert done["type"] == "result" and not done["is_error"], done
    assert done["usage"]["output_tokens"] > 0 and done["usage"]["input_tokens"] > 0, done["usage"]
    return done["result"]


@check
def question():
    text = result([json.loads(claude("Say hello", "--output-format", "json"))])
    assert text
    if kit.SCRIPTED:
        kit.has(text, "tools=", "max=60")


@check
def question_streamed():
    out = claude("Say hello", "--output-format", "stream-json", "--include-partial-messages", "--verbose")
    events = [json.loads(line) for line in out.splitlines()]
    assert result(events)
    kinds = [event["event"]["type"] for event in events if event["type"] == "stream_event"]
    assert "message_start" in kinds and "content_block_delta" in kinds and kinds[-1] == "message_stop", kinds


@scripted
def command_run_for_the_model():
    text = result([json.loads(claude("What is the weather?", "--output-format", "json", CLAUDE_CODE_MAX_OUTPUT_TOKENS="8000"))])
    kit.has(text, "calls=1", "results=sunny")


kit.run()
