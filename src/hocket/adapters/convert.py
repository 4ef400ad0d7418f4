"""Worlds in the form in which they are wrapped: PettingZoo's for a team, Gymnasium's for an individual agent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import aec_to_parallel

from hocket.adapters.events import PARTS, WorldErrors, check_info, shares_of
from hocket.adapters.named_teams import DictTeam, Environment, EnvWrapper, Experience, SeparateWorlds, TupleTeam
from hocket.adapters.observations import copied
from hocket.errors import SettingsError

Action = Any


class IndividualWorld(EnvWrapper, gymnasium.Env[Any, Any]):
    """A PettingZoo environment for one of its agents, as a Gymnasium environment; others, if any, act at random."""

    def __init__(self, env: Environment, agent: str | None = None) -> None:
        self.env, self.agent = env, env.possible_agents[0] if agent is None else agent
        self.time = 0
        self.metadata = dict(env.metadata)
        self.render_mode = getattr(env, "render_mode", None)
        self.observation_space = env.observation_space(self.agent)
        self.action_space = env.action_space(self.agent)
        self.last: dict[str, Any] = {}  # what the last step was for all, by the fields of a `RawStep`

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        with WorldErrors(self.env, "reset"):
            observations, infos = self.env.reset(seed=seed, options=options)
        observation = shares_of(self.env, observations, [self.agent], PARTS[0], "reset")[self.agent]
        self.last = {"observations": {name: copied(seen) for name, seen in observations.items()}}
        for place, other in enumerate(self.env.possible_agents if seed is not None else ()):
            if other != self.agent:
                self.env.action_space(other).seed(seed + place)  # type: ignore[operator]
        return observation, dict(check_info(self.env, infos, "in reset").get(self.agent, {}))

    def step(self, action: Action) -> Experience:
        self.time += 1
        actions = {name: self.env.action_space(name).sample() for name in self.env.agents if name != self.agent}
        actions[self.agent] = action
        with WorldErrors(self.env, when := f"step {self.time}"):
            observations, rewards, terminated, truncated, infos = self.env.step(actions)
        parts = (observations, rewards, terminated, truncated, infos)
        observation, reward, over, cut, info = (
            shares_of(self.env, part, [self.agent], what, when)[self.agent]
            for what, part in zip(PARTS, parts, strict=True)
        )
        seen = {name: copied(each) for name, each in observations.items()}
        names = ("previous", "actions", "observations", "rewards", "terminated", "truncated", "infos")
        self.last = dict(zip(names, (self.last["observations"], actions, seen, *parts[1:]), strict=True))
        return observation, float(reward), over, cut, info


def to_parallel(env: Environment, agents: Iterable[str] | None = None) -> ParallelEnv[str, Any, Any]:
    """Give a multi-agent environment the form of a PettingZoo parallel environment.

    Takes a Gymnasium environment whose observation and action spaces are tuples with a place for each agent, like those
    of lbforaging and rware, and names the places `agents` (agent_0, agent_1, … unless given); with `agents` the rows of
    spaces that are arrays, too. Takes also a PettingZoo environment whose agents act in turns, where PettingZoo itself
    can convert it, and whatever steps with dictionaries over agents, which may be integers or tuples, in spaces that
    are dictionaries over them. A dictionary from agents to Gymnasium environments for one agent becomes one
    environment. A parallel one stays as it is.
    """
    if isinstance(env, Mapping):
        return SeparateWorlds(env)
    if isinstance(env, gymnasium.Env):
        return DictTeam(env, agents) if _is_over_agents(env) else TupleTeam(env, agents)
    if agents is not None and (isinstance(env, AECEnv) or _is_plain(env)):
        raise SettingsError(f"agents of a {type(env).__name__} have names already, got {agents!r:.200}")
    if isinstance(env, AECEnv):
        if not env.metadata.get("is_parallelizable", False):
            raise SettingsError(f"{env} must let its agents act at once, and its metadata say that it does not")
        return aec_to_parallel(env)
    lacking = [name for name in ("reset", "step") if not hasattr(env, name)]
    if lacking:
        raise SettingsError(
            f"a multi-agent environment must have {' and '.join(lacking)}, got {env!r:.60}; if each agent has a world "
            "of its own, pass a dictionary: {agent: make_env() for agent in knows}"
        )
    return env if _is_plain(env) else DictTeam(env, agents)


def _is_plain(env: Environment) -> bool:
    """Say whether a world is in PettingZoo's form already, with agents that have names."""
    agents = getattr(env, "possible_agents", None)
    is_named = isinstance(agents, list | tuple) and all(isinstance(agent, str) for agent in agents)
    return isinstance(env, ParallelEnv) and is_named


def _is_over_agents(env: gymnasium.Env[Any, Any]) -> bool:
    """Say whether both spaces are dictionaries over the same agents."""
    seen, acts = env.observation_space, env.action_space
    return isinstance(seen, spaces.Dict) and isinstance(acts, spaces.Dict) and {*seen.spaces} == {*acts.spaces}


def individual_world(env: Environment) -> gymnasium.Env[Any, Any]:
    """Give an environment with one agent the form of a Gymnasium environment."""
    if isinstance(env, gymnasium.Env) and not isinstance(env.action_space, spaces.Tuple):
        return env
    team = to_parallel(env)
    if len(team.possible_agents) != 1:
        raise SettingsError(f"an individual agent needs a world for one, got agents {', '.join(team.possible_agents)}")
    return IndividualWorld(team)
