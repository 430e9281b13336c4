"""The checks of Continue's program, the same for each of its providers: `cn -p`."""

import json

import agent_checks
import cli
import kit


def run(provider, base_url):
    model = {"name": "racing", "provider": provider, "model": kit.MODEL, "apiBase": base_url, "apiKey": kit.TOKEN,
             "roles": ["chat"], "capabilities": ["tool_use"]}
    config = cli.HOME / "config.yaml"  # JSON is YAML
    config.write_text(json.dumps({"name": "gateway", "version": "1.0.0", "schema": "v1", "models": [model]}))

    def ask(text):
        return cli.run(cli.node("cn"), "--config", config, "--auto", "-p", text, CONTINUE_TELEMETRY_ENABLED="0")

    agent_checks.run(ask, use_tool=ask)
