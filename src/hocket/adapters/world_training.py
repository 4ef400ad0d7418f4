"""Tabular learning in worlds that others wrote: each agent alone with simulated teammates, then as a team.

The learner is DQPRM, in plain Python, as fast as the world. Its agents believe that teammates are ready as often as the
settings say; in team episodes, which are played in the world and count as training steps, they find out how often that
is true (`team_review="world"`, as in `hocket.learn.reviews`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple, cast

from gymnasium import spaces

from hocket.adapters.convert import Action, IndividualWorld, SeparateWorlds
from hocket.adapters.events import IndividualStep, Proposed, RawStep
from hocket.adapters.q_tables import QTable, TableActor, choose, observation_key, read_tables, require_discrete
from hocket.adapters.wrap_individual import IndividualView
from hocket.adapters.wrap_team import WrappedTeam
from hocket.errors import HocketError, SettingsError, TrainingError, require_known
from hocket.learn.batches import StopSignal
from hocket.learn.dqprm import LEARNER, DqprmSettings
from hocket.learn.policies import Policy, Run
from hocket.learn.reviews import EPISODES_PLAYED, LEAST_CHANGE, SHARE_PLAYED, next_review
from hocket.learn.testing import TestLog, TestResults, make_results
from hocket.random import TEAM, TRAINING, action_draw, stream_key
from hocket.task.teamwork.readiness import PRIOR_WEIGHT

LEAST_READINESS = 0.002  # of simulated teammates, however seldom they are ready
SEED_BITS = 31  # of the seed of a world: some take no more
NEEDS_VIEWS = "pass a view of each agent, hk.train(env, views={agent: env.individual(agent, ...)})"
PIECE = 1_000  # steps after which a wish to stop is heard

Belief = tuple[str, str]  # a state of the agent's machine, and an event


def train_world(
    env: WrappedTeam,
    settings: DqprmSettings,
    seeds: Sequence[int],
    steps: int,
    views: Mapping[str, IndividualView] | None = None,
    progress: Callable[[int], None] | None = None,
    stop: StopSignal | None = None,
) -> list[Run]:
    """Train the agents of a wrapped world, a seed after the other, testing the team every so often."""
    given = {agent: view_alone(env, agent) for agent in env.machines} if views is None else dict(views)
    for agent in (*given, *env.machines):
        require_known(agent, env.machines, "agent")
        if agent not in given:
            raise SettingsError(f"every agent needs a view, got none for {agent}")
        require_discrete(agent, given[agent].env.observation_space, env.action_space(agent))
    runs: list[Run] = []
    for seed in seeds:
        if stop is not None and stop.is_set():
            break
        training = _Training(env, given, settings, seed, steps)
        try:
            training.train(progress, stop)
        except HocketError as error:
            said = f"seed {seed}, training step {training.done + 1:,} or later: {error}"
            raise TrainingError(said, runs) from error
        runs.append(training.run())
    return runs


class LearningAgent:
    """An agent that learns in a world of its own, with simulated teammates."""

    def __init__(self, view: IndividualView, settings: DqprmSettings, seed: int, place: int) -> None:
        self.view, self.settings = view, settings
        acts = cast("spaces.Discrete", view.action_space)
        self.first = int(acts.start)
        self.table = QTable(int(acts.n), len(view.machine.states))
        self.key, self.steps_left = stream_key(TRAINING, seed, place), 0
        view.counterfactuals = settings.counterfactual
        chance = settings.sync_probability
        self.beliefs: dict[Belief, float] = {
            pair: chance for pair in view.machine.transitions if pair[1] in view.chances
        }
        self.believe(self.beliefs)
        view.reset(seed=world_seed(seed, place))

    def believe(self, beliefs: Mapping[Belief, float]) -> None:
        """Simulate teammates that are as ready as it believes from now on."""
        self.beliefs = dict(beliefs)
        self.view.believe({pair: max(chance, LEAST_READINESS) for pair, chance in beliefs.items()})

    def train(self, begin: int, steps: int) -> None:
        """Act and learn; a step updates the values of all machine states where it is counterfactual."""
        view, table, settings, number = self.view, self.table, self.settings, self.view.machine.states.index
        for t in range(begin, begin + steps):
            if not self.steps_left:
                view.reset()
                self.steps_left = settings.max_episode_steps
            row, state = table.row(observation_key(view.seen)), number(view.state)
            beta = (1 + settings.temperature_decay * t) / settings.temperature
            action = choose(row[state], beta, action_draw(self.key, t))
            _, reward, terminated, truncated, info = view.step(self.first + action)
            after = table.row(observation_key(view.seen))
            lessons = [(state, number(view.state), reward, terminated)]
            if settings.counterfactual:
                others = info["counterfactuals"]
                columns = (others.state, others.next_state, others.reward, others.terminated)
                lessons += zip(*(column.tolist() for column in columns), strict=True)
            rate = settings.learning_rate / (1 + settings.learning_rate_decay * t)
            targets = [paid if over else paid + settings.discount * max(after[to]) for _, to, paid, over in lessons]
            for (start, *_), target in zip(lessons, targets, strict=True):
                row[start][action] += rate * (target - row[start][action])
            self.steps_left = 0 if terminated or truncated else self.steps_left - 1


class Played(NamedTuple):
    """A team episode, and what came of what agents proposed in it."""

    steps: int  # or -1 where the task was not completed
    length: int
    finish: list[int]  # when each agent's machine was first final; -1: never
    event_time: list[int]  # when each event first happened; -1: never
    returns: list[float]  # what each agent's machine paid; none, where only completion pays
    proposed: Counter[tuple[str, Belief]]  # by agent: steps in which it was ready for an event that waits for others
    happened: Counter[tuple[str, Belief]]


class _Training:
    """A seed: its agents, their tests, and what they find out about each other."""

    def __init__(
        self, env: WrappedTeam, views: Mapping[str, IndividualView], settings: DqprmSettings, seed: int, steps: int
    ) -> None:
        self.env, self.views, self.settings, self.seed, self.steps = env, views, settings, seed, steps
        self.agents = {
            agent: LearningAgent(views[agent], settings, seed, place) for place, agent in enumerate(env.machines)
        }
        self.first = {agent: dict(learning.beliefs) for agent, learning in self.agents.items()}
        self.events = tuple(env.decomposition.machine.events)
        self.paid = len(self.agents) * (not env.decomposition.machine.has_completion_rewards)
        self.tests = TestLog(settings, steps, 1, len(self.agents), len(self.events), self.paid)
        self.done = self.turn = self.played_until = 0
        self.seconds, self.episodes = 0.0, 0

    def train(self, progress: Callable[[int], None] | None, stop: StopSignal | None) -> None:
        begun = time.perf_counter()
        every, is_reviewed = self.settings.test_every, self.settings.team_review != "off" and len(self.agents) > 1
        while self.done < self.steps and not (stop is not None and stop.is_set()):
            piece = min(every - self.done % every, self.steps - self.done, next_review(self.done) - self.done, PIECE)
            begin, until = max(self.done, self.played_until), self.done + piece
            for agent in self.agents.values():
                agent.train(begin, max(0, until - begin))
            if is_reviewed and until == next_review(self.done) and until < self.steps:
                self.played_until = until + self._review(until)
            self.done = until
            if self.done % every == 0:
                self.tests.add(self._test)
            if progress is not None:
                progress(piece * len(self.agents))
        self.seconds = time.perf_counter() - begun

    def run(self) -> Run:
        """Sum up what was tested and learnt."""
        scene, settings = self.env.scene, self.settings
        learnt = {k: v for place, a in enumerate(self.agents.values()) for k, v in a.table.arrays(place).items()}
        policy = Policy(scene.task, scene.digest, LEARNER.name, self.seed, asdict(settings), learnt)
        return Run(self.tests.of(0, settings.max_episode_steps), policy, settings, self.done, self.seconds)

    def _test(self, numbers: range, greedy: bool) -> TestResults:
        results = make_results(len(numbers), len(self.agents), len(self.events), self.paid)
        for index, number in enumerate(numbers):
            played = self._play(number, greedy, self.settings.max_episode_steps)
            results.steps[index], results.finish[index] = played.steps, played.finish
            results.event_time[index], results.returns[index] = played.event_time, played.returns
        return results

    def _review(self, step: int) -> int:
        """Play the team, and let agents believe what they see; return the steps that were played.

        As in `hocket.learn.reviews`: if the team fails, one agent at a time changes its mind; if it succeeds, all
        expect the more what has happened, and nobody expects less.
        """
        most = max(1, min(self.settings.max_episode_steps, step // SHARE_PLAYED // EPISODES_PLAYED))
        played = [self._play(-1 - self.episodes - number, True, most) for number in range(EPISODES_PLAYED)]
        self.episodes += EPISODES_PLAYED
        succeeds = not self.paid and all(episode.steps >= 0 for episode in played)
        proposed = sum((episode.proposed for episode in played), Counter())
        happened = sum((episode.happened for episode in played), Counter())
        names = list(self.agents)
        in_turn = [names[(place + self.turn) % len(names)] for place in range(len(names))]
        for agent in in_turn:
            now, learning = dict[Belief, float](), self.agents[agent]
            for pair, chance in learning.beliefs.items():
                prior = chance if succeeds else self.first[agent][pair]
                counted = (happened[agent, pair] + PRIOR_WEIGHT * prior) / (proposed[agent, pair] + PRIOR_WEIGHT)
                now[pair] = max(chance, counted) if succeeds else counted
            if any(abs(now[pair] - chance) > LEAST_CHANGE for pair, chance in learning.beliefs.items()):
                learning.believe(now)
                if not succeeds:
                    self.turn = names.index(agent) + 1
                    break
        return sum(episode.length for episode in played)

    def _play(self, number: int, greedy: bool, max_steps: int) -> Played:
        """Play an episode of the team with what it has learnt so far."""
        env, events = self.env, self.events
        seed = world_seed(self.seed, len(self.agents), number)
        key, beta, draws = stream_key(TEAM, self.seed, 0, number), None if greedy else 1 / self.settings.temperature, 0
        env.reset(seed=seed)
        for other in env.possible_agents:
            env.action_space(other).seed(seed)
        proposed, happened = Counter[tuple[str, Belief]](), Counter[tuple[str, Belief]]()
        finish, event_time, length = [-1] * len(self.agents), [-1] * len(events), 0
        final = {agent: machine.final for agent, machine in env.machines.items()}
        traces: list[list[str]] = [[] for _ in self.agents]
        finish = [0 if env.states[agent] in final[agent] else -1 for agent in self.agents]
        while env.agents and not env.completed and length < max_steps:
            before, actions = dict(env.states), {}
            for agent in env.agents:
                actions[agent] = env.action_space(agent).sample()
                if agent in self.agents:
                    row = self.agents[agent].table.row(observation_key(env.seen[agent]))
                    number_of = env.machines[agent].states.index(before[agent])
                    actions[agent] = self.agents[agent].first + choose(row[number_of], beta, action_draw(key, draws))
                    draws += 1
            *_, infos = env.step(actions)
            length += 1
            for place, (agent, learning) in enumerate(self.agents.items()):
                told, ready = infos.get(agent, {}).get("events", ()), infos.get(agent, {}).get("proposed", ())
                for pair in learning.beliefs:
                    if pair[0] == before[agent] and (pair[1] in ready or pair[1] in learning.view.told):
                        proposed[agent, pair] += 1
                        happened[agent, pair] += pair[1] in told
                traces[place] += told
                for event in told:
                    if event_time[events.index(event)] < 0:
                        event_time[events.index(event)] = length
                if finish[place] < 0 and env.states[agent] in final[agent]:
                    finish[place] = length
        runs = zip(env.machines.values(), traces[: self.paid], strict=False)
        returns = [machine.run(trace, undefined="stay").reward for machine, trace in runs]
        return Played(length if env.completed else -1, length, finish, event_time, returns, proposed, happened)


def world_seed(seed: int, place: int, number: int = 0) -> int:
    """Make the seed of a world, which few take as large as hocket does."""
    return stream_key(TEAM, seed, place, number) & ((1 << SEED_BITS) - 1)


def table_actors(env: object, policy: Policy, greedy: bool) -> dict[str, Callable[[Any], Any]]:
    """Make functions of what was learnt in a wrapped world, for all agents of its team; others act at random."""
    if not isinstance(env, WrappedTeam):
        raise SettingsError(f"this policy was learnt in a wrapped world, {policy.task}, and plays nowhere else")
    policy.require_task(env.scene.digest)
    beta = None if greedy else 1 / float(policy.settings["temperature"])
    tables = read_tables(policy.arrays, list(env.machines.values()))
    actors = {}
    for place, ((agent, machine), table) in enumerate(zip(env.machines.items(), tables, strict=True)):
        first = int(cast("spaces.Discrete", env.action_space(agent)).start)
        actors[agent] = TableActor(machine, table, first, beta, stream_key(TEAM, policy.seed, place))

    def act(agent: str, _: object) -> Action:
        if agent not in actors:
            return env.action_space(agent).sample()
        return actors[agent]((env.seen[agent], env.states[agent]))

    return {agent: partial(act, agent) for agent in env.possible_agents}


# A view for one agent, where nobody has made one: of the team's own world, in which the others act at random.


def view_alone(team: WrappedTeam, agent: str) -> IndividualView:
    """Make a view for an agent to train in, of the team's own world and labels."""
    try:
        if isinstance(team.env, SeparateWorlds):
            given: Any = deepcopy({agent: team.given[agent]})
            world = IndividualWorld(SeparateWorlds(given))
        else:
            env, given = deepcopy((team.env, team.given))
            world = IndividualWorld(env, agent)
    except Exception as error:
        raise SettingsError(f"{team.env} cannot be copied ({type(error).__name__}): {NEEDS_VIEWS}") from error
    initial = {name: machine.initial for name, machine in team.machines.items()}

    def label(step: IndividualStep) -> Proposed:
        states = {**initial, agent: step.state}
        shown = {"states": states, "team_state": None, "memory": step.memory, "env": given}
        answer = team.label(RawStep(step.time, **world.last, **shown))
        if not isinstance(answer, Mapping):
            raise SettingsError(f"labels must say what each agent proposes, not what happens to all: {NEEDS_VIEWS}")
        return answer.get(agent)

    return team.individual(agent, world, label)
