"""Boolean functions as ordered binary decision diagrams with complemented edges, without recursion.

A function is an integer: twice the number of a node, plus one if it is negated. Node 0 is the constant true.
"""

from __future__ import annotations

from collections.abc import Callable

from hocket.graphs import distances_from

TRUE, FALSE = 0, 1
_LAST = 1 << 60  # the variable of the constant: it comes after all others


class Decisions:
    """A store of Boolean functions over variables 0, 1, 2, ...; equal functions have equal numbers."""

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
            made[node] = self.choose(
                value(self.variable[node]), made[high >> 1] ^ (high & 1), made[low >> 1] ^ (low & 1)
            )
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
