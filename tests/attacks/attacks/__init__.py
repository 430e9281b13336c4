"""The attacks, one function each, grouped by target. Importing this module registers them all."""

import dataclasses
import typing


@dataclasses.dataclass(frozen=True)
class Attack:
    name: str
    what: str
    play: typing.Callable
    # Whether `--quick` runs it too.
    quick: bool


ATTACKS: dict[str, Attack] = {}


def attack(name, what, quick=False):
    """Registers `play(stage)`. It checks with `stage.must` and reports with `stage.note`."""
    def add(play):
        ATTACKS[name] = Attack(name, what, play, quick)
        return play
    return add


from attacks import answers, callers, clients, configuration, machine, record, restart  # noqa: E402, F401
