"""Machines in Graphviz's DOT language: written for drawing, and read back if written by hocket.

Each statement has a line of its own. States are nodes, a final one with a double circle; an edge from a point leads to
the initial state; an edge has the attributes `event` and `reward`, which its label shows.
"""

from __future__ import annotations

import re

from hocket.errors import FormatError
from hocket.machine.names import quote, unquote
from hocket.machine.reward_machine import RewardMachine

_QUOTED = r'"((?:[^"\\]|\\.)*+)"'
HEAD, FOOT = "digraph machine {", "}"
SETTING = re.compile(r"(rankdir|node) ?[\[=].*;")
EVENT = re.compile(rf"// event {_QUOTED}")
NODE = re.compile(rf"{_QUOTED} \[shape=(circle|doublecircle), label={_QUOTED}\];")
POINT = re.compile(rf"{_QUOTED} \[shape=point\];")
ARROW = re.compile(rf"{_QUOTED} -> {_QUOTED};")
EDGE = re.compile(rf"{_QUOTED} -> {_QUOTED} \[event={_QUOTED}, reward=\"([^\"]+)\", label={_QUOTED}\];")


def write(machine: RewardMachine) -> str:
    """Write a machine."""
    point, is_task = "start", machine.is_task_completion
    while point in machine.states:
        point += "_"
    lines = [HEAD, "  rankdir=LR;", f"  {quote(point)} [shape=point];"]
    lines += [f"  // event {quote(event)}" for event in machine.events]
    for state in machine.states:
        shape = "doublecircle" if state in machine.final else "circle"
        lines.append(f"  {quote(state)} [shape={shape}, label={quote(state)}];")
    lines.append(f"  {quote(point)} -> {quote(machine.initial)};")
    for (state, event), target in machine.transitions.items():
        reward = machine.rewards[state, event]
        label = event if is_task else f"{event} / {reward:g}"
        attributes = f'event={quote(event)}, reward="{reward!r}", label={quote(label)}'
        lines.append(f"  {quote(state)} -> {quote(target)} [{attributes}];")
    return "\n".join((*lines, FOOT)) + "\n"


def read(content: str) -> RewardMachine:
    """Read a machine that `write` wrote."""
    initial: str | None = None
    shapes: list[tuple[str, str]] = []
    events: list[str] = []
    moves: list[tuple[str, str, str]] = []
    rewards: dict[tuple[str, str], float] = {}
    lines = [line.strip() for line in content.removesuffix("\n").split("\n")]
    if lines[0] != HEAD:
        raise FormatError(f"must begin with {HEAD!r}: only DOT files written by hocket can be read", where="line 1")
    foot = lines.index(FOOT) if FOOT in lines else len(lines)
    for number, line in enumerate(lines[1:foot], start=2):
        if not line or SETTING.fullmatch(line) or POINT.fullmatch(line):
            continue
        if match := EVENT.fullmatch(line):
            events.append(unquote(match[1]))
        elif match := NODE.fullmatch(line):
            shapes.append((unquote(match[1]), match[2]))
        elif match := ARROW.fullmatch(line):
            initial = unquote(match[2])
        elif match := EDGE.fullmatch(line):
            state, target, event = (unquote(match[group]) for group in (1, 2, 3))
            moves.append((state, event, target))
            try:
                rewards[state, event] = float(match[4])
            except ValueError:
                raise FormatError(f"the reward must be a number, got {match[4]!r}", where=f"line {number}") from None
        else:
            raise FormatError("is not a statement that hocket writes", where=f"line {number}")
    if foot == len(lines):
        raise FormatError(f"must end with {FOOT!r}; the file seems to be cut off", where=f"line {foot}")
    if (after := next((number for number, line in enumerate(lines) if number > foot and line), None)) is not None:
        raise FormatError(f"nothing may follow {FOOT!r}", where=f"line {after + 1}")
    if initial is None:
        raise FormatError('has no arrow to the initial state, like: "start" -> "u0";')
    final, states = [state for state, shape in shapes if shape == "doublecircle"], [state for state, _ in shapes]
    return RewardMachine(initial=initial, transitions=moves, final=final, events=events, rewards=rewards, states=states)
