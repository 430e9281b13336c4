"""Qwen Code over chat completions: `qwen -p`."""

import agent_checks
import cli
import kit

ENV = {"OPENAI_API_KEY": kit.TOKEN, "OPENAI_BASE_URL": kit.URL + "/v1", "OPENAI_MODEL": kit.MODEL}


def ask(text):
    return cli.run(cli.node("qwen"), "--auth-type", "openai", "--yolo", "-p", text, **ENV)


agent_checks.run(ask, use_tool=ask)
