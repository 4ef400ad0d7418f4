"""A whole team as a PettingZoo environment: all agents move at once and synchronise on shared events."""

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
from hocket.adapters.observations import Memo, Observation, ObservationEncoder, event_info
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

MOST_KEPT = 1_000_000  # numbers in the steps whose events are kept


@renamed_arguments(episode_steps="max_episode_steps")
def team_env(
    task: Task | str | Path,
    *,
    observation: str = "onehot",
    max_episode_steps: int = EPISODE_STEPS,
    render_mode: str | None = None,
) -> TeamEnv:
    """Make a PettingZoo environment (a ParallelEnv) of a task's whole team.

    All agents get the team's reward: that of its machine, or 1 for completing the task. All end together: terminated
    when every agent's machine is final, truncated after `max_episode_steps`. In a task that is not decomposable all
    agents follow the team's machine.
    """
    return TeamEnv(with_team_machine(as_task(task)), observation, max_episode_steps, render_mode)


parallel_env = team_env  # the name that PettingZoo's modules have for it


class Situation(NamedTuple):
    """An agent after a step, with its machine in a state."""

    cell: int
    state: int
    kind: int  # of the step
    arrivals: tuple[int, ...]  # [A * K] to which the outcomes of actions lead
    events: tuple[int, ...]  # that the agent proposes
    proposed: tuple[str, ...]  # the same by name
    state_name: str
    observation: Observation  # to be copied


class TeamEnv(NumberedEpisodes, ParallelEnv):  # type: ignore[misc]  # PettingZoo has no types
    """A team of agents. `reset(seed=s)` begins episode number 0 of a seed, the next reset number 1, and so on.

    Each equals `hocket.TeamEpisode(task, s, number)` under the same actions. `state()` has the cells of all agents and
    then the states of their machines.
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
        encoders = [ObservationEncoder(spaces.Discrete(cells), size, observation) for size in sizes]
        self.encoders = dict(zip(self.possible_agents, encoders, strict=True))
        self.observation_spaces = {name: encoder.space for name, encoder in self.encoders.items()}
        self.action_spaces = {name: spaces.Discrete(len(ACTIONS)) for name in self.possible_agents}
        self.state_space = spaces.MultiDiscrete([cells] * len(sizes) + sizes)
        self.time = 0
        self.is_done = False  # whether every agent's machine is final
        self._keys = np.zeros(len(sizes), np.uint64)
        self._outcomes: list[list[int]] = []  # of all agents' moves, of the next step last
        self._width, self._has_numbers = self.tables.arrivals, observation == "index"
        self._events, self._knowers = tuple(task.events), [tuple(knowers) for knowers in task.knowers.values()]
        self._situations = [Memo(partial(self._find_situation, agent)) for agent in range(len(sizes))]
        self._settled = Memo(self._find_settled, MOST_KEPT / len(sizes))  # by kinds of steps and states
        self._now = self._start()

    def observation_space(self, agent: str) -> Space[Any]:
        """The space of an agent's observations."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Space[Any]:
        """The space of an agent's actions."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: Info | None = None
    ) -> tuple[dict[str, Observation], dict[str, Info]]:
        """Begin the next episode, or with a seed its first one."""
        episode_seed, agents = self._next_episode(seed), np.arange(len(self._keys), dtype=np.uint64)
        seeds, numbers = (np.full(len(agents), part & MASK, np.uint64) for part in (episode_seed, self.number))
        self._keys = stream_key(TEAM, seeds, agents, numbers)
        self.agents, self.time, self._outcomes = self.possible_agents[:], 0, []
        self.is_done = bool(self.tables.is_final[np.arange(len(agents)), self.tables.initial].all())
        self._now = self._start()
        return self._observe(), self._infos([situation._replace(proposed=()) for situation in self._now], ())

    def step(
        self, actions: Mapping[str, int]
    ) -> tuple[dict[str, Observation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Info]]:
        """Let all agents act at once."""
        if not self.agents:
            raise ResetNeeded("an episode begins with reset(), also after one has ended")
        for name in self.agents:
            if name not in actions:
                raise TaskError(f"every agent needs an action, got none for {name}", key="actions")
        moved = self._move([check_action(actions[name]) for name in self.agents])
        events, reward = self._settle(moved)
        self.time += 1
        terminated, truncated = self.is_done, self.time >= self.max_episode_steps
        if terminated or truncated:
            self.agents = []
        rewards, names = dict.fromkeys(self.possible_agents, reward), self.possible_agents
        ends = dict.fromkeys(names, terminated), dict.fromkeys(names, truncated)
        return self._observe(), rewards, *ends, self._infos(moved, events)

    @property
    def cells(self) -> dict[str, int]:
        """The cells of all agents."""
        return {name: situation.cell for name, situation in zip(self.possible_agents, self._now, strict=True)}

    @property
    def where(self) -> dict[str, tuple[float, float]]:
        """The positions of all agents on the map: across and down from its corner, in cells."""
        rows, columns = np.divmod([situation.cell for situation in self._now], self.task.grid.columns)
        points = zip((columns + 0.5).tolist(), (rows + 0.5).tolist(), strict=True)
        return dict(zip(self.possible_agents, points, strict=True))

    @property
    def states(self) -> dict[str, str]:
        """The states of all agents' machines."""
        return {name: situation.state_name for name, situation in zip(self.possible_agents, self._now, strict=True)}

    def state(self) -> Ints:
        """Return the cells of all agents, and then the states of their machines: [2 N]."""
        return np.array([*(agent.cell for agent in self._now), *(agent.state for agent in self._now)])

    def render(self) -> str | NDArray[np.uint8] | None:
        """Draw where all agents are: as text, or as an array of pixels."""
        return self._frames.draw(self.cells, self.states, self.time)

    def _start(self) -> list[Situation]:
        """Look up the situations at the start of an episode."""
        return self._look_up(draw_starts(self.tables, self._keys).tolist(), self.tables.initial.tolist())

    def _look_up(self, arrivals: Iterable[int], states: Iterable[int]) -> list[Situation]:
        """Look up the situations of all agents."""
        width, rows = self._width, zip(self._situations, states, arrivals, strict=True)
        return [situations[state * width + arrival] for situations, state, arrival in rows]

    def _move(self, actions: list[int]) -> list[Situation]:
        """Move all agents; their machines stay in their states."""
        moves = zip(self._now, actions, self._draw(), strict=True)
        arrivals = [agent.arrivals[action * OUTCOMES + outcome] for agent, action, outcome in moves]
        if self.task.bodies:
            before = {agent: situation.cell for agent, situation in enumerate(self._now)}
            after = {agent: arrival % self.tables.cells for agent, arrival in enumerate(arrivals)}
            ends = hold_apart(self.task.bodies, self.task.units, before, after)
            arrivals = [arrival - after[agent] + ends[agent] for agent, arrival in enumerate(arrivals)]
        return self._look_up(arrivals, [situation.state for situation in self._now])

    def _draw(self) -> list[int]:
        """Draw the outcomes of all agents' moves in the next step."""
        if not self._outcomes:
            ahead = max(16, DRAWN_AHEAD // len(self._keys))
            steps = np.arange(self.time, self.time + ahead, dtype=np.uint64)[::-1, None]
            self._outcomes = slip_outcome(slip_draw(self._keys, steps), threshold(self.tables.slip)).tolist()
        return self._outcomes.pop()

    def _settle(self, moved: list[Situation]) -> tuple[tuple[int, ...], float]:
        """Let events happen after the moves; return them, and the team's reward."""
        self._now = moved
        tally: dict[int, int] = {}
        is_ready = False
        for situation in moved:
            for event in situation.events:
                tally[event] = tally.get(event, 0) + 1
                is_ready = is_ready or tally[event] == len(self._knowers[event])
        if not is_ready:  # no event is proposed by all agents that know it
            return (), 0.0
        was_done, step = self.is_done, (tuple(agent.kind for agent in moved), tuple(agent.state for agent in moved))
        states, events, reward, self.is_done = self._settled[step]
        self._now = self._look_up([situation.cell for situation in moved], states)
        return events, reward if self.tables.has_rewards else float(self.is_done and not was_done)

    def _find_situation(self, agent: int, key: int) -> Situation:
        """Compute the situation of an agent from the number of its machine's state and its arrival."""
        tables, (state, arrival) = self.tables, divmod(key, self._width)
        kind, cell = int(tables.kind[agent, arrival]), arrival % tables.cells
        numbers = tuple(event for event in tables.event[agent, state, kind].tolist() if event >= 0)
        proposed, name = tuple(self._events[number] for number in numbers), self.possible_agents[agent]
        moves = tables.next_cell[tables.world[agent], tables.dynamics[agent, state], cell]
        arrivals = tuple((moves + tables.offset[agent, cell]).ravel().tolist())
        state_name, observation = self.machines[name].states.at(state), self.encoders[name].encode(cell, state)
        return Situation(cell, state, kind, arrivals, numbers, proposed, state_name, observation)

    def _find_settled(self, step: tuple[Numbers, Numbers]) -> tuple[Numbers, Numbers, float, bool]:
        """Compute from kinds of steps and states: the next states, events, reward, and whether all states are final."""
        kinds, states = step
        settled = settle(self.tables, np.array([kinds]), np.array([states]))
        is_done = self.tables.is_final[np.arange(len(states)), settled.state[0]].all()
        after, events = tuple(settled.state[0].tolist()), tuple(settled.events()[0])
        return after, events, float(settled.reward.sum()), bool(is_done)

    def _observe(self) -> dict[str, Observation]:
        observations = [situation.observation for situation in self._now]
        if not self._has_numbers:  # which need no copies
            observations = [observation.copy() for observation in observations]
        return dict(zip(self.possible_agents, observations, strict=True))

    def _infos(self, moved: Sequence[Situation], events: Sequence[int]) -> dict[str, Info]:
        """Make all agents' infos, from their situations before the events, and the events."""
        heard: dict[str, tuple[str, ...]] = {}
        for event in events:
            for name in self._knowers[event]:
                heard[name] = (*heard.get(name, ()), self._events[event])
        nothing = event_info(())
        infos = {}
        for name, before, now in zip(self.possible_agents, moved, self._now, strict=True):
            info = event_info(heard[name]) if name in heard else nothing
            infos[name] = {**info, "proposed": before.proposed, "machine_state": now.state_name, "cell": now.cell}
        return infos
