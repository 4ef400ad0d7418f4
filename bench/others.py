"""Other tools beside hocket, where both can do the same: `python bench/others.py [--steps N]`.

Training: how many steps per second of processor time does tabular Q-learning with counterfactual updates take, that is
with an update for every state of the reward machine? One agent on 10 x 10 cells goes to a meeting place and then to its
goal, the agent A1 of rendezvous-2 alone. What is not installed is left out:

    pip install --no-deps --target others pyrewardmachines multiagent-rl-rm
    git clone https://github.com/cyrusneary/rm-cooperative-marl
    PYTHONPATH=others python bench/others.py --paper rm-cooperative-marl

Formulas beside MONA and Spot are in bench/formulas.py, projections beside libFAUDES in bench/algebra.py.
"""

import argparse
import contextlib
import io
import sys
import time
from enum import Enum
from functools import partial
from pathlib import Path

import numpy as np

SIDE = 10
START, MEETING, GOAL = (0, 0), (3, 4), (9, 7)
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1), (0, 0))
LIMIT = 1_000  # steps of an episode
DISCOUNT, RATE = 0.9, 0.8


class Event(Enum):
    MEET = 1
    GOAL = 2


def move(cell: tuple[int, int], action: int) -> tuple[int, int]:
    row, column = (min(max(x + d, 0), SIDE - 1) for x, d in zip(cell, MOVES[action], strict=True))
    return row, column


def train_pycrm(steps: int) -> float:
    """Train with PyCRM's own agent and cross product; the world is as small as Gymnasium lets it be."""
    import gymnasium
    from pycrm.agents.tabular import CounterfactualQLearningAgent
    from pycrm.automaton import RewardMachine
    from pycrm.crossproduct import CrossProduct
    from pycrm.label import LabellingFunction

    class World(gymnasium.Env):
        action_space = gymnasium.spaces.Discrete(len(MOVES))

        def reset(self, **options):
            self.cell = START
            return np.array(self.cell, np.float32), {}

        def step(self, action):
            self.cell = move(self.cell, action)
            return np.array(self.cell, np.float32), 0.0, False, False, {}

    class Labels(LabellingFunction):
        @LabellingFunction.event
        def meet(self, before, action, after):
            return Event.MEET if tuple(after) == MEETING else None

        @LabellingFunction.event
        def goal(self, before, action, after):
            return Event.GOAL if tuple(after) == GOAL else None

    class Machine(RewardMachine):
        u_0 = 0

        def _get_state_transition_function(self):
            return {0: {"MEET": 1, "not MEET": 0}, 1: {"GOAL": -1, "not GOAL": 1}}

        def _get_reward_transition_function(self):
            return {0: {"MEET": 0, "not MEET": 0}, 1: {"GOAL": 1, "not GOAL": 0}}

    class Product(CrossProduct):
        action_space = World.action_space
        taken = 0

        def step(self, action):
            Product.taken += 1
            return super().step(action)

    env = Product(World(), Machine(Event), Labels(), LIMIT)
    agent = CounterfactualQLearningAgent(env, epsilon=0.1, learning_rate=RATE, discount_factor=DISCOUNT)
    begin = time.process_time()
    while Product.taken < steps:
        agent.learn(1)
    return Product.taken / (time.process_time() - begin)


def train_multiagent(steps: int) -> float:
    """Train with the learner of multiagent-rl-rm, which is told counterfactual experience."""
    from multiagent_rlrm.learning_algorithms.qlearning import QLearning

    agent = QLearning(
        gamma=DISCOUNT, action_selection="greedy", learning_rate=RATE, use_qrm=True, seed=0, epsilon_end=0.1,
        state_space_size=2 * SIDE * SIDE, action_space_size=len(MOVES),
    )  # fmt: skip
    cell, state, clock = START, 0, 0
    agent.learn_init()
    agent.learn_init_episode()
    begin = time.process_time()
    for _ in range(steps):
        number = cell[0] * SIDE + cell[1]
        action = int(agent.choose_action(2 * number + state))
        after = move(cell, action)
        following = after[0] * SIDE + after[1]
        experience = []
        for past, place in enumerate((MEETING, GOAL)):
            happens = after == place
            done, now = happens and past == 1, min(past + happens, 1)
            known = (
                2 * number + past,
                action,
                float(done),
                2 * following + now,
                done,
                number,
                past,
                following,
                now,
                {},
            )
            experience.append(known)
        is_done = state == 1 and after == GOAL
        state = 1 if after == MEETING else state
        agent.update(2 * number, 2 * following, action, 0.0, is_done, info={"qrm_experience": experience})
        cell, clock = after, clock + 1
        if is_done or clock == LIMIT:
            agent.learn_init_episode()
            cell, state, clock = START, 0, 0
    return steps / (time.process_time() - begin)


def train_paper(folder: str, steps: int) -> float:
    """Train two agents with the public code of the paper's authors, without tests."""
    source = Path(folder).resolve() / "src"
    sys.path.insert(0, str(source))
    with contextlib.chdir(source):
        from Agent.agent import Agent
        from experiments.dqprm import run_qlearning_task
        from rendezvous_config import rendezvous_config

        tester = rendezvous_config(1, 2)
        tester.testing_params.test = False
        starts = tester.env_settings["initial_states"]
        agents = [
            Agent(name, starts[place], SIDE * SIDE, [0, 1, 2, 3, 4], place + 1)
            for place, name in enumerate(tester.rm_learning_file_list)
        ]
        begin = time.process_time()
        while tester.get_current_step() < steps // 2:
            run_qlearning_task(0.0, tester, agents, show_print=False)
        return 2 * tester.get_current_step() / (time.process_time() - begin)


def train_hocket(seeds: int, steps: int) -> float:
    """Train two agents with DQPRM, tests included (one after every 1,000 steps)."""
    import hocket as hk

    hk.train("rendezvous-2", "dqprm", seeds=seeds, steps=1_000)  # compiles
    begin = time.process_time()
    hk.train("rendezvous-2", "dqprm", seeds=seeds, steps=steps)
    return 2 * seeds * steps / (time.process_time() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--paper", help="a clone of the paper's public code")
    options = parser.parse_args()
    works = {
        "PyCRM (pyrewardmachines)": partial(train_pycrm, options.steps),
        "multiagent-rl-rm, Q-learning": partial(train_multiagent, options.steps),
        "the paper's code": partial(train_paper, options.paper, options.steps) if options.paper else None,
        "hocket, 1 seed": partial(train_hocket, 1, 40 * options.steps),
        "hocket, 16 seeds": partial(train_hocket, 16, 10 * options.steps),
    }
    print("| tool | agent-steps per second of processor time |\n| --- | ---: |")
    for name, work in works.items():
        try:
            with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
                rates = [work() for _ in range(3)] if work is not None else []
        except ImportError as error:
            print(f"| {name} | not installed ({error.name}) |")
            continue
        if rates:
            print(f"| {name} | {np.median(rates):,.0f} |", flush=True)


if __name__ == "__main__":
    main()
