"""The machines of a team as arrays of numpy, for `batched`; steps of small machines as tables of all that can come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.errors import TaskError
from hocket.machine.composition import Composition
from hocket.machine.decomposition import Decomposition
from hocket.machine.reward_machine import RewardMachine
from hocket.task.endless import Kinds
from hocket.task.tables import Bools, compile_task
from hocket.task.task import Task

MOST_ROWS = 2**16  # of a table
MOST_UNROLLED = 256  # rounds, each of which is written out

Array = Any  # of whichever library
Library = Any
Device = Any
Ints = NDArray[np.int32]
Source = Task | Decomposition
Step = Callable[..., tuple[Any, ...]]  # of states and whether conditions hold; of agents alone who is ready, too


class Lookup(NamedTuple):
    """What comes of every joint state of a team, or state of an agent alone, and of all conditions that may hold.

    Libraries that run one operation after the other, like PyTorch, take as long for a look as for a single round. The
    row is the sum of a base, of strides times states, and of the weights of conditions that hold.
    """

    base: Array  # [N] of agents alone: the first row of each; of a team []: the stride of the team machine's state
    stride: Array  # [N]
    weight: Array  # [N, E] of conditions that hold
    ready_weight: Array  # [N, E] of simulated teammates that are ready
    after: tuple[Array, ...]  # [L, ...] each: what a step of agents alone, or of a team, returns


class BatchedTables(NamedTuple):
    """The machines as arrays, of numpy or of another library."""

    initial: Array  # [N]
    next_state: Array  # [N, U, E] or -1
    reward: Array  # [N, U, E] what the agent's own machine pays
    is_final: Array  # [N, U]
    is_over: Array  # [N, U] where an agent alone is done: final and, where a task has rewards, nothing leads on
    is_known: Array  # [N, E]
    is_told: Array  # [N, E] known, and controlled by others
    waits: Array  # [N, E] known, and controlled by others, too
    has_knowers: Array  # [E]
    one_state: Array  # [U] their numbers
    is_state: Bools  # [U, N] of a machine, and not over
    once: Array  # [E] whether it happens at most once in a step
    where: tuple[Array, ...]  # [N, S, E] where conditions hold; then, for edges, pairs of cells after and before a step
    rivals: tuple[tuple[int, ...], ...]  # of each event: those before it that it may lose an agent to
    team_next: Array  # [V, E] or of no states where completion is all that is paid for
    team_reward: Array  # [V, E]
    team_initial: int
    team_lookup: Lookup | None = None  # where machines are small
    alone_lookup: Lookup | None = None

    def to(self, xp: Library, device: Device) -> BatchedTables:
        """Convert the arrays."""

        def move(value: Any) -> Any:  # noqa: ANN401 (an array, or a tuple of them)
            if not isinstance(value, tuple):
                return xp.asarray(value, device=device) if isinstance(value, np.ndarray | np.generic) else value
            parts = map(move, value)
            return Lookup(*parts) if isinstance(value, Lookup) else tuple(parts)

        return BatchedTables(*map(move, self))


def tabulate(source: Source, events: tuple[str, ...], once: Bools) -> BatchedTables:
    """Lay the machines of a team out as arrays of numpy."""
    number = {event: place for place, event in enumerate(events)}
    parts = list(source.machines.values())
    shape = (len(parts), max(len(part.states) for part in parts), len(events))
    next_state, reward = np.full(shape, -1, np.int32), np.zeros(shape)
    (is_final, is_over), known = np.zeros((2, *shape[:2]), np.bool_), np.zeros(shape[::2], np.bool_)
    for place, part in enumerate(parts):
        label = np.array([number[event] for event in part.events], np.int64)
        at = (place, part.graph.source, label[part.graph.label])
        next_state[at], reward[at] = part.graph.target, part.reward
        ends = part.is_final if source.machine.has_completion_rewards or len(parts) == 1 else part.ends
        is_final[place, : len(part.states)], is_over[place, : len(part.states)] = part.is_final, ends
    for place, knows in enumerate(source.knows.values()):
        known[place, [number[event] for event in knows]] = True
    control = source.controllers if isinstance(source, Task) else source.control
    controls = known.copy()  # where nothing says who controls an event, all that know it do
    for event in events:
        if names := control.get(event):
            controls[:, number[event]] = [agent in names for agent in source.machines]
    waits = known & (controls.sum(axis=0) - controls > 0) & (known.sum(axis=0) > 1)
    if isinstance(source, Task):
        for place, agent in enumerate(source.agents.values()):
            waits[place, [number[event] for event in agent.sync]] = True
    sizes = np.array([len(part.states) for part in parts])
    is_state = (np.arange(shape[1])[:, None] < sizes) & ~is_over.T
    initial = np.array([part.start for part in parts], np.int32)
    told, owned = known & ~controls, known.any(axis=0)
    possible, shared = (next_state >= 0).astype(np.int64), known[:, :, None] & known[:, None, :]
    together = np.einsum("nue,nuf->nef", possible, possible) > 0
    clash = shared.any(axis=0) & (together | ~shared).all(axis=0)  # events possible at once that share an agent
    rivals = tuple(tuple(np.flatnonzero(row[:event]).tolist()) for event, row in enumerate(clash))
    numbers, where = np.arange(shape[1], dtype=np.int32), _where(source, events)
    fixed = (initial, next_state, reward, is_final, is_over, known, told, waits, owned, numbers, is_state, once, where)
    return BatchedTables(*fixed, rivals, *_team(source, number))


def _where(source: Source, events: tuple[str, ...]) -> tuple[Bools, ...]:
    """Tabulate where conditions hold: [N, S, E], and for edges, as many as a condition has, after and before a step."""
    if not isinstance(source, Task):
        return ()
    shape = (len(source.machines), source.grid.cells, len(events))
    where = [np.zeros(shape, np.bool_)]
    for place, agent in enumerate(source.machines):
        for number, event in enumerate(events):
            masks = source.masks(agent, event) if event in source.knows[agent] else ()
            for now in (now for now, was in masks if was is None):
                where[0][place, :, number] |= now
            flags = [flag for now, was in masks if was is not None for flag in (now, was)]
            where += [np.zeros(shape, np.bool_) for _ in range(len(flags) + 1 - len(where))]
            for table, flag in zip(where[1:], flags, strict=False):
                table[place, :, number] = flag
    return tuple(where)


def _team(source: Source, number: dict[str, int]) -> tuple[Ints, NDArray[np.float64], int]:
    """Tabulate the team machine, where it pays for more than completion."""
    team, events = source.machine, len(number)
    if team.has_completion_rewards:
        return np.zeros((0, events), np.int32), np.zeros((0, events)), 0
    listed = team if isinstance(team, RewardMachine) else team.machine()
    following = np.full((len(listed.states), events), -1, np.int32)
    reward = np.zeros(following.shape)
    at = (listed.graph.source, np.array([number[event] for event in listed.events])[listed.graph.label])
    following[at], reward[at] = listed.graph.target, listed.reward
    return following, reward, listed.start


# Steps as tables.


def team_lookup(sizes: Sequence[int], team_states: int, controls: Bools, step: Step) -> Lookup | None:
    """Tabulate the steps of a team; None where there are too many. `controls` [N, E] are the conditions that matter."""
    bits, sizes = int(controls.sum()), (*sizes, max(1, team_states))
    if bits > 32 or np.prod(sizes, dtype=np.float64) * 2.0**bits > MOST_ROWS:
        return None
    row, weight = np.arange(np.prod(sizes, dtype=np.int64) << bits), _weights(controls.ravel()).reshape(controls.shape)
    *states, team = (part.astype(np.int32) for part in np.unravel_index(row >> bits, sizes))
    holds = (row[:, None, None] & weight) > 0
    state, *rest = step((np.stack(states, axis=-1), team), holds)
    strides = np.cumprod([1, *sizes[:0:-1]])[::-1].astype(np.int32) << bits
    return Lookup(strides[-1], strides[:-1], weight, weight, (*state, *rest))


def alone_lookup(size: int, controls: Bools, waits: Bools, step: Step) -> Lookup | None:
    """Tabulate the steps of each agent alone, in so many states; None where there are too many."""
    flags = np.concatenate([controls, waits], axis=1)
    bits = flags.sum(axis=1)
    rows = size * 2.0**bits
    if bits.max(initial=0) > 32 or rows.sum() > MOST_ROWS:
        return None
    weight, ready_weight = np.split(_weights(flags), 2, axis=1)
    parts = []
    for agent, shift in enumerate(bits.tolist()):
        row = np.arange(size << shift)
        states = np.repeat((row >> shift).astype(np.int32)[:, None], len(bits), axis=1)
        holds, ready = ((row[:, None, None] & each) > 0 for each in (weight, ready_weight))
        parts.append([part[:, agent] for part in step(states, holds, ready)])
    base, stride = (np.cumsum(rows) - rows).astype(np.int32), (1 << bits).astype(np.int32)
    return Lookup(base, stride, weight, ready_weight, tuple(map(np.concatenate, zip(*parts, strict=True))))


def _weights(flags: Bools) -> Ints:
    """Number the flags that are set as bits, along the last axis."""
    ones = flags.astype(np.int32)
    return ones << (np.cumsum(ones, axis=-1, dtype=np.int32) - ones)


# How many rounds a step may have.


def most_rounds(source: Task | Decomposition) -> int:
    """Bound the rounds of a step in which something happens.

    Of a decomposition each event happens at most once in a step, and of a task each edge. Of a task a round moves at
    least one machine, and a machine in one place goes at most as far, between two edges, as its longest path of other
    events that are possible there; where it could go in circles as teammates let it, the team machine never comes to
    the same state twice between two edges.
    """
    if isinstance(source, Decomposition):
        return max(1, len(source.machine.events))
    compile_task(source)  # which refuses tasks in which a step never settles
    longest = [_longest_path(source, agent) for agent in source.agents]
    team = source.machine
    joint = team.most_states if isinstance(team, Composition) else len(team.states)
    paths = [steps for steps in longest if steps is not None]
    edges = len(source.edges)
    most = joint - 1 if not edges else (edges + 1) * joint
    rounds = min(most, sum(paths)) if len(paths) == len(longest) else most
    if rounds > MOST_UNROLLED:
        raise TaskError(f"a step could need {rounds:,} rounds: say how many are enough (rounds=)", key="machine")
    return max(1, rounds)


def _longest_path(task: Task, agent: str) -> int | None:
    """Count the transitions of a longest path of an agent's machine in one place; None where it may go in circles."""
    machine, kinds = task.machines[agent], Kinds.of(task, agent)
    if not len(machine.graph.source):
        return 0
    where = np.stack([kinds.where(event) for event in machine.events])  # [events, kinds]
    is_edge = np.array([event in task.edges for event in machine.events])
    longest = 0
    for allowed in np.unique(where.T, axis=0):
        edges = int((allowed & is_edge).sum())
        steps = _longest_walk(machine, (allowed & ~is_edge)[machine.graph.label])
        if steps is None:
            return None
        longest = max(longest, steps + edges * (steps + 1))
    return longest


def _longest_walk(machine: RewardMachine, is_allowed: NDArray[np.bool_]) -> int | None:
    """Count the transitions of a longest walk along some of a machine's; None: one never ends."""
    source, target = machine.graph.source[is_allowed], machine.graph.target[is_allowed]
    steps = np.zeros(len(machine.states), np.int64)
    for _ in range(len(machine.states)):
        longer = np.zeros_like(steps)
        np.maximum.at(longer, source, steps[target] + 1)
        if np.array_equal(longer, steps):
            return int(steps.max())
        steps = longer
    return None
