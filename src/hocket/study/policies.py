"""The policies in a folder of runs: which of them can be used, and which runs have to be trained again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from threading import Event
from typing import NamedTuple, Protocol

from hocket.background import in_pieces
from hocket.errors import FormatError, HocketError, SettingsError, located, printable
from hocket.files import exists, listed
from hocket.learn.actors import TrainableWorld
from hocket.learn.catalogue import find_learner, shapes_on
from hocket.learn.policies import Policy, load_policy, peek_policy
from hocket.learn.settings import SettingValue
from hocket.study.records import Record, TestSummary, keep_different, read_record
from hocket.study.store import PIECE, SceneSource, policy_path
from hocket.task.catalogue import as_task
from hocket.task.files import read_task
from hocket.task.memory import with_team_machine
from hocket.task.tables import compile_task
from hocket.task.task import Task


class ShownWorld(TrainableWorld, Protocol):
    """A third-party environment that has a scene, and in which policies can be tested."""

    @property
    def scene(self) -> SceneSource: ...

    def test(self, policy: Policy) -> TestSummary: ...


class Policies(NamedTuple):
    """The policies of a task, and the other files in their folder."""

    of_task: tuple[Policy, ...]
    others: tuple[str, ...]  # the names of the tasks of other policies
    problems: tuple[str, ...]  # files that were left out, and why
    varied: tuple[dict[str, SettingValue], ...]  # of each policy: the settings that vary between those of its learner


def find_policies(folder: str | Path, task: Task) -> Policies:
    """Read the policies in a folder that belong to a task; damaged files and those that do not fit it are listed."""
    task = with_team_machine(task)
    read = _reader(task)
    by_learner: dict[str, dict[Path, Policy]] = {}
    others: list[str] = []
    problems: list[str] = []
    for path in listed(Path(folder), "policies/*.npz"):
        try:
            about = peek_policy(path)
            if about.digest == task.digest:
                policy = read(path)
                by_learner.setdefault(policy.learner, {})[path] = policy
            else:
                others.append(about.task)
        except HocketError as error:
            problems.append(str(error))
    rows: list[tuple[Policy, dict[str, SettingValue]]] = []  # by learner, varied settings and seed
    for group in by_learner.values():
        varied = keep_different([{**_steps(path), **policy.settings} for path, policy in group.items()])
        rows += sorted(
            zip(group.values(), varied, strict=True),
            key=lambda row: ([(isinstance(value, str), value) for value in row[1].values()], row[0].seed),
        )
    of_task, settings = zip(*rows, strict=True) if rows else ((), ())
    return Policies(of_task, tuple(others), tuple(problems), settings)


def _steps(path: Path) -> dict[str, int]:
    """Read the training steps of a policy from the record of its run, if the folder has it."""
    try:
        return {"steps": read_record(path.parent.parent / "runs" / f"{path.stem}.json").steps}
    except HocketError:
        return {}


def load_policies(folder: str | Path, task: Task | str | Path | ShownWorld | None = None) -> list[Policy]:
    """Read the policies in a folder that belong to a task, or to a wrapped environment; none may be damaged.

    Without a task, the folder must have the policies of one task only, and its file.
    """
    folder = Path(folder)
    paths = listed(folder, "policies/*.npz")
    if task is not None and not isinstance(task, Task | str | Path):
        digest = task.scene.digest
        paths = [path for path in paths if peek_policy(path).digest == digest]
        if not paths:
            raise FormatError("has no policies of this world in it", path=folder)
        return [replace(load_policy(path, digest), definition=task) for path in paths]
    if not paths:
        raise FormatError("has no policies in it" if exists(folder) else "is not a folder of runs", path=folder)
    policies = find_policies(folder, _only_task(folder, paths) if task is None else as_task(task))
    if policies.problems:
        raise FormatError(policies.problems[0])
    if not policies.of_task:
        names = _names(policies.others)
        raise FormatError(f"its policies belong to other tasks ({names}, or another version of it)", path=folder)
    return list(policies.of_task)


def _only_task(folder: Path, policies: Iterable[Path]) -> Task:
    names = {about.digest: about.task for about in map(peek_policy, policies)}
    if len(names) > 1:
        raise FormatError(f"has policies of {len(names)} tasks: say which, {_names(names.values())}", path=folder)
    for path in listed(folder, "tasks/*.toml"):
        task = read_task(path)
        if task.digest in names:
            return task
    missing = f"does not hold the task {_names(names.values())} itself"
    raise FormatError(f"{missing}: say where it is, or pass the wrapped environment", path=folder)


def _names(tasks: Iterable[str]) -> str:
    return printable(", ".join(sorted(set(tasks))))


def damaged_policies(
    folder: Path, records: Iterable[Record], tasks: Mapping[str, Task], stop: Event | None = None
) -> dict[str, str]:
    """Find the runs, by their keys, whose policies are missing, damaged or of another run, and say what is wrong.

    A run without a test summary has kept no policy. When `stop` is set, the remaining runs are not checked.
    """
    readers = {digest: _reader(task) for digest, task in tasks.items()}
    problems = {}
    for record in chain.from_iterable(in_pieces(records, PIECE, stop or Event())):
        path = policy_path(folder, record)
        if record.test_summary is None and not path.exists():
            continue  # it was not to be kept
        try:
            policy = readers[record.digest](path)
            if (policy.learner, policy.seed, policy.settings) != (record.learner, record.seed, record.settings):
                raise FormatError("belongs to another run", path=path)
        except HocketError as error:
            problems[record.key] = f"{error}; its run is made again"
    return problems


def _reader(task: Task) -> Callable[[Path], Policy]:
    """Make a function that reads a policy of a task, and requires that its learner could have learnt it."""
    tables, shapes = compile_task(task), shapes_on(task)

    def read(path: Path) -> Policy:
        policy = load_policy(path, task.digest, shapes=shapes)
        with located(path=path, kind=SettingsError):
            find_learner(policy.learner).check_policy(policy.arrays, policy.settings, tables)
        return replace(policy, definition=task)

    return read
