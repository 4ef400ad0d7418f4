"""Memory and options of the baselines' agents that are derived from their machines."""

from dataclasses import replace
from random import Random

import pytest

import hocket as hk
from hocket.learn.training import train
from hocket.study.study import warnings
from hocket.task.agents import Option
from hocket.task.catalogue import built_in_tasks
from hocket.task.memory import MOST_REMEMBERED, determined_events, memory_of, options_of
from task_strategies import latched_events as latched_by_trying
from task_strategies import random_task
from worlds import at, line


def silent(task: hk.Task) -> hk.Task:
    """Take away what a task says of memory and options."""
    agents = {name: replace(agent, memory=(), options=()) for name, agent in task.agents.items()}
    return replace(task, agents=agents)


def handover(**words: tuple) -> hk.Task:
    """Let A1 fetch a thing at one end and hand it to A2 at the other, through the cell in which it began."""
    moves = {("empty", "fetch"): "full", ("full", "hand"): "done"}
    return hk.Task(
        "handover",
        line(7, shelf=0, bench=6),
        {"A1": hk.Agent(3, ("fetch", "hand"), **words), "A2": hk.Agent(5, ("fetch", "hand"), **words)},
        {"fetch": at(A1="shelf"), "hand": at(A1="bench", A2="bench")},
        hk.RewardMachine(initial="empty", transitions=moves, final={"done"}),
        slip=0.0,
    )


def test_what_a_task_says_stands():
    for name in [*built_in_tasks(), "rendezvous-3"]:
        task = hk.load_task(name)
        for name, agent in task.agents.items():
            assert memory_of(task)[name] == agent.memory or not agent.memory
            assert options_of(task)[name] == agent.options or not agent.options


def test_an_agent_remembers_what_its_machine_tells():
    assert memory_of(handover()) == {"A1": ("fetch",), "A2": ("fetch",)}
    assert memory_of(silent(hk.load_task("buttons"))) == {"A1": ("Y", "R"), "A2": ("Y", "G"), "A3": ("G",)}


def test_it_remembers_nothing_that_its_machine_does_not_tell():
    for seed in range(40):
        task = silent(random_task(Random(seed)))
        for name, memory in memory_of(task).items():
            assert {
                *determined_events(task.machines[name], {event: place for place, event in enumerate(task.events)})
            } == latched_by_trying(task.machines[name])
            assert {*memory} <= latched_by_trying(task.machines[name]) and len(memory) <= MOST_REMEMBERED


def test_an_agent_may_set_out_for_the_places_of_its_events_once_they_are_due():
    assert options_of(handover())["A1"] == (Option("shelf"), Option("bench", "fetch"))
    found = options_of(silent(hk.load_task("buttons")))
    assert found["A1"] == (Option("yellow button"), Option("goal", "R"))
    assert found["A3"] == (Option("red button", "G"),)


@pytest.mark.parametrize("learner", ["iql", "hil"])
def test_baselines_learn_a_task_that_says_nothing_of_memory(learner):
    runs = train(handover(), learner, 5, 100_000, settings={"test_every": 100_000})
    assert min(own.success.value for own in hk.evaluate(handover(), runs, 100)) > 0.9


def test_training_says_what_is_derived_to_those_who_need_it():
    told = [line for line in warnings(hk.Study([handover()], ["iql", "hil"], 1, 1_000)) if "derived" in line]
    why = "derived from their machines, as the task does not define"
    assert told == [
        f"handover: the memory of agents (A1: fetch; A2: fetch) is {why} it.",
        f"handover: the options of agents (A1: shelf, bench after fetch; A2: bench after fetch) are {why} them.",
    ]
    for study in (hk.Study([handover()], ["sweep"], 1, 1_000), hk.Study([hk.load_task("buttons")], ["iql"], 1, 1_000)):
        assert not any("derived" in line for line in warnings(study))
