"""Search for a team: best responses to readiness that is counted in team episodes, one agent at a time.

Each agent plans alone, given the readiness that it expects of its teammates. The team is played, and how often an
agent's proposals succeed is counted: against this readiness it plans again, while the others keep their plans. The best
team is kept, by success and then by steps, or by its mean return where the task has rewards. Further starts are
agreements, each a trace of the team machine that all agents expect the team to follow, and lower readiness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.graphs import path_to, search_tree
from hocket.task.grid import ACTIONS
from hocket.task.individual import IndividualTable
from hocket.task.tables import Tables
from hocket.task.teamwork.planning import Planner
from hocket.task.teamwork.play import PlayedEpisodes, TeamMoves, Values, play_team
from hocket.task.teamwork.readiness import Chances, Readiness

BELIEFS = (0.3, 0.05, 0.01)  # how ready teammates are per step, at the start
LIKELY, UNLIKELY = 0.3, 0.003  # readiness for what was agreed on, and for everything else
MOST_AGREEMENTS = 12
ROUNDS = 3  # of planning from a start; in each, every agent plans once
EPISODES = 60  # that are played to judge a team
MANY_TIMES, MOST_TIMES = 4, 16  # as many episodes, to detect rare and very rare failures
ENOUGH = 0.99  # success of a team that works
MOST_REMEMBERED = 2**26  # bytes of plans, and of episodes of teams


Trace = tuple[tuple[int, int], ...]  # of the team machine: states and events


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
    discount: float
    moves: TeamMoves
    max_steps: int  # of an episode
    seed: int = 0
    beliefs: Sequence[float] = BELIEFS
    most_work: float = np.inf  # agent-steps of episodes; the search ends with the best team so far
    fewest_steps: float = 0  # a lower bound without slips; the search ends with a team that attains it
    episodes: int = EPISODES  # that are played to judge a team
    enough: float = ENOUGH  # success above which no other start is tried, except agreements
    _planners: dict[int, Planner] = field(default_factory=dict, init=False)
    _plans: dict[tuple[int, bytes], NDArray[np.float32]] = field(default_factory=dict, init=False)  # by readiness
    _teams: dict[tuple[int, int, bytes], PlayedEpisodes] = field(default_factory=dict, init=False)  # by best actions

    def run(self, first: Chances | None = None) -> PlannedTeam:
        """Play the team of every start, then improve them, the best one first; return the best of all.

        Once a team succeeds, only agreements are still tried, and teams are improved only while steps decrease.
        """
        best: PlannedTeam | None = None
        waiting: list[tuple[PlannedTeam, Iterator[tuple[PlannedTeam, PlayedEpisodes]]]] = []
        work, revised = 0.0, RevisedAgreements(self.tables)

        def keep(team: PlannedTeam, played: PlayedEpisodes) -> tuple[PlannedTeam, bool]:
            """Keep the better one of two teams; also say whether to stop: work is up, or none takes fewer steps."""
            nonlocal work
            work += float(played.length.sum()) * len(self.tables.start)
            is_fastest = (played.steps >= 0).all() and np.median(played.steps) <= self.fewest_steps
            if best is not None:
                team = best if team.score <= best.score else team._replace(changes=team.changes + best.changes)
            return team, bool(work > self.most_work or is_fastest)

        for start, is_agreement in self._starts(first, revised):
            if best is not None and self.is_enough(best.score) and not is_agreement:
                continue
            improvements = self._improve(start)
            team, revised.last = next(improvements)
            best, is_over = keep(team, revised.last)
            if is_over:
                return best
            waiting.append((team, improvements))
        assert best is not None
        for _, improvements in sorted(waiting, key=lambda pair: pair[0].score, reverse=True):
            is_enough = self.is_enough(best.score)
            for team, played in improvements:
                before, (best, is_over) = best, keep(team, played)
                if is_over:
                    return best
                if is_enough and best is before:
                    break
        return best

    def is_enough(self, score: tuple[float, float]) -> bool:
        """Say whether a team succeeds; with rewards, there may always be one that earns more."""
        return not self.tables.has_rewards and score[0] >= self.enough

    def _starts(self, first: Chances | None, revised: RevisedAgreements) -> Iterator[tuple[Chances, bool]]:
        constant = self.readiness.believe(self.beliefs[0])
        if first is not None and not np.array_equal(first, constant):
            yield first, False
        yield constant, False
        for revision in revised.starts(self.readiness):
            yield revision, False
        for trace in agreements(self.tables, MOST_AGREEMENTS):
            yield self.readiness.agree(trace, LIKELY, UNLIKELY), True
        for chance in self.beliefs[1:]:
            yield self.readiness.believe(chance), False

    def _improve(self, start: Chances) -> Iterator[tuple[PlannedTeam, PlayedEpisodes]]:
        """Yield the team of a start and those that come of best responses in turn, each with its episodes."""
        agents, chances = len(self.tables.start), start.copy()
        values = np.stack([self.values(agent, chances) for agent in range(agents)])
        played = self.play(values)
        yield PlannedTeam(values.copy(), chances.copy(), self.score(played), agents), played
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
            yield PlannedTeam(values.copy(), chances.copy(), self.score(played), change), played

    def score(self, played: PlayedEpisodes) -> tuple[float, float]:
        """Rate a team, for which a failure counts the more, the more events its machines still need."""
        left = self._events_left[np.arange(len(self.tables.start)), played.state].sum(axis=1)
        return played.score(self.max_steps, left / max(1, self._events_left.sum()))

    @cached_property
    def _events_left(self) -> NDArray[np.int64]:
        """Count the fewest events to a final state, for each state of each machine: [N, U]."""
        event, states = self.tables.event, np.arange(self.tables.event.shape[1])
        target = np.where(event >= 0, self.tables.next_state, states[:, None, None]).reshape(*event.shape[:2], -1)
        left = np.where(self.tables.is_final, 0, len(states))
        for _ in states:
            following = np.take_along_axis(left, target.reshape(len(left), -1), axis=1).reshape(target.shape)
            left = np.minimum(left, 1 + following.min(axis=2))
        return left

    def values(self, agent: int, chances: Chances) -> NDArray[np.float32]:
        """Compute an agent's action values given readiness, padded to the shape that all agents share."""
        key = agent, blake2b(chances[agent].tobytes()).digest()
        if key not in self._plans:
            values = np.zeros((self.tables.cells, len(ACTIONS), self.tables.event.shape[1]), np.float32)
            table = self.readiness.table(agent, chances)
            values[..., : len(table.dynamics)] = self.planner(agent, table).values(table, self.discount)
            if (len(self._plans) + 1) * values.nbytes > MOST_REMEMBERED:
                self._plans.clear()
            self._plans[key] = values
        return self._plans[key]

    def planner(self, agent: int, table: IndividualTable) -> Planner:
        """Give what plans of an agent have in common, whatever the chances of its table."""
        if agent not in self._planners:
            self._planners[agent] = Planner(table, *self.moves.outcomes(agent))
        return self._planners[agent]

    def thorough(self, times: int = MANY_TIMES) -> TeamSearch:
        """Return a search with more episodes, of which none may fail: few episodes miss rare failures."""
        return replace(self, episodes=times * EPISODES, enough=1.0, most_work=times * self.most_work)

    def play(self, values: Values, episodes: int | None = None, first: int = 0) -> PlayedEpisodes:
        """Play episodes of a team; those of the same best actions are played only once."""
        numbers = range(first, first + (episodes or self.episodes))
        key = first, len(numbers), blake2b(np.packbits(_is_best(values)).tobytes()).digest()
        if key not in self._teams:
            if (len(self._teams) + 1) * 2 * self.tables.event.size * np.int64().nbytes > MOST_REMEMBERED:
                self._teams.clear()
            self._teams[key] = play_team(
                self.tables, values, self.moves, episodes=numbers, max_steps=self.max_steps, seed=self.seed
            )
        return self._teams[key]


def _is_best(values: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Flag the best actions in all cells and machine states: [..., S, A, U]."""
    best: NDArray[np.bool_] = values == values.max(axis=-2, keepdims=True)
    return best


class RevisedAgreements:
    """Agreements on what comes next in each state of the team machine, revised where the team then stalls.

    The machine does not say everything that the map requires, such as a door that must be held open before anybody can
    pass. If a team waits in vain for an event in some state, another event is agreed on in that state.
    """

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.last: PlayedEpisodes | None = None  # the episodes that were played last
        self.vain = set[tuple[int, int]]()  # team states and events that were waited for

    def starts(self, readiness: Readiness) -> Iterator[Chances]:
        """Yield what agents expect; before the next one, `last` must be set."""
        for _ in range(MOST_AGREEMENTS):
            agreed = self.next_events()
            if self.tables.team_initial not in agreed:
                return
            yield readiness.agree(agreed.items(), LIKELY, UNLIKELY)
            if self.last is None or (self.last.steps >= 0).all():
                return
            stalled = self.last.state[self.last.steps < 0]  # [failures, N]
            is_there = (stalled[:, :, None] == self.tables.team_class).all(axis=1)  # [failures, V]
            before = len(self.vain)
            self.vain.update((v, agreed[v]) for v in np.flatnonzero(is_there.any(axis=0)).tolist() if v in agreed)
            if len(self.vain) == before:
                return

    def next_events(self) -> dict[int, int]:
        """Find the next event of a shortest trace to completion from each state, without events waited for in vain."""
        forward = [
            [event for event in np.flatnonzero(row >= 0).tolist() if (state, event) not in self.vain]
            for state, row in enumerate(self.tables.team_next)
        ]
        traces = _shortest(self.tables, forward, backwards=True)
        return {state: trace[0][1] for state, trace in traces.items() if trace}


def agreements(tables: Tables, most: int) -> list[Trace]:
    """List traces (team states and events) that complete the team machine, such that each choice of an event is in one.

    Each is a shortest trace with some choice; traces with the most choices that are in no earlier trace come first.
    """
    forward = [np.flatnonzero(row >= 0).tolist() for row in tables.team_next]
    to_state = _shortest(tables, forward, backwards=False)
    to_final = _shortest(tables, forward, backwards=True)
    traces: dict[Trace, None] = {}
    for state, events in enumerate(forward):
        for event in events if len(events) > 1 and state in to_state else ():
            target = int(tables.team_next[state, event])
            if target in to_final:
                traces[(*to_state[state], (state, event), *to_final[target])] = None
    chosen, left, covered = list[Trace](), list(traces), set[tuple[int, int]]()
    while left and len(chosen) < most:
        trace = max(left, key=lambda trace: (len({*trace} - covered) / (1 + len(trace)), -len(trace)))
        if covered.issuperset(trace):
            break
        left.remove(trace)
        covered.update(trace)
        chosen.append(trace)
    return chosen


def _shortest(tables: Tables, forward: Sequence[Sequence[int]], *, backwards: bool) -> dict[int, Trace]:
    """Find a shortest trace to each state of the team machine; backwards, from each to a final one."""
    links: list[list[tuple[tuple[int, int], int]]] = [[] for _ in forward]
    for state, events in enumerate(forward):
        for event in events:
            target = int(tables.team_next[state, event])
            begin, end = (target, state) if backwards else (state, target)
            links[begin].append(((state, event), end))
    roots = np.flatnonzero(tables.team_final).tolist() if backwards else [tables.team_initial] if forward else []
    tree = search_tree(-1, lambda state: links[state] if state >= 0 else [((-1, -1), root) for root in roots])
    return {state: tuple(path_to(tree, state)[1:][:: -1 if backwards else 1]) for state in tree if state >= 0}
