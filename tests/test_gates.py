"""Gates that open, close again, and are held open by a teammate."""

import pickle
import random

import pytest

import hocket as hk
from hocket.draw.scene import Moment, read_scene
from hocket.draw.task_scene import scene_of
from hocket.errors import FormatError, TaskError
from hocket.task.files import task_from
from hocket.task.tables import compile_task

HELD = {
    "map": "1.PD2\n..###\n",
    "legend": {"P": "plate", "D": "door"},
    "agents": {"A1": {"start": "1", "knows": ["on", "off", "in"]}, "A2": {"start": "2", "knows": ["on", "off", "in"]}},
    "gates": {"door": {"A2": {"open": "on", "close": "off"}}},
    "events": {"on": "A1 at plate", "off": "A1 not at plate", "in": "A2 at door"},
    "machine": {
        "final": ["done"],
        "transitions": {"away": {"on": "held"}, "held": {"off": "away", "in": "done"}},
    },
}


def held(**gate) -> hk.Task:
    """Build the task in which A1 holds a door open for A2, with another gate if one is given."""
    return task_from(HELD | {"gates": {"door": {"A2": gate}}} if gate else HELD)


def machine_of(seed: int) -> hk.RewardMachine:
    """Draw a machine over four events."""
    rng = random.Random(seed)
    states = [str(number) for number in range(rng.randint(2, 4))]
    moves = {(state, event): rng.choice(states) for state in states for event in "abcd" if rng.random() < 0.4}
    return hk.RewardMachine(initial="0", transitions=moves, final=(), states=states, events=list("abcd"))


def traces_to(machine: hk.RewardMachine, depth: int):
    """List all short traces with the state that they lead to."""
    found = [("", machine.initial)]
    for trace, state in found:
        if len(trace) < depth:
            found += [
                (trace + event, machine.step(state, event))
                for event in "abcd"
                if machine.step(state, event) is not None
            ]
    return found


@pytest.mark.parametrize("seed", range(60))
def test_a_gate_is_as_the_last_of_its_events_left_it_on_every_trace(seed):
    machine = machine_of(seed)
    gate = hk.Gate("a" if seed % 2 else ("a", "b"), "c", starts_open=seed % 3 == 0)
    seen: dict[str, set[bool]] = {}
    for trace, state in traces_to(machine, depth=7):
        own = [event for event in trace if event in gate.events]
        seen.setdefault(state, set()).add(own[-1] in gate.opens if own else gate.starts_open)
    told = set().union(*seen.values())
    if len(told) == 1:
        with pytest.raises(TaskError, match="can never"):
            gate.is_open(machine, "gates.door.A")
    elif any(len(both) == 2 for both in seen.values()):
        with pytest.raises(TaskError, match="both lead to"):
            gate.is_open(machine, "gates.door.A")
    else:
        flags = dict(zip(machine.states, gate.is_open(machine, "gates.door.A").tolist(), strict=True))
        assert all(both == {flags[state]} for state, both in seen.items())


def test_a_teammate_holds_a_gate_open():
    task = held()
    assert task.closed_regions("A2") == [["door"], [], []] and task.closed_regions("A1") == [[], [], []]
    assert hk.check_task(task).ok
    assert task.needs["off"] == {"A1", "A2"}


def test_a_gate_that_closes_behind_an_agent_lets_it_stay_or_step_out():
    tables = compile_task(held())
    door, away = 3, 0
    moves = tables.next_cell[tables.world[1], tables.dynamics[1, away]]
    assert moves[4, 3, 0] == 4  # left into the closed door goes nowhere
    assert moves[door, 4, 0] == door and moves[door, 1, 0] == 4


@pytest.mark.parametrize(
    ("gate", "closed"),
    [
        ({"close": "in"}, [[], [], ["door"]]),
        ({"open": "off", "close": "on", "starts_open": True}, [[], ["door"], ["door"]]),
        ({"open": ["on"], "close": ["off"], "starts_open": False}, [["door"], [], []]),
        ({"starts_open": False}, [["door"], ["door"], ["door"]]),  # closed for good
    ],
)
def test_what_only_closes_or_says_so_is_open_at_the_start(gate, closed):
    assert held(**gate).closed_regions("A2") == closed


@pytest.mark.parametrize(
    "gate",
    [
        {},
        {"close": "on"},
        {"open": ["on", "in"], "close": "off"},
        {"open": "off", "close": "on", "starts_open": True},
        {"starts_open": False},
    ],
)
def test_gates_are_read_as_they_are_written_and_travel_whole(gate, tmp_path):
    task = held(**gate)
    hk.save_task(task, tmp_path / "task.toml")
    again = hk.load_task(tmp_path / "task.toml")
    assert again.agents == task.agents and again.digest == task.digest
    assert pickle.loads(pickle.dumps(task)).gates == task.gates
    scene = scene_of(task)
    (tmp_path / "scene.json").write_text(scene.text, encoding="utf-8")
    assert read_scene(tmp_path / "scene.json").areas == scene.areas


def test_a_gate_that_an_event_opens_for_good_is_the_same_as_the_event():
    assert hk.Gate("on").short == "on" and hk.Gate.of("on") == hk.Gate(("on",), ())
    assert held(open="on") == held(open=["on"])
    assert dict(held(open="in").agents["A2"].gates) == {"door": "in"}


def test_the_scene_shows_a_gate_closed_just_where_the_task_has_it_closed():
    for gate in ({}, {"close": "in"}):
        task = held(**gate)
        scene = scene_of(task)
        (door,) = (area for area in scene.areas if area.gates)
        for state, regions in zip(task.machines["A2"].states, task.closed_regions("A2"), strict=True):
            assert scene.bars(door, "A2", state) == bool(regions)
        cells = dict.fromkeys(task.agents, 0)
        assert bool(scene.closed(Moment(cells))) == (not gate)


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        (hk.Gate("on"), "until on"),
        (hk.Gate("on", "off"), "until on, and again from off on"),
        (hk.Gate((), ("off", "in")), "from off or in on"),
        (hk.Gate("on", "off", starts_open=True), "from off on until on"),
        (hk.Gate(starts_open=False), "for good"),
    ],
)
def test_a_gate_says_when_it_is_closed(gate, said):
    assert str(gate) == said
    task = held(open=list(gate.opens), close=list(gate.closes)) if gate.opens and gate.closes else None
    if task is not None and not gate.starts_open:
        assert [note for area in scene_of(task).areas for note in area.notes] == [f"closed to A2 {said}"]


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        ({"open": 7}, "gates.door.A2.open: must be a name or a list of names"),
        ({"open": "on", "starts_open": "yes"}, "gates.door.A2.starts_open: must be true or false, got 'yes'"),
        ({"open": "on", "clse": "off"}, "gates.door.A2.clse: unknown key"),
        ({"open": "no"}, "event 'no' does not exist"),
    ],
)
def test_a_gate_that_means_nothing_is_refused(gate, said):
    with pytest.raises((FormatError, TaskError), match=said):
        held(**gate)
