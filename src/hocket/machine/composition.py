"""Parallel composition: as one machine, state by state if there are too many, or as independent parts."""

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
        """The positions of the parts that have each event, in the order of `events`."""
        return invert({index: part.events for index, part in enumerate(self._machines)}, self.events)

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
        """The number of joint states, reachable or not."""
        sizes = Counter(len(part.states) for part in self._machines)
        return math.prod(size**count for size, count in sizes.items())  # powers of large numbers are fast

    @property
    def most_states_shown(self) -> str:
        """`most_states`, or a power of ten above it: Python does not write numbers of thousands of digits."""
        number = self.most_states
        return f"{number:,}" if number < 10**30 else f"10^{math.ceil(number.bit_length() * math.log10(2))}"

    @cached_property
    def is_independent(self) -> bool:
        """Whether no event is in two parts and each part is a task-completion machine that can be completed."""
        if any(len(owners) > 1 for owners in self.owners.values()):
            return False
        return all(part.is_task_completion and part.is_final[part.reach.order].any() for part in self._machines)

    def is_split_by(self, knows: Mapping[str, Names]) -> bool:
        """Whether the local event set of each agent is the events of a part of its name, and there are no others."""
        return knows == {agent: part.events for agent, part in self.parts.items()}

    def machine(self) -> RewardMachine:
        """Enumerate the reachable states."""
        return compose(*self._machines)

    @cached_property
    def names(self) -> Mapping[tuple[str, ...], str]:
        """The name in `machine()` of each reachable state."""
        return _name_states(self._machines, _explore(self._machines, self.events)[0])

    def reachable(self, most: int) -> tuple[Ints, RewardMachine] | None:
        """Tabulate the reachable joint states breadth first, [states, parts], and make their machine, which is rewarded
        for completion alone. None if there are more than `most`."""
        states, edges = _explore(self._machines, self.events, most)
        if edges[2].max(initial=0) >= len(states):
            return None

        def name(state: int) -> str:
            local = zip(self._machines, states[state].tolist(), strict=True)
            return SEPARATOR.join(part.states.at(position) for part, position in local)

        names = Names.lazily(len(states), name)
        if any(SEPARATOR in local for part in self._machines for local in part.states):  # names of two may be equal
            names = Names(_name_states(self._machines, states).values())
        return states, RewardMachine._from_arrays(names, self.events, 0, edges, _all_final(self._machines, states))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Composition) and list(self.parts.items()) == list(other.parts.items())

    def __hash__(self) -> int:
        return hash(tuple(self.parts.items()))

    def __repr__(self) -> str:
        return f"<Composition of {len(self.parts):,} machines, {len(self.events):,} events>"


Team = RewardMachine | Composition
Parts = Mapping[str, RewardMachine]


def compose(*machines: RewardMachine) -> RewardMachine:
    """Compose machines in parallel: an event changes the states of all machines that have it, at the same time.

    Has the reachable states; those in which all parts are final are final. If a part has rewards other than 1 for
    completing its task, the reward of a transition is the sum of those of the parts.

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
    names, reward = _name_states(machines, states), None
    if not all(machine.has_completion_rewards for machine in machines):
        joint = [*names]
        moves = ((joint[start], events.at(event)) for start, event in zip(edges[0], edges[1], strict=True))
        reward = _sum_rewards(machines, moves)
    is_final = _all_final(machines, states)
    return RewardMachine._from_arrays(Names(names.values()), events, 0, edges, is_final, reward)


def _name_states(machines: Sequence[RewardMachine], states: Ints) -> dict[tuple[str, ...], str]:
    """Name joint states [states, machines] after the states of the machines."""
    listed = [machine.states.listed for machine in machines]
    joint = [tuple([names[local] for names, local in zip(listed, state, strict=True)]) for state in states.tolist()]
    return dict(zip(joint, make_distinct([*map(SEPARATOR.join, joint)]), strict=True))


def _all_final(machines: Sequence[RewardMachine], states: Ints) -> Flags:
    finals = [machine.is_final[column] for machine, column in zip(machines, states.T, strict=True)]
    return np.asarray(np.logical_and.reduce(finals))


def _explore(machines: Sequence[RewardMachine], events: Names, most: float = math.inf) -> tuple[Ints, Edges]:
    """List the reachable joint states, breadth first: [states, machines]; and the transitions between them.

    A joint state is coded as one integer with 32 bits for each machine, so that a move is the addition of a constant.
    The search stops when it has found more states than `most`; only those that it has expanded are listed.
    """
    words = Struct(f"<{len(machines)}I")
    moves = _joint_moves(machines, events)
    code = int.from_bytes(words.pack(*(machine.start for machine in machines)), "little")
    number = {code: 0}
    codes = [code]
    states: list[tuple[int, ...]] = []
    edges: tuple[list[int], list[int], list[int]] = [], [], []
    source, label, target = edges
    for position, code in enumerate(codes):  # grows while it is read
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


_Move = tuple[int, int, list[tuple[int, dict[int, int]]]]  # event, shift, (other machine, its state -> its shift)


def _joint_moves(machines: Sequence[RewardMachine], events: Names) -> list[list[list[_Move]]]:
    """List for each machine and state the events that it is the first to have, with what they add to a joint state."""
    shifts: list[dict[int, dict[int, int]]] = []  # of each machine: event -> state -> shift
    for index, machine in enumerate(machines):
        number = [events.index(event) for event in machine.events]
        shifts.append({event: {} for event in number})
        for start, event, end in machine.graph.edges():
            shifts[-1][number[event]][start] = (end - start) << 32 * index
    owners = invert({index: machine.events for index, machine in enumerate(machines)}, events)
    moves: list[list[list[_Move]]] = [[[] for _ in machine.states] for machine in machines]
    for event, (first, *rest) in enumerate(owners.values()):
        others = [(machine, shifts[machine][event]) for machine in rest]
        for state, shift in shifts[first][event].items():
            moves[first][state].append((event, shift, others))
    return moves


def _sum_rewards(machines: Sequence[RewardMachine], moves: Iterable[tuple[tuple[str, ...], str]]) -> Rewards:
    """Add up the rewards of all machines for each move (joint state, event); as decimals, so that 0.1 + 0.2 is 0.3."""

    @cache
    def total(*rewards: float) -> float:
        return float(sum(Decimal(repr(reward)) for reward in rewards))

    tables = [machine.rewards for machine in machines]
    rows = ((zip(tables, joint, strict=True), event) for joint, event in moves)
    sums = [total(*(rewards.get((state, event), 0.0) for rewards, state in pairs)) for pairs, event in rows]
    if not np.isfinite(sums).all():
        raise MachineError("the rewards of these machines are too large to be added")
    return np.array(sums, np.float64)


# Independent parts.

LARGE = 50_000  # states above which a machine that is a composition is checked part by part
LARGEST_SHARE = 50_000  # states of the machine of an agent that knows events of several parts


def independent_parts(machine: Team) -> Parts | None:
    """Return parts with no common event whose composition a team machine is known to be; None if there are none.

    Such a task is decomposable if and only if each part is, with the events of it that agents know: the classes of a
    projection are products of the classes of the parts, and where one part fails, the others can be completed.
    """
    if isinstance(machine, Composition):
        return machine.parts if machine.is_independent else None
    if machine.meaning is None or len(machine.states) <= LARGE:
        return None
    return machine.meaning.parts or None


def split_known(parts: Parts, known: Mapping[str, Names]) -> dict[str, dict[str, Names]]:
    """Split local event sets by parts: part -> agent -> events; agents that know no event of a part are left out."""
    part_of = {event: name for name, part in parts.items() for event in part.events}
    lists: dict[str, dict[str, list[str]]] = {name: {} for name in parts}
    for agent, events in known.items():
        for event in events:
            lists[part_of[event]].setdefault(agent, []).append(event)
    return {name: {agent: Names(events) for agent, events in by_agent.items()} for name, by_agent in lists.items()}


def compose_local(agent: str, machines: Sequence[RewardMachine]) -> RewardMachine:
    """Compose the projections of parts onto the local event set of an agent; without any, it is done at the start."""
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
