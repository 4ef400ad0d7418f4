"""Worlds whose agents are keys of dictionaries, of any kind and in any of the usual places, in PettingZoo's form."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, KeysView, Mapping
from typing import Any

from gymnasium import spaces
from pettingzoo import ParallelEnv

from hocket.errors import SettingsError

EVERYONE = "__all__"  # as some libraries flag the end of an episode for all agents at once
WHO = ("possible_agents", "agents", "agent_ids", "_agent_ids")  # attributes that list agents
KINDS = ("observation", "action")


class DictTeam(ParallelEnv[str, Any, Any]):  # type: ignore[misc]
    """A world that takes and gives dictionaries over agents, as a PettingZoo environment.

    Agents that are no texts get names: 3 is agent_3, and ("red", 0) is red_0; `names` has them by key. A reward, an end
    or an info that is no dictionary over agents is everybody's.
    """

    def __init__(self, env: Any, agents: Iterable[str] | None = None) -> None:  # noqa: ANN401 (whatever steps)
        keys = agent_keys(env)
        given = [name_agent(key) for key in keys] if agents is None else list(agents)
        if len(given) != len(keys) or len(set(given)) != len(keys):
            raise SettingsError(f"agents must be {len(keys)} different names, one for each agent, got {given!r:.200}")
        self.env, self.names = env, dict(zip(keys, given, strict=True))
        self.keys = dict(zip(given, keys, strict=True))
        self.metadata = {
            "name": type(env).__name__,
            **(getattr(env, "metadata", None) or {}),
            "is_parallelizable": True,
        }
        self.render_mode = getattr(env, "render_mode", None)
        self.possible_agents, self.agents = given, list[str]()
        self.observation_spaces, self.action_spaces = (
            {name: _space(env, kind, key) for name, key in self.keys.items()} for kind in KINDS
        )

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        given = self.env.reset(seed=seed, options=options)
        if not isinstance(given, tuple) or len(given) != 2:
            raise SettingsError(f"reset() of {type(self.env).__name__} must return observations and infos")
        observations, infos = given
        self.agents = [name for name, key in self.keys.items() if key in observations]
        return self._each(observations, self.agents), self._shared(infos, self.agents)

    def step(self, actions: Mapping[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        acting = self.agents
        observations, rewards, *ends, infos = self.env.step({self.keys[name]: act for name, act in actions.items()})
        here = [name for name in self.possible_agents if name in acting or self.keys[name] in observations]
        terminated, truncated = (self._ended(end, here) for end in ends)
        self.agents = [name for name in here if not (terminated[name] or truncated[name])]
        seen = self._each(observations, here)
        return seen, self._shared(rewards, here), terminated, truncated, self._shared(infos, here)

    def render(self) -> Any:  # noqa: ANN401 (whatever it draws)
        return self.env.render()

    def close(self) -> None:
        self.env.close()

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


def agent_keys(env: Any) -> list[Hashable]:  # noqa: ANN401
    """List the agents of a world, where it says who they are: in an attribute, or by spaces that are dictionaries."""
    for attribute in WHO:
        listed = getattr(env, attribute, None)
        if isinstance(listed, list | tuple | set | frozenset | KeysView) and listed:
            return _sorted(listed)
    for kind in KINDS:
        for attribute in (f"{kind}_spaces", f"{kind}_space"):
            table = _table(getattr(env, attribute, None))
            if table:
                return list(table)
    name = type(env).__name__
    raise SettingsError(f"{name} does not say who its agents are: add the line env.possible_agents = [...]")


def is_plain(env: Any) -> bool:  # noqa: ANN401
    """Say whether a world is in PettingZoo's form already: agents with names, and spaces of each."""
    agents = getattr(env, "possible_agents", None)
    named = isinstance(agents, list | tuple) and all(isinstance(agent, str) for agent in agents)
    return bool(named) and all(callable(getattr(env, f"{kind}_space", None)) for kind in KINDS)


def name_agent(key: Hashable) -> str:
    """Name an agent.

    >>> [name_agent(key) for key in ("pilot", 3, ("red", 0))]
    ['pilot', 'agent_3', 'red_0']
    """
    if isinstance(key, str):
        return key
    return "_".join(map(str, key)) if isinstance(key, tuple) else f"agent_{key}"


def _sorted(listed: Iterable[Hashable]) -> list[Hashable]:
    """Put the agents of a set in an order that is always the same; others have one."""
    return sorted(listed, key=repr) if isinstance(listed, set | frozenset) else list(listed)


def _table(space: object) -> Mapping[Hashable, spaces.Space[Any]]:
    """Read spaces by agent, be it a dictionary or a Dict space."""
    if isinstance(space, spaces.Dict):
        return space.spaces  # type: ignore[return-value]
    return space if isinstance(space, Mapping) else {}


def _space(env: Any, kind: str, key: Hashable) -> spaces.Space[Any]:  # noqa: ANN401
    """Find the space of an agent: a function, a dictionary, or one space that is everybody's."""
    single, table = getattr(env, f"{kind}_space", None), _table(getattr(env, f"{kind}_spaces", None))
    if key in table:
        return table[key]
    if isinstance(single, spaces.Space) and key not in _table(single):
        return single
    if key in _table(single):
        return _table(single)[key]
    if callable(single):
        space: spaces.Space[Any] = single(key)
        return space
    name = type(env).__name__
    raise SettingsError(f"{name} has no {kind} space of {key!r}: add the line env.{kind}_spaces = {{{key!r}: ...}}")
