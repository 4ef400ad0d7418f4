"""Tabular learning in third-party environments, by the learners' references in plain Python.

Agents with local machines train alone with simulated teammates, and then estimate in team episodes, which are played in
the environment and count as training steps, how ready their teammates really are (`hocket.learn.reviews`). Other
learners train in the team's environment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict
from itertools import count
from math import prod
from pathlib import Path
from threading import Event
from typing import Any, cast

import numpy as np
from gymnasium import spaces

from hocket.adapters.convert import IndividualWorld, SeparateWorlds
from hocket.adapters.events import IndividualStep, Proposed, RawStep
from hocket.adapters.policies import TEAMS, LearntTeam, PlayedEpisode, TeamActions, TeamMemory, TeamStates, play_episode
from hocket.adapters.wrap import IndividualView, WrappedTeam
from hocket.errors import HocketError, SettingsError, TrainingError, require_known
from hocket.files import exists
from hocket.learn.actors import key_text, observation_key
from hocket.learn.learner import Arrays, Block, Learner, Player, PolicyInput
from hocket.learn.policies import Policy, Run
from hocket.learn.reference import Experience, JointStep, PlainLearner
from hocket.learn.reviews import EPISODES_PLAYED, LEAST_READY_MODEL_FREE, TeamReviews
from hocket.learn.settings import Settings, SimulatedSettings
from hocket.learn.testing import Recording
from hocket.learn.training import train_block
from hocket.random import TEAM, stream_key
from hocket.study.records import run_keys
from hocket.study.running import save_runs
from hocket.study.store import load_results
from hocket.task.teamwork.play import PlayedEpisodes
from hocket.task.teamwork.readiness import PRIOR_WEIGHT, Chances, Counts

SEED_BITS = 31  # of the seed of an environment: some accept no more
MOST_VALUES = 1_000_000  # of the joint actions of a team, in all states of its machine
NEEDS_VIEWS = "pass a view of each agent, hk.train(env, views={agent: env.individual(agent, ...)})"

Views = Mapping[str, IndividualView]
Numbers = defaultdict[Hashable, int]  # the number of each observation, in order of first occurrence


def train_world(
    env: WrappedTeam,
    learner: Learner,
    settings: Settings,
    seeds: Sequence[int],
    steps: int,
    views: Views | None = None,
    folder: str | Path | None = None,
    progress: Callable[[int], None] | None = None,
    stop: Event | None = None,
) -> list[Run]:
    """Train the agents of a wrapped environment, one seed after the other, with tests of the team. Finished runs are
    saved in the folder; seeds of which it has a run are left out."""
    if learner.plain is None:
        raise SettingsError(f"{learner.name} needs a task of hocket's own: {learner.needs}")
    checked = check_views(env, views, learner.policy_input is PolicyInput.MACHINE)
    player, runs = WrappedPlayer(env, learner, settings), list[Run]()
    if folder is not None and exists(Path(folder) / "runs"):
        kept, digest = {record.key for record in load_results(folder).records}, env.scene.digest
        keys = run_keys(digest, learner.name, seeds, steps, asdict(settings))
        seeds = [seed for seed in seeds if keys[seed] not in kept]
    for seed in seeds:
        if stop is not None and stop.is_set():
            break
        done = 0

        def report(chunk: int, _: Sequence[int]) -> None:
            nonlocal done
            done += chunk // len(env.machines)
            if progress is not None:
                progress(chunk)

        try:
            block, is_stopped = make_block(env, learner, settings, seed, checked), None if stop is None else stop.is_set
            tests, trained, seconds = train_block(learner, block, player, settings, [seed], steps, report, is_stopped)
        except HocketError as error:
            raise TrainingError(f"seed {seed}, training step {done + 1:,} or later: {error}", runs) from error
        arrays = {name: array.copy() for name, array in block.arrays(0).items()}
        policy = Policy(env.scene.task, env.scene.digest, learner.name, seed, asdict(settings), arrays, env)
        runs.append(Run(tests.of(0, settings.max_episode_steps), policy, settings, trained, seconds))
        if folder is not None and trained == steps:
            save_runs(env, runs[-1:], folder)
    return runs


def check_views(env: WrappedTeam, views: Views | None, is_alone: bool) -> Views:
    """Require discrete observations and actions, and for agents that train alone, a view of each."""
    if not is_alone and views is not None:
        raise SettingsError("views are for learners that train each agent alone")
    for agent in env.machines:
        require_discrete(agent, env.env.observation_space(agent), env.action_space(agent))
    if not is_alone:
        return {}
    checked = {agent: view_alone(env, agent) for agent in env.machines} if views is None else dict(views)
    for agent in (*checked, *env.machines):
        require_known(agent, env.machines, "agent")
        if agent not in checked:
            raise SettingsError(f"every agent needs a view, got none for {agent}")
        require_discrete(agent, checked[agent].env.observation_space, checked[agent].action_space)
    return checked


def make_block(env: WrappedTeam, learner: Learner, settings: Settings, seed: int, views: Views) -> Block:
    """Make the block of a learner in an environment."""
    make: Callable[..., PlainLearner] = learner.plain  # type: ignore[assignment]
    if learner.policy_input is PolicyInput.MACHINE:
        team = LoneAgents(env, make, cast("SimulatedSettings", settings), seed, views)
        is_reviewed = getattr(settings, "team_review", "off") != "off" and len(views) > 1
        return TeamReviews(team, team.first, team.waits, settings.max_episode_steps) if is_reviewed else team
    if learner.policy_input is PolicyInput.TEAM:
        joint = WrappedAsOne(env, seed, getattr(settings, "counterfactual", False))
        return TrainedTeam(make(joint, settings, seed), [joint.numbers], joint)
    team_steps = TeamSteps(env, seed)
    if learner.policy_input is PolicyInput.OPTION and not all(team_steps.memory.events):
        raise SettingsError(f"{learner.name} needs an event that each agent controls")
    return TrainedTeam(make(team_steps, settings, seed), team_steps.numbers, team_steps)


class TrainedTeam:
    """Agents that train together, and the numbers of the observations of each."""

    def __init__(
        self, learner: PlainLearner, numbers: Sequence[Numbers], world: TeamSteps | WrappedAsOne | None = None
    ) -> None:
        self.learner, self.numbers, self.world = learner, numbers, world

    def train(self, begin: int, steps: int) -> None:
        """Train; an episode that a test has interrupted begins anew."""
        if self.world is not None and self.world.env.episodes != self.world.begun:  # it was reset since
            self.learner.restart(begin)
        for t in range(begin, begin + steps):
            self.learner.train(t)

    def arrays(self, index: int) -> Arrays:
        """Make the arrays of a policy: what was learnt and the observations, by the index of the agent."""
        arrays: dict[str, Any] = {}
        for agent, keys in enumerate(self.numbers):  # a line of text each
            arrays[f"seen.{agent}"] = np.frombuffer("\n".join(map(key_text, keys)).encode(), np.uint8)
        for agent, learnt in enumerate(self.learner.learnt()):
            arrays |= {f"{name}.{agent}": array for name, array in learnt.items()}
        return arrays


class LoneAgents(TrainedTeam):
    """Agents that each train in an environment of their own, and can be played as a team."""

    def __init__(
        self, env: WrappedTeam, make: Callable[..., PlainLearner], settings: SimulatedSettings, seed: int, views: Views
    ) -> None:
        self.env, self.views, self.seed = env, [views[agent] for agent in env.machines], seed
        self.events = tuple(env.decomposition.machine.events)
        counterfactual = getattr(settings, "counterfactual", True)
        worlds = [ViewSteps(view, seed, agent, counterfactual) for agent, view in enumerate(self.views)]
        self.waits = np.zeros((len(worlds), max(world.states for world in worlds), len(self.events)), np.bool_)
        for agent, view in enumerate(self.views):
            for state, event in view.machine.transitions:
                self.waits[agent, view.machine.states.index(state), self.events.index(event)] = event in view.chances
        self.first: Chances = np.where(self.waits, settings.sync_probability, 1.0)
        for agent in range(len(worlds)):
            self.believe(agent, self.first)
        super().__init__(make(worlds, settings, seed), [world.numbers for world in worlds])

    def believe(self, agent: int, chances: Chances) -> None:
        """Simulate, from now on, teammates that are as ready as an agent believes."""
        states, pairs = self.views[agent].machine.states, np.argwhere(self.waits[agent]).tolist()
        believed = {(states.at(u), self.events[e]): float(chances[agent, u, e]) for u, e in pairs}
        self.views[agent].believe({pair: max(chance, LEAST_READY_MODEL_FREE) for pair, chance in believed.items()})

    def count(self, counts: Counts, before: Chances) -> Chances:
        """Estimate readiness from episodes; the belief before counts as a part of an observation."""
        estimate: Chances = (counts.happened + PRIOR_WEIGHT * before) / (counts.proposed + PRIOR_WEIGHT)
        return estimate

    def play(self, step: int, max_steps: int) -> PlayedEpisodes:
        """Play greedy episodes of the team in its environment, and count proposals and the events that happened."""
        team = TEAMS[PolicyInput.MACHINE](self.env, self.arrays(0), None)
        counts = Counts(*(np.zeros(self.waits.shape, np.int64) for _ in range(2)))
        episodes = [play_in(self.env, team, self.seed, -step - n, max_steps) for n in range(EPISODES_PLAYED)]
        for played in episodes:
            self._add(counts, played)
        steps = np.array([played.steps if played.success else -1 for played in episodes])
        returns = np.array([sum(played.returns) for played in episodes if played.returns])
        nothing, length = np.zeros(0, np.int64), np.array([played.steps for played in episodes])
        return PlayedEpisodes(steps, counts, nothing, nothing, length, returns)

    def _add(self, counts: Counts, played: PlayedEpisode) -> None:
        for states, proposals, events in zip(played.states, played.proposed, played.events, strict=False):
            for agent, (view, state) in enumerate(zip(self.views, states, strict=True)):
                u = view.machine.states.index(state)
                for e in np.flatnonzero(self.waits[agent, u]).tolist():
                    if self.events[e] in proposals[agent] or self.events[e] in view.told:
                        counts.proposed[agent, u, e] += 1
                        counts.happened[agent, u, e] += self.events[e] in events


class WrappedPlayer(Player):
    """Plays test episodes in a wrapped environment."""

    def __init__(self, env: WrappedTeam, learner: Learner, settings: Settings) -> None:
        self.env, self.settings, self.make = env, settings, TEAMS[learner.policy_input]
        self.events, agents = tuple(env.decomposition.machine.events), len(env.machines)
        self.finish, self.event_time = np.zeros(agents, np.int64), np.zeros(len(self.events), np.int64)
        self.returns = np.zeros(agents * (not env.decomposition.machine.has_completion_rewards))

    def play(self, arrays: Arrays, seed: int, number: int, greedy: bool, record: Recording) -> int:
        """Play an episode."""
        team = self.make(self.env, arrays, None if greedy else self.settings.temperature)
        played = play_in(self.env, team, seed, number, self.settings.max_episode_steps)
        self.finish[:], self.event_time[:] = played.finish, -1
        if played.returns:
            self.returns[:] = played.returns
        for step, events in reversed([*enumerate(played.events, start=1)]):
            for event in events:
                self.event_time[self.events.index(event)] = step
        return played.steps if played.success else -1


def play_in(env: WrappedTeam, team: LearntTeam, seed: int, number: int, max_steps: int) -> PlayedEpisode:
    """Play an episode of a seed with a trained team."""
    env_seed = seed_others(env, world_seed(seed, len(env.machines), number))
    team.restart(seed, number)
    return play_episode(env, team.actors, env_seed, max_steps=max_steps)


# Views that users do not pass: of the team's environment, in which the other agents act at random.


def view_alone(team: WrappedTeam, agent: str) -> IndividualView:
    """Make a view for an agent to train in, with a copy of the team's environment, and its labels."""
    try:
        if isinstance(team.env, SeparateWorlds):
            key = team.env.keys[agent]
            original: Any = deepcopy({key: team.original[key]})
            world = IndividualWorld(SeparateWorlds(original))
        else:
            env, original = deepcopy((team.env, team.original))
            world = IndividualWorld(env, agent)
    except Exception as error:
        raise SettingsError(f"{team.env} cannot be copied ({type(error).__name__}): {NEEDS_VIEWS}") from error
    initial = {name: machine.initial for name, machine in team.machines.items()}

    def label(step: IndividualStep) -> Proposed:
        states = {**initial, agent: step.state}
        answer = team.label(RawStep._make((step.time, *world.last, states, None, step.memory, original)))
        if not isinstance(answer, Mapping):
            raise SettingsError(f"labels must name the events that each agent proposes, by agent: {NEEDS_VIEWS}")
        return answer.get(agent)

    return team.individual(agent, world, label)


# Environments as learners' references take them, with numbered observations and actions.


def world_seed(seed: int, stream: int, number: int = 0) -> int:
    """Make the seed of an environment; few accept seeds as large as those of hocket."""
    return stream_key(TEAM, seed, stream, number) & ((1 << SEED_BITS) - 1)


def seed_others(env: WrappedTeam, seed: int) -> int:
    """Seed the random actions of agents outside the team; return the seed."""
    for index, agent in enumerate(env.possible_agents):
        if agent not in env.machines:
            env.action_space(agent).seed(seed + index)
    return seed


def require_discrete(agent: str, observations: spaces.Space[Any], actions: spaces.Space[Any]) -> None:
    """Refuse observations with real numbers, which hardly ever recur, and actions that are not discrete."""
    if _has_reals(observations):
        raise SettingsError(
            f"a table of values needs observations that recur, got {observations!r:.80} for {agent}: make them "
            "discrete, as gymnasium.wrappers.TransformObservation can"
        )
    if not isinstance(actions, spaces.Discrete):
        raise SettingsError(f"a table of values needs Discrete actions, got {actions!r:.80} for {agent}")


def _has_reals(space: spaces.Space[Any]) -> bool:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return any(map(_has_reals, space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces))
    return isinstance(space, spaces.Box) and space.dtype is not None and space.dtype.kind == "f"


class ViewSteps:
    """An agent's view of an environment, in the form that learners take (`hocket.learn.reference.SteppedWorld`)."""

    def __init__(self, view: IndividualView, seed: int, agent: int, counterfactuals: bool) -> None:
        acts, machine = cast("spaces.Discrete", view.action_space), view.machine
        self.view, self.agent, self.actions, self._first = view, agent, int(acts.n), int(acts.start)
        self.states, self.final = len(machine.states), frozenset(np.flatnonzero(machine.ends).tolist())
        self.numbers, self._seed = Numbers(count().__next__), world_seed(seed, agent)
        view.counterfactuals = counterfactuals

    @property
    def observations(self) -> int:
        """The number of different observations so far."""
        return len(self.numbers)

    def reset(self, t: int) -> tuple[int, int]:
        """Begin an episode; the first one has a seed."""
        self.view.reset(seed=None if t else self._seed)
        return self._now()

    def _now(self) -> tuple[int, int]:
        return self.numbers[observation_key(self.view.seen)], self.view.machine.states.index(self.view.state)

    def step(self, s: int, u: int, a: int, t: int, counterfactual: bool) -> tuple[list[Experience], bool]:
        """Act; the view also returns the outcomes in other states."""
        _, reward, terminated, truncated, info = self.view.step(self._first + a)
        s_next, u_next = self._now()
        experiences = [Experience(u, s_next, u_next, reward, terminated)]
        if counterfactual:
            others = info["counterfactuals"]
            columns = (others.state, others.next_state, others.reward, others.terminated)
            for v, v_next, r, is_end in zip(*(column.tolist() for column in columns), strict=True):
                experiences.append(Experience(v, s_next, v_next, r, is_end))
        return experiences, terminated or truncated


class _Episodes(TeamActions):
    """Training episodes of a team in its environment, in which tests are played, too."""

    def __init__(self, env: WrappedTeam, seed: int) -> None:
        super().__init__(env)
        self._seed, self._number, self.begun = seed, -1, -1

    def reset(self, t: int) -> Any:  # noqa: ANN401 (of one, or of each)
        """Begin the next episode; each has another seed."""
        self._number += 1
        self.env.reset(seed=seed_others(self.env, world_seed(self._seed, len(self.names) + 1, self._number)))
        self.begun = self.env.episodes
        return self._now()

    def _now(self) -> Any:  # noqa: ANN401
        """Return the number of the present observation, and that of the machine state or the memory."""
        raise NotImplementedError

    def act(self, actions: Sequence[int]) -> tuple[float, bool, bool]:
        """Let all present agents act; return the team's reward, whether no more can follow, and whether all is over."""
        _, rewards, terminated, _, _ = self.env.step(self.actions_by_agent(actions))
        team = [agent for agent in self.names if agent in rewards]
        is_over = not any(agent in self.env.agents for agent in self.names)
        is_end = self.env.completed or (is_over and all(terminated[agent] for agent in team))
        return float(rewards[team[0]]), is_end, is_over


class TeamSteps(_Episodes):
    """A wrapped environment as a team that steps (`hocket.learn.reference.SteppedTeam`)."""

    def __init__(self, env: WrappedTeam, seed: int) -> None:
        super().__init__(env, seed)
        memory = self.memory = TeamMemory(env)
        self.actions, self.memories, self.options = self.action_counts, memory.memory_count, memory.option_count
        self.available, self.reached = memory.available, memory.terminated_options
        self.numbers = [Numbers(count().__next__) for _ in self.names]

    @property
    def observations(self) -> Sequence[int]:
        """The number of different observations of each agent so far."""
        return list(map(len, self.numbers))

    def _now(self) -> list[tuple[int, int]]:
        keys = [observation_key(self.env.seen.get(name)) for name in self.names]
        return [(self.numbers[agent][key], self.memory.memory_number(agent)) for agent, key in enumerate(keys)]

    def step(self, actions: Sequence[int]) -> JointStep:
        """Let all agents act."""
        reward, is_end, is_over = self.act(actions)
        return JointStep(self._now(), reward, is_end, is_over)


class WrappedAsOne(_Episodes):
    """A wrapped environment in which all agents act as one (`hocket.learn.reference.SteppedWorld`)."""

    agent = 0

    def __init__(self, env: WrappedTeam, seed: int, counterfactuals: bool) -> None:
        super().__init__(env, seed)
        self.team, self.numbers, self.actions = TeamStates(env), Numbers(count().__next__), prod(self.action_counts)
        self.states, self.final = len(self.team.states), self.team.final
        if self.actions * self.states > MOST_VALUES:
            each = f"{self.actions:,} joint actions in {self.states:,} states of the team machine"
            raise SettingsError(f"agents as one would have too many values for each observation: {each}")
        env.counterfactuals = counterfactuals

    @property
    def observations(self) -> int:
        """The number of different observations so far."""
        return len(self.numbers)

    def _now(self) -> tuple[int, int]:
        key, state = self.team.current_key_and_state()
        return self.numbers[key], state

    def step(self, s: int, u: int, a: int, t: int, counterfactual: bool) -> tuple[list[Experience], bool]:
        """Let all agents act, also with the outcomes in other team states."""
        reward, is_end, is_over = self.act([int(part) for part in np.unravel_index(a, self.action_counts)])
        s_next, u_next = self._now()
        experiences = [Experience(u, s_next, u_next, reward, is_end)]
        is_lost = is_end and not self.env.completed  # the environment has ended the episode
        for v in range(self.states) if counterfactual else ():
            if v != u and v not in self.final:
                after, r = self.env.counterfactual(self.team.states[v], self.team.local[self.team.states[v]])
                v_next = self.team.index_of[after]
                experiences.append(Experience(v, s_next, v_next, r, is_lost or v_next in self.final))
        return experiences, is_over
