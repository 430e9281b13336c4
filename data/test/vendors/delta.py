"""An invented list in the form of the SDKs' own. It is read, never run."""
Model = Literal[
    "small-2",
    "small-2-0",
    "long-announced-1",
    "kept-1",
    "wrong-1",
    "past-1",
]
"""Deprecated values:

- "past-1", "never-was-1":
  Announced shutdown date: 2030-05-01. See the page for details.
- "wrong-1": Not a supported model ID. Retained for SDK compatibility.
- "long-announced-1":
  Announced shutdown date: 2030-12-11. See the page.
"""
DEPRECATED_MODELS = {
    "small-2-0": "July 3rd, 2030",
}
