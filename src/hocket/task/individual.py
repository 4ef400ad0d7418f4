"""One agent with simulated teammates, as arrays: what may come of a step, by one draw for all that wait for them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.random import threshold
from hocket.task.tables import Bools, Shorts, Tables


class IndividualTable(NamedTuple):
    """What an agent that trains with simulated teammates needs of a task, U being the states of its own machine.

    One draw decides in a step whether the teammates are ready. What comes of it in a machine state and kind of cell is
    one of a few outcomes, J at most: the first where the draw lies below the first limit, and so on. A final state
    leads to itself and pays nothing.
    """

    place: int  # of the agent among all
    next_cell: Shorts  # [D, S, A, K]
    dynamics: Shorts  # [U]
    kind: Shorts  # [S] of each cell
    proposed: Shorts  # [U, H, C] the events that the agent proposes, or -1
    limit: NDArray[np.int64]  # [U, H, J - 1] ascending; beyond all draws where there are fewer outcomes
    chance: NDArray[np.float64]  # [U, H, J] of each outcome
    next_state: Shorts  # [U, H, J] its machine's state after it
    reward: NDArray[Any]  # [U, H, J] what its machine pays; kernels take single precision
    happened: Shorts  # [U, H, J, R] the events that have happened, in their order, or -1
    is_final: Bools  # [U]
    start: int  # cell
    initial: int  # machine state
    slip: float  # chance that a move goes astray
    slip_limit: int  # the same as a threshold


class _Outcome(NamedTuple):
    """What may come of a step, for draws below a limit."""

    chance: float  # up to which it is this one: the sum with those before it
    state: int
    reward: float
    events: tuple[int, ...]


def individual_table(
    tables: Tables, agent: int, sync_probability: float, *, sync_literal: bool = False
) -> IndividualTable:
    """Pick what an agent needs that trains with simulated teammates."""
    states, kinds = int(tables.states[agent]), tables.event.shape[2]
    chance = _sync_chances(tables, agent, sync_probability, sync_literal)
    rows = [[_outcomes(tables, agent, state, kind, chance) for kind in range(kinds)] for state in range(states)]
    everything = [own for row in rows for own in row]
    most, longest = max(map(len, everything)), max(len(one.events) for own in everything for one in own)
    shape = (states, kinds, most)
    limit = np.full(shape, np.iinfo(np.int64).max)
    weight, reward = np.zeros(shape), np.zeros(shape)
    next_state = np.zeros(shape, np.int16)
    happened = np.full((*shape, longest), -1, np.int16)
    for state, row in enumerate(rows):
        for kind, own in enumerate(row):
            before = 0.0
            for number, one in enumerate(own):
                at = (state, kind, number)
                if number < len(own) - 1:
                    limit[at] = round(one.chance * float(threshold(1.0)))
                weight[at], next_state[at], reward[at] = one.chance - before, one.state, one.reward
                happened[at][: len(one.events)] = one.events
                before = one.chance
    return IndividualTable(
        place=agent,
        next_cell=tables.next_cell[agent],
        dynamics=tables.dynamics[agent, :states],
        kind=tables.kind[agent],
        proposed=tables.event[agent, :states],
        limit=np.ascontiguousarray(limit[:, :, :-1]),
        chance=weight,
        next_state=next_state,
        reward=reward,
        happened=happened,
        is_final=tables.is_final[agent, :states],
        start=int(tables.start[agent]),
        initial=int(tables.initial[agent]),
        slip=tables.slip,
        slip_limit=threshold(tables.slip),
    )


def _outcomes(tables: Tables, agent: int, state: int, kind: int, chance: NDArray[np.float64]) -> list[_Outcome]:
    """List what may come of a step that ends in a kind of cell, in the order of the draw.

    An event that waits for teammates happens in the first round only: they need a step to notice that the agent is
    ready. What the agent does by itself happens in rounds, in the order of the task, until a machine state comes again.
    """
    if tables.is_final[agent, state]:
        return [_Outcome(1.0, state, 0.0, ())]
    outcomes: list[_Outcome] = []
    covered = 0.0
    for slot, event in enumerate(tables.event[agent, state, kind].tolist()):
        if event < 0:
            break
        reach = 1.0 if np.isnan(chance[event]) else float(chance[event])
        if reach > covered:
            outcomes.append(_settle_alone(tables, agent, state, kind, slot, chance)._replace(chance=reach))
            covered = reach
    if covered < 1:
        outcomes.append(_Outcome(1.0, state, 0.0, ()))
    return outcomes


def _settle_alone(
    tables: Tables, agent: int, state: int, kind: int, slot: int, chance: NDArray[np.float64]
) -> _Outcome:
    """Let a proposed event happen, and then in rounds what the agent does by itself."""
    seen, reward, events = {state}, 0.0, list[int]()
    while True:
        at = (agent, state, kind, slot)
        events.append(int(tables.event[at]))
        reward += float(tables.reward[at])
        state = int(tables.next_state[at])
        own = tables.event[agent, state, kind]
        by_itself = [slot for slot, event in enumerate(own.tolist()) if event >= 0 and np.isnan(chance[event])]
        if state in seen or tables.is_final[agent, state] or not by_itself:
            return _Outcome(1.0, state, reward, tuple(events))
        seen.add(state)
        slot = by_itself[0]


def _sync_chances(tables: Tables, agent: int, probability: float, literal: bool) -> NDArray[np.float64]:
    """Tabulate the chance per step that teammates are ready for an event: [E], NaN where it does not wait for them.

    A shared event waits for simulated teammates: it takes effect with `probability` where a teammate has a part in it,
    and at once where the agent is its only controller. Read literally, the paper has all shared events wait.
    """
    fixed = tables.fixed_sync[agent]
    waits = tables.is_shared[agent] if literal else tables.is_shared[agent] & tables.has_partner[agent]
    chance: NDArray[np.float64] = np.where(np.isnan(fixed), np.where(waits, probability, np.nan), fixed)
    return chance
