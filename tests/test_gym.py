"""One agent out: what it observes, Gymnasium's rules, and equality with episodes in plain Python."""

import pickle
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from itertools import pairwise
from random import Random

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env, data_equivalence
from hypothesis import given

import hocket as hk
import hocket.adapters
from hocket.adapters.individual import IndividualEnv, IndividualModel, potentials
from hocket.adapters.observations import KINDS, Counterfactuals, ObservationEncoder, stack
from hocket.draw.palette import AGENT_COLORS
from hocket.errors import SettingsError, TaskError
from hocket.random import CHANCE_BITS
from hocket.task.grid import ACTIONS, outcome_probabilities
from task_strategies import Guide, few, random_task, some, tasks
from worlds import corridor, gatehouse

WORLDS = [
    spaces.Discrete(3, start=2),
    spaces.Box(-1, 1, (2, 2), np.float64),
    spaces.Box(0, 255, (2,), np.uint8),
    spaces.Box(-1e300, 1e300, (1,), np.float64),
    spaces.MultiDiscrete([2, 3]),
    spaces.Dict(place=spaces.Discrete(2), wind=spaces.Box(-np.inf, np.inf)),
    spaces.Tuple((spaces.Discrete(2), spaces.MultiBinary(3))),
]


# What an agent sees.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_what_is_seen_lies_in_its_space_and_can_be_stacked(world, kind):
    if kind == "index" and not isinstance(world, spaces.Discrete):
        with pytest.raises(SettingsError, match=r"an index needs a Discrete world, got .*; use 'onehot' or 'dict'"):
            ObservationEncoder(world, 4, kind)
        return
    world.seed(0)
    encoder = ObservationEncoder(world, 4, kind)
    observations, states = [world.sample() for _ in range(6)], [0, 3, 1, 1, 2, 0]
    rows = [encoder.encode(*pair) for pair in zip(observations, states, strict=True)]
    assert all(row in encoder.space for row in rows)
    np.testing.assert_equal(encoder.encode_each(observations, states), stack(rows, encoder.space))


def test_a_vector_has_the_world_first_and_the_machine_last():
    assert ObservationEncoder(spaces.Discrete(3), 2).encode(1, 0).tolist() == [0, 1, 0, 1, 0]
    assert ObservationEncoder(spaces.Box(-1, 1, (2,)), 3).encode(np.float32([0.5, -1]), 2).tolist() == [
        0.5,
        -1,
        0,
        0,
        1,
    ]


def test_an_index_counts_the_machine_fastest():
    encoder = ObservationEncoder(spaces.Discrete(3), 2, "index")
    assert [int(encoder.encode(cell, state)) for cell in range(3) for state in range(2)] == [0, 1, 2, 3, 4, 5]


def test_a_kind_of_observation_that_does_not_exist_is_told_the_nearest():
    with pytest.raises(SettingsError, match=r"observation 'one-hot' does not exist .did you mean 'onehot'"):
        ObservationEncoder(spaces.Discrete(3), 2, "one-hot")


def test_a_world_that_is_no_vector_is_told_what_to_use():
    with pytest.raises(SettingsError, match="a Sequence cannot be flattened to a vector; use 'dict'"):
        ObservationEncoder(spaces.Sequence(spaces.Discrete(2)), 2)


# Gymnasium's rules.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", [None, "ansi", "rgb_array"])
def test_gymnasium_has_nothing_to_say_of_an_agent_alone(kind, mode):
    check_env(hk.gym.individual_env("buttons", "A2", observation=kind, render_mode=mode))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["hocket/Individual-v0", "hocket.adapters:hocket/Individual-v0"])
def test_gymnasium_makes_an_agent_by_name(kind, name):
    env = gymnasium.make(name, task="buttons", agent="A2", observation=kind)
    check_env(env.unwrapped)
    assert isinstance(env.unwrapped, IndividualEnv) and env.unwrapped.agent == "A2"
    env.reset(seed=0)
    for action in range(5):
        env.step(action)


def test_a_task_may_be_a_value_a_name_or_a_file(tmp_path):
    task = hk.load_task("buttons")
    path = tmp_path / "mine.toml"
    hk.save_task(task, path)
    for given_task in (task, "buttons", path, str(path)):
        env = gymnasium.make("hocket/Individual-v0", task=given_task, agent="A1")
        assert env.unwrapped.task.machine == task.machine
        assert env.spec.make().unwrapped.task.machine == task.machine


def test_an_agent_alone_is_made_without_compiling_anything():
    code = "import hocket as hk, sys; hk.gym.individual_env('buttons', 'A1');"
    code += "env = hk.gym.team_env('buttons', max_episode_steps=3);"
    code += "hk.evaluate(env, dict.fromkeys(env.possible_agents, lambda seen: 4), 1);"
    done = subprocess.run(
        [sys.executable, "-c", code + "print('numba' in sys.modules)"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


@pytest.mark.parametrize(("missing", "name"), [("gymnasium", "individual_env"), ("pettingzoo", "team_env")])
def test_without_the_extra_one_is_told_of_it(missing, name):
    code = f"import sys; sys.modules[{missing!r}] = None; import hocket as hk, hocket.adapters; hk.gym.{name}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    said = f"ModuleNotFoundError: hocket.gym.{name} needs {missing}, of the extra gym: in a clone, pip install '.[gym]'"
    assert said in done.stderr


# Equality with episodes in plain Python.


def walk(
    env: IndividualEnv, episode: hk.IndividualEpisode, guide: Guide, steps: int
) -> Iterator[tuple[str, tuple[int, str], tuple]]:
    """Let an agent act in an environment and in its episode; yield the action, what was before, and what came of it."""
    for _ in range(steps):
        before = (episode.cell, episode.state)
        action = guide.action(env.agent, *before)
        results = env.step(ACTIONS.index(action))
        step = episode.step(action)
        cell, state = divmod(int(results[0]), len(env.machine.states))
        assert (cell, tuple(env.machine.states)[state]) == (step.cell, step.state)
        assert results[1:3] == (step.reward, step.done)
        assert {key: results[4][key] for key in ("events", "proposed", "machine_state")} == {
            "events": step.events,
            "proposed": step.proposed,
            "machine_state": step.state,
        }
        yield action, before, results
        if step.done or results[3]:
            return


def compare_episodes(task: hk.Task, steps: int, seed: int) -> int:
    """Compare the first episodes of a seed with those in plain Python, for all agents; count the events."""
    guide, events = Guide(task, Random(seed)), 0
    for name in task.agents:
        env = hk.gym.individual_env(task, name, observation="index", max_episode_steps=steps)
        for number in range(3):
            env.reset(seed=seed if number == 0 else None)
            episode = hk.IndividualEpisode(task, name, seed, number)
            events += sum(results[4]["event"] is not None for _, _, results in walk(env, episode, guide, steps))
    return events


@some
@given(task=tasks())
def test_an_agent_does_the_same_as_in_an_episode_in_plain_python(task):
    compare_episodes(task, 60, seed=5)


def test_much_happens_in_the_episodes_that_are_compared():
    assert sum(compare_episodes(random_task(Random(seed)), 60, seed) for seed in range(20)) > 100


def test_an_agent_waits_for_teammates_as_it_is_told():
    literal = hk.gym.individual_env("buttons", "A1", observation="index", sync_probability=1e-9, sync_literal=True)
    alone = hk.gym.individual_env("buttons", "A1", observation="index", sync_probability=1e-9)
    for env, state in ((literal, "u0"), (alone, "{u1,…,u5}")):  # A1 presses yellow by itself
        env.reset(seed=0)
        for _ in range(20):
            info = env.step(1)[4]
        assert info["machine_state"] == state


# Seeds.


def record(env: gymnasium.Env, seed: int | None, actions: list[int]) -> list[object]:
    """Play an episode with given actions and keep all that comes out."""
    kept: list[object] = [env.reset(seed=seed)]
    for action in actions:
        kept.append(env.step(action))
        if kept[-1][2] or kept[-1][3]:
            break
    return kept


def test_the_same_seed_and_actions_give_the_same_whole_episodes():
    one, other = (hk.gym.individual_env("buttons", "A2", sync_probability=0.5) for _ in range(2))
    actions = [Random(1).randrange(5) for _ in range(300)]
    first = [record(one, seed, actions) for seed in (7, None, None)]
    again = [record(other, seed, actions) for seed in (7, None, None)]
    assert data_equivalence(first, again, exact=True)
    assert data_equivalence(record(one, 7, actions), first[0], exact=True)
    assert not any(data_equivalence(part, first[0]) for part in (*first[1:], record(one, 8, actions)))


def test_an_episode_without_a_seed_is_one_of_a_seed_that_was_drawn():
    env = hk.gym.individual_env("buttons", "A2", observation="index")
    env.reset()
    again = hk.gym.individual_env("buttons", "A2", observation="index")
    actions = [Random(2).randrange(5) for _ in range(200)]
    env.reset()
    kept = [env.step(action)[0] for action in actions]
    again.reset(seed=env.episode_seed)
    again.reset()
    assert [again.step(action)[0] for action in actions] == kept


# Counterfactual experiences.


def compare_counterfactuals(task: hk.Task, steps: int, seed: int) -> int:
    """Put an episode in plain Python into every other state and let it act; count those that end in another cell."""
    guide, elsewhere = Guide(task, Random(seed)), 0
    for name in task.agents:
        env = hk.gym.individual_env(task, name, observation="index")
        env.reset(seed=seed)
        episode = hk.IndividualEpisode(task, name, seed)
        states = tuple(env.machine.states)
        for action, (cell, state), results in walk(env, episode, guide, steps):
            other: Counterfactuals = results[4]["counterfactuals"]
            assert {states[own] for own in other.state} == {*states} - {*env.machine.final} - {state}
            for row, own in enumerate(other.state.tolist()):
                twin = hk.IndividualEpisode(task, name, seed)
                twin.cell, twin.state, twin.time = cell, states[own], episode.time - 1
                step = twin.step(action)
                assert divmod(int(other.observation[row]), len(states)) == (cell, own)
                end, after = divmod(int(other.next_observation[row]), len(states))
                assert (end, states[after], after) == (step.cell, step.state, int(other.next_state[row]))
                assert (float(other.reward[row]), bool(other.terminated[row])) == (step.reward, step.done)
                elsewhere += end != episode.cell
    return elsewhere


@few
@given(task=tasks())
def test_counterfactuals_are_what_the_other_states_would_have_made_of_the_step(task):
    compare_counterfactuals(task, 40, seed=2)


def test_counterfactuals_may_end_in_another_cell_because_of_gates():
    assert sum(compare_counterfactuals(random_task(Random(seed)), 40, seed) for seed in range(20)) > 20


def test_a_gate_that_is_closed_now_would_be_open_in_later_states():
    task = gatehouse()
    env = hk.gym.individual_env(task, "A1", observation="dict")
    env.reset(seed=0)
    env.step(1)
    observation, _, _, _, info = env.step(1)  # against the door
    others = info["counterfactuals"]
    assert observation["world"] == 1
    assert others.observation["world"].tolist() == [1] * len(others.state)
    assert 2 in others.next_observation["world"].tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_counterfactuals_are_seen_as_everything_else_is(kind):
    env = hk.gym.individual_env("buttons", "A3", observation=kind)
    env.reset(seed=0)
    others: Counterfactuals = env.step(1)[4]["counterfactuals"]
    rows = [env.encoder.encode(cell, state) for cell, state in zip([8] * len(others.state), others.state, strict=True)]
    np.testing.assert_equal(others.observation, stack(rows, env.encoder.space))
    assert others.reward.shape == others.terminated.shape == others.state.shape == (2,)


def test_counterfactuals_can_be_left_out():
    env = hk.gym.individual_env("buttons", "A3", counterfactuals=False)
    env.reset(seed=0)
    assert "counterfactuals" not in env.step(1)[4]


# Shaping.


def test_a_state_is_worth_what_its_machine_can_still_earn():
    machine = hk.RewardMachine(
        initial="0",
        transitions={("0", "a"): "1", ("0", "b"): "0", ("1", "a"): "end", ("1", "c"): "lost", ("lost", "a"): "lost"},
        final={"end"},
    )
    worth = dict(zip(machine.states, potentials(machine, 0.5).tolist(), strict=True))
    assert worth == {"0": 0.5, "1": 1.0, "end": 0.0, "lost": 0.0}
    paid = hk.RewardMachine(
        initial="0", transitions={("0", "go"): "0", ("0", "stop"): "1"}, rewards={("0", "go"): 1.0, ("0", "stop"): -3.0}
    )
    assert potentials(paid, 0.5) == pytest.approx([2.0, 0.0])


def solve(world: IndividualModel, discount: float) -> np.ndarray:
    """Solve an agent's world by value iteration: the worth of each action, [machine states, cells, actions]."""
    states, cells = len(world.table.is_final), world.table.cells
    state, cell, action = np.indices((states, cells, len(ACTIONS)))
    slip, most = world.table.slip_limit / 2**CHANCE_BITS, 2**CHANCE_BITS - 1
    cases = []  # (chance, what came of it), for each way to slip and for teammates that are ready or not
    for outcome, chance in enumerate(outcome_probabilities(slip)):
        if chance > 0:
            limits = {int(limit) for limit in world.table.limit.ravel() if limit <= most}
            for low, high in pairwise(sorted({0, most + 1} | limits)):
                share = (high - low) / (most + 1)
                cases.append((chance * share, world.advance(cell, state, action, outcome, low)))
    value = np.zeros((states, cells))
    while True:
        worth = sum(
            chance * (moved.reward + discount * np.where(moved.done, 0, value[moved.state, moved.cell]))
            for chance, moved in cases
        )
        worth[world.table.is_final] = 0
        if np.abs(worth.max(axis=2) - value).max() < 1e-13:
            return worth
        value = worth.max(axis=2)


@few
@given(task=tasks())
def test_shaping_takes_the_same_from_all_actions_of_a_state(task):
    """Ng, Harada and Russell 1999: so the best actions stay the best."""
    for name in task.agents:
        plain, shaped = (IndividualModel(task, name, 0.3, False, discount, "index") for discount in (None, 0.9))
        taken = np.where(plain.table.is_final, 0, shaped.potential)[:, None, None]
        np.testing.assert_allclose(solve(shaped, 0.9), solve(plain, 0.9) - taken, atol=1e-9)


def test_shaping_leaves_the_best_way_through_a_corridor():
    models = (IndividualModel(corridor(4), "A1", 0.3, False, discount, "index") for discount in (None, 0.9))
    plain, shaped = (solve(model, 0.9)[0] for model in models)
    assert plain.max(axis=1) == pytest.approx([0.81, 0.9, 1.0, 1.0])
    assert shaped.max(axis=1) == pytest.approx([-0.19, -0.1, 0.0, 0.0])
    assert plain.argmax(axis=1).tolist()[:3] == shaped.argmax(axis=1).tolist()[:3] == [1, 1, 1]


@some
@given(task=tasks())
def test_the_shaped_return_differs_by_the_potentials_of_its_ends(task):
    guide, discount = Guide(task, Random(0)), 0.9
    for name in task.agents:
        plain, shaped = (
            hk.gym.individual_env(task, name, observation="index", shaping=own) for own in (None, discount)
        )
        for env in (plain, shaped):
            env.reset(seed=4)
        difference, factor = 0.0, 1.0
        for _ in range(40):
            action = ACTIONS.index(guide.action(name, plain.cell, tuple(plain.machine.states)[plain.state]))
            (_, own, over, *_), (_, other, *_) = plain.step(action), shaped.step(action)
            difference += factor * (other - own)
            factor *= discount
            if over:
                break
        worth = shaped.model.potential
        assert difference == pytest.approx(factor * worth[shaped.state] - worth[shaped.model.table.initial])


# Ends and mistakes.


def test_an_episode_is_truncated_after_its_steps_and_then_needs_a_reset():
    env = hk.gym.individual_env("buttons", "A2", max_episode_steps=3)
    with pytest.raises(ResetNeeded):
        env.step(4)
    env.reset(seed=0)
    assert [env.step(4)[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]
    with pytest.raises(ResetNeeded, match="also after one has ended"):
        env.step(4)


def test_an_episode_that_ends_in_its_last_step_is_terminated_as_well():
    env = hk.gym.individual_env(corridor(4), "A1", max_episode_steps=3)
    env.reset(seed=0)
    assert [env.step(1)[1:4] for _ in range(3)] == [(0, False, False), (0, False, False), (1, True, True)]


def test_an_agent_that_is_done_from_the_beginning_is_done_after_a_step():
    machine = hk.RewardMachine(initial="there", transitions={("away", "arrive"): "there"}, final={"there"})
    task = hk.Task("done", corridor(3).grid, corridor(3).agents, corridor(3).events, machine)
    env = hk.gym.individual_env(task, "A1")
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(1)
    assert (reward, terminated) == (0, True)
    assert info["counterfactuals"].state.tolist() == []  # no trace leads away


@pytest.mark.parametrize("action", [-1, 5, 1.0, "up", None, np.array([1, 2])])
def test_an_action_is_one_of_five_numbers(action):
    env = hk.gym.individual_env("buttons", "A2")
    env.reset(seed=0)
    with pytest.raises(TaskError, match="action: must be one of 0 up, 1 right, 2 down, 3 left, 4 stay, got"):
        env.step(action)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"observation": "cell"}, "observation 'cell' does not exist"),
        ({"max_episode_steps": 0}, "max_episode_steps must be an integer of at least 1, got 0"),
        ({"sync_probability": 0.0}, "sync_probability must lie above 0 and be at most 1, got 0.0"),
        ({"shaping": 1.0}, "shaping takes the learner's discount, between 0 and 1, got 1.0"),
        ({"render_mode": "rgb"}, "render_mode 'rgb' does not exist .did you mean 'rgb_array'"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(settings, said):
    with pytest.raises(SettingsError, match=said):
        hk.gym.individual_env("buttons", "A2", **settings)


def test_an_agent_that_does_not_exist_is_told_the_nearest():
    with pytest.raises(TaskError, match=r"agent 'a1' does not exist .did you mean 'A1'"):
        hk.gym.individual_env("buttons", "a1")


# Pictures.


def test_a_text_shows_where_the_agent_is_and_which_gates_are_closed_to_it():
    env = hk.gym.individual_env("buttons", "A2", render_mode="ansi")
    env.reset(seed=0)
    lines = env.render().split("\n")
    assert lines[:3] == ["·₁· Y ##· @2· ##·₃·", "· · · ##· · · ##· ·", "· · · ##y×y×y×##n n"]
    assert lines[-2] == "step 0: A2 in u0"


def test_a_picture_has_a_disc_where_the_agent_is_and_hatches_what_is_closed_to_it():
    env = hk.gym.individual_env("buttons", "A2", render_mode="rgb_array")
    env.reset(seed=0)
    image = env.render()
    cells = image.reshape(10, 32, 10, 32, 3).swapaxes(1, 2)  # [row, column, y, x, color]

    def has(color: str) -> set[tuple[int, int]]:
        spots = (cells == list(bytes.fromhex(color[1:]))).all(axis=-1).any(axis=(2, 3))
        return set(zip(*(part.tolist() for part in np.nonzero(spots)), strict=True))

    assert has(AGENT_COLORS[1]) == {(0, 5)}
    shades = [len({*map(tuple, cells[row, column].reshape(-1, 3).tolist())}) for row in (2, 3) for column in (4, 5, 6)]
    assert min(shades) > 10 > len({*map(tuple, cells[5, 1].reshape(-1, 3).tolist())})  # hatched; a free cell


def test_without_a_mode_nothing_is_drawn():
    env = hk.gym.individual_env("buttons", "A2")
    env.reset(seed=0)
    assert env.render() is None


# Tasks travel to the processes of others.


@few
@given(task=tasks())
def test_a_task_can_be_sent_to_another_process(task):
    sent = pickle.loads(pickle.dumps(task))
    assert sent == task
    assert list(sent.events) == list(task.events) and list(sent.agents) == list(task.agents)
    assert deepcopy(task) is task


@pytest.mark.parametrize(
    "code",
    [
        "import gymnasium, hocket",
        "import hocket, gymnasium; hocket.load_task",
        "import gymnasium; gymnasium.make('hocket:hocket/Individual-v0', task='buttons', agent='A1')",
    ],
)
def test_gymnasium_knows_the_environment_as_soon_as_both_are_loaded(code):
    make = "gymnasium.make('hocket/Individual-v0', task='buttons', agent='A1').reset(seed=0)"
    subprocess.run([sys.executable, "-W", "error", "-c", f"{code}\n{make}"], check=True)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_caller_does_to_counterfactuals_is_its_own_affair(kind):
    env, other = (hk.gym.individual_env("buttons", "A2", observation=kind) for _ in range(2))
    env.reset(seed=0), other.reset(seed=0)
    for time in range(60):
        results, expected = env.step(time // 2 % 5), other.step(time // 2 % 5)
        assert data_equivalence(results, expected, exact=True)
        compared = results[4]["counterfactuals"]
        for part in (compared.observation, compared.next_observation):
            for array in part.values() if kind == "dict" else [part]:
                array.fill(1)
        for array in (compared.reward, compared.terminated, compared.state, compared.next_state):
            array.fill(0)


def test_a_copy_of_an_environment_goes_on_as_the_original_does():
    env = hk.gym.individual_env("buttons", "A2", max_episode_steps=300)
    env.reset(seed=3)
    for action in range(5):
        env.step(action)
    copies = [deepcopy(env), pickle.loads(pickle.dumps(env))]
    for time in range(290):
        expected = env.step(time % 5)
        assert all(data_equivalence(copy.step(time % 5), expected, exact=True) for copy in copies)
        if expected[2] or expected[3]:
            break
