"""Worlds that others wrote, as tasks with reward machines: the team's view, and that of an individual agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from pettingzoo import ParallelEnv

from hocket.adapters.convert import (
    Action,
    Environment,
    EnvWrapper,
    Experience,
    NamedTeam,
    individual_world,
    to_parallel,
)
from hocket.adapters.events import (
    PARTS,
    PROBLEMS,
    Answer,
    IndividualStep,
    LabelErrors,
    Problems,
    Proposed,
    RawStep,
    StepEvents,
    Synchronisation,
    WorldErrors,
    begun,
    check_events,
    check_info,
    check_seen,
    complain,
    read_events,
    shares_of,
)
from hocket.adapters.individual import NumberedEpisodes, potentials
from hocket.adapters.observations import Counterfactuals, Observation, ObservationEncoder, copied, tell_events
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
Where = Callable[[Any], Points]  # from a world to where its agents are

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

    `env` is a PettingZoo environment, or whatever `to_parallel` makes one of. `knows` gives each agent of the team
    its local event set; agents that it leaves out (opponents, say) are passed through untouched. `label` is called
    after every step with a `RawStep` and returns either the events that happened (None, a name or several: all that
    know them propose them) or a mapping from agents to what each of them proposes by itself.

    Then an event happens when all agents that control it propose it: those that `control` names or, where it names
    none, all that know the event. Where some propose it and others do not, the labels contradict each other, unless
    the event is one of `waits`. `problems` says whether such labels raise a `LabelError`, are warned of or pass. An
    event that an agent's machine does not allow in its state does not happen, and is no problem.

    An event happens at most once in a step, and in every step in which the label names it. Those of `edges` happen at
    most once per change: an agent proposes them in the step in which its label begins to name them, and not again
    before there was a step in which it did not.

    `where` says of the world as it was passed where its agents are, for replays: agent to (x, y), across and down.
    Without it the world may have an attribute `where`.

    Refuses a machine that is not decomposable with respect to `knows`.
    """
    world = to_parallel(env)
    if isinstance(world, NamedTeam) and world.names != world.keys:  # whose agents go by other keys than names
        knows, label = world.by_name(knows), partial(world.label_by_name, label)
        control = control and world.control_by_name(control)
    for agent in knows:
        require_known(agent, world.possible_agents, "knows: agent", AssignmentError, f" in {world}")
    team = {agent: knows[agent] for agent in world.possible_agents if agent in knows}
    if isinstance(machine, Composition) and not machine.has_completion_rewards:
        machine = machine.machine()  # which knows what each of its transitions is worth
    decomposition = decompose(machine, team, control)
    if not decomposition.ok:
        raise AssignmentError(_why_not(decomposition))
    known = decomposition.machine.events
    rules = Synchronisation(decomposition, check_events(waits, known, "waits"), check_events(edges, known, "edges"))
    if problems not in PROBLEMS:
        hint = known_names(str(problems), PROBLEMS)
        raise SettingsError(f"problems must be raised, warned of or ignored, got {problems!r} ({hint})")
    given = world.env if isinstance(world, NamedTeam) else env
    return WrappedTeam(world, rules, label, observation, problems, given, where)


class WrappedTeam(EnvWrapper, ParallelEnv[str, Any, Any]):  # type: ignore[misc]
    """A PettingZoo environment whose agents see the states of local reward machines and are paid by the team machine.

    Every agent of the team earns what the team machine pays, which is 1 when the task is completed and 0 before. The
    episode ends then, or when the world ends it. An info says what the agent `proposed`, which `events` happened to
    it, and its `machine_state`; `raw_reward` is what the world would have paid.
    """

    def __init__(
        self,
        env: ParallelEnv[str, Any, Any],
        rules: Synchronisation,
        label: TeamLabel,
        observation: str,
        problems: str,
        given: Environment,
        where: Where | None = None,
    ) -> None:
        self.env, self.label, self.problems, self.rules, self._kind = env, label, problems, rules, observation
        self.decomposition, self.machines = rules.decomposition, rules.decomposition.machines
        self._scene: Scene | None = None
        self.counterfactuals = False  # whether a step is kept for `imagine`
        self.episodes = 0  # that have begun
        self.given, self._where = given, where  # the world as it was passed, which labels see
        self.metadata = {**getattr(env, "metadata", {}), "is_parallelizable": True}
        self.render_mode = getattr(env, "render_mode", None)
        self.possible_agents: list[str] = list(env.possible_agents)
        self.agents: list[str] = []
        self.sights = {
            agent: ObservationEncoder(env.observation_space(agent), len(machine.states), observation)
            for agent, machine in self.machines.items()
        }
        if hasattr(env, "state_space"):
            self.state_space = env.state_space
        self._restart()

    @property
    def where(self) -> Points | None:
        """Where everyone is, if the world or `wrap(where=...)` says so."""
        if self._where is not None:
            return self._where(self.given)
        points: Points | None = getattr(self.given, "where", None)
        return points

    @property
    def completed(self) -> bool:
        """Whether the team has completed its task: all agents' machines are in final states."""
        return all(self.states[agent] in machine.final for agent, machine in self.machines.items())

    def observation_space(self, agent: str) -> gymnasium.Space[Any]:
        return self.sights[agent].space if agent in self.sights else self.env.observation_space(agent)

    def action_space(self, agent: str) -> gymnasium.Space[Any]:
        space: gymnasium.Space[Any] = self.env.action_space(agent)
        return space

    def _restart(self) -> None:
        self.time = 0
        self.episodes += 1
        self.states: Mapping[str, str] = {agent: machine.initial for agent, machine in self.machines.items()}
        self.team_state: Any = self.decomposition.machine.initial
        self.seen: Mapping[str, Observation] = {}  # of the world, after the last step
        self._memory: dict[str, Any] = {}
        self.named: Mapping[str, Names] = {}  # by the label of the last step

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        with WorldErrors(self.env, "reset"):
            observations, given = self.env.reset(seed=seed, options=options)
        check_info(self.env, given, "in reset")
        self._restart()
        self.agents = list(self.env.agents)
        self.seen = {agent: copied(seen) for agent, seen in observations.items()}
        said = {agent: given.get(agent, {}) for agent in self.agents}  # many worlds have nothing to say here
        nothing = StepEvents({}, (), (), {}, self.states)
        infos = shares_of(self.env, said, self.agents, "info", "reset")
        informed = {agent: self._inform(agent, info, nothing, 0.0) for agent, info in infos.items()}
        seen = shares_of(self.env, observations, self.agents, PARTS[0], "reset")
        self._check_seen(seen, "reset")
        return self._show(seen), informed

    def step(self, actions: Mapping[str, Any]) -> Experience:
        if not self.agents:
            raise ResetNeeded("an episode begins with reset(), also after one has ended")
        before = set(self.agents)
        self.time += 1
        when = f"step {self.time}"
        with WorldErrors(self.env, when):
            raw = tuple(zip(self.env.step(dict(actions)), PARTS, strict=True))
        present = [agent for agent in self.possible_agents if agent in before or agent in self.env.agents]
        observations, rewards, terminated, truncated, infos = (
            shares_of(self.env, part, present, what, when) for part, what in raw
        )
        self._check_seen(observations, when)
        shown = (self.seen, actions, observations, rewards, terminated, truncated, infos)
        step = RawStep(self.time, *shown, dict(self.states), self.team_state, self._memory, self.given)
        self.agents, self.seen = list(self.env.agents), {agent: copied(seen) for agent, seen in observations.items()}
        for agent in before:
            if agent in self.sights and agent not in self.agents and not (terminated[agent] or truncated[agent]):
                raise HocketError(f"agent {agent!r} has left {self.env} in {when} without its end being said")
        if self.counterfactuals:
            self._last = step._replace(memory=copied(self._memory)), self.named
        happening, team_state, reward = self._happen(step, self.named)
        self.named = happening.named
        complain(happening.problems, self.problems, step)
        self.states, self.team_state = happening.states, team_state
        if self.completed:
            terminated, self.agents = dict.fromkeys(present, True), []
        earned = {agent: reward if agent in self.sights else rewards[agent] for agent in present}
        informed = {agent: self._inform(agent, infos[agent], happening, rewards[agent]) for agent in present}
        return self._show(observations), earned, terminated, truncated, informed

    def _happen(self, step: RawStep, named: Mapping[str, Names]) -> tuple[StepEvents, Any, float]:
        """Work out what a step means: what happens, the state of the team machine after it, and what that pays."""
        with LabelErrors(step):
            happening = self.rules.happen(self.label(step), step.states, step.observations, named)
        team, reward, before = self.decomposition.machine, 0.0, cast("Any", step.team_state)
        state = before
        for event in happening.events:
            reward += 0.0 if isinstance(team, Composition) else team.rewards[state, event]
            state = team.step(state, event)
        if happening.events and isinstance(team, Composition):  # which pays for nothing but completion
            reward = float(team.is_final(state) and not team.is_final(before))
        return happening, state, reward

    def imagine(self, team_state: object, states: Mapping[str, str]) -> tuple[object, float]:
        """Work out what the last step of the world would have meant in another state of the team: what follows, paid.

        It takes for granted that the world would have done the same, as `IndividualView` does for one agent.
        """
        step, named = self._last
        step = step._replace(states=states, team_state=team_state, memory=copied(step.memory))
        _, state, reward = self._happen(step, named)
        return state, reward

    def _check_seen(self, observations: Mapping[str, Observation], when: str) -> None:
        for agent, sight in self.sights.items():
            if agent in observations:
                check_seen(self.env, sight, observations[agent], agent, when)

    def _show(self, observations: Mapping[str, Observation]) -> dict[str, Observation]:
        """Join what agents of the team see of the world and the states of their machines."""
        sights, machines, states = self.sights, self.machines, self.states
        return {
            agent: sights[agent].show(seen, machines[agent].states.index(states[agent])) if agent in sights else seen
            for agent, seen in observations.items()
        }

    def _inform(self, agent: str, info: Mapping[str, Any], happening: StepEvents, reward: float) -> dict[str, Any]:
        """Say what happened to an agent of the team."""
        if agent not in self.sights:
            return dict(info)
        events = tuple(event for event in happening.events if event in self.decomposition.knows[agent])
        proposed, state = happening.proposed.get(agent, ()), self.states[agent]
        return {**info, **tell_events(events), "proposed": proposed, "machine_state": state, "raw_reward": reward}

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
        """Let an agent train alone, in a world for one and with simulated synchronisation.

        `env` is a Gymnasium environment, or a multi-agent one with a single agent; its observations should be like
        those that the agent has in the team. A shared event that teammates control, too, takes effect with
        `sync_probability` in every step in which the agent proposes it, and an event that teammates alone control
        likewise, wherever the agent is.
        """
        if agent not in self.machines:
            raise AssignmentError(f"agent {agent!r} is not of the team ({known_names(agent, self.machines)})")
        parties, knows = self.rules.parties, self.decomposition.knows[agent]
        shared = [event for event in knows if any(other != agent for other in parties[event])]
        return IndividualView(
            env,
            machine=self.machines[agent],
            label=label,
            chances=dict.fromkeys(shared, sync_probability),
            told=[event for event in knows if agent not in parties[event]],
            edges=[event for event in knows if event in self.rules.edges],
            valid=valid,
            observation=self._kind,
            place=list(self.machines).index(agent),
            shaping=shaping,
            counterfactuals=counterfactuals,
        )

    @property
    def scene(self) -> Scene:
        """What reports show of the world: set it to a `Scene`, or there is no map."""
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
        """Play test episodes of what was learnt here, for a record."""
        summary: TestSummary = TEST.load()(self, policy, max_steps=int(policy.settings["max_episode_steps"]))
        return summary

    def state(self) -> Observation:
        """Return the world's own state; `states` and `team_state` are those of the machines."""
        return self.env.state()


def _why_not(decomposition: Decomposition) -> str:
    """Say why a machine is not decomposable, and what would repair it."""
    said = ["the machine must be decomposable with respect to `knows`:", *decomposition.explain().splitlines()]
    if isinstance(decomposition.machine, RewardMachine):
        team, knows, control = decomposition.machine, decomposition.knows, decomposition.control
        added = repair(team, knows, control, effort=EFFORT_FOR_A_HINT)
        needed = " and ".join(
            f"{', '.join(events)} to the local event set of {agent}" for agent, events in added.items()
        )
        said.append(f"{'Minimum-cost repair' if added.exact else 'Repair'}: add {needed}.")
    return " ".join(said)


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
