"""The agents, unchanged: how each is started with a prompt, taken up again, and made to compact its conversation."""

import json
import os
import pathlib
import subprocess
import sys
import time

MCP_SERVER = pathlib.Path(__file__).resolve().parent.parent / "clients/apps/mcp_sky.py"
TOKEN = "tester-token"


class Agent:
    """One session of an agent in a home of its own."""

    name, package, program = "", "", ""
    models = ()
    others = ()  # further names that it asks for by itself

    def __init__(self, kits, home, url, model, seconds=100):
        self.kits, self.home, self.url, self.model, self.seconds = kits, pathlib.Path(home), url, model, seconds
        self.is_new = True
        self.work = self.home / "work"
        self.work.mkdir()
        self.prepare()

    def prepare(self):
        """Writes its settings."""

    def move(self, url):
        """From here on it asks another gateway."""
        self.url = url
        self.prepare()

    def env(self):
        return {}

    def ask(self, prompt, is_first):
        """The program's output."""
        raise NotImplementedError

    def compact(self):
        """Asks for a compaction, where the agent takes that as a command. The others compact by themselves when the context is full."""

    def run(self, *arguments):
        # A sandbox or a container would need more of the machine than the agents do here.
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "TMPDIR": str(self.home), "LANG": "C.UTF-8", "NO_COLOR": "1"}
        command = [str(self.kits / "node/node_modules/.bin" / self.program), *arguments]
        process = subprocess.Popen(command, cwd=self.work, env=env | self.env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, start_new_session=True)
        try:
            return process.communicate(timeout=self.seconds)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            return process.communicate()[0] + f"\nnot done within {self.seconds} s"


class Codex(Agent):
    name, package, program = "codex", "@openai/codex", "codex"
    models = ("gpt-5.5", "gpt-5.6-sol", "gpt-5.6-terra", "gpt-5.6-luna", "gpt-6-astra", "gpt-6.2-sol")
    websocket = False

    def prepare(self):
        settings = {"name": "gateway", "base_url": f"{self.url}/v1", "env_key": "GATEWAY_TOKEN", "wire_api": "responses"}
        lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        lines += ["supports_websockets = true"] if self.websocket else []
        (self.home / "config.toml").write_text("\n".join([
            f'model = "{self.model}"', 'model_provider = "gateway"', 'approval_policy = "never"', 'sandbox_mode = "danger-full-access"',
            "[model_providers.gateway]", *lines, "request_max_retries = 0", "stream_max_retries = 0",
            "[mcp_servers.sky]", f"command = {json.dumps(sys.executable)}", f"args = [{json.dumps(str(MCP_SERVER))}]"]) + "\n")

    def env(self):
        return {"CODEX_HOME": str(self.home), "GATEWAY_TOKEN": TOKEN}

    def ask(self, prompt, is_first):
        again = [] if is_first else ["resume", "--last"]
        return self.run("exec", "--json", "--skip-git-repo-check", *again, prompt)


class CodexWebSocket(Codex):
    name, websocket = "codex-websocket", True


class CodexCompacted(Codex):
    """With the gateway as the address of its own provider: there it leaves compaction to the server."""

    name = "codex-compacted"

    def prepare(self):
        (self.home / "config.toml").write_text("\n".join([
            f'model = "{self.model}"', f'openai_base_url = "{self.url}/v1"', 'approval_policy = "never"', 'sandbox_mode = "danger-full-access"',
            "[mcp_servers.sky]", f"command = {json.dumps(sys.executable)}", f"args = [{json.dumps(str(MCP_SERVER))}]"]) + "\n")
        (self.home / "auth.json").write_text(json.dumps({"OPENAI_API_KEY": TOKEN, "auth_mode": "apikey"}))

    def env(self):
        return {"CODEX_HOME": str(self.home)}


class Claude(Agent):
    name, package, program = "claude-code", "@anthropic-ai/claude-code", "claude"
    models = ("claude-opus-5", "claude-sonnet-5", "claude-opus-4-8", "claude-sonnet-4-5", "claude-haiku-4-5", "opus")
    others = ("claude-haiku-4-5-20251001", "claude-haiku-5-5", "claude-sonnet-5-5", "claude-opus-4-6", "claude-opus-4-7", "claude-sonnet-4-6")

    def env(self):
        return {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_AUTH_TOKEN": TOKEN, "ANTHROPIC_MODEL": self.model,
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}

    def ask(self, prompt, is_first):
        return self.run("-p", prompt, "--allowed-tools", "Bash", "--output-format", "json", *([] if is_first else ["--continue"]))

    def compact(self):
        return self.run("-p", "/compact", "--output-format", "json", "--continue")


class Gemini(Agent):
    name, package, program = "gemini-cli", "@google/gemini-cli", "gemini"
    models = ("gemini-3-pro-preview", "gemini-3-flash-preview", "gemini-3.1-pro-preview", "gemini-2.5-pro", "gemini-2.5-flash")
    others = ("gemini-2.5-flash-lite", "gemini-3.1-flash-lite-preview", "gemini-3.1-flash-lite", "gemini-3.5-flash", "gemini-3.1-pro-preview-customtools")

    def prepare(self):
        (self.home / ".gemini").mkdir(exist_ok=True)
        settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"enableAutoUpdate": False},
                    "privacy": {"usageStatisticsEnabled": False}}
        (self.home / ".gemini/settings.json").write_text(json.dumps(settings))

    def env(self):
        return {"GEMINI_API_KEY": TOKEN, "GOOGLE_GEMINI_BASE_URL": self.url}

    def ask(self, prompt, is_first):
        again = [] if is_first else ["--resume", "latest"]
        return self.run("-m", self.model, "--skip-trust", "--yolo", *again, "-p", prompt)


class OpenCode(Agent):
    name, package, program = "opencode", "opencode-ai", "opencode"
    models = ("claude-sonnet-4-5", "gpt-5.6-sol", "gemini-3-pro-preview", "kimi-k2.6", "qwen3-coder-plus")

    def env(self):
        model = {self.model: {"limit": {"context": 200_000, "output": 8_000}}}
        gateway = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": self.url + "/v1", "apiKey": TOKEN}, "models": model}
        config = {"provider": {"gateway": gateway}, "model": f"gateway/{self.model}", "small_model": f"gateway/{self.model}",
                  "permission": {"bash": "allow"}, "autoupdate": False, "share": "disabled"}
        return {"OPENCODE_CONFIG_CONTENT": json.dumps(config), "OPENCODE_DISABLE_MODELS_FETCH": "1"}

    def ask(self, prompt, is_first):
        return self.run("run", *([] if is_first else ["--continue"]), prompt)


class Qwen(Agent):
    name, package, program = "qwen-code", "@qwen-code/qwen-code", "qwen"
    models = ("qwen3-coder-plus", "qwen3.6-plus", "qwen3.5-plus", "glm-5.1", "deepseek-v4-pro")

    def env(self):
        return {"OPENAI_API_KEY": TOKEN, "OPENAI_BASE_URL": self.url + "/v1", "OPENAI_MODEL": self.model}

    def ask(self, prompt, is_first):
        return self.run("--auth-type", "openai", "--yolo", *([] if is_first else ["--continue"]), "-p", prompt)


AGENTS = (Codex, Claude, Gemini, OpenCode, Qwen, CodexWebSocket, CodexCompacted)


def timed(ask):
    """What it gives, and the seconds it took."""
    start = time.monotonic()
    return ask(), time.monotonic() - start
