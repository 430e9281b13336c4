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
# Codex with its newer models has a shell only inside of scripts.
SCRIPTS = ("exec", "functions__exec")


class Runs:
    """The steps that each run has done."""

    def __init__(self):
        self.done = {}
        self.trouble = []  # steps whose result did not come back
        self.lock = threading.Lock()

    def answer(self, asked, body, always_reasons):
        text = json.dumps(body, ensure_ascii=False)
        marks = MARK.findall(text)
        pieces = [Piece("reasoning", "I take the next step. ")] if asked.thinks or always_reasons else []
        name, goal, is_full = marks[-1] if marks else ("", "0", "")
        call = shell_call(asked, name)
        with self.lock:
            step = self.done.get(name, 0)
            if call and step < int(goal):
                self.came_back(asked, name, step)
                self.done[name] = step + 1
                piece = call(step + 1)
                return Answer([*pieces, piece], "tools", len(text) // 4, 30)
        said = f"<state_snapshot>{name} has done {step} steps.</state_snapshot>" if marks else "Nothing to do."
        return Answer([*pieces, Piece("text", said)], "stop", FULL if is_full else len(text) // 4, 20)

    def came_back(self, asked, name, step):
        """The command joins what it prints, so that only its result has it in one piece."""
        if step and asked.results and not any(f"{name}-step-{step}-done" in result for result in asked.results):
            self.trouble.append(f"{name}: step {step} did not come back: {asked.results[-1][:200]}")


def shell_call(asked, run):
    """Makes the call of a step with the agent's shell, or is None."""
    tool = next((name for name in (*SHELLS, *SCRIPTS) if name in asked.tools), None)
    if not tool:
        return None
    namespace, name = asked.namespaces.get(tool, ("", tool))

    def call(step):
        line = f"printf '%s-step-%s-done' {run} {step}"
        if tool in SHELLS:
            return Piece("call", json.dumps(SHELLS[tool](line)), name, False, namespace)
        script = f"const done = await tools.exec_command({json.dumps({'cmd': line})}); text(done.output);"
        is_custom = tool in asked.custom
        return Piece("call", script if is_custom else json.dumps({"input": script}), name, is_custom, namespace)

    return call


