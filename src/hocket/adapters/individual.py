"""One agent of a task, with simulated teammates, as a Gymnasium environment and as a vector environment."""

from __future__ import annotations

import shlex
from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from operator import index
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Env, Space, spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from hocket.adapters.observations import Counterfactuals, Memo, Observation, ObservationEncoder, event_info
from hocket.arguments import whole
from hocket.draw.pixels import MODES, Frames
from hocket.errors import SettingsError, TaskError, require_known, shown
from hocket.lazy import renamed_arguments
from hocket.machine.reward_machine import RewardMachine
from hocket.random import INDIVIDUAL, MASK, slip_draw, start_draw, stream_key, sync_draw
from hocket.task.catalogue import as_task
from hocket.task.episode import SYNC_PROBABILITY
from hocket.task.grid import ACTIONS, slip_outcome
from hocket.task.individual import individual_table
from hocket.task.tables import Bools, compile_task
from hocket.task.task import Task

EPISODE_STEPS = 1_000  # at most
ID, ENTRY = "hocket/Individual-v0", "hocket.adapters.individual:individual_env"
SEEDS = 2**63  # one is drawn below this where none is given
SETTLED = 1e-12  # change of a value below which value iteration ends
MOST_KEPT = 100_000  # steps whose results are kept
DRAWN_AHEAD = 256  # numbers: numpy takes almost as long for one

NOTHING = np.empty((), np.object_)  # no events
NOTHING[()] = ()

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
    `shaping` is the learner's discount: it adds potential-based rewards for advancing in the machine, which do not
    change the optimal policies. After `max_episode_steps` an episode is truncated. A task that is not decomposable is
    refused, because the machines of its agents do not follow the team's.
    """
    arguments = dict(locals())
    model = IndividualModel(as_task(task), agent, sync_probability, sync_literal, shaping, observation)
    env = IndividualEnv(model, max_episode_steps, counterfactuals, render_mode)
    env.spec = EnvSpec(ID, entry_point=ENTRY, order_enforce=False, disable_env_checker=True, kwargs=arguments)
    return env


class NumberedEpisodes:
    """Episodes of a seed, of which the first one has the number 0."""

    episode_seed: int | None = None  # of the episodes since it was given
    number = -1  # of the episode among those

    def _next_episode(self, seed: int | None, rng: np.random.Generator | None = None) -> int:
        """Count an episode, the first one if a seed is given; return the seed."""
        if seed is not None or self.episode_seed is None:
            drawn = (rng or seeding.np_random()[0]).integers(SEEDS) if seed is None else check_seed(seed)
            self.episode_seed, self.number = int(drawn), -1
        self.number += 1
        return self.episode_seed


class IndividualEnv(NumberedEpisodes, Env[Observation, np.int64]):
    """An individual agent. `reset(seed=s)` begins episode number 0 of a seed, the next reset number 1, and so on.

    Each equals `hocket.IndividualEpisode(task, agent, s, number)` under the same actions. The outcomes of the step in
    the other states of its machine are in `info["counterfactuals"]`.
    """

    metadata = {"render_modes": list(MODES), "render_fps": 8}  # noqa: RUF012 (as Gymnasium declares it)

    def __init__(
        self, model: IndividualModel, max_episode_steps: int, counterfactuals: bool, render_mode: str | None
    ) -> None:
        self.model, self.task, self.agent, self.encoder = model, model.task, model.agent, model.encoder
        self.machine, self.table = self.task.machines[self.agent], model.table
        self.observation_space, self.action_space = self.encoder.space, spaces.Discrete(len(ACTIONS))
        self.max_episode_steps, self.counterfactuals = whole(max_episode_steps, "max_episode_steps", 1), counterfactuals
        self.render_mode, self._frames = render_mode, Frames(self.task, render_mode)
        self.time, self.cell, self.state = 0, int(self.table.starts[0]), self.table.initial
        self._limits: list[int] = np.unique(self.table.limit).tolist()  # draws between two of them have the same result
        self._observations = Memo(self._encode)  # by cell and state
        self._steps = Memo(self._find_step, MOST_KEPT)  # by cell, state, action, outcome and draw
        self._is_over, self._key = True, 0
        self._drawn: list[tuple[int, int]] = []  # outcomes of moves and draws for teammates, of the next step last

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Observation, Info]:
        """Begin the next episode, or with a seed its first one."""
        super().reset(seed=seed)
        episode_seed = self._next_episode(seed, self.np_random)
        self._key = stream_key(INDIVIDUAL, episode_seed, self.table.place, self.number)
        self.time, self.state = 0, self.table.initial
        self.cell = int(self.table.starts[start_draw(self._key, 0, len(self.table.starts))])
        self._drawn, self._is_over = [], False
        return self.encoder.encode(self.cell, self.state), self._info((), (), self.state)

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, Info]:
        """Let the agent act."""
        if self._is_over:
            raise ResetNeeded("an episode begins with reset(), also after one has ended")
        number = check_action(action)
        outcome, sync = self._draw()
        case = (self.cell, self.state, number, outcome, bisect_right(self._limits, sync))
        (self.cell, self.state, reward, terminated), observation, info, counterfactuals = self._steps[case]
        self.time += 1
        truncated = self.time >= self.max_episode_steps
        self._is_over = terminated or truncated
        info = info.copy()
        if counterfactuals is not None:
            info["counterfactuals"] = counterfactuals.copy()
        return observation.copy(), reward, terminated, truncated, info

    def render(self) -> str | NDArray[np.uint8] | None:
        """Draw where the agent is: as text, or as an array of pixels."""
        states = {self.agent: self.machine.states.at(self.state)}
        return self._frames.draw({self.agent: self.cell}, states, self.time, self.agent)

    def _encode(self, situation: tuple[int, int]) -> Observation:
        return self.encoder.encode(*situation)

    def _find_step(
        self, case: tuple[int, int, int, int, int]
    ) -> tuple[tuple[int, int, float, bool], Observation, Info, Counterfactuals | None]:
        """Compute a step; all but the first part, of plain values, is to be copied."""
        cell, state, action, outcome, interval = case
        limit = self._limits[interval - 1] if interval else -1
        inputs = np.array(cell), np.array(state), action, outcome, limit
        after = self.model.advance(*inputs)
        situation = int(after.cell), int(after.state)
        info = self._info(after.proposed, after.events, situation[1])
        counterfactuals = self.model.compare(*inputs) if self.counterfactuals else None
        result = (*situation, float(after.reward), bool(after.done))
        return result, self._observations[situation], info, counterfactuals

    def _info(self, proposed: tuple[str, ...], events: tuple[str, ...], state: int) -> Info:
        return {**event_info(events), "proposed": proposed, "machine_state": self.machine.states.at(state)}

    def _draw(self) -> tuple[int, int]:
        """Draw for the next step: the outcome of a move, and the number that decides whether teammates are ready."""
        if not self._drawn:
            steps = np.arange(self.time, self.time + DRAWN_AHEAD, dtype=np.uint64)[::-1]
            keys = np.full(len(steps), self._key, np.uint64)
            outcome = slip_outcome(slip_draw(keys, steps), self.table.slip_limit)
            self._drawn = list(zip(outcome.tolist(), sync_draw(keys, steps).tolist(), strict=True))
        return self._drawn.pop()


# Many copies: one step of any number of copies at once, in any of the machine's states.


class IndividualSteps(NamedTuple):
    """The results of a step, for each copy."""

    cell: Ints
    proposed: Any  # a tuple of the events that it proposed; or an array of them
    events: Any  # the events that took effect, in their order, likewise
    state: Ints
    reward: NDArray[np.float64]
    done: Bools


class IndividualModel:
    """The dynamics of an agent: its table, with shaped rewards, and counterfactuals."""

    def __init__(
        self, task: Task, agent: str, sync_probability: float, sync_literal: bool, shaping: float | None, kind: str
    ) -> None:
        require_known(agent, task.agents, "agent", partial(TaskError, key="agents"))
        if not 0 < sync_probability <= 1:
            raise SettingsError(f"sync_probability must lie above 0 and be at most 1, got {sync_probability!r}")
        if not task.is_single_agent and not task.decomposition.ok:
            command = f"hocket repair {shlex.quote(task.source or task.name)}"
            raise TaskError(f"{task.name} is not decomposable; run `{command}`, or use team_env", key="machine")
        machine, index = task.machines[agent], list(task.agents).index(agent)
        table = individual_table(compile_task(task), index, sync_probability, sync_literal=sync_literal)
        self.task, self.agent, self.table = task, agent, table
        self.encoder = ObservationEncoder(spaces.Discrete(task.grid.cells), len(machine.states), kind)
        self.potential = potentials(machine, shaping, table.is_final)  # [U] for shaping; else 0
        following = (1.0 if shaping is None else shaping) * self.potential[table.next_state]
        self.reward = table.reward + (following - self.potential[:, None, None])  # [U, H, J], shaped
        self.going = np.flatnonzero(~table.is_final)  # the states in which the agent is not done
        # [U] the position of a state among those; after all of them if it is final
        self.rank = np.where(table.is_final, len(machine.states), np.cumsum(~table.is_final) - 1)
        self.proposed = _by_name(table.proposed, tuple(task.events))  # [U, H] the events that the agent proposes
        self.events = _by_name(table.happened, tuple(task.events))  # [U, H, J] the events that take effect

    def advance(
        self, cell: Numbers, state: NDArray[Any], action: Numbers, outcome: Numbers, sync: Numbers
    ) -> IndividualSteps:
        """Let copies act, with the numbers that each has drawn, as `hocket.task.episode.IndividualEpisode` does; all
        have the shape of the states, or broadcast to it."""
        table = self.table
        end = table.next_cell[table.dynamics[state], cell, action, outcome].astype(np.int64)
        kind = table.kind[table.offset[cell] + end]
        case = (np.asarray(sync)[..., None] >= table.limit[state, kind]).sum(axis=-1)
        at = (state, kind, case)
        after = table.next_state[at].astype(np.int64)
        proposed, done = self.proposed[state, kind], table.is_final[after]
        return IndividualSteps(end, proposed, self.events[at], after, self.reward[at], done)

    def compare(self, cell: Ints, state: Ints, action: Numbers, outcome: Numbers, sync: Numbers) -> Counterfactuals:
        """Compute a step in the other machine states that are not final: [..., M, ...]. M is the same for all states
        from which a step can begin: an agent that is done from the beginning takes its only step from a final state,
        and any other agent takes none there."""
        ranks = np.arange(len(self.going) - (not self.table.is_final[self.table.initial]))
        before = self.going[ranks + (ranks >= self.rank[state][..., None])]
        cells = np.broadcast_to(cell[..., None], before.shape)
        after = self.advance(cells, before, *(np.asarray(drawn)[..., None] for drawn in (action, outcome, sync)))
        first, following = self.encoder.encode_each(cells, before), self.encoder.encode_each(after.cell, after.state)
        return Counterfactuals(first, after.reward, following, after.done, before, after.state)


def _by_name(numbers: NDArray[np.signedinteger[Any]], names: tuple[str, ...]) -> NDArray[np.object_]:
    """Turn the last axis of events by number, or -1, into tuples of their names."""
    named = np.empty(numbers.shape[:-1], np.object_)
    for position in np.ndindex(named.shape):
        named[position] = tuple(names[event] for event in numbers[position].tolist() if event >= 0)
    return named


def potentials(machine: RewardMachine, shaping: float | None, ends: Bools | None = None) -> NDArray[np.float64]:
    """Compute the optimal value of each state if the agent could choose the next event; 0 in final states.

    Value iteration over the machine alone (Camacho et al. 2019, Toro Icarte et al. 2022): in a machine that rewards
    completion it is the discount to the power of the number of events that are needed after the next one. Without
    `shaping` all values are 0.

    >>> steps = RewardMachine(initial="0", transitions={("0", "a"): "1", ("1", "b"): "2"}, final={"2"})
    >>> potentials(steps, 0.9).tolist()
    [0.9, 1.0, 0.0]
    """
    if shaping is not None and not 0 < shaping < 1:
        raise SettingsError(f"shaping takes the learner's discount, between 0 and 1, got {shaping!r}")
    graph, values = machine.graph, np.zeros(len(machine.states))
    while shaping is not None:
        better = np.zeros(len(values))  # it is also allowed to choose none
        np.maximum.at(better, graph.source, machine.reward + shaping * values[graph.target])
        better[machine.is_final if ends is None else ends] = 0.0
        if np.abs(better - values).max() < SETTLED:
            return better
        values = better
    return values


@renamed_arguments(episode_steps="max_episode_steps")
def individual_vector_env(
    task: Task | str | Path,
    agent: str,
    num_envs: int = 1,
    *,
    observation: str = "onehot",
    sync_probability: float = SYNC_PROBABILITY,
    sync_literal: bool = False,
    shaping: float | None = None,
    max_episode_steps: int = EPISODE_STEPS,
    counterfactuals: bool = False,
) -> IndividualEnvs:
    """Make a Gymnasium vector environment of copies of an individual agent (see `individual_env`).

    Copy i equals `individual_env` with seed s + i, or with the i-th of the seeds that `reset` is given. A copy whose
    episode has ended begins the next one in the following step, whatever its action.
    """
    model = IndividualModel(as_task(task), agent, sync_probability, sync_literal, shaping, observation)
    return IndividualEnvs(model, num_envs, max_episode_steps, counterfactuals)


class CopiesEnv(VectorEnv[Observation, NDArray[Any], NDArray[Any]]):
    """Copies of an environment; one that has ended begins again in the following step."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012 (as Gymnasium declares it)

    def __init__(self, task: Task, num_envs: int, single: Space[Any], acts: Space[Any], max_episode_steps: int) -> None:
        self.task, self.num_envs = task, whole(num_envs, "num_envs", 1)
        self.single_observation_space, self.single_action_space = single, acts
        self.observation_space, self.action_space = batch_space(single, num_envs), batch_space(acts, num_envs)
        self.max_episode_steps = whole(max_episode_steps, "max_episode_steps", 1)
        self._is_seeded = False
        self._seeds, self._numbers = np.zeros((2, num_envs), np.uint64)  # of the copies, and of their episodes

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None
    ) -> tuple[Observation, Info]:
        """Begin the next episode of every copy, or with a seed its first one."""
        if options is not None and "reset_mask" in options:
            raise SettingsError("reset_mask: all copies are reset at once; one that has ended begins again by itself")
        super().reset(seed=seed if isinstance(seed, int) else None)
        is_one = seed is not None and (isinstance(seed, str) or not isinstance(seed, Sequence | np.ndarray))
        listed: Any = range(first := check_seed(seed), first + self.num_envs) if is_one else seed
        seeds = [None] * self.num_envs if listed is None else list(listed)
        if len(seeds) != self.num_envs:
            raise SettingsError(f"there must be a seed for each of {self.num_envs:,} copies, got {len(seeds):,}")
        self._numbers += np.uint64(1)
        if not self._is_seeded:  # also for copies whose seed is None
            self._seeds[:] = self.np_random.integers(SEEDS, size=self.num_envs, dtype=np.uint64)
            self._numbers[:] = 0
        for copy, number in enumerate(seeds):
            if number is not None:
                self._seeds[copy], self._numbers[copy] = check_seed(number) & MASK, 0
        self._is_seeded = True
        return self._begin_all()

    def _begin_all(self) -> tuple[Observation, Info]:
        """Begin an episode of every copy."""
        raise NotImplementedError

    def _check(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Require an action for each copy, or for each agent of each copy."""
        if not self._is_seeded:
            raise ResetNeeded("an episode begins with reset()")
        chosen, shape = np.asarray(actions), self.action_space.shape or ()
        if chosen.shape != shape or not np.issubdtype(chosen.dtype, np.integer):
            agents = "".join(f"{count:,} agents in " for count in shape[1:])
            raise TaskError(f"there must be a number for each of {agents}{self.num_envs:,} copies", key="actions")
        if chosen.min() < 0 or chosen.max() >= len(ACTIONS):
            limits = f"{chosen.min()} to {chosen.max()}"
            raise TaskError(f"must be from 0 to {len(ACTIONS) - 1}, got {limits}", key="actions")
        return chosen

    def _flagged(self, info: Info) -> Info:
        """Add for each key which copies have it, as Gymnasium does: all."""
        return info | {f"_{key}": np.ones(self.num_envs, np.bool_) for key in info}


class IndividualEnvs(CopiesEnv):
    """Copies of an individual agent."""

    def __init__(self, model: IndividualModel, num_envs: int, max_episode_steps: int, counterfactuals: bool) -> None:
        self.model, self.agent, self.encoder, self.counterfactuals = model, model.agent, model.encoder, counterfactuals
        super().__init__(model.task, num_envs, self.encoder.space, spaces.Discrete(len(ACTIONS)), max_episode_steps)
        self.table, self._states = model.table, np.array([*model.task.machines[model.agent].states], object)
        self._keys, self._time = np.zeros((2, num_envs), np.uint64)  # [copies], as is all that follows
        self._cell = np.full(num_envs, self.table.starts[0], np.int64)
        self._state = np.full(num_envs, self.table.initial, np.int64)
        self._is_over = np.zeros(num_envs, np.bool_)

    def _begin_all(self) -> tuple[Observation, Info]:
        self._begin(np.ones(self.num_envs, np.bool_))
        self._is_over = np.zeros(self.num_envs, np.bool_)
        nothing = np.full(self.num_envs, NOTHING, np.object_)
        return self.encoder.encode_each(self._cell, self._state), self._info(nothing, nothing)

    def step(self, actions: NDArray[Any]) -> tuple[Observation, NDArray[np.float64], Bools, Bools, Info]:
        """Let every copy act, but for those that begin again."""
        chosen = self._check(actions)
        outcome = slip_outcome(slip_draw(self._keys, self._time), self.table.slip_limit)
        inputs = self._cell, self._state, chosen, outcome, sync_draw(self._keys, self._time)
        again, going = self._is_over, ~self._is_over
        counterfactuals = self.model.compare(*inputs) if self.counterfactuals else None
        after = self.model.advance(*inputs)
        self._cell, self._state = after.cell, after.state
        self._time += np.uint64(1)
        if again.any():
            self._numbers[again] += np.uint64(1)
            self._begin(again)
        terminated, truncated = after.done & going, (self._time >= self.max_episode_steps) & going
        self._is_over = terminated | truncated
        info = self._info(np.where(going, after.proposed, NOTHING), np.where(going, after.events, NOTHING))
        if counterfactuals is not None:
            info |= {"counterfactuals": counterfactuals, "_counterfactuals": going}
        reward = np.where(going, after.reward, 0.0)
        return self.encoder.encode_each(self._cell, self._state), reward, terminated, truncated, info

    def _begin(self, copies: Bools) -> None:
        """Begin an episode of some copies."""
        agent, starts = np.full(int(copies.sum()), self.table.place, np.uint64), self.table.starts
        self._keys[copies] = stream_key(INDIVIDUAL, self._seeds[copies], agent, self._numbers[copies])
        self._time[copies] = 0
        drawn = start_draw(self._keys[copies], 0, np.full(1, len(starts), np.uint64))
        self._cell[copies] = starts[drawn.astype(np.int64)]
        self._state[copies] = self.table.initial

    def _info(self, proposed: NDArray[np.object_], events: NDArray[np.object_]) -> Info:
        last = np.full(len(events), None, np.object_)
        for copy in np.flatnonzero(events != NOTHING).tolist():
            last[copy] = events[copy][-1]
        names = self._states[self._state]
        return self._flagged({"events": events, "event": last, "proposed": proposed, "machine_state": names})


# Checks.


def check_seed(seed: object) -> int:
    """Require a seed: an integer of Python or numpy."""
    try:
        return index(seed)  # type: ignore[arg-type]
    except TypeError:
        raise SettingsError(f"a seed must be a whole number, got {shown(seed)}") from None


def check_action(action: object) -> int:
    """Require an action by its number."""
    if type(action) is int and 0 <= action < len(ACTIONS):  # the common case, quickly
        return action
    try:
        number = index(action)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if not 0 <= number < len(ACTIONS):
        rule = ", ".join(f"{number} {name}" for number, name in enumerate(ACTIONS))
        raise TaskError(f"must be one of {rule}, got {action!r:.60}", key="action")
    return number
