"""The attacks, one function each, by what they are aimed at. Importing this finds them all."""

import dataclasses
import typing


@dataclasses.dataclass(frozen=True)
class Attack:
    name: str
    what: str
    play: typing.Callable
    # Whether `--quick` plays it too.
    quick: bool


ATTACKS: dict[str, Attack] = {}


def attack(name, what, quick=False):
    """Registers `play(stage)`. It says what must hold with `stage.must`, and what was seen with `stage.note`."""
    def add(play):
        ATTACKS[name] = Attack(name, what, play, quick)
        return play
    return add


from attacks import answers, callers, clients, machine, record  # noqa: E402, F401
