"""Search for a team: best responses to readiness that is counted in team episodes, one agent at a time.

Agents plan alone, against what they believe of their teammates. The team is played, and what happens of what an agent
proposes is counted: that is what it believes when it plans again, the others being as they are. The best team is kept,
by success and then by steps, or by its mean return where the task has rewards. There are other starts: agreements, each
a trace of the team machine that everybody expects the team to follow, and, where these end badly too, less trust in
teammates.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.task.grid import ACTIONS
from hocket.task.tables import Tables
from hocket.task.teamwork.play import PlayedEpisodes, TeamMoves, Values, play_team
from hocket.task.teamwork.readiness import Chances, Readiness

BELIEFS = (0.3, 0.05, 0.01)  # how ready teammates are per step, at the start
LIKELY, UNLIKELY = 0.3, 0.003  # readiness for what was agreed on, and for everything else
MOST_AGREEMENTS = 12
ROUNDS = 3  # in which each agent plans anew, from a start
EPISODES = 60  # that are played to judge a team
MANY_EPISODES = 4 * EPISODES  # with which what few have not shown is looked for
ENOUGH = 0.99  # success of a team that works
MOST_REMEMBERED = 2**26  # bytes of plans, and of what came of teams

Plan = Callable[[int, Chances], NDArray[np.float32]]  # agent, readiness -> its action values [S, A, U]


class PlannedTeam(NamedTuple):
    """Agents with the readiness against which each has planned."""

    values: Values
    chances: Chances
    score: tuple[float, float]  # success or the mean return, and the mean steps with their sign changed
    changes: int  # plans until it was found


@dataclass(frozen=True)
class TeamSearch:
    """How a team is looked for, in the true world or in what agents have learnt of it."""

    tables: Tables
    readiness: Readiness
    plan: Plan
    moves: TeamMoves
    max_steps: int  # of an episode
    seed: int = 0
    beliefs: Sequence[float] = BELIEFS
    most_work: float = np.inf  # agent-steps of episodes; the search ends with the best team so far
    fewest_steps: float = 0  # no team takes fewer, if nobody slips; the search ends with a team that takes no more
    episodes: int = EPISODES  # that are played to judge a team
    enough: float = ENOUGH  # success with which no other start is tried

    def run(self, first: Chances | None = None) -> PlannedTeam:
        """Look at the team of every start, then improve them, the best one first; return the best of all.

        With a team that succeeds only agreements are still looked at, and improved as long as they take fewer steps.
        """
        best: PlannedTeam | None = None
        waiting: list[tuple[PlannedTeam, Iterator[tuple[PlannedTeam, PlayedEpisodes]]]] = []
        work = 0.0
        for start, is_agreement in self._starts(first):
            if best is not None and self.is_enough(best.score) and not is_agreement:
                continue
            improvements = self._improve(start)
            team, played = next(improvements)
            best, work = self._better(best, team), work + self._work(played)
            if work > self.most_work or self._is_fastest(played):
                return best
            waiting.append((team, improvements))
        assert best is not None
        for _, improvements in sorted(waiting, key=lambda pair: pair[0].score, reverse=True):
            is_enough = self.is_enough(best.score)
            for team, played in improvements:
                is_better = team.score > best.score
                best, work = self._better(best, team), work + self._work(played)
                if work > self.most_work or self._is_fastest(played):
                    return best
                if is_enough and not is_better:
                    break
        return best

    def is_enough(self, score: tuple[float, float]) -> bool:
        """Say whether a team succeeds; with rewards, there may always be one that earns more."""
        return not self.tables.has_rewards and score[0] >= self.enough

    def _better(self, best: PlannedTeam | None, team: PlannedTeam) -> PlannedTeam:
        """Keep the better one of two teams."""
        if best is not None and team.score <= best.score:
            return best
        return team._replace(changes=team.changes + (best.changes if best else 0))

    def _is_fastest(self, played: PlayedEpisodes) -> bool:
        """Say whether all episodes succeed, and half of them take no more steps than have to be."""
        return bool((played.steps >= 0).all() and np.median(played.steps) <= self.fewest_steps)

    def _starts(self, first: Chances | None) -> Iterator[tuple[Chances, bool]]:
        constant = self.readiness.believe(self.beliefs[0])
        if first is not None and not np.array_equal(first, constant):
            yield first, False
        yield constant, False
        for trace in agreements(self.tables, MOST_AGREEMENTS):
            yield self.readiness.agree(trace, LIKELY, UNLIKELY), True
        for chance in self.beliefs[1:]:
            yield self.readiness.believe(chance), False

    def _improve(self, start: Chances) -> Iterator[tuple[PlannedTeam, PlayedEpisodes]]:
        """Yield the team of a start and those that come of best responses in turn, each with its episodes."""
        agents, chances = len(self.tables.start), start.copy()
        values = np.stack([self.values(agent, chances) for agent in range(agents)])
        played = self.play(values)
        yield PlannedTeam(values.copy(), chances.copy(), played.score(self.max_steps), agents), played
        unchanged = 0
        for change in range(ROUNDS * agents):
            agent = change % agents
            chances[agent] = self.readiness.count(played.counts, start)[agent]
            before, values[agent] = values[agent].copy(), self.values(agent, chances)
            if np.array_equal(_is_best(before), _is_best(values[agent])):
                unchanged += 1
                if unchanged == agents:
                    return
                continue
            unchanged, played = 0, self.play(values)
            yield PlannedTeam(values.copy(), chances.copy(), played.score(self.max_steps), change), played

    def values(self, agent: int, chances: Chances) -> NDArray[np.float32]:
        """Plan an agent's action values by its readiness, as large as those of all agents."""
        key = agent, blake2b(chances[agent].tobytes()).digest()
        if key not in self._plans:
            values = np.zeros((self.tables.cells, len(ACTIONS), self.tables.event.shape[1]), np.float32)
            planned = self.plan(agent, chances)
            values[..., : planned.shape[2]] = planned
            if (len(self._plans) + 1) * values.nbytes > MOST_REMEMBERED:
                self._plans.clear()
            self._plans[key] = values
        return self._plans[key]

    @cached_property
    def _plans(self) -> dict[tuple[int, bytes], NDArray[np.float32]]:
        """What agents have planned, by their number and readiness: many starts and turns expect the same."""
        return {}

    @cached_property
    def _teams(self) -> dict[tuple[int, int, bytes], PlayedEpisodes]:
        """What came of teams, by their episodes and best actions."""
        return {}

    def thorough(self) -> TeamSearch:
        """Search once more, with many episodes of which none may fail: few do not show that a team fails seldom."""
        return replace(self, episodes=MANY_EPISODES, enough=1.0, most_work=self.most_work * (MANY_EPISODES // EPISODES))

    def play(self, values: Values, episodes: int | None = None, first: int = 0) -> PlayedEpisodes:
        """Play episodes of a team, once: the same actions come to the same."""
        key = first, episodes or self.episodes, blake2b(np.packbits(_is_best(values)).tobytes()).digest()
        if key not in self._teams:
            if (len(self._teams) + 1) * 2 * self.tables.event.size * np.int64().nbytes > MOST_REMEMBERED:
                self._teams.clear()
            self._teams[key] = play_team(
                self.tables,
                values,
                self.moves,
                episodes=range(first, first + (episodes or self.episodes)),
                max_steps=self.max_steps,
                patience=patience_of(self.tables),
                seed=self.seed,
            )
        return self._teams[key]

    def _work(self, played: PlayedEpisodes) -> float:
        return float(played.length.sum()) * len(self.tables.start)


def patience_of(tables: Tables) -> int:
    """Say after how many steps without an event a team of greedy policies has stalled: more than any way has."""
    return int((tables.cells + 30) / max(1 - tables.slip, 0.1))


def _is_best(values: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Flag the best actions in all cells and machine states: [..., S, A, U]."""
    best: NDArray[np.bool_] = values == values.max(axis=-2, keepdims=True)
    return best


def agreements(tables: Tables, most: int) -> list[list[tuple[int, int]]]:
    """List traces of the team machine that complete it, of team states and events, such that every choice is in one.

    Each is a shortest one with some choice in it, and those with the most choices that are in no other come first.
    """
    forward = [np.flatnonzero(row >= 0).tolist() for row in tables.team_next]
    to_state = _shortest(tables, forward, backwards=False)
    to_final = _shortest(tables, forward, backwards=True)
    traces: dict[tuple[tuple[int, int], ...], None] = {}
    for state, events in enumerate(forward):
        for event in events if len(events) > 1 and state in to_state else ():
            target = int(tables.team_next[state, event])
            if target in to_final:
                traces[(*to_state[state], (state, event), *to_final[target])] = None
    chosen, left, covered = list[list[tuple[int, int]]](), list(traces), set[tuple[int, int]]()
    while left and len(chosen) < most:
        trace = max(left, key=lambda trace: (len({*trace} - covered) / (1 + len(trace)), -len(trace)))
        if covered.issuperset(trace):
            break
        left.remove(trace)
        covered.update(trace)
        chosen.append([*trace])
    return chosen


def _shortest(
    tables: Tables, forward: Sequence[Sequence[int]], *, backwards: bool
) -> dict[int, tuple[tuple[int, int], ...]]:
    """Find a shortest trace to each state of the team machine; backwards, from each to a final one."""
    links: list[list[tuple[int, tuple[int, int]]]] = [[] for _ in forward]
    for state, events in enumerate(forward):
        for event in events:
            target = int(tables.team_next[state, event])
            if backwards:
                links[target].append((state, (state, event)))
            else:
                links[state].append((target, (state, event)))
    roots = np.flatnonzero(tables.team_final).tolist() if backwards else [tables.team_initial] if forward else []
    traces: dict[int, tuple[tuple[int, int], ...]] = dict.fromkeys(roots, ())
    queue = deque(roots)
    while queue:
        here = queue.popleft()
        for there, move in links[here]:
            if there not in traces:
                traces[there] = (move, *traces[here]) if backwards else (*traces[here], move)
                queue.append(there)
    return traces
