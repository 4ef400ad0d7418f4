"""Reviews of a team in training: what agents believe of their teammates is counted in team episodes.

Imagined reviews are `hocket.learn.sweep.beliefs`. Here the team is played in the world, with the present greedy
policies, and the steps that it takes are training steps: nothing else is learnt in them. A team that turns out to be
worse than an earlier one is not shown: the best one so far is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
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
LEAST_READY = 0.02  # readiness of simulated teammates, however little an agent expects of them
SHARE_PLAYED = 4  # a review in the world takes at most the steps so far over this
EPISODES_PLAYED = 5  # in a review in the world
LEAST_CHANGE = 0.05  # of a readiness, for which an agent changes what it believes
MUCH_LESS, MUCH_LONGER = 0.9, 1.25  # of success or return, and of steps: by which a team is worse than another


def is_reviewed(tables: Tables) -> bool:
    """Say whether a team is small enough for what its agents believe to be counted."""
    return 1 < len(tables.start) <= MOST_AGENTS and count_moves(tables) <= MOST_MOVES


def count_moves(tables: Tables) -> int:
    """Count the moves of all agents: actions in cells, in all dynamics."""
    return len(tables.start) * tables.next_cell[0, ..., 0].size


def next_review(step: int) -> int:
    """Say after which training step the next review comes.

    >>> [next_review(step) for step in (0, 999, 1000, 3000)]
    [1000, 1000, 2000, 4000]
    """
    return FIRST_REVIEW << (step // FIRST_REVIEW).bit_length()


def believed_table(readiness: Readiness, agent: int, chances: Chances, least: float = LEAST_READY) -> IndividualTable:
    """Tabulate an agent's steps by what it believes; what it does not expect is simulated, if seldom."""
    simulated = np.where(readiness.waits, np.maximum(chances, least), chances)
    table = readiness.table(agent, chances)
    return table._replace(limit=readiness.table(agent, simulated).limit)


class ReviewedTeam(Block, Protocol):
    """The agents of one seed, who can be played as a team and told what to believe of their teammates."""

    def play(self, step: int, max_steps: int) -> PlayedEpisodes:
        """Play greedy episodes of at most so many steps, after a training step."""

    def count(self, counts: Counts, before: Chances) -> Chances:
        """Estimate readiness from what happened in them."""

    def believe(self, agent: int, chances: Chances) -> None:
        """Let an agent train with teammates that are as ready as it believes from now on."""


class TableBlock(Block, Protocol):
    """The agents of one seed in a world of hocket's own."""

    def believe(self, table: IndividualTable) -> None:
        """Let an agent go by another table from now on."""


class TableTeam:
    """Such agents as a team that can be reviewed."""

    def __init__(self, readiness: Readiness, block: TableBlock, seed: int, least: float = LEAST_READY) -> None:
        self.readiness, self.block, self.least = readiness, block, least
        self.train, self.arrays, self.count = block.train, block.arrays, readiness.count
        self.play_greedily = partial(play_team, readiness.tables, moves=TeamMoves.true(readiness.tables), seed=seed)

    def play(self, step: int, max_steps: int) -> PlayedEpisodes:
        episodes = range(step, step + EPISODES_PLAYED)
        return self.play_greedily(self.arrays(0)["q"], episodes=episodes, max_steps=max_steps)

    def believe(self, agent: int, chances: Chances) -> None:
        self.block.believe(believed_table(self.readiness, agent, chances, self.least))


class WorldReviewedBlock:
    """Seeds whose teams are played in the world now and then; each believes what it has counted."""

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
        """Keep the best team that was played."""

    @property
    def q(self) -> Floats:
        """The q-functions of all seeds, as tests take them: [seeds, N, S, A, U]."""
        return np.stack([seed.arrays()["q"] for seed in self.seeds])


class TeamReviews:
    """A team, what its agents believe, whose turn it is to believe something else, and the best team so far."""

    def __init__(self, team: ReviewedTeam, first: Chances, waits: Bools, max_steps: int) -> None:
        self.team, self.first, self.waits, self.max_steps = team, first, waits, max_steps
        self.chances, self.turn = first.copy(), 0
        self.played_until = 0  # the training step up to which the team is played, and does not train
        self.best: tuple[float, float] | None = None  # success or return, and steps, of the best team so far
        self.best_arrays: Arrays = {}
        self.is_worse = False  # whether the team was found to be, when it was played last

    def arrays(self, index: int = 0) -> Arrays:
        """Show what the team has learnt, or where it was found to be worse than an earlier one, what that one had."""
        return self.best_arrays if self.is_worse else self.team.arrays(0)

    def train(self, begin: int, steps: int) -> None:
        """Train the team, and play it where a review is due."""
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
        """Play the team, and let agents believe what they see. Return the steps that were played.

        If it fails, or earns rewards of which there may be more, one agent at a time: if all changed at once, each
        would answer what the others no longer do. If it succeeds, all expect the more what has happened, and nobody
        expects less.
        """
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
        """Keep the team, unless it is worse than the best so far: by success or return, and if it succeeds by steps."""
        most, fewest = self.best or (gained, steps)
        is_slow = succeeds and gained <= most and steps < MUCH_LONGER * fewest
        self.is_worse = is_slow or gained < most - (1 - MUCH_LESS) * abs(most)
        if not self.is_worse:
            self.best = gained, steps
            self.best_arrays = {name: array.copy() for name, array in self.team.arrays(0).items()}
