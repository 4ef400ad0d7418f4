"""From conjuncts to a machine, or to parts: the automaton of each, what a state means, and which conjuncts interact."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from typing import NamedTuple

import numpy as np

from hocket.errors import FormulaError, shown_count
from hocket.graphs import Flags, Ints, components, distances_from, labels_to, places_in
from hocket.machine.composition import Composition
from hocket.machine.formulas.automaton import Automaton, Longs, conjunction, constant, distances, minimal, product
from hocket.machine.formulas.progression import LONGEST_REMAINDER, Progression, State, TooManyStates
from hocket.machine.formulas.syntax import RULES, Formulas, Limits, Op, quoted
from hocket.machine.names import Names
from hocket.machine.reward_machine import RewardMachine

MOST_WRITTEN = 2_000  # states of a conjunct up to which it is written what is left to do in them
DIRECT = 2_000  # states up to which a conjunct is explored as a whole before it is taken apart

DONE, VIOLATED = "done", "violated"
LONGEST_NAME = 24  # characters of a state's name that are still drawn well
LONGEST_QUOTE = 60  # characters of a conjunct in a sentence
MOST_NAMED = 8  # open conjuncts in a state's name
MOST_SHOWN = 6  # events of a trace in a state's name
MOST_QUOTED = 3  # conjuncts in a sentence
NAMED_EAGERLY = 5_000  # states up to which names are made at once and without numbers


@dataclass(frozen=True, eq=False)
class Conjunct:
    """One of the conditions that make up a task; the task is done when all of them hold."""

    text: str
    automaton: Automaton
    formulas: Formulas | None = None  # None: it is no formula
    formula: int = -1
    at_last: bool = False  # whether it is read at the last position of a trace instead of the first

    def left(self, state: int, events: Sequence[str]) -> str:
        """Write what is left to do in a state: as a formula or, where that is none or a long one, as a trace."""
        if self.automaton.is_still(state):
            return ""
        if self.formulas is not None and self.automaton.states <= MOST_WRITTEN:
            progression, reached = self._progression
            here = reached[state]
            for text, other in progression.remainders(here):
                is_short = len(text) <= LONGEST_REMAINDER
                if is_short and (other == here or progression.means(other, self.automaton, state)):
                    return text
        trace = self.way(state, MOST_SHOWN + 1)
        return " ".join(quoted(events[event]) for event in trace[:MOST_SHOWN]) + (" …" if trace[MOST_SHOWN:] else "")

    def way(self, state: int, longest: int) -> list[int]:
        """Find the first events of a shortest trace after which the conjunct holds; none where there is no such trace.

        Among shortest traces, it is the first in the order of events.
        """
        move, distance, trace = self.automaton.move, self._distance, list[int]()
        events = self.automaton.examples()
        while distance[state] > 0 and len(trace) < longest:
            kind = next(kind for kind in events if distance[move[state, kind]] == distance[state] - 1)
            trace.append(events[kind])
            state = int(move[state, kind])
        return trace

    @cached_property
    def _distance(self) -> Longs:
        return distances(self.automaton.move, self.automaton.accepts, None, Limits())

    @cached_property
    def _progression(self) -> tuple[Progression, list[State]]:
        """Take the formula along a shortest trace to each state of the automaton, all of them at once."""
        assert self.formulas is not None
        progression = Progression(self.formulas, self.formula, Limits(), at_last=self.at_last)
        return progression, self.automaton.along(progression.start(), progression.step)


class Translator:
    """Translates formulas; those that differ in nothing but the names of events are worked out once."""

    def __init__(self, formulas: Formulas, events: int, limits: Limits, *, at_last: bool = False) -> None:
        self.formulas, self.events, self.limits, self.at_last = formulas, events, limits, at_last
        self.known: dict[tuple[Op | int, ...], tuple[Automaton, list[int]]] = {}

    def conjunct(self, formula: int, text: str) -> Conjunct:
        """Translate a conjunct; `text` is how the user knows it."""
        shape, events = self.formulas.shape(formula)
        if shape not in self.known:
            self.known[shape] = self.automaton(formula), events
        automaton, known_events = self.known[shape]
        if events != known_events:
            name = dict(zip(known_events, events, strict=True))
            automaton = automaton._replace(kind={name[event]: kind for event, kind in automaton.kind.items()})
        return Conjunct(text, automaton, self.formulas, formula, self.at_last)

    def automaton(self, formula: int) -> Automaton:
        """Make an automaton: of a formula as a whole or, if that becomes large, of what it is a function of."""
        formulas = self.formulas
        takes_apart = formulas.op[formula] in RULES or formulas.op[formula] is Op.NOT
        try:
            progression = Progression(formulas, formula, self.limits, at_last=self.at_last)
            return progression.explore(self.events, DIRECT if takes_apart else None)
        except TooManyStates:
            return self.combine(formula)

    def combine(self, formula: int) -> Automaton:
        """Make the automaton of a Boolean function of temporal formulas, each of which is taken as a whole."""
        formulas, made = self.formulas, dict[int, Automaton]()

        def operands(number: int) -> tuple[int, ...]:
            op = formulas.op[number]
            return formulas.arguments[number] if op in RULES or op is Op.NOT else ()

        for number in sorted(distances_from([formula], operands)):
            op, arguments = formulas.op[number], formulas.arguments[number]
            if op is Op.NOT:
                made[number] = made[arguments[0]].complement()
            elif op in RULES:
                left, right = (made[argument] for argument in arguments)
                made[number] = product(left, right, RULES[op], self.limits, "this formula")
            elif number in (formulas.true, formulas.false):
                made[number] = constant(number == formulas.true, self.events)
            else:
                progression = Progression(formulas, number, self.limits, at_last=self.at_last)
                made[number] = progression.explore(self.events)
        return made[formula]


@dataclass(frozen=True)
class FormulaMeaning:
    """The conjuncts of a formula, and what is worth knowing about it."""

    events: tuple[str, ...]
    conjuncts: tuple[Conjunct, ...]
    notes: tuple[str, ...] = ()
    parts: Mapping[str, RewardMachine] = field(default_factory=dict)  # whose composition the machine is, if it is one

    @cached_property
    def _number(self) -> dict[str, int]:
        return {event: number for number, event in enumerate(self.events)}

    def follow(self, trace: Iterable[int]) -> tuple[int, ...]:
        """Take each conjunct through a trace of events by their numbers."""
        return reduce(partial(step_all, self.conjuncts), trace, (0,) * len(self.conjuncts))

    def say(self, trace: Sequence[str]) -> str:
        """Say in a sentence which conjuncts are broken after a trace or, if none is, which are still open."""
        states = self.follow(self._number[event] for event in trace)
        pairs = list(zip(self.conjuncts, states, strict=True))
        broken = [c.text for c, state in pairs if not c.automaton.accepts[state] and c.automaton.is_still(state)]
        open_ones = [conjunct.text for conjunct, state in pairs if not conjunct.automaton.accepts[state]]
        if broken or open_ones:
            return f"{_listed(broken)} broken." if broken else f"{_listed(open_ones)} still open."
        return "All conjuncts hold."

    @cached_property
    def _labels(self) -> dict[tuple[int, int], tuple[bool, str]]:
        return {}  # conjunct, its state -> whether it is open there, and what is left to do

    def name(self, states: Sequence[int]) -> str:
        """Say shortly what is left to do where the conjuncts are in these states."""
        labels = self._labels
        for index, state in enumerate(states):
            if (index, state) not in labels:
                conjunct = self.conjuncts[index]
                labels[index, state] = not conjunct.automaton.accepts[state], conjunct.left(state, self.events)
        here = [labels[key] for key in enumerate(states)]
        open_ones = [text for is_open, text in here if is_open]
        everything = [*open_ones, *(text for is_open, text in here if text and not is_open)]
        for texts in (everything, open_ones) if len(open_ones) <= MOST_NAMED else ():
            if texts and sum(map(len, texts)) <= LONGEST_NAME and len(name := join_texts(texts)) <= LONGEST_NAME:
                return name
        return f"{len(open_ones)} left" if len(open_ones) > 1 else short([*everything, "nothing"][0], LONGEST_NAME)


def join_texts(texts: Sequence[str]) -> str:
    """Write the conjunction of some formulas."""
    if len(texts) == 1:
        return texts[0]
    joined = []
    for text in texts:
        outside, inner = text, ""  # what it has outside of parentheses
        while outside != inner:
            outside, inner = re.sub(r"\([^()]*\)", "", outside), outside
        joined.append(f"({text})" if " | " in outside or "->" in outside else text)  # which `&` would bind tighter than
    return " & ".join(joined)


def short(text: str, longest: int = LONGEST_QUOTE) -> str:
    """Cut off what is too long for a sentence, or for a name."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _listed(texts: Sequence[str]) -> str:
    shown = [f"`{short(text)}`" for text in texts[:MOST_QUOTED]]
    if len(texts) > MOST_QUOTED:
        return f"{', '.join(shown)} and {len(texts) - MOST_QUOTED} more are"
    return f"{shown[0]} is" if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]} are"


def distinct(names: Iterable[str]) -> Iterator[str]:
    """Number the names that come again: F a, F a #2, F a #3."""
    times: dict[str, int] = {}
    taken: set[str] = set()
    for name in names:
        unique = name
        while unique in taken:
            times[name] = times.get(name, 1) + 1
            unique = f"{name} #{times[name]}"
        taken.add(unique)
        yield unique


def states_of_conjuncts(conjuncts: Sequence[Conjunct], automaton: Automaton) -> list[tuple[int, ...]]:
    """Say for each state of the product of some conjuncts in which state they are after a shortest trace to it."""
    return automaton.along((0,) * len(conjuncts), partial(step_all, conjuncts))


def step_all(conjuncts: Sequence[Conjunct], states: tuple[int, ...], event: int) -> tuple[int, ...]:
    """Let each conjunct take an event."""
    return tuple([c.automaton.step(state, event) for c, state in zip(conjuncts, states, strict=True)])


# The machine.


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
        needed = f"about {shown_count(hopeful)} states, more than the limit of {limits.states:,} (most_states)"
        why = f"{_quoted([broken])} can be broken again while others are open"
        raise FormulaError(f"{_quoted(conjuncts)} is too large: it needs {needed}, as {why}")


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
    edges, named = (source, label, target[moves]), Names(meaning.events[event] for event in events)
    return RewardMachine._from_arrays(names, named, 0, edges, accepts.copy(), meaning=meaning)


def _side_by_side(reading: Reading, limits: Limits) -> RewardMachine:
    """Make the machine of independent groups: a digit for each group's state, and one dead end for all of them.

    It is minimal as it stands: where two states differ in the digit of a group, events of that group tell them apart
    once all other groups are done, and from a state that is not the dead end each of them can still be.
    """
    count = _count_states([group.automaton for group in reading.groups])
    conjuncts = tuple(conjunct for group in reading.groups for conjunct in group.conjuncts)
    if count > limits.states:
        needed = f"{shown_count(count)} states, more than the limit of {limits.states:,} (most_states)"
        hint = f"its {len(reading.groups):,} parts are independent: try parts=True"
        raise FormulaError(f"{_quoted(conjuncts)} is too large: it has {needed}; {hint}")
    limits.check(_quoted(conjuncts), count, len(reading.events))
    alive = [np.flatnonzero(~group.automaton.hopeless) for group in reading.groups]  # the state of each digit
    ends_badly = any(len(states) < group.automaton.states for states, group in zip(alive, reading.groups, strict=True))
    target = np.repeat(np.arange(count + ends_badly, dtype=np.int32)[:, None], len(reading.events), axis=1)
    codes = np.arange(count, dtype=np.int32)
    final, place = 0, 1
    for states, (_, automaton) in zip(alive, reading.groups, strict=True):
        size, digit_of = len(states), places_in(states, automaton.states)
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
