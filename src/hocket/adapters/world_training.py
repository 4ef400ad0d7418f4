"""Tabular learning in worlds that others wrote, by the learners' plain forms, as fast as the world.

Agents with machines of their own train alone with simulated teammates, and then find out in team episodes, which are
played in the world and count as training steps, how ready their teammates really are (`hocket.learn.reviews`). Other
learners train in the team's world.
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
from hocket.adapters.policies import (
    TEAMS,
    ActingTeam,
    LearntTeam,
    PlayedEpisode,
    TeamMemory,
    TeamStates,
    play_episode,
    team_key,
)
from hocket.adapters.wrap import IndividualView, WrappedTeam
from hocket.errors import HocketError, SettingsError, TrainingError, require_known
from hocket.files import exists
from hocket.learn.actors import key_text, observation_key
from hocket.learn.learner import Arrays, Block, Learner, Player, PolicyInput
from hocket.learn.policies import Policy, Run
from hocket.learn.reference import Experience, JointStep, PlainLearner
from hocket.learn.reviews import EPISODES_PLAYED, TeamReviews
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
MOST_VALUES = 1_000_000  # of the actions of a team that acts as one, in all states of its machine
LEAST_READINESS = 0.002  # of simulated teammates, however seldom they are ready
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
    """Train the agents of a wrapped world, a seed after the other, testing the team every so often.

    What is finished is kept in the folder; seeds that are there are left out.
    """
    if learner.plain is None:
        raise SettingsError(f"{learner.name} needs a task of hocket's own: {learner.needs}")
    given = check_views(env, views, learner.policy_input is PolicyInput.MACHINE)
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
            block = make_block(env, learner, settings, seed, given)
            stopped = None if stop is None else stop.is_set
            tests, trained, seconds = train_block(learner, block, player, settings, [seed], steps, report, stopped)
        except HocketError as error:
            raise TrainingError(f"seed {seed}, training step {done + 1:,} or later: {error}", runs) from error
        arrays = {name: array.copy() for name, array in block.arrays(0).items()}
        policy = Policy(env.scene.task, env.scene.digest, learner.name, seed, asdict(settings), arrays, env)
        runs.append(Run(tests.of(0, settings.max_episode_steps), policy, settings, trained, seconds))
        if folder is not None and trained == steps:
            save_runs(env, runs[-1:], folder)
    return runs


def check_views(env: WrappedTeam, views: Views | None, is_alone: bool) -> Views:
    """Require that what agents see and do can be numbered, and where they train alone, a view for each."""
    if not is_alone and views is not None:
        raise SettingsError("views are for learners that train each agent alone")
    for agent in env.machines:
        require_discrete(agent, env.env.observation_space(agent), env.action_space(agent))
    if not is_alone:
        return {}
    given = {agent: view_alone(env, agent) for agent in env.machines} if views is None else dict(views)
    for agent in (*given, *env.machines):
        require_known(agent, env.machines, "agent")
        if agent not in given:
            raise SettingsError(f"every agent needs a view, got none for {agent}")
        require_discrete(agent, given[agent].env.observation_space, given[agent].action_space)
    return given


def make_block(env: WrappedTeam, learner: Learner, settings: Settings, seed: int, views: Views) -> Block:
    """Put a learner into a world."""
    make: Callable[..., PlainLearner] = learner.plain  # type: ignore[assignment]
    if learner.policy_input is PolicyInput.MACHINE:
        team = LoneAgents(env, make, cast("SimulatedSettings", settings), seed, views)
        is_reviewed = getattr(settings, "team_review", "off") != "off" and len(views) > 1
        return TeamReviews(team, team.first, team.waits, settings.max_episode_steps) if is_reviewed else team
    if learner.policy_input is PolicyInput.TEAM:
        one = WrappedAsOne(env, seed, getattr(settings, "counterfactual", False))
        return TrainedTeam(make(one, settings, seed), [one.seen], one)
    together = TeamSteps(env, seed)
    if learner.policy_input is PolicyInput.OPTION and not all(together.memory.events):
        raise SettingsError(f"{learner.name} needs an event that each agent controls")
    return TrainedTeam(make(together, settings, seed), together.seen, together)


class TrainedTeam:
    """Agents that train together, and what each has seen."""

    def __init__(
        self, learner: PlainLearner, seen: Sequence[Numbers], world: TeamSteps | WrappedAsOne | None = None
    ) -> None:
        self.learner, self.seen, self.world = learner, seen, world

    def train(self, begin: int, steps: int) -> None:
        """Train; an episode that a test has broken off in the team's world is begun anew."""
        if self.world is not None and self.world.env.episodes != self.world.begun:  # others have reset it since
            self.learner.restart(begin)
        for t in range(begin, begin + steps):
            self.learner.train(t)

    def arrays(self, index: int) -> Arrays:
        """Lay out what was learnt, and what was seen, by the index of the agent, as in a policy."""
        arrays: dict[str, Any] = {}
        for place, keys in enumerate(self.seen):  # a line of text each
            arrays[f"seen.{place}"] = np.frombuffer("\n".join(map(key_text, keys)).encode(), np.uint8)
        for place, learnt in enumerate(self.learner.learnt()):
            arrays |= {f"{name}.{place}": array for name, array in learnt.items()}
        return arrays


class LoneAgents(TrainedTeam):
    """Agents that train each in a world of its own, and can be played as a team."""

    def __init__(
        self, env: WrappedTeam, make: Callable[..., PlainLearner], settings: SimulatedSettings, seed: int, views: Views
    ) -> None:
        self.env, self.views, self.seed = env, [views[agent] for agent in env.machines], seed
        self.events = tuple(env.decomposition.machine.events)
        counterfactual = getattr(settings, "counterfactual", True)
        self.worlds = [ViewSteps(view, seed, place, counterfactual) for place, view in enumerate(self.views)]
        shape = (len(self.views), max(world.states for world in self.worlds), len(self.events))
        self.waits = np.zeros(shape, np.bool_)
        for place, view in enumerate(self.views):
            for state, event in view.machine.transitions:
                self.waits[place, view.machine.states.index(state), self.events.index(event)] = event in view.chances
        self.first: Chances = np.where(self.waits, settings.sync_probability, 1.0)
        for place in range(len(self.views)):
            self.believe(place, self.first)
        super().__init__(make(self.worlds, settings, seed), [world.seen for world in self.worlds])

    def believe(self, agent: int, chances: Chances) -> None:
        """Simulate teammates that are as ready as an agent believes from now on."""
        states, pairs = self.views[agent].machine.states, np.argwhere(self.waits[agent]).tolist()
        believed = {(states.at(u), self.events[e]): float(chances[agent, u, e]) for u, e in pairs}
        self.views[agent].believe({pair: max(chance, LEAST_READINESS) for pair, chance in believed.items()})

    def count(self, counts: Counts, before: Chances) -> Chances:
        """Estimate readiness from episodes; what was believed before counts as a part of an observation."""
        estimate: Chances = (counts.happened + PRIOR_WEIGHT * before) / (counts.proposed + PRIOR_WEIGHT)
        return estimate

    def play(self, step: int, max_steps: int) -> PlayedEpisodes:
        """Play greedy episodes of the team in its world, and count what agents propose and what happens of it."""
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
            for place, (view, state) in enumerate(zip(self.views, states, strict=True)):
                u = view.machine.states.index(state)
                for e in np.flatnonzero(self.waits[place, u]).tolist():
                    if self.events[e] in proposals[place] or self.events[e] in view.told:
                        counts.proposed[place, u, e] += 1
                        counts.happened[place, u, e] += self.events[e] in events


class WrappedPlayer(Player):
    """Plays test episodes in a wrapped world."""

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
    """Play an episode of a seed, of what was learnt."""
    drawn = seed_others(env, world_seed(seed, len(env.machines), number))
    team.restart(seed, number)
    return play_episode(env, team.actors, drawn, max_steps=max_steps)


# A view for one agent, where nobody has made one: of the team's own world, in which the others act at random.


def view_alone(team: WrappedTeam, agent: str) -> IndividualView:
    """Make a view for an agent to train in, of the team's own world and labels."""
    try:
        if isinstance(team.env, SeparateWorlds):
            key = team.env.keys[agent]
            given: Any = deepcopy({key: team.given[key]})
            world = IndividualWorld(SeparateWorlds(given))
        else:
            env, given = deepcopy((team.env, team.given))
            world = IndividualWorld(env, agent)
    except Exception as error:
        raise SettingsError(f"{team.env} cannot be copied ({type(error).__name__}): {NEEDS_VIEWS}") from error
    initial = {name: machine.initial for name, machine in team.machines.items()}

    def label(step: IndividualStep) -> Proposed:
        states = {**initial, agent: step.state}
        answer = team.label(RawStep._make((step.time, *world.last, states, None, step.memory, given)))
        if not isinstance(answer, Mapping):
            raise SettingsError(f"labels must say what each agent proposes, not what happens to all: {NEEDS_VIEWS}")
        return answer.get(agent)

    return team.individual(agent, world, label)


# Environments as plain learners take them, with numbered observations and actions.


def world_seed(seed: int, place: int, number: int = 0) -> int:
    """Make the seed of an environment; few accept seeds as large as those of hocket."""
    return stream_key(TEAM, seed, place, number) & ((1 << SEED_BITS) - 1)


def seed_others(env: WrappedTeam, seed: int) -> int:
    """Seed the random actions of agents outside the team; return the seed."""
    for place, agent in enumerate(env.possible_agents):
        if agent not in env.machines:
            env.action_space(agent).seed(seed + place)
    return seed


def require_discrete(agent: str, seen: spaces.Space[Any], acts: spaces.Space[Any]) -> None:
    """Refuse observations with real numbers, which hardly ever recur, and actions that are not discrete."""
    if _has_reals(seen):
        raise SettingsError(
            f"a table of values needs observations that come again, got {seen!r:.80} for {agent}: make them discrete, "
            "as gymnasium.wrappers.TransformObservation can"
        )
    if not isinstance(acts, spaces.Discrete):
        raise SettingsError(f"a table of values needs Discrete actions, got {acts!r:.80} for {agent}")


def _has_reals(space: spaces.Space[Any]) -> bool:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return any(map(_has_reals, space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces))
    return isinstance(space, spaces.Box) and space.dtype is not None and space.dtype.kind == "f"


class ViewSteps:
    """An agent's view of an environment, in the form that learners take (`hocket.learn.reference.SteppedWorld`)."""

    def __init__(self, view: IndividualView, seed: int, place: int, counterfactuals: bool) -> None:
        acts, machine = cast("spaces.Discrete", view.action_space), view.machine
        self.view, self.agent, self.actions, self._first = view, place, int(acts.n), int(acts.start)
        self.states, self.final = len(machine.states), frozenset(np.flatnonzero(machine.ends).tolist())
        self.seen, self._seed = Numbers(count().__next__), world_seed(seed, place)
        view.counterfactuals = counterfactuals

    @property
    def observations(self) -> int:
        """The number of different observations so far."""
        return len(self.seen)

    def reset(self, t: int) -> tuple[int, int]:
        """Begin an episode; the first one has a seed."""
        self.view.reset(seed=None if t else self._seed)
        return self._now()

    def _now(self) -> tuple[int, int]:
        return self.seen[observation_key(self.view.seen)], self.view.machine.states.index(self.view.state)

    def step(self, s: int, u: int, a: int, t: int, counterfactual: bool) -> tuple[list[Experience], bool]:
        """Act; the view tells what the step would have been in other states."""
        _, reward, terminated, truncated, info = self.view.step(self._first + a)
        s_next, u_next = self._now()
        experiences = [Experience(u, s_next, u_next, reward, terminated)]
        if counterfactual:
            others = info["counterfactuals"]
            columns = (others.state, others.next_state, others.reward, others.terminated)
            for state, after, paid, is_end in zip(*(column.tolist() for column in columns), strict=True):
                experiences.append(Experience(state, s_next, after, paid, is_end))
        return experiences, terminated or truncated


class _Episodes(ActingTeam):
    """Training episodes of a team in its world, in which tests are played, too."""

    def __init__(self, env: WrappedTeam, seed: int) -> None:
        super().__init__(env)
        self._seed, self._number, self.begun = seed, -1, -1

    def reset(self, t: int) -> Any:  # noqa: ANN401 (of one, or of each)
        """Begin the next episode; each has a seed of its own."""
        self._number += 1
        self.env.reset(seed=seed_others(self.env, world_seed(self._seed, len(self.names) + 1, self._number)))
        self.begun = self.env.episodes
        return self._now()

    def _now(self) -> Any:  # noqa: ANN401
        """Number the present observation, with the machine state or the memory."""
        raise NotImplementedError

    def act(self, actions: Sequence[int]) -> tuple[float, bool, bool]:
        """Let all present agents act; return the team's reward, whether no more can follow, and whether all is over."""
        _, rewards, terminated, _, _ = self.env.step(self.name_actions(actions))
        team = [agent for agent in self.names if agent in rewards]
        is_over = not any(agent in self.env.agents for agent in self.names)
        is_end = self.env.completed or (is_over and all(terminated[agent] for agent in team))
        return float(rewards[team[0]]), is_end, is_over


class TeamSteps(_Episodes):
    """A wrapped world as a team that steps (`hocket.learn.reference.SteppedTeam`)."""

    def __init__(self, env: WrappedTeam, seed: int) -> None:
        super().__init__(env, seed)
        self.memory = TeamMemory(env)
        self.actions, self.memories, self.options = self.each, self.memory.memories, self.memory.options
        self.available, self.reached = self.memory.available, self.memory.reached
        self.seen = [Numbers(count().__next__) for _ in self.names]

    @property
    def observations(self) -> Sequence[int]:
        """The number of different observations of each agent so far."""
        return [len(seen) for seen in self.seen]

    def _now(self) -> list[tuple[int, int]]:
        keys = [observation_key(self.env.seen.get(name)) for name in self.names]
        return [(self.seen[agent][key], self.memory.of(agent)) for agent, key in enumerate(keys)]

    def step(self, actions: Sequence[int]) -> JointStep:
        """Let all agents act."""
        reward, is_end, is_over = self.act(actions)
        return JointStep(self._now(), reward, is_end, is_over)


class WrappedAsOne(_Episodes):
    """A wrapped world in which all agents act as one (`hocket.learn.reference.SteppedWorld`)."""

    agent = 0

    def __init__(self, env: WrappedTeam, seed: int, counterfactuals: bool) -> None:
        super().__init__(env, seed)
        self.team, self.seen, self.actions = TeamStates(env), Numbers(count().__next__), prod(self.each)
        self.states, self.final = len(self.team.states), self.team.final
        if self.actions * self.states > MOST_VALUES:
            each = f"{self.actions:,} joint actions in {self.states:,} states of the team machine"
            raise SettingsError(f"agents as one would have too many values for each observation: {each}")
        env.counterfactuals = counterfactuals

    @property
    def observations(self) -> int:
        """The number of different observations so far."""
        return len(self.seen)

    def _now(self) -> tuple[int, int]:
        return self.seen[team_key(self.env)], self.team.number[self.env.team_state]

    def step(self, s: int, u: int, a: int, t: int, counterfactual: bool) -> tuple[list[Experience], bool]:
        """Let all agents act; the labelling function says what the step would have been in other team states."""
        reward, is_end, is_over = self.act([int(part) for part in np.unravel_index(a, self.each)])
        s_next, u_next = self._now()
        experiences = [Experience(u, s_next, u_next, reward, is_end)]
        is_lost = is_end and not self.env.completed  # the world has ended
        for other in range(self.states) if counterfactual else ():
            if other != u and other not in self.final:
                after, paid = self.env.imagine(self.team.states[other], self.team.local[self.team.states[other]])
                v_next = self.team.number[after]
                experiences.append(Experience(other, s_next, v_next, paid, is_lost or v_next in self.final))
        return experiences, is_over
