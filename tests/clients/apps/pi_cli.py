"""pi over chat completions: `pi -p` with a provider of its `models.json`."""

import json

import agent_checks
import cli
import kit

CONFIG = {"providers": {"photofinish": {"baseUrl": kit.URL + "/v1", "api": "openai-completions", "apiKey": kit.TOKEN, "models": [{"id": kit.MODEL}]}}}
(cli.HOME / ".pi/agent").mkdir(parents=True)
(cli.HOME / ".pi/agent/models.json").write_text(json.dumps(CONFIG))


def ask(text):
    return cli.run(cli.node("pi"), "--model", f"photofinish/{kit.MODEL}", "-p", text, PI_OFFLINE="1")


agent_checks.run(ask, use_tool=ask)
