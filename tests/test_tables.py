"""Compiled tasks against the episodes that they are compiled from, number for number."""

import re
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given

import hocket as hk
from hocket.random import INDIVIDUAL, TEAM, slip_draw, stream_key, sync_draw, threshold
from hocket.task.bodies import hold_all_apart
from hocket.task.catalogue import built_in_tasks
from hocket.task.grid import ACTIONS, slip_outcome
from hocket.task.individual import IndividualTable, individual_table
from hocket.task.memory import memory_of, options_of
from hocket.task.tables import MOST_COMBINED, Tables, compile_task, settle
from task_strategies import Guide, few, random_task, some, tasks

BUILT_IN = [*built_in_tasks(), "rendezvous-1", "rendezvous-2", "rendezvous-3", "rendezvous-10"]
STEPS = 500


def slippery(name: str) -> hk.Task:
    """Load a task and let agents slip often."""
    return replace(hk.load_task(name), slip=0.1)


def individuals(tables: Tables, probability: float = 0.3, **how: bool) -> list[IndividualTable]:
    """Make the tables of all agents, each with simulated teammates."""
    return [individual_table(tables, agent, probability, **how) for agent in range(len(tables.start))]


# An individual.


class Moment(NamedTuple):
    """What can be compared after a step of an agent alone."""

    cell: int
    proposed: tuple[str, ...]
    events: tuple[str, ...]
    state: str
    reward: float
    done: bool


def walk_episode(episode: hk.IndividualEpisode, guide: Guide, steps: int) -> tuple[list[int], list[Moment]]:
    """Let an agent act in an episode; return its actions and what came of them."""
    actions, moments = [], []
    for _ in range(steps):
        action = guide.action(episode.agent, episode.cell, episode.state)
        step = episode.step(action)
        actions.append(ACTIONS.index(action))
        moments.append(Moment(step.cell, step.proposed, step.events, step.state, step.reward, step.done))
    return actions, moments


def memory_bits(tables: Tables) -> dict[tuple[int, int], int]:
    """Which bit an agent remembers an event by: (agent, event) -> bit."""
    event = np.repeat(np.arange(len(tables.knowers)), np.diff(tables.first_memory)).tolist()
    pairs = zip(tables.memory_agent.tolist(), event, strict=True)
    return dict(zip(pairs, tables.memory_bit.tolist(), strict=True))


def walk_tables(task: hk.Task, index: int, seed: int, number: int, actions: list[int]) -> Iterator[Moment]:
    """Let an agent act by the tables alone."""
    tables = compile_task(task)
    table = individual_table(tables, index, 0.3)
    events, states = list(task.events), list(list(task.machines.values())[index].states)
    key = stream_key(INDIVIDUAL, seed, index, number)
    cell, state = int(tables.start[index]), int(tables.initial[index])
    for step, action in enumerate(actions):
        outcome = slip_outcome(slip_draw(key, step), threshold(tables.slip))
        offset, cell = table.offset[cell], int(table.next_cell[table.dynamics[state], cell, action, outcome])
        kind, drawn = int(table.kind[offset + cell]), sync_draw(key, step)
        case = sum(drawn >= limit for limit in table.limit[state, kind].tolist())
        proposed = tuple(events[event] for event in tables.event[index, state, kind].tolist() if event >= 0)
        happened = tuple(events[event] for event in table.happened[state, kind, case].tolist() if event >= 0)
        reward = float(table.reward[state, kind, case])
        state = int(table.next_state[state, kind, case])
        yield Moment(cell, proposed, happened, states[state], reward, bool(tables.is_final[index, state]))


def compare_walks(task: hk.Task, steps: int, seed: int) -> int:
    """Compare the walks of all agents, two episodes each; count the events."""
    guide = Guide(task, Random(seed))
    happened = 0
    for index, agent in enumerate(task.agents):
        for number in range(2):
            actions, moments = walk_episode(hk.IndividualEpisode(task, agent, seed, number), guide, steps)
            assert list(walk_tables(task, index, seed, number, actions)) == moments
            happened += sum(len(moment.events) for moment in moments)
    return happened


@pytest.mark.parametrize("name", BUILT_IN)
def test_an_agent_alone_does_the_same_by_the_tables_of_a_built_in_task(name):
    assert compare_walks(slippery(name), STEPS, seed=11) > 0


@some
@given(task=tasks())
def test_an_agent_alone_does_the_same_by_the_tables(task):
    compare_walks(task, 60, seed=3)


def test_much_happens_to_agents_alone_in_random_tasks():
    """The laws above say little unless events happen."""
    assert sum(compare_walks(random_task(Random(seed)), 60, seed) for seed in range(30)) > 300


# A team.


def listed(task: hk.Task) -> hk.RewardMachine:
    """Return the team machine with all its states."""
    return task.machine.machine() if isinstance(task.machine, hk.Composition) else task.machine


class TeamMoment(NamedTuple):
    """What can be compared after a step of a team."""

    cells: list[int]
    proposed: list[tuple[str, ...]]
    events: list[str]
    states: list[str]
    team_state: str
    memory: list[int]
    done: bool


def play_tables(task: hk.Task, seed: int, number: int, plan: list[list[int]]) -> Iterator[TeamMoment]:
    """Let a team act by the tables alone."""
    tables = compile_task(task)
    agents, names = range(len(task.agents)), list(task.events)
    machines = [list(machine.states) for machine in task.machines.values()]
    team_states = list(listed(task).states) if len(tables.team_next) else []
    keys = [stream_key(TEAM, seed, index, number) for index in agents]
    cells, states, team = tables.start.tolist(), tables.initial.tolist(), tables.team_initial
    memory, bits = [0 for _ in agents], memory_bits(tables)
    for step, actions in enumerate(plan):
        before = list(cells)
        for i in agents:
            outcome = slip_outcome(slip_draw(keys[i], step), threshold(tables.slip))
            moves = tables.next_cell[tables.world[i], tables.dynamics[i, states[i]]]
            cells[i] = int(moves[cells[i], actions[i], outcome])
        if len(tables.body):
            cells = hold_all_apart(tables.body_rule, tables.body, np.array([before]), np.array([cells]))[0].tolist()
        kinds = np.array([[tables.kind[i, tables.offset[i, before[i]] + cells[i]] for i in agents]])
        proposed = [tables.event[i, states[i], kinds[0, i]].tolist() for i in agents]
        settled = settle(tables, kinds, np.array([states]), np.array([team]) if len(tables.team_next) else None)
        states, happened = settled.state[0].tolist(), settled.events()[0]
        for i in agents:
            memory[i] |= sum({1 << bits[i, event] for event in happened if (i, event) in bits})
        if len(tables.team_next):
            team = int(settled.team[0])
        own = [machines[i][states[i]] for i in agents]
        yield TeamMoment(
            list(cells),
            [tuple(names[event] for event in row if event >= 0) for row in proposed],
            [names[event] for event in happened],
            own,
            team_states[team] if team_states else "|".join(own),
            list(memory),
            all(tables.is_final[i, states[i]] for i in agents),
        )


def play_episode(episode: hk.TeamEpisode, guide: Guide, steps: int) -> tuple[list[list[int]], list[TeamMoment]]:
    """Let a team act in an episode; return its actions and what came of them."""
    task = episode.task
    plan, moments = [], []
    for _ in range(steps):
        actions = guide.actions(episode)
        step = episode.step(actions)
        plan.append([ACTIONS.index(actions[name]) for name in task.agents])
        moments.append(
            TeamMoment(
                [step.cells[name] for name in task.agents],
                [step.proposed[name] for name in task.agents],
                list(step.events),
                [step.states[name] for name in task.agents],
                step.team_state if isinstance(step.team_state, str) else "|".join(step.team_state),
                [
                    sum(1 << bit for bit, event in enumerate(memory_of(task)[name]) if event in episode.memory[name])
                    for name, agent in task.agents.items()
                ],
                step.done,
            )
        )
    return plan, moments


def compare_plays(task: hk.Task, steps: int, seed: int) -> list[TeamMoment]:
    """Compare what teams do."""
    plan, moments = play_episode(hk.TeamEpisode(task, seed, number=1), Guide(task, Random(seed)), steps)
    assert list(play_tables(task, seed, 1, plan)) == moments
    return moments


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_team_does_the_same_by_the_tables_of_a_built_in_task(name):
    assert any(moment.events for moment in compare_plays(slippery(name), STEPS, seed=11))


@some
@given(task=tasks())
def test_a_team_does_the_same_by_the_tables(task):
    compare_plays(task, 80, seed=3)


def test_much_happens_to_teams_in_random_tasks():
    """The laws above say little unless events happen."""
    plays = [compare_plays(random_task(Random(seed)), 80, seed) for seed in range(30)]
    assert sum(len(moment.events) for play in plays for moment in play) > 60
    assert sum(play[-1].done for play in plays) >= 5


# Synchronisation.


def chances_of(table: IndividualTable) -> Iterator[tuple[int, float]]:
    """List events that are proposed by themselves in a state that is not final, with their chance to take effect."""
    for state, kind in np.ndindex(table.proposed.shape[:2]):
        own = [event for event in table.proposed[state, kind].tolist() if event >= 0]
        if len(own) == 1 and not table.is_final[state]:
            happens = table.happened[state, kind, :, 0] == own[0] if table.happened.shape[3] else np.zeros(1, bool)
            yield own[0], float(table.chance[state, kind][happens].sum())


@some
@given(task=tasks())
def test_chances_of_synchronisation_are_those_of_episodes(task):
    tables = compile_task(task)
    events = list(task.events)
    for probability in (0.3, 0.75):
        for table, name in zip(individuals(tables, probability), task.agents, strict=True):
            episode = hk.IndividualEpisode(task, name, sync_probability=probability)
            for event, chance in chances_of(table):
                assert chance == (episode._probability(events[event]) or 1.0)


@some
@given(task=tasks())
def test_the_limits_of_draws_are_the_chances_of_outcomes(task):
    for table in individuals(compile_task(task)):
        assert np.allclose(table.chance.sum(axis=2), 1.0)
        for state, kind in np.ndindex(table.limit.shape[:2]):
            reached = np.cumsum(table.chance[state, kind])[:-1]
            for limit, chance in zip(table.limit[state, kind].tolist(), reached.tolist(), strict=True):
                assert limit == threshold(chance) if chance < 1 else limit > threshold(1.0) or limit == threshold(1.0)


@some
@given(task=tasks())
def test_read_literally_every_shared_event_waits_unless_the_task_says_how_long(task):
    tables = compile_task(task)
    events = list(task.events)
    for table, agent in zip(individuals(tables, sync_literal=True), task.agents.values(), strict=True):
        for event, chance in chances_of(table):
            shared = len(task.knowers[events[event]]) >= 2
            assert chance == agent.sync.get(events[event], 0.3 if shared else 1.0)


def test_the_chances_of_the_buttons_are_those_of_the_paper():
    """R takes two. Y, G and R are heard of by agents without a part in them. The rest is an agent's own business."""
    task = hk.load_task("buttons")
    waits = {
        ("A1", "R"): (0.3, 0.3),
        ("A2", "Y"): (0.3, 0.3),
        ("A2", "R"): (0.3, 0.3),
        ("A3", "G"): (0.3, 0.3),
        ("A3", "R"): (0.3, 0.3),
        ("A1", "Y"): (1.0, 0.3),
        ("A2", "G"): (1.0, 0.3),
    }
    tables = compile_task(task)
    for literal in (False, True):
        for table, name in zip(individuals(tables, sync_literal=literal), task.agents, strict=True):
            found = set(chances_of(table))
            expected = {waits.get((name, event), (1.0, 1.0))[literal] for event in task.knows[name]}
            assert {chance for _, chance in found} == expected
            for event, chance in found:
                assert chance == waits.get((name, list(task.events)[event]), (1.0, 1.0))[literal]


def test_a_task_sets_its_own_chances():
    task = hk.load_task("buttons")
    changed = replace(task, agents={**task.agents, "A1": replace(task.agents["A1"], sync={"Y": 0.25, "R": 1.0})})
    tables = compile_task(changed)
    for literal in (False, True):
        table = individual_table(tables, 0, 0.3, sync_literal=literal)
        number = list(task.events).index
        assert set(chances_of(table)) == {(number("Y"), 0.25), (number("R"), 1.0), (number("Goal"), 1.0)}
    assert hk.IndividualEpisode(changed, "A1")._probability("Y") == 0.25


def test_what_waits_for_teammates_happens_in_the_first_round_only():
    """Two meet where one of them arrives first: arriving and meeting take two steps of one that trains alone."""
    task = hk.load_task("rendezvous-2")
    table = individual_table(compile_task(task), 0, 0.3)
    machine, events = task.machines["A1"], list(task.events)
    place = table.kind[task.grid.cell(3, 4)]
    arriving, waiting = machine.states.index(machine.initial), machine.states.index(machine.step(machine.initial, "r1"))
    outcomes = [
        [tuple(events[event] for event in row if event >= 0) for row in table.happened[state, place].tolist()]
        for state in (arriving, waiting)
    ]
    assert outcomes[0][0] == ("r1",) and table.chance[arriving, place, 0] == 1.0
    assert outcomes[1] == [("r",), ()] and table.chance[waiting, place].tolist() == [0.3, 0.7]


# The shape of things.


@some
@given(task=tasks())
def test_a_team_state_belongs_to_the_class_that_the_tables_give_it(task):
    tables = compile_task(task)
    states = list(listed(task).states)
    assert tables.team_class.shape == (len(task.agents), len(states))
    for index, machine in enumerate(task.machines.values()):
        own = list(machine.states)
        for number, state in enumerate(states):
            stands_for = own[tables.team_class[index, number]]
            if isinstance(task.machine, hk.Composition):
                assert state.split("|")[index] == stands_for
            else:
                assert state in machine.members[stands_for]
        assert own[tables.team_class[index, tables.team_initial]] == machine.initial


@some
@given(task=tasks())
def test_classes_move_with_the_team_where_their_agent_knows_the_event_and_stay_elsewhere(task):
    tables, team = compile_task(task), listed(task)
    names, states = list(task.events), list(team.states)
    assert (tables.team_next >= 0).sum() == len(team.transitions)
    assert {states[number] for number in np.flatnonzero(tables.team_final)} == set(team.final)
    for state, event in zip(*np.nonzero(tables.team_next >= 0), strict=True):
        target = tables.team_next[state, event]
        assert team.step(states[state], names[event]) == states[target]
        for index, (name, machine) in enumerate(task.machines.items()):
            own = list(machine.states)
            before, after = (own[tables.team_class[index, where]] for where in (state, target))
            assert after == (machine.step(before, names[event]) if names[event] in task.knows[name] else before)


def test_a_team_machine_that_was_minimised_is_followed():
    moves = {("0", "a"): "1", ("0", "b"): "2", ("1", "c"): "3", ("2", "c"): "3"}
    machine = hk.minimize(hk.RewardMachine(initial="0", transitions=moves, final={"3"}))
    grid = hk.Grid(1, 4, frozenset(), {name: frozenset({cell}) for cell, name in enumerate("wxyz")})
    at = {event: {"A1": hk.Condition(place)} for event, place in (("a", "x"), ("b", "y"), ("c", "z"))}
    agents = {"A1": hk.Agent(0, ("a", "b", "c")), "A2": hk.Agent(0, ("c",))}
    task = hk.Task("minimised", grid, agents, at, machine)
    assert task.decomposition.ok
    assert compile_task(task).team_class.tolist() == [[0, 1, 2], [0, 0, 1]]


@few
@given(task=tasks())
def test_arrays_are_as_large_as_their_letters_say(task):
    tables = compile_task(task)
    n, s, e, v = len(task.agents), task.grid.cells, len(task.events), len(listed(task).states)
    u = max(len(machine.states) for machine in task.machines.values())
    o = max(map(len, options_of(task).values()))
    d, h, c = int(tables.dynamics.max()) + 1, int(tables.kind.max()) + 1, max(1, (tables.event >= 0).sum(axis=3).max())
    shapes = {
        "next_cell": (int(tables.world.max()) + 1, d, s, 5, 3),
        "world": (n,),
        "dynamics": (n, u),
        "kind": (n, s * (int(tables.offset.max()) // s + 1)),
        "offset": (n, s),
        "is_edge": (e,),
        "event": (n, u, h, c),
        "next_state": (n, u, h, c),
        "reward": (n, u, h, c),
        "is_final": (n, u),
        "states": (n,),
        "start": (n,),
        "initial": (n,),
        "knowers": (e,),
        "first_knower": (e + 1,),
        "controller": (e,),
        "first_sync": (n + 1,),
        "first_memory": (e + 1,),
        "memories": (n,),
        "option_target": (n, o, s),
        "option_bit": (n, o),
        "team_next": (v, e),
        "team_final": (v,),
        "team_class": (n, v),
    }
    assert {name: getattr(tables, name).shape for name in shapes} == shapes


@some
@given(task=tasks())
def test_memory_and_options_are_those_of_the_task(task):
    tables, events = compile_task(task), list(task.events)
    memories, everyone = list(memory_of(task).values()), list(options_of(task).values())
    assert memory_bits(tables) == {
        (index, events.index(event)): bit for index, memory in enumerate(memories) for bit, event in enumerate(memory)
    }
    for index, (memory, options) in enumerate(zip(memories, everyone, strict=True)):
        assert tables.memories[index] == 2 ** len(memory)
        for number in range(tables.option_bit.shape[1]):
            bit, cells = tables.option_bit[index, number], np.flatnonzero(tables.option_target[index, number])
            if number >= len(options):
                assert bit == -2 and len(cells) == 0
                continue
            option = options[number]
            assert set(cells.tolist()) == task.grid.places[option.target]
            assert bit == (-1 if option.after is None else memory.index(option.after))


@some
@given(task=tasks())
def test_a_gate_is_closed_until_its_event_on_every_way(task):
    """Walk an agent's machine at random, noting what has happened; the state alone must tell which cells are closed."""
    rng = Random(0)
    for name, machine in task.machines.items():
        closed = dict(zip(machine.states, task.closed_cells(name), strict=True))
        for _ in range(5):
            state, happened = machine.initial, set()
            for _ in range(10):
                shut = [place for place, event in task.agents[name].gates.items() if event not in happened]
                assert closed[state] == frozenset().union(*(task.grid.places[place] for place in shut))
                moves = [(event, target) for (source, event), target in machine.transitions.items() if source == state]
                if not moves:
                    break
                event, state = rng.choice(moves)
                happened.add(event)


def test_a_machine_with_rewards_of_its_own_is_compiled_for_an_agent_alone():
    machine = hk.RewardMachine(
        initial="u0",
        transitions={("u0", "a"): "u1", ("u1", "b"): "u0"},
        final=(),
        rewards={("u0", "a"): 2.5, ("u1", "b"): -1.0},
    )
    grid = hk.Grid(1, 3, frozenset(), {"x": frozenset({0}), "y": frozenset({2})})
    events = {"a": {"A1": hk.Condition("x")}, "b": {"A1": hk.Condition("y")}}
    task = hk.Task("rewards", grid, {"A1": hk.Agent(1, ("a", "b"))}, events, machine)
    assert compile_task(task).reward[0, :, :, 0].tolist() == [[2.5, 0, 0], [0, 0, -1.0]]  # one kind for each cell
    assert compare_walks(task, 100, seed=0) > 10


# Many agents.


def test_a_thousand_agents_are_compiled_without_listing_the_teams_states(monkeypatch):
    def list_states(*machines: object) -> None:
        raise AssertionError("the states of the composition were listed")

    monkeypatch.setattr("hocket.machine.composition._explore", list_states)
    task = hk.rendezvous(1000)
    assert task.machine.most_states == 4**1000
    tables = compile_task(task)
    assert tables.states.tolist() == [4] * 1000
    assert tables.knowers.tolist() == [1000 if event == "r" else 1 for event in task.events]
    assert len(tables.team_next) == 0
    assert len(compare_plays(task, 3, seed=0)[0].events) > 0


def test_the_task_of_a_thousand_agents_is_well_made():
    assert hk.check_task(hk.rendezvous(1000)).ok


def many_events(grid: hk.Grid, start: int) -> hk.Task:
    """An agent with more events than there are numbers of 16 bits; the last one completes the task."""
    events = [f"e{number}" for number in range(2**15 + 1)]
    machine = hk.RewardMachine(initial="u0", transitions={("u0", events[-1]): "u1"}, final={"u1"}, events=events)
    conditions = {event: {"A1": hk.Condition("end")} for event in events}
    return hk.Task("many", grid, {"A1": hk.Agent(start, events)}, conditions, machine)


def test_cells_and_events_beyond_16_bits_are_told_apart():
    grid = hk.Grid(1, 2**15 + 3, frozenset(), {"end": frozenset({2**15 + 2})})
    task = many_events(grid, start=2**15)
    tables = compile_task(task)
    assert tables.event.max() == 2**15 and tables.next_cell.max() == 2**15 + 2
    assert compare_walks(task, 12, seed=0) > 0
    assert compile_task(hk.load_task("buttons")).next_cell.dtype == np.int16  # small tables stay small


def test_more_events_than_there_are_numbers_for_are_refused(monkeypatch):
    monkeypatch.setattr("hocket.task.tables.MOST_EVENTS", 2**15)
    with pytest.raises(hk.HocketError, match=re.escape("32,769")):
        compile_task(many_events(hk.Grid(1, 2, frozenset(), {"end": frozenset({1})}), 0))


def test_tables_that_would_be_too_large_are_refused_with_their_sizes(monkeypatch):
    monkeypatch.setattr("hocket.task.tables.MOST_ENTRIES", 20)
    sizes = "3 agents x 5 machine states x 3 kinds of steps x 1 events at once"
    with pytest.raises(hk.HocketError, match=f"entries in its tables, got {sizes}"):
        compile_task(hk.load_task("buttons"))


@some
@given(task=tasks())
def test_sparse_lists_say_who_controls_what_and_which_chances_are_fixed(task):
    tables, agents = compile_task(task), list(task.agents)
    for number, conditions in enumerate(task.events.values()):
        sole = agents.index(next(iter(conditions))) if len(conditions) == 1 else -1
        assert tables.controller[number] == sole
    for index, agent in enumerate(task.agents.values()):
        own = slice(tables.first_sync[index], tables.first_sync[index + 1])
        events = [list(task.events)[number] for number in tables.sync_event[own]]
        assert dict(zip(events, tables.sync_chance[own].tolist(), strict=True)) == dict(agent.sync)


def test_nothing_has_an_entry_for_each_agent_and_each_event():
    """What it takes to compile twice as many agents is twice as much, not four times."""
    small, large = (compile_task(hk.rendezvous(agents)) for agents in (200, 400))
    for name, one, other in zip(small._fields, small, large, strict=True):
        if isinstance(one, np.ndarray):
            assert other.size <= 2 * one.size + 1, name


def test_agents_with_the_same_gates_share_their_moves():
    assert compile_task(hk.rendezvous(50)).next_cell.shape[0] == 1
    assert compile_task(hk.load_task("buttons")).next_cell.shape[0] == 3


def test_more_that_happens_by_itself_than_can_be_tabulated_is_refused(monkeypatch):
    monkeypatch.setattr("hocket.task.individual.MOST_HAPPENING", 5)
    with pytest.raises(hk.HocketError, match="fewer events in a row in one step"):
        individual_table(compile_task(hk.load_task("crew-2")), 0, 0.3)


def test_a_task_without_events_has_chances_too():
    machine = hk.RewardMachine(initial="u0", transitions={})
    task = hk.Task("nothing", hk.Grid(1, 2), {"A1": hk.Agent(0, ())}, {}, machine)
    assert individual_table(compile_task(task), 0, 0.3).chance.tolist() == [[[1.0]]]


def test_no_chance_is_left_open():
    """A chance that the task does not fix is marked by a number that is none, and no mark is left in the chances."""
    tables = compile_task(hk.load_task("buttons"))
    assert len(tables.sync_chance) == 0
    assert not any(np.isnan(table.chance).any() for table in individuals(tables))


@pytest.mark.parametrize("agents", [2, 8, 9])
def test_the_team_machine_is_tabulated_by_the_states_that_it_has_and_not_by_all_combinations(agents):
    task = hk.rendezvous(agents)
    combined = 4**agents  # of the parts' states
    assert len(compile_task(task).team_next) == (2 ** (agents + 1) if combined <= MOST_COMBINED else 0)
