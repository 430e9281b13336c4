"""promptfoo: `promptfoo eval` asks the same of every surface that it has a provider for, and compares."""

import json

import cli
import kit
from kit import check

SHORT = {"apiKey": kit.TOKEN, "max_tokens": 24}
PROVIDERS = {
    f"openai:chat:{kit.MODEL}": SHORT | {"apiBaseUrl": kit.URL + "/v1"},
    f"openai:responses:{kit.MODEL}": SHORT | {"apiBaseUrl": kit.URL + "/v1"},
    f"anthropic:messages:{kit.MODEL}": SHORT | {"apiBaseUrl": kit.URL},
    # It asks a model with another name for what Google no longer serves.
    f"google:gemini-{kit.MODEL}": {"apiBaseUrl": kit.URL, "apiKey": kit.TOKEN, "generationConfig": {"maxOutputTokens": 24}},
    f"ollama:chat:{kit.MODEL}": {"num_predict": 24},
}
ENV = {"OLLAMA_BASE_URL": kit.URL, "OLLAMA_API_KEY": kit.TOKEN, "PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1",
       "PROMPTFOO_CONFIG_DIR": str(cli.HOME / "promptfoo")}


@check
def answers_of_every_surface():
    test = {"vars": {"question": "Say hello"}}
    if kit.SCRIPTED:
        test["assert"] = [{"type": "contains", "value": "user=Say hello"}]
    providers = [{"id": name, "config": config} for name, config in PROVIDERS.items()]
    config = {"prompts": ["{{question}}"], "providers": providers, "tests": [test]}
    (cli.HOME / "promptfooconfig.json").write_text(json.dumps(config))
    # It needs no more room than its table, and ends with an error where a test has failed.
    cli.run(cli.node("promptfoo"), "eval", "-c", "promptfooconfig.json", "--no-cache", "--no-write", "--no-table", "-o", "out.json", code=None, **ENV)
    results = {result["provider"]["id"]: result for result in json.loads((cli.HOME / "out.json").read_text())["results"]["results"]}
    assert results.keys() == PROVIDERS.keys(), list(results)
    wrong = {name: result.get("error") for name, result in results.items() if not result["success"]}
    assert not wrong, wrong
    usage = [result["response"]["tokenUsage"] for result in results.values()]
    assert all(tokens["prompt"] > 0 and tokens["completion"] > 0 for tokens in usage), usage


kit.run()
