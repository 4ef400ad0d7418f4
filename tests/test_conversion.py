"""Machines to and from networkx and AALpy: round trips are the identity, and what others wrote is read or refused."""

import sys

import aalpy
import networkx as nx
import pytest
from hypothesis import given

import hocket as hk
from strategies import buttons, completion_machines, quick, reward_machines, task_machines, traces_up_to

machines = task_machines() | reward_machines() | completion_machines()


def parts(machine: hk.RewardMachine) -> tuple[object, ...]:
    """List all there is to a machine, with the order of its names."""
    names = (list(machine.states), list(machine.events), list(machine.final))
    return machine.initial, *names, machine.transitions, machine.rewards


# networkx.


@quick
@given(machines)
def test_a_machine_survives_networkx(machine):
    assert parts(hk.from_networkx(hk.to_networkx(machine))) == parts(machine)


@quick
@given(machines)
def test_a_machine_survives_the_json_of_networkx(machine):
    document = nx.node_link_data(hk.to_networkx(machine), edges="edges")
    assert hk.from_networkx(nx.node_link_graph(document, edges="edges")) == machine


def test_a_graph_says_what_its_machine_does():
    graph = hk.to_networkx(buttons())
    assert type(graph) is nx.MultiDiGraph
    assert list(graph) == list(buttons().states)
    assert [node for node, is_initial in graph.nodes(data="initial") if is_initial] == ["u0"]
    assert [node for node, is_final in graph.nodes(data="final") if is_final] == ["u7"]
    assert graph.edges["u6", "u7", "Goal"] == {"event": "Goal", "reward": 1.0}
    assert nx.shortest_path_length(graph, "u0", "u7") == 6


def chain(**attributes) -> nx.DiGraph:
    """Draw 0 to 1 to 2 as others might, with integers and labels."""
    graph = nx.DiGraph(**attributes)
    graph.add_edge(0, 1, label="a")
    graph.add_edge(1, 2, label=["b", "c"])
    return graph


CHAIN = hk.RewardMachine(
    initial="0", transitions={("0", "a"): "1", ("1", "b"): "2", ("1", "c"): "2"}, final={"2"}, states=["0", "1", "2"]
)


def test_the_initial_and_final_states_may_be_attributes_of_the_graph():
    assert hk.from_networkx(chain(initial=0, final=[2])) == CHAIN


@pytest.mark.parametrize(("yes", "no"), [(True, False), ("True", "False"), ("true", "false")])
def test_the_initial_and_final_states_may_be_attributes_of_nodes(yes, no):
    graph = chain()
    nx.set_node_attributes(graph, {0: yes, 1: no}, "initial")
    nx.set_node_attributes(graph, {1: no, 2: yes}, "final")
    assert hk.from_networkx(graph) == CHAIN


def test_an_event_goes_before_a_label():
    graph = nx.DiGraph(initial="u", final=["v"])
    graph.add_edge("u", "v", event="a", label="a / 1")
    assert list(hk.from_networkx(graph).events) == ["a"]


def test_an_edge_without_a_reward_among_edges_with_rewards_is_worth_nothing():
    graph = chain(initial=0)
    graph.edges[0, 1]["reward"] = -2
    assert hk.from_networkx(graph).rewards == {("0", "a"): -2.0, ("1", "b"): 0.0, ("1", "c"): 0.0}


def with_edge(*edge, **attributes) -> nx.MultiDiGraph:
    graph = nx.MultiDiGraph(chain(initial=0, final=[2]))
    graph.add_edge(*edge, **attributes)
    return graph


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (nx.Graph(), "must be a directed graph of networkx, got Graph"),
        ([(0, 1)], "must be a directed graph of networkx, got list"),
        (
            chain(),
            "one node must have the attribute initial=True, or the graph's attribute 'initial' must name it, got none",
        ),
        (chain(initial=9), "the graph's attribute 'initial' must name nodes, got 9"),
        (chain(initial=[0]), "the graph's attribute 'initial' must name nodes, got [0]"),
        (chain(initial=0, final=2), "the graph's attribute 'final' must be a list, got 2"),
        (chain(initial=0, final=[7]), "the graph's attribute 'final' must name nodes, got 7"),
        (chain(initial=0, events="ab"), "the graph's attribute 'events' must be a list, got 'ab'"),
        (chain(initial=0, events=["a"]), "event 'b' does not exist in this machine (known: a)"),
        (with_edge(0, 2), "an edge must have the attribute 'event' or 'label', got none from '0' to '2'"),
        (with_edge(0, 2, event=1.5), "the name of an event must be text or an integer, got 1.5"),
        (with_edge(0, 2, event="a"), "state '0' must have one transition on 'a', got two: to '1' and to '2'"),
        (with_edge(2, 0, event="a"), "final state '2' must have no outgoing transition, got one on 'a'"),
        (with_edge("0", 0, event="x"), "the names of two states must differ, got 0 and '0'"),
        (with_edge((0, 1), 0, event="x"), "the name of a state must be text or an integer, got (0, 1)"),
        (with_edge(0, 2, event="x", reward="1"), "the reward of ('0', 'x') must be a finite number, got '1'"),
    ],
)
def test_a_graph_that_is_no_machine_is_refused(graph, said):
    with pytest.raises(hk.HocketError) as caught:
        hk.from_networkx(graph)
    assert said in str(caught.value)


def test_two_initial_states_are_refused():
    graph = chain(initial=0)
    graph.nodes[1]["initial"] = True
    with pytest.raises(hk.errors.MachineError, match="got 2"):
        hk.from_networkx(graph)


def test_an_attribute_that_is_neither_true_nor_false_is_refused():
    graph = chain(initial=0)
    graph.nodes[1]["final"] = "perhaps"
    with pytest.raises(hk.errors.MachineError, match="the attribute 'final' must be True or False, got 'perhaps'"):
        hk.from_networkx(graph)


# AALpy.


@quick
@given(machines)
def test_a_machine_survives_aalpy(machine):
    assert parts(hk.from_aalpy(hk.to_aalpy(machine))) == parts(machine)


@quick
@given(machines)
def test_a_machine_whose_every_step_changes_something_survives_aalpy_without_a_sink(machine):
    moving = hk.RewardMachine(
        initial=machine.initial,
        transitions={key: target for key, target in machine.transitions.items() if key[0] != target},
        final=machine.final,
        events=machine.events,
        rewards={key: machine.rewards[key] for key, target in machine.transitions.items() if key[0] != target},
        states=machine.states,
    )
    assert parts(hk.from_aalpy(hk.to_aalpy(moving, undefined="stay"), undefined="stay")) == parts(moving)


@quick
@given(task_machines())
def test_a_dfa_survives_aalpys_own_copy(machine):
    copied = hk.from_aalpy(hk.to_aalpy(machine).copy())
    assert copied == hk.RewardMachine(
        initial=machine.initial,
        transitions=machine.transitions,
        final=machine.final,
        events=machine.events,
        states=copied.states,
    )


@pytest.mark.parametrize(("undefined", "run"), [("sink", "blocking"), ("stay", "stay")])
@quick
@given(machine=task_machines(max_states=4, events=("a", "b")))
def test_a_dfa_accepts_the_traces_that_complete_the_task(undefined, run, machine):
    automaton = hk.to_aalpy(machine, undefined=undefined)
    assert isinstance(automaton, aalpy.Dfa)
    for trace in traces_up_to(machine.events, 4):
        automaton.reset_to_initial()
        accepted = [automaton.step(None), *map(automaton.step, trace)][-1]
        assert accepted == machine.run(trace, undefined=run).completed


@pytest.mark.parametrize("undefined", ["sink", "stay"])
@quick
@given(machine=reward_machines(max_states=4))
def test_a_mealy_machine_pays_the_rewards(undefined, machine):
    automaton = hk.to_aalpy(machine, undefined=undefined)
    if isinstance(automaton, aalpy.Dfa):
        assert machine.is_task_completion
        return
    assert not machine.events or automaton.is_input_complete()
    for trace in traces_up_to(machine.events, 3):
        automaton.reset_to_initial()
        paid = sum(map(automaton.step, trace))
        done = machine.run(trace, undefined="blocking" if undefined == "sink" else "stay")
        if done.state is not None:
            assert paid == done.reward


def kitchen(trace: tuple[str, ...]) -> bool:
    """Tell by hand whether a meal was served: chopped and boiled in any order, then cooked, then served."""
    return len(trace) == 4 and set(trace[:2]) == {"chop", "boil"} and trace[2:] == ("cook", "serve")


class Kitchen(aalpy.SUL):
    """A system that can only be asked whether the events so far complete the task."""

    def pre(self):
        self.trace = ()

    def post(self):
        pass

    def step(self, letter):
        self.trace += () if letter is None else (letter,)
        return kitchen(self.trace)


COOKING = ("chop", "boil", "cook", "serve")


def test_a_task_learnt_by_asking_is_a_decomposable_machine():
    kept = Kitchen()
    searcher = aalpy.WMethodEqOracle(list(COOKING), kept, max_number_of_states=7)
    learnt = aalpy.run_Lstar(list(COOKING), kept, searcher, automaton_type="dfa", print_level=0)
    machine = hk.from_aalpy(learnt, undefined="sink")
    for trace in traces_up_to(COOKING, 5):
        assert machine.run(trace, undefined="blocking").completed == kitchen(trace)
    knows = {"Ann": {"chop", "serve", "cook"}, "Bo": {"boil", "cook"}}
    assert hk.decompose(machine, knows).ok
    assert not hk.decompose(machine, knows | {"Ann": {"chop", "serve"}}).ok
    assert len(machine.states) == 6


def moore(outputs: dict[str, object]) -> aalpy.MooreMachine:
    """Build a chain s, t, u on a; it stays in u, and b changes nothing."""
    follows = {"s": "t", "t": "u", "u": "u"}
    return aalpy.MooreMachine.from_state_setup(
        {state: (outputs[state], {"a": follows[state], "b": state}) for state in follows}
    )


TWICE = {("s", "a"): "t", ("t", "a"): "u"}


def test_a_moore_machine_that_tells_accepting_states_is_a_task():
    machine = hk.from_aalpy(moore({"s": False, "t": False, "u": True}), undefined="stay")
    assert machine == hk.RewardMachine(initial="s", transitions=TWICE, final={"u"}, events=["a", "b"])


def test_a_moore_machine_with_numbers_rewards_entering():
    machine = hk.from_aalpy(moore({"s": 5, "t": 0, "u": 1}), undefined="stay")
    assert machine == hk.RewardMachine(initial="s", transitions=TWICE, final={"u"}, events=["a", "b"])
    kept = hk.from_aalpy(moore({"s": 5, "t": -1, "u": 1}))
    assert kept.rewards == {("s", "a"): -1.0, ("s", "b"): 0.0, ("t", "a"): 1.0, ("t", "b"): 0.0}
    assert list(kept.final) == ["u"]


def test_a_mealy_machine_that_rewards_arriving_where_it_stays_is_a_task():
    automaton = aalpy.MealyMachine.from_state_setup(
        {
            "s": {"a": (0, "t"), "b": (0, "x")},
            "t": {"a": (1, "u"), "b": (0, "x")},
            "u": {"a": (0, "u"), "b": (0, "u")},
            "x": {"a": (0, "x"), "b": (0, "x")},
        }
    )
    machine = hk.from_aalpy(automaton, undefined="sink")
    assert machine == hk.RewardMachine(initial="s", transitions=TWICE, final={"u"}, events=["a", "b"])
    assert hk.from_aalpy(automaton).transitions["t", "b"] == "x"


def test_ids_and_inputs_may_be_whole_numbers():
    automaton = aalpy.Dfa.from_state_setup({0: (False, {1: 1}), 1: (True, {1: 1})})
    assert hk.from_aalpy(automaton) == hk.RewardMachine(initial="0", transitions={("0", "1"): "1"}, final={"1"})


def dfa(setup: dict) -> aalpy.Dfa:
    return aalpy.Dfa.from_state_setup(setup)


def stray() -> aalpy.Dfa:
    """Build an automaton that leads out of itself."""
    automaton = dfa({"s": (False, {"a": "t"}), "t": (True, {})})
    automaton.states.pop()
    return automaton


@pytest.mark.parametrize(
    ("automaton", "said"),
    [
        (3, "must be a Dfa, a MooreMachine or a MealyMachine of AALpy, got int"),
        (stray(), "state 't' must be among the states of its automaton"),
        (aalpy.Dfa(aalpy.DfaState("s"), [aalpy.DfaState("s")] * 2), "states of an automaton must have different ids"),
        (dfa({0: (False, {}), "0": (True, {})}), "the names of two states must differ, got 0 and '0'"),
        (dfa({"s": (False, {1.5: "s"})}), "the name of an event must be text or an integer, got 1.5"),
        (dfa({"s": (False, {"a": "t"}), "t": (True, {"a": "s"})}), "final state 't' must have no outgoing transition"),
        (dfa({"s": (False, {"a": "s"})}), "the initial state must not be a sink: no state would remain"),
        (
            moore({"s": "x", "t": "y", "u": "z"}),
            "the outputs of an automaton must be rewards or tell accepting states, got 'y'",
        ),
    ],
)
def test_an_automaton_that_is_no_machine_is_refused(automaton, said):
    with pytest.raises(hk.HocketError) as caught:
        hk.from_aalpy(automaton, undefined="sink")
    assert said in str(caught.value)


def test_a_way_to_treat_what_is_undefined_must_be_a_known_one():
    with pytest.raises(hk.errors.MachineError, match="undefined must be 'sink' or 'stay', got 'blocking'"):
        hk.to_aalpy(buttons(), undefined="blocking")
    with pytest.raises(hk.errors.MachineError, match="undefined must be 'sink', 'stay' or None, got 'x'"):
        hk.from_aalpy(hk.to_aalpy(buttons()), undefined="x")


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("networkx", lambda: hk.to_networkx(buttons())),
        ("networkx", lambda: hk.from_networkx(None)),
        ("aalpy", lambda: hk.to_aalpy(buttons())),
        ("aalpy", lambda: hk.from_aalpy(None)),
    ],
)
def test_a_library_that_is_not_installed_is_named(monkeypatch, name, call):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(hk.HocketError, match=f"from or to {name} needs the extra automata: in a clone"):
        call()
