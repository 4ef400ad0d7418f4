"""Many copies of an agent at once: each of them is the environment of one."""

from copy import deepcopy
from random import Random

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from hypothesis import given

import hocket as hk
import hocket.adapters
from hocket.adapters.individual import IndividualEnvs
from hocket.adapters.observations import KINDS, Counterfactuals
from hocket.errors import SettingsError, TaskError
from task_strategies import few, random_task, tasks
from worlds import corridor

COPIES = 5


def side_by_side(task: hk.Task, agent: str, **settings: object) -> tuple[IndividualEnvs, VectorEnv]:
    """Make copies, by arrays and one by one."""
    one_by_one = SyncVectorEnv([lambda: hk.gym.individual_env(task, agent, counterfactuals=False, **settings)] * COPIES)
    return hk.gym.individual_vector_env(task, agent, COPIES, **settings), one_by_one


def compare(task: hk.Task, agent: str, steps: int, seed: object, **settings: object) -> int:
    """Let copies act at random, by arrays and one by one; count the episodes that ended."""
    many, one_by_one = side_by_side(task, agent, **settings)
    rng, ended = np.random.default_rng(0), 0
    assert data_equivalence(many.reset(seed=seed), one_by_one.reset(seed=seed), exact=True)
    for _ in range(steps):
        actions = rng.integers(0, 5, COPIES)
        results, expected = many.step(actions), one_by_one.step(actions)
        assert data_equivalence(list(results), list(expected), exact=True)
        ended += int((results[2] | results[3]).sum())
    assert data_equivalence(many.reset(), one_by_one.reset(), exact=True)
    assert data_equivalence(list(many.step(actions)), list(one_by_one.step(actions)), exact=True)
    return ended


@few
@given(task=tasks())
def test_copies_do_the_same_by_arrays_and_one_by_one(task):
    for name in task.agents:
        compare(task, name, 60, seed=3, max_episode_steps=17, observation="index")


@pytest.mark.parametrize("kind", KINDS)
def test_copies_see_the_same_by_arrays_and_one_by_one(kind):
    assert (
        compare(hk.load_task("buttons"), "A1", 100, seed=3, max_episode_steps=40, observation=kind, shaping=0.9) >= 10
    )


def test_many_episodes_end_in_the_comparisons():
    ended = [compare(random_task(Random(seed)), "A1", 60, seed, max_episode_steps=17) for seed in range(10)]
    assert min(ended) >= 3 * COPIES


def test_each_copy_may_have_a_seed_of_its_own():
    assert compare(hk.load_task("buttons"), "A1", 100, seed=[9, 4, 2**64 - 1, 4, 0], max_episode_steps=40) >= 10


def test_a_copy_that_is_given_no_seed_goes_on_to_its_next_episode():
    many, one_by_one = side_by_side(hk.load_task("buttons"), "A2", observation="index")
    for envs in (many, one_by_one):
        envs.reset(seed=1)
        envs.reset(seed=[5, None, None, 6, None])
    rng = np.random.default_rng(1)
    for _ in range(100):
        actions = rng.integers(0, 5, COPIES)
        assert many.step(actions)[0].tolist() == one_by_one.step(actions)[0].tolist()


def test_copies_without_seeds_draw_different_ones():
    envs = hk.gym.individual_vector_env("buttons", "A2", 200, observation="index")
    envs.reset()
    rng = np.random.default_rng(1)
    for _ in range(100):
        seen = envs.step(np.full(200, rng.integers(0, 4)))[0]
    assert len(set(seen.tolist())) > 1


@few
@given(task=tasks())
def test_counterfactuals_of_copies_are_those_of_each(task):
    """In the step in which a copy begins again it has none, and its rows mean nothing."""
    name = next(iter(task.agents))
    envs = hk.gym.individual_vector_env(
        task, name, COPIES, observation="dict", max_episode_steps=17, counterfactuals=True
    )
    singles = [hk.gym.individual_env(task, name, observation="dict", max_episode_steps=17) for _ in range(COPIES)]
    envs.reset(seed=3)
    for copy, single in enumerate(singles):
        single.reset(seed=3 + copy)
    over, rng = [False] * COPIES, np.random.default_rng(2)
    for _ in range(40):
        actions = rng.integers(0, 5, COPIES)
        info = envs.step(actions)[4]
        assert info["_counterfactuals"].tolist() == [not own for own in over]
        for copy, single in enumerate(singles):
            if over[copy]:
                single.reset()
                over[copy] = False
                continue
            _, _, terminated, truncated, own = single.step(actions[copy])
            over[copy] = terminated or truncated
            assert data_equivalence(take(info["counterfactuals"], copy), own["counterfactuals"], exact=True)


def take(others: Counterfactuals, copy: int) -> Counterfactuals:
    """Pick the counterfactuals of one copy."""
    return Counterfactuals(
        *({key: part[copy] for key, part in own.items()} if isinstance(own, dict) else own[copy] for own in others)
    )


# Gymnasium's rules.


def test_gymnasium_makes_copies_by_name():
    name = "hocket/Individual-v0"
    envs = gymnasium.make_vec(
        name, num_envs=3, vectorization_mode="vector_entry_point", task="buttons", agent="A2", observation="index"
    )
    assert isinstance(envs, IndividualEnvs)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert isinstance(gymnasium.make_vec(name, num_envs=3, task="buttons", agent="A2"), IndividualEnvs)
    assert isinstance(
        gymnasium.make_vec(name, num_envs=3, vectorization_mode="sync", task="buttons", agent="A2"), SyncVectorEnv
    )


@pytest.mark.parametrize("kind", KINDS)
def test_what_copies_see_lies_in_their_space(kind):
    envs = hk.gym.individual_vector_env("buttons", "A2", 4, observation=kind)
    assert envs.reset(seed=0)[0] in envs.observation_space
    assert envs.action_space.seed(0) == 0
    for _ in range(20):
        assert envs.step(envs.action_space.sample())[0] in envs.observation_space


def test_a_copy_whose_episode_has_ended_begins_again_whatever_its_action():
    envs = hk.gym.individual_vector_env(corridor(3), "A1", 2, observation="index")
    envs.reset(seed=0)
    kept = [envs.step(np.array([1, 4]))[:4] for _ in range(4)]
    assert [seen.tolist() for seen, *_ in kept] == [[2, 0], [5, 0], [0, 0], [2, 0]]
    assert [reward.tolist() for _, reward, *_ in kept] == [[0, 0], [1, 0], [0, 0], [0, 0]]
    assert [over.tolist() for _, _, over, _ in kept] == [[False] * 2, [True, False], [False] * 2, [False] * 2]


def test_results_are_not_changed_by_later_steps():
    envs = hk.gym.individual_vector_env(
        "buttons", "A2", 50, observation="dict", counterfactuals=True, max_episode_steps=5
    )
    rng, kept, copied = np.random.default_rng(0), [], []
    envs.reset(seed=0)
    for _ in range(12):
        results = list(envs.step(rng.integers(0, 5, 50)))
        kept.append(results)
        copied.append(deepcopy(results))
    assert data_equivalence(kept, copied, exact=True)


# Mistakes.


def test_steps_come_after_a_reset():
    with pytest.raises(ResetNeeded):
        hk.gym.individual_vector_env("buttons", "A2", 2).step(np.array([0, 0]))


@pytest.mark.parametrize("actions", [[0], [0, 5], [-1, 0], [0.0, 1.0], [[0, 0]]])
def test_each_copy_needs_an_action(actions):
    envs = hk.gym.individual_vector_env("buttons", "A2", 2)
    envs.reset(seed=0)
    with pytest.raises(TaskError, match=r"actions: (must be from 0 to 4, got|there must be a number for each of 2)"):
        envs.step(np.array(actions))


def test_there_are_as_many_seeds_as_copies():
    with pytest.raises(SettingsError, match="there must be a seed for each of 2 copies, got 3"):
        hk.gym.individual_vector_env("buttons", "A2", 2).reset(seed=[1, 2, 3])


@pytest.mark.parametrize("copies", [0, 1.5, True])
def test_there_is_at_least_one_copy(copies):
    with pytest.raises(SettingsError, match="num_envs must be an integer of at least 1, got"):
        hk.gym.individual_vector_env("buttons", "A2", copies)
