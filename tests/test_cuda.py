"""Training on a graphics processor, by numba's simulator of one: the same numbers, whatever runs side by side.

With NUMBA_ENABLE_CUDASIM=0 these tests run on the graphics processor of this machine.
"""

import csv
import json
import os
import subprocess
import sys
from importlib import import_module
from threading import Event, Thread

import numpy as np
import pytest

import hocket as hk
from hocket.learn import benchmark
from hocket.learn.batches import Batch
from hocket.learn.catalogue import LEARNERS, default_learner
from hocket.study import engines
from hocket.study.engines import DeviceEngine, make_engine
from hocket.study.running import run_study
from hocket.task.tables import compile_task
from worlds import doorbell, ferry, gallery, gatehouse, line, meeting

pytest.importorskip("numba_cuda")
from hocket.learn.cuda import device, training
from hocket.learn.cuda.block import DeviceJob
from hocket.learn.cuda.training import BLOCKS
from hocket.learn.dqprm import cuda as dqprm

BRIEF = {"max_episode_steps": 12, "test_every": 60, "test_episodes": 2, "temperature": 0.3}
SEEDS = (3, 0, 2**62 + 1)  # not in order, and one of many bits


@pytest.fixture(scope="module", autouse=True)
def patient_simulator():
    """Let numba's simulator wait for its threads; it asks them without end, which takes half of the processor."""

    def is_alive(thread: Thread) -> bool:
        thread.join(0.1)
        return Thread.is_alive(thread)

    with pytest.MonkeyPatch.context() as patch:
        if device.SIMULATED:
            patch.setattr(import_module("numba.cuda.simulator.kernel").BlockThread, "is_alive", is_alive)
        yield


def both(task: hk.Task, learner: str, seeds=SEEDS, steps: int = 180, **changes):
    """Train on the processor and on the device."""
    about = (task, learner, seeds, steps)
    brief = BRIEF | changes
    return hk.train(*about, threads=1, settings=brief), hk.train(*about, device="cuda", settings=brief)


def assert_same(here, there):
    """Require runs to be the same: seeds, steps, tests in every detail, and what was learnt, to the last bit."""
    assert [run.seed for run in here] == [run.seed for run in there]
    for one, other in zip(here, there, strict=True):
        assert one.steps == other.steps and one.settings == other.settings
        assert tuple(one.all_tests) == tuple(other.all_tests)
        assert one.policy.arrays.keys() == other.policy.arrays.keys()
        for name, array in one.policy.arrays.items():
            np.testing.assert_array_equal(array, other.policy.arrays[name])


def learnt(runs) -> bool:
    """Say whether anything was learnt at all, without which being the same means nothing."""
    return any(np.count_nonzero(run.policy.arrays["q"]) > 3 for run in runs)


def long_way(stops: int) -> hk.Task:
    """Let an agent go up and down a corridor, so that its machine has many states."""
    places = ("left", "right")
    names = [f"{places[stop % 2]} {stop}" for stop in range(stops)]
    return hk.Task(
        "long way",
        line(3, left=0, right=2),
        {"A1": hk.Agent(1, tuple(names), memory=tuple(names[:2]))},
        {name: {"A1": hk.Condition(name.split()[0])} for name in names},
        hk.RewardMachine(
            initial="0",
            transitions={(str(stop), name): str(stop + 1) for stop, name in enumerate(names)},
            final={str(stops)},
        ),
        0.1,
    )


@pytest.mark.parametrize(
    ("task", "learner", "changes"),
    [
        (meeting(0.1), "dqprm", {}),
        (meeting(0.1), "dqprm", {"counterfactual": False, "learning_rate_decay": 1e-3, "temperature_decay": 1e-3}),
        (gatehouse(), "dqprm", {}),
        (gatehouse(), "dqprm", {"wait_for_team": True}),
        (long_way(4), "dqprm", {}),
        (long_way(6), "dqprm", {}),
        (long_way(8), "dqprm", {}),
        (long_way(9), "dqprm", {}),
        (meeting(0.1), "iql", {}),
        (meeting(0.1), "iql", {"bootstrap_past_end": False}),
        (meeting(0.1), "cqrm", {}),
        (meeting(0.1), "cqrm", {"counterfactual": False}),
        (gallery(0.1), "dqprm", {}),
        (ferry(0.1), "dqprm", {}),
        (gallery(0.1), "iql", {}),
        (ferry(0.1), "cqrm", {}),
        (doorbell(0.1), "dqprm", {}),
        (doorbell(0.1), "dqprm", {"wait_for_team": True}),
        (doorbell(0.1), "iql", {}),
        (doorbell(0.1), "cqrm", {}),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "name", None),
)
def test_the_device_learns_what_the_processor_learns_bit_for_bit(task, learner, changes):
    here, there = both(task, learner, **changes)
    assert_same(here, there)
    assert learnt(here)


def test_gates_and_machines_of_all_widths_are_among_what_was_compared():
    widths = {}
    for task in (meeting(0.1), gatehouse(), long_way(4), long_way(6), long_way(8), long_way(9)):
        tables = compile_task(task)
        own = BLOCKS["dqprm"](tables, [DeviceJob(LEARNERS["dqprm"].settings(), 0)])
        widths[int(tables.states.max()), own.q.shape[4]] = own.is_fast
        if task.name == gatehouse().name:
            assert tables.dynamics.max() > 0
    widened = {(states, width): fast for (states, width), fast in widths.items() if states > 4}
    assert widened == {(5, 4): True, (7, 8): True, (9, 8): True, (10, 10): False}, "final states take no room"


def test_runs_with_other_settings_and_seeds_train_side_by_side(tmp_path):
    sweep = {"sync_probability": [0.2, 0.7, 1.0], "learning_rate": [0.8, 0.3], "discount": [0.9, 1.0], **BRIEF}
    study = hk.Study([meeting(0.1)], ["dqprm"], seeds=3, steps=120, settings=sweep)
    here = run_study(study, tmp_path / "here")
    there = run_study(study, tmp_path / "there", engine=DeviceEngine())
    assert len(here.records) == len(there.records) == 36
    assert (tmp_path / "here/curves.csv").read_text() == (tmp_path / "there/curves.csv").read_text()
    for one, other in zip(here.records, there.records, strict=True):
        assert one.key == other.key and one.test_summary.visits.tolist() == other.test_summary.visits.tolist()
        ours, theirs = here.policy(one), there.policy(other)
        np.testing.assert_array_equal(ours.arrays["q"], theirs.arrays["q"])


def test_chunks_have_no_part_in_what_is_learnt(monkeypatch):
    here = hk.train(meeting(0.1), "dqprm", seeds=7, steps=130, threads=1, settings=BRIEF)
    monkeypatch.setattr(training, "LARGEST_CHUNK", 2 * 3)
    chunks = []
    whole = training._train_chunk
    monkeypatch.setattr(training, "_train_chunk", lambda chunk, *rest: (chunks.append(chunk), whole(chunk, *rest))[1])
    assert_same(here, hk.train(meeting(0.1), "dqprm", seeds=7, steps=130, device="cuda", settings=BRIEF))
    assert [sum(len(part.indices) for part in chunk) for chunk in chunks] == [3, 3, 1]


def test_a_chunk_takes_no_more_memory_than_there_is(monkeypatch):
    tables = compile_task(meeting())
    size = dqprm.DqprmDeviceBlock.size(tables)
    block = dqprm.DqprmDeviceBlock(tables, [DeviceJob(LEARNERS["dqprm"].settings(), seed) for seed in range(5)])
    assert size * 5 >= block.q.nbytes
    monkeypatch.setattr(training, "free_memory", lambda: size)
    with pytest.raises(hk.HocketError, match=r"dqprm would need [\d,]+ bytes a run on the device, which has [\d,]+$"):
        hk.train(meeting(), "dqprm", seeds=2, steps=10, device="cuda")


def test_policies_are_kept_of_the_seeds_that_were_asked_for(tmp_path):
    runs = hk.train(meeting(), "dqprm", seeds=4, steps=60, device="cuda", keep_policies=2, settings=BRIEF)
    assert [sorted(run.policy.arrays) for run in runs] == [["q"], ["q"], [], []]
    here = hk.train(meeting(), "dqprm", seeds=4, steps=60, keep_policies=2, settings=BRIEF)
    assert_same(here, runs)
    study = hk.Study([meeting()], ["dqprm"], seeds=4, steps=60, settings=BRIEF)
    results = run_study(study, tmp_path, engine=DeviceEngine(policies=2))
    assert [results.policy(record) is not None for record in results.records] == [True, True, False, False]
    assert [record.test_summary is not None for record in results.records] == [True, True, False, False]
    section = hk.summarize(results).sections[0]
    assert section.groups[0].seeds == (0, 1, 2, 3)
    assert section.groups[0].bounds.episodes == 200
    told = []
    run_study(study, tmp_path, engine=DeviceEngine(), watch=told.append)
    assert told == []  # a policy that nobody asked to keep is not missed
    kept = sorted((tmp_path / "policies").iterdir())
    kept[0].unlink()
    again = run_study(study, tmp_path, engine=DeviceEngine(), watch=told.append)
    assert told[-1].all_steps == 60 * 2  # but one that was kept is, and its run is made again
    assert sorted((tmp_path / "policies").iterdir()) == kept and len(again.records) == 4


def test_a_study_that_was_stopped_goes_on_with_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "LARGEST_CHUNK", 2 * 2)
    study = hk.Study([meeting()], ["dqprm"], seeds=6, steps=120, settings=BRIEF)
    stop, told = Event(), []

    def watch(update):
        told.append(update)
        if update.jobs == 2:
            stop.set()

    results = run_study(study, tmp_path, engine=DeviceEngine(), watch=watch, stop=stop)
    assert [record.seed for record in results.records] == [0, 1]
    assert told[-1].all_jobs == 6 and 0 < told[-1].steps < told[-1].all_steps
    again = []
    results = run_study(study, tmp_path, engine=DeviceEngine(), watch=again.append)
    assert [record.seed for record in results.records] == [0, 1, 2, 3, 4, 5]
    assert again[-1].jobs == 6 and again[-1].steps == again[-1].all_steps == 4 * 2 * 120
    assert set(again[-1].medians) == {study.groups()[0].label}


def test_a_wish_to_stop_is_heard_while_a_chunk_is_written_down(tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "TOGETHER", 2)  # runs that are written down before anybody looks
    study = hk.Study([meeting()], ["dqprm"], seeds=7, steps=120, settings=BRIEF)  # all in one chunk
    stop, told = Event(), []

    def watch(update):
        told.append(update)
        if update.jobs == 4:
            stop.set()

    results = run_study(study, tmp_path / "broken", engine=DeviceEngine(policies=1), watch=watch, stop=stop)
    assert told[-1].steps == told[-1].all_steps  # all have trained ...
    assert [record.seed for record in results.records] == [0, 1, 2, 3]  # ... and those that were written are kept
    broken, whole = (tmp_path / name / "curves.csv" for name in ("broken", "whole"))
    with broken.open(newline="") as file:
        assert list(dict.fromkeys(row["seed"] for row in csv.DictReader(file))) == ["0", "1", "2", "3"]
    for name in ("broken", "whole"):
        run_study(study, tmp_path / name, engine=DeviceEngine(policies=1))
    assert broken.read_bytes() == whole.read_bytes()


def test_a_wish_to_stop_is_heard_between_the_reviews_of_runs(monkeypatch):
    batch = Batch(meeting(), "dqprm", LEARNERS["dqprm"].settings(**BRIEF), range(5), 60)
    stop, reviewed = Event(), []

    def finish(_, __, run):
        reviewed.append(run.seed)
        if run.seed == 2:
            stop.set()
        return run

    monkeypatch.setattr(engines, "finish", finish)
    [piece] = DeviceEngine().run([batch], lambda _: lambda *_: None, stop)
    assert [run.seed for run in piece] == reviewed == [0, 1, 2]


def test_training_that_is_told_to_stop_says_how_far_it_got():
    stop, told = Event(), []

    def progress(steps):
        told.append(steps)
        if sum(told) >= 60 * 2 * 3:
            stop.set()

    runs = hk.train(
        meeting(), "dqprm", seeds=3, steps=10**6, device="cuda", progress=progress, stop=stop, settings=BRIEF
    )
    assert [run.steps for run in runs] == [sum(told) // 6] * 3
    assert all(len(run.all_tests) == run.steps // 60 * 4 for run in runs)


def test_no_room_on_the_device_is_a_sentence(monkeypatch):
    class Full:
        CudaAPIError = MemoryError

        @staticmethod
        def device_array(shape, kind):
            raise MemoryError("out of memory")

    monkeypatch.setattr(device, "SIMULATED", False)
    monkeypatch.setattr(device, "cuda", type("cuda", (), {"driver": Full, "device_array": Full.device_array}))
    with pytest.raises(hk.HocketError, match=r"the device has no room for an array of shape \(2, 3\): out of memory"):
        device.zeros((2, 3))


def test_learners_that_the_device_lacks_train_on_threads_beside(tmp_path):
    study = hk.Study([meeting()], ["dqprm", "optimal"], seeds=2, steps=60, settings=BRIEF)
    results = run_study(study, tmp_path, engine=DeviceEngine())
    assert [record.learner for record in results.records] == ["dqprm", "dqprm", "optimal", "optimal"]
    with pytest.raises(hk.HocketError, match="hil cannot train on the device cuda"):
        hk.train(hk.load_task("rendezvous-2"), "hil", seeds=1, steps=10, device="cuda")


def test_a_study_of_which_the_device_trains_nothing_is_refused(hocket):
    code, out, err = hocket("train", "rendezvous-2", "--learner", "optimal,hil", "--device", "cuda")
    assert (code, out) == (2, "")
    said = "hocket: optimal cannot train on the device cuda (known: dqprm, iql, cqrm)"
    assert " ".join(err.split()) == said


def test_where_no_learner_is_named_the_device_has_a_default_of_its_own(hocket):
    assert [learner.name for learner in LEARNERS.values() if "cuda" in learner.devices] == [*BLOCKS]
    assert default_learner("cuda") in BLOCKS and default_learner("cpu") not in BLOCKS
    assert_same(
        hk.train(meeting(), "dqprm", 2, 60, settings=BRIEF),
        hk.train(meeting(), seeds=2, steps=60, device="cuda", settings=BRIEF),
    )
    words = ("train", "rendezvous-2", "--seeds", "2", "--steps", "30", "--set", "test_every=30", "--json")
    code, out, err = hocket(*words, "--device", "cuda")
    assert (code, err) == (0, "Training with dqprm, the default on cuda.\n")
    assert [row["learner"] for row in json.loads(out)["learners"]] == ["dqprm"]
    code, out, err = hocket(*words, "--learner", "dqprm", "--device", "cuda")
    assert (code, err) == (0, "")
    code, out, err = hocket(*words, "--learner", "sweep", "--device", "cuda")
    assert (code, out) == (2, "")
    assert err == "hocket: sweep cannot train on the device cuda (known: dqprm, iql, cqrm)\n"
    code, out, err = hocket(*words)
    assert (code, err) == (0, "") and [row["learner"] for row in json.loads(out)["learners"]] == ["sweep"]


def test_a_sweep_from_the_command_line_has_curves_quartiles_and_a_report(hocket, tmp_path):
    values = [f"{(number + 1) / 20:g}" for number in range(16)]
    settings = ("--set", f"sync_probability={','.join(values)}", "--set", "test_every=30", "max_episode_steps=10")
    words = ("train", "rendezvous-2", "--seeds", "3", "--steps", "60", *settings, "--device", "cuda", "--json")
    code, out, _ = hocket(*words, "--out", tmp_path)
    rows = json.loads(out)["learners"]
    assert code == 0 and [row["settings"] for row in rows] == [{"sync_probability": float(own)} for own in values]
    assert all(row["seeds"] == 3 and len(row["softmax"]["quartiles"]) == 3 for row in rows)
    table = list(csv.DictReader((tmp_path / "curves.csv").read_text().splitlines()))
    assert len(table) == 16 * 3 * 2 * 2 and {row["sync_probability"] for row in table} == {
        *map(str, map(float, values))
    }
    assert hocket("report", tmp_path)[0] == 0
    page = (tmp_path / "report.html").read_text()
    assert all(f"dqprm, sync_probability={own}" in page for own in values)


def test_trials_of_a_table_are_those_of_a_list():
    here, there = both(meeting(), "dqprm", seeds=1, steps=120)
    listed, table = here[0], there[0]
    assert table.all_tests[-1] == listed.all_tests[-1] and table.all_tests[1:6:2] == listed.all_tests[1:6:2]
    for kind in ("softmax", "greedy"):
        for one, other in zip(listed.tests(kind)[:3], table.tests(kind)[:3], strict=True):
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype
    with pytest.raises(IndexError):
        table.all_tests[len(table.all_tests)]


def test_the_command_line_trains_on_the_device(hocket, tmp_path):
    words = (
        "train",
        "rendezvous-2",
        "--learner",
        "dqprm",
        "--seeds",
        "3",
        "--steps",
        "60",
        "--set",
        "test_every=30",
        "max_episode_steps=10",
    )
    code, out, err = hocket(*words, "--device", "cuda", "--policies", "1", "--out", tmp_path, "--json")
    assert code == 0 and '"seeds": 3' in out
    assert len(list((tmp_path / "policies").iterdir())) == 1 and len(list((tmp_path / "runs").iterdir())) == 3
    assert hocket(*words, "--device", "gpu")[0] == 2
    code, _, err = hocket(*words, "--policies", "1")
    assert code == 2 and err.strip().endswith(
        "a number of policies goes with --device cuda; the device cpu keeps all of them"
    )
    with pytest.raises(hk.HocketError, match="do not go together"):
        make_engine("dask", "tcp://127.0.0.1:1", device="cuda")


def test_the_benchmark_measures_the_device_and_compares_bits(hocket, monkeypatch):
    for name, value in {"DEVICE_LANES": (32,), "STEPS": 20, "PRACTICE": 50}.items():
        monkeypatch.setattr(benchmark, name, value)
    monkeypatch.setattr(benchmark, "ROUND", 1e-3)
    monkeypatch.setattr(benchmark, "ROUNDS", 1)
    code, out, err = hocket("bench", "--device", "cuda", "--tasks", "rendezvous-2")
    assert code == 0, err
    assert "rendezvous-2: dqprm, 32 lanes" in out and "bit for bit" in out and "NOT" not in out


@pytest.mark.skipif(not device.SIMULATED, reason="there is a graphics processor")
def test_without_a_graphics_processor_there_is_one_sentence(tmp_path):
    command = [
        sys.executable,
        "-m",
        "hocket",
        "train",
        "rendezvous-2",
        "--seeds",
        "1",
        "--device",
        "cuda",
    ]
    surroundings = os.environ | {"NUMBA_ENABLE_CUDASIM": "0", "CUDA_VISIBLE_DEVICES": ""}
    found = subprocess.run(command, env=surroundings, capture_output=True, text=True, cwd=tmp_path, check=False)
    said = "hocket: the device cuda needs an NVIDIA GPU and its driver, and none was found"
    assert (found.returncode, found.stdout, found.stderr.split()) == (2, "", said.split())


def test_numba_hands_the_compiler_the_option_that_kernels_need():
    """Fused multiplications would round otherwise; numba has no option for them, but its last step takes one."""
    code = (
        "import inspect; from numba.cuda.cudadrv import nvvm; import numba.cuda.codegen as codegen;"
        "assert inspect.signature(nvvm.compile_ir).parameters['options'].kind.name == 'VAR_KEYWORD';"
        "assert 'nvvm.compile_ir(' in inspect.getsource(codegen.CUDACodeLibrary.get_asm_strs);"
        "assert '\"fma\"' in inspect.getsource(nvvm.compile_ir)"
    )
    subprocess.run([sys.executable, "-c", code], env=os.environ | {"NUMBA_ENABLE_CUDASIM": "0"}, check=True)


@pytest.mark.parametrize("learner", ["dqprm", "iql", "cqrm"])
def test_the_device_knows_bodies_and_starts_of_several_cells(learner):
    grid = hk.Grid(2, 3, frozenset(), {"left": {0, 3}, "right": {2, 5}})
    parts = {
        name: hk.RewardMachine(initial="go", transitions={("go", f"{name} over"): "over"}, final={"over"})
        for name in ("A", "B")
    }
    agents = {"A": hk.Agent((0, 3), ("A over",), memory=("A over",)), "B": hk.Agent((2, 5), ("B over",))}
    events = {"A over": {"A": hk.Condition("right")}, "B over": {"B": hk.Condition("left")}}
    task = hk.Task("passing", grid, agents, events, hk.Composition(parts), 0.1, bodies=True)
    here, there = both(task, learner)
    assert_same(here, there)
    assert learnt(here)
