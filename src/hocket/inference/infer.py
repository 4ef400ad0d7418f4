"""Infer local machines from a log, with what supports them, what was never tried, and what to try next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

from hocket.arguments import whole
from hocket.errors import AssignmentError, shown
from hocket.inference.facts import ROOT, Facts, Unexplained, cheapest_event_sets, facts_of
from hocket.inference.logs import Attempt, Episode, Log, LogError
from hocket.inference.machines import LocalMachine, TeamSimulation
from hocket.inference.rivals import ANYTHING, Question, RivalSearch, World, untried
from hocket.inference.smallest import AttemptSearch, Smallest, TreeSearch
from hocket.machine.composition import Composition
from hocket.machine.decomposition import Decomposition, decompose
from hocket.machine.formats.schema import machine_to
from hocket.machine.reward_machine import RewardMachine

LARGEST = 40  # states that a local machine may have
SECONDS = 60.0  # for the solver
SPARE, ROUNDS = (0, 2, 1), (8, 8, 3)  # of rivals that change 0, 1, 2 machines: more states, rounds until they differ
QUESTIONS = 3  # at most


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
    noise: float = 0.0
    trials: int = 0  # random attempts that agreed in the end, where it was learnt by asking
    world: World = ANYTHING  # what can be attempted

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
        """The team machine projected onto the local event sets: agents should train with it, because the smallest
        machines that explain a log tell them as little as possible."""
        return decompose(self.team.machine(), self.knows)

    @cached_property
    def facts(self) -> Facts:
        """The facts of the log, with what these machines accept if the log does not show it or may be wrong."""
        facts, is_replayed = Facts(self.knows, self.log.events), self.noise or self.log.observed == "reward"
        for episode in self.log.episodes:
            facts.add(replayed(facts, self._locals, episode) if is_replayed else episode)
        return facts

    @property
    def _locals(self) -> Sequence[LocalMachine]:
        return tuple(self.smallest.machines.values())

    @cached_property
    def evidence(self) -> Mapping[tuple[str, str, str], Evidence]:
        """The episodes behind every transition and refusal: (agent, state, event) -> episodes."""
        seen: dict[tuple[str, str, str], tuple[dict[str, None], dict[str, None]]] = {}
        disbelieved, machines = {*self.smallest.disbelieved}, self._locals
        for episode in self.log.episodes:
            run = TeamSimulation(machines, self.facts.knowers)
            for position, attempt in enumerate(episode.attempts):
                before = tuple(run.states)
                refusing = run.step(attempt.event)
                if (episode.name, position) in disbelieved:
                    continue
                rows = [(before, attempt.event, refusing or run.knowers[attempt.event], bool(refusing))]
                if attempt.done:  # then nothing can happen
                    rows += [(tuple(run.states), event, run.agents_refusing(event), True) for event in run.knowers]
                for states, event, agents, is_refused in rows:
                    for index in agents if len(agents) == 1 or not is_refused else ():
                        key = (self.facts.agents[index], str(states[index]), event)
                        seen.setdefault(key, ({}, {}))[is_refused][episode.name] = None
        return {key: Evidence(tuple(accepted), tuple(refused)) for key, (accepted, refused) in seen.items()}

    @cached_property
    def never_tried(self) -> tuple[tuple[str, str, str], ...]:
        """The (agent, state, event) of which the log shows neither acceptance nor refusal."""
        agents = self.facts.agents
        return tuple((agents[i], str(state), event) for i, state, event in untried(self.facts, self._locals))

    @cached_property
    def questions(self) -> tuple[Question, ...]:
        """Traces to try next, the shortest first; each separates these machines from others that explain the log."""
        machines, begin = self._locals, (ROOT,) * len(self._locals)
        questions: list[Question] = []
        for changed in groups(self.facts):
            if len(changed) == 2 and questions:  # those that change two machines come after all others
                break
            search = RivalSearch(self.facts, machines, changed, SPARE[len(changed)], begin, self.world, trace=())
            if (question := search.search(ROUNDS[len(changed)])) is not None:
                questions.append(question)
        return tuple(sorted(questions, key=lambda question: len(question.attempts))[:QUESTIONS])

    def rivals(self, question: Question) -> dict[str, RewardMachine]:
        """The machines that explain the log as well as these and answer a question otherwise."""
        return {agent: as_reward_machine(machine, self.knows[agent]) for agent, machine in question.rivals.items()}

    @cached_property
    def claim(self) -> str:
        """Say what is proved, what is only tested, and within which limits."""
        return " ".join(_claim(self))

    def as_json(self) -> dict[str, object]:
        """Give machines, evidence, questions and claim as a JSON document."""
        names = ("agent", "state", "event", "accepted", "refused")
        evidence = [dict(zip(names, (*key, *map(list, row)), strict=True)) for key, row in self.evidence.items()]
        questions = []
        for question in self.questions:
            rivals = {agent: machine_to(machine) for agent, machine in self.rivals(question).items()}
            row = {"trace": list(question.trace), "event": question.event, "expected": question.expected}
            questions.append({**row, "rivals": rivals})
        return {
            "knows": {agent: list(events) for agent, events in self.knows.items()},
            "machines": {agent: machine_to(machine) for agent, machine in self.machines.items()},
            "states": self.smallest.total,
            "bound": self.smallest.bound,
            "evidence": evidence,
            "never_tried": [list(key) for key in self.never_tried],
            "questions": questions,
            "disbelieved": [{"episode": name, "attempt": position + 1} for name, position in self.smallest.disbelieved],
            "impossible": [{"trace": list(bar.trace), "event": bar.event} for bar in self.world.barred],
            "claim": self.claim,
        }

    def __repr__(self) -> str:
        sizes = ", ".join(f"{agent}: {len(machine.states)}" for agent, machine in self.smallest.machines.items())
        return f"<Inferred machines, states {sizes}, from {len(self.log.episodes):,} episodes>"


def _claim(answer: Inferred) -> Iterator[str]:
    smallest, world, shows_rewards = answer.smallest, answer.world, answer.log.observed == "reward"
    small, is_smallest = f"machines of at most {smallest.size} states each", smallest.total == smallest.bound
    reading = " as these machines read it" if answer.noise or shows_rewards else ""
    episodes, sum_of_states = f"{len(answer.log.episodes):,} episodes", f"{smallest.total} states in all"
    if answer.noise:
        wrong = f"{len(smallest.disbelieved):,} entries that are taken for wrong (noise {answer.noise:g})"
        best = "none are a better trade of states against disbelieved entries (proved)"
        explained = f"with the log of {episodes} but for {wrong}"
        least = f"Among {small}, {best}; that the right entries are disbelieved is not."
    else:
        explained = f"with all {episodes} of the log"
        least = f"No {small} that agree with it have fewer than {sum_of_states} (proved)."
        if not is_smallest:
            needed = f"at least {smallest.bound} are needed; a limit of time or size was reached."
            least = f"They have {sum_of_states}, {needed}"
    alone = f"by at most {SPARE[1]} more states that fits the log{reading} differs from these within {ROUNDS[1]} rounds"
    two = f"none of two that share an event by at most {SPARE[2]} more each within {ROUNDS[2]} (proved)"
    yield f"These machines agree {explained}."
    yield "Their composition is decomposable with respect to the local event sets (proved)."
    yield least
    if answer.log.observed == "effective":
        yield "The log has no refusals, so it cannot identify a machine: this is a hypothesis."
    if shows_rewards:
        yield "The log does not show refusals: an event that changes nothing counts as refused."
    if answer.questions:
        yield "Other machines explain the log as well: the questions separate them from these."
    else:
        yield f"No change of one agent's machine {alone}, and {two}; that these are the true machines is not."
    if world.assumed:
        yield f"Attempts that are impossible on the map, and count as refused: {world.assumed:,}."
    if world.barred:
        yield f"Experiments that were impossible, and are left out of that: {len(world.barred):,}."
    if answer.trials:
        yield f"{answer.trials:,} random attempts in a row agreed (tested)."
    if answer.never_tried:
        yield f"{len(answer.never_tried):,} combinations of agent, state and event were never tried."


def replayed(facts: Facts, machines: Sequence[LocalMachine], episode: Episode) -> Episode:
    """Replace the outcomes of an episode's attempts by what machines accept and complete, until the task is done."""
    run, attempts = TeamSimulation(machines, facts.knowers), list[Attempt]()
    for event, _, _ in episode.attempts:
        accepted = not run.step(event)
        attempts.append(Attempt(event, accepted, accepted and run.completed))
        if attempts[-1].done:
            break
    return Episode(episode.name, tuple(attempts))


def as_reward_machine(machine: LocalMachine, events: Iterable[str]) -> RewardMachine:
    """Name the states of a local machine, and reward the completion of its part."""
    moves = {(str(state), event): str(target) for (state, event), target in machine.transitions.items()}
    states = [str(state) for state in machine.states]
    final = {str(state) for state in machine.final if str(state) in states}
    rewards = {(state, event): 1.0 for (state, event), end in moves.items() if end in final and state not in final}
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
    >>> log = make_log(
    ...     [[("key", True), ("door", True, True)], [("door", False), ("key", True)], [("key", True), ("key", False)]]
    ... )
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
    if not seconds >= 0:
        raise LogError(f"seconds must be at least 0, got {shown(seconds)}")
    if not isinstance(knows, Mapping):
        if control is None:
            raise AssignmentError("without local event sets, say who controls which event")
        knows = cheapest_event_sets(log, knows, control)
    known = {agent: tuple(events) for agent, events in knows.items()}
    facts = facts_of(log, known)
    seen = facts if log.observed != "reward" else facts_of(log, {"the team": log.events})
    if not noise and (unexplained := seen.unexplained()) is not None:
        raise UnexplainedError(unexplained)
    largest = whole(largest, "largest", 1)
    is_known = log.observed != "reward" and not noise
    search = TreeSearch(facts, largest) if is_known else AttemptSearch(facts, largest, noise)
    different = log.episodes if noise else {episode.attempts: episode for episode in log.episodes}.values()
    return Inferred(log, known, search.run(different, seconds), noise)


def groups(facts: Facts) -> Iterator[tuple[int, ...]]:
    """List the agents whose machines a rival may change: one agent, then two that share an event."""
    yield from ((index,) for index in range(len(facts.agents)))
    known = [{*facts.knows[agent]} for agent in facts.agents]
    yield from ((one, other) for one, other in combinations(range(len(known)), 2) if known[one] & known[other])
