"""Run what is missing of a study, write each run as it finishes, and report progress."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import NamedTuple

from hocket.background import unless_stopped
from hocket.errors import ClusterError, HocketError
from hocket.learn.batches import Batch, Report
from hocket.learn.catalogue import find_learner
from hocket.learn.policies import Policy, Run
from hocket.study.curves import Layout, growing_table
from hocket.study.engines import Engine, ThreadEngine
from hocket.study.policies import ShownWorld, damaged_policies
from hocket.study.records import Record, TestSummary
from hocket.study.store import (
    CURVES,
    Finished,
    Results,
    SceneSource,
    claimed,
    keep_about,
    keep_records,
    keep_task,
    load_results,
    save_records,
)
from hocket.study.study import JobGroup, Study, load_study
from hocket.study.testing import play_tests
from hocket.task.catalogue import as_task
from hocket.task.memory import with_team_machine
from hocket.task.tables import compile_task
from hocket.task.task import Task


class Update(NamedTuple):
    """The progress of a study."""

    jobs: int
    all_jobs: int
    steps: int  # agent-steps in this session
    all_steps: int
    medians: Mapping[str, float]  # of the latest softmax tests, by group


Watch = Callable[[Update], None]


def run_study(
    study: Study | str | Path,
    folder: str | Path,
    *,
    engine: Engine | None = None,
    watch: Watch | None = None,
    stop: threading.Event | None = None,
) -> Results:
    """Run what is missing of a study, writing each run to a folder as it finishes; return all results of the folder.

    `study` is a study, or the name or file of one. Runs of other studies stay in the folder. When `stop` is set, runs
    that are not finished are left out. If a run fails, finished ones are written before the error is raised; the error
    of a cluster is an `UnfinishedError`.
    """
    study = study if isinstance(study, Study) else load_study(study)
    chosen, halt, begin = engine or ThreadEngine(), stop or threading.Event(), time.perf_counter()
    with claimed(folder) as store:
        before, groups = load_results(store, halt), study.groups()
        if not before.is_whole:
            return before  # stopped while reading; nothing has changed
        tasks = {group.task.digest: group.task for group in groups}
        plan = dict.fromkeys(key for group in groups for key in group.keys().values())
        kept = {record.key: record for record in before.records}
        damaged = damaged_policies(store, [kept[key] for key in plan if key in kept], tasks, halt)
        whole = {key: record for key, record in kept.items() if key not in damaged}
        missing = _missing(groups, whole, chosen)
        unless_stopped(lambda: _check_learners(missing), halt)
        for task in tasks.values():
            keep_task(store, task)
        progress, failure = _Progress(len(plan), sum(key in whole for key in plan), missing, watch), None
        others = [record for key, record in kept.items() if key not in plan]  # of other studies, which come first
        layout = Layout.of([*others, *(group.sample() for group in groups)])
        present = [*others, *(whole[key] for key in plan if key in whole)]
        with growing_table(store / CURVES, layout, present, halt) as table:
            if table is not None:  # not stopped
                try:
                    for finished in chosen.run(missing, progress.reporter, halt):
                        keep_records(store, finished)
                        table.add([run.record for run in finished])
                        whole |= {run.record.key: run.record for run in finished}
                        progress.finish(len(finished))
                except Exception as error:  # raised again below, when finished runs are written
                    failure = error
            records = {**kept, **whole}
            ordered = [*others, *(records[key] for key in plan if key in records)]
            if table is not None:
                table.keep(ordered, halt)
        remaining = sum(key not in whole for key in plan)
        about: dict[str, object] = {"missing": remaining, "wall_seconds": round(time.perf_counter() - begin, 3)}
        if study.published is not None:
            about["published"] = study.published.document()
        document, problems = keep_about(store, ordered, **about), (*before.problems, *damaged.values())
        all_tasks = {**before.tasks, **tasks}
        results = replace(before, about=document, records=tuple(ordered), tasks=all_tasks, problems=problems)
    if isinstance(failure, ClusterError):
        raise UnfinishedError(failure, results, remaining) from None
    if failure is not None:
        raise failure
    return results


class UnfinishedError(HocketError):
    """A study that stopped because a cluster failed; `results` are the finished runs."""

    def __init__(self, reason: ClusterError, results: Results, missing: int) -> None:
        kept = f"runs that are finished ({len(results.records):,}) are kept"
        super().__init__(f"{reason}; {kept}, and the same command goes on with those that are missing ({missing:,})")
        self.results = results


def _check_learners(missing: Sequence[Batch]) -> None:
    """Refuse a study in which a learner cannot train on a task, before any training begins."""
    for batch in missing:
        find_learner(batch.learner).check(compile_task(batch.task), batch.settings)


def _missing(groups: Sequence[JobGroup], known: Mapping[str, Record], engine: Engine) -> list[Batch]:
    """Cut the missing runs into batches, the longest first."""
    missing, taken = list[Batch](), set(known)
    for group in groups:
        keys = group.keys()
        if seeds := [seed for seed, key in keys.items() if key not in taken]:
            missing += engine.cut(group._replace(seeds=seeds))
        taken |= set(keys.values())
    return sorted(missing, key=_weight, reverse=True)


def _weight(batch: Batch) -> int:
    return batch.steps * len(batch.task.agents) * len(batch.seeds)


class _Progress:
    """Counts what threads report, and passes it on to `watch`."""

    def __init__(self, all_jobs: int, done: int, missing: Sequence[Batch], watch: Watch | None) -> None:
        self.jobs, self.all_jobs, self.steps, self.watch = done, all_jobs, 0, watch
        self.all_steps = sum(map(_weight, missing))
        self.latest: dict[str, dict[int, float]] = {}
        self.medians: dict[str, float] = {}
        self.lock = threading.Lock()

    def reporter(self, batch: Batch) -> Report:
        """Make the function to which the training of a batch reports."""
        label = batch.label

        def report(steps: int, taken: Sequence[int]) -> None:
            with self.lock:
                self.steps += steps
                if taken:
                    latest = self.latest.setdefault(label, {})
                    latest[id(batch)] = median(taken)
                    self.medians[label] = median(latest.values())
                self._tell()

        return report

    def finish(self, jobs: int) -> None:
        """Count finished jobs."""
        with self.lock:
            self.jobs += jobs
            self._tell()

    def _tell(self) -> None:
        if self.watch is not None:
            self.watch(Update(self.jobs, self.all_jobs, self.steps, self.all_steps, MappingProxyType(self.medians)))


def save_runs(task: Task | str | Path | ShownWorld, runs: Sequence[Run], folder: str | Path) -> Results:
    """Write runs that `train` has returned to a folder, as a study would; what the folder has already stays in it."""
    if isinstance(task, Task | str | Path):
        loaded = with_team_machine(as_task(task))
        world: Task | SceneSource = loaded
        test: Callable[[Policy], TestSummary] = partial(play_tests, loaded, compile_task(loaded))
    else:
        world, test = task.scene, task.test
    return save_records(folder, (Finished.of(run, test(run.policy)) for run in runs), [world])
