"""The verdict on a task or a machine: all that is checked before training, as a value, a JSON document and a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from hocket.errors import HocketError, cut_names
from hocket.lazy import show_in_notebook, warn_deprecated
from hocket.machine.completion import Completion, completes_without, find_completion, find_idle, leaving_warnings
from hocket.machine.composition import Composition, notes_of
from hocket.machine.counterexample import listing
from hocket.machine.decomposition import Control, Decomposition, Knows, decompose
from hocket.machine.reward_machine import RewardMachine, require_machines
from hocket.task.catalogue import as_task
from hocket.task.conditions import write_conditions
from hocket.task.endless import step_notes
from hocket.task.reachability import advise_edges, find_unreachable
from hocket.task.settling import EndlessError, LabellingCheck, check_labelling
from hocket.task.tables import compile_task
from hocket.task.task import Task

if TYPE_CHECKING:
    from hocket.machine.delays import DelayCheck
    from hocket.task.teamwork.check import UnrewardedState

MOST_TRIED = 20  # events that an agent might know, before one is proposed
WORK_PER_TRY = 300_000  # agent-steps of team episodes for each of them, where the team is played


Kind = Literal["yes", "no", "evidence", "problem", "warning", "note"]  # yes and no: the answer to a question


class Line(NamedTuple):
    """A line of a verdict's text."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class Part:
    """The answer to a further question about a task, which a verdict holds beside those that are always asked."""

    name: str  # of the question: its key in the JSON document
    ok: bool
    answer: str = ""  # in one sentence
    problems: tuple[str, ...] = ()  # what has to be repaired, one sentence each
    notes: tuple[str, ...] = ()
    document: object = None  # what the JSON document says under its name
    agents: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # and what it adds to each agent's entry
    value: object = None  # the answer itself, for those who show more of it


@dataclass(frozen=True, repr=False)
class Verdict:
    """What is right and wrong with a task, or with a machine that has no world."""

    machine: RewardMachine | Composition
    completion: Completion  # whether the team machine can be completed
    decomposition: Decomposition | None = None  # None: a machine without local event sets
    task: Task | None = None  # None: a machine without a world
    labelling: LabellingCheck | None = None  # of a task
    endless: EndlessError | None = None  # a step that would never settle
    unreachable: tuple[str, ...] = ()  # what agents cannot do however they move, one sentence each
    steps_lower_bound: int = 0  # no episode that completes the task has fewer steps, but there may be none that short
    parts: tuple[Part, ...] = ()  # the answers to further questions, in their order

    @property
    def ok(self) -> bool:
        """Whether the task is decomposable, its labelling is sound, the team and every agent can complete, and all
        further questions have good answers."""
        answers = (self.decomposition, self.labelling, *self.parts)
        return all(answer is None or answer.ok for answer in answers) and not self._further

    @property
    def fewest_steps(self) -> int:
        """The old name of `steps_lower_bound`."""
        warn_deprecated("fewest_steps is deprecated: use steps_lower_bound")
        return self.steps_lower_bound

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """What has to be repaired, one sentence each."""
        return (*self._algebra, *self._further, *(problem for part in self.parts for problem in part.problems))

    @cached_property
    def _algebra(self) -> tuple[str, ...]:
        if self.decomposition is not None:
            return self.decomposition.problems
        unreachable = self.machine.unreachable if isinstance(self.machine, RewardMachine) else ()
        return (f"No trace reaches {listing(unreachable)}.",) if unreachable else ()

    @cached_property
    def _further(self) -> tuple[str, ...]:
        endless = () if self.endless is None else (f"{str(self.endless)[:1].upper()}{str(self.endless)[1:]}.",)
        return (*endless, *self.completion.problems, *self.unreachable)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What is legal and may be a mistake, one sentence each."""
        machines = {} if self.decomposition is None else self.decomposition.machines
        leaving = leaving_warnings(machines if self.task is None else self.task.machines)
        return (*self.completion.warnings, *leaving, *self.idle)

    @cached_property
    def idle(self) -> tuple[str, ...]:
        """Who is not rewarded for what the team needs, one sentence each."""
        task = self.task
        if task is None or not task.decomposition.ok or not task.machine.has_completion_rewards:
            return ()
        unrewarded = find_idle(task.machine, task.machines, task.controlled)
        return tuple(_warn_of_idle(task, agent, events) for agent, events in unrewarded.items())

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What is legal and worth knowing, one sentence each: early finishers, the order of events, repetitions."""
        notes = notes_of(self.machine) if self.decomposition is None else self.decomposition.notes
        return (*notes, *self.step_notes, *(note for part in self.parts for note in part.notes))

    @cached_property
    def step_notes(self) -> tuple[str, ...]:
        """Where the order of events in a step matters, and which events may repeat in one, one sentence each."""
        return tuple(step_notes(self.task)) if self.task is not None and self.ok else ()

    def with_part(self, part: Part) -> Verdict:
        """Add the answer to a further question."""
        return replace(self, parts=(*self.parts, part))

    def lines(self) -> list[Line]:
        """Give the verdict as text: the answer, its evidence, and everything else there is to say."""
        decomposition, said = self.decomposition, list[tuple[Kind, Sequence[str]]]()
        if decomposition is None:
            said += [("yes", ["Well formed."]), ("evidence", [*self._algebra, *notes_of(self.machine)])]
        else:
            answer, *evidence = decomposition.explain().splitlines()
            said += [("yes" if decomposition.ok else "no", [answer]), ("evidence", evidence)]
        said.append(("problem", self._further))
        for part in self.parts:
            said += [("yes" if part.ok else "no", [part.answer] if part.answer else []), ("problem", part.problems)]
        said.append(("warning", self.warnings))
        if self.task is not None and self.ok:
            said.append(("note", ["Labelling, gates, reachability: OK", *self.step_notes]))
        said += [("note", part.notes) for part in self.parts]
        return [Line(kind, cut_names(text)) for kind, texts in said for text in texts]

    def __str__(self) -> str:
        return "\n".join(line.text for line in self.lines())

    def __repr__(self) -> str:
        name = "a machine" if self.task is None else self.task.name
        return f"<Verdict on {name}: {'ok' if self.ok else 'not ok'}>"

    def _repr_html_(self) -> str | None:
        return show_in_notebook(self, "html")

    def as_json(self) -> dict[str, object]:
        """Give the verdict as a JSON document."""
        decomposition = self.decomposition
        example = None if decomposition is None else decomposition.counterexample
        document: dict[str, object] = {
            "ok": self.ok,
            "decomposable": None if decomposition is None else decomposition.ok,
            "agents": {} if decomposition is None else self._agents_as_json(decomposition),
            "counterexample": None if example is None else example.as_json(),
            "problems": list(self.problems),
            "warnings": list(self.warnings),
            "notes": list(self.notes),
        }
        if self.labelling is not None:
            document["labelling"] = asdict(self.labelling)
        played = {} if self.task is None else {"team": None}
        return document | played | {part.name: part.document for part in self.parts}

    def _agents_as_json(self, decomposition: Decomposition) -> dict[str, dict[str, object]]:
        return {
            agent: {
                "events": list(decomposition.knows[agent]),
                "states": len(machine.states),
                "transitions": len(machine.graph.target),
                "finishes_early": list(decomposition.early[agent]) if agent in decomposition.early else None,
                **{key: value for part in self.parts for key, value in part.agents.get(agent, {}).items()},
            }
            for agent, machine in decomposition.machines.items()
        }


def check_task(task: Task | str | Path, *, play: bool = True) -> Verdict:
    """Check a task: decomposability, completion, labelling, gates, whether agents get to where they propose, and
    whether a team of planned policies completes it, or what it earns; without `play`, all but that.
    """
    task = as_task(task)
    verdict = Verdict(task.machine, find_completion(task.machine), task.decomposition, task, check_labelling(task))
    if not task.decomposition.ok:
        return verdict  # the rest builds on it
    try:
        tables = compile_task(task)
    except EndlessError as error:
        return replace(verdict, endless=error)
    unreachable, steps_lower_bound = find_unreachable(task, tables)
    verdict = replace(verdict, unreachable=unreachable, steps_lower_bound=steps_lower_bound)
    if not play or not verdict.ok:
        return verdict
    from hocket.task.teamwork.check import play_planned

    team = play_planned(task, verdict.steps_lower_bound)
    unrewarded = tuple(_tell_dead_end(task, agent, dead_end) for agent, dead_end in team.dead_ends.items())
    problems, notes = (*unrewarded, *team.problems), (team.remark,) if team.remark else ()
    agents = {agent: {"can_be_rewarded": can_be} for agent, can_be in team.rewarded.items()}
    return verdict.with_part(Part("team", team.passes, team.answer, problems, notes, team.as_json(), agents, team))


def check_machine(
    machine: RewardMachine | Composition, knows: Knows | None = None, control: Control | None = None
) -> Verdict:
    """Check a machine that has no world: completion and, with local event sets, decomposability.

    >>> machine = RewardMachine(initial="0", transitions={("0", "a"): "1", ("1", "b"): "2"}, final={"2"})
    >>> print(check_machine(machine, {"A1": {"a"}, "A2": {"a", "b"}}))
    Decomposable: the team machine is bisimilar to the parallel composition of the 2 local reward machines.
    A1 can finish before the team: its local reward machine is final after the trace a.
    """
    require_machines(machine, kind=RewardMachine | Composition)
    return Verdict(machine, find_completion(machine), decompose(machine, knows, control) if knows else None)


def _warn_of_idle(task: Task, agent: str, events: Sequence[str]) -> str:
    """Say that an agent is not rewarded for events that its team needs, and which event it should know instead."""
    why = "its local reward machine can be completed without, but the team's task cannot"
    problem = f"{agent} is not rewarded for {listing(events, 'and')}: {why}"

    def cures(changed: Task) -> bool:
        return not any(completes_without(changed.machines[agent], needed) for needed in events)

    return f"{problem}; {_advise(task, agent, cures)}"


def _tell_dead_end(task: Task, agent: str, dead_end: UnrewardedState) -> str:
    """Say that an agent can never be rewarded, in which state it ends, and which event it should know."""

    from hocket.task.teamwork.check import play_planned

    def cures(changed: Task) -> bool:
        return play_planned(changed, most_work=WORK_PER_TRY).rewarded.get(agent, False)

    lasting = [event for event in dict.fromkeys(dead_end.at_once[1:]) if event not in task.edges]
    if lasting:
        return f"{dead_end.describe(agent)}; {advise_edges(lasting)}."
    return f"{dead_end.describe(agent)}; {_advise(task, agent, cures)}"


def _advise(task: Task, agent: str, cures: Callable[[Task], bool]) -> str:
    """Name an event with which an agent would be rewarded, if it knew it, found by checking."""
    for event in [event for event in task.events if event not in task.knows[agent]][:MOST_TRIED]:
        changed = task.with_knows({agent: (*task.knows[agent], event)})
        with suppress(HocketError):  # gates that it cannot tell open, or parts that would have to be listed
            if cures(changed) and check_task(changed, play=False).ok:
                return f"it would be with {event} in its local event set."
    return "add what it has to wait for to its local event set."


def check_delays(
    subject: Task | Decomposition | str | Path, deciders: Control | None = None, effort: int | None = None
) -> DelayCheck:
    """Check whether events may be heard late by agents that know them and do not decide on them.

    Takes a task, its name or path, or a decomposition. Unless `deciders` (event -> agents) says otherwise, those who
    control an event decide on it together; an event that nobody controls is decided by all who know it. The answer has
    `tolerant`, a `counterexample`, and `agree`: the fewest pairs (agent, event) to add to the deciders.

    >>> check_delays("buttons").tolerant
    True
    >>> check_delays("drawbridge").agree
    (('A2', 'up'), ('A1', 'lift'))
    """
    from hocket.machine.delays import EFFORT, find_delays  # which few verdicts need

    effort = EFFORT if effort is None else effort
    if isinstance(subject, Decomposition):
        return find_delays(subject, deciders, effort=effort)
    task = as_task(subject)
    if not task.decomposition.ok:
        return find_delays(task.decomposition, deciders)  # which says what is wrong
    gated = [agent for agent, gates in task.gates.items() if gates]
    closed = {agent: [frozenset(regions) for regions in task.closed_regions(agent)] for agent in gated}
    sentences = {event: write_conditions(conditions) for event, conditions in task.events.items() if conditions}
    return find_delays(task.decomposition, deciders, closed, sentences, effort)


def with_delays(verdict: Verdict, *, is_required: bool = True, effort: int | None = None) -> Verdict:
    """Add to a verdict whether events may be heard late; nothing where the task is not decomposable.

    Where it is not required, the answer is one sentence, and never makes the verdict a bad one.
    """
    if verdict.decomposition is None or not verdict.decomposition.ok:
        return verdict.with_part(Part("delays", ok=True))
    check = check_delays(verdict.task or verdict.decomposition, effort=effort)
    answer, *problems = check.lines
    if not is_required:
        answer, problems = " ".join([answer, *problems[-1:]]), []
    is_good = check.tolerant or not is_required
    return verdict.with_part(Part("delays", is_good, answer, tuple(problems), document=check.as_json(), value=check))
