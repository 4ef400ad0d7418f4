"""Third-party environments as tasks with reward machines: for the team, and for an individual agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from pettingzoo import ParallelEnv

from hocket.adapters.convert import Action, Environment, EnvWrapper, NamedTeam, StepResult, to_individual, to_parallel
from hocket.adapters.events import (
    PARTS,
    PROBLEMS,
    Answer,
    EnvironmentCall,
    IndividualStep,
    LabelErrors,
    Problems,
    Proposed,
    RawStep,
    StepEvents,
    Synchronisation,
    check_events,
    drop_old_edges,
    read_events,
    report_problems,
)
from hocket.adapters.individual import NumberedEpisodes, potentials
from hocket.adapters.observations import Counterfactuals, Observation, ObservationEncoder, copied, event_info
from hocket.draw.scene import Scene
from hocket.errors import AssignmentError, HocketError, SettingsError, known_names, require_known, shown
from hocket.lazy import Lazy
from hocket.learn.learner import Learner
from hocket.learn.policies import Policy, Run
from hocket.learn.settings import Settings
from hocket.machine.assignment import EFFORT_FOR_A_HINT, repair
from hocket.machine.composition import Composition
from hocket.machine.decomposition import Control, Decomposition, Knows, decompose
from hocket.machine.names import Names
from hocket.machine.reward_machine import RewardMachine
from hocket.random import INDIVIDUAL, stream_key, sync_draw, threshold
from hocket.study.records import TestSummary
from hocket.task.episode import SYNC_PROBABILITY

TeamLabel = Callable[[RawStep], Answer]
IndividualLabel = Callable[[IndividualStep], Proposed]
Valid = Callable[[IndividualStep, str], bool]  # could the world have done the same in another machine state?
Points = Mapping[str, tuple[float, float]]
Where = Callable[[Any], Points]  # from an environment to the positions of its agents

TRAIN, TEST = Lazy("hocket.adapters.world_training", "train_world"), Lazy("hocket.adapters.policies", "play_tests")


def wrap(
    env: Environment,
    *,
    machine: RewardMachine | Composition,
    knows: Knows,
    label: TeamLabel,
    control: Control | None = None,
    waits: Iterable[str] = (),
    edges: Iterable[str] = (),
    observation: str = "dict",
    problems: Problems = "raise",
    where: Where | None = None,
) -> WrappedTeam:
    """Make a reward-machine task of a multi-agent environment, a team machine and a labelling function.

    `env` is a PettingZoo environment, or one that `to_parallel` can convert. `knows` gives each agent of the team its
    local event set; other agents (opponents, say) are passed through untouched. `label` is called after every step with
    a `RawStep` and returns either the events that happened (None, a name or several: all that know them propose them)
    or a mapping from agents to the events that each of them proposes.

    Then an event happens when all agents that control it propose it: those that `control` names or, where it names
    none, all that know the event. Where some propose it and others do not, the labels contradict each other, unless
    the event is one of `waits`. `problems` says whether such labels raise a `LabelError`, are warned of or pass. An
    event that an agent's machine does not allow in its state does not happen, and is no problem.

    An event happens at most once in a step, and in every step in which the label names it. Those of `edges` happen at
    most once per change: an agent proposes them in the step in which its label begins to name them, and again only
    after a step in which it did not.

    `where` returns the positions of the agents of `env`, for replays: agent to (x, y), across and down. Without it the
    environment may have an attribute `where`.

    Refuses a machine that is not decomposable with respect to `knows`.
    """
    world = to_parallel(env)
    if isinstance(world, NamedTeam) and world.names != world.keys:  # whose agents have other keys than names
        knows, label = world.by_name(knows), partial(world.label_by_name, label)
        control = control and world.control_by_name(control)
    for agent in knows:
        require_known(agent, world.possible_agents, "knows: agent", AssignmentError, f" in {world}")
    team = {agent: knows[agent] for agent in world.possible_agents if agent in knows}
    if isinstance(machine, Composition) and not machine.has_completion_rewards:
        machine = machine.machine()  # which has a reward for each of its transitions
    decomposition = decompose(machine, team, control)
    if not decomposition.ok:
        raise AssignmentError(_why_not(decomposition))
    known = decomposition.machine.events
    waiting, edge_events = check_events(waits, known, "waits"), check_events(edges, known, "edges")
    if problems not in PROBLEMS:
        hint = known_names(str(problems), PROBLEMS)
        raise SettingsError(f"problems must be raised, warned of or ignored, got {problems!r} ({hint})")
    original = world.env if isinstance(world, NamedTeam) else env
    synchronisation = Synchronisation(decomposition, waiting, edge_events)
    return WrappedTeam(world, synchronisation, label, observation, problems, original, where)


class WrappedTeam(EnvWrapper, ParallelEnv[str, Any, Any]):  # type: ignore[misc]
    """A PettingZoo environment whose agents observe the states of local reward machines and get the team's reward.

    Every agent of the team gets the reward of the team machine, which is 1 when the task is completed and 0 before. The
    episode ends then, or when the environment ends it. An info has the events that the agent `proposed`, the `events`
    that it heard of, and its `machine_state`; `raw_reward` is the environment's reward.
    """

    def __init__(
        self,
        env: ParallelEnv[str, Any, Any],
        synchronisation: Synchronisation,
        label: TeamLabel,
        observation: str,
        problems: str,
        original: Environment,
        where: Where | None = None,
    ) -> None:
        self.env, self.label, self.problems, self._observation_kind = env, label, problems, observation
        self.synchronisation, self.decomposition = synchronisation, synchronisation.decomposition
        self.machines = self.decomposition.machines
        self._scene: Scene | None = None
        self.counterfactuals = False  # whether a step is kept for `counterfactual`
        self.episodes = 0  # that have begun
        self.original, self._where = original, where  # the environment as it was passed, which labels get
        self.metadata = {**getattr(env, "metadata", {}), "is_parallelizable": True}
        self.render_mode = getattr(env, "render_mode", None)
        self.possible_agents: list[str] = list(env.possible_agents)
        self.agents: list[str] = []
        self.encoders = {
            agent: ObservationEncoder(env.observation_space(agent), len(machine.states), observation)
            for agent, machine in self.machines.items()
        }
        if hasattr(env, "state_space"):
            self.state_space = env.state_space
        self._restart()

    @property
    def where(self) -> Points | None:
        """The positions of all agents, if the environment or `wrap(where=...)` tells them."""
        if self._where is not None:
            return self._where(self.original)
        points: Points | None = getattr(self.original, "where", None)
        return points

    @property
    def completed(self) -> bool:
        """Whether the team has completed its task: all agents' machines are in final states."""
        return all(self.states[agent] in machine.final for agent, machine in self.machines.items())

    def state_number(self, agent: str) -> int:
        """Return the number of the state of an agent's machine."""
        return self.machines[agent].states.index(self.states[agent])

    def observation_space(self, agent: str) -> gymnasium.Space[Any]:
        return self.encoders[agent].space if agent in self.encoders else self.env.observation_space(agent)

    def action_space(self, agent: str) -> gymnasium.Space[Any]:
        space: gymnasium.Space[Any] = self.env.action_space(agent)
        return space

    def _restart(self) -> None:
        self.time = 0
        self.episodes += 1
        self.states: Mapping[str, str] = {agent: machine.initial for agent, machine in self.machines.items()}
        self.team_state: Any = self.decomposition.machine.initial
        self.seen: Mapping[str, Observation] = {}  # after the last step, without machine states
        self._memory: dict[str, Any] = {}
        self.named: Mapping[str, Names] = {}  # by the label of the last step

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        with EnvironmentCall(self.env, "reset") as call:
            raw_observations, raw_infos = self.env.reset(seed=seed, options=options)
        call.check_info(raw_infos)
        self._restart()
        self.agents = list(self.env.agents)
        self.seen = {agent: copied(observation) for agent, observation in raw_observations.items()}
        infos = {agent: raw_infos.get(agent, {}) for agent in self.agents}  # many environments leave them out here
        nothing = StepEvents({}, (), (), {}, self.states)
        infos = call.require_agents(infos, self.agents, "info")
        infos = {agent: self._info(agent, info, nothing, 0.0) for agent, info in infos.items()}
        observations = call.require_agents(raw_observations, self.agents, PARTS[0])
        self._check_observations(observations, call)
        return self._encode(observations), infos

    def step(self, actions: Mapping[str, Any]) -> StepResult:
        if not self.agents:
            raise ResetNeeded("an episode begins with reset(), also after one has ended")
        before = set(self.agents)
        self.time += 1
        with EnvironmentCall(self.env, f"step {self.time}") as call:
            parts = tuple(zip(self.env.step(dict(actions)), PARTS, strict=True))
        present = [agent for agent in self.possible_agents if agent in before or agent in self.env.agents]
        checked = [call.require_agents(values, present, part) for values, part in parts]
        observations, rewards, terminated, truncated, infos = checked
        self._check_observations(observations, call)
        raw = (self.seen, actions, observations, rewards, terminated, truncated, infos)
        step = RawStep(self.time, *raw, dict(self.states), self.team_state, self._memory, self.original)
        self.agents = list(self.env.agents)
        self.seen = {agent: copied(observation) for agent, observation in observations.items()}
        for agent in before:
            if agent in self.encoders and agent not in self.agents and not (terminated[agent] or truncated[agent]):
                problem = f"agent {agent!r} has left {self.env} in {call.when}"
                raise HocketError(f"{problem} without being terminated or truncated")
        if self.counterfactuals:
            self._last = step._replace(memory=copied(self._memory)), self.named
        outcome, team_state, reward = self._outcome(step, self.named)
        self.named = outcome.named
        report_problems(outcome.problems, self.problems, step)
        self.states, self.team_state = outcome.states, team_state
        if self.completed:
            terminated, self.agents = dict.fromkeys(present, True), []
        infos = {agent: self._info(agent, infos[agent], outcome, rewards[agent]) for agent in present}
        rewards = {agent: reward if agent in self.encoders else rewards[agent] for agent in present}
        return self._encode(observations), rewards, terminated, truncated, infos

    def _outcome(self, step: RawStep, named: Mapping[str, Names]) -> tuple[StepEvents, Any, float]:
        """Return the events of a step, the state of the team machine after it, and the reward."""
        with LabelErrors(step):
            outcome = self.synchronisation.settle(self.label(step), step.states, step.observations, named)
        team, reward, before = self.decomposition.machine, 0.0, cast("Any", step.team_state)
        state = before
        for event in outcome.events:
            reward += 0.0 if isinstance(team, Composition) else team.rewards[state, event]
            state = team.step(state, event)
        if outcome.events and isinstance(team, Composition):  # which pays only for completion
            reward = float(team.is_final(state) and not team.is_final(before))
        return outcome, state, reward

    def counterfactual(self, team_state: object, states: Mapping[str, str]) -> tuple[object, float]:
        """Return the next state and the reward that the last step would have had in another state of the team, if the
        environment had done the same."""
        step, named = self._last
        step = step._replace(states=states, team_state=team_state, memory=copied(step.memory))
        _, state, reward = self._outcome(step, named)
        return state, reward

    def _check_observations(self, observations: Mapping[str, Observation], call: EnvironmentCall) -> None:
        for agent, encoder in self.encoders.items():
            if agent in observations:
                call.check_observation(encoder, observations[agent], agent)

    def _encode(self, observations: Mapping[str, Observation]) -> dict[str, Observation]:
        """Join observations of agents of the team and the states of their machines."""
        encoded = dict(observations)
        for agent in self.encoders.keys() & encoded.keys():
            encoded[agent] = self.encoders[agent].encode(encoded[agent], self.state_number(agent))
        return encoded

    def _info(self, agent: str, info: Mapping[str, Any], outcome: StepEvents, reward: float) -> dict[str, Any]:
        """Add to an info, for an agent of the team, what happened to it."""
        if agent not in self.encoders:
            return dict(info)
        events = tuple(event for event in outcome.events if event in self.decomposition.knows[agent])
        proposed, state = outcome.proposed.get(agent, ()), self.states[agent]
        return {**info, **event_info(events), "proposed": proposed, "machine_state": state, "raw_reward": reward}

    def individual(
        self,
        agent: str,
        env: Environment,
        label: IndividualLabel,
        *,
        sync_probability: float = SYNC_PROBABILITY,
        valid: Valid | None = None,
        shaping: float | None = None,
        counterfactuals: bool = True,
    ) -> IndividualView:
        """Let an agent train alone, in an environment for one agent and with simulated synchronisation.

        `env` is a Gymnasium environment, or a multi-agent one with a single agent; its observations should be like
        those that the agent has in the team. A shared event that teammates control, too, takes effect with
        `sync_probability` in every step in which the agent proposes it, and an event that teammates alone control
        likewise, wherever the agent is.
        """
        if agent not in self.machines:
            raise AssignmentError(f"agent {agent!r} is not of the team ({known_names(agent, self.machines)})")
        controllers, knows = self.synchronisation.controllers, self.decomposition.knows[agent]
        shared = [event for event in knows if any(other != agent for other in controllers[event])]
        return IndividualView(
            env,
            machine=self.machines[agent],
            label=label,
            chances=dict.fromkeys(shared, sync_probability),
            told=[event for event in knows if agent not in controllers[event]],
            edges=[event for event in knows if event in self.synchronisation.edges],
            valid=valid,
            observation=self._observation_kind,
            place=list(self.machines).index(agent),
            shaping=shaping,
            counterfactuals=counterfactuals,
        )

    @property
    def scene(self) -> Scene:
        """The map for reports: set it to a `Scene`, or there is none."""
        if self._scene is None:
            self._scene = Scene.of(self, 1, 1, task=str(self.metadata.get("name") or type(self.env).__name__))
        return self._scene

    @scene.setter
    def scene(self, scene: Scene) -> None:
        self._scene = scene

    def train(
        self, learner: Learner, settings: Settings, seeds: Sequence[int], steps: int, *options: object
    ) -> list[Run]:
        """Train the agents; `hocket.train` calls it, with options of `train_world`."""
        runs: list[Run] = TRAIN(self, learner, settings, seeds, steps, *options)
        return runs

    def test(self, policy: Policy) -> TestSummary:
        """Play test episodes with a policy, for a record."""
        summary: TestSummary = TEST.load()(self, policy, max_steps=int(policy.settings["max_episode_steps"]))
        return summary

    def state(self) -> Observation:
        """Return the state of the environment; `states` and `team_state` are those of the machines."""
        return self.env.state()


def _why_not(decomposition: Decomposition) -> str:
    """Explain why a machine is not decomposable, and give a repair."""
    sentences = ["the machine must be decomposable with respect to `knows`:", *decomposition.explain().splitlines()]
    if isinstance(decomposition.machine, RewardMachine):
        team, knows, control = decomposition.machine, decomposition.knows, decomposition.control
        added = repair(team, knows, control, effort=EFFORT_FOR_A_HINT)
        listed = " and ".join(f"{', '.join(e)} to the local event set of {agent}" for agent, e in added.items())
        sentences.append(f"{'Minimum-cost repair' if added.exact else 'Repair'}: add {listed}.")
    return " ".join(sentences)


class IndividualView(NumberedEpisodes, EnvWrapper, gymnasium.Env[Any, Any]):
    """An agent with its machine in an environment of its own, with simulated teammates.

    `label` is called after every step with an `IndividualStep` and returns the events that the agent proposes, if any.
    The first that the machine allows takes effect, in the order of the machine: at once, or with its probability in
    `chances`, if teammates have to be ready, too. Then, in rounds, the events that the agent controls alone take
    effect, each at most once. Events that the agent is `told` of need not be proposed. Those of `edges` are proposed
    only in the step in which the label begins to name them. The same seeds and actions give the same episode; agents
    that train with the same seed need different numbers as `place`.

    `shaping` is the learner's discount: it adds potential-based rewards for advancing in the machine, which do not
    change the optimal policies.

    An info has the events that the agent `proposed`, the `events` that took effect, the `machine_state`, the
    environment's `raw_reward`, and, unless `counterfactuals` is False, `counterfactuals`: the outcome of the same step
    in each other machine state, with the same draw. For them `label` is called once more for each state, with a copy of
    its memory. This assumes that the environment does not depend on the machine, and so would have done the same; where
    it might, `valid(step, state)` says for which states it would.
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
        self.env, self.machine, self.label, self.valid = to_individual(env), machine, label, valid
        self.original = env  # the environment as it was passed, which labels get
        self.told, self.edges = check_events(told, machine.events, "told"), check_events(edges, machine.events, "edges")
        self.place, self.chances = place, {} if chances is None else dict(chances)
        check_events(self.chances, machine.events, "chances")
        for event, chance in self.chances.items():
            if not 0 < chance <= 1:
                raise SettingsError(f"the chance of {event!r} must be above 0 and at most 1, got {shown(chance)}")
        self.metadata = dict(self.env.metadata)
        self.render_mode = self.env.render_mode
        self.encoder = ObservationEncoder(self.env.observation_space, len(machine.states), observation)
        self.observation_space, self.action_space = self.encoder.space, self.env.action_space
        self.time, self.state, self._is_over = 0, machine.initial, True
        self._memory: dict[str, Any] = {}
        self.seen: Observation = None  # after the last step, without the machine state
        self.shaping, self.counterfactuals = shaping, counterfactuals
        self._potentials = dict(zip(machine.states, potentials(machine, shaping).tolist(), strict=True))
        self._limits = {pair: threshold(self.chances.get(pair[1], 1.0)) for pair in machine.transitions}
        self._named = Names()  # by the label of the last step
        self._ends = frozenset(state for state, is_end in zip(machine.states, machine.ends, strict=True) if is_end)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        episode_seed = self._next_episode(seed, self.np_random)
        self._key = stream_key(INDIVIDUAL, episode_seed, self.place, self.number)
        with EnvironmentCall(self.env, "reset") as call:
            observation, raw_info = self.env.reset(seed=seed, options=options)
        info = call.check_info(raw_info)
        call.check_observation(self.encoder, observation, "the agent")
        self.time, self.state, self._is_over = 0, self.machine.initial, False
        self._memory, self._named, self.seen = {}, Names(), copied(observation)
        return self._encode(observation), {**info, **self._info((), (), 0.0)}

    def step(self, action: Action) -> StepResult:
        if self._is_over:
            raise ResetNeeded("an episode begins with reset(), also after one has ended")
        with EnvironmentCall(self.env, f"step {self.time + 1}") as call:
            observation, raw_reward, raw_terminated, raw_truncated, raw_info = self.env.step(action)
            raw_reward, is_over, truncated = float(raw_reward), bool(raw_terminated), bool(raw_truncated)
        info = call.check_info(raw_info)
        call.check_observation(self.encoder, observation, "the agent")
        draw = sync_draw(self._key, self.time)
        self.time += 1
        raw = (action, observation, raw_reward, is_over, truncated, info)
        memory = copied(self._memory) if self.counterfactuals else None
        step = IndividualStep(self.time, self.seen, *raw, self.state, self._memory, self.original)
        self.seen, self._is_over = copied(observation), is_over or truncated
        named, proposed, events, self.state, reward = self._outcome(step, draw)
        terminated = is_over or self.state in self._ends
        self._is_over = terminated or truncated
        step_info = {**info, **self._info(proposed, events, raw_reward)}
        if memory is not None:
            step_info["counterfactuals"] = self._counterfactuals(step._replace(memory=memory), draw)
        self._named = named
        return self._encode(observation), reward, terminated, truncated, step_info

    def believe(self, probabilities: Mapping[tuple[str, str], float]) -> None:
        """Simulate, from now on, teammates that are ready for an event in a state with these probabilities."""
        self._limits |= {pair: threshold(probability) for pair, probability in probabilities.items()}

    def _outcome(self, step: IndividualStep, draw: int) -> tuple[Names, tuple[str, ...], tuple[str, ...], str, float]:
        """Compute a step from its machine state: named, proposed, events, next state and reward."""
        with LabelErrors(step):
            named = read_events(self.label(step), self.machine.events, "the agent")
        moves, state, events = self.machine.moves, step.state, list[str]()
        answered = {*drop_old_edges(named, self._named, self.edges), *self.told} if named or self.told else ()
        candidates = [event for event in self.machine.events if event in answered] if answered else []
        proposed = [event for event in candidates if event in moves.get(state, ())]
        reward, visited = 0.0, set[str]()
        is_over = state in self._ends  # then nothing more happens, as in hocket's own environments
        ready = [] if is_over else [event for event in proposed if draw < self._limits[state, event]]
        while ready and state not in visited:
            visited.add(state)
            events.append(ready[0])
            reward += self.machine.rewards[state, ready[0]]
            state = moves[state][ready[0]]
            by_itself = [event for event in candidates if event not in self.chances and event not in events]
            ready = [event for event in by_itself if event in moves.get(state, ())]
        if self.shaping is not None:  # the potential at the end of the environment's episode is 0, too
            potential = 0.0 if step.terminated else self.shaping * self._potentials[state]
            reward += potential - self._potentials[step.state]
        return named, tuple(proposed), tuple(events), state, reward

    def _counterfactuals(self, step: IndividualStep, draw: int) -> Counterfactuals:
        """Compute the same step in the other machine states."""
        others = [state for state in self.machine.states if state not in self._ends and state != step.state]
        if self.valid is not None:
            others = [state for state in others if self.valid(step, state)]
        outcomes = [self._outcome(step._replace(state=state, memory=copied(step.memory)), draw) for state in others]
        after = [state for *_, state, _ in outcomes]
        before, following = (np.array(list(map(self.machine.states.index, row)), np.int64) for row in (others, after))
        return Counterfactuals(
            observation=self.encoder.encode_each([step.previous] * len(others), before),
            reward=np.array([reward for *_, reward in outcomes], np.float64),
            next_observation=self.encoder.encode_each([step.observation] * len(others), following),
            terminated=np.array([step.terminated or state in self._ends for state in after], np.bool_),
            state=before,
            next_state=following,
        )

    def _encode(self, observation: Observation) -> Observation:
        return self.encoder.encode(observation, self.machine.states.index(self.state))

    def _info(self, proposed: tuple[str, ...], events: tuple[str, ...], raw_reward: float) -> dict[str, Any]:
        return {**event_info(events), "proposed": proposed, "machine_state": self.state, "raw_reward": raw_reward}
