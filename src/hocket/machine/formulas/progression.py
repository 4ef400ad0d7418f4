"""Formula progression: a formula as an automaton whose states are what must still hold.

A state is a Boolean function of obligations "there is a next position, and there this formula holds", kept as a binary
decision diagram, so that equivalent functions are equal. An event replaces each obligation by the value of its formula
at that position. With past operators a state also has the values of some formulas at the previous position, as
functions too, because they may depend on later events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hocket.errors import FormulaError
from hocket.graphs import distances_from
from hocket.machine.formulas.automaton import Automaton, explore
from hocket.machine.formulas.syntax import WEAK, Formulas, Limits, Op

EXPANDS_NEXT = frozenset({Op.EVENTUALLY, Op.UNTIL, Op.STRONG_RELEASE})  # hold now or from the next position on
EXPANDS_PREVIOUS = frozenset({Op.ONCE, Op.SINCE})  # hold now or held at the previous position
MOST_PATHS = 4  # alternatives in the remainder of a formula that is written
LONGEST_REMAINDER = 60  # characters
MOST_COMPARED = 100  # pairs of states
MOST_NODES = 500_000  # of decision diagrams; each takes half a kilobyte, with the conjunctions of it
CHECK_INTERVAL = 1_000  # formulas that are evaluated between two checks of the time
NODE_INTERVAL = 1 << 12  # nodes or conjunctions that are made between two checks of their number
TRUE, FALSE = 0, 1  # the constant functions
_CONSTANT = 1 << 60  # the variable of their node: it comes after all others


class State(NamedTuple):
    """What remains to be shown, and the values of some formulas at the previous position."""

    remaining: int
    past_values: tuple[int, ...]


class TooManyStatesError(Exception):
    """More states than were asked for."""


class Progression:
    """A formula, evaluated along a trace event by event."""

    def __init__(self, formulas: Formulas, formula: int, limits: Limits, *, at_final_position: bool = False) -> None:
        self.formulas, self.formula, self.limits = formulas, formula, limits
        self.at_final_position = at_final_position  # the formula is read at the end of a trace instead of its beginning
        subformulas = formulas.subformulas(formula)
        self.events = sorted({formulas.event[number] for number in subformulas} - {-1})
        self.past_index: dict[int, int] = {}  # formula whose value at the previous position matters -> its index
        for number in subformulas:
            # A weak operator is the negation of its opposite.
            strong = formulas.negate(number) if formulas.op[number] in WEAK else number
            op = formulas.op[strong]
            if op in EXPANDS_PREVIOUS or op is Op.YESTERDAY:
                past = strong if op in EXPANDS_PREVIOUS else formulas.arguments[strong][0]
                self.past_index.setdefault(past, len(self.past_index))
        self.functions = BooleanFunctions(self._watch)
        self.variable_of: dict[int, int] = {}  # formula -> the variable of its obligation
        self.formula_of: list[int] = []  # variable -> the formula
        self.explored: Sequence[State] = ()
        self._values: dict[int, dict[int, int]] = {}  # event -> formula -> its value there, without past operators

    def _watch(self, nodes: int) -> None:
        self.limits.check("this formula", len(self.explored))
        if nodes > MOST_NODES:
            raise FormulaError(f"this formula is too large: its decision diagrams have more than {MOST_NODES:,} nodes")

    def initial_state(self) -> State:
        """Make the state before the first event."""
        return State(self._next(self.formula), (FALSE,) * len(self.past_index))

    def _next(self, formula: int) -> int:
        """Make the obligation that a formula holds at the next position."""
        variable = self.variable_of.setdefault(formula, len(self.variable_of))
        if variable == len(self.formula_of):
            self.formula_of.append(formula)
        return self.functions.make(variable, FALSE, TRUE)

    def step(self, state: State, event: int) -> State:
        """Return the state after an event."""
        values = self._values.setdefault(event, {}) if not self.past_index else {}

        def value(formula: int) -> int:
            return self.evaluate(formula, event, values, state)

        if self.at_final_position:
            return State(value(self.formula), tuple(map(value, self.past_index)))
        remaining = self.functions.substitute(state.remaining, lambda variable: value(self.formula_of[variable]))
        if remaining <= FALSE:  # true or false whatever happens next
            return State(remaining, (FALSE,) * len(self.past_index))
        return State(remaining, tuple(map(value, self.past_index)))

    def evaluate(self, formula: int, event: int, values: dict[int, int], state: State) -> int:
        """Evaluate a formula at an event's position, as a function of the next position's obligations."""
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
                values[number] = self._evaluate_node(number, event, values, state)
            stack.pop()
        return values[formula]

    def _operands(self, formula: int, state: State) -> tuple[int, ...]:
        """List the formulas whose values are needed to evaluate a formula at the same position."""
        op, arguments = self.formulas.op[formula], self.formulas.arguments[formula]
        if op in (Op.NEXT, Op.WEAK_NEXT):
            return ()
        if op in WEAK:
            return (self.formulas.negate(formula),)
        if op in EXPANDS_PREVIOUS or op is Op.YESTERDAY:
            past = state.past_values[self.past_index[formula if op in EXPANDS_PREVIOUS else arguments[0]]]
            obligations = (self.formula_of[self.functions.variable[node]] for node in self.functions.nodes(past))
            return (*(arguments if op in EXPANDS_PREVIOUS else ()), *obligations)
        return arguments

    def _evaluate_node(self, formula: int, event: int, values: dict[int, int], state: State) -> int:
        op, arguments = self.formulas.op[formula], self.formulas.arguments[formula]
        functions = self.functions
        if not arguments:
            return TRUE if op is Op.TRUE or (op is Op.EVENT and self.formulas.event[formula] == event) else FALSE
        if op is Op.NEXT:
            return self._next(arguments[0])
        if op is Op.WEAK_NEXT:
            return self._next(self.formulas.negate(arguments[0])) ^ 1
        if op in WEAK:
            return values[self.formulas.negate(formula)] ^ 1
        if op is Op.YESTERDAY:
            return self._past_value(arguments[0], values, state)
        first, last = values[arguments[0]], values[arguments[-1]]
        if op in EXPANDS_NEXT or op in EXPANDS_PREVIOUS:
            other = self._next(formula) if op in EXPANDS_NEXT else self._past_value(formula, values, state)
            if len(arguments) == 1:
                return functions.disjoin(last, other)
            if op is Op.STRONG_RELEASE:
                return functions.conjoin(last, functions.disjoin(first, other))
            return functions.disjoin(last, functions.conjoin(first, other))
        if op is Op.NOT:
            return first ^ 1
        if op is Op.IFF:
            return functions.if_then_else(first, last, last ^ 1)
        return functions.conjoin(first, last) if op is Op.AND else functions.disjoin(first ^ (op is Op.IMPLIES), last)

    def _past_value(self, formula: int, values: dict[int, int], state: State) -> int:
        past = state.past_values[self.past_index[formula]]
        return self.functions.substitute(past, lambda variable: values[self.formula_of[variable]])

    def accepts(self, index: int, state: State) -> bool:
        """Say whether a trace may end in a state; for state 0, whether the empty trace is accepted."""
        return self.functions.value_at_false(state.remaining) if index else self.formulas.accepts_empty(self.formula)

    def explore(self, events: int, most: int | None = None) -> Automaton:
        """Make the automaton of all states; raise `TooManyStatesError` at more than `most`."""

        def watch(states: Sequence[State]) -> None:
            if most is not None and len(states) > most:
                raise TooManyStatesError
            self.explored = states
            self._watch(0)

        return explore(self.initial_state(), self.step, self.accepts, self.events, events, self.limits, watch)

    def remaining_formulas(self, state: State) -> list[tuple[str, State]]:
        """Write what remains to be shown in a state as a formula, and each of its alternatives, the short ones first.

        An alternative is a state, too, and may be equivalent: where F a remains, F(b & F a) adds nothing.
        """
        paths = None if self.past_index or self.at_final_position else self.functions.paths(state.remaining, MOST_PATHS)
        alternatives: list[int] = []
        written: list[tuple[str, State]] = []
        for path in paths or ():
            remaining, literals = TRUE, []
            for variable in path:
                formula, negated = self.formula_of[max(variable, ~variable)], variable < 0
                remaining = self.functions.conjoin(remaining, self._next(formula) ^ negated)
                literals.append(self.formulas.negate(formula) if negated else formula)
            alternatives.append(self.formulas.join(Op.AND, literals))
            text = self.formulas.text(alternatives[-1], LONGEST_REMAINDER + 1)
            written.append((text, State(remaining, state.past_values)))
        if alternatives:
            whole = self.formulas.join(Op.OR, alternatives)
            written.append((self.formulas.text(whole, LONGEST_REMAINDER + 1), state))
        return sorted(written, key=lambda pair: len(pair[0]))

    def is_equivalent(self, state: State, automaton: Automaton, other: int) -> bool:
        """Say whether a state accepts the same traces as a state of an automaton; if that is much work, say no."""
        queue = [(state, other)]
        seen = set(queue)
        for state, other in queue:  # grows while it is read
            is_accepted = self.functions.value_at_false(state.remaining)
            if is_accepted != automaton.accepts[other] or len(queue) > MOST_COMPARED:
                return False
            for event in automaton.examples().values():
                pair = (self.step(state, event), automaton.step(other, event))
                if pair not in seen:
                    seen.add(pair)
                    queue.append(pair)
        return True


class BooleanFunctions:
    """A store of Boolean functions over variables 0, 1, 2, ...: decision diagrams with complemented edges.

    A function is an integer: twice the number of a node, plus one if it is negated. Node 0 is the constant true. Equal
    functions have equal numbers, and nothing recurses.
    """

    def __init__(self, watch: Callable[[int], None]) -> None:
        self.variable: list[int] = [_CONSTANT]
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
            if number % NODE_INTERVAL == 0:
                self._watch(number)
        return 2 * number + negated

    def conjoin(self, f: int, g: int) -> int:
        """Make `f and g`."""
        if (known := self._known(f, g)) >= 0:
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
                if len(done) % NODE_INTERVAL == 0:
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

    def if_then_else(self, condition: int, then: int, otherwise: int) -> int:
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
        result = {0: TRUE}
        for node in self.nodes(f):
            low, high = self.low[node], self.high[node]
            on_high, on_low = result[high >> 1] ^ (high & 1), result[low >> 1] ^ (low & 1)
            result[node] = self.if_then_else(value(self.variable[node]), on_high, on_low)
        return result[f >> 1] ^ (f & 1)

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
