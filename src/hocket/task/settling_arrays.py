"""How steps settle in many cases at once: the rule of `hocket.task.settling` over the arrays of a compiled task."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.task.settling import EndlessError
from hocket.task.tables import Bools, Tables


class SettledCases(NamedTuple):
    """How steps have settled, in any number of cases that know nothing of each other."""

    state: NDArray[np.int64]  # [cases, N] of the agents' machines
    team: NDArray[np.int64]  # [cases] of the team machine, where it was given
    reward: NDArray[np.float64]  # [cases, N] what the agents' machines paid
    rounds: list[tuple[NDArray[np.intp], NDArray[np.intp]]]  # of each round: cases, and an event of each
    slots: list[tuple[NDArray[Any], ...]]  # of each round, for each machine that moved: its indices in `Tables.event`

    def events(self) -> list[list[int]]:
        """List what happened in each case, in its order."""
        happened: list[list[int]] = [[] for _ in self.state]
        for cases, events in self.rounds:
            for case, event in zip(cases.tolist(), events.tolist(), strict=True):
                happened[case].append(event)
        return happened


def settle(tables: Tables, kind: NDArray[Any], state: NDArray[Any], team: NDArray[Any] | None = None) -> SettledCases:
    """Let events happen in rounds until nothing more can, from machine states and kinds of steps: [cases, N] each.

    The same as `hocket.task.settling.settle`, for many cases at once. `team` are states of the team machine to follow.
    """
    cases, agents = state.shape
    everyone = np.arange(agents)
    team_state = np.zeros(0, np.int64) if team is None else team.astype(np.int64)
    settled = SettledCases(state.astype(np.int64), team_state, np.zeros((cases, agents)), [], [])
    going = np.arange(cases)
    spent = np.zeros((cases, len(tables.is_edge)), np.bool_)
    for _ in range(tables.most_rounds + 1):
        proposed = tables.event[everyone, settled.state[going], kind[going]].astype(np.int64)  # [going, N, C]
        chosen = _choose_events(tables, proposed, spent[going])
        active = chosen.any(axis=1)
        if not active.any():
            return settled
        going, proposed, chosen = going[active], proposed[active], chosen[active]
        case, event = np.nonzero(chosen)
        settled.rounds.append((going[case], event))
        spent[going] |= chosen & tables.is_edge
        if team is not None:
            for number in np.flatnonzero(chosen.any(axis=0)).tolist():
                cases = going[chosen[:, number]]
                settled.team[cases] = tables.team_next[settled.team[cases], number]
        taken = chosen[np.arange(len(going))[:, None, None], proposed] & (proposed >= 0)
        case, agent, slot = np.nonzero(taken)
        case = going[case]
        at = (agent, settled.state[case, agent], kind[case, agent], slot)  # at most one slot for each agent
        settled.slots.append(at)
        settled.reward[case, agent] += tables.reward[at]
        settled.state[case, agent] = tables.next_state[at]
    raise EndlessError("events")


def _choose_events(tables: Tables, proposed: NDArray[np.int64], spent: Bools) -> Bools:
    """Flag the events of a round: proposed by all who know them, in their order, one for each agent: [cases, E].

    Those that are spent happen no more in this step.
    """
    cases, agents, _ = proposed.shape
    events = len(tables.knowers)
    place = proposed + (np.arange(cases) * (events + 1))[:, None, None] + 1  # a tally for each case
    tally = np.bincount(place.ravel(), minlength=cases * (events + 1)).reshape(cases, events + 1)[:, 1:]
    ready: Bools = (tally == tables.knowers) & (tables.knowers > 0) & ~spent
    if tables.event.shape[3] == 1:  # nobody proposes two events, so none of them share an agent
        return ready
    busy = np.zeros((cases, agents), np.bool_)
    for event in np.flatnonzero(ready.any(axis=0)).tolist():
        knowers = tables.knower[tables.first_knower[event] : tables.first_knower[event + 1]]
        ready[:, event] &= ~busy[:, knowers].any(axis=1)
        busy[:, knowers] |= ready[:, event, None]
    return ready
