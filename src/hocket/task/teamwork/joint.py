"""The optimum of the team: a search through joint states, of the cells of all agents and the team machine's state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from hocket.errors import TaskError
from hocket.graphs import flood, positions_in
from hocket.task.tables import Tables, settle

MOST_JOINT_STATES = 50_000_000
MOST_SITUATIONS = 2_000_000  # team states times joint kinds of steps, from which steps are settled in advance

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class JointSpace:
    """Joint states as numbers with mixed radix: the team state, then the position of each agent, the index of a cell
    that it can reach or, after it has moved and before events happen, of an arrival."""

    tables: Tables
    sizes: tuple[int, ...]  # the number of team states, and of arrivals of each agent
    cells: list[Ints]  # [agent] its cells
    end: list[Ints]  # [agent][team state, cell, action] its arrival if it does not slip
    kinds: list[Ints]  # [agent][arrival] of each
    starts: Ints  # joint states

    @cached_property
    def situations(self) -> tuple[int, ...]:
        """The number of team states, and of kinds of steps of each agent."""
        return (self.sizes[0], *(int(kind.max()) + 1 for kind in self.kinds))

    @cached_property
    def outcomes(self) -> tuple[Ints, NDArray[np.float64]]:
        """The team state in which a step settles, and the team's reward: [V x kinds of the first agent x ...]."""
        team, *kind = np.unravel_index(np.arange(prod(self.situations)), self.situations)
        states = self.tables.team_class[:, team].T.astype(np.int64)
        settled = settle(self.tables, np.stack(kind, axis=1), states, team)
        return settled.team, settled.reward.sum(axis=1)

    @property
    def states(self) -> int:
        """The number of joint states, reachable or not."""
        return prod(self.sizes)

    def stride(self, agent: int) -> int:
        """Return the difference of joint states if an agent's position, or for -1 the team state, differs by one."""
        return prod(self.sizes[agent + 2 :])

    def position(self, states: Ints, agent: int) -> Ints:
        """Find the position of an agent in some joint states."""
        return states // self.stride(agent) % self.sizes[agent + 1]

    def team_state(self, states: Ints) -> Ints:
        """Find the team state of some joint states."""
        return states // self.stride(-1)

    def settle(self, states: Ints) -> Ints:
        """Let events happen in some joint states, in which all agents have moved."""
        team, *arrivals = np.unravel_index(states, self.sizes)
        kinds = (kind[arrival] for kind, arrival in zip(self.kinds, arrivals, strict=True))
        settled = self.outcomes[0][np.ravel_multi_index((team, *kinds), self.situations)]
        cells = (arrival % len(cells) for arrival, cells in zip(arrivals, self.cells, strict=True))
        return np.ravel_multi_index((settled, *cells), self.sizes)


def joint_space(tables: Tables, most_states: int = MOST_JOINT_STATES) -> JointSpace:
    """Number the joint states of a team, refusing more than a limit."""
    cells = [_reachable(tables, agent) for agent in range(len(tables.start))]
    pasts = np.arange(0, tables.arrivals, tables.cells)
    kinds = [
        tables.kind[agent, (pasts[: int(tables.offset[agent].max()) // tables.cells + 1, None] + reachable).ravel()]
        for agent, reachable in enumerate(cells)
    ]
    sizes, starts, end = (len(tables.team_next), *map(len, kinds)), np.array([tables.team_initial], np.int64), []
    situations = sizes[0] * prod(int(kind.max()) + 1 for kind in kinds)
    if not sizes[0] or prod(sizes) > most_states or situations > MOST_SITUATIONS:
        count = f"{sizes[0]:,} x {' x '.join(map(str, sizes[1:]))}" if sizes[0] else "a team machine of too many states"
        raise TaskError(f"joint planning takes up to {most_states:,} joint states, got {count}", key="agents")
    for agent, reachable in enumerate(cells):
        position = positions_in(reachable, tables.cells).astype(np.int64)
        dynamics = tables.dynamics[agent, tables.team_class[agent]]
        past = tables.offset[agent, reachable] // tables.cells * len(reachable)
        end.append(position[tables.next_cell[tables.world[agent], dynamics][..., 0][:, reachable]] + past[:, None])
        starts = (starts[:, None] * sizes[agent + 1] + position[tables.starts(agent)]).ravel()
    return JointSpace(tables, sizes, cells, end, kinds, starts)


def _reachable(tables: Tables, agent: int) -> Ints:
    """List the cells that an agent can reach, whichever gates are open."""
    ends = tables.next_cell[tables.world[agent]][np.unique(tables.dynamics[agent]), :, :, 0]  # [D, S, A]
    return np.flatnonzero(flood(tables.cells, tables.starts(agent), lambda front: ends[:, front]))


def fewest_steps(space: JointSpace) -> int | None:
    """Find the fewest steps in which the team can complete its task from the best start without slips; None if it
    cannot. With bodies, which are ignored, it is a lower bound."""
    for step, front in enumerate(_levels(space)):
        if space.tables.team_final[space.team_state(front)].any():
            return step
    return None


def _levels(space: JointSpace) -> Iterator[Ints]:
    """List the reachable joint states after 0, 1, ... steps, each only once."""
    seen, is_next = (np.zeros(space.states, np.bool_) for _ in range(2))
    front = space.starts
    while len(front):
        seen[front] = True
        yield front
        for agent, end in enumerate(space.end):
            cell = space.position(front, agent)
            change = end[space.team_state(front), cell] - cell[:, None]  # [front, A]
            is_next[(front[:, None] + change * space.stride(agent)).ravel()] = True
            front = np.flatnonzero(is_next)
            is_next[front] = False
        is_next[space.settle(front)] = True
        front = np.flatnonzero(is_next & ~seen)
        is_next[:] = False


def reachable_states(space: JointSpace) -> Ints:
    """List the reachable joint states, by the number of steps."""
    return np.concatenate(list(_levels(space)))
