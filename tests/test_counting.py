"""Transitions that count, against an interpreter that counts as it goes."""

import random

import pytest

import hocket as hk
from hocket.errors import FormatError
from hocket.machine.formats.schema import MOST_COPIES, MOST_COUNTERS, machine_from
from hocket.task.files import task_from


def interpret(table: dict, trace: str) -> list[str | None]:
    """Follow a trace state by state, with a count for each transition that counts; None where it is undefined."""
    state, counts, seen = table["initial"], {}, []
    for event in trace:
        target = table["transitions"].get(state, {}).get(event)
        if target is None:
            return [*seen, None]
        if isinstance(target, dict):
            key = state, event
            counts[key] = counts.get(key, 0) + 1
            last = counts[key] == target["times"]
            counts[key] = 0 if last else counts[key]
            target = target["to"] if last else target.get("otherwise", state)
        state = target
        seen.append(state)
    return seen


def random_table(rng: random.Random) -> dict:
    states = [f"s{number}" for number in range(rng.randint(2, 4))]
    rows: dict[str, dict] = {state: {} for state in states}
    for state in states:
        for event in "abc":
            chance = rng.random()
            if chance < 0.4:
                rows[state][event] = rng.choice([*states, "end"])
            elif chance < 0.6:
                rows[state][event] = {"to": rng.choice([*states, "end"]), "times": rng.randint(1, 3)}
                if rng.random() < 0.6:
                    rows[state][event]["otherwise"] = rng.choice(states)
    return {"initial": "s0", "final": ["end"], "states": [*states, "end"], "transitions": rows}


@pytest.mark.parametrize("seed", range(40))
def test_a_machine_that_counts_does_what_an_interpreter_does(seed):
    rng = random.Random(seed)
    table = random_table(rng)
    machine = machine_from(table)
    for _ in range(50):
        trace = "".join(rng.choice("abc") for _ in range(12))
        state: str | None = machine.initial
        for event, expected in zip(trace, interpret(table, trace), strict=False):
            state = machine.transitions.get((state, event)) if event in machine.events else None
            assert (None if state is None else state.split(", ")[0]) == expected
            assert (state in machine.final) == (expected == "end")


def test_copies_have_readable_names_and_forget_counts_that_no_longer_matter():
    machine = machine_from(
        {
            "final": ["home"],
            "transitions": {
                "shelf": {"load": {"to": "full", "times": 3, "otherwise": "road"}, "rest": "full"},
                "road": {"back": "shelf"},
                "full": {"go": "home"},
            },
        }
    )
    assert list(machine.states) == [
        "shelf",
        "shelf, load 1 of 3",
        "shelf, load 2 of 3",
        "road, load 1 of 3",
        "road, load 2 of 3",
        "full",
        "home",
    ]
    assert list(machine.events) == ["load", "rest", "back", "go"]


def test_a_reward_is_paid_when_a_transition_leads_on():
    machine = machine_from(
        {
            "final": [],
            "transitions": {"a": {"x": {"to": "b", "times": 2}, "y": "b"}},
            "rewards": {"a": {"x": 5, "y": 1}},
        }
    )
    assert {key: own for key, own in machine.rewards.items() if own} == {
        ("a, x 1 of 2", "x"): 5,
        ("a", "y"): 1,
        ("a, x 1 of 2", "y"): 1,
    }


def test_a_state_that_no_trace_reaches_stays_one():
    machine = machine_from({"final": ["c"], "transitions": {"a": {"x": {"to": "c", "times": 2}}, "lost": {"x": "c"}}})
    assert list(machine.unreachable) == ["lost"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"times": 2}, "a.x.to: is missing"),
        ({"to": "b", "times": True}, "whole number from 1 to 1,000, got True"),
        ({"to": "b", "times": 10**9}, "whole number from 1 to 1,000"),
        ({"to": "b", "times": 2, "else": "a"}, "a.x.else: unknown key"),
    ],
)
def test_a_table_that_does_not_count_is_refused(row, said):
    with pytest.raises(FormatError, match=said):
        machine_from({"final": ["b"], "transitions": {"a": {"x": row}}})


def test_counting_is_bounded():
    many = {f"e{number}": {"to": "b", "times": 1000} for number in range(3)}
    with pytest.raises(FormatError, match=f"more than {MOST_COPIES:,} states"):
        machine_from({"final": ["b"], "transitions": {"a": many}})
    more = {f"e{number}": {"to": "b", "times": 2} for number in range(MOST_COUNTERS + 1)}
    with pytest.raises(FormatError, match=f"at most {MOST_COUNTERS} transitions"):
        machine_from({"final": ["b"], "transitions": {"a": more}})


def test_a_copy_with_the_name_of_another_state_is_refused():
    rows = {"a": {"x": {"to": "b", "times": 2}, "y": "a, x 1 of 2"}, "a, x 1 of 2": {"y": "a"}}
    with pytest.raises(FormatError, match="the name of another state"):
        machine_from({"final": ["b"], "transitions": rows})


def shuttle(**load) -> hk.Task:
    """Build the task of one agent that loads at a shelf."""
    return task_from(
        {
            "map": "1.S\n",
            "legend": {"S": "shelf"},
            "agents": {"A": {"start": "1", "knows": ["load", "back"]}},
            "events": {"load": "A at shelf", "back": "A not at shelf"},
            "machine": {"final": ["full"], "transitions": {"shelf": {"load": load}, "road": {"back": "shelf"}}},
        }
    )


def test_check_notes_an_event_that_repeats_while_nobody_moves():
    notes = hk.check_task(shuttle(to="full", times=3)).notes
    assert [note for note in notes if note.startswith("load may happen several times in one step")]
    assert hk.check_task(shuttle(to="full", times=3, otherwise="road")).notes == ()
