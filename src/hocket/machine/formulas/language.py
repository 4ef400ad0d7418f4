"""What a task's text is made of: conjuncts, each with its automaton and what is left to do in each of its states."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hocket.graphs import Flags
from hocket.machine.formulas.automaton import Automaton, constant, product
from hocket.machine.formulas.limits import Limits
from hocket.machine.formulas.progression import Progression, TooManyStates
from hocket.machine.formulas.syntax import Formulas, Op

DIRECT = 2_000  # states up to which a conjunct is explored as a whole before it is taken apart

RULES: dict[Op, Callable[[Flags, Flags], Flags]] = {
    Op.AND: np.logical_and,
    Op.OR: np.logical_or,
    Op.IMPLIES: np.less_equal,
    Op.IFF: np.equal,
}


class Conjunct(NamedTuple):
    """One of the conditions that make up a task; the task is done when all of them hold."""

    text: str
    automaton: Automaton
    left: tuple[str, ...] = ()  # for each state, what is left to do, as a formula; empty where that would be long


def conjuncts_of(formulas: Formulas, formula: int, events: int, limits: Limits) -> list[Conjunct]:
    """Take a formula of LTLf apart and translate each conjunct."""
    at_last = formulas.is_pure_past(formula)
    return [
        translate(formulas, part, formulas.text(part), events, limits, at_last=at_last)
        for part in formulas.conjuncts(formula)
    ]


def translate(
    formulas: Formulas, formula: int, text: str, events: int, limits: Limits, *, at_last: bool = False
) -> Conjunct:
    """Make the automaton of a formula: as a whole or, where that becomes large, from the parts it is a function of."""
    takes_apart = formulas.op[formula] in RULES or formulas.op[formula] is Op.NOT
    try:
        progression = Progression(formulas, formula, limits, at_last=at_last)
        automaton, left = progression.explore(events, DIRECT if takes_apart else None)
        return Conjunct(text, automaton, tuple(left))
    except TooManyStates:
        return Conjunct(text, _combine(formulas, formula, events, limits, at_last))


def _combine(formulas: Formulas, formula: int, events: int, limits: Limits, at_last: bool) -> Automaton:
    made: dict[int, Automaton] = {}
    for number in sorted(_skeleton(formulas, formula)):
        op, arguments = formulas.op[number], formulas.arguments[number]
        if op is Op.NOT:
            made[number] = made[arguments[0]].complement()
        elif op in RULES:
            left, right = (made[argument] for argument in arguments)
            made[number] = product(left, right, RULES[op], limits, "this formula")
        elif number in (formulas.true, formulas.false):
            made[number] = constant(number == formulas.true, events)
        else:
            made[number], _ = Progression(formulas, number, limits, at_last=at_last).explore(events)
    return made[formula]


def _skeleton(formulas: Formulas, formula: int) -> set[int]:
    """List a formula and what it is a Boolean function of, down to what is temporal."""
    found = {formula}
    waiting = [formula]
    while waiting:
        number = waiting.pop()
        if formulas.op[number] in RULES or formulas.op[number] is Op.NOT:
            fresh = {*formulas.arguments[number]} - found
            found |= fresh
            waiting += fresh
    return found
