"""Model-based learners of the package multiagent-rl-rm (PyPI), in the same individual environments as hocket's.

Its pinned requirements conflict with hocket's, so it is best installed beside them:

    pip install --no-deps --target rivals multiagent-rl-rm
    PYTHONPATH=rivals python bench/samples.py --rivals --tasks rendezvous-1 --seeds 1

R-MAX and UCBVI are told cells, machine states and rewards, as one number each: neither the machine nor where events
happen. QR-MAX is told which part is the machine's state. It takes that for a function of the last one and the cell, and
moves for the same in all machine states. Neither holds here: simulated teammates are ready at random, gates open.
"""

import contextlib
import io

import numpy as np

import hocket as hk
from hocket.task.grid import ACTIONS

DISCOUNT, LONGEST = 0.9, 1_000
KNOWN_AFTER = 5  # tries after which R-MAX and QR-MAX take a move for known; the package's 100 takes far longer
HORIZON = 100  # steps that UCBVI plans ahead
NAMES = ("R-MAX", "UCBVI", "QR-MAX")


def make_rival(name: str, cells: int, states: int, seed: int):
    """Make a learner of the package for so many cells and machine states."""
    from multiagent_rlrm.learning_algorithms.qrmax_v2 import QRMax_v2
    from multiagent_rlrm.learning_algorithms.rmax import RMax
    from multiagent_rlrm.learning_algorithms.ucbvi import UCBVI

    size = {"state_space_size": cells * states, "action_space_size": len(ACTIONS), "seed": seed}
    if name == "UCBVI":
        return UCBVI(**size, ep_len=HORIZON, gamma=DISCOUNT)
    if name == "R-MAX":
        return RMax(**size, gamma=DISCOUNT, s_a_threshold=KNOWN_AFTER)
    samples = {"nsamplesTE": KNOWN_AFTER, "nsamplesRE": KNOWN_AFTER}
    return QRMax_v2(**size, gamma=DISCOUNT, q_space_size=states, **samples)


def train_agent(task: hk.Task, agent: str, name: str, seed: int, steps: int) -> np.ndarray:
    """Train an agent alone; return the values of its actions: [cells, actions, machine states]."""
    machine = task.machines[agent]
    cells, states = task.grid.rows * task.grid.columns, list(machine.states)
    number = {state: place for place, state in enumerate(states)}
    with contextlib.redirect_stdout(io.StringIO()):  # the package prints
        rival = make_rival(name, cells, len(states), seed)
        episode = hk.IndividualEpisode(task, agent, seed=seed)
        clock = episodes = 0
        rival.learn_init()
        rival.learn_init_episode()
        for _ in range(steps):
            cell, state = episode.cell, number[episode.state]
            now = cell * len(states) + state
            action = int(rival.choose_action(now, info={"s": cell, "q": state}))
            step = episode.step(ACTIONS[action])
            after = number[step.state]
            info = {"prev_s": cell, "prev_q": state, "s": step.cell, "q": after, "Renv": 0.0, "RQ": step.reward}
            clock += 1
            is_over = step.done or clock == LONGEST
            following = step.cell * len(states) + after
            rival.update(now, following, action, step.reward, step.done, truncated=is_over and not step.done, info=info)
            if is_over:
                episodes += 1
                rival.learn_init_episode()
                episode, clock = hk.IndividualEpisode(task, agent, seed=seed + 1_000_003 * episodes), 0
    q = np.asarray(rival.Q if name == "QR-MAX" else rival.q_table if hasattr(rival, "q_table") else rival.Q_policy[0])
    return q.reshape(cells, len(states), len(ACTIONS)).transpose(0, 2, 1)


def train_team(task: hk.Task, name: str, seed: int, steps: int) -> hk.Policy:
    """Train all agents alone, each with a copy of a learner."""
    most = max(len(machine.states) for machine in task.machines.values())
    q = np.zeros((len(task.agents), task.grid.rows * task.grid.columns, len(ACTIONS), most), np.float32)
    for place, agent in enumerate(task.agents):
        values = train_agent(task, agent, name, seed, steps)
        q[place, :, :, : values.shape[2]] = values
    settings = {"temperature": 0.02, "max_episode_steps": LONGEST}
    return hk.Policy(task.name, task.digest, "dqprm", seed, settings, {"q": q})
