"""From a formula to an automaton: what remains to be shown after each event.

A state is a Boolean function of obligations "there is a next position, and there this formula holds", kept as a
decision diagram, so that states that say the same are the same. An event turns each obligation into what its formula
says at that position. With past operators a state also has what they said at the last position; as that may depend on
what is yet to come, it is such a function, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hocket.errors import FormulaError
from hocket.graphs import distances_from
from hocket.machine.formulas.automaton import Automaton, explore
from hocket.machine.formulas.syntax import WEAK, Formulas, Limits, Op

LATER = frozenset({Op.EVENTUALLY, Op.UNTIL, Op.STRONG_RELEASE})  # hold now or are put off to the next position
EARLIER = frozenset({Op.ONCE, Op.SINCE})  # hold now or held at the last position
MOST_PATHS = 4  # alternatives that are written out in what is left of a formula
LONGEST_REMAINDER = 60  # characters
MOST_COMPARED = 100  # pairs of states
MOST_NODES = 500_000  # of decision diagrams; each takes half a kilobyte, with what is remembered of it
OFTEN = 1_000  # formulas whose values are found between two looks at the clock


class State(NamedTuple):
    """What is left to be shown, and what past operators need to know of the last position."""

    left: int
    before: tuple[int, ...]


class TooManyStates(Exception):  # noqa: N818
    """More states than were asked for."""


class Progression:
    """A formula, taken through a trace event by event."""

    def __init__(self, formulas: Formulas, formula: int, limits: Limits, *, at_last: bool = False) -> None:
        self.formulas, self.formula, self.limits = formulas, formula, limits
        self.at_last = at_last  # whether the formula is read at the last position of a trace instead of the first
        below = formulas.below(formula)
        self.events = sorted({formulas.event[number] for number in below} - {-1})
        self.cells: dict[int, int] = {}  # numbers of the formulas whose values at the last position matter
        for number in below:
            # What a weak operator says is the negation of what its opposite says.
            strong = formulas.negate(number) if formulas.op[number] in WEAK else number
            op = formulas.op[strong]
            if op in EARLIER or op is Op.YESTERDAY:
                self.cells.setdefault(strong if op in EARLIER else formulas.arguments[strong][0], len(self.cells))
        self.decisions = Decisions(self._watch)
        self.variable: dict[int, int] = {}  # formula -> the variable of its obligation
        self.obligation: list[int] = []
        self.explored: Sequence[State] = ()
        self._memory: dict[int, dict[int, int]] = {}  # event -> formula -> its value there, where the past is no matter

    def _watch(self, nodes: int) -> None:
        self.limits.check("this formula", len(self.explored))
        if nodes > MOST_NODES:
            rule = f"what is left of it takes more than {MOST_NODES:,} decisions"
            raise FormulaError(f"this formula is too large: {rule}")

    def start(self) -> State:
        """Where nothing has happened and all is left to be shown."""
        return State(self._next(self.formula), (FALSE,) * len(self.cells))

    def _next(self, formula: int) -> int:
        variable = self.variable.setdefault(formula, len(self.variable))
        if variable == len(self.obligation):
            self.obligation.append(formula)
        return self.decisions.make(variable, FALSE, TRUE)

    def step(self, state: State, event: int) -> State:
        """Take one event."""
        values = self._memory.setdefault(event, {}) if not self.cells else {}
        if self.at_last:
            left = self.value(self.formula, event, values, state)
        else:
            left = self.decisions.substitute(
                state.left, lambda variable: self.value(self.obligation[variable], event, values, state)
            )
        if not self.at_last and left <= FALSE:  # true or false for good
            return State(left, (FALSE,) * len(self.cells))
        return State(left, tuple(self.value(cell, event, values, state) for cell in self.cells))

    def value(self, formula: int, event: int, values: dict[int, int], state: State) -> int:
        """What a formula says at the position of an event, in terms of what is to hold at the next one."""
        waiting, count = [formula], 0
        while waiting:
            count += 1
            if count % OFTEN == 0:
                self._watch(0)
            number = waiting[-1]
            needed = [other for other in self._needs(number, state) if other not in values]
            if needed and number not in values:
                waiting += needed
                continue
            waiting.pop()
            if number not in values:
                values[number] = self._value(number, event, values, state)
        return values[formula]

    def _needs(self, formula: int, state: State) -> tuple[int, ...]:
        """List the formulas whose values at the same position the value of a formula depends on."""
        op, arguments = self.formulas.op[formula], self.formulas.arguments[formula]
        if op in (Op.NEXT, Op.WEAK_NEXT):
            return ()
        if op in WEAK:
            return (self.formulas.negate(formula),)
        if op in EARLIER or op is Op.YESTERDAY:
            cell = formula if op in EARLIER else arguments[0]
            before = state.before[self.cells[cell]]
            hopes = tuple(self.obligation[self.decisions.variable[node]] for node in self.decisions.nodes(before))
            return (*arguments, *hopes) if op in EARLIER else hopes
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
        """Say whether the trace may end here; at the start, whether the formula holds of nothing at all."""
        return self.decisions.holds_of_none(state.left) if index else self.formulas.holds_of_nothing(self.formula)

    def explore(self, events: int, most: int | None = None) -> Automaton:
        """Find all states and make the automaton; give up at more than `most` states."""

        def watch(states: Sequence[State]) -> None:
            if most is not None and len(states) > most:
                raise TooManyStates
            self.explored = states
            self.limits.check("this formula", len(states))

        return explore(self.start(), self.step, self.accepts, self.events, events, self.limits, watch)

    def remainders(self, state: State) -> list[tuple[str, State]]:
        """Write what is left to be shown in a state as a formula, and each of its alternatives, the short ones first.

        An alternative is a state of its own, which may say the same: where F a is left, F(b & F a) adds nothing.
        """
        paths = None if self.cells or self.at_last else self.decisions.paths(state.left, MOST_PATHS)
        text = self.formulas.text
        either: list[int] = []
        named: list[tuple[str, State]] = []
        for path in paths or ():
            left = TRUE
            for variable in path:
                following = self._next(self.obligation[max(variable, ~variable)])
                left = self.decisions.conjoin(left, following if variable >= 0 else following ^ 1)
            both = [self.obligation[v] if v >= 0 else self.formulas.negate(self.obligation[~v]) for v in path]
            either.append(self.formulas.join(Op.AND, both))
            named.append((text(either[-1], LONGEST_REMAINDER + 1), State(left, state.before)))
        if named:
            named.append((text(self.formulas.join(Op.OR, either), LONGEST_REMAINDER + 1), state))
        return sorted(named, key=lambda pair: len(pair[0]))

    def means(self, state: State, automaton: Automaton, other: int) -> bool:
        """Say whether a state accepts what a state of an automaton does; where that is much work, say no."""
        queue = [(state, other)]
        seen = set(queue)
        for here, there in queue:  # grows while it is read
            if self.decisions.holds_of_none(here.left) != automaton.accepts[there] or len(queue) > MOST_COMPARED:
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
        self._watch = watch  # is told now and then how many nodes, or conjunctions of two, there are

    def make(self, variable: int, low: int, high: int) -> int:
        """Make the function that is `high` where the variable is true and `low` where it is not."""
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
        """Give the conjunction where it is trivial or was made before; otherwise -1."""
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
        """Make `then` where the condition holds and `otherwise` where it does not."""
        if then == otherwise:
            return then
        return self.disjoin(self.conjoin(condition, then), self.conjoin(condition ^ 1, otherwise))

    def nodes(self, f: int) -> list[int]:
        """List the nodes that a function is made of, except the constant, those further down first."""
        reached = distances_from([f >> 1], lambda node: (self.low[node] >> 1, self.high[node] >> 1))
        return sorted(reached.keys() - {0}, key=self.variable.__getitem__, reverse=True)

    def substitute(self, f: int, value: Callable[[int], int]) -> int:
        """Put a function in place of each variable."""
        made = {0: TRUE}
        for node in self.nodes(f):
            low, high = self.low[node], self.high[node]
            on_high, on_low = made[high >> 1] ^ (high & 1), made[low >> 1] ^ (low & 1)
            made[node] = self.choose(value(self.variable[node]), on_high, on_low)
        return made[f >> 1] ^ (f & 1)

    def holds_of_none(self, f: int) -> bool:
        """Say what a function is where no variable is true."""
        while f > 1:
            f = self.low[f >> 1] ^ (f & 1)
        return f == TRUE

    def paths(self, f: int, most: int) -> list[list[int]] | None:
        """Write a function as a disjunction of conjunctions, if it has at most so many.

        Where one side of a node holds whenever the other does, it does not matter there what the variable is.
        """
        paths: list[list[int]] = []
        waiting: list[tuple[int, list[int]]] = [(f, [])]
        while waiting:
            f, taken = waiting.pop()
            if f == TRUE:
                paths.append(taken)
            if len(paths) + len(waiting) > most:
                return None
            if f > 1:
                node, negated = f >> 1, f & 1
                variable = self.variable[node]
                low, high = self.low[node] ^ negated, self.high[node] ^ negated
                waiting.append((low, taken if self.conjoin(low, high) == low else [*taken, ~variable]))
                waiting.append((high, taken if self.conjoin(low, high) == high else [*taken, variable]))
        return paths
