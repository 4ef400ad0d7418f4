"""A task whose machine is hidden: agents walk on a known map, and see which events happen and which do not.

An event is attempted in a round of a step when all agents that control it are where it can happen and no agent that
knows it takes part in another event of the round: then it happens, or the machine refuses it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping

from hocket.inference.logs import Attempt
from hocket.task.episode import TeamEpisode
from hocket.task.grid import ACTIONS, STAY
from hocket.task.task import Task

Cells = Mapping[str, int]
StepTest = Callable[[int, int], bool]  # of the cells in which a step begins and ends


class HiddenTask:
    """A world to explore: of its machine nothing is seen but which events happen."""

    def __init__(self, task: Task, seed: int) -> None:
        self._task, self._seed = task, seed
        self.knows = {agent: tuple(known) for agent, known in task.knows.items()}
        self.steps = self.episodes = 0
        self.reset()

    def reset(self) -> None:
        """Begin an episode."""
        self._episode = TeamEpisode(self._task, self._seed, self.episodes, strict=False)
        self.episodes += 1
        self.moved = False
        self._is_open = {
            agent: {region: bool(gate.starts_open) for region, gate in gates.items()}
            for agent, gates in self._task.gates.items()
        }

    @property
    def cells(self) -> Cells:
        """Where the agents are."""
        return self._episode.cells

    def closed(self, agent: str) -> frozenset[int]:
        """The cells that gates close to an agent, as the events that have happened say."""
        regions = (region for region, is_open in self._is_open[agent].items() if not is_open)
        return frozenset().union(*(self._task.grid.places[region] for region in regions))

    def controllers(self, event: str) -> Collection[str]:
        """The agents that control an event."""
        return self._task.controllers[event]

    def is_met(self, agent: str, event: str, before: int | None, cell: int) -> bool:
        """Say whether an agent meets its condition for an event after a step from one cell to another."""
        return self._task.holds(agent, event, cell, before)

    def is_edge(self, event: str) -> bool:
        """Say whether an event depends on where agents were before a step; it happens at most once in a step."""
        return event in self._task.edges

    def step(self, actions: Mapping[str, int]) -> list[Attempt]:
        """Let all agents act at once; list the attempts of the step, in their order."""
        self.steps += 1
        self.moved, before = True, dict(self.cells)
        seen = self._episode.step({agent: ACTIONS[action] for agent, action in actions.items()})
        attempts = list(self._attempts(seen.rounds, before, seen.cells))
        for attempt in attempts:
            if attempt.accepted:
                self._move_gates(attempt.event)
        return attempts

    def _attempts(self, rounds: tuple[tuple[str, ...], ...], before: Cells, cells: Cells) -> Iterator[Attempt]:
        met = [
            event
            for event, agents in self._task.controllers.items()
            if all(self.is_met(agent, event, before[agent], cells[agent]) for agent in agents)
        ]
        spent: set[str] = set()
        for number, happened in enumerate((*rounds, ())):
            busy: set[str] = set()
            met = [event for event in met if event not in spent]
            spent.update(self._task.edges.intersection(happened))
            for event in met:
                if event in happened:
                    busy.update(self._task.knowers[event])
                    is_last = self._episode.done and number == len(rounds) - 1 and event == happened[-1]
                    yield Attempt(event, True, is_last)
                    if is_last:
                        return
                elif busy.isdisjoint(self._task.knowers[event]):
                    yield Attempt(event, False)

    def _move_gates(self, event: str) -> None:
        for agent, gates in self._task.gates.items():
            for region, gate in gates.items():
                if event in gate.events:
                    self._is_open[agent][region] = event in gate.opens

    def walk(self, agent: str, is_target: StepTest, is_avoided: StepTest | None = None) -> tuple[int, int] | None:
        """Choose the first action of a shortest way whose last step is a target, with its length; None: there is none.

        No other step of it is avoided.
        """
        start, closed, grid = self.cells[agent], self.closed(agent), self._task.grid
        first: dict[int, tuple[int, int]] = {start: (STAY, 0)}
        queue = deque([start])
        while queue:
            cell = queue.popleft()
            for action in (STAY, *range(STAY)):
                end, (begun, steps) = grid.neighbor(cell, action, closed), first[cell]
                way = action if cell == start else begun, steps + 1
                if is_target(cell, end):
                    return way
                if end not in first and not (is_avoided is not None and is_avoided(cell, end)):
                    first[end] = way
                    queue.append(end)
        return None
