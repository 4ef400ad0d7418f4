"""Train tasks in continuous space with Stable-Baselines3: each agent alone, with the team put together for tests.

In a rendezvous agents move freely in a square, meet at a disc, and then each goes to its own disc. Each of them
trains a DQN in its individual environment, with simulated teammates, once with counterfactual experience and once
without. Agents train independently, in parallel processes; an agent's environment is the same in a team of two and in a
team of three, so it trains once for both.

    python examples/deep_rendezvous.py --out runs/deep
    python examples/deep_rendezvous.py --tasks buttons
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import tyro
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback

import hocket as hk
from hocket.adapters.policies import play_episode
from hocket.adapters.sb3 import Weights
from hocket.study.store import open_store, policy_path
from plane import Plane
from plane_tasks import buttons_plane, individual_in_plane, plane_from_task, scene_in_plane, team_in_plane

LEARNERS = {True: "dqn+counterfactuals", False: "dqn"}  # by whether it has counterfactual experience
TEST_SEED = 1_000_000  # of test episodes, different from those of training


@dataclass(frozen=True)
class Options:
    """Train tasks in the plane with DQN, with and without counterfactual experience, and test the teams."""

    tasks: tuple[str, ...] = ("rendezvous-2", "rendezvous-3")
    """Names of tasks: rendezvous-N, buttons, or any on a square map without walls and gates."""
    steps: int = 10_000
    """Training steps of each agent."""
    seeds: int = 3
    """Runs, with seeds 0, 1, ..."""
    test_every: int = 100
    """Training steps from test to test; a test is one episode of the team."""
    episodes: int = 100
    """Test episodes of the team after training."""
    processes: int = 2
    """Processes, each of which trains an agent."""
    out: Path | None = None
    """Folder for curves, policies and replays."""

    radius: float = 0.8
    """Radius of the meeting place and the goals, in a square of 10 x 10."""
    speed: float = 0.4
    """Maximum distance per step."""
    noise: float = 0.05
    """Standard deviation of the position after a step."""
    directions: int = 8
    """Number of directions to choose from, in addition to staying."""
    max_episode_steps: int = 150
    """Maximum steps of an episode."""
    anywhere: bool = True
    """Start training episodes (not tests) at random points of the square."""

    discount: float = 0.97
    """Discount factor per step."""
    learning_rate: float = 1e-3
    """Learning rate of the optimiser."""
    tau: float = 0.02
    """Rate of the soft update of the target network in each step."""
    batch_size: int = 128
    """Experiences per gradient step; there is one gradient step per step."""
    random_steps: int = 1_000
    """Steps of training before the first gradient step."""
    final_exploration: float = 0.1
    """Probability of a random direction, from a third of the training on."""
    width: int = 64
    """Sizes of the two hidden layers."""

    def world(self, name: str) -> tuple[hk.Task, Plane]:
        """Load a task, and convert it to the plane."""
        task, rules = hk.load_task(name), {"speed": self.speed, "noise": self.noise, "directions": self.directions}
        rules["most_steps"] = self.max_episode_steps
        plane = buttons_plane(**rules) if name == "buttons" else plane_from_task(task, self.radius, **rules)
        return task, plane

    def school(self, name: str) -> str:
        """Return the task on which agents train: of all rendezvous the largest, which contains the others' agents."""
        family = [task for task in self.tasks if task.startswith("rendezvous-")]
        return max(family, key=lambda task: int(task.rpartition("-")[2])) if name in family else name

    def settings(self) -> dict[str, float | int | bool]:
        """List the settings of a run, on which its results depend."""
        others = ("steps", "seeds", "processes")
        return {n: value for n, value in asdict(self).items() if isinstance(value, int | float) and n not in others}


class Job(NamedTuple):
    """The task of one process: an agent to train."""

    options: Options
    task: str
    agent: str
    counterfactuals: bool
    seed: int


class Trained(NamedTuple):
    """Snapshots of an agent's weights during training."""

    weights: Sequence[Weights]
    seconds: float  # of computing


class Snapshots(BaseCallback):
    """Copy a model's weights every so many steps."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self.every, self.taken = every, list[Weights]()

    def _on_step(self) -> bool:
        if self.n_calls % self.every == 0:
            self.taken.append(hk.deep.get_weights(self.model))
        return True


def learner(job: Job) -> DQN:
    """Make an agent's environment, and an untrained model."""
    options, (task, plane) = job.options, job.options.world(job.task)
    env = individual_in_plane(task, plane, job.agent, anywhere=options.anywhere)
    return DQN(
        "MlpPolicy",
        env,
        replay_buffer_class=hk.deep.CounterfactualReplayBuffer if job.counterfactuals else None,
        buffer_size=len(env.machine.states) * options.steps,  # enough for all experiences
        learning_starts=options.random_steps,
        learning_rate=options.learning_rate,
        gamma=options.discount,
        tau=options.tau,
        target_update_interval=1,
        batch_size=options.batch_size,
        train_freq=1,
        exploration_fraction=1 / 3,
        exploration_final_eps=options.final_exploration,
        policy_kwargs={"net_arch": [options.width, options.width]},
        seed=1_000 * job.seed + list(task.agents).index(job.agent) + 1,
        device="cpu",
    )


def train(job: Job) -> Trained:
    """Train an individual agent."""
    torch.set_num_threads(1)
    start, snapshots = time.process_time(), Snapshots(job.options.test_every)
    learner(job).learn(job.options.steps, callback=snapshots)
    return Trained(snapshots.taken, time.process_time() - start)


def train_all(jobs: Sequence[Job], processes: int) -> Iterator[Trained]:
    """Train agents in parallel processes."""
    if processes == 1:
        yield from map(train, jobs)
        return
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(train, jobs)


def examine(options: Options, name: str, trained: Mapping[Job, Trained]) -> hk.Record:
    """Test the team of each snapshot."""
    task, plane = options.world(name)
    team, scene = team_in_plane(task, plane), scene_in_plane(task, plane)
    models = {job.agent: learner(job) for job in trained}
    rows = []
    for number in range(options.steps // options.test_every):
        for job, own in trained.items():
            hk.deep.set_weights(models[job.agent], own.weights[number])
        played = play_episode(team, models, TEST_SEED + number, greedy=True)
        needed = played.steps if played.success else options.max_episode_steps
        rows.append(((number + 1) * options.test_every, needed, played.success))
    steps, taken, success = (np.array(column) for column in zip(*rows, strict=True))
    _, _, _, counterfactuals, seed = next(iter(trained))
    record = hk.Record(
        scene.task,
        scene.digest,
        LEARNERS[counterfactuals],
        seed,
        options.steps,
        options.settings() | {"counterfactuals": counterfactuals},
        {"greedy": hk.TestEpisodes(steps, taken, success)},
        sum(agent.seconds for agent in trained.values()),
        hk.gym.play_tests(team, models, options.episodes, seed=2 * TEST_SEED),
    )
    if options.out is not None:
        keep(options.out, record, scene, trained)
    return record


def keep(folder: Path, record: hk.Record, scene: hk.Scene, trained: Mapping[Job, Trained]) -> None:
    """Write a team's tests, policies and scene into a folder."""
    arrays = hk.deep.join_weights({job.agent: own.weights[-1] for job, own in trained.items()})
    policy = hk.Policy(record.task, record.digest, record.learner, record.seed, record.settings, arrays)
    policy.save(policy_path(open_store(folder), record))
    hk.save_records(folder, [record], [scene])


def line(record: hk.Record) -> str:
    """Summarise a team's tests in a line."""
    review, tests = record.test_summary, record.tests["greedy"]
    assert review is not None
    good = [int(step) for step in np.unique(tests.step) if tests.success[tests.step >= step].mean() > 0.9]
    since = f"{good[0]:,}" if good else "never"
    share = review.successes / review.episodes
    taken = np.median(tests.test_steps[-10:])
    name, seed, minutes = record.learner, record.seed, record.seconds / 60
    return f"{record.task:20}  {name:20}  {seed:4}  {share:7.2f}  {taken:5.0f}  {since:>12}  {minutes:7.1f}"


def run(options: Options) -> list[hk.Record]:
    """Train all agents, with and without counterfactual experience, and test all teams."""
    teams = {
        (name, seed, counterfactuals): [
            Job(options, options.school(name), agent, counterfactuals, seed) for agent in options.world(name)[0].agents
        ]
        for name, seed, counterfactuals in product(options.tasks, range(options.seeds), (True, False))
    }
    jobs = list(dict.fromkeys(job for team in teams.values() for job in team))
    trained = {}
    for job, result in zip(jobs, train_all(jobs, options.processes), strict=True):
        trained[job] = result
        if sys.stderr.isatty():
            print(f"{len(trained)} of {len(jobs)}: {job.agent}, {result.seconds:.0f} s", file=sys.stderr)
    return [examine(options, name, {job: trained[job] for job in own}) for (name, *_), own in teams.items()]


def main() -> None:
    """Run the command line, and print the results."""
    options, start = tyro.cli(Options, description=__doc__), time.perf_counter()
    torch.set_num_threads(1)  # small networks do not profit from threads
    try:
        records = run(options)
    except hk.HocketError as error:
        print(f"deep_rendezvous: {error}", file=sys.stderr)
        sys.exit(2)
    print(f"{'task':20}  {'learner':20}  seed  success  steps  >0.9 since    minutes")
    print(*map(line, records), sep="\n")
    print(f"success: share of {options.episodes} episodes at the end; steps: median of the last ten tests;")
    print(
        ">0.9 since: the step of training from which on more than nine tests in ten succeed; minutes: of a processor."
    )
    print(f"All in all {(time.perf_counter() - start) / 60:.1f} minutes with {options.processes} processes.")


if __name__ == "__main__":
    main()
