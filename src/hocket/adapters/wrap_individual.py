"""Worlds that others wrote, as tasks with reward machines: the view of an individual agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from hocket.adapters.convert import Action, Environment, EnvWrapper, Experience, individual_world
from hocket.adapters.events import (
    IndividualStep,
    LabelErrors,
    Proposed,
    WorldErrors,
    begun,
    check_events,
    check_info,
    check_seen,
    read_events,
)
from hocket.adapters.individual import NumberedEpisodes, potentials
from hocket.adapters.observations import Counterfactuals, Observation, ObservationEncoder, copied, tell_events
from hocket.errors import SettingsError, shown
from hocket.machine.names import Names
from hocket.machine.reward_machine import RewardMachine
from hocket.random import INDIVIDUAL, stream_key, sync_draw, threshold

IndividualLabel = Callable[[IndividualStep], Proposed]
Valid = Callable[[IndividualStep, str], bool]  # could the world have done the same in another machine state?


class IndividualView(NumberedEpisodes, EnvWrapper, gymnasium.Env[Any, Any]):
    """An agent with its own machine in a world of its own, with teammates that are only simulated.

    `label` is called after every step with an `IndividualStep` and returns the events that the agent proposes, if any.
    The first that the machine allows takes effect, in the order of the machine: at once, or with the chance that
    `chances` gives it, where teammates have to be ready, too. Then, in rounds, whatever the agent does by itself takes
    effect, each event at most once. Events that the agent is `told` of need not be proposed. Those of `edges` are
    proposed only in the step in which the label begins to name them. The same seeds and actions give the same episode;
    `place` tells apart agents that train with the same seed.

    `shaping` is a discount, the learner's own: it adds potential-based rewards for advancing in the machine, which
    leave the best policies the best.

    An info has the events that the agent `proposed`, the `events` that took effect, the `machine_state`, the world's
    `raw_reward`, and, if asked for, `counterfactuals`: what the same step of the world would have meant in each other
    machine state, with the same draw. For them `label` is called once more for each state, with a copy of its memory.
    This takes for granted that the world does not know of the machine, and so would have done the same; where it might
    not, `valid(step, state)` says for which states it would.
    """

    def __init__(
        self,
        env: Environment,
        *,
        machine: RewardMachine,
        label: IndividualLabel,
        chances: Mapping[str, float] | None = None,
        told: Iterable[str] = (),
        edges: Iterable[str] = (),
        valid: Valid | None = None,
        observation: str = "dict",
        place: int = 0,
        shaping: float | None = None,
        counterfactuals: bool = True,
    ) -> None:
        self.env, self.machine, self.label, self.valid = individual_world(env), machine, label, valid
        self.given = env  # the world as it was passed, which labels see
        self.told, self.edges = check_events(told, machine.events, "told"), check_events(edges, machine.events, "edges")
        self.place, self.chances = place, {} if chances is None else dict(chances)
        check_events(self.chances, machine.events, "chances")
        for event, chance in self.chances.items():
            if not 0 < chance <= 1:
                raise SettingsError(f"the chance of {event!r} must be above 0 and at most 1, got {shown(chance)}")
        self.metadata = dict(self.env.metadata)
        self.render_mode = self.env.render_mode
        self.sight = ObservationEncoder(self.env.observation_space, len(machine.states), observation)
        self.observation_space, self.action_space = self.sight.space, self.env.action_space
        self.time, self.state, self._is_over = 0, machine.initial, True
        self._memory: dict[str, Any] = {}
        self.seen: Observation = None  # of the world, after the last step
        self.shaping, self.counterfactuals = shaping, counterfactuals
        self._worth = dict(zip(machine.states, potentials(machine, shaping).tolist(), strict=True))
        self._limits = {pair: threshold(self.chances.get(pair[1], 1.0)) for pair in machine.transitions}
        self._named = Names()  # by the label of the last step
        states = zip(machine.states, machine.ends.tolist(), strict=True)
        self._ends = frozenset(state for state, is_end in states if is_end)
        self._others = [state for state in machine.states if state not in self._ends]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        drawn = self._next_episode(seed, self.np_random)
        self._key = stream_key(INDIVIDUAL, drawn, self.place, self.number)
        with WorldErrors(self.env, "reset"):
            observation, given = self.env.reset(seed=seed, options=options)
        info = check_info(self.env, given, "in reset")
        check_seen(self.env, self.sight, observation, "the agent", "reset")
        self.time, self.state, self._is_over = 0, self.machine.initial, False
        self._memory, self._named, self.seen = {}, Names(), copied(observation)
        return self._see(observation), {**info, **self._say((), (), 0.0)}

    def step(self, action: Action) -> Experience:
        if self._is_over:
            raise ResetNeeded("an episode begins with reset(), also after one has ended")
        with WorldErrors(self.env, when := f"step {self.time + 1}"):
            observation, raw_reward, raw_over, raw_truncated, given = self.env.step(action)
            earned, over, truncated = float(raw_reward), bool(raw_over), bool(raw_truncated)
        info = check_info(self.env, given, f"in {when}")
        check_seen(self.env, self.sight, observation, "the agent", when)
        draw = sync_draw(self._key, self.time)
        self.time += 1
        shown = (action, observation, earned, over, truncated, info)
        memory = copied(self._memory) if self.counterfactuals else None
        step = IndividualStep(self.time, self.seen, *shown, self.state, self._memory, self.given)
        self.seen, self._is_over = copied(observation), over or truncated
        named, proposed, events, self.state, reward = self._outcome(step, draw)
        terminated = over or self.state in self._ends
        self._is_over = terminated or truncated
        said = {**info, **self._say(proposed, events, earned)}
        if memory is not None:
            said["counterfactuals"] = self._counterfactuals(step._replace(memory=memory), draw)
        self._named = named
        return self._see(observation), reward, terminated, truncated, said

    def believe(self, chances: Mapping[tuple[str, str], float]) -> None:
        """Simulate teammates that are as ready for an event as is said for a state of the machine, from now on."""
        self._limits |= {pair: threshold(chance) for pair, chance in chances.items()}

    def _outcome(self, step: IndividualStep, draw: int) -> tuple[Names, tuple[str, ...], tuple[str, ...], str, float]:
        """Work out what a step means in the machine state that it shows: named, proposed, events, state and reward."""
        with LabelErrors(step):
            named = read_events(self.label(step), self.machine.events, "the agent")
        moves, state, events = self.machine.moves, step.state, list[str]()
        answered = {*begun(named, self._named, self.edges), *self.told} if named or self.told else ()
        candidates = [event for event in self.machine.events if event in answered] if answered else []
        proposed = [event for event in candidates if event in moves.get(state, ())]
        reward, seen = 0.0, set[str]()
        is_over = state in self._ends  # then nothing more happens, as in hocket's own worlds
        ready = [] if is_over else [event for event in proposed if draw < self._limits[state, event]]
        while ready and state not in seen:
            seen.add(state)
            events.append(ready[0])
            reward += self.machine.rewards[state, ready[0]]
            state = moves[state][ready[0]]
            by_itself = [event for event in candidates if event not in self.chances and event not in events]
            ready = [event for event in by_itself if event in moves.get(state, ())]
        if self.shaping is not None:  # the end of the world is worth nothing more either
            reward += (0.0 if step.terminated else self.shaping * self._worth[state]) - self._worth[step.state]
        return named, tuple(proposed), tuple(events), state, reward

    def _counterfactuals(self, step: IndividualStep, draw: int) -> Counterfactuals:
        """Work out what the same step of the world would have meant in the other machine states."""
        others = [state for state in self._others if state != step.state]
        if self.valid is not None:
            others = [state for state in others if self.valid(step, state)]
        outcomes = [self._outcome(step._replace(state=state, memory=copied(step.memory)), draw) for state in others]
        after = [state for *_, state, _ in outcomes]
        before, following = (
            np.array([*map(self.machine.states.index, states)], np.int64) for states in (others, after)
        )
        return Counterfactuals(
            observation=self.sight.show_each([step.previous] * len(others), before),
            reward=np.array([reward for *_, reward in outcomes], np.float64),
            next_observation=self.sight.show_each([step.observation] * len(others), following),
            terminated=np.array([step.terminated or state in self._ends for state in after], np.bool_),
            state=before,
            next_state=following,
        )

    def _see(self, observation: Observation) -> Observation:
        return self.sight.show(observation, self.machine.states.index(self.state))

    def _say(self, proposed: tuple[str, ...], events: tuple[str, ...], raw_reward: float) -> dict[str, Any]:
        return {**tell_events(events), "proposed": proposed, "machine_state": self.state, "raw_reward": raw_reward}
