"""Arguments of the wrong kind: every public function and constructor answers with one sentence, or does its work."""

import inspect
import os
import pickle
import re
import warnings
from pathlib import Path

import pytest

import hocket as hk
from hocket.errors import ArgumentError
from hocket.lazy import explain_kinds

NAMES = ("no such thing", "folder", "empty.toml", "\0", "a" * 300)
WRONG = (None, 3, 2.5, [], [1, None], {"A": 1}, {"A1": None}, object(), *NAMES)
MADE = {"Composition", "Gate", "Grid", "IndividualEpisode", "Log", "Task", "TeamEpisode"}  # of the classes
MODULES = {"deep", "errors", "gym", "runtime", "statistics"}
SLOW = {"ask", "explore", "from_aalpy", "from_networkx", "run_study", "register_learner", "survey"}


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """Calls that work, for every public function that needs more than one argument to fail in an interesting place."""
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("arguments"))
    Path("folder").mkdir()
    Path("empty.toml").touch()
    team, knows = hk.sequence("a", "b"), {"A1": {"a"}, "A2": {"a", "b"}}
    control, task = {"a": {"A1"}, "b": {"A2"}}, hk.load_task("rendezvous-2")
    yield {
        "Composition": ({"A1": team},),
        "Gate": ("a", "b"),
        "Grid": (2, 3),
        "IndividualEpisode": (task, "A1"),
        "Log": ((),),
        "Task": (task.name, task.grid, task.agents, task.events, task.machine),
        "TeamEpisode": (task,),
        "cheapest_assignment": (team, ["A1", "A2"], control),
        "check_delays": (hk.decompose(team, knows),),
        "check_machine": (team, knows),
        "compose": (team, team),
        "decompose": (team, knows),
        "distinguish": (team, team),
        "draw_machines": ({"team": team}, "m.svg"),
        "draw_task": (task, "t.svg"),
        "infer": (hk.make_log([[("a", True)]]), knows),
        "label_trajectory": (task, [{"A1": 0, "A2": 3}]),
        "project": (team, {"a"}),
        "repair": (team, knows),
        "save_machine": (team, "m.toml"),
        "save_task": (task, "t.toml"),
        "unfold": (team, {"a": hk.sequence("x")}),
        "write_report": ("folder", "r.html"),
    }
    os.chdir(before)


def spots(function, given):
    """List the arguments of a function that may be replaced: those of the call, and the optional ones."""
    parameters = list(inspect.signature(function).parameters.values())
    named = [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    return [*range(max(len(given), 1)), *named[max(len(given), 1) :]]


def answer(function, *args, **named):
    """Call a function; return what it raised, if that is not a sentence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(*args, **named)
        except hk.HocketError as error:
            return None if str(error) and "\n" not in str(error) else error
        except ImportError:
            return None
        except Exception as error:
            is_incomplete = re.search(r"missing .* required", str(error))  # Python's own sentence about a call
            return None if isinstance(error, TypeError) and is_incomplete else error


@pytest.mark.parametrize("name", sorted(MADE | {name for name in hk.__all__ if name.islower()} - MODULES - SLOW))
def test_a_wrong_kind_of_argument_is_answered_with_one_sentence(name, calls):
    function, given = getattr(hk, name), calls.get(name, ())
    for spot in spots(function, given):
        for wrong in WRONG:
            args = [wrong if place == spot else value for place, value in enumerate(given or [wrong])]
            raised = answer(function, *args, **({} if isinstance(spot, int) else {spot: wrong}))
            assert raised is None, (spot, wrong, raised)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: hk.repair(hk.sequence("a"), {"A1": {"a"}}, cost=[1]), "cost must be a mapping, got [1]"),
        (lambda: hk.TeamEpisode("rendezvous-2", seed="one"), "seed must be a whole number, got 'one'"),
        (lambda: hk.Grid("two", 3), "rows must be a whole number, got 'two'"),
        (lambda: hk.load_world("a" * 300), f"{'a' * 100}…{'a' * 99}: File name too long"),
    ],
)
def test_the_sentence_says_which_argument_and_what_was_received(call, sentence):
    with pytest.raises(hk.HocketError, match=f"^{re.escape(sentence)}$"):
        call()


def test_an_error_that_no_argument_is_to_blame_for_goes_on_as_it_is():
    @explain_kinds
    def fail(number: int, names: "list[str] | None" = None) -> None:
        raise KeyError(number)

    with pytest.raises(KeyError, match="3"):
        fail(3, ["a"])
    with pytest.raises(ArgumentError, match="number must be a whole number, got 'three'"):
        fail("three")
    with pytest.raises(TypeError, match=r"names must be a collection, got \[1\]"):
        fail(3, [1])


def test_public_functions_can_be_pickled():
    assert pickle.loads(pickle.dumps(hk.load_task)) is hk.load_task
