"""Where agents have to be for an event: what sentences mean, and that they are written as they are read."""

import random

import numpy as np
import pytest

import hocket as hk
from hocket.errors import TaskError
from hocket.task.conditions import ANYWHERE, parse_conditions, write_conditions

GRID = hk.Grid(1, 6, frozenset({5}), {"red": {0}, "blue": {1}, "dark blue": {2}, "or": {3}, "red or blue": {4}})
AT = {name: hk.Condition(name) for name in GRID.places}
AWAY = {name: hk.Condition(name, inside=False) for name in GRID.places}


def read(sentence: str, places=("red", "blue", "dark blue")) -> dict[str, hk.Condition]:
    return parse_conditions(sentence, ["A1", "A2"], places, "events.go")


@pytest.mark.parametrize(
    ("sentence", "meant"),
    {
        "A1 at red or blue": {"A1": AT["red"] | AT["blue"]},
        "A1 at red or at blue": {"A1": AT["red"] | AT["blue"]},
        "A1 at red or not at blue": {"A1": AT["red"] | AWAY["blue"]},
        "A1 not in red or in dark blue": {"A1": AWAY["red"] | AT["dark blue"]},
        "A1 at red or blue or dark blue": {"A1": AT["red"] | AT["blue"] | AT["dark blue"]},
        "all at red or blue": dict.fromkeys(("A1", "A2"), AT["red"] | AT["blue"]),
        "A1 at red or blue and A2 at red": {"A1": AT["red"] | AT["blue"], "A2": AT["red"]},
        "A1 and A2 at red or blue": dict.fromkeys(("A1", "A2"), AT["red"] | AT["blue"]),
    }.items(),
)
def test_or_joins_places_of_one_agent(sentence, meant):
    assert read(sentence) == meant


@pytest.mark.parametrize(
    ("sentence", "said"),
    {
        "A1 at red or A2 at blue": "write two events, since each agent must be able to propose on its own",
        "A1 not at red or blue": "say 'or at blue' or 'or not at blue'",
        "A1 at red or green": "place 'green' does not exist",
        "A1 at red or": "expected 'and' before ' or'",
        "A1 at red or anywhere": "place",
    }.items(),
)
def test_what_or_cannot_join_is_refused_with_a_sentence(sentence, said):
    with pytest.raises(TaskError, match=said):
        read(sentence)


def test_a_condition_of_several_ways_holds_where_one_of_them_does():
    rng = random.Random(0)
    for _ in range(200):
        ways = [rng.choice((AT, AWAY))[rng.choice(list(GRID.places))] for _ in range(rng.randint(2, 4))]
        joined = ways[0]
        for way in ways[1:]:
            joined |= way
        expected = [
            cell not in GRID.walls and any((cell in GRID.places[way.place]) == way.inside for way in ways)
            for cell in range(GRID.cells)
        ]
        flags = [now for now, before in joined.masks(GRID, "events.go") if before is None]
        assert np.logical_or.reduce(flags).tolist() == expected
        assert set(joined.ways) == set(ways) and set(joined.places) == {way.place for way in ways}


def test_joining_is_associative_and_anywhere_swallows_everything():
    one, two, three = AT["red"], AWAY["blue"], AT["or"]
    assert (one | two) | three == one | (two | three)
    assert one | one == one
    assert one | ANYWHERE == ANYWHERE == ANYWHERE | two | three


@pytest.mark.parametrize("joined", [AT["red"] | AT["blue"], AWAY["red"] | AT["or"], AT["red or blue"] | AWAY["or"]])
def test_a_task_is_read_as_it_was_written_whatever_places_are_called(joined, tmp_path):
    machine = hk.RewardMachine(initial="0", transitions={("0", "go"): "1"}, final={"1"})
    task = hk.Task("t", GRID, {"A1": hk.Agent(0, ["go"])}, {"go": {"A1": joined}}, machine)
    for suffix in ("toml", "json"):
        hk.save_task(task, tmp_path / f"t.{suffix}")
        again = hk.load_task(tmp_path / f"t.{suffix}")
        assert again == task and again.digest == task.digest
    assert np.array_equal(task.where("A1", "go"), again.where("A1", "go"))


def test_agents_with_the_same_alternatives_are_named_together():
    joined = AT["red"] | AWAY["blue"]
    assert write_conditions({"A1": joined, "A2": joined}) == "A1 and A2 at red or not at blue"
    assert read(write_conditions({"A1": joined, "A2": AT["red"]})) == {"A1": joined, "A2": AT["red"]}
