"""The fewest expected steps of a team, in plain Python: value iteration over joint states.

V(s, v) = 1 + min over joint actions a of the sum over s', v' of P(s', v' | s, v, a) V(s', v'), and 0 if the task is
done; a failure counts as the most steps of an episode. With a discount factor, V is the largest discounted return: the
max over a of the sum over s', v' of P(s', v' | s, v, a) (r + discount V(s', v')).

s are the cells of all agents, a is a joint action, v a state of the team's reward machine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from math import prod

from hocket.learn.cqrm.reference import JointWorld
from hocket.task.grid import ACTIONS, OUTCOMES, outcome_probabilities

JointState = tuple[tuple[int, ...], int]  # s, v


class JointPlanner:
    """Plans for all agents as one."""

    def __init__(self, world: JointWorld, slip: float, most_steps: int, discount: float | None = None) -> None:
        self.world, self.most_steps, self.discount = world, most_steps, discount
        self.slips = outcome_probabilities(slip)
        self.starts: list[JointState] = [(cells, world.initial) for cells in product(*world.starts)]
        self.moves: dict[JointState, list[list[tuple[float, float, JointState]]]] = {}
        waiting = list(self.starts)
        while waiting:
            s, v = waiting.pop()
            if v not in world.final and (s, v) not in self.moves:
                actions = product(range(len(ACTIONS)), repeat=len(s))
                outcomes = self.moves[s, v] = [list(self._outcomes(s, v, a)) for a in actions]
                waiting += [state for each in outcomes for _, _, state in each]

    def _outcomes(self, s: tuple[int, ...], v: int, a: tuple[int, ...]) -> Iterator[tuple[float, float, JointState]]:
        """List the outcomes of a joint action with their probabilities and rewards; all agents may slip."""
        for slips in product(range(OUTCOMES), repeat=len(s)):
            probability = prod(self.slips[slip] for slip in slips)
            if probability:
                moved = tuple(self.world.move(i, s[i], v, a[i], slips[i]) for i in range(len(s)))
                s_next = self.world.hold_apart(s, moved)
                v_next, reward = self.world.settle(s, s_next, v)
                yield probability, reward, (s_next, v_next)

    def solve(self, tolerance: float = 1e-9) -> float:
        """Iterate until nothing changes; return the expected steps, or the return, on average over starts."""
        value: defaultdict[JointState, float] = defaultdict(float)  # 0 where the task is done
        value |= dict.fromkeys(self.moves, 0.0 if self.discount else float(self.most_steps))
        change = 1.0
        while change > tolerance:
            change = 0.0
            for state, actions in self.moves.items():
                if self.discount:
                    best = max(sum(p * (r + self.discount * value[s]) for p, r, s in each) for each in actions)
                else:
                    best = min(1 + min(sum(p * value[s] for p, _, s in each) for each in actions), self.most_steps)
                change = max(change, abs(best - value[state]))
                value[state] = best
        return sum(value[start] for start in self.starts) / len(self.starts)
