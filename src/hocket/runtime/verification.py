"""Verification: was what happened, as the logs of a run have it, a trace of the team machine?

It reads `run.json` and the logs and nothing else. What happened before what follows from the logs, without clocks: an
agent's entries are in order, and an event is decided before it is heard of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hocket.errors import FormatError, HocketError
from hocket.machine.composition import Composition
from hocket.machine.counterexample import listing, name_trace
from hocket.runtime.judge import Judge, Violation
from hocket.runtime.log import LogContents, read_log
from hocket.runtime.plan import Plan
from hocket.runtime.protocol import Entry
from hocket.runtime.recording import causal_order, causal_pairs
from hocket.runtime.settings import WORLD, RunSettings, read_settings
from hocket.task.task import Task
from hocket.task.verdict import check_delays


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
        world = {WORLD: _read(folder, settings, WORLD, ended)} if has_world else {}
        if not check_delays(task, settings.deciders).tolerant:
            raise Violation("its deciders do not make the task tolerant to delays")
        for agent in range(len(plan.agents)):
            _check_entries(plan, agent, logs[plan.agents[agent]].entries)
        judge = _judged(settings, logs, _cells(settings, world[WORLD].entries) if world else None)
    except (FormatError, Violation) as error:
        return Verification(task, str(error))
    machine, state = task.machine, judge.team_state
    trace = tuple(plan.events[event] for event in judge.trace)
    missing = [judge.concerns[agent] & ~judge.known[agent] for agent in range(len(plan.agents))]
    return Verification(
        task,
        None,
        trace,
        machine.is_final(state) if isinstance(machine, Composition) else state in machine.final,
        {
            agent: tuple(event for place, event in enumerate(trace) if events >> place & 1)
            for agent, events in zip(plan.agents, missing, strict=True)
            if events
        },
        {name: _count_kills([entry[0] for entry in log.entries]) for name, log in {**logs, **world}.items()},
        tuple(f"The last entry of {name}.log was cut." for name, log in {**logs, **world}.items() if log.is_torn),
    )


def _read(folder: Path, settings: RunSettings, name: str, ended: object) -> LogContents:
    log = read_log(folder / f"{name}.log", header=settings.header(name))
    if isinstance(ended, dict) and name in ended and (ended[name] != log.check or log.is_torn):
        raise Violation(f"{name}.log does not end as it did when the run ended: it was changed or cut")
    return log


def _count_kills(kinds: list[str]) -> int:
    return max(0, kinds.count("start") - kinds.count("stop") - (kinds[-1:] != ["stop"]))


def _check_entries(plan: Plan, agent: int, entries: tuple[Entry, ...]) -> None:
    """Require that entries speak of agents and events that there are, and that the agent starts anew each time."""
    who, incarnation, agents, events = plan.agents[agent], 0, range(len(plan.agents)), range(len(plan.events))
    for entry in entries:
        match entry:
            case ("decide" | "promise", int(first), int(), int(event), *_, tuple(), int()):
                is_known = first in agents and event in events and len(entry) == (6 if entry[0] == "decide" else 7)
            case ("hear", int(sender), int(first), int(), int(event), tuple()):
                is_known = sender in agents and first in agents and event in events
            case ("start", int(number)):
                incarnation, is_known = incarnation + 1, True
                if number != incarnation:
                    raise Violation(f"{who} starts as another incarnation than the next")
            case _:
                is_known = entry == ("stop",) or (entry[:1] == ("release",) and len(entry) == 3)
        if not is_known:
            raise Violation(f"{who} has an entry in its log that makes no sense: {str(entry)[:60]}")


def _judged(settings: RunSettings, logs: Mapping[str, LogContents], cells: Mapping[str, list[int]] | None) -> Judge:
    """Show the judge all entries in an order that agrees with all logs; conditions hold by where the agents stood."""
    task, plan = settings.task, settings.plan
    everything = (1 << len(plan.events)) - 1
    bodies, decided = [everything] * len(plan.agents), set[tuple[str, int, int]]()
    machine: Any = task.machine
    judge = Judge(plan, machine.initial, lambda state, event: machine.step(state, plan.events[event]), bodies)
    for (hearer, at), (name, place) in causal_pairs(plan, logs):
        if logs[hearer].entries[at][2:] != logs[name].entries[place][1:5]:
            raise Violation(f"{hearer} hears from {name} of an event, which {name} has not decided")
    try:
        order = causal_order(plan, logs)
    except HocketError:
        raise Violation("the logs put events into orders that contradict each other") from None
    for name, at in order:
        agent, entry = plan.agents.index(name), logs[name].entries[at]
        if cells is not None and entry[0] in ("decide", "promise"):
            number, stamp = entry[3], entry[-1]
            event = plan.events[number]
            if name in task.events[event]:
                is_met = _holds(task, name, event, cells[name], stamp)
                bodies[agent] = everything if is_met else everything & ~(1 << number)
            if entry[0] == "decide" and plan.edges[agent] >> number & 1:
                if (name, number, stamp) in decided:
                    raise Violation(f"{name} decides on {event} twice after one move")
                decided.add((name, number, stamp))
        judge.record(agent, entry)
    return judge


def _holds(task: Task, agent: str, event: str, cells: list[int], stamp: object) -> bool:
    if not isinstance(stamp, int) or not 0 <= stamp < len(cells):
        return False
    return task.holds(agent, event, cells[stamp], cells[stamp - 1] if stamp else None)


def _cells(settings: RunSettings, entries: tuple[Entry, ...]) -> dict[str, list[int]]:
    """Require that every move was possible; list the cells in which agents were, after each of their moves."""
    walks = settings.walks()
    cells = {agent: [walk.cell] for agent, walk in walks.items()}
    for entry in entries:
        match entry:
            case ("start",) | ("stop",):
                continue
            case ("move", str(agent), int(number), int(action), int(state), int(cell)) if agent in walks:
                walk = walks[agent]
                if number != walk.moves + 1 or not 0 <= state < len(walk.closed) or not 0 <= action < 5:
                    raise Violation(f"the world has a move of {agent} that is not the next")
                if walk.after(action, state, walks) != cell:
                    raise Violation(f"the world moves {agent} to where move {number} does not lead")
                walk.go(number, cell)
                cells[agent].append(cell)
            case _:
                raise Violation(f"the world's log has an entry that makes no sense: {str(entry)[:60]}")
    return cells
