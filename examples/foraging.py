"""Two agents of level-based foraging (lbforaging) find food, eat it together, and each go home to a corner.

Agent 0 scouts: agent 1 cannot observe that food was found, but knows this event. One agent cannot eat the food alone.
lbforaging is a Gymnasium environment with tuple spaces, which `hk.gym.wrap` accepts.
Run: python examples/foraging.py
"""

import gymnasium
from lbforaging.foraging import ForagingEnv

import hocket as hk
from players import next_cell, play_individual, play_team

SIZE, FOODS = 8, 2
MOVES = {(0, 0): 0, (-1, 0): 1, (1, 0): 2, (0, -1): 3, (0, 1): 4}
LOAD = 5
HOME = {"agent_0": (0, 0), "agent_1": (SIZE - 1, SIZE - 1)}

MACHINE = hk.RewardMachine(
    initial="start",
    transitions={
        ("start", "found"): "found", ("found", "eaten"): "eaten",
        ("eaten", "home_0"): "one", ("eaten", "home_1"): "other",
        ("one", "home_1"): "done", ("other", "home_0"): "done",
    },
    final={"done"},
)  # fmt: skip
KNOWS = {"agent_0": {"found", "eaten", "home_0"}, "agent_1": {"found", "eaten", "home_1"}}
CONTROL = {"found": ["agent_0"], "eaten": ["agent_0", "agent_1"], "home_0": ["agent_0"], "home_1": ["agent_1"]}


def read(observation):
    """Split an observation: the cells of the food, the agent's own cell, and those of the others."""
    rows = observation.reshape(-1, 3).astype(int).tolist()
    cells = [(row, column) for row, column, level in rows if level > 0]
    foods = sum(level > 0 for _, _, level in rows[:FOODS])
    return cells[:foods], cells[foods], cells[foods + 1 :]


def neighbours(row, column):
    return {(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)}


def propose(agent, observation, eats):
    """List what an agent proposes: food next to it (the scout), that it eats, and being home."""
    food, position, _ = read(observation)
    is_near = any(position in neighbours(*cell) for cell in food)
    holds = {"found": is_near and agent == "agent_0", "eaten": eats, f"home_{agent[-1]}": position == HOME[agent]}
    return [event for event, is_so in holds.items() if is_so]


def label(step):
    """Return what each agent proposes; the environment rewards both in the step in which they eat together."""
    return {agent: propose(agent, seen, step.rewards[agent] > 0) for agent, seen in step.observations.items()}


def ready(step):
    """Return what agent 1 proposes when it trains alone: it eats as soon as it tries; agent 0 is simulated."""
    food, position, _ = read(step.observation)
    tries = step.action == LOAD and any(position in neighbours(*cell) for cell in food)
    return propose("agent_1", step.observation, tries)


def forage(agent, seen):
    """Walk to the first food and load it, or home when the machine, of states 0, 1, 2 and 3, says that it is eaten."""
    food, position, others = read(seen["world"])
    is_hungry = seen["machine"] < 2
    if is_hungry and food and position in neighbours(*food[0]):
        return LOAD
    goals = neighbours(*food[0]) - set(others) if is_hungry and food else {HOME[agent]}

    def is_free(cell):
        return all(0 <= part < SIZE for part in cell) and cell not in food and cell not in others

    row, column = next_cell(position, [goal for goal in goals if is_free(goal)], is_free)
    return MOVES[row - position[0], column - position[1]]


def main():
    world = gymnasium.make(f"Foraging-{SIZE}x{SIZE}-2p-{FOODS}f-coop-v3", disable_env_checker=True)
    env = hk.gym.wrap(world, machine=MACHINE, knows=KNOWS, control=CONTROL, label=label)
    play_team(env, forage, seed=0)

    field = {"field_size": (SIZE, SIZE), "max_num_food": FOODS, "sight": SIZE, "max_episode_steps": 100}
    small = ForagingEnv(1, 1, 1, 2, 2, **field, force_coop=False)  # one agent of level 1, and food of level 2
    play_individual(env.individual("agent_1", small, ready), forage, "agent_1", seed=0)


if __name__ == "__main__":
    main()
