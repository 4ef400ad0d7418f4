"""Learn machines by asking: hypothesis, rival, experiment, until no rival is left and random trials agree.

The teacher is a world, a program or a person, and answers one attempt at a time: may this event happen now? Attempts
continue the current episode if that answers a question, and else begin a new one.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from hocket.errors import shown
from hocket.inference.facts import ROOT, Sighting, facts_of
from hocket.inference.infer import LARGEST, ROUNDS, SECONDS, SPARE, Inferred, UnexplainedError, groups
from hocket.inference.logs import Attempt, Episode, Log, LogError
from hocket.inference.machines import TeamSimulation
from hocket.inference.rivals import Barred, RivalSearch, Tracker, World, untried
from hocket.inference.smallest import TreeSearch

NEAR = 2  # rounds within which a question is answered in the current episode
TRIALS = 100  # random attempts that must agree before it stops

Answer = Literal["accepted", "refused", "done", "impossible"]
Purpose = Literal["rival", "untried", "random"]  # to distinguish it from a rival, to try it once, or to test
ANSWERS: tuple[Answer, ...] = get_args(Answer)


@dataclass(frozen=True)
class Trial:
    """An event to attempt: now, or at the beginning of a new episode."""

    event: str
    begins: bool  # whether a new episode begins with it
    trace: tuple[str, ...]  # the events of the episode so far
    purpose: Purpose


class Inquiry:
    """The episodes so far, the hypothesis, and what to attempt next."""

    def __init__(
        self, knows: Mapping[str, Iterable[str]], log: Log | None, seed: int, trackers: Sequence[Tracker] = ()
    ) -> None:
        log = Log(()) if log is None else log
        if log.observed == "reward":
            raise LogError("demonstrations must show which events were accepted, got a log that shows rewards only")
        self.knows = {agent: tuple(known) for agent, known in knows.items()}
        self.facts = facts_of(log, self.knows)
        self.episodes = list(log.episodes)
        self.search = TreeSearch(self.facts, LARGEST)
        self.random = random.Random(seed)
        self.order = list(groups(self.facts))
        self.world = World(tuple(trackers))
        self.agreed = 0  # random attempts in a row
        self.rows: list[Attempt] = []  # of the current episode
        self.close()

    def close(self) -> None:
        """Keep the current episode and begin the next one."""
        if self.rows:
            self.episodes.append(self.current)
        self.rows, self.nodes = [], [ROOT] * len(self.facts.agents)

    @property
    def current(self) -> Episode:
        return Episode(str(len(self.episodes) + 1), tuple(self.rows))

    @property
    def log(self) -> Log:
        return Log((*self.episodes, *([self.current] if self.rows else [])))

    def solve(self) -> None:
        """Find the smallest machines that explain everything so far: the hypothesis."""
        if (unexplained := self.facts.unexplained()) is not None:
            raise UnexplainedError(unexplained)
        self.smallest = self.search.run(self.log.episodes, SECONDS)
        self.machines = tuple(self.smallest.machines.values())

    def plan(self, trials: int) -> tuple[tuple[str, ...], Purpose] | None:
        """Choose events to attempt: the most informative, else random ones until so many in a row have agreed."""
        plan = self._plan()
        if plan is not None:
            self.agreed = 0
        elif self.agreed < trials:
            plan = tuple(self._random_walk()), "random"
        return plan if plan is not None and plan[0] else None

    def _plan(self) -> tuple[tuple[str, ...], Purpose] | None:
        """Choose a trace that distinguishes the hypothesis from a rival, else one that was never tried."""
        if self.rows and not self.rows[-1].done:
            near = (self._rival(group, NEAR) for group in self.order if len(group) == 1)
            best = min((trace for trace in near if trace), key=len, default=None)
            if best is not None:
                return best, "rival"
        self.close()
        for group in tuple(self.order):
            if trace := self._rival(group, ROUNDS[len(group)]):
                return trace, "rival"
            self.order.remove(group)  # it comes again after the others
            last_single = sum(len(other) == 1 for other in self.order)
            self.order.insert(last_single if len(group) == 1 else len(self.order), group)
        for agent, state, event in untried(self.facts, self.machines):
            if trace := self._rivals(()).reach(agent, state, event, ROUNDS[0]):
                return trace, "untried"
        return None

    def _rival(self, group: tuple[int, ...], rounds: int) -> tuple[str, ...] | None:
        question = self._rivals(group).search(rounds)
        return None if question is None else question.attempts

    def _rivals(self, group: tuple[int, ...]) -> RivalSearch:
        begin, trace = tuple(self.nodes), self.current.accepted
        return RivalSearch(self.facts, self.machines, group, SPARE[len(group)], begin, self.world, trace)

    def record(self, event: str, answer: Answer) -> None:
        """Take the answer to an attempt in the current episode."""
        if answer == "impossible":
            self.leave_out(self.bar(event))
            return
        attempt = Attempt(event, answer != "refused", answer == "done")
        self.rows.append(attempt)
        self.facts.add_attempt(self.nodes, attempt, Sighting(self.current, len(self.rows) - 1))
        if answer == "done":
            self.close()

    def bar(self, event: str) -> Barred:
        """Describe an attempt that may be impossible at this point of the current episode."""
        trace, nodes = self.current.accepted, tuple(self.nodes[index] for index in self.facts.knowers[event])
        return Barred(event, trace, nodes, self.world.track(trace))

    def leave_out(self, bar: Barred) -> None:
        """Never plan an attempt again."""
        self.world = self.world._replace(barred=(*self.world.barred, bar))

    def expect(self, event: str) -> Answer:
        """Return the answer of the machines in the current episode, all of whose events they accept."""
        run = self.run()
        if run.step(event):
            return "refused"
        return "done" if run.completed else "accepted"

    def run(self) -> TeamSimulation:
        """Run the machines along the current episode."""
        return TeamSimulation(self.machines, self.facts.knowers, self.current.accepted)

    def _random_walk(self) -> Iterator[str]:
        """Choose events of an episode at random, half of them among those that the machines expect to be accepted."""
        machines, knowers, trace = self.machines, self.facts.knowers, list[str]()
        run = TeamSimulation(machines, knowers)
        at_nodes = [machine.states_at_nodes(tree) for machine, tree in zip(machines, self.facts.trees, strict=True)]
        barred = {
            (event, tuple(at_nodes[i][node] for i, node in zip(knowers[event], nodes, strict=True)), tracked)
            for event, _, nodes, tracked in self.world.barred
        }
        for _ in range(2 * sum(len(machine.states) for machine in machines)):
            enabled = [event for event in self.facts.events if not run.agents_refusing(event)]
            is_expected = enabled and self.random.random() < 0.5
            event = self.random.choice(enabled if is_expected else tuple(self.facts.events))
            if (event, tuple(run.states[index] for index in knowers[event]), self.world.track(trace)) in barred:
                continue
            yield event
            if not run.step(event):
                trace.append(event)
                if run.completed:
                    return

    def answer(self) -> Inferred:
        """Return the machines, and what is known of them."""
        return Inferred(self.log, self.knows, self.smallest, trials=self.agreed, world=self.world)


def ask(
    knows: Mapping[str, Iterable[str]], log: Log | None = None, *, trials: int = TRIALS, seed: int = 0
) -> Generator[Trial, Answer, Inferred]:
    """Learn local machines by asking: yields trials, and is sent `accepted`, `refused`, `done` or `impossible`.

    Demonstrations may be given as a log. It stops when no rival remains within the limits of the claim and so many
    random attempts in a row have agreed; then it returns the same as `infer`.

    >>> truth = ("key", "door")  # these events complete the task, in that order
    >>> questions = ask({"A1": ["key", "door"]}, trials=10)
    >>> trial = next(questions)
    >>> try:
    ...     while True:
    ...         accepted = trial.event == truth[len(trial.trace)]
    ...         is_last = len(trial.trace) == 1
    ...         trial = questions.send("refused" if not accepted else "done" if is_last else "accepted")
    ... except StopIteration as stop:
    ...     answer = stop.value
    >>> dict(answer.machines["A1"].transitions)
    {('0', 'key'): '1', ('1', 'door'): '2'}
    """
    inquiry = Inquiry(knows, log, seed)
    while True:
        inquiry.solve()
        if (plan := inquiry.plan(trials)) is None:
            return inquiry.answer()
        trace, purpose = plan
        for event in trace:
            answer = yield Trial(event, not inquiry.rows, inquiry.current.accepted, purpose)
            if answer not in ANSWERS:
                raise LogError(f"an answer must be one of {', '.join(ANSWERS)}, got {shown(answer)}")
            is_expected = answer == inquiry.expect(event)
            inquiry.record(event, answer)
            if not is_expected:
                inquiry.agreed = 0
                break
            inquiry.agreed += purpose == "random"
