"""Checks whether a team of planned policies completes its task, or its return, by playing it; where it stalls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from hocket.errors import TaskError
from hocket.graphs import distances_from
from hocket.machine.counterexample import listing
from hocket.machine.reward_machine import RewardMachine
from hocket.task.grid import STAY
from hocket.task.settling import describe_cell, propose
from hocket.task.tables import SettledCases, compile_task
from hocket.task.task import Task
from hocket.task.teamwork.joint import fewest_steps, joint_space
from hocket.task.teamwork.play import Ints, TeamMoves, Values, patience_of, play_team
from hocket.task.teamwork.readiness import Chances, Readiness
from hocket.task.teamwork.search import BELIEFS, ENOUGH, TeamSearch

DISCOUNT = 0.9
MAX_STEPS = 1_000  # of an episode
EPISODES = 200  # by which the team is judged
MOST_PAIRS = 2_000_000  # of machine states and cells, of all agents, for which policies are planned
MOST_ENTRIES = 2_000_000  # of the table of proposed events
MOST_WORK = 2_000_000  # agent-steps of episodes in the search
LONGEST_PATHS = 4  # per episode of the search, in a task with rewards
MOST_JOINT_STATES = 1_000_000  # for which the team's optimum is computed
SHOWN_EVENTS, SHOWN_AGENTS = 12, 5  # in a sentence
WINDOW = 40  # last steps of an episode, in which an agent's proposals are what it waits for

Step = tuple[list[int], list[str], list[str]]  # after it, the cells and machine states of all agents; its events


@dataclass(frozen=True)
class Wait:
    """What an agent waits for at the end of an episode, and where."""

    state: str  # of its machine
    place: str
    events: tuple[str, ...]  # that it proposes and that do not happen
    is_done: bool = False  # its machine is in a final state
    is_moving: bool = False
    beside: tuple[str, ...] = ()  # agents with bodies in the cells around it

    def as_json(self) -> dict[str, object]:
        beside = {"beside": list(self.beside)} if self.beside else {}
        return {"state": self.state, "place": self.place, "for": list(self.events), **beside}

    def describe(self, agent: str) -> str:
        """Describe it in words."""
        if self.is_done:
            return f"{agent} is done"
        verb = "moves about, last seen" if self.is_moving else "waits" if self.events else "stays"
        where = self.place + (f" with {' and '.join(self.beside)} beside it" if self.beside else "")
        if self.events:
            return f"{agent} {verb} {where} for {' or '.join(self.events)}"
        return f"{agent} {verb} {where}, in state {self.state}, and proposes nothing"


@dataclass(frozen=True)
class Stall:
    """The end of a team episode in which no more events happen: the trace so far, and what agents wait for."""

    trace: tuple[str, ...]
    waiting: Mapping[str, Wait]
    steps: tuple[Step, ...] = field(default=(), repr=False, compare=False)  # from the first one on

    def as_json(self) -> dict[str, object]:
        return {"trace": list(self.trace), "waiting": {agent: wait.as_json() for agent, wait in self.waiting.items()}}

    def __str__(self) -> str:
        shown = ("…, " if len(self.trace) > SHOWN_EVENTS else "") + ", ".join(self.trace[-SHOWN_EVENTS:])
        waits = [wait.describe(agent) for agent, wait in self.waiting.items()]
        if len(waits) > SHOWN_AGENTS:
            waits[SHOWN_AGENTS - 1 :] = [f"and so on, {len(waits)} agents"]
        return f"{f'after {shown}' if self.trace else 'from the start'}: {'; '.join(waits)}"


@dataclass(frozen=True)
class UnrewardedState:
    """The reachable state of an agent's machine that is nearest to a final one, if it reaches no final one alone."""

    state: str
    events: tuple[str, ...]  # that would lead nearer, and that never happen
    at_once: tuple[str, ...] = ()  # an event that leads nearer, and those that follow it in the same step

    def describe(self, agent: str) -> str:
        """Describe it in words, without a full stop."""
        why = f", in which {listing(self.events, 'or')} never happens" if self.events else ""
        if self.at_once:
            first, *rest = self.at_once
            again = f"{listing(rest, 'and')}{' again' if first in rest else ''}"
            why = f", in which {first} happens and in the same step {again}"
        return f"{agent} can never be rewarded: its local reward machine gets no farther than state {self.state}{why}"


@dataclass(frozen=True)
class TeamCheck:
    """Whether each agent alone can be rewarded, and the results of the team of planned policies when it is played."""

    rewarded: Mapping[str, bool]  # whether an agent, alone, can ever be rewarded, or is final from the start
    success: float | None = None  # of episodes; None: the team was not played
    median_steps: float | None = None  # a failure counts as the limit; None if most episodes fail
    mean_return: float | None = None  # of an episode, if the task has rewards
    fewest_steps: int | None = None  # of the team without slips; None: not computed
    stall: Stall | None = None
    remark: str = ""  # why the team was not played
    unrewarded_states: Mapping[str, UnrewardedState] = field(default_factory=dict)  # of agents that never can be

    @property
    def ok(self) -> bool:
        """Whether the team completes its task, has a positive return if an agent alone can, or was not played."""
        if self.mean_return is not None:
            return self.mean_return > 0 or not any(self.rewarded.values())
        return self.success is None or self.success >= ENOUGH

    @property
    def passes(self) -> bool:
        """Whether it is ok and, in a task without other rewards, each agent alone can be rewarded."""
        return self.ok and (self.mean_return is not None or all(self.rewarded.values()))

    @cached_property
    def answer(self) -> str:
        """The answer, in one sentence."""
        if self.success is None:
            return ""
        if self.mean_return is not None:
            stalls = "" if self.ok else ": the agents, each planning alone, stall"
            ends = "" if self.median_steps is None else f"; it completes the task in {self.median_steps:g} steps"
            episode = f"an episode{f' of {MAX_STEPS:,} steps' if self.success == 0 else ''}"
            return f"The team of planned policies earns {self.mean_return:g} in {episode}{ends}{stalls}."
        if self.ok:
            least = f" (minimum: {self.fewest_steps})" if self.fewest_steps is not None else ""
            return f"The team of planned policies completes the task: {self.median_steps:g} steps{least}."
        rate = f"in {self.success:.0%} of {EPISODES} episodes" if self.success else f"in none of {EPISODES} episodes"
        return f"The team of planned policies completes the task {rate}: the agents, each planning alone, stall."

    @property
    def problems(self) -> tuple[str, ...]:
        """Where the team stalls, in one sentence."""
        return () if self.ok or self.stall is None else (f"The team stalls {self.stall}.",)

    def as_json(self) -> dict[str, object] | None:
        if self.success is None:
            return None
        rewards = {} if self.mean_return is None else {"return": self.mean_return}
        return rewards | {
            "success": self.success,
            "steps": self.median_steps,
            "fewest_steps": self.fewest_steps,
            "stall": None if self.stall is None else self.stall.as_json(),
        }


def play_planned(task: Task, least_steps: int = 0, most_work: float = MOST_WORK) -> TeamCheck:
    """Plan policies of agents that assume the readiness that their teammates have, play the team, and find its stall.
    `least_steps` is a known lower bound on the steps of an episode; `most_work` limits the search."""
    tables = compile_task(task)
    pairs = int(tables.states.astype(np.int64).sum()) * tables.cells
    if pairs > MOST_PAIRS or tables.event.size > MOST_ENTRIES:
        size = f"with {pairs:,} pairs of a machine state and a cell, it takes long"
        return TeamCheck({}, remark=f"The team was not played: {size}.")
    readiness, fewest, moves = Readiness(tables), None, TeamMoves.true(tables)
    if not tables.has_rewards:
        with suppress(TaskError):
            fewest = fewest_steps(joint_space(tables, MOST_JOINT_STATES))
    horizon = min(MAX_STEPS, LONGEST_PATHS * patience_of(tables)) if tables.has_rewards else MAX_STEPS
    least = least_steps if fewest is None else fewest
    search = TeamSearch(tables, readiness, DISCOUNT, moves, horizon, most_work=most_work, fewest_steps=least)
    team = search.run()
    chances, rewarded, unrewarded = readiness.believe(BELIEFS[0]), dict[str, bool](), dict[str, UnrewardedState]()
    for index, agent in enumerate(task.agents):
        value = search.values(index, chances)[tables.starts(index), :, tables.initial[index]]
        rewarded[agent] = bool(value.max() > 0)  # alone; with completion rewards, distant ones may be rounded to 0
        if not rewarded[agent] and not tables.has_rewards:
            if (state := _find_stalled(task, search, index, agent, chances)) is not None:
                unrewarded[agent] = state
            rewarded[agent] = state is None
    first = 1_000_000  # episodes other than those by which the team was chosen
    played = replace(search, max_steps=MAX_STEPS).play(team.values, EPISODES, first)
    if not tables.has_rewards and 0.5 < (played.steps >= 0).mean() < ENOUGH:
        team, first = search.thorough().run(team.chances), 2 * first
        played = search.play(team.values, EPISODES, first)
    is_done = played.steps >= 0
    success = float(is_done.mean())
    median = float(np.median(np.where(is_done, played.steps, MAX_STEPS))) if success > 0.5 else None
    mean_return = float(played.returns.mean()) if tables.has_rewards else None
    check = TeamCheck(rewarded, success, median, mean_return, fewest, unrewarded_states=unrewarded)
    if check.ok:
        return check
    worst = int(np.argmin(played.returns)) if tables.has_rewards else int(np.flatnonzero(~is_done)[0])
    return replace(check, stall=find_stall(task, team.values, first + worst))


def _find_stalled(task: Task, search: TeamSearch, index: int, agent: str, chances: Chances) -> UnrewardedState | None:
    """Find where an agent stalls, if it reaches no final state with teammates that are ready with some probability."""
    machine, table, names = task.machines[agent], search.readiness.table(index, chances), tuple(task.events)
    is_reached = search.planner(index, table).reachable_states(table)
    if machine.is_final[is_reached].any():
        return None
    state, events = _nearest_state(machine, np.flatnonzero(is_reached).tolist())
    happened = table.happened[machine.states.index(state)].reshape(-1, table.happened.shape[3])
    traces = [tuple(names[event] for event in row if event >= 0) for row in happened.tolist()]
    longer = [trace for trace in traces if len(trace) > 1 and trace[0] in events]
    return UnrewardedState(state, events, min(longer, key=len, default=()))


def _nearest_state(machine: RewardMachine, reached: Sequence[int]) -> tuple[str, tuple[str, ...]]:
    """Pick the reached state that is nearest to a final one, and list its events that lead nearer."""
    sources: dict[str, list[str]] = {}
    for (state, _), target in machine.transitions.items():
        sources.setdefault(target, []).append(state)
    distance = dict.fromkeys(machine.states, len(machine.states))
    distance |= distances_from(machine.final, lambda state: sources.get(state, ()))
    nearest = min((machine.states.at(state) for state in reached), key=distance.__getitem__)
    moves = machine.moves.get(nearest, {})
    return nearest, tuple(event for event, target in moves.items() if distance[target] < distance[nearest])


def find_stall(task: Task, values: Values, episode: int) -> Stall:
    """Play a failed episode again, and find its trace and what agents wait for at its end."""
    tables, events = compile_task(task), tuple(task.events)
    names, steps = [tuple(machine.states) for machine in task.machines.values()], list[Step]()

    def watch(_: Ints, cell: Ints, __: object, settled: SettledCases) -> None:
        happened = [events[event] for event in settled.events()[0]]
        states = [each[state] for each, state in zip(names, settled.state[0].tolist(), strict=True)]
        steps.append((cell[0].tolist(), states, happened))

    episodes = range(episode, episode + 1)
    play_team(tables, values, TeamMoves.true(tables), episodes=episodes, max_steps=MAX_STEPS, watch=watch)
    trace = [event for _, _, happened in steps for event in happened]
    return replace(describe_stall(task, trace, [step[:2] for step in steps]), steps=tuple(steps))


def describe_stall(task: Task, trace: Sequence[str], steps: Sequence[tuple[Sequence[int], Sequence[str]]]) -> Stall:
    """Find what agents wait for at the end of an episode, from their cells and machine states after each step."""
    waiting, last = {}, dict(zip(task.agents, steps[-1][0], strict=True))
    for index, agent in enumerate(task.agents):
        cells = [None, *(cells[index] for cells, _ in steps)]  # the cell before the first step is not known
        window = [(cells[index], states[index]) for cells, states in steps[-WINDOW:]]
        cell, state = window[-1]
        around = {task.grid.neighbor(cell, action) for action in range(STAY)} if task.bodies else ()
        proposed = Counter(
            event
            for pair, before in zip(window, cells[-len(window) - 1 :], strict=False)
            for event in propose(task, agent, *pair, before)
        )
        events = tuple(event for event, _ in proposed.most_common())
        is_done, is_moving = state in task.machines[agent].final, len({cell for cell, _ in window}) > 1
        beside = tuple(other for other, end in last.items() if other != agent and end in around)
        waiting[agent] = Wait(state, describe_cell(task, cell), events, is_done, is_moving, beside)
    return Stall(tuple(trace), waiting)
