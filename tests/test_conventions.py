"""What others' wrappers, vector environments and spaces expect of hocket's environments, and what they get."""

import numpy as np
import pytest
from gymnasium import spaces

import hocket as hk
from hocket.adapters.observations import ObservationEncoder

STOP = {"A1": 4, "A2": 4, "A3": 4}


def one_team():
    return hk.gym.team_env("buttons", observation="index", max_episode_steps=3)


def many(make):
    return make(2, observation="index", max_episode_steps=3)


def individuals(copies, **settings):
    return hk.gym.individual_vector_env("buttons", "A1", copies, **settings)


def teams(copies, **settings):
    return hk.gym.team_vector_env("buttons", copies, **settings)


# Seeds.


def test_a_seed_of_numpys_is_a_seed():
    own, other = one_team(), one_team()
    own.reset(seed=5)
    other.reset(seed=np.int64(5))
    assert type(other.episode_seed) is int
    for _ in range(3):
        assert own.step(STOP)[0] == other.step(STOP)[0]


@pytest.mark.parametrize("make", [individuals, teams])
@pytest.mark.parametrize("seed", [np.int64(5), [5, 6], (np.int64(5), 6), np.array([5, 6])], ids=repr)
def test_copies_take_seeds_of_numpys_one_or_several(make, seed):
    own, other = many(make), many(make)
    own.reset(seed=5)
    other.reset(seed=seed)
    rng = np.random.default_rng(0)
    for _ in range(8):
        actions = rng.integers(0, 5, own.action_space.shape)
        assert (own.step(actions)[0] == other.step(actions)[0]).all()


@pytest.mark.parametrize("make", [one_team, lambda: many(individuals), lambda: many(teams)])
@pytest.mark.parametrize("seed", ["x", 1.5, {}], ids=repr)
def test_what_is_no_seed_is_refused_in_a_sentence(make, seed):
    with pytest.raises(hk.HocketError, match=r"a seed must be a whole number, got "):
        make().reset(seed=seed)


def test_each_of_several_seeds_is_looked_at():
    with pytest.raises(hk.HocketError, match=r"a seed must be a whole number, got 1\.5"):
        many(teams).reset(seed=[1, 1.5])


# Resets.


@pytest.mark.parametrize("make", [individuals, teams])
def test_a_reset_of_some_copies_is_refused_and_not_ignored(make):
    envs = many(make)
    envs.reset(seed=0, options={"anything": "else"})
    with pytest.raises(hk.HocketError, match=r"^reset_mask: "):
        envs.reset(options={"reset_mask": np.array([True, False])})


# Spaces.


class Mission(spaces.Space):
    """A space of sentences that calls itself flat, as that of MiniGrid does."""

    is_np_flattenable = True


def test_a_space_that_claims_to_be_flat_and_is_not_is_told_what_to_use():
    world = spaces.Dict(cell=spaces.Discrete(3), mission=Mission())
    with pytest.raises(hk.HocketError, match=r"a Dict cannot be flattened to a vector; use 'dict'"):
        ObservationEncoder(world, 2, "onehot")
    assert ObservationEncoder(world, 2, "dict").space["world"] is world
