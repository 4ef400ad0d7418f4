"""What a task's text is made of: conjuncts, each with its automaton and what is left to do in each of its states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hocket.graphs import Flags, distances_from
from hocket.machine.formulas.automaton import Automaton, constant, product
from hocket.machine.formulas.limits import Limits
from hocket.machine.formulas.partition import Longs, distances
from hocket.machine.formulas.progression import LONGEST_REMAINDER, Progression, State, TooManyStates
from hocket.machine.formulas.syntax import Formulas, Op

MOST_WRITTEN = 2_000  # states of a conjunct up to which it is written what is left to do in them
DIRECT = 2_000  # states up to which a conjunct is explored as a whole before it is taken apart

RULES: dict[Op, Callable[[Flags, Flags], Flags]] = {
    Op.AND: np.logical_and,
    Op.OR: np.logical_or,
    Op.IMPLIES: np.less_equal,
    Op.IFF: np.equal,
}


class FormulaSource(NamedTuple):
    """The formula that a conjunct is."""

    formulas: Formulas
    formula: int
    at_last: bool  # whether it is read at the last position of a trace instead of the first


@dataclass(frozen=True, eq=False)
class Conjunct:
    """One of the conditions that make up a task; the task is done when all of them hold."""

    text: str
    automaton: Automaton
    source: FormulaSource | None = None  # None: it is no formula

    def left(self, state: int) -> str:
        """Write what is left to do in a state as a formula; empty where that would be long, or there is none."""
        if self.source is None or self.automaton.states > MOST_WRITTEN:
            return ""
        progression, reached = self._progression
        here = reached[state]
        for text, other in progression.remainders(here):
            if len(text) <= LONGEST_REMAINDER and (other == here or progression.means(other, self.automaton, state)):
                return text
        return ""

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
        assert self.source is not None
        formulas, formula, at_last = self.source
        progression = Progression(formulas, formula, Limits(), at_last=at_last)
        return progression, self.automaton.along(progression.start(), progression.step)


class Translator:
    """Translates formulas; those that differ in nothing but the names of events are worked out once."""

    def __init__(self, formulas: Formulas, events: int, limits: Limits, *, at_last: bool = False) -> None:
        self.formulas, self.events, self.limits, self.at_last = formulas, events, limits, at_last
        self.known: dict[tuple[int, ...], tuple[Automaton, list[int]]] = {}

    def conjunct(self, formula: int, text: str) -> Conjunct:
        """Translate a conjunct; `text` is how the user knows it."""
        shape, events = self.formulas.shape(formula)
        if shape not in self.known:
            self.known[shape] = self.automaton(formula), events
        automaton, known_events = self.known[shape]
        if events != known_events:
            name = dict(zip(known_events, events, strict=True))
            automaton = automaton._replace(kind={name[event]: kind for event, kind in automaton.kind.items()})
        return Conjunct(text, automaton, FormulaSource(self.formulas, formula, self.at_last))

    def automaton(self, formula: int) -> Automaton:
        """Make an automaton: of a formula as a whole or, if that becomes large, of what it is a function of."""
        formulas = self.formulas
        takes_apart = formulas.op[formula] in RULES or formulas.op[formula] is Op.NOT
        try:
            progression = Progression(formulas, formula, self.limits, at_last=self.at_last)
            return progression.explore(self.events, DIRECT if takes_apart else None)
        except TooManyStates:
            return _combine(formulas, formula, self.events, self.limits, self.at_last)


def conjuncts_of(formulas: Formulas, formula: int, events: int, limits: Limits) -> list[Conjunct]:
    """Take a formula of LTLf apart and translate each conjunct."""
    translator = Translator(formulas, events, limits, at_last=formulas.is_pure_past(formula))
    return [translator.conjunct(part, formulas.text(part)) for part in formulas.conjuncts(formula)]


def _combine(formulas: Formulas, formula: int, events: int, limits: Limits, at_last: bool) -> Automaton:
    made: dict[int, Automaton] = {}

    def operands(number: int) -> tuple[int, ...]:  # of a Boolean operator; what is temporal is taken as a whole
        op = formulas.op[number]
        return formulas.arguments[number] if op in RULES or op is Op.NOT else ()

    for number in sorted(distances_from([formula], operands)):
        op, arguments = formulas.op[number], formulas.arguments[number]
        if op is Op.NOT:
            made[number] = made[arguments[0]].complement()
        elif op in RULES:
            left, right = (made[argument] for argument in arguments)
            made[number] = product(left, right, RULES[op], limits, "this formula")
        elif number in (formulas.true, formulas.false):
            made[number] = constant(number == formulas.true, events)
        else:
            made[number] = Progression(formulas, number, limits, at_last=at_last).explore(events)
    return made[formula]
