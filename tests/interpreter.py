"""How a step settles, after the words of the rule: with sets, dictionaries and no tables."""

import hocket as hk
from task_strategies import is_edge, is_met


class TurningError(Exception):
    """The same joint state came again."""


def interpret(
    task: hk.Task, cells: dict[str, int], states: dict[str, str], before: dict[str, int] | None = None
) -> tuple[list[list[str]], dict[str, str]]:
    """Play the rounds of a step, from the cells before it, if there was one."""
    states, rounds, history = dict(states), [], []
    while True:
        edges = [event for events in rounds for event in events if is_edge(task.events[event])]
        history.append((dict(states), edges))
        can = []
        for event in task.events:
            everyone = [name for name in task.agents if event in task.agents[name].knows]
            if event not in edges and everyone and all(
                is_candidate(task, name, event, cells[name], states[name], (before or {}).get(name))
                for name in everyone
            ):  # fmt: skip
                can.append(event)
        took_part: set[str] = set()
        happening = []
        for event in can:
            everyone = {name for name in task.agents if event in task.agents[name].knows}
            if not everyone & took_part:
                happening.append(event)
                took_part |= everyone
        if not happening:
            return rounds, states
        for event in happening:
            for name in task.agents:
                if event in task.agents[name].knows:
                    states[name] = dict(task.machines[name].transitions)[states[name], event]
        rounds.append(happening)
        if (states, edges + [event for event in happening if is_edge(task.events[event])]) in history:
            raise TurningError


def is_candidate(task: hk.Task, name: str, event: str, cell: int, state: str, before: int | None) -> bool:
    condition = task.events[event].get(name)
    met = condition is None or is_met(task.grid, condition, cell, before)
    return met and (state, event) in task.machines[name].transitions


def walk_apart(bodies: object, regions: list[set[int]], before: list[int], wanted: list[int]) -> list[int]:
    """Say where agents with bodies end up, after the words of the rule: look at all pairs until nothing changes."""
    now, everyone = list(wanted), range(len(before))

    def inside(cell: int) -> frozenset[int]:
        return frozenset(number for number, region in enumerate(regions) if cell in region)

    def turn(agent: int, cell: int) -> int:
        left = [other for other in everyone if isinstance(bodies, tuple) and inside(before[other]) == inside(cell)]
        return (agent - (left[0] + 1 if left else 0)) % len(before)

    while True:
        refused = set()
        for agent in everyone:
            comes = inside(now[agent]) and inside(now[agent]) != inside(before[agent])
            for other in everyone:
                if other != agent and comes and inside(now[other]) == inside(now[agent]):
                    other_keeps = inside(before[other]) == inside(now[other])
                    if other_keeps or turn(other, now[agent]) < turn(agent, now[agent]) or bodies == "symmetric":
                        refused.add(agent)
        if not refused:
            break
        now = [before[agent] if agent in refused else now[agent] for agent in everyone]
    if isinstance(bodies, tuple):
        return now
    swapped = {
        agent
        for agent in everyone
        for other in everyone
        if agent != other and now[agent] == before[other] and now[other] == before[agent]
    }
    return [before[agent] if agent in swapped else now[agent] for agent in everyone]
