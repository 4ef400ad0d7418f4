"""Worlds that other people wrote, wrapped: the examples play as they say, and the libraries' own tests pass."""

import re
import runpy
import sys
import warnings
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import hocket as hk
from hocket.adapters.policies import _merge_events

with warnings.catch_warnings():  # it imports a game in a way that it calls deprecated itself
    warnings.simplefilter("ignore", DeprecationWarning)
    from pettingzoo.test import parallel_api_test

pytestmark = pytest.mark.third_party

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
ELSEWHERE = ("players", "deep_rendezvous", "crowd", "plane", "plane_tasks", "robots")  # with tests of their own
RECIPES = ("locked_room", "navigation", "overcooked", "tune")  # whose packages are heavy: bench/recipes.py runs them


@pytest.fixture(scope="module", autouse=True)
def headless():
    """Let pygame draw nowhere and not greet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SDL_VIDEODRIVER", "dummy")
        patch.setenv("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        patch.syspath_prepend(str(EXAMPLES))
        yield
    sys.modules.pop("players", None)


def load(name):
    """Run an example without playing it."""
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def make_registered(name, world, **settings):
    """Wrap a world that Gymnasium knows by name, once an example's library is loaded, as the example does."""
    example = load(name)
    given = {setting: example[setting.upper()] for setting in ("machine", "knows", "control")}
    return hk.gym.wrap(gymnasium.make(world, disable_env_checker=True), **given, label=example["label"], **settings)


make_foraging = partial(make_registered, "foraging", "Foraging-8x8-2p-2f-coop-v3")
make_warehouse = partial(make_registered, "warehouse", "rware-tiny-2ag-v2")


def make_meeting(continuous=True, **settings):
    from mpe2 import simple_spread_v3

    example = load("meeting")
    world = simple_spread_v3.parallel_env(N=2, max_cycles=100, continuous_actions=continuous)
    return hk.gym.wrap(world, machine=example["MACHINE"], knows=example["KNOWS"], label=example["label"], **settings)


def make_hunt(**settings):
    from pettingzoo import make

    example = load("hunt")
    world = make("parallel", "sisl/pursuit-v5", n_pursuers=3, n_evaders=5, n_catch=2, surround=False, max_cycles=60)
    waits = example["MACHINE"].events
    given = {"machine": example["MACHINE"], "knows": example["KNOWS"], "label": example["label"], "waits": waits}
    return hk.gym.wrap(world, **given, **settings)


def make_battle(**settings):
    """Let an archer and a knight each kill a zombie, the archer first; agents that zombies touch die one by one."""
    from pettingzoo import make

    machine = hk.RewardMachine(initial="0", transitions={("0", "shot"): "1", ("1", "struck"): "2"}, final={"2"})
    world = make("parallel", "butterfly/knights_archers_zombies-v11", max_cycles=300, spawn_delay=2, max_zombies=30)

    def label(step):
        events = {"archer_0": "shot", "knight_0": "struck"}
        return [event for agent, event in events.items() if step.rewards.get(agent, 0) > 0]

    knows = {"archer_0": {"shot"}, "knight_0": {"shot", "struck"}}
    return hk.gym.wrap(world, machine=machine, knows=knows, label=label, **settings)


WORLDS = {
    "foraging": make_foraging,
    "meeting": make_meeting,
    "discrete meeting": lambda **settings: make_meeting(continuous=False, **settings),
    "hunt": make_hunt,
    "battle": make_battle,
    "warehouse": make_warehouse,
}


@pytest.mark.parametrize("kind", ["dict", "onehot"])
@pytest.mark.parametrize("make", WORLDS.values(), ids=WORLDS)
def test_pettingzoos_test_passes_on_wrapped_worlds(make, kind):
    parallel_api_test(make(observation=kind), num_cycles=120)


def record(env, seed, steps=60):
    """Play at random and keep all that is returned."""
    for agent in env.possible_agents:
        env.action_space(agent).seed(seed)
    kept = [env.reset(seed=seed)]
    for _ in range(steps):
        if not env.agents:
            break
        kept.append(env.step({agent: env.action_space(agent).sample() for agent in env.agents}))
        for agent, seen in kept[-1][0].items():
            assert env.observation_space(agent).contains(seen), agent
    return kept


@pytest.mark.parametrize("make", WORLDS.values(), ids=WORLDS)
def test_the_same_seed_and_actions_give_the_same_episode_and_fit_the_spaces(make):
    one, other = (record(make(), seed=5) for _ in range(2))
    assert len(one) == len(other)
    np.testing.assert_equal(one, other)


def played(name, capsys, monkeypatch):
    """Play an example as a user does, and return the lines that it prints."""
    monkeypatch.setattr(sys, "argv", [f"{name}.py"])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out.splitlines()


STORIES = {  # what happens in an example, and to its individual agent
    "foraging": (["found", "eaten", "home_0", "home_1"], ["found", "eaten", "home_1"]),
    "meeting": (["visit_0", "visit_1", "meet"], ["visit_0", "meet"]),
    "hunt": (["first", "second", "gather"], []),
    "warehouse": (["fetch_1", "fetch_0", "deliver_0", "deliver_1"], []),
}


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem not in ELSEWHERE + RECIPES)
)
def test_an_example_completes_its_task(name, capsys, monkeypatch):
    events, individual = STORIES[name]
    lines = played(name, capsys, monkeypatch)
    team = [line for line in lines if line.startswith("step ")]
    assert [line.split(": ")[1].split(" for ")[0] for line in team] == events
    assert sum("completed: True" in line and "1.0" in line for line in lines) == 1
    own = [line.split(": ")[1].split(";")[0] for line in lines if line.startswith("individual, ")]
    assert own == individual
    if individual:
        assert lines[-1].endswith("has completed its sub-task: True, reward: 1.0")


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_on_its_page_and_run_by_its_script_with_what_it_says_it_needs(name):
    root, line = EXAMPLES.parent, r"^ +(pip install .*)$"
    needs = re.search(line, (EXAMPLES / f"{name}.py").read_text(), re.MULTILINE)[1]
    page = (root / "docs" / "recipes.md").read_text()
    assert needs in page and f"`examples/{name}.py`" in page
    assert f'"{name}"' in (root / "bench" / "recipes.py").read_text()


def test_the_recipe_of_minigrid_trains_and_reports(capsys, monkeypatch):
    """In rooms of this file's own, as MiniGrid is not installed for tests."""
    door = type("Door", (), {"is_open": False})

    class Room(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(2)

        def __init__(self):
            self.grid, self.carrying, self.agent_pos = SimpleNamespace(grid=[None, door()]), None, (0, 0)

        def reset(self, *, seed=None, options=None):
            self.agent_pos, self.carrying, self.grid.grid[1].is_open = (0, 0), None, False
            return 0, {}

        def step(self, action):
            place = min(self.agent_pos[0] + int(action), 2)
            self.agent_pos, self.carrying = (place, 0), "key" if place == 2 else None
            self.grid.grid[1].is_open = place == 2
            return place, 0.0, False, False, {}

    parts = {
        "": {},
        ".core": {},
        ".core.world_object": {"Door": door},
        ".wrappers": {"ReseedWrapper": lambda env, seeds: env},
    }
    for name, content in parts.items():
        monkeypatch.setitem(sys.modules, f"minigrid{name}", SimpleNamespace(**content))
    monkeypatch.setattr(gymnasium, "make", lambda name: Room())
    main = load("locked_room")["main"]
    main.__globals__.update(STEPS=400, SETTINGS={"max_episode_steps": 30, "test_every": 200})
    main()
    assert capsys.readouterr().out.splitlines()[1:] == [
        "after    400 steps each: completed, 2 steps", "success 100%, 2 steps"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "act"),
    [(make_foraging, ("foraging", "forage")), (make_meeting, ("meeting", "walk"))],
    ids=["foraging", "meeting"],
)
def test_a_scripted_team_completes_its_task_from_most_starts(make, act):
    name, function = act
    policy = load(name)[function]
    env = make()
    completed = 0
    for seed in range(8):
        seen, _ = env.reset(seed=seed)
        events = []
        while env.agents:
            seen, rewards, _, _, infos = env.step({agent: policy(agent, seen[agent]) for agent in env.agents})
            events += _merge_events([info["events"] for info in infos.values()])
            inside = {agent: machine.members[env.states[agent]] for agent, machine in env.machines.items()}
            assert all(env.team_state in own for own in inside.values())  # nobody rules out where the team is
        assert set(rewards.values()) == {float(env.completed)}
        assert env.decomposition.machine.run(events, undefined="blocking").completed == env.completed
        completed += env.completed
    assert completed >= 6  # these players do not give way, so that now and then they block each other


@pytest.mark.filterwarnings("ignore:.*infinity. This is probably too")  # of the world's own space
@pytest.mark.parametrize("kind", ["dict", "onehot"])
def test_gymnasiums_test_passes_on_a_particle_alone(kind):
    from mpe2 import simple_spread_v3

    small = simple_spread_v3.parallel_env(N=1, continuous_actions=True)
    individual = make_meeting(observation=kind).individual("agent_0", small, lambda step: ("visit_0", "meet"))
    check_env(individual, skip_render_check=True)


def test_a_wrapped_world_shows_its_state_and_its_picture():
    from mpe2 import simple_spread_v3

    world = simple_spread_v3.parallel_env(N=2, render_mode="rgb_array")
    example = load("meeting")
    env = hk.gym.wrap(world, machine=example["MACHINE"], knows=example["KNOWS"], label=example["label"])
    env.reset(seed=0)
    assert env.state_space.contains(env.state()) and env.state().tolist() == world.state().tolist()
    assert env.render_mode == "rgb_array" and env.render().shape == (700, 700, 3)
    env.close()


def test_agents_that_die_one_by_one_leave_the_others_playing():
    env = make_battle()
    alone = 0
    for seed in range(6):
        kept = record(env, seed, steps=300)
        sizes = [len(step[0]) for step in kept]
        assert sizes == sorted(sizes, reverse=True)
        alone += any(0 < size < len(env.possible_agents) for size in sizes)
    assert alone > 0


def test_a_world_whose_agents_act_in_turns_is_converted():
    from mpe2 import simple_spread_v3

    machine = hk.RewardMachine(initial="0", transitions={("0", "meet"): "1"}, final={"1"})
    world = simple_spread_v3.env(N=2, max_cycles=5)
    env = hk.gym.wrap(
        world, machine=machine, knows={"agent_0": "meet"}, label=lambda step: "meet" * (step.time == 3) or ()
    )
    rewards = [step[1]["agent_0"] for step in record(env, seed=0)[1:]]
    assert rewards == [0.0, 0.0, 1.0] and env.completed


def test_a_world_in_which_agents_cannot_act_at_once_is_refused():
    from mpe2 import simple_spread_v3

    game = simple_spread_v3.env()
    game.unwrapped.metadata = {**game.metadata, "is_parallelizable": False}
    with pytest.raises(hk.HocketError, match="must let its agents act at once"):
        hk.gym.to_parallel(game)
