"""Whether a task can be completed: by some trace, after which trace no longer, and who then waits for what."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from hocket.graphs import Flags, Graph, can_reach, distances_from
from hocket.machine.blocking import Free, find_blocked
from hocket.machine.composition import Composition, Parts, Team
from hocket.machine.counterexample import name_trace
from hocket.machine.reward_machine import RewardMachine

LARGEST_SEARCH = 200_000  # joint states of a composition up to which all are searched
MOST_EFFORT = 10_000_000  # joint states times what it takes to go on from one
MOST_LISTED = 4_000_000  # likewise, where all of them and their transitions are listed: a quarter of a gigabyte
MANY_PARTS = 64  # whose digits take as long as all else
SHOWN_AGENTS = 6


@dataclass(frozen=True)
class DeadEnd:
    """A state that is not final and from which no trace completes."""

    trace: tuple[str, ...]  # that leads to it
    state: tuple[str, ...]  # of each part; of the team machine alone where it has no parts
    is_stuck: bool  # nothing can happen any more
    is_blocked: bool = False  # parts block each other: every part by itself could still be completed


@dataclass(frozen=True)
class Completion:
    """What is known of how a task can end."""

    machine: RewardMachine | Composition
    completes: bool | None  # whether some trace completes; None: not decided
    dead_end: DeadEnd | None  # a nearest one, where nothing can happen any more if there is such a one
    decided: bool = True  # whether dead ends were searched for exhaustively

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """What has to be repaired, one sentence each: parts that block each other, a task that nothing completes."""
        said = []
        if self.completes is False:
            said.append("No trace completes the task: no final state of the team machine is reachable.")
        if isinstance(self.machine, Composition) and self.dead_end is not None and self.dead_end.is_blocked:
            said.append(_blocking(self.machine, self.dead_end))
        return tuple(said)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What is legal and may be a mistake, one sentence each."""
        if not self.decided:
            size = f"there are more joint states than are searched (at most {LARGEST_SEARCH:,})"
            return (f"Whether the parts can block each other was not decided: {size}.",)
        if self.dead_end is None or not self.completes or self.problems:
            return ()
        after = f"After {name_trace(self.dead_end.trace)}, the task can no longer be completed"
        parts = self.machine.parts if isinstance(self.machine, Composition) else ("the team machine",)
        where = [f"{part} is in {state}" for part, state in zip(parts, self.dead_end.state, strict=True)]
        return (f"{after}: {_shortened(where)}.",)


def find_completion(machine: RewardMachine | Composition) -> Completion:
    """Find out whether a task can be completed, and a shortest trace after which it no longer can.

    A machine without final states that has rewards of its own is not a task to be completed; nothing is said of it.

    >>> one = RewardMachine(initial="0", transitions={("0", "left"): "1", ("1", "meet"): "2"}, final={"2"})
    >>> other = RewardMachine(initial="0", transitions={("0", "meet"): "1", ("1", "left"): "2"}, final={"2"})
    >>> print(*find_completion(Composition({"A1": one, "A2": other})).problems, sep="\\n")
    No trace completes the task: no final state of the team machine is reachable.
    After the empty trace, the parts block each other: A1 waits for left (A2 does not propose it), A2 waits for meet \
(A1 does not propose it).
    """
    parts = machine.parts.values() if isinstance(machine, Composition) else (machine,)
    if not machine.has_completion_rewards and any(not part.is_final.any() for part in parts):
        return Completion(machine, None, None)
    if isinstance(machine, Composition):
        return _of_independent_parts(machine) if machine.is_independent else _of_composition(machine)
    completes, node = _search(machine)
    if node is None:
        return Completion(machine, completes, None)
    end = DeadEnd(machine.trace_to(node), (machine.states.at(node),), _is_sink(machine.graph, node))
    return Completion(machine, completes, end)


def _search(machine: RewardMachine, preferred: Flags | None = None) -> tuple[bool, int | None]:
    """Say whether a final state is reached, and find a nearest one from which none is; one that is never left comes
    first. If there are any among the preferred states, it is one of those.
    """
    graph, order = machine.graph, machine.reach.order
    hopeful = can_reach(graph, machine.is_final)
    dead = order[~hopeful[order]]
    if preferred is not None and preferred[dead].any():
        dead = dead[preferred[dead]]
    stuck = dead[graph.first[dead] == graph.first[dead + 1]]
    nearest = [*stuck[:1].tolist(), *dead[:1].tolist()]
    return bool(hopeful[machine.start]), nearest[0] if nearest else None


def _is_sink(graph: Graph, node: int) -> bool:
    return bool(graph.first[node] == graph.first[node + 1])


# Compositions.


def _of_independent_parts(team: Composition) -> Completion:
    """Look at each part alone, as parts without a common event cannot block each other; find the nearest dead end."""
    ends = {name: end for name, part in team.parts.items() if (end := find_completion(part).dead_end) is not None}
    if not ends:
        return Completion(team, True, None)
    name, end = min(ends.items(), key=lambda item: len(item[1].trace))
    state = tuple(end.state[0] if other == name else part.initial for other, part in team.parts.items())
    others = (part for other, part in team.parts.items() if other != name)
    is_stuck = end.is_stuck and all(_is_sink(part.graph, part.start) for part in others)
    return Completion(team, True, DeadEnd(end.trace, state, is_stuck))


def _of_composition(team: Composition) -> Completion:
    """Search as few joint states as tell whether there is a dead end, then all of them for the nearest one."""
    reduced = find_blocked(team, MOST_EFFORT)
    if isinstance(reduced, Free):
        return Completion(team, True, None)
    reachable = team.reachable(_most_states(team))
    if reachable is None:
        if reduced is None:
            return Completion(team, None, None, decided=False)
        trace = tuple(map(team.events.at, reduced.labels))
        return Completion(team, None, _dead_end(team, reduced.state, trace, reduced.is_stuck))
    states, machine = reachable
    columns = zip(team.parts.values(), states.T, strict=True)
    alive = [can_reach(part.graph, part.is_final)[column] for part, column in columns]
    completes, node = _search(machine, np.logical_and.reduce(alive))
    if node is None:
        return Completion(team, completes, None)
    end = _dead_end(team, states[node].tolist(), machine.trace_to(node), _is_sink(machine.graph, node))
    return Completion(team, completes, end)


def _most_states(team: Composition) -> int:
    """Bound the joint states by what it takes to go on from one: its parts, and the events that they propose.

    The number of a joint state has a digit for each part, so that going on takes longer where there are many.
    """
    parts = len(team.parts)
    proposed = sum(int(np.diff(part.graph.first).max(initial=0)) for part in team.parts.values())
    return max(1, min(LARGEST_SEARCH, MOST_LISTED // (parts + proposed * (1 + parts // MANY_PARTS))))


def _dead_end(team: Composition, state: Iterable[int], trace: tuple[str, ...], is_stuck: bool) -> DeadEnd:
    places = list(zip(team.parts.values(), state, strict=True))
    is_blocked = all(can_reach(part.graph, part.is_final)[local] for part, local in places)
    return DeadEnd(trace, tuple(part.states.at(local) for part, local in places), is_stuck, is_blocked)


def _blocking(team: Composition, end: DeadEnd) -> str:
    """Say in which way the parts of a composition block each other."""
    now = dict(zip(team.parts, end.state, strict=True))
    names = tuple(team.parts)
    owners = {event: [names[place] for place in agents] for event, agents in team.owners.items()}
    shared = {event for event, agents in owners.items() if len(agents) > 1}
    proposed = {agent: _proposed(part, now[agent], shared) for agent, part in team.parts.items()}
    waiting = [agent for agent, part in team.parts.items() if now[agent] not in part.final]
    waits = []
    for agent in waiting[:SHOWN_AGENTS]:
        wishes = []  # what it waits for, and who does not propose it
        for event in team.parts[agent].events:
            others = [name for name in owners[event] if event not in proposed[name]]
            if event in proposed[agent] and others:
                wishes.append(f"{event} ({_shortened(others)} {'does' if len(others) == 1 else 'do'} not propose it)")
        why = f"waits for {' or '.join(wishes[:SHOWN_AGENTS])}" if wishes else f"is in {now[agent]}, which is not final"
        waits.append(f"{agent} {why}")
    blocked = "the parts block each other" if end.is_stuck else "events can still happen, but the task never completes"
    return f"After {name_trace(end.trace)}, {blocked}: {_shortened([*waits, *waiting[SHOWN_AGENTS:]])}."


def _proposed(part: RewardMachine, state: str, shared: Collection[str]) -> set[str]:
    """Collect the shared events that a part proposes in a state, or in one that it can go to alone."""

    def alone(place: str) -> Iterator[str]:
        return (target for event, target in part.moves.get(place, {}).items() if event not in shared)

    places = distances_from([state], alone)
    return {event for place in places for event in part.moves.get(place, ()) if event in shared}


def _shortened(said: list[str]) -> str:
    more = len(said) - SHOWN_AGENTS
    return ", ".join(said) if more <= 0 else f"{', '.join(said[:SHOWN_AGENTS])}, … ({more:,} more)"


# Local machines.


def leavable(machine: RewardMachine) -> Flags:
    """Flag the final states that can be left again: from which some trace leads to one that is not final."""
    return machine.is_final & can_reach(machine.graph, ~machine.is_final)


def find_leaving(machine: RewardMachine) -> tuple[tuple[str, ...], str] | None:
    """Find a shortest trace to a final state, and an event that leads from there to one that is not final."""
    graph, rank = machine.graph, machine.rank[machine.graph.source]
    leaving = np.flatnonzero(machine.is_final[graph.source] & ~machine.is_final[graph.target] & (rank >= 0))
    if len(leaving) == 0:
        return None
    edge = int(leaving[rank[leaving].argmin()])
    return machine.trace_to(int(graph.source[edge])), machine.events.at(int(graph.label[edge]))


def leaving_warnings(machines: Mapping[str, RewardMachine]) -> tuple[str, ...]:
    """Name the agents that can leave a final state of their local machines again, one sentence each."""
    said = []
    for agent, machine in machines.items():
        if (leaving := find_leaving(machine)) is not None:
            final = f"its local reward machine is final after {name_trace(leaving[0])}"
            said.append(f"{agent} can leave a final state again: {final}, but no longer after {leaving[1]}.")
    return tuple(said)


def completes_without(machine: RewardMachine, event: str) -> bool:
    """Say whether some trace completes a machine in which an event never happens.

    >>> machine = RewardMachine(initial="0", transitions={("0", "a"): "1", ("0", "b"): "1"}, final={"1"})
    >>> completes_without(machine, "a")
    True
    """

    def others(state: str) -> Iterator[str]:
        return (target for name, target in machine.moves.get(state, {}).items() if name != event)

    return not machine.final.isdisjoint(distances_from([machine.initial], others))


def find_idle(team: Team, machines: Parts, controls: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Find the agents that can do their own part without events that they control and that the team's needs.

    Nothing rewards such an agent for these events, so that the team may wait for ever. A large team is not looked at.
    """
    whole = team if isinstance(team, Composition) else Composition({"team": team})
    parts = [*whole.parts.values()]
    if sum(len(part.graph.target) for part in parts) > LARGEST_SEARCH:
        return {}

    @cache  # many may share an event, and so many parts have it
    def is_needed(event: str) -> bool:
        return any(not completes_without(parts[place], event) for place in whole.owners.get(event, ()))

    spare = {
        agent: [event for event in controls[agent] if completes_without(machine, event)]
        for agent, machine in machines.items()
    }
    unrewarded = {agent: tuple(filter(is_needed, events)) for agent, events in spare.items()}
    return {agent: events for agent, events in unrewarded.items() if events}
