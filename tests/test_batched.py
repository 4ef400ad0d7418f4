"""Reward machines as arrays: the same as the plain interpreter, in whichever library."""

from collections.abc import Iterator
from random import Random

import array_api_compat as compat
import array_api_strict
import numpy as np
import pytest
import torch

import hocket as hk
from hocket.adapters.events import Synchronisation
from hocket.errors import AssignmentError, SettingsError
from hocket.machine.names import Names
from hocket.random import threshold
from hocket.task.episode import IndividualEpisode
from hocket.task.settling import propose, settle
from task_strategies import random_task

LIBRARIES = [np, torch, array_api_strict]
COPIES = 24


def to_numpy(array) -> np.ndarray:
    return np.from_dlpack(array) if not isinstance(array, np.ndarray) else array


def positions(task: hk.Task, rng: Random) -> np.ndarray:
    """Draw where everyone is, mostly where something is to be done."""
    floor = task.grid.floor_cells.tolist()
    places = [cell for cells in task.grid.places.values() for cell in cells]
    return np.array([[rng.choice(rng.choice((floor, places))) for _ in task.agents] for _ in range(COPIES)])


def plain_step(task: hk.Task, cells, before, states, team):
    """One copy, by the plain interpreter."""
    now, was = (dict(zip(task.agents, part.tolist(), strict=True)) for part in (cells, before))
    settled = settle(task, now, states, was)
    reward = 0.0
    for event in settled.events:
        if isinstance(task.machine, hk.RewardMachine):
            reward += task.machine.rewards.get((team, event), 0.0)
        team = task.machine.step(team, event)
    return settled, team, reward


def named(machines, agents_row) -> dict[str, str]:
    return {agent: machines.states[agent][number] for agent, number in zip(machines.agents, agents_row, strict=True)}


def is_done(task: hk.Task, states) -> bool:
    return all(states[agent] in machine.final for agent, machine in task.machines.items())


@pytest.mark.parametrize("seed", range(30))
def test_steps_are_those_of_the_plain_interpreter_on_random_tasks(seed):
    rng = Random(seed)
    task, xp = random_task(rng), LIBRARIES[seed % len(LIBRARIES)]
    machines = hk.gym.batched(task)
    state = machines.reset(COPIES, like=xp.zeros(1))
    plain = [(dict(zip(task.agents, (m.initial for m in task.machines.values()), strict=True)), task.machine.initial)]
    plain *= COPIES
    for _ in range(12):
        cells, was = positions(task, rng), positions(task, rng)
        holds = machines.holds(xp.asarray(cells), xp.asarray(was))
        state, happened, reward, done = machines.step(state, holds, xp.float64)
        for copy in range(COPIES):
            before, team = plain[copy]
            settled, team, paid = plain_step(task, cells[copy], was[copy], before, team)
            if task.machine.has_completion_rewards:
                paid = float(is_done(task, settled.states) and not is_done(task, before))
            plain[copy] = (dict(settled.states), team)
            assert named(machines, to_numpy(state.agents)[copy]) == settled.states
            assert {machines.events[e] for e in np.flatnonzero(to_numpy(happened)[copy])} == set(settled.events)
            assert float(reward[copy]) == paid
            assert bool(done[copy]) == is_done(task, settled.states)


def with_rewards(rng: Random) -> hk.Task:
    """Draw a task of one agent whose machine pays for many transitions."""
    while True:
        task = random_task(rng)
        if task.is_single_agent and isinstance(task.machine, hk.RewardMachine):
            break
    team = task.machine
    rewards = {key: rng.choice((0.1, 0.2, 0.7, -0.3)) for key in team.transitions}
    paid = hk.RewardMachine(
        initial=team.initial,
        transitions=dict(team.transitions),
        final=set(team.final),
        events=team.events,
        rewards=rewards,
    )
    return hk.Task(task.name, task.grid, task.agents, task.events, paid, slip=task.slip)


def test_rewards_of_transitions_add_up_to_the_same_number():
    total = 0.0
    for seed in range(9):
        rng = Random(1_000 + seed)
        task, xp = with_rewards(rng), LIBRARIES[seed % len(LIBRARIES)]
        machines = hk.gym.batched(task)
        state = machines.reset(COPIES, like=xp.zeros(1))
        plain = [({name: machine.initial for name, machine in task.machines.items()}, task.machine.initial)] * COPIES
        for _ in range(12):
            cells, was = positions(task, rng), positions(task, rng)
            holds = machines.holds(xp.asarray(cells), xp.asarray(was))
            state, _, reward, _ = machines.step(state, holds, xp.float64)
            for copy in range(COPIES):
                settled, team, paid = plain_step(task, cells[copy], was[copy], *plain[copy])
                plain[copy] = (dict(settled.states), team)
                assert float(reward[copy]) == paid
                assert task.machine.states.index(str(team)) == int(state.team[copy])
                total += abs(paid)
    assert total > 20


def drawn_decompositions(count: int) -> Iterator[hk.Decomposition]:
    """Draw decompositions of teams that know of each other's events; control is drawn, too."""
    for seed in range(count):
        rng = Random(seed)
        task = random_task(rng)
        control = {event: agents for event, agents in task.controllers.items() if rng.random() < 0.7}
        yield hk.decompose(task.machine, task.knows, control)


def test_a_decomposition_steps_as_a_wrapped_world_does():
    happened_at_all = 0
    for number, decomposition in enumerate(drawn_decompositions(25)):
        assert decomposition.ok
        rules = Synchronisation(decomposition, Names(), Names())
        machines = hk.gym.batched(decomposition)
        rng, state = np.random.default_rng(number), machines.reset(COPIES)
        for _ in range(8):
            holds = rng.random((COPIES, len(machines.agents), len(machines.events))) < 0.6
            before = state
            state, happened, _, _ = machines.step(state, holds)
            for copy in range(COPIES):
                answer = {
                    agent: [event for e, event in enumerate(machines.events) if holds[copy, a, e] and event in knows]
                    for a, (agent, knows) in enumerate(decomposition.knows.items())
                }
                events = rules.settle(answer, named(machines, before.agents[copy]), machines.agents, {}).events
                assert {machines.events[e] for e in np.flatnonzero(happened[copy])} == set(events)
                happened_at_all += len(events)
                after = named(machines, before.agents[copy])
                for event in events:
                    for agent in rules.knowers[event]:
                        after[agent] = decomposition.machines[agent].transitions[after[agent], event]
                assert named(machines, state.agents[copy]) == after
    assert happened_at_all > 1_000


def alone_step(task: hk.Task, agent: str, state: str, cell: int, before: int, draw: int):
    """One agent alone, by the plain interpreter, from any state in any cell."""
    episode = IndividualEpisode(task, agent)
    episode.state, episode.cell, episode.before = state, cell, before
    if state in episode.machine.final:
        return state, (), 0.0
    for event in (proposed := propose(task, agent, cell, state, before)):
        if draw < threshold(episode._probability(event) or 1.0):
            events, reward = episode._settle(event)
            return episode.state, events, reward
    assert not proposed or draw > 0
    return state, (), 0.0


@pytest.mark.parametrize("seed", range(12))
def test_agents_alone_advance_as_the_plain_interpreter_lets_them_from_every_state(seed):
    rng = Random(seed)
    task, xp = random_task(rng), LIBRARIES[seed % len(LIBRARIES)]
    machines = hk.gym.batched(task)
    cells, was = positions(task, rng), positions(task, rng)
    draws = np.array([[rng.randrange(threshold(1.0)) for _ in task.agents] for _ in range(COPIES)])
    chances = np.array([
        [IndividualEpisode(task, agent)._probability(event) or 1.0 if event in task.knows[agent] else 0.0
         for event in machines.events] for agent in machines.agents
    ])  # fmt: skip
    ready = draws[..., None] < np.vectorize(threshold)(chances)
    holds = machines.holds(xp.asarray(cells), xp.asarray(was))
    all_states = machines.counterfactuals(holds, xp.asarray(ready), xp.float64)
    compared = 0
    for copy in range(COPIES):
        for place, agent in enumerate(machines.agents):
            for number, name in enumerate(machines.states[agent]):
                at = (copy, number, place)
                drawn = (int(part[copy, place]) for part in (cells, was, draws))
                after, events, reward = alone_step(task, agent, name, *drawn)
                assert machines.states[agent][int(all_states.state[at])] == after
                happened = np.flatnonzero(to_numpy(all_states.happened)[at])
                assert {machines.events[e] for e in happened} == set(events)
                assert float(all_states.reward[at]) == reward
                assert bool(all_states.done[at]) == (after in task.machines[agent].final)
                assert machines.is_state[number, place] == (name not in task.machines[agent].final)
                compared += 1
    assert compared >= COPIES
    real = machines.reset(COPIES, like=holds).agents
    one = machines.step_alone(real, holds, xp.asarray(ready), xp.float64)
    for place in range(len(machines.agents)):
        start = int(real[0, place])
        assert np.array_equal(to_numpy(one.state)[:, place], to_numpy(all_states.state)[:, start, place])


@pytest.mark.parametrize("xp", LIBRARIES, ids=lambda xp: xp.__name__)
def test_what_agents_observe_has_their_machine_states_appended(xp):
    machines = hk.gym.batched("buttons")
    state = machines.reset(4, like=xp.zeros(1))
    seen = machines.observe(xp.ones((4, 3, 2)), state)
    most = max(map(len, machines.states.values()))
    assert seen.shape == (4, 3, 2 + most)
    assert to_numpy(xp.sum(seen, axis=-1)).tolist() == [[3.0] * 3] * 4
    index = machines.observe(xp.ones((4, 3, 2)), state, "index")
    assert np.array_equal(to_numpy(index)[..., 2], to_numpy(state.agents))
    assert compat.array_namespace(seen) is compat.array_namespace(xp.zeros(1))


@pytest.mark.parametrize("xp", LIBRARIES, ids=lambda xp: xp.__name__)
def test_gates_close_regions_to_agents_until_their_events(xp):
    task = hk.load_task("buttons")
    machines = hk.gym.batched(task)
    state = machines.reset(1, like=xp.zeros(1))

    def closed() -> dict[str, set[int]]:
        rows = to_numpy(machines.closed(state))[0]
        return {agent: {*np.flatnonzero(row).tolist()} for agent, row in zip(machines.agents, rows, strict=True)}

    regions = {name: {*task.grid.places[f"{name} region"]} for name in ("red", "yellow", "green")}
    assert closed() == {"A1": regions["red"], "A2": regions["yellow"], "A3": regions["green"]}
    pressed = np.zeros((1, 3, len(machines.events)), np.bool_)
    pressed[0, 0, machines.events.index("Y")] = True
    state, *_ = machines.step(state, xp.asarray(pressed))
    assert closed() == {"A1": regions["red"], "A2": set(), "A3": regions["green"]}


def test_copies_that_are_done_begin_again_and_the_others_go_on():
    machines = hk.gym.batched("rendezvous-2")
    everything = np.ones((3, 2, len(machines.events)), np.bool_)
    state = machines.reset(3)
    while not (step := machines.step(state, everything)).done.all():
        state = step.state
    assert step.reward.tolist() == [1.0] * 3
    again = machines.restart(step.state, np.array([True, False, True]))
    initial = machines.reset(3)
    assert np.array_equal(again.agents[[0, 2]], initial.agents[[0, 2]])
    assert np.array_equal(again.agents[1], step.state.agents[1])


def test_any_leading_axes_will_do():
    machines = hk.gym.batched("buttons")
    holds = np.random.default_rng(0).random((4, 5, 3, len(machines.events))) < 0.5
    grid = machines.step(machines.reset((4, 5)), holds)
    row = machines.step(machines.reset(20), holds.reshape(20, 3, -1))
    one = machines.step(machines.reset(()), holds[0, 0])
    assert np.array_equal(grid.state.agents.reshape(20, 3), row.state.agents)
    assert np.array_equal(one.state.agents, row.state.agents[0])


def test_torch_maps_and_compiles_to_one_graph():
    machines = hk.gym.batched("buttons")
    holds = torch.rand((6, 3, len(machines.events)), generator=torch.Generator().manual_seed(0)) < 0.5
    state = machines.reset(6, like=holds)
    mapped = torch.func.vmap(lambda agents, team, own: machines.step(type(state)(agents, team), own))(*state, holds)
    assert torch.equal(mapped.state.agents, machines.step(state, holds).state.agents)


def test_what_cannot_be_batched_says_why():
    with pytest.raises(SettingsError, match="rounds must be"):
        hk.gym.batched("buttons", rounds=0)
    task = hk.load_task("buttons")
    with pytest.raises(AssignmentError, match="must be decomposable"):
        hk.gym.batched(hk.decompose(task.machine, {agent: {"Goal"} for agent in task.agents}))
    with pytest.raises(SettingsError, match="has no map"):
        hk.gym.batched(hk.decompose(task.machine, task.knows)).holds(np.zeros((1, 3), int))
    with pytest.raises(SettingsError, match="encoding 'binary' does not exist"):
        hk.gym.batched(task).encode(hk.gym.batched(task).reset(1), "binary")


def test_a_table_of_all_steps_says_what_the_rounds_do():
    tabulated = 0
    for seed in range(20):
        machines = hk.gym.batched(random_task(Random(500 + seed)))
        rng, tables = np.random.default_rng(seed), machines.tables
        states = [rng.integers(0, len(names), COPIES) for names in machines.states.values()]
        team = rng.integers(0, max(1, len(tables.team_next)), COPIES)
        state = type(machines.reset(1))(np.stack(states, axis=-1).astype(np.int32), team.astype(np.int32))
        shape = (COPIES, len(machines.agents), len(machines.events))
        holds, ready = rng.random(shape) < 0.6, rng.random(shape) < 0.5
        rounds = machines._settle(tables, state, holds, np.float64)
        for looked, computed in zip(machines.step(state, holds, np.float64), rounds, strict=True):
            assert all(map(np.array_equal, looked, computed))
        alone = machines._settle_alone(tables, state.agents, holds, ready, np.float64)
        assert all(map(np.array_equal, machines.step_alone(state.agents, holds, ready, np.float64), alone))
        tabulated += tables.team_lookup is not None
    assert tabulated > 10


def test_jax_compiles_maps_and_scans():
    jax = pytest.importorskip("jax")
    task = hk.load_task("buttons")
    machines = hk.gym.batched(task)
    cells = np.random.default_rng(0).integers(0, task.grid.cells, (40, COPIES, 3))

    def play(cells, shape):
        def step(state, cells):
            state, happened, reward, done = machines.step(state, machines.holds(cells))
            return machines.restart(state, done), (state.agents, happened, reward, done)

        return jax.lax.scan(step, machines.reset(shape, like=cells), cells)[1]

    state, plain = machines.reset(COPIES), []
    for row in cells:
        state, happened, reward, done = machines.step(state, machines.holds(row))
        plain.append((state.agents, happened, reward, done))
        state = machines.restart(state, done)
    scanned = jax.jit(play, static_argnums=1)(jax.numpy.asarray(cells), COPIES)
    mapped = jax.jit(jax.vmap(lambda row: play(row, ()), in_axes=1, out_axes=1))(jax.numpy.asarray(cells))
    for expected, *found in zip(zip(*plain, strict=True), scanned, mapped, strict=True):
        assert all(np.array_equal(np.stack(expected), np.asarray(each)) for each in found)
    holds, ready = machines.holds(cells[0]), np.ones((COPIES, 3, 1), np.bool_)
    others = jax.jit(machines.counterfactuals)(jax.numpy.asarray(holds), jax.numpy.asarray(ready))
    for compiled, plainly in zip(others, machines.counterfactuals(holds, ready), strict=True):
        assert np.array_equal(np.asarray(compiled), plainly)
