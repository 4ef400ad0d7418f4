"""Worlds in the form in which they are wrapped: PettingZoo's for a team, Gymnasium's for an individual agent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import aec_to_parallel

from hocket.adapters.dict_team import DictTeam, is_plain
from hocket.adapters.events import PARTS, check_info, share_of, told_of
from hocket.adapters.observations import copied
from hocket.errors import SettingsError

Environment = Any  # an environment of PettingZoo or Gymnasium, or what behaves like one
Action = Any
Picture = Any  # whatever an environment draws itself as
Experience = tuple[Any, Any, Any, Any, Any]  # observation, reward, terminated, truncated, info: for one or for each


class EnvWrapper:
    """An environment around another one, which draws and closes that one."""

    env: Environment

    def render(self) -> Picture:
        return self.env.render()

    def close(self) -> None:
        self.env.close()


class TupleTeam(EnvWrapper, ParallelEnv[str, Any, Any]):  # type: ignore[misc]
    """A Gymnasium environment whose spaces are tuples, one entry for each agent, as a PettingZoo environment.

    An episode ends for all agents at once, when it has ended for each, be it terminated or truncated. A reward that is
    one number is everybody's, and so is the info.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], agents: Iterable[str] | None = None) -> None:
        places = _places(env)
        names = [f"agent_{place}" for place in range(places)] if agents is None else list(agents)
        if len(names) != places or len(set(names)) != places:
            raise SettingsError(f"agents must be {places} different names, one for each place, got {names!r:.200}")
        self.env = env
        self.metadata = {"name": type(env.unwrapped).__name__, "is_parallelizable": True, **env.metadata}
        self.render_mode = env.render_mode
        self.possible_agents = names
        self.agents: list[str] = []
        self.observation_spaces: dict[str, spaces.Space[Any]] = self._each(env.observation_space.spaces)  # type: ignore[attr-defined]
        self.action_spaces: dict[str, spaces.Space[Any]] = self._each(env.action_space.spaces)  # type: ignore[attr-defined]

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        observations, info = self.env.reset(seed=seed, options=options)
        self.agents = list(self.possible_agents)
        return self._each(observations), self._all(info)

    def step(self, actions: Mapping[str, Any]) -> Experience:
        if not self.agents:
            return {}, {}, {}, {}, {}
        for agent in self.possible_agents:
            if agent not in actions:
                raise SettingsError(f"all agents act at once, got no action of {agent!r}")
        together = tuple(actions[agent] for agent in self.possible_agents)
        observations, reward, terminated, truncated, info = self.env.step(together)
        ends: Any = (terminated, truncated)
        over, cut = (np.broadcast_to(np.asarray(flags, np.bool_), len(self.possible_agents)) for flags in ends)
        is_over = bool((over | cut).all())
        if is_over:
            self.agents = []
        rewards: Any = reward
        each_reward = rewards if np.ndim(rewards) else [rewards] * len(self.possible_agents)
        return (
            self._each(observations),
            {agent: float(one) for agent, one in zip(self.possible_agents, each_reward, strict=True)},
            self._each((is_over & over).tolist()),
            self._each((is_over & cut).tolist()),
            self._all(info),
        )

    def _each(self, values: Sequence[Any]) -> dict[str, Any]:
        return dict(zip(self.possible_agents, values, strict=True))

    def _all(self, info: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        return {agent: dict(info) for agent in self.possible_agents}


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
        with told_of(self.env, "reset"):
            observations, infos = self.env.reset(seed=seed, options=options)
        observation = share_of(self.env, observations, self.agent, PARTS[0], "reset")
        self.last = {"observations": {name: copied(seen) for name, seen in observations.items()}}
        for place, other in enumerate(self.env.possible_agents if seed is not None else ()):
            if other != self.agent:
                self.env.action_space(other).seed(seed + place)  # type: ignore[operator]
        return observation, dict(check_info(self.env, infos, "in reset").get(self.agent, {}))

    def step(self, action: Action) -> Experience:
        self.time += 1
        actions = {name: self.env.action_space(name).sample() for name in self.env.agents if name != self.agent}
        actions[self.agent] = action
        with told_of(self.env, when := f"step {self.time}"):
            observations, rewards, terminated, truncated, infos = self.env.step(actions)
        parts = (observations, rewards, terminated, truncated, infos)
        observation, reward, over, cut, info = (
            share_of(self.env, part, self.agent, what, when) for what, part in zip(PARTS, parts, strict=True)
        )
        seen = {name: copied(each) for name, each in observations.items()}
        names = ("previous", "actions", "observations", "rewards", "terminated", "truncated", "infos")
        self.last = dict(zip(names, (self.last["observations"], actions, seen, *parts[1:]), strict=True))
        return observation, float(reward), over, cut, info


class SeparateWorlds(ParallelEnv[str, Any, Any]):  # type: ignore[misc]
    """A Gymnasium environment for each agent, together as a PettingZoo environment; nothing but machines joins them."""

    def __init__(self, envs: Mapping[str, gymnasium.Env[Any, Any]]) -> None:
        for agent, env in envs.items():
            if not isinstance(agent, str) or not isinstance(env, gymnasium.Env):
                raise SettingsError(f"each agent needs a Gymnasium environment, got {agent!r:.60}: {env!r:.60}")
        if len({id(env.unwrapped) for env in envs.values()}) != len(envs):
            raise SettingsError("each agent needs a world of its own: make one for each")
        self.envs = dict(envs)
        self.metadata = {"name": "worlds of " + ", ".join(envs), "is_parallelizable": True}
        self.render_mode = next((env.render_mode for env in envs.values()), None)
        self.possible_agents, self.agents = list(envs), list[str]()

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self.envs[agent].observation_space

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self.envs[agent].action_space

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        self.agents = list(self.possible_agents)
        drawn = None if seed is None else np.random.SeedSequence(seed).generate_state(len(self.agents)).tolist()
        begun = {
            agent: self.envs[agent].reset(seed=drawn[place] if drawn else None, options=options)
            for place, agent in enumerate(self.agents)
        }
        return {a: seen for a, (seen, _) in begun.items()}, {a: info for a, (_, info) in begun.items()}

    def step(self, actions: Mapping[str, Any]) -> Experience:
        parts = {agent: self.envs[agent].step(actions[agent]) for agent in self.agents}
        self.agents = [agent for agent, part in parts.items() if not (part[2] or part[3])]
        each = ({agent: part[place] for agent, part in parts.items()} for place in range(len(PARTS)))
        observations, rewards, terminated, truncated, infos = each
        return observations, rewards, terminated, truncated, infos

    def render(self) -> Picture:
        return {agent: env.render() for agent, env in self.envs.items()}

    def close(self) -> None:
        for env in self.envs.values():
            env.close()


def to_parallel(env: Environment, agents: Iterable[str] | None = None) -> ParallelEnv[str, Any, Any]:
    """Give a multi-agent environment the form of a PettingZoo parallel environment.

    Takes a Gymnasium environment whose observation and action spaces are tuples with a place for each agent, like those
    of lbforaging and rware, and names the places `agents` (agent_0, agent_1, … unless given). Takes also a PettingZoo
    environment whose agents act in turns, where PettingZoo itself can convert it, and whatever steps with dictionaries
    over agents, which may be integers or tuples, in spaces that are dictionaries over them. A dictionary from agents
    to Gymnasium environments for one agent becomes one environment. A parallel one stays as it is.
    """
    if isinstance(env, Mapping):
        return SeparateWorlds(env)
    if isinstance(env, gymnasium.Env):
        return DictTeam(env, agents) if _is_over_agents(env) else TupleTeam(env, agents)
    if agents is not None and (isinstance(env, AECEnv) or is_plain(env)):
        raise SettingsError(f"agents of a {type(env).__name__} have names already, got {agents!r:.200}")
    if isinstance(env, AECEnv):
        if not env.metadata.get("is_parallelizable", False):
            raise SettingsError(f"{env} must let its agents act at once, and its metadata say that it does not")
        return aec_to_parallel(env)
    lacking = [name for name in ("reset", "step") if not hasattr(env, name)]
    if lacking:
        raise SettingsError(f"a multi-agent environment must have {', '.join(lacking)}, got {env!r:.60}")
    return env if is_plain(env) else DictTeam(env, agents)


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


def _places(env: gymnasium.Env[Any, Any]) -> int:
    """Count the agents of a Gymnasium environment with tuple spaces."""
    kinds = (env.observation_space, env.action_space)
    if not all(isinstance(space, spaces.Tuple) for space in kinds) or len({len(space) for space in kinds}) != 1:  # type: ignore[arg-type]
        raise SettingsError(
            "a multi-agent Gymnasium environment must have Tuple spaces with a place for each agent, or Dict "
            f"spaces over agents, got {env.observation_space!r:.80} and {env.action_space!r:.80}; if it is for one "
            "agent, pass a copy for each: {agent: make_env() for agent in knows}"
        )
    return len(env.action_space)  # type: ignore[arg-type]
