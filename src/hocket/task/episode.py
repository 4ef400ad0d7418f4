"""Episodes step by step in plain Python, the reference for compiled kernels; trajectories as the paper labels them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import compress
from pathlib import Path
from typing import NamedTuple

from hocket.errors import SettingsError, TaskError, known_names, require_known, shown
from hocket.lazy import explain_kinds
from hocket.machine.composition import SEPARATOR, Composition
from hocket.machine.reward_machine import RewardMachine
from hocket.random import INDIVIDUAL, TEAM, action_draw, slip_draw, start_draw, stream_key, sync_draw, threshold
from hocket.task.bodies import hold_apart
from hocket.task.catalogue import as_task
from hocket.task.grid import ACTIONS, slip_outcome, slipped_actions
from hocket.task.memory import memory_of
from hocket.task.settling import propose, settle, synchronize, team_label
from hocket.task.task import Task

SYNC_PROBABILITY = 0.3  # of simulated synchronisation, per step in which the agent proposes a shared event


class InvariantError(RuntimeError):
    """Local and team machines disagree, which Theorem 2 rules out for decomposable tasks."""


class TeamStep(NamedTuple):
    """The result of a step of the team."""

    cells: Mapping[str, int]
    proposed: Mapping[str, tuple[str, ...]]  # by each agent, in the first round
    rounds: tuple[tuple[str, ...], ...]  # the events that happened, round by round
    states: Mapping[str, str]  # of the agents' machines
    team_state: object  # of the team machine: a name, or a tuple of names for a composition
    done: bool

    @property
    def events(self) -> tuple[str, ...]:
        """All events, in the order in which they happened."""
        return tuple(event for events in self.rounds for event in events)


@explain_kinds
@dataclass
class TeamEpisode:
    """An episode of a team: every agent follows its own machine, and all synchronise on shared events.

    The same task, seed and actions give the same episode. `strict` checks in every round of every step that the
    possible events are those of the team's labelling function, and that machine states of agents contain the team's.
    """

    task: Task  # or its name or path
    seed: int = 0
    number: int = 0  # of the episode, among those with this seed
    strict: bool = True

    def __post_init__(self) -> None:
        self.task = as_task(self.task)
        self.time = 0
        self.before: dict[str, int] = {}  # the cells before the last step, if there was one
        self.spent: set[str] = set()  # the edge events of the last step
        self.states = {name: machine.initial for name, machine in self.task.machines.items()}
        self.team_state: object = self.task.machine.initial
        self._remembered = memory_of(self.task)
        self.memory: dict[str, frozenset[str]] = {name: frozenset() for name in self.task.agents}
        self.earned = dict.fromkeys(self.task.agents, 0.0)  # the return of each agent's machine
        self.keys = [stream_key(TEAM, self.seed, index, self.number) for index in range(len(self.task.agents))]
        self.put_at_starts()
        self._closed = {name: self.task.closed_cells(name) for name in self.task.agents}

    def put_at_starts(self) -> None:
        """Put all agents into start cells, by the random numbers of the next step."""
        starts = zip(self.task.agents, (agent.starts for agent in self.task.agents.values()), self.keys, strict=True)
        self.cells = {name: cells[start_draw(key, self.time, len(cells))] for name, cells, key in starts}

    def closed(self, agent: str) -> frozenset[int]:
        """Return the cells that gates close to an agent in the state of its machine."""
        return self._closed[agent][self.task.machines[agent].states.index(self.states[agent])]

    @property
    def finished(self) -> dict[str, bool]:
        """Whether each local reward machine is in a final state."""
        return {name: state in self.task.machines[name].final for name, state in self.states.items()}

    @property
    def done(self) -> bool:
        """Whether the team has completed its task: all agents' machines are final."""
        return all(self.finished.values())

    @property
    def completed(self) -> bool:
        """Whether the team machine is in a final state; if the task is decomposable, this is the same as `done`."""
        team, state = self.task.machine, self.team_state
        if isinstance(team, Composition):
            return isinstance(state, tuple) and team.is_final(state)
        return state in team.final

    @property
    def team_state_name(self) -> str:
        """The team machine's state as one name."""
        return SEPARATOR.join(self.team_state) if isinstance(self.team_state, tuple) else str(self.team_state)

    @property
    def waiting(self) -> dict[str, tuple[str, list[str]]]:
        """Which agents wait after a step: agent -> the first event that it proposes, and agents that do not."""
        proposals, finished = self.proposals if self.time else {}, self.finished
        first = {name: events[0] for name, events in proposals.items() if events and not finished[name]}
        return {
            name: (event, [other for other in self.task.knowers[event] if event not in proposals[other]])
            for name, event in first.items()
        }

    @property
    def proposals(self) -> dict[str, tuple[str, ...]]:
        """The events that each agent proposes now; after a step, these wait for other agents."""
        return {
            name: propose(self.task, name, cell, self.states[name], self.before.get(name), self.spent)
            for name, cell in self.cells.items()
        }

    def random_actions(self) -> dict[str, str]:
        """Choose actions uniformly at random."""
        draws = {name: action_draw(key, self.time) for name, key in zip(self.cells, self.keys, strict=True)}
        return {name: ACTIONS[int(draw * len(ACTIONS))] for name, draw in draws.items()}

    def step(self, actions: Mapping[str, str]) -> TeamStep:
        """Let all agents act at once."""
        for name in self.cells:
            if name not in actions:
                raise TaskError(f"every agent needs an action, got none for {name}", key="actions")
            check_action(actions[name])
        cells = {}
        for (name, cell), key in zip(self.cells.items(), self.keys, strict=True):
            cells[name] = move(self.task, cell, actions[name], self.closed(name), slip_draw(key, self.time))
        if self.task.bodies:
            cells = hold_apart(self.task.bodies, self.task.units, self.cells, cells)
        return self.arrive(cells)

    def arrive(self, cells: Mapping[str, int]) -> TeamStep:
        """Let events happen after a step to these cells, however the agents got there."""
        self.before, self.spent, self.cells = dict(self.cells), set(), dict(cells)
        proposed = self.proposals
        settled = settle(self.task, self.cells, self.states, self.before)
        self.time += 1
        for events in settled.rounds:
            self._check_label(events)
            for event in events:
                self._apply(event)
            self.spent |= self.task.edges.intersection(events)
            self._check_members()
        self._check_label(())
        return TeamStep(dict(self.cells), proposed, settled.rounds, dict(self.states), self.team_state, self.done)

    def _check_label(self, chosen: tuple[str, ...]) -> None:
        """Require that the events that all their knowers propose are those of the team's labelling function."""
        if not self.strict:
            return
        agreed = synchronize(self.task.knowers, self.proposals)
        label = {*team_label(self.task, self.cells, self.team_state, self.before)} - self.spent
        if set(agreed) != label or not {*chosen} <= {*agreed}:
            raise InvariantError(f"step {self.time}: the agents agreed on {agreed}, which is not the team's label")

    def _apply(self, event: str) -> None:
        for name, machine in self.task.machines.items():
            if event in machine.events:
                self.earned[name] += machine.rewards[self.states[name], event]
                self.states[name] = machine.transitions[self.states[name], event]
        self.memory = {
            name: latched | {event} if event in self._remembered[name] else latched
            for name, latched in self.memory.items()
        }
        target = self.task.machine.step(self.team_state, event)  # type: ignore[arg-type]
        self.team_state = self.team_state if target is None else target

    def _check_members(self) -> None:
        if not self.strict:
            return
        if self.done != self.completed:
            raise InvariantError(f"step {self.time}: the agents and the team disagree on whether the task is done")
        team, team_state = self.task.machine, self.team_state
        for index, (name, state) in enumerate(self.states.items()):
            machine = self.task.machines[name]
            if machine is team:
                agrees = team_state == state
            elif isinstance(team, Composition) and team.is_split_by(self.task.knows):
                agrees = isinstance(team_state, tuple) and team_state[index] == state
            elif isinstance(team, Composition) and team.is_independent:
                continue  # its machine is composed of projections of several parts, so that it has no members
            else:
                state_name = team.names[team_state] if isinstance(team, Composition) else team_state  # type: ignore[index]
                agrees = state_name in machine.members[state]
            if not agrees:
                raise InvariantError(f"step {self.time}: the team is in {team_state}, which {name} rules out")


Teammates = Callable[[TeamEpisode], dict[str, str]]  # from an episode to an action for every agent


class IndividualEpisodeStep(NamedTuple):
    """The result of a step of an agent with simulated teammates."""

    cell: int
    proposed: tuple[str, ...]  # in the first round
    events: tuple[str, ...]  # in the order in which they happened
    state: str
    reward: float
    done: bool


@explain_kinds
@dataclass
class IndividualEpisode:
    """An episode of one agent with simulated teammates, which synchronise on shared events with some probability."""

    task: Task  # or its name or path
    agent: str
    seed: int = 0
    number: int = 0  # of the episode, among those with this seed
    sync_probability: float = SYNC_PROBABILITY

    def __post_init__(self) -> None:
        self.task = as_task(self.task)
        require_known(self.agent, self.task.agents, "agent", partial(TaskError, key="agents"))
        if not 0 < self.sync_probability <= 1:
            rule = f"must lie above 0 and be at most 1, got {shown(self.sync_probability)}"
            raise SettingsError(f"sync_probability {rule}")
        self.time = 0
        self.machine: RewardMachine = self.task.machines[self.agent]
        self.before: int | None = None  # the cell before the last step, if there was one
        self.state = self.machine.initial
        self._key = stream_key(INDIVIDUAL, self.seed, list(self.task.agents).index(self.agent), self.number)
        starts = self.task.agents[self.agent].starts
        self.cell = starts[start_draw(self._key, 0, len(starts))]
        self._closed = self.task.closed_cells(self.agent)
        self._final = frozenset(compress(self.machine.states, self.task.end_states(self.agent)))

    def random_action(self) -> str:
        """Choose an action uniformly at random."""
        return ACTIONS[int(action_draw(self._key, self.time) * len(ACTIONS))]

    def step(self, action: str) -> IndividualEpisodeStep:
        """Let the agent act."""
        check_action(action)
        closed = self._closed[self.machine.states.index(self.state)]
        self.before, self.cell = self.cell, move(self.task, self.cell, action, closed, slip_draw(self._key, self.time))
        proposed = propose(self.task, self.agent, self.cell, self.state, self.before)
        drawn = sync_draw(self._key, self.time)
        is_over = self.state in self._final  # in which an agent alone takes part in no events
        ready = [] if is_over else [event for event in proposed if drawn < threshold(self._probability(event) or 1.0)]
        events, reward = self._settle(ready[0]) if ready else ((), 0.0)
        self.time += 1
        return IndividualEpisodeStep(self.cell, proposed, events, self.state, reward, self.state in self._final)

    def _settle(self, event: str) -> tuple[tuple[str, ...], float]:
        """Let an event happen, and then in rounds those that do not wait for teammates, which need a step to notice
        that the agent is ready, until a machine state recurs. An edge happens once; states seen before it may then lead
        elsewhere."""
        events, reward, seen = list[str](), 0.0, set[str]()
        while True:
            seen.add(self.state)
            if event in self.task.edges:
                seen.clear()
            events.append(event)
            reward += self.machine.rewards[self.state, event]
            self.state = self.machine.transitions[self.state, event]
            spent = self.task.edges.intersection(events)
            proposed = propose(self.task, self.agent, self.cell, self.state, self.before, spent)
            alone = [other for other in proposed if self._probability(other) is None]
            if not alone or self.state in seen or self.state in self._final:
                return tuple(events), reward
            event = alone[0]

    def _probability(self, event: str) -> float | None:
        """Return the probability per step that teammates are ready for an event; None if it does not wait for them."""
        agent = self.task.agents[self.agent]
        if event in agent.sync:
            return agent.sync[event]
        is_shared = len(self.task.knowers[event]) > 1 and any(name != self.agent for name in self.task.events[event])
        return self.sync_probability if is_shared else None


def check_action(action: str) -> None:
    """Require an action that exists; checked before any agent moves, so that a step is taken as a whole or not."""
    if action not in ACTIONS:
        raise TaskError(f"action {action!r:.60} does not exist ({known_names(str(action), ACTIONS)})", key="action")


def move(task: Task, cell: int, action: str, closed: frozenset[int], slip: int) -> int:
    """Find where an action leads, given the random number for slipping."""
    taken = slipped_actions(slip_outcome(slip, threshold(task.slip)))[ACTIONS.index(action)]
    return task.grid.neighbor(cell, taken, closed)


class Triplet(NamedTuple):
    """A joint state of a trajectory, the machines' states in which it is reached, and the events that then happen."""

    cells: Mapping[str, int]  # s_t: the cell of each agent
    team_state: object  # u_t: of the team machine, before the events
    states: Mapping[str, str]  # u_t^i: of each agent's machine, before the events
    events: tuple[str, ...]  # l_t, in the order in which they happen
    local_events: Mapping[str, tuple[str, ...]]  # those that each agent knows


def label_trajectory(task: Task | str | Path, trajectory: Iterable[Mapping[str, int]]) -> list[Triplet]:
    """Turn a trajectory of joint cells into the triplets of the paper's Algorithms 2 and 3.

    No event happens in the first joint state. In every other one those events happen that all agents that know them
    propose, in their machine states; and `TeamEpisode` requires that these are the events of the team's labelling
    function (Theorem 2). Whether such moves are possible is not checked.

    >>> start, met, done = {"A1": 0, "A2": 3}, {"A1": 34, "A2": 34}, {"A1": 97, "A2": 79}
    >>> [(step.team_state, step.events) for step in label_trajectory("rendezvous-2", [start, met, done])]
    [(('0', '0'), ()), (('0', '0'), ('r1', 'r2', 'r')), (('2', '2'), ('g1', 'g2'))]
    """
    task, triplets = as_task(task), list[Triplet]()
    if not task.is_single_agent and not task.decomposition.ok:
        raise TaskError(f"{task.name} is not decomposable: labels of the team and of its agents differ", key="machine")
    episode = TeamEpisode(task)
    for number, cells in enumerate(trajectory):
        where = f"trajectory[{number}]"
        if {*cells} != {*task.agents}:
            raise TaskError(f"must have a cell for each agent, got {', '.join(map(str, cells)) or 'none'}", key=where)
        if outside := [cell for cell in cells.values() if not 0 <= cell < task.grid.cells]:
            raise TaskError(f"must have cells of the map, got {outside[0]}", key=where)
        team_state, states = episode.team_state, dict(episode.states)
        ordered = {name: cells[name] for name in task.agents}
        if number:
            events = episode.arrive(ordered).events
        else:
            events, episode.cells = (), ordered
        local = {name: tuple(event for event in events if event in task.knows[name]) for name in task.agents}
        triplets.append(Triplet(ordered, team_state, states, events, local))
    return triplets
