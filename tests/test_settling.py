"""How a step settles: rounds of events, against an interpreter written apart, on tasks with several candidates."""

from itertools import pairwise, permutations, product
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given

import hocket as hk
from hocket.task.catalogue import built_in_tasks
from hocket.task.endless import StepKinds, find_endless, order_notes
from hocket.task.settling import choose_events, propose, settle
from hocket.task.tables import compile_task
from hocket.task.tables import settle as tables_settle
from interpreter import TurningError, interpret
from task_strategies import NAMES, cells_of, many, random_grid, seeds, some


def random_busy_task(rng: Random) -> hk.Task:
    """Draw a task whose agents may propose several events at once, split by construction; it may not settle."""
    grid = random_grid(rng)
    names = NAMES[: rng.choice((1, 2, 2, 3))]
    knowers = {f"{letter}{name}": [name] for name in names for letter in "ab"[: rng.randint(1, 2)]}
    for letter in "mno"[: rng.randint(0, 3) if len(names) > 1 else 0]:
        knowers[letter] = sorted(rng.sample(names, rng.randint(2, len(names))))
    order = rng.sample(sorted(knowers), len(knowers))
    places = list(grid.places)
    events = {
        event: {
            name: hk.Condition(rng.choice((*places, None)), inside=rng.random() < 0.7)
            for name in rng.sample(knowers[event], rng.randint(1, len(knowers[event])))
        }
        for event in order
    }
    events = {
        event: {name: own if cells_of(grid, own) else hk.Condition() for name, own in conditions.items()}
        for event, conditions in events.items()
    }
    parts = {}
    for name in names:
        own = [event for event in order if name in knowers[event]]
        states = [str(number) for number in range(rng.randint(2, 4))]
        transitions = {(state, rng.choice(own)): following for state, following in pairwise(states)}
        for state in states[:-1]:
            for event in own:
                if (state, event) not in transitions and rng.random() < 0.5:
                    later = states[states.index(state) + 1 :]
                    transitions[state, event] = rng.choice(states if rng.random() < 0.2 else later)
        parts[name] = hk.RewardMachine(initial="0", transitions=transitions, final={states[-1]}, events=own)
    ground = [cell for cell in range(grid.cells) if cell not in grid.walls]
    agents = {name: hk.Agent(rng.choice(ground), parts[name].events) for name in names}
    team = hk.Composition(parts)
    task = hk.Task("busy", grid, agents, events, team if rng.random() < 0.5 else team.machine())
    return task if rng.random() < 0.7 else _reordered(task, rng)


def _reordered(task: hk.Task, rng: Random) -> hk.Task:
    """List the events of the machine, and with it the task's, in another order."""
    machine = task.machine.machine() if isinstance(task.machine, hk.Composition) else task.machine
    order = rng.sample(sorted(machine.events), len(machine.events))
    shuffled = hk.RewardMachine(
        initial=machine.initial, transitions=machine.transitions, final=machine.final, events=order
    )
    return hk.Task(task.name, task.grid, task.agents, task.events, shuffled)


def joint_states(task: hk.Task) -> list[dict[str, str]]:
    """List the joint states of the agents' machines that traces of the team lead to."""
    start = {name: machine.initial for name, machine in task.machines.items()}
    found = [start]
    for states in found:  # grows while it is read
        for event in task.events:
            everyone = task.knowers[event]
            ends = {name: task.machines[name].step(states[name], event) for name in everyone}
            if everyone and None not in ends.values() and {**states, **ends} not in found:
                found.append({**states, **ends})
    return found


@many
@given(seeds)
def test_a_step_settles_as_the_interpreter_says(seed):
    rng = Random(seed)
    task = random_busy_task(rng)
    ground = [cell for cell in range(task.grid.cells) if cell not in task.grid.walls]
    for _ in range(10):
        cells = {name: rng.choice(ground) for name in task.agents}
        states = rng.choice(joint_states(task))
        try:
            rounds, after = interpret(task, cells, states)
        except TurningError:
            with pytest.raises(hk.errors.TaskError, match="would never settle"):
                settle(task, cells, states)
            continue
        settled = settle(task, cells, states)
        assert [list(events) for events in settled.rounds] == rounds
        assert settled.states == after


@many
@given(seeds)
def test_many_cases_at_once_settle_as_one_by_one(seed):
    rng = Random(seed)
    task = random_busy_task(rng)
    assume(find_endless(task) is None)
    tables = compile_task(task)
    ground = [cell for cell in range(task.grid.cells) if cell not in task.grid.walls]
    joint = joint_states(task)
    cases = [({name: rng.choice(ground) for name in task.agents}, rng.choice(joint)) for _ in range(20)]
    machines = list(task.machines.values())
    kinds = np.array([[tables.kind[i, cell] for i, cell in enumerate(cells.values())] for cells, _ in cases])
    states = np.array(
        [[m.states.index(own) for m, own in zip(machines, case.values(), strict=True)] for _, case in cases]
    )
    found = tables_settle(tables, kinds, states)
    for (cells, case), after, events in zip(cases, found.state, found.events(), strict=True):
        rounds, expected = interpret(task, cells, case)
        assert [tuple(m.states)[own] for m, own in zip(machines, after, strict=True)] == list(expected.values())
        assert [list(task.events)[event] for event in events] == [event for own in rounds for event in own]


@some
@given(seeds)
def test_a_task_that_would_never_settle_is_found_and_no_other(seed):
    task = random_busy_task(Random(seed))
    ground = [cell for cell in range(task.grid.cells) if cell not in task.grid.walls]

    def turns(spots: tuple[int, ...], states: dict[str, str]) -> bool:
        try:
            interpret(task, dict(zip(task.agents, spots, strict=True)), states)
        except TurningError:
            return True
        return False

    one_of_each = [
        [next(cell for cell in ground if kinds.kind[cell] == kind) for kind in range(len(kinds))]
        for kinds in (StepKinds.of(task, name) for name in task.agents)
    ]
    turning = any(turns(spots, states) for spots in product(*one_of_each) for states in joint_states(task))
    found = find_endless(task)
    assert (found is not None) == turning
    if found is not None:
        assert "would never settle: with " in str(found)


@some
@given(seeds)
def test_cells_of_one_kind_meet_the_same_conditions(seed):
    task = random_busy_task(Random(seed))
    for name in task.agents:
        kinds = StepKinds.of(task, name)
        controlled = [event for event in task.events if name in task.events[event]]
        for cell in range(task.grid.cells):
            if cell not in task.grid.walls:
                met = [cell in cells_of(task.grid, task.events[event][name]) for event in controlled]
                assert kinds.holds[kinds.kind[cell]].tolist() == met
        assert len({tuple(row) for row in kinds.holds.tolist()}) == len(kinds)


@many
@given(seeds)
def test_the_events_of_a_round_commute(seed):
    rng = Random(seed)
    task = random_busy_task(rng)
    ground = [cell for cell in range(task.grid.cells) if cell not in task.grid.walls]
    states = rng.choice(joint_states(task))
    cells = {name: rng.choice(ground) for name in task.agents}
    events = choose_events(task, {name: propose(task, name, cells[name], states[name]) for name in task.agents})
    team = team_state(task, states)
    ends = set()
    for order in permutations(events):
        state = team
        for event in order:
            state = task.machine.step(state, event)
            assert state is not None
        ends.add(state)
    assert len(ends) <= 1


def team_state(task: hk.Task, states: dict[str, str]):
    """Find a state of the team machine that the agents' states stand for."""
    found = [(task.machine.initial, {name: machine.initial for name, machine in task.machines.items()})]
    for team, own in found:  # grows while it is read
        if own == states:
            return team
        for event in task.events:
            target = task.machine.step(team, event)
            if target is not None:
                ends = {**own, **{name: task.machines[name].step(own[name], event) for name in task.knowers[event]}}
                if (target, ends) not in found:
                    found.append((target, ends))
    raise AssertionError("no trace leads there")


@pytest.mark.parametrize("name", [*built_in_tasks(), "rendezvous-2", "rendezvous-3", "rendezvous-10"])
def test_every_built_in_task_settles(name):
    assert find_endless(hk.load_task(name)) is None


def test_a_toggle_goes_round_and_is_told_with_its_place():
    grid = hk.Grid(1, 3, frozenset(), {"switch": frozenset({1})})
    machine = hk.RewardMachine(
        initial="off", transitions={("off", "on"): "lit", ("lit", "out"): "off", ("lit", "go"): "end"}, final={"end"}
    )
    at = {"A1": hk.Condition("switch")}
    events = {"on": at, "out": at, "go": {"A1": hk.Condition("switch", inside=False)}}
    task = hk.Task("toggle", grid, {"A1": hk.Agent(0, ("on", "out", "go"))}, events, machine)
    assert str(find_endless(task)) == (
        "machine: a step would never settle: with A1 at switch, on, out can happen repeatedly while no agent moves"
    )


def test_an_agent_may_notice_something_while_it_does_something():
    grid = hk.Grid(1, 3, frozenset(), {"bench": frozenset({0}), "door": frozenset({2})})
    worker = hk.RewardMachine(
        initial="0",
        transitions={("0", "take"): "1", ("0", "open"): "2", ("1", "open"): "3", ("2", "take"): "3"},
        final={"3"},
    )
    porter = hk.RewardMachine(initial="0", transitions={("0", "open"): "1"}, final={"1"})
    events = {"take": {"A": hk.Condition("bench")}, "open": {"B": hk.Condition("door")}}
    agents = {"A": hk.Agent(1, ("take", "open")), "B": hk.Agent(1, ("open",))}
    task = hk.Task("workshop", grid, agents, events, hk.Composition({"A": worker, "B": porter}))
    settled = settle(task, {"A": 0, "B": 2}, {"A": "0", "B": "0"})
    assert settled.rounds == (("take",), ("open",))
    assert settled.states == {"A": "3", "B": "1"}
    assert [*order_notes(task)] == []  # they commute


def test_a_line_says_where_the_order_of_the_file_matters():
    grid = hk.Grid(1, 2, frozenset(), {"bench": frozenset({0})})
    machine = hk.RewardMachine(
        initial="0",
        transitions={("0", "left"): "1", ("0", "right"): "2", ("1", "end"): "3", ("2", "end"): "3"},
        final={"3"},
    )
    at = {"A": hk.Condition("bench")}
    task = hk.Task("choice", grid, {"A": hk.Agent(1, machine.events)}, dict.fromkeys(machine.events, at), machine)
    assert [*order_notes(task)] == [
        "The order of events matters: A at bench in state 0 may propose left and right; "
        "left goes first, as in the file."
    ]
    assert settle(task, {"A": 0}, {"A": "0"}).events == ("left", "end")
