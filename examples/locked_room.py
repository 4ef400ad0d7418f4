"""Two agents of MiniGrid, each in its own room: one finds the key, then the other may open its door.

MiniGrid is for one agent, so each has a copy. Observations are hashable, so `hk.train` learns q-tables: each agent
alone, and then both as a team.

    pip install minigrid ".[gym]"
    python examples/locked_room.py
"""

import gymnasium
import minigrid  # noqa: F401 (which registers its environments)
from minigrid.core.world_object import Door
from minigrid.wrappers import ReseedWrapper

import hocket as hk

WAY = {("start", "key"): "keyed", ("keyed", "door"): "open"}
MACHINE = hk.RewardMachine(initial="start", transitions=WAY, final={"open"})
KNOWS = {"A1": {"key", "door"}, "A2": {"key", "door"}}
CONTROL = {"key": ["A1"], "door": ["A2"]}
STEPS, SETTINGS = 20_000, {"max_episode_steps": 100, "test_every": 5_000, "discount": 0.95}


def propose(agent, room):
    """Return what an agent proposes: that it carries a key, or that its door is open."""
    if agent == "A1":
        return "key" if room.carrying is not None else None
    is_open = any(isinstance(thing, Door) and thing.is_open for thing in room.grid.grid)
    return "door" if is_open else None


def label(step):
    return {agent: propose(agent, step.env[agent].unwrapped) for agent in step.observations}


def where(rooms):
    """Return the positions of agents; the rooms are shown side by side."""
    places = {agent: room.unwrapped.agent_pos for agent, room in rooms.items()}
    return {agent: (x + 0.5 + 5 * side, y + 0.5) for side, (agent, (x, y)) in enumerate(places.items())}


def make_team():
    rooms = {agent: ReseedWrapper(gymnasium.make("MiniGrid-DoorKey-5x5-v0"), seeds=[3]) for agent in KNOWS}
    env = hk.gym.wrap(rooms, machine=MACHINE, knows=KNOWS, control=CONTROL, label=label, where=where)
    env.scene = hk.Scene.of(env, 10, 5, task="locked room", walls=[(4.9, 0, 0.2, 5)])
    return env


def main():
    env = make_team()
    (run,) = hk.train(env, seeds=1, steps=STEPS, settings=SETTINGS)
    tests = run.tests("greedy")
    for step, taken, success in zip(tests.step, tests.test_steps, tests.success, strict=True):
        print(f"after {step:>6,} steps each: {'completed' if success else 'not completed'}, {taken} steps")
    (evaluation,) = hk.evaluate(env, run, episodes=5)
    print(f"success {evaluation.success.value:.0%}, {evaluation.mean_steps:.0f} steps")


if __name__ == "__main__":
    main()
