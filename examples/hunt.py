"""Three pursuers of PettingZoo's sisl/pursuit hunt in turns and then gather in a corner.

Pursuers 0 and 1 catch an evader together, then pursuers 1 and 2 catch another one; catches of other pairs do not count.
Pursuer 2 does not need to know the first catch, since pursuer 1 takes part in both. Run: python examples/hunt.py
"""

from pettingzoo import make

import hocket as hk
from players import next_cell, play_team

CATCH = 1.0  # a reward above this was for catching an evader; all others are much smaller
MOVES = ((-1, 0), (1, 0), (0, 1), (0, -1), (0, 0))

MACHINE = hk.RewardMachine(
    initial="start",
    transitions={("start", "first"): "one", ("one", "second"): "two", ("two", "gather"): "home"},
    final={"home"},
)
KNOWS = {
    "pursuer_0": {"first", "gather"},
    "pursuer_1": {"first", "second", "gather"},
    "pursuer_2": {"second", "gather"},
}
MACHINES = hk.decompose(MACHINE, KNOWS).machines


def propose(agent, state, reward, observation):
    """List what a pursuer proposes: by its own reward that it caught something, by walls that it is in the corner.

    A catch counts once: as the one for which the pursuer's own machine waits.
    """
    walls, middle = observation[:, :, 0], observation.shape[0] // 2
    in_corner = walls[middle, middle - 1] and walls[middle - 1, middle]
    waiting = [event for event in ("first", "second") if MACHINES[agent].step(state, event) is not None]
    caught = waiting if reward > CATCH else []
    return [*caught, "gather"] if in_corner else caught


def label(step):
    """Return what each pursuer proposes; the machine of pursuer 1 knows which of its two catches is next."""
    return {
        agent: propose(agent, step.states[agent], step.rewards[agent], seen)
        for agent, seen in step.observations.items()
    }


def target(agent, env, pursuit):
    """Choose where to go: to the evader nearest to pursuer 1 or, when the hunt is over for the agent, to the corner."""
    if env.machines[agent].step(env.states[agent], "gather") is not None or pursuit.evader_layer.n_agents() == 0:
        return (0, 0)
    leader = pursuit.pursuer_layer.get_position(1)
    evaders = [tuple(pursuit.evader_layer.get_position(i)) for i in range(pursuit.evader_layer.n_agents())]
    return min(evaders, key=lambda cell: abs(cell[0] - leader[0]) + abs(cell[1] - leader[1]))


def chase(agent, env):
    """Take a step of a shortest way round the building in the middle."""
    pursuit = env.env.unwrapped.env
    x, y = map(int, pursuit.pursuer_layer.get_position(int(agent[-1])))

    def is_free(cell):
        return 0 <= cell[0] < pursuit.x_size and 0 <= cell[1] < pursuit.y_size and pursuit.map_matrix[cell] == 0

    to_x, to_y = next_cell((x, y), [target(agent, env, pursuit)], is_free)
    return MOVES.index((to_x - x, to_y - y))


def main():
    settings = {"n_catch": 2, "surround": False, "shared_reward": False, "x_size": 12, "y_size": 12}
    pursuit = make("parallel", "sisl/pursuit-v5", n_pursuers=3, n_evaders=5, **settings)
    env = hk.gym.wrap(pursuit, machine=MACHINE, knows=KNOWS, label=label, waits=("first", "second", "gather"))
    play_team(env, lambda agent, _: chase(agent, env), seed=1)


if __name__ == "__main__":
    main()
