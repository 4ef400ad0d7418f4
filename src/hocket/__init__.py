"""Split a team's task among its agents, and prove that the parts make the whole.

The names below are the public ones. Each is loaded with its module when it is first used, so that importing hocket
costs next to nothing and asks only for what is needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hocket.algebra import compose, distinguish, minimize, project
    from hocket.assignment import Assignment, cheapest, repair
    from hocket.decomposition import Confusion, Counterexample, Decomposition, decompose
    from hocket.drawing import draw_machines
    from hocket.errors import AssignmentError, FormatError, HocketError, InfeasibleError, MachineError
    from hocket.machine import RewardMachine, Run
    from hocket.notation import load_machine, save_machine

__version__ = "0.1.0"

__all__ = [
    "Assignment",
    "AssignmentError",
    "Confusion",
    "Counterexample",
    "Decomposition",
    "FormatError",
    "HocketError",
    "InfeasibleError",
    "MachineError",
    "RewardMachine",
    "Run",
    "cheapest",
    "compose",
    "decompose",
    "distinguish",
    "draw_machines",
    "load_machine",
    "minimize",
    "project",
    "repair",
    "save_machine",
]

_HOME = {
    name: module
    for module, names in {
        "algebra": ("compose", "distinguish", "minimize", "project"),
        "decomposition": ("Confusion", "Counterexample", "Decomposition", "decompose"),
        "drawing": ("draw_machines",),
        "errors": ("AssignmentError", "FormatError", "HocketError", "InfeasibleError", "MachineError"),
        "machine": ("RewardMachine", "Run"),
        "notation": ("load_machine", "save_machine"),
        "assignment": ("Assignment", "cheapest", "repair"),
    }.items()
    for name in names
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'hocket' has no attribute {name!r}")
    value: object = getattr(import_module(f"hocket.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
