"""Labelling functions that users wrote, and synchronisation on what they propose, checked in every step.

A step settles in rounds, as in hocket's own worlds. All that control an event must propose it in the same step.
For a labelling function that is code, nobody can check this beforehand; so it is checked in every step.
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
    """What a team's labelling function is shown: a step of the world as it was before any machine came in."""

    time: int  # of the step, from 1
    previous: Mapping[str, Any]  # observations before the step
    actions: Mapping[str, Any]
    observations: Mapping[str, Any]  # after the step, of those who took part in it
    rewards: Mapping[str, float]
    terminated: Mapping[str, bool]
    truncated: Mapping[str, bool]
    infos: Mapping[str, Any]
    states: Mapping[str, str]  # of the agents' own machines, before the step
    team_state: object  # of the team machine, before the step: a name, or a tuple of names for a composition
    memory: dict[str, Any]  # the labelling function's own; empty at the start of an episode
    env: Any  # the world as it was passed to `wrap`, for what observations do not tell


class IndividualStep(NamedTuple):
    """What the labelling function of an individual agent is shown: a step of its own world."""

    time: int  # of the step, from 1
    previous: Any  # observation before the step
    action: Any
    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: Mapping[str, Any]
    state: str  # of the agent's machine, before the step
    memory: dict[str, Any]  # the labelling function's own; empty at the start of an episode
    env: Any


class StepEvents(NamedTuple):
    """What happens in a step, and what is wrong with the labels that say so."""

    proposed: Mapping[str, tuple[str, ...]]  # by each agent, in the first round
    events: tuple[str, ...]  # what happens, round by round, in the order of the machine
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


def begun(events: Names, before: Collection[str], edges: Collection[str]) -> Names:
    """Leave out the edges that were named in the step before, too."""
    return Names(event for event in events if event not in edges or event not in before) if edges else events


def check_events(events: str | Iterable[str], known: Names, key: str) -> Names:
    """Require events that a machine has."""
    listed = Names((events,) if isinstance(events, str) else events)
    for event in listed:
        require_known(event, known, f"{key}: event", AssignmentError, " in this machine")
    return listed


def complain(sentences: Iterable[str], problems: str, step: RawStep) -> None:
    """Raise, warn or do nothing about what is wrong with the labels of a step."""
    for sentence in sentences:
        said = f"step {step.time}: {sentence}"
        if problems == "raise":
            raise LabelError(said, step)
        if problems == "warn":
            warnings.warn(said, LabelWarning, stacklevel=3)


@dataclass(frozen=True)
class Synchronisation:
    """Synchronisation on what agents propose by themselves.

    An event happens when all that control it propose it in the same step and every agent that knows it is there and in
    a state in which it is defined. Where nothing says who controls an event, all that know it do; the others are told.
    `waits` has the events for which it is normal that some propose them before others do, like those of a meeting, and
    `edges` those that an agent proposes only when its label begins to name them.
    """

    decomposition: Decomposition
    waits: Names
    edges: Names

    @cached_property
    def knowers(self) -> dict[str, tuple[str, ...]]:
        """Who knows each event."""
        knows = self.decomposition.knows
        return {event: tuple(a for a in knows if event in knows[a]) for event in self.decomposition.machine.events}

    @cached_property
    def parties(self) -> dict[str, tuple[str, ...]]:
        """The agents that control each event: that must propose it."""
        control = self.decomposition.control
        return {event: tuple(control.get(event, ())) or knowers for event, knowers in self.knowers.items()}

    def happen(
        self, answer: Answer, states: Mapping[str, str], present: Collection[str], before: Mapping[str, Names]
    ) -> StepEvents:
        """Find out what happens when a labelling function gives an answer, and what is wrong with it.

        It happens in rounds, as in hocket's own worlds, until nothing more can; each event at most once, for an answer
        says what happened in this step of the world. An event on which agents disagree does not happen. `before` is
        what the answer before this one has named.
        """
        named = self._proposed(answer, present)
        proposed = {agent: begun(events, before.get(agent, ()), self.edges) for agent, events in named.items()}
        if not any(proposed.values()):  # as in most steps
            return StepEvents(dict.fromkeys(proposed, ()), (), (), named, states)
        machines, now = self.decomposition.machines, dict(states)
        possible = {  # of what is proposed in the first round; other events leave a machine where it is
            agent: tuple(event for event in events if (now[agent], event) in machines[agent].transitions)
            for agent, events in proposed.items()
        }
        allowed = self._allowed(proposed, now, present)
        problems, happened = tuple(self._disagreements(proposed, allowed)), list[str]()
        agreed = {event for event in self.knowers if all(event in proposed[agent] for agent in self.parties[event])}
        while events := one_for_each((e for e in allowed if e in agreed and e not in happened), self.knowers):
            for event in events:
                now.update({agent: machines[agent].transitions[now[agent], event] for agent in self.knowers[event]})
            happened += events
            allowed = self._allowed(proposed, now, present)
        return StepEvents(possible, tuple(happened), problems, named, now)

    def _disagreements(self, proposed: Mapping[str, Names], allowed: Iterable[str]) -> Iterator[str]:
        """Say which possible events some of those that control them propose, and who of these does not."""
        for event in allowed:
            missing = [agent for agent in self.parties[event] if event not in proposed[agent]]
            seen = [agent for agent in self.parties[event] if agent not in missing]
            if missing and seen and event not in self.waits:
                yield (
                    f"{' and '.join(seen)} proposed {event} and {' and '.join(missing)} did not, and all that control "
                    "an event must propose it in the same step; name it in `waits` if some may propose it before others"
                )

    def _proposed(self, answer: Answer, present: Collection[str]) -> dict[str, Names]:
        """Say who proposes what; what happens to the team is proposed by all that know it."""
        knows = self.decomposition.knows
        if not isinstance(answer, Mapping):
            events = read_events(answer, self.decomposition.machine.events, "the team")
            return {a: Names(e for e in events if e in known and a in present) for a, known in knows.items()}
        for agent in answer:
            if agent not in knows:
                raise LabelError(f"agent {agent!r:.60} is not of the team ({known_names(str(agent), knows)})")
        return {a: read_events(answer.get(a) if a in present else None, known, a) for a, known in knows.items()}

    def _allowed(self, proposed: Mapping[str, Names], states: Mapping[str, str], present: Collection[str]) -> list[str]:
        """List what nobody who knows it rules out of all that is proposed: it is there, and its machine allows it."""
        anything, machines = {event for events in proposed.values() for event in events}, self.decomposition.machines
        return [
            event
            for event, knowers in self.knowers.items()
            if event in anything
            and all(agent in present and (states[agent], event) in machines[agent].transitions for agent in knowers)
        ]


class LabelErrors(AbstractContextManager[Any]):
    """Name the step of the world in which a labelling function raises something or answers wrongly, and keep it."""

    def __init__(self, step: RawStep | IndividualStep) -> None:
        self.step = step

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            is_plain = isinstance(error, HocketError)
            said = error if is_plain else f"the labelling function raised {type(error).__name__}: {error}"
            raise LabelError(f"step {self.step.time}: {said}", self.step) from error


class WorldErrors(AbstractContextManager[Any]):
    """Name a world that raises something, and when; what it raised is the cause."""

    def __init__(self, env: object, when: str) -> None:
        self.env, self.when = env, when

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, HocketError):
            raise HocketError(f"{self.env} raised {type(error).__name__} in {self.when}: {error}") from error


def shares_of(env: object, part: object, agents: Iterable[str], what: str, when: str) -> dict[str, Any]:
    """Find what a world says of agents; each that takes part in a step has a share in all that it gives."""
    given = part if isinstance(part, Mapping) else {}
    for agent in agents:
        if agent not in given:
            raise HocketError(f"{env} gives no {what} of agent {agent!r} in {when}, who takes part in it")
        if what == "info":
            check_info(env, given[agent], f"of agent {agent!r} in {when}")
    return {agent: given[agent] for agent in agents}


def check_seen(env: object, sight: ObservationEncoder, observation: object, agent: str, when: str) -> None:
    """Require that what a world shows is of the space that it has promised."""
    if not sight.fits(observation):
        raise HocketError(f"{env} shows {agent} {shown(observation)} in {when}, which is not of {sight.world}")


def check_info(env: object, info: Any, which: str) -> Mapping[str, Any]:  # noqa: ANN401
    """Require that an info is a mapping; it may be empty."""
    if not isinstance(info, Mapping):
        raise HocketError(f"an info must be a mapping, got {shown(info)} from {env} {which}")
    return info
