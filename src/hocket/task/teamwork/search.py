"""Search for a team: iterated best responses to readiness that is estimated in team episodes.

Each agent plans alone, with the readiness that it assumes of its teammates. The team is played, and readiness is
estimated by how often an agent's proposals succeed; with it the agent plans again, while the others keep their plans.
The best team is kept, by success and then by steps, or by its mean return if the task has rewards. Further starts are
agreements, each a trace of the team machine that all agents expect the team to follow, and lower readiness.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
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

BELIEFS = (0.3, 0.05, 0.01)  # readiness of teammates that is assumed at the start
LIKELY, UNLIKELY = 0.3, 0.003  # readiness for events that were agreed on, and for all others
MOST_AGREEMENTS = 12
ROUNDS = 3  # of planning from a start; in each, every agent plans once
EPISODES = 60  # that are played to rate a team
MANY_TIMES, MOST_TIMES = 4, 16  # as many episodes, to detect rare and very rare failures
ENOUGH = 0.99  # success of a team that works
MOST_REMEMBERED = 2**26  # bytes of plans, and of episodes of teams

Trace = tuple[tuple[int, int], ...]  # of the team machine: states and events


class PlannedTeam(NamedTuple):
    """The action values of all agents, with the readiness for which each has planned."""

    values: Values
    chances: Chances
    score: tuple[float, float]  # success or the mean return, and the mean steps, negated
    changes: int  # plans made until this team


@dataclass(frozen=True)
class TeamSearch:
    """A search for a team, with the moves of the task or those that agents have learnt."""

    tables: Tables
    readiness: Readiness
    discount: float
    moves: TeamMoves
    max_steps: int  # of an episode
    seed: int = 0
    beliefs: Sequence[float] = BELIEFS
    most_work: float = np.inf  # agent-steps of episodes, after which the search ends with the best team so far
    fewest_steps: float = 0  # a lower bound without slips; the search ends with a team that attains it
    episodes: int = EPISODES  # that are played to rate a team
    enough: float = ENOUGH  # success above which no other start is tried, except agreements
    _planners: dict[int, Planner] = field(default_factory=dict, init=False)
    _plans: dict[tuple[int, bytes], NDArray[np.float32]] = field(default_factory=dict, init=False)  # by readiness
    _teams: dict[tuple[int, int, bytes], PlayedEpisodes] = field(default_factory=dict, init=False)  # by best actions

    def run(self, first: Chances | None = None) -> PlannedTeam:
        """Play the team of each start, then improve all teams, the best one first; return the best of all. Once a team
        succeeds, only agreements are still tried, and teams are improved only while steps decrease."""
        best: PlannedTeam | None = None
        queue: list[tuple[PlannedTeam, Iterator[tuple[PlannedTeam, PlayedEpisodes]]]] = []
        work, revised = 0.0, RevisedAgreements(self.tables)

        def keep(team: PlannedTeam, played: PlayedEpisodes) -> tuple[PlannedTeam, bool]:
            """Return the better one of two teams, and whether to stop: at the work limit or the fewest steps."""
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
            queue.append((team, improvements))
        assert best is not None
        for _, improvements in sorted(queue, key=lambda pair: pair[0].score, reverse=True):
            is_enough = self.is_enough(best.score)
            for team, played in improvements:
                before, (best, is_over) = best, keep(team, played)
                if is_over:
                    return best
                if is_enough and best is before:
                    break
        return best

    def is_enough(self, score: tuple[float, float]) -> bool:
        """Return whether a team succeeds; never in a task with rewards, where another team may have a higher return."""
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
        """Yield the team of a start and its improvements by best responses in turn, each with its episodes."""
        agents, chances, unchanged = len(self.tables.start), start.copy(), 0
        values = np.stack([self.values(agent, chances) for agent in range(agents)])
        played = self.play(values)
        yield PlannedTeam(values.copy(), chances.copy(), self.score(played), agents), played
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
        """Rate a team; failures count more if the agents' machines need more events to their final states."""
        remaining = self._remaining_events[np.arange(len(self.tables.start)), played.state].sum(axis=1)
        return played.score(self.max_steps, remaining / max(1, self._remaining_events.sum()))

    @cached_property
    def _remaining_events(self) -> NDArray[np.int64]:
        """Count the fewest events to a final state, for each state of each machine: [N, U]."""
        agents, states, *_ = self.tables.event.shape  # without an event, the next state is the same
        remaining = np.where(self.tables.is_final, 0, states)
        for _ in range(states):
            after = np.take_along_axis(remaining, self.tables.next_state.reshape(agents, -1).astype(np.intp), axis=1)
            remaining = np.minimum(remaining, 1 + after.reshape(agents, states, -1).min(axis=2))
        return remaining

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
        """Return the planner of an agent, which is the same for any readiness."""
        if agent not in self._planners:
            self._planners[agent] = Planner(table, *self.moves.outcomes(agent))
        return self._planners[agent]

    def thorough(self, times: int = MANY_TIMES) -> TeamSearch:
        """Return a search with more episodes, of which none may fail: few episodes miss rare failures."""
        return replace(self, episodes=times * EPISODES, enough=1.0, most_work=times * self.most_work)

    def play(self, values: Values, episodes: int | None = None, first: int = 0) -> PlayedEpisodes:
        """Play episodes of a team, once for the same best actions."""
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
    """Agreements on the next event in each state of the team machine. If the team waits in vain for an event in some
    state, since the map requires more than the machine describes (such as a door that one agent holds open for
    another), they are revised: another event is agreed on."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.last: PlayedEpisodes | None = None  # the episodes that were played last
        self.vain = set[tuple[int, int]]()  # team states and events that the team waited for in vain

    def starts(self, readiness: Readiness) -> Iterator[Chances]:
        """Yield the readiness of each agreement; before the next one, `last` must be set."""
        for _ in range(MOST_AGREEMENTS):
            agreed = self.next_events()
            if self.tables.team_initial not in agreed:
                return
            yield readiness.agree(agreed.items(), LIKELY, UNLIKELY)
            if self.last is None or (self.last.steps >= 0).all():
                return
            stalled = self.last.state[self.last.steps < 0]  # [failures, N]
            is_there = (stalled[:, :, None] == self.tables.team_class).all(axis=1)  # [failures, V]
            states, before = np.flatnonzero(is_there.any(axis=0)).tolist(), len(self.vain)
            self.vain.update((state, agreed[state]) for state in states if state in agreed)
            if len(self.vain) == before:
                return

    def next_events(self) -> dict[int, int]:
        """Find the first event of a shortest trace from each state to a final one, without those waited for in vain."""
        traces = _shortest(self.tables, self.vain, backwards=True)
        return {state: trace[0][1] for state, trace in traces.items() if trace}


def agreements(tables: Tables, most: int) -> list[Trace]:
    """List traces that complete the team machine, such that each event of a state with several events is in one: each
    is a shortest trace with such an event; those with most events that are in no earlier trace come first."""
    to_state, to_final = (_shortest(tables, backwards=backwards) for backwards in (False, True))
    traces, has_choice = dict[Trace, None](), (tables.team_next >= 0).sum(axis=1) > 1
    for state, event in np.argwhere((tables.team_next >= 0) & has_choice[:, None]).tolist():
        target = int(tables.team_next[state, event])
        if state in to_state and target in to_final:
            traces[(*to_state[state], (state, event), *to_final[target])] = None
    chosen, remaining, covered = list[Trace](), list(traces), set[tuple[int, int]]()
    while remaining and len(chosen) < most:
        trace = max(remaining, key=lambda trace: (len({*trace} - covered) / (1 + len(trace)), -len(trace)))
        if covered.issuperset(trace):
            break
        remaining.remove(trace)
        covered.update(trace)
        chosen.append(trace)
    return chosen


def _shortest(tables: Tables, excluded: Collection[tuple[int, int]] = (), *, backwards: bool) -> dict[int, Trace]:
    """Find a shortest trace of the team machine to each state; backwards, from each state to a final one."""
    links: list[list[tuple[tuple[int, int], int]]] = [[] for _ in tables.team_next]
    for state, event in np.argwhere(tables.team_next >= 0).tolist():
        if (state, event) not in excluded:
            target = int(tables.team_next[state, event])
            begin, end = (target, state) if backwards else (state, target)
            links[begin].append(((state, event), end))
    roots = np.flatnonzero(tables.team_final).tolist() if backwards else [tables.team_initial] if links else []
    tree = search_tree(-1, lambda state: links[state] if state >= 0 else [((-1, -1), root) for root in roots])
    return {state: tuple(path_to(tree, state)[1:][:: -1 if backwards else 1]) for state in tree if state >= 0}
