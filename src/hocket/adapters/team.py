"""A whole team as a PettingZoo environment: everyone moves at once and synchronises on shared events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space, spaces
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from hocket.adapters.individual import DRAWN_AHEAD, EPISODE_STEPS, Info, Ints, NumberedEpisodes, check_action
from hocket.adapters.observations import Memo, Observation, ObservationEncoder, tell_events
from hocket.arguments import whole
from hocket.draw.pixels import MODES, Frames
from hocket.errors import TaskError
from hocket.lazy import renamed_arguments
from hocket.random import MASK, TEAM, slip_draw, stream_key, threshold
from hocket.task.bodies import hold_apart
from hocket.task.catalogue import as_task
from hocket.task.grid import ACTIONS, OUTCOMES, slip_outcome
from hocket.task.memory import with_team_machine
from hocket.task.tables import compile_task, draw_starts, settle
from hocket.task.task import Task

Numbers = tuple[int, ...]

MOST_KEPT = 1_000_000  # numbers in the situations whose settling is remembered


@renamed_arguments(episode_steps="max_episode_steps")
def team_env(
    task: Task | str | Path,
    *,
    observation: str = "onehot",
    max_episode_steps: int = EPISODE_STEPS,
    render_mode: str | None = None,
) -> TeamEnv:
    """Make a PettingZoo environment (a ParallelEnv) of a task's whole team.

    Everyone is rewarded as the team is: by its machine's rewards, or 1 for completing the task. All end together:
    terminated when every agent's machine is final, truncated after `max_episode_steps`. In a task that is not
    decomposable everyone follows the team's machine.
    """
    return TeamEnv(with_team_machine(as_task(task)), observation, max_episode_steps, render_mode)


parallel_env = team_env  # the name that PettingZoo's modules have for it


class Situation(NamedTuple):
    """An agent after a step, with its machine in a state."""

    cell: int
    state: int
    kind: int  # of the step
    ends: tuple[int, ...]  # [A * K] the arrival to which each outcome of an action leads
    events: tuple[int, ...]  # that the agent proposes
    proposed: tuple[str, ...]  # the same by name
    name: str  # of the state
    seen: Observation  # to be copied


class TeamEnv(NumberedEpisodes, ParallelEnv):  # type: ignore[misc]  # PettingZoo says nothing of its types
    """A team at work. `reset(seed=s)` begins episode number 0 of a seed, the next reset number 1, and so on.

    Each equals `hocket.TeamEpisode(task, s, number)` under the same actions. `state()` is where everyone is and then in
    which state everyone's machine is.
    """

    metadata = {  # noqa: RUF012 (as PettingZoo declares it)
        "name": "hocket_team_v0", "render_modes": list(MODES), "render_fps": 8, "is_parallelizable": True,
    }  # fmt: skip

    def __init__(self, task: Task, observation: str, max_episode_steps: int, render_mode: str | None) -> None:
        self.task, self.machines, self.tables = task, dict(task.machines), compile_task(task)
        self.possible_agents = list(task.agents)
        self.agents: list[str] = []
        self.max_episode_steps = whole(max_episode_steps, "max_episode_steps", 1)
        self.render_mode, self._frames = render_mode, Frames(task, render_mode)
        cells, sizes = task.grid.cells, self.tables.states.tolist()
        self.sights = {
            name: ObservationEncoder(spaces.Discrete(cells), size, observation)
            for name, size in zip(self.possible_agents, sizes, strict=True)
        }
        self.observation_spaces = {name: sight.space for name, sight in self.sights.items()}
        self.action_spaces = {name: spaces.Discrete(len(ACTIONS)) for name in self.possible_agents}
        self.state_space = spaces.MultiDiscrete([cells] * len(sizes) + sizes)
        self.time = 0
        self.is_done = False  # whether every agent's machine is final
        self._keys = np.zeros(len(sizes), np.uint64)
        self._outcomes: list[list[int]] = []  # of everyone's moves, of the next step last
        self._width, self._sees_numbers = self.tables.arrivals, observation == "index"
        self._events, self._knowers = tuple(task.events), [tuple(knowers) for knowers in task.knowers.values()]
        self._spots = [Memo(partial(self._find_spot, agent)) for agent in range(len(sizes))]  # by state and arrival
        self._settled = Memo(self._find_settled, MOST_KEPT / len(sizes))  # by kinds of steps and states
        self._here = self._start()

    def observation_space(self, agent: str) -> Space[Any]:
        """The space of what an agent sees."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Space[Any]:
        """The space of an agent's actions."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: Info | None = None
    ) -> tuple[dict[str, Observation], dict[str, Info]]:
        """Begin the next episode, or with a seed its first one."""
        drawn = self._next_episode(seed)
        seeds, numbers = (np.full(len(self._keys), part & MASK, np.uint64) for part in (drawn, self.number))
        self._keys = stream_key(TEAM, seeds, np.arange(len(self._keys), dtype=np.uint64), numbers)
        self.agents, self.time, self._outcomes = self.possible_agents[:], 0, []
        self.is_done = bool(self.tables.is_final[np.arange(len(self._keys)), self.tables.initial].all())
        self._here = self._start()
        nothing = [spot._replace(proposed=()) for spot in self._here]
        return self._observe(), self._tell(nothing, ())

    def step(
        self, actions: Mapping[str, int]
    ) -> tuple[dict[str, Observation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Info]]:
        """Let all agents act at once."""
        if not self.agents:
            raise ResetNeeded("an episode begins with reset(), also after one has ended")
        for name in self.agents:
            if name not in actions:
                raise TaskError(f"every agent needs an action, got none for {name}", key="actions")
        met = self._move([check_action(actions[name]) for name in self.agents])
        events, reward = self._settle(met)
        self.time += 1
        terminated, truncated = self.is_done, self.time >= self.max_episode_steps
        if terminated or truncated:
            self.agents = []
        return (
            self._observe(),
            dict.fromkeys(self.possible_agents, reward),
            dict.fromkeys(self.possible_agents, terminated),
            dict.fromkeys(self.possible_agents, truncated),
            self._tell(met, events),
        )

    @property
    def cells(self) -> dict[str, int]:
        """Where everyone is."""
        return dict(zip(self.possible_agents, (spot.cell for spot in self._here), strict=True))

    @property
    def where(self) -> dict[str, tuple[float, float]]:
        """Where on the map everyone is: across and down from its corner, in cells."""
        rows, columns = np.divmod([spot.cell for spot in self._here], self.task.grid.columns)
        points = zip((columns + 0.5).tolist(), (rows + 0.5).tolist(), strict=True)
        return dict(zip(self.possible_agents, points, strict=True))

    @property
    def states(self) -> dict[str, str]:
        """In which state everyone's machine is."""
        return dict(zip(self.possible_agents, (spot.name for spot in self._here), strict=True))

    def state(self) -> Ints:
        """Where everyone is, and then everyone's machine state: [2 N]."""
        return np.array([*(spot.cell for spot in self._here), *(spot.state for spot in self._here)])

    def render(self) -> str | NDArray[np.uint8] | None:
        """Draw where everyone is: as text, or as an array of pixels."""
        return self._frames.draw(self.cells, self.states, self.time)

    def _start(self) -> list[Situation]:
        """Put everyone back to the start."""
        return self._put(draw_starts(self.tables, self._keys).tolist(), self.tables.initial.tolist())

    def _put(self, arrivals: Iterable[int], states: Iterable[int]) -> list[Situation]:
        """Find out about everyone's spot."""
        width = self._width
        situations = zip(self._spots, states, arrivals, strict=True)
        return [spots[state * width + arrival] for spots, state, arrival in situations]

    def _move(self, actions: list[int]) -> list[Situation]:
        """Move everyone."""
        moves = zip(self._here, actions, self._draw(), strict=True)
        arrivals = [spot.ends[action * OUTCOMES + outcome] for spot, action, outcome in moves]
        if self.task.bodies:
            before = {agent: spot.cell for agent, spot in enumerate(self._here)}
            after = {agent: arrival % self.tables.cells for agent, arrival in enumerate(arrivals)}
            ends = hold_apart(self.task.bodies, self.task.units, before, after)
            arrivals = [arrival - after[agent] + ends[agent] for agent, arrival in enumerate(arrivals)]
        return self._put(arrivals, [spot.state for spot in self._here])

    def _draw(self) -> list[int]:
        """Say what everyone has drawn in the next step: the outcome of its move."""
        if not self._outcomes:
            ahead = max(16, DRAWN_AHEAD // len(self._keys))
            steps = np.arange(self.time, self.time + ahead, dtype=np.uint64)[::-1, None]
            self._outcomes = slip_outcome(slip_draw(self._keys, steps), threshold(self.tables.slip)).tolist()
        return self._outcomes.pop()

    def _settle(self, met: list[Situation]) -> tuple[tuple[int, ...], float]:
        """Let events happen where everyone has come; return them, and what the team's machine pays."""
        self._here = met
        tally: dict[int, int] = {}
        is_ready = False
        for spot in met:
            for event in spot.events:
                tally[event] = tally.get(event, 0) + 1
                is_ready = is_ready or tally[event] == len(self._knowers[event])
        if not is_ready:  # nothing is proposed by all who know it
            return (), 0.0
        was_done, at = self.is_done, (tuple(spot.kind for spot in met), tuple(spot.state for spot in met))
        states, events, paid, self.is_done = self._settled[at]
        self._here = self._put([spot.cell for spot in met], states)
        return events, paid if self.tables.has_rewards else float(self.is_done and not was_done)

    def _find_spot(self, agent: int, place: int) -> Situation:
        """Find out about an agent with its machine in a state, after it has arrived somewhere."""
        tables, (state, arrival) = self.tables, divmod(place, self._width)
        kind, cell = int(tables.kind[agent, arrival]), arrival % tables.cells
        numbers = tuple(event for event in tables.event[agent, state, kind].tolist() if event >= 0)
        proposed, name = tuple(self._events[number] for number in numbers), self.possible_agents[agent]
        moves = tables.next_cell[tables.world[agent], tables.dynamics[agent, state], cell]
        ends = tuple((moves + tables.offset[agent, cell]).ravel().tolist())
        state_name, seen = self.machines[name].states.at(state), self.sights[name].show(cell, state)
        return Situation(cell, state, kind, ends, numbers, proposed, state_name, seen)

    def _find_settled(self, at: tuple[Numbers, Numbers]) -> tuple[Numbers, Numbers, float, bool]:
        """Find out how a step settles: everyone's state, what happened, what that pays, and whether all are final."""
        kinds, states = at
        settled = settle(self.tables, np.array([kinds]), np.array([states]))
        is_done = self.tables.is_final[np.arange(len(states)), settled.state[0]].all()
        after, events = tuple(settled.state[0].tolist()), tuple(settled.events()[0])
        return after, events, float(settled.reward.sum()), bool(is_done)

    def _observe(self) -> dict[str, Observation]:
        seen = (spot.seen if self._sees_numbers else spot.seen.copy() for spot in self._here)  # a number stays as it is
        return dict(zip(self.possible_agents, seen, strict=True))

    def _tell(self, before: Sequence[Situation], events: Sequence[int]) -> dict[str, Info]:
        """Say what everyone proposed, and what happened to it."""
        happened: dict[str, tuple[str, ...]] = {}
        for event in events:
            for name in self._knowers[event]:
                happened[name] = (*happened.get(name, ()), self._events[event])
        told = {name: tell_events(names) for name, names in happened.items()}
        nothing = tell_events(())
        rows = zip(self.possible_agents, before, self._here, strict=True)
        return {
            name: {**told.get(name, nothing), "proposed": met.proposed, "machine_state": here.name, "cell": here.cell}
            for name, met, here in rows
        }
