"""Look at what was learnt: how often the team and each agent succeed, where they go, and episodes to watch."""

from __future__ import annotations

import numpy as np

from hocket.learn.catalogue import find_learner
from hocket.learn.learner import Player
from hocket.learn.policies import Policy
from hocket.learn.testing import recording
from hocket.random import TEAM, stream_key
from hocket.study.records import Replay, TestSummary
from hocket.task.tables import Tables, compile_task, draw_starts, settle
from hocket.task.task import Task
from hocket.task.teamwork.check import Stall, describe_stall

EPISODES = 100  # of a run, from which success and visits are counted ...
MOST_TEST_WORK = 10**8  # ... or as many as have so many agent-steps at most, and at least one
MOST_VISITS = 200_000  # agents times cells up to which visits are kept
MOST_RECORDED = 10**7  # agent-steps up to which there is room for an episode, from which visits are counted
MOST_WATCHED = 20_000  # agent-steps of an episode up to which it is kept to be watched
FINAL_SEED = 2**62  # these episodes are none of those that were played during training


def play_tests(task: Task, tables: Tables, policy: Policy, most_episodes: int = EPISODES) -> TestSummary:
    """Play some episodes with a policy (greedy), and one of each kind to be watched."""
    learner = find_learner(policy.learner)
    settings = learner.check_policy(policy.arrays, policy.settings, tables)
    most_steps = settings.max_episode_steps
    player = learner.player(tables, settings.temperature, most_steps)
    agents, cells = tables.offset.shape
    episodes = max(1, min(most_episodes, MOST_TEST_WORK // (agents * most_steps)))
    counts = agents * cells <= MOST_VISITS and agents * most_steps <= MOST_RECORDED
    visits = np.zeros((agents, cells if counts else 0), np.int64)
    episodes_of = (policy.arrays, _seed(policy), range(episodes))
    if counts:
        played = player.count_visits(*episodes_of, most_steps, visits)
    else:
        played = player.play_many(*episodes_of, greedy=True)
    successes, agent_successes = int((played.steps >= 0).sum()), (played.finish >= 0).sum(axis=0)
    earned = sum(played.returns, np.zeros_like(player.returns))
    replays = {
        kind: replay
        for kind, greedy in (("softmax", False), ("greedy", True))
        if (replay := watch(task, tables, player, policy, greedy, most_steps)) is not None
    }
    means = tuple((earned / episodes).tolist())
    return TestSummary(episodes, successes, tuple(agent_successes.tolist()), visits, replays, "greedy", means)


def _seed(policy: Policy) -> int:
    return policy.seed ^ FINAL_SEED


def watch(task: Task, tables: Tables, player: Player, policy: Policy, greedy: bool, most_steps: int) -> Replay | None:
    """Play one episode and keep all of it; None where it is too long to be watched."""
    agents = len(tables.start)
    record = recording(min(most_steps, MOST_WATCHED // agents), agents)
    taken = player.play(policy.arrays, _seed(policy), 0, greedy, record)
    length = taken if taken >= 0 else most_steps
    if length * agents > MOST_WATCHED:
        return None
    seeds, numbers = np.full(agents, _seed(policy), np.uint64), np.arange(agents, dtype=np.uint64)
    start = draw_starts(tables, stream_key(TEAM, seeds, numbers))
    cells = np.concatenate([start[None], record.cell[:length]]).astype(np.int64)  # [T + 1, N]
    states = np.concatenate([tables.initial[None], record.state[:length]])
    names, events = [list(machine.states) for machine in task.machines.values()], list(task.events)
    settled = settle(tables, tables.kinds(cells[:-1], cells[1:]), states[:-1])
    rows, columns = np.divmod(cells, task.grid.columns)
    return Replay(
        taken >= 0,
        np.stack([columns, rows], axis=2) + 0.5,
        tuple(tuple(known[state] for known, state in zip(names, row, strict=True)) for row in states.tolist()),
        tuple((step, events[event]) for step, happened in enumerate(settled.events(), start=1) for event in happened),
    )


def find_stall(task: Task, policy: Policy) -> Stall | None:
    """Watch a greedy episode of a policy, and say where the team stalls; None where it completes the task."""
    tables, learner = compile_task(task), find_learner(policy.learner)
    settings = learner.check_policy(policy.arrays, policy.settings, tables)
    player = learner.player(tables, settings.temperature, settings.max_episode_steps)
    replay = watch(task, tables, player, policy, True, settings.max_episode_steps)
    return None if replay is None else stall_of(task, replay)


def stall_of(task: Task, replay: Replay) -> Stall | None:
    """Say where the team stalls in an episode; None where it completes its task, or is not of this task."""
    across, down = np.floor(replay.points).astype(int).transpose(2, 0, 1)
    cells, names = down * task.grid.columns + across, [machine.states for machine in task.machines.values()]
    fits = cells.shape[1] == len(names) and (cells >= 0).all() and (cells < task.grid.cells).all()
    if replay.success or not fits:
        return None
    if any(state not in known for row in replay.states for known, state in zip(names, row, strict=True)):
        return None
    return describe_stall(
        task, [name for _, name in replay.events], list(zip(cells.tolist(), replay.states, strict=True))
    )
