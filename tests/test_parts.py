"""Machines made of machines: what parts make is what their formulas say, and calls are unfolded."""

import random
import re
from contextlib import nullcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hocket as hk
from hocket.draw.boxes import boxes_of, close_boxes
from hocket.machine.formats.schema import machine_from
from hocket.machine.parts import rename_events

FETCH = """
initial = "empty"
final = ["stored"]
[transitions]
empty = { get = "loaded" }
loaded = { put = "stored", drop = "empty" }
"""
DAY = """
initial = "start"
final = ["done"]
[calls]
fetch = { machine = "fetch.toml", rename = { get = "get ore" } }
build = { sequence = ["saw", "nail"], to = "done" }
[transitions]
start = { fetch = "build", rest = "done" }
"""


def useful(machine):
    """Leave out the states from which nothing completes, and what leads there: it means to be violated."""
    alive = {*machine.final}
    while fresh := {s for (s, _), t in machine.transitions.items() if t in alive} - alive:
        alive |= fresh
    moves = {key: target for key, target in machine.transitions.items() if key[0] in alive and target in alive}
    return hk.RewardMachine(
        initial=machine.initial, transitions=moves, final=machine.final, events=machine.events, states=alive
    )


def difference(machine, formula):
    """Find a shortest trace that completes one of a machine and a formula's machine, and not the other."""
    return hk.distinguish(useful(machine), useful(formula))


# Each part is its formula.


@pytest.mark.parametrize(
    ("machine", "regex"),
    [
        (hk.sequence("a", "b", "c"), "a b c"),
        (hk.sequence("a", "b", "a"), "a b a"),
        (hk.sequence("a", hk.either("b", "c")), "a (b | c)"),
        (hk.any_order("a", "b"), "a b | b a"),
        (hk.any_order("a", "b", "c"), "a b c | a c b | b a c | b c a | c a b | c b a"),
        (hk.any_order(hk.sequence("a", "b"), "c"), "a b c | a c b | c a b"),
        (hk.either("a", "b"), "a | b"),
        (hk.either(hk.sequence("a", "b"), hk.sequence("a", "c")), "a b | a c"),
        (hk.either("a", hk.sequence("a", "b")), "a | a b"),
        (hk.repeat("a", 3), "a{3}"),
        (hk.repeat(hk.sequence("a", "b"), 2), "(a b){2}"),
    ],
)
def test_a_part_completes_the_traces_that_its_regular_expression_matches(machine, regex):
    assert difference(machine, hk.from_regex(regex, machine.events)) is None


@pytest.mark.parametrize(
    ("machine", "regex"),
    [
        (hk.within("a", 1, ["a", "b"]), "a"),
        (hk.within("a", 3, ["a", "b"]), "b{0,2} a"),
        (hk.within(hk.sequence("a", "b"), 3, ["a", "b", "c"]), "((b|c)* a (a|c)* b) & .{1,3}"),
        (hk.within(hk.any_order("a", "b"), 4), "(a+ b | b+ a) & .{1,4}"),
    ],
)
def test_what_is_late_never_completes_just_as_in_the_regular_expression(machine, regex):
    assert difference(machine, hk.from_regex(regex, machine.events)) is None
    assert machine.moves.get("too late") is None and "too late" in machine.states


@pytest.mark.parametrize(
    ("machine", "formula"),
    [
        (hk.sequence("a", "b"), hk.from_ltlf("F (a & X F b)")),
        (hk.any_order("a", "b", "c"), hk.from_ltlf("F a & F b & F c")),
        (hk.either("a", "b"), hk.from_ltlf("F a | F b")),
        (hk.repeat("a", 3), hk.from_declare(["existence(a, 3)"])),
    ],
)
def test_where_undefined_events_are_ignored_a_part_is_its_formula(machine, formula):
    rng = random.Random(0)
    for _ in range(300):
        trace = rng.choices(tuple(machine.events), k=rng.randint(0, 6))
        ends = [each.run(trace, undefined="stay").completed for each in (machine, formula)]
        assert ends[0] == ends[1]


# Laws.

plans = st.recursive(
    st.sampled_from("abcdef"),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: ("sequence", *parts)),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: ("either", *parts)),
        st.tuples(st.just("repeat"), inner, st.integers(1, 3)),
    ),
    max_leaves=6,
)


def made(plan):
    if isinstance(plan, str):
        return plan
    kind, *parts = plan
    if kind == "repeat":
        return hk.repeat(made(parts[0]), parts[1])
    return getattr(hk, kind)(*map(made, parts))


def regex_of(plan):
    if isinstance(plan, str):
        return plan
    kind, *parts = plan
    if kind == "repeat":
        return f"({regex_of(parts[0])}){{{parts[1]}}}"
    return "(" + (" " if kind == "sequence" else " | ").join(map(regex_of, parts)) + ")"


@settings(max_examples=150, deadline=None)
@given(plans)
def test_parts_of_parts_complete_what_their_regular_expressions_match_first(plan):
    """A part is done when it is completed first, so in a sequence no later match of an earlier part counts."""
    machine = made(plan) if not isinstance(plan, str) else hk.sequence(plan)
    formula = hk.from_regex(regex_of(plan), machine.events)
    trace = shortest(machine)
    assert machine.run(trace, undefined="blocking").completed
    assert formula.run(trace, undefined="stay").completed


def shortest(machine):
    finals = [machine.states.index(state) for state in machine.final]
    return min((machine.trace_to(state) for state in finals), key=len)


@settings(max_examples=60, deadline=None)
@given(plans, plans)
def test_calling_a_machine_is_putting_it_into_a_sequence(first, second):
    outer = hk.RewardMachine(initial="0", transitions={("0", "one"): "1", ("1", "two"): "2"}, final=["2"])
    one, two = (hk.sequence(made(plan)) for plan in (first, second))
    assert hk.distinguish(hk.unfold(outer, {"one": one, "two": two}), hk.sequence(one, two)) is None


def test_any_order_is_composition():
    parts = [hk.sequence("a", "b"), hk.repeat("c", 2)]
    assert hk.distinguish(hk.any_order(*parts), hk.compose(*parts)) is None


# Calls in files.


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "fetch.toml").write_text(FETCH)
    (tmp_path / "day.toml").write_text(DAY)
    return tmp_path


def test_a_file_calls_another_by_an_event_and_in_a_state(folder):
    machine = hk.load_machine(folder / "day.toml")
    assert [*machine.states] == ["start", "fetch › loaded", "done", "build", "fetch › empty", "build › nail"]
    trace = ("get ore", "drop", "get ore", "put", "saw", "nail")
    assert machine.run(trace, undefined="blocking").completed
    assert machine.run(("rest",), undefined="blocking").completed
    assert machine.run(("get ore", "rest"), undefined="blocking").state is None  # nothing else happens meanwhile


def test_an_unfolded_machine_is_an_ordinary_one(folder, tmp_path):
    machine = hk.load_machine(folder / "day.toml")
    hk.save_machine(machine, tmp_path / "copy.toml")
    assert hk.load_machine(tmp_path / "copy.toml") == machine


def test_a_machine_may_be_called_several_times_and_from_several_states():
    machine = machine_from(
        {
            "initial": "a",
            "final": ["c"],
            "calls": {"ring": {"repeat": {"part": "bell", "times": 2}}, "in": {"machine": {"regex": "knock enter"}}},
            "transitions": {"a": {"ring": {"to": "b", "times": 2}}, "b": {"ring": "c", "in": "c"}},
        }
    )
    assert machine.run(("bell",) * 6, undefined="blocking").completed
    assert machine.run(("bell",) * 4 + ("knock", "enter"), undefined="blocking").completed
    assert any(state.startswith("ring in b › ") for state in machine.states)


def test_a_task_may_be_made_of_calls_and_is_checked_trained_and_told_like_any_other(folder):
    task = """
name = "two rooms"
map = '''
1..a#b..2
....#....
'''
[legend]
a = "left"
b = "right"
[agents]
A = { start = "1", knows = ["press", "back", "end"] }
B = { start = "2", knows = ["press", "back", "end"] }
[events]
press = "A at left"
back = "B at right"
end = "A not at left"
[machine]
initial = "work"
final = ["done"]
[machine.calls]
work = { machine = "work.toml", to = "leave" }
[machine.transitions]
leave = { end = "done" }
"""
    (folder / "work.toml").write_text('any_order = ["press", "back"]\n')
    (folder / "task.toml").write_text(task)
    loaded = hk.load_task(folder / "task.toml")
    assert loaded.decomposition.ok
    run = hk.train(loaded, world=hk.survey(loaded).world, steps=0, seeds=1, threads=1)[0]
    assert run.tests("greedy").success.all()
    for agent, known in (("A", '["press", "end"]'), ("B", '["back"]')):
        task = re.sub(rf"({agent} = .*knows = )\[.*?\]", rf"\1{known}", task)
    (folder / "task.toml").write_text(task)
    told = hk.check_task(hk.load_task(folder / "task.toml")).decomposition
    assert not told.ok and "work" in told.explain()


ROUND = 'final = ["b"]\n[calls]\nx = { machine = "%s" }\n[transitions]\na = { x = "b" }\n'
CALLING = 'sequence = ["p"]\n[calls]\np = '
TWO = """
final = ["b"]
[calls]
x = { sequence = ["e", "f"] }
y = { sequence = ["e"] }
[transitions]
a = { x = "b", y = "b" }
"""
BAD = {  # a sentence of the error -> the text
    "a machine must not call itself, got a.toml > a.toml": ROUND % "a.toml",
    "a machine must not call itself, got a.toml > b.toml > a.toml": ROUND % "b.toml",
    "must be a file in the folder of this file": ROUND % "../a.toml",
    "missing.toml": ROUND % "missing.toml",
    "calls.p: a machine must not call itself, got p > q > p": CALLING + '{ sequence = ["q"] }\nq = { either = ["p"] }',
    "final: unknown key (with sequence, only calls may be given": 'sequence = ["p"]\nfinal = ["x"]',
    "needs at least one, got none": "sequence = []",
    "must have no event in common, got 'a' twice": 'any_order = ["a", "a"]',
    "times must be an integer from 1 to 1,000, got 0": 'repeat = { part = "a", times = 0 }',
    "repeat.times: is missing; repeat has 'part' and 'times'": 'repeat = { part = "a" }',
    "most_events must be an integer from 1": 'within = { part = "a", events = true }',
    "calls.p: must have a machine or one of sequence, any_order": CALLING + "{ }",
    "event 'gt' cannot be renamed": CALLING + '{ machine = "fetch.toml", rename = { gt = "x" } }',
    "two events must not get the same name": CALLING + '{ machine = "fetch.toml", rename = { get = "put" } }',
    "is complete before anything has happened": CALLING
    + '{ machine = { final = ["a"], initial = "a", transitions = {} } }',
    "in state 'a' two parts begin with 'e'": TWO,
    "rewards: a machine that calls others is rewarded for completion alone": f"rewards.a = {{ x = 2 }}\n{TWO}",
    "may have 10,000 states, and this one has more": CALLING
    + '{ repeat = { part = "q", times = 1000 } }\nq = { repeat = { part = "z", times = 1000 } }',
}


@pytest.mark.parametrize("said", BAD)
def test_calls_that_cannot_be_are_refused_in_a_sentence(folder, said):
    (folder / "a.toml").write_text(BAD[said])
    (folder / "b.toml").write_text(ROUND % "a.toml")
    with pytest.raises(hk.HocketError, match=re.escape(said)):
        hk.load_machine(folder / "a.toml")


def test_a_text_without_a_folder_calls_no_files():
    with pytest.raises(hk.HocketError, match=r"calls.x.machine: only a file in a folder can call another one"):
        machine_from({"sequence": ["x"], "calls": {"x": {"machine": "fetch.toml"}}})


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: hk.sequence(), "needs at least one, got none"),
        (lambda: hk.sequence(3), "a part must be an event or a machine, got 3"),
        (lambda: hk.sequence(" "), "must not be empty"),
        (lambda: hk.repeat("a", True), "times must be an integer"),
        (lambda: hk.either(hk.RewardMachine(initial="a", transitions={})), "got a machine that is complete never"),
        (
            lambda: hk.sequence(
                hk.RewardMachine(initial="a", transitions={("a", "x"): "b"}, final=["b"], rewards={("a", "x"): 3})
            ),
            "must be rewarded for completion alone",
        ),
    ],
)
def test_parts_that_cannot_be_are_refused_in_a_sentence(call, said):
    with pytest.raises(hk.HocketError, match=said):
        call()


def test_renaming_all_events_and_back_changes_nothing():
    machine = hk.load_task("buttons").machine
    there = {event: f"new {event}" for event in machine.events}
    back = {new: event for event, new in there.items()}
    assert rename_events(rename_events(machine, there), back) == machine


# Boxes.


def test_drawings_have_a_box_for_each_machine_that_is_called(folder, tmp_path):
    machine = hk.load_machine(folder / "day.toml")
    assert dict(boxes_of(machine)) == {
        "fetch": ("fetch › loaded", "fetch › empty"),
        "build": ("build", "build › nail"),
    }
    hk.draw_machines({"team": machine}, tmp_path / "day.svg")
    svg = (tmp_path / "day.svg").read_text()
    assert "<title>fetch</title>" in svg and ">loaded<" in svg and ">fetch<" in svg


def test_boxes_may_be_nested():
    inner = hk.sequence("a", deep=hk.sequence("b", "c"))
    machine = hk.sequence("x", part=inner)
    assert dict(boxes_of(machine)) == {
        "part": ("part", "part › deep", "part › deep › c"),
        "part › deep": ("part › deep", "part › deep › c"),
    }


def test_a_closed_box_is_one_state(folder):
    closed = close_boxes(hk.load_machine(folder / "day.toml"))
    assert [*closed.states] == ["start", "fetch", "done", "build"]
    assert closed.transitions == {
        ("start", "get ore"): "fetch",
        ("start", "rest"): "done",
        ("fetch", "put"): "build",
        ("build", "nail"): "done",
    }
    assert closed.members["fetch"] == ("fetch › loaded", "fetch › empty")
    assert close_boxes(closed) is None and boxes_of(closed) == {}
    assert close_boxes(hk.load_task("buttons").machine) is None


def test_a_box_that_could_be_left_in_two_ways_stays_open():
    moves = {("a", "x"): "p › 1", ("p › 1", "y"): "p › 2", ("p › 1", "z"): "b", ("p › 2", "z"): "q › 1"}
    moves |= {("q › 1", "y"): "q › 2", ("q › 2", "z"): "c", ("b", "y"): "c"}
    closed = close_boxes(hk.RewardMachine(initial="a", transitions=moves, final=["c"]))
    assert [*closed.states] == ["a", "p › 1", "p › 2", "b", "q", "c"]
    assert [*boxes_of(closed)] == ["p"]


@pytest.mark.parametrize(
    "moves",
    [
        {("a", "x"): "p › 1", ("p › 1", "y"): "p › 2", ("p › 1", "z"): "a"},  # can be left, and p › 2 is final
        {("a", "x"): "p › 1", ("p › 1", "y"): "p › 2", ("p › 1", "z"): "b", ("p › 2", "z"): "c"},
    ],
)
def test_where_no_box_can_be_closed_there_is_no_closed_machine(moves):
    final = {*moves.values()} - {state for state, _ in moves}
    assert close_boxes(hk.RewardMachine(initial="a", transitions=moves, final=final)) is None


def test_a_closed_projection_stands_for_states_of_the_team():
    machine = hk.sequence("wake", fetch=hk.sequence("get", "carry", "put"))
    local = hk.project(machine, ["wake", "get", "put"])
    assert len(local.states) < len(machine.states)
    assert close_boxes(local).members == close_boxes(machine).members


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_what_happens_outside_of_closed_boxes_happens_in_the_closed_machine(seed):
    chance = random.Random(seed)
    calls = {name: hk.sequence(*(f"{name}{step}" for step in range(chance.randint(1, 3)))) for name in "pqr"}
    machine = hk.unfold(hk.sequence(*chance.choices("pqrxyz", k=chance.randint(1, 5))), calls)
    closed = close_boxes(machine) or machine
    box = {member: state for state, members in closed.members.items() for member in members}
    assert {*box} == {*machine.states} and box[machine.initial] == closed.initial
    for (state, event), target in machine.transitions.items():
        assert box[state] == box[target] or closed.transitions[box[state], event] == box[target]
    assert {box[state] for state in machine.final} == {*closed.final}


def test_drawings_are_made_with_closed_boxes(folder, tmp_path):
    machine = hk.load_machine(folder / "day.toml")
    hk.draw_machines({"team": machine}, tmp_path / "day.svg", closed=True)
    svg = (tmp_path / "day.svg").read_text()
    assert ">fetch<" in svg and ">loaded<" not in svg
    assert "<title>fetch = {fetch › loaded, fetch › empty}</title>" in svg


def test_a_projection_keeps_states_in_a_box_where_all_that_they_stand_for_are(folder):
    machine = hk.load_machine(folder / "day.toml")
    local = hk.project(machine, ["get ore", "put", "saw", "nail", "rest"])
    for box, states in boxes_of(local).items():
        for state in states:
            assert all(member.startswith(box) for member in local.members[state])


def test_a_file_that_several_files_refer_to_is_read_once(folder, monkeypatch):
    read = []

    def counted(path, limit):
        read.append(path.name)
        assert len(read) <= 13, "again"
        return path.read_text()

    monkeypatch.setattr("hocket.machine.formats.read_text", counted)
    for level in range(12):
        calls = "\n".join(f'x{call} = {{ machine = "f{level + 1}.toml" }}' for call in range(9))
        (folder / f"f{level}.toml").write_text(f'final = ["b"]\n[calls]\n{calls}\n[transitions]\na = {{ x0 = "b" }}\n')
    (folder / "f12.toml").write_text('sequence = ["e"]\n')
    assert hk.load_machine(folder / "f0.toml").run(["e"], undefined="blocking").completed


@pytest.mark.parametrize("call", ['"{}"', '{{ sequence = ["y"], calls.y.machine = "{}" }}'])
def test_a_link_is_followed_to_a_called_machine_only_within_the_folder(folder, tmp_path_factory, call):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "x.toml"
    elsewhere.write_text('sequence = ["e"]\n')
    (folder / "near.toml").symlink_to(folder / "fetch.toml")
    (folder / "far.toml").symlink_to(elsewhere)
    refused = pytest.raises(hk.HocketError, match="must be a file in the folder of this file")
    for name, outcome in (("near.toml", nullcontext()), ("far.toml", refused)):
        (folder / "a.toml").write_text(f'sequence = ["x"]\n[calls]\nx.machine = {call.format(name)}\n')
        with outcome:
            hk.load_machine(folder / "a.toml")
