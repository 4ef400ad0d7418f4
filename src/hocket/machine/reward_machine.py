"""RewardMachine: a finite automaton over events that says when a task is done and what its steps are worth."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from numbers import Real
from types import MappingProxyType, UnionType
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hocket.errors import MachineError
from hocket.graphs import Flags, Graph, Ints, Reach, breadth_first, flags_at, labels_to, make_graph, positions_in
from hocket.lazy import show_in_notebook
from hocket.machine.names import (
    Listed,
    Names,
    Rows,
    TransitionColumns,
    Transitions,
    as_pairs,
    as_rows,
    as_table,
    check_name,
    in_order,
    invert,
    require_member,
)

LARGEST_REWARD = sys.float_info.max

Rewards = NDArray[np.float64]  # [transitions]
Edges = tuple[Ints, Ints, Ints]  # sources, labels and targets of transitions

Undefined = Literal["blocking", "stay"]


class MachineRun(NamedTuple):
    """What a machine does on a trace of events."""

    state: str | None  # where it ends; None if an undefined event blocked it
    reward: float  # the sum over its transitions; 0 if it was blocked
    completed: bool  # whether it ends in a final state
    states: tuple[str, ...]  # the states it went through, from the initial one


class Origin(NamedTuple):
    """The states of an earlier machine that a projection or minimisation has merged."""

    states: Names
    classes: Ints  # [earlier states] the state that each was merged into; -1 where it was dropped


class Meaning(Protocol):
    """What the states of a machine that was made from a formula mean, in the formula's words."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the formula, one sentence each."""

    @property
    def parts(self) -> Mapping[str, RewardMachine]:
        """Machines with no common event whose composition the machine is, if such are known."""

    def say(self, trace: Sequence[str]) -> str:
        """Say in a sentence which conjuncts are broken, or still open, after a trace."""


class RewardMachine:
    """An immutable reward machine: named states and events, a partial transition function, rewards, final states.

    >>> machine = RewardMachine(initial="u0", transitions={("u0", "a"): "u1", ("u1", "b"): "u2"}, final={"u2"})
    >>> machine.run(("a", "b"), undefined="blocking").completed
    True

    Without `rewards` it is a task-completion machine: 1 on entering a final state, 0 otherwise, and no transition may
    leave a final state. With `rewards`, a mapping from (state, event), transitions that are not in it are worth 0.
    States and events are those that transitions use; more may be declared.
    """

    # Integer forms, shared with algorithms inside the package and read-only: state s and event e are positions in
    # `states` and `events`.
    graph: Graph
    start: int
    is_final: Flags  # [states]
    reward: NDArray[np.float64]  # [transitions], in the order of the graph's edges
    has_completion_rewards: bool  # 1 on entering a final state from outside, 0 otherwise
    states: Names  # the initial one first, unless they were declared in another order
    events: Names
    origin: Origin | None  # of a projection or a minimised machine
    meaning: Meaning | None  # of a machine that was made from a formula

    def __init__(
        self,
        *,
        initial: str,
        transitions: Transitions,
        final: Iterable[str] = (),
        events: Iterable[str] | None = None,
        rewards: Mapping[tuple[str, str], float] | None = None,
        states: Iterable[str] | None = None,
    ) -> None:
        table = as_table(transitions)
        reward = None if rewards is None else _rewards_of(table, rewards)
        self.__dict__.update(vars(_checked(initial, TransitionColumns.of_table(table), final, events, states, reward)))

    @classmethod
    def _from_rows(
        cls, initial: str, rows: Rows[str], lists: Mapping[str, Iterable[str]], rewards: Rows[float] | None
    ) -> RewardMachine:
        """Build a machine from tables as in files, state -> event -> state, and rewards likewise; `lists` may have
        `final`, `events` and `states`. If a state has an empty row and `states` are not given, they are all states in
        the table, those with rows first."""
        moves, states = TransitionColumns.of_rows(rows), lists.get("states")
        if states is None and not all(rows.values()):
            states = dict.fromkeys(chain(rows, moves.states))
        reward = None if rewards is None else _rewards_of(as_pairs(rows), as_pairs(rewards))
        return _checked(initial, moves, lists.get("final", ()), lists.get("events"), states, reward)

    @classmethod
    def _from_arrays(
        cls,
        states: Names,
        events: Names,
        start: int,
        edges: Edges,
        is_final: Flags,
        reward: Rewards | None = None,
        origin: Origin | None = None,
        meaning: Meaning | None = None,
    ) -> RewardMachine:
        """Build a machine from arrays that need no checks; without `reward`, entering a final state earns 1."""
        graph, order = make_graph(len(states), *edges)
        entering = is_final[graph.target] & ~is_final[graph.source]
        reward = entering.astype(np.float64) if reward is None else reward[order]
        for array in (*graph, is_final, reward):
            array.flags.writeable = False
        machine = cls.__new__(cls)
        machine.__dict__.update(states=states, events=events, start=start, graph=graph, is_final=is_final)
        machine.__dict__.update(reward=reward, has_completion_rewards=bool(np.array_equal(reward, entering)))
        machine.__dict__.update(origin=origin, meaning=meaning)
        return machine

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a RewardMachine cannot be changed, tried to set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a RewardMachine cannot be changed, tried to delete {name!r}")

    def __reduce__(self) -> tuple[object, ...]:
        structure = self.states, self.events, self.start, self.graph[1:], self.is_final
        return RewardMachine._from_arrays, (*structure, self.reward, self.origin, self.meaning)

    @property
    def initial(self) -> str:
        return self.states.at(self.start)

    @cached_property
    def final(self) -> Names:
        return Names(map(self.states.at, np.flatnonzero(self.is_final).tolist()))

    @property
    def ends(self) -> Flags:
        """Flags of the states in which an agent is done: final ones; with general rewards, if they are never left."""
        return self.is_final if self.has_completion_rewards else self.is_final & self.graph.is_sink

    @cached_property
    def transitions(self) -> Mapping[tuple[str, str], str]:
        """The transition function as a read-only mapping from (state, event) to state."""
        names, events = self.states.listed, self.events.listed
        return MappingProxyType({(names[s], events[e]): names[t] for s, e, t in self.graph.edges()})

    @cached_property
    def rewards(self) -> Mapping[tuple[str, str], float]:
        """The reward of every transition, as a read-only mapping from (state, event)."""
        return MappingProxyType(dict(zip(self.transitions, self.reward.tolist(), strict=True)))

    @property
    def is_task_completion(self) -> bool:
        """Whether entering a final state is all that is rewarded, and final states are never left."""
        return self.has_completion_rewards and not self.is_final[self.graph.source].any()

    @cached_property
    def reach(self) -> Reach:
        """A shortest way from the initial state to each reachable one."""
        return breadth_first(self.graph, self.start)

    @cached_property
    def rank(self) -> Ints:
        """The position of each state in breadth-first order; -1 where it cannot be reached."""
        return positions_in(self.reach.order, len(self.states))

    @cached_property
    def by_event(self) -> list[NDArray[np.intp]]:
        """The transitions on each event, the nearest to the initial state first."""
        order = np.lexsort((self.rank[self.graph.source], self.graph.label))
        return np.split(order, np.searchsorted(self.graph.label[order], np.arange(1, len(self.events))))

    def trace_to(self, state: int) -> tuple[str, ...]:
        """Name a shortest trace to a reachable state, given by its position."""
        return tuple(self.events.listed[label] for label in labels_to(self.graph, self.reach, state))

    @cached_property
    def moves(self) -> Mapping[str, Mapping[str, str]]:
        """The transition function as state -> event -> state, without the states that have no transitions."""
        return MappingProxyType(as_rows(self.transitions))

    @cached_property
    def unreachable(self) -> Names:
        """States that no trace reaches; `project` keeps them, `decompose` and `repair` drop them."""
        return Names(map(self.states.at, np.flatnonzero(self.rank < 0).tolist()))

    @cached_property
    def members(self) -> Mapping[str, tuple[str, ...]]:
        """The states that each state stands for: several where a projection or a minimisation has merged them."""
        if self.origin is None:
            return MappingProxyType({state: (state,) for state in self.states})
        merged = zip(self.origin.states, self.origin.classes.tolist(), strict=True)
        return invert({name: [self.states.at(into)] if into >= 0 else [] for name, into in merged}, self.states)

    def step(self, state: str, event: str) -> str | None:
        """Return the state that `event` leads to from `state`, or None where it is undefined."""
        require_member(state, self.states, "state")
        return self.transitions.get((state, event))

    def run(self, trace: Sequence[str], *, undefined: Undefined) -> MachineRun:
        """Read a trace from the initial state.

        An undefined event makes the whole run undefined ("blocking"), or is ignored ("stay").
        """
        if undefined not in ("blocking", "stay"):
            raise MachineError(f"undefined must be 'blocking' or 'stay', got {undefined!r}")
        if isinstance(trace, str):
            raise MachineError(f"a trace must be a sequence of event names, got the string {trace!r}")
        state, reward, visited = self.initial, 0.0, [self.initial]
        for event in trace:
            target = self.transitions.get((state, event))
            if target is None:
                if undefined == "blocking":
                    return MachineRun(None, 0.0, False, tuple(visited))
                continue
            reward += self.rewards[state, event]
            state = target
            visited.append(state)
        return MachineRun(state, reward, state in self.final, tuple(visited))

    def _edge_names(self, edge: int) -> tuple[str, str]:
        return self.states.listed[self.graph.source[edge]], self.events.listed[self.graph.label[edge]]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RewardMachine):
            return NotImplemented
        if self is other:
            return True
        same_names = self.states.listed == other.states.listed and self.events.listed == other.events.listed
        if same_names:
            same_moves = all(map(np.array_equal, self.graph, other.graph))
            same_ends = self.start == other.start and np.array_equal(self.is_final, other.is_final)
            return same_moves and same_ends and np.array_equal(self.reward, other.reward)
        same_sets = self.states == other.states and self.events == other.events and self.final == other.final
        same_moves = self.initial == other.initial and self.transitions == other.transitions
        return same_sets and same_moves and self.rewards == other.rewards

    @cached_property
    def _hash(self) -> int:
        # Without rewards: machines that differ in them alone are rare.
        return hash((self.initial, self.states, self.events, self.final, frozenset(self.transitions.items())))

    def __hash__(self) -> int:
        return self._hash

    def _repr_svg_(self) -> str | None:
        return show_in_notebook(self, "svg")

    def __repr__(self) -> str:
        if len(self.graph.target) > 24 or len(self.states) > 48 or len(self.events) > 48:
            size = f"{len(self.states):,} states, {len(self.events):,} events, {len(self.graph.target):,} transitions"
            return f"<RewardMachine with {size}, initial {self.initial!r}, {len(self.final):,} final>"
        parts = [f"initial={self.initial!r}", f"transitions={dict(self.transitions)!r}", f"final={self.final!r}"]
        used = Names(TransitionColumns.of_table(self.transitions).states_from(self.initial))
        if len(self.events) > len({event for _, event in self.transitions}):
            parts.append(f"events={self.events!r}")
        if not self.is_task_completion:
            parts.append(f"rewards={dict(self.rewards)!r}")
        if self.states != used:
            parts.append(f"states={self.states!r}")
        return f"RewardMachine({', '.join(parts)})"


def _checked(
    initial: str, moves: TransitionColumns, final: Iterable[str], events: Listed, states: Listed, reward: Rewards | None
) -> RewardMachine:
    """Check all names, and build the machine."""
    check_name(initial, "the initial state")
    known_states = _check_names(moves.states_from(initial), states, "a state")
    known_events = _check_names(moves.events, events, "an event")
    require_member(initial, known_states, "initial state")
    finals = in_order(final, "a final state")
    for state in finals:
        require_member(state, known_states, "final state")
    state_at, event_at = known_states._index, known_events._index
    state_of = np.fromiter(map(state_at.__getitem__, moves.states), np.int32, len(moves.states))
    event_of = np.fromiter(map(event_at.__getitem__, moves.events), np.int32, len(moves.events))
    edges = state_of[moves.source], event_of[moves.label], state_of[moves.target]
    is_final = flags_at([state_at[state] for state in finals], len(known_states))
    machine = RewardMachine._from_arrays(known_states, known_events, state_at[initial], edges, is_final, reward)
    if reward is None and len(leaving := np.flatnonzero(is_final[machine.graph.source])):
        state, event = machine._edge_names(int(leaving[0]))
        raise MachineError(f"final state {state!r} must have no outgoing transition, got one on {event!r}")
    return machine


def _check_names(used: Iterable[str], declared: Listed, what: str) -> Names:
    """Check that names are allowed, and that those in use are among the declared ones, if any are declared."""
    names = Names(in_order(used if declared is None else declared, what))
    for name in used if declared is not None else ():
        require_member(name, names, what.split()[-1])
    return names


def _rewards_of(table: Mapping[tuple[str, str], str], rewards: Mapping[tuple[str, str], float]) -> NDArray[np.float64]:
    if not isinstance(rewards, Mapping):
        raise MachineError(f"rewards must map (state, event) to a number, got {rewards!r:.60}")
    for key, value in rewards.items():
        if key not in table:
            raise MachineError(f"a reward needs a transition to belong to, got one for {key!r}")
        if isinstance(value, bool) or not isinstance(value, Real) or not abs(value) <= LARGEST_REWARD:
            raise MachineError(f"the reward of {key!r} must be a finite number, got {value!r:.60}")
    return np.fromiter((rewards.get(key, 0.0) for key in table), np.float64, len(table))


def require_machines(*machines: object, kind: type | UnionType = RewardMachine) -> None:
    """Refuse arguments that are no machines, such as tasks or paths of files."""
    for machine in machines:
        if not isinstance(machine, kind):
            raise MachineError(f"a reward machine is needed, got {type(machine).__name__}")
