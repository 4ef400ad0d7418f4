"""A folder of runs: everything to repeat them, and to draw them without hocket.

study.json      the runs, their settings, versions, machine and computing times
curves.csv      one row for each test episode
runs/           the record of each finished run (.json)
policies/       the policy of each run (.npz)
worlds/         the world model of each run, with which other tasks can be planned (.npz)
tasks/          the tasks (.toml), and scenes of third-party environments (.json)
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from threading import Event
from typing import NamedTuple, Protocol, TypeVar

from hocket.background import in_pieces
from hocket.errors import FormatError, HocketError, parser_message, printable
from hocket.files import MEGABYTE, listed, locked, make_folder, read_text, remove_unfinished, write_many, write_whole
from hocket.learn.catalogue import shapes_on
from hocket.learn.policies import Policy, Run, load_policy
from hocket.learn.world import WorldModel
from hocket.machine.formats import toml
from hocket.study.curves import DataFrame, curves_csv, to_frame
from hocket.study.records import Record, TestSummary, made_with, read_record, record_of, slug, task_titles, write_record
from hocket.task.files import read_task
from hocket.task.task import Task

FORMAT = "hocket study 1"
LIMIT = 64 * MEGABYTE  # of study.json
CURVES = "curves.csv"
FOLDERS = ("runs", "policies", "worlds", "tasks")
PIECE = 100  # files that are read between two looks at whether to stop

Content = TypeVar("Content")


@dataclass(frozen=True, repr=False)
class Results:
    """The content of a folder of runs, and the files that could not be read."""

    folder: Path
    about: Mapping[str, object]  # study.json
    records: tuple[Record, ...]
    tasks: Mapping[str, Task]  # by their digests
    scenes: tuple[Path, ...]  # files of the scenes of third-party environments
    problems: tuple[str, ...]  # files that were left out, and why
    is_whole: bool = True  # False: reading was stopped before all runs were read

    def __repr__(self) -> str:
        return f"<Results of {len(self.records):,} runs>"

    def policy(self, record: Record) -> Policy | None:
        """Load the policy of a run; None if it was not kept."""
        path = policy_path(self.folder, record)
        if not path.exists():
            return None
        task = self.tasks.get(record.digest)
        return load_policy(path, record.digest, shapes=shapes_on(task) if task else lambda _: None)

    def to_pandas(self) -> DataFrame:
        """Make a DataFrame of pandas with a row for each test episode and the columns of curves.csv."""
        return to_frame(self.records, "pandas")

    def to_polars(self) -> DataFrame:
        """Make a DataFrame of polars, likewise."""
        return to_frame(self.records, "polars")


class Finished(NamedTuple):
    """A finished run with the content of its files; None: not kept."""

    record: Record
    policy: bytes | None = None
    world: bytes | None = None

    @classmethod
    def of(cls, run: Run, summary: TestSummary | None) -> Finished:
        """Pack a run's policy and world model; without a test summary, none were kept."""
        if summary is None:
            return cls(record_of(run))
        return cls(record_of(run, summary), run.policy.packed(), None if run.world is None else run.world.packed())


class SceneSource(Protocol):
    """The scene of a third-party environment; records name it by the digest of its text."""

    @property
    def task(self) -> str: ...

    @property
    def digest(self) -> str: ...

    @property
    def text(self) -> str: ...


def open_store(folder: str | Path) -> Path:
    """Make a folder for runs, if it does not exist."""
    for name in ("", *FOLDERS):
        make_folder(Path(folder) / name)
    return Path(folder)


@contextmanager
def claimed(folder: str | Path) -> Iterator[Path]:
    """Lock a folder for runs, and remove files that a killed process left unfinished there."""
    store = open_store(folder)
    with locked(store / ".lock") as is_ours:
        if not is_ours:
            raise FormatError("another study is at work in this folder", path=store)
        for name in (".", *FOLDERS):
            remove_unfinished(store / name)
        yield store


def keep_task(folder: Path, task: Task | SceneSource) -> None:
    """Write a task, or the scene of a third-party environment."""
    if isinstance(task, Task):
        name, text = f"{slug(task.name)}-{task.digest[:8]}.toml", toml.unparse(task.document())
    else:
        name, text = f"{slug(task.task)}-{task.digest[:8]}.json", task.text
    write_whole(folder / "tasks" / name, text)


def keep_records(folder: Path, runs: Iterable[Finished]) -> None:
    """Write finished runs; records come last, so that all other files of a run exist if its record does."""
    finished = [Finished(*run) for run in runs]
    learnt = [(policy_path(folder, run.record), run.policy) for run in finished]
    learnt += [(folder / "worlds" / f"{run.record.name}.npz", run.world) for run in finished]
    write_many((path, content) for path, content in learnt if content is not None)
    write_many((folder / _file(run.record), write_record(run.record)) for run in finished)


def keep_world(folder: str | Path, task: Task, world: WorldModel, name: str) -> None:
    """Write a world model to a folder of runs, as those of runs; a model of the same name is replaced."""
    with claimed(folder) as store:
        keep_task(store, task)
        world.save(store / "worlds" / f"{slug(task.name)}-{name}.npz")


def policy_path(folder: Path, record: Record) -> Path:
    """Return the path of a run's policy."""
    return folder / "policies" / f"{record.name}.npz"


def save_records(
    folder: str | Path, records: Iterable[Record | Finished], worlds: Iterable[Task | SceneSource] = ()
) -> Results:
    """Add runs that were made elsewhere to a folder, with the tasks or scenes that they name by their digests."""
    with claimed(folder) as store:
        for world in worlds:
            keep_task(store, world)
        keep_records(store, (run if isinstance(run, Finished) else Finished(run) for run in records))
        sum_up(store, load_results(store).records)
        return load_results(store)


def sum_up(folder: Path, records: Sequence[Record], **about: object) -> dict[str, object]:
    """Write `curves.csv` and `study.json` anew, from all records; return the content of the latter."""
    write_whole(folder / CURVES, curves_csv(records))
    return keep_about(folder, records, **about)


def keep_about(folder: Path, records: Sequence[Record], **about: object) -> dict[str, object]:
    """Write `study.json` anew, from all records; return its content."""
    titles = task_titles(records)
    runs: list[dict[str, object]] = []
    for record in records:
        kept = {name: getattr(record, name) for name in ("learner", "seed", "steps", "settings", "seconds")}
        runs.append({"task": titles[record.digest], **kept, "settings": dict(record.settings), "file": _file(record)})
    tasks = [{"name": name, "digest": digest} for digest, name in titles.items()]
    made = {**made_with(), "cores": os.cpu_count() or 1}
    document = {"format": FORMAT, **made, "tasks": tasks, "runs": runs, **about}
    write_whole(folder / "study.json", _in_lines(document))
    return document


def _in_lines(document: Mapping[str, object]) -> str:
    """Write a document as JSON, with one line for each entry and each row of a list."""

    def text(value: object) -> str:
        if not isinstance(value, list):
            return json.dumps(value, ensure_ascii=False)
        return "[\n" + ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in value) + "\n ]"

    return "{\n" + ",\n".join(f" {json.dumps(name)}: {text(value)}" for name, value in document.items()) + "\n}\n"


def as_results(what: Results | str | Path | Run | Iterable[Run]) -> Results:
    """Return results as they are, load them from a folder, or make them of runs that `train` has returned."""
    if isinstance(what, Results):
        return what
    if isinstance(what, str | Path):
        return load_results(what)
    runs = list(what) if isinstance(what, Iterable) and not isinstance(what, Run) else [what]
    for run in runs:
        if not isinstance(run, Run):
            raise FormatError(f"results, a folder of runs, or runs are needed, got {type(run).__name__}")
    return Results(Path(), {}, tuple(record_of(run) for run in runs), {}, (), ())


def load_results(folder: str | Path, stop: Event | None = None) -> Results:
    """Read a folder of runs, until `stop` is set; damaged and foreign files are listed as problems."""
    folder = Path(folder)
    if not os.path.isdir(folder):  # noqa: PTH112 (pathlib raises an error for some names)
        raise FormatError("is not a folder of runs", path=folder)
    problems: list[str] = []
    files = listed(folder, "runs/*.json")
    records = _read_all(chain.from_iterable(in_pieces(files, PIECE, stop or Event())), read_record, problems)
    is_whole = len(records) + len(problems) == len(files)
    tasks = {task.digest: task for task in _read_all(listed(folder, "tasks/*.toml"), read_task, problems)}
    scenes = tuple(listed(folder, "tasks/*.json"))
    about = _read_all(listed(folder, "study.json"), _read_about, problems)
    unique = {record.key: record for record in records}
    for record in odd_records(unique.values()):
        del unique[record.key]
        path = printable(str(folder / _file(record)))
        problems.append(f"{path}: its tests are at other steps than those of runs like it")
    document = about[0] if about else {}
    positions = _positions(document)

    def order(record: Record) -> tuple[int, str, int]:  # that of study.json; other runs follow by their names
        return positions.get(_file(record), len(positions)), f"{record.task} {record.learner}", record.seed

    ordered = tuple(sorted(unique.values(), key=order))
    return Results(folder, document, ordered, tasks, scenes, tuple(problems), is_whole)


def odd_records(records: Iterable[Record]) -> list[Record]:
    """Find runs whose tests share no training step with those of most others that differ only in the seed."""
    groups: dict[tuple[str, str], dict[str, Record]] = {}
    for record in records:
        for kind, tests in record.tests.items():
            if len(tests.step):
                groups.setdefault((record.kind, kind), {})[record.key] = record
    odd: dict[str, Record] = {}
    for (_, kind), group in groups.items():
        steps = {key: frozenset(record.tests[kind].step.tolist()) for key, record in group.items()}
        counts, common = Counter(steps.values()), frozenset[int]()
        for key in sorted(group, key=lambda key: -counts[steps[key]]):
            shared = common & steps[key] if common else steps[key]
            if not shared:
                odd[key] = group[key]
            common = shared or common
    return list(odd.values())


def _positions(about: Mapping[str, object]) -> dict[str, int]:
    runs = about.get("runs")
    files = [run.get("file") for run in runs if isinstance(run, dict)] if isinstance(runs, list) else []
    return {file: number for number, file in enumerate(files) if isinstance(file, str)}


def _file(record: Record) -> str:
    return f"runs/{record.name}.json"


def _read_all(paths: Iterable[Path], read: Callable[[Path], Content], problems: list[str]) -> list[Content]:
    contents = []
    for path in paths:
        try:
            contents.append(read(path))
        except HocketError as error:
            problems.append(str(error))
    return contents


def _read_about(path: Path) -> dict[str, object]:
    text = read_text(path, LIMIT)
    try:
        about = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"is not JSON: {parser_message(error)}", path=path) from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise FormatError("is not a study file of hocket", path=path)
    return about
