"""From a formula to an automaton: what remains to be shown after each event.

A state is a Boolean function of obligations "there is a next position, and there this formula holds", kept as a binary
decision diagram, so that equivalent functions are equal. An event replaces each obligation by the value of its formula
at that position. With past operators a state also has their values at the last position; as these may depend on later
events, they are such functions, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hocket.errors import FormulaError
from hocket.graphs import distances_from
from hocket.machine.formulas.automaton import Automaton, explore
from hocket.machine.formulas.syntax import WEAK, Formulas, Limits, Op

LATER = frozenset({Op.EVENTUALLY, Op.UNTIL, Op.STRONG_RELEASE})  # hold now or from the next position on
EARLIER = frozenset({Op.ONCE, Op.SINCE})  # hold now or held at the last position
MOST_PATHS = 4  # alternatives in the remainder of a formula that is written
LONGEST_REMAINDER = 60  # characters
MOST_COMPARED = 100  # pairs of states
MOST_NODES = 500_000  # of decision diagrams; each takes half a kilobyte, with the conjunctions of it
CHECK_INTERVAL = 1_000  # formulas that are evaluated between two checks of the time


class State(NamedTuple):
    """What remains to be shown, and the values of past operators at the last position."""

    remaining: int
    before: tuple[int, ...]


class TooManyStates(Exception):  # noqa: N818
    """More states than were asked for."""


class Progression:
    """A formula, evaluated along a trace event by event."""

    def __init__(self, formulas: Formulas, formula: int, limits: Limits, *, at_last: bool = False) -> None:
        self.formulas, self.formula, self.limits = formulas, formula, limits
        self.at_last = at_last  # whether the formula is read at the last position of a trace instead of the first
        subformulas = formulas.subformulas(formula)
        self.events = sorted({formulas.event[number] for number in subformulas} - {-1})
        self.cells: dict[int, int] = {}  # numbers of the formulas whose values at the last position matter
        for number in subformulas:
            # A weak operator is the negation of its opposite.
            strong = formulas.negate(number) if formulas.op[number] in WEAK else number
            op = formulas.op[strong]
            if op in EARLIER or op is Op.YESTERDAY:
                self.cells.setdefault(strong if op in EARLIER else formulas.arguments[strong][0], len(self.cells))
        self.decisions = Decisions(self._watch)
        self.variable: dict[int, int] = {}  # formula -> the variable of its obligation
        self.obligation: list[int] = []
        self.explored: Sequence[State] = ()
        self._values: dict[int, dict[int, int]] = {}  # event -> formula -> its value there, without past operators

    def _watch(self, nodes: int) -> None:
        self.limits.check("this formula", len(self.explored))
        if nodes > MOST_NODES:
            rule = f"what is left of it takes more than {MOST_NODES:,} decisions"
            raise FormulaError(f"this formula is too large: {rule}")

    def start(self) -> State:
        """Make the state before the first event."""
        return State(self._next(self.formula), (FALSE,) * len(self.cells))

    def _next(self, formula: int) -> int:
        """Make the obligation that a formula holds at the next position."""
        variable = self.variable.setdefault(formula, len(self.variable))
        if variable == len(self.obligation):
            self.obligation.append(formula)
        return self.decisions.make(variable, FALSE, TRUE)

    def step(self, state: State, event: int) -> State:
        """Take one event."""
        values = self._values.setdefault(event, {}) if not self.cells else {}

        def value(formula: int) -> int:
            return self.value(formula, event, values, state)

        if self.at_last:
            return State(value(self.formula), tuple(map(value, self.cells)))
        remaining = self.decisions.substitute(state.remaining, lambda variable: value(self.obligation[variable]))
        if remaining <= FALSE:  # true or false whatever happens next
            return State(remaining, (FALSE,) * len(self.cells))
        return State(remaining, tuple(map(value, self.cells)))

    def value(self, formula: int, event: int, values: dict[int, int], state: State) -> int:
        """Evaluate a formula at the position of an event, as a function of the obligations for the next position."""
        stack, count = [formula], 0
        while stack:
            count += 1
            if count % CHECK_INTERVAL == 0:
                self._watch(0)
            number = stack[-1]
            if number not in values:
                if needed := [other for other in self._operands(number, state) if other not in values]:
                    stack += needed
                    continue
                values[number] = self._value(number, event, values, state)
            stack.pop()
        return values[formula]

    def _operands(self, formula: int, state: State) -> tuple[int, ...]:
        """List the formulas on whose values at the same position the value of a formula depends."""
        op, arguments = self.formulas.op[formula], self.formulas.arguments[formula]
        if op in (Op.NEXT, Op.WEAK_NEXT):
            return ()
        if op in WEAK:
            return (self.formulas.negate(formula),)
        if op in EARLIER or op is Op.YESTERDAY:
            cell = formula if op in EARLIER else arguments[0]
            before = state.before[self.cells[cell]]
            obligations = (self.obligation[self.decisions.variable[node]] for node in self.decisions.nodes(before))
            return (*(arguments if op in EARLIER else ()), *obligations)
        return arguments

    def _value(self, formula: int, event: int, values: dict[int, int], state: State) -> int:
        op, arguments = self.formulas.op[formula], self.formulas.arguments[formula]
        decisions = self.decisions
        if not arguments:
            return TRUE if op is Op.TRUE or (op is Op.EVENT and self.formulas.event[formula] == event) else FALSE
        if op is Op.NEXT:
            return self._next(arguments[0])
        if op is Op.WEAK_NEXT:
            return self._next(self.formulas.negate(arguments[0])) ^ 1
        if op in WEAK:
            return values[self.formulas.negate(formula)] ^ 1
        if op is Op.YESTERDAY:
            return self._before(arguments[0], values, state)
        first, last = values[arguments[0]], values[arguments[-1]]
        if op in LATER or op in EARLIER:
            other = self._next(formula) if op in LATER else self._before(formula, values, state)
            if len(arguments) == 1:
                return decisions.disjoin(last, other)
            if op is Op.STRONG_RELEASE:
                return decisions.conjoin(last, decisions.disjoin(first, other))
            return decisions.disjoin(last, decisions.conjoin(first, other))
        if op is Op.NOT:
            return first ^ 1
        if op is Op.IFF:
            return decisions.choose(first, last, last ^ 1)
        return decisions.conjoin(first, last) if op is Op.AND else decisions.disjoin(first ^ (op is Op.IMPLIES), last)

    def _before(self, cell: int, values: dict[int, int], state: State) -> int:
        before = state.before[self.cells[cell]]
        return self.decisions.substitute(before, lambda variable: values[self.obligation[variable]])

    def accepts(self, index: int, state: State) -> bool:
        """Say whether the trace may end in a state; in the first one, whether the formula holds of the empty trace."""
        return self.decisions.value_at_false(state.remaining) if index else self.formulas.accepts_empty(self.formula)

    def explore(self, events: int, most: int | None = None) -> Automaton:
        """Make the automaton of all states; raise `TooManyStates` at more than `most`."""

        def watch(states: Sequence[State]) -> None:
            if most is not None and len(states) > most:
                raise TooManyStates
            self.explored = states
            self._watch(0)

        return explore(self.start(), self.step, self.accepts, self.events, events, self.limits, watch)

    def remainders(self, state: State) -> list[tuple[str, State]]:
        """Write what remains to be shown in a state as a formula, and each of its alternatives, the short ones first.

        An alternative is a state, too, and may be equivalent: where F a remains, F(b & F a) adds nothing.
        """
        paths = None if self.cells or self.at_last else self.decisions.paths(state.remaining, MOST_PATHS)
        alternatives: list[int] = []
        written: list[tuple[str, State]] = []
        for path in paths or ():
            remaining, literals = TRUE, []
            for variable in path:
                formula, negated = self.obligation[max(variable, ~variable)], variable < 0
                remaining = self.decisions.conjoin(remaining, self._next(formula) ^ negated)
                literals.append(self.formulas.negate(formula) if negated else formula)
            alternatives.append(self.formulas.join(Op.AND, literals))
            text = self.formulas.text(alternatives[-1], LONGEST_REMAINDER + 1)
            written.append((text, State(remaining, state.before)))
        if alternatives:
            whole = self.formulas.join(Op.OR, alternatives)
            written.append((self.formulas.text(whole, LONGEST_REMAINDER + 1), state))
        return sorted(written, key=lambda pair: len(pair[0]))

    def is_equivalent(self, state: State, automaton: Automaton, other: int) -> bool:
        """Say whether a state accepts the same traces as a state of an automaton; if that is much work, say no."""
        queue = [(state, other)]
        seen = set(queue)
        for here, there in queue:  # grows while it is read
            is_accepted = self.decisions.value_at_false(here.remaining)
            if is_accepted != automaton.accepts[there] or len(queue) > MOST_COMPARED:
                return False
            for event in automaton.examples().values():
                pair = (self.step(here, event), automaton.step(there, event))
                if pair not in seen:
                    seen.add(pair)
                    queue.append(pair)
        return True


TRUE, FALSE = 0, 1
_LAST = 1 << 60  # the variable of the constant: it comes after all others


class Decisions:
    """A store of Boolean functions over variables 0, 1, 2, ...: decision diagrams with complemented edges.

    A function is an integer: twice the number of a node, plus one if it is negated. Node 0 is the constant true. Equal
    functions have equal numbers, and nothing recurses.
    """

    def __init__(self, watch: Callable[[int], None]) -> None:
        self.variable: list[int] = [_LAST]
        self.low: list[int] = [TRUE]
        self.high: list[int] = [TRUE]
        self._number: dict[tuple[int, int, int], int] = {}
        self._conjunctions: dict[tuple[int, int], int] = {}
        self._watch = watch  # is called now and then with the number of nodes, or of conjunctions

    def make(self, variable: int, low: int, high: int) -> int:
        """Make the function that is `high` where the variable is true, else `low`."""
        if low == high:
            return low
        negated = high & 1  # the high edge of a node is never negated, so that each function has one form
        key = (variable, low ^ negated, high ^ negated)
        number = self._number.get(key)
        if number is None:
            number = self._number[key] = len(self.variable)
            self.variable.append(variable)
            self.low.append(key[1])
            self.high.append(key[2])
            if not number & 0xFFF:
                self._watch(number)
        return 2 * number + negated

    def conjoin(self, f: int, g: int) -> int:
        """Make `f and g`."""
        known = self._known(f, g)
        if known >= 0:
            return known
        variable, low, high, done = self.variable, self.low, self.high, self._conjunctions
        top = (f, g) if f < g else (g, f)
        stack = [top]
        while stack:
            f, g = pair = stack[-1]
            first, second = variable[f >> 1], variable[g >> 1]
            f0 = f1 = f
            g0 = g1 = g
            if first <= second:
                f0, f1 = low[f >> 1] ^ (f & 1), high[f >> 1] ^ (f & 1)
            if second <= first:
                g0, g1 = low[g >> 1] ^ (g & 1), high[g >> 1] ^ (g & 1)
            on_low, on_high = self._known(f0, g0), self._known(f1, g1)
            if on_low >= 0 and on_high >= 0:
                done[pair] = self.make(min(first, second), on_low, on_high)
                if not len(done) & 0xFFF:
                    self._watch(len(done))
                stack.pop()
                continue
            if on_low < 0:
                stack.append((f0, g0) if f0 < g0 else (g0, f0))
            if on_high < 0:
                stack.append((f1, g1) if f1 < g1 else (g1, f1))
        return done[top]

    def _known(self, f: int, g: int) -> int:
        """Return the conjunction if it is trivial or was made before, else -1."""
        if f == g or g == TRUE:
            return f
        if f == TRUE:
            return g
        if f == FALSE or g == FALSE or f == g ^ 1:
            return FALSE
        return self._conjunctions.get((f, g) if f < g else (g, f), -1)

    def disjoin(self, f: int, g: int) -> int:
        """Make `f or g`."""
        return self.conjoin(f ^ 1, g ^ 1) ^ 1

    def choose(self, condition: int, then: int, otherwise: int) -> int:
        """Make the function that is `then` where the condition holds, else `otherwise`."""
        if then == otherwise:
            return then
        return self.disjoin(self.conjoin(condition, then), self.conjoin(condition ^ 1, otherwise))

    def nodes(self, f: int) -> list[int]:
        """List the nodes of a function, except the constant, from the bottom up."""
        reached = distances_from([f >> 1], lambda node: (self.low[node] >> 1, self.high[node] >> 1))
        return sorted(reached.keys() - {0}, key=self.variable.__getitem__, reverse=True)

    def substitute(self, f: int, value: Callable[[int], int]) -> int:
        """Replace each variable by a function."""
        made = {0: TRUE}
        for node in self.nodes(f):
            low, high = self.low[node], self.high[node]
            on_high, on_low = made[high >> 1] ^ (high & 1), made[low >> 1] ^ (low & 1)
            made[node] = self.choose(value(self.variable[node]), on_high, on_low)
        return made[f >> 1] ^ (f & 1)

    def value_at_false(self, f: int) -> bool:
        """Evaluate a function where all variables are false."""
        while f > 1:
            f = self.low[f >> 1] ^ (f & 1)
        return f == TRUE

    def paths(self, f: int, most: int) -> list[list[int]] | None:
        """Write a function as a disjunction of at most `most` conjunctions of variables v, or ~v if negated; None if it
        has more. Where one side of a node implies the other, the variable is left out there."""
        paths: list[list[int]] = []
        stack: list[tuple[int, list[int]]] = [(f, [])]
        while stack:
            f, path = stack.pop()
            if f == TRUE:
                paths.append(path)
            if len(paths) + len(stack) > most:
                return None
            if f > 1:
                variable, low, high = self.variable[f >> 1], self.low[f >> 1] ^ (f & 1), self.high[f >> 1] ^ (f & 1)
                both = self.conjoin(low, high)
                stack.append((low, path if both == low else [*path, ~variable]))
                stack.append((high, path if both == high else [*path, variable]))
        return paths
