"""Folders of runs that are made by hand, so that every number and every step of them is known."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import hocket as hk
from hocket.draw.geometry import Shape
from hocket.draw.scene import Area, Scene
from hocket.draw.task_scene import scene_of
from hocket.study.engines import ThreadEngine
from hocket.study.records import Record, Replay, TestEpisodes, TestSummary
from hocket.study.store import keep_records, keep_task, open_store, sum_up

MOVES = {"u": (0, -1), "d": (0, 1), "l": (-1, 0), "r": (1, 0), ".": (0, 0)}
SETTINGS = {"max_episode_steps": 1000, "temperature": 0.02}
MADE = {"hocket": "1.2.3", "python": "3.99"}

# Names that want to be markup, code, or a place to fill.
HOSTILE = "</script><img src=x onerror=alert(1)>"
QUOTED = "\"' onload='alert(2)' {{script}} <!--"

# Two agents that meet at (4, 3) across and down and go on to their goals, both 17 steps after the start.
MEETING = {"A1": "dddrrrr" + "." + "ddddddrrr", "A2": "rddd" + "...." + "ddddrrrrr"}
MEETING_STARTS = [(0.5, 0.5), (3.5, 0.5)]
MEETING_EVENTS = ((4, "r2"), (7, "r1"), (8, "r"), (17, "g1"), (17, "g2"))


def replay(
    scene: Scene, starts: Sequence[tuple[float, float]], ways: Mapping[str, str], events, success=True
) -> Replay:
    """Make an episode of letters for moves; machines step with the events that their agents know."""
    steps = [[MOVES[move] for move in ways[name]] for name in scene.agents]
    moves = np.array(steps, float).transpose(1, 0, 2)  # [T, N, 2]
    places = np.concatenate([np.array(starts, float)[None], moves]).cumsum(axis=0)
    return Replay(success, places, states_after(scene, len(places), events), tuple(events))


def states_after(scene: Scene, length: int, events) -> tuple[tuple[str, ...], ...]:
    """List the states of all machines, step by step."""
    states = {name: machine.initial for name, machine in scene.machines.items()}
    rows = []
    for step in range(length):
        for event in [own for when, own in events if when == step]:
            for name, machine in scene.machines.items():
                states[name] = machine.transitions.get((states[name], event), states[name])
        rows.append(tuple(states.values()))
    return tuple(rows)


def tests(steps: Sequence[int], values: Sequence[int]) -> TestEpisodes:
    """Make tests of which those with 1,000 steps have failed."""
    taken = np.array(values, np.int64)
    return TestEpisodes(np.array(steps, np.int64), taken, taken < 1000)


def record(
    task: str, mark: str, learner: str, seed: int, values: Sequence[int], review: TestSummary | None = None, **more
):
    """Make a record of a run with a test after every 1,000 steps; greedy tests take 2 steps less."""
    steps = [1000 * (place + 1) for place in range(len(values))]
    kinds = {
        "softmax": tests(steps, values),
        "greedy": tests(steps, [value if value == 1000 else value - 2 for value in values]),
    }
    settings = {**SETTINGS, **more}
    return Record(task, mark, learner, seed, steps[-1], settings, kinds, 0.5 + seed, review, MADE)


def meeting_review(scene: Scene, *, wait: int = 0, success: bool = True) -> TestSummary:
    """TestSummary a team of rendezvous-2; a team that waits at the start has all events later."""
    ways = {name: "." * wait + own for name, own in MEETING.items()}
    events = tuple((step + wait, event) for step, event in MEETING_EVENTS)
    softmax = replay(scene, MEETING_STARTS, ways, events, success)
    greedy = replay(scene, MEETING_STARTS, MEETING, MEETING_EVENTS, success)
    return TestSummary(10, 9, (9, 10), np.ones((2, 100), np.int64), {"softmax": softmax, "greedy": greedy})


def drift_scene(name: str = "drift") -> Scene:
    """Make a world without cells: two boats, an island, and a buoy that both must have passed."""
    machine = hk.RewardMachine(initial="out", transitions={("out", "buoy"): "home"}, final={"home"})
    return Scene(
        name,
        6.0,
        3.0,
        ("Ann", "Bo"),
        {"Ann": machine, "Bo": machine},
        {"Ann": ("buoy",), "Bo": ("buoy",)},
        machine,
        (
            Area.disc((3.1, 1.0), 0.6, "#ecbc0a", "island", "I"),
            Area.disc((5.35, 2.35), 0.25, "#df6823", "buoy", "B", [("Bo", "buoy")]),
        ),
        (Shape(0, 2.8, 2, 0.2),),
        description="Two boats drift around an island.",
        verdict="Decomposable: the team machine is bisimilar to the composition of the local reward machines.",
        decomposable=True,
    )


def drift_review(scene: Scene) -> TestSummary:
    """Let two boats drift; their places are no multiples of anything."""
    time = np.linspace(0, 1, 25)
    ann = np.stack([0.333 + 5 * time, 0.5 + 1.8 * time**2], axis=1)
    bo = np.stack([0.4 + 4.9 * time**1.5, 2.6 - 0.4 * np.sin(3 * time)], axis=1)
    places = np.stack([ann, bo], axis=1)
    events = ((24, "buoy"),)
    own = Replay(True, places, states_after(scene, len(places), events), events)
    return TestSummary(4, 4, (4, 4), np.zeros((2, 0), np.int64), {"softmax": own})


def write_study(folder: Path, records: Sequence[Record], tasks: Sequence[hk.Task] = (), scenes: Sequence[Scene] = ()):
    """Write a folder of runs."""
    open_store(folder)
    for task in tasks:
        keep_task(folder, task)
    for scene in scenes:
        keep_task(folder, scene)
    keep_records(folder, ((own, None) for own in records))
    sum_up(folder, records, missing=0, wall_seconds=1.5)
    return folder


def small_study(folder: Path) -> Path:
    """Write three learners on rendezvous-2, two on buttons without reviews, and one in a world without cells."""
    meeting, buttons, drift = hk.load_task("rendezvous-2"), hk.load_task("buttons"), drift_scene()
    scene = scene_of(meeting)
    values = {"dqprm": [900, 400, 120, 44, 30, 25], "iql": [1000] * 6, "optimal": [20] * 6}
    records = [
        record("rendezvous-2", meeting.digest, learner, seed, [own + seed * (own < 1000) for own in line],
               meeting_review(scene, wait=seed, success=learner != "iql"))
        for learner, line in values.items()
        for seed in range(3)
    ]  # fmt: skip
    records += [
        record("buttons", buttons.digest, learner, seed, [1000, 500 + seed, last + seed])
        for learner, last in (("hil", 60), ("dqprm", 30))
        for seed in range(2)
    ]
    records.append(record("drift", drift.digest, "boatswain", 7, [50, 24], drift_review(drift)))
    return write_study(folder, records, [meeting, buttons], [drift])


def hostile_study(folder: Path, name: str) -> Path:
    """Write a study in which every name is one that wants to be markup."""
    events = (f"{name}e", f"{name}f")
    machine = hk.RewardMachine(
        initial=f"{name}s", transitions={(f"{name}s", event): f"{name}t" for event in events}, final={f"{name}t"}
    )
    agents = (f"{name}A", f"{name}B")
    scene = Scene(
        name, 3.0, 3.0, agents, dict.fromkeys(agents, machine), dict.fromkeys(agents, events), machine,
        (Area.rectangle((0, 0, 1, 1), "#df6823", f"{name}place", f"{name}x", [(agents[0], events[0])]),), (),
        has_cells=True, description=f"{name}d", verdict=f"{name}v", notes=(f"{name}n",),
    )  # fmt: skip
    happened = ((1, events[0]),)
    places = np.full((3, 2, 2), 0.5)
    watched = Replay(True, places, states_after(scene, 3, happened), happened)
    review = TestSummary(1, 1, (1, 1), np.zeros((2, 0), np.int64), {"softmax": watched})
    records = [record(name, scene.digest, f"{name}l", seed, [9, 8], review, depth=seed % 2) for seed in range(4)]
    return write_study(folder, records, (), [scene])


class OneByOne(ThreadEngine):
    """Begins a batch when the study has been told of all batches before it."""

    def run(self, batches, reporter, stop):
        for batch in batches:
            yield from super().run([batch], reporter, stop)
