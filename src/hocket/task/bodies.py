"""Agents with bodies: of agents that would be in one cell, or swap cells, some have to stay where they are.

All agents choose their moves at once. An agent does not move into a cell in which another one stays; of several that
would move into the same cell, the first in the order of agents does (if `symmetric`, none of them). An agent that stays
may block others, so this is repeated until no agent is blocked; then agents that would swap cells stay.
Instead of single cells, regions may hold one agent at a time; then other cells are shared, and swaps are allowed. If an
agent leaves a region that several would enter, those after it in the order of agents come first.
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
Name = TypeVar("Name", str, int)  # agents by name or by number
Words = NDArray[np.int32]


def rule_of(bodies: Bodies) -> int:
    """Return the number of a rule."""
    if isinstance(bodies, tuple):
        return ONE_IN_REGION
    return NONE_GOES if bodies == SYMMETRIC else IN_ORDER if bodies else NO_BODIES


def units_of(bodies: Bodies, grid: Grid) -> Words:
    """Number the cell or region that holds one agent and contains each cell; -1 if others may be there, too: [S]."""
    if not isinstance(bodies, tuple):
        return np.arange(grid.cells, dtype=np.int32)
    unit = np.full(grid.cells, -1, np.int32)
    for number, region in enumerate(bodies):
        unit[list(grid.place(region, "bodies"))] = number
    return unit


def check_bodies(bodies: Bodies, grid: Grid, agents: Mapping[str, Agent]) -> None:
    """Require a rule that exists, and that no two agents may start in the same cell or region."""
    if isinstance(bodies, str) and bodies != SYMMETRIC:
        raise TaskError(f"must be true, {SYMMETRIC!r} or a list of regions, got {bodies!r:.60}", key="bodies")
    if not bodies:
        return
    regions = [grid.place(region, "bodies") for region in bodies] if isinstance(bodies, tuple) else []
    if len(frozenset[int]().union(*regions)) < sum(map(len, regions)):
        raise TaskError("regions that hold one agent at a time must not overlap", key="bodies")
    unit, taken = units_of(bodies, grid), dict[int, str]()
    for name, agent in agents.items():
        for start in {int(unit[cell]) for cell in agent.starts} - {-1}:
            if start in taken:
                where = "in one region" if isinstance(bodies, tuple) else f"in cell {grid.row_column(start)}"
                raise TaskError(f"{taken[start]} and {name} must not both start {where}", key="bodies")
            taken[start] = name


def hold_apart(bodies: Bodies, unit: Words, before: Mapping[Name, int], after: Mapping[Name, int]) -> dict[Name, int]:
    """Return the cells in which agents end a step that they begin in some cells and that would take them to others."""
    after = dict(after)
    rank = {name: number for number, name in enumerate(after)}
    leaving = {int(unit[cell]): rank[name] for name, cell in before.items()} if isinstance(bodies, tuple) else {}
    while True:
        names_in: dict[int, list[Name]] = {}
        for name, cell in after.items():
            if unit[cell] >= 0:
                names_in.setdefault(int(unit[cell]), []).append(name)
        held: list[Name] = []
        for number, names in names_in.items():
            coming = [name for name in names if unit[before[name]] != number]
            coming.sort(key=lambda name: rank[name] <= leaving.get(number, -1))  # those after the one that leaves first
            is_free = len(coming) == len(names) and (len(coming) == 1 or bodies != SYMMETRIC)  # for the first of them
            held += coming[is_free:]
        if not held:
            break
        after.update({name: before[name] for name in held})
    if isinstance(bodies, tuple):
        return after
    moves = {(before[name], cell) for name, cell in after.items() if cell != before[name]}
    return {name: before[name] if (cell, before[name]) in moves else cell for name, cell in after.items()}


def hold_all_apart(rule: int, unit: Words, before: NDArray[Any], after: NDArray[Any]) -> NDArray[np.int64]:
    """Do the same for many teams at once: [cases, N] cells each."""
    after, old = after.astype(np.int64), np.asarray(before, np.int64).ravel()
    flat, case = after.ravel(), np.repeat(np.arange(len(after)), after.shape[1])
    rank, leaving = np.tile(np.arange(after.shape[1]), len(after)), np.full((len(after), unit.max(initial=0) + 2), -1)
    if rule == ONE_IN_REGION:
        leaving[case, unit[old]] = rank
    while True:
        is_coming, group = unit[flat] != unit[old], case * (len(unit) + 1) + unit[flat]
        order = np.lexsort((rank <= leaving[case, unit[flat]], is_coming, group))  # agents that stay come first
        same = group[order][1:] == group[order][:-1]
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
