"""The verdict on a task or a machine: the results of all checks before training, as value, JSON document and text."""

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
from hocket.machine.composition import Composition
from hocket.machine.counterexample import listing
from hocket.machine.decomposition import Control, Decomposition, Knows, decompose, machine_notes
from hocket.machine.reward_machine import RewardMachine, require_machines
from hocket.task.catalogue import as_task
from hocket.task.conditions import write_conditions
from hocket.task.endless import step_notes
from hocket.task.reachability import advise_edges, find_unreachable
from hocket.task.settling import EndlessError, LabellingCheck, check_labelling
from hocket.task.tables import compile_task
from hocket.task.task import Machine, Task

if TYPE_CHECKING:
    from hocket.machine.delays import DelayCheck
    from hocket.task.teamwork.check import UnrewardedState

MOST_TRIED_EVENTS = 20  # events that are tried in a local event set
AGENT_STEPS_PER_TRY = 300_000  # of team episodes for each of them, if the team is played

Kind = Literal["yes", "no", "evidence", "problem", "warning", "note"]  # yes and no: the answer to a question


class Line(NamedTuple):
    """A line of a verdict's text."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class CheckResult:
    """The result of an optional check of a task."""

    name: str  # of the check: its key in the JSON document
    ok: bool
    answer: str = ""  # in one sentence
    problems: tuple[str, ...] = ()  # what has to be repaired, one sentence each
    notes: tuple[str, ...] = ()
    document: object = None  # in the JSON document, under its name
    agents: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # what it adds to each agent's entry there
    details: object = None  # what the check returned


@dataclass(frozen=True, repr=False)
class Verdict:
    """The problems, warnings and notes of all checks of a task, or of a machine without a map."""

    machine: Machine
    completion: Completion  # whether the team machine can be completed
    decomposition: Decomposition | None = None  # None: a machine without local event sets
    task: Task | None = None  # None: a machine without a map
    labelling: LabellingCheck | None = None  # of a task
    endless: EndlessError | None = None  # a step that would never settle
    unreachable_problems: tuple[str, ...] = ()  # what agents cannot do however they move, one sentence each
    steps_lower_bound: int = 0  # of an episode that completes the task; such a short one need not be possible
    results: tuple[CheckResult, ...] = ()  # of optional checks, in their order

    @property
    def ok(self) -> bool:
        """Whether there are no problems: all checks have passed."""
        checks = (self.decomposition, self.labelling, *self.results)
        return all(check is None or check.ok for check in checks) and not self._task_problems

    @property
    def fewest_steps(self) -> int:
        """The old name of `steps_lower_bound`."""
        warn_deprecated("fewest_steps is deprecated: use steps_lower_bound")
        return self.steps_lower_bound

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """What has to be repaired, one sentence each."""
        machine_problems = () if self.decomposition is None else self.decomposition.problems
        return (*machine_problems, *self._task_problems, *(text for result in self.results for text in result.problems))

    @cached_property
    def _task_problems(self) -> tuple[str, ...]:
        endless = () if self.endless is None else (f"{str(self.endless)[:1].upper()}{str(self.endless)[1:]}.",)
        return (*endless, *self.completion.problems, *self.unreachable_problems)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What is legal and may be a mistake, one sentence each."""
        machines = {} if self.decomposition is None else self.decomposition.machines
        leaving = leaving_warnings(machines if self.task is None else self.task.machines)
        return (*self.completion.warnings, *leaving, *self.unrewarded_warnings)

    @cached_property
    def unrewarded_warnings(self) -> tuple[str, ...]:
        """Which agents are not rewarded for events that the team needs, one sentence each."""
        task = self.task
        if task is None or not task.decomposition.ok or not task.machine.has_completion_rewards:
            return ()
        unrewarded = find_idle(task.machine, task.machines, task.controlled)
        return tuple(_warn_of_unrewarded(task, agent, events) for agent, events in unrewarded.items())

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What is legal and worth knowing, in sentences: unreachable states, early finishers, the order of events."""
        notes = machine_notes(self.machine) if self.decomposition is None else self.decomposition.notes
        return (*notes, *self.step_notes, *(note for result in self.results for note in result.notes))

    @cached_property
    def step_notes(self) -> tuple[str, ...]:
        """Where the order of events in a step matters, and which events may repeat in one, one sentence each."""
        return tuple(step_notes(self.task)) if self.task is not None and self.ok else ()

    def with_result(self, result: CheckResult) -> Verdict:
        """Add the result of an optional check."""
        return replace(self, results=(*self.results, result))

    def lines(self) -> list[Line]:
        """Return the text of the verdict: answers, evidence, problems, warnings and notes."""
        decomposition, sections = self.decomposition, list[tuple[Kind, Sequence[str]]]()
        if decomposition is None:
            sections += [("yes", ["Well formed."]), ("evidence", machine_notes(self.machine))]
        else:
            answer, *evidence = decomposition.explain().splitlines()
            sections += [("yes" if decomposition.ok else "no", [answer]), ("evidence", evidence)]
        sections.append(("problem", self._task_problems))
        for result in self.results:
            answers = [result.answer] if result.answer else []
            sections += [("yes" if result.ok else "no", answers), ("problem", result.problems)]
        sections.append(("warning", self.warnings))
        if self.task is not None and self.ok:
            sections.append(("note", ["Labelling, gates, reachability: OK", *self.step_notes]))
        sections += [("note", result.notes) for result in self.results]
        return [Line(kind, cut_names(text)) for kind, texts in sections for text in texts]

    def __str__(self) -> str:
        return "\n".join(line.text for line in self.lines())

    def __repr__(self) -> str:
        name = "a machine" if self.task is None else self.task.name
        return f"<Verdict on {name}: {'ok' if self.ok else 'not ok'}>"

    def _repr_html_(self) -> str | None:
        return show_in_notebook(self, "html")

    def as_json(self) -> dict[str, object]:
        """Return the verdict as a JSON document."""
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
        if self.task is not None:
            document["team"] = None
        return document | {result.name: result.document for result in self.results}

    def _agents_as_json(self, decomposition: Decomposition) -> dict[str, dict[str, object]]:
        return {
            agent: {
                "events": list(decomposition.knows[agent]),
                "states": len(machine.states),
                "transitions": len(machine.graph.target),
                "finishes_early": list(decomposition.early[agent]) if agent in decomposition.early else None,
                **{key: value for result in self.results for key, value in result.agents.get(agent, {}).items()},
            }
            for agent, machine in decomposition.machines.items()
        }


def check_task(task: Task | str | Path, *, play: bool = True) -> Verdict:
    """Check a task: decomposability, completion, labelling, gates, reachability and, with `play`, a team of planned
    policies: whether it completes the task, or its return."""
    task = as_task(task)
    verdict = Verdict(task.machine, find_completion(task.machine), task.decomposition, task, check_labelling(task))
    if not task.decomposition.ok:
        return verdict  # the other checks need a decomposable task
    try:
        tables = compile_task(task)
    except EndlessError as error:
        return replace(verdict, endless=error)
    problems, steps_lower_bound = find_unreachable(task, tables)
    verdict = replace(verdict, unreachable_problems=problems, steps_lower_bound=steps_lower_bound)
    if not play or not verdict.ok:
        return verdict
    from hocket.task.teamwork.check import play_planned

    check = play_planned(task, steps_lower_bound)
    unrewarded = (_describe_unrewarded(task, agent, state) for agent, state in check.unrewarded_states.items())
    problems, notes = (*unrewarded, *check.problems), (check.remark,) if check.remark else ()
    agents = {agent: {"can_be_rewarded": can_be} for agent, can_be in check.rewarded.items()}
    result = CheckResult("team", check.passes, check.answer, problems, notes, check.as_json(), agents, details=check)
    return verdict.with_result(result)


def check_machine(machine: Machine, knows: Knows | None = None, control: Control | None = None) -> Verdict:
    """Check a machine without a map: completion and, with local event sets, decomposability.

    >>> machine = RewardMachine(initial="0", transitions={("0", "a"): "1", ("1", "b"): "2"}, final={"2"})
    >>> print(check_machine(machine, {"A1": {"a"}, "A2": {"a", "b"}}))
    Decomposable: the team machine is bisimilar to the parallel composition of the 2 local reward machines.
    A1 can finish before the team: its local reward machine is final after the trace a.
    """
    require_machines(machine, kind=RewardMachine | Composition)
    return Verdict(machine, find_completion(machine), decompose(machine, knows, control) if knows else None)


def _warn_of_unrewarded(task: Task, agent: str, events: Sequence[str]) -> str:
    """Describe that an agent is not rewarded for events that its team needs, and propose an event for it to know."""
    them = "it" if len(events) == 1 else "them"
    why = f"its local reward machine can be completed without {them}, but the team's task cannot"
    advice = _advise(
        task, agent, lambda changed: not any(completes_without(changed.machines[agent], event) for event in events)
    )
    return f"{agent} is not rewarded for {listing(events, 'and')}: {why}; {advice}"


def _describe_unrewarded(task: Task, agent: str, state: UnrewardedState) -> str:
    """Describe that an agent can never be rewarded, and propose edges or an event for it to know."""
    from hocket.task.teamwork.check import play_planned

    def is_rewarded(changed: Task) -> bool:
        return play_planned(changed, most_work=AGENT_STEPS_PER_TRY).rewarded.get(agent, False)

    repeated = [event for event in dict.fromkeys(state.at_once[1:]) if event not in task.edges]
    advice = f"{advise_edges(repeated)}." if repeated else _advise(task, agent, is_rewarded)
    return f"{state.describe(agent)}; {advice}"


def _advise(task: Task, agent: str, is_rewarded: Callable[[Task], bool]) -> str:
    """Propose an event with which an agent would be rewarded, if it knew it, found by trying."""
    for event in [event for event in task.events if event not in task.knows[agent]][:MOST_TRIED_EVENTS]:
        changed = task.with_knows({agent: (*task.knows[agent], event)})
        with suppress(HocketError):  # of gates whose state it does not know, or parts that would have to be listed
            if is_rewarded(changed) and check_task(changed, play=False).ok:
                return f"add {event} to its local event set."
    return "add what it has to wait for to its local event set."


def check_delays(
    subject: Task | Decomposition | str | Path, deciders: Control | None = None, effort: int | None = None
) -> DelayCheck:
    """Check whether events may be heard late by agents that know them and do not decide on them.

    The deciders (event -> agents) are by default the agents that control an event, or all that know it if none does.
    The result has `tolerant`, a `counterexample`, and `agree`: the fewest pairs (agent, event) to add to the deciders.

    >>> check_delays("buttons").tolerant
    True
    >>> check_delays("drawbridge").agree
    (('A2', 'up'), ('A1', 'lift'))
    """
    from hocket.machine.delays import EFFORT, find_delays  # loaded only for verdicts with delays

    effort = EFFORT if effort is None else effort
    if isinstance(subject, Decomposition):
        return find_delays(subject, deciders, effort=effort)
    task = as_task(subject)
    if not task.decomposition.ok:
        return find_delays(task.decomposition, deciders)  # its error says what is wrong
    gated = [agent for agent, gates in task.gates.items() if gates]
    closed = {agent: [frozenset(regions) for regions in task.closed_regions(agent)] for agent in gated}
    sentences = {event: write_conditions(conditions) for event, conditions in task.events.items() if conditions}
    return find_delays(task.decomposition, deciders, closed, sentences, effort)


def with_delays(verdict: Verdict, *, is_required: bool = True, effort: int | None = None) -> Verdict:
    """Add the check of delays to a verdict. If it `is_required`, late events are a problem; otherwise it always passes,
    and the answer is one sentence."""
    if verdict.decomposition is None or not verdict.decomposition.ok:
        return verdict.with_result(CheckResult("delays", ok=True))
    check = check_delays(verdict.task or verdict.decomposition, effort=effort)
    answer, *problems = check.lines
    if not is_required:
        answer, problems = " ".join([answer, *problems[-1:]]), []
    ok = check.tolerant or not is_required
    result = CheckResult("delays", ok, answer, tuple(problems), document=check.as_json(), details=check)
    return verdict.with_result(result)
