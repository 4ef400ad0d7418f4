"""Worlds in the form in which they are wrapped: PettingZoo's for a team, Gymnasium's for an individual agent.

They may go over dictionaries, be in tuples or rows, or be one for each agent. Agents that are no texts get names: 3 is
agent_3, and ("red", 0) is red_0.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, KeysView, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any, TypeVar

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import aec_to_parallel

from hocket.adapters.events import PARTS, WorldErrors, check_info, shares_of
from hocket.adapters.observations import copied
from hocket.errors import SettingsError

EVERYONE = "__all__"  # as some libraries flag the end of an episode for all agents at once
WHO = ("possible_agents", "agents", "agent_ids", "_agent_ids")  # attributes that list agents
KINDS = ("observation", "action")

Environment = Any  # an environment of PettingZoo or Gymnasium, or what behaves like one
Picture = Any  # whatever an environment draws itself as
Experience = tuple[Any, Any, Any, Any, Any]  # observation, reward, terminated, truncated, info: for one or for each
Info = dict[str, Any]
Action = Any
AnySpace = Any  # of Gymnasium
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

    def observation_space(self, agent: str) -> AnySpace:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> AnySpace:
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: Info | None = None) -> tuple[Any, Any]:
        observations, infos = self._begin(seed, options)
        self.agents = [name for name, key in self.keys.items() if key in observations]
        return self._each(observations, self.agents), self._shared(infos, self.agents)

    def step(self, actions: Mapping[str, Any]) -> Experience:
        acting = self.agents
        observations, rewards, *ends, infos = self._act({self.keys[name]: action for name, action in actions.items()})
        here = [name for name in self.possible_agents if name in acting or self.keys[name] in observations]
        terminated, truncated = (self._ended(end, here) for end in ends)
        self.agents = [name for name in here if not (terminated[name] or truncated[name])]
        seen = self._each(observations, here)
        return seen, self._shared(rewards, here), terminated, truncated, self._shared(infos, here)

    def _begin(self, seed: int | None, options: Info | None) -> tuple[Mapping[Any, Any], Any]:
        """Reset the world: observations by key, and infos by key or everybody's."""
        raise NotImplementedError

    def _act(self, actions: Mapping[Any, Any]) -> Experience:
        """Let agents act, by key: observations by key; a reward, an end or an info by key, or everybody's."""
        raise NotImplementedError

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

    def by_name(self, given: Mapping[Any, Value]) -> dict[str, Value]:
        """Name the agents of a table; what is none of them stays."""
        return {self.names.get(agent, agent): value for agent, value in given.items()}

    def control_by_name(self, control: Mapping[str, Any]) -> dict[str, list[str]]:
        """Name the agents that control events: one, or several, by keys or names."""
        named = {}
        for event, agents in control.items():
            is_one = isinstance(agents, str) or (isinstance(agents, Hashable) and agents in self.names)
            named[event] = [self.names.get(agent, agent) for agent in ([agents] if is_one else agents)]
        return named

    def label_by_name(self, label: Callable[[Any], Any], step: object) -> Any:  # noqa: ANN401 (whatever it answers)
        """Ask a labelling function, which may answer with keys, too."""
        answer = label(step)
        return self.by_name(answer) if isinstance(answer, Mapping) else answer


class DictTeam(NamedTeam):
    """A world over dictionaries of agents; a reward, an end or an info that is none of them is everybody's."""

    def __init__(self, env: Environment, agents: Iterable[str] | None = None) -> None:
        super().__init__(env, agent_keys(env), agents, lambda kind, key: _space(env, kind, key))
        self.kind = type(env).__name__
        if not _takes_seed(env.reset):
            raise SettingsError(f"reset of {self.kind} takes no seed: begin it with def reset(self, seed=None)")

    def _begin(self, seed: int | None, options: Info | None) -> tuple[Mapping[Any, Any], Any]:
        given = self.env.reset(seed=seed) if options is None else self.env.reset(seed=seed, options=options)
        return self._require(given, "reset", "observations, infos", 2)

    def _act(self, actions: Mapping[Any, Any]) -> Experience:
        return self._require(self.env.step(actions), "step", "observations, rewards, terminated, truncated, infos", 5)

    def _require(self, given: object, function: str, parts: str, count: int) -> tuple[Any, ...]:
        if not isinstance(given, tuple) or len(given) != count or not isinstance(given[0], Mapping):
            raise SettingsError(f"{function} of {self.kind} must end with return {parts}; observations by agent")
        return given

    def state(self) -> Any:  # noqa: ANN401 (whatever it shows)
        return self.env.state()


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

    def _begin(self, seed: int | None, options: Info | None) -> tuple[Mapping[Any, Any], Any]:
        observations, info = self.env.reset(seed=seed, options=options)
        return dict(enumerate(observations)), info

    def _act(self, actions: Mapping[Any, Any]) -> Experience:
        if not self.agents:
            return {}, {}, {}, {}, {}
        for place, agent in enumerate(self.possible_agents):
            if place not in actions:
                raise SettingsError(f"all agents act at once, got no action of {agent!r}")
        together: Any = tuple(actions[place] for place in self.names)
        if not isinstance(self.env.action_space, spaces.Tuple):
            together = np.asarray(together, self.env.action_space.dtype)
        observations, reward, *ends, info = self.env.step(together)
        over, cut = (np.broadcast_to(np.asarray(flags, np.bool_), len(self.names)) for flags in ends)
        rewards = map(float, reward if np.ndim(reward) else [reward] * len(self.names))
        is_end = (over | cut).all()  # of all
        terminated, truncated = (dict(enumerate((flags & is_end).tolist())) for flags in (over, cut))
        return dict(enumerate(observations)), dict(enumerate(rewards)), terminated, truncated, info


class SeparateWorlds(NamedTeam):
    """A Gymnasium environment for each agent, together as one; nothing but machines joins them."""

    def __init__(self, envs: Mapping[Hashable, gymnasium.Env[Any, Any]]) -> None:
        for agent, env in envs.items():
            if not isinstance(env, gymnasium.Env):
                raise SettingsError(f"each agent needs a Gymnasium environment, got {agent!r:.60}: {env!r:.60}")
        if len({id(env.unwrapped) for env in envs.values()}) != len(envs):
            raise SettingsError("each agent needs a world of its own: make one for each")
        super().__init__(envs, list(envs), None, lambda kind, key: getattr(envs[key], f"{kind}_space"))
        self.metadata["name"] = "worlds of " + ", ".join(self.keys)
        self.render_mode = next((env.render_mode for env in envs.values()), None)

    def _begin(self, seed: int | None, options: Info | None) -> tuple[Mapping[Any, Any], Any]:
        count = len(self.env)
        seeds = [None] * count if seed is None else np.random.SeedSequence(seed).generate_state(count).tolist()
        begun = {
            key: env.reset(seed=drawn, options=options)
            for (key, env), drawn in zip(self.env.items(), seeds, strict=True)
        }
        return {key: seen for key, (seen, _) in begun.items()}, {key: info for key, (_, info) in begun.items()}

    def _act(self, actions: Mapping[Any, Any]) -> Experience:
        parts = {self.keys[name]: self.env[self.keys[name]].step(actions[self.keys[name]]) for name in self.agents}
        seen, rewards, terminated, truncated, infos = (
            {key: part[place] for key, part in parts.items()} for place in range(len(PARTS))
        )
        return seen, rewards, terminated, truncated, infos

    def render(self) -> Picture:
        return {name: self.env[key].render() for name, key in self.keys.items()}

    def close(self) -> None:
        for env in self.env.values():
            env.close()


def agent_keys(env: Environment) -> list[Hashable]:
    """List the agents of a world, where it says who they are: in an attribute, or by spaces that are dictionaries."""
    for attribute in WHO:
        listed = getattr(env, attribute, None)
        if isinstance(listed, list | tuple | set | frozenset | KeysView) and listed:
            return sorted(listed, key=repr) if isinstance(listed, set | frozenset) else list(listed)
    for kind in KINDS:
        for attribute in (f"{kind}_spaces", f"{kind}_space"):
            table = getattr(env, attribute, None)
            if isinstance(table, Mapping) and table:  # a Dict space is one, too
                return list(table)
    raise SettingsError(
        f"{type(env).__name__} does not say who its agents are: add the line env.possible_agents = [...]"
    )


def name_agent(key: Hashable) -> str:
    """Name an agent.

    >>> [name_agent(key) for key in ("pilot", 3, ("red", 0))]
    ['pilot', 'agent_3', 'red_0']
    """
    if isinstance(key, str):
        return key
    return "_".join(map(str, key)) if isinstance(key, tuple) else f"agent_{key}"


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


def _space(env: Environment, kind: str, key: Hashable) -> AnySpace:
    """Find the space of an agent: a function, a dictionary, or one space that is everybody's."""
    single = getattr(env, f"{kind}_space", None)
    for table in (getattr(env, f"{kind}_spaces", None), single):
        if isinstance(table, Mapping) and key in [*table]:  # in a Dict space are not its keys, but what it contains
            return table[key]
    if isinstance(single, spaces.Space):
        return single
    if callable(single):
        return single(key)
    raise SettingsError(
        f"{type(env).__name__} has no {kind} space of {key!r}: add the line env.{kind}_spaces = {{{key!r}: ...}}"
    )


class IndividualWorld(EnvWrapper, gymnasium.Env[Any, Any]):
    """A PettingZoo environment for one of its agents, as a Gymnasium environment; others, if any, act at random."""

    def __init__(self, env: Environment, agent: str | None = None) -> None:
        self.env, self.agent = env, env.possible_agents[0] if agent is None else agent
        self.time = 0
        self.metadata = dict(env.metadata)
        self.render_mode = getattr(env, "render_mode", None)
        self.observation_space = env.observation_space(self.agent)
        self.action_space = env.action_space(self.agent)
        self.seen: dict[str, Any] = {}  # by all, after the last step
        self.last: tuple[Any, ...] = ()  # what that step was for all, as in a `RawStep`

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        with WorldErrors(self.env, "reset"):
            observations, infos = self.env.reset(seed=seed, options=options)
        observation = shares_of(self.env, observations, [self.agent], PARTS[0], "reset")[self.agent]
        self.seen = {name: copied(seen) for name, seen in observations.items()}
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
        previous, self.seen = self.seen, {name: copied(each) for name, each in observations.items()}
        self.last = (previous, actions, self.seen, *parts[1:])
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
        seen, acts = env.observation_space, env.action_space
        is_over_agents = isinstance(seen, spaces.Dict) and isinstance(acts, spaces.Dict) and seen.keys() == acts.keys()
        return DictTeam(env, agents) if is_over_agents else TupleTeam(env, agents)
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


def individual_world(env: Environment) -> gymnasium.Env[Any, Any]:
    """Give an environment with one agent the form of a Gymnasium environment."""
    if isinstance(env, gymnasium.Env) and not isinstance(env.action_space, spaces.Tuple):
        return env
    team = to_parallel(env)
    if len(team.possible_agents) != 1:
        raise SettingsError(f"an individual agent needs a world for one, got agents {', '.join(team.possible_agents)}")
    return IndividualWorld(team)
