"""Studies: tasks, learners, settings and seeds in all combinations, run as jobs whose results are kept one by one.

A job is a run of one seed. What it gives depends on nothing but the task, the learner, the settings and the seed; so a
study that was killed goes on where it was, and one that has grown runs only what is missing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from importlib import resources
from itertools import product
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import NamedTuple

from hocket.documents import Document, as_table, as_text, as_texts, check_keys
from hocket.errors import ClusterError, FormatError, HocketError, SettingsError, known_names
from hocket.files import MEGABYTE, exists, read_text
from hocket.learn.batches import Batch, Report
from hocket.learn.catalogue import find_learner, named_settings, require_setting
from hocket.learn.policies import Run
from hocket.learn.settings import DEFAULT_LEARNER, Settings, declared, rename_settings
from hocket.learn.training import check_seeds, check_tests, check_work, count_steps, make_settings
from hocket.machine.formats import toml
from hocket.sources import unless_stopped
from hocket.study.curves import CurveTable, Layout, growing_table, layout_of
from hocket.study.engines import ThreadEngine
from hocket.study.jobs import Engine, Finished
from hocket.study.policies import spoilt_policies
from hocket.study.published import Published, published_from
from hocket.study.records import Record, record_of, run_keys
from hocket.study.review import review
from hocket.study.store import (
    Results,
    claimed,
    curves_path,
    keep_about,
    keep_records,
    keep_task,
    load_results,
    sum_up,
)
from hocket.task.catalogue import load_task
from hocket.task.tables import compile_task
from hocket.task.task import Task

LIMIT = MEGABYTE  # of a study's file
MOST_JOBS = 100_000
KEYS = ("name", "tasks", "learners", "seeds", "steps", "settings")

Value = float | int | bool


class JobGroup(NamedTuple):
    """Jobs that differ in nothing but their seeds."""

    task: Task
    learner: str
    settings: Settings
    steps: int
    seeds: tuple[int, ...]

    def keys(self) -> dict[int, str]:
        """Give each seed the key of its run."""
        return run_keys(self.task.digest, self.learner, self.seeds, self.steps, asdict(self.settings))

    def sample(self) -> Record:
        """Make a record that stands for those of its jobs, without tests."""
        task, learner, settings, steps, seeds = self
        return Record(task.name, task.digest, learner, seeds[0], steps, asdict(settings), {})

    @property
    def label(self) -> str:
        """Say which jobs these are: task, learner and the settings that are not the default's."""
        usual = type(self.settings)()
        changed = [
            f"{own.name}={value:g}"
            for own in fields(self.settings)
            if (value := getattr(self.settings, own.name)) != getattr(usual, own.name)
        ]
        return " ".join((self.task.name, self.learner, *changed))


@dataclass(frozen=True)
class Study:
    """Which learners train on which tasks, with which settings, and how often.

    A setting with several values is swept: there are runs for every combination. A learner that lacks a setting runs
    without it. Several studies are added with `+`.
    """

    tasks: Sequence[Task]
    learners: Sequence[str] = (DEFAULT_LEARNER,)
    seeds: int | Iterable[int] = 10
    steps: int | None = None  # as many as each learner asks for
    settings: Mapping[str, Value | Sequence[Value]] = field(default_factory=dict)
    also: tuple[Study, ...] = ()
    published: Published | None = None  # to compare with

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", tuple(self.tasks))
        object.__setattr__(self, "learners", tuple(dict.fromkeys(self.learners)))
        object.__setattr__(self, "seeds", tuple(dict.fromkeys(check_seeds(self.seeds))))
        given = rename_settings(self.settings, warn=True)
        sweeps = {name: tuple(own) if isinstance(own, list | tuple) else (own,) for name, own in given.items()}
        object.__setattr__(self, "settings", MappingProxyType(sweeps))
        if not self.tasks or not self.learners:
            raise SettingsError("a study needs at least one task and one learner")
        for task, learner in product(self.tasks, self.learners):
            check_work(task, count_steps(learner, self.steps))
        self._check_sweeps(sweeps)
        if (jobs := sum(len(group.seeds) for group in self.groups())) > MOST_JOBS:
            raise SettingsError(f"a study has at most {MOST_JOBS:,} runs, got {jobs:,}")
        for group in self.groups():
            check_tests(group.task, group.steps, group.settings)

    def _check_sweeps(self, sweeps: Mapping[str, tuple[Value, ...]]) -> None:
        count = 1
        for name, values in sweeps.items():
            require_setting(name, self.learners)
            if not values:
                raise SettingsError(f"{name} needs at least one value")
            count *= len(values)
        if count > MOST_JOBS:
            raise SettingsError(f"a study has at most {MOST_JOBS:,} combinations of settings, got {count:,}")

    def __add__(self, other: Study) -> Study:
        own = {name: getattr(self, name) for name in ("tasks", "learners", "seeds", "steps", "settings", "published")}
        return Study(**own, also=(*self.also, other))

    def groups(self) -> list[JobGroup]:
        """List all jobs, those that differ in their seeds alone together."""
        found = []
        for task, learner in product(self.tasks, self.learners):
            known = declared(find_learner(learner).settings)
            sweeps = {name: own for name, own in self.settings.items() if name in known and isinstance(own, tuple)}
            for values in product(*sweeps.values()):
                settings = make_settings(learner, None, dict(zip(sweeps, values, strict=True)))
                steps = count_steps(learner, self.steps)
                found.append(JobGroup(task, learner, settings, steps, self.seeds))  # type: ignore[arg-type]
        return [*found, *(group for study in self.also for group in study.groups())]


# Running.


class Update(NamedTuple):
    """How far a study is."""

    jobs: int
    all_jobs: int
    steps: int  # agent-steps in this session
    all_steps: int
    medians: Mapping[str, float]  # of the latest softmax tests, by group


Watch = Callable[[Update], None]


def run_study(
    study: Study,
    folder: str | Path,
    *,
    engine: Engine | None = None,
    watch: Watch | None = None,
    stop: threading.Event | None = None,
) -> Results:
    """Run what is missing of a study, writing each run to a folder as it finishes; return all that is there.

    What the folder has of other studies stays in it. When `stop` is set, what is not finished is left out. Where a run
    fails, what is finished is written down before the error is raised; that of a cluster is an `UnfinishedError`.
    """
    chosen, halt, begin = engine or ThreadEngine(), stop or threading.Event(), time.perf_counter()
    with claimed(folder) as store:
        before, groups = load_results(store, halt), study.groups()
        if not before.is_whole:
            return before  # there is nothing new to write down
        tasks = {group.task.digest: group.task for group in groups}
        plan = list(dict.fromkeys(key for group in groups for key in group.keys().values()))
        found = {record.key: record for record in before.records}
        spoilt = spoilt_policies(store, [found[key] for key in plan if key in found], tasks, halt)
        whole = {key: record for key, record in found.items() if key not in spoilt}
        missing = _missing(groups, whole, chosen)
        unless_stopped(lambda: _check_learners([batch for batch, _ in missing]), halt)
        for task in tasks.values():
            keep_task(store, task)
        tally = _Tally(len(plan), sum(key in whole for key in plan), missing, watch)
        layout, failure = _layout(groups, plan, found), None
        with growing_table(curves_path(store), layout, _in_order(plan, whole), halt) as table:
            if table is not None:
                failure = _carry_out(chosen, missing, partial(_keep, store, table, whole), tally, halt)
            ordered = _in_order(plan, {**found, **whole})
            if table is not None:
                table.keep(ordered, halt)
        left = sum(key not in whole for key in plan)
        about: dict[str, object] = {"missing": left, "wall_seconds": round(time.perf_counter() - begin, 3)}
        if study.published is not None:
            about["published"] = study.published.document()
        results = before.with_runs(ordered, tasks, keep_about(store, ordered, **about), spoilt.values())
    if isinstance(failure, ClusterError):
        raise UnfinishedError(failure, results, left) from None
    if failure is not None:
        raise failure
    return results


class UnfinishedError(HocketError):
    """A study that a cluster has failed; `results` are what is finished."""

    def __init__(self, reason: ClusterError, results: Results, left: int) -> None:
        kept = f"runs that are finished ({len(results.records):,}) are kept"
        super().__init__(f"{reason}; {kept}, and the same command goes on with those that are missing ({left:,})")
        self.results = results


def _carry_out(
    engine: Engine,
    missing: Sequence[tuple[Batch, str]],
    keep: Callable[[Sequence[Finished]], None],
    tally: _Tally,
    stop: threading.Event,
) -> Exception | None:
    """Run what is missing, keeping runs as they finish; return what has ended it early, if anything has."""
    batches = sorted((batch for batch, _ in missing), key=_weight, reverse=True)
    try:
        for finished in engine.run(batches, tally.reporter, stop):
            keep(finished)
            tally.finish(len(finished))
    except Exception as error:  # raised again when what is finished is summed up
        return error
    return None


def _keep(store: Path, table: CurveTable, whole: dict[str, Record], finished: Sequence[Finished]) -> None:
    """Write down runs that have finished, and count them among those that are whole."""
    keep_records(store, finished)
    records = [record for record, _ in finished]
    table.add(records)
    whole |= {record.key: record for record in records}


def _layout(groups: Sequence[JobGroup], plan: Sequence[str], known: Mapping[str, Record]) -> Layout:
    """Lay out the table that a folder will have in the end: of what was there before, and of all of the study."""
    ours = set(plan)
    return layout_of(
        [*(record for key, record in known.items() if key not in ours), *(group.sample() for group in groups)]
    )


def _check_learners(batches: Sequence[Batch]) -> None:
    """Refuse a study of which some learner cannot train on a task, before any other begins."""
    for batch in batches:
        find_learner(batch.learner).check(compile_task(batch.task), batch.settings)


def _missing(groups: Sequence[JobGroup], known: Mapping[str, Record], engine: Engine) -> list[tuple[Batch, str]]:
    """Cut what is still to do into batches, each with the label of its group."""
    found, taken = [], set(known)
    for group in groups:
        task, learner, settings, steps, _ = group
        keys = group.keys()
        seeds = [seed for seed, key in keys.items() if key not in taken]
        taken |= set(keys.values())
        if seeds:
            batches = engine.cut(Batch(task, learner, settings, seeds, steps))
            found += [(batch, group.label) for batch in batches]
    return found


def _weight(batch: Batch) -> int:
    return batch.steps * len(batch.task.agents) * len(batch.seeds)


def _in_order(plan: Sequence[str], known: Mapping[str, Record]) -> list[Record]:
    """List what the folder had before, then the study's own, as the study names them; all of them once."""
    ours = set(plan)
    return [
        *(record for key, record in known.items() if key not in ours),
        *(known[key] for key in plan if key in known),
    ]


class _Tally:
    """Counts what threads report."""

    def __init__(self, all_jobs: int, done: int, missing: Sequence[tuple[Batch, str]], watch: Watch | None) -> None:
        self.jobs, self.all_jobs, self.steps, self.watch = done, all_jobs, 0, watch
        self.all_steps = sum(_weight(batch) for batch, _ in missing)
        self.labels = {id(batch): label for batch, label in missing}
        self.latest: dict[str, dict[int, float]] = {}
        self.medians: dict[str, float] = {}
        self.lock = threading.Lock()

    def reporter(self, batch: Batch) -> Report:
        """Make what a batch reports to."""
        label = self.labels[id(batch)]

        def report(steps: int, taken: Sequence[int]) -> None:
            with self.lock:
                self.steps += steps
                if taken:
                    own = self.latest.setdefault(label, {})
                    own[id(batch)] = median(taken)
                    self.medians[label] = median(own.values())
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


def save_runs(task: Task, runs: Sequence[Run], folder: str | Path) -> Results:
    """Write runs that `train` has returned to a folder, as a study would; what the folder has already stays in it."""
    tables = compile_task(task)
    with claimed(folder) as store:
        keep_task(store, task)
        keep_records(store, ((record_of(run, review(task, tables, run.policy)), run.policy.packed()) for run in runs))
        sum_up(store, load_results(store).records)
        return load_results(store)


# Files.


def built_in_studies() -> list[str]:
    """List the names of the studies that come with hocket."""
    names = (Path(entry.name) for entry in resources.files("hocket.study.builtin").iterdir())
    return sorted(path.stem for path in names if path.suffix == ".toml")


def load_study(name: str | Path, seeds: int | Iterable[int] | None = None) -> Study:
    """Read a study: a built-in one by its name, or a TOML file. Tasks that are files are looked for beside it.

    `seeds` take the place of those that it names.
    """
    path = Path(name)
    built_in = resources.files("hocket.study.builtin") / f"{path.name}.toml"
    is_built_in = str(name) in built_in_studies()
    if not is_built_in and not path.suffix and not exists(path):
        raise FormatError(
            f"there is no file and no built-in study of this name ({known_names(str(name), built_in_studies())})",
            path=path,
        )
    content = built_in.read_text(encoding="utf-8") if is_built_in else read_text(path, LIMIT)
    try:
        return _study_from(toml.parse(content), path.parent, {} if seeds is None else {"seeds": seeds})
    except RecursionError:
        raise FormatError("is nested too deeply to be a study", path=path) from None
    except HocketError as error:
        raise FormatError(str(error), path=path) from None


def _study_from(document: Document, folder: Path, changes: Mapping[str, object]) -> Study:
    check_keys(document, (*KEYS, "parts", "published"))
    parts = document.get("parts", [{}])
    if not isinstance(parts, list) or not parts:
        raise FormatError("must be tables: [[parts]]", where="parts")
    common = {key: value for key, value in document.items() if key not in ("parts", "name", "published")}
    studies = [
        _part_from({**common, **as_table(own, f"parts[{number}]"), **changes}, folder)
        for number, own in enumerate(parts, start=1)
    ]
    whole = sum(studies[1:], start=studies[0])
    return replace(whole, published=published_from(document["published"])) if "published" in document else whole


def _part_from(table: Document, folder: Path) -> Study:
    check_keys(table, KEYS)
    if "tasks" not in table:
        raise FormatError("is missing", where="tasks")
    given: dict[str, object] = {
        key: as_texts(table[key], key) if not isinstance(table[key], str) else (as_text(table[key], key),)
        for key in ("tasks", "learners")
        if key in table
    }
    given["tasks"] = [_find_task(name, folder) for name in given["tasks"]]  # type: ignore[attr-defined]
    given |= {key: table[key] for key in ("seeds", "steps") if key in table}
    if "settings" in table:
        own, learners = table["settings"], given.get("learners", (DEFAULT_LEARNER,))
        is_name = isinstance(own, str)
        given["settings"] = named_settings(own, learners) if is_name else as_table(own, "settings")  # type: ignore[arg-type]
    return Study(**given)  # type: ignore[arg-type]


def _find_task(name: str, folder: Path) -> Task:
    beside = folder / name
    return load_task(beside if beside.suffix and exists(beside) else name)
