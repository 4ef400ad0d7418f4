"""Tabular learning in worlds that others wrote, by the learners' plain forms, as fast as the world.

Agents with machines of their own train alone with simulated teammates, and then find out in team episodes, which are
played in the world and count as training steps, how ready their teammates really are (`hocket.learn.reviews`). Other
learners train in the team's world.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np

from hocket.adapters.convert import IndividualWorld, SeparateWorlds
from hocket.adapters.events import IndividualStep, Proposed, RawStep
from hocket.adapters.policies import PlayedEpisode, play_episode
from hocket.adapters.world_steps import (
    TEAMS,
    LearntTeam,
    Numbers,
    TeamSteps,
    ViewSteps,
    WrappedAsOne,
    arrays_of,
    require_discrete,
    seed_others,
    world_seed,
)
from hocket.adapters.wrap_individual import IndividualView
from hocket.adapters.wrap_team import WrappedTeam
from hocket.errors import HocketError, SettingsError, TrainingError, require_known
from hocket.files import exists
from hocket.learn.batches import StopSignal
from hocket.learn.learner import Arrays, Block, Learner, Player, PolicyInput
from hocket.learn.policies import Policy, Run
from hocket.learn.reference import PlainLearner
from hocket.learn.reviews import EPISODES_PLAYED, TeamReviews
from hocket.learn.settings import Settings, SimulatedSettings
from hocket.learn.testing import Recording
from hocket.learn.training import train_block
from hocket.study.records import run_keys
from hocket.study.running import save_runs
from hocket.study.store import load_results
from hocket.task.teamwork.play import PlayedEpisodes
from hocket.task.teamwork.readiness import PRIOR_WEIGHT, Chances, Counts

LEAST_READINESS = 0.002  # of simulated teammates, however seldom they are ready
NEEDS_VIEWS = "pass a view of each agent, hk.train(env, views={agent: env.individual(agent, ...)})"

Views = Mapping[str, IndividualView]


def train_world(
    env: WrappedTeam,
    learner: Learner,
    settings: Settings,
    seeds: Sequence[int],
    steps: int,
    views: Views | None = None,
    folder: str | Path | None = None,
    progress: Callable[[int], None] | None = None,
    stop: StopSignal | None = None,
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
            trained = train_block(block, player, settings, [seed], steps, len(env.machines), report, stop)
        except HocketError as error:
            raise TrainingError(f"seed {seed}, training step {done + 1:,} or later: {error}", runs) from error
        arrays = {name: array.copy() for name, array in block.arrays(0).items()}
        policy = Policy(env.scene.task, env.scene.digest, learner.name, seed, asdict(settings), arrays, env)
        tests = trained.tests.of(0, settings.max_episode_steps)
        runs.append(Run(tests, policy, settings, trained.steps, trained.seconds))
        if folder is not None and trained.steps == steps:
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
        if self.world is not None and self.world.is_broken_off:
            self.learner.restart(begin)
        for t in range(begin, begin + steps):
            self.learner.train(t)

    def arrays(self, index: int) -> Arrays:
        """Lay out what was learnt, and what was seen."""
        return arrays_of(self.learner, self.seen)


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
