"""Parallel composition: as one machine, state by state where there are too many, or as independent parts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cache, cached_property
from struct import Struct
from types import MappingProxyType

import numpy as np

from hocket.errors import AssignmentError, MachineError, shown_count
from hocket.graphs import Flags, Ints
from hocket.lazy import explain_kinds
from hocket.machine.names import Names, invert, make_distinct
from hocket.machine.reward_machine import Edges, RewardMachine, Rewards, require_machines

SEPARATOR = "|"  # between the names of the parts of a composed state


@explain_kinds
class Composition:
    """The parallel composition of named machines, never enumerated: a state is a tuple with a state for each part.

    >>> door = RewardMachine(initial="shut", transitions={("shut", "open"): "wide"}, final={"wide"})
    >>> team = Composition({f"A{i}": door for i in range(1000)})
    >>> team.is_final(team.step(team.initial, "open"))
    True
    """

    def __init__(self, parts: Mapping[str, RewardMachine]) -> None:
        if not parts:
            raise MachineError("a composition needs at least one machine, got none")
        self.parts = MappingProxyType(dict(parts))
        self._machines = tuple(parts.values())
        self.initial = tuple(part.initial for part in self._machines)
        self.events = Names(event for part in self._machines for event in part.events)
        self.has_completion_rewards = all(part.has_completion_rewards for part in self._machines)

    def __reduce__(self) -> tuple[object, ...]:
        return Composition, (dict(self.parts),)

    @cached_property
    def owners(self) -> Mapping[str, tuple[int, ...]]:
        """The places of the parts that have each event, in the order of `events`."""
        return invert({place: part.events for place, part in enumerate(self._machines)}, self.events)

    def step(self, state: tuple[str, ...], event: str) -> tuple[str, ...] | None:
        """Return the state that `event` leads to from `state`, or None where it is undefined."""
        moved = list(state)
        for index in self.owners.get(event, ()):
            target = self._machines[index].step(state[index], event)
            if target is None:
                return None
            moved[index] = target
        return tuple(moved) if event in self.owners else None

    def is_final(self, state: tuple[str, ...]) -> bool:
        """Say whether all parts are in final states."""
        return all(local in part.final for local, part in zip(state, self._machines, strict=True))

    @cached_property
    def most_states(self) -> int:
        """The number of states if all were reachable."""
        sizes = Counter(len(part.states) for part in self._machines)
        return math.prod(size**count for size, count in sizes.items())  # powers of large numbers are fast

    @property
    def most_states_shown(self) -> str:
        """That number, or a power of ten above it: Python does not write out numbers of thousands of digits."""
        number = self.most_states
        return f"{number:,}" if number < 10**30 else f"10^{math.ceil(number.bit_length() * math.log10(2))}"

    @cached_property
    def is_independent(self) -> bool:
        """Whether no event is in two parts and each part, which rewards nothing else, can be completed by itself."""
        if any(len(owners) > 1 for owners in self.owners.values()):
            return False
        return all(part.is_task_completion and part.is_final[part.reach.order].any() for part in self._machines)

    def is_split_by(self, knows: Mapping[str, Names]) -> bool:
        """Whether each agent has its own part: local event sets that are the events of the parts of the same names."""
        return knows == {agent: part.events for agent, part in self.parts.items()}

    def machine(self) -> RewardMachine:
        """Enumerate the reachable states."""
        return compose(*self._machines)

    @cached_property
    def names(self) -> Mapping[tuple[str, ...], str]:
        """The name in `machine()` of each reachable state."""
        joint = _joint_names(self._machines, _explore(self._machines, self.events)[0])
        return dict(zip(joint, make_distinct([*map(SEPARATOR.join, joint)]), strict=True))

    def reachable(self, most: int) -> tuple[Ints, RewardMachine] | None:
        """Tabulate the state of each part in each reachable joint state, breadth first: [states, parts]; also make the
        machine of these, which earns nothing but for completion. None where there are more than `most`.
        """
        states, edges = _explore(self._machines, self.events, most)
        if edges[2].max(initial=0) >= len(states):
            return None

        def name(state: int) -> str:
            places = zip(self._machines, states[state].tolist(), strict=True)
            return SEPARATOR.join(part.states.at(place) for part, place in places)

        is_final, names = _all_final(self._machines, states), Names.lazily(len(states), name)
        return states, RewardMachine._from_arrays(names, self.events, 0, edges, is_final)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Composition) and list(self.parts.items()) == list(other.parts.items())

    def __hash__(self) -> int:
        return hash(tuple(self.parts.items()))

    def __repr__(self) -> str:
        return f"<Composition of {len(self.parts):,} machines, {len(self.events):,} events>"


Team = RewardMachine | Composition
Parts = Mapping[str, RewardMachine]


def compose(*machines: RewardMachine) -> RewardMachine:
    """Compose machines in parallel: a shared event synchronises all that have it, any other event moves one alone.

    The reachable part; final iff all parts are final. Where a part has rewards other than 1 for completing its task, a
    transition earns the sum of what the parts that move earn.

    >>> left = RewardMachine(initial="0", transitions={("0", "a"): "1", ("1", "r"): "2"}, final={"2"})
    >>> right = RewardMachine(initial="0", transitions={("0", "b"): "1", ("1", "r"): "2"}, final={"2"})
    >>> compose(left, right).run(("b", "a", "r"), undefined="blocking")
    MachineRun(state='2|2', reward=1.0, completed=True, states=('0|0', '0|1', '1|1', '2|2'))
    """
    if not machines:
        raise MachineError("a composition needs at least one machine, got none")
    require_machines(*machines)
    events = Names(event for machine in machines for event in machine.events)
    states, edges = _explore(machines, events)
    joint, reward = _joint_names(machines, states), None
    if not all(machine.has_completion_rewards for machine in machines):
        moves = ((joint[start], events.at(event)) for start, event in zip(edges[0], edges[1], strict=True))
        reward = _sum_rewards(machines, moves)
    names = Names(make_distinct([*map(SEPARATOR.join, joint)]))
    return RewardMachine._from_arrays(names, events, 0, edges, _all_final(machines, states), reward)


def _joint_names(machines: Sequence[RewardMachine], states: Ints) -> list[tuple[str, ...]]:
    """Name the state of each machine in joint states: [states, machines]."""
    names = [machine.states.listed for machine in machines]
    return [tuple([listed[place] for listed, place in zip(names, state, strict=True)]) for state in states.tolist()]


def _all_final(machines: Sequence[RewardMachine], states: Ints) -> Flags:
    """Flag the joint states in which all machines are final."""
    finals = [machine.is_final[column] for machine, column in zip(machines, states.T, strict=True)]
    return np.asarray(np.logical_and.reduce(finals))


def _explore(machines: Sequence[RewardMachine], events: Names, most: float = math.inf) -> tuple[Ints, Edges]:
    """List the reachable joint states, breadth first: [states, machines]; and the transitions between them.

    A joint state is coded as one integer with 32 bits for each machine, so that a move is the addition of a constant.
    The search ends where transitions lead to more states than `most`; those that it did not come to are not listed.
    """
    words = Struct(f"<{len(machines)}I")
    moves = _joint_moves(machines, events)
    code = int.from_bytes(words.pack(*(machine.start for machine in machines)), "little")
    number = {code: 0}
    codes = [code]
    states: list[tuple[int, ...]] = []
    edges: tuple[list[int], list[int], list[int]] = [], [], []
    source, label, target = edges
    for position, code in enumerate(codes):  # grows while it is read: the queue is the answer
        state = words.unpack(code.to_bytes(words.size, "little"))
        states.append(state)
        for machine_moves, local in zip(moves, state, strict=True):
            for event, shift, others in machine_moves[local]:
                end = code + shift
                for partner, shifts in others:
                    if (other := shifts.get(state[partner])) is None:
                        break
                    end += other
                else:
                    index = number.setdefault(end, len(codes))
                    if index == len(codes):
                        codes.append(end)
                    source.append(position)
                    label.append(event)
                    target.append(index)
        if len(codes) > most:
            break
    sources, labels, targets = np.array(edges, np.int32)
    return np.array(states, np.int32), (sources, labels, targets)


_Move = tuple[int, int, list[tuple[int, dict[int, int]]]]  # event, own shift, (other machine, its state -> its shift)


def _joint_moves(machines: Sequence[RewardMachine], events: Names) -> list[list[list[_Move]]]:
    """For each machine and state: the events it is the first to have, with what they add to the code of a state."""
    shifts: list[dict[int, dict[int, int]]] = []  # of each machine: event -> state -> shift
    for place, machine in enumerate(machines):
        position = [events.index(event) for event in machine.events]
        shifts.append({event: {} for event in position})
        for start, event, end in zip(*(part.tolist() for part in machine.graph[1:]), strict=True):
            shifts[-1][position[event]][start] = (end - start) << 32 * place
    owners = invert({place: machine.events for place, machine in enumerate(machines)}, events)
    moves: list[list[list[_Move]]] = [[[] for _ in machine.states] for machine in machines]
    for event, (first, *rest) in enumerate(owners.values()):
        others = [(machine, shifts[machine][event]) for machine in rest]
        for state, shift in shifts[first][event].items():
            moves[first][state].append((event, shift, others))
    return moves


def _sum_rewards(machines: Sequence[RewardMachine], moves: Iterable[tuple[tuple[str, ...], str]]) -> Rewards:
    """Add up what the parts that move earn; as decimals, so that 0.1 and 0.2 make 0.3."""

    @cache
    def total(*earned: float) -> float:
        return float(sum(Decimal(repr(reward)) for reward in earned))

    rewards = [machine.rewards for machine in machines]
    rows = ((zip(rewards, states, strict=True), event) for states, event in moves)
    sums = [total(*(earned.get((state, event), 0.0) for earned, state in pairs)) for pairs, event in rows]
    if not np.isfinite(sums).all():
        raise MachineError("the rewards of these machines are too large to be added")
    return np.array(sums, np.float64)


# Independent parts.

LARGE = 50_000  # states above which a machine that is a composition is looked at part by part
LARGEST_SHARE = 50_000  # states of the machine of an agent that knows of several parts


def independent_parts(machine: Team) -> Parts | None:
    """Find parts with no event in common whose composition a team machine is known to be; None if there are none.

    A task that is given so is decomposable if and only if each part is, with what the agents know of it: the classes of
    a projection are products of the classes of the parts, and where one part goes wrong, the others can be completed.
    """
    if isinstance(machine, Composition):
        return machine.parts if machine.is_independent else None
    if machine.meaning is None or len(machine.states) <= LARGE:
        return None
    return machine.meaning.parts or None


def shares(parts: Parts, known: Mapping[str, Iterable[str]]) -> dict[str, dict[str, Names]]:
    """Sort what agents know by parts: part -> agent -> events; agents that know nothing of a part are left out."""
    owner = {event: name for name, part in parts.items() for event in part.events}
    shared: dict[str, dict[str, list[str]]] = {name: {} for name in parts}
    for agent, events in known.items():
        for event in events:
            shared[owner[event]].setdefault(agent, []).append(event)
    return {name: {agent: Names(names) for agent, names in by_agent.items()} for name, by_agent in shared.items()}


def join_shares(agent: str, machines: Sequence[RewardMachine]) -> RewardMachine:
    """Put the machines of what an agent knows of each part side by side; without any there is nothing to do for it."""
    if not machines:
        return RewardMachine(initial="done", transitions={}, final={"done"})
    if len(machines) == 1:
        return machines[0]
    count = math.prod(len(machine.states) for machine in machines)
    if count > LARGEST_SHARE:
        rule = f"together at most {LARGEST_SHARE:,} states, so that its machine can be made"
        received = f"{len(machines):,} with {shown_count(count)}"
        raise AssignmentError(f"the parts that {agent} knows of must have {rule}, got {received}")
    return compose(*machines)


def notes_of(machine: Team) -> Names:
    """Collect what is worth knowing about the formulas that a team machine or its parts come from."""
    machines = machine.parts.values() if isinstance(machine, Composition) else (machine,)
    return Names(note for machine in machines if machine.meaning is not None for note in machine.meaning.notes)
