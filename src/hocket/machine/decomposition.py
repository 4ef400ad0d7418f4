"""Decomposability of a team machine with respect to local event sets: a verdict with its evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from types import MappingProxyType

import numpy as np

from hocket.errors import AssignmentError, cut_names, known_names, require_known
from hocket.graphs import Flags, Ints, flags_at
from hocket.lazy import show_in_notebook
from hocket.machine.algebra import Projection, Views, flag_events, reachable_part
from hocket.machine.composition import LARGE, Composition, Parts, Team, independent_parts, join_shares, notes_of, shares
from hocket.machine.counterexample import (
    Counterexample,
    describe_merging,
    describe_structure,
    describe_unshared,
    listing,
    name_trace,
)
from hocket.machine.names import IN_THIS_MACHINE, Known, Names, check_name
from hocket.machine.reward_machine import RewardMachine, require_machines
from hocket.machine.shared_rewards import Refutation, pay_for_progress, share_rewards

LARGEST_ENUMERATION = 5_000_000  # states

Knows = Mapping[str, Iterable[str]]  # agent -> its local event set
Control = Mapping[str, Iterable[str]]  # event -> the agents that control it, together


@dataclass(frozen=True, repr=False)
class Decomposition:
    """A team machine, local event sets and local reward machines, and whether their composition is bisimilar to it."""

    machine: RewardMachine | Composition
    knows: Mapping[str, Names]
    control: Mapping[str, Names]
    machines: Mapping[str, RewardMachine]  # of each agent: the projection of the reachable part onto its event set
    counterexample: Counterexample | None
    unknown: Names = field(default_factory=Names)  # events that can happen and are in no local event set
    early: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # agent -> a trace after which it alone is done

    @cached_property
    def unaware(self) -> tuple[tuple[str, str], ...]:
        """Agents that control an event outside their local event set: pairs (agent, event)."""
        pairs = ((agent, event) for event, agents in self.control.items() for agent in agents)
        return tuple((agent, event) for agent, event in pairs if event not in self.knows[agent])

    @cached_property
    def idle(self) -> Names:
        """Agents whose local reward machines never change state."""
        graphs = {agent: machine.graph for agent, machine in self.machines.items()}
        return Names(agent for agent, graph in graphs.items() if np.array_equal(graph.source, graph.target))

    @property
    def ok(self) -> bool:
        """Whether the team machine is bisimilar to the composition of the local ones, and control is respected."""
        return self.counterexample is None and not self.unaware and not self.unknown

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """What has to be repaired, one sentence each."""
        said = [f"{agent} controls {event}, which is not in its local event set." for agent, event in self.unaware]
        said += [f"{event} is in no local event set, so no agent can tell that it happened." for event in self.unknown]
        if self.counterexample is not None:
            said += self.counterexample.sentences
        if isinstance(self.machine, RewardMachine) and self.machine.unreachable:
            said.append(f"No trace reaches {listing(self.machine.unreachable)}.")
        return tuple(said)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What is legal and worth knowing, one sentence each."""
        said = list(notes_of(self.machine))
        for agent, trace in self.early.items():
            final = f"its local reward machine is final after {name_trace(trace)}"
            said.append(f"{agent} can finish before the team: {final}.")
        for agent in self.idle:
            known = listing(self.knows[agent], "and") or "empty"
            said.append(f"The local reward machine of {agent} never changes state; its local event set is {known}.")
        return tuple(said)

    def __repr__(self) -> str:
        return f"<Decomposition among {len(self.machines):,} agents: {'ok' if self.ok else 'not ok'}>"

    def _repr_html_(self) -> str | None:
        return show_in_notebook(self, "html")

    def explain(self) -> str:
        """Give the verdict in sentences; if negative, the counterexample, and which projections merge which states."""
        agents, said, example = len(self.machines), ["Not decomposable.", *self.problems], self.counterexample
        if self.ok:
            local = f"parallel composition of the {agents:,} local reward machines"
            said = [f"Decomposable: the team machine is bisimilar to the {local if agents > 1 else 'local one'}."]
            if not self.machine.has_completion_rewards:
                said.append("The rewards are shared out: along every trace, the local rewards add up to the team's.")
            said += [*self.problems, *self.notes]
        elif example is not None:
            said += [describe_merging(example, confusion) for confusion in example.confusions]
        return cut_names("\n".join(said))


def decompose(
    machine: RewardMachine | Composition,  # of the team
    knows: Knows,  # agent -> its local event set
    control: Control | None = None,  # event -> the agents that control it, who must know it
) -> Decomposition:
    """Project a team machine onto local event sets, and prove or refute that the projections compose to it.

    The check takes time linear in the transitions and never builds the parallel composition: that one simulates the
    team machine, so only the converse can fail. It fails in a reachable state if all agents that know an event propose
    it and the team machine has no transition on it, or if all projections are final and the team machine is not. A
    composition needs no check if the local event sets are the events of its parts: it is decomposable into its parts.

    Rewards other than 1 for completion are shared out: the local rewards add up to the team's. Where they cannot, the
    counterexample is of the kind `reward`.

    States that no trace leads to are left out first: they confuse nobody. Whoever controls an event must know it even
    where it cannot happen.

    >>> team = RewardMachine(initial="u0", transitions={("u0", "a"): "u1", ("u1", "b"): "u2"}, final={"u2"})
    >>> decompose(team, {"A1": {"a"}, "A2": {"a", "b"}}).ok
    True
    >>> print(decompose(team, {"A1": {"a"}, "A2": {"b"}}).explain())
    Not decomposable.
    Counterexample (phantom event): after the empty trace, A2 proposes b, but b is undefined in state u0.
    The projection of A2 merges u0 and u1, where b is defined; to separate them, its local event set needs a.
    """
    known = MappingProxyType(check_knows(machine, knows))
    controllers = MappingProxyType(check_control(machine, known, control))
    if isinstance(machine, Composition) and machine.is_split_by(known):
        parts_used = MappingProxyType({agent: reachable_part(part) for agent, part in machine.parts.items()})
        return Decomposition(machine, known, controllers, parts_used, None)
    parts = independent_parts(machine)
    # A small team that is given agent by agent is enumerated, so that its states are the origin of the agents' states.
    is_small = isinstance(machine, Composition) and machine.parts.keys() == {*known} and machine.most_states <= LARGE
    if parts is not None and not is_small:
        return _by_parts(machine, parts, known, controllers)
    machine = enumerate_states(machine)
    team = reachable_part(machine)
    projections = _projections_of(team, known)
    order = team.reach.order
    early = {agent: order[view.is_final[view.ranked] & ~team.is_final[order]] for agent, view in projections.items()}
    failure = find_failure(team, list(projections.values()))
    example = None if failure is None else describe_structure(team, projections, *failure)
    machines = _machines_of(projections)
    if example is None and not machine.has_completion_rewards:
        shared = share_rewards(team, projections, controllers)
        if isinstance(shared, Refutation):
            example = describe_unshared(team, projections, shared)
        else:
            paid = pay_for_progress(team, projections, controllers, shared)
            machines = {a: view.machine(trace_back=False, reward=paid.floats(a)) for a, view in projections.items()}
    traces = {agent: team.trace_to(int(states[0])) for agent, states in early.items() if len(states)}
    rest = example, unknown_events(team, list(projections.values())), MappingProxyType(traces)
    return Decomposition(machine, known, controllers, MappingProxyType(machines), *rest)


def _by_parts(team: Team, parts: Parts, known: Known, control: Known) -> Decomposition:
    """Split independent parts one by one."""
    machines: dict[str, list[RewardMachine]] = {agent: [] for agent in known}
    examples: list[Counterexample] = []
    unknown: list[str] = []
    for name, share in shares(parts, known).items():
        part = reachable_part(parts[name])
        projections = _projections_of(part, share)
        for agent, machine in _machines_of(projections).items():
            machines[agent].append(machine)
        views = list(projections.values())
        unknown += unknown_events(part, views) if views else part.events
        if views and (failure := find_failure(part, views)) is not None:
            example = describe_structure(part, projections, *failure)
            if example.event is None:  # agents believe that all is done once all other parts are
                others = (other for also, other in parts.items() if also != name)
                example = replace(example, trace=tuple(chain(example.trace, *map(_trace_to_completion, others))))
            examples.append(example)
    joined = {agent: join_shares(agent, shares_of_agent) for agent, shares_of_agent in machines.items()}
    shortest = min(examples, key=lambda example: len(example.trace), default=None)
    return Decomposition(team, known, control, MappingProxyType(joined), shortest, Names(unknown))


def _trace_to_completion(machine: RewardMachine) -> tuple[str, ...]:
    return machine.trace_to(next(state for state in machine.reach.order.tolist() if machine.is_final[state]))


def enumerate_states(team: RewardMachine | Composition) -> RewardMachine:
    """Build the machine of a composition, if it is not too large; a machine that has all its states is as it is."""
    if isinstance(team, RewardMachine):
        return team
    if team.most_states > LARGEST_ENUMERATION:
        rule = "each local event set must be the events of the agent's own part"
        raise AssignmentError(f"a composition of up to {team.most_states_shown} states is not enumerated: {rule}")
    return team.machine()


def check_knows(machine: RewardMachine | Composition, knows: Knows) -> dict[str, Names]:
    """Check that agents have names, and local event sets that are events; put them in the machine's order."""
    require_machines(machine, kind=RewardMachine | Composition)
    if not isinstance(knows, Mapping) or not knows:
        raise AssignmentError(f"knows must map each agent to its local event set, got {knows!r}")
    known: dict[str, Names] = {}
    for agent, events in knows.items():
        check_name(agent, "an agent")
        listed = Names((events,) if isinstance(events, str) else events)
        for event in listed:
            if event not in machine.events:
                hint = known_names(str(event), machine.events)
                raise AssignmentError(f"agent {agent!r} knows event {event!r}, which does not exist ({hint})")
        known[agent] = Names(sorted(listed, key=machine.events.index))
    return known


def check_control(machine: Team, agents: Iterable[str], control: Control | None) -> dict[str, Names]:
    """Check that controlled events and their controllers exist; put the events in the machine's order."""
    everyone = Names(agents)
    given = {} if control is None else dict(control)
    for event, controllers in given.items():
        require_known(event, machine.events, "control: event", AssignmentError, IN_THIS_MACHINE)
        given[event] = Names((controllers,) if isinstance(controllers, str) else controllers)
        for agent in given[event]:
            require_known(agent, everyone, f"control of {event!r}: agent", AssignmentError)
    return {event: Names(sorted(given[event], key=everyone.index)) for event in machine.events if event in given}


def _projections_of(machine: RewardMachine, known: Mapping[str, Names]) -> dict[str, Projection]:
    """Take each agent's projection, once for all agents that have the same local event set."""
    taken = {events: Projection(machine, flag_events(machine, events)) for events in dict.fromkeys(known.values())}
    return {agent: taken[events] for agent, events in known.items()}


def _machines_of(projections: Views) -> dict[str, RewardMachine]:
    made = {id(projection): projection for projection in projections.values()}
    named = {key: projection.machine(trace_back=False, reward=None) for key, projection in made.items()}
    return {agent: named[id(projection)] for agent, projection in projections.items()}


def unknown_events(machine: RewardMachine, projections: Sequence[Projection]) -> Names:
    """List the events that can happen and are in no local event set; all states are reachable."""
    seen = np.logical_or.reduce([projection.visible for projection in projections])
    unseen = np.flatnonzero(flags_at(machine.graph.label, len(seen)) & ~seen)
    return Names(map(machine.events.at, unseen.tolist()))


def find_failure(machine: RewardMachine, projections: Sequence[Projection]) -> tuple[int, int] | None:
    """Find a state nearest to the initial one in which the composition allows what the team machine does not.

    Returns the state and the phantom event, or -1 for a premature completion; None if it is decomposable. All states
    are reachable.
    """
    order = machine.reach.order
    all_final = np.logical_and.reduce([projection.is_final[projection.classes[order]] for projection in projections])
    premature = np.flatnonzero(all_final & ~machine.is_final[order])
    phantom = _find_phantom(machine, projections)
    if len(premature) == 0:
        return phantom
    state = int(order[premature[0]])
    if phantom is not None and len(machine.trace_to(phantom[0])) < len(machine.trace_to(state)):
        return phantom
    return state, -1


def _find_phantom(machine: RewardMachine, projections: Sequence[Projection]) -> tuple[int, int] | None:
    """Find a state nearest to the initial one, and an event that all who know it propose there, undefined in it."""
    order = machine.reach.order
    nearest, culprit = len(order), -1
    for event, edges in enumerate(machine.by_event):
        allowed = machine.rank[machine.graph.source[edges]]
        if len(allowed) == 0:
            continue  # it cannot happen, and nobody would propose it
        proposed = _proposed(projections, event, nearest)
        wrong = proposed[~_is_among(proposed, allowed)]
        if len(wrong):
            nearest, culprit = int(wrong.min()), event
    return None if culprit < 0 else (int(order[nearest]), culprit)


def _proposed(projections: Sequence[Projection], event: int, limit: int) -> Ints:
    """List the ranks below `limit` of the states in which all who know an event propose it."""
    knowers = [(projection, projection.enabling(event)) for projection in projections if projection.visible[event]]
    knowers.sort(key=lambda knower: knower[0].count_members(knower[1]))
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
