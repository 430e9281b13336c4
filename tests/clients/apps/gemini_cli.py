"""Gemini CLI over Gemini's own surface: `gemini -p`."""

import json

import agent_checks
import cli
import kit

# Without a setting it takes the address of a gateway as a way to log in that it then refuses.
(cli.HOME / ".gemini").mkdir()
(cli.HOME / ".gemini/settings.json").write_text(json.dumps({
    "security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"enableAutoUpdate": False}, "privacy": {"usageStatisticsEnabled": False}}))


def ask(text):
    return cli.run(cli.node("gemini"), "-m", kit.MODEL, "--skip-trust", "--yolo", "-p", text, GEMINI_API_KEY=kit.TOKEN, GOOGLE_GEMINI_BASE_URL=kit.URL)


agent_checks.run(ask, use_tool=ask)
