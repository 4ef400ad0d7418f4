"""Does a team's task split into tasks for its agents? A verdict with its evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Literal

import numpy as np

from hocket.errors import AssignmentError, MachineError, known_names
from hocket.graphs import Flags, Ints, hidden_path, hidden_reasons, labels_to, prove_congruence
from hocket.machine.algebra import Projection, flag_events, reachable_part
from hocket.machine.composition import Composition
from hocket.machine.names import Names, check_name
from hocket.machine.reward_machine import RewardMachine
from hocket.notebook_hook import shown

LARGEST_ENUMERATION = 5_000_000  # states

Kind = Literal["phantom event", "premature completion"]
Knows = Mapping[str, Iterable[str]]  # agent -> the events that it notices
Control = Mapping[str, Iterable[str]]  # event -> the agents that make it happen, together


@dataclass(frozen=True)
class Confusion:
    """Two states that an agent takes for one, and the events that lead between them unnoticed."""

    agent: str
    state: str  # where the team is
    mistaken_for: str  # where it could be, for all the agent knows
    unnoticed: tuple[str, ...]


@dataclass(frozen=True)
class Counterexample:
    """A shortest story in which the agents' machines allow what the team's machine does not."""

    trace: tuple[str, ...]  # what has happened, as the team machine allows it
    kind: Kind
    event: str | None  # the phantom event; None for a premature completion
    state: str  # where the team machine is after the trace
    confusions: tuple[Confusion, ...]  # one for each agent that has to agree


@dataclass(frozen=True, repr=False)
class Decomposition:
    """A team machine, who knows what, each agent's machine, and whether they amount to the team machine."""

    machine: RewardMachine | Composition
    knows: Mapping[str, Names]
    control: Mapping[str, Names]
    machines: Mapping[str, RewardMachine]  # of each agent: the reachable part's projection onto what it knows
    counterexample: Counterexample | None
    unaware: tuple[tuple[str, str], ...]  # (agent, event): agents that make an event happen without knowing it
    unknown: Names  # events that can happen and that nobody knows
    early: Mapping[str, tuple[str, ...]]  # agents that finish before the team -> a shortest trace after which one does
    idle: Names  # agents whose machines never move: what they know never matters

    @property
    def ok(self) -> bool:
        """Whether the agents' machines, side by side, are bisimilar to the team machine, and control is respected."""
        return self.counterexample is None and not self.unaware and not self.unknown

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """What a designer should mend, one sentence each."""
        said = [f"{agent} controls {event} but does not know it." for agent, event in self.unaware]
        said += [f"Nobody knows {event}, so no agent can tell that it happened." for event in self.unknown]
        if self.counterexample is not None:
            said.append(_what_goes_wrong(self.counterexample))
        if isinstance(self.machine, RewardMachine) and self.machine.unreachable:
            said.append(f"No trace leads to {_listing(self.machine.unreachable)}.")
        return tuple(said)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What is legal and worth knowing, one sentence each."""
        said = []
        for agent, trace in self.early.items():
            when = f"after {_story(trace)}" if trace else "from the start"
            said.append(f"{agent} can finish before the team does: {when} its part is done and the team's is not.")
        for agent in self.idle:
            known = (
                f"what it knows ({_listing(self.knows[agent])}) never moves" if self.knows[agent] else "nothing moves"
            )
            said.append(f"{agent} knows nothing useful: {known} its machine.")
        return tuple(said)

    def __repr__(self) -> str:
        return f"<Decomposition among {len(self.machines):,} agents: {'ok' if self.ok else 'not ok'}>"

    def _repr_html_(self) -> str | None:
        return shown(self, "html")

    def explain(self) -> str:
        """Say in sentences whether the task splits and, if it does not, how the team goes wrong and who is confused."""
        if self.ok:
            agents = len(self.machines)
            parts = "agent's machine is" if agents == 1 else "agents' machines side by side are"
            return "\n".join((f"Decomposable: the {agents} {parts} the team machine.", *self.problems, *self.notes))
        lines = ["Not decomposable.", *self.problems]
        if self.counterexample is not None:
            lines += [
                _who_confuses_what(self.counterexample, confusion) for confusion in self.counterexample.confusions
            ]
        return "\n".join(lines)


def decompose(machine: RewardMachine | Composition, knows: Knows, control: Control | None = None) -> Decomposition:
    """Split a team machine among agents that know the events `knows` gives them, and prove it right or refute it.

    The check takes time linear in the transitions and never builds the product of the parts: the parts allow all that
    the team machine allows, so it is enough to look, in every reachable state, for an event that all who know it would
    accept and the team machine would not, and for a completion that all believe in and that is not one. A composition
    needs no check if each agent knows the events of its own part: it is decomposable into its parts.

    States that no trace leads to are left out first: they confuse nobody. Whoever controls an event must know it even
    where it cannot happen.

    >>> team = RewardMachine(initial="u0", transitions={("u0", "a"): "u1", ("u1", "b"): "u2"}, final={"u2"})
    >>> decompose(team, {"A1": {"a"}, "A2": {"a", "b"}}).ok
    True
    >>> print(decompose(team, {"A1": {"a"}, "A2": {"b"}}).explain())
    Not decomposable.
    At the start, everyone who knows b would accept it, but the team machine is in u0, where it cannot happen.
    A2 cannot tell u0 from u1, where b can happen: it does not notice a.
    """
    known = check_knows(machine, knows)
    controllers = check_control(machine, known, control)
    unaware = tuple(
        (agent, event) for event, agents in controllers.items() for agent in agents if event not in known[agent]
    )
    if isinstance(machine, Composition):
        if known == {agent: part.events for agent, part in machine.parts.items()}:
            return _into_parts(machine, known, controllers, unaware)
        machine = enumerate_states(machine)
    team = reachable_part(machine)
    projections = _projections_of(team, known)
    failure = find_failure(team, list(projections.values()))
    return Decomposition(
        machine=machine,
        knows=MappingProxyType(known),
        control=MappingProxyType(controllers),
        machines=MappingProxyType(_machines_of(projections)),
        counterexample=None if failure is None else _tell(team, projections, *failure),
        unaware=unaware,
        unknown=Names(tuple(team.events)[event] for event in unknown_events(team, list(projections.values()))),
        early=MappingProxyType(_early_finishers(team, projections)),
        idle=Names(
            agent for agent, projection in projections.items() if np.array_equal(projection.source, projection.target)
        ),
    )


def _into_parts(
    team: Composition, known: dict[str, Names], control: dict[str, Names], unaware: tuple[tuple[str, str], ...]
) -> Decomposition:
    return Decomposition(
        machine=team,
        knows=MappingProxyType(known),
        control=MappingProxyType(control),
        machines=team.parts,
        counterexample=None,
        unaware=unaware,
        unknown=Names(),
        early=MappingProxyType({}),
        idle=Names(agent for agent, part in team.parts.items() if np.array_equal(part.graph.source, part.graph.target)),
    )


def enumerate_states(team: Composition) -> RewardMachine:
    """Build the machine of a composition, if it is not too large."""
    if team.most_states > LARGEST_ENUMERATION:
        rule = "agents must know the events of their own parts, no more and no less"
        raise AssignmentError(f"a composition of up to {team.most_states:,} states is not enumerated: {rule}")
    return team.machine()


def check_knows(machine: RewardMachine | Composition, knows: Knows) -> dict[str, Names]:
    """Check that agents have names and know events that exist; put the events in the machine's order."""
    if not isinstance(knows, Mapping) or not knows:
        raise AssignmentError(f"knows must map each agent to the events it knows, got {knows!r}")
    known: dict[str, Names] = {}
    for agent, events in knows.items():
        check_name(agent, "an agent")
        own = Names((events,) if isinstance(events, str) else events)
        for event in own:
            if event not in machine.events:
                hint = known_names(str(event), machine.events)
                raise AssignmentError(f"agent {agent!r} knows event {event!r}, which does not exist ({hint})")
        known[agent] = Names(sorted(own, key=machine.events.index))
    if not machine.has_completion_rewards and list(known.values()) != [machine.events]:
        raise MachineError("only a machine that rewards nothing but completing its task can be split among agents")
    return known


def check_control(
    machine: RewardMachine | Composition, agents: Iterable[str], control: Control | None
) -> dict[str, Names]:
    """Check that controlled events and their controllers exist; put the events in the machine's order."""
    everyone = Names(agents)
    given = {} if control is None else dict(control)
    for event, controllers in given.items():
        if event not in machine.events:
            hint = known_names(str(event), machine.events)
            raise AssignmentError(f"control: event {event!r} does not exist in this machine ({hint})")
        given[event] = Names((controllers,) if isinstance(controllers, str) else controllers)
        for agent in given[event]:
            if agent not in everyone:
                hint = known_names(str(agent), everyone)
                raise AssignmentError(f"control of {event!r}: agent {agent!r} does not exist ({hint})")
    return {event: Names(sorted(given[event], key=everyone.index)) for event in machine.events if event in given}


def _projections_of(machine: RewardMachine, known: Mapping[str, Names]) -> dict[str, Projection]:
    """Take each agent's projection, once for all agents that know the same."""
    taken: dict[Names, Projection] = {}
    return {
        agent: taken.get(events) or taken.setdefault(events, Projection(machine, flag_events(machine, events)))
        for agent, events in known.items()
    }


def _machines_of(projections: Mapping[str, Projection]) -> dict[str, RewardMachine]:
    made = {id(projection): projection for projection in projections.values()}
    named = {key: projection.machine(trace_back=False) for key, projection in made.items()}
    return {agent: named[id(projection)] for agent, projection in projections.items()}


def unknown_events(machine: RewardMachine, projections: Sequence[Projection]) -> list[int]:
    """List the events that can happen and that nobody knows; all states are reachable."""
    unseen = ~np.logical_or.reduce([projection.visible for projection in projections])
    used = np.zeros(len(unseen), np.bool_)
    used[machine.graph.label] = True
    return np.flatnonzero(used & unseen).tolist()


def find_failure(machine: RewardMachine, projections: Sequence[Projection]) -> tuple[int, int] | None:
    """Find a state nearest to the start in which the parts allow what the team machine does not.

    Returns the state and the phantom event, or -1 for a premature completion; None if the parts make the whole. All
    states are reachable.
    """
    order = machine.reach.order
    believed = np.logical_and.reduce([projection.is_final[projection.classes[order]] for projection in projections])
    premature = np.flatnonzero(believed & ~machine.is_final[order])
    phantom = _find_phantom(machine, projections)
    if len(premature) == 0:
        return phantom
    state = int(order[premature[0]])
    if phantom is not None and _distance(machine, phantom[0]) < _distance(machine, state):
        return phantom
    return state, -1


def _find_phantom(machine: RewardMachine, projections: Sequence[Projection]) -> tuple[int, int] | None:
    """Find a state nearest to the start and an event that all who know it accept there and the team machine doesn't."""
    order = machine.reach.order
    rank = np.empty(len(order), np.int32)  # position in the order
    rank[order] = np.arange(len(order), dtype=np.int32)
    by_event = np.argsort(machine.graph.label, kind="stable")
    begins = np.searchsorted(machine.graph.label[by_event], np.arange(len(machine.events) + 1))
    nearest, culprit = len(order), -1
    for event in range(len(machine.events)):
        allowed = np.sort(rank[machine.graph.source[by_event[begins[event] : begins[event + 1]]]])
        if len(allowed) == 0:
            continue  # it cannot happen, and nobody would accept it
        accepted = _accepted(projections, event, nearest)
        wrong = accepted[~_is_among(accepted, allowed)]
        if len(wrong):
            nearest, culprit = int(wrong.min()), event
    return None if culprit < 0 else (int(order[nearest]), culprit)


def _accepted(projections: Sequence[Projection], event: int, limit: int) -> Ints:
    """List the ranks below `limit` of the states in which all who know an event accept it."""
    knowers = sorted(
        ((projection, projection.enabling(event)) for projection in projections if projection.visible[event]),
        key=lambda knower: knower[0].count_members(knower[1]),
    )
    if not knowers:
        return np.arange(limit, dtype=np.int32)
    (narrowest, classes), *others = knowers
    ranks = narrowest.members_of(classes)
    ranks = ranks[ranks < limit]
    for projection, classes in others:
        ranks = ranks[_is_among(projection.ranked[ranks], classes)]
    return ranks


def _is_among(values: Ints, sorted_set: Ints) -> Flags:
    position = np.minimum(np.searchsorted(sorted_set, values), len(sorted_set) - 1)
    return np.equal(sorted_set[position], values)


def _distance(machine: RewardMachine, state: int) -> int:
    return len(labels_to(machine.graph, machine.reach, state))


def _trace_to(machine: RewardMachine, state: int) -> tuple[str, ...]:
    names = tuple(machine.events)
    return tuple(names[event] for event in labels_to(machine.graph, machine.reach, state))


def _tell(machine: RewardMachine, projections: Mapping[str, Projection], state: int, event: int) -> Counterexample:
    """Turn a failure into a story: what happened, what goes wrong, who takes which state for which."""
    names, events = tuple(machine.states), tuple(machine.events)
    confusions = []
    for agent, projection in projections.items():
        if event < 0 or projection.visible[event]:
            other, unnoticed = confuse(machine, projection.visible, projection.classes, state, event)
            unnoticed_names = tuple(events[hidden] for hidden in unnoticed)
            confusions.append(Confusion(agent, names[state], names[other], unnoticed_names))
    return Counterexample(
        trace=_trace_to(machine, state),
        kind="phantom event" if event >= 0 else "premature completion",
        event=events[event] if event >= 0 else None,
        state=names[state],
        confusions=tuple(confusions),
    )


def _early_finishers(machine: RewardMachine, projections: Mapping[str, Projection]) -> dict[str, tuple[str, ...]]:
    order = machine.reach.order
    early = {}
    for agent, projection in projections.items():
        done = np.flatnonzero(projection.is_final[projection.classes[order]] & ~machine.is_final[order])
        if len(done):
            early[agent] = _trace_to(machine, int(order[done[0]]))
    return early


def _what_goes_wrong(example: Counterexample) -> str:
    when = f"After {_story(example.trace)}" if example.trace else "At the start"
    if example.event is None:
        return f"{when}, every agent takes the task for done, but the team machine is in {example.state}, not final."
    accept = f"everyone who knows {example.event} would accept it"
    would = accept if example.confusions else f"nothing keeps {example.event} from happening, as nobody knows it"
    return f"{when}, {would}, but the team machine is in {example.state}, where it cannot happen."


def _who_confuses_what(example: Counterexample, confusion: Confusion) -> str:
    possible = "which is final" if example.event is None else f"where {example.event} can happen"
    unnoticed = _listing(confusion.unnoticed)
    return (
        f"{confusion.agent} cannot tell {confusion.state} from {confusion.mistaken_for}, {possible}: "
        f"it does not notice {unnoticed}."
    )


def _story(trace: Sequence[str]) -> str:
    if len(trace) > 24:
        return f"{', '.join(trace[:12])}, … ({len(trace) - 24} more), {', '.join(trace[-12:])}"
    return ", ".join(trace)


def _listing(names: Iterable[str]) -> str:
    listed = list(names)
    if len(listed) > 12:
        return f"{', '.join(listed[:12])} and {len(listed) - 12} more"
    return " or ".join((", ".join(listed[:-1]), listed[-1])) if len(listed) > 1 else "".join(listed)


def confuse(team: RewardMachine, visible: Flags, classes: Ints, state: int, event: int) -> tuple[int, list[int]]:
    """Find a state that an agent takes for `state` and in which `event` can happen (-1: which is final).

    `classes` are those of the projection onto the `visible` events. Returns the state with the hidden events on which
    the confusion rests: as long as all of them stay hidden, the two states stay merged, whatever else the agent learns.
    Prefers a state that hidden events alone lead to, over few steps.
    """
    goals = _states_with(team, event) & (classes == classes[state])
    direct = hidden_path(team.graph, team.backward, ~visible, state, goals)
    if direct is not None:
        other, labels = direct
        return other, list(dict.fromkeys(labels))
    proof = prove_congruence(team.graph, ~visible[team.graph.label])
    other = int(np.flatnonzero(goals)[0])
    return other, hidden_reasons(team.graph, proof, state, other)


def _states_with(team: RewardMachine, event: int) -> Flags:
    if event < 0:
        return team.is_final
    flags = np.zeros(len(team.states), np.bool_)
    flags[team.graph.source[team.graph.label == event]] = True
    return flags
