"""Machines as files: what is written is read back, and no file, however hostile, does more than raise an error."""

import errno
import json
import os
import random
import subprocess
import sys
import warnings
from pathlib import Path

import pygraphviz
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hocket as hk
from hocket.machine.formats import FORMATS, load_design, save_design
from hocket.machine.formats.json import parse
from hocket.machine.formats.schema import Design
from searches import examples
from strategies import (
    BUTTONS_CONTROL,
    BUTTONS_KNOWS,
    buttons,
    completion_machines,
    hostile_names,
    reward_machines,
    task_machines,
)

SUFFIXES = sorted(FORMATS)
MEMORY = 1_500_000_000  # bytes of address space that reading any file must do with
NOISE = 50_000_000  # bytes

brief = examples(25)

NASTY = (
    *('"', "'", "\\", '\\"', "\\'", "\\\\", "a\\", "\\n", "\\N", "\\u0041", '"""', "'''", "'\"", "`", "${x}", "%s"),
    *("#", "# x", "//", "/*", ";", "};", "}", "{", "[", "]", "(", ")", ",", "=", ".", "a.b", "->", '" -> "', "a b"),
    *(" leading", "trailing ", "0", "-0", "007", "1e5", "nan", "null", "true", "True", "False", "None", "initial"),
    *(
        "é",
        "e\u0301",
        "日本",
        "\u202e",
        "\u200b",
        "\ufeff",
        "\u00a0x",
        "\ufffe",
        "\U0001f469\u200d\U0001f467",
        "\U0010ffff",
    ),
)
characters = st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"))
names = st.sampled_from(NASTY) | st.text(characters, min_size=1, max_size=5).filter(str.strip)
numbers = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def nasty_machines(draw: st.DrawFn) -> hk.RewardMachine:
    """Draw a machine of any kind and give it nasty names; a general one may get nasty rewards too."""
    machine = draw(task_machines() | reward_machines() | completion_machines())
    state, event = (
        dict(zip(old, draw(st.lists(names, min_size=len(old), max_size=len(old), unique=True)), strict=True))
        for old in (machine.states, machine.events)
    )
    rewards = None
    if not machine.is_task_completion:
        own = draw(st.booleans())
        rewards = {(state[u], event[e]): draw(numbers) if own else reward for (u, e), reward in machine.rewards.items()}
    return hk.RewardMachine(
        initial=state[machine.initial],
        transitions={(state[u], event[e]): state[v] for (u, e), v in machine.transitions.items()},
        final=[state[u] for u in machine.final],
        events=[event[e] for e in machine.events],
        rewards=rewards,
        states=[state[u] for u in machine.states],
    )


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """Make a folder that examples of one test share."""
    return tmp_path_factory.mktemp("files")


def write(folder: Path, suffix: str, content: str | bytes) -> Path:
    """Write content as it is to a file of the given suffix."""
    path = folder / f"machine{suffix}"
    path.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
    return path


def message(path: Path) -> str:
    """Load a file that cannot be; return what the error says after the file's name."""
    with pytest.raises(hk.errors.FormatError) as caught:
        hk.load_machine(path)
    assert type(caught.value) is hk.errors.FormatError
    name, said = str(path), str(caught.value)
    assert said.startswith(f"{name}: ")
    return said.removeprefix(f"{name}: ")


def loads_or_refuses(path: Path) -> bool:
    """Load a file; require a machine or an error of hocket's that names the file. Tell which it was."""
    try:
        machine = hk.load_machine(path)
    except hk.HocketError as error:
        said = str(error)
    else:
        assert isinstance(machine, hk.RewardMachine)
        return True
    assert said.startswith(f"{path}: ")
    return False


# Round trips.


@pytest.mark.parametrize("suffix", [".toml", ".json", ".dot", ".gv"])
@brief
@given(machine=nasty_machines())
def test_a_machine_survives_writing_and_reading(suffix, folder, machine):
    path = folder / f"round{suffix}"
    hk.save_machine(machine, path)
    assert hk.load_machine(path) == machine


def has_room_in_text(machine: hk.RewardMachine) -> bool:
    """Tell whether the text format can say all there is to a machine."""
    used = {state for (state, _), target in machine.transitions.items() for state in (state, target)}
    return (
        "True" not in machine.events
        and {event for _, event in machine.transitions} == machine.events
        and (used | set(machine.final) == set(machine.states) or len(machine.states) == 1)
    )


def pays_for_a_dead_end(machine: hk.RewardMachine) -> bool:
    """Tell whether a file without final states would be taken for one that leaves their marks out."""
    leaving = {state for state, _ in machine.transitions}
    return any(machine.rewards[key] > 0 and end not in leaving for key, end in machine.transitions.items())


@examples(60)
@given(machine=nasty_machines())
def test_a_machine_survives_the_text_format_or_is_refused_for_want_of_room(folder, machine):
    path = folder / "round.txt"
    try:
        hk.save_machine(machine, path)
    except hk.errors.FormatError:
        assert not has_room_in_text(machine) or (not machine.final and pays_for_a_dead_end(machine))
    else:
        assert hk.load_machine(path) == machine


def has_room_in_hoa(machine: hk.RewardMachine) -> bool:
    """Tell whether HOA can say all there is to a machine."""
    return machine.is_task_completion and all(state != target for (state, _), target in machine.transitions.items())


@examples(60)
@given(machine=nasty_machines())
def test_a_machine_survives_hoa_or_is_refused_for_want_of_room(folder, machine):
    path = folder / "round.hoa"
    try:
        hk.save_machine(machine, path)
    except hk.errors.FormatError:
        assert not has_room_in_hoa(machine)
    else:
        assert hk.load_machine(path) == machine


@pytest.mark.parametrize("reward", [1e24, -1e300, 1e22, 5e-324, 0.1, 1 / 3, -2.5e-7, 123456789.25, 2**53])
def test_rewards_of_any_size_survive_the_text_format(tmp_path, reward):
    machine = hk.RewardMachine(initial="0", transitions={("0", "a"): "1"}, final={"1"}, rewards={("0", "a"): reward})
    hk.save_machine(machine, tmp_path / "m.txt")
    assert hk.load_machine(tmp_path / "m.txt").rewards == {("0", "a"): reward}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_machine_that_pays_for_a_dead_end_that_is_not_final_is_not_changed_on_the_way(tmp_path, suffix):
    machine = hk.RewardMachine(initial="0", transitions={("0", "a"): "1"}, rewards={("0", "a"): 1})
    path = tmp_path / f"m{suffix}"
    try:
        hk.save_machine(machine, path)
    except hk.errors.FormatError:
        assert suffix in (".txt", ".hoa") and not path.exists()
    else:
        assert hk.load_machine(path) == machine


@pytest.mark.parametrize("suffix", [".toml", ".json"])
@brief
@given(machine=nasty_machines(), data=st.data())
def test_a_design_survives_writing_and_reading(suffix, folder, machine, data):
    events = st.sampled_from(list(machine.events)) if machine.events else st.nothing()
    knows = data.draw(st.dictionaries(names, st.lists(events, unique=True).map(tuple), max_size=3))
    agents = st.sampled_from(list(knows)) if knows else st.nothing()
    control = data.draw(st.dictionaries(events, st.lists(agents, unique=True).map(tuple), max_size=3))
    path = folder / f"design{suffix}"
    save_design(Design(machine, knows, control), path)
    assert load_design(path) == Design(machine, knows, control)


@pytest.mark.parametrize("suffix", SUFFIXES)
@examples(60)
@given(states=st.tuples(hostile_names, hostile_names, hostile_names), events=st.tuples(hostile_names, hostile_names))
def test_a_machine_with_hostile_names_is_read_as_it_was_written_or_refused(suffix, folder, states, events):
    path = folder / f"hostile{suffix}"
    begin, middle, end = states
    path.unlink(missing_ok=True)
    try:
        moves = [(begin, events[0], middle), (middle, events[1], end)]
        machine = hk.RewardMachine(initial=begin, transitions=moves, final={end}, states=list(dict.fromkeys(states)))
        hk.save_machine(machine, path)
    except hk.HocketError:
        assert not path.exists()
    else:
        assert hk.load_machine(path) == machine


@pytest.mark.parametrize("name", ["", " ", "\0", "\n", "\x1b[31m", "\x85", "\u2028", "\u2029", "\ud800", "a\udfffb"])
def test_a_name_that_is_no_line_of_text_is_refused_before_there_is_anything_to_write(name):
    for moves, final in (({("u", name): "v"}, "v"), ({("u", "a"): name}, name)):
        with pytest.raises(hk.HocketError, match=r"must (not be empty|have no control characters)"):
            hk.RewardMachine(initial="u", transitions=moves, final={final})


def test_a_suffix_may_be_in_capitals_and_a_path_may_be_text(tmp_path):
    hk.save_machine(buttons(), str(tmp_path / "B.TOML"))
    assert hk.load_machine(str(tmp_path / "B.TOML")) == buttons()


def test_toml_is_written_as_a_person_would_write_it(tmp_path):
    machine = hk.RewardMachine(initial="u0", transitions={("u0", "a b"): "u1", ("u1", "c"): "u2"}, final={"u2"})
    save_design(Design(machine, {"A1": ("c",)}, {"c": ("A1",)}), tmp_path / "m.toml")
    assert (tmp_path / "m.toml").read_text() == (
        'initial = "u0"\nfinal = ["u2"]\n\n[knows]\nA1 = ["c"]\n\n[control]\nc = ["A1"]\n\n'
        '[transitions]\nu0 = { "a b" = "u1" }\nu1 = { c = "u2" }\n'
    )


def test_json_is_json_to_others_too(tmp_path):
    save_design(Design(buttons(), {"A1": ("Y",)}), tmp_path / "m.json")
    document = json.loads((tmp_path / "m.json").read_text())
    assert document["initial"] == "u0" and document["final"] == ["u7"] and document["knows"] == {"A1": ["Y"]}
    assert document["transitions"]["u5"] == {"A2off": "u4", "A3off": "u3", "R": "u6"}


@pytest.mark.parametrize("state", ["u2", 'say "hi"', "back\\", "\\N", "日本"])
def test_dot_is_dot_to_graphviz_too(tmp_path, state):
    machine = hk.RewardMachine(initial="u0", transitions={("u0", "a"): "u1", ("u1", '"b\\'): state}, final={state})
    hk.save_machine(machine, tmp_path / "m.dot")
    drawing = pygraphviz.AGraph(string=(tmp_path / "m.dot").read_text())
    assert drawing.number_of_nodes() == 4  # with the point that the arrow to the initial state comes from
    assert sorted(edge.attr["event"] or "" for edge in drawing.edges()) == ["", '"b\\\\', "a"]
    assert [node.attr["shape"] for node in drawing.nodes()].count("doublecircle") == 1


def test_the_buttons_read_from_toml_are_those_of_the_paper(tmp_path):
    save_design(Design(buttons(), {agent: tuple(own) for agent, own in BUTTONS_KNOWS.items()}), tmp_path / "b.toml")
    found = load_design(tmp_path / "b.toml")
    assert hk.decompose(found.machine, found.knows, BUTTONS_CONTROL).ok


# What may be left out.


def test_the_initial_state_is_the_first_one_where_it_is_not_named(tmp_path):
    path = write(tmp_path, ".toml", 'final = ["u2"]\n[transitions]\nu1 = { b = "u2" }\nu0 = { a = "u1" }\n')
    assert hk.load_machine(path).initial == "u1"


def test_a_machine_with_rewards_needs_no_final_states(tmp_path):
    path = write(tmp_path, ".toml", '[transitions]\nu0 = { a = "u0" }\n[rewards]\nu0 = { a = -1.5 }\n')
    machine = hk.load_machine(path)
    assert machine.rewards == {("u0", "a"): -1.5}
    assert not machine.final


@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_a_state_with_an_empty_row_of_transitions_is_a_state(tmp_path, suffix):
    content = {
        ".toml": 'final = ["u1"]\n[transitions]\nu0 = { a = "u1" }\nlost = {}\n',
        ".json": '{"final": ["u1"], "transitions": {"u0": {"a": "u1"}, "lost": {}}}',
    }[suffix]
    machine = hk.load_machine(write(tmp_path, suffix, content))
    assert list(machine.unreachable) == ["lost"]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("change", [lambda text: "\ufeff" + text, lambda text: text.replace("\n", "\r\n")])
def test_a_byte_order_mark_and_the_line_ends_of_windows_change_nothing(tmp_path, suffix, change):
    hk.save_machine(buttons(), tmp_path / f"m{suffix}")
    content = (tmp_path / f"m{suffix}").read_text()
    assert hk.load_machine(write(tmp_path, suffix, change(content))) == buttons()


# The text files of the paper's public code.

WITH_MARK = """\
0 # initial state
(0, 1, 'by', 0) # yellow
(1, 2, 'bg', 0)

# both on red
(2,3,"a2br",0)
  ( 3 , 4 , 'br' , 1 )  # done
(4, 4, 'True', 0) # final
"""

WITHOUT_MARK = """\
5 # initial state
(5, 1, 'g1', 0)
(1, 7, 'g2', 1)
(1, 3, 'x', 0)
"""


def test_a_text_file_with_a_line_for_its_final_state_is_read(tmp_path):
    assert hk.load_machine(write(tmp_path, ".txt", WITH_MARK)) == hk.RewardMachine(
        initial="0",
        transitions={("0", "by"): "1", ("1", "bg"): "2", ("2", "a2br"): "3", ("3", "br"): "4"},
        final={"4"},
    )


def test_in_a_text_file_without_marks_the_dead_end_that_pays_is_final(tmp_path):
    assert hk.load_machine(write(tmp_path, ".txt", WITHOUT_MARK)) == hk.RewardMachine(
        initial="5",
        transitions={("5", "g1"): "1", ("1", "g2"): "7", ("1", "x"): "3"},
        final={"7"},
    )


def test_in_a_text_file_with_a_mark_nothing_else_is_final(tmp_path):
    content = "0\n(0, 7, 'a', 0)\n(0, 8, 'b', 1)\n(7, 7, 'True', 0)\n"
    machine = hk.load_machine(write(tmp_path, ".txt", content))
    assert list(machine.final) == ["7"]
    assert machine.rewards == {("0", "a"): 0.0, ("0", "b"): 1.0}


def test_in_a_text_file_a_state_that_pays_but_can_be_left_is_not_final(tmp_path):
    machine = hk.load_machine(write(tmp_path, ".txt", "0\n(0, 1, 'a', 1)\n(1, 0, 'b', 0)\n"))
    assert not machine.final


def test_a_text_file_may_hold_rewards_of_any_form_and_states_with_names(tmp_path):
    content = "'start' # here\n('start', -3, 'a', -1.5e-2)\n(-3, \"it's\", 'b', +.5)\n"
    machine = hk.load_machine(write(tmp_path, ".txt", content))
    assert machine.rewards == {("start", "a"): -0.015, ("-3", "b"): 0.5}
    assert list(machine.states) == ["start", "-3", "it's"]


def test_a_text_file_may_be_one_state(tmp_path):
    assert hk.load_machine(write(tmp_path, ".txt", "3 # alone\n")) == hk.RewardMachine(initial="3", transitions={})


def test_a_backslash_that_escapes_nothing_warns_of_nothing(tmp_path):
    path = write(tmp_path, ".txt", "0\n(0, 1, '\\d', 1)\n")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loads_or_refuses(path)
    assert [str(warning.message) for warning in caught] == []


# Hostile text files.

COMMAND = "__import__('os').system('touch pwned')"


@pytest.mark.parametrize(
    "line",
    [
        COMMAND,
        f"(0, 1, 'a', {COMMAND})",
        f"(0, {COMMAND}, 'a', 0)",
        f"({COMMAND}, 1, 'a', 0)",
        f"(0, 1, {COMMAND}, 0)",
        f"(0, 1, 'a', 0) or {COMMAND}",
        f"(0, 1, 'a', 0); {COMMAND}",
        f"(0, 1, 'a', 0), {COMMAND}",
        f"(0, 1, f'{{{COMMAND}}}', 0)",
        f"(0, 1, 'a' + str({COMMAND}), 0)",
        f"(0, 1, 'a'\\\n, {COMMAND})",
        "(0, 1, f'{1}', 0)",
        "(0, 1, b'a', 0)",
        "(0, 1, r'a', 0)",
        "(0, 1, 'a' 'b', 0)",
        "(0, 1, ('a'), 0)",
        "((0, 1, 'a', 0))",
        "((((((((((((((((0, 1, 'a', 0)",
        "(" * 100_000 + "0" + ")" * 100_000,
        "(0, 1, 'a', 1+1)",
        "(0, 1, 'a', 1_000)",
        "(0, 1, 'a', 0x10)",
        "(0, 1, 'a', --1)",
        "(0, 1, 'a', 1.2.3)",
        "(0, 1, 'a', nan)",
        "(0, 1, 'a', inf)",
        "(0, 1, 'a', 1e999)",
        "(0, 1, 'a', " + "9" * 1_000_000 + ")",
        "(0, " + "9" * 1_000_000 + ", 'a', 0)",
        "(0, 1, 'a', True)",
        "(0, 1, 'a', 1j)",
        "(0, 1, 'a', 0",
        "(0, 1, 'a')",
        "(0, 1, 'a', 0, 0)",
        "[0, 1, 'a', 0]",
        "{0: 1}",
        "(0, 1, a, 0)",
        "(0, 1, '''a''', 0)",
        "(0, 1, 'a\\', 0)",
        "(0, 1, '', 0)",
        "(0, 1, '\\0', 0)",
        "(0, 1, '\\x1b[2J', 0)",
        "(0, 1, '\\ud800', 0)",
        "(0, 1, '\\N{no such name}', 0)",
        "(0, 1, '\\x', 0)",
        "(0, 1, 'True', 0)",
        "(1.5, 1, 'a', 0)",
        "(0, *[1], 'a', 0)",
        "1",
    ],
    ids=lambda line: line if len(line) < 60 else f"{line[:20]} and so on",
)
def test_a_line_of_a_text_file_that_is_no_transition_is_refused_and_runs_nothing(tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    said = message(write(tmp_path, ".txt", f"0 # initial state\n(2, 2, 'fine', 0)\n{line}\n"))
    assert len(said) < 340, "a long line is not repeated in full"
    assert [path.name for path in tmp_path.iterdir()] == ["machine.txt"]


@pytest.mark.parametrize(
    "line", [COMMAND, f"{COMMAND} # initial state", "0 or 1", "(0)", "0.5", "x", "-", "0 1", "f'0'"]
)
def test_a_first_line_that_is_no_state_is_refused_and_runs_nothing(tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    said = message(write(tmp_path, ".txt", f"{line}\n(0, 1, 'a', 0)\n"))
    assert said.startswith("line 1: must be the initial state, like: 0 # initial state; got ")
    assert [path.name for path in tmp_path.iterdir()] == ["machine.txt"]


# Errors name the file and the line or key.

ONLY_OURS = "must begin with 'digraph machine {': only DOT files written by hocket can be read"


@pytest.mark.parametrize(
    ("suffix", "content", "said"),
    [
        (".toml", 'final = ["u1"]\n', "transitions: is missing; it maps each state to its events and where they lead"),
        (".toml", '[transitions]\nu0 = { a = "u1" }\n', "final: is missing; it lists the final states"),
        (".toml", "final = []\nfinal = []\n", "is not TOML: Cannot overwrite a value (at line 2, column 11)"),
        (".toml", "final = [\n1 2", "is not TOML: Unclosed array (at line 2, column 3)"),
        (".toml", "final = 3\n[transitions]\n", "final: must be a list of names, got 3"),
        (".toml", 'final = "u1"\n[transitions]\n', "final: must be a list of names, got 'u1'"),
        (".toml", "final = [3]\n[transitions]\n", "final[0]: must be a name in quotes, got 3"),
        (".toml", "final = []\ntransitions = 1\n", "transitions: must be a table, got 1"),
        (".toml", "final = []\n[transitions]\nu0 = 1\n", "transitions.u0: must be a table, got 1"),
        (".toml", "final = []\n[transitions]\nu0 = { a = 1 }\n", "transitions.u0.a: must be a name in quotes, got 1"),
        (".toml", "final = []\n[transitions]\n", "initial: is missing, and there is no first state to use instead"),
        (".toml", "initial = 0\nfinal = []\n[transitions]\n", "initial: must be a name in quotes, got 0"),
        (".toml", '[transitions]\nu0 = {a="u0"}\n[rewards]\nu0 = {a="1"}', "rewards.u0.a: must be a number, got '1'"),
        (".toml", '[transitions]\nu0 = {a="u0"}\n[rewards]\nu0 = {a=true}', "rewards.u0.a: must be a number, got True"),
        (
            ".toml",
            '[transitions]\nu0 = {a="u0"}\n[rewards]\nu0 = {b=1}',
            "a reward needs a transition to belong to, got one for ('u0', 'b')",
        ),
        (
            ".toml",
            'final = ["u1"]\n[transitions]\nu0 = { a = "u1" }\n[knows]\nA1 = "a"\n',
            "knows.A1: must be a list of names, got 'a'",
        ),
        (
            ".toml",
            'final = ["u1"]\n[transitions]\nu0 = { a = "u1" }\n[control]\na = [1]\n',
            "control.a[0]: must be a name in quotes, got 1",
        ),
        (
            ".toml",
            'final = ["u2"]\n[transitions]\nu0 = { a = "u1" }\n',
            "final state 'u2' does not exist in this machine (did you mean 'u1'?)",
        ),
        (".json", '{"final": [],\n "final": []}', "final: is given twice in one table"),
        (".json", '{"final": [],\n "transitions": {"u": {"a": "u", "a": "u"}}}', "a: is given twice in one table"),
        (".json", '{"final": [],\n "transitions" 3}', "line 2: is not JSON: Expecting ':' delimiter"),
        (".json", "", "line 1: is not JSON: Expecting value"),
        (".json", "[]", "the document: must be a table, got []"),
        (".json", "null", "the document: must be a table, got None"),
        (".dot", "", f"line 1: {ONLY_OURS}"),
        (".dot", "digraph {\n}", f"line 1: {ONLY_OURS}"),
        (".dot", "digraph machine {\n", "line 1: must end with '}'; the file seems to be cut off"),
        (".dot", "digraph machine {\n}\n", 'has no arrow to the initial state, like: "start" -> "u0";'),
        (".gv", "digraph machine {\n  a -> b;\n}\n", "line 2: is not a statement that hocket writes"),
        (
            ".gv",
            'digraph machine {\n  "a" -> "b" [event="e", reward="x", label="e"];\n}\n',
            "line 2: the reward must be a number, got 'x'",
        ),
        (".txt", "", "must begin with the initial state, got an empty file"),
        (".txt", "# nothing\n\n", "must begin with the initial state, got an empty file"),
        (".txt", "0\n\n(0, 1, 'a')\n", "line 3: must be a transition, like: (0, 1, 'event', 0); got \"(0, 1, 'a')\""),
        (".txt", "0\n(0, 1, 'a', .)\n", "line 2: the reward must be a number, got ."),
        (
            ".txt",
            "0\n(0, 1, 'True', 0)\n",
            "line 2: the event 'True' marks a final state and must lead back to it, got 0 to 1",
        ),
        (
            ".txt",
            "0\n(0, 1, 'a', 0)\n(0, 2, 'a', 0)\n",
            "line 3: state '0' has a transition on 'a' already",
        ),
        (".txt", "9\n(0, 1, 'a', 0)\n", "initial state '9' does not exist in this machine (known: 0, 1)"),
    ],
)
def test_an_error_names_the_file_and_the_line_or_key(tmp_path, suffix, content, said):
    assert message(write(tmp_path, suffix, content)) == said


KEYS = st.sampled_from(["a", "b", "a:b", '":', "\\"])
NESTS = st.recursive(
    st.sampled_from([1, "c", ":", '"a": 2']),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(KEYS, inner), max_size=3).map(tuple),
    max_leaves=8,
)


def json_of(nest: object) -> str:
    """Write a nest of lists and tables, which are tuples of pairs here and may have a key twice."""
    if isinstance(nest, tuple):
        return "{" + ", ".join(f"{json.dumps(key)} : {json_of(value)}" for key, value in nest) + "}"
    return "[" + ", ".join(map(json_of, nest)) + "]" if isinstance(nest, list) else json.dumps(nest)


def repeats(nest: object) -> bool:
    inner = [value for _, value in nest] if isinstance(nest, tuple) else nest if isinstance(nest, list) else []
    is_own = isinstance(nest, tuple) and len(dict(nest)) < len(nest)
    return is_own or any(map(repeats, inner))


@given(NESTS)
def test_json_is_refused_iff_a_table_has_a_key_twice_whatever_colons_there_are(nest):
    text = json_of(nest)
    if repeats(nest):
        with pytest.raises(hk.HocketError, match="is given twice in one table"):
            parse(text)
    else:
        assert parse(text) == json.loads(text)


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("finals", "final"),
        ("transition", "transitions"),
        ("know", "knows"),
        ("reward", "rewards"),
        ("intial", "initial"),
    ],
)
@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_an_unknown_key_is_an_error_that_offers_the_nearest_one(tmp_path, suffix, key, nearest):
    content = f"{key} = 1\n" if suffix == ".toml" else json.dumps({key: 1})
    assert message(write(tmp_path, suffix, content)) == f"{key}: unknown key (did you mean '{nearest}'?)"


def test_an_unknown_key_like_no_other_is_an_error_that_lists_them(tmp_path):
    said = message(write(tmp_path, ".toml", "zzz = 1\n"))
    assert said.startswith("zzz: unknown key (known: initial, ")
    assert all(key in said for key in ("final", "events", "states", "knows", "control", "transitions", "rewards"))


@pytest.mark.parametrize("key", ["a\x1b[31m", "two\nlines", "\ud800", "x" * 100_000])
def test_a_key_is_shown_on_one_short_line_without_control_characters(tmp_path, key):
    said = message(write(tmp_path, ".json", json.dumps({key: 1})))
    assert said.isprintable()
    assert len(said) < 340


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe0\x00", "line 1: must be UTF-8 text, got byte 0xff"),
        (b"a\nb\n\xe9t\xe9\n", "line 3: must be UTF-8 text, got byte 0xe9"),
        (b"\n\xed\xa0\x80", "line 2: must be UTF-8 text, got byte 0xed"),
    ],
)
def test_a_file_that_is_not_utf_8_is_refused(tmp_path, suffix, content, said):
    assert message(write(tmp_path, suffix, content)) == said


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_that_is_not_there_is_an_error(tmp_path, suffix):
    assert message(tmp_path / f"none{suffix}") == "cannot be read: No such file or directory"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_folder_in_the_place_of_a_file_is_an_error(tmp_path, suffix):
    (tmp_path / f"folder{suffix}").mkdir()
    assert message(tmp_path / f"folder{suffix}") == "cannot be read: Is a directory"


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", ["no\0where", "x" * 300])
def test_a_name_that_no_file_can_have_is_an_error(tmp_path, suffix, name):
    path = tmp_path / f"{name}{suffix}"
    with pytest.raises(hk.errors.FormatError):
        hk.load_machine(path)
    with pytest.raises(hk.errors.FormatError):
        hk.save_machine(buttons(), path)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("m.tmol", "got '.tmol' (did you mean '.toml'?)"),
        ("m.pickle", "got '.pickle' (known: .toml, .json, .txt, .dot, .gv, .hoa)"),
        ("m", "got '' (known: .toml, .json, .txt, .dot, .gv, .hoa)"),
    ],
)
def test_an_unknown_suffix_is_an_error_in_reading_and_in_writing(tmp_path, name, said):
    path = tmp_path / name
    path.write_text("as it was")
    expected = f"the suffix of a machine file says its format, {said}"
    assert message(path) == expected
    with pytest.raises(hk.errors.FormatError) as caught:
        hk.save_machine(buttons(), path)
    assert str(caught.value) == f"{path}: {expected}"
    assert path.read_text() == "as it was"


def test_a_file_without_an_end_is_read_no_further_than_the_limit(tmp_path):
    with (tmp_path / "endless.toml").open("wb") as file:
        file.truncate(10**11)  # a hole, which takes no room on the disk and more memory than there is
    assert message(tmp_path / "endless.toml") == "must be at most 8 MB in this format"


# Hostile content of every format.


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        (".json", "[" * 100_000),
        (".json", '{"transitions":' * 100_000),
        (".json", '{"final": ' + "[" * 900 + "]" * 900 + ', "transitions": {}}'),
        (".toml", "final = " + "[" * 100_000),
        (".toml", "transitions = " + "{a=" * 100_000),
        (".toml", "final = " + "[" * 200 + "]" * 200 + "\ntransitions = {}\n"),
        (".toml", "transitions." + "a." * 2_000 + "a = 1\nfinal = []\n"),
        (".toml", "[" + "a." * 2_000 + "a]\n"),
        (".dot", "digraph machine {\n" + "{" * 100_000 + "\n}"),
        (".hoa", 'HOA: v1 AP: 1 "a" Alias: @a ' + "(" * 100_000 + "0" + ")" * 100_000),
        (".hoa", 'HOA: v1 AP: 1 "a" Alias: @a ' + "!" * 100_001 + "("),
        (".hoa", "HOA: v1 " + "/*" * 100_000 + "*/" * 99_999),
    ],
    ids=lambda value: value if len(value) < 9 else value[:20],
)
def test_deep_nesting_is_refused(tmp_path, suffix, content):
    assert len(message(write(tmp_path, suffix, content))) < 340


REWARD = {
    ".toml": '[transitions]\nu0 = { a = "u0" }\n[rewards]\nu0 = { a = %s }\n',
    ".json": '{"transitions": {"u0": {"a": "u0"}}, "rewards": {"u0": {"a": %s}}}',
    ".txt": "0\n(0, 0, 'a', %s)\n",
    ".dot": 'digraph machine {\n// event "a"\n"u0" [shape=circle, label="u0"];\n"" -> "u0";\n'
    '"u0" -> "u0" [event="a", reward="%s", label="a"];\n}\n',
}


@pytest.mark.parametrize("suffix", REWARD)
def test_a_reward_of_ordinary_size_is_read(tmp_path, suffix):
    (reward,) = hk.load_machine(write(tmp_path, suffix, REWARD[suffix] % "-2.5e3")).rewards.values()
    assert reward == -2500.0


@pytest.mark.parametrize("suffix", REWARD)
@pytest.mark.parametrize(
    "number",
    [
        *("nan", "NaN", "-nan", "inf", "-inf", "Infinity", "-Infinity", "1e400", "-1e999", "1e99999999999"),
        *("9" * 400, "9" * 5_000, "9" * 1_000_000, "0." + "9" * 5_000 + "e999"),
    ],
    ids=lambda number: number if len(number) < 20 else f"{len(number)} digits",
)
def test_a_reward_that_is_no_finite_number_is_refused(tmp_path, suffix, number):
    said = message(write(tmp_path, suffix, REWARD[suffix] % number))
    assert len(said) < 400, "a long number is not repeated in full"


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("byte", [b"\x00", b"\x1b", b"\x7f", b"\xc2\x85", b"\xe2\x80\xa8"])
def test_a_control_character_in_a_name_is_refused(tmp_path, suffix, byte):
    hk.save_machine(buttons(), tmp_path / f"m{suffix}")
    content = (tmp_path / f"m{suffix}").read_bytes()
    assert message(write(tmp_path, suffix, content.replace(b"A2on", b"A2" + byte + b"on"))).isprintable()


SMALL = hk.RewardMachine(
    initial="u0",
    transitions={("u0", "é"): "u1", ("u1", '"\\'): "0", ("u0", "b"): "u0"},
    final={"0"},
    rewards={("u0", "é"): 0.5, ("u1", '"\\'): 1},
)


SMALL_TASK = hk.RewardMachine(
    initial="u0", transitions={("u0", "é"): "u1", ("u1", '"\\'): "0", ("u0", "b"): "0"}, final={"0"}
)


def write_small(folder: Path, suffix: str) -> bytes:
    """Write a small machine with all that a format has; return the file's content."""
    knows = {"A1": ("é", '"\\')} if suffix in (".toml", ".json") else {}
    save_design(Design(SMALL_TASK if suffix == ".hoa" else SMALL, knows), folder / f"small{suffix}")
    return (folder / f"small{suffix}").read_bytes()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_cut_off_anywhere_loads_as_a_machine_or_is_refused(tmp_path, suffix):
    content = write_small(tmp_path, suffix)
    loaded = [loads_or_refuses(write(tmp_path, suffix, content[:length])) for length in range(len(content) + 1)]
    assert loaded[-1] and not loaded[0]
    if suffix not in (".txt", ".toml"):  # which may end with any line
        assert not any(loaded[:-2]), "all but the last line end is needed"


@pytest.mark.parametrize("suffix", SUFFIXES)
@examples(60)
@given(data=st.data())
def test_a_damaged_file_loads_as_a_machine_or_is_refused(suffix, folder, data):
    content = bytearray(write_small(folder, suffix))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(content)))
        stop = start + data.draw(st.integers(0, 3))
        piece = st.sampled_from([b'"', b"'", b"\\", b"\n", b"{", b"}", b"[", b"]", b"0", b"True", b"=", b",", b"\xc3"])
        content[start:stop] = data.draw(piece | st.binary(max_size=3))
    loads_or_refuses(write(folder, suffix, bytes(content)))


@pytest.mark.parametrize("suffix", SUFFIXES)
@examples(40)
@given(content=st.text() | st.binary())
def test_arbitrary_content_loads_as_a_machine_or_is_refused(suffix, folder, content):
    loads_or_refuses(write(folder, suffix, content))


keys = st.sampled_from(
    ["initial", "final", "events", "states", "knows", "control", "transitions", "rewards", "u0", "a"]
)
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["u0", "u1", "a", "", "\x00"])
documents = st.recursive(leaves, lambda part: st.lists(part, max_size=3) | st.dictionaries(keys, part, max_size=4))


@examples(100)
@given(document=st.dictionaries(keys, documents, min_size=1) | documents)
def test_a_document_of_any_shape_loads_as_a_machine_or_is_refused(folder, document):
    loads_or_refuses(write(folder, ".json", json.dumps(document)))


# Memory: reading is bounded whatever the content.

LOAD_WITHIN_BOUNDS = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), int(sys.argv[1])))
import hocket as hk
for path in sys.argv[2:]:
    try:
        hk.load_machine(path)
    except hk.HocketError as error:
        print(str(error)[:200])
"""


def load_within_bounds(*paths: Path) -> list[str]:
    """Load files in a process with little memory; return the first line of what is said about each."""
    pytest.importorskip("resource", reason="needs limits on memory")
    command = [sys.executable, "-c", LOAD_WITHIN_BOUNDS, str(MEMORY), *map(str, paths)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONUTF8": "1"}  # threads reserve memory of their own
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def noise(tmp_path_factory):
    """Write a file of random bytes and one of random printable lines."""
    folder = tmp_path_factory.mktemp("noise")
    content = random.Random(0).randbytes(NOISE)
    printable = bytes([*range(32, 127), *b"\n\n\"'(),"])
    paths = folder / "bytes", folder / "printable"
    paths[0].write_bytes(content)
    paths[1].write_bytes(content.translate(bytes(printable[byte % len(printable)] for byte in range(256))))
    yield paths
    for path in folder.iterdir():
        path.unlink()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_fifty_megabytes_of_noise_are_refused_within_bounded_memory(noise, suffix):
    linked = [path.with_name(path.name + suffix) for path in noise]
    for path, link in zip(noise, linked, strict=True):
        link.hardlink_to(path)
    said = load_within_bounds(*linked)
    assert len(said) == 2
    assert all(line.startswith(f"{link}: ") for line, link in zip(said, linked, strict=True))


@pytest.mark.parametrize(
    ("suffix", "before", "repeated", "after"),
    [
        (".txt", "'", "a", "'\n"),
        (".txt", "0\n(0, 1, '", "\\'", "', 0)\n"),
        (".txt", "", "#", ""),
        (".txt", "0", " ", "x"),
        (".dot", 'digraph machine {\n"', "a", '" [shape=circle, label="a"];\n}\n'),
        (".dot", 'digraph machine {\n"" -> "', "\\\\", '";\n}\n'),
        (".json", '{"initial": "', "a", '"}'),
        (".json", "", " ", ""),
    ],
    ids=["name", "escapes", "comment", "blanks", "dot name", "dot escapes", "json name", "json blanks"],
)
def test_fifty_megabytes_of_one_thing_are_read_or_refused_within_bounded_memory(
    tmp_path, suffix, before, repeated, after
):
    path = write(tmp_path, suffix, before + repeated * (NOISE // len(repeated)) + after)
    try:
        load_within_bounds(path)
    finally:
        path.unlink()


@pytest.mark.parametrize("content", ["a." * 20_000 + "a = 1\n", "[" + "a." * 20_000 + "a]\n"], ids=["key", "header"])
def test_forty_kilobytes_of_dots_in_toml_are_refused_within_bounded_memory(tmp_path, content):
    (said,) = load_within_bounds(write(tmp_path, ".toml", content))
    assert said.startswith(f"{tmp_path / 'machine.toml'}: ")


# Writing is whole or not at all.


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_writing_to_a_folder_that_does_not_exist_leaves_nothing_behind(tmp_path, suffix):
    path = tmp_path / "no" / "such" / f"m{suffix}"
    with pytest.raises(hk.errors.FormatError) as caught:
        hk.save_machine(buttons(), path)
    assert str(caught.value) == f"{path}: cannot be written: No such file or directory"
    assert list(tmp_path.iterdir()) == []


def test_writing_below_a_file_is_an_error(tmp_path):
    (tmp_path / "file").write_text("as it was")
    with pytest.raises(hk.errors.FormatError, match="cannot be written: Not a directory"):
        hk.save_machine(buttons(), tmp_path / "file" / "m.toml")
    assert (tmp_path / "file").read_text() == "as it was"


def test_writing_over_a_folder_is_an_error_and_leaves_nothing_behind(tmp_path):
    (tmp_path / "m.toml").mkdir()
    with pytest.raises(hk.errors.FormatError, match="cannot be written: Is a directory"):
        hk.save_machine(buttons(), tmp_path / "m.toml")
    assert [path.name for path in tmp_path.iterdir()] == ["m.toml"]


def refuse(*arguments, **options):
    """Fail as a full disk does."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(("owner", "name"), [(Path, "replace"), (os, "open"), (os, "fdopen")])
def test_an_existing_file_stays_intact_if_writing_fails(tmp_path, monkeypatch, owner, name):
    path = tmp_path / "m.toml"
    path.write_text("as it was")
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, refuse)
        with pytest.raises(hk.errors.FormatError) as caught:
            hk.save_machine(buttons(), path)
    assert str(caught.value) == f"{path}: cannot be written: No space left on device"
    assert path.read_text() == "as it was"
    assert [path.name for path in tmp_path.iterdir()] == ["m.toml"]


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (
            hk.RewardMachine(initial="0", transitions={("0", "True"): "1"}, final={"1"}),
            "in this format the event 'True' marks final states, so it cannot be an event",
        ),
        (
            hk.RewardMachine(
                initial="0", transitions={("0", "a"): "1"}, final={"1"}, events=["a", "b"], states=["0", "1", "2"]
            ),
            "this format has no place for what no transition uses: event 'b', state '2'",
        ),
    ],
    ids=["event True", "unused names"],
)
def test_an_existing_file_stays_intact_if_the_format_has_no_room_for_the_machine(tmp_path, machine, said):
    path = tmp_path / "m.txt"
    path.write_text("as it was")
    with pytest.raises(hk.errors.FormatError) as caught:
        hk.save_machine(machine, path)
    assert str(caught.value) == f"{path}: {said}"
    assert path.read_text() == "as it was"


def test_an_existing_file_is_replaced(tmp_path):
    (tmp_path / "m.toml").write_text("as it was")
    hk.save_machine(buttons(), tmp_path / "m.toml")
    assert hk.load_machine(tmp_path / "m.toml") == buttons()
    assert [path.name for path in tmp_path.iterdir()] == ["m.toml"]


@pytest.mark.skipif(os.name != "posix", reason="needs permissions")
@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_file_has_the_permissions_that_the_user_gives_new_files(tmp_path, mask):
    before = os.umask(mask)
    try:
        hk.save_machine(buttons(), tmp_path / "m.toml")
    finally:
        os.umask(before)
    assert (tmp_path / "m.toml").stat().st_mode & 0o777 == 0o666 & ~mask
