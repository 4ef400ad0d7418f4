"""Teams of like agents: what is said once holds for each of them."""

import re
import tomllib
from pathlib import Path

import pytest

import hocket as hk
from hocket.errors import FormatError
from hocket.task.catalogue import load
from hocket.task.files import MOST_AGENTS, expand_team, task_from

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "format.md").read_text(encoding="utf-8")
BELLS, MINE = re.findall(r"^```toml\n(team = .*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def bells(tmp_path) -> Path:
    path = tmp_path / "bells.toml"
    path.write_text(BELLS, encoding="utf-8")
    return path


def by_hand(count: int) -> dict:
    """Write the task of the page out for a number of agents."""
    numbers = range(1, count + 1)
    return {
        "description": f"{count} agents ring, each its own bell, and then meet.",
        "map": "s.B.M",
        "legend": {"s": "start", "B": "bells", "M": "mat"},
        "memory": [f"ring{i}" for i in numbers],
        "agents": {f"A{i}": {"start": "start", "options": ["bells", f"mat after ring{i}"]} for i in numbers},
        "events": {**{f"ring{i}": f"A{i} at bells" for i in numbers}, "meet": "all at mat"},
        "machine": {
            "parts": {
                f"A{i}": {
                    "final": ["met"],
                    "transitions": {"apart": {f"ring{i}": "rung"}, "rung": {"meet": "met"}},
                }
                for i in numbers
            }
        },
    }


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_a_template_is_what_one_would_write_by_hand(bells, count):
    assert expand_team(tomllib.loads(BELLS), count) == by_hand(count)
    task = hk.load_task(f"{bells}:{count}")
    assert task.name == f"bells-{count}"
    assert task == task_from(by_hand(count), name=f"bells-{count}")
    assert hk.check_task(task).ok


def test_the_number_in_the_file_holds_unless_another_is_chosen(bells):
    assert len(hk.load_task(bells).agents) == 3 and hk.load_task(bells).name == "bells"
    assert len(hk.load_task(f"{bells}:5").agents) == 5


def test_the_command_line_takes_a_size(bells, hocket):
    code, out, err = hocket("check", f"{bells}:4")
    assert code == 0 and "4 agents" in out and not err
    code, out, err = hocket("check", f"{bells}:0")
    assert code == 2 and "team: must be a whole number from 1 to 100,000, got 0" in err


def test_a_task_without_a_team_has_one_size_and_keeps_its_braces(tmp_path):
    document = by_hand(2)
    document["description"] = "{i} of {n}"
    assert task_from(document).description == "{i} of {n}"
    with pytest.raises(FormatError, match="only for a task with `team`"):
        task_from(document, size=3)


@pytest.mark.parametrize("count", [True, 1.0, "3", -1, MOST_AGENTS + 1])
def test_the_number_of_agents_is_a_whole_number_within_bounds(count):
    with pytest.raises(FormatError, match="team: must be a whole number"):
        expand_team({"team": count})


def test_a_name_in_full_and_by_a_number_is_refused():
    with pytest.raises(FormatError, match="'A2' is given twice"):
        expand_team({"team": 3, "agents": {"A{i}": {}, "A2": {}}})


def test_a_template_grows_only_so_far():
    with pytest.raises(FormatError, match="more than 8 MB"):
        expand_team({"team": MOST_AGENTS, "agents": {"A{i}": {"knows": ["x" * 1_000] * 100}}})


def test_a_size_that_no_task_has_is_an_error_that_names_it():
    with pytest.raises(FormatError, match="no built-in task of this name"):
        load("buttons-3")


def test_groups_of_like_agents_have_a_number_each():
    task = task_from(tomllib.loads(MINE))
    assert list(task.agents) == ["miner1", "miner2", "miner3", "miner4", "guard1", "guard2"]
    assert list(task.events)[3:5] == ["dig by miner4", "watch by guard1"]
    assert task.controllers["watch by guard2"] == {"guard2"}
    assert hk.check_task(task, play=False).ok


def test_what_names_two_groups_is_repeated_for_all_pairs():
    table = {"team": {"a": 2, "b": 2}, "events": {"{a} {b}": "{a} and {b} of {n} ({n.a})"}, "memory": ["{b}{a}", "x"]}
    written = expand_team(table)
    assert written["events"] == {f"a{i} b{j}": f"a{i} and b{j} of 4 (2)" for i in (1, 2) for j in (1, 2)}
    assert written["memory"] == ["b1a1", "b2a1", "b1a2", "b2a2", "x"]


@pytest.mark.parametrize("team", [{}, {"n": 1}, {"a b": 1}, {"a": True}, {"a": 60_000, "b": 60_000}])
def test_groups_that_make_no_sense_are_refused(team):
    with pytest.raises(FormatError, match=r"^team"):
        expand_team({"team": team})


def test_a_size_is_chosen_for_a_team_of_one_group_only(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(MINE, encoding="utf-8")
    with pytest.raises(FormatError, match="whose `team` is a number"):
        load(f"{path}:3")
