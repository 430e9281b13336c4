"""The clients: the script, the required installation and the native dialect of each."""

import dataclasses
import json
import pathlib
import sys

APPS = pathlib.Path(__file__).resolve().parent.parent / "apps"
# The surface of a client with this dialect, as named in the rows.
SURFACES = {"openai": "chat", "responses": "responses", "anthropic": "messages", "gemini": "gemini", "ollama": "ollama_chat"}


@dataclasses.dataclass(frozen=True)
class Client:
    name: str
    dialect: str  # the native dialect
    script: str
    needs: str  # in the folder of installed clients
    version: str  # the file with its version, in that folder
    quick: bool = False  # installs within a minute
    seconds: int = 120

    def command(self, kits):
        path = str(APPS / self.script)
        if path.endswith(".mjs"):
            return ["node", path]
        # The scripts that run a program need only Python.
        own = kits / self.needs.split("/")[0] / "bin/python"
        return [str(own if own.exists() else sys.executable), path]

    @property
    def surface(self):
        return SURFACES[self.dialect]


def python(name, dialect, script, package, folder="venv", info=None, **more):
    packages = f"{folder}/lib/*/site-packages"
    return Client(name, dialect, script, f"{packages}/{package}", f"{packages}/{info or package}-*.dist-info", **more)


def node(name, dialect, script, package, folder="node", **more):
    return Client(name, dialect, script, f"{folder}/node_modules/{package}", f"{folder}/node_modules/{package}/package.json", **more)


CLIENTS = [
    python("openai-python", "openai", "openai_chat.py", "openai", quick=True),
    python("openai-python-responses", "responses", "openai_responses.py", "openai", quick=True),
    python("anthropic-python", "anthropic", "anthropic_messages.py", "anthropic", quick=True),
    python("google-genai-python", "gemini", "google_genai.py", "google/genai", info="google_genai", quick=True),
    python("ollama-python", "ollama", "ollama_library.py", "ollama", quick=True),
    node("openai-node", "openai", "openai_chat.mjs", "openai", quick=True),
    node("openai-node-responses", "responses", "openai_responses.mjs", "openai", quick=True),
    node("anthropic-node", "anthropic", "anthropic_messages.mjs", "@anthropic-ai/sdk", quick=True),
    node("google-genai-node", "gemini", "google_genai.mjs", "@google/genai"),
    node("ollama-node", "ollama", "ollama_library.mjs", "ollama"),
    python("langchain-openai", "openai", "langchain_openai_chat.py", "langchain_openai", "langchain"),
    python("langchain-responses", "responses", "langchain_responses.py", "langchain_openai", "langchain"),
    python("langchain-anthropic", "anthropic", "langchain_messages.py", "langchain_anthropic", "langchain"),
    node("ai-sdk-compatible", "openai", "ai_compatible.mjs", "@ai-sdk/openai-compatible"),
    node("ai-sdk-openai", "responses", "ai_openai.mjs", "@ai-sdk/openai"),
    node("ai-sdk-anthropic", "anthropic", "ai_anthropic.mjs", "@ai-sdk/anthropic"),
    python("openai-agents", "responses", "openai_agents.py", "agents", "agents", "openai_agents", quick=True),
    python("pydantic-ai", "openai", "pydantic_ai_chat.py", "pydantic_ai", "agents", "pydantic_ai_slim", quick=True),
    python("pydantic-ai-anthropic", "anthropic", "pydantic_ai_messages.py", "pydantic_ai", "agents", "pydantic_ai_slim"),
    python("instructor", "openai", "instructor_chat.py", "instructor", "agents"),
    python("smolagents", "openai", "smolagents_chat.py", "smolagents", "frameworks"),
    python("haystack", "openai", "haystack_chat.py", "haystack", "frameworks", "haystack_ai"),
    python("langgraph", "openai", "langgraph_chat.py", "langgraph", "langchain"),
    python("litellm", "openai", "litellm_library.py", "litellm", "litellm"),
    python("llama-index", "openai", "llama_index_chat.py", "llama_index", "llama-index", "llama_index_core"),
    python("autogen", "openai", "autogen_chat.py", "autogen_agentchat", "autogen"),
    python("semantic-kernel", "openai", "semantic_kernel_chat.py", "semantic_kernel", "semantic-kernel"),
    python("dspy", "openai", "dspy_chat.py", "dspy", "dspy"),
    python("crewai", "openai", "crewai_chat.py", "crewai", "crewai"),
    python("goose", "openai", "goose_chat.py", "goose", "goose", "goose_sdk"),
    python("pipecat", "openai", "pipecat_pipeline.py", "pipecat", "voice", "pipecat_ai"),
    python("livekit", "openai", "livekit_chat.py", "livekit/agents", "voice", "livekit_agents"),
    python("livekit-responses", "responses", "livekit_responses.py", "livekit/agents", "voice", "livekit_agents"),
    python("llm", "openai", "llm_cli.py", "llm"),
    python("aider-openai", "openai", "aider_openai.py", "aider", "aider", "aider_chat", seconds=240),
    python("aider-anthropic", "anthropic", "aider_anthropic.py", "aider", "aider", "aider_chat", seconds=240),
    node("opencode", "openai", "opencode_cli.py", "opencode-ai", seconds=240),
    python("open-webui", "openai", "open_webui_page.py", "open_webui", "open-webui", seconds=400),
    node("librechat", "openai", "librechat_agents.mjs", "@librechat/agents", "librechat"),
    Client("lobechat", "openai", "lobechat_runtime.mjs", "lobechat/openai.cjs", "lobechat/package/package.json"),
    node("n8n", "openai", "n8n_workflow.py", "n8n", "n8n", seconds=600),
    Client("page", "openai", "page_blocks.py", "node/node_modules/opencode-ai", "", seconds=600),
    # Needs only Python.
    Client("played", "openai", "played_apps.py", "", "", quick=True),
    node("pi", "openai", "pi_cli.py", "@mariozechner/pi-coding-agent", seconds=240),
    node("qwen-code", "openai", "qwen_cli.py", "@qwen-code/qwen-code", seconds=240),
    node("gemini-cli", "gemini", "gemini_cli.py", "@google/gemini-cli", seconds=240),
    node("cline", "openai", "cline_chat.py", "cline", seconds=240),
    node("cline-anthropic", "anthropic", "cline_messages.py", "cline", seconds=240),
    node("cline-ollama", "ollama", "cline_ollama.py", "cline", seconds=240),
    node("continue", "openai", "continue_chat.py", "@continuedev/cli", seconds=240),
    node("continue-anthropic", "anthropic", "continue_messages.py", "@continuedev/cli", seconds=240),
    node("continue-ollama", "openai", "continue_ollama.py", "@continuedev/cli", seconds=240),
    node("copilot", "openai", "copilot_chat.py", "@github/copilot", seconds=240),
    node("copilot-responses", "responses", "copilot_responses.py", "@github/copilot", seconds=240),
    node("copilot-anthropic", "anthropic", "copilot_messages.py", "@github/copilot", seconds=240),
    node("promptfoo", "openai", "promptfoo_cli.py", "promptfoo", seconds=240),
    node("codex", "responses", "codex_cli.py", "@openai/codex", seconds=240),
    node("claude-code", "anthropic", "claude_cli.py", "@anthropic-ai/claude-code", seconds=240),
]


def installed(client, kits):
    return not client.needs or bool(list(kits.glob(client.needs)))


def why_missing(client, kits):
    """The reason that `install` wrote down, if it tried."""
    notes = kits / "not-installed"
    for line in notes.read_text().splitlines() if notes.exists() else []:
        package, reason = line.split(": ", 1)
        if client.needs.endswith(f"node_modules/{package}"):
            return reason
    return f"it is not installed in {kits}"


def version(client, kits):
    for found in kits.glob(client.version) if client.version else []:
        if found.name == "package.json":
            return json.loads(found.read_text())["version"]
        return found.name.removesuffix(".dist-info").split("-")[-1]
    return "?"
