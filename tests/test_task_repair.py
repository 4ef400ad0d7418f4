"""Repairing tasks: what comes back passes every check, and the user's file stays as it is but for what is added."""

import json
import tomllib
from random import Random

import pytest

import hocket as hk
from hocket.errors import InfeasibleError
from hocket.task.files import task_from
from hocket.task.repair import TaskRepair, repair_task
from task_strategies import random_task

DOOR = '''# The door.
name = "door"   # of the house
map = """
1.B#2
...D.
..M#.
"""

[legend]
M = "mat"       # last things first
D = "door"
B = "bell"

[agents]
A2 = { start = "2", knows = ["meet"] }          # hears nothing yet
A1 = { knows = ["ring", "meet"], start = "1" }

[gates]
door = { A2 = "ring" }

[events]
ring = "A1 at bell"
meet = "A1 and A2 at mat"

[machine]
final = ["met"]

[machine.transitions]
apart = { ring = "coming" }
coming = { meet = "met" }
'''


def door(**changes) -> hk.Task:
    return task_from(tomllib.loads(DOOR) | changes)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "door.toml"
    path.write_text(DOOR, encoding="utf-8")
    return path


def repaired(task: hk.Task) -> TaskRepair | None:
    """Repair a task whose agents know next to nothing, where that can be."""
    try:
        return repair_task(task.with_knows({name: tuple(agent.sync) for name, agent in task.agents.items()}))
    except InfeasibleError:
        return None


def test_what_is_handed_back_passes_every_check():
    tasks = [random_task(Random(seed)) for seed in range(40)]
    repairs = [found for found in map(repaired, tasks) if found is not None]
    assert len(repairs) >= 10
    for found in repairs:
        assert hk.check_task(found.task).ok
        for name, agent in found.task.agents.items():
            assert set(agent.knows) == {*agent.sync, *found.added.get(name, ())}


def test_a_gate_that_an_agent_cannot_tell_open_gets_the_events_that_tell():
    """A2 knows the opening and the end; that hush undoes the opening only a third event tells."""
    document = tomllib.loads(DOOR)
    document["events"]["hush"] = "A1 at mat"
    document["gates"] = {"door": {"A2": {"open": "ring", "close": "hush"}}}
    document["agents"]["A1"]["knows"] = ["ring", "meet", "hush"]
    document["agents"]["A2"]["knows"] = ["ring", "meet"]
    document["machine"]["transitions"]["coming"] = {"meet": "met", "hush": "apart"}
    added = repair_task(task_from(document)).added
    assert added == {"A2": {"hush"}} and added.exact


def test_where_a_gate_stands_in_the_way_it_is_named_and_a_change_proposed(tmp_path, hocket):
    with pytest.raises(InfeasibleError, match="the cause is the gate at door, closed to A2 until meet") as error:
        repair_task(door(gates={"door": {"A2": "meet"}}))
    assert "open it with an earlier event" in str(error.value)
    path, out = tmp_path / "shut.toml", tmp_path / "out.toml"
    path.write_text(DOOR.replace('A2 = "ring"', 'A2 = "meet"'), encoding="utf-8")
    code, said, err = hocket("repair", path, "-o", out)
    assert code == 1 and said.startswith("No repair: ") and not err and not out.exists()


HELD = """
slip = 0.0
map = "abG.c"
legend = { a = "plate", b = "post", G = "gate", c = "goal" }
gates = { gate = { A2 = { open = "on", close = "off" } } }
events = { on = "A1 at plate", off = "A1 not at plate", end = "A3 at goal", home = "A2 at goal" }

[agents]
A1 = { start = "b", knows = ["on", "off"] }
A2 = { start = [0, 3], knows = ["on", "off", "home"] }
A3 = { start = [0, 3], knows = ["end"] }

[machine]
final = ["done"]

[machine.transitions]
shut = { on = "held", end = "late" }
held = { off = "shut", end = "late" }
late = { home = "done" }
"""


def test_check_offers_no_repair_that_gates_rule_out(tmp_path, hocket):
    path = tmp_path / "held.toml"
    path.write_text(HELD, encoding="utf-8")
    code, said, _ = hocket("check", path)
    assert code == 1 and "Not decomposable." in said and "\nRepair" not in said
    refusal = hocket("repair", path)[1]
    assert refusal.startswith("No repair: ") and said.endswith(refusal)
    found = json.loads(hocket("check", path, "--json")[1])["repair"]
    assert found == json.loads(hocket("repair", path, "--json")[1])
    assert found["add"] is None and found["problems"][0] in refusal


def test_where_a_condition_stands_in_the_way_it_is_named():
    with pytest.raises(InfeasibleError, match="the cause is the condition of ring, A1 at bell"):
        repair_task(door(map="1.#B#2\n..###.\n...D..\n..M#..\n"))


def test_the_file_keeps_its_comments_and_order_and_gets_what_is_missing(file, hocket):
    out = file.with_name("fixed.toml")
    assert hocket("repair", file, "-o", out)[0] == 0
    assert out.read_text(encoding="utf-8") == DOOR.replace('["meet"] }', '["meet", "ring"] }')
    assert hocket("check", out)[0] == 0


def test_a_json_file_keeps_its_order(file, hocket):
    path, out = file.with_suffix(".json"), file.with_name("fixed.json")
    path.write_text(json.dumps(tomllib.loads(DOOR)), encoding="utf-8")
    assert hocket("repair", path, "-o", out)[0] == 0
    expected = tomllib.loads(DOOR)
    expected["agents"]["A2"]["knows"] = ["meet", "ring"]
    assert json.dumps(json.loads(out.read_text(encoding="utf-8"))) == json.dumps(expected)


def test_another_format_is_written_anew_and_an_unknown_one_refused(file, hocket):
    out = file.with_name("fixed.json")
    assert hocket("repair", file, "-o", out)[0] == 0
    assert hk.load_task(out).knows["A2"] == {"meet", "ring"}
    code, _, err = hocket("repair", file, "-o", file.with_name("fixed.dot"))
    assert code == 2 and "a task is written as .toml or .json, got '.dot'" in err


def test_a_machine_file_keeps_its_comments(tmp_path, hocket):
    path, out = tmp_path / "chain.toml", tmp_path / "fixed.toml"
    knows, moves = 'Ann = ["a"]\nBob = ["b"] # alone\n', '0 = { a = "1" }\n1 = { b = "2" }\n'
    text = f'# A chain.\nfinal = ["2"]\n\n[knows]\n{knows}\n[transitions]\n{moves}'
    path.write_text(text, encoding="utf-8")
    assert hocket("repair", path, "-o", out)[0] == 0
    assert out.read_text(encoding="utf-8") == text.replace('["b"] #', '["b", "a"] #')


def test_one_agent_of_a_machine_file_is_overridden_and_the_others_stay(tmp_path, hocket):
    path = tmp_path / "chain.toml"
    path.write_text(
        'final = ["2"]\n[control]\na = ["Ann"]\nb = ["Bob"]\n[transitions]\n0 = { a = "1" }\n1 = { b = "2" }\n',
        encoding="utf-8",
    )
    code, out, _ = hocket("check", path, "--knows", "Bob=a,b", "--json")
    agents = json.loads(out)["agents"]
    assert code == 0 and {name: own["events"] for name, own in agents.items()} == {"Ann": ["a"], "Bob": ["a", "b"]}


def test_a_team_of_any_size_that_is_given_as_parts_needs_nothing():
    found = repair_task(hk.rendezvous(300))
    assert found.added == {} and found.added.cost == 0 and found.added.exact


def test_a_composition_that_cannot_be_enumerated_is_refused_by_its_size_however_large():
    task = hk.rendezvous(10_000)
    with pytest.raises(hk.HocketError, match=r"a composition of up to 10\^6021 states is not enumerated"):
        repair_task(task.with_knows({"A1": ["r"]}))


def test_what_gates_need_has_no_event_too_many_and_is_not_called_cheapest(tmp_path):
    path = tmp_path / "door.toml"
    path.write_text(DOOR)
    task = hk.load_task(path)
    added = repair_task(task).added
    assert hk.check_task(task.with_knows({agent: (*task.knows[agent], *own) for agent, own in added.items()})).ok
    for agent, own in added.items():
        for event in own:
            fewer = {**{name: (*task.knows[name], *more) for name, more in added.items()}}
            fewer[agent] = tuple(other for other in fewer[agent] if other != event)
            less = task.with_knows(fewer)
            try:
                assert not hk.check_task(less).ok
            except hk.HocketError:
                continue
