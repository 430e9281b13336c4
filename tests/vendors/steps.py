"""What the model does in a run: it calls the agent's shell again and again, until it has done as many steps as the user asked for. A user
asks with `run NAME to N`, and `run NAME to N, then full` for an answer that says that the context is full.
"""

import json
import re
import threading

from scripted.play import Answer, Piece

MARK = re.compile(r"run (\w+) to (\d+)(, then full)?")
FULL = 985_000
# The shell of each agent, and how it takes a command.
SHELLS = {
    "Bash": lambda command: {"command": command, "description": "A step of the run"},
    "bash": lambda command: {"command": command, "description": "A step of the run"},
    "run_shell_command": lambda command: {"command": command, "description": "A step of the run", "is_background": False},
    "exec_command": lambda command: {"cmd": command},
    "shell_command": lambda command: {"command": command},
    "shell": lambda command: {"command": ["bash", "-lc", command]},
}
SEARCH, MCP_TOOL, MCP_SAYS = "tool_search", "mcp__sky__weather", "sunny"
SEARCH_STEP = 4
# Codex with its newer models has a shell only inside of scripts.
SCRIPTS = ("exec", "functions__exec")


class Runs:
    """The steps that each run has done."""

    def __init__(self):
        self.done = {}
        self.searched = set()  # the runs that have searched for a tool
        self.trouble = []  # steps whose result did not come back
        self.lock = threading.Lock()

    def answer(self, asked, body, always_reasons):
        text = json.dumps(body, ensure_ascii=False)
        if any(item.get("type") == "compaction_trigger" for item in body.get("input") or [] if isinstance(item, dict)):
            return Answer([Piece("compaction", "")], "stop", len(text) // 4, 20)
        marks = MARK.findall(text)
        pieces = [Piece("reasoning", "I take the next step. ")] if asked.thinks or always_reasons else []
        name, goal, is_full = marks[-1] if marks else ("", "0", "")
        call = shell_call(asked, name)
        with self.lock:
            step = self.done.get(name, 0)
            if call and step < int(goal):
                self.came_back(asked, name, step)
                self.done[name] = step + 1
                if step + 1 == SEARCH_STEP and searches(asked):
                    self.searched.add(name)
                return Answer([*pieces, *calls(asked, call, name, step + 1)], "tools", len(text) // 4, 30)
        said = f"<state_snapshot>{name} has done {step} steps.</state_snapshot>" if marks else "Nothing to do."
        return Answer([*pieces, Piece("text", said)], "stop", FULL if is_full else len(text) // 4, 20)

    def came_back(self, asked, name, step):
        """The command joins what it prints, so that only its result has it in one piece."""
        if step and asked.results and not any(f"{name}-step-{step}-done" in result for result in asked.results):
            self.trouble.append(f"{name}: step {step} did not come back: {asked.results[-1][:200]}")
        if step == 8 and name in self.searched and MCP_TOOL not in asked.tools:
            self.trouble.append(f"{name}: the search for tools found none")
        if step == 8 and MCP_TOOL in asked.tools and not any(MCP_SAYS in result for result in asked.results):
            self.trouble.append(f"{name}: the tool of the MCP server did not answer")


def searches(asked):
    """Codex has tools to find; Qwen Code has a search by the same name, and nothing behind it."""
    return SEARCH in asked.tools and "apply_patch" in asked.tools


def calls(asked, call, run, step):
    """The calls of a step: one, two at once in every third, and in every fifth a patch too where the agent takes one as plain text."""
    made = [call(step)]
    if step % 3 == 0:
        made.append(call(step, "again"))
    if step % 5 == 0 and "apply_patch" in asked.tools:
        patch = f"*** Begin Patch\n*** Add File: {run}-{step}.txt\n+done\n*** End Patch\n"
        is_custom = "apply_patch" in asked.custom
        made.append(Piece("call", patch if is_custom else json.dumps({"input": patch}), "apply_patch", is_custom))
    # A tool of an MCP server, which Codex's older models find by a search.
    if step == SEARCH_STEP and searches(asked):
        made.append(Piece("call", json.dumps({"query": "weather"}), SEARCH))
    if step == 8 and MCP_TOOL in asked.tools:
        namespace, name = asked.namespaces.get(MCP_TOOL, ("", MCP_TOOL))
        made.append(Piece("call", json.dumps({"city": "Paris"}), name, False, namespace))
    return made


def shell_call(asked, run):
    """Makes the call of a step with the agent's shell, or is None."""
    tool = next((name for name in (*SHELLS, *SCRIPTS) if name in asked.tools), None)
    if not tool:
        return None
    namespace, name = asked.namespaces.get(tool, ("", tool))

    def call(step, word="done"):
        line = f"printf '%s-step-%s-{word}' {run} {step}"
        if tool in SHELLS:
            return Piece("call", json.dumps(SHELLS[tool](line)), name, False, namespace)
        script = f"const done = await tools.exec_command({json.dumps({'cmd': line})}); text(done.output);"
        is_custom = tool in asked.custom
        return Piece("call", script if is_custom else json.dumps({"input": script}), name, is_custom, namespace)

    return call


