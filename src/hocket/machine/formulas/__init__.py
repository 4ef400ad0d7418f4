"""Tasks as formulas: LTLf, regular expressions and DECLARE, as a machine or as a composition of machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypedDict, TypeVar, Unpack, overload

from hocket.errors import FormulaError, known_names
from hocket.machine.composition import Composition
from hocket.machine.formulas.build import Reading, Translator, read_conjuncts
from hocket.machine.formulas.ltlf import parse_declare, parse_ltlf
from hocket.machine.formulas.regex import Regex
from hocket.machine.formulas.syntax import FUTURE, PAST, SECONDS, STATES, Formulas, Limits
from hocket.machine.names import Listed, in_order
from hocket.machine.reward_machine import RewardMachine

Parsed = TypeVar("Parsed")
Whole = Literal[False]


class Most(TypedDict, total=False):
    """The arguments of `from_ltlf`, `from_regex` and `from_declare` that set `Limits`."""

    most_states: int
    most_seconds: float


def read_sentence(language: str, sentence: str | Sequence[str], events: Listed, limits: Limits) -> Reading:
    """Read a task in one of the languages: a text, or for DECLARE a list of texts."""
    readers: dict[str, Callable[..., Reading]] = {"formula": read_ltlf, "regex": read_regex, "declare": read_declare}
    return readers[language](sentence, events, limits)


@overload
def from_ltlf(text: str, events: Listed = None, *, parts: Whole = False, **limits: Unpack[Most]) -> RewardMachine: ...
@overload
def from_ltlf(text: str, events: Listed = None, *, parts: Literal[True], **limits: Unpack[Most]) -> Composition: ...
def from_ltlf(
    text: str, events: Listed = None, *, parts: bool = False, most_states: int = STATES, most_seconds: float = SECONDS
) -> RewardMachine | Composition:
    """Make the machine of a formula of LTLf: the task is completed when the trace so far first satisfies it.

    One event happens at a time; `events` are those that can, by default those in the formula. `X` is strong, `WX` weak.
    With `parts`, independent conjuncts become the machines of a composition, and the product of their states is never
    built. The machine is minimal; a formula that takes more than the limits is an error.

    >>> machine = from_ltlf("(!door U key) & F door")
    >>> for (state, event), target in machine.transitions.items():
    ...     print(f"{state:22} {event:5} {target}")
    !door U key & F door   door  violated
    !door U key & F door   key   F door
    F door                 door  done
    """
    limits = Limits(most_states, most_seconds)
    return _made(read_ltlf(text, events, limits), parts, limits)


@overload
def from_regex(text: str, events: Listed = None, *, parts: Whole = False, **limits: Unpack[Most]) -> RewardMachine: ...
@overload
def from_regex(text: str, events: Listed = None, *, parts: Literal[True], **limits: Unpack[Most]) -> Composition: ...
def from_regex(
    text: str, events: Listed = None, *, parts: bool = False, most_states: int = STATES, most_seconds: float = SECONDS
) -> RewardMachine | Composition:
    """Make the machine of a regular expression over events: the task is completed when the trace so far first matches.

    >>> from_regex("load take ; drop").states
    {'load take drop', 'take drop', 'violated', 'drop', 'done'}
    """
    limits = Limits(most_states, most_seconds)
    return _made(read_regex(text, events, limits), parts, limits)


@overload
def from_declare(
    constraints: Iterable[str], events: Listed = None, *, parts: Whole = False, **limits: Unpack[Most]
) -> RewardMachine: ...
@overload
def from_declare(
    constraints: Iterable[str], events: Listed = None, *, parts: Literal[True], **limits: Unpack[Most]
) -> Composition: ...
def from_declare(
    constraints: Iterable[str],
    events: Listed = None,
    *,
    parts: bool = False,
    most_states: int = STATES,
    most_seconds: float = SECONDS,
) -> RewardMachine | Composition:
    """Make the machine of DECLARE constraints, all of which have to hold: `response(a, b)`, `existence(a, 2)`, ...

    >>> from_declare(["precedence(key, door)", "existence(door)"]).run(("key", "door"), undefined="stay").completed
    True
    """
    limits = Limits(most_states, most_seconds)
    return _made(read_declare(constraints, events, limits), parts, limits)


def _made(reading: Reading, parts: bool, limits: Limits) -> RewardMachine | Composition:
    return reading.parts(limits) if parts else reading.machine(limits)


def read_ltlf(text: str, events: Listed, limits: Limits) -> Reading:
    """Read a formula and sort its conjuncts."""
    formulas, names, formula = _parsed(events, lambda formulas: parse_ltlf(text, formulas))
    translator = Translator(formulas, len(names), limits, at_final_position=formulas.is_pure_past(formula))
    conjuncts = [translator.conjunct(part, formulas.text(part)) for part in formulas.conjuncts(formula)]
    return read_conjuncts(conjuncts, names, limits, _notes(formulas, formula))


def read_regex(text: str, events: Listed, limits: Limits) -> Reading:
    """Read a regular expression and sort the factors of its intersection."""
    _, names, regex = _parsed(events, lambda formulas: Regex(text, formulas))
    return read_conjuncts(regex.conjuncts(len(names), limits), names, limits)


def read_declare(constraints: Iterable[str], events: Listed, limits: Limits) -> Reading:
    """Read constraints and sort them."""
    if isinstance(constraints, str) or not isinstance(constraints, Iterable):
        raise FormulaError(f"constraints must come as a list, such as ['response(a, b)'], got {constraints!r:.60}")

    def parse(formulas: Formulas) -> list[tuple[str, int]]:
        read: list[tuple[str, int]] = []
        for number, text in enumerate(constraints, start=1):
            try:
                read.append((text, parse_declare(text, formulas)))
            except FormulaError as error:
                raise FormulaError(f"constraint {number}: {error}") from None
        if not read:
            raise FormulaError("a task needs at least one constraint, got none")
        return read

    formulas, names, read = _parsed(events, parse)
    translator = Translator(formulas, len(names), limits)
    return read_conjuncts([translator.conjunct(formula, text.strip()) for text, formula in read], names, limits)


def _parsed(events: Listed, parse: Callable[[Formulas], Parsed]) -> tuple[Formulas, list[str], Parsed]:
    """Parse a task's text; also list its events: the declared ones in their order, where there must be no others."""
    formulas = Formulas()
    declared = None if events is None else in_order(events, "an event")
    for event in declared or ():
        formulas.name(event)
    known = len(formulas.events)
    parsed = parse(formulas)
    names = list(formulas.events)
    if declared is not None and len(names) > known:
        hint = known_names(names[known], names[:known])
        raise FormulaError(f"event {names[known]!r} is not among the events declared ({hint})")
    if not names:
        raise FormulaError("a task needs at least one event, got none; name one in the formula, or give events")
    return formulas, names, parsed


def _notes(formulas: Formulas, formula: int) -> list[str]:
    """Warn of past operators where there is no past yet: at the first position, in a formula that also looks ahead."""
    if formulas.is_pure_past(formula):
        return []
    shallow = {formula}
    waiting = [formula]
    while waiting:
        number = waiting.pop()
        if formulas.op[number] in PAST:
            text = formulas.text(number, 40)
            return [f"`{text}` is read at the first position, where nothing is past; put it under F or G."]
        if formulas.op[number] not in FUTURE:
            fresh = {*formulas.arguments[number]} - shallow
            shallow |= fresh
            waiting += fresh
    return []
