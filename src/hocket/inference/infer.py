"""Infer local machines from a log, with what supports them, what was never tried, and what to try next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

from hocket.errors import AssignmentError, shown
from hocket.inference.encoding import LocalMachine
from hocket.inference.facts import ROOT, Facts, Unexplained, cheapest_event_sets, facts_of
from hocket.inference.logs import Log, LogError
from hocket.inference.rivals import Question, RivalSearch, untried
from hocket.inference.smallest import Smallest, make_search
from hocket.machine.composition import Composition
from hocket.machine.decomposition import Decomposition, decompose
from hocket.machine.reward_machine import RewardMachine

LARGEST = 40  # states that a local machine may have
SECONDS = 60.0  # for the solver
SPARE = 2  # states that a rival of one agent's machine may have more
ROUNDS = 8  # of events without a common agent, after which a rival must differ
QUESTIONS = 3  # that are looked for at most


class Evidence(NamedTuple):
    """The episodes that support what a local machine does on an event in a state."""

    accepted: tuple[str, ...]  # episodes in which the event happened there
    refused: tuple[str, ...]  # episodes in which it was refused there, and no other machine refused it


class UnexplainedError(LogError):
    """A log that no machines over these local event sets explain; `unexplained` says which traces look alike."""

    def __init__(self, unexplained: Unexplained) -> None:
        super().__init__(f"no machines over these local event sets explain the log. {unexplained.explain()}")
        self.unexplained = unexplained


@dataclass(frozen=True, repr=False)
class Inferred:
    """Local machines that explain a log. Their composition is decomposable with respect to their event sets."""

    log: Log
    knows: Mapping[str, tuple[str, ...]]
    smallest: Smallest
    facts: Facts
    noise: float = 0.0
    trials: int = 0  # random attempts that agreed in the end, where it was learnt by asking

    @cached_property
    def machines(self) -> Mapping[str, RewardMachine]:
        """Each agent's machine, with the transitions that the log exercises."""
        return {agent: as_reward_machine(m, self.knows[agent]) for agent, m in self.smallest.machines.items()}

    @cached_property
    def team(self) -> Composition:
        """The team machine, as the composition of the local ones."""
        return Composition(self.machines)

    @cached_property
    def decomposition(self) -> Decomposition:
        """The team machine projected onto the local event sets: what agents should train with, for the smallest
        machines that explain a log tell them as little as possible."""
        return decompose(self.team.machine(), self.knows)

    @property
    def _locals(self) -> Sequence[LocalMachine]:
        return tuple(self.smallest.machines.values())

    @cached_property
    def evidence(self) -> Mapping[tuple[str, str, str], Evidence]:
        """The episodes behind every transition and refusal: (agent, state, event) -> episodes."""
        seen: dict[tuple[str, str, str], tuple[dict[str, None], dict[str, None]]] = {}
        for episode in self.log.episodes:
            states = [0] * len(self._locals)
            for event, _, _ in episode.attempts:
                knowers = self.facts.knowers[event]
                targets = [self._locals[index].moves.get((states[index], event)) for index in knowers]
                blocking = [index for index, target in zip(knowers, targets, strict=True) if target is None]
                for index in blocking[:1] if len(blocking) == 1 else () if blocking else knowers:
                    key = (self.facts.agents[index], str(states[index]), event)
                    seen.setdefault(key, ({}, {}))[bool(blocking)][episode.name] = None
                if not blocking:
                    for index, target in zip(knowers, targets, strict=True):
                        states[index] = target if target is not None else states[index]
        return {key: Evidence(tuple(accepted), tuple(refused)) for key, (accepted, refused) in seen.items()}

    @cached_property
    def never_tried(self) -> tuple[tuple[str, str, str], ...]:
        """The (agent, state, event) of which the log shows neither acceptance nor refusal."""
        agents = self.facts.agents
        return tuple((agents[i], str(state), event) for i, state, event in untried(self.facts, self._locals))

    @cached_property
    def questions(self) -> tuple[Question, ...]:
        """Traces to try next, the shortest first; each separates these machines from others that explain the log."""
        return tuple(find_questions(self.facts, self._locals, QUESTIONS))

    @cached_property
    def claim(self) -> str:
        """Say what is proved, what is only tested, and within which limits."""
        sizes, total = self.smallest.size, self.smallest.total
        sentences = [f"These machines agree with all {len(self.log.episodes):,} episodes of the log."]
        if self.smallest.disbelieved:
            sentences = [
                f"These machines agree with the log but for {len(self.smallest.disbelieved):,} entries that are taken "
                f"for wrong (noise {self.noise:g})."
            ]
        sentences.append("Their composition is decomposable with respect to the local event sets (proved).")
        if self.noise:
            sentences.append("States and disbelieved entries together cost least (proved within the size limit).")
        elif self.smallest.is_minimal:
            sentences.append(f"No machines of at most {sizes} states each that agree have fewer than {total} (proved).")
        else:
            sentences.append(f"They have {total} states; at least {self.smallest.bound} are needed (time was up).")
        if self.log.observed == "effective":
            sentences.append("The log has no refusals, so it cannot identify a machine: this is a hypothesis.")
        if self.questions:
            sentences.append("Other machines explain the log as well: the questions separate them from these.")
        else:
            sentences.append(
                f"No change of one agent's machine, or of two that share an event, by at most {SPARE} and 1 more "
                f"states that fits the log differs from these within {ROUNDS} rounds (proved); that they are the "
                "true ones is not."
            )
        if self.trials:
            sentences.append(f"{self.trials:,} random attempts in a row agreed (tested).")
        if self.never_tried:
            sentences.append(f"{len(self.never_tried):,} combinations of state and event were never tried.")
        return " ".join(sentences)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{agent}: {len(machine.states)}" for agent, machine in self.smallest.machines.items())
        return f"<Inferred machines, states {sizes}, from {len(self.log.episodes):,} episodes>"


def as_reward_machine(machine: LocalMachine, events: Iterable[str]) -> RewardMachine:
    """Name the states of a local machine, and reward the completion of its part."""
    moves = {(str(state), event): str(target) for (state, event), target in machine.moves.items()}
    final = {str(state) for state in machine.final}
    rewards = {(state, event): 1.0 for (state, event), end in moves.items() if end in final and state not in final}
    states = map(str, machine.states)
    return RewardMachine(initial="0", transitions=moves, final=final, events=events, rewards=rewards, states=states)


def infer(
    log: Log,
    knows: Mapping[str, Iterable[str]] | Iterable[str],
    control: Mapping[str, Iterable[str]] | None = None,
    *,
    noise: float = 0.0,
    largest: int = LARGEST,
    seconds: float = SECONDS,
) -> Inferred:
    """Find the smallest local machines over local event sets whose composition explains a log.

    Where agents but no local event sets are given, `control` (event -> agents) must be, and the smallest local event
    sets that can explain the log are found first. With `noise`, entries may be wrong with that probability.

    >>> from hocket.inference.logs import make_log
    >>> log = make_log([[("key", True), ("door", True, True)], [("door", False), ("key", True)], [("key", True), ("key", False)]])
    >>> answer = infer(log, {"A1": ["key", "door"]})
    >>> dict(answer.machines["A1"].transitions)
    {('0', 'key'): '1', ('1', 'door'): '2'}
    """
    if not isinstance(log, Log):
        raise LogError(f"infer takes a log, as read_log gives it, got {shown(log)}")
    if not log.episodes or not log.attempts:
        raise LogError("a log must have at least one attempt, got none")
    if not 0 <= noise < 0.5:
        raise LogError(f"noise must be at least 0 and below 0.5, got {shown(noise)}")
    if not isinstance(knows, Mapping):
        if control is None:
            raise AssignmentError("without local event sets, say who controls which event")
        knows = cheapest_event_sets(log, knows, control)
    known = {agent: tuple(events) for agent, events in knows.items()}
    facts = facts_of(log, known)
    if not noise and log.observed != "reward" and (unexplained := facts.unexplained()) is not None:
        raise UnexplainedError(unexplained)
    smallest = make_search(log, facts, largest, noise).run(log.episodes, seconds)
    if smallest is None:
        raise LogError(f"no machines of at most {largest} states each that explain the log were found in {seconds:g} s")
    return Inferred(log, known, smallest, facts, noise)


def find_questions(facts: Facts, machines: Sequence[LocalMachine], most: int) -> Iterable[Question]:
    """Look for rivals that change one agent's machine; where there are none, two that share an event."""
    begin = (ROOT,) * len(machines)
    singles = [RivalSearch(facts, machines, (index,), SPARE, begin).search(ROUNDS) for index in range(len(machines))]
    asked = sorted((q for q in singles if q is not None), key=lambda question: len(question.attempts))
    if not asked:
        pairs = [
            pair
            for pair in combinations(range(len(machines)), 2)
            if set(facts.knows[facts.agents[pair[0]]]) & set(facts.knows[facts.agents[pair[1]]])
        ]
        joint = (RivalSearch(facts, machines, pair, 1, begin).search(ROUNDS // 2) for pair in pairs)
        asked = [question for question in joint if question is not None]
    return asked[:most]
