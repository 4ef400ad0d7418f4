"""Worlds of other forms as PettingZoo environments: over dictionaries, in tuples or rows, or one for each agent.

Agents that are no texts get names: 3 is agent_3, and ("red", 0) is red_0.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, KeysView, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any, TypeVar

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from hocket.adapters.events import PARTS
from hocket.errors import SettingsError

EVERYONE = "__all__"  # as some libraries flag the end of an episode for all agents at once
WHO = ("possible_agents", "agents", "agent_ids", "_agent_ids")  # attributes that list agents
KINDS = ("observation", "action")

Environment = Any  # an environment of PettingZoo or Gymnasium, or what behaves like one
Picture = Any  # whatever an environment draws itself as
Experience = tuple[Any, Any, Any, Any, Any]  # observation, reward, terminated, truncated, info: for one or for each
Info = dict[str, Any]
Value = TypeVar("Value")


class EnvWrapper:
    """An environment around another one, which draws and closes that one."""

    env: Environment

    def render(self) -> Picture:
        return self.env.render()

    def close(self) -> None:
        self.env.close()


class NamedTeam(EnvWrapper, ParallelEnv[str, Any, Any]):  # type: ignore[misc]
    """Another form of world as a PettingZoo environment; `names` has its agents by the keys that they have there."""

    def __init__(
        self, env: Environment, keys: Sequence[Hashable], agents: Iterable[str] | None, spaces_of: Callable[..., Any]
    ) -> None:
        given = [name_agent(key) for key in keys] if agents is None else list(agents)
        if len(given) != len(keys) or len(set(given)) != len(keys):
            raise SettingsError(f"agents must be {len(keys)} different names, one for each agent, got {given!r:.200}")
        self.env, self.names = env, dict(zip(keys, given, strict=True))
        self.keys = dict(zip(given, keys, strict=True))
        self.possible_agents, self.agents = given, list[str]()
        name = type(getattr(env, "unwrapped", env)).__name__
        self.metadata = {"name": name, **(getattr(env, "metadata", None) or {}), "is_parallelizable": True}
        self.render_mode = getattr(env, "render_mode", None)
        self.observation_spaces, self.action_spaces = (
            {name: spaces_of(kind, key) for name, key in self.keys.items()} for kind in KINDS
        )

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        space: spaces.Space[Any] = self.observation_spaces[agent]
        return space

    def action_space(self, agent: str) -> spaces.Space[Any]:
        space: spaces.Space[Any] = self.action_spaces[agent]
        return space

    def by_name(self, given: Mapping[Any, Value]) -> dict[str, Value]:
        """Name the agents of a table; what is none of them stays."""
        return {self.names.get(agent, agent): value for agent, value in given.items()}

    def name_all(self, agents: Any) -> list[str]:  # noqa: ANN401 (keys or names, or one of them)
        """Name one agent, or each of several."""
        is_one = isinstance(agents, str) or (isinstance(agents, Hashable) and agents in self.names)
        return [self.names.get(agent, agent) for agent in ([agents] if is_one else agents)]

    def label_by_name(self, label: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Let a labelling function answer with keys, too."""
        if all(key == name for key, name in self.names.items()):
            return label

        def named(step: object) -> object:
            answer = label(step)
            return self.by_name(answer) if isinstance(answer, Mapping) else answer

        return named


class DictTeam(NamedTeam):
    """A world that takes and gives dictionaries over agents.

    A reward, an end or an info that is no dictionary over agents is everybody's.
    """

    def __init__(self, env: Environment, agents: Iterable[str] | None = None) -> None:
        super().__init__(env, agent_keys(env), agents, lambda kind, key: _space(env, kind, key))
        if not _takes_seed(env.reset):
            raise SettingsError(f"reset of {_name(env)} takes no seed: begin it with def reset(self, seed=None)")

    def reset(self, seed: int | None = None, options: Info | None = None) -> tuple[Any, Any]:
        given = self.env.reset(seed=seed) if options is None else self.env.reset(seed=seed, options=options)
        if not isinstance(given, tuple) or len(given) != 2 or not isinstance(given[0], Mapping):
            raise SettingsError(
                f"reset of {_name(self.env)} must end with return observations, infos; observations by agent"
            )
        observations, infos = given
        self.agents = [name for name, key in self.keys.items() if key in observations]
        return self._each(observations, self.agents), self._shared(infos, self.agents)

    def step(self, actions: Mapping[str, Any]) -> Experience:
        acting, given = self.agents, self.env.step({self.keys[name]: act for name, act in actions.items()})
        if not isinstance(given, tuple) or len(given) != len(PARTS) or not isinstance(given[0], Mapping):
            raise SettingsError(
                f"step of {_name(self.env)} must end with return observations, rewards, terminated, truncated, infos; "
                "observations by agent"
            )
        observations, rewards, *ends, infos = given
        here = [name for name in self.possible_agents if name in acting or self.keys[name] in observations]
        terminated, truncated = (self._ended(end, here) for end in ends)
        self.agents = [name for name in here if not (terminated[name] or truncated[name])]
        seen = self._each(observations, here)
        return seen, self._shared(rewards, here), terminated, truncated, self._shared(infos, here)

    def state(self) -> Any:  # noqa: ANN401 (whatever it shows)
        return self.env.state()

    def _each(self, part: Mapping[Hashable, Any], names: Iterable[str]) -> dict[str, Any]:
        return {name: part[self.keys[name]] for name in names if self.keys[name] in part}

    def _shared(self, part: Any, names: Iterable[str]) -> dict[str, Any]:  # noqa: ANN401
        """Take what each agent gets, or give what is no dictionary over agents to all."""
        if isinstance(part, Mapping) and any(key in part for key in self.names):
            return self._each(part, names)
        return dict.fromkeys(names, part)

    def _ended(self, part: Any, names: Iterable[str]) -> dict[str, bool]:  # noqa: ANN401
        if not isinstance(part, Mapping):
            return dict.fromkeys(names, bool(part))
        return {name: bool(part.get(EVERYONE, False) or part.get(self.keys[name], False)) for name in names}


class TupleTeam(NamedTeam):
    """A Gymnasium environment whose spaces are tuples, or arrays with a row, for each agent.

    An episode ends for all agents at once, when it has ended for each, be it terminated or truncated. A reward that is
    one number is everybody's, and so is the info.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], agents: Iterable[str] | None = None) -> None:
        seen, acts = _rows(env.observation_space), _rows(env.action_space)
        is_said = agents is not None or isinstance(env.observation_space, spaces.Tuple)
        if not is_said or not seen or len(seen) != len(acts):
            raise SettingsError(
                "a multi-agent Gymnasium environment must have Tuple spaces with a place for each agent, or Dict "
                f"spaces over agents, got {env.observation_space!r:.80} and {env.action_space!r:.80}; if it is for one "
                "agent, pass a copy for each: {agent: make_env() for agent in knows}; if each row of both is an "
                "agent's, name them: hk.gym.to_parallel(env, agents=[...])"
            )
        each = dict(zip(KINDS, (seen, acts), strict=True))
        super().__init__(env, range(len(seen)), agents, lambda kind, place: each[kind][place])

    def reset(self, seed: int | None = None, options: Info | None = None) -> tuple[Any, Any]:
        observations, info = self.env.reset(seed=seed, options=options)
        self.agents = list(self.possible_agents)
        return self._each(observations), self._all(info)

    def step(self, actions: Mapping[str, Any]) -> Experience:
        if not self.agents:
            return {}, {}, {}, {}, {}
        for agent in self.possible_agents:
            if agent not in actions:
                raise SettingsError(f"all agents act at once, got no action of {agent!r}")
        together: Any = tuple(actions[agent] for agent in self.possible_agents)
        if not isinstance(self.env.action_space, spaces.Tuple):
            together = np.asarray(together, self.env.action_space.dtype)
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

    def _all(self, info: Mapping[str, Any]) -> dict[str, Info]:
        return {agent: dict(info) for agent in self.possible_agents}


class SeparateWorlds(NamedTeam):
    """A Gymnasium environment for each agent, together as one; nothing but machines joins them."""

    def __init__(self, envs: Mapping[Hashable, gymnasium.Env[Any, Any]]) -> None:
        for agent, env in envs.items():
            if not isinstance(env, gymnasium.Env):
                raise SettingsError(f"each agent needs a Gymnasium environment, got {agent!r:.60}: {env!r:.60}")
        if len({id(env.unwrapped) for env in envs.values()}) != len(envs):
            raise SettingsError("each agent needs a world of its own: make one for each")
        super().__init__(envs, list(envs), None, lambda kind, key: getattr(envs[key], f"{kind}_space"))
        self.envs = {name: envs[key] for name, key in self.keys.items()}
        self.metadata["name"] = "worlds of " + ", ".join(self.envs)
        self.render_mode = next((env.render_mode for env in envs.values()), None)

    def reset(self, seed: int | None = None, options: Info | None = None) -> tuple[Any, Any]:
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


def agent_keys(env: Environment) -> list[Hashable]:
    """List the agents of a world, where it says who they are: in an attribute, or by spaces that are dictionaries."""
    for attribute in WHO:
        listed = getattr(env, attribute, None)
        if isinstance(listed, list | tuple | set | frozenset | KeysView) and listed:
            return sorted(listed, key=repr) if isinstance(listed, set | frozenset) else list(listed)
    for kind in KINDS:
        for attribute in (f"{kind}_spaces", f"{kind}_space"):
            table = _table(getattr(env, attribute, None))
            if table:
                return list(table)
    raise SettingsError(f"{_name(env)} does not say who its agents are: add the line env.possible_agents = [...]")


def name_agent(key: Hashable) -> str:
    """Name an agent.

    >>> [name_agent(key) for key in ("pilot", 3, ("red", 0))]
    ['pilot', 'agent_3', 'red_0']
    """
    if isinstance(key, str):
        return key
    return "_".join(map(str, key)) if isinstance(key, tuple) else f"agent_{key}"


def _name(env: Environment) -> str:
    return type(env).__name__


def _takes_seed(reset: Callable[..., Any]) -> bool:
    """Say whether a function takes a seed by name; where nobody can tell, that it does."""
    try:
        parameters = signature(reset).parameters
    except (TypeError, ValueError):
        return True
    return "seed" in parameters or any(each.kind is Parameter.VAR_KEYWORD for each in parameters.values())


def _rows(space: spaces.Space[Any]) -> Sequence[spaces.Space[Any]]:
    """List the spaces of each place of a tuple, or of each row of an array."""
    if isinstance(space, spaces.Tuple):
        return space.spaces
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return [spaces.Discrete(int(n), start=int(first)) for n, first in zip(space.nvec, space.start, strict=True)]
    if isinstance(space, spaces.Box) and space.shape:
        return [spaces.Box(low, high, dtype=space.dtype) for low, high in zip(space.low, space.high, strict=True)]
    return []


def _table(space: object) -> Mapping[Hashable, spaces.Space[Any]]:
    """Read spaces by agent, be it a dictionary or a Dict space."""
    if isinstance(space, spaces.Dict):
        return space.spaces  # type: ignore[return-value]
    return space if isinstance(space, Mapping) else {}


def _space(env: Environment, kind: str, key: Hashable) -> spaces.Space[Any]:
    """Find the space of an agent: a function, a dictionary, or one space that is everybody's."""
    single = getattr(env, f"{kind}_space", None)
    for table in (_table(getattr(env, f"{kind}_spaces", None)), _table(single)):
        if key in table:
            return table[key]
    if isinstance(single, spaces.Space):
        return single
    if callable(single):
        space: spaces.Space[Any] = single(key)
        return space
    raise SettingsError(
        f"{_name(env)} has no {kind} space of {key!r}: add the line env.{kind}_spaces = {{{key!r}: ...}}"
    )
