"""Explore: learn a hidden machine by experiments on the map, until no rival is left and random attempts agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path

from hocket.arguments import whole
from hocket.errors import TaskError
from hocket.inference.ask import TRIALS, Answer, Inquiry, Purpose
from hocket.inference.infer import Inferred, UnexplainedError, as_reward_machine
from hocket.inference.logs import Attempt, Episode, Log
from hocket.inference.machines import LocalMachine
from hocket.inference.rivals import Tracker
from hocket.machine.composition import compose
from hocket.task.catalogue import as_task
from hocket.task.episode import TeamEpisode
from hocket.task.grid import ACTIONS, STAY
from hocket.task.task import Task

MAX_FAILURES = 2  # times that other events may happen on the way before an experiment counts as impossible
LONGEST_WALK = 4  # times the number of cells of the map, in steps
LARGEST_TEAM = 50_000  # states up to which a team machine is enumerated
STEPS = 100_000  # of the team, after which exploring ends

StepTest = Callable[[int, int], bool]  # of the cells in which a step begins and ends


class HiddenTask:
    """A world to explore: agents walk on a known map, and nothing shows of the machine but which events happen.

    An event is attempted in a round of a step when all agents that control it are where it can happen and no agent that
    knows it takes part in another event of the round: then it happens, or the machine refuses it.
    """

    def __init__(self, task: Task, seed: int) -> None:
        self._task, self._seed = task, seed
        self.steps = self.episodes = 0
        self.reset()

    def reset(self) -> None:
        """Begin an episode."""
        self._episode = TeamEpisode(self._task, self._seed, self.episodes, strict=False)
        self.episodes += 1
        self.moved = False

    @property
    def cells(self) -> Mapping[str, int]:
        """The cell of each agent."""
        return self._episode.cells

    def is_met(self, agent: str, event: str, before: int | None, cell: int) -> bool:
        """Say whether a step from one cell to another meets an agent's condition for an event."""
        return self._task.holds(agent, event, cell, before)

    def step(self, actions: Mapping[str, int]) -> list[Attempt]:
        """Let all agents act at once; list the attempts of the step, in their order."""
        self.steps += 1
        self.moved, before = True, dict(self.cells)
        result = self._episode.step({agent: ACTIONS[action] for agent, action in actions.items()})
        after, attempts = result.cells, list[Attempt]()
        controllers = self._task.controllers.items()
        met = [e for e, agents in controllers if all(self.is_met(a, e, before[a], after[a]) for a in agents)]
        for number, happened in enumerate((*result.rounds, ())):
            busy: set[str] = set()
            for event in met:
                if event in happened:
                    busy.update(self._task.knowers[event])
                    is_last = self._episode.done and number == len(result.rounds) - 1 and event == happened[-1]
                    attempts.append(Attempt(event, True, is_last))
                    if is_last:
                        return attempts
                elif busy.isdisjoint(self._task.knowers[event]):
                    attempts.append(Attempt(event, False))
            met = [event for event in met if event not in happened or event not in self._task.edges]
        return attempts

    def walk(
        self, agent: str, is_target: StepTest, is_avoided: StepTest = lambda *_: False, *, safely: bool = False
    ) -> tuple[int, int] | None:
        """Find a shortest path whose last step is a target; return its first action and its length, or None.

        Its other steps are not avoided ones; neither is the last, with `safely`.
        """
        start, closed, grid = self.cells[agent], self._episode.closed(agent), self._task.grid
        paths: dict[int, tuple[int, int]] = {start: (STAY, 0)}  # to each cell: the first action, and the length
        for cell in (queue := [start]):  # grows while it is read
            first, steps = paths[cell]
            for action in (STAY, *range(STAY)):
                end, path = grid.neighbor(cell, action, closed), (first if steps else action, steps + 1)
                if is_target(cell, end) and not (safely and is_avoided(cell, end)):
                    return path
                if end not in paths and not is_avoided(cell, end):
                    paths[end] = path
                    queue.append(end)
        return None


@dataclass(frozen=True, repr=False)
class Explored:
    """The machines that were learnt by exploring, and the steps that it took."""

    world: Task  # with the hidden machine
    answer: Inferred
    steps: int  # of the team
    episodes: int
    is_complete: bool  # whether it ended by itself, before its limit of steps
    history: tuple[tuple[int, int], ...]  # (steps, states) whenever the machines changed

    @cached_property
    def task(self) -> Task:
        """The task with the machine that was learnt, to train with."""
        return with_learnt_machine(self.world, self.answer)

    def __repr__(self) -> str:
        return f"<Explored {self.world.name!r}: {self.steps:,} steps, {self.answer!r}>"


def explore(
    world: Task | str | Path,
    knows: Mapping[str, Iterable[str]] | None = None,
    *,
    demonstrations: Log | None = None,
    trials: int = TRIALS,
    steps: int = STEPS,
    seed: int = 0,
) -> Explored:
    """Learn the machine of a task by experiments on its map: agents walk to where an event can happen.

    The map, the conditions of events, gates and local event sets are known; the machine is not. Exploring ends when no
    rival remains within the limits of the claim and so many random attempts in a row have agreed.
    """
    task = as_task(world)
    if knows is not None:
        task = task.with_knows({agent: tuple(events) for agent, events in knows.items()})
    steps, trials = whole(steps, "steps", 1), whole(trials, "trials", 0)
    return Explorer(task, demonstrations, seed).run(trials, steps)


class Explorer:
    """The loop: hypothesis, rival, experiment."""

    def __init__(self, task: Task, demonstrations: Log | None, seed: int) -> None:
        self.task, self.hidden = task, HiddenTask(task, seed)
        self.trackers = trackers_of(task)
        self.inquiry = Inquiry(self.task.knows, demonstrations, seed, self.trackers)
        self.assumed: set[tuple[str, int]] | None = set()  # (episode, position) of refusals; None: none are assumed
        self.failures: Counter[tuple[str, tuple[int, ...], tuple[int, ...]]] = Counter()  # by situation
        self.history: list[tuple[int, int]] = []

    def run(self, trials: int, steps: int) -> Explored:
        """Explore until there is nothing to try."""
        while True:
            try:
                self.inquiry.solve()
            except UnexplainedError:
                if not self.assumed:
                    raise
                self.forget_assumptions()
                continue
            if not self.history or self.history[-1][1] != self.inquiry.smallest.total:
                self.history.append((self.hidden.steps, self.inquiry.smallest.total))
            plan = self.inquiry.plan(trials)
            if plan is None or self.hidden.steps >= steps:
                break
            self.carry_out(*plan, steps)
        answer, hidden = self.inquiry.answer(), self.hidden
        answer = replace(answer, world=answer.world._replace(assumed=len(self.assumed or ())))
        return Explored(self.task, answer, hidden.steps, hidden.episodes, plan is None, tuple(self.history))

    def carry_out(self, trace: Sequence[str], purpose: Purpose, steps: int) -> None:
        """Attempt events one after the other, until one is impossible or anything unexpected happens."""
        if not self.inquiry.rows and self.hidden.moved:
            self.hidden.reset()
        remaining = list(trace)
        steps_left = LONGEST_WALK * self.task.grid.cells
        while remaining and self.hidden.steps < steps:
            situation, bar = self.situation(remaining[0]), self.inquiry.bar(remaining[0])
            actions = self.choose_actions(remaining)
            if actions is None and self.assumed is not None:  # no agent can get there: it counts as refused
                self.assumed.add((self.inquiry.current.name, len(self.inquiry.rows)))
                self.inquiry.record(remaining[0], "refused")
                return
            if actions is None or not steps_left:
                self.inquiry.record(remaining[0], "impossible")
                return
            steps_left -= 1
            as_planned = self.observe(actions, remaining, purpose)
            if as_planned is False and remaining:
                self.failures[situation] += 1
                if self.failures[situation] >= MAX_FAILURES:
                    self.inquiry.leave_out(bar)
            if not as_planned:
                return

    def forget_assumptions(self) -> None:
        """Begin again with the observations, which contradict assumptions, and assume nothing any more."""
        observed, assumed = [], self.assumed or ()
        for name, rows in self.inquiry.log.episodes:
            if attempts := tuple(row for position, row in enumerate(rows) if (name, position) not in assumed):
                observed.append(Episode(name, attempts))
        self.inquiry = Inquiry(self.task.knows, Log(tuple(observed)), self.hidden.episodes, self.trackers)
        self.assumed = None

    def situation(self, event: str) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
        """Describe where an event is attempted: the machine states of the agents that know it, and of the trackers."""
        states, knowers = self.inquiry.run().states, self.inquiry.facts.knowers[event]
        tracked = self.inquiry.world.track(self.inquiry.current.accepted)
        return event, tuple(states[index] for index in knowers), tracked

    def choose_actions(self, remaining: Sequence[str]) -> dict[str, int] | None:
        """Let the agents that control the next event walk to where it can happen, if possible without causing others.

        The others walk to where a later event needs them, unless that causes events on the way. Agents that control an
        edge must arrive at once, so nearer ones wait; and no agent goes ahead.
        """
        hidden, actions = self.hidden, dict.fromkeys(self.hidden.cells, STAY)
        paths: dict[str, tuple[int, int]] = {}  # of agents that control the next event: an action, and the distance
        for agent in hidden.cells:
            event = next((event for event in remaining if agent in self.task.controllers[event]), None)
            if event is None:
                continue
            is_target, is_avoided = partial(hidden.is_met, agent, event), self.avoided(agent, remaining[0])
            if event == remaining[0]:
                path = hidden.walk(agent, is_target, is_avoided) or hidden.walk(agent, is_target)
                if path is None:
                    return None
                paths[agent] = path
            elif event not in self.task.edges:
                actions[agent], _ = hidden.walk(agent, is_target, is_avoided, safely=True) or (STAY, 0)
        farthest = max((steps for _, steps in paths.values()), default=0)
        waits = remaining[0] in self.task.edges
        return actions | {agent: STAY if waits and steps < farthest else go for agent, (go, steps) in paths.items()}

    def avoided(self, agent: str, event: str) -> StepTest:
        """Make a test whether a step of an agent would cause another event that the machines expect to be accepted, if
        all teammates stay."""
        hidden, cells, causes = self.hidden, dict(self.hidden.cells), []
        for other in self.inquiry.facts.events:
            controllers = self.task.controllers[other]
            if other == event or agent not in controllers or self.inquiry.expect(other) == "refused":
                continue
            if all(hidden.is_met(name, other, cells[name], cells[name]) for name in controllers if name != agent):
                causes.append(other)
        return cache(lambda before, cell: any(hidden.is_met(agent, other, before, cell) for other in causes))

    def observe(self, actions: Mapping[str, int], remaining: list[str], purpose: Purpose) -> bool | None:
        """Take a step and record its attempts. True: as planned so far. False: other events happened, as the machines
        expect. None: the machines expected otherwise, or the episode is over."""
        as_planned, is_expected, facts = True, True, self.inquiry.facts
        for event, accepted, done in self.hidden.step(actions):
            answer: Answer = "done" if done else "accepted" if accepted else "refused"
            is_target = bool(remaining) and event == remaining[0]
            nodes = tuple(self.inquiry.nodes[index] for index in facts.knowers[event])
            if not accepted and not is_target and (event, nodes) in facts.refused:  # as before
                continue
            is_expected = is_expected and answer == self.inquiry.expect(event)
            self.inquiry.record(event, answer)
            if not is_expected:
                self.inquiry.agreed = 0
            elif is_target and as_planned:
                remaining.pop(0)
                self.inquiry.agreed += purpose == "random"
            elif accepted:
                as_planned = False
            if done:
                self.hidden.reset()
                return None
        return as_planned if is_expected else None


def with_learnt_machine(task: Task, answer: Inferred) -> Task:
    """Replace a task's machine by one that was learnt.

    A gate needs machine states that tell whether it is open. If those of the smallest machines do not, they are split
    by the events of gates, which does not change what the team can do.
    """
    if answer.team.most_states > LARGEST_TEAM:
        return replace(task, machine=answer.team)
    team = answer.team.machine()
    learnt = replace(task, machine=team)
    try:
        for agent in learnt.agents:
            learnt.closed_regions(agent)
    except TaskError:
        learnt = replace(task, machine=compose(team, *(as_reward_machine(*tracker) for tracker in trackers_of(task))))
    return learnt


def trackers_of(task: Task) -> list[Tracker]:
    """Make a tracker of each different gate of a task: its state tells whether the gate is as at the start."""
    trackers = []
    for gate in dict.fromkeys(gate for gates in task.gates.values() for gate in gates.values()):
        ends = {event: int((event in gate.opens) != bool(gate.starts_open)) for event in gate.events}
        moves = {(state, event): end for state in (0, 1) for event, end in ends.items()}
        trackers.append(Tracker(LocalMachine(moves, frozenset({0, 1})), tuple(gate.events)))
    return trackers
