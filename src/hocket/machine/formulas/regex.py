"""Regular expressions over event names: a parser with a stack of its own, and their automata.

load drop ; retire        one after the other (the semicolon may be left out)
a | b      a & b      !a  one or the other, both at once, anything but
a*  a+  a?  a{3}  a{2,4}  a{2,}
.  ()                     any one event, nothing
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple

from hocket.errors import FormulaError
from hocket.graphs import distances_from
from hocket.machine.formulas.automaton import Automaton, explore, product
from hocket.machine.formulas.build import Conjunct
from hocket.machine.formulas.syntax import RULES, Formulas, Limits, Op, Token, tokens_of, unquoted

TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\]|\\.)*+")|(?P<word>\w+)|(?P<open>\()|(?P<close>\))|(?P<any>\.)'
    r"|(?P<repeat>\*|\+|\?|\{\s*\d+\s*(?:,\s*\d*\s*)?\})|(?P<not>[!~¬])|(?P<and>&&?|∩|∧)|(?P<or>\|\|?|∪|∨)"
    r"|(?P<then>;)",
    re.DOTALL,
)
MOST_PLACES = 20_000  # places in an expression, with repetitions written out
MOST_TOGETHER = 3_000_000  # places in all sets of places that traces lead to
MOST_LAID = 1_000_000  # moves of automata that are laid between places
ANY = -2
OPERANDS = ("string", "word", "any")
EXPECTED = "expected an event, '.', '!' or '('"


class Expression(NamedTuple):
    """An expression; `parts` are the numbers of smaller ones."""

    op: str  # event, seq, or, and, not, repeat
    parts: tuple[int, ...] = ()
    event: int = -1  # or ANY
    least: int = 0
    most: int | None = None


@dataclass
class _Frame:
    """What has been read since an open parenthesis, or since the beginning."""

    opened: Token  # or, of the whole, its first token
    alternatives: list[int] = field(default_factory=list)
    factors: list[int] = field(default_factory=list)
    items: list[tuple[int, bool]] = field(default_factory=list)  # an expression, and whether it is to be negated
    negate: bool = False
    waits: bool = True  # for an expression
    begin: int = 0  # where the present factor begins


class Regex:
    """A regular expression; `root` and all that is in it are numbers of `nodes`, smaller ones first."""

    def __init__(self, text: str, formulas: Formulas) -> None:
        self.text, self.formulas, self.events = text, formulas, formulas.events
        self.nodes: list[Expression] = []
        self.spans: dict[int, str] = {}  # factor of an intersection -> its text
        tokens = tokens_of(text, TOKEN)
        self._frames = [_Frame(tokens[0])]
        self.root = -1
        for token in tokens:
            self._take(token)

    def _node(self, op: str, *parts: int, event: int = -1, least: int = 0, most: int | None = None) -> int:
        if op in ("seq", "or", "and") and len(parts) == 1:
            return parts[0]
        self.nodes.append(Expression(op, parts, event, least, most))
        return len(self.nodes) - 1

    def _take(self, token: Token) -> None:
        frame = self._frames[-1]
        if token.kind in OPERANDS:
            event = ANY
            if token.kind != "any":
                event = self.formulas.event[self.formulas.name(unquoted(token.text))]
                if not unquoted(token.text).strip() or not token.text.isprintable():
                    raise token.error("the name of an event must be text that can be read", got=False)
            self._add(self._node("event", event=event))
        elif token.kind == "open":
            self._frames.append(_Frame(token, begin=token.place + 1))
        elif token.kind == "not":
            frame.negate, frame.waits = not frame.negate, True
        elif token.kind == "repeat":
            self._repeat(frame, token)
        elif token.kind in ("close", "end"):
            self._close(token)
        elif frame.waits:
            raise token.error(EXPECTED)
        else:
            if token.kind != "then":
                self._end_factor(frame, token.place)
                frame.begin = token.place + len(token.text)
            if token.kind == "or":
                frame.alternatives.append(self._node("and", *frame.factors))
                frame.factors = []
            frame.waits = True

    def _add(self, node: int) -> None:
        frame = self._frames[-1]
        frame.items.append((node, frame.negate))
        frame.negate = frame.waits = False

    def _repeat(self, frame: _Frame, token: Token) -> None:
        if frame.waits:
            raise token.error(EXPECTED)
        if any(len(number) > len(str(MOST_PLACES)) for number in re.findall(r"\d+", token.text)):
            raise token.error(f"the number is too large: an event repeats at most {MOST_PLACES:,} times", got=False)
        bounds = {"*": "0,", "+": "1,", "?": "0,1"}.get(token.text, token.text.strip("{}"))
        first, comma, last = (part.strip() for part in bounds.partition(","))
        least, most = int(first), int(last or first) if last or not comma else None
        if most is not None and most < least:
            raise token.error("the second number must be at least as large as the first")
        node, negated = frame.items.pop()
        frame.items.append((self._node("repeat", node, least=least, most=most), negated))

    def _end_factor(self, frame: _Frame, place: int) -> None:
        parts = [self._node("not", node) if negated else node for node, negated in frame.items]
        factor = self._node("seq", *parts)
        self.spans[factor] = self.text[frame.begin : place].strip()
        frame.factors.append(factor)
        frame.items = []

    def _close(self, token: Token) -> None:
        frame = self._frames[-1]
        is_empty = not (frame.items or frame.factors or frame.alternatives or frame.negate)
        if token.kind == "close" and len(self._frames) == 1:
            raise token.error("this parenthesis was never opened", got=False)
        if frame.waits and not (is_empty and token.kind == "close"):
            raise token.error(EXPECTED)
        if token.kind == "end" and len(self._frames) > 1:
            raise frame.opened.error("this parenthesis is never closed", got=False)
        self._end_factor(frame, token.place)
        frame.alternatives.append(self._node("and", *frame.factors))
        whole = self._node("or", *frame.alternatives)
        if token.kind == "close":
            self._frames.pop()
            self._add(whole)
        else:
            self.root = whole

    def conjuncts(self, events: int, limits: Limits) -> list[Conjunct]:
        """Translate the expression, an intersection factor by factor."""
        root = self.nodes[self.root]
        factors = root.parts if root.op == "and" else (self.root,)
        made: dict[int, Automaton] = {}

        def automaton(number: int) -> Automaton:
            return made[number] if number in made else _Places(self, number, made, events, limits).automaton()

        def both(left: Automaton, right: Automaton) -> Automaton:
            return product(left, right, RULES[Op.AND], limits, "this expression")

        for number, node in enumerate(self.nodes):
            if node.op == "not":
                made[number] = automaton(node.parts[0]).complement()
            elif node.op == "and" and number != self.root:
                made[number] = reduce(both, map(automaton, node.parts))
        return [Conjunct(self.spans.get(factor, self.text.strip()), automaton(factor)) for factor in factors]


class _Places:
    """The places between the events of an expression: an automaton that may be in several of them at once."""

    def __init__(self, regex: Regex, root: int, made: dict[int, Automaton], events: int, limits: Limits) -> None:
        self.regex, self.made, self.limits, self.events = regex, made, limits, events
        self.steps: list[dict[int, list[int]]] = []  # of each place: event (or ANY, or -1 for others) -> places
        self.jumps: list[list[int]] = []  # of each place: places that are as good
        self.moves = 0  # of automata that were laid
        start, self.end = self.place(), self.place()
        self.known: set[int] = set()  # events with steps of their own
        waiting = [(root, start, self.end)]
        while waiting:
            waiting += self.lay(*waiting.pop())
            limits.check("this expression", 1)
        self.start = self.closure([start])

    def place(self) -> int:
        if len(self.steps) >= MOST_PLACES:
            rule = f"with its repetitions written out it must have at most {MOST_PLACES:,} places between events"
            raise FormulaError(f"this expression is too long: {rule}")
        self.steps.append({})
        self.jumps.append([])
        return len(self.steps) - 1

    def lay(self, number: int, begin: int, end: int) -> list[tuple[int, int, int]]:
        """Lay an expression between two places; returns smaller ones that are to be laid."""
        node = self.regex.nodes[number]
        if number in self.made:
            self.embed(self.made[number], begin, end)
        elif node.op == "event":
            self.known.add(node.event)
            self.steps[begin].setdefault(node.event, []).append(end)
        elif node.op == "or":
            return [(part, begin, end) for part in node.parts]
        elif node.op == "seq":
            if not node.parts:
                self.jumps[begin].append(end)
                return []
            places = [begin, *(self.place() for _ in node.parts[1:]), end]
            return list(zip(node.parts, places, places[1:], strict=False))
        else:
            return self.repeat(node, begin, end)
        return []

    def repeat(self, node: Expression, begin: int, end: int) -> list[tuple[int, int, int]]:
        (part,) = node.parts
        laid, here = [], begin
        for turn in range(node.least if node.most is None else node.most):
            if turn >= node.least:
                self.jumps[here].append(end)
            there = self.place()
            laid.append((part, here, there))
            here = there
        if node.most is None:
            again = self.place()
            self.jumps[here].append(again)
            laid.append((part, again, again))
            here = again
        self.jumps[here].append(end)
        return laid

    def embed(self, automaton: Automaton, begin: int, end: int) -> None:
        """Lay an automaton between two places."""
        places = [self.place() for _ in range(automaton.states)]
        events = (*range(len(self.regex.events)), -1)
        self.moves += len(places) * len(self.regex.events)
        if self.moves > MOST_LAID:
            raise FormulaError(f"this expression is too long: it needs more than {MOST_LAID:,} moves between places")
        self.jumps[begin].append(places[0])
        for state, place in enumerate(places):
            if automaton.accepts[state]:
                self.jumps[place].append(end)
            for event in events:
                if (kind := automaton.column(event)) >= 0:
                    self.steps[place].setdefault(event, []).append(places[automaton.move[state, kind]])
        self.known.update(events)

    def closure(self, places: list[int]) -> frozenset[int]:
        reached = distances_from(places, self.jumps.__getitem__)
        return frozenset(place for place in reached if self.steps[place] or place == self.end)

    def step(self, state: frozenset[int], event: int) -> frozenset[int]:
        ends = [end for place in state for key in (event, ANY) for end in self.steps[place].get(key, ())]
        return self.closure(ends)

    def automaton(self) -> Automaton:
        """Follow all sets of places that traces lead to."""
        counted, together = 1, 0  # sets, and the places in all of them but the first

        def watch(states: Sequence[frozenset[int]]) -> None:
            nonlocal counted, together
            together += sum(map(len, states[counted:]))
            counted = len(states)
            if together > MOST_TOGETHER:
                rule = f"traces may lead to several of its places at once, {MOST_TOGETHER:,} in all"
                raise FormulaError(f"this expression is too large: {rule}")
            self.limits.check("this expression", len(states))

        kinds = sorted(event for event in self.known if event >= 0)
        return explore(
            self.start, self.step, lambda _, state: self.end in state, kinds, self.events, self.limits, watch
        )
