"""Two agents of mpe2's simple_spread each visit their own landmark, in any order, and then meet.

The environment is continuous. It rewards covering landmarks; the machine defines a different task, and the environment
is not changed. Run: python examples/meeting.py
"""

import numpy as np
from mpe2 import simple_spread_v3

import hocket as hk
from players import play_individual, play_team

AT, TOGETHER = 0.1, 0.4  # distances

MACHINE = hk.RewardMachine(
    initial="start",
    transitions={
        ("start", "visit_0"): "first", ("start", "visit_1"): "second",
        ("first", "visit_1"): "both", ("second", "visit_0"): "both",
        ("both", "meet"): "met",
    },
    final={"met"},
)  # fmt: skip
KNOWS = {"agent_0": {"visit_0", "meet"}, "agent_1": {"visit_1", "meet"}}


def landmark(agent, observation):
    """Find the way to an agent's own landmark: after velocity and position come the landmarks, seen from the agent."""
    place = 4 + 2 * int(agent[-1])
    return observation[place : place + 2]


def propose(agent, observation, teammate_is_near):
    """List what an agent proposes; its machine ignores what is undefined in its state, and a second visit."""
    is_there = np.linalg.norm(landmark(agent, observation)) < AT
    holds = {f"visit_{agent[-1]}": is_there, "meet": teammate_is_near}
    return [event for event, is_so in holds.items() if is_so]


def label(step):
    """Return what each agent proposes: that it is at its landmark, and that the other is near."""
    seen = step.observations
    return {agent: propose(agent, seen[agent], np.linalg.norm(seen[agent][8:10]) < TOGETHER) for agent in seen}


def walk(agent, seen):
    """Go to the landmark or, if it has been visited according to the machine, to the other agent, if there is one."""
    observation = seen["world"]
    way = landmark(agent, observation) if seen["machine"] == 0 else np.append(observation[8:10], (0, 0))[:2]
    push = np.clip(2 * way - observation[:2], -0.5, 0.5)  # smaller near the target, so that it does not overshoot
    return np.array([0, *np.maximum([-push[0], push[0], -push[1], push[1]], 0)], np.float32)


def main():
    settings = {"max_cycles": 200, "continuous_actions": True}
    world = simple_spread_v3.parallel_env(N=2, **settings)
    env = hk.gym.wrap(world, machine=MACHINE, knows=KNOWS, label=label)
    play_team(env, walk, seed=0)

    small = simple_spread_v3.parallel_env(N=1, **settings)
    individual = env.individual("agent_0", small, lambda step: propose("agent_0", step.observation, True))
    play_individual(individual, walk, "agent_0", seed=0)


if __name__ == "__main__":
    main()
