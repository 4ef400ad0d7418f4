"""Worlds as their users have them: labels that fail, agents that vanish, a world for each agent, a scene in a line."""

import warnings

import numpy as np
import pytest

import hocket as hk
from hocket.adapters.individual import potentials
from hocket.draw.scene import read_scene
from test_wrap import KNOWS, MEETING, STEPS, Number, Words, level, said_by_each, say, talk

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from pettingzoo.test import parallel_api_test

# Labels and worlds that fail.


def failing(answer):
    """Label as usual, but for the second step."""

    def label(step):
        return answer() if step.time == 2 else said_by_each(step)

    return label


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda: 1 / 0, "step 2: the labelling function raised ZeroDivisionError: division by zero"),
        (lambda: "feth", r"step 2: event 'feth' is not known to the team .*did you mean 'fetch'"),
        (lambda: {"A9": "meet"}, r"step 2: agent 'A9' is not of the team"),
    ],
    ids=["it raises", "an unknown event", "an unknown agent"],
)
def test_a_label_that_fails_is_named_with_its_step_and_the_episode_goes_on(answer, said):
    env = talk(label=failing(answer))
    env.reset(seed=0)
    say(env, A1="fetch")
    with pytest.raises(hk.errors.LabelError, match=f"^{said}") as caught:
        say(env, A1="meet", A2="meet")
    assert caught.value.step.time == 2 and caught.value.step.actions == {"A1": 2, "A2": 2}
    assert env.team_state == "ready" and env.agents == ["A1", "A2"]
    say(env, A1="meet", A2="meet")
    say(env, A2="leave")
    assert env.completed and env.time == 4


def test_an_individual_label_that_fails_is_named_with_its_step_and_the_episode_goes_on():
    def label(step):
        return ["up", "dwn"] if step.time == 2 else "up"

    view = hk.gym.IndividualView(Number(), machine=STEPS, label=label, counterfactuals=False)
    view.reset(seed=0)
    view.step(1)
    with pytest.raises(hk.errors.LabelError, match=r"^step 2: event 'dwn' is not known to the agent") as caught:
        view.step(1)
    assert caught.value.step.state == "1" == view.state
    assert view.step(1)[-1]["events"] == ("up",)


class Trapdoor(Words):
    """A world that loses an agent without a word."""

    def step(self, actions):
        parts = super().step(actions)
        self.agents = [agent for agent in self.agents if self.time < 2 or agent != "A2"]
        return parts


class Hole(Words):
    """A world that shows nothing of an agent that acts."""

    def step(self, actions):
        seen, *others = super().step(actions)
        return ({"A1": seen["A1"]} if self.time == 2 else seen), *others


@pytest.mark.parametrize(
    ("world", "said"),
    [(Trapdoor, "agent 'A2' has left .* in step 2 without"), (Hole, "no observation of agent 'A2' in step 2")],
)
def test_an_agent_that_vanishes_is_named_with_the_step(world, said):
    env = hk.gym.wrap(world(("nothing", *MEETING.events)), machine=MEETING, knows=KNOWS, label=said_by_each)
    env.reset(seed=0)
    say(env, A1="fetch")
    with pytest.raises(hk.HocketError, match=said):
        say(env)
    assert env.team_state == "ready"


# An individual agent.


def walked(**settings):
    """Walk about at random; list what each step gave."""
    view = hk.gym.IndividualView(Number(longest=60), machine=STEPS, label=level, chances={"call": 0.3}, **settings)
    rng, steps = np.random.default_rng(5), []
    for episode in range(20):
        view.reset(seed=episode)
        ended = False
        while not ended:
            seen, reward, terminated, truncated, info = view.step(int(rng.integers(-1, 2)))
            ended = terminated or truncated
            steps.append((seen, reward, terminated, truncated, info))
    return steps


def test_without_counterfactuals_everything_else_is_the_same():
    plain, compared = walked(counterfactuals=False), walked()
    assert all("counterfactuals" not in info for *_, info in plain)
    for (*one, said), (*other, told) in zip(plain, compared, strict=True):
        assert one == other and said == {key: value for key, value in told.items() if key != "counterfactuals"}


def test_shaping_telescopes_to_the_worth_of_the_initial_state_and_what_is_left_at_the_end():
    discount, worth = 0.9, dict(zip(STEPS.states, potentials(STEPS, 0.9).tolist(), strict=True))
    total = plain_total = 0.0
    factor, ends = 1.0, set()
    steps = zip(walked(shaping=discount), walked(), strict=True)
    for (_, shaped, terminated, truncated, info), (_, plain, *_) in steps:
        total, plain_total, factor = total + factor * shaped, plain_total + factor * plain, factor * discount
        if terminated or truncated:
            left = 0.0 if terminated else factor * worth[info["machine_state"]]
            assert total == pytest.approx(plain_total - worth["0"] + left)
            total = plain_total = 0.0
            factor = 1.0
            ends.add(terminated)
    assert ends == {True, False}


def test_counterfactuals_are_shaped_as_the_step_itself_is():
    discount, worth = 0.9, potentials(STEPS, 0.9)
    for (*_, shaped), (*_, plain) in zip(walked(shaping=discount), walked(), strict=True):
        rows, others = shaped["counterfactuals"], plain["counterfactuals"]
        added = discount * worth[rows.next_state] - worth[rows.state]
        np.testing.assert_allclose(rows.reward, others.reward + added)


# A world for each agent.


def above(step):
    """Let each walker propose `both` where it is above 2, and A1 that it has started."""
    return {agent: [*(["both"] if seen > 2 else []), *(["go"] if agent == "A1" else [])]
            for agent, seen in step.observations.items()}  # fmt: skip


PAIR = hk.RewardMachine(initial="0", transitions={("0", "go"): "1", ("1", "both"): "2"}, final={"2"})


def walkers(**settings):
    worlds = {"A1": Number(), "A2": Number()}
    knows = {"A1": {"go", "both"}, "A2": {"both"}}
    return hk.gym.wrap(worlds, machine=PAIR, knows=knows, label=above, waits=["both"], **settings)


def test_a_world_for_each_agent_is_a_team_that_machines_join():
    env = walkers()
    parallel_api_test(env, num_cycles=50)
    first, _ = env.reset(seed=3)
    again, _ = env.reset(seed=3)
    assert first == again
    starts = {tuple(seen["world"] for seen in env.reset(seed=seed)[0].values()) for seed in range(20)}
    assert any(one != other for one, other in starts)  # each has draws of its own
    while env.agents:
        *_, infos = env.step(dict.fromkeys(env.agents, 1))
    assert env.completed and infos["A1"]["events"] == ("both",)


def test_a_world_for_one_agent_is_refused_with_the_line_to_add():
    with pytest.raises(hk.HocketError, match=r"pass a copy for each: \{agent: make_env\(\) for agent in knows\}"):
        hk.gym.wrap(Number(), machine=PAIR, knows={"A1": {"go", "both"}}, label=above)
    shared = Number()
    with pytest.raises(hk.HocketError, match="an environment of its own"):
        hk.gym.to_parallel({"A1": shared, "A2": shared})
    with pytest.raises(hk.HocketError, match="each agent needs a Gymnasium environment, got 'A1': 3"):
        hk.gym.to_parallel({"A1": 3})


# A scene in a line.


def test_a_scene_needs_no_more_than_a_wrapped_world_and_a_size(tmp_path):
    env = walkers()
    scene = hk.Scene.of(
        env, 20, 4, task="walk", areas={"goal": (3, 1, 0.5), "dock": (0, 0, 2, 1)}, walls=[(5, 0, 1, 1)]
    )
    assert scene.agents == ("A1", "A2") and scene.decomposable and scene.verdict.startswith("Decomposable")
    goal, dock = scene.areas
    assert goal.shapes[0].is_disc and not dock.shapes[0].is_disc and goal.color != dock.color
    (tmp_path / "walk.json").write_text(scene.text)
    assert read_scene(tmp_path / "walk.json").digest == scene.digest
    with pytest.raises(hk.HocketError, match="goal: an area is a disc"):
        hk.Scene.of(env, 2, 2, areas={"goal": (1, 2)})


def test_episodes_of_a_world_can_be_watched_where_something_says_where_agents_are():
    env = walkers(where=lambda worlds: {agent: (world.place + 100, 0.5) for agent, world in worlds.items()})
    played = hk.gym.play_episode(env, dict.fromkeys(("A1", "A2"), lambda seen: 1), seed=0)
    assert played.replay is not None and played.points.shape == (played.steps + 1, 2, 2)
    assert (np.diff(played.points[:, :, 0], axis=0) >= 0).all()
