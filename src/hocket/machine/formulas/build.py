"""From conjuncts to a machine, or to parts: the automaton of each, names of states, and which conjuncts interact."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from typing import NamedTuple

import numpy as np

from hocket.errors import FormulaError, shown_count
from hocket.graphs import Flags, Ints, Numbers, components, distances_from, flags_at, labels_to, positions_in
from hocket.machine.composition import Composition
from hocket.machine.formulas.automaton import Automaton, conjunction, distances, loops, minimal, product
from hocket.machine.formulas.progression import LONGEST_REMAINDER, Progression, State, TooManyStatesError
from hocket.machine.formulas.syntax import CONSTANTS, RULES, Formulas, Limits, Op, quoted
from hocket.machine.names import Names
from hocket.machine.reward_machine import RewardMachine

MOST_WRITTEN = 2_000  # states of a conjunct up to which their names are formulas
DIRECT = 2_000  # states up to which a conjunct is explored as a whole before it is taken apart

DONE, VIOLATED = "done", "violated"
LONGEST_NAME = 24  # characters of a state's name
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
    at_final_position: bool = False  # whether it is read at the last position of a trace instead of the first

    def remainder(self, state: int, events: Sequence[str]) -> str:
        """Write what remains to be done in a state: as a short formula or, where there is none, as a trace."""
        if self.automaton.is_absorbing(state):
            return ""
        if self.formulas is not None and self.automaton.states <= MOST_WRITTEN:
            progression, reached = self._progression
            here = reached[state]
            for text, other in progression.remaining_formulas(here):
                is_short = len(text) <= LONGEST_REMAINDER
                if is_short and (other == here or progression.is_equivalent(other, self.automaton, state)):
                    return text
        trace = self.completion(state, MOST_SHOWN + 1)
        return " ".join(quoted(events[event]) for event in trace[:MOST_SHOWN]) + (" …" if trace[MOST_SHOWN:] else "")

    def completion(self, state: int, longest: int) -> list[int]:
        """List the first events of a shortest trace after which the conjunct holds, if there is one: of several, that
        which comes first in the order of events."""
        move, distance, trace = self.automaton.move, self._distance, list[int]()
        events = self.automaton.examples()
        while distance[state] > 0 and len(trace) < longest:
            kind = next(kind for kind in events if distance[move[state, kind]] == distance[state] - 1)
            trace.append(events[kind])
            state = int(move[state, kind])
        return trace

    @cached_property
    def _distance(self) -> Numbers:
        return distances(self.automaton.move, self.automaton.accepts, None, Limits())

    @cached_property
    def _progression(self) -> tuple[Progression, list[State]]:
        """Take the formula along a shortest trace to each state of the automaton."""
        assert self.formulas is not None
        progression = Progression(self.formulas, self.formula, Limits(), at_final_position=self.at_final_position)
        return progression, self.automaton.along(progression.initial_state(), progression.step)


class Translator:
    """Translates formulas to automata, those that differ in nothing but the names of events only once."""

    def __init__(self, formulas: Formulas, events: int, limits: Limits, *, at_final_position: bool = False) -> None:
        self.formulas, self.events, self.limits, self.at_final_position = formulas, events, limits, at_final_position
        self.known: dict[tuple[Op | int, ...], tuple[Automaton, list[int]]] = {}

    def conjunct(self, formula: int, text: str) -> Conjunct:
        """Translate a conjunct, which messages quote as `text`."""
        shape, events = self.formulas.shape(formula)
        if shape not in self.known:
            self.known[shape] = self.automaton(formula), events
        automaton, known_events = self.known[shape]
        if events != known_events:
            name = dict(zip(known_events, events, strict=True))
            automaton = automaton._replace(kind={name[event]: kind for event, kind in automaton.kind.items()})
        return Conjunct(text, automaton, self.formulas, formula, self.at_final_position)

    def automaton(self, formula: int) -> Automaton:
        """Make an automaton: of a formula as a whole or, if that becomes large, of its temporal operands."""
        try:
            return self.explore(formula, DIRECT if self.operands(formula) else None)
        except TooManyStatesError:
            return self.combine(formula)

    def explore(self, formula: int, most: int | None = None) -> Automaton:
        """Make the automaton of a formula as a whole, unless it has more than `most` states."""
        progression = Progression(self.formulas, formula, self.limits, at_final_position=self.at_final_position)
        return progression.explore(self.events, most)

    def operands(self, formula: int) -> tuple[int, ...]:
        """List the operands of a Boolean operator; any other formula has none."""
        op = self.formulas.op[formula]
        return self.formulas.arguments[formula] if op in RULES or op is Op.NOT else ()

    def combine(self, formula: int) -> Automaton:
        """Make the automaton of a Boolean function of temporal formulas, each of which is taken as a whole."""
        made: dict[int, Automaton] = {}
        for number in sorted(distances_from([formula], self.operands)):
            op, operands = self.formulas.op[number], [made[operand] for operand in self.operands(number)]
            if op is Op.NOT:
                made[number] = operands[0].complement()
            elif op in RULES:
                made[number] = product(operands[0], operands[1], RULES[op], self.limits, "this formula")
            elif op in CONSTANTS:
                made[number] = Automaton(np.zeros((1, 1), np.int32), np.array([op is Op.TRUE]), {}, 0, self.events)
            else:
                made[number] = self.explore(number)
        return made[formula]


@dataclass(frozen=True)
class FormulaMeaning:
    """The conjuncts of a formula, and notes about it."""

    events: tuple[str, ...]
    conjuncts: tuple[Conjunct, ...]
    notes: tuple[str, ...] = ()
    parts: Mapping[str, RewardMachine] = field(default_factory=dict)  # whose composition the machine is, if it is one

    def follow(self, trace: Iterable[int]) -> tuple[int, ...]:
        """Take each conjunct through a trace of events by their numbers."""
        return reduce(partial(step_all, self.conjuncts), trace, (0,) * len(self.conjuncts))

    def say(self, trace: Sequence[str]) -> str:
        """Say in a sentence which conjuncts are broken after a trace or, if none is, which are still open."""
        states = self.follow(map(self.events.index, trace))
        pairs = zip(self.conjuncts, states, strict=True)
        unmet = [(conjunct, state) for conjunct, state in pairs if not conjunct.automaton.accepts[state]]
        if broken := [conjunct.text for conjunct, state in unmet if conjunct.automaton.is_absorbing(state)]:
            return f"{_listed(broken)} broken."
        return f"{_listed([conjunct.text for conjunct, _ in unmet])} still open." if unmet else "All conjuncts hold."

    @cached_property
    def _remainders(self) -> dict[tuple[int, int], str]:
        return {}  # (position of a conjunct, its state) -> what remains to be done

    def name(self, states: Sequence[int]) -> str:
        """Describe in short what remains to be done where the conjuncts are in these states."""
        open_texts, other_texts = list[str](), list[str]()
        for conjunct, key in zip(self.conjuncts, enumerate(states), strict=True):
            if (text := self._remainders.get(key)) is None:
                text = self._remainders[key] = conjunct.remainder(key[1], self.events)
            (other_texts if conjunct.automaton.accepts[key[1]] else open_texts).append(text)
        everything = [*open_texts, *filter(None, other_texts)]
        for texts in (everything, open_texts) if len(open_texts) <= MOST_NAMED else ():
            if texts and sum(map(len, texts)) <= LONGEST_NAME and len(name := join_texts(texts)) <= LONGEST_NAME:
                return name
        return f"{len(open_texts)} left" if len(open_texts) > 1 else short([*everything, "nothing"][0], LONGEST_NAME)


def join_texts(texts: Sequence[str]) -> str:
    """Write the conjunction of some formulas."""
    if len(texts) == 1:
        return texts[0]
    joined = []
    for text in texts:
        outside, before = text, ""  # the text outside of parentheses
        while outside != before:
            outside, before = re.sub(r"\([^()]*\)", "", outside), outside
        joined.append(f"({text})" if " | " in outside or "->" in outside else text)  # `&` binds tighter than these
    return " & ".join(joined)


def short(text: str, longest: int = LONGEST_QUOTE) -> str:
    """Cut off a text that is too long for a sentence, or for a name."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _listed(texts: Sequence[str]) -> str:
    shown = [f"`{short(text)}`" for text in texts[:MOST_QUOTED]]
    if len(texts) > MOST_QUOTED:
        return f"{', '.join(shown)} and {len(texts) - MOST_QUOTED} more are"
    return f"{shown[0]} is" if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]} are"


def distinct(names: Iterable[str]) -> Iterator[str]:
    """Number the names that come again: F a, F a #2, F a #3."""
    times: Counter[str] = Counter()
    taken: set[str] = set()
    for name in names:
        unique = name
        while unique in taken:
            times[name] += 1
            unique = f"{name} #{times[name] + 1}"
        taken.add(unique)
        yield unique


def states_of_conjuncts(conjuncts: Sequence[Conjunct], automaton: Automaton) -> list[tuple[int, ...]]:
    """List for each state of the product of some conjuncts their states after a shortest trace to it."""
    return automaton.along((0,) * len(conjuncts), partial(step_all, conjuncts))


def step_all(conjuncts: Sequence[Conjunct], states: tuple[int, ...], event: int) -> tuple[int, ...]:
    """Let each conjunct take an event."""
    return tuple([c.automaton.step(state, event) for c, state in zip(conjuncts, states, strict=True)])


# The machine.


class ConjunctGroup(NamedTuple):
    """Conjuncts that depend on common events, and the automaton of all of them."""

    conjuncts: tuple[Conjunct, ...]
    automaton: Automaton


class Reading(NamedTuple):
    """A task in the form of conjuncts, sorted into groups that have no event in common."""

    events: tuple[str, ...]
    groups: tuple[ConjunctGroup, ...]  # more than one only if each, once it holds, holds for good: they are independent
    notes: tuple[str, ...]

    def parts(self, limits: Limits | None = None) -> Composition:
        """Make a machine of each group; their composition is the task."""
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
        return self.part(self.groups[0], limits) if len(self.groups) == 1 else _compose(self, limits)


def read_conjuncts(
    conjuncts: Sequence[Conjunct], events: Sequence[str], limits: Limits, notes: Iterable[str] = ()
) -> Reading:
    """Sort conjuncts into independent groups, and refuse what is no task."""
    serious = [conjunct for conjunct in conjuncts if conjunct.automaton.states > 1 or not conjunct.automaton.accepts[0]]
    if all(conjunct.automaton.accepts[0] for conjunct in serious):
        raise FormulaError(f"{_quoted(conjuncts)} is true before anything happens, so there is nothing to do")
    groups = [_grouped(dependent, limits) for dependent in _dependent(serious)]
    breakable = [conjunct for conjunct in serious if not conjunct.automaton.stays_accepting]
    if len(groups) > 1 and not all(group.automaton.stays_accepting for group in groups):
        factors = [group.automaton for group in groups]
        count = _count_states(factors)
        if count > limits.states:
            needed = f"about {shown_count(count)} states, more than the limit of {limits.states:,} (most_states)"
            why = f"{_quoted(breakable[:1])} can be broken again while others are open"
            raise FormulaError(f"{_quoted(serious)} is too large: it needs {needed}, as {why}")
        groups = [_grouped(serious, limits, factors)]
    breaking = sorted({event for group in groups for event in group.automaton.breaking_events()})
    if breaking:
        more = f" and {len(breaking) - 8} more" if len(breaking) > 8 else ""
        shown = ", ".join(events[event] for event in breaking[:8]) + more
        what = " and ".join(_quoted([conjunct]) for conjunct in breakable[:2])
        warning = f"Once completed, the task counts as done, though later events could break {what} again: {shown}."
        notes = (*notes, warning)
    return Reading(tuple(events), tuple(groups), tuple(notes))


def _dependent(conjuncts: Sequence[Conjunct]) -> list[list[Conjunct]]:
    """Group conjuncts that have events in common, directly or through others."""
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
    """Explain that one event happens at a time, where conjuncts or parts of one ask for two at once."""
    at_once = [event for c in conjuncts if c.formulas is not None for event in c.formulas.events_at_once(c.formula)]
    one, other = [*dict.fromkeys(map(short, at_once)), "", ""][:2]
    if not other:
        return ""
    return f": one event happens at a time, and not {one} and {other} together; for both, write F {one} & F {other}"


def _count_states(factors: Sequence[Automaton]) -> int:
    """Count the states of a product of automata that have no event in common, without dead ends."""
    return math.prod(factor.states - int(factor.dead_ends.any()) for factor in factors)


def _text(conjuncts: Sequence[Conjunct]) -> str:
    return short(join_texts([conjunct.text for conjunct in conjuncts[:50]]))  # of more nothing would be seen


def _quoted(conjuncts: Sequence[Conjunct]) -> str:
    return f"`{_text(conjuncts)}`"


def _machine(automaton: Automaton, events: list[int], meaning: FormulaMeaning, limits: Limits) -> RewardMachine:
    """Make a machine over some events, which is done where an automaton first accepts."""
    limits.check(_quoted(meaning.conjuncts), automaton.states, len(events))
    if not automaton.stays_accepting:
        stay = np.arange(automaton.states, dtype=np.int32)[:, None]
        cut = np.where(automaton.accepts[:, None], stay, automaton.move)
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
    target: Ints,  # [states, events]; state 0 is the initial one, and accepting states and dead ends are never left
    accepts: Flags,  # [states]
    events: Sequence[int],  # the numbers that the columns have among all events
    meaning: FormulaMeaning,
    conjuncts: Callable[[int], Sequence[int]],  # state -> the state of each conjunct
) -> RewardMachine:
    """Make a machine without loops; of a large one, names are made when they are first used."""
    states, moves = len(target), ~loops(target)
    ends = np.asarray(~moves.any(axis=1))

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


def _compose(reading: Reading, limits: Limits) -> RewardMachine:
    """Make the machine of independent groups: a digit for each group's state, and one dead end for all of them.

    It is minimal: where two states differ in the digit of a group, events of that group distinguish them once all other
    groups are done, and from a state that is not the dead end each of them can still be.
    """
    count = _count_states([group.automaton for group in reading.groups])
    conjuncts = tuple(conjunct for group in reading.groups for conjunct in group.conjuncts)
    if count > limits.states:
        needed = f"{shown_count(count)} states, more than the limit of {limits.states:,} (most_states)"
        hint = f"its {len(reading.groups):,} parts are independent: try parts=True"
        raise FormulaError(f"{_quoted(conjuncts)} is too large: it has {needed}; {hint}")
    limits.check(_quoted(conjuncts), count, len(reading.events))
    state_of = [np.flatnonzero(~group.automaton.dead_ends) for group in reading.groups]  # digit -> state
    can_fail = any(group.automaton.dead_ends.any() for group in reading.groups)
    target = np.repeat(np.arange(count + can_fail, dtype=np.int32)[:, None], len(reading.events), axis=1)
    codes = np.arange(count, dtype=np.int32)
    final, factor = 0, 1
    for states, (_, automaton) in zip(state_of, reading.groups, strict=True):
        size, digit_of = len(states), positions_in(states, automaton.states)
        digit = codes // factor % size
        for event in automaton.relevant():
            following = digit_of[automaton.move[states, automaton.column(event)]]
            end = codes + ((following - np.arange(size)) * factor).astype(np.int32)[digit]
            target[:count, event] = np.where(following[digit] < 0, count, end) if size < automaton.states else end
        final += int(digit_of[automaton.accepts.argmax()]) * factor
        factor *= size
    parts = {} if can_fail else reading.parts(limits).parts
    meaning = FormulaMeaning(reading.events, conjuncts, reading.notes, parts)
    reached = [states_of_conjuncts(*group) for group in reading.groups]

    def states_at(code: int) -> list[int]:
        joint: list[int] = []
        for states, conjunct_states in zip(state_of, reached, strict=True):
            code, digit = divmod(code, len(states))
            joint += conjunct_states[states[digit]]
        return joint

    return _from_table(target, flags_at(final, len(target)), range(len(reading.events)), meaning, states_at)
