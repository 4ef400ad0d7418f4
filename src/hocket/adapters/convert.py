"""Conversion of third-party environments: to PettingZoo's form for a team, and Gymnasium's for an individual agent.

They may have dictionaries over agents, tuples or rows, or be one environment for each agent. Agents whose keys are no
strings get names: 3 is agent_3, and ("red", 0) is red_0.
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

from hocket.adapters.events import PARTS, EnvironmentCall
from hocket.adapters.observations import copied
from hocket.errors import SettingsError

ALL_AGENTS = "__all__"  # as some libraries flag the end of an episode for all agents at once
AGENT_LISTS = ("possible_agents", "agents", "agent_ids", "_agent_ids")  # attributes
KINDS = ("observation", "action")

Environment = Any  # an environment of PettingZoo or Gymnasium, or what behaves like one
Picture = Any  # whatever an environment renders
StepResult = tuple[Any, Any, Any, Any, Any]  # observation, reward, terminated, truncated, info: for one or for each
Info = dict[str, Any]
Action = Any
AnySpace = Any  # of Gymnasium
Value = TypeVar("Value")


class EnvWrapper:
    """An environment around another one, whose `render` and `close` it uses."""

    env: Environment

    def render(self) -> Picture:
        return self.env.render()

    def close(self) -> None:
        self.env.close()


class NamedTeam(EnvWrapper, ParallelEnv[str, Any, Any]):  # type: ignore[misc]
    """An environment of another form as a PettingZoo environment; `names` has its agents by their keys there."""

    def __init__(
        self, env: Environment, keys: Sequence[Hashable], agents: Iterable[str] | None, spaces_of: Callable[..., Any]
    ) -> None:
        names = [name_agent(key) for key in keys] if agents is None else list(agents)
        if len(names) != len(keys) or len(set(names)) != len(keys):
            raise SettingsError(f"agents must be {len(keys)} different names, one for each agent, got {names!r:.200}")
        self.env, self.names = env, dict(zip(keys, names, strict=True))
        self.keys = dict(zip(names, keys, strict=True))
        self.possible_agents, self.agents = names, list[str]()
        name = type(getattr(env, "unwrapped", env)).__name__
        self.metadata = {"name": name, **(getattr(env, "metadata", None) or {}), "is_parallelizable": True}
        self.render_mode = getattr(env, "render_mode", None)
        self.observation_spaces = {name: spaces_of("observation", key) for name, key in self.keys.items()}
        self.action_spaces = {name: spaces_of("action", key) for name, key in self.keys.items()}

    def observation_space(self, agent: str) -> AnySpace:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> AnySpace:
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: Info | None = None) -> tuple[Any, Any]:
        observations, infos = self._begin(seed, options)
        self.agents = [name for name, key in self.keys.items() if key in observations]
        return self._each(observations, self.agents), self._shared(infos, self.agents)

    def step(self, actions: Mapping[str, Any]) -> StepResult:
        observations, rewards, *ends, infos = self._act({self.keys[name]: action for name, action in actions.items()})
        present = [n for n in self.possible_agents if n in self.agents or self.keys[n] in observations]
        terminated, truncated = (self._ended(end, present) for end in ends)
        self.agents = [name for name in present if not (terminated[name] or truncated[name])]
        rewards, infos = self._shared(rewards, present), self._shared(infos, present)
        return self._each(observations, present), rewards, terminated, truncated, infos

    def _begin(self, seed: int | None, options: Info | None) -> tuple[Mapping[Any, Any], Any]:
        """Reset the environment: observations by key, and infos by key or one for all."""
        raise NotImplementedError

    def _act(self, actions: Mapping[Any, Any]) -> StepResult:
        """Let agents act, by key: observations by key; a reward, an end or an info by key, or one for all."""
        raise NotImplementedError

    def _each(self, part: Mapping[Hashable, Any], names: Iterable[str]) -> dict[str, Any]:
        return {name: part[self.keys[name]] for name in names if self.keys[name] in part}

    def _shared(self, part: Any, names: Iterable[str]) -> dict[str, Any]:  # noqa: ANN401
        """Return each agent's value, or the same for all if it is no dictionary over agents."""
        if isinstance(part, Mapping) and any(key in part for key in self.names):
            return self._each(part, names)
        return dict.fromkeys(names, part)

    def _ended(self, part: Any, names: Iterable[str]) -> dict[str, bool]:  # noqa: ANN401
        if not isinstance(part, Mapping):
            return dict.fromkeys(names, bool(part))
        return {name: bool(part.get(ALL_AGENTS, False) or part.get(self.keys[name], False)) for name in names}

    def by_name(self, by_key: Mapping[Any, Value]) -> dict[str, Value]:
        """Replace the keys of agents by their names; other keys stay."""
        return {self.names.get(agent, agent): value for agent, value in by_key.items()}

    def control_by_name(self, control: Mapping[str, Any]) -> dict[str, list[str]]:
        """Name the agents that control events: one, or several, by keys or names."""
        named = {}
        for event, agents in control.items():
            is_one = isinstance(agents, str) or (isinstance(agents, Hashable) and agents in self.names)
            named[event] = [self.names.get(agent, agent) for agent in ([agents] if is_one else agents)]
        return named

    def label_by_name(self, label: Callable[[Any], Any], step: object) -> Any:  # noqa: ANN401 (whatever it answers)
        """Call a labelling function, whose answer may have keys, too."""
        answer = label(step)
        return self.by_name(answer) if isinstance(answer, Mapping) else answer


class DictTeam(NamedTeam):
    """An environment with dictionaries over agents; a reward, an end or an info that is none holds for all agents."""

    def __init__(self, env: Environment, agents: Iterable[str] | None = None) -> None:
        super().__init__(env, agent_keys(env), agents, lambda kind, key: _space(env, kind, key))
        self.class_name = type(env).__name__
        if not _takes_seed(env.reset):
            raise SettingsError(f"reset of {self.class_name} takes no seed: begin it with def reset(self, seed=None)")

    def _begin(self, seed: int | None, options: Info | None) -> tuple[Mapping[Any, Any], Any]:
        result = self.env.reset(seed=seed) if options is None else self.env.reset(seed=seed, options=options)
        return self._require(result, "reset", "observations, infos", 2)

    def _act(self, actions: Mapping[Any, Any]) -> StepResult:
        return self._require(self.env.step(actions), "step", "observations, rewards, terminated, truncated, infos", 5)

    def _require(self, result: object, function: str, parts: str, count: int) -> tuple[Any, ...]:
        if not isinstance(result, tuple) or len(result) != count or not isinstance(result[0], Mapping):
            raise SettingsError(f"{function} of {self.class_name} must end with return {parts}; observations by agent")
        return result

    def state(self) -> Any:  # noqa: ANN401 (whatever it shows)
        return self.env.state()


class TupleTeam(NamedTeam):
    """A Gymnasium environment whose spaces are tuples, or arrays with a row, for each agent. An episode ends for all
    agents at once, when it has ended for each. A reward that is one number is that of all agents, and so is the info.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], agents: Iterable[str] | None = None) -> None:
        by_kind = {"observation": _rows(env.observation_space), "action": _rows(env.action_space)}
        is_named = agents is not None or isinstance(env.observation_space, spaces.Tuple)
        count = len(by_kind["observation"])
        if not is_named or not count or count != len(by_kind["action"]):
            raise SettingsError(
                "a multi-agent Gymnasium environment must have Tuple spaces with a space for each agent, or Dict "
                f"spaces over agents, got {env.observation_space!r:.80} and {env.action_space!r:.80}; if it is for one "
                "agent, pass a copy for each: {agent: make_env() for agent in knows}; if each row of both is an "
                "agent's, name them: hk.gym.to_parallel(env, agents=[...])"
            )
        super().__init__(env, range(count), agents, lambda kind, index: by_kind[kind][index])

    def _begin(self, seed: int | None, options: Info | None) -> tuple[Mapping[Any, Any], Any]:
        observations, info = self.env.reset(seed=seed, options=options)
        return dict(enumerate(observations)), info

    def _act(self, actions: Mapping[Any, Any]) -> StepResult:
        if not self.agents:
            return {}, {}, {}, {}, {}
        for index, agent in self.names.items():
            if index not in actions:
                raise SettingsError(f"all agents act at once, got no action of {agent!r}")
        joint: Any = tuple(actions[index] for index in self.names)
        if not isinstance(self.env.action_space, spaces.Tuple):
            joint = np.asarray(joint, self.env.action_space.dtype)
        observations, reward, *ends, info = self.env.step(joint)
        ends = [np.broadcast_to(np.asarray(flags, np.bool_), len(self.names)) for flags in ends]
        rewards = map(float, reward if np.ndim(reward) else [reward] * len(self.names))
        is_end = (ends[0] | ends[1]).all()  # of all
        terminated, truncated = (dict(enumerate((flags & is_end).tolist())) for flags in ends)
        return dict(enumerate(observations)), dict(enumerate(rewards)), terminated, truncated, info


class SeparateWorlds(NamedTeam):
    """A Gymnasium environment for each agent, together as one; only machines connect them."""

    def __init__(self, envs: Mapping[Hashable, gymnasium.Env[Any, Any]]) -> None:
        for agent, env in envs.items():
            if not isinstance(env, gymnasium.Env):
                raise SettingsError(f"each agent needs a Gymnasium environment, got {agent!r:.60}: {env!r:.60}")
        if len({id(env.unwrapped) for env in envs.values()}) != len(envs):
            raise SettingsError("each agent needs an environment of its own: make one for each")
        super().__init__(envs, list(envs), None, lambda kind, key: getattr(envs[key], f"{kind}_space"))
        self.metadata["name"] = "worlds of " + ", ".join(self.keys)
        self.render_mode = next((env.render_mode for env in envs.values()), None)

    def _begin(self, seed: int | None, options: Info | None) -> tuple[Mapping[Any, Any], Any]:
        count = len(self.env)
        seeds = [None] * count if seed is None else np.random.SeedSequence(seed).generate_state(count).tolist()
        seeded = zip(self.env.items(), seeds, strict=True)
        results = {key: env.reset(seed=each, options=options) for (key, env), each in seeded}
        return {key: first for key, (first, _) in results.items()}, {key: info for key, (_, info) in results.items()}

    def _act(self, actions: Mapping[Any, Any]) -> StepResult:
        keys = [self.keys[name] for name in self.agents]
        results = [self.env[key].step(actions[key]) for key in keys]
        observations, rewards, terminated, truncated, infos = (
            {key: result[part] for key, result in zip(keys, results, strict=True)} for part in range(len(PARTS))
        )
        return observations, rewards, terminated, truncated, infos

    def render(self) -> Picture:
        return {name: self.env[key].render() for name, key in self.keys.items()}

    def close(self) -> None:
        for env in self.env.values():
            env.close()


def agent_keys(env: Environment) -> list[Hashable]:
    """List the agents of an environment, from an attribute that lists them or spaces that are dictionaries."""
    for attribute in AGENT_LISTS:
        listed = getattr(env, attribute, None)
        if isinstance(listed, list | tuple | set | frozenset | KeysView) and listed:
            return sorted(listed, key=repr) if isinstance(listed, set | frozenset) else list(listed)
    for attribute in (f"{kind}_space{plural}" for kind in KINDS for plural in ("s", "")):
        table = getattr(env, attribute, None)
        if isinstance(table, Mapping) and table:  # a Dict space is one, too
            return list(table)
    raise SettingsError(f"{type(env).__name__} does not list its agents: add the line env.possible_agents = [...]")


def name_agent(key: Hashable) -> str:
    """Name an agent.

    >>> [name_agent(key) for key in ("pilot", 3, ("red", 0))]
    ['pilot', 'agent_3', 'red_0']
    """
    if isinstance(key, str):
        return key
    return "_".join(map(str, key)) if isinstance(key, tuple) else f"agent_{key}"


def _takes_seed(reset: Callable[..., Any]) -> bool:
    """Say whether a function takes a seed by name; True where its signature is not known."""
    try:
        parameters = signature(reset).parameters
    except (TypeError, ValueError):
        return True
    return "seed" in parameters or any(each.kind is Parameter.VAR_KEYWORD for each in parameters.values())


def _rows(space: spaces.Space[Any]) -> Sequence[spaces.Space[Any]]:
    """List the spaces of a tuple, or of each row of an array."""
    if isinstance(space, spaces.Tuple):
        return space.spaces
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return [spaces.Discrete(int(n), start=int(first)) for n, first in zip(space.nvec, space.start, strict=True)]
    if isinstance(space, spaces.Box) and space.shape:
        return [spaces.Box(low, high, dtype=space.dtype) for low, high in zip(space.low, space.high, strict=True)]
    return []


def _space(env: Environment, kind: str, key: Hashable) -> AnySpace:
    """Find the space of an agent: a function, a dictionary, or one space for all agents."""
    single = getattr(env, f"{kind}_space", None)
    for table in (getattr(env, f"{kind}_spaces", None), single):
        if isinstance(table, Mapping) and key in [*table]:  # `in` a Dict space itself looks for elements, not for keys
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
        self.observations: dict[str, Any] = {}  # of all agents, after the last step
        self.last: tuple[Any, ...] = ()  # that step, for all agents: the fields of a `RawStep` from `previous`

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        with EnvironmentCall(self.env, "reset") as call:
            observations, infos = self.env.reset(seed=seed, options=options)
        observation = call.require_agents(observations, [self.agent], PARTS[0])[self.agent]
        self.observations = {name: copied(each) for name, each in observations.items()}
        for number, other in enumerate(self.env.possible_agents if seed is not None else ()):
            if other != self.agent:
                self.env.action_space(other).seed(seed + number)  # type: ignore[operator]
        return observation, dict(call.check_info(infos).get(self.agent, {}))

    def step(self, action: Action) -> StepResult:
        self.time += 1
        actions = {name: self.env.action_space(name).sample() for name in self.env.agents if name != self.agent}
        actions[self.agent] = action
        with EnvironmentCall(self.env, f"step {self.time}") as call:
            observations, *others = (values for values, _ in zip(self.env.step(actions), PARTS, strict=True))
        observation, reward, terminated, truncated, info = (
            call.require_agents(values, [self.agent], part)[self.agent]
            for values, part in zip((observations, *others), PARTS, strict=True)
        )
        previous, self.observations = self.observations, {name: copied(each) for name, each in observations.items()}
        self.last = (previous, actions, self.observations, *others)
        return observation, float(reward), terminated, truncated, info


def to_parallel(env: Environment, agents: Iterable[str] | None = None) -> ParallelEnv[str, Any, Any]:
    """Convert a multi-agent environment to a PettingZoo parallel environment.

    Takes a Gymnasium environment whose observation and action spaces are tuples with a space for each agent, like those
    of lbforaging and rware, and names these `agents` (agent_0, agent_1, … unless given); with `agents` the rows of
    spaces that are arrays, too. Takes also a PettingZoo environment whose agents act in turns, where PettingZoo itself
    can convert it, and any with dictionaries over agents, which may be integers or tuples, in spaces that are
    dictionaries over them. A dictionary from agents to Gymnasium environments for one agent becomes one environment. A
    parallel one stays as it is.
    """
    if isinstance(env, Mapping):
        return SeparateWorlds(env)
    if isinstance(env, gymnasium.Env):
        observed, acts = env.observation_space, env.action_space
        is_dict = isinstance(observed, spaces.Dict) and isinstance(acts, spaces.Dict) and observed.keys() == acts.keys()
        return DictTeam(env, agents) if is_dict else TupleTeam(env, agents)
    if agents is not None and (isinstance(env, AECEnv) or _is_plain(env)):
        raise SettingsError(f"agents of a {type(env).__name__} have names already, got {agents!r:.200}")
    if isinstance(env, AECEnv):
        if not env.metadata.get("is_parallelizable", False):
            raise SettingsError(f"{env} must let its agents act at once, and its metadata say that it does not")
        return aec_to_parallel(env)
    missing = [name for name in ("reset", "step") if not hasattr(env, name)]
    if missing:
        raise SettingsError(
            f"a multi-agent environment must have {' and '.join(missing)}, got {env!r:.60}; if each agent has an "
            "environment of its own, pass a dictionary: {agent: make_env() for agent in knows}"
        )
    return env if _is_plain(env) else DictTeam(env, agents)


def _is_plain(env: Environment) -> bool:
    """Say whether an environment is in PettingZoo's form already, with agents that are strings."""
    agents = getattr(env, "possible_agents", None)
    is_named = isinstance(agents, list | tuple) and all(isinstance(agent, str) for agent in agents)
    return isinstance(env, ParallelEnv) and is_named


def to_individual(env: Environment) -> gymnasium.Env[Any, Any]:
    """Convert an environment with one agent to a Gymnasium environment."""
    if isinstance(env, gymnasium.Env) and not isinstance(env.action_space, spaces.Tuple):
        return env
    team = to_parallel(env)
    if len(team.possible_agents) != 1:
        names = ", ".join(team.possible_agents)
        raise SettingsError(f"an individual agent needs an environment for one agent, got agents {names}")
    return IndividualWorld(team)
