"""Machines in Graphviz's DOT language: written for drawing, and read back if written by hocket.

Each statement has a line of its own. States are nodes; a double circle is final; an arrow from the empty node points at
the initial state; the attributes `event` and `reward` of an edge say what its label shows.
"""

from __future__ import annotations

import re

from hocket.errors import FormatError
from hocket.machine import RewardMachine
from hocket.notation.design import Design

_QUOTED = r'"((?:[^"\\]|\\.)*)"'
HEAD, FOOT = "digraph machine {", "}"
SETTING = re.compile(r"(rankdir|node) ?[\[=].*;")
EVENT = re.compile(rf"// event {_QUOTED}")
NODE = re.compile(rf"{_QUOTED} \[shape=(circle|doublecircle), label={_QUOTED}\];")
ARROW = re.compile(rf'"" -> {_QUOTED};')
EDGE = re.compile(rf"{_QUOTED} -> {_QUOTED} \[event={_QUOTED}, reward=\"([^\"]+)\", label={_QUOTED}\];")


def write(design: Design) -> str:
    """Write a machine; who knows and controls what has no place in a drawing."""
    machine = design.machine
    lines = [HEAD, "  rankdir=LR;", '  "" [shape=none, label=""];']
    lines += [f"  // event {_quote(event)}" for event in machine.events]
    for state in machine.states:
        shape = "doublecircle" if state in machine.final else "circle"
        lines.append(f"  {_quote(state)} [shape={shape}, label={_quote(state)}];")
    lines.append(f'  "" -> {_quote(machine.initial)};')
    for (state, event), target in machine.transitions.items():
        reward = machine.rewards[state, event]
        label = event if machine.is_task_completion else f"{event} / {reward:g}"
        attributes = f'event={_quote(event)}, reward="{reward!r}", label={_quote(label)}'
        lines.append(f"  {_quote(state)} -> {_quote(target)} [{attributes}];")
    return "\n".join((*lines, FOOT)) + "\n"


def read(content: str) -> Design:
    """Read a machine that `write` wrote."""
    lines = content.splitlines()
    if not lines or lines[0].strip() != HEAD:
        raise FormatError(f"must begin with {HEAD!r}: only DOT files written by hocket can be read", where="line 1")
    if lines[-1].strip() != FOOT:
        raise FormatError(f"must end with {FOOT!r}; the file seems to be cut off", where=f"line {len(lines)}")
    parsed = _Parsed()
    for number, line in enumerate(lines[1:-1], start=2):
        try:
            parsed.take(line.strip())
        except FormatError as error:
            raise FormatError(str(error), where=f"line {number}") from None
    return Design(parsed.machine())


class _Parsed:
    """What the lines so far have said."""

    def __init__(self) -> None:
        self.initial: str | None = None
        self.states: list[str] = []
        self.final: list[str] = []
        self.events: list[str] = []
        self.triples: list[tuple[str, str, str]] = []
        self.rewards: dict[tuple[str, str], float] = {}

    def take(self, line: str) -> None:
        if not line or SETTING.fullmatch(line) or line == '"" [shape=none, label=""];':
            return
        if match := EVENT.fullmatch(line):
            self.events.append(_unquote(match[1]))
        elif match := NODE.fullmatch(line):
            self.states.append(_unquote(match[1]))
            if match[2] == "doublecircle":
                self.final.append(_unquote(match[1]))
        elif match := ARROW.fullmatch(line):
            self.initial = _unquote(match[1])
        elif match := EDGE.fullmatch(line):
            state, target, event = (_unquote(match[group]) for group in (1, 2, 3))
            self.triples.append((state, event, target))
            try:
                self.rewards[state, event] = float(match[4])
            except ValueError:
                raise FormatError(f"the reward must be a number, got {match[4]!r}") from None
        else:
            raise FormatError("is not a statement that hocket writes")

    def machine(self) -> RewardMachine:
        if self.initial is None:
            raise FormatError('has no arrow to the initial state, like: "" -> "u0";')
        return RewardMachine(
            initial=self.initial,
            transitions=self.triples,
            final=self.final,
            events=self.events,
            rewards=self.rewards,
            states=self.states,
        )


def _quote(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _unquote(quoted: str) -> str:
    return re.sub(r"\\(.)", r"\1", quoted)
