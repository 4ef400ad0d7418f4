"""Automata in the HOA format: what tools for LTLf write becomes the machine that it means, or is refused in words."""

import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import hocket as hk
from hocket.cli import main as cli
from hocket.machine.formats import hoa
from strategies import task_machines, thorough, traces_up_to


def read(content: str) -> hk.RewardMachine:
    """Read a machine from the text of a file."""
    return hoa.read(content)


def refusal(content: str) -> str:
    """Read what cannot be read; return what is said about it."""
    with pytest.raises(hk.HocketError) as caught:
        read(content)
    return str(caught.value)


# As tools write them. The formulas are over the events ring, meet and so on; the machines are worked out by hand.

AFTER_RINGING = hk.RewardMachine(
    initial="0", transitions={("0", "ring"): "1", ("1", "meet"): "2"}, final={"2"}, events=["ring", "meet"]
)

BY_STATES = """\
HOA: v1
name: "F(ring & XFmeet)"
States: 3
Start: 0
AP: 2 "ring" "meet"
acc-name: Buchi
Acceptance: 1 Inf(0)
properties: trans-labels explicit-labels state-acc complete
properties: deterministic terminal
--BODY--
State: 0
[!0] 0
[0] 1
State: 1
[!1] 1
[1] 2
State: 2 {0}
[t] 2
--END--
"""

BY_EDGES = """\
HOA: v1
name: "F(ring & X[!]Fmeet)"
States: 3
Start: 0
AP: 2 "ring" "meet"
acc-name: Buchi
Acceptance: 1 Inf(0)
properties: trans-labels explicit-labels trans-acc complete
properties: deterministic
--BODY--
State: 0
[!0] 0
[0] 1
State: 1
[!1] 1
[1] 2 {0}
State: 2
[t] 2 {0}
--END--
"""

ON_ONE_LINE = BY_STATES.replace("\n", " ")

WITH_COMMENTS = BY_STATES.replace("State: 1", "/* rung /* and nested */ by now */ State: 1").replace(
    "[0] 1", "[/**/0]1"
)

WITH_ALIASES = """\
HOA: v1
States: 3
Start: 0
AP: 2 "ring" "meet"
Alias: @r 0
Alias: @not-m !1
Alias: @m !@not-m
acc-name: Buchi
Acceptance: 1 Inf(0)
--BODY--
State: 0 [!@r] 0 [@r] 1
State: 1 [@not-m] 1 [@m] 2
State: 2 {0} [@m | @not-m] 2
--END--
"""

WITHOUT_LABELS = """\
HOA: v1
States: 3
Start: 0
AP: 2 "ring" "meet"
acc-name: Buchi
Acceptance: 1 Inf(0)
properties: implicit-labels state-acc complete deterministic
--BODY--
State: 0
0 1 0 1
State: 1
1 1 2 2
State: 2 {0}
2 2 2 2
--END--
"""

IN_VERSION_1_1 = (
    BY_STATES.replace("HOA: v1", "HOA: v1.1")
    .replace(" terminal", " !inherently-weak")
    .replace("--BODY--", "spot.highlight.states: 0 5\n--BODY--")
)

WITH_LABELS_ON_STATES = BY_STATES.replace("State: 2 {0}\n[t] 2", "State: [t] 2 {0}\n2")

STATES_IN_ANOTHER_ORDER = """\
HOA: v1
Acceptance: 2 Inf(1)
AP: 2 "ring" "meet"
Start: 0
--BODY--
State: 2 {1} [t] 2
State: 0 {0} [!0] 0 [0] 1
State: 1 [!1] 1 [1] 2 {0}
--END--
"""

WITH_ALIVE = """\
HOA: v1
States: 4
Start: 0
AP: 3 "alive" "ring" "meet"
acc-name: Buchi
Acceptance: 1 Inf(0)
properties: trans-labels explicit-labels state-acc deterministic
--BODY--
State: 0
[0&!1] 0
[0&1] 1
State: 1
[0&!2] 1
[0&2] 2
State: 2
[0] 2
[!0] 3
State: 3 {0}
[!0] 3
--END--
"""

WITH_ALIVE_COMPLETED = (
    WITH_ALIVE.replace("States: 4", "States: 5")
    .replace("State: 1\n", "[!0] 4\nState: 1\n[!0] 4\n")
    .replace("--END--", "[0] 4\nState: 4\n[t] 4\n--END--")
)

WITH_ALIVE_BY_EDGES = WITH_ALIVE.replace("State: 3 {0}\n[!0] 3", "State: 3\n[!0] 3 {0}")


@pytest.mark.parametrize(
    "content",
    [
        *(BY_STATES, BY_EDGES, ON_ONE_LINE, WITH_COMMENTS, WITH_ALIASES, WITHOUT_LABELS, IN_VERSION_1_1),
        *(WITH_LABELS_ON_STATES, STATES_IN_ANOTHER_ORDER, WITH_ALIVE, WITH_ALIVE_COMPLETED, WITH_ALIVE_BY_EDGES),
    ],
    ids=[
        *("by states", "by edges", "on one line", "comments", "aliases", "implicit labels", "version 1.1"),
        *("labels on states", "another order", "alive", "alive, complete", "alive, by edges"),
    ],
)
def test_one_task_written_in_many_ways_is_one_machine(content):
    assert read(content) == AFTER_RINGING


KEY_BEFORE_DOOR = """\
HOA: v1
name: "(!door U key) & Fdoor"
States: 3
Start: 0
AP: 2 "door" "key"
acc-name: Buchi
Acceptance: 1 Inf(0)
properties: trans-labels explicit-labels trans-acc deterministic
--BODY--
State: 0 "(!door U key) & Fdoor"
[!0&!1] 0
[!0&1] 1
[0&1] 2 {0}
State: 1 "Fdoor"
[!0] 1
[0] 2 {0}
State: 2 "1"
[t] 2 {0}
--END--
"""


def test_what_breaks_the_formula_leads_to_a_dead_end_with_a_name():
    start, then, done = "(!door U key) & Fdoor", "Fdoor", "1"
    assert read(KEY_BEFORE_DOOR) == hk.RewardMachine(
        initial=start,
        transitions={(start, "key"): then, (then, "door"): done, (start, "door"): "violated"},
        final={done},
        events=["door", "key"],
        states=[start, then, done, "violated"],
    )


def test_a_dead_end_of_the_automatons_own_keeps_its_name():
    complete = KEY_BEFORE_DOOR.replace("[0&1] 2 {0}", "[0&1] 2 {0}\n[0&!1] 3").replace(
        "--END--", 'State: 3 "lost"\n[t] 3\n--END--'
    )
    machine = read(complete.replace("States: 3", "States: 4"))
    assert list(machine.states) == ["(!door U key) & Fdoor", "Fdoor", "1", "lost"]
    assert machine.transitions["(!door U key) & Fdoor", "door"] == "lost"


def test_the_dead_end_gets_another_name_where_the_automaton_has_it():
    assert list(read(KEY_BEFORE_DOOR.replace('"Fdoor"', '"violated"')).states)[1::2] == ["violated", "violated′"]


def test_states_with_one_name_are_told_apart():
    same = BY_STATES.replace("State: 0", 'State: 0 "q"').replace("State: 1", 'State: 1 "q"')
    assert list(read(same).states) == ["q", "q′", "2"]


def test_states_that_only_two_events_at_once_lead_to_are_left_out():
    content = """\
    HOA: v1 States: 4 Start: 2 AP: 3 "b" "a" "c" Acceptance: 1 Inf(0)
    --BODY--
    State: 0 [!2] 0 [2] 1
    State: 1 {0} [t] 1
    State: 2 [0&!2] 0 [0&2] 1 [!0&1&!2] 2 [!0&1&2] 3
    State: 3 [0] 1 [!0&1] 3
    --END--
    """
    assert read(content) == hk.RewardMachine(
        initial="2",
        transitions={("2", "b"): "0", ("0", "c"): "1", ("2", "c"): "violated"},
        final={"1"},
        events=["b", "a", "c"],
        states=["0", "1", "2", "violated"],
    )


@pytest.mark.parametrize("last", ["", "[f] 1"])
def test_a_state_that_accepts_and_allows_nothing_more_is_final(last):
    by_states = f'HOA: v1 Start: 0 AP: 1 "a" Acceptance: 1 Inf(0) --BODY-- State: 0 [0] 1 [!0] 0 State: 1 {{0}} {last}'
    by_edges = f'HOA: v1 Start: 0 AP: 1 "a" Acceptance: 1 Inf(0) --BODY-- State: 0 [0] 1 {{0}} [!0] 0 State: 1 {last}'
    expected = hk.RewardMachine(initial="0", transitions={("0", "a"): "1"}, final={"1"})
    assert read(f"{by_states} --END--") == read(f"{by_edges} --END--") == expected


def test_an_edge_that_is_marked_is_done_after_the_event_and_not_before():
    content = 'HOA: v1 Start: 0 AP: 1 "a" Acceptance: 1 Inf(0) --BODY-- State: 0 [0] 1 {0} State: 1 [t] 1 {0} --END--'
    assert read(content) == hk.RewardMachine(initial="0", transitions={("0", "a"): "1"}, final={"1"})


def test_an_automaton_that_accepts_everything_is_done_before_it_begins():
    machine = read('HOA: v1 Start: 0 AP: 1 "a" Acceptance: 0 t --BODY-- State: 0 [t] 0 --END--')
    assert machine == hk.RewardMachine(initial="0", transitions={}, final={"0"}, events=["a"])


def test_an_automaton_that_accepts_nothing_has_no_final_state():
    machine = read('HOA: v1 Start: 0 AP: 1 "a" Acceptance: 0 f --BODY-- State: 0 [0] 1 [!0] 0 State: 1 [t] 1 --END--')
    assert machine == hk.RewardMachine(initial="0", transitions={("0", "a"): "1"})


def test_steps_may_be_counted_where_something_happens_at_each():
    content = """\
    HOA: v1 name: "X[!]X[!]a & G(a | b)" States: 4 Start: 0 AP: 2 "a" "b" Acceptance: 1 Inf(0)
    --BODY--
    State: 0 [0 | 1] 1
    State: 1 [0 | 1] 2
    State: 2 [0] 3 {0}
    State: 3 [0 | 1] 3 {0}
    --END--
    """
    machine = read(content)
    assert machine == hk.RewardMachine(
        initial="0",
        transitions={
            **{("0", event): "1" for event in "ab"},
            **{("1", event): "2" for event in "ab"},
            ("2", "a"): "3",
            ("2", "b"): "violated",
        },
        final={"3"},
        states=["0", "1", "2", "3", "violated"],
    )


def test_a_formula_becomes_a_decomposable_task():
    both = """\
    HOA: v1 name: "(!cook U chop) & (!cook U boil) & Fcook" States: 5 Start: 0 AP: 3 "chop" "boil" "cook"
    Acceptance: 1 Inf(0)
    --BODY--
    State: 0 [!0&!1&!2] 0 [0&!1&!2] 1 [!0&1&!2] 2 [0&1&!2] 3
    State: 1 [!1&!2] 1 [1&!2] 3
    State: 2 [!0&!2] 2 [0&!2] 3
    State: 3 [!2] 3 [2] 4
    State: 4 {0} [t] 4
    --END--
    """
    control = {"chop": {"Ann"}, "boil": {"Bo"}, "cook": {"Bo"}}
    assert not hk.decompose(read(both), {"Ann": {"chop"}, "Bo": {"boil", "cook"}}, control).ok
    assert hk.cheapest_assignment(read(both), ["Ann", "Bo"], control) == {
        "Ann": {"chop"},
        "Bo": {"boil", "cook", "chop"},
    }


# What is refused.

HEAD = 'HOA: v1 Start: 0 AP: 2 "a" "b" Acceptance: 1 Inf(0)\n--BODY--\n'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "line 1: must begin with 'HOA: v1', got the end of the file"),
        ("HOA: v2", "line 1: must be in version v1 or v1.1 of the HOA format, got 'v2'"),
        ("digraph {", "line 1: must begin with 'HOA: v1', got 'digraph'"),
        ("\nHOA: v1 %", "line 2: expected a token of the HOA format, got '%'"),
        ("HOA: v1\n/* x /* y */", "line 2: this comment is not closed"),
        ("HOA: v1\nStates: 1\n--ABORT--", "line 3: the program that wrote this file aborted it"),
        ("HOA: v1\n--BODY--", "line 2: 'Acceptance:' is missing, like: Acceptance: 1 Inf(0)"),
        ("HOA: v1 Acceptance: 0 t\nAcceptance: 0 t", "line 2: 'Acceptance:' must be given once"),
        ("HOA: v1 States: 1\nStates: 1", "line 2: 'States:' must be given once"),
        ("HOA: v1 AP: 0\nAP: 0", "line 2: 'AP:' must be given once, and before 'Alias:'"),
        ("HOA: v1 Alias: @a t\nAP: 0", "line 2: 'AP:' must be given once, and before 'Alias:'"),
        ("HOA: v1 Alias: @a t\nAlias: @a f", "line 2: an alias must be given once, got '@a'"),
        ("HOA: v1 Alias: a t", "line 1: expected the name of an alias, like @a, got 'a'"),
        ("HOA: v1 Start: 0\nStart: 1", "line 2: must have one initial state, got two: it is not deterministic"),
        ("HOA: v1 Start: 0&1", "line 1: universal branching cannot be read: an edge leads to one state"),
        ("HOA: v1 Start: x", "line 1: expected the initial state, an integer below 2,147,483,648, got 'x'"),
        (
            "HOA: v1\nAlphabet: 3",
            "line 2: an item in capitals changes what the automaton means, and this one is unknown, got 'Alphabet:'",
        ),
        ('HOA: v1 AP: 2 "a"\n"a"', "line 1: propositions must have different names"),
        ('HOA: v1 AP: 2 "a"', "line 1: expected the names of 2 propositions in quotes, got the end of the file"),
        ("HOA: v1 AP: 1001", "line 1: must have at most 1,000 propositions, got 1,001"),
        ("HOA: v1 AP: 99999999999", "line 1: expected the number of propositions, an integer below"),
        ("HOA: v1 AP: 2147483647", "line 1: must have at most 1,000 propositions, got 2,147,483,647"),
        ("HOA: v1 States: 2147483648", "line 1: expected the number of states, an integer below 2,147,483,648, got"),
        (HEAD + "State: 0 {3000000000}", "line 3: expected an acceptance set, an integer below 2,147,483,648, got"),
        *(
            (
                f"HOA: v1\nAcceptance: {given}\n--BODY--",
                "line 2: the acceptance condition must be Büchi, t or f, like: ",
            )
            for given in ("1 Fin(0)", "2 Inf(0)&Inf(1)", "2 Inf(0) | Fin(1)", "1 Inf(1)", "1 Inf(!0)", "1")
        ),
        (HEAD, "line 3: expected '--END--', got the end of the file"),
        (HEAD + "State: 0 [t] 0 --END-- HOA: v1", "line 3: a machine file has one automaton, so nothing may follow"),
        (HEAD.replace("Start: 0", "") + "State: 0 --END--", "has no 'Start:', so it accepts nothing"),
        (HEAD + "--END--", "state 0 does not exist"),
        (HEAD + "State: 0\n[t] 1\n--END--", "line 4: state 1 does not exist"),
        (HEAD + "State: 0 State: 2 --END--", "states must be numbered from 0 to 1, got 2"),
        (HEAD.replace("AP", "States: 2 AP") + "State: 0 --END--", "as many states as 'States:' says, 2, got 1"),
        (HEAD + "State: 0\nState: 0 --END--", "line 4: state 0 must be given once"),
        (HEAD + "State: 0 [0] 0&0", "line 3: universal branching cannot be read: an edge leads to one state"),
        (HEAD + "State: 0 [2] 0", "line 3: proposition 2 does not exist"),
        (HEAD + "State: 0 [@c] 0", "line 3: expected a label: t, f, the number of a proposition or an alias given"),
        (HEAD + "State: 0 [0", "line 3: expected ']', got the end of the file"),
        (HEAD + "State: 0 [(0] 0", "line 3: expected ')', got ']'"),
        (HEAD + "State: 0 {x}", "line 3: expected an acceptance set, an integer below 2,147,483,648, got 'x'"),
        (HEAD + "State: 0 [t] 0\n0 --END--", "line 4: a state must have a label, or all of its edges, or none"),
        (HEAD + "State: [t] 0 [t] 0 --END--", "line 3: a state must have a label, or all of its edges, or none"),
        (HEAD + "State: 0 0 0\n[t] 0 --END--", "line 4: a state must have a label, or all of its edges, or none"),
        (HEAD + "State: 0 0 0 0 --END--", "line 3: edges without labels must be as many as there are sets of"),
        (
            HEAD + 'State: 0 "q" [0] 0\n[!1] 1\nState: 1 --END--',
            "line 4: must be deterministic, got two edges from state 'q' for the same letter: 'a'",
        ),
        (
            HEAD + "State: 0 [!0] 0\n[!1] 1\nState: 1 --END--",
            "line 4: must be deterministic, got two edges from state '0' for the same letter: no event",
        ),
        (
            HEAD + "State: 0 {0} [t] 0 [t] 0 {0} --END--",
            "acceptance must be on states or on edges, got both",
        ),
        (
            HEAD + "State: 0 [!0] 0 [0] 1\nState: 1 {0} [!1] 1 --END--",
            "line 4: state '1' is accepting but can be left; a completed task must stay completed",
        ),
        (
            HEAD + "State: 0 [!0] 0 [0] 1\nState: 1 {0} [!1] 1 [1] 0 --END--",
            "line 4: state '1' is accepting but can be left; a completed task must stay completed",
        ),
        (
            HEAD + "State: 0 [!0] 0 [0] 0 {0} --END--",
            "line 3: state '0' is accepting but can be left; a completed task must stay completed",
        ),
        (
            HEAD + "State: 0 [t] 1 State: 1 [!0] 1 [0] 2 State: 2 {0} [t] 2 --END--",
            "line 3: state '0' has an edge to '1' without an event; reward machines change state on events only",
        ),
        (
            HEAD + "State: 0 [!0|!1] 0 [0&1] 1 State: 1 {0} [t] 1 --END--",
            "no events, one at a time, complete it",
        ),
        (
            'HOA: v1 Start: 0 AP: 1 "alive" Acceptance: 1 Inf(0)\n--BODY--\n'
            "State: 0 [!0] 0 [0] 1 State: 1 {0} [t] 1 --END--",
            "line 3: state '0' can be reached after 'alive' was false; rename the event if it is not Spot's mark",
        ),
    ],
)
def test_what_is_no_task_is_refused_in_words(content, said):
    assert said in refusal(content)


def test_more_transitions_than_a_machine_should_have_are_refused():
    events = " ".join(f'"{i}"' for i in range(1_000))
    states = "\n".join(f"State: {i} [t] {i + 1}" for i in range(2_001))
    content = f"HOA: v1 Start: 0 AP: 1000 {events} Acceptance: 0 f --BODY--\n{states}\nState: 2001 --END--"
    assert refusal(content) == "must have at most 2,000,000 transitions"


def test_a_file_is_told_by_its_suffix_and_named_where_it_is_refused(tmp_path):
    path = tmp_path / "m.hoa"
    path.write_text(BY_STATES)
    assert hk.load_machine(path) == AFTER_RINGING
    path.write_text(BY_STATES.replace("v1", "v9"))
    with pytest.raises(hk.errors.FormatError, match=r"m\.hoa: line 1: must be in version"):
        hk.load_machine(path)


def test_a_command_checks_whether_a_formula_is_decomposable(tmp_path, capsys):
    path = tmp_path / "m.hoa"
    path.write_text(BY_STATES)
    assert cli.run(["check", str(path), "--knows", "A1=ring", "A2=ring,meet"]) == 0
    assert cli.run(["check", str(path), "--knows", "A1=ring", "A2=meet"]) == 1
    assert "The projection of A2 merges 0 and 1, where meet is defined" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (
            hk.RewardMachine(initial="u", transitions={("u", "a"): "v"}, rewards={("u", "a"): 2}),
            "HOA has no place for rewards other than for completing the task; write .toml or .json",
        ),
        (
            hk.RewardMachine(initial="u", transitions={("u", "a"): "u", ("u", "b"): "v"}, final={"v"}),
            "in HOA an event that leaves a state as it is has no transition, got one from 'u' on 'a'",
        ),
        (
            hk.RewardMachine(initial="u", transitions={("u", "alive"): "v"}, final={"v"}),
            "in HOA the proposition 'alive' says that a trace goes on, so it cannot be an event",
        ),
        (
            hk.RewardMachine(initial="u", transitions={}, events=[str(i) for i in range(1_001)]),
            "HOA is written with at most 1,000 events, got 1,001",
        ),
    ],
)
def test_a_machine_for_which_the_format_has_no_room_is_refused(tmp_path: Path, machine, said):
    with pytest.raises(hk.errors.FormatError) as caught:
        hk.save_machine(machine, tmp_path / "m.hoa")
    assert str(caught.value) == f"{tmp_path / 'm.hoa'}: {said}"


# An oracle: labels as sets of sets, and runs over them, one letter at a time.

Letter = frozenset[str]


class Label(NamedTuple):
    """A label as text, and the letters that it means."""

    text: str
    letters: frozenset[Letter]


class Drawn(NamedTuple):
    """An automaton as text, and what it does."""

    text: str
    events: tuple[str, ...]
    moves: dict[tuple[int, Letter], int]
    accepting: frozenset[int]
    by_edges: str  # the same with the marks on the edges that lead to accepting states


def all_letters(events: tuple[str, ...]) -> frozenset[Letter]:
    return frozenset(frozenset(chosen) for size in range(len(events) + 1) for chosen in combinations(events, size))


def random_label(rng: Random, events: tuple[str, ...], depth: int = 3) -> Label:
    """Draw a formula, and work out by sets what it means."""
    everything = all_letters(events)
    match rng.choice(("atom", "atom", "not", "and", "or", "constant")) if depth else "atom":
        case "atom":
            number = rng.randrange(len(events))
            return Label(str(number), frozenset(letter for letter in everything if events[number] in letter))
        case "constant":
            return rng.choice((Label("t", everything), Label("f", frozenset())))
        case "not":
            inner = random_label(rng, events, depth - 1)
            return Label(f"!({inner.text})", everything - inner.letters)
        case "and":
            left, right = (random_label(rng, events, depth - 1) for _ in range(2))
            return Label(f"({left.text}) & ({right.text})", left.letters & right.letters)
        case _:
            left, right = (random_label(rng, events, depth - 1) for _ in range(2))
            return Label(f"{left.text}|{right.text}", left.letters | right.letters)


def random_edges(rng: Random, events: tuple[str, ...], state: int, size: int) -> Iterator[tuple[Label, int]]:
    """Share all letters out among a few edges, so that no letter has two; some may get none."""
    nothing = Label("&".join(f"!{j}" for j in range(len(events))), frozenset({frozenset()}))
    rest, said = all_letters(events), []
    if rng.random() < 0.9:
        yield nothing, state
        rest, said = rest - nothing.letters, [f"!({nothing.text})"]
    for _ in range(rng.randint(1, 3)):
        label = random_label(rng, events)
        target = rng.choice((min(state + 1, size - 1), rng.randrange(size)))
        yield Label("&".join([*said, f"({label.text})"]), label.letters & rest), target
        rest, said = rest - label.letters, [*said, f"!({label.text})"]
    if rng.random() < 0.7:
        yield Label("&".join(said), rest), rng.choice((state, rng.randrange(size)))


@st.composite
def automata(draw: st.DrawFn) -> Drawn:
    """Draw a deterministic automaton whose last state accepts and, mostly, stays; others seldom accept."""
    rng = Random(draw(st.integers(0, 2**32 - 1)))
    events = ("a", "b", "c")[: rng.randint(1, 3)]
    last = draw(st.integers(1, 4))
    edges = {state: list(random_edges(rng, events, state, last + 1)) for state in range(last + 1)}
    if rng.random() < 0.8:
        edges[last] = [(Label("t", all_letters(events)), last)]
    accepting = {last} | {state for state in edges if rng.random() < 0.05}
    found, waiting = [0], [0]  # the others would be no part of it
    for state in waiting:
        waiting += (new := {target for label, target in edges[state] if label.letters} - {*found})
        found += new
    number = {state: position for position, state in enumerate(found)}
    header = f"HOA: v1 States: {len(found)} Start: 0 Acceptance: 1 Inf(0) AP: {len(events)} "
    text = by_edges = header + " ".join(f'"{event}"' for event in events) + "\n--BODY--\n"
    moves: dict[tuple[int, Letter], int] = {}
    for state in found:
        text += f"State: {number[state]} {'{0}' if state in accepting else ''}\n"
        by_edges += f"State: {number[state]}\n"
        for label, target in edges[state]:
            if target in number:
                text += f"[{label.text}] {number[target]}\n"
                by_edges += f"[{label.text}] {number[target]} {'{0}' if target in accepting else ''}\n"
            moves |= {(number[state], letter): number[target] for letter in label.letters}
    own = frozenset(number[state] for state in accepting if state in number)
    return Drawn(f"{text}--END--\n", events, moves, own, f"{by_edges}--END--\n")


def reached(drawn: Drawn, start: int, *, silently: bool = False, stop: frozenset[int] = frozenset()) -> set[int]:
    """List the states that single events, and perhaps silence, lead to."""
    letters = [frozenset({event}) for event in drawn.events] + [frozenset()] * silently
    found, waiting = {start}, [start]
    while waiting:
        state = waiting.pop()
        following = {drawn.moves[state, letter] for letter in letters if (state, letter) in drawn.moves}
        new = (following - found) if state not in stop else set()
        found |= new
        waiting += new
    return found


def is_lasting(drawn: Drawn, state: int) -> bool:
    """Ask whether everything that may come is accepted, or nothing may come."""
    for later in reached(drawn, state, silently=True):
        defined = [(later, frozenset({event})) in drawn.moves for event in drawn.events]
        if later not in drawn.accepting or any(defined) != all(defined):
            return False
    return True


def should_be_read(drawn: Drawn) -> bool:
    """Ask whether a task that knows only single events, and no time, can be made of it."""
    lasting = frozenset(state for state in drawn.accepting if is_lasting(drawn, state))
    found = reached(drawn, 0, stop=lasting)
    if (found & drawn.accepting) - lasting or (lasting and not lasting & found):
        return False
    hopeful = {state for state in range(5) if reached(drawn, state) & lasting}
    silent = {state: drawn.moves.get((state, frozenset()), state) for state in (found & hopeful) - lasting}
    return all(target == state or target not in hopeful for state, target in silent.items())


def is_done(drawn: Drawn, trace: tuple[str, ...]) -> bool:
    """Ask whether the automaton accepts the trace or a beginning of it."""
    state: int | None = 0
    for event in trace:
        if state in drawn.accepting:
            return True
        state = None if state is None else drawn.moves.get((state, frozenset({event})))
    return state in drawn.accepting


@thorough
@given(automata())
def test_a_machine_is_done_when_the_automaton_accepts_and_what_cannot_be_a_machine_is_refused(drawn):
    try:
        machine = read(drawn.text)
    except hk.errors.FormatError:
        assert not should_be_read(drawn)
        return
    assert should_be_read(drawn)
    for trace in traces_up_to(drawn.events, 5):
        assert machine.run(trace, undefined="stay").completed == is_done(drawn, trace), trace


@thorough
@given(automata())
def test_marks_on_the_edges_to_accepting_states_mean_the_same(drawn):
    try:
        machine = read(drawn.text)
    except hk.errors.FormatError:
        return
    final = [int(name) for name in machine.final]
    entered = {target for (_, letter), target in drawn.moves.items() if len(letter) == 1}
    assume(machine.initial not in machine.final and entered.issuperset(final))
    assert read(drawn.by_edges) == machine


def with_alive(drawn: Drawn) -> str:
    """Encode the end of a trace as Spot does: `alive` is true until then, and false ever after."""
    alive = len(drawn.events)
    size = 1 + max(int(number) for number in re.findall(r"State: (\d+)", drawn.text))
    text = drawn.text.replace(f"States: {size}", f"States: {size + 1}")
    text = text.replace(f"AP: {alive}", f"AP: {alive + 1}").replace("\n--BODY", ' "alive"\n--BODY')
    text = re.sub(r"^\[(.*)\]", rf"[(\1)&{alive}]", text, flags=re.MULTILINE)
    text = re.sub(r"\{0\}", f"[!{alive}] {size}", text)
    return text.replace("--END--", f"State: {size} {{0}} [!{alive}] {size}\n--END--")


@thorough
@given(automata())
def test_alive_until_the_end_means_the_same_as_marks_on_states(drawn):
    assume(drawn.accepting)
    try:
        machine = read(drawn.text)
    except hk.errors.FormatError:
        refusal(with_alive(drawn))
    else:
        assert read(with_alive(drawn)) == machine


@thorough
@given(task_machines())
def test_a_machine_that_is_written_is_deterministic_and_complete_for_all_sets_of_events(machine):
    moving = hk.RewardMachine(
        initial=machine.initial,
        transitions={key: target for key, target in machine.transitions.items() if key[0] != target},
        final=machine.final,
        events=machine.events,
        states=machine.states,
    )
    text = hoa.write(moving)
    assert read(text) == moving
    aliases = {}
    for line in text.splitlines():
        if line.startswith("Alias:"):
            _, name, label = line.split()
            aliases[name] = label
    index = {event: number for number, event in enumerate(moving.events)}
    for section in text.split("State: ")[1:]:
        labels = [line[1 : line.index("]")] for line in section.splitlines() if line.startswith("[")]
        for letter in all_letters(tuple(moving.events)):
            true = {str(index[event]) for event in letter}
            assert sum(holds(label, true, aliases) for label in labels) == 1


def holds(label: str, true: set[str], aliases: dict[str, str]) -> bool:
    """Work out a label of the few shapes that are written: alternatives of aliases, their negation, and t."""
    if label.startswith("!("):
        return not holds(label[2:-1], true, aliases)
    return label == "t" or any(
        all((literal.strip("!") in true) != literal.startswith("!") for literal in aliases[name].split("&"))
        for name in label.split("|")
    )
