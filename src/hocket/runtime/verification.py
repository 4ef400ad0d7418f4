"""Verification: was what happened, as the logs of a run have it, a trace of the team machine?

It reads `run.json` and the logs and nothing else. What happened before what follows from the logs, without clocks: an
agent's entries are in order, and an event is decided before it is heard of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

from hocket.errors import FormatError, HocketError
from hocket.machine.composition import Composition
from hocket.machine.counterexample import listing, name_trace
from hocket.runtime.log import LogContents, read_log
from hocket.runtime.plan import Plan
from hocket.runtime.protocol import Entry
from hocket.runtime.settings import WORLD, RunSettings, read_settings
from hocket.runtime.world import Walk
from hocket.task.delays import check_delays
from hocket.task.task import Task

Decision = tuple[int, int]  # who decided, and the how manieth decision of it that was


class ContradictionError(HocketError):
    """Logs that cannot all be true, or that no run of the protocol could have left."""


@dataclass(frozen=True)
class Verification:
    """What the logs of a run say."""

    task: Task
    contradiction: str | None  # the first that was found, in words
    trace: tuple[str, ...] = ()  # a linear extension of what happened
    complete: bool = False
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # agent -> events that it has not heard of yet
    kills: Mapping[str, int] = field(default_factory=dict)  # name -> how often it came back without having stopped
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether everything that happened is a trace of the team machine, and every log its projection."""
        return self.contradiction is None

    def explain(self) -> str:
        """Give the answer in sentences."""
        if self.contradiction is not None:
            return f"Not verified: {self.contradiction}."
        lines = [f"Verified: {name_trace(self.trace)} is a trace of the team machine, and every log is its projection."]
        lines.append(f"The task is {'complete' if self.complete else 'not complete yet'}.")
        for agent, events in self.missing.items():
            lines.append(f"{agent} has not heard yet of {listing(events, 'and')}.")
        killed = [
            f"{name} {count} times" if count > 1 else f"{name} once" for name, count in self.kills.items() if count
        ]
        if killed:
            lines.append(f"Killed and came back: {', '.join(killed)}.")
        return "\n".join((*lines, *self.notes))

    def as_json(self) -> dict[str, object]:
        """Lay it out as plain data."""
        return {
            "ok": self.ok,
            "contradiction": self.contradiction,
            "trace": list(self.trace),
            "complete": self.complete,
            "missing": {agent: list(events) for agent, events in self.missing.items()},
            "kills": dict(self.kills),
            "notes": list(self.notes),
        }


def verify(folder: str | Path) -> Verification:
    """Verify a run by its logs alone: the first contradiction in words, or the trace that happened."""
    folder = Path(folder)
    settings, document = read_settings(folder)
    task, plan = settings.task, settings.plan
    try:
        ended = document.get("ended")
        logs = {name: _read(folder, settings, name, ended) for name in task.agents}
        has_world = (folder / f"{WORLD}.log").exists()
        world = _read(folder, settings, WORLD, ended) if has_world else None
        if not check_delays(task, settings.deciders).tolerant:
            raise ContradictionError("its deciders do not make the task tolerant to delays")
        reader = _Reader(plan, {name: log.entries for name, log in logs.items()})
        trace = reader.linear_extension()
        complete = _follow(task, [plan.events[reader.decided[decision][2]] for decision in trace])
        if world is not None:
            check_moves(settings, world.entries, logs)
    except (ContradictionError, FormatError) as error:
        return Verification(task, str(error))
    everything = {**logs, **({WORLD: world} if world else {})}
    torn = [name for name, log in everything.items() if log.is_torn]
    return Verification(
        task,
        None,
        tuple(plan.events[reader.decided[decision][2]] for decision in trace),
        complete,
        reader.missing(),
        {name: _count_kills(log.entries) for name, log in everything.items()},
        tuple(f"The last entry of {name}.log was cut." for name in torn),
    )


def _read(folder: Path, settings: RunSettings, name: str, ended: object) -> LogContents:
    path = folder / f"{name}.log"
    log = read_log(path)
    if log.header and log.header != settings.header(name):
        raise ContradictionError(f"{path.name} belongs to another run, agent or task")
    if isinstance(ended, dict) and name in ended and (ended[name] != log.check or log.is_torn):
        raise ContradictionError(f"{path.name} does not end as it did when the run ended: it was changed or cut")
    return log


def _count_kills(entries: tuple[Entry, ...]) -> int:
    starts: int = sum(entry[0] == "start" for entry in entries)
    stops: int = sum(entry[0] == "stop" for entry in entries)
    return max(0, starts - stops - (entries[-1:] != (("stop",),)))


def _follow(task: Task, trace: list[str]) -> bool:
    """Run the team machine on a trace; say whether it is complete."""
    machine, state = task.machine, task.machine.initial
    for place, event in enumerate(trace):
        after = machine.step(state, event)  # type: ignore[arg-type]
        if after is None:
            raise ContradictionError(f"after {name_trace(trace[:place])}, {event} is undefined in the team machine")
        state = after
    return machine.is_final(state) if isinstance(machine, Composition) else state in machine.final  # type: ignore[arg-type]


class _Reader:
    """Reads the logs of all agents side by side."""

    def __init__(self, plan: Plan, logs: Mapping[str, tuple[Entry, ...]]) -> None:
        self.plan = plan
        self.logs = [logs[agent] for agent in plan.agents]
        self.decided: dict[Decision, tuple[int, int, int, object]] = {}  # -> first, number, event, clock
        self.told: dict[tuple[int, int], list[Decision]] = {}  # (who decided, who is told) -> in order
        self.promised: list[set[tuple[int, int, int]]] = [set() for _ in plan.agents]
        self.released: list[set[tuple[int, int]]] = [set() for _ in plan.agents]
        self.orders: list[list[Decision]] = []  # of each agent: what it decided or heard, in its order
        for agent, entries in enumerate(self.logs):
            self._decisions(agent, entries)
        self.heard = [dict[int, int]() for _ in plan.agents]  # sender -> how many
        for agent, entries in enumerate(self.logs):
            self.orders.append(self._order(agent, entries))
        self._agreements()

    def _decisions(self, agent: int, entries: tuple[Entry, ...]) -> None:
        """Collect what an agent has decided and promised."""
        count, plan = 0, self.plan
        for entry in entries:
            match entry:
                case ("decide", int(first), int(number), int(event), tuple(clock), int()) if self._exist(event, first):
                    decision, count = (agent, count), count + 1
                    self.decided[decision] = first, number, event, tuple(clock)
                    for other in plan.knowers[event]:
                        if other != agent:
                            self.told.setdefault((agent, other), []).append(decision)
                    if plan.deciders[event][-1] != agent:
                        self._complain(agent, f"decides on {plan.events[event]}, which is not its to decide")
                case ("promise", int(first), int(number), int(event), tuple(), tuple(), int()):
                    self.promised[agent].add((first, number, event))
                case ("release", int(first), int(number)):
                    self.released[agent].add((first, number))
                case ("hear", int(sender), int(first), int(), int(event), tuple()):
                    if not self._exist(event, first, sender):
                        self._complain(agent, "hears of an event, or from an agent, that does not exist")
                case ("start", int()) | ("stop",):
                    pass
                case _:
                    self._complain(agent, f"has an entry in its log that makes no sense: {str(entry)[:60]}")

    def _exist(self, event: int, *agents: int) -> bool:
        return 0 <= event < len(self.plan.events) and all(0 <= agent < len(self.plan.agents) for agent in agents)

    def _order(self, agent: int, entries: tuple[Entry, ...]) -> list[Decision]:
        """Follow an agent's machine through its log; every event that it hears of must have been decided."""
        plan, state, count, incarnation = self.plan, self.plan.machines[agent].start, 0, 0
        order: list[Decision] = []
        for entry in entries:
            if entry[0] == "start":
                if entry[1] != incarnation + 1:
                    self._complain(agent, "starts as another incarnation than the next")
                incarnation += 1
            if entry[0] not in ("decide", "hear"):
                continue
            if entry[0] == "decide":
                decision, count = (agent, count), count + 1
            else:
                decision = self._heard(agent, entry)
            event = self.decided[decision][2]
            after = plan.moves[agent][state].get(event)
            if after is None:
                self._complain(agent, f"takes part in {plan.events[event]}, which is undefined in its machine there")
            state = after  # type: ignore[assignment]
            order.append(decision)
        return order

    def _heard(self, agent: int, entry: Entry) -> Decision:
        sender, first, number, event, clock = entry[1:]
        place = self.heard[agent].get(sender, 0)
        told = self.told.get((sender, agent), [])
        if place >= len(told) or self.decided[told[place]] != (first, number, event, clock):
            name, who = self.plan.events[event], self.plan.agents[sender]
            self._complain(agent, f"hears from {who} of {name}, which {who} has not decided, or hears of it twice")
        self.heard[agent][sender] = place + 1
        return told[place]

    def _agreements(self) -> None:
        """Require that all deciders of an event have promised it and were not released."""
        for (agent, _), (first, number, event, _) in self.decided.items():
            for decider in self.plan.deciders[event]:
                name = self.plan.events[event]
                if decider != agent and (first, number, event) not in self.promised[decider]:
                    self._complain(agent, f"decides on {name} without a promise of {self.plan.agents[decider]}")
                if decider != agent and number and (first, number) in self.released[decider]:
                    self._complain(decider, f"was told that nothing came of {name}, which happened")

    def linear_extension(self) -> list[Decision]:
        """Put what happened into an order that agrees with that of every log."""
        sorter: TopologicalSorter[Decision] = TopologicalSorter(dict.fromkeys(self.decided, ()))
        for order in self.orders:
            for before, after in pairwise(order):
                sorter.add(after, before)
        try:
            return list(sorter.static_order())
        except CycleError:
            raise ContradictionError("the logs put events into orders that contradict each other") from None

    def missing(self) -> dict[str, tuple[str, ...]]:
        """List the events that agents have not heard of."""
        missing: dict[str, list[str]] = {}
        for (sender, agent), told in self.told.items():
            for decision in told[self.heard[agent].get(sender, 0) :]:
                missing.setdefault(self.plan.agents[agent], []).append(self.plan.events[self.decided[decision][2]])
        return {agent: tuple(events) for agent, events in missing.items()}

    def _complain(self, agent: int, what: str) -> None:
        raise ContradictionError(f"{self.plan.agents[agent]} {what}")


def check_moves(settings: RunSettings, entries: tuple[Entry, ...], logs: Mapping[str, LogContents]) -> None:
    """Require that every move was possible, and that conditions held where agents promised or decided."""
    task = settings.task
    walks = {agent: Walk(task, agent, settings.seed) for agent in task.agents}
    cells = {agent: [walk.cell] for agent, walk in walks.items()}
    for entry in entries:
        match entry:
            case ("start",) | ("stop",):
                continue
            case ("move", str(agent), int(number), int(action), int(state), int(cell)) if agent in walks:
                walk = walks[agent]
                if number != walk.moves + 1 or not 0 <= state < len(walk.closed) or not 0 <= action < 5:
                    raise ContradictionError(f"the world has a move of {agent} that is not the next")
                if walk.after(action, state, walks) != cell:
                    raise ContradictionError(f"the world moves {agent} to where move {number} does not lead")
                walk.go(number, cell)
                cells[agent].append(cell)
            case _:
                raise ContradictionError(f"the world's log has an entry that makes no sense: {str(entry)[:60]}")
    for agent, log in logs.items():
        decided = set()
        for entry in log.entries:
            if entry[0] not in ("decide", "promise"):
                continue
            event, stamp = settings.plan.events[entry[3]], entry[-1]
            if agent in task.events[event] and not _holds(task, agent, event, cells[agent], stamp):
                raise ContradictionError(f"{agent} agrees on {event} where its condition does not hold")
            if entry[0] == "decide" and agent in task.events[event] and task.events[event][agent].is_edge:
                if (event, stamp) in decided:
                    raise ContradictionError(f"{agent} decides on {event} twice after one move")
                decided.add((event, stamp))


def _holds(task: Task, agent: str, event: str, cells: list[int], stamp: object) -> bool:
    if not isinstance(stamp, int) or not 0 <= stamp < len(cells):
        return False
    return task.holds(agent, event, cells[stamp], cells[stamp - 1] if stamp else None)
