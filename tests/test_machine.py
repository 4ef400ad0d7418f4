"""What a reward machine accepts, keeps and does: validation, immutability, equality, runs."""

import ast
import copy
import pickle
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hocket as hk
from strategies import completion_machines, quick, reward_machines, task_machines

machines = task_machines() | reward_machines() | completion_machines()


def make(**changes) -> hk.RewardMachine:
    """Build a chain over the events a and b, with something changed."""
    chain = {"initial": "u0", "transitions": {("u0", "a"): "u1", ("u1", "b"): "u2"}, "final": {"u2"}}
    return hk.RewardMachine(**{**chain, **changes})


def loop() -> hk.RewardMachine:
    """Build a machine that pays 2 for a, takes half a point for b, and may leave its final state."""
    return hk.RewardMachine(
        initial="u0",
        transitions={("u0", "a"): "u1", ("u1", "b"): "u0"},
        final={"u1"},
        rewards={("u0", "a"): 2, ("u1", "b"): -0.5},
    )


def rebuild(shown: str) -> hk.RewardMachine:
    """Evaluate the text RewardMachine(name=literal, ...), and nothing else."""
    call = ast.parse(shown, mode="eval").body
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and not call.args
    assert call.func.id == "RewardMachine"
    return hk.RewardMachine(**{str(item.arg): ast.literal_eval(item.value) for item in call.keywords})


def shuffled(machine: hk.RewardMachine, seed: int) -> hk.RewardMachine:
    """Build the same machine from parts given in another order."""
    rng = np.random.default_rng(seed)

    def mix(items):
        items = list(items)
        return [items[place] for place in rng.permutation(len(items))]

    return hk.RewardMachine(
        initial=machine.initial,
        transitions=dict(mix(machine.transitions.items())),
        final=mix(machine.final),
        events=mix(machine.events),
        rewards=dict(mix(machine.rewards.items())),
        states=mix(machine.states),
    )


# Validation: each rule says what, the rule, and what was received.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"final": {"u7"}}, r"final state 'u7' does not exist in this machine \(did you mean 'u\d'\?\)"),
        ({"initial": "v"}, r"initial state 'v' does not exist in this machine \(known: u0, u1, u2\)"),
        ({"initial": 0}, "the name of the initial state must be text, got 0"),
        ({"final": [2]}, "the name of a final state must be text, got 2"),
        ({"transitions": {("u0", "a"): ""}}, "the name of a state must not be empty, got ''"),
        ({"transitions": {("u0", " \u2003"): "u2"}}, r"the name of an? event must not be empty, got ' \\u2003'"),
        ({"transitions": {("u0", "a"): 2}}, "the name of a state must be text, got 2"),
        ({"transitions": {("u0", None): "u2"}}, "the name of an? event must be text, got None"),
        (
            {"transitions": {("u0", "a\tb"): "u2"}},
            r"the name of an? event must have no control characters, got 'a\\tb'",
        ),
        ({"transitions": {("u0", "a"): "u\x1b[2J"}}, r"must have no control characters, got 'u\\x1b\[2J'"),
        ({"events": ["a", "b", "c\n"]}, r"the name of an? event must have no control characters, got 'c\\n'"),
        ({"events": ["a", "b", ""]}, "the name of an? event must not be empty"),
        ({"states": ["u0", "u1", "u2", "\u2028x"]}, r"the name of a state must have no control characters"),
        ({"states": ["u0", "u1", "u2", "\ud800"]}, r"must have no control characters, got '\\ud800'"),
        (
            {"transitions": [("u0", "a", "u1"), ("u0", "a", "u2")]},
            "state 'u0' must have one transition on 'a', got two: to 'u1' and to 'u2'",
        ),
        ({"transitions": [("u0", "a", "u2"), ("u0", "a", "u2")]}, "state 'u0' must have one transition on 'a'"),
        ({"transitions": [("u0", "a")]}, r"a transition must be \(state, event, target\), got \('u0', 'a'\)"),
        ({"transitions": "ab"}, r"a transition must be \(state, event, target\), got 'a'"),
        ({"transitions": {"u0": "u2"}}, r"a transition's key must be a pair \(state, event\), got 'u0'"),
        ({"transitions": {("u0", "a", "b"): "u2"}}, r"a transition's key must be a pair \(state, event\)"),
        ({"final": {"u1", "u2"}}, "final state 'u1' must have no outgoing transition, got one on 'b'"),
        ({"events": ["a"]}, r"event 'b' does not exist in this machine \(known: a\)"),
        ({"states": ["u0", "u2"]}, r"state 'u1' does not exist in this machine"),
        ({"rewards": {("u0", "b"): 1}}, r"a reward needs a transition to belong to, got one for \('u0', 'b'\)"),
        ({"rewards": {("u0", "a"): float("nan")}}, r"the reward of \('u0', 'a'\) must be a finite number, got nan"),
        ({"rewards": {("u0", "a"): float("inf")}}, r"the reward of \('u0', 'a'\) must be a finite number, got inf"),
        ({"rewards": {("u0", "a"): -np.inf}}, r"must be a finite number, got -inf"),
        ({"rewards": {("u0", "a"): "1"}}, r"must be a finite number, got '1'"),
        ({"rewards": {("u0", "a"): True}}, r"must be a finite number, got True"),
        ({"rewards": {("u0", "a"): 10**400}}, r"the reward of \('u0', 'a'\) must be a finite number"),
        ({"final": "u2"}, "names must come as a collection, got the string 'u2'"),
        ({"events": "ab"}, "names must come as a collection, got the string 'ab'"),
        ({"states": "u0"}, "names must come as a collection, got the string 'u0'"),
    ],
)
def test_a_machine_that_breaks_a_rule_is_refused_with_the_rule(changes, message):
    with pytest.raises(hk.errors.MachineError, match=message):
        make(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"initial": ["u0"]},
        {"final": [["u2"]]},
        {"transitions": {("u0", "a"): ["u2"]}},
        {"transitions": [("u0", ["a"], "u2")]},
        {"transitions": [(["u0"], "a", "u2")]},
        {"events": [["a"], "b"]},
        {"states": [["u0"], "u1", "u2"]},
    ],
)
def test_a_name_that_cannot_even_be_hashed_is_refused_as_a_name(changes):
    with pytest.raises(hk.errors.MachineError, match=r"'u0'|'u2'|'a'"):
        make(**changes)


def test_every_error_of_a_machine_is_a_value_error_of_hocket():
    with pytest.raises(ValueError, match="does not exist") as caught:
        make(final={"u7"})
    assert isinstance(caught.value, hk.HocketError)


def test_names_may_hold_any_script_space_and_punctuation():
    names = ["π", "a b", "it's", '"', "\\", "日本", "👩‍👩‍👧", "[bold]", "-1", "{}"]
    machine = hk.RewardMachine(initial="π", transitions={("π", name): name for name in names}, states=names)
    assert list(machine.states) == names
    assert list(machine.events) == names


def test_a_final_state_may_be_left_where_rewards_are_given():
    assert loop().transitions["u1", "b"] == "u0"


def test_the_smallest_machine_is_one_state_without_transitions():
    machine = hk.RewardMachine(initial="u", transitions={})
    assert (list(machine.states), list(machine.events), list(machine.final)) == (["u"], [], [])
    assert machine.run((), undefined="blocking") == ("u", 0.0, False, ("u",))


# What a machine keeps.


def test_states_come_with_the_initial_one_first_and_then_as_transitions_name_them():
    machine = hk.RewardMachine(initial="z", transitions={("m", "b"): "z", ("z", "a"): "k"})
    assert list(machine.states) == ["z", "m", "k"]
    assert list(machine.events) == ["b", "a"]


def test_declared_states_and_events_keep_their_declared_order():
    machine = make(states=["u2", "spare", "u1", "u0"], events=["b", "c", "a"])
    assert list(machine.states) == ["u2", "spare", "u1", "u0"]
    assert list(machine.events) == ["b", "c", "a"]
    assert machine.initial == "u0"


def test_unreachable_states_are_kept_and_reported():
    machine = make(transitions={("u0", "a"): "u2", ("far", "a"): "u2", ("u2x", "b"): "far"}, states=None)
    assert set(machine.states) == {"u0", "u2", "far", "u2x"}
    assert set(machine.unreachable) == {"far", "u2x"}
    assert machine.step("far", "a") == "u2"


def test_a_declared_state_without_transitions_is_kept_and_reported():
    machine = make(states=["u0", "u1", "u2", "spare"])
    assert list(machine.unreachable) == ["spare"]


def test_a_machine_without_unreachable_states_reports_none():
    assert not make().unreachable


def test_rewards_are_kept_by_state_and_event():
    assert loop().rewards == {("u0", "a"): 2.0, ("u1", "b"): -0.5}


def test_entering_a_final_state_is_worth_one_where_no_rewards_are_given():
    assert make().rewards == {("u0", "a"): 0.0, ("u1", "b"): 1.0}
    assert make().is_task_completion


def test_rewards_that_are_not_listed_are_zero():
    machine = make(rewards={("u0", "a"): 3})
    assert machine.rewards == {("u0", "a"): 3.0, ("u1", "b"): 0.0}
    assert not machine.is_task_completion


def test_spelling_out_the_completion_rewards_changes_nothing():
    assert make(rewards={("u1", "b"): 1}) == make()
    assert make(rewards={("u1", "b"): 1}).is_task_completion


def test_a_machine_that_leaves_its_final_state_is_no_task_completion_machine():
    machine = hk.RewardMachine(
        initial="u0", transitions={("u0", "a"): "u1", ("u1", "b"): "u0"}, final={"u1"}, rewards={("u0", "a"): 1}
    )
    assert machine.has_completion_rewards
    assert not machine.is_task_completion


@quick
@given(machines)
def test_the_integer_form_says_the_same_as_the_names(machine):
    states, events = list(machine.states), list(machine.events)
    edges = zip(machine.graph.source, machine.graph.label, machine.graph.target, machine.reward, strict=True)
    spelled = {(states[s], events[e]): (states[t], reward) for s, e, t, reward in edges}
    assert spelled == {key: (target, machine.rewards[key]) for key, target in machine.transitions.items()}
    assert {state for state, final in zip(states, machine.is_final, strict=True) if final} == set(machine.final)
    assert states[machine.start] == machine.initial


# Immutability.


@pytest.mark.parametrize("name", ["initial", "states", "transitions", "graph", "reward", "start", "is_final", "new"])
def test_attributes_cannot_be_set(name):
    machine = make()
    with pytest.raises(AttributeError):
        setattr(machine, name, None)
    assert machine == make()


@pytest.mark.parametrize("name", ["graph", "reward", "start", "is_final", "transitions", "states"])
def test_attributes_cannot_be_deleted(name):
    machine = make()
    assert machine.rewards, "what is worked out once and kept has been worked out"
    with pytest.raises(AttributeError):
        delattr(machine, name)
    assert machine == make()


@pytest.mark.parametrize("source", ["constructed", "unpickled", "projected", "composed", "minimized"])
def test_arrays_cannot_be_written_to(source):
    machine = {
        "constructed": make,
        "unpickled": lambda: pickle.loads(pickle.dumps(make())),
        "projected": lambda: hk.project(make(), {"a"}),
        "composed": lambda: hk.compose(make(), make()),
        "minimized": lambda: hk.minimize(make()),
    }[source]()
    for array in (*machine.graph, machine.is_final, machine.reward):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_mappings_cannot_be_written_to():
    machine = loop()
    for mapping in (machine.transitions, machine.rewards, machine.members):
        with pytest.raises(TypeError, match="does not support item assignment"):
            mapping["u0", "a"] = "u0"
        assert not hasattr(mapping, "clear")


@pytest.mark.parametrize("names", ["states", "events", "final", "unreachable"])
def test_sets_of_names_cannot_be_written_to(names):
    found = getattr(make(), names)
    assert not any(hasattr(found, method) for method in ("add", "remove", "discard", "clear", "update", "__setitem__"))
    with pytest.raises(AttributeError):
        found.more = 1


def test_a_machine_does_not_change_with_what_it_was_built_from():
    transitions, final, rewards = {("u0", "a"): "u1"}, {"u1"}, {("u0", "a"): 2}
    machine = hk.RewardMachine(initial="u0", transitions=transitions, final=final, rewards=rewards)
    transitions["u0", "b"], rewards["u0", "a"] = "u1", 3
    final.clear()
    assert machine.transitions == {("u0", "a"): "u1"}
    assert machine.rewards == {("u0", "a"): 2.0}
    assert list(machine.final) == ["u1"]


# Equality, hash, repr, copies.


def test_transitions_as_triples_and_as_a_mapping_make_equal_machines():
    assert make(transitions=[("u0", "a", "u1"), ["u1", "b", "u2"]]) == make()


def test_every_order_of_the_same_transitions_makes_an_equal_machine():
    triples = [("u0", "a", "u1"), ("u1", "b", "u2"), ("u0", "c", "u2")]
    built = {make(transitions=list(order)) for order in permutations(triples)}
    assert len(built) == 1


@quick
@given(machines, st.integers(0, 1000))
def test_equality_and_hash_do_not_depend_on_the_order_of_parts(machine, seed):
    other = shuffled(machine, seed)
    assert machine == other
    assert hash(machine) == hash(other)


@pytest.mark.parametrize(
    "changes",
    [
        {"initial": "u1"},
        {"final": ()},
        {"events": ["a", "b", "c"]},
        {"states": ["u0", "u1", "u2", "u3"]},
        {"transitions": {("u0", "a"): "u1", ("u0", "b"): "u2"}},
        {"transitions": {("u0", "a"): "u1", ("u1", "a"): "u2"}},
        {"transitions": {("u0", "a"): "u2", ("u1", "b"): "u2"}},
        {"rewards": {("u1", "b"): 2}},
    ],
)
def test_machines_that_differ_in_one_part_are_not_equal(changes):
    assert make(**changes) != make()
    reordered = {"states": ["u2", "u1", "u0"], **changes}
    assert make(**reordered) != make(), "also where states stand in another order"


def test_a_machine_is_not_equal_to_something_else():
    assert make() != "u0"
    assert make().__eq__(None) is NotImplemented


@quick
@given(machines.filter(lambda machine: len(machine.transitions) <= 24))
def test_the_repr_of_a_small_machine_evaluates_to_an_equal_one(machine):
    assert rebuild(repr(machine)) == machine


def test_the_repr_survives_names_with_quotes_and_backslashes():
    names = ["'", '"', "\\", "'\"", "\\n", "é"]
    machine = hk.RewardMachine(initial="'", transitions={("'", name): name for name in names}, final={"\\"})
    assert rebuild(repr(machine)) == machine


def test_the_repr_is_what_a_person_would_write():
    assert repr(make()) == (
        "RewardMachine(initial='u0', transitions={('u0', 'a'): 'u1', ('u1', 'b'): 'u2'}, final={'u2'})"
    )


@pytest.mark.parametrize(
    "machine",
    [
        hk.RewardMachine(initial="0", transitions={(str(i), "a"): str(i + 1) for i in range(5000)}, final={"5000"}),
        hk.RewardMachine(initial="0", transitions={}, states=map(str, range(5000))),
        hk.RewardMachine(initial="0", transitions={}, events=map(str, range(5000))),
    ],
    ids=["transitions", "states", "events"],
)
def test_the_repr_of_a_large_machine_is_one_short_line(machine):
    shown = repr(machine)
    assert len(shown) < 200
    assert "5,00" in shown and "\n" not in shown


@quick
@given(machines, st.integers(2, pickle.HIGHEST_PROTOCOL))
def test_pickling_keeps_equality(machine, protocol):
    again = pickle.loads(pickle.dumps(machine, protocol))
    assert again == machine
    assert hash(again) == hash(machine)
    assert list(again.states) == list(machine.states)
    assert again.has_completion_rewards == machine.has_completion_rewards


@quick
@given(machines)
def test_copies_keep_equality(machine):
    assert copy.deepcopy(machine) == machine
    assert copy.copy(machine) == machine


def test_a_copied_projection_still_knows_which_states_it_merged():
    projected = hk.project(make(), {"b"})
    assert dict(copy.deepcopy(projected).members) == dict(projected.members)
    assert ("u0", "u1") in projected.members.values()


# Steps and runs.


def test_a_step_leads_to_the_target_or_nowhere():
    assert make().step("u0", "a") == "u1"
    assert make().step("u0", "b") is None
    assert make().step("u0", "no such event") is None
    with pytest.raises(hk.errors.MachineError, match=r"state 'u9' does not exist in this machine \(did you mean"):
        make().step("u9", "a")


@pytest.mark.parametrize(
    ("trace", "undefined", "expected"),
    [
        ((), "blocking", ("u0", 0.0, False, ("u0",))),
        (("a",), "blocking", ("u1", 0.0, False, ("u0", "u1"))),
        (("a", "b"), "blocking", ("u2", 1.0, True, ("u0", "u1", "u2"))),
        (("b",), "blocking", (None, 0.0, False, ("u0",))),
        (("a", "a", "b"), "blocking", (None, 0.0, False, ("u0", "u1"))),
        (("a", "b", "a"), "blocking", (None, 0.0, False, ("u0", "u1", "u2"))),
        (("b",), "stay", ("u0", 0.0, False, ("u0",))),
        (("a", "a", "x", "b"), "stay", ("u2", 1.0, True, ("u0", "u1", "u2"))),
        (("a", "b", "a", "b"), "stay", ("u2", 1.0, True, ("u0", "u1", "u2"))),
        (["a", "b"], "blocking", ("u2", 1.0, True, ("u0", "u1", "u2"))),
    ],
)
def test_a_run_over_the_chain_a_b(trace, undefined, expected):
    assert make().run(trace, undefined=undefined) == expected


@pytest.mark.parametrize(
    ("trace", "undefined", "expected"),
    [
        (("a", "b", "a"), "blocking", ("u1", 3.5, True, ("u0", "u1", "u0", "u1"))),
        (("a", "b"), "blocking", ("u0", 1.5, False, ("u0", "u1", "u0"))),
        (("a", "a"), "blocking", (None, 0.0, False, ("u0", "u1"))),
        (("b", "a", "a", "b", "b"), "stay", ("u0", 1.5, False, ("u0", "u1", "u0"))),
    ],
)
def test_a_run_adds_up_rewards_and_completion_is_where_it_ends(trace, undefined, expected):
    assert loop().run(trace, undefined=undefined) == expected


def test_a_run_says_how_it_must_be_asked():
    with pytest.raises(hk.errors.MachineError, match="undefined must be 'blocking' or 'stay', got 'skip'"):
        make().run(("a",), undefined="skip")
    with pytest.raises(hk.errors.MachineError, match="a trace must be a sequence of event names, got the string 'ab'"):
        make().run("ab", undefined="stay")


def test_a_name_of_thousands_of_letters_is_cut_in_messages():
    name = "n" * 5_000
    machine = hk.RewardMachine(initial="u0", transitions={("u0", name): "u1"}, final={"u1"})
    for wrong in (lambda: hk.decompose(machine, {name: {"x"}}), lambda: machine.step(name, "a")):
        with pytest.raises(hk.HocketError, match="…") as refused:
            wrong()
        assert len(str(refused.value)) < 600
    assert len(hk.decompose(machine, {name: {name}, "B": set()}).explain()) < 1_000
