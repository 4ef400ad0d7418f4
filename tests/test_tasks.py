"""Tasks: the paper's, to the last coordinate; task files there and back; and what is refused, by name."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import resources
from itertools import chain, combinations
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import hocket as hk
from hocket.cli import main as cli
from hocket.studio.understanding import parse_subject
from hocket.task.catalogue import built_in_tasks
from hocket.task.conditions import parse_conditions, write_conditions
from hocket.task.files import task_from
from hocket.task.tables import compile_task
from searches import examples
from strategies import BUTTONS_CONTROL, BUTTONS_KNOWS, buttons, hostile_names, rendezvous_knows, rendezvous_parts
from task_strategies import many, random_task, reorder, some, tasks

Spots = set[tuple[int, int]]


def block(rows: Iterable[int], columns: Iterable[int]) -> Spots:
    """List the (row, column) of a rectangle."""
    return {(row, column) for row in rows for column in columns}


def spots(task: hk.Task, cells: Iterable[int]) -> Spots:
    """List the (row, column) of cells."""
    return {task.grid.row_column(cell) for cell in cells}


# The buttons.


def test_the_buttons_stand_where_the_paper_has_them():
    task = hk.load_task("buttons")
    assert (task.grid.rows, task.grid.columns, task.slip) == (10, 10, 0.02)
    walls = block(range(8), [3]) | block([7], range(3, 10)) | block(range(5), [7])
    assert spots(task, task.grid.walls) == walls
    assert {name: spots(task, cells) for name, cells in task.grid.places.items()} == {
        "yellow button": {(0, 2)},
        "green button": {(5, 6)},
        "red button": {(6, 9)},
        "yellow region": block((2, 3), (4, 5, 6)),
        "green region": block((2, 3), (8, 9)),
        "red region": block((8, 9), (5, 6, 7, 8)),
        "goal": {(8, 9)},
        "A1's corner": {(0, 0)},
        "A2's corner": {(0, 5)},
        "A3's corner": {(0, 8)},
    }


def test_the_agents_of_the_buttons_are_those_of_the_paper():
    task = hk.load_task("buttons")
    assert {name: task.grid.row_column(agent.start) for name, agent in task.agents.items()} == {
        "A1": (0, 0),
        "A2": (0, 5),
        "A3": (0, 8),
    }
    assert {name: set(own) for name, own in task.knows.items()} == BUTTONS_KNOWS
    assert {name: dict(agent.gates) for name, agent in task.agents.items()} == {
        "A1": {"red region": "R"},
        "A2": {"yellow region": "Y"},
        "A3": {"green region": "G"},
    }
    assert {agent.memory for agent in task.agents.values()} == {("Y", "G", "R")}
    assert {name: dict(agent.sync) for name, agent in task.agents.items()} == {"A1": {}, "A2": {}, "A3": {}}
    assert {name: [(own.target, own.after) for own in agent.options] for name, agent in task.agents.items()} == {
        "A1": [("A1's corner", None), ("yellow button", None), ("goal", "R")],
        "A2": [("A2's corner", None), ("green button", "Y"), ("red button", "Y")],
        "A3": [("A3's corner", None), ("red button", "G")],
    }


def test_the_events_and_the_machine_of_the_buttons_are_those_of_the_paper():
    task = hk.load_task("buttons")
    assert task.machine == buttons()
    assert {event: set(own) for event, own in task.control.items()} == BUTTONS_CONTROL
    places = {
        "Y": "at yellow button",
        "G": "at green button",
        "A2on": "at red button",
        "A3on": "at red button",
        "A2off": "not at red button",
        "A3off": "not at red button",
        "R": "at red button",
        "Goal": "at goal",
    }
    assert {event: {str(where) for where in own.values()} for event, own in task.events.items()} == {
        event: {place} for event, place in places.items()
    }


def test_the_gates_of_the_buttons_are_closed_until_their_events():
    task = hk.load_task("buttons")
    regions = {"A1": block((8, 9), (5, 6, 7, 8)), "A2": block((2, 3), (4, 5, 6)), "A3": block((2, 3), (8, 9))}
    still_closed = {"A1": {"u0", "u1", "u2", "u3", "u4", "u5"}, "A2": {"u0"}, "A3": {"u0", "u1"}}
    for name, machine in task.machines.items():
        for state, closed in zip(machine.states, task.closed_cells(name), strict=True):
            is_closed = set(machine.members[state]) <= still_closed[name]
            assert spots(task, closed) == (regions[name] if is_closed else set())


# The rendezvous.

ENDS = {
    1: ((0, 0), (9, 7)),
    2: ((0, 3), (7, 9)),
    3: ((2, 0), (2, 9)),
    4: ((0, 8), (9, 9)),
    5: ((9, 0), (0, 9)),
    6: ((4, 0), (7, 0)),
    7: ((7, 0), (4, 0)),
    8: ((4, 9), (5, 0)),
    9: ((9, 6), (6, 9)),
    10: ((6, 9), (8, 0)),
}


@pytest.mark.parametrize("agents", [2, 10])
def test_the_rendezvous_is_that_of_the_paper(agents):
    task = hk.load_task(f"rendezvous-{agents}")
    assert (task.grid.rows, task.grid.columns, task.grid.walls, task.slip) == (10, 10, frozenset(), 0.02)
    everyone = range(1, agents + 1)
    goals = {f"goal {i}": {ENDS[i][1]} for i in everyone}
    assert {name: spots(task, cells) for name, cells in task.grid.places.items()} == {
        "meeting place": {(3, 4)},
        **goals,
    }
    assert [(name, task.grid.row_column(agent.start)) for name, agent in task.agents.items()] == [
        (f"A{i}", ENDS[i][0]) for i in everyone
    ]
    assert {name: set(own) for name, own in task.knows.items()} == rendezvous_knows(agents)
    assert tuple(task.machine.parts.values()) == rendezvous_parts(agents)
    sentences = {event: {name: str(where) for name, where in own.items()} for event, own in task.events.items()}
    expected = {"r": {f"A{i}": "at meeting place" for i in everyone}}
    for i in everyone:
        expected[f"r{i}"] = {f"A{i}": "at meeting place"}
        expected[f"l{i}"] = {f"A{i}": "not at meeting place"}
        expected[f"g{i}"] = {f"A{i}": f"at goal {i}"}
    assert sentences == expected
    for i, agent in zip(everyone, task.agents.values(), strict=True):
        assert set(agent.memory) == {"r", f"g{i}"} and not agent.gates and not agent.sync
        assert [(own.target, own.after) for own in agent.options] == [("meeting place", None), (f"goal {i}", None)]


def test_a_rendezvous_on_another_map_has_its_ends_on_it_and_apart():
    task = hk.rendezvous(40, rows=3, columns=7, seed=5)
    for i, agent in enumerate(task.agents.values(), start=1):
        (goal,), (meeting,) = task.grid.places[f"goal {i}"], task.grid.places["meeting place"]
        assert len({agent.start, goal, meeting}) == 3
    assert task == hk.rendezvous(40, rows=3, columns=7, seed=5)
    assert task != hk.rendezvous(40, rows=3, columns=7, seed=6)


@pytest.mark.parametrize("name", [*built_in_tasks(), "rendezvous-1", "rendezvous-2", "rendezvous-3", "rendezvous-10"])
def test_every_built_in_task_can_be_done_by_its_agents(name):
    verdict = hk.check_task(hk.load_task(name))
    assert verdict.ok and verdict.problems == ()


# The fewest steps.


def step_matrix(grid: hk.Grid, closed: frozenset[int]) -> np.ndarray:
    """Flag where one move without a slip can lead: [to, from]."""
    matrix = np.zeros((grid.cells, grid.cells), np.float32)
    for cell in range(grid.cells):
        for action in range(5):
            matrix[grid.neighbor(cell, action, closed), cell] = 1
    return matrix


def distances(grid: hk.Grid, start: int) -> list[int]:
    """Count the fewest moves to every cell of a map without walls out of reach."""
    reach = step_matrix(grid, frozenset())
    here = np.arange(grid.cells) == start
    far = np.zeros(grid.cells, int)
    while not here.all():
        far += ~here
        here = reach @ here > 0
    return far.tolist()


def fewest_steps(task: hk.Task) -> int:
    """Search the joint space of cells and team states breadth first for the end of the task, without slips.

    A set of joint cells is an array with an axis for each agent. Agents do not collide, so a joint move takes a set
    along one axis after the other. What happens in a joint cell is read from the conditions; all of it is applied.
    """
    agents, machine = list(task.agents), task.machine
    floor = np.flatnonzero(task.grid.floor)
    moves = {}
    for name in agents:
        own = task.machines[name]
        for state, closed in zip(own.states, task.closed_cells(name), strict=True):
            matrix = step_matrix(task.grid, closed)[np.ix_(floor, floor)]
            moves |= {(name, member): matrix for member in own.members[state]}
    start = np.zeros((len(floor),) * len(agents), np.bool_)
    start[tuple(np.searchsorted(floor, task.agents[name].start) for name in agents)] = True
    happenings = {state: list(what_happens(task, agents, state)) for state in machine.states}
    reached = {state: np.zeros_like(start) for state in machine.states}
    reached[machine.initial] = start
    frontier, steps = {machine.initial: start}, 0
    while frontier:
        if machine.final & frontier.keys():
            return steps
        arrived = {}
        for state, cells in frontier.items():
            moved = cells
            for axis, name in enumerate(agents):
                taken = np.tensordot(moves[name, state], moved.astype(np.float32), axes=([1], [axis]))
                moved = np.moveaxis(taken > 0, 0, axis)
            for target, where in happenings[state]:
                arrived[target] = arrived.get(target, False) | (moved & where)
        frontier = {state: cells & ~reached[state] for state, cells in arrived.items()}
        frontier = {state: cells for state, cells in frontier.items() if cells.any()}
        for state, cells in frontier.items():
            reached[state] |= cells
        steps += 1
    raise AssertionError("the task cannot be done")


def what_happens(task: hk.Task, agents: list[str], state: str) -> Iterable[tuple[str, np.ndarray]]:
    """For each set of events that may happen at once in a team state: where it leads, and in which joint cells."""
    everywhere = np.ones((int(task.grid.floor.sum()),) * len(agents), np.bool_)
    enabled = {}
    for event in task.events:
        if task.machine.step(state, event) is not None:
            enabled[event] = everywhere.copy()
            for axis, name in enumerate(agents):
                column = (1,) * (len(agents) - axis - 1)
                enabled[event] &= task.where(name, event)[task.grid.floor].reshape(-1, *column)
    for happening in chain.from_iterable(combinations(enabled, size) for size in range(len(enabled) + 1)):
        where = everywhere.copy()
        for event, cells in enabled.items():
            where &= cells if event in happening else ~cells
        if where.any():
            yield after(task.machine, state, happening), where


def after(machine: hk.RewardMachine, state: str, events: Iterable[str]) -> str:
    """Follow events that happen at once."""
    for event in events:
        state = machine.step(state, event)
        assert state is not None
    return state


def with_listed_states(task: hk.Task) -> hk.Task:
    """List the states of a composition."""
    return replace(task, machine=task.machine.machine())


def meeting_steps(task: hk.Task) -> int:
    """Count the fewest steps of a rendezvous agent by agent: see the test that uses it for why that is right."""
    (meeting,) = task.grid.places["meeting place"]
    far = distances(task.grid, meeting)
    goals = [next(iter(task.grid.places[f"goal {i}"])) for i in range(1, len(task.agents) + 1)]
    return max(far[agent.start] for agent in task.agents.values()) + 1 + max(far[goal] for goal in goals)


def test_the_buttons_take_17_steps():
    assert fewest_steps(hk.load_task("buttons")) == 17


def test_the_rendezvous_of_two_takes_17_steps():
    assert fewest_steps(with_listed_states(hk.load_task("rendezvous-2"))) == 17


def test_the_rendezvous_of_ten_takes_22_steps():
    """Count agent by agent.

    The event r takes the arrival of every agent (r_i) in an earlier step and its presence in the step itself, so it
    cannot happen before the farthest agent has arrived and one more step has passed; waiting at the meeting place, they
    achieve just that. In that step all are at the meeting place, and nothing binds them any more: the task is done when
    the one with the farthest goal is there. Goals are not at the meeting place, so no g_i comes for free. Hence the sum
    of both distances, and 1. The joint search confirms the sum where it is small enough.
    """
    assert meeting_steps(hk.load_task("rendezvous-10")) == 22
    for task in (hk.load_task("rendezvous-2"), *(hk.rendezvous(2, rows=4, columns=6, seed=seed) for seed in range(4))):
        assert fewest_steps(with_listed_states(task)) == meeting_steps(task)


MOVES = {"^": "up", ">": "right", "v": "down", "<": "left", "-": "stay"}


def play(task: hk.Task, plan: Mapping[str, str]) -> dict[str, int]:
    """Play a plan, a letter for each step, in a world without slips; return when each event first happened."""
    episode = hk.TeamEpisode(replace(task, slip=0.0))
    when: dict[str, int] = {}
    for letters in zip(*plan.values(), strict=True):
        assert not episode.done
        actions = dict(zip(plan, (MOVES[letter] for letter in letters), strict=True))
        for event in episode.step(actions).events:
            when.setdefault(event, episode.time)
    assert episode.done
    return when


def test_a_plan_of_17_steps_completes_the_buttons():
    plan = {
        "A1": ">>vvvvvvvv>>>>>>>",
        "A2": "v>vvvvv>>>-------",
        "A3": "v>----vvvvv------",
    }
    when = play(hk.load_task("buttons"), plan)
    assert when == {"Y": 2, "G": 6, "A2on": 10, "A3on": 11, "R": 11, "Goal": 17}


@pytest.mark.parametrize(("agents", "steps"), [(2, 16), (10, 21)])
def test_a_plan_of_fewest_steps_completes_the_rendezvous(agents, steps):
    task = hk.load_task(f"rendezvous-{agents}")
    ends = [ENDS[i] for i in range(1, agents + 1)]
    meet = max(abs(row - 3) + abs(column - 4) for (row, column), _ in ends)
    plan = {}
    for name, (start, goal) in zip(task.agents, ends, strict=True):
        plan[name] = (walk(start, (3, 4)).ljust(meet, "-") + walk((3, 4), goal)).ljust(steps, "-")
    assert play(task, plan)["r"] == meet


def walk(start: tuple[int, int], end: tuple[int, int]) -> str:
    """Walk straight along the column, then along the row."""
    down, right = end[0] - start[0], end[1] - start[1]
    return ("v" if down > 0 else "^") * abs(down) + (">" if right > 0 else "<") * abs(right)


# Files.


@some
@given(task=tasks(), suffix=st.sampled_from((".toml", ".json")))
def test_a_task_is_read_as_it_was_written(tmp_path_factory, task, suffix):
    path = tmp_path_factory.mktemp("tasks") / f"task{suffix}"
    hk.save_task(task, path)
    read = hk.load_task(path)
    assert read == task
    assert read.digest == task.digest
    assert list(read.agents) == list(task.agents)
    assert list(read.events) == list(task.events)


@pytest.mark.parametrize("suffix", [".toml", ".json"])
@pytest.mark.parametrize("name", [*built_in_tasks(), "rendezvous-3"])
def test_a_built_in_task_is_read_as_it_was_written(tmp_path, name, suffix):
    task = hk.load_task(name)
    hk.save_task(task, tmp_path / f"task{suffix}")
    assert hk.load_task(tmp_path / f"task{suffix}") == task


def tiny_task(place: str = "x", agent: str = "A1", event: str = "a", **changes: object) -> hk.Task:
    """Build a task of one event at one place."""
    return hk.Task(
        name="tiny",
        grid=hk.Grid(1, 3, frozenset(), {place: frozenset({1}), "elsewhere": frozenset({2})}),
        agents={agent: hk.Agent(0, (event,), memory=(event,), options=(hk.Option(place), hk.Option(place, event)))},
        events={event: {agent: hk.Condition(place)}},
        machine=hk.RewardMachine(initial="u0", transitions={("u0", event): "u1"}, final={"u1"}),
        **changes,
    )


@pytest.mark.parametrize("names", [{"place": " x"}, {"agent": "A1 "}])
def test_names_with_blanks_at_their_ends_are_refused(names):
    with pytest.raises(hk.errors.TaskError, match="no blanks at their ends"):
        tiny_task(**names)


@pytest.mark.parametrize("suffix", [".toml", ".json"])
@pytest.mark.parametrize(
    "names",
    [
        {"place": "red and blue"},
        {"place": "not at home"},
        {"place": "anywhere"},
        {"place": "here, there"},
        {"place": "A1 at x"},
        {"place": 'the "door"'},
        {"place": "tür"},
        {"place": "hour after dawn"},
        {"agent": "all"},
        {"agent": "at"},
        {"agent": "A and B"},
        {"agent": "not in"},
        {"event": "a.b = c"},
        {"event": "b after c"},
        {"agent": "all the king's men"},
    ],
    ids=lambda names: next(iter(names.values())),
)
def test_odd_names_are_read_as_they_were_written(tmp_path, names, suffix):
    task = tiny_task(**names)
    hk.save_task(task, tmp_path / f"task{suffix}")
    assert hk.load_task(tmp_path / f"task{suffix}") == task


@pytest.mark.parametrize(
    ("places", "memory", "option"),
    [
        (("x", "x after y"), ("y",), hk.Option("x", "y")),
        (("x", "x after y"), ("z", "y after z"), hk.Option("x after y", "z")),
    ],
)
def test_an_option_that_reads_like_another_is_refused(places, memory, option):
    grid = hk.Grid(1, 3, frozenset(), {place: frozenset({1}) for place in places})
    machine = hk.RewardMachine(
        initial="u", transitions=[("u", event, "v") for event in memory], final={"v"}, states=["u", "v"]
    )
    agents = {"A1": hk.Agent(0, memory, memory=memory, options=(option,))}
    events = {event: {"A1": hk.Condition(places[0])} for event in memory}
    with pytest.raises(hk.errors.TaskError, match=f"agents.A1.options: '{option}' is ambiguous"):
        hk.Task("t", grid, agents, events, machine)


def hostile_task(
    name: str, agents: tuple[str, str], places: tuple[str, str], events: tuple[str, str], kind: int
) -> hk.Task:
    """Build a task whose names stand wherever a task has names; of one machine, or of parts."""
    (one, other), (here, there), (first, last) = agents, places, events
    conditions = {
        first: {one: hk.Condition(here, inside=kind % 2 == 0), other: hk.Condition(there)},
        last: {one: hk.Condition(there) if kind < 2 else hk.Condition()},
    }
    own = {
        agent: hk.Agent(
            start,
            events,
            gates={there: first},
            memory=(first,),
            options=(hk.Option(here), hk.Option(there, first)),
            sync={first: 0.5},
        )
        for start, agent in enumerate(agents)
    }
    machine = hk.RewardMachine(initial=name, transitions=[(name, first, here), (here, last, there)], final={there})
    team = hk.Composition(dict.fromkeys(agents, machine)) if kind == 3 else machine
    grid = hk.Grid(1, 4, frozenset(), {here: frozenset({2}), there: frozenset({3})})
    return hk.Task(name, grid, own, conditions, team)


def two_names() -> st.SearchStrategy[tuple[str, str]]:
    """Draw two different names, hostile ones or nearly so."""
    return st.lists(hostile_names | st.sampled_from("AB"), min_size=2, max_size=2, unique=True).map(tuple)


@pytest.mark.parametrize("suffix", [".toml", ".json"])
@examples(100)
@given(parts=st.tuples(hostile_names | st.just("t"), two_names(), two_names(), two_names(), st.integers(0, 3)))
def test_a_task_with_hostile_names_is_read_as_it_was_written_or_refused(tmp_path_factory, suffix, parts):
    path = tmp_path_factory.getbasetemp() / f"hostile{suffix}"
    path.unlink(missing_ok=True)
    try:
        task = hostile_task(*parts)
        hk.save_task(task, path)
    except hk.HocketError:
        assert not path.exists()
    else:
        read = hk.load_task(path)
        assert read == task and read.digest == task.digest


@pytest.mark.parametrize("suffix", [".toml", ".json"])
@pytest.mark.parametrize(
    "description",
    [
        "Two\nlines.",
        'A "quoted" word\nand """three""" of them',
        "a\\b\n",
        "\nfirst line empty",
        "a\n\n\nb",
        "unicode ♪",
    ],
)
def test_a_description_is_read_as_it_was_written(tmp_path, description, suffix):
    task = tiny_task(description=description)
    hk.save_task(task, tmp_path / f"task{suffix}")
    assert hk.load_task(tmp_path / f"task{suffix}").description == description


@pytest.mark.parametrize("description", ["a\r\nb", "a\nb\x01", "a\x7fb", "\ud800"])
def test_a_description_with_control_characters_is_refused(description):
    with pytest.raises(hk.errors.TaskError, match="description: must have no control characters"):
        tiny_task(description=description)


def test_a_digest_does_not_tell_whole_numbers_from_equal_floats(tmp_path):
    task = tiny_task(slip=0)
    hk.save_task(task, tmp_path / "task.toml")
    read = hk.load_task(tmp_path / "task.toml")
    assert read == task
    assert read.digest == task.digest


def test_a_digest_survives_a_file_where_the_first_state_is_not_the_initial_one(tmp_path):
    machine = hk.RewardMachine(
        initial="u0", transitions={("u0", "a"): "u1", ("u1", "b"): "u2"}, final={"u2"}, states=("u1", "u0", "u2")
    )
    events = {"a": {"A1": hk.Condition("x")}, "b": {"A1": hk.Condition("elsewhere")}}
    task = replace(tiny_task(), machine=machine, agents={"A1": hk.Agent(0, ("a", "b"))}, events=events)
    hk.save_task(task, tmp_path / "task.toml")
    read = hk.load_task(tmp_path / "task.toml")
    assert read == task
    assert read.digest == task.digest


def changed_tasks() -> dict[str, hk.Task]:
    """List tasks that each differ from the buttons in one respect."""
    task = hk.load_task("buttons")
    grid, machine = task.grid, task.machine
    agent = task.agents["A2"]

    def with_agent(**change: object) -> hk.Task:
        return replace(task, agents={**task.agents, "A2": replace(agent, **change)})

    return {
        "slip": replace(task, slip=0.03),
        "wall": replace(task, grid=replace(grid, walls=grid.walls | {grid.cell(9, 0)})),
        "place": replace(task, grid=replace(grid, places={**grid.places, "goal": frozenset({grid.cell(9, 9)})})),
        "start": with_agent(start=agent.start + 1),
        "knows": with_agent(knows=("Y", "G", "A2on", "A2off", "R", "Goal")),
        "gates": with_agent(gates={}),
        "memory": with_agent(memory=("Y", "R", "G")),
        "options": with_agent(options=agent.options[:2]),
        "sync": with_agent(sync={"R": 0.5}),
        "condition": replace(task, events={**task.events, "Goal": {"A1": hk.Condition("goal", inside=False)}}),
        "controller": replace(task, events={**task.events, "Goal": {"A1": hk.Condition("goal"), "A2": hk.Condition()}}),
        "final": replace(
            task,
            machine=hk.RewardMachine(initial="u0", transitions=machine.transitions, final=(), events=machine.events),
        ),
    }


@pytest.mark.parametrize("what", changed_tasks())
def test_a_digest_tells_tasks_apart_by_all_that_they_say(what):
    assert changed_tasks()[what].digest != hk.load_task("buttons").digest


def test_a_digest_is_worked_out_once():
    task = hk.load_task("buttons")
    assert task.digest is task.digest
    assert len(task.digest) == 64 and int(task.digest, 16)


def test_a_task_says_who_knows_each_event():
    task = hk.load_task("buttons")
    assert task.knowers == {
        event: tuple(agent for agent, own in task.knows.items() if event in own) for event in task.events
    }


def test_a_digest_tells_tasks_apart_by_the_order_of_their_agents():
    task = hk.load_task("buttons")
    assert replace(task, agents=reorder(task.agents, ("A2", "A1", "A3"))).digest != task.digest


def test_a_digest_does_not_see_names_and_descriptions():
    task = hk.load_task("buttons")
    assert replace(task, name="knobs", description="other words").digest == task.digest


# Sentences.

WORDS = ("and", "at", "in", "not", "red", "blue", "door", "anywhere", "all", "2")
odd_names = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)


@st.composite
def odd_conditions(draw: st.DrawFn) -> tuple[list[str], list[str], dict[str, hk.Condition]]:
    """Draw agents, places with words of the grammar in their names, and conditions on some of the agents.

    Agents are named by letters that no place has, and no place ends in "and", so that reading on never hurts.
    """
    agents = draw(st.lists(st.sampled_from(("X", "Y", "Z", "X Y")), min_size=1, unique=True))
    sayable = odd_names.filter(lambda name: not name.endswith("and"))
    places = draw(st.lists(sayable, min_size=1, max_size=4, unique=True))
    controllers = draw(st.lists(st.sampled_from(agents), min_size=1, unique=True))
    where = st.builds(hk.Condition, st.sampled_from(places), st.booleans())
    return agents, places, {agent: draw(where) for agent in controllers}


@many
@given(odd_conditions())
def test_reading_undoes_writing_conditions(drawn):
    agents, places, conditions = drawn
    assert parse_conditions(write_conditions(conditions), agents, places, "events.e") == conditions


@settings(deadline=None, phases=[Phase.generate])
@given(odd_conditions(), st.data())
def test_reading_undoes_writing_conditions_that_hold_anywhere(drawn, data):
    agents, places, conditions = drawn
    conditions[data.draw(st.sampled_from(agents))] = hk.Condition()
    assert parse_conditions(write_conditions(conditions), agents, places, "events.e") == conditions


@some
@given(
    agents=st.lists(odd_names.filter(lambda name: not name.startswith("all ")), min_size=1, max_size=3, unique=True),
    places=st.lists(odd_names, min_size=1, max_size=4, unique=True),
    data=st.data(),
)
def test_a_file_says_conditions_without_misunderstanding_whatever_the_names(agents, places, data):
    where = st.builds(hk.Condition, st.sampled_from(places), st.booleans()) | st.just(hk.Condition())
    controllers = data.draw(st.lists(st.sampled_from(agents), min_size=1, unique=True))
    task = hk.Task(
        name="odd",
        grid=hk.Grid(1, len(places), frozenset(), {name: frozenset({cell}) for cell, name in enumerate(places)}),
        agents={name: hk.Agent(0, ("e",)) for name in agents},
        events={"e": {name: data.draw(where) for name in controllers}},
        machine=hk.RewardMachine(initial="u0", transitions={("u0", "e"): "u1"}, final={"u1"}),
    )
    assert task_from(task.document()).events == task.events


AT_X, NOT_AT_Y, NOT_AT_X = hk.Condition("x"), hk.Condition("y z", inside=False), hk.Condition("x", inside=False)


@pytest.mark.parametrize(
    ("sentence", "conditions"),
    [
        ("A at x", {"A": AT_X}),
        ("  A in x ", {"A": AT_X}),
        ("A not in x", {"A": NOT_AT_X}),
        ("A and B at x", {"A": AT_X, "B": AT_X}),
        ("A, B and C at x", {"A": AT_X, "B": AT_X, "C": AT_X}),
        ("all at x", {"A": AT_X, "B": AT_X, "C": AT_X}),
        ("A at x and B not at y z", {"A": AT_X, "B": NOT_AT_Y}),
        ("A and C at x, B not at y z", {"A": AT_X, "B": NOT_AT_Y, "C": AT_X}),
        ("all anywhere", dict.fromkeys("ABC", hk.Condition())),
        ("A at x and B anywhere", {"A": AT_X, "B": hk.Condition()}),
    ],
)
def test_sentences_mean_what_they_say(sentence, conditions):
    assert parse_conditions(sentence, ["A", "B", "C"], ["x", "y z"], "events.e") == conditions


@pytest.mark.parametrize("sentence", ["A anywhere and B at x", "A anywhere, B at x"])
def test_a_sentence_goes_on_after_anywhere(sentence):
    assert parse_conditions(sentence, ["A", "B"], ["x"], "events.e") == {"A": hk.Condition(), "B": AT_X}


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("A", "expected 'and', or where the agent has to be, before ''"),
        ("A or B at x", "'A or B at x' joins agents by 'or': for any of several agents, write an event for each"),
        ("A at", "place '' does not exist"),
        ("A near x", "before ' near x'"),
        ("D at x", "agent 'D' does not exist (known: A, B, C)"),
        ("A at xx", "place 'xx' does not exist (did you mean 'x'?)"),
        ("A at x and", "before ' and'"),
        ("A at x B at x", "expected 'and' before ' B at x'"),
        ("A at x and A at y z", "agent 'A' has two conditions"),
        ("A and A at x", "agent 'A' has two conditions"),
        ("", "agent '' does not exist"),
    ],
)
def test_a_sentence_that_means_nothing_is_refused_with_the_place_where_it_stops_making_sense(sentence, said):
    with pytest.raises(hk.errors.TaskError, match=re.escape(said)) as caught:
        parse_conditions(sentence, ["A", "B", "C"], ["x", "y z"], "events.e")
    assert caught.value.key == "events.e"


# What is refused.

BUTTONS = (resources.files("hocket.task.builtin") / "buttons.toml").read_text(encoding="utf-8")
MACHINE = BUTTONS[BUTTONS.index("[machine]") :]


EVERY_EVENT = ", ".join(f'"{event}"' for event in BUTTONS_CONTROL)


def never(key: str) -> list[tuple[str, str]]:
    """Add an event to the buttons that agent 3 knows and the machine never has."""
    return [
        ('knows = ["G", "A3on"', f'knows = ["{key}", "G", "A3on"'),
        ('Goal = "A1 at goal"', f'Goal = "A1 at goal"\n{key} = "A3 at goal"'),
        ('final = ["u7"]', f'final = ["u7"]\nevents = ["{key}", {EVERY_EVENT}]'),
        ('{ A3 = "G" }', f'{{ A3 = "{key}" }}'),
    ]


# name -> (what to replace in the buttons by what, the key that the message must name, what else it must say)
BAD_FILES = {
    "ragged map": ([("1.Y#.2.#3.\n...#", "1.Y#.2.#3.\n..#")], "map", "line 2 has 9 letters, the first has 10"),
    "legend letter not on the map": ([('G = "goal"', 'G = "goal"\nZ = "zoo"')], "legend.Z", "'Z' is not on the map"),
    "letter without a legend": ([('G = "goal"\n', "")], "map", "letter 'G' (row 8, column 9) has no meaning"),
    "place missing": ([('"A1 at goal"', '"A1 at gaol"')], "events.Goal", "(did you mean 'goal'?)"),
    "event unknown": ([('["G", "A3on"', '["G", "A4on"')], "agents.A3.knows", "'A4on' does not exist in the machine"),
    "start in a wall": ([('start = "3"', "start = [0, 3]")], "agents.A3.start", "must not be a wall, got (0, 3)"),
    "start off the map": ([('start = "3"', "start = [10, 3]")], "agents.A3.start", "must lie on the map of 10 rows"),
    "event without condition": ([('Goal = "A1 at goal"', "")], "events.Goal", "but it has no condition"),
    "condition without event": ([('Goal = "A1 at', 'Gaol = "A1 at goal"\nGoal = "A1 at')], "events.Gaol", "'Goal'?"),
    "unknown agent": ([('"A1 at goal"', '"A4 at goal"')], "events.Goal", "agent 'A4' does not exist (did you mean"),
    "unknown key": ([("slip = 0.02", "slpi = 0.02")], "slpi", "unknown key (did you mean 'slip'?)"),
    "unknown key of an agent": ([('{ start = "1"', '{ strat = "1"')], "agents.A1.strat", "did you mean 'start'?"),
    "a state beside the keys of a machine": (
        [("[machine.transitions]\n", "")],
        "machine.u0",
        "unknown key (a state and its events stand in machine.transitions; known: ",
    ),
    "unknown key of a machine": ([('final = ["u7"]', 'finals = ["u7"]')], "machine.finals", "did you mean 'final'?"),
    "bad slip": ([("slip = 0.02", "slip = 1.5")], "slip", "must be a probability, got 1.5"),
    "slip no number": ([("slip = 0.02", 'slip = "2 %"')], "slip", "must be a number, got '2 %'"),
    "slip not finite": ([("slip = 0.02", "slip = nan")], "slip", "must be a probability, got nan"),
    "option too late": ([("goal after R", "goal after Goal")], "agents.A1.options", "in memory, got 'Goal'"),
    "option nowhere": ([('"goal after R"', '"gaol"')], "agents.A1.options", "place 'gaol' does not exist"),
    "gate of nobody": ([('{ A3 = "G" }', '{ A4 = "G" }')], "gates.green region.A4", "did you mean"),
    "gate nowhere": ([('"green region" = { A3', '"great region" = { A3')], "gates.great region.A3", "'great region'"),
    "gate of no event": ([('{ A3 = "G" }', '{ A3 = "g" }')], "gates.green region.A3", "event 'g' does not exist"),
    "memory of no event": ([('["Y", "G", "R"]', '["Y", "G", "R", "B"]')], "memory", "'B' does not exist"),
    "machine outside the folder": ([(MACHINE, '[machine]\nfile = "../u.toml"')], "machine.file", "got '../u.toml'"),
    "machine anywhere else": ([(MACHINE, '[machine]\nfile = "/u.toml"')], "machine.file", "folder of this file"),
    "no machine": ([(MACHINE, "")], "machine", "is missing"),
    "no agents": ([(BUTTONS[BUTTONS.index("[agents]") : BUTTONS.index("[gates]")], "")], "agents", "is missing"),
}  # fmt: skip

# The same, for what only analysis finds.
BAD_GATES = {
    "a gate that never opens": (never("Never"), "gates.green region.A3", "Never never happens in the agent's machine"),
    "an event that the agent does not know": (
        [('{ A3 = "G" }', '{ A3 = "Y" }')],
        "gates.green region.A3",
        "Y, which opens the gate, must be in the local event set of A3",
    ),
    "an event that the state does not tell": (
        [('{ A3 = "G" }', '{ A3 = "A3on" }')],
        "gates.green region.A3",
        "must tell whether A3on has happened, but G and G, A3on, A3off both lead to {u2,u3}",
    ),
}  # fmt: skip


def edit(path: Path, changes: Iterable[tuple[str, str]]) -> Path:
    """Write the buttons to a file with changes, each of which must be one."""
    text = BUTTONS
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def check(capsys, monkeypatch):
    """Run `hocket check` in this process; return its exit code and what it said on stderr."""
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)

    def run(path: Path) -> tuple[int, str]:
        return cli.run(["check", str(path)]), capsys.readouterr().err

    return run


def test_the_files_that_are_refused_differ_from_one_that_is_not(tmp_path, check):
    assert check(edit(tmp_path / "good.toml", [])) == (0, "")


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_refused_by_name_and_key(tmp_path, check, case):
    changes, key, said = BAD_FILES[case]
    path = edit(tmp_path / "bad.toml", changes)
    with pytest.raises(hk.HocketError) as caught:
        hk.load_task(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: {key}: ") and said in message
    code, printed = check(path)
    assert (code, printed) == (2, f"hocket: {message}\n")


@pytest.mark.parametrize("case", BAD_GATES)
def test_a_bad_gate_is_refused_by_key(tmp_path, check, case):
    changes, key, said = BAD_GATES[case]
    path = edit(tmp_path / "bad.toml", changes)
    task = hk.load_task(path)
    for examine in (hk.check_task, compile_task, hk.TeamEpisode):
        with pytest.raises(hk.errors.TaskError, match=re.escape(said)) as caught:
            examine(task)
        assert caught.value.key == key
    code, printed = check(path)
    assert code == 2
    assert printed.startswith(f"hocket: {path}: {key}: ") and printed.count("\n") == 1
    assert said in printed


def test_a_machine_in_a_file_beside_the_tasks_own_is_read(tmp_path):
    path = edit(tmp_path / "task.toml", [(MACHINE, '[machine]\nfile = "team.toml"')])
    hk.save_machine(buttons(), tmp_path / "team.toml")
    assert hk.load_task(path) == hk.load_task("buttons")


@pytest.mark.parametrize("name", ["..", ".", "", "sub/team.toml", "team", "a\\u0000.toml"])
def test_a_machine_in_anything_but_a_file_beside_the_tasks_own_is_refused(tmp_path, name):
    path = edit(tmp_path / "task.toml", [(MACHINE, f'[machine]\nfile = "{name}"')])
    with pytest.raises(hk.errors.FormatError, match=re.escape(str(path))):
        hk.load_task(path)


@pytest.mark.parametrize("way", ["out", "round", "in"])
def test_a_link_is_followed_to_a_machine_only_within_the_folder_of_the_task(tmp_path, way):
    folder = tmp_path / "task"
    folder.mkdir()
    path = edit(folder / "task.toml", [(MACHINE, '[machine]\nfile = "team.toml"')])
    target = {"out": tmp_path / "private.toml", "round": folder / "team.toml", "in": folder / "other.toml"}[way]
    (folder / "team.toml").symlink_to(target)
    if way == "in":
        hk.save_machine(buttons(), target)
        assert hk.load_task(path) == hk.load_task("buttons")
        return
    if way == "out":
        target.write_text("token = 'secret'", encoding="utf-8")
    said = "machine.file: must be a file in the folder of this file, got 'team.toml'"
    with pytest.raises(hk.errors.FormatError, match=said) as caught:
        hk.load_task(path)
    assert "secret" not in str(caught.value)
    with pytest.raises(hk.errors.FormatError, match=said):
        parse_subject(path.read_text(encoding="utf-8"), folder)  # as the studio reads it


@pytest.mark.parametrize("memory", [("a", "a"), tuple(f"e{number}" for number in range(11))], ids=["twice", "too many"])
def test_an_agent_remembers_few_events_and_each_once(memory):
    task = tiny_task()
    with pytest.raises(
        hk.errors.TaskError, match=re.escape("agents.A1.memory: an agent remembers at most 10 events, each once")
    ):
        replace(task, agents={"A1": replace(task.agents["A1"], memory=memory, options=())})


def test_the_parts_of_a_composition_may_come_in_another_order_than_the_agents():
    task = hk.load_task("rendezvous-3")
    moved = replace(task, machine=hk.Composition(reorder(task.machine.parts, ("A3", "A1", "A2"))))
    assert moved == task
    assert list(moved.machines) == list(moved.agents)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (("A1",), "machine.parts.A2: every agent needs a part of the composition"),
        (("A1", "A2", "A3"), "machine.parts.A3: agent 'A3' does not exist (did you mean 'A2'?)"),
    ],
    ids=["too few", "too many"],
)
def test_a_composition_has_a_part_for_each_agent_and_no_other(parts, said):
    task, larger = hk.load_task("rendezvous-2"), hk.load_task("rendezvous-3")
    with pytest.raises(hk.errors.TaskError, match=re.escape(said)):
        replace(task, machine=hk.Composition(reorder(larger.machine.parts, parts)))


@pytest.mark.parametrize("seed", range(5))
def test_what_an_agent_knows_can_be_changed(seed):
    task = random_task(Random(seed))
    name = list(task.agents)[-1]
    told = task.with_knows({name: task.events})
    assert told.knows == {**task.knows, name: set(task.events)}
    assert replace(told, agents=task.agents) == task
    with pytest.raises(hk.errors.TaskError, match="knows: agent 'nobody' does not exist"):
        task.with_knows({"nobody": ()})


def test_policies_of_a_task_fit_the_task_that_is_written_beside_them(tmp_path):
    machine = hk.from_declare(["precedence(press, enter)", "existence(enter, 1)"])
    grid = hk.Grid(1, 5, frozenset(), {"button": frozenset({1}), "goal": frozenset({3})})
    conditions = {"press": {"A1": hk.Condition("button")}, "enter": {"A2": hk.Condition("goal")}}
    agents = {name: hk.Agent(0, ("press", "enter")) for name in ("A1", "A2")}
    task = hk.Task("sentences", grid, agents, conditions, machine)
    hk.save_task(task, tmp_path / "sentences.toml")
    read = hk.load_task(tmp_path / "sentences.toml")
    assert [*read.machine.states] == [*machine.states], "arrays have a row for each state, in this order"
    assert [*map(list, (local.states for local in read.machines.values()))] == [
        *map(list, (local.states for local in task.machines.values()))
    ]


def test_a_digest_tells_tasks_apart_by_the_order_of_their_states():
    task = hk.load_task("buttons")
    machine = task.machine
    moved = hk.RewardMachine(
        initial=machine.initial,
        transitions=machine.transitions,
        final=machine.final,
        events=machine.events,
        states=[*machine.states][::-1],
    )
    assert replace(task, machine=moved).digest != task.digest, "values in a policy are numbered as states are"
