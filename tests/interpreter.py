"""How a step settles, after the words of the rule: with sets, dictionaries and no tables."""

import hocket as hk
from task_strategies import cells_of


class TurningError(Exception):
    """The same joint state came again."""


def interpret(task: hk.Task, cells: dict[str, int], states: dict[str, str]) -> tuple[list[list[str]], dict[str, str]]:
    """Play the rounds of a step."""
    states, rounds, history = dict(states), [], []
    while True:
        history.append(dict(states))
        can = []
        for event in task.events:
            everyone = [name for name in task.agents if event in task.agents[name].knows]
            if everyone and all(is_candidate(task, name, event, cells[name], states[name]) for name in everyone):
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
        if states in history:
            raise TurningError


def is_candidate(task: hk.Task, name: str, event: str, cell: int, state: str) -> bool:
    condition = task.events[event].get(name)
    met = condition is None or cell in cells_of(task.grid, condition)
    return met and (state, event) in task.machines[name].transitions
