"""Tasks as arrays of numbers: the only form that kernels see.

N agents, U states of the largest machine, W worlds (sequences of sets of closed cells), D dynamics (sets of closed
cells), S cells, H kinds of steps (sets of an agent's conditions that hold), C events that an agent may propose at once,
A actions, K outcomes of an action, E events, O options, V states of the team machine. Agents with fewer of them have
padded rows. No array has an entry for each agent and each event, as most agents know few events.

The kind of a step follows from its arrival: the cell in which it ends plus an offset for the one in which it begins,
which is 0 without edges (see `hocket.task.endless.StepKinds`). So the number of arrivals is S or a multiple of S.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache, partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.capacity import require_memory
from hocket.errors import TaskError
from hocket.machine.algebra import reachable_part
from hocket.machine.composition import Composition
from hocket.machine.reward_machine import RewardMachine
from hocket.random import start_draw
from hocket.task.bodies import rule_of, units_of
from hocket.task.endless import StepKinds, find_endless
from hocket.task.grid import ACTIONS, OUTCOMES, Numbers, shortest
from hocket.task.memory import memory_of, options_of
from hocket.task.settling import EndlessError
from hocket.task.task import Task

MOST_STATES = 32_000  # of one agent's machine; they are 16-bit numbers
MOST_EVENTS = 1_000_000
MOST_ENTRIES = 200_000_000  # agents x states x kinds of steps x events at once: padded, they take twelve bytes each
MOST_COMPOSED = 20_000  # states of a composition up to which the team machine is tabulated ...
MOST_COMBINED = 200_000  # ... and combinations of its parts' states, up to which these states are counted
MOST_ROUNDS = 1_000_000  # of a step; a step with more is taken for one that never settles
MOST_TEAM_ENTRIES = 100_000_000  # of the team machine's table; for larger ones the team state is not tracked

BYTES = 8  # of an agent and an arrival: of which kind it is, twice, and which options are completed there

Shorts = NDArray[np.int16]
Bools = NDArray[np.bool_]
Words = NDArray[np.int32]
Memory = Mapping[str, tuple[str, ...]]  # agent -> the events that it remembers
Columns = dict[str, Any]  # some of the fields of `Tables`, by their names


class Tables(NamedTuple):
    """A compiled task."""

    next_cell: Numbers  # [W, D, S, A, K] where an action leads
    world: Words  # [N] which of the W worlds an agent has
    dynamics: Shorts  # [N, U] which of the D apply
    kind: Numbers  # [N, arrivals] which of the agent's conditions hold after a step
    offset: Words  # [N, S] of the cell in which a step begins: with the cell in which it ends, its arrival
    event: Numbers  # [N, U, H, C] the events that the agent proposes, in the order of the task; then -1
    next_state: Shorts  # [N, U, H, C] its machine's state after each of them; the same state where there is none
    reward: NDArray[np.float64]  # [N, U, H, C] for each of them
    is_final: Bools  # [N, U]
    states: Shorts  # [N] how many states its machine has
    start: Words  # [N] cell; of several, the first
    first_start: Words  # [N + 1] where the cells begin in which an agent may start ...
    start_cell: Words  # ... in this list
    initial: Shorts  # [N] machine state
    knowers: Words  # [E] how many agents know the event
    first_knower: Words  # [E + 1] where they begin ...
    knower: Words  # ... in this list of agents
    controller: Words  # [E] the only agent that controls the event; -1: there are several
    first_sync: Words  # [N + 1] where an agent's synchronisation probabilities that the task sets begin ...
    sync_event: Words  # ... in this list of events ...
    sync_chance: NDArray[np.float64]  # ... and of probabilities per step
    is_edge: Bools  # [E] whether the event happens at most once in a step
    most_rounds: int  # in which a step settles, if it settles at all
    first_memory: Words  # [E + 1] where the agents that remember the event begin ...
    memory_agent: Words  # ... in this list of agents ...
    memory_bit: Shorts  # ... and of the bits of their memories
    memories: Words  # [N] how many values its memory has
    option_target: Bools  # [N, O, S] where an option is completed
    option_bit: Shorts  # [N, O] the bit that makes it available; -1: always; -2: there is no such option
    slip: float  # probability that a move slips
    body_rule: int  # of `hocket.task.bodies`
    body: Words  # [S] the unit that holds one agent, or -1 (see `hocket.task.bodies`); empty without bodies
    columns: int  # of the map, whose cells are numbered row by row
    torus: bool  # whether the map wraps around at its edges
    team_next: Words  # [V, E] the team machine's next state, or -1; V is 0 where it is too large
    team_final: Bools  # [V]
    team_initial: int
    team_class: Shorts  # [N, V] the agent's machine state that contains a team state
    is_over: Bools  # [N, U] where an agent's own episode ends (see `Task.end_states`)
    has_rewards: bool  # other than 1 for completing the task

    @property
    def cells(self) -> int:
        """S, the number of cells."""
        return int(self.offset.shape[1])

    @property
    def arrivals(self) -> int:
        """The number of arrivals: S or, where conditions depend on the cell before a step, a multiple of S."""
        return int(self.kind.shape[1])

    def starts(self, agent: int) -> Words:
        """List the cells in which an agent may start."""
        return self.start_cell[self.first_start[agent] : self.first_start[agent + 1]]

    def kinds(self, before: NDArray[Any], after: NDArray[Any]) -> NDArray[Any]:
        """Look up the kinds of all agents' steps: [..., N], by the cells in which they begin and end."""
        agents = np.arange(len(self.start))
        kinds: NDArray[Any] = self.kind[agents, self.offset[agents, before] + after]
        return kinds


def compile_task(task: Task) -> Tables:
    """Compile a task, refusing one in which a step would never settle. Tables are kept with the task, so nothing may
    write to them."""
    if "tables" not in task.__dict__:
        task.__dict__["tables"] = _compile(task)
    tables: Tables = task.__dict__["tables"]
    return tables


def _checked_kinds(task: Task) -> dict[str, StepKinds]:
    """Find the kinds of all agents' steps, and refuse a task that is too large for tables."""
    if len(task.events) > MOST_EVENTS:
        raise TaskError(f"a task may have {MOST_EVENTS:,} events, got {len(task.events):,}", key="events")
    subject = f"a task of {len(task.agents):,} agents on {task.grid.cells:,} cells"
    require_memory(BYTES * len(task.agents) * task.grid.cells, subject, partial(TaskError, key="map"))
    largest = max(len(machine.states) for machine in task.machines.values())
    if largest > MOST_STATES:
        raise TaskError(f"an agent's machine may have {MOST_STATES:,} states, got {largest:,}", key="machine")
    kinds = {agent: StepKinds.of(task, agent) for agent in task.agents}
    most_arrivals = max(len(each.kind) for each in kinds.values())
    require_memory(BYTES * len(task.agents) * most_arrivals, subject, partial(TaskError, key="map"))
    return kinds


def _compile(task: Task) -> Tables:
    kinds_of = _checked_kinds(task)
    if (endless := find_endless(task, kinds_of)) is not None:
        raise endless
    machines, agents, memory = list(task.machines.values()), list(task.agents.values()), memory_of(task)
    all_kinds, sizes = list(kinds_of.values()), [len(machine.states) for machine in machines]
    kind = np.zeros((len(agents), max(len(kinds.kind) for kinds in all_kinds)), shortest(max(map(len, all_kinds))))
    is_final, is_over = np.zeros((2, len(machines), max(sizes)), np.bool_)
    for index, (agent, machine) in enumerate(task.machines.items()):
        is_final[index, : sizes[index]], is_over[index, : sizes[index]] = machine.is_final, task.end_states(agent)
        kind[index, : len(all_kinds[index].kind)] = all_kinds[index].kind
    index_of, number = {agent: index for index, agent in enumerate(task.agents)}, task.event_numbers
    knowers = [[(index_of[agent],) for agent in row] for row in task.knowers.values()]
    sole = [index_of[next(iter(row))] if len(row) == 1 else -1 for row in task.events.values()]
    remembering: list[list[tuple[int, int]]] = [[] for _ in task.events]  # agents and bits
    for index, remembered in enumerate(memory.values()):
        for bit, name in enumerate(remembered):
            remembering[number[name]].append((index, bit))
    sync = [[(number[name], probability) for name, probability in agent.sync.items()] for agent in agents]
    return Tables(
        **_dynamics(task, max(sizes)),
        **_proposals(task, all_kinds, max(sizes)),
        **_listed("first_start", [[(cell,) for cell in agent.starts] for agent in agents], start_cell=np.int32),
        **_listed("first_knower", knowers, knower=np.int32),
        **_listed("first_sync", sync, sync_event=np.int32, sync_chance=np.float64),
        **_listed("first_memory", remembering, memory_agent=np.int32, memory_bit=np.int16),
        **_options(task, memory),
        **_team(task),
        kind=kind,
        offset=np.array([kinds.offset for kinds in all_kinds], np.int32),
        is_final=is_final,
        is_over=is_over,
        states=np.array(sizes, np.int16),
        start=np.array([agent.starts[0] for agent in agents], np.int32),
        initial=np.array([machine.start for machine in machines], np.int16),
        knowers=np.array([len(row) for row in knowers], np.int32),
        controller=np.array(sole, np.int32),
        is_edge=np.array([event in task.edges for event in task.events], np.bool_),
        most_rounds=int(min(prod(map(float, sizes)) * (1 + len(task.edges)), MOST_ROUNDS)),
        memories=np.array([1 << len(remembered) for remembered in memory.values()], np.int32),
        slip=float(task.slip),
        body_rule=rule_of(task.bodies),
        body=units_of(task.bodies, task.grid) if task.bodies else np.zeros(0, np.int32),
        columns=task.grid.columns,
        torus=task.grid.torus,
        has_rewards=task.has_rewards,
    )


def draw_starts(
    tables: Tables, keys: NDArray[np.uint64], agents: NDArray[np.integer[Any]] | slice = slice(None)
) -> NDArray[np.int64]:
    """Choose the cells in which agents start their first episodes, by the keys of their streams: [any, agents]."""
    count: NDArray[np.uint64] = np.diff(tables.first_start)[agents].astype(np.uint64)
    entry = tables.first_start[:-1][agents] + start_draw(keys, 0, count).astype(np.int64)
    return tables.start_cell[entry].astype(np.int64)


def _listed(first: str, rows: Sequence[Collection[tuple[float, ...]]], **columns: type[np.generic]) -> Columns:
    """Concatenate lists of tuples, as columns; the column `first` has the beginning of each list and the end."""
    begins = np.append(0, np.cumsum([len(row) for row in rows])).astype(np.int32)
    listed, parts = [entry for row in rows for entry in row], enumerate(columns.items())
    return {first: begins} | {name: np.array([entry[at] for entry in listed], kind) for at, (name, kind) in parts}


def _dynamics(task: Task, most: int) -> Columns:
    """Tabulate moves once for each sequence of sets of closed cells, and which set closes in each machine state."""
    worlds: dict[tuple[frozenset[int], ...], int] = {}
    world, dynamics = np.zeros(len(task.agents), np.int32), np.zeros((len(task.agents), most), np.int16)
    for index, agent in enumerate(task.agents):
        numbers: dict[frozenset[int], int] = {}
        for state, closed in enumerate(task.closed_cells(agent)):
            dynamics[index, state] = numbers.setdefault(closed, len(numbers))
        world[index] = worlds.setdefault(tuple(numbers), len(worlds))
    shape = (len(worlds), max(map(len, worlds)), task.grid.cells, len(ACTIONS), OUTCOMES)
    next_cell: Numbers = np.zeros(shape, shortest(task.grid.cells))
    outcomes = cache(task.grid.outcomes)
    for sequence, number in worlds.items():
        for index, closed in enumerate(sequence):
            next_cell[number, index] = outcomes(closed)
    return {"next_cell": next_cell, "world": world, "dynamics": dynamics}


def _proposals(task: Task, all_kinds: Sequence[StepKinds], most: int) -> Columns:
    """Tabulate which events each agent proposes after each kind of step, and the next states and rewards."""
    rows = []
    for kinds in all_kinds:
        machine = task.machines[kinds.agent]
        number = np.array([task.event_numbers[name] for name in machine.events], np.int64)
        where = np.array([kinds.where(name) for name in machine.events], np.bool_).reshape(len(number), len(kinds))
        edge, kind = np.nonzero(where[machine.graph.label])
        order = np.lexsort((number[machine.graph.label[edge]], kind, machine.graph.source[edge]))
        edge, kind = edge[order], kind[order]
        group = machine.graph.source[edge].astype(np.int64) * len(kinds) + kind
        slot = np.arange(len(group)) - np.searchsorted(group, group)  # its index among the events of the same group
        rows.append((edge, kind, slot, number[machine.graph.label[edge]]))
    most_kinds = max(map(len, all_kinds))
    candidates = 1 + max(int(slot.max(initial=0)) for _, _, slot, _ in rows)
    shape = (len(all_kinds), most, most_kinds, candidates)
    if prod(shape) > MOST_ENTRIES:
        kinds_and_events = f"{most_kinds:,} kinds of steps x {candidates:,} events at once"
        sizes = f"{shape[0]:,} agents x {most:,} machine states x {kinds_and_events}"
        raise TaskError(f"a task may have {MOST_ENTRIES:,} entries in its tables, got {sizes}", key="machine")
    event: Numbers = np.full(shape, -1, shortest(len(task.events)))
    next_state = np.broadcast_to(np.arange(most, dtype=np.int16)[None, :, None, None], shape).copy()
    reward = np.zeros(shape)
    for index, (machine, (edge, kind, slot, number)) in enumerate(zip(task.machines.values(), rows, strict=True)):
        at = (index, machine.graph.source[edge], kind, slot)
        event[at], next_state[at], reward[at] = number, machine.graph.target[edge], machine.reward[edge]
    return {"event": event, "next_state": next_state, "reward": reward}


def _options(task: Task, memory: Memory) -> Columns:
    options_by_agent = options_of(task)
    shape = (len(task.agents), max(map(len, options_by_agent.values())))
    target, bits = np.zeros((*shape, task.grid.cells), np.bool_), np.full(shape, -2, np.int16)
    for index, (agent, options) in enumerate(options_by_agent.items()):
        for number, option in enumerate(options):
            target[index, number, list(task.grid.places[option.target])] = True
            bits[index, number] = -1 if option.after is None else memory[agent].index(option.after)
    return {"option_target": target, "option_bit": bits}


def _team(task: Task) -> Columns:
    """Tabulate the reachable part of the team machine, if it is listed or can be, and is not too large."""
    team, agents = task.machine, len(task.agents)
    classes: Shorts | None = None
    if isinstance(team, RewardMachine):
        team = reachable_part(team)
    else:
        parts = Composition({agent: reachable_part(part) for agent, part in team.parts.items()})
        is_small = parts.most_states <= MOST_COMBINED and [*task.machines.items()] == [*parts.parts.items()]
        if is_small and (listed := parts.reachable(MOST_COMPOSED)) is not None:
            classes, team = listed[0].T.astype(np.int16), listed[1]
    if not isinstance(team, RewardMachine) or len(team.states) * len(team.events) > MOST_TEAM_ENTRIES:
        following, classes = np.zeros((0, len(task.events)), np.int32), np.zeros((agents, 0), np.int16)
        return {"team_next": following, "team_final": np.zeros(0, np.bool_), "team_initial": 0, "team_class": classes}
    following = np.full((len(team.states), len(team.events)), -1, np.int32)
    number = np.array([task.event_numbers[event] for event in team.events], np.int64)
    following[team.graph.source, number[team.graph.label]] = team.graph.target
    if classes is None:
        members = [machine.members.values() for machine in task.machines.values()]
        groups = [[(state,) for state in team.states]] if task.is_single_agent else members
        classes = np.zeros((agents, len(team.states)), np.int16)
        for index, row in enumerate(groups):
            for local_state, group in enumerate(row):
                classes[index, [team.states.index(state) for state in group]] = local_state
    final, start = team.is_final.copy(), team.start
    return {"team_next": following, "team_final": final, "team_initial": start, "team_class": classes}


# How steps settle in many cases at once: the rule of `hocket.task.settling` over the arrays of a compiled task.


class SettledCases(NamedTuple):
    """The results of steps that have settled, in any number of independent cases."""

    state: NDArray[np.int64]  # [cases, N] of the agents' machines
    team: NDArray[np.int64]  # [cases] of the team machine, if its states were given
    reward: NDArray[np.float64]  # [cases, N] from the agents' machines
    rounds: list[tuple[NDArray[np.intp], NDArray[np.intp]]]  # of each round: cases, and an event of each
    slots: list[tuple[NDArray[Any], ...]]  # of each round, for each machine that moved: its indices in `Tables.event`

    def events(self) -> list[list[int]]:
        """List the events that happened in each case, in their order."""
        happened: list[list[int]] = [[] for _ in self.state]
        for cases, events in self.rounds:
            for case, event in zip(cases.tolist(), events.tolist(), strict=True):
                happened[case].append(event)
        return happened


def settle(tables: Tables, kind: NDArray[Any], state: NDArray[Any], team: NDArray[Any] | None = None) -> SettledCases:
    """Let events happen in rounds until no more are possible, from machine states and kinds of steps: [cases, N] each.
    The same as `hocket.task.settling.settle`, for many cases at once; `team` are states of the team machine."""
    cases, agents = state.shape
    team_state = np.zeros(0, np.int64) if team is None else team.astype(np.int64)
    settled = SettledCases(state.astype(np.int64), team_state, np.zeros((cases, agents)), [], [])
    going, spent = np.arange(cases), np.zeros((cases, len(tables.is_edge)), np.bool_)
    for _ in range(tables.most_rounds + 1):
        proposed = tables.event[np.arange(agents), settled.state[going], kind[going]].astype(np.int64)  # [going, N, C]
        chosen = _choose_events(tables, proposed, spent[going])
        active = chosen.any(axis=1)
        if not active.any():
            return settled
        going, proposed, chosen = going[active], proposed[active], chosen[active]
        case, event = np.nonzero(chosen)
        settled.rounds.append((going[case], event))
        spent[going] |= chosen & tables.is_edge
        if team is not None:
            for number in np.flatnonzero(chosen.any(axis=0)).tolist():
                cases = going[chosen[:, number]]
                settled.team[cases] = tables.team_next[settled.team[cases], number]
        taken = chosen[np.arange(len(going))[:, None, None], proposed] & (proposed >= 0)
        case, agent, slot = np.nonzero(taken)
        case = going[case]
        at = (agent, settled.state[case, agent], kind[case, agent], slot)  # at most one slot for each agent
        settled.slots.append(at)
        settled.reward[case, agent] += tables.reward[at]
        settled.state[case, agent] = tables.next_state[at]
    raise EndlessError("events")


def _choose_events(tables: Tables, proposed: NDArray[np.int64], spent: Bools) -> Bools:
    """Flag the events of a round: not spent, proposed by all agents that know them, one for each agent: [cases, E]."""
    cases, agents, _ = proposed.shape
    events = len(tables.knowers)
    entry = proposed + (np.arange(cases) * (events + 1))[:, None, None] + 1  # a count for each case and event, or none
    count = np.bincount(entry.ravel(), minlength=cases * (events + 1)).reshape(cases, events + 1)[:, 1:]
    ready: Bools = (count == tables.knowers) & (tables.knowers > 0) & ~spent
    if tables.event.shape[3] == 1:  # no agent proposes two events
        return ready
    busy = np.zeros((cases, agents), np.bool_)
    for event in np.flatnonzero(ready.any(axis=0)).tolist():
        knowers = tables.knower[tables.first_knower[event] : tables.first_knower[event + 1]]
        ready[:, event] &= ~busy[:, knowers].any(axis=1)
        busy[:, knowers] |= ready[:, event, None]
    return ready
