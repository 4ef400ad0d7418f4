"""The text format of the paper's public code (Neary et al. 2021), read without evaluating anything.

    0 # initial state
    (0, 1, 'by', 0) # from, to, event, reward
    (1, 1, 'True', 0) # state 1 is final

Without the event 'True', a state without transitions that is entered with a reward is final.
"""

from __future__ import annotations

import ast
import io
import re
import warnings
from collections.abc import Mapping

from hocket.errors import FormatError, MachineError
from hocket.machine.reward_machine import RewardMachine

FINAL_MARK = "True"
_QUOTED = r"""'(?:[^'\\\n]|\\.)*+'|"(?:[^"\\\n]|\\.)*+\""""
_STATE = rf"-?\d{{1,18}}|{_QUOTED}"
_COMMENT = r"\s*(?:#.*)?"
INITIAL = re.compile(rf"\s*({_STATE}){_COMMENT}")
TRANSITION = re.compile(
    rf"\s*\(\s*({_STATE})\s*,\s*({_STATE})\s*,\s*({_QUOTED})\s*,\s*([-+]?[\d.]{{1,24}}(?:[eE][-+]?\d{{1,3}})?)\s*\){_COMMENT}"
)
BLANK = re.compile(_COMMENT)


def read(content: str) -> RewardMachine:
    """Read a machine."""
    initial: str | None = None
    targets: dict[tuple[str, str], str] = {}
    rewards: dict[tuple[str, str], float] = {}
    marked: list[str] = []
    for number, line in enumerate(io.StringIO(content), start=1):
        line = line.rstrip("\r\n")
        try:
            if BLANK.fullmatch(line):
                continue
            if initial is None:
                initial = _name(_matched(INITIAL, line, "the initial state, like: 0 # initial state")[1])
                continue
            state, target, event, reward = _read_transition(line)
            if event == FINAL_MARK:
                marked.append(state)
            elif (state, event) in targets:
                raise FormatError(f"state {state!r} has a transition on {event!r} already")
            else:
                targets[state, event], rewards[state, event] = target, reward
        except FormatError as error:
            raise FormatError(str(error), where=f"line {number}") from None
    if initial is None:
        raise FormatError("must begin with the initial state, got an empty file")
    final = dict.fromkeys(marked or _paid_dead_ends(targets, rewards))
    ends = [end for (state, _), target in targets.items() for end in (state, target)]
    states = dict.fromkeys([*ends, *marked]) or [initial]
    return RewardMachine(initial=initial, transitions=targets, final=final, rewards=rewards, states=states)


def _paid_dead_ends(transitions: Mapping[tuple[str, str], str], rewards: Mapping[tuple[str, str], float]) -> list[str]:
    leaving = {state for state, _ in transitions}
    return [target for key, target in transitions.items() if rewards[key] > 0 and target not in leaving]


def _matched(pattern: re.Pattern[str], line: str, what: str) -> re.Match[str]:
    if match := pattern.fullmatch(line):
        return match
    raise FormatError(f"must be {what}; got {_shown(line)}")


def _read_transition(line: str) -> tuple[str, str, str, float]:
    match = _matched(TRANSITION, line, "a transition, like: (0, 1, 'event', 0)")
    state, target, event = (_name(match[group]) for group in (1, 2, 3))
    try:
        reward = float(match[4])
    except ValueError:
        raise FormatError(f"the reward must be a number, got {match[4]}") from None
    if event == FINAL_MARK and state != target:
        raise FormatError(f"the event 'True' marks a final state and must lead back to it, got {state} to {target}")
    return state, target, event, reward


def _name(token: str) -> str:
    if token[0] not in "'\"":
        return str(int(token))
    if "\\" not in token and token.isprintable():
        return token[1:-1]  # without escapes there is nothing to evaluate
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an unknown escape
            return str(ast.literal_eval(token))  # the pattern matches nothing but one quoted text
    except (SyntaxError, ValueError, Warning):
        raise FormatError(f"must be a quoted name, got {_shown(token)}") from None


def _shown(line: str) -> str:
    shown = repr(line.strip())
    return shown if len(shown) <= 60 else f"{shown[:57]}…"


def write(machine: RewardMachine) -> str:
    """Write a machine."""
    if FINAL_MARK in machine.events:
        raise MachineError(f"in this format the event {FINAL_MARK!r} marks final states, so it cannot be an event")
    used = {event for _, event in machine.transitions}
    lost = [f"event {event!r}" for event in machine.events if event not in used]
    named = {state for (state, _), target in machine.transitions.items() for state in (state, target)}
    named.update(machine.final)
    lost += [f"state {state!r}" for state in machine.states if state not in named and len(machine.states) > 1]
    if lost:
        raise MachineError(f"this format has no place for what no transition uses: {', '.join(lost[:5])}")
    if not machine.final and (paid := _paid_dead_ends(machine.transitions, machine.rewards)):
        raise MachineError(f"in this format {paid[0]!r}, a paid dead end, would be taken for a final state")
    lines = [f"{_token(machine.initial)} # initial state"]
    for (state, event), target in machine.transitions.items():
        reward = machine.rewards[state, event]
        shown = int(reward) if reward.is_integer() and abs(reward) < 1e15 else reward
        lines.append(f"({_token(state)}, {_token(target)}, {event!r}, {shown})")
    finals = map(_token, machine.final)
    return "\n".join((*lines, *(f"({state}, {state}, {FINAL_MARK!r}, 0) # final" for state in finals), ""))


def _token(state: str) -> str:
    return state if re.fullmatch(r"0|-?[1-9]\d{0,17}", state) else repr(state)
