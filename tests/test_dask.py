"""Studies on a cluster: a real scheduler and two workers, of which one is killed."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import hocket as hk
from hocket.learn.warmup import compile_kernels
from hocket.study.engines import DaskEngine, make_engine
from hocket.study.study import Study, run_study
from test_study import same_apart_from_time
from worlds import meeting

distributed = pytest.importorskip("distributed", reason="pip install 'hocket[dask]'")
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


@pytest.fixture
def cluster(tmp_path):
    """Start a scheduler and two workers, each a process of its own; give the address and the workers."""
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
    workers = [start("worker", address, *alone, "--local-directory", str(tmp_path)) for _ in range(2)]
    try:
        with distributed.Client(address, timeout=PATIENCE, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=PATIENCE)
        yield address, workers
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_a_cluster_gives_the_same_results_even_if_a_worker_is_killed(cluster, tmp_path):
    address, workers = cluster
    study = Study([meeting()], ["iql", "hil"], 8, 40_000)
    for learner in study.learners:
        compile_kernels(learner)
    run_study(study, tmp_path / "here")

    def watch(update):
        if update.jobs >= 2 and workers[0].poll() is None:
            workers[0].kill()

    results = run_study(study, tmp_path / "there", engine=DaskEngine(address), watch=watch)
    assert workers[0].wait() == -9
    assert workers[1].poll() is None
    assert len(results.records) == 16
    assert same_apart_from_time(tmp_path / "here", tmp_path / "there")


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
