"""Regular expressions over event names: a parser that does not recurse, and their automata.

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
from hocket.machine.formulas.syntax import RULES, Formulas, Limits, Op, Token, tokens_of

TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\]|\\.)*+")|(?P<word>\w+)|(?P<open>\()|(?P<close>\))|(?P<any>\.)'
    r"|(?P<repeat>\*|\+|\?|\{\s*\d+\s*(?:,\s*\d*\s*)?\})|(?P<not>[!~¬])|(?P<and>&&?|∩|∧)|(?P<or>\|\|?|∪|∨)"
    r"|(?P<then>;)",
    re.DOTALL,
)
MOST_STATES = 20_000  # of a nondeterministic automaton, with repetitions written out
MOST_IN_SETS = 3_000_000  # states in all sets of states that traces lead to
MOST_EMBEDDED = 1_000_000  # moves of automata that become parts of a nondeterministic one
ANY = -2
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
    """The expressions since an open parenthesis, or since the beginning."""

    opened: Token  # the parenthesis, or the first token
    alternatives: list[int] = field(default_factory=list)
    factors: list[int] = field(default_factory=list)
    items: list[tuple[int, bool]] = field(default_factory=list)  # an expression, and whether it is to be negated
    negate: bool = False
    expects_operand: bool = True
    begin: int = 0  # where the present factor begins


class Regex:
    """A regular expression; `root` and its parts are numbers of `nodes`, smaller expressions first."""

    def __init__(self, text: str, formulas: Formulas) -> None:
        self.text, self.formulas = text, formulas
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
        if token.kind in ("string", "word"):
            event = self.formulas.event[self.formulas.name(token.name)]
            if not token.name.strip() or not token.text.isprintable():
                raise token.error("the name of an event must be text that can be read", got=False)
            self._add(self._node("event", event=event))
        elif token.kind == "any":
            self._add(self._node("event", event=ANY))
        elif token.kind == "open":
            self._frames.append(_Frame(token, begin=token.position + 1))
        elif token.kind == "not":
            frame.negate, frame.expects_operand = not frame.negate, True
        elif token.kind in ("close", "end"):
            self._close(token)
        elif frame.expects_operand:
            raise token.error(EXPECTED)
        elif token.kind == "repeat":
            self._repeat(frame, token)
        else:
            if token.kind != "then":
                self._end_factor(frame, token.position)
                frame.begin = token.position + len(token.text)
            if token.kind == "or":
                frame.alternatives.append(self._node("and", *frame.factors))
                frame.factors = []
            frame.expects_operand = True

    def _add(self, node: int) -> None:
        frame = self._frames[-1]
        frame.items.append((node, frame.negate))
        frame.negate = frame.expects_operand = False

    def _repeat(self, frame: _Frame, token: Token) -> None:
        if any(len(number) > len(str(MOST_STATES)) for number in re.findall(r"\d+", token.text)):
            raise token.error(f"the number is too large: an event repeats at most {MOST_STATES:,} times", got=False)
        bounds = {"*": "0,", "+": "1,", "?": "0,1"}.get(token.text, token.text.strip("{}"))
        first, comma, last = (part.strip() for part in bounds.partition(","))
        least, most = int(first), int(last or first) if last or not comma else None
        if most is not None and most < least:
            raise token.error("the second number must be at least as large as the first")
        node, negated = frame.items.pop()
        frame.items.append((self._node("repeat", node, least=least, most=most), negated))

    def _end_factor(self, frame: _Frame, end: int) -> None:
        parts = [self._node("not", node) if negated else node for node, negated in frame.items]
        factor = self._node("seq", *parts)
        self.spans[factor] = self.text[frame.begin : end].strip()
        frame.factors.append(factor)
        frame.items = []

    def _close(self, token: Token) -> None:
        frame = self._frames[-1]
        is_empty = not (frame.items or frame.factors or frame.alternatives or frame.negate)
        if token.kind == "close" and len(self._frames) == 1:
            raise token.error("this parenthesis was never opened", got=False)
        if frame.expects_operand and not (is_empty and token.kind == "close"):
            raise token.error(EXPECTED)
        if token.kind == "end" and len(self._frames) > 1:
            raise frame.opened.error("this parenthesis is never closed", got=False)
        self._end_factor(frame, token.position)
        frame.alternatives.append(self._node("and", *frame.factors))
        self.root = self._node("or", *frame.alternatives)
        if token.kind == "close":
            self._frames.pop()
            self._add(self.root)

    def conjuncts(self, events: int, limits: Limits) -> list[Conjunct]:
        """Translate the expression, an intersection factor by factor."""
        root = self.nodes[self.root]
        factors = root.parts if root.op == "and" else (self.root,)
        made: dict[int, Automaton] = {}

        def automaton(number: int) -> Automaton:
            return made[number] if number in made else _Nfa(self, number, made, events, limits).automaton()

        def both(left: Automaton, right: Automaton) -> Automaton:
            return product(left, right, RULES[Op.AND], limits, "this expression")

        for number, node in enumerate(self.nodes):
            if node.op == "not":
                made[number] = automaton(node.parts[0]).complement()
            elif node.op == "and" and number != self.root:
                made[number] = reduce(both, map(automaton, node.parts))
        return [Conjunct(self.spans.get(factor, self.text.strip()), automaton(factor)) for factor in factors]


class _Nfa:
    """The nondeterministic automaton of an expression (Thompson's construction), from which `made` is spared."""

    def __init__(self, regex: Regex, root: int, made: dict[int, Automaton], events: int, limits: Limits) -> None:
        self.regex, self.made, self.limits, self.events = regex, made, limits, events
        self.moves: list[dict[int, list[int]]] = []  # of each state: event (or ANY, or -1 for others) -> states
        self.silent: list[list[int]] = []  # of each state: states that are reached without an event
        self.embedded = 0  # moves of automata that are parts
        start, self.end = self.add_state(), self.add_state()
        self.known: set[int] = set()  # events with moves
        stack = [(root, start, self.end)]
        while stack:
            stack += self.connect(*stack.pop())
            limits.check("this expression", 1)
        self.start = self.closure([start])

    def add_state(self) -> int:
        if len(self.moves) >= MOST_STATES:
            rule = f"with its repetitions written out it must have at most {MOST_STATES:,} places between events"
            raise FormulaError(f"this expression is too long: {rule}")
        self.moves.append({})
        self.silent.append([])
        return len(self.moves) - 1

    def connect(self, number: int, begin: int, end: int) -> list[tuple[int, int, int]]:
        """Connect two states by an expression; list smaller expressions that remain to connect others."""
        node = self.regex.nodes[number]
        if number in self.made:
            self.embed(self.made[number], begin, end)
        elif node.op == "event":
            self.known.add(node.event)
            self.moves[begin].setdefault(node.event, []).append(end)
        elif node.op == "or":
            return [(part, begin, end) for part in node.parts]
        elif node.op == "repeat":
            return self.repeat(node, begin, end)
        elif node.parts:
            states = [begin, *(self.add_state() for _ in node.parts[1:]), end]
            return list(zip(node.parts, states, states[1:], strict=False))
        else:
            self.silent[begin].append(end)
        return []

    def repeat(self, node: Expression, begin: int, end: int) -> list[tuple[int, int, int]]:
        (part,) = node.parts
        copies, here = [], begin
        for turn in range(node.least if node.most is None else node.most):
            if turn >= node.least:
                self.silent[here].append(end)
            copies.append((part, here, self.add_state()))
            here = copies[-1][2]
        if node.most is None:
            loop = self.add_state()
            self.silent[here].append(loop)
            copies.append((part, loop, loop))
            here = loop
        self.silent[here].append(end)
        return copies

    def embed(self, automaton: Automaton, begin: int, end: int) -> None:
        """Connect two states by an automaton."""
        states = [self.add_state() for _ in range(automaton.states)]
        events = (*range(len(self.regex.formulas.events)), -1)
        self.embedded += len(states) * (len(events) - 1)
        if self.embedded > MOST_EMBEDDED:
            rule = f"it needs more than {MOST_EMBEDDED:,} moves between places"
            raise FormulaError(f"this expression is too long: {rule}")
        self.silent[begin].append(states[0])
        for number, state in enumerate(states):
            if automaton.accepts[number]:
                self.silent[state].append(end)
            for event in events:
                if (kind := automaton.column(event)) >= 0:
                    self.moves[state].setdefault(event, []).append(states[automaton.move[number, kind]])
        self.known.update(events)

    def closure(self, states: list[int]) -> frozenset[int]:
        reached = distances_from(states, self.silent.__getitem__)
        return frozenset(state for state in reached if self.moves[state] or state == self.end)

    def step(self, states: frozenset[int], event: int) -> frozenset[int]:
        return self.closure([end for state in states for key in (event, ANY) for end in self.moves[state].get(key, ())])

    def automaton(self) -> Automaton:
        """Make the deterministic automaton of all sets of states that traces lead to."""
        sets, in_sets = 1, 0  # how many sets there are, and the states in all of them but the first

        def watch(found_sets: Sequence[frozenset[int]]) -> None:
            nonlocal sets, in_sets
            in_sets += sum(map(len, found_sets[sets:]))
            sets = len(found_sets)
            if in_sets > MOST_IN_SETS:
                rule = f"traces may lead to several of its places at once, {MOST_IN_SETS:,} in all"
                raise FormulaError(f"this expression is too large: {rule}")
            self.limits.check("this expression", sets)

        kinds = sorted(event for event in self.known if event >= 0)
        return explore(self.start, self.step, lambda _, ends: self.end in ends, kinds, self.events, self.limits, watch)
