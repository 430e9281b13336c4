"""The program `llm`; a file adds models that use the gateway."""

import json
import pathlib

import cli
import kit
from kit import check, scripted

HOME = cli.HOME / "llm"
HOME.mkdir()
# The file names the key; another file contains it, as `llm keys set` writes it.
(HOME / "keys.json").write_text(json.dumps({"gateway": kit.TOKEN}))
(HOME / "extra-openai-models.yaml").write_text(f"""
- model_id: racing
  model_name: {kit.MODEL}
  api_base: {kit.URL}/v1
  api_key_name: gateway
  vision: true
  supports_tools: true
  supports_schema: true
""")


def llm(*words, code=0):
    return cli.run(cli.KITS / "venv/bin/llm", *words, code=code, LLM_USER_PATH=str(HOME))


@check
def prompt_streamed():
    text = llm("prompt", "-m", "racing", "-s", "Be brief.", "-o", "max_tokens", "24", "Say hello")
    assert text.strip()
    if kit.SCRIPTED:
        kit.has(text, "system=Be brief.", "user=Say hello", "max=24")


@check
def prompt_whole_with_usage():
    assert llm("prompt", "-m", "racing", "--no-stream", "-o", "max_tokens", "24", "Say hello").strip()
    log = json.loads(llm("logs", "-n", "1", "--json"))[0]
    assert log["input_tokens"] > 0 and log["output_tokens"] > 0, log


@check
def conversation_goes_on():
    assert llm("prompt", "-m", "racing", "-c", "-o", "max_tokens", "24", "Say it again").strip()


@scripted
def tool_round_trip():
    text = llm("prompt", "-m", "racing", "-T", "llm_version", "The weather, or your version?")
    kit.has(text, "calls=1", "results=0.", "tools=1")


@scripted
def image_attached():
    import base64

    image = pathlib.Path(cli.HOME / "pixel.png")
    image.write_bytes(base64.b64decode(kit.PNG))
    kit.has(llm("prompt", "-m", "racing", "-a", image, "What is this?"), "images=1")


@scripted
def schema():
    assert json.loads(llm("prompt", "-m", "racing", "--schema", "city, celsius int", "Say hello")) == {"city": "Paris", "celsius": 21}


kit.run()
