"""Labelling functions that users write, and synchronisation on what they propose, checked in every step.

A step settles in rounds, as in hocket's own environments. All agents that control an event must propose it in the same
step. For a labelling function that is code, this cannot be checked beforehand; so it is checked in every step.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from hocket.adapters.observations import ObservationEncoder
from hocket.errors import AssignmentError, HocketError, LabelError, LabelWarning, known_names, require_known, shown
from hocket.machine.decomposition import Decomposition
from hocket.machine.names import Names
from hocket.task.settling import one_for_each

Proposed = str | Iterable[str] | None  # no event, one, or several
Answer = Proposed | Mapping[str, Proposed]  # what happens to the team, or what each agent proposes by itself
Problems = Literal["raise", "warn", "ignore"]

PROBLEMS = ("raise", "warn", "ignore")
NOTHING = Names()
PARTS = ("observation", "reward", "termination", "truncation", "info")  # of a step


class RawStep(NamedTuple):
    """The argument of a team's labelling function: a step of the environment, without rewards of machines."""

    time: int  # of the step, from 1
    previous: Mapping[str, Any]  # observations before the step
    actions: Mapping[str, Any]
    observations: Mapping[str, Any]  # after the step, of agents that took part in it
    rewards: Mapping[str, float]
    terminated: Mapping[str, bool]
    truncated: Mapping[str, bool]
    infos: Mapping[str, Any]
    states: Mapping[str, str]  # of the agents' machines, before the step
    team_state: object  # of the team machine, before the step: a name, or a tuple of names for a composition
    memory: dict[str, Any]  # of the labelling function; empty at the start of an episode
    env: Any  # the environment as it was passed to `wrap`, for what observations do not tell


class IndividualStep(NamedTuple):
    """The argument of an individual agent's labelling function: a step of its environment."""

    time: int  # of the step, from 1
    previous: Any  # observation before the step
    action: Any
    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: Mapping[str, Any]
    state: str  # of the agent's machine, before the step
    memory: dict[str, Any]  # of the labelling function; empty at the start of an episode
    env: Any


class StepEvents(NamedTuple):
    """The events of a step, and the problems of the labels that name them."""

    proposed: Mapping[str, tuple[str, ...]]  # by each agent, in the first round
    events: tuple[str, ...]  # that happen, round by round, in the order of the machine
    problems: tuple[str, ...]  # one sentence each
    named: Mapping[str, Names]  # by the labelling function, for each agent
    states: Mapping[str, str]  # of the agents' machines, after the step


def read_events(answer: Proposed, known: Names, whose: str) -> Names:
    """Check that a labelling function's answer names known events; put them in order."""
    if answer is None:
        return NOTHING
    if not isinstance(answer, Iterable) or isinstance(answer, bytes | Mapping):
        raise LabelError(f"a label must be None, an event or a collection of events, got {answer!r:.60}")
    named = (answer,) if isinstance(answer, str) else tuple(answer)
    for event in named:
        if not isinstance(event, str) or event not in known:
            raise LabelError(f"event {event!r:.60} is not known to {whose} ({known_names(str(event), known)})")
    return Names(sorted(named, key=known.index))


def drop_old_edges(events: Names, before: Collection[str], edges: Collection[str]) -> Names:
    """Leave out the edges that were named in the step before, too."""
    return Names(event for event in events if event not in edges or event not in before) if edges else events


def check_events(events: str | Iterable[str], known: Names, key: str) -> Names:
    """Require events that a machine has."""
    listed = Names((events,) if isinstance(events, str) else events)
    for event in listed:
        require_known(event, known, f"{key}: event", AssignmentError, " in this machine")
    return listed


def report_problems(sentences: Iterable[str], problems: str, step: RawStep) -> None:
    """Raise, warn of or ignore the problems of the labels of a step."""
    for sentence in sentences:
        message = f"step {step.time}: {sentence}"
        if problems == "raise":
            raise LabelError(message, step)
        if problems == "warn":
            warnings.warn(message, LabelWarning, stacklevel=3)


@dataclass(frozen=True)
class Synchronisation:
    """Synchronisation on what agents propose by themselves.

    An event happens when all that control it propose it in the same step and every agent that knows it is present and
    in a state in which it is defined. Without `control`, all that know an event control it; otherwise the others are
    told. Some agents may propose events of `waits` before others do, like those of a meeting; an agent proposes those
    of `edges` only when its label begins to name them.
    """

    decomposition: Decomposition
    waits: Names
    edges: Names

    @cached_property
    def knowers(self) -> dict[str, tuple[str, ...]]:
        """The agents that know each event."""
        knows = self.decomposition.knows
        return {event: tuple(a for a in knows if event in knows[a]) for event in self.decomposition.machine.events}

    @cached_property
    def controllers(self) -> dict[str, tuple[str, ...]]:
        """The agents that control each event: they must propose it."""
        control = self.decomposition.control
        return {event: tuple(control.get(event, ())) or knowers for event, knowers in self.knowers.items()}

    def settle(
        self, answer: Answer, states: Mapping[str, str], present: Collection[str], before: Mapping[str, Names]
    ) -> StepEvents:
        """Compute the events of a step from the answer of a labelling function, and the problems of the answer.

        Events happen in rounds until no more are possible, each at most once, because an answer names what happened in
        one step; those on which agents disagree do not happen. `before` has the events that the previous answer named.
        """
        named = self._read_answer(answer, present)
        proposed = {agent: drop_old_edges(events, before.get(agent, ()), self.edges) for agent, events in named.items()}
        if not any(proposed.values()):  # as in most steps
            return StepEvents(dict.fromkeys(proposed, ()), (), (), named, states)
        machines, now = self.decomposition.machines, dict(states)
        possible = {  # in the first round; other events leave a machine in its state
            agent: tuple(event for event in events if (now[agent], event) in machines[agent].transitions)
            for agent, events in proposed.items()
        }
        allowed = self._allowed(proposed, now, present)
        problems, happened = tuple(self._disagreements(proposed, allowed)), list[str]()
        agreed = {event for event in self.knowers if all(event in proposed[agent] for agent in self.controllers[event])}
        while events := one_for_each((e for e in allowed if e in agreed and e not in happened), self.knowers):
            for event in events:
                now.update({agent: machines[agent].transitions[now[agent], event] for agent in self.knowers[event]})
            happened += events
            allowed = self._allowed(proposed, now, present)
        return StepEvents(possible, tuple(happened), problems, named, now)

    def _disagreements(self, proposed: Mapping[str, Names], allowed: Iterable[str]) -> Iterator[str]:
        """Describe the possible events that some of the agents that control them propose and others do not."""
        for event in allowed:
            missing = [agent for agent in self.controllers[event] if event not in proposed[agent]]
            proposing = [agent for agent in self.controllers[event] if agent not in missing]
            if missing and proposing and event not in self.waits:
                problem = f"{' and '.join(proposing)} proposed {event} and {' and '.join(missing)} did not"
                rule = "all that control an event must propose it in the same step"
                yield f"{problem}, and {rule}; name it in `waits` if some may propose it before others"

    def _read_answer(self, answer: Answer, present: Collection[str]) -> dict[str, Names]:
        """Return the events that each agent proposes; those of the team are proposed by all that know them."""
        knows = self.decomposition.knows
        if not isinstance(answer, Mapping):
            events = read_events(answer, self.decomposition.machine.events, "the team")
            return {a: Names(e for e in events if e in known and a in present) for a, known in knows.items()}
        for agent in answer:
            if agent not in knows:
                raise LabelError(f"agent {agent!r:.60} is not of the team ({known_names(str(agent), knows)})")
        return {a: read_events(answer.get(a) if a in present else None, known, a) for a, known in knows.items()}

    def _allowed(self, proposed: Mapping[str, Names], states: Mapping[str, str], present: Collection[str]) -> list[str]:
        """List the proposed events for which all agents that know them are present and in a state that allows them."""
        candidates, machines = set[str]().union(*proposed.values()), self.decomposition.machines
        return [
            event
            for event, knowers in self.knowers.items()
            if event in candidates
            and all(agent in present and (states[agent], event) in machines[agent].transitions for agent in knowers)
        ]


@dataclass
class LabelErrors(AbstractContextManager[Any]):
    """Adds the step to errors that a labelling function raises or that its answer causes."""

    step: RawStep | IndividualStep

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            is_plain = isinstance(error, HocketError)
            text = error if is_plain else f"the labelling function raised {type(error).__name__}: {error}"
            raise LabelError(f"step {self.step.time}: {text}", self.step) from error


@dataclass
class EnvironmentCall(AbstractContextManager["EnvironmentCall"]):
    """A call of an environment, which errors name; what the environment raised is their cause."""

    env: object
    when: str

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, HocketError):
            raise HocketError(f"{self.env} raised {type(error).__name__} in {self.when}: {error}") from error

    def require_agents(self, values: object, agents: Iterable[str], part: str) -> dict[str, Any]:
        """Return the values of agents in a part of what was returned, and require one for each."""
        mapping = values if isinstance(values, Mapping) else {}
        for agent in agents:
            if agent not in mapping:
                raise HocketError(f"{self.env} gives no {part} of agent {agent!r} in {self.when}, who takes part in it")
            if part == "info":
                self.check_info(mapping[agent], f"of agent {agent!r} ")
        return {agent: mapping[agent] for agent in agents}

    def check_info(self, info: Any, of_agent: str = "") -> Mapping[str, Any]:  # noqa: ANN401
        """Require that an info is a mapping; it may be empty."""
        if not isinstance(info, Mapping):
            raise HocketError(f"an info must be a mapping, got {shown(info)} from {self.env} {of_agent}in {self.when}")
        return info

    def check_observation(self, encoder: ObservationEncoder, observation: object, agent: str) -> None:
        """Require that an observation fits the observation space of the environment."""
        if not encoder.fits(observation):
            problem = f"{self.env} shows {agent} {shown(observation)} in {self.when}"
            raise HocketError(f"{problem}, which is not of {encoder.world}")
