"""One agent out: what it observes, Gymnasium's rules, and equality with episodes in plain Python."""

import numpy as np
import pytest
from gymnasium import spaces

from hocket.adapters.observations import KINDS, Sight, stack
from hocket.errors import SettingsError

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
            Sight(world, 4, kind)
        return
    world.seed(0)
    sight = Sight(world, 4, kind)
    observations, states = [world.sample() for _ in range(6)], [0, 3, 1, 1, 2, 0]
    rows = [sight.show(*pair) for pair in zip(observations, states, strict=True)]
    assert all(row in sight.space for row in rows)
    np.testing.assert_equal(sight.show_each(observations, states), stack(rows, sight.space))


def test_a_vector_has_the_world_first_and_the_machine_last():
    assert Sight(spaces.Discrete(3), 2).show(1, 0).tolist() == [0, 1, 0, 1, 0]
    assert Sight(spaces.Box(-1, 1, (2,)), 3).show(np.float32([0.5, -1]), 2).tolist() == [0.5, -1, 0, 0, 1]


def test_an_index_counts_the_machine_fastest():
    sight = Sight(spaces.Discrete(3), 2, "index")
    assert [int(sight.show(cell, state)) for cell in range(3) for state in range(2)] == [0, 1, 2, 3, 4, 5]


def test_a_kind_of_observation_that_does_not_exist_is_told_the_nearest():
    with pytest.raises(SettingsError, match=r"observation 'one-hot' does not exist .did you mean 'onehot'"):
        Sight(spaces.Discrete(3), 2, "one-hot")


def test_a_world_that_is_no_vector_is_told_what_to_use():
    with pytest.raises(SettingsError, match="a Sequence cannot be flattened to a vector; use 'dict'"):
        Sight(spaces.Sequence(spaces.Discrete(2)), 2)
