"""Agents with bodies: of those that would be in one cell, or swap cells, some have to stay where they are.

All agents choose where to go at once. Whoever would come to a cell that another agent keeps stays; of several that
would come to the same cell, the first in the order of agents goes there (in a `symmetric` world none of them does).
Staying may be in the way of others, so this is repeated until nobody is in anybody's way; then those who would swap
stay.
Instead of single cells it may be regions that hold one agent at a time; then cells are shared, and nobody swaps. Where
an agent leaves a region into which several would come, those after it in the order of agents are first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hocket.errors import TaskError
from hocket.task.agents import Agent
from hocket.task.grid import Grid

SYMMETRIC = "symmetric"
NO_BODIES, IN_ORDER, NONE_GOES, ONE_IN_REGION = range(4)  # rules, as numbers for kernels

Bodies = bool | str | tuple[str, ...]  # whether agents have bodies; "symmetric"; or regions that hold one at a time
Who = TypeVar("Who", str, int)  # agents by name or by number
Ints = NDArray[np.int64]
Words = NDArray[np.int32]


def rule_of(bodies: Bodies) -> int:
    """Number the rule."""
    if isinstance(bodies, tuple):
        return ONE_IN_REGION
    return NONE_GOES if bodies == SYMMETRIC else IN_ORDER if bodies else NO_BODIES


def units_of(bodies: Bodies, grid: Grid) -> Words:
    """Number what an agent in each cell has for itself: the cell, or a region; -1 where others may be, too: [S]."""
    if not isinstance(bodies, tuple):
        return np.arange(grid.cells, dtype=np.int32)
    unit = np.full(grid.cells, -1, np.int32)
    for number, region in enumerate(bodies):
        unit[list(grid.place(region, "bodies"))] = number
    return unit


def check_bodies(bodies: Bodies, grid: Grid, agents: Mapping[str, Agent]) -> None:
    """Require a rule that exists, and that nobody starts where another agent may start."""
    if isinstance(bodies, str) and bodies != SYMMETRIC:
        raise TaskError(f"must be true, {SYMMETRIC!r} or a list of regions, got {bodies!r:.60}", key="bodies")
    if not bodies:
        return
    if isinstance(bodies, tuple) and sum(len(grid.place(region, "bodies")) for region in bodies) > len(
        frozenset().union(*(grid.places[region] for region in bodies))
    ):
        raise TaskError("regions that hold one agent at a time must not overlap", key="bodies")
    unit, taken = units_of(bodies, grid), dict[int, str]()
    for name, agent in agents.items():
        for start in {int(unit[cell]) for cell in agent.starts} - {-1}:
            if start in taken:
                where = "in one region" if isinstance(bodies, tuple) else f"in cell {grid.row_column(start)}"
                raise TaskError(f"{taken[start]} and {name} must not both start {where}", key="bodies")
            taken[start] = name


def hold_apart(bodies: Bodies, unit: Words, before: Mapping[Who, int], after: Mapping[Who, int]) -> dict[Who, int]:
    """Say where agents end up that were somewhere before and would go somewhere."""
    after = dict(after)
    turn = {name: number for number, name in enumerate(after)}
    last = {int(unit[cell]): turn[name] for name, cell in before.items()} if isinstance(bodies, tuple) else {}
    while True:
        together: dict[int, list[Who]] = {}
        for name, cell in after.items():
            if unit[cell] >= 0:
                together.setdefault(int(unit[cell]), []).append(name)
        held: list[Who] = []
        for place, names in together.items():
            coming = [name for name in names if unit[before[name]] != place]
            coming.sort(key=lambda name: turn[name] <= last.get(place, -1))  # those whose turn it has been come last
            goes = len(coming) == len(names) and (len(coming) == 1 or bodies != SYMMETRIC)  # the first of them
            held += coming[goes:]
        if not held:
            break
        after.update({name: before[name] for name in held})
    if isinstance(bodies, tuple):
        return after
    moves = {(before[name], cell) for name, cell in after.items() if cell != before[name]}
    return {name: before[name] if (cell, before[name]) in moves else cell for name, cell in after.items()}


def hold_all_apart(rule: int, unit: Words, before: NDArray[Any], after: NDArray[Any]) -> Ints:
    """Do the same for many teams at once: [cases, N] cells each."""
    after, old = after.astype(np.int64), np.asarray(before, np.int64).ravel()
    flat, case = after.ravel(), np.repeat(np.arange(len(after)), after.shape[1])
    turn, last = np.tile(np.arange(after.shape[1]), len(after)), np.full((len(after), unit.max(initial=0) + 2), -1)
    if rule == ONE_IN_REGION:
        last[case, unit[old]] = turn
    while True:
        is_coming, place = unit[flat] != unit[old], case * (len(unit) + 1) + unit[flat]
        order = np.lexsort((turn <= last[case, unit[flat]], is_coming, place))  # who keeps a place comes first
        same = place[order][1:] == place[order][:-1]
        late = np.append(False, same) | (np.append(same, False) if rule == NONE_GOES else False)
        held = order[late]
        held = held[is_coming[held] & (unit[flat[held]] >= 0)]
        if not len(held):
            break
        flat[held] = old[held]
    if rule != ONE_IN_REGION:
        moved, base = flat != old, len(unit)
        there, back = (case * base + old) * base + flat, (case * base + flat) * base + old
        swaps = moved & np.isin(there, back[moved])
        flat[swaps] = old[swaps]
    return after
