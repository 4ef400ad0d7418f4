"""Beliefs of sweep's agents about their teammates, from team episodes that are played in their own models.

Agents begin with simulated teammates that are ready with a constant probability. In reviews, the team is imagined: each
agent's policy in its model, where untried moves lead to the next cell. If the imagined team fails, best responses in
turn are searched (see `hocket.task.teamwork`), and agents explore and plan from then on by the readiness of the best
team. Later on, untried moves are first imagined to lead nowhere: a path that relies on them may not exist, and agents
that do not explore any more would not notice. This takes no steps of the world; if the team relies on untried moves all
the same, it practises (see `block.Practice`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hocket.learn.sweep.planning import Sweeper
from hocket.random import threshold
from hocket.task.grid import slipped_actions
from hocket.task.teamwork.play import TeamMoves, Values
from hocket.task.teamwork.readiness import Chances, Readiness
from hocket.task.teamwork.search import BELIEFS, MANY_TIMES, MOST_TIMES, PlannedTeam, TeamSearch

FIRST_FULL_SEARCH = 4_000  # training steps, after which a faster team is searched even if the team succeeds, once
KNOWN = 4  # tries after which a move is expected to have the same outcomes
RARE_FAILURES = 0.5  # success from which on more episodes are played, as few do not show rare failures
MOST_WORK = 2_000_000  # agent-steps of imagined episodes in a review


def imagined_moves(team: Sequence[Sweeper], ahead: NDArray[np.integer], weight: float) -> TeamMoves:
    """Build the world in which agents imagine their team: moves have the outcomes that were seen and, with a weight in
    tries, lead to the cells `ahead`, [S, A]. A move that has not slipped in its few tries may slip, with the
    frequency of all moves, to where the move in that direction leads."""
    dynamics = max(len(agent.moves.move) for agent in team)
    end = np.zeros((len(team), dynamics, *ahead.shape, team[0].tries.shape[1] + 1), np.int32)
    limit = np.zeros((*end.shape[:-1], end.shape[-1] - 1), np.int64)
    outcomes = np.sum([agent.tries.sum(axis=0) for agent in team], axis=0)
    share = outcomes / max(1, outcomes.sum())  # of all moves, by outcome
    turned = np.array([slipped_actions(outcome) for outcome in range(len(share))])  # [K, A]
    for number, agent in enumerate(team):
        table, tries, count = agent.moves, agent.tries, len(agent.moves.move)
        is_seen = tries[table.move] > 0  # [D, S, A, K]
        straight = np.where(is_seen[..., 0], table.end[table.move, 0], ahead)
        guessed = np.moveaxis(straight[:, :, turned], 2, 3)
        end[number, :count, ..., 0] = ahead
        end[number, :count, ..., 1:] = np.where(is_seen, table.end[table.move], guessed)
        total = tries.sum(axis=1, keepdims=True)
        counts = np.where(total > 0, tries + KNOWN * share, 0.0)
        total = np.where(total < KNOWN, total + weight, total) + np.where(total > 0, KNOWN, 0)
        above = np.cumsum((counts / total)[:, ::-1], axis=1)[:, ::-1]  # that the outcome is this one or a later one
        limit[number, :count] = np.rint(above * threshold(1.0)).astype(np.int64)[table.move]
    return TeamMoves(np.arange(len(team)), end, limit)


class Beliefs:
    """The beliefs of one seed's agents about their teammates."""

    def __init__(self, readiness: Readiness, chance: float, seed: int, max_steps: int) -> None:
        self.readiness, self.seed, self.max_steps = readiness, seed, max_steps
        self.starts = (chance, *(other for other in BELIEFS if other < chance))
        self.chances: Chances = readiness.believe(chance)
        self.searched = False
        self.values: Values | None = None  # of the team that was imagined last
        self.is_hope = False  # whether it succeeds only with untried moves
        self.never_fails = False  # whether it has succeeded in each of many episodes
        self.best = -np.inf  # the mean return of the best team so far, if a task has rewards

    def review(self, step: int, discount: float, cautious: TeamMoves, hopeful: TeamMoves, is_last: bool) -> list[int]:
        """Imagine the team, and search for another one if it does not succeed; list agents whose beliefs change."""
        times = MOST_TIMES if is_last else MANY_TIMES  # the last review is the most thorough one
        is_late, before, self.never_fails = step >= FIRST_FULL_SEARCH, self.chances, False
        is_full, self.searched = is_late and not self.searched, self.searched or is_late
        tables = self.readiness.tables
        worlds = [cautious, hopeful] if is_late and not tables.has_rewards else [hopeful]
        better: PlannedTeam | None = None
        for moves in worlds:
            self.is_hope = moves is not worlds[0]
            how = (discount, moves, self.max_steps, self.seed, self.starts, MOST_WORK)
            search = TeamSearch(tables, self.readiness, *how)
            score = self._play(search)
            if is_late and not is_full and (tables.has_rewards or score[0] > RARE_FAILURES):
                search = search.thorough(times)
                score = self._play(search)
            if not is_full and (search.is_enough(score) or (tables.has_rewards and score[0] >= self.best)):
                self.never_fails = search.enough == 1 and search.is_enough(score)
                return []
            team = search.run(before)
            if is_late and not is_full and search.is_enough(team.score) and search.enough < 1:
                search = search.thorough(times)
                if not search.is_enough(search.score(search.play(team.values))):
                    team = search.run(team.chances)
            if search.is_enough(team.score):
                self.never_fails = search.enough == 1
                break
            better = better or (team if team.score[0] > score[0] else None)
        else:
            self.is_hope, team = False, better or team
        self.chances, self.best, self.values = team.chances, max(self.best, team.score[0]), team.values
        return np.flatnonzero((self.chances != before).any(axis=(1, 2, 3))).tolist()

    def _play(self, search: TeamSearch) -> tuple[float, float]:
        """Play the team, and rate it."""
        self.values = np.stack([search.values(agent, self.chances) for agent in range(len(self.chances))])
        return search.score(search.play(self.values))
