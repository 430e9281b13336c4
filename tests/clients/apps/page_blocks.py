"""The blocks of `docs/apps.md`, run as they are, with the address, the token and the model of this run in them."""

import os
import pathlib
import re
import subprocess

import cli
import kit

PAGE = pathlib.Path(__file__).parents[3] / "docs/apps.md"
# What the environment of a block adds: they must not look for newer versions of themselves.
QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1",
         "OPENCODE_DISABLE_AUTOUPDATE": "1", "PI_OFFLINE": "1", "CONTINUE_TELEMETRY_ENABLED": "0", "COPILOT_AUTO_UPDATE": "false",
         "AIDER_CHECK_UPDATE": "false", "AIDER_ANALYTICS_DISABLE": "true", "AIDER_YES_ALWAYS": "true", "AIDER_GIT": "false",
         "AIDER_SHOW_MODEL_WARNINGS": "false", "AIDER_DETECT_URLS": "false", "PHOTOFINISH_TOKEN": kit.TOKEN}
KITS = {"LangChain": "langchain", "LiteLLM": "litellm", "default": "venv"}
FENCED = re.compile(r"(?:`(~/[^`]+)`:\n\n)?```(\w+)\n(.*?)\n```", re.DOTALL)


def here(text):
    """The block, for this run."""
    text = text.replace("photofinish env ", f"photofinish env --url {kit.URL} ").replace("http://127.0.0.1:8080", kit.URL).replace("TOKEN", kit.TOKEN)
    return re.sub(r"\bdemo\b", kit.MODEL, text)


def command(name, language, text):
    if language == "sh":
        return ["bash", "-ec", text]
    path = cli.HOME / f"block.{language}"
    if language == "js":
        path = path.with_suffix(".mjs")
        if not (cli.HOME / "node_modules").exists():
            (cli.HOME / "node_modules").symlink_to(cli.KITS / "node/node_modules")
    path.write_text(text)
    return ["node", path] if language == "js" else [cli.KITS / KITS.get(name, KITS["default"]) / "bin/python", path]


def add(name, body):
    """A check for the section, if it has a command."""
    files = [(path, text) for path, _, text in FENCED.findall(body) if path]
    blocks = [(language, text) for path, language, text in FENCED.findall(body) if language in ("sh", "python", "js") and "Say hello" in text]

    def run():
        for path, text in files:
            path = cli.HOME / path.removeprefix("~/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(here(text))
        bins = [cli.KITS / "node/node_modules/.bin", cli.KITS / "venv/bin", cli.KITS / "aider/bin", pathlib.Path(os.environ["PF_BINARY"]).parent]
        env = {name: os.environ[name] for name in ("HOME", "TMPDIR", "LANG", "NO_COLOR")} | QUIET
        env["PATH"] = ":".join([*map(str, bins), os.environ["PATH"]])
        for language, text in blocks:
            done = subprocess.run(list(map(str, command(name, language, here(text)))), cwd=cli.HOME, env=env, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=200)
            assert done.returncode == 0, f"exit code {done.returncode}: {done.stdout[-300:]} {done.stderr[-500:]}"
            # The beginning of what the script answers.
            assert "seen" in done.stdout, done.stdout[-700:]

    run.__name__ = name
    if blocks:
        kit.scripted(run)


for section in re.split(r"^##+ ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
    add(*section.split("\n", 1))
kit.run()
