"""The checks of Cline's program, the same for each of its providers: `cline --json`."""

import json

import agent_checks
import cli
import kit


def run(provider, base_url):
    # `cline auth` takes a base URL only for OpenAI's providers.
    settings = {"provider": provider, "apiKey": kit.TOKEN, "model": kit.MODEL, "baseUrl": base_url}
    data = cli.HOME / "data"
    (data / "settings").mkdir(parents=True)
    entry = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    (data / "settings/providers.json").write_text(json.dumps(
        {"version": 1, "lastUsedProvider": provider, "modes": {}, "providers": {provider: entry}}))

    def ask(text):
        out = cli.run(cli.node("cline"), "--json", "--data-dir", data, "-P", provider, "-m", kit.MODEL, text)
        results = [json.loads(line) for line in out.splitlines() if '"type":"run_result"' in line]
        assert results and results[-1]["finishReason"] == "completed", out[-700:]
        assert results[-1]["usage"]["outputTokens"] > 0, results[-1]
        return results[-1]["text"]

    agent_checks.run(ask, use_tool=ask)
