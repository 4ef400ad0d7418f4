"""The command line: exit codes, what it prints where, and how it takes bad input."""

import json
import math
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import hocket as hk
from hocket.cli.terminal import print_json
from hocket.machine.formats import save_design
from hocket.machine.formats.schema import Design
from strategies import BUTTONS_CONTROL, BUTTONS_KNOWS, buttons

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
SUMMARY = "8 states, 8 events, 12 transitions, 1 final state"


def hocket_apart(*args: str | Path, **options) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    environment = {**os.environ, **options.pop("env", {})}
    command = [sys.executable, "-m", "hocket", *map(str, args)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(command, text=True, encoding="utf-8", check=False, env=environment, **streams)


def save(folder: Path, machine: hk.RewardMachine, knows=None, control=None, name: str = "design.toml") -> Path:
    """Write a design to a file."""
    save_design(Design(machine, knows or {}, control or {}), folder / name)
    return folder / name


@pytest.fixture
def design(tmp_path) -> Path:
    """Write the buttons' machine, with who knows and controls what, to a file without a map."""
    knows, control = ({name: tuple(sorted(own)) for name, own in t.items()} for t in (BUTTONS_KNOWS, BUTTONS_CONTROL))
    return save(tmp_path, buttons(), knows, control)


def chain(first: str = "a", second: str = "b") -> hk.RewardMachine:
    """Build the machine of two events in a row."""
    return hk.RewardMachine(initial="u0", transitions={("u0", first): "u1", ("u1", second): "u2"}, final={"u2"})


def is_one_line(said: str) -> bool:
    """Tell whether a message is one line, about hocket, without a traceback."""
    return said.startswith("hocket: ") and said.endswith("\n") and said.count("\n") == 1 and "Traceback" not in said


# check


@pytest.mark.parametrize("target", ["buttons", "file"])
def test_check_says_yes_to_the_buttons(hocket, design, target):
    code, out, err = hocket("check", design if target == "file" else target)
    assert (code, err) == (0, "")
    assert SUMMARY in out
    assert (
        "Decomposable: the team machine is bisimilar to the parallel composition of the 3 local reward machines." in out
    )
    assert re.search(r"^A1 +4 +3 +Y, R, Goal$", out, re.MULTILINE)
    assert "epair" not in out


@pytest.mark.parametrize("target", ["buttons", "file"])
def test_check_says_no_with_a_counterexample_and_a_repair(hocket, design, target):
    code, out, err = hocket("check", design if target == "file" else target, "--knows", "A1=Y,Goal")
    assert (code, err) == (1, "")
    assert "Not decomposable." in out
    assert (
        "Counterexample (phantom event): after the trace Y, A1 proposes Goal, but Goal is undefined in state u1." in out
    )
    merged = (
        "The projection of A1 merges u1 and u6, where Goal is defined; to separate them, its local event set needs "
    )
    assert merged in out
    assert "Repair (cost 1, proved minimal):\n  add R to the local event set of A1\n" in out


def test_check_takes_knowledge_in_one_option_in_several_or_in_several_words(hocket, tmp_path):
    path = save(tmp_path, chain())
    answers = {
        hocket("check", path, "--json", *words)
        for words in (
            ("--knows", "A1=a", "A2=a,b"),
            ("--knows", "A1=a", "--knows", "A2=a,b"),
            ("--knows", "A1=a", "--knows", "A2= a , b ,"),
        )
    }
    ((code, out, _),) = answers
    assert code == 0
    assert {agent: found["events"] for agent, found in json.loads(out)["agents"].items()} == {
        "A1": ["a"],
        "A2": ["a", "b"],
    }


def test_check_takes_options_before_and_after_the_target(hocket, design):
    assert hocket("check", "--json", design) == hocket("check", design, "--json")


def test_check_as_json_has_all_fields_where_the_answer_is_yes(hocket):
    code, out, err = hocket("check", "buttons", "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert found["decomposable"] is True
    assert found["counterexample"] is None
    assert found["problems"] == []
    assert found["agents"].keys() == {"A1", "A2", "A3"}
    sizes = {agent: (own["states"], own["transitions"]) for agent, own in found["agents"].items()}
    assert sizes == {"A1": (4, 3), "A2": (5, 5), "A3": (4, 4)}
    assert {agent: set(own["events"]) for agent, own in found["agents"].items()} == BUTTONS_KNOWS


def test_check_as_json_tells_of_a_tasks_labelling(hocket):
    labelling = json.loads(hocket("check", "buttons", "--json")[1])["labelling"]
    assert labelling["ok"] is True
    assert labelling["witness"] is None


@pytest.mark.parametrize("target", ["buttons", "file"])
def test_check_as_json_has_the_counterexample_where_the_answer_is_no(hocket, design, target):
    code, out, err = hocket("check", design if target == "file" else target, "--knows", "A1=Y,Goal", "--json")
    found = json.loads(out)
    assert (code, err) == (1, "")
    assert found["decomposable"] is False
    example = found["counterexample"]
    assert (example["trace"], example["kind"], example["event"]) == (["Y"], "phantom event", "Goal")
    assert any("A1 proposes Goal" in problem for problem in found["problems"])
    assert found["repair"]["add"] == {"A1": ["R"]}


def test_check_as_json_has_no_event_for_a_premature_completion(hocket, tmp_path):
    machine = hk.RewardMachine(
        initial="s", transitions={("s", "a"): "ab", ("s", "b"): "ba", ("ab", "b"): "f", ("ba", "a"): "x"}, final={"f"}
    )
    code, out, _ = hocket("check", save(tmp_path, machine), "--knows", "A1=a", "A2=b", "--json")
    example = json.loads(out)["counterexample"]
    assert code == 1
    assert (example["kind"], example["event"]) == ("premature completion", None)
    assert example["trace"] == ["b", "a"]


def test_check_of_a_machine_of_which_nobody_said_who_knows_what(hocket, tmp_path):
    machine = hk.RewardMachine(initial="u0", transitions={("u0", "a"): "u1", ("lost", "a"): "u1"}, final={"u1"})
    path = save(tmp_path, machine)
    code, out, err = hocket("check", path)
    assert (code, err) == (0, "")
    assert "3 states, 1 event, 2 transitions, 1 final state" in out
    assert "No trace reaches lost." in out
    assert "--knows" in out
    found = json.loads(hocket("check", path, "--json")[1])
    assert found == {
        "ok": True,
        "decomposable": None,
        "agents": {},
        "counterexample": None,
        "problems": [],
        "warnings": [],
        "notes": ["No trace reaches lost."],
        "repair": None,
    }


def test_check_with_control_alone_takes_agents_to_know_what_they_control(hocket, tmp_path):
    path = save(tmp_path, chain())
    code, out, _ = hocket("check", path, "--control", "a=A1,A2", "b=A2", "--json")
    assert code == 0
    assert {agent: own["events"] for agent, own in json.loads(out)["agents"].items()} == {"A1": ["a"], "A2": ["a", "b"]}
    code, out, _ = hocket("check", path, "--control", "a=A1", "--control", "b=A2", "--json")
    assert code == 1
    assert json.loads(out)["repair"]["cost"] == 1


def test_check_reports_who_controls_what_they_do_not_know(hocket, tmp_path):
    path = save(tmp_path, chain())
    code, out, _ = hocket("check", path, "--knows", "A1=a,b", "A2=a,b", "A3=a", "--control", "b=A3")
    assert code == 1
    assert "A3 controls b, which is not in its local event set." in out
    assert "add b to the local event set of A3" in out


@pytest.mark.parametrize("suffix", ["json", "txt", "dot", "gv"])
def test_check_reads_every_format(hocket, tmp_path, suffix):
    path = save(tmp_path, chain(), name=f"machine.{suffix}")
    assert hocket("check", path, "--knows", "A1=a", "A2=a,b")[0] == 0
    assert hocket("check", path, "--knows", "A1=a", "A2=b")[0] == 1


def test_check_of_a_rendezvous_of_any_size(hocket):
    code, out, _ = hocket("check", "rendezvous-3", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["decomposable"] is True
    assert set(found["agents"]["A2"]["events"]) == {"r2", "l2", "r", "g2"}
    code, out, _ = hocket("check", "rendezvous-50")
    assert code == 0
    assert "… and 10 more agents" in out


def test_check_of_a_rendezvous_whose_agents_miss_the_meeting(hocket):
    code, out, _ = hocket("check", "rendezvous-3", "--knows", "A1=r1,l1,g1", "--json")
    assert code == 1
    assert json.loads(out)["decomposable"] is False


def test_check_says_whether_events_may_be_heard_late(hocket):
    code, out, _ = hocket("check", "drawbridge", "--delays")
    assert code == 1 and "Must agree as well (agent: event; the fewest that will do): A2: up and A1: lift." in out
    code, out, _ = hocket("check", "buttons", "--delays", "--json")
    assert code == 0 and json.loads(out)["delays"]["tolerant"]
    assert "delays" not in json.loads(hocket("check", "buttons", "--json")[1])


def test_delays_of_what_is_not_decomposable_are_not_asked_for(hocket, tmp_path):
    file = save(tmp_path, chain(), {"A1": ("a",), "A2": ("b",)})
    code, out, _ = hocket("check", file, "--delays", "--json")
    assert code == 1 and json.loads(out)["delays"] is None


def test_simulate_says_what_was_injected_and_found(hocket):
    code, out, _ = hocket("simulate", "drawbridge", "--schedules", "30")
    assert code == 0 and "30 schedules" in out and "messages lost" in out and "No invariant was broken" in out
    code, out, _ = hocket("simulate", "buttons", "--schedules", "20", "--faults", "loss,kill", "--json")
    report = json.loads(out)
    assert report["ok"] and report["injected"]["lost"] and not report["injected"]["split"]
    code, _, err = hocket("simulate", "buttons", "--faults", "sloth")
    assert code == 2 and is_one_line(err)


# repair


def test_repair_prints_what_to_add_and_options_to_paste(hocket, design):
    code, out, err = hocket("repair", design, "--knows", "A1=Y,Goal")
    assert (code, err) == (0, "")
    assert "Repair (cost 1, proved minimal):\n  add R to the local event set of A1\n" in out
    pasted = shlex.split(out.splitlines()[-1])
    assert hocket("check", design, *pasted)[0] == 0


def test_what_repair_prints_to_paste_survives_a_shell(hocket, tmp_path):
    path = save(tmp_path, chain("press it", "$(touch pwned)"))
    code, out, _ = hocket("repair", path, "--knows", "A 1=press it", "A;2=$(touch pwned)")
    assert code == 0
    pasted = shlex.split(out.splitlines()[-1])
    assert pasted[0] == "--knows" and len(pasted) == 3
    assert hocket("check", path, *pasted)[0] == 0


def test_repair_of_what_is_whole_adds_nothing(hocket, design):
    assert hocket("repair", design) == (0, "Nothing needs to be added.\n", "")
    code, out, _ = hocket("repair", design, "--json")
    assert code == 0
    assert json.loads(out)["add"] == {} and json.loads(out)["cost"] == 0


def test_repair_as_json_says_what_it_costs_and_how_sure_it_is(hocket, tmp_path):
    code, out, err = hocket("repair", save(tmp_path, chain()), "--knows", "A1=a", "A2=b", "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert (found["add"], found["cost"], found["exact"], found["bound"]) == ({"A2": ["a"]}, 1, True, 1)
    assert {agent: set(own) for agent, own in found["knows"].items()} == {"A1": {"a"}, "A2": {"a", "b"}}


def test_repair_minds_costs_and_what_is_forbidden(hocket, tmp_path):
    path = save(tmp_path, chain())
    split = ("repair", path, "--knows", "A1=a", "A2=b", "--json")
    dear = json.loads(hocket(*split, "--cost", "A2:a=5", "A1:b=2.5")[1])
    assert (dear["add"], dear["cost"]) == ({"A1": ["b"]}, 2.5)
    code, out, _ = hocket(*split, "--forbid", "A2:a")
    assert (code, json.loads(out)["add"]) == (0, {"A1": ["b"]})


def test_repair_says_no_where_everything_that_helps_is_forbidden(hocket, tmp_path):
    split = ("repair", save(tmp_path, chain()), "--knows", "A1=a", "A2=b", "--forbid", "A2:a", "A1:b")
    code, out, err = hocket(*split)
    assert (code, err) == (1, "")
    assert out.startswith("No repair: ") and "A1: b" in out and "A2: a" in out
    code, out, _ = hocket(*split, "--json")
    assert code == 1
    assert json.loads(out)["add"] is None and len(json.loads(out)["problems"]) == 1


@pytest.mark.parametrize("target", ["buttons", "file"])
@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_repair_writes_a_file_that_then_checks(hocket, design, tmp_path, target, suffix):
    out = tmp_path / f"fixed.{suffix}"
    source = design if target == "file" else target
    assert hocket("repair", source, "--knows", "A1=Y,Goal", "-o", out)[0] == 0
    code, printed, _ = hocket("check", out, "--json")
    assert code == 0
    assert set(json.loads(printed)["agents"]["A1"]["events"]) == {"Y", "Goal", "R"}


def test_repair_leaves_all_else_in_a_file_byte_for_byte(hocket, design, tmp_path):
    lines = design.read_bytes().replace(b'"Goal", "R", "Y"', b'"Goal", "Y"').splitlines()
    source, out = tmp_path / "source.toml", tmp_path / "fixed.toml"
    source.write_bytes(b"\xef\xbb\xbf" + b"".join(line + b"\r\n"[place % 2 :] for place, line in enumerate(lines)))
    assert hocket("repair", source, "-o", out)[0] == 0
    before, after = (path.read_bytes().splitlines(keepends=True) for path in (source, out))
    changed = [(one, other) for one, other in zip(before, after, strict=True) if one != other]
    assert len(changed) == 1 and changed[0][1].startswith(b"A1 = ") and b'"R"' in changed[0][1]


@pytest.mark.parametrize("suffix", ["txt", "dot"])
def test_repair_does_not_write_to_a_format_without_room_for_who_knows_what(hocket, design, tmp_path, suffix):
    out = tmp_path / f"fixed.{suffix}"
    code, _, err = hocket("repair", design, "--knows", "A1=Y,Goal", "-o", out)
    assert code == 2
    assert is_one_line(err) and f"fixed.{suffix}" in err
    assert not out.exists()


# show


def test_show_prints_the_team_machine_and_each_agents(hocket, design):
    code, out, err = hocket("show", design)
    assert (code, err) == (0, "")
    assert [line for line in out.splitlines() if line and not line.startswith((" ", "▶"))] == ["team", "A1", "A2", "A3"]
    assert re.search(r"^▶ +u0 +Y → u1$", out, re.MULTILINE)
    assert re.search(r"^ +◎ +u7$", out, re.MULTILINE)
    assert "\nA1\n▶    u0         Y → {u1,…,u5}\n" in out


def test_show_prints_a_machine_alone_and_its_rewards(hocket, tmp_path):
    machine = hk.RewardMachine(initial="u0", transitions={("u0", "a"): "u0"}, rewards={("u0", "a"): -0.5})
    assert hocket("show", save(tmp_path, machine)) == (0, "team\n▶    u0  a / -0.5 → u0\n\n", "")


def test_show_closes_boxes(hocket, tmp_path):
    path = tmp_path / "day.toml"
    path.write_text('sequence = ["wake", "fetch"]\n[calls]\nfetch = { sequence = ["get", "put"] }\n')
    assert "fetch › put" in hocket("show", path)[1]
    assert hocket("show", path, "--closed") == (
        0,
        "team\n▶    wake   wake → fetch\n     fetch  put → done\n  ◎  done\n\n",
        "",
    )


def test_show_leaves_out_most_of_a_large_machine_and_says_so(hocket, tmp_path):
    moves = {(f"u{i}", "a"): f"u{i + 1}" for i in range(99)}
    path = save(tmp_path, hk.RewardMachine(initial="u0", transitions=moves, final={"u99"}))
    out = hocket("show", path)[1]
    assert len(out.splitlines()) < 50
    assert "… and 60 more states" in out


@pytest.mark.parametrize(("suffix", "magic"), [("svg", b"<?xml"), ("png", b"\x89PNG\r\n"), ("pdf", b"%PDF-")])
@pytest.mark.parametrize("target", ["buttons", "file"])
def test_show_draws_to_a_file(hocket, design, tmp_path, target, suffix, magic):
    out = tmp_path / f"drawing.{suffix}"
    assert hocket("show", design if target == "file" else target, "-o", out) == (0, "", "")
    assert out.read_bytes().startswith(magic)
    assert len(out.read_bytes()) > 1_000


@pytest.mark.parametrize(
    "name", ["drawing.gif", "drawing", "no/such/drawing.svg", "design.toml/drawing.svg", "folder.svg"]
)
def test_show_refuses_what_it_cannot_draw_to(hocket, design, tmp_path, name):
    (tmp_path / "folder.svg").mkdir()
    before = sorted(tmp_path.iterdir())
    code, out, err = hocket("show", design, "-o", tmp_path / name)
    assert (code, out) == (2, "")
    assert is_one_line(err) and str(tmp_path / name) in err
    assert sorted(tmp_path.iterdir()) == before


# Bad input: code 2, one line on stderr that names the thing, no traceback.


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (("check", "DESIGN", "--knows", "A1=Y,Goul"), ["'Goul'", "'A1'", "did you mean 'Goal'?"]),
        (("check", "DESIGN", "--knows", "A1"), ["--knows", "'A1'"]),
        (("check", "DESIGN", "--knows", "=Y"), ["--knows", "'=Y'"]),
        (("check", "DESIGN", "--control", "Yy=A1"), ["'Yy'", "did you mean 'Y'?"]),
        (("check", "DESIGN", "--control", "Y=A9"), ["'A9'", "did you mean 'A"]),
        (("check", "DESIGN", "--control", "Y"), ["--control", "'Y'"]),
        (("check", "buttons", "--knows", "A1=Y,Goul"), ["'Goul'", "A1", "did you mean 'Goal'?"]),
        (("check", "buttons", "--knows", "A9=Y"), ["'A9'", "did you mean 'A"]),
        (("check", "nowhere.toml"), ["nowhere.toml", "No such file or directory"]),
        (("check", "FOLDER"), ["FOLDER", "this is a folder and no built-in task of this name"]),
        (("check", "bottons"), ["bottons", "did you mean 'buttons'?"]),
        (("check", "init"), ["init", "no built-in task of this name"]),
        (("check", "__init__"), ["__init__", "no built-in task of this name"]),
        (("check", ""), []),
        (("check", "x" * 300), ["x" * 100]),
        (("check", "x" * 300 + ".toml"), ["xxx.toml"]),
        (("check", "machine.yaml"), ["machine.yaml"]),
        (("check", "rendezvous-0"), ["rendezvous-0"]),
        (("check", "rendezvous-999999999"), ["rendezvous-999999999"]),
        (("check", "rendezvous-" + "9" * 300), ["rendezvous-9"]),
        (("show", "nowhere.json"), ["nowhere.json"]),
        (("show", "DESIGN", "--knows", "A1=Goul"), ["'Goul'"]),
        (("repair", "nowhere.txt"), ["nowhere.txt"]),
        (("repair", "DESIGN", "--cost", "A1:Y=cheap"), ["--cost", "'cheap'"]),
        (("repair", "DESIGN", "--cost", "A1:Y=nan"), ["--cost", "'nan'"]),
        (("repair", "DESIGN", "--cost", "A1:Y=-1"), ["('A1', 'Y')", "-1"]),
        (("repair", "DESIGN", "--cost", "A1=1"), ["--cost", "'A1'"]),
        (("repair", "DESIGN", "--cost", "A1:Goul=1"), ["'Goul'"]),
        (("repair", "DESIGN", "--forbid", "A1"), ["--forbid", "'A1'"]),
        (("repair", "DESIGN", "--forbid", "A9:Y"), ["'A9'"]),
        (("repair", "DESIGN", "-o", "fixed.yaml"), ["fixed.yaml"]),
        (("repair", "DESIGN", "-o", "no/such/fixed.toml"), ["fixed.toml", "No such file or directory"]),
    ],
    ids=lambda value: " ".join(value)[:50] if isinstance(value, tuple) else "",
)
def test_bad_input_is_refused_in_one_line_that_names_it(hocket, design, tmp_path, monkeypatch, args, named):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "machine.yaml").write_text("initial: u0\n")
    before = sorted(tmp_path.iterdir())
    places = {"DESIGN": str(design), "FOLDER": str(tmp_path)}
    code, out, err = hocket(*(places.get(arg, arg) for arg in args))
    assert (code, out) == (2, "")
    assert is_one_line(err)
    for part in named:
        assert places.get(part, part) in err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("suffix", "content", "said"),
    [
        ("toml", "final = [", "is not TOML: "),
        ("toml", "initial = " + "1" * 5_000, "is not TOML"),
        ("json", '{"finals": []}', "finals: unknown key (did you mean 'final'?)"),
        ("txt", "0\n(0, 1, 'a', __import__('os').system('touch pwned'))\n", "line 2: must be a transition"),
        ("dot", "digraph {}", "line 1: must begin with 'digraph machine {'"),
    ],
    ids=["toml", "a long number", "json", "txt", "dot"],
)
@pytest.mark.parametrize("command", ["check", "repair", "show"])
def test_a_bad_file_is_refused_in_one_line_that_names_the_place(
    hocket, tmp_path, monkeypatch, command, suffix, content, said
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"bad.{suffix}").write_text(content)
    code, out, err = hocket(command, f"bad.{suffix}")
    assert (code, out) == (2, "")
    assert is_one_line(err) and err.startswith(f"hocket: bad.{suffix}: {said}")
    assert [path.name for path in tmp_path.iterdir()] == [f"bad.{suffix}"]


def test_a_file_whose_agents_know_what_does_not_exist_is_refused_by_name(hocket, tmp_path):
    code, _, err = hocket("check", save(tmp_path, chain(), {"A1": ("a",), "A2": ("bb",)}))
    assert code == 2
    assert is_one_line(err) and "'bb'" in err and "'A2'" in err and "did you mean 'b'?" in err


def test_the_rewards_of_a_general_machine_are_shared_out(hocket, tmp_path):
    path = save(tmp_path, hk.RewardMachine(initial="u", transitions={("u", "a"): "u"}, rewards={("u", "a"): 2}))
    code, out, _ = hocket("check", path, "--knows", "A1=a", "A2=a")
    assert code == 0 and "The rewards are shared out" in out
    _, out, _ = hocket("show", path, "--knows", "A1=a", "A2=a")
    assert out.count("a / 1") == 2


def test_rewards_that_cannot_be_shared_out_are_a_counterexample_and_are_repaired(hocket, tmp_path):
    moves = {("u", "a"): "v", ("u", "e"): "u", ("v", "e"): "v"}
    path = save(tmp_path, hk.RewardMachine(initial="u", transitions=moves, rewards={("u", "e"): 3, ("v", "e"): 1}))
    code, out, _ = hocket("check", path, "--knows", "A1=a", "A2=e", "--json")
    example = json.loads(out)["counterexample"]
    assert code == 1 and (example["kind"], example["event"]) == ("reward", "e")
    assert [(term["state"], term["reward"]) for term in example["terms"]] == [("u", 3), ("v", 1)]
    code, out, _ = hocket("repair", path, "--knows", "A1=a", "A2=e", "--json")
    assert code == 0 and json.loads(out)["cost"] == 1


def test_repair_needs_somebody_who_knows_something(hocket, tmp_path):
    code, _, err = hocket("repair", save(tmp_path, chain()))
    assert code == 2
    assert is_one_line(err) and "--knows AGENT=EVENT,..." in err


@pytest.mark.parametrize(
    "args", [("chekc", "buttons"), ("check",), ("check", "buttons", "--nkows", "A1=Y"), ("--verbose",)]
)
def test_an_option_or_command_that_does_not_exist_is_refused(hocket, args):
    code, out, err = hocket(*args)
    assert (code, out) == (2, "")
    assert "Traceback" not in err and err.strip()


def test_a_file_cannot_send_control_codes_to_the_terminal(hocket, tmp_path):
    path = tmp_path / "evil.json"
    path.write_text(json.dumps({"\x1b[2Jtransitions\nhocket: all is well": {}}))
    code, _, err = hocket("check", path)
    assert code == 2
    assert is_one_line(err) and "\x1b" not in err


# Help and version.


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version_prints_the_version(hocket, option):
    assert hocket(option) == (0, f"hocket {hk.__version__}\n", "")


@pytest.mark.parametrize("args", [(), ("--help",), ("check", "--help"), ("repair", "--help"), ("show", "--help")])
def test_help_is_all_well(hocket, args):
    code, out, err = hocket(*args)
    assert (code, err) == (0, "")
    assert "usage: hocket" in out


def test_the_help_of_train_names_every_learner(hocket):
    _, out, _ = hocket("train", "--help")
    assert [name for name in hk.LEARNERS if re.search(rf"\b{name}\b", out) is None] == []


# Names are printed as they are.


@pytest.mark.parametrize(
    "name", ["[bold]x[/bold]", "[/]", "[link=https://example.org]x[/link]", ":smile:", "a\\[b", "日本", "x" * 300]
)
def test_names_are_printed_literally(hocket, tmp_path, name):
    machine = hk.RewardMachine(initial="u0", transitions={("u0", name): "u1", ("u1", "b"): name}, final={name})
    path = save(tmp_path, machine, {name: (name,), "A2": ("b",)})
    for command in ("check", "show", "repair"):
        _, out, err = hocket(command, path)
        assert name in out and err == ""
        assert "\x1b" not in out
    code, _, err = hocket("check", path, "--knows", f"A1={name}?")
    assert code == 2
    assert is_one_line(err) and any(text in err for text in (name, repr(name)[1:-1], name[:90]))


def test_json_holds_names_as_they_are(hocket, tmp_path):
    name = "[bold]\"é'\\日本"
    code, out, _ = hocket("check", save(tmp_path, chain("a", name)), "--knows", f"A1=a,{name}", "--json")
    assert code == 0
    assert json.loads(out)["agents"]["A1"]["events"] == ["a", name]


# In a process of its own.


def test_a_process_exits_with_the_answer_and_prints_plainly_in_a_pipe():
    for args, code in ((("buttons",), 0), (("buttons", "--knows", "A1=Y,Goal"), 1), (("no.toml",), 2)):
        done = hocket_apart("check", *args)
        assert done.returncode == code
        assert bool(done.stdout) == (code < 2) and bool(done.stderr) == (code == 2)
        assert "\x1b" not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr


def test_long_lines_are_not_wrapped_in_a_pipe(tmp_path):
    events = [f"event number {i}" for i in range(100)]
    machine = hk.RewardMachine(initial="u0", transitions={("u0", event): "u1" for event in events}, final={"u1"})
    done = hocket_apart("check", save(tmp_path, machine, {"A1": events}), env={"COLUMNS": "40"})
    assert any(line.endswith(", ".join(events)) for line in done.stdout.splitlines())


def test_colours_can_be_forced_and_change_nothing_else():
    args = ("check", "buttons", "--knows", "A1=Y,Goal")
    plain, coloured = hocket_apart(*args), hocket_apart(*args, env={"FORCE_COLOR": "1", "TERM": "xterm"})
    assert ESCAPE.search(coloured.stdout)
    assert ESCAPE.sub("", coloured.stdout) == plain.stdout


def test_json_has_no_colours_even_if_they_are_forced():
    done = hocket_apart("check", "buttons", "--json", env={"FORCE_COLOR": "1", "TERM": "xterm"})
    assert json.loads(done.stdout)["decomposable"] is True


@pytest.mark.parametrize("args", [("check",), ("show",), ("check", "--json")], ids=" ".join)
def test_output_in_ascii_replaces_what_it_cannot_print(tmp_path, args):
    path = save(tmp_path, chain("a", "日本"), {"Ä": ("a", "日本")})
    done = hocket_apart(*args, path, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()


def test_json_in_ascii_still_holds_every_name(tmp_path):
    path = save(tmp_path, chain("a", "日本"), {"Ä": ("a", "日本")})
    done = hocket_apart("check", path, "--json", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert json.loads(done.stdout)["agents"]["Ä"]["events"] == ["a", "日本"]


def test_an_error_in_ascii_is_still_one_line(tmp_path):
    path = save(tmp_path, chain("a", "日本"))
    done = hocket_apart("check", path, "--knows", "A1=日", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.returncode == 2
    assert is_one_line(done.stderr) and done.stderr.isascii()


@pytest.mark.skipif(os.name != "posix", reason="needs pipes that break")
@pytest.mark.parametrize(
    "args",
    [
        ("check", "buttons"),
        ("show", "buttons"),
        ("check", "buttons", "--json"),
        ("check", "buttons", "--knows", "A1=Y,Goal"),
        ("check", "buttons", "--knows", "A1=Y,Goal", "--json"),
        ("--version",),
        ("--help",),
    ],
    ids=" ".join,
)
def test_a_reader_that_has_had_enough_is_no_error(args):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = hocket_apart(*args, stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == ("A1=Y,Goal" in args, ""), "the answer is also the exit code"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full disk")
@pytest.mark.parametrize("words", [("check", "nothing-of-that-name"), ("chekc",), ("check", "buttons", "--knows", "x")])
def test_bad_input_has_its_exit_code_even_where_nobody_can_be_told(words):
    with Path("/dev/full").open("w") as full:
        assert hocket_apart(*words, stderr=full).returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full disk")
@pytest.mark.parametrize("args", [("check", "buttons"), ("check", "buttons", "--json")], ids=" ".join)
def test_output_to_a_full_disk_is_an_error_without_a_traceback(args):
    with Path("/dev/full").open("w") as full:
        done = hocket_apart(*args, stdout=full)
    assert done.returncode not in (0, 1), "neither yes nor no"
    assert is_one_line(done.stderr) and "No space left on device" in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="needs streams that can be closed")
def test_nowhere_to_print_to_is_no_reason_for_a_traceback():
    done = hocket_apart("check", "buttons", stdout=None, preexec_fn=lambda: os.close(1))
    assert "Traceback" not in done.stderr


def test_json_has_null_where_it_has_no_number(capsys):
    assert print_json({"times": [math.inf, -math.inf, math.nan, 0.5]}, ok=False) == 1
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == {"times": [None, None, None, 0.5]}
