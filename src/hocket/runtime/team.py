"""The team machine in numbers, for whoever sees everything: its transitions, and ways to completion."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hocket.errors import AssignmentError
from hocket.machine.composition import Composition
from hocket.machine.decomposition import Decomposition

LARGEST_TEAM = 300_000  # states of a team machine that is simulated
MOST_SPARSE = 1_000 * LARGEST_TEAM  # states of a composition of which few may be reachable


@dataclass(frozen=True)
class NumberedTeam:
    """A team machine whose states and events are numbers."""

    start: int
    moves: tuple[Mapping[int, int], ...]  # of each state: event -> state
    is_final: tuple[bool, ...]
    ways: tuple[tuple[int, ...], ...]  # of each state: the events that lead nearer to completion; none: it cannot

    @classmethod
    def of(cls, decomposition: Decomposition) -> NumberedTeam:
        """Number the states of a team machine; events are as in the plan."""
        machine = decomposition.machine
        if isinstance(machine, Composition):
            if machine.most_states > MOST_SPARSE or (listed := machine.reachable(LARGEST_TEAM)) is None:
                raise AssignmentError(f"a team machine of more than {LARGEST_TEAM:,} states cannot be simulated")
            states, graph = listed
            columns = zip(machine.parts.values(), states.T, strict=True)
            is_final = np.logical_and.reduce([part.is_final[column] for part, column in columns])
            start = 0
        else:
            graph, is_final, start = machine.graph, machine.is_final, machine.start
        rows: list[dict[int, int]] = [{} for _ in range(graph.nodes)]
        for source, label, target in zip(*(part.tolist() for part in graph[1:]), strict=True):
            rows[source][label] = target
        done = is_final.tolist()
        return cls(start, tuple(rows), tuple(done), _ways(rows, done))


def _ways(rows: list[dict[int, int]], done: list[bool]) -> tuple[tuple[int, ...], ...]:
    before: list[list[int]] = [[] for _ in rows]
    for source, row in enumerate(rows):
        for target in row.values():
            before[target].append(source)
    distance = [0 if final else -1 for final in done]
    queue = deque(state for state, final in enumerate(done) if final)
    while queue:
        state = queue.popleft()
        for source in before[state]:
            if distance[source] < 0:
                distance[source] = distance[state] + 1
                queue.append(source)
    return tuple(
        tuple(event for event, target in row.items() if 0 <= distance[target] < distance[state])
        for state, row in enumerate(rows)
    )
