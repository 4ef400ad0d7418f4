"""Boxes around the states of machines that other machines call, and machines whose boxes are closed."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, takewhile

import numpy as np

from hocket.machine.names import Names
from hocket.machine.parts import INSIDE
from hocket.machine.reward_machine import Origin, RewardMachine


def boxes_of(machine: RewardMachine) -> Mapping[str, tuple[str, ...]]:
    """List the boxes of a machine, the outer ones first, with the states in each.

    A merged state is in a box if all its members are. The initial state of a called machine is in its box, too, if it
    has the name of the box.

    >>> from hocket.machine.parts import sequence
    >>> dict(boxes_of(sequence("unlock", fetch=sequence("get", "put"))))
    {'fetch': ('fetch', 'fetch › put')}
    """
    paths = {path for members in machine.members.values() for name in members for path in _paths(name)[:-1]}
    boxes: dict[str, list[str]] = {}
    for state, members in machine.members.items():
        inside = [_paths(name) if name in paths else _paths(name)[:-1] for name in members]
        for path, *_ in takewhile(lambda each: each.count(each[0]) == len(each), zip(*inside, strict=False)):
            boxes.setdefault(path, []).append(state)
    return {box: tuple(boxes[box]) for box in sorted(boxes, key=lambda box: box.count(INSIDE)) if len(boxes[box]) > 1}


def _paths(name: str) -> list[str]:
    """List the boxes around a state, the outermost first, and then the state itself."""
    return [*accumulate(name.split(INSIDE), lambda outer, inner: outer + INSIDE + inner)]


def label_in(box: str, state: str) -> str:
    """Return the name of a state without that of its box."""
    return state.removeprefix(box).removeprefix(INSIDE) or state.split(INSIDE)[-1]


def close_boxes(machine: RewardMachine) -> RewardMachine | None:
    """Replace each outer box by one state, whose members are the states in it; None if no box can be closed.

    A box stays open if a state outside has its name, if an event leaves it for two states, or if it can be left and
    has a final state in it.
    """
    outer = {box: states for box, states in boxes_of(machine).items() if INSIDE not in box}
    boxes = {box: states for box, states in outer.items() if box in states or box not in machine.states}
    while boxes and machine.is_task_completion:
        box_of = {state: box for box, states in boxes.items() for state in states}
        name = {state: box_of.get(state, state) for state in machine.states}
        step: dict[tuple[str, str], str] = {}
        final, ambiguous = dict.fromkeys(name[state] for state in machine.final), set()
        for (state, event), target in machine.transitions.items():
            if name[state] != name[target] or state not in box_of:
                key = name[state], event
                if step.setdefault(key, name[target]) != name[target] or name[state] in final:
                    ambiguous.add(name[state])
        if not ambiguous:
            start, states = name[machine.initial], Names(name.values())
            closed = RewardMachine(initial=start, transitions=step, final=final, events=machine.events, states=states)
            stands_for = np.array([closed.states.index(name[state]) for state in machine.states], np.int32)
            earlier, classes = machine.origin or (machine.states, np.arange(len(name), dtype=np.int32))
            origin = Origin(earlier, np.where(classes < 0, classes, stands_for[classes]))
            parts = closed.states, closed.events, closed.start, closed.graph[1:], closed.is_final
            return RewardMachine._from_arrays(*parts, origin=origin)
        boxes = {box: states for box, states in boxes.items() if box not in ambiguous}
    return None


def close_all(machines: Mapping[str, RewardMachine]) -> dict[str, RewardMachine]:
    """Close the boxes of machines that can be closed."""
    return {title: close_boxes(machine) or machine for title, machine in machines.items()}


def is_closed_box(machine: RewardMachine, state: str) -> bool:
    """Tell whether a state stands for a whole box of its name."""
    members = machine.members[state]
    return len(members) > 1 and all(member == state or member.startswith(state + INSIDE) for member in members)
