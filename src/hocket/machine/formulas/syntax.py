"""Formulas as integers: equal formulas have equal numbers, and nothing here recurses.

Also the tokens of all languages, errors that point at a column, and limits on the work that a formula may cause.
"""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial, reduce
from typing import Any, NamedTuple

from hocket.errors import FormulaError, printable
from hocket.graphs import distances_from
from hocket.machine.names import quote, unquote


class Op(StrEnum):
    """The operator at the root of a formula, by its sign."""

    TRUE = "true"
    FALSE = "false"
    EVENT = ""
    NOT = "!"
    AND = "&"
    OR = "|"
    IMPLIES = "->"
    IFF = "<->"
    NEXT = "X"  # there is a next position, and there it holds
    WEAK_NEXT = "WX"  # if there is a next position, there it holds
    EVENTUALLY = "F"
    ALWAYS = "G"
    UNTIL = "U"
    WEAK_UNTIL = "W"
    RELEASE = "R"
    STRONG_RELEASE = "M"
    YESTERDAY = "Y"  # there is a position before, and there it holds
    HISTORICALLY = "H"
    ONCE = "O"
    SINCE = "S"


SIGNS: Mapping[Op, str] = {op: op.value for op in Op if op is not Op.EVENT}
LEVEL = {  # the precedence of a binary operator; unary ones and names bind tightest
    Op.IFF: 1, Op.IMPLIES: 2, Op.OR: 3, Op.AND: 4,
    Op.UNTIL: 5, Op.WEAK_UNTIL: 5, Op.RELEASE: 5, Op.STRONG_RELEASE: 5, Op.SINCE: 5,
}  # fmt: skip
TIGHTEST = 6

WORDS: Mapping[str, Op] = {sign: op for op, sign in SIGNS.items()} | {
    "tt": Op.TRUE, "⊤": Op.TRUE, "ff": Op.FALSE, "⊥": Op.FALSE, "not": Op.NOT, "~": Op.NOT, "¬": Op.NOT,
    "and": Op.AND, "&&": Op.AND, "/\\": Op.AND, "∧": Op.AND, "or": Op.OR, "||": Op.OR, "\\/": Op.OR, "∨": Op.OR,
    "implies": Op.IMPLIES, "=>": Op.IMPLIES, "→": Op.IMPLIES, "⇒": Op.IMPLIES,
    "iff": Op.IFF, "<=>": Op.IFF, "↔": Op.IFF, "⇔": Op.IFF,
    "X[!]": Op.NEXT, "next": Op.NEXT, "○": Op.NEXT, "◯": Op.NEXT, "weak_next": Op.WEAK_NEXT, "●": Op.WEAK_NEXT,
    "eventually": Op.EVENTUALLY, "finally": Op.EVENTUALLY, "<>": Op.EVENTUALLY, "◇": Op.EVENTUALLY,
    "always": Op.ALWAYS, "globally": Op.ALWAYS, "[]": Op.ALWAYS, "□": Op.ALWAYS,
    "until": Op.UNTIL, "unless": Op.WEAK_UNTIL, "weak_until": Op.WEAK_UNTIL, "release": Op.RELEASE,
    "releases": Op.RELEASE, "strong_release": Op.STRONG_RELEASE, "yesterday": Op.YESTERDAY,
    "historically": Op.HISTORICALLY, "once": Op.ONCE, "since": Op.SINCE,
}  # fmt: skip

RULES: Mapping[Op, Callable[..., Any]] = {  # of truth values, and of arrays of them
    Op.AND: operator.and_, Op.OR: operator.or_, Op.IMPLIES: operator.le, Op.IFF: operator.eq,
}  # fmt: skip
CONSTANTS = frozenset({Op.TRUE, Op.FALSE})
PAST = frozenset({Op.YESTERDAY, Op.HISTORICALLY, Op.ONCE, Op.SINCE})
FUTURE = frozenset(
    {Op.NEXT, Op.WEAK_NEXT, Op.EVENTUALLY, Op.ALWAYS, Op.UNTIL, Op.WEAK_UNTIL, Op.RELEASE, Op.STRONG_RELEASE}
)
WEAK = frozenset({Op.WEAK_NEXT, Op.ALWAYS, Op.WEAK_UNTIL, Op.RELEASE, Op.HISTORICALLY})  # true of an empty trace
OPPOSITE = {  # op -> the one that holds of the negated arguments where it does not hold
    Op.NEXT: Op.WEAK_NEXT, Op.EVENTUALLY: Op.ALWAYS, Op.UNTIL: Op.RELEASE, Op.STRONG_RELEASE: Op.WEAK_UNTIL,
    Op.ONCE: Op.HISTORICALLY, Op.AND: Op.OR,
}  # fmt: skip
OPPOSITE |= {weak: strong for strong, weak in OPPOSITE.items()}

PLAIN_NAME = re.compile(r"[^\W\d]\w*")


class Formulas:
    """A store of formulas; equal ones have equal numbers, and arguments have smaller numbers than their formula."""

    def __init__(self) -> None:
        self.op: list[Op] = []
        self.arguments: list[tuple[int, ...]] = []
        self.event: list[int] = []  # of an event: its number; -1 of others
        self.events: dict[str, int] = {}  # in the order of first appearance
        self._names: list[str] = []
        self._number: dict[tuple[Op | int, ...], int] = {}
        self.true, self.false = self._make(Op.TRUE), self._make(Op.FALSE)

    def _make(self, op: Op, *arguments: int, event: int = -1) -> int:
        key: tuple[Op | int, ...] = (op, event, *arguments)
        number = self._number.setdefault(key, len(self.op))
        if number == len(self.op):
            self.op.append(op)
            self.arguments.append(arguments)
            self.event.append(event)
        return number

    def name(self, name: str) -> int:
        """Make the formula that holds where the event of that name happens."""
        number = self.events.setdefault(name, len(self._names))
        if number == len(self._names):
            self._names.append(name)
        return self._make(Op.EVENT, event=number)

    def make(self, op: Op, *arguments: int) -> int:
        """Make a formula; two negations cancel out."""
        if op is Op.NOT:
            return self.negate(arguments[0], deep=False)
        return self._make(op, *arguments)

    def negate(self, formula: int, *, deep: bool = True) -> int:
        """Negate a formula; where it is temporal and `deep`, by its dual, so that its text stays short."""
        op, arguments = self.op[formula], self.arguments[formula]
        if op is Op.NOT:
            return arguments[0]
        if op in CONSTANTS:
            return self.false if op is Op.TRUE else self.true
        if deep and op in OPPOSITE:
            return self._make(OPPOSITE[op], *(self.negate(argument, deep=False) for argument in arguments))
        return self._make(Op.NOT, formula)

    def join(self, op: Op, formulas: Iterable[int]) -> int:
        """Join formulas by `&` or `|`."""
        listed = [*formulas] or [self.true if op is Op.AND else self.false]
        return reduce(partial(self._make, op), listed)

    def subformulas(self, formula: int) -> list[int]:
        """List a formula and its subformulas, arguments first."""
        return sorted(distances_from([formula], self.arguments.__getitem__))

    def events_at_once(self, formula: int) -> list[str]:
        """Name the events that a formula requires at one position, if there are several; or the one that it is."""
        for number in self.subformulas(formula):
            events = {part for part in self.conjuncts(number) if self.op[part] is Op.EVENT}
            if (self.op[number] is Op.AND and len(events) > 1) or number == formula:
                return [self._names[self.event[part]] for part in sorted(events)]
        return []

    def shape(self, formula: int) -> tuple[tuple[Op | int, ...], list[int]]:
        """Describe a formula without the names of its events; also list these in the order of first appearance."""
        position: dict[int, int] = {}
        events: dict[int, int] = {}
        described: list[Op | int] = []
        for number in self.subformulas(formula):
            position[number] = len(position)
            described.append(self.op[number])
            if self.event[number] >= 0:
                described.append(events.setdefault(self.event[number], len(events)))
            described += [position[argument] for argument in self.arguments[number]]
        return tuple(described), list(events)

    def conjuncts(self, formula: int) -> list[int]:
        """Split a formula at `&`, also where `&` distributes: G (a & b), X (a & b), !(a | b)."""
        conjuncts: dict[int, None] = {}
        stack = [formula]
        while stack:
            if (parts := self._split(formula := stack.pop())) is None:
                conjuncts[formula] = None
            else:
                stack += reversed(parts)
        return [formula for formula in conjuncts if formula != self.true] or [self.true]

    def _split(self, formula: int) -> tuple[int, ...] | None:
        """Write a formula as a conjunction of others, if its root allows it."""
        op, arguments = self.op[formula], self.arguments[formula]
        if op is Op.AND:
            return arguments
        inner = arguments[0] if arguments else formula
        if op is Op.NOT and self.op[inner] is Op.EVENTUALLY:
            return (self.negate(inner),)
        if op is Op.NOT and self.op[inner] in (Op.OR, Op.IMPLIES):
            first, second = self.arguments[inner]
            return (first if self.op[inner] is Op.IMPLIES else self.negate(first), self.negate(second))
        if op in (Op.ALWAYS, Op.NEXT, Op.HISTORICALLY, Op.YESTERDAY) and self.op[inner] is Op.AND:
            return tuple(self._make(op, argument) for argument in self.arguments[inner])
        return None

    def accepts_empty(self, formula: int) -> bool:
        """Say whether a formula holds of the empty trace, which has no event, and no position before or after."""
        value: dict[int, bool] = {}
        for number in self.subformulas(formula):
            op, values = self.op[number], [value[argument] for argument in self.arguments[number]]
            holds = RULES[op](*values) if op in RULES else op is Op.NOT and not values[0]
            value[number] = holds or op is Op.TRUE or op in WEAK
        return value[formula]

    def is_pure_past(self, formula: int) -> bool:
        """Say whether a formula has temporal operators and all of them are past operators."""
        ops = {self.op[number] for number in self.subformulas(formula)}
        return bool(ops & PAST) and not ops & FUTURE

    def text(self, formula: int, longest: int = 2_000) -> str:
        """Write a formula with as few parentheses as possible, cut off at `longest` characters."""
        text = ""
        stack: list[str | tuple[int, int]] = [(formula, 0)]
        while stack:
            item = stack.pop()
            if not isinstance(item, str):
                stack += reversed(list(self._layout(*item)))
                continue
            text += item
            if len(text) > longest:
                return text[: longest - 1] + "…"
        return text

    def _layout(self, formula: int, level: int) -> Iterator[str | tuple[int, int]]:
        """Lay out the root of a formula in a context where only operators that bind tighter than `level` need no
        parentheses."""
        op, arguments = self.op[formula], self.arguments[formula]
        if op is Op.EVENT:
            yield quoted(self._names[self.event[formula]])
        elif op in CONSTANTS:
            yield SIGNS[op]
        elif len(arguments) == 1:
            inner = arguments[0]
            tight = op is Op.NOT or self.op[inner] in LEVEL
            yield SIGNS[op] if tight else SIGNS[op] + " "
            yield (inner, TIGHTEST)
        else:
            inner = LEVEL[op]
            needs_parentheses = inner <= level and not (inner == level and op in (Op.AND, Op.OR))
            left, right = arguments
            yield "(" if needs_parentheses else ""
            yield (left, inner)
            yield f" {SIGNS[op]} "
            yield (right, inner)
            yield ")" if needs_parentheses else ""


def quoted(name: str) -> str:
    """Write an event's name as in formulas: in quotes unless it is a plain word that is no operator."""
    return name if PLAIN_NAME.fullmatch(name) and name not in WORDS else quote(name)


LONGEST = 1_000_000  # characters of a formula


class Token(NamedTuple):
    """A piece of text; `kind` is the group of the pattern that matches it, or "end"."""

    kind: str
    text: str
    position: int  # of its first character
    source: str  # the whole text

    @property
    def name(self) -> str:
        """The text without quotes."""
        return unquote(self.text[1:-1]) if self.text.startswith('"') else self.text

    def error(self, message: str, *, got: bool = True) -> FormulaError:
        """Make an error that names the token's column and, with `got`, its text."""
        line = self.source.count("\n", 0, self.position)
        column = self.position - self.source.rfind("\n", 0, self.position)
        where = f"line {line + 1}, column {column}" if line else f"column {column}"
        shown = f", got {printable(repr(self.text), 60) if self.text else 'the end'}" if got else ""
        return FormulaError(f"{where}: {message}{shown}")


def tokens_of(text: str, pattern: re.Pattern[str]) -> list[Token]:
    """Cut a text into tokens; every character but blanks must be in one."""
    if not isinstance(text, str):
        raise FormulaError(f"a formula must be text, got {text!r:.60}")
    if len(text) > LONGEST:
        raise FormulaError(f"a formula must have at most {LONGEST:,} characters, got {len(text):,}")
    tokens: list[Token] = []
    end = 0
    for match in pattern.finditer(text):
        if text[end : match.start()].strip():
            break
        tokens.append(Token(str(match.lastgroup), match[0], match.start(), text))
        end = match.end()
    if rest := text[end:].lstrip():
        unknown = Token("", "", len(text) - len(rest), text)
        raise unknown.error(f"{printable(repr(rest[0]))} means nothing here", got=False)
    return [*tokens, Token("end", "", len(text.rstrip()), text)]


# Limits, so that a formula that is too large is an error and neither hangs nor swaps.

STATES = 1_000_000  # each takes up to 400 bytes while automata are made
SECONDS = 8.0  # of the processor
MOST_MOVES = 10_000_000  # states x kinds of events of an automaton; each takes four bytes, and more while it grows


@dataclass
class Limits:
    """How large an automaton may become and how long its construction may take, from the first check on."""

    states: int = STATES
    seconds: float = SECONDS
    _deadline: float | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not (isinstance(self.states, int) and self.states >= 1):
            raise FormulaError(f"most_states must be a whole number of at least 1, got {self.states!r:.60}")
        if not (isinstance(self.seconds, int | float) and self.seconds > 0):
            raise FormulaError(f"most_seconds must be a number above 0, got {self.seconds!r:.60}")

    def check(self, what: str, states: int, kinds: int = 1) -> None:
        """Raise an error if the construction of `what` has reached too many states or took too long."""
        now = time.thread_time()
        if self._deadline is None:
            self._deadline = now + self.seconds
        if states > self.states:
            rule = f"it needs more than {self.states:,} states, the limit (most_states)"
            raise FormulaError(f"{what} is too large: {rule}; {states:,} were reached")
        if states * kinds > MOST_MOVES:
            size = f"{states:,} states with {kinds:,} kinds of events"
            raise FormulaError(f"{what} is too large: {size} are more than {MOST_MOVES:,} transitions")
        if now > self._deadline:
            rule = f"takes more than {self.seconds:g} seconds, the limit (most_seconds)"
            raise FormulaError(f"{what} {rule}; {states:,} states were reached")
