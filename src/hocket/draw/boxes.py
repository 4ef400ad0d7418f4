"""Boxes around the states of machines that other machines call, and machines whose boxes are closed."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile

from hocket.errors import MachineError
from hocket.machine.parts import INSIDE
from hocket.machine.reward_machine import RewardMachine


def boxes_of(machine: RewardMachine) -> Mapping[str, tuple[str, ...]]:
    """List the boxes of a machine, the outer ones first, with the states in each.

    A state that stands for several is in a box where all of them are. The state in which a called machine begins is
    in its box, too, if it bears the name of the box.

    >>> from hocket.machine.parts import sequence
    >>> dict(boxes_of(sequence("unlock", fetch=sequence("get", "put"))))
    {'fetch': ('fetch', 'fetch › put')}
    """
    paths = {INSIDE.join(path) for members in machine.members.values() for name in members for path in _outer(name)}
    boxes: dict[str, list[str]] = {}
    for state, members in machine.members.items():
        inside = [[*_outer(name), *([name.split(INSIDE)] if name in paths else [])] for name in members]
        for path, *_ in takewhile(lambda each: each.count(each[0]) == len(each), zip(*inside, strict=False)):
            boxes.setdefault(INSIDE.join(path), []).append(state)
    return {box: tuple(boxes[box]) for box in sorted(boxes, key=lambda box: box.count(INSIDE)) if len(boxes[box]) > 1}


def _outer(name: str) -> list[list[str]]:
    """List the paths of the boxes around a state, the outermost first."""
    path = name.split(INSIDE)
    return [path[:depth] for depth in range(1, len(path))]


def close_boxes(machine: RewardMachine) -> RewardMachine | None:
    """Draw each outer box as one state; None where there are no boxes, or where what leaves one would be ambiguous."""
    boxes = {box: states for box, states in boxes_of(machine).items() if INSIDE not in box}
    home = {state: box for box, states in boxes.items() for state in states}
    if not boxes:
        return None
    name = {state: home.get(state, state) for state in machine.states}
    moves: dict[tuple[str, str], str] = {}
    for (state, event), target in machine.transitions.items():
        if home.get(state) is not None and home.get(state) == home.get(target):
            continue
        if moves.setdefault((name[state], event), name[target]) != name[target]:
            return None
    try:
        return RewardMachine(
            initial=name[machine.initial],
            transitions=moves,
            final=dict.fromkeys(name[state] for state in machine.final),
            events=machine.events,
            states=dict.fromkeys(name.values()),
        )
    except MachineError:  # something leaves a box with a final state in it
        return None
