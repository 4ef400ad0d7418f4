"""Steps of small machines as tables: what comes of every joint state and every set of conditions that may hold.

Libraries that run one operation after the other, like PyTorch, take as long for a look as for a single round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_ROWS = 2**16  # of a table

Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]
Step = Callable[[Ints, Ints, Bools, Bools], tuple[NDArray[Any], ...]]  # of states, team states, holds and ready


class TeamLookup(NamedTuple):
    """Steps of a team: the row is the sum of strides times states and of the weights of conditions that hold."""

    stride: Any  # [N]
    team_stride: Any  # []
    weight: Any  # [N, E]
    agents: Any  # [L, N] the states after the step
    team: Any  # [L]
    happened: Any  # [L, E]
    reward: Any  # [L]
    done: Any  # [L]


class AloneLookup(NamedTuple):
    """Steps of agents that train alone, those of one agent after those of the other."""

    base: Any  # [N] the first row of each agent
    stride: Any  # [N]
    weight: Any  # [N, E] of conditions that hold
    ready_weight: Any  # [N, E] of simulated teammates that are ready
    state: Any  # [L]
    happened: Any  # [L, E]
    reward: Any  # [L]
    done: Any  # [L]


def team_lookup(sizes: Sequence[int], team_states: int, controls: Bools, step: Step) -> TeamLookup | None:
    """Tabulate the steps of a team; None where there are too many. `controls` [N, E] are the conditions that matter."""
    bits = int(controls.sum())
    joint = np.prod([*sizes, max(1, team_states)], dtype=np.float64)
    if bits > 32 or joint * 2.0**bits > MOST_ROWS:
        return None
    rows = np.arange(int(joint) << bits, dtype=np.int64)
    holds = np.zeros((len(rows), *controls.shape), np.bool_)
    holds[:, controls] = rows[:, None] >> np.arange(bits) & 1
    *states, team = np.unravel_index(rows >> bits, (*sizes, max(1, team_states)))
    agents = np.stack(states, axis=-1).astype(np.int32)
    after = step(agents, team.astype(np.int32), holds, holds)
    strides = np.append(np.cumprod([*sizes[1:], max(1, team_states)][::-1])[::-1], 1) << bits
    return TeamLookup(strides[:-1].astype(np.int32), np.int32(strides[-1]), _weights(controls, 0), *after)


def alone_lookup(sizes: Sequence[int], controls: Bools, waits: Bools, step: Step) -> AloneLookup | None:
    """Tabulate the steps of each agent alone; None where there are too many."""
    held, ready = controls.sum(axis=1), waits.sum(axis=1)
    if (held + ready).max(initial=0) > 32 or sum(2.0 ** (held + ready) * np.array(sizes)) > MOST_ROWS:
        return None
    parts, first, base = [], 0, []
    weight, ready_weight = np.zeros(controls.shape, np.int32), np.zeros(controls.shape, np.int32)
    for agent, size in enumerate(sizes):
        bits = int(held[agent] + ready[agent])
        rows = np.arange(size << bits, dtype=np.int64)
        flags = rows[:, None] >> np.arange(bits) & 1
        holds, is_ready = (np.zeros((len(rows), *controls.shape), np.bool_) for _ in range(2))
        holds[:, agent, controls[agent]] = flags[:, : held[agent]]
        is_ready[:, agent, waits[agent]] = flags[:, held[agent] :]
        agents = np.zeros((len(rows), len(sizes)), np.int32)
        agents[:, agent] = rows >> bits
        parts.append([part[:, agent] for part in step(agents, np.zeros(len(rows), np.int32), holds, is_ready)])
        weight[agent] = _weights(controls[agent], 0)
        ready_weight[agent] = _weights(waits[agent], int(held[agent]))
        base.append(first)
        first += len(rows)
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    stride = np.array(1 << (held + ready), np.int32)
    return AloneLookup(np.array(base, np.int32), stride, weight, ready_weight, *columns)


def _weights(flags: Bools, first: int) -> Ints:
    """Number the flags that are set as bits."""
    weights = np.zeros(flags.shape, np.int32)
    weights[flags] = 1 << np.arange(first, first + int(flags.sum()))
    return weights
