"""Conversion of machines to and from graphs of networkx and automata of AALpy, two optional libraries."""

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

FLAGS = {"true": True, "false": False}  # as in files that have only text


def to_networkx(machine: RewardMachine) -> MultiDiGraph:
    """Turn a machine into a networkx.MultiDiGraph.

    States are nodes with the attributes `initial` and `final`; transitions are edges with `event`, which is also their
    key, and `reward`; the attribute `events` of the graph lists all events.
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
    names; final states likewise. An edge's event is its attribute `event`, or else `label`, and may be a list. If no
    edge has a `reward`, only completing the task is rewarded. Nodes and events may be text or integers.
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
    events = graph.graph.get("events")
    initial = _marked(graph, names, "initial", [graph.graph["initial"]] if "initial" in graph.graph else [])
    if len(initial) != 1:
        rule = "one node must have the attribute initial=True, or the graph's attribute 'initial' must name it"
        raise MachineError(f"{rule}, got {len(initial) or 'none'}")
    return RewardMachine(
        initial=initial[0],
        transitions=triples,
        final=_marked(graph, names, "final", _listed(graph.graph.get("final", ()), "final")),
        events=None if events is None else [_name(event, "an event") for event in _listed(events, "events")],
        rewards=rewards or None,
        states=list(names.values()),
    )


def to_aalpy(machine: RewardMachine, *, undefined: Missing = "sink") -> Dfa | MealyMachine:
    """Turn a machine into an automaton of AALpy: a Dfa, or a MealyMachine whose outputs are the rewards.

    In AALpy every state has a transition on every input. Undefined events lead to an additional state, whose id is None
    and which is never left ("sink"), or change nothing ("stay"). As the outputs of a MealyMachine do not say which
    states are final, each of its states has an attribute `is_accepting`, as in a Dfa.
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
        otherwise = None if undefined == "sink" else name
        for event in machine.events:
            state.transitions[event] = states[machine.transitions.get((name, event), otherwise)]
            if not is_dfa:
                state.output_fun[event] = machine.rewards.get((name, event), 0.0)
    return make_automaton(states[machine.initial], list(states.values()))


def from_aalpy(automaton: Automaton, *, undefined: Missing | None = None) -> RewardMachine:
    """Turn a Dfa, MooreMachine or MealyMachine of AALpy into a machine.

    Accepting states, and those of a MooreMachine with the output True, are final, and steps from them to themselves
    are dropped. Outputs of other kinds must be numbers and are rewards: a MealyMachine's for the step, a MooreMachine's
    for entering the state. Then states that are entered with a reward and never left are final, unless the states have
    an attribute `is_accepting`.

    A state with the id None, which `to_aalpy` adds, is dropped with all steps to it. So is, with "sink", every state
    that is never left, has no reward and is not final. With "stay", steps without change and reward are dropped.
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
    outputs = _rewards_of(automaton, steps)
    rewards = outputs or {}
    active = {state.state_id for state, event, end in steps if end is not state or rewards.get((state.state_id, event))}
    idle = {state.state_id for state in automaton.states} - active  # never left and without rewards
    has_accepting = any(hasattr(state, "is_accepting") for state in automaton.states)
    if outputs is None:
        final = done = {state.state_id for state in automaton.states if state.output}
    elif has_accepting:
        final, done = {state.state_id for state in automaton.states if getattr(state, "is_accepting", False)}, set()
    else:
        final = done = idle & {end.state_id for state, event, end in steps if rewards[state.state_id, event] > 0}
    dropped = {None} | (idle - final if undefined == "sink" else set())
    if automaton.initial_state.state_id in dropped:
        raise MachineError("the initial state must not be a sink: no state would remain")
    kept: Rewards = {}
    triples: Triples = []
    for state, event, target in steps:
        source, reward = state.state_id, rewards.get((state.state_id, event), 0.0)
        stays = target is state and (source in done or (undefined == "stay" and not reward))
        if not stays and source not in dropped and target.state_id not in dropped:
            triples.append((names[source], events[event], names[target.state_id]))
            kept[names[source], events[event]] = reward
    return RewardMachine(
        initial=names[automaton.initial_state.state_id],
        transitions=triples,
        final=[name for state, name in names.items() if state in final - dropped],
        events=list(events.values()),
        rewards=None if outputs is None else kept,
        states=[name for state, name in names.items() if state not in dropped],
    )


def _check_members(automaton: Automaton, steps: Steps) -> None:
    """Require that all states are states of the automaton, with different ids."""
    if len({state.state_id for state in automaton.states}) < len(automaton.states):
        raise MachineError("the states of an automaton must have different ids")
    members = set(map(id, automaton.states))
    for state in (automaton.initial_state, *(target for _, _, target in steps)):
        if id(state) not in members:
            raise MachineError(f"state {state.state_id!r:.60} must be among the states of its automaton")


def _rewards_of(automaton: Automaton, steps: Steps) -> dict[tuple[Hashable, Hashable], float] | None:
    """Read outputs as rewards of the steps; None if they tell accepting states."""
    if all(hasattr(state, "output_fun") for state in automaton.states):
        return {(state.state_id, event): _as_reward(state.output_fun[event]) for state, event, _ in steps}
    if all(isinstance(state.output, bool) for state in automaton.states):
        return None
    entering = ((state, event, 0.0 if end is state else _as_reward(end.output)) for state, event, end in steps)
    return {(state.state_id, event): reward for state, event, reward in entering}


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
    for attribute in ("event", "label"):
        if attribute in attributes:
            value = attributes[attribute]
            return [_name(event, "an event") for event in (value if isinstance(value, list | tuple) else [value])]
    raise MachineError(f"an edge must have the attribute 'event' or 'label', got none from {source!r} to {target!r}")


def _names(things: Iterable[Hashable], what: str) -> dict[Hashable, str]:
    """Make names of states or events, which must differ."""
    names = {thing: _name(thing, what) for thing in things}
    first: dict[str, Hashable] = {}  # the first thing of each name
    for thing, name in names.items():
        if first.setdefault(name, thing) is not thing:
            raise MachineError(f"the names of two {what.split()[-1]}s must differ, got {first[name]!r} and {thing!r}")
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
    """Read a truth value, or the text of one."""
    flag = FLAGS.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(flag, bool):
        raise MachineError(f"the attribute {attribute!r} must be True or False, got {value!r:.60}")
    return flag


def _library(name: str) -> ModuleType:
    """Import an optional library."""
    with needs_extra(f"a conversion from or to {name}", "automata"):
        return import_module(name)
