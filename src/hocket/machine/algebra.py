"""Operations on machines: projection, minimisation, and telling two machines apart."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import pairwise

import numpy as np

from hocket.errors import MachineError
from hocket.graphs import Flags, Ints, congruence, find_root, flags_at, one_per_key, path_to, positions_in, ranges
from hocket.machine.names import Names, make_distinct, require_member
from hocket.machine.reward_machine import Origin, RewardMachine, Rewards, require_machines

LONGEST_CLASS_NAME = 24  # characters


def project(machine: RewardMachine, events: Iterable[str]) -> RewardMachine:
    """Project a machine onto a local event set.

    Merges the states between which the other events lead, and then as many as determinism demands: the smallest
    equivalence under which an event of `events` leads from a class to one class. A class is final iff it contains a
    final state, and entering one from outside earns 1; `members` has the states that it merges. Rewards other than for
    completion are carried over if merging keeps them unambiguous, and are an error otherwise.

    >>> team = RewardMachine(initial="u0", transitions={("u0", "a"): "u1", ("u1", "b"): "u2"}, final={"u2"})
    >>> dict(project(team, {"b"}).transitions)
    {('{u0,u1}', 'b'): 'u2'}
    """
    require_machines(machine)
    projection = Projection(machine, flag_events(machine, events))
    return projection.machine(reward=None if machine.has_completion_rewards else projection.rewards())


def reachable_part(machine: RewardMachine) -> RewardMachine:
    """Drop the states that no trace reaches; names of states and all events are kept.

    >>> lost = RewardMachine(initial="u0", transitions={("u0", "a"): "u1", ("u2", "b"): "u0"}, final={"u1"})
    >>> reachable_part(lost).states, reachable_part(lost).events
    ({'u0', 'u1'}, {'a', 'b'})
    """
    kept = np.sort(machine.reach.order)
    if len(kept) == len(machine.states):
        return machine
    names = Names(map(machine.states.at, kept.tolist()))
    return _quotient(machine, positions_in(kept, len(machine.states)), kept, names)


def _quotient(machine: RewardMachine, classes: Ints, examples: Ints, names: Names | None = None) -> RewardMachine:
    """Merge each class of states, with the transitions of its example; drop the states of class -1."""
    graph, origin = machine.graph, _origin(machine, classes)
    kept = np.flatnonzero(np.isin(graph.source, examples))
    edges, reward = (classes[graph.source[kept]], graph.label[kept], classes[graph.target[kept]]), machine.reward[kept]
    names, start = names or _name_classes(origin, len(examples)), int(classes[machine.start])
    is_final = machine.is_final[examples]
    return RewardMachine._from_arrays(names, machine.events, start, edges, is_final, reward, origin)


def flag_events(machine: RewardMachine, events: Iterable[str]) -> Flags:
    """Flag the events of a machine that are among `events`; others are an error."""
    listed = [events] if isinstance(events, str) else [*events]
    for event in listed:
        require_member(event, machine.events, "event")
    return flags_at([machine.events.index(event) for event in listed], len(machine.events))


class Projection:
    """A projection in integers: classes of merged states, and the transitions between them."""

    def __init__(self, team: RewardMachine, visible: Flags) -> None:
        graph = team.graph
        shown = visible[graph.label]
        self.team = team
        self.visible = visible  # [events]
        self.classes = congruence(graph, ~shown).classes  # [states] the class of each state
        source, label, target = self.classes[graph.source[shown]], graph.label[shown], self.classes[graph.target[shown]]
        chosen, _ = one_per_key(label.astype(np.int64) * len(team.states) + source, len(visible) * len(team.states))
        self.source, self.label, self.target = source[chosen], label[chosen], target[chosen]  # sorted by label
        self.is_final = flags_at(self.classes[team.is_final], int(self.classes.max()) + 1)  # [classes]

    def enabling(self, event: int) -> Ints:
        """List the classes in which an event is defined, in ascending order."""
        begin, end = np.searchsorted(self.label, (event, event + 1))
        return self.source[begin:end]

    @cached_property
    def ranked(self) -> Ints:
        """The classes of the reachable states in breadth-first order; a position in that order is called a rank."""
        return self.classes[self.team.reach.order]

    @cached_property
    def _by_class(self) -> tuple[Ints, Ints]:
        """Ranks grouped by class, ascending in each group, and the positions at which the groups begin."""
        count = len(self.is_final)
        ranked = self.ranked.astype(np.uint16) if count < 1 << 16 else self.ranked  # short keys sort in linear time
        begins = np.append(0, np.cumsum(np.bincount(self.ranked, minlength=count))).astype(np.int32)
        return np.argsort(ranked, kind="stable").astype(np.int32), begins

    def count_members(self, classes: Ints) -> int:
        """Count the reachable states in some classes."""
        _, begins = self._by_class
        return int((begins[classes + 1] - begins[classes]).sum())

    def members_of(self, classes: Ints) -> Ints:
        """List the ranks of the reachable states in some classes."""
        ranks, begins = self._by_class
        return ranks[ranges(begins[classes], begins[classes + 1])]

    @cached_property
    def local_machine(self) -> RewardMachine:
        """The machine of an agent, rewarded for completion; its origin is the team machine."""
        return self.machine(reward=None, trace_back=False)

    def machine(self, *, reward: Rewards | None, trace_back: bool = True) -> RewardMachine:
        """Make the local machine, with these rewards of its transitions (None: 1 on entering a final class); its origin
        is the team machine or, if `trace_back`, the machine from which that was made."""
        number = np.cumsum(self.visible, dtype=np.int32) - np.int32(1)  # of the visible events, among themselves
        origin = _origin(self.team, self.classes) if trace_back else Origin(self.team.states, self.classes)
        names = _name_classes(origin, len(self.is_final))
        events = Names(map(self.team.events.at, np.flatnonzero(self.visible).tolist()))
        edges, start = (self.source, number[self.label], self.target), int(self.classes[self.team.start])
        return RewardMachine._from_arrays(names, events, start, edges, self.is_final, reward, origin)

    def rewards(self) -> Rewards:
        """Carry over the team's rewards, if merging keeps them unambiguous."""
        graph, reward, width = self.team.graph, self.team.reward, len(self.team.states)
        shown = self.visible[graph.label]
        keys = self.label.astype(np.int64) * width + self.source
        edges = np.flatnonzero(shown)
        merged = np.searchsorted(keys, graph.label[edges].astype(np.int64) * width + self.classes[graph.source[edges]])
        rewards = np.zeros(len(keys))
        rewards[merged] = reward[edges]
        wrong = [*np.flatnonzero(~shown & (reward != 0)), *edges[rewards[merged] != reward[edges]]]
        if wrong:
            state, event = self.team._edge_names(int(wrong[0]))
            rule = "hidden events must earn nothing, and merged transitions the same"
            raise MachineError(f"the reward of {event!r} in {state!r} is lost in this projection: {rule}")
        return rewards


Views = Mapping[str, Projection]  # of agents


def _origin(machine: RewardMachine, classes: Ints) -> Origin:
    """Trace classes back to the states of the machine from which `machine` was made, if it was."""
    earlier = machine.origin
    if earlier is None:
        return Origin(machine.states, classes)
    return Origin(earlier.states, np.where(earlier.classes < 0, np.int32(-1), classes[earlier.classes]))


def _name_classes(origin: Origin, count: int) -> Names:
    """Name a class after its members: u3, {u3,u5}, {u1,…,u5}; if that is too long, after its number: #4."""
    kept = origin.classes >= 0
    by_class = np.argsort(origin.classes[kept], kind="stable")
    states = np.flatnonzero(kept)[by_class]
    ends = np.cumsum(np.bincount(origin.classes[kept], minlength=count)).tolist()
    names: list[str] = []
    for begin, end in pairwise([0, *ends]):
        shown = states[begin:end] if end - begin < 4 else states[[begin, end - 1]]
        members = [origin.states.at(state) for state in shown.tolist()]
        name = members[0] if len(members) == 1 else "{" + (",…," if end - begin > 3 else ",").join(members) + "}"
        names.append(f"#{len(names)}" if len(members) > 1 and len(name) > LONGEST_CLASS_NAME else name)
    return Names(make_distinct(names))


def minimize(machine: RewardMachine) -> RewardMachine:
    """Merge the states that no trace distinguishes and drop those that no trace reaches (Hopcroft's algorithm).

    >>> twins = {("u0", "a"): "u1", ("u0", "b"): "u2", ("u1", "c"): "u3", ("u2", "c"): "u3"}
    >>> minimize(RewardMachine(initial="u0", transitions=twins, final={"u3"})).states
    {'u0', '{u1,u2}', 'u3'}
    """
    require_machines(machine)
    blocks = sorted(_coarsest_partition(machine), key=min)
    classes = np.full(len(machine.states), -1, np.int32)
    for number, block in enumerate(blocks):
        classes[list(block)] = number
    return _quotient(machine, classes, np.array([min(block) for block in blocks]))


def _coarsest_partition(machine: RewardMachine) -> list[set[int]]:
    """Split the reachable states by finality, enabled events and rewards, then by the blocks that events lead to."""
    first, _, label, target = (part.tolist() for part in machine.graph)
    reward, is_final = machine.reward.tolist(), machine.is_final.tolist()
    reachable = machine.reach.order.tolist()
    incoming: dict[int, dict[int, list[int]]] = {}  # state -> event -> the states from which it leads there
    by_signature: dict[object, set[int]] = {}
    for state in reachable:
        row = range(first[state], first[state + 1])
        for edge in row:
            incoming.setdefault(target[edge], {}).setdefault(label[edge], []).append(state)
        signature = (is_final[state], tuple([(label[edge], reward[edge]) for edge in row]))
        by_signature.setdefault(signature, set()).add(state)
    blocks = list(by_signature.values())
    block_of = {state: index for index, block in enumerate(blocks) for state in block}
    # Every block is used as a splitter, with each event; of a block that is split later, the smaller half is enough.
    waiting = deque(range(len(blocks)))
    while waiting:
        index = waiting.popleft()
        sources: dict[int, list[int]] = {}  # event -> the states that it leads into the splitter
        for state in blocks[index]:
            for event, before in incoming.get(state, {}).items():
                sources.setdefault(event, []).extend(before)
        for states in sources.values():
            touched: dict[int, set[int]] = {}
            for state in states:
                touched.setdefault(block_of[state], set()).add(state)
            for old, part in touched.items():
                if len(part) == len(blocks[old]):
                    continue
                blocks[old] -= part
                new = len(blocks)
                if len(part) > len(blocks[old]):
                    blocks[old], part = part, blocks[old]
                blocks.append(part)
                for state in part:
                    block_of[state] = new
                waiting.append(new)
    return blocks


def distinguish(left: RewardMachine, right: RewardMachine) -> tuple[str, ...] | None:
    """Find a shortest trace on which two machines differ; None if there is none, that is, if they are bisimilar.

    They differ on a trace if, blocking on undefined events, only one of them can follow it, only one ends in a final
    state, or they reward its last event differently (Hopcroft and Karp's algorithm).

    >>> once = RewardMachine(initial="u0", transitions={("u0", "a"): "u1"}, final={"u1"})
    >>> never = RewardMachine(initial="u0", transitions={("u0", "a"): "u1"})
    >>> distinguish(once, never)
    ('a',)
    """
    require_machines(left, right)
    rows_left, rows_right = _rows(left), _rows(right)
    final_left, final_right = left.is_final.tolist(), right.is_final.tolist()
    if final_left[left.start] != final_right[right.start]:
        return ()
    offset = len(rows_left)
    root = list(range(offset + len(rows_right)))
    root[offset + right.start] = left.start
    # Breadth first, and shortest in spite of the pruning: a pair is left out only if a chain of earlier pairs links its
    # two states, and what distinguishes the two distinguishes some pair of the chain, which was reached no later.
    tree: dict[int, tuple[int, str] | None] = {0: None}
    queue = [(left.start, right.start)]
    for index, (state, other) in enumerate(queue):
        row, other_row = rows_left[state], rows_right[other]
        for event in other_row:
            if event not in row:
                return (*path_to(tree, index), event)
        for event, (end, reward) in row.items():
            other_end, other_reward = other_row.get(event, (-1, 0.0))
            if other_end < 0 or reward != other_reward or final_left[end] != final_right[other_end]:
                return (*path_to(tree, index), event)
            root_left, root_right = find_root(root, end), find_root(root, offset + other_end)
            if root_left != root_right:
                root[root_right] = root_left
                tree[len(queue)] = index, event
                queue.append((end, other_end))
    return None


def _rows(machine: RewardMachine) -> list[dict[str, tuple[int, float]]]:
    """List for each state: event -> (successor, reward)."""
    rows: list[dict[str, tuple[int, float]]] = [{} for _ in machine.states]
    for (source, label, target), reward in zip(machine.graph.edges(), machine.reward.tolist(), strict=True):
        rows[source][machine.events.listed[label]] = (target, reward)
    return rows
