"""Reviews of a team in training: agents count in team episodes how ready their teammates are.

Here the team is played in the world (imagined reviews are in `hocket.learn.sweep.beliefs`), with the present greedy
policies; these steps count as training steps, but nothing else is learnt in them. If the team is worse than the best
one so far, that one's arrays are returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np

from hocket.background import in_threads
from hocket.learn.kernels.arrays import Bools, Floats, Ints
from hocket.learn.learner import Arrays, Block
from hocket.learn.settings import SimulatedSettings
from hocket.learn.world import WorldBlock, WorldModel
from hocket.task.individual import IndividualTable
from hocket.task.tables import Tables
from hocket.task.teamwork.play import PlayedEpisodes, TeamMoves, play_team
from hocket.task.teamwork.readiness import Chances, Counts, Readiness

FIRST_REVIEW = 1_000  # training steps; each later review comes after twice as many
MOST_MOVES = 4_000_000  # of all agents, in all dynamics; with more, teammates stay as they are simulated
MOST_AGENTS = 50  # of teams for which that is done
LEAST_READY = 0.02  # the lowest readiness of simulated teammates
LEAST_READY_MODEL_FREE = 0.002  # likewise for q-learning, which learns less of events that are simulated less often
SHARE_PLAYED = 4  # a review in the world takes at most the steps so far over this
EPISODES_PLAYED = 5  # in a review in the world
LEAST_CHANGE = 0.05  # of a readiness, for which an agent changes its beliefs
MUCH_LESS, MUCH_LONGER = 0.9, 1.25  # of success or return, and of steps: by which a team is worse than another


def is_reviewed(tables: Tables) -> bool:
    """Say whether a team is small enough for reviews."""
    return 1 < len(tables.start) <= MOST_AGENTS and count_moves(tables) <= MOST_MOVES


def count_moves(tables: Tables) -> int:
    """Count the moves of all agents: actions in cells, in all dynamics."""
    return len(tables.start) * tables.next_cell[0, ..., 0].size


def next_review(step: int) -> int:
    """Return the training step of the next review.

    >>> [next_review(step) for step in (0, 999, 1000, 3000)]
    [1000, 1000, 2000, 4000]
    """
    return FIRST_REVIEW << (step // FIRST_REVIEW).bit_length()


def believed_table(readiness: Readiness, agent: int, chances: Chances, least: float = LEAST_READY) -> IndividualTable:
    """Tabulate an agent's steps by its beliefs; unexpected events are simulated with a low probability."""
    simulated = np.where(readiness.waits, np.maximum(chances, least), chances)
    table = readiness.table(agent, chances)
    return table._replace(limit=readiness.table(agent, simulated).limit)


class ReviewedTeam(Block, Protocol):
    """The agents of one seed, as a team that can be reviewed."""

    def play(self, step: int, max_steps: int) -> PlayedEpisodes:
        """Play greedy episodes of at most so many steps, after a training step."""

    def count(self, counts: Counts, before: Chances) -> Chances:
        """Estimate readiness from the counts of these episodes."""

    def believe(self, agent: int, chances: Chances) -> None:
        """Simulate teammates that are as ready as an agent believes from now on."""


class TableBlock(Block, Protocol):
    """The agents of one seed on a task."""

    def believe(self, table: IndividualTable) -> None:
        """Replace an agent's table."""


class TableTeam:
    """The agents of one seed on a task, as a `ReviewedTeam`."""

    def __init__(self, readiness: Readiness, block: TableBlock, seed: int, least: float = LEAST_READY) -> None:
        self.readiness, self.block, self.seed, self.least = readiness, block, seed, least
        self.train, self.arrays, self.count = block.train, block.arrays, readiness.count

    def play(self, step: int, max_steps: int) -> PlayedEpisodes:
        tables, episodes = self.readiness.tables, range(step, step + EPISODES_PLAYED)
        moves = TeamMoves.true(tables)
        return play_team(tables, self.arrays(0)["q"], moves, episodes=episodes, max_steps=max_steps, seed=self.seed)

    def believe(self, agent: int, chances: Chances) -> None:
        self.block.believe(believed_table(self.readiness, agent, chances, self.least))


class WorldReviewedBlock:
    """Seeds whose teams are reviewed in the world."""

    def __init__(self, teams: Sequence[TableTeam], settings: SimulatedSettings, threads: int) -> None:
        readiness, self.blocks = teams[0].readiness, [team.block for team in teams]
        about = (readiness.believe(settings.sync_probability), readiness.waits, settings.max_episode_steps)
        self.seeds = [TeamReviews(team, *about) for team in teams]
        self.threads = max(1, min(threads, len(self.seeds)))

    def train(self, begin: int, steps: int) -> None:
        in_threads(lambda seed: seed.train(begin, steps), self.seeds, self.threads)

    def arrays(self, index: int) -> Arrays:
        return self.seeds[index].arrays()

    def begin_with(self, world: WorldModel) -> None:
        for block in self.blocks:
            cast(WorldBlock, block).begin_with(world)

    def learnt(self, index: int) -> tuple[Ints, Ints]:
        return cast(WorldBlock, self.blocks[index]).learnt(0)

    def finish(self, step: int) -> None:
        """Do nothing: the best team is kept as it was played."""

    @property
    def q(self) -> Floats:
        """The q-functions of all seeds, for tests: [seeds, N, S, A, U]."""
        return np.stack([seed.arrays()["q"] for seed in self.seeds])


class TeamReviews:
    """A team with reviews: the beliefs of its agents, the agent that may change them next, and the best team so far."""

    def __init__(self, team: ReviewedTeam, first: Chances, waits: Bools, max_steps: int) -> None:
        self.team, self.first, self.waits, self.max_steps = team, first, waits, max_steps
        self.chances, self.turn = first.copy(), 0
        self.played_until = 0  # the training step up to which the team is played, and does not train
        self.best: tuple[float, float] | None = None  # success or return, and steps, of the best team so far
        self.best_arrays: Arrays = {}
        self.is_worse = False  # whether the team was worse than the best one when it was played last

    def arrays(self, index: int = 0) -> Arrays:
        """Return what the team has learnt or, if it is worse than the best team so far, what that one had."""
        return self.best_arrays if self.is_worse else self.team.arrays(0)

    def train(self, begin: int, steps: int) -> None:
        """Train the team, and review it when that is due."""
        stop = begin + steps
        while begin < stop:
            until = min(stop, next_review(begin))
            resumed = max(begin, self.played_until)
            if resumed < until:
                self.team.train(resumed, until - resumed)
            if until == next_review(begin):
                self.played_until = until + self._review(until)
            begin = until

    def _review(self, step: int) -> int:
        """Play the team, and update beliefs from what happened. Return the steps that were played. If it fails, or
        earns rewards that might be larger, one agent at a time changes its beliefs: if all did at once, each would
        respond to what the others no longer do. If it succeeds, all may, but no agent expects less."""
        agents, limit = len(self.chances), max(1, min(self.max_steps, step // SHARE_PLAYED // EPISODES_PLAYED))
        played = self.team.play(step, limit)
        succeeds = bool((played.steps >= 0).all()) and not len(played.returns)
        self._compare(*played.score(limit), succeeds)
        counted = self.team.count(played.counts, self.chances if succeeds else self.first)
        believed = np.maximum(self.chances, counted) if succeeds else counted
        change = np.where(self.waits, np.abs(believed - self.chances), 0.0).reshape(agents, -1).max(axis=1)
        in_turn = (np.arange(agents) + self.turn) % agents
        changing = in_turn[change[in_turn] > LEAST_CHANGE].tolist()
        for agent in changing if succeeds else changing[:1]:
            self.chances[agent] = believed[agent]
            self.team.believe(agent, self.chances)
        if changing and not succeeds:
            self.turn = changing[0] + 1
        return int(played.length.sum())

    def _compare(self, gained: float, steps: float, succeeds: bool) -> None:
        """Keep the team, unless it is worse than the best so far: by success or return or, if it succeeds, by steps."""
        most, fewest = self.best or (gained, steps)
        is_slow = succeeds and gained <= most and steps < MUCH_LONGER * fewest
        self.is_worse = is_slow or gained < most - (1 - MUCH_LESS) * abs(most)
        if not self.is_worse:
            self.best = gained, steps
            self.best_arrays = {name: array.copy() for name, array in self.team.arrays(0).items()}
