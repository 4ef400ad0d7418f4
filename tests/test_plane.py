"""The plane: its rules by hand-solved moves, its environments by their libraries' own checks."""

import pickle
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

import hocket as hk
from hocket.errors import SettingsError
from searches import examples

with warnings.catch_warnings():  # it imports a game in a way that it calls deprecated itself
    warnings.simplefilter("ignore", DeprecationWarning)
    from pettingzoo.test import parallel_api_test, parallel_seed_test

sys.path.append(str(Path(__file__).resolve().parents[1] / "examples"))

from plane import Disc, Plane
from plane_tasks import buttons_plane, individual_in_plane, plane_from_task, scene_in_plane, team_in_plane

STILL = Plane(
    starts={"A1": (2, 3), "A2": (5, 5)},
    places={"well": Disc(4, 3, 1), "hill": Disc(9, 9, 0.5)},
    speed=0.5,
    noise=0.0,
    most_steps=30,
)
WINDY = Plane(STILL.starts, STILL.places, noise=0.1, most_steps=30)
COMPASS = Plane(STILL.starts, STILL.places, speed=0.5, noise=0.0, directions=4, most_steps=30)
PLANES = {"still": STILL, "windy": WINDY, "compass": COMPASS}

velocities = st.tuples(st.floats(-1, 1), st.floats(-1, 1))


def at(plane, point):
    """Translate what an agent sees into lengths of the plane."""
    return (np.asarray(point, np.float64) + 1) * plane.side / 2


def random():
    return np.random.default_rng(0)


# The rules.


def test_an_agent_moves_by_its_velocity_in_units_of_the_highest_speed():
    env = STILL.individual("A1")
    env.reset(seed=0)
    point, reward, terminated, truncated, _ = env.step(np.array([1.0, 0.0], np.float32))
    np.testing.assert_allclose(at(STILL, point), (2.5, 3), atol=1e-6)
    point = env.step(np.array([0.0, -0.5], np.float32))[0]
    np.testing.assert_allclose(at(STILL, point), (2.5, 2.75), atol=1e-6)
    assert (reward, terminated, truncated) == (0.0, False, False)


@given(velocities)
def test_nobody_is_faster_than_the_highest_speed(velocity):
    way = STILL.velocity(velocity)
    assert np.hypot(*way) <= STILL.speed * (1 + 1e-9)
    if np.hypot(*velocity) <= 1:
        np.testing.assert_allclose(way, np.array(velocity) * STILL.speed)


@given(velocities, velocities)
def test_nobody_leaves_the_square(start, velocity):
    random, point = np.random.default_rng(1), np.array(start, np.float32)
    for _ in range(60):
        point = WINDY.aim(point, velocity, random)
        assert WINDY.observation_space.contains(point)


def test_directions_go_clockwise_from_the_right_and_the_last_is_to_stay():
    start = COMPASS.start("A2")
    ends = [at(COMPASS, COMPASS.aim(start, number, random())) for number in range(5)]
    np.testing.assert_allclose(ends, [(5.5, 5), (5, 5.5), (4.5, 5), (5, 4.5), (5, 5)], atol=1e-6)


def test_a_place_is_a_disc_with_its_rim():
    def seen(x, y):
        return np.array([x / 5 - 1, y / 5 - 1])

    assert STILL.is_at(seen(4, 3), "well") and STILL.is_at(seen(4.6, 3.7), "well")
    assert STILL.is_at(seen(4.999, 3), "well") and not STILL.is_at(seen(5.001, 3), "well")
    assert not STILL.is_at(seen(4.8, 3.8), "well")  # within the disc's frame, not within the disc


def test_noise_has_the_standard_deviation_that_the_plane_says():
    random, middle = np.random.default_rng(2), np.zeros(2, np.float32)
    ends = np.array([at(WINDY, WINDY.aim(middle, (0, 0), random)) for _ in range(4_000)])
    np.testing.assert_allclose(ends.std(axis=0), 0.1, rtol=0.05)
    np.testing.assert_allclose(ends.mean(axis=0), 5, atol=0.01)


def test_alone_an_agent_moves_as_it_does_in_a_team_of_one():
    plane = Plane({"A1": (2, 3)}, {}, noise=0.2, most_steps=20)
    team, individual = plane.team(), plane.individual("A1")
    rng = np.random.default_rng(3)
    np.testing.assert_array_equal(team.reset(seed=7)[0]["A1"], individual.reset(seed=7)[0])
    for _ in range(20):
        action = rng.uniform(-1, 1, 2).astype(np.float32)
        observations, _, _, truncated, _ = team.step({"A1": action})
        own, _, _, cut, _ = individual.step(action)
        np.testing.assert_array_equal(observations["A1"], own)
        assert truncated["A1"] == cut
    assert cut and not team.agents


def test_an_individual_may_start_anywhere():
    env = WINDY.individual("A1", anywhere=True)
    starts = np.array([env.reset(seed=seed)[0] for seed in range(200)])
    assert starts.min() < -0.9 and starts.max() > 0.9 and abs(starts.mean()) < 0.1
    np.testing.assert_array_equal(WINDY.individual("A1").reset(seed=1)[0], WINDY.start("A1"))


# What other libraries expect.


@pytest.mark.parametrize("plane", PLANES.values(), ids=PLANES)
def test_the_teams_environment_is_a_pettingzoo_environment(plane, capsys):
    parallel_api_test(plane.team(), num_cycles=100)
    parallel_seed_test(plane.team, num_cycles=20)


@pytest.mark.parametrize("plane", PLANES.values(), ids=PLANES)
def test_an_agents_environment_is_a_gymnasium_environment(plane):
    check_env(plane.individual("A2", render_mode="rgb_array"), skip_render_check=True)


def test_a_picture_shows_places_and_agents_where_they_are():
    env = STILL.team(render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()
    side = len(picture)
    assert picture.shape == (side, side, 3) and picture.dtype == np.uint8

    def color(x, y):
        return tuple(picture[int(y / 10 * side), int(x / 10 * side)].tolist())

    floor, agent, well = color(1, 9), color(2, 3), color(4.9, 3)
    assert len({floor, agent, well, color(9, 9), color(5, 5)}) == 5
    assert color(4, 3.9) == well and color(4.9, 3.9) == floor
    assert STILL.team().render() is None


# What is refused.


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"starts": {}}, "starts: a plane needs at least one agent"),
        ({"starts": {"A1": (11, 0)}}, r"starts.A1: 'A1' must lie between 0 and 10 in both directions, got 11, 0"),
        ({"places": {"well": Disc(0, float("nan"), 1)}}, "places.well: 'well' must lie between"),
        ({"places": {"well": Disc(0, 0, 0)}}, "places.well: the radius must be above 0, got 0"),
        ({"speed": 0}, "speed: must be above 0 and finite, got 0"),
        ({"side": float("inf")}, "side: must be above 0 and finite, got inf"),
        ({"directions": 0}, "directions: must be above 0"),
        ({"most_steps": 0}, "most_steps: must be above 0"),
        ({"noise": -0.1}, "noise: must not be negative"),
    ],
)
def test_a_plane_that_makes_no_sense_is_refused(change, message):
    with pytest.raises(hk.errors.TaskError, match=message):
        Plane(**({"starts": STILL.starts, "places": STILL.places} | change))


@pytest.mark.parametrize("velocity", [(1,), (0, float("nan")), (1, 2, 3)])
def test_velocities_that_are_none_are_refused(velocity):
    with pytest.raises(hk.errors.TaskError, match="a velocity must be two finite numbers"):
        STILL.velocity(velocity)


def test_directions_that_do_not_exist_and_actions_that_are_missing_are_refused():
    with pytest.raises(hk.errors.TaskError, match="a direction must lie between 0 and 4, got 5"):
        COMPASS.velocity(5)
    team = STILL.team()
    team.reset(seed=0)
    with pytest.raises(hk.errors.TaskError, match=r"actions.A2: all agents act in every step"):
        team.step({"A1": (0, 0)})


def test_a_plane_travels_between_processes():
    for plane in PLANES.values():
        assert pickle.loads(pickle.dumps(plane)) == plane


def test_unknown_settings_are_refused_and_the_nearest_is_named():
    with pytest.raises(SettingsError, match=r"setting 'sped' does not exist \(did you mean 'speed'\?\)"):
        plane_from_task(hk.rendezvous(2), sped=1)


def test_unknown_agents_places_and_render_modes_are_refused():
    with pytest.raises(hk.errors.TaskError, match="agent 'A3' does not exist"):
        STILL.individual("A3")
    with pytest.raises(hk.errors.TaskError, match=r"place 'wel' does not exist \(did you mean 'well'"):
        STILL.is_at(STILL.start("A1"), "wel")
    with pytest.raises(SettingsError, match="render_mode must be None or 'rgb_array', got 'human'"):
        STILL.team(render_mode="human")


# Tasks.


def towards(plane, place, seen):
    """Walk straight to a place, and stop there."""
    disc = plane.places[place]
    way = (np.array([disc.x, disc.y]) - at(plane, seen[:2])) / plane.speed
    return way / max(1, np.hypot(*way))


def walk(plane, agent, seen):
    """Do an agent's part of a rendezvous without having learnt anything."""
    return towards(plane, "meeting place" if np.argmax(seen[2:]) < 2 else f"goal {agent[1:]}", seen)


@pytest.mark.parametrize("agents", [1, 2, 3, 10])
def test_a_rendezvous_in_the_plane_can_be_done_by_walking_straight(agents):
    task = hk.rendezvous(agents)
    plane = plane_from_task(task)
    team = team_in_plane(task, plane)
    observations, _ = team.reset(seed=0)
    met = None
    while team.agents:
        actions = {agent: walk(plane, agent, observations[agent]) for agent in team.agents}
        observations, rewards, terminated, _, infos = team.step(actions)
        if any(info["event"] == "r" for info in infos.values()):
            met = team.time
            for agent in team.possible_agents:
                assert infos[agent]["event"] == "r"
                assert plane.is_at(observations[agent][:2], "meeting place")
    assert team.completed and all(terminated.values()) and set(rewards.values()) == {1.0}
    assert met is not None and 20 <= team.time <= 60


def test_in_the_plane_nobody_meets_alone():
    task = hk.rendezvous(2)
    plane = plane_from_task(task)
    team = team_in_plane(task, plane)
    observations, _ = team.reset(seed=0)
    while team.agents:
        stay = {agent: np.zeros(2, np.float32) for agent in team.agents}
        observations, *_ = team.step({**stay, "A1": walk(plane, "A1", observations["A1"])})
    assert not team.completed and team.states == {"A1": "1", "A2": "0"}


def test_alone_an_agent_meets_by_chance_and_sees_what_other_states_would_have():
    task = hk.rendezvous(3)
    plane = plane_from_task(task, noise=0.0)
    env = individual_in_plane(task, plane, "A2", sync_probability=0.3)
    waits = []
    for seed in range(60):
        seen, _ = env.reset(seed=seed)
        arrived, done = None, False
        while not done:
            seen, reward, done, truncated, info = env.step(walk(plane, "A2", seen))
            assert not truncated
            if info["event"] == "r2":
                arrived = env.time
            if info["event"] == "r":
                waits.append(env.time - arrived)
            rows = info["counterfactuals"]
            at_goal = plane.is_at(seen[:2], "goal 2")
            for state, reward_there, ended in zip(rows.state, rows.reward, rows.terminated, strict=True):
                assert (state == 2 and at_goal) == ended == (reward_there == 1.0)
        assert reward == 1.0
    assert 2 < np.mean(waits) < 5  # a geometric distribution with mean 1 / 0.3


def test_an_episode_to_watch_has_everyones_path_and_what_happened():
    task = hk.rendezvous(2)
    plane = plane_from_task(task)
    policies = {agent: partial(walk, plane, agent) for agent in task.agents}
    watched = hk.gym.play_episode(team_in_plane(task, plane), policies, seed=3).replay
    assert watched.success and len(watched.states) == len(watched.points)
    np.testing.assert_allclose(watched.points[0], [plane.starts[agent] for agent in task.agents], atol=1e-6)
    assert (np.hypot(*np.diff(watched.points, axis=0).transpose(2, 0, 1)) < plane.speed + 6 * plane.noise).all()
    happened = {event: step for step, event in watched.events}
    assert {"r1", "r2", "r", "g1", "g2"} <= happened.keys() and max(happened.values()) == len(watched.points) - 1
    for place, agent in enumerate(task.agents):
        assert watched.states[happened["r"]][place] == "2"
        assert plane.is_at(plane.seen(*watched.points[happened[f"g{agent[1:]}"], place]), f"goal {agent[1:]}")


def test_functions_can_be_evaluated_as_a_team_in_the_plane():
    task = hk.rendezvous(3)
    plane = plane_from_task(task)
    policies = {agent: partial(walk, plane, agent) for agent in task.agents}
    (found,) = hk.evaluate(team_in_plane(task, plane), policies, episodes=5)
    assert found.success.value == 1.0 and found.holds and 20 <= found.mean_steps <= 60
    idle = policies | {"A3": lambda seen: np.zeros(2)}
    (found,) = hk.evaluate(team_in_plane(task, plane), idle, episodes=2)
    assert found.success.value == found.upper == 0.0 and found.quartiles[1] == plane.most_steps


def test_the_scene_of_a_plane_has_its_discs_and_the_machines_of_the_task():
    task = hk.rendezvous(2)
    plane = plane_from_task(task, radius=0.5)
    scene = scene_in_plane(task, plane)
    assert (scene.task, scene.width, scene.height, scene.has_cells) == ("rendezvous-2-plane", 10, 10, False)
    assert scene.agents == ("A1", "A2") and scene.machines == dict(task.machines)
    area = next(own for own in scene.areas if own.name == "meeting place")
    assert area.shapes == ((4, 3, 1, 1, True),) and area.tag == "M" and scene.starts == plane.starts
    (middle,) = {tuple(color) for color in plane.picture({})[112:113, 144]}  # at 4.5 and 3.5 of 10
    assert "#{:02x}{:02x}{:02x}".format(*middle) == area.color
    assert scene.digest != scene_in_plane(task, plane_from_task(task, radius=0.6)).digest


BUTTONS = hk.load_task("buttons")
TARGETS = {"Y": "yellow button", "G": "green button", "A2on": "red button", "A3on": "red button", "Goal": "goal"}


def press(plane, agent, seen):
    """Walk to where an agent's next event is, or stay where it has to wait for others."""
    machine = BUTTONS.machines[agent]
    state = list(machine.states)[np.argmax(seen[2:])]
    events = [event for (source, event), _ in machine.transitions.items() if source == state and event in TARGETS]
    own = [event for event in events if agent in BUTTONS.control[event]]
    return towards(plane, TARGETS[own[0]], seen) if own else np.zeros(2)


def test_buttons_can_be_pressed_in_the_plane():
    plane = buttons_plane()
    policies = {agent: partial(press, plane, agent) for agent in BUTTONS.agents}
    watched = hk.gym.play_episode(team_in_plane(BUTTONS, plane), policies, seed=0).replay
    order = [event for _, event in watched.events]
    assert watched.success and order.index("Y") < order.index("G") < order.index("R") < order.index("Goal")
    assert 40 <= len(watched.points) <= 100


def test_a_gate_in_the_plane_lets_nobody_in_before_its_event():
    plane = buttons_plane()
    team = team_in_plane(BUTTONS, plane)
    observations, _ = team.reset(seed=0)
    while team.agents:  # all run for what is closed to them, and nobody presses yellow
        rush = {"A1": "goal", "A2": "green button", "A3": "red button"}
        observations, *_ = team.step({a: towards(plane, rush[a], observations[a]) for a in team.agents})
        for agent, region in (("A1", "red region"), ("A2", "yellow region"), ("A3", "green region")):
            assert not plane.is_at(observations[agent][:2], region)
    assert team.states == {agent: BUTTONS.machines[agent].initial for agent in BUTTONS.agents}


def test_alone_a_gate_opens_when_a_simulated_teammate_opens_it():
    plane = buttons_plane(noise=0.0)
    env = individual_in_plane(BUTTONS, plane, "A2", sync_probability=0.05)
    seen, _ = env.reset(seed=1)
    inside, opened = [], []
    for _ in range(100):
        opened.append(env.state != env.machine.initial)
        seen, *_ = env.step(towards(plane, "green button", seen))
        inside.append(plane.is_at(seen[:2], "yellow region"))
    assert not any(here and not gate for here, gate in zip(inside, opened, strict=True))
    assert inside[-1] and opened.index(True) > 10  # after it has waited at the edge for a while


@given(st.integers(0, 2**32), st.sampled_from(list(BUTTONS.agents)))
@examples(8)
def test_a_counterfactual_is_told_just_where_gates_would_have_done_the_same(seed, agent):
    plane = buttons_plane()
    env = individual_in_plane(BUTTONS, plane, agent, anywhere=True)
    closed = dict(zip(env.machine.states, BUTTONS.closed_regions(agent), strict=True))
    random, names = np.random.default_rng(seed), list(env.machine.states)
    seen, _ = env.reset(seed=seed)
    done = False
    while not done and env.time < 100:
        before, state = seen[:2], env.state
        seen, _, done, _, info = env.step(random.uniform(-1, 1, 2).astype(np.float32))
        aimed = info["aimed"]
        ends = {own: before if any(plane.is_at(aimed, one) for one in closed[own]) else aimed for own in names}
        going = [own for own in names if own not in env.machine.final and own != state]
        alike = [own for own in going if np.array_equal(ends[own], seen[:2])]
        assert [names[number] for number in info["counterfactuals"].state] == alike


@pytest.mark.parametrize(
    ("name", "message"),
    [("buttons", "must have neither walls nor gates"), ("warehouse", "map: must")],
)
def test_maps_that_a_plane_cannot_show_are_refused(name, message):
    with pytest.raises(hk.errors.TaskError, match=message):
        plane_from_task(hk.load_task(name))
