"""Worlds that others wrote, as tasks with reward machines: the view of an individual agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from hocket.adapters.convert import Action, Around, Experience, World, individual_world
from hocket.adapters.events import (
    IndividualStep,
    Proposed,
    check_problems,
    complain,
    possible_events,
    read_events,
    too_many,
)
from hocket.adapters.individual import SEEDS
from hocket.adapters.observations import Counterfactuals, Observation, Sight
from hocket.errors import AssignmentError, SettingsError, known_names
from hocket.machine.names import Names
from hocket.machine.reward_machine import RewardMachine
from hocket.random import INDIVIDUAL, stream_key, sync_draw, threshold

IndividualLabel = Callable[[IndividualStep], Proposed]
Valid = Callable[[IndividualStep, str], bool]  # could the world have done the same in another machine state?


class Outcome(NamedTuple):
    """What a step of the world means in a machine state."""

    label: str | None  # what the agent proposed
    event: str | None  # what took effect
    state: str
    reward: float
    problems: tuple[str, ...]


class IndividualView(Around, gymnasium.Env[Any, Any]):
    """An agent with its own machine in a world of its own, with teammates that are only simulated.

    `label` is called after every step with an `IndividualStep` and returns the event that the agent proposes, if any.
    It takes effect if the machine allows it, with the chance that `chances` gives it (1 unless given): the others have
    to propose it, too. Events that the agent is `told` of need not be proposed: they take effect by their chance
    wherever the machine allows them and the agent proposes nothing else. The same seeds and actions give the same
    episode; `place` tells apart agents that train with the same seed.

    An info has the `label` that the agent proposed, the `event` that took effect, the `machine_state`, the
    world's `raw_reward`, and `counterfactuals`: what the same step of the world would have meant in each other machine
    state, with the same draw. For them `label` is called once more for each state, with a copy of its memory. This
    takes for granted that the world does not know of the machine, and so would have done the same; where it might not,
    `valid(step, state)` says for which states it would.
    """

    def __init__(
        self,
        env: World,
        *,
        machine: RewardMachine,
        label: IndividualLabel,
        chances: Mapping[str, float] | None = None,
        told: Iterable[str] = (),
        valid: Valid | None = None,
        observation: str = "dict",
        problems: str = "raise",
        place: int = 0,
    ) -> None:
        check_problems(problems)
        self.env, self.machine, self.label = individual_world(env), machine, label
        self.valid, self.problems = valid, problems
        self.told, self.place = Names((told,) if isinstance(told, str) else told), place
        self.chances = {} if chances is None else dict(chances)
        for event in (*self.chances, *self.told):
            if event not in machine.events:
                hint = known_names(str(event), machine.events)
                raise AssignmentError(f"event {event!r} does not exist in this machine ({hint})")
        for event, chance in self.chances.items():
            if not 0 <= chance <= 1:
                raise SettingsError(f"the chance of {event!r} must be a probability, got {chance!r}")
        self.metadata = dict(self.env.metadata)
        self.render_mode = self.env.render_mode
        self.sight = Sight(self.env.observation_space, len(machine.states), observation)
        self.observation_space, self.action_space = self.sight.space, self.env.action_space
        self.episode_seed: int | None = None  # of the episodes since it was given
        self.number = -1  # of the episode among those
        self.time, self.state, self._is_over = 0, machine.initial, True
        self._memory: dict[str, Any] = {}
        self._others = [state for state in machine.states if state not in machine.final]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None or self.episode_seed is None:
            self.episode_seed = int(self.np_random.integers(SEEDS)) if seed is None else seed
            self.number = -1
        self.number += 1
        self._key = stream_key(INDIVIDUAL, self.episode_seed, self.place, self.number)
        observation, info = self.env.reset(seed=seed, options=options)
        self.time, self.state, self._is_over = 0, self.machine.initial, False
        self._memory, self._previous = {}, deepcopy(observation)
        return self._see(observation), {**info, **self._say(None, None, 0.0)}

    def step(self, action: Action) -> Experience:
        if self._is_over:
            raise ResetNeeded("an episode begins with reset(), also after one has ended")
        observation, raw_reward, over, truncated, info = self.env.step(action)
        draw = sync_draw(self._key, self.time)
        self.time += 1
        shown = (action, observation, float(raw_reward), bool(over), bool(truncated), info)
        memory = deepcopy(self._memory)
        step = IndividualStep(self.time, self._previous, *shown, self.state, self._memory, self.env)
        label, event, state, reward, wrong = self._outcome(step, draw)
        complain(wrong, self.problems, self.time)
        others = self._counterfactuals(replace(step, memory=memory), draw)
        self.state, self._previous = state, deepcopy(observation)
        terminated = step.terminated or state in self.machine.final
        self._is_over = terminated or step.truncated
        said = {**info, **self._say(label, event, step.reward), "counterfactuals": others}
        return self._see(observation), reward, terminated, step.truncated, said

    def _outcome(self, step: IndividualStep, draw: int) -> Outcome:
        """Work out what a step of the world means in the machine state that it shows."""
        proposed = read_events(self.label(step), self.machine.events, "the agent")
        ready = possible_events(self.machine, step.state, proposed)
        problems = (too_many("the agent", ready),) if len(ready) > 1 else ()
        for event in ready or possible_events(self.machine, step.state, self.told):
            if draw < threshold(self.chances.get(event, 1.0)):
                where = (step.state, event)
                return Outcome(event, event, self.machine.transitions[where], self.machine.rewards[where], problems)
            return Outcome(event, None, step.state, 0.0, problems)  # only the first one counts
        return Outcome(None, None, step.state, 0.0, problems)

    def _counterfactuals(self, step: IndividualStep, draw: int) -> Counterfactuals:
        """Work out what the same step of the world would have meant in the other machine states."""
        others = [state for state in self._others if state != step.state and self._is_valid(step, state)]
        outcomes = [self._outcome(replace(step, state=own, memory=deepcopy(step.memory)), draw) for own in others]
        number = self.machine.states.index
        states = np.array([number(state) for state in others], np.int64)
        next_states = np.array([number(outcome.state) for outcome in outcomes], np.int64)
        done = [step.terminated or outcome.state in self.machine.final for outcome in outcomes]
        return Counterfactuals(
            observation=self.sight.show_each([step.previous] * len(others), states),
            reward=np.array([outcome.reward for outcome in outcomes], np.float64),
            next_observation=self.sight.show_each([step.observation] * len(others), next_states),
            terminated=np.array(done, np.bool_),
            state=states,
            next_state=next_states,
        )

    def _is_valid(self, step: IndividualStep, state: str) -> bool:
        return self.valid is None or self.valid(step, state)

    def _see(self, observation: Observation) -> Observation:
        return self.sight.show(observation, self.machine.states.index(self.state))

    def _say(self, label: str | None, event: str | None, raw_reward: float) -> dict[str, Any]:
        return {"event": event, "label": label, "machine_state": self.state, "raw_reward": raw_reward}
