"""Machines to and from the graphs of networkx and the automata of AALpy, two libraries that need not be installed."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from importlib import import_module
from numbers import Real
from types import ModuleType
from typing import TYPE_CHECKING, Literal, TypeAlias

from hocket.errors import MachineError, needs_extra
from hocket.machine.reward_machine import RewardMachine, require_machines

if TYPE_CHECKING:
    from aalpy import AutomatonState as State
    from aalpy import Dfa, MealyMachine, MooreMachine
    from networkx import DiGraph, MultiDiGraph

    Automaton: TypeAlias = Dfa | MooreMachine | MealyMachine
    Steps: TypeAlias = list[tuple[State, Hashable, State]]

Missing = Literal["sink", "stay"]
Triples = list[tuple[str, str, str]]
Rewards = dict[tuple[str, str], float]

EVENT_NAMES = ("event", "label")  # an edge's attributes that may hold its event, the first one first
FLAGS = {"true": True, "false": False}  # as files hold them that know only text


def to_networkx(machine: RewardMachine) -> MultiDiGraph:
    """Turn a machine into a networkx.MultiDiGraph.

    States are nodes with the attributes `initial` and `final`; transitions are edges with `event`, which is also their
    key, and `reward`; the graph's own attribute `events` lists all events.
    """
    require_machines(machine)
    graph = _library("networkx").MultiDiGraph(events=list(machine.events))
    for state in machine.states:
        graph.add_node(state, initial=state == machine.initial, final=state in machine.final)
    for (state, event), target in machine.transitions.items():
        graph.add_edge(state, target, key=event, event=event, reward=machine.rewards[state, event])
    return graph


def from_networkx(graph: DiGraph) -> RewardMachine:
    """Turn a directed graph of networkx into a machine.

    The initial state is the node whose attribute `initial` is true, or the one that the graph's attribute `initial`
    names; final states likewise. An edge's event is its attribute `event`, or else `label`, and may be a list. Where no
    edge has a `reward`, completing the task is all that is rewarded. Nodes and events may be text or integers.
    """
    networkx = _library("networkx")
    if not isinstance(graph, networkx.Graph) or not graph.is_directed():
        raise MachineError(f"must be a directed graph of networkx, got {type(graph).__name__}")
    names = _names(graph.nodes, "a state")
    triples: Triples = []
    rewards: Rewards = {}
    for source, target, attributes in graph.edges(data=True):
        for event in _events_of_edge(names[source], names[target], attributes):
            triples.append((names[source], event, names[target]))
            if "reward" in attributes:
                rewards[names[source], event] = attributes["reward"]
    events, initial = graph.graph.get("events"), [graph.graph["initial"]] if "initial" in graph.graph else []
    roots = _marked(graph, names, "initial", initial)
    if len(roots) != 1:
        rule = "one node must have the attribute initial=True, or the graph's attribute 'initial' must name it"
        raise MachineError(f"{rule}, got {len(roots) or 'none'}")
    return RewardMachine(
        initial=roots[0],
        transitions=triples,
        final=_marked(graph, names, "final", _listed(graph.graph.get("final", ()), "final")),
        events=None if events is None else [_name(event, "an event") for event in _listed(events, "events")],
        rewards=rewards or None,
        states=list(names.values()),
    )


def to_aalpy(machine: RewardMachine, *, undefined: Missing = "sink") -> Dfa | MealyMachine:
    """Turn a machine into an automaton of AALpy: a Dfa, or a MealyMachine whose outputs are the rewards.

    AALpy expects every state to do something on every input. What a machine leaves undefined leads to a state of its
    own, whose id is None and which is never left ("sink"), or changes nothing ("stay"). As the outputs of a
    MealyMachine do not say which states are final, each of its states has an attribute `is_accepting`, as in a Dfa.
    """
    require_machines(machine)
    if undefined not in ("sink", "stay"):
        raise MachineError(f"undefined must be 'sink' or 'stay', got {undefined!r}")
    aalpy = _library("aalpy")
    is_dfa = machine.is_task_completion
    make_state, make_automaton = (aalpy.DfaState, aalpy.Dfa) if is_dfa else (aalpy.MealyState, aalpy.MealyMachine)
    is_partial = len(machine.transitions) < len(machine.states) * len(machine.events)
    names = [*machine.states, *([None] if undefined == "sink" and is_partial else [])]
    states = {name: make_state(name) for name in names}
    for name, state in states.items():
        state.is_accepting = name in machine.final
        for event in machine.events:
            rest = None if undefined == "sink" else name
            state.transitions[event] = states[machine.transitions.get((name, event), rest)]
            if not is_dfa:
                state.output_fun[event] = machine.rewards.get((name, event), 0.0)
    return make_automaton(states[machine.initial], list(states.values()))


def from_aalpy(automaton: Automaton, *, undefined: Missing | None = None) -> RewardMachine:
    """Turn a Dfa, MooreMachine or MealyMachine of AALpy into a machine.

    Accepting states, and those of a MooreMachine with the output True, are final, and steps from them to themselves
    are left out. Outputs of other kinds must be numbers and are rewards: a MealyMachine's for the step, a
    MooreMachine's for entering the state. Final is then a state that is entered with a reward and never left, unless
    the states have an attribute `is_accepting`.

    A state with the id None is left out with all that leads to it, for `to_aalpy` adds it. So is, with "sink", every
    state that is never left, earns nothing and is not final. With "stay", steps that change nothing and earn nothing
    are left out.
    """
    if undefined not in (None, "sink", "stay"):
        raise MachineError(f"undefined must be 'sink', 'stay' or None, got {undefined!r}")
    aalpy = _library("aalpy")
    if not isinstance(automaton, (aalpy.Dfa, aalpy.MooreMachine, aalpy.MealyMachine)):
        raise MachineError(f"must be a Dfa, a MooreMachine or a MealyMachine of AALpy, got {type(automaton).__name__}")
    steps = [(state, event, end) for state in automaton.states for event, end in state.transitions.items()]
    _check_members(automaton, steps)
    names = _names((state.state_id for state in automaton.states if state.state_id is not None), "a state")
    events = _names((event for _, event, _ in steps), "an event")
    rewards = _rewards_of(automaton, steps)
    earned = rewards or {}
    active = {s.state_id for s, event, end in steps if end is not s or earned.get((s.state_id, event))}
    idle = {state.state_id for state in automaton.states} - active  # never left, and nothing is earned there
    says_what_is_final = any(hasattr(state, "is_accepting") for state in automaton.states)
    if rewards is None:
        final = {state.state_id for state in automaton.states if state.output}
    elif says_what_is_final:
        final = {state.state_id for state in automaton.states if getattr(state, "is_accepting", False)}
    else:
        final = idle & {end.state_id for state, event, end in steps if rewards[state.state_id, event] > 0}
    dropped = {None} | (idle - final if undefined == "sink" else set())
    if automaton.initial_state.state_id in dropped:
        raise MachineError("the initial state must not be a sink: no state would remain")
    done = final if rewards is None else set() if says_what_is_final else final & idle
    kept: Rewards = {}
    triples: Triples = []
    for state, event, target in steps:
        here, reward = state.state_id, earned.get((state.state_id, event), 0.0)
        is_rest = target is state and (here in done or (undefined == "stay" and not reward))
        if not is_rest and here not in dropped and target.state_id not in dropped:
            triples.append((names[here], events[event], names[target.state_id]))
            kept[names[here], events[event]] = reward
    return RewardMachine(
        initial=names[automaton.initial_state.state_id],
        transitions=triples,
        final=[name for node, name in names.items() if node in final - dropped],
        events=list(events.values()),
        rewards=None if rewards is None else kept,
        states=[name for node, name in names.items() if node not in dropped],
    )


def _check_members(automaton: Automaton, steps: Steps) -> None:
    """Require that an automaton's states are all there, each with an id of its own."""
    if len({state.state_id for state in automaton.states}) < len(automaton.states):
        raise MachineError("the states of an automaton must have different ids")
    members = set(map(id, automaton.states))
    for state in (automaton.initial_state, *(target for _, _, target in steps)):
        if id(state) not in members:
            raise MachineError(f"state {state.state_id!r:.60} must be among the states of its automaton")


def _rewards_of(automaton: Automaton, steps: Steps) -> dict[tuple[Hashable, Hashable], float] | None:
    """Read outputs as rewards of the steps; None where they tell accepting states."""
    if all(hasattr(state, "output_fun") for state in automaton.states):
        return {(state.state_id, event): _as_reward(state.output_fun[event]) for state, event, _ in steps}
    if all(isinstance(state.output, bool) for state in automaton.states):
        return None
    return {
        (state.state_id, event): 0.0 if target is state else _as_reward(target.output) for state, event, target in steps
    }


def _as_reward(output: object) -> float:
    if not isinstance(output, Real):
        raise MachineError(f"the outputs of an automaton must be rewards or tell accepting states, got {output!r:.60}")
    return float(output)


def _marked(graph: DiGraph, names: Mapping[Hashable, str], attribute: str, listed: Iterable[object]) -> list[str]:
    """Name the nodes that have an attribute, and those that an attribute of the graph lists."""
    marked = {node for node, flag in graph.nodes(data=attribute, default=False) if _flag(flag, attribute)}
    for node in listed:
        if not isinstance(node, Hashable) or node not in names:
            raise MachineError(f"the graph's attribute {attribute!r} must name nodes, got {node!r:.60}")
        marked.add(node)
    return [name for node, name in names.items() if node in marked]


def _events_of_edge(source: str, target: str, attributes: Mapping[str, object]) -> list[str]:
    for attribute in EVENT_NAMES:
        if attribute in attributes:
            value = attributes[attribute]
            return [_name(event, "an event") for event in (value if isinstance(value, list | tuple) else [value])]
    raise MachineError(f"an edge must have the attribute 'event' or 'label', got none from {source!r} to {target!r}")


def _names(things: Iterable[Hashable], what: str) -> dict[Hashable, str]:
    """Name things, each differently."""
    names = {thing: _name(thing, what) for thing in things}
    if len(set(names.values())) < len(names):
        taken: dict[str, Hashable] = {}
        first, second = next((taken[n], t) for t, n in names.items() if taken.setdefault(n, t) is not t)
        raise MachineError(f"the names of two {what.split()[-1]}s must differ, got {first!r} and {second!r}")
    return names


def _name(thing: object, what: str) -> str:
    if isinstance(thing, bool) or not isinstance(thing, str | int):
        raise MachineError(f"the name of {what} must be text or an integer, got {thing!r:.60}")
    return str(thing)


def _listed(value: object, attribute: str) -> Iterable[object]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise MachineError(f"the graph's attribute {attribute!r} must be a list, got {value!r:.60}")
    return value


def _flag(value: object, attribute: str) -> bool:
    """Read whether something is so, from a truth value or from the text of one."""
    flag = FLAGS.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(flag, bool):
        raise MachineError(f"the attribute {attribute!r} must be True or False, got {value!r:.60}")
    return flag


def _library(name: str) -> ModuleType:
    """Import a library that hocket can do without."""
    with needs_extra(f"a conversion from or to {name}", "automata"):
        return import_module(name)
