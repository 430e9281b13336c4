"""Runs the client programs: in a separate home, with only the path of the caller's environment."""

import os
import pathlib
import subprocess

import kit

KITS = pathlib.Path(os.environ["PF_KITS"])
HOME = pathlib.Path(os.environ["HOME"])


def run(*command, seconds=100, code=0, **env):
    """The program's output, once it has exited with the expected code."""
    passed = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG", "NO_COLOR")}
    done = subprocess.run([str(part) for part in command], cwd=HOME, env=passed | env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=seconds)
    assert code is None or done.returncode == code, f"exit code {done.returncode}: {done.stdout[-700:]} {done.stderr[-700:]}"
    return done.stdout


def node(name):
    return KITS / "node/node_modules/.bin" / name
