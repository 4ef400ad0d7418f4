"""One agent of a task as a Gymnasium environment: its own cell, its own machine, and teammates that are simulated."""

from __future__ import annotations

import shlex
from bisect import bisect_right
from functools import partial
from operator import index
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Env, spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from numpy.typing import NDArray

from hocket.adapters.observations import Counterfactuals, Memo, Observation, ObservationEncoder, tell_events
from hocket.arguments import whole
from hocket.draw.pixels import MODES, Frames
from hocket.errors import SettingsError, TaskError, require_known, shown
from hocket.lazy import renamed_arguments
from hocket.machine.reward_machine import RewardMachine
from hocket.random import INDIVIDUAL, slip_draw, start_draw, stream_key, sync_draw
from hocket.task.catalogue import as_task
from hocket.task.episode import SYNC_PROBABILITY
from hocket.task.grid import ACTIONS, slip_outcome
from hocket.task.individual import IndividualTable, individual_table
from hocket.task.tables import Bools, compile_task
from hocket.task.task import Task

EPISODE_STEPS = 1_000  # at most
ID, ENTRY = "hocket/Individual-v0", "hocket.adapters.individual:individual_env"
SEEDS = 2**63  # how many there are to draw from where none is given
SETTLED = 1e-12  # change of a value below which value iteration ends
MOST_KEPT = 100_000  # steps of which is remembered what came of them
DRAWN_AHEAD = 256  # numbers: numpy takes almost as long for one

Info = dict[str, Any]
Ints = NDArray[np.int64]
Numbers = NDArray[Any] | int


@renamed_arguments(episode_steps="max_episode_steps")
def individual_env(
    task: Task | str | Path,
    agent: str,
    *,
    observation: str = "onehot",
    sync_probability: float = SYNC_PROBABILITY,
    sync_literal: bool = False,
    shaping: float | None = None,
    max_episode_steps: int = EPISODE_STEPS,
    counterfactuals: bool = True,
    render_mode: str | None = None,
) -> IndividualEnv:
    """Make a Gymnasium environment for an individual agent: it learns its part of a task.

    A shared event that needs teammates takes effect with `sync_probability` in each step in which the agent is ready.
    `shaping` is a discount, the learner's own: it adds potential-based rewards for advancing in the machine, which
    leave the best policies the best. After `max_episode_steps` an episode is truncated. A task that is not decomposable
    is refused, for its agents have no machines that follow the team's.
    """
    given = dict(locals())
    world = individual_model(as_task(task), agent, sync_probability, sync_literal, shaping, observation)
    env = IndividualEnv(world, max_episode_steps, counterfactuals, render_mode)
    env.spec = EnvSpec(ID, entry_point=ENTRY, order_enforce=False, disable_env_checker=True, kwargs=given)
    return env


class NumberedEpisodes:
    """Episodes of a seed, of which the first one has the number 0."""

    episode_seed: int | None = None  # of the episodes since it was given
    number = -1  # of the episode among those

    def _next_episode(self, seed: int | None, rng: np.random.Generator | None = None) -> int:
        """Count an episode, the first one where a seed is given; return the seed."""
        if seed is not None or self.episode_seed is None:
            drawn = (rng or seeding.np_random()[0]).integers(SEEDS) if seed is None else check_seed(seed)
            self.episode_seed, self.number = int(drawn), -1
        self.number += 1
        return self.episode_seed


class Step(NamedTuple):
    """What has come of a step, as plain values."""

    cell: int
    state: int
    reward: float
    is_final: bool
    seen: Observation  # to be copied, as are ...
    info: Info
    counterfactuals: Counterfactuals | None


class IndividualEnv(NumberedEpisodes, Env[Observation, np.int64]):
    """An individual agent. `reset(seed=s)` begins episode number 0 of a seed, the next reset number 1, and so on.

    Each equals `hocket.IndividualEpisode(task, agent, s, number)` under the same actions. What would have happened in
    the other states of its machine comes as `info["counterfactuals"]`.
    """

    metadata = {"render_modes": list(MODES), "render_fps": 8}  # noqa: RUF012 (as Gymnasium declares it)

    def __init__(
        self, world: IndividualModel, max_episode_steps: int, counterfactuals: bool, render_mode: str | None
    ) -> None:
        self.world, self.task, self.agent, self.sight = world, world.task, world.agent, world.sight
        self.machine = self.task.machines[self.agent]
        self.observation_space, self.action_space = self.sight.space, spaces.Discrete(len(ACTIONS))
        self.max_episode_steps, self.counterfactuals = whole(max_episode_steps, "max_episode_steps", 1), counterfactuals
        self.render_mode, self._frames = render_mode, Frames(self.task, render_mode)
        self.time, self.cell, self.state = 0, int(self.world.table.starts[0]), self.world.table.initial
        self._limits: list[int] = np.unique(world.table.limit).tolist()  # draws between two of them do the same
        self._seen = Memo(self._show)  # by cell and state
        self._steps = Memo(self._find_step, MOST_KEPT)  # by cell, state, action, outcome and draw
        self._is_over = True
        self._key = 0
        self._drawn: list[tuple[int, int]] = []  # the outcome of a move and the draw for teammates, of steps from ...
        self._drawn_from = 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Observation, Info]:
        """Begin the next episode, or with a seed its first one."""
        super().reset(seed=seed)
        drawn = self._next_episode(seed, self.np_random)
        self._key = stream_key(INDIVIDUAL, drawn, self.world.table.place, self.number)
        starts = self.world.table.starts
        self.time, self.state = 0, self.world.table.initial
        self.cell = int(starts[start_draw(self._key, 0, len(starts))])
        self._drawn, self._is_over = [], False
        return self.sight.show(self.cell, self.state), self._tell((), (), self.state)

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, Info]:
        """Let the agent act."""
        if self._is_over:
            raise ResetNeeded("an episode begins with reset(), also after one has ended")
        number = check_action(action)
        outcome, sync = self._draw()
        step = self._steps[self.cell, self.state, number, outcome, bisect_right(self._limits, sync)]
        self.time += 1
        self.cell, self.state = step.cell, step.state
        truncated = self.time >= self.max_episode_steps
        self._is_over = step.is_final or truncated
        info = step.info.copy()
        if step.counterfactuals is not None:
            info["counterfactuals"] = step.counterfactuals.copy()
        return step.seen.copy(), step.reward, step.is_final, truncated, info

    def render(self) -> str | NDArray[np.uint8] | None:
        """Draw where the agent is: as text, or as an array of pixels."""
        return self._frames.draw(
            {self.agent: self.cell}, {self.agent: self.machine.states.at(self.state)}, self.time, self.agent
        )

    def _show(self, spot: tuple[int, int]) -> Observation:
        return self.sight.show(*spot)

    def _find_step(self, at: tuple[int, int, int, int, int]) -> Step:
        """Work out what comes of a step."""
        cell, state, action, outcome, drawn = at
        given = np.array(cell), np.array(state), action, outcome, self._limits[drawn - 1] if drawn else -1
        moved = advance(self.world, *given)
        spot = int(moved.cell), int(moved.state)
        info = self._tell(moved.proposed, moved.events, spot[1])
        compared = compare_states(self.world, *given) if self.counterfactuals else None
        return Step(*spot, float(moved.reward), bool(moved.done), self._seen[spot], info, compared)

    def _tell(self, proposed: tuple[str, ...], events: tuple[str, ...], state: int) -> Info:
        return {**tell_events(events), "proposed": proposed, "machine_state": self.machine.states.at(state)}

    def _draw(self) -> tuple[int, int]:
        """Say what the next step has drawn: the outcome of a move, and what decides whether teammates are ready."""
        if not 0 <= self.time - self._drawn_from < len(self._drawn):
            steps = np.arange(self.time, self.time + DRAWN_AHEAD, dtype=np.uint64)
            keys = np.full(len(steps), self._key, np.uint64)
            outcome = slip_outcome(slip_draw(keys, steps), self.world.table.slip_limit)
            self._drawn = list(zip(outcome.tolist(), sync_draw(keys, steps).tolist(), strict=True))
            self._drawn_from = self.time
        return self._drawn[self.time - self._drawn_from]


# Many copies: the world as arrays, one step of any number of copies at once, in any of the machine's states.


class IndividualModel(NamedTuple):
    """An agent's table, and what environments add to it: shaping, and the states to compare a step with."""

    task: Task
    agent: str
    sight: ObservationEncoder
    table: IndividualTable
    potential: NDArray[np.float64]  # [U] for shaping; 0 where nothing is shaped
    reward: NDArray[np.float64]  # [U, H, J] what the machine pays, and what shaping adds
    going: Ints  # the states in which the agent is not done
    rank: Ints  # [U] the place of a state among those; behind all of them where it is final
    proposed: NDArray[np.object_]  # [U, H] the events that the agent proposes, by name
    events: NDArray[np.object_]  # [U, H, J] the events that take effect, by name


class Moved(NamedTuple):
    """What a step has led to, for each copy."""

    cell: Ints
    proposed: Any  # the events that it proposed, in a tuple; in an array of them
    events: Any  # the events that took effect, in their order, likewise
    state: Ints
    reward: NDArray[np.float64]
    done: Bools


def individual_model(
    task: Task, agent: str, sync_probability: float, sync_literal: bool, shaping: float | None, observation: str
) -> IndividualModel:
    """Pick what an agent needs of a task that trains with simulated teammates."""
    require_known(agent, task.agents, "agent", partial(TaskError, key="agents"))
    if not 0 < sync_probability <= 1:
        raise SettingsError(f"sync_probability must lie above 0 and be at most 1, got {sync_probability!r}")
    if not task.is_single_agent and not task.decomposition.ok:
        command = f"hocket repair {shlex.quote(task.source or task.name)}"
        raise TaskError(f"{task.name} is not decomposable; run `{command}`, or use team_env", key="machine")
    machine, place = task.machines[agent], list(task.agents).index(agent)
    table = individual_table(compile_task(task), place, sync_probability, sync_literal=sync_literal)
    potential, discount = potentials(machine, shaping, table.is_final), 1.0 if shaping is None else shaping
    return IndividualModel(
        task=task,
        agent=agent,
        sight=ObservationEncoder(spaces.Discrete(task.grid.cells), len(machine.states), observation),
        table=table,
        potential=potential,
        reward=table.reward + (discount * potential[table.next_state] - potential[:, None, None]),
        going=np.flatnonzero(~table.is_final),
        rank=np.where(table.is_final, len(machine.states), np.cumsum(~table.is_final) - 1),
        proposed=_by_name(table.proposed, tuple(task.events)),
        events=_by_name(table.happened, tuple(task.events)),
    )


def _by_name(numbers: NDArray[np.signedinteger[Any]], names: tuple[str, ...]) -> NDArray[np.object_]:
    """Turn the last axis of events by number, or -1, into tuples of their names."""
    named = np.empty(numbers.shape[:-1], np.object_)
    for place in np.ndindex(named.shape):
        named[place] = tuple(names[event] for event in numbers[place].tolist() if event >= 0)
    return named


def advance(
    world: IndividualModel, cell: Numbers, state: NDArray[Any], action: Numbers, outcome: Numbers, sync: Numbers
) -> Moved:
    """Let copies act, given what each of them draws; the shape is that of the states, to which all others fit.

    The same dynamics as `hocket.task.episode.IndividualEpisode`: its own cell, its own machine, simulated teammates.
    """
    table = world.table
    end = table.next_cell[table.dynamics[state], cell, action, outcome].astype(np.int64)
    kind = table.kind[table.offset[cell] + end]
    case = (np.asarray(sync)[..., None] >= table.limit[state, kind]).sum(axis=-1)
    at = (state, kind, case)
    after = table.next_state[at].astype(np.int64)
    return Moved(end, world.proposed[state, kind], world.events[at], after, world.reward[at], table.is_final[after])


def compare_states(
    world: IndividualModel, cell: Ints, state: Ints, action: Numbers, outcome: Numbers, sync: Numbers
) -> Counterfactuals:
    """Say what a step would have been in the other machine states that are not final: [..., M, ...].

    There are as many of them for all states from which a step can begin: an agent that is done from the beginning takes
    its only step from a final state, and any other agent takes none there.
    """
    places = np.arange(len(world.going) - (not world.table.is_final[world.table.initial]))
    before = world.going[places + (places >= world.rank[state][..., None])]
    cells = np.broadcast_to(cell[..., None], before.shape)
    moved = advance(world, cells, before, *(np.asarray(drawn)[..., None] for drawn in (action, outcome, sync)))
    seen, seen_next = world.sight.show_each(cells, before), world.sight.show_each(moved.cell, moved.state)
    return Counterfactuals(seen, moved.reward, seen_next, moved.done, before, moved.state)


def potentials(machine: RewardMachine, shaping: float | None, ends: Bools | None = None) -> NDArray[np.float64]:
    """Compute the worth of each state to one that can choose the next event; final states are worth nothing more.

    Value iteration over the machine alone (Camacho et al. 2019, Toro Icarte et al. 2022): in a machine that rewards
    completion it is the discount to the power of the events that are still to come after the next one. Nothing is worth
    anything where nothing is shaped.

    >>> steps = RewardMachine(initial="0", transitions={("0", "a"): "1", ("1", "b"): "2"}, final={"2"})
    >>> potentials(steps, 0.9).tolist()
    [0.9, 1.0, 0.0]
    """
    if shaping is not None and not 0 < shaping < 1:
        raise SettingsError(f"shaping takes the learner's discount, between 0 and 1, got {shaping!r}")
    graph, worth = machine.graph, np.zeros(len(machine.states))
    while shaping is not None:
        better = np.zeros(len(worth))  # nobody is made to choose an event
        np.maximum.at(better, graph.source, machine.reward + shaping * worth[graph.target])
        better[machine.is_final if ends is None else ends] = 0.0
        if np.abs(better - worth).max() < SETTLED:
            return better
        worth = better
    return worth


# Checks.


def check_seed(seed: object) -> int:
    """Require a seed: a whole number, of Python's or of numpy's."""
    try:
        return index(seed)  # type: ignore[arg-type]
    except TypeError:
        raise SettingsError(f"a seed must be a whole number, got {shown(seed)}") from None


def check_action(action: object) -> int:
    """Require an action by its number."""
    if type(action) is int and 0 <= action < len(ACTIONS):  # as most do
        return action
    try:
        number = index(action)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if not 0 <= number < len(ACTIONS):
        rule = ", ".join(f"{place} {name}" for place, name in enumerate(ACTIONS))
        raise TaskError(f"must be one of {rule}, got {action!r:.60}", key="action")
    return number
