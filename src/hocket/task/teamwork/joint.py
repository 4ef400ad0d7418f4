"""The team's own optimum: a search through joint states, of everyone's cell and the state of the team machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from hocket.errors import TaskError
from hocket.graphs import flood
from hocket.task.tables import Tables, settle

MOST_JOINT_STATES = 50_000_000
MOST_SITUATIONS = 2_000_000  # joint kinds of steps times team states, in which steps are settled beforehand

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class JointSpace:
    """Joint states as numbers: team state first, then the cell of each agent, of those that it can get to.

    In a step, between moving and settling, the arrival of each agent stands in place of its cell.
    """

    tables: Tables
    sizes: tuple[int, ...]  # how many team states there are, and arrivals of each agent
    cells: list[Ints]  # [agent] its cells
    end: list[Ints]  # [agent][team state, cell, action] the arrival if it does not slip, by places in `cells`
    kinds: list[Ints]  # [agent][arrival] of each
    starts: Ints  # that the team may begin in

    @cached_property
    def outcomes(self) -> tuple[Ints, NDArray[np.float64]]:
        """The team state in which a step settles, and what it pays the team: [V x kinds of the first agent x ...]."""
        shape = (self.sizes[0], *(int(kind.max()) + 1 for kind in self.kinds))
        team, *kind = np.unravel_index(np.arange(prod(shape)), shape)
        states = self.tables.team_class[:, team].T.astype(np.int64)
        settled = settle(self.tables, np.stack(kind, axis=1), states, team)
        return settled.team, settled.reward.sum(axis=1)

    @property
    def states(self) -> int:
        """How many joint states there are, of which not all can be reached."""
        return prod(self.sizes)

    def place(self, agent: int) -> int:
        """Say by how much a joint state's number grows with an agent's cell."""
        return prod(self.sizes[agent + 2 :])

    def cell(self, states: Ints, agent: int) -> Ints:
        """Find the cell of an agent, by its place, in some joint states."""
        return self.arrival(states, agent) % len(self.cells[agent])

    def arrival(self, states: Ints, agent: int) -> Ints:
        """Find the arrival of an agent, by its number."""
        return states // self.place(agent) % self.sizes[agent + 1]

    def team_state(self, states: Ints) -> Ints:
        """Find the team state of some joint states."""
        return states // self.place(-1)

    def situation(self, states: Ints) -> Ints:
        """Number the team states and kinds of steps of some joint states, by which steps settle."""
        situation = self.team_state(states)
        for agent, kinds in enumerate(self.kinds):
            situation = situation * (int(kinds.max()) + 1) + kinds[self.arrival(states, agent)]
        return situation

    def settle(self, states: Ints) -> Ints:
        """Find the joint states after events have happened, where everyone has moved."""
        moved = states + (self.outcomes[0][self.situation(states)] - self.team_state(states)) * self.place(-1)
        for agent, cells in enumerate(self.cells):
            arrival = self.arrival(states, agent)
            moved += (arrival % len(cells) - arrival) * self.place(agent)
        return moved


def joint_space(tables: Tables, most_states: int = MOST_JOINT_STATES) -> JointSpace:
    """Number the joint states of a team, refusing more than a limit."""
    cells = [_reachable(tables, agent) for agent in range(len(tables.start))]
    pasts = np.arange(0, tables.arrivals, tables.cells)
    kinds = [
        tables.kind[agent, (pasts[: int(tables.offset[agent].max()) // tables.cells + 1, None] + reachable).ravel()]
        for agent, reachable in enumerate(cells)
    ]
    sizes = (len(tables.team_next), *map(len, kinds))
    situations = sizes[0] * prod(int(kind.max()) + 1 for kind in kinds)
    if not sizes[0] or prod(sizes) > most_states or situations > MOST_SITUATIONS:
        count = f"{sizes[0]:,} x {' x '.join(map(str, sizes[1:]))}" if sizes[0] else "a team machine of too many states"
        raise TaskError(f"joint planning takes up to {most_states:,} joint states, got {count}", key="agents")
    starts = np.array([tables.team_initial], np.int64)
    end = []
    for agent, reachable in enumerate(cells):
        place = np.zeros(tables.cells, np.int64)
        place[reachable] = np.arange(len(reachable))
        state = tables.team_class[agent]
        reached = tables.next_cell[tables.world[agent], tables.dynamics[agent, state]][..., 0][:, reachable]
        past = tables.offset[agent, reachable] // tables.cells * len(reachable)
        end.append(place[reached] + past[:, None])
        starts = (starts[:, None] * sizes[agent + 1] + place[tables.starts(agent)]).ravel()
    return JointSpace(tables, sizes, cells, end, kinds, starts)


def _reachable(tables: Tables, agent: int) -> Ints:
    """List the cells that an agent can get to, whichever gates are open."""
    ends = tables.next_cell[tables.world[agent]][np.unique(tables.dynamics[agent]), :, :, 0]  # [D, S, A]
    return np.flatnonzero(flood(tables.cells, tables.starts(agent), lambda front: ends[:, front]))


def fewest_steps(space: JointSpace) -> int | None:
    """Find the fewest steps in which the team can complete its task if nobody slips; None where it cannot.

    It is that of the best start, and a lower bound where agents have bodies, which it looks through.
    """
    for step, front in enumerate(_levels(space)):
        if space.tables.team_final[space.team_state(front)].any():
            return step
    return None


def _levels(space: JointSpace) -> Iterator[Ints]:
    """List the joint states that the team can get to, by how many steps it takes."""
    seen, near = (np.zeros(space.states, np.bool_) for _ in range(2))
    front = space.starts
    while len(front):
        seen[front] = True
        yield front
        for agent, end in enumerate(space.end):
            cell, place = space.cell(front, agent), space.place(agent)
            moved = end[space.team_state(front), cell] - cell[:, None]  # [front, A]
            near[(front[:, None] + moved * place).ravel()] = True
            front = np.flatnonzero(near)
            near[front] = False
        near[space.settle(front)] = True
        front = np.flatnonzero(near & ~seen)
        near[:] = False


def reachable_states(space: JointSpace) -> Ints:
    """List the joint states that the team can get to, the soonest first."""
    return np.concatenate(list(_levels(space)))
