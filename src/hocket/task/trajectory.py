"""Trajectories as the paper labels them: joint states, machine states and events, of the team and its agents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from hocket.errors import TaskError
from hocket.task.catalogue import as_task
from hocket.task.episode import TeamEpisode
from hocket.task.task import Task


class Triplet(NamedTuple):
    """A joint state of a trajectory, the machines' states in which it is reached, and what happens then."""

    cells: Mapping[str, int]  # s_t: the cell of each agent
    team_state: object  # u_t: of the team machine, before the events
    states: Mapping[str, str]  # u_t^i: of each agent's machine, before the events
    events: tuple[str, ...]  # l_t: what happens, in its order
    local_events: Mapping[str, tuple[str, ...]]  # what of it each agent knows


def label_trajectory(task: Task | str | Path, trajectory: Iterable[Mapping[str, int]]) -> list[Triplet]:
    """Turn a trajectory of joint cells into the triplets of the paper's Algorithms 2 and 3.

    The first joint state is where an episode begins, and nothing happens in it. In every other one the events happen
    that all agents who know them propose, in the states that their machines are in; and `TeamEpisode` requires that
    these are the events that the team's own labelling function gives (Theorem 2). Whether agents could have moved like
    this is not asked.

    >>> start, met, done = {"A1": 0, "A2": 3}, {"A1": 34, "A2": 34}, {"A1": 97, "A2": 79}
    >>> [(step.team_state, step.events) for step in label_trajectory("rendezvous-2", [start, met, done])]
    [(('0', '0'), ()), (('0', '0'), ('r1', 'r2', 'r')), (('2', '2'), ('g1', 'g2'))]
    """
    task, triplets = as_task(task), list[Triplet]()
    if not task.is_single_agent and not task.decomposition.ok:
        raise TaskError(f"{task.name} is not decomposable: labels of the team and of its agents differ", key="machine")
    episode = TeamEpisode(task)
    for number, cells in enumerate(trajectory):
        where = f"trajectory[{number}]"
        if {*cells} != {*task.agents}:
            raise TaskError(f"must have a cell for each agent, got {', '.join(map(str, cells)) or 'none'}", key=where)
        if outside := [cell for cell in cells.values() if not 0 <= cell < task.grid.rows * task.grid.columns]:
            raise TaskError(f"must have cells of the map, got {outside[0]}", key=where)
        team_state, states = episode.team_state, dict(episode.states)
        ordered = {name: cells[name] for name in task.agents}
        if number:
            events = episode.arrive(ordered).events
        else:
            events, episode.cells = (), ordered
        local = {name: tuple(event for event in events if event in task.knows[name]) for name in task.agents}
        triplets.append(Triplet(ordered, team_state, states, events, local))
    return triplets
