"""Learn machines by asking: hypothesis, rival, experiment, until no rival is left and random trials agree.

The teacher is a world, a program or a person. It is asked one attempt at a time: may this event happen now? Attempts go
on from where the last one led wherever that answers a question, and begin a new episode where it does not.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from hocket.errors import shown
from hocket.inference.encoding import LocalMachine, is_done
from hocket.inference.facts import ROOT, Facts, Source
from hocket.inference.infer import LARGEST, ROUNDS, SECONDS, SPARE, Inferred
from hocket.inference.logs import Attempt, Episode, Log, LogError
from hocket.inference.rivals import Barred, RivalSearch, path_to, untried
from hocket.inference.smallest import TreeSearch

NEAR = 2  # rounds from where an episode stands within which a question is worth going on for
JOINT_SPARE, JOINT_ROUNDS = 1, 3  # of rivals that change two machines
TRIALS = 100  # random attempts that must agree before it stops

Answer = Literal["accepted", "refused", "done", "impossible"]
ANSWERS: tuple[Answer, ...] = ("accepted", "refused", "done", "impossible")


@dataclass(frozen=True)
class Trial:
    """An event to attempt: now, or at the beginning of a new episode."""

    event: str
    begins: bool  # whether a new episode begins with it
    trace: tuple[str, ...]  # what has happened in the episode so far
    purpose: Literal["rival", "untried", "random"]


class Inquiry:
    """What is known so far, and what to attempt next."""

    def __init__(self, knows: Mapping[str, Iterable[str]], events: Iterable[str], log: Log | None, seed: int) -> None:
        self.knows = {agent: tuple(known) for agent, known in knows.items()}
        self.facts = Facts(self.knows, events)
        self.episodes: list[Episode] = list(log.episodes) if log is not None else []
        for episode in self.episodes:
            self.facts.add(episode)
        self.search = TreeSearch(self.facts, LARGEST)
        self.random = random.Random(seed)
        self.order = list(self._groups())
        self.barred: Barred = set()  # what cannot be attempted
        self.attempts = 0
        self.begin()

    def _groups(self) -> Iterator[tuple[int, ...]]:
        """List whose machines a rival may change: one agent's, then those of two that share an event."""
        agents = self.facts.agents
        yield from ((index,) for index in range(len(agents)))
        for one, other in combinations(range(len(agents)), 2):
            if set(self.knows[agents[one]]) & set(self.knows[agents[other]]):
                yield one, other

    def begin(self) -> None:
        """Begin an episode."""
        self.rows: list[Attempt] = []
        self.nodes = [ROOT] * len(self.facts.agents)

    def close(self) -> None:
        """Keep the episode that is under way."""
        if self.rows:
            self.episodes.append(self.current)
        self.begin()

    @property
    def current(self) -> Episode:
        return Episode(str(len(self.episodes) + 1), tuple(self.rows))

    @property
    def log(self) -> Log:
        return Log((*self.episodes, *([self.current] if self.rows else [])))

    def solve(self) -> Sequence[LocalMachine]:
        """Find the smallest machines that explain everything so far."""
        if (unexplained := self.facts.unexplained()) is not None:
            raise LogError(f"no machines over these local event sets explain the answers. {unexplained.explain()}")
        smallest = self.search.run(self.log.episodes, SECONDS)
        self.smallest = smallest
        return tuple(smallest.machines.values())

    def plan(self, machines: Sequence[LocalMachine]) -> tuple[tuple[str, ...], Literal["rival", "untried"]] | None:
        """Choose what to attempt: what separates the machines from a rival, else what was never tried."""
        if self.rows and not self.rows[-1].done:
            near = (self._rival(machines, group, NEAR) for group in self.order if len(group) == 1)
            best = min((trace for trace in near if trace), key=len, default=None)
            if best is not None:
                return best, "rival"
        self.close()
        for group in tuple(self.order):
            if trace := self._rival(machines, group, ROUNDS if len(group) == 1 else JOINT_ROUNDS):
                return trace, "rival"
            self.order.remove(group)  # it is asked again when the others have been
            self.order.insert(sum(len(other) == 1 for other in self.order) if len(group) == 1 else len(self.order), group)
        for agent, state, event in untried(self.facts, machines):
            if trace := path_to(self.facts, machines, agent, state, event, ROUNDS, self.barred):
                return trace, "untried"
        return None

    def _rival(self, machines: Sequence[LocalMachine], group: tuple[int, ...], rounds: int) -> tuple[str, ...] | None:
        spare = SPARE if len(group) == 1 else JOINT_SPARE
        search = RivalSearch(self.facts, machines, group, spare, tuple(self.nodes), self.barred)
        question = search.search(rounds)
        return None if question is None else question.attempts

    def observe(self, machines: Sequence[LocalMachine], event: str, answer: Answer) -> bool:
        """Take an answer; say whether it is what the machines expect."""
        states = self.states(machines)
        knowers = self.facts.knowers[event]
        if answer == "impossible":
            self.barred.add((event, tuple(states[index] for index in knowers)))
            return False
        self.attempts += 1
        attempt = Attempt(event, answer != "refused", answer == "done")
        self.rows.append(attempt)
        self.facts.add_attempt(self.nodes, attempt, Source(self.current, len(self.rows) - 1))
        targets = [machines[index].moves.get((states[index], event)) for index in knowers]
        if None in targets:
            return answer == "refused"
        for index, target in zip(knowers, targets, strict=True):
            states[index] = target if target is not None else states[index]
        return answer == ("done" if is_done(machines, states) else "accepted")

    def states(self, machines: Sequence[LocalMachine]) -> list[int]:
        """Say where the machines are in the episode under way, all of whose events they accept."""
        trace = [row.event for row in self.rows if row.accepted]
        states = [0] * len(machines)
        for event in trace:
            for index in self.facts.knowers[event]:
                states[index] = machines[index].moves[states[index], event]
        return states


def ask(
    knows: Mapping[str, Iterable[str]],
    events: Iterable[str] | None = None,
    log: Log | None = None,
    *,
    trials: int = TRIALS,
    seed: int = 0,
) -> Generator[Trial, Answer, Inferred]:
    """Learn local machines by asking: yields trials, and is sent `accepted`, `refused`, `done` or `impossible`.

    Demonstrations may be given as a log. It stops when no rival is left within the limits of the claim and so many
    random attempts in a row have agreed; then it returns what `infer` returns.
    """
    every = tuple(events) if events is not None else tuple(dict.fromkeys(e for known in knows.values() for e in known))
    inquiry = Inquiry(knows, every, log, seed)
    agreed = 0
    while True:
        machines = inquiry.solve()
        plan = inquiry.plan(machines)
        purpose: Literal["rival", "untried", "random"] = "random"
        if plan is not None:
            trace, purpose = plan
            agreed = 0
        elif agreed < trials:
            trace = tuple(_random_walk(inquiry, machines))
        else:
            return Inferred(inquiry.log, inquiry.knows, inquiry.smallest, inquiry.facts, trials=agreed)
        for event in trace:
            answer = yield Trial(event, not inquiry.rows, inquiry.current.accepted, purpose)
            if answer not in ANSWERS:
                raise LogError(f"an answer must be one of {', '.join(ANSWERS)}, got {shown(answer)}")
            if not inquiry.observe(machines, event, answer):
                agreed = 0
                break
            agreed += purpose == "random"
            if answer == "done":
                inquiry.close()


def _random_walk(inquiry: Inquiry, machines: Sequence[LocalMachine]) -> Iterator[str]:
    """Choose events at random, half of them among those that the machines expect to be accepted."""
    inquiry.close()
    states = [0] * len(machines)
    knowers = inquiry.facts.knowers
    for _ in range(2 * sum(len(machine.states) for machine in machines)):
        enabled = [e for e in inquiry.facts.events if all((states[i], e) in machines[i].moves for i in knowers[e])]
        is_expected = enabled and inquiry.random.random() < 0.5
        event = inquiry.random.choice(enabled if is_expected else inquiry.facts.events)
        if (event, tuple(states[index] for index in knowers[event])) in inquiry.barred:
            continue
        yield event
        if event in enabled:
            for index in knowers[event]:
                states[index] = machines[index].moves[states[index], event]
            if is_done(machines, states):
                return
