"""The checks of Copilot's program, the same for each API that it speaks: `copilot -p` with a provider of one's own."""

import agent_checks
import cli
import kit


def run(**provider):
    # Offline it needs no account and sends nothing but what the provider is asked.
    env = {"COPILOT_OFFLINE": "true", "COPILOT_AUTO_UPDATE": "false", "COPILOT_MODEL": kit.MODEL, "COPILOT_PROVIDER_API_KEY": kit.TOKEN}

    def ask(text):
        return cli.run(cli.node("copilot"), "--allow-all-tools", "-s", "-p", text, **env | provider)

    agent_checks.run(ask, use_tool=ask)
