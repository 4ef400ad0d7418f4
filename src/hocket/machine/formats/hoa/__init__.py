"""Machines in the Hanoi Omega-Automata format, as tools for LTL over finite traces (LTLf) write it.

Propositions are events, and one happens at a time. An event that leaves a state as it is has no transition; one that
makes the formula false for good, or that has no edge, leads to a dead end. A state is final if the formula is true
from then on, whatever happens. Spot's proposition `alive` is no event: it is true until the trace ends.
"""

from __future__ import annotations

from hocket.errors import FormatError
from hocket.machine.formats.hoa.meaning import interpret
from hocket.machine.formats.hoa.syntax import END_MARK, MOST_PROPOSITIONS, parse
from hocket.machine.formats.schema import Design
from hocket.machine.names import quote
from hocket.machine.reward_machine import RewardMachine


def read(content: str) -> Design:
    """Read a machine."""
    return Design(interpret(parse(content)))


def write(design: Design) -> str:
    """Write a machine as a complete, deterministic automaton; what changes nothing has no place in this format."""
    machine = design.enumerated()
    design.check_bare("HOA")
    _check_room(machine)
    events, states = list(machine.events), list(machine.states)
    number = {state: position for position, state in enumerate(states)}
    lines = ["HOA: v1", 'tool: "hocket"', f"States: {len(states)}", f"Start: {number[machine.initial]}"]
    lines.append(" ".join((f"AP: {len(events)}", *map(quote, events))))
    lines += ["acc-name: Buchi", "Acceptance: 1 Inf(0)"]
    lines.append("properties: trans-labels explicit-labels state-acc complete deterministic")
    for one in range(len(events)):
        alone = "&".join(str(other) if other == one else f"!{other}" for other in range(len(events)))
        lines.append(f"Alias: @{one} {alone}")
    lines.append("--BODY--")
    moves: dict[str, dict[str, list[str]]] = {state: {} for state in states}
    for (state, event), target in machine.transitions.items():
        moves[state].setdefault(target, []).append(f"@{machine.events.index(event)}")
    for state in states:
        lines.append(f"State: {number[state]} {quote(state)}{' {0}' if state in machine.final else ''}")
        lines += [f"[{'|'.join(aliases)}] {number[target]}" for target, aliases in moves[state].items()]
        leaving = [alias for aliases in moves[state].values() for alias in aliases]
        lines.append(f"[{'!(' + '|'.join(leaving) + ')' if leaving else 't'}] {number[state]}")
    return "\n".join((*lines, "--END--")) + "\n"


def _check_room(machine: RewardMachine) -> None:
    if not machine.is_task_completion:
        raise FormatError("HOA has no place for rewards other than for completing the task; write .toml or .json")
    if END_MARK in machine.events:
        raise FormatError(f"in HOA the proposition {END_MARK!r} says that a trace goes on, so it cannot be an event")
    if len(machine.events) > MOST_PROPOSITIONS:
        raise FormatError(f"HOA is written with at most {MOST_PROPOSITIONS:,} events, got {len(machine.events):,}")
    for (state, event), target in machine.transitions.items():
        if state == target:
            raise FormatError(
                f"in HOA an event that leaves a state as it is has no transition, got one from {state!r} on {event!r}"
            )
