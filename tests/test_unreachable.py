"""States that no trace reaches: whatever they do, a task that a check passes can be trained, played and wrapped."""

from dataclasses import replace

import numpy as np
import pytest

import hocket as hk
import hocket.gym as gym
from hocket.learn.catalogue import LEARNERS
from hocket.task.tables import compile_task
from worlds import corridor, courtyard, meeting


def with_lost_states(machine: hk.RewardMachine) -> hk.RewardMachine:
    """Add states that no trace reaches: they go round for ever, and lead to where traces do."""
    event, *_ = machine.events
    lost = {("lost", event): "astray", ("astray", event): "lost", ("beside", event): machine.initial}
    return hk.RewardMachine(
        initial=machine.initial,
        transitions={**lost, **machine.transitions},
        final=machine.final,
        events=machine.events,
        states=["lost", "astray", "beside", *machine.states],
        rewards=None if machine.is_task_completion else {**dict.fromkeys(lost, 0.0), **machine.rewards},
    )


def parts_of_a_rendezvous() -> hk.Task:
    return hk.rendezvous(agents=2, rows=3, columns=3)


def losing(task: hk.Task) -> hk.Task:
    """Give the machine of a task, or each of its parts, states that no trace reaches."""
    machine = task.machine
    if isinstance(machine, hk.Composition):
        return replace(task, machine=hk.Composition({name: with_lost_states(p) for name, p in machine.parts.items()}))
    return replace(task, machine=with_lost_states(machine))


TASKS = {"alone": lambda: corridor(4), "two": meeting, "gates": courtyard, "parts": parts_of_a_rendezvous}


@pytest.mark.parametrize("name", TASKS)
def test_states_that_no_trace_reaches_change_nothing_in_what_is_compiled(name):
    task = TASKS[name]()
    lost = losing(task)
    assert hk.check_task(lost).ok
    for one, other in zip(compile_task(task), compile_task(lost), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("name", TASKS)
def test_unreachable_states_are_accepted_wherever_a_task_is_used(name):
    task, lost = TASKS[name](), losing(TASKS[name]())
    agent = next(iter(task.agents))
    for make in (gym.team_env, gym.team_vector_env, lambda task: gym.individual_vector_env(task, agent)):
        one, other = (make(each).reset(seed=3)[0] for each in (task, lost))
        assert str(one) == str(other)


@pytest.mark.parametrize("name", ["alone", "two"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner_learns_the_same_with_states_that_no_trace_reaches(learner, name):
    task = TASKS[name]()
    settings = {"test_every": 100}
    one, other = (hk.train(each, learner, seeds=1, steps=200, settings=settings)[0] for each in (task, losing(task)))
    for array in one.policy.arrays:
        assert np.array_equal(one.policy.arrays[array], other.policy.arrays[array])
