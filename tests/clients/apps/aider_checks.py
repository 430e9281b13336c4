"""The program `aider`: one question, streamed and whole."""

import cli
import kit
from kit import check

FLAGS = ["--no-git", "--yes-always", "--no-check-update", "--analytics-disable", "--no-show-model-warnings", "--no-gitignore", "--no-pretty",
         "--no-detect-urls", "--no-show-release-notes", "--map-tokens", "0", "--chat-mode", "ask"]


def run(provider, **env):
    """`env` points aider at the gateway."""
    def aider(*flags):
        message = ["--message", "Say hello"]
        return cli.run(cli.KITS / "aider/bin/python", "-m", "aider", "--model", f"{provider}/{kit.MODEL}", *FLAGS, *flags, *message, **env)

    def answered(text):
        assert "Tokens:" in text and "litellm." not in text, text[-900:]
        if kit.SCRIPTED:
            kit.has(text, "seen: system=Act as an expert", "Say hello")

    @check
    def question_streamed():
        answered(aider("--stream"))

    @check
    def question_whole():
        answered(aider("--no-stream"))

    kit.run()
