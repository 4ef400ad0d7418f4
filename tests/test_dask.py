"""Studies on a cluster: real schedulers and workers, some of which are killed, and clusters that fail as told."""

import os
import socket
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import NamedTuple

import pytest

import hocket as hk
from hocket.learn.catalogue import LEARNERS
from hocket.learn.warmup import compile_kernels
from hocket.study.engines import TRIES, CancelledOnCluster, DaskEngine, make_engine, run_portable
from hocket.study.running import UnfinishedError, run_study
from hocket.study.study import Study
from hocket.task.files import task_from
from test_study import same_apart_from_time
from test_wrap import MEETING, said_by_anyone, talk
from worlds import courtyard, meeting

distributed = pytest.importorskip("distributed", reason="pip install '.[dask]'")
pytestmark = [
    pytest.mark.xdist_group("kernels"),
    pytest.mark.filterwarnings("ignore:.*:DeprecationWarning:(distributed|dask|tornado)"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

PATIENCE = 60  # seconds


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Cluster(NamedTuple):
    """A scheduler and two workers, each a process of its own."""

    address: str
    scheduler: subprocess.Popen
    first: subprocess.Popen
    second: subprocess.Popen


@pytest.fixture
def cluster(tmp_path):
    """Start a scheduler, which is refused as long as it has no workers, and two workers."""
    address = f"tcp://127.0.0.1:{(port := free_port())}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    started = []

    def start(program: str, *args: str) -> subprocess.Popen:
        command = [sys.executable, "-m", "dask", program, *args]
        log = (tmp_path / f"{len(started)}.log").open("w")
        started.append(subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=log, stderr=log))
        return started[-1]

    start("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard", "--no-jupyter")
    alone = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1")
    try:
        with distributed.Client(address, timeout=PATIENCE, set_as_default=False) as client:
            with pytest.raises(hk.HocketError, match=r"has no workers: start some with `dask worker tcp://"):
                DaskEngine(address)
            for _ in range(2):
                start("worker", address, *alone, "--local-directory", str(tmp_path))
            client.wait_for_workers(2, timeout=PATIENCE)
        yield Cluster(address, *started)
    finally:
        for process in started:
            process.kill()
            process.wait()


def every_learner() -> Study:
    return Study([make() for make in TASKS.values()], LEARNERS, 2, 1_000)


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Train every learner without a cluster, once for all tests of this file."""
    study, folder = every_learner(), tmp_path_factory.mktemp("here")
    for learner in study.learners:
        compile_kernels(learner)
    run_study(study, folder)
    return folder


def test_a_cluster_gives_the_same_results_even_if_a_worker_is_killed(here, cluster, tmp_path):
    def watch(update):
        if update.jobs >= 2 and cluster.first.poll() is None:
            cluster.first.kill()

    results = run_study(every_learner(), tmp_path, engine=DaskEngine(cluster.address), watch=watch)
    assert cluster.first.wait() == -9
    assert cluster.second.poll() is None
    assert len(results.records) == 2 * len(TASKS) * len(LEARNERS)
    assert same_apart_from_time(here, tmp_path)


def test_what_a_scheduler_that_is_killed_leaves_to_do_ends_with_the_same_results(here, cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("hocket.study.engines.CONNECTING", 5)
    engine = OneFirst(cluster.address)
    engine.then = cluster.scheduler.kill
    with pytest.raises(UnfinishedError, match=r"the scheduler at tcp://\S+ is gone"):
        run_study(every_learner(), tmp_path, engine=engine)
    assert 0 < len(hk.load_results(tmp_path).records) < 2 * len(TASKS) * len(LEARNERS)
    run_study(every_learner(), tmp_path)
    assert same_apart_from_time(here, tmp_path)


@pytest.fixture(scope="module")
def local_cluster():
    """Start a scheduler and two workers within this process, as dask's LocalCluster does."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address="127.0.0.1:0"
    ) as local:
        yield local


def from_sentences(name: str, machine: dict[str, object]) -> hk.Task:
    """Make a task whose machine comes from constraints, a formula or a regular expression."""
    return task_from(
        {
            "name": name,
            "map": "1.b.g.2",
            "legend": {"1": "start1", "2": "start2", "b": "button", "g": "goal"},
            "agents": {
                "A1": {"start": "1", "knows": ["press", "enter"]},
                "A2": {"start": "2", "knows": ["press", "enter"]},
            },
            "events": {"press": "A1 at button", "enter": "A2 at goal"},
            "machine": machine,
        }
    )


SENTENCES = {
    "declare": ["precedence(press, enter)", "existence(enter, 1)"],
    "formula": "(!enter U press) & F(press & X F enter)",
    "regex": "press* press enter",
}
TASKS = {
    "meeting": meeting,
    "gates and slips": courtyard,
    **{name: partial(from_sentences, name, {name: text}) for name, text in SENTENCES.items()},
}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner_gives_the_same_bytes_on_threads_and_on_a_local_cluster(local_cluster, learner, task, tmp_path):
    discount = {"discount": 0.8} if "discount" not in LEARNERS[learner].settings.unused else {}
    study = Study([TASKS[task]()], [learner], 2, 400, {"test_every": 200, **discount})
    run_study(study, tmp_path / "here", engine=make_engine("threads", threads=2))
    run_study(study, tmp_path / "there", engine=make_engine("dask", local_cluster.scheduler_address))
    assert same_apart_from_time(tmp_path / "here", tmp_path / "there")


@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner_is_sent_again_where_a_worker_dies_and_kept_where_the_scheduler_does(learner, tmp_path):
    study = Study([make() for make in TASKS.values()], [learner], 2, 200, {"test_every": 200})
    run_study(study, tmp_path / "here")

    def dies_at_first(client, content):
        return Promise(content, KilledWorker("killed") if client.sent.count(client.sent[-1]) == 1 else None)

    run_study(study, tmp_path / "worker", engine=engine_of(Told(dies_at_first)))
    assert same_apart_from_time(tmp_path / "here", tmp_path / "worker")
    closes = first_only(lambda client: setattr(client, "status", "closed"))
    with pytest.raises(UnfinishedError, match="the scheduler at tcp://there:8786 is gone"):
        run_study(study, tmp_path / "scheduler", engine=engine_of(Told(closes)))
    run_study(study, tmp_path / "scheduler")
    assert same_apart_from_time(tmp_path / "here", tmp_path / "scheduler")


def play_at_random(env, seed: int) -> list[tuple[str, dict, dict]]:
    """Play an episode with random actions; tell in which states the machines were, what happened and what was paid."""
    rng, told = Random(seed), []
    env.reset(seed=seed)
    while env.agents:
        _, rewards, _, _, infos = env.step({name: rng.randrange(env.action_space(name).n) for name in env.agents})
        told.append((env.team_state, rewards, {name: info["event"] for name, info in infos.items()}))
    return told


@pytest.mark.parametrize(
    "machine", [MEETING, hk.from_ltlf("F(fetch & X F(meet & X F leave))")], ids=["machine", "formula"]
)
def test_a_wrapped_world_that_is_sent_to_a_worker_does_there_what_it_does_here(local_cluster, machine):
    knows = {name: {"fetch", "meet", "leave"} for name in ("A1", "A2")}
    env = talk(machine=machine, knows=knows, label=said_by_anyone)
    with distributed.Client(local_cluster.scheduler_address, set_as_default=False) as client:
        there = client.gather([client.submit(play_at_random, env, seed, pure=False) for seed in range(3)])
    here = [play_at_random(env, seed) for seed in range(3)]
    assert here == there and any(paid for episode in here for _, paid, _ in episode)


FOR_EVER = 10**12  # steps of training


def unending() -> Study:
    """Make a study of a run that ends, and of one that does not."""
    endless = Study([meeting()], ["iql"], 1, FOR_EVER, {"test_every": FOR_EVER})
    return Study([meeting()], ["iql"], 1, 1_000) + endless


def test_a_study_that_is_stopped_leaves_a_cluster_free_for_others(cluster, tmp_path):
    stop = threading.Event()
    engine = OneFirst(cluster.address)
    engine.then = stop.set
    results = run_study(unending(), tmp_path, engine=engine, stop=stop)
    assert [record.steps for record in results.records] == [1_000]
    assert (tmp_path / "curves.csv").exists()
    with distributed.Client(cluster.address, timeout=PATIENCE, set_as_default=False) as client:
        addresses = list(client.ncores())
        jobs = [client.submit(abs, -1, workers=[address], pure=False) for address in addresses]
        assert client.gather(jobs) == [1, 1]  # each worker has one thread


def test_a_study_whose_scheduler_dies_says_so_and_keeps_what_is_finished(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("hocket.study.engines.CONNECTING", 5)
    engine = OneFirst(cluster.address)
    engine.then = cluster.scheduler.kill
    with pytest.raises(UnfinishedError, match=r"the scheduler at tcp://\S+ is gone; .*finished \(1\) are kept"):
        run_study(unending(), tmp_path, engine=engine)
    assert [record.steps for record in hk.load_results(tmp_path).records] == [1_000]
    assert (tmp_path / "curves.csv").exists()


class OneFirst(DaskEngine):
    """A cluster on which something happens when the first batch is done, and the others are under way."""

    def run(self, batches, reporter, stop):
        for finished in super().run(batches, reporter, stop):
            yield finished
            self.then()


# Clusters that fail as they are told.


class Promise:
    """What comes of a batch, at once."""

    def __init__(self, content, failure: Exception | None) -> None:
        self.content, self.failure = content, failure

    def add_done_callback(self, call):
        call(self)

    def result(self):
        if self.failure is not None:
            raise self.failure
        return run_portable(*self.content)


class Silence(Promise):
    """Nothing comes of a batch."""

    def add_done_callback(self, call):
        pass


class Told:
    """A client of a cluster that does with each batch, by its learner and how often it was asked, what it is told."""

    def __init__(self, answer) -> None:
        self.answer, self.sent, self.status, self.cores = answer, [], "running", {"here": 2}

    def submit(self, function, task, learner, settings, seeds, steps, world, *, pure):
        assert function is run_portable and not pure
        if self.status == "closed":
            raise RuntimeError("closed")
        self.sent.append((learner, seeds))
        return self.answer(self, (task, learner, settings, seeds, steps, world))

    def ncores(self):
        return self.cores

    def close(self, timeout):
        self.status = "closed"


def engine_of(client: Told) -> DaskEngine:
    """Make an engine that has this client."""
    engine = object.__new__(DaskEngine)
    engine.client, engine.address, engine.workers = client, "tcp://there:8786", 2
    return engine


def two_learners() -> Study:
    return Study([meeting()], ["dqprm", "cqrm"], 4, 1_000, {"test_every": 500})


def test_what_a_cluster_loses_is_sent_again_run_by_run(tmp_path):
    def fails_at_first(client, content):
        return Promise(content, KilledWorker("too much") if client.sent.count(client.sent[-1]) == 1 else None)

    client = Told(fails_at_first)
    results = run_study(two_learners(), tmp_path / "there", engine=engine_of(client))
    run_study(two_learners(), tmp_path / "here")
    assert len(results.records) == 8
    assert same_apart_from_time(tmp_path / "here", tmp_path / "there")
    assert client.sent.count(("dqprm", (0, 1))) == 1  # together it was too much
    assert client.sent.count(("dqprm", (0,))) == client.sent.count(("cqrm", (0,))) == 2
    assert client.status == "closed"


class KilledWorker(Exception):  # noqa: N818
    """As dask has it: not an error of hocket's."""


def test_a_run_that_always_fails_on_a_cluster_is_given_up_after_all_others(tmp_path):
    def fails_with_cqrm(client, content):
        return Promise(content, KilledWorker("Four workers died.\nSee the logs.") if content[1] == "cqrm" else None)

    client = Told(fails_with_cqrm)
    with pytest.raises(UnfinishedError) as caught:
        run_study(two_learners(), tmp_path, engine=engine_of(client))
    assert str(caught.value) == (
        "the cluster at tcp://there:8786 has failed 3 times (cqrm on meeting, seed 0): Four workers died; "
        "runs that are finished (4) are kept, and the same command goes on with those that are missing (4)"
    )
    assert client.sent.count(("cqrm", (3,))) == TRIES
    assert {record.learner for record in caught.value.results.records} == {"dqprm"}
    assert hk.load_results(tmp_path).about["missing"] == 4
    assert (tmp_path / "curves.csv").exists()
    assert len(run_study(two_learners(), tmp_path).records) == 8


def test_an_error_of_hockets_on_a_worker_is_not_tried_again(tmp_path):
    client = Told(lambda client, content: Promise(content, hk.errors.SettingsError("no such thing")))
    with pytest.raises(hk.errors.SettingsError, match="no such thing"):
        run_study(two_learners(), tmp_path, engine=engine_of(client))
    assert len(client.sent) == len(set(client.sent))


def first_only(after):
    """Answer the first batch only; then something happens to the cluster."""

    def answer(client, content):
        if len(client.sent) == 1:
            return Promise(content, None)
        after(client)
        return Silence(content, None)

    return answer


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (lambda client: setattr(client, "status", "closed"), "the scheduler at tcp://there:8786 is gone"),
        (lambda client: setattr(client, "cores", {}), "the cluster at tcp://there:8786 has no workers any more"),
    ],
)
def test_a_cluster_that_is_gone_or_deserted_is_given_up(tmp_path, monkeypatch, after, said):
    monkeypatch.setattr("hocket.study.engines.DESERTED", 0)
    study = Study([meeting()], ["iql"], 2, 1_000)
    with pytest.raises(UnfinishedError, match=said):
        run_study(study, tmp_path, engine=engine_of(Told(first_only(after))))
    assert len(hk.load_results(tmp_path).records) <= 1 and (tmp_path / "curves.csv").exists()


def test_a_study_is_stopped_while_nothing_comes_back_from_a_cluster(tmp_path):
    stop = threading.Event()
    study = Study([meeting()], ["iql"], 2, 1_000)

    def watch(update):
        if update.jobs == 1:
            stop.set()

    client = Told(first_only(lambda client: None))
    results = run_study(study, tmp_path, engine=engine_of(client), watch=watch, stop=stop)
    assert len(results.records) == 1 and client.status == "closed"


def test_a_command_whose_cluster_fails_says_so_in_a_sentence(hocket, tmp_path, monkeypatch):
    hk.save_task(meeting(), tmp_path / "meeting.toml")
    client = Told(lambda client, content: Promise(content, KilledWorker() if content[3] == (1,) else None))
    monkeypatch.setattr("hocket.study.engines.DaskEngine", lambda address: engine_of(client))
    words = (
        "--learner",
        "iql",
        "--seeds",
        "2",
        "--steps",
        "1000",
        "--engine",
        "dask",
        "--scheduler",
        "tcp://there:8786",
    )
    code, out, err = hocket("train", tmp_path / "meeting.toml", *words, "--out", tmp_path / "runs")
    assert code == 2
    assert err.splitlines() == [
        "hocket: the cluster at tcp://there:8786 has failed 3 times (iql on meeting, seed 1): KilledWorker; "
        "runs that are finished (1) are kept, and the same command goes on with those that are missing (1)"
    ]
    assert out.startswith("Stopped early; finished runs are saved.")
    assert (tmp_path / "runs" / "curves.csv").exists()


def test_a_job_that_nobody_wants_any_more_ends(monkeypatch):
    worker = SimpleNamespace(
        state=SimpleNamespace(tasks={"job": SimpleNamespace(state="executing")}), get_current_task=lambda: "job"
    )
    monkeypatch.setattr(distributed, "get_worker", lambda: worker)
    cancelled = CancelledOnCluster()
    assert not cancelled.is_set()
    worker.state.tasks["job"].state = "cancelled"
    assert cancelled.is_set()


def test_a_scheduler_that_does_not_answer_is_an_error_in_words(monkeypatch):
    monkeypatch.setattr("hocket.study.engines.CONNECTING", 1)
    with pytest.raises(hk.HocketError, match=r"scheduler 'tcp://127.0.0.1:\d+' does not answer"):
        DaskEngine(f"tcp://127.0.0.1:{free_port()}")


@pytest.mark.parametrize("address", ["nonsense", "tcp://", "tcp://here:there", ""])
def test_an_address_that_is_none_is_refused_at_once(address):
    with pytest.raises(hk.HocketError, match=f"scheduler {address!r} does not answer"):
        DaskEngine(address)


@pytest.mark.parametrize(("engine", "scheduler"), [("dask", None), ("threads", "tcp://127.0.0.1:8786")])
def test_the_engine_dask_and_a_scheduler_go_together(engine, scheduler):
    with pytest.raises(hk.HocketError, match="go together"):
        make_engine(engine, scheduler)


def test_an_unknown_engine_is_refused_with_the_nearest():
    with pytest.raises(hk.HocketError, match=r"engine 'thread' does not exist .*threads"):
        make_engine("thread")
