"""From conjuncts to a machine, or to parts: what completes the task, what ends it, and which conjuncts interact."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from hocket.errors import FormulaError, shown_count
from hocket.graphs import Flags, Ints, components, labels_to
from hocket.machine.composition import Composition
from hocket.machine.formulas.automaton import Automaton, conjunction, minimal
from hocket.machine.formulas.meaning import (
    DONE,
    VIOLATED,
    Conjunct,
    FormulaMeaning,
    distinct,
    join_texts,
    short,
    states_of_conjuncts,
)
from hocket.machine.formulas.syntax import Limits
from hocket.machine.names import Names
from hocket.machine.reward_machine import RewardMachine

NAMED_EAGERLY = 5_000  # states up to which names are made at once and without numbers


class ConjunctGroup(NamedTuple):
    """Conjuncts that events tie together, and the automaton of all of them."""

    conjuncts: tuple[Conjunct, ...]
    automaton: Automaton


class Reading(NamedTuple):
    """A task in the form of conjuncts, sorted into groups that have no event in common."""

    events: tuple[str, ...]
    groups: tuple[ConjunctGroup, ...]  # more than one only if each, once it holds, holds for good: they are independent
    notes: tuple[str, ...]

    def parts(self, limits: Limits | None = None) -> Composition:
        """Make a machine of each group; side by side they are the task."""
        limits = limits or Limits()
        named = distinct(_text(group.conjuncts) for group in self.groups)
        return Composition({name: self.part(group, limits) for name, group in zip(named, self.groups, strict=True)})

    def part(self, group: ConjunctGroup, limits: Limits) -> RewardMachine:
        """Make the machine of a group, over the events that matter to it (all, if there are no other groups)."""
        events = group.automaton.relevant() if len(self.groups) > 1 else range(len(self.events))
        meaning = FormulaMeaning(self.events, group.conjuncts, self.notes)
        return _machine(group.automaton, list(events), meaning, limits)

    def machine(self, limits: Limits | None = None) -> RewardMachine:
        """Make one machine of all groups."""
        limits = limits or Limits()
        if len(self.groups) == 1:
            return self.part(self.groups[0], limits)
        return _side_by_side(self, limits)


def read_conjuncts(
    conjuncts: Sequence[Conjunct], events: Sequence[str], limits: Limits, notes: Iterable[str] = ()
) -> Reading:
    """Sort conjuncts into independent groups, and refuse what is no task."""
    serious = [conjunct for conjunct in conjuncts if conjunct.automaton.states > 1 or not conjunct.automaton.accepts[0]]
    if all(conjunct.automaton.accepts[0] for conjunct in serious):
        raise FormulaError(f"{_quoted(conjuncts)} is true before anything happens, so there is nothing to do")
    groups = [_grouped(tied, limits) for tied in _tied(serious)]
    if len(groups) > 1 and not all(group.automaton.lasts for group in groups):
        factors = [group.automaton for group in groups]
        _check_room(factors, serious, limits)
        groups = [_grouped(serious, limits, factors)]
    breaking = sorted({event for group in groups for event in group.automaton.breaking()})
    told = list(notes)
    if breaking:
        more = f" and {len(breaking) - 8} more" if len(breaking) > 8 else ""
        shown = ", ".join(events[event] for event in breaking[:8]) + more
        culprits = [c.text for group in groups for c in group.conjuncts if not c.automaton.lasts][:2]
        what = " and ".join(f"`{short(text)}`" for text in culprits)
        told.append(f"Once completed, the task counts as done, though later events could break {what} again: {shown}.")
    return Reading(tuple(events), tuple(groups), tuple(told))


def _tied(conjuncts: Sequence[Conjunct]) -> list[list[Conjunct]]:
    """Put conjuncts together that have events in common, directly or over others."""
    links: list[list[int]] = [[] for _ in conjuncts]
    first: dict[int, int] = {}  # event -> the first conjunct to which it matters
    for index, conjunct in enumerate(conjuncts):
        for event in conjunct.automaton.relevant():
            other = first.setdefault(event, index)
            links[index].append(other)
            links[other].append(index)
    groups: dict[int, list[Conjunct]] = {}
    for conjunct, number in zip(conjuncts, components(links), strict=True):
        groups.setdefault(number, []).append(conjunct)
    return list(groups.values())


def _grouped(conjuncts: Sequence[Conjunct], limits: Limits, factors: Sequence[Automaton] = ()) -> ConjunctGroup:
    """Multiply the automata of conjuncts, and refuse what can never come true."""
    for conjunct in conjuncts:
        if not conjunct.automaton.accepts.any():
            raise FormulaError(f"{_quoted([conjunct])} can never come true{_one_at_a_time([conjunct])}")
    factors = factors or [conjunct.automaton for conjunct in conjuncts]
    automaton = conjunction(factors, limits, _quoted(conjuncts))
    if not automaton.accepts.any():
        why = _one_at_a_time(conjuncts) or ", as its conjuncts exclude each other"
        raise FormulaError(f"{_quoted(conjuncts)} can never come true{why}")
    return ConjunctGroup(tuple(conjuncts), automaton)


def _one_at_a_time(conjuncts: Sequence[Conjunct]) -> str:
    """Remind of it that one event happens at a time, where conjuncts or parts of one ask for two at once."""
    at_once: list[str] = []
    for conjunct in conjuncts:
        if conjunct.formulas is not None:
            at_once += conjunct.formulas.events_at_once(conjunct.formula)
    one, other = [*dict.fromkeys(map(short, at_once)), "", ""][:2]
    if not other:
        return ""
    return f": one event happens at a time, and not {one} and {other} together; for both, write F {one} & F {other}"


def _check_room(factors: Sequence[Automaton], conjuncts: Sequence[Conjunct], limits: Limits) -> None:
    """Refuse at once a product of automata with no events in common, all of whose states are there."""
    hopeful = _count_states(factors)
    if hopeful > limits.states:
        broken = next(conjunct for conjunct in conjuncts if not conjunct.automaton.lasts)
        raise FormulaError(
            f"{_quoted(conjuncts)} is too large: it needs about {shown_count(hopeful)} states, more than the limit "
            f"of {limits.states:,} (most_states), as {_quoted([broken])} can be broken again while others are open"
        )


def _count_states(factors: Sequence[Automaton]) -> int:
    """Count the states of a product of automata that have no event in common, without dead ends."""
    return math.prod(factor.states - int(factor.hopeless.any()) for factor in factors)


def _text(conjuncts: Sequence[Conjunct]) -> str:
    return short(join_texts([conjunct.text for conjunct in conjuncts[:50]]))  # of more nothing would be seen


def _quoted(conjuncts: Sequence[Conjunct]) -> str:
    return f"`{_text(conjuncts)}`"


def _machine(automaton: Automaton, events: list[int], meaning: FormulaMeaning, limits: Limits) -> RewardMachine:
    """Cut an automaton off where it first accepts, and make a machine over some events of what is before that."""
    limits.check(_quoted(meaning.conjuncts), automaton.states, len(events))
    if not automaton.lasts:
        still = np.arange(automaton.states, dtype=np.int32)[:, None]
        cut = np.where(automaton.accepts[:, None], still, automaton.move)
        move, accepts = minimal(cut, automaton.accepts, limits)
        automaton = automaton._replace(move=move, accepts=accepts)
    target = automaton.move[:, [automaton.column(event) for event in events]]
    reached = states_of_conjuncts(meaning.conjuncts, automaton) if automaton.states <= NAMED_EAGERLY else []

    def conjuncts(state: int) -> Sequence[int]:
        if reached:
            return reached[state]
        return meaning.follow(events[label] for label in labels_to(machine.graph, machine.reach, state))

    machine = _from_table(target, automaton.accepts, events, meaning, conjuncts)
    return machine


def _from_table(
    target: Ints,  # [states, events]; state 0 is the initial one, and what is accepted or hopeless is never left
    accepts: Flags,  # [states]
    events: Sequence[int],  # the numbers that the columns have among all events
    meaning: FormulaMeaning,
    conjuncts: Callable[[int], Sequence[int]],  # where they are in each state
) -> RewardMachine:
    """Make a machine, leaving out what changes nothing; its names are found when they are first asked for."""
    states = len(target)
    moves = target != np.arange(states, dtype=np.int32)[:, None]
    ends = ~moves.any(axis=1)

    def name(state: int) -> str:
        return (DONE if accepts[state] else VIOLATED) if ends[state] else meaning.name(conjuncts(state))

    if states <= NAMED_EAGERLY:
        names = Names(distinct(map(name, range(states))))
    else:
        names = Names.lazily(states, lambda state: name(state) if ends[state] else f"{name(state)} #{state}")
    source = np.repeat(np.arange(states, dtype=np.int32), moves.sum(axis=1))
    label = np.broadcast_to(np.arange(moves.shape[1], dtype=np.int32), moves.shape)[moves]
    named = Names(meaning.events[event] for event in events)
    return RewardMachine._from_arrays(names, named, 0, source, label, target[moves], accepts.copy(), meaning=meaning)


def _side_by_side(reading: Reading, limits: Limits) -> RewardMachine:
    """Make the machine of independent groups: a digit for each group's state, and one dead end for all of them.

    It is minimal as it stands: where two states differ in the digit of a group, events of that group tell them apart
    once all other groups are done, and from a state that is not the dead end each of them can still be.
    """
    count = _count_states([group.automaton for group in reading.groups])
    conjuncts = tuple(conjunct for group in reading.groups for conjunct in group.conjuncts)
    if count > limits.states:
        raise FormulaError(
            f"{_quoted(conjuncts)} is too large: it has {shown_count(count)} states, more than the limit of "
            f"{limits.states:,} (most_states); its {len(reading.groups):,} parts are independent: try parts=True"
        )
    limits.check(_quoted(conjuncts), count, len(reading.events))
    alive = [np.flatnonzero(~group.automaton.hopeless) for group in reading.groups]  # the state of each digit
    ends_badly = any(len(states) < group.automaton.states for states, group in zip(alive, reading.groups, strict=True))
    target = np.repeat(np.arange(count + ends_badly, dtype=np.int32)[:, None], len(reading.events), axis=1)
    codes = np.arange(count, dtype=np.int32)
    final, place = 0, 1
    for states, (_, automaton) in zip(alive, reading.groups, strict=True):
        size = len(states)
        digit_of = np.full(automaton.states, -1, np.int32)
        digit_of[states] = np.arange(size, dtype=np.int32)
        digit = codes // place % size
        for event in automaton.relevant():
            following = digit_of[automaton.move[states, automaton.column(event)]]
            end = codes + ((following - np.arange(size)) * place).astype(np.int32)[digit]
            target[:count, event] = np.where(following[digit] < 0, count, end) if size < automaton.states else end
        final += int(digit_of[automaton.accepts.argmax()]) * place
        place *= size
    accepts = np.zeros(len(target), np.bool_)
    accepts[final] = True
    no_dead_ends = {} if ends_badly else reading.parts(limits).parts
    meaning = FormulaMeaning(reading.events, conjuncts, reading.notes, no_dead_ends)
    reached = [states_of_conjuncts(*group) for group in reading.groups]

    def states_at(code: int) -> list[int]:
        joint: list[int] = []
        for states, conjunct_states in zip(alive, reached, strict=True):
            code, digit = divmod(code, len(states))
            joint += conjunct_states[states[digit]]
        return joint

    return _from_table(target, accepts, range(len(reading.events)), meaning, states_at)
