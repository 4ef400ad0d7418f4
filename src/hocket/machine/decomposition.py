"""Decomposability of a team machine with respect to local event sets: the answer with its evidence."""

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
from hocket.machine.algebra import Projection, flag_events, reachable_part
from hocket.machine.composition import LARGE, Composition, Team, compose_local, independent_parts, split_known
from hocket.machine.counterexample import Counterexample, describe_structure, describe_unshared, listing, name_trace
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
    early: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # agent -> trace after which it alone is done

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
        problems = [f"{agent} controls {event}, which is not in its local event set." for agent, event in self.unaware]
        problems += [f"{e} is in no local event set, so no agent can tell that it happened." for e in self.unknown]
        if self.counterexample is not None:
            problems += self.counterexample.sentences
        return tuple(problems)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Notes on what is legal, one sentence each."""
        notes = list(machine_notes(self.machine))
        for agent, trace in self.early.items():
            final = f"its local reward machine is final after {name_trace(trace)}"
            notes.append(f"{agent} can finish before the team: {final}.")
        for agent in self.idle:
            known = listing(self.knows[agent], "and") or "empty"
            notes.append(f"The local reward machine of {agent} never changes state; its local event set is {known}.")
        return tuple(notes)

    def __repr__(self) -> str:
        return f"<Decomposition among {len(self.machines):,} agents: {'ok' if self.ok else 'not ok'}>"

    def _repr_html_(self) -> str | None:
        return show_in_notebook(self, "html")

    def explain(self) -> str:
        """Give the answer in sentences; if negative, the counterexample, and which projections merge which states."""
        agents, example = len(self.machines), self.counterexample
        merging = () if example is None else example.merging
        lines = ["Not decomposable.", *self.problems, *unreachable_notes(self.machine), *merging]
        if self.ok:
            local = f"parallel composition of the {agents:,} local reward machines"
            lines = [f"Decomposable: the team machine is bisimilar to the {local if agents > 1 else 'local one'}."]
            if not self.machine.has_completion_rewards:
                lines.append("The rewards are shared out: along every trace, the local rewards add up to the team's.")
            lines += self.notes
        return cut_names("\n".join(lines))


def decompose(
    machine: RewardMachine | Composition,  # of the team
    knows: Knows,  # agent -> its local event set
    control: Control | None = None,  # event -> the agents that control it, who must know it
) -> Decomposition:
    """Project a team machine onto local event sets, and prove or refute that the projections compose to it.

    The check takes time linear in the transitions and never builds the parallel composition: this simulates the team
    machine, so only the converse can fail. It fails in a reachable state if all agents that know an event propose it
    and the team machine has no transition on it, or if all projections are final and the team machine is not. A
    composition needs no check if the local event sets are the events of its parts: it is decomposable into its parts.

    Rewards other than 1 for completion are shared out: the local rewards add up to the team's. If this is impossible,
    the counterexample is of the kind `reward`.

    States that no trace reaches are dropped first. An agent that controls an event must know it even if it cannot
    happen.

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
    machines = {agent: view.local_machine for agent, view in projections.items()}
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


def _by_parts(team: Team, parts: Mapping[str, RewardMachine], known: Known, control: Known) -> Decomposition:
    """Decompose independent parts one by one."""
    machines: dict[str, list[RewardMachine]] = {agent: [] for agent in known}
    examples: list[Counterexample] = []
    unknown: list[str] = []
    for name, known_here in split_known(parts, known).items():
        part = reachable_part(parts[name])
        projections = _projections_of(part, known_here)
        for agent, view in projections.items():
            machines[agent].append(view.local_machine)
        views = list(projections.values())
        unknown += unknown_events(part, views) if views else part.events
        if views and (failure := find_failure(part, views)) is not None:
            example = describe_structure(part, projections, *failure)
            if example.event is None:  # all local machines are final only if the other parts are completed, too
                others = (other for also, other in parts.items() if also != name)
                example = replace(example, trace=tuple(chain(example.trace, *map(_trace_to_completion, others))))
            examples.append(example)
    composed = {agent: compose_local(agent, local) for agent, local in machines.items()}
    shortest = min(examples, key=lambda example: len(example.trace), default=None)
    return Decomposition(team, known, control, MappingProxyType(composed), shortest, Names(unknown))


def _trace_to_completion(machine: RewardMachine) -> tuple[str, ...]:
    return machine.trace_to(next(state for state in machine.reach.order.tolist() if machine.is_final[state]))


def enumerate_states(team: RewardMachine | Composition) -> RewardMachine:
    """Build the machine of a composition, if it is not too large; return any other machine unchanged."""
    if isinstance(team, RewardMachine):
        return team
    if team.most_states > LARGEST_ENUMERATION:
        rule = "each local event set must be the events of the agent's own part"
        raise AssignmentError(f"a composition of up to {team.most_states_shown} states is not enumerated: {rule}")
    return team.machine()


def unreachable_notes(machine: Team) -> tuple[str, ...]:
    """Name the states that no trace reaches, in one sentence if there are any."""
    unreachable = machine.unreachable if isinstance(machine, RewardMachine) else ()
    return (f"No trace reaches {listing(unreachable)}.",) if unreachable else ()


def machine_notes(machine: Team) -> tuple[str, ...]:
    """Collect the notes on a team machine and on the formulas from which it or its parts were made."""
    machines = machine.parts.values() if isinstance(machine, Composition) else (machine,)
    meanings = [machine.meaning for machine in machines if machine.meaning is not None]
    return (*unreachable_notes(machine), *dict.fromkeys(note for meaning in meanings for note in meaning.notes))


def check_knows(machine: RewardMachine | Composition, knows: Knows) -> dict[str, Names]:
    """Check the names of agents and that they know events of the machine; sort these in the machine's order."""
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
    """Check that controlled events and their controllers exist; sort events in the machine's order."""
    everyone = Names(agents)
    given = {} if control is None else dict(control)
    for event, controllers in given.items():
        require_known(event, machine.events, "control: event", AssignmentError, IN_THIS_MACHINE)
        given[event] = Names((controllers,) if isinstance(controllers, str) else controllers)
        for agent in given[event]:
            require_known(agent, everyone, f"control of {event!r}: agent", AssignmentError)
    return {event: Names(sorted(given[event], key=everyone.index)) for event in machine.events if event in given}


def _projections_of(machine: RewardMachine, known: Mapping[str, Names]) -> dict[str, Projection]:
    """Project for each agent, once for agents with the same local event set."""
    views = {events: Projection(machine, flag_events(machine, events)) for events in dict.fromkeys(known.values())}
    return {agent: views[events] for agent, events in known.items()}


def unknown_events(machine: RewardMachine, projections: Sequence[Projection]) -> Names:
    """List the events that can happen and are in no local event set; all states are reachable."""
    seen = np.logical_or.reduce([projection.visible for projection in projections])
    unseen = np.flatnonzero(flags_at(machine.graph.label, len(seen)) & ~seen)
    return Names(map(machine.events.at, unseen.tolist()))


def find_failure(machine: RewardMachine, projections: Sequence[Projection]) -> tuple[int, int] | None:
    """Find a state nearest to the initial one in which the composition allows what the team machine does not, and the
    phantom event, or -1 for a premature completion; None if it is decomposable. All states must be reachable."""
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
    """Find a state nearest to the initial one, and an undefined event that all agents that know it propose in it."""
    order = machine.reach.order
    nearest, phantom = len(order), -1
    for event, edges in enumerate(machine.by_event):
        allowed = machine.rank[machine.graph.source[edges]]
        if len(allowed) == 0:
            continue  # it cannot happen, and no projection proposes it
        proposed = _proposed(projections, event, nearest)
        wrong = proposed[~_is_among(proposed, allowed)]
        if len(wrong):
            nearest, phantom = int(wrong.min()), event
    return None if phantom < 0 else (int(order[nearest]), phantom)


def _proposed(projections: Sequence[Projection], event: int, limit: int) -> Ints:
    """List the ranks below `limit` of the states in which all agents that know an event propose it."""
    proposing = [(projection, projection.enabling(event)) for projection in projections if projection.visible[event]]
    proposing.sort(key=lambda pair: pair[0].count_members(pair[1]))
    if not proposing:
        return np.arange(limit, dtype=np.int32)
    (fewest, classes), *others = proposing
    ranks = fewest.members_of(classes)
    ranks = ranks[ranks < limit]
    for projection, classes in others:
        ranks = ranks[_is_among(projection.ranked[ranks], classes)]
    return ranks


def _is_among(values: Ints, sorted_set: Ints) -> Flags:
    position = np.minimum(np.searchsorted(sorted_set, values), len(sorted_set) - 1)
    return np.equal(sorted_set[position], values)
