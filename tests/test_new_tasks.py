"""The tasks whose gates close again, whose agents are alike, and which count: in how few steps they can be done."""

from dataclasses import replace
from itertools import product

import pytest

import hocket as hk
from hocket.task.settling import settle


def fewest_steps(task: hk.Task) -> int:
    """Search joint cells and machine states breadth first; a step moves everyone once and settles."""
    closed = {
        name: dict(zip(machine.states, task.closed_cells(name), strict=True)) for name, machine in task.machines.items()
    }
    cells = tuple(agent.start for agent in task.agents.values())
    front = {(cells, tuple(machine.initial for machine in task.machines.values()))}
    seen, steps = set(front), 0
    while front:
        if any(all(s in task.machines[name].final for name, s in zip(closed, own, strict=True)) for _, own in front):
            return steps
        following = set()
        for here, states in front:
            ways = [
                {task.grid.neighbor(cell, action, closed[name][state]) for action in range(5)}
                for name, cell, state in zip(closed, here, states, strict=True)
            ]
            for there in product(*ways):
                settled = settle(task, dict(zip(closed, there, strict=True)), dict(zip(closed, states, strict=True)))
                following.add((there, tuple(settled.states.values())))
        front = following - seen
        seen |= front
        steps += 1
    raise AssertionError("the task cannot be done")


def test_the_drawbridge_takes_18_steps():
    assert fewest_steps(hk.load_task("drawbridge")) == 18


def test_a_crew_takes_24_steps_however_many_they_are():
    """An agent alone takes 24; agents that do the same at the same time are together in the yard at the end."""
    assert fewest_steps(hk.load_task("crew-1")) == 24
    plan = "<<<^" + "v>>>>>" + "<<<<<^" + "v>>>>>" + "v<"
    moves = {"^": "up", ">": "right", "v": "down", "<": "left"}
    for name in ("crew-1", "crew", "crew-6"):
        task = hk.load_task(name)
        episode = hk.TeamEpisode(replace(task, slip=0.0))
        for letter in plan:
            assert not episode.done
            episode.step(dict.fromkeys(task.agents, moves[letter]))
        assert episode.done and episode.time == 24


@pytest.mark.parametrize("name", ["crew-2", "crew-6"])
def test_a_crew_of_any_size_passes_every_check(name):
    task = hk.load_task(name)
    assert task.name == name and hk.check_task(task).ok
    assert len(task.agents) == int(name[-1])


def test_whoever_lets_go_of_the_lever_raises_the_bridge():
    task = hk.load_task("drawbridge")
    states = list(task.machines["A2"].states)
    closed = dict(zip(states, task.closed_cells("A2"), strict=True))
    bridge = task.grid.places["bridge"]
    machine = task.machines["A2"]
    held = machine.transitions[machine.initial, "down"]
    raised = machine.transitions[held, "up"]
    assert closed[machine.initial] == closed[raised] == bridge and not closed[held]
