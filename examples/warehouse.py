"""Two robots of the robotic warehouse (rware) each fetch a requested shelf, and deliver the shelves in turn.

Robot 1 may deliver only after robot 0. The team machine is given as the composition of the robots' machines, which
share the event deliver_0. Run: python examples/warehouse.py
"""

import gymnasium
import rware  # noqa: F401 (registers its worlds)

import hocket as hk
from players import next_cell, play_team

NOTHING, FORWARD, LEFT, RIGHT, TOGGLE = range(5)  # actions
CLOCKWISE = {"UP": (0, -1), "RIGHT": (1, 0), "DOWN": (0, 1), "LEFT": (-1, 0)}
SHELVES = 1  # layer of the environment's grid
CARRIES = 2  # index in an observation, after x and y
IS_WANTED = 8 + 4 * 7 + 6  # of the shelf below: 8 numbers about the robot, then 7 for each of 9 cells

FIRST = hk.RewardMachine(
    initial="empty",
    transitions={("empty", "fetch_0"): "loaded", ("loaded", "deliver_0"): "done"},
    final={"done"},
)
SECOND = hk.RewardMachine(
    initial="empty",
    transitions={
        ("empty", "fetch_1"): "loaded", ("empty", "deliver_0"): "turn",
        ("loaded", "deliver_0"): "loaded turn", ("turn", "fetch_1"): "loaded turn",
        ("loaded turn", "deliver_1"): "done",
    },
    final={"done"},
)  # fmt: skip
MACHINE = hk.Composition({"agent_0": FIRST, "agent_1": SECOND})
KNOWS = {agent: part.events for agent, part in MACHINE.parts.items()}
CONTROL = {f"{what}_{robot}": [f"agent_{robot}"] for what in ("fetch", "deliver") for robot in (0, 1)}


def propose(robot, seen, reward):
    """List what a robot proposes: that it carries a requested shelf, and by its reward that it has delivered it."""
    holds = {f"fetch_{robot}": seen[CARRIES] and seen[IS_WANTED], f"deliver_{robot}": reward > 0}
    return [event for event, is_so in holds.items() if is_so]


def label(step):
    return {agent: propose(agent[-1], seen, step.rewards[agent]) for agent, seen in step.observations.items()}


def target(number, state, world):
    """Choose a target: the shelf, the goal, or none while it is not the robot's turn."""
    if state in ("empty", "turn"):
        return world.request_queue[number].x, world.request_queue[number].y
    is_waiting = state == "done" or (number == 1 and state == "loaded")
    return None if is_waiting else world.goals[number]


def drive(agent, env):
    """Drive under the shelf, lift it, and carry it around the other shelves to the robot's goal."""
    world, number = env.env.env.unwrapped, int(agent[-1])
    robot, other = world.agents[number], world.agents[1 - number]
    here, goal = (robot.x, robot.y), target(number, env.states[agent], world)
    if goal is None or here == goal:
        return NOTHING if goal is None else TOGGLE

    def is_free(cell):
        x, y = cell
        inside = 0 <= x < world.grid_size[1] and 0 <= y < world.grid_size[0] and cell != (other.x, other.y)
        return inside and not (robot.carrying_shelf and world.grid[SHELVES, y, x])

    x, y = next_cell(here, [goal], is_free)
    if (x, y) == here:
        return NOTHING
    wanted = list(CLOCKWISE.values()).index((x - here[0], y - here[1]))
    return (FORWARD, RIGHT, RIGHT, LEFT)[(wanted - list(CLOCKWISE).index(robot.dir.name)) % 4]


def main():
    world = gymnasium.make("rware-tiny-2ag-v2", disable_env_checker=True)
    env = hk.gym.wrap(world, machine=MACHINE, knows=KNOWS, control=CONTROL, label=label)
    play_team(env, lambda agent, _: drive(agent, env), seed=0)


if __name__ == "__main__":
    main()
