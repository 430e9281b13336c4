"""opencode over chat completions: `opencode run` with a provider of its config."""

import json

import agent_checks
import cli
import kit

MODEL = {kit.MODEL: {"limit": {"context": 200_000, "output": 8_000}}}
OPTIONS = {"baseURL": kit.URL + "/v1", "apiKey": kit.TOKEN}
CONFIG = {"provider": {"gateway": {"npm": "@ai-sdk/openai-compatible", "options": OPTIONS, "models": MODEL}},
          "model": f"gateway/{kit.MODEL}", "small_model": f"gateway/{kit.MODEL}", "permission": {"bash": "allow"}, "autoupdate": False, "share": "disabled"}


def ask(text):
    return cli.run(cli.node("opencode"), "run", text, OPENCODE_CONFIG_CONTENT=json.dumps(CONFIG), OPENCODE_DISABLE_MODELS_FETCH="1")


agent_checks.run(ask, use_tool=ask)
