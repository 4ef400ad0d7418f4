"""What the runs in a folder have learnt: what of it can be used, and what has to be learnt again."""

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
from hocket.study.records import Record, TestSummary, read_record, set_apart
from hocket.study.store import PIECE, SceneSource, policy_path
from hocket.task.catalogue import as_task
from hocket.task.files import read_task
from hocket.task.memory import with_team_machine
from hocket.task.tables import compile_task
from hocket.task.task import Task


class ShownWorld(TrainableWorld, Protocol):
    """A world of somebody else's, known by what it looks like, in which what was learnt can be tested."""

    @property
    def scene(self) -> SceneSource: ...

    def test(self, policy: Policy) -> TestSummary: ...


class Policies(NamedTuple):
    """Policies of a task, and what else is in their folder."""

    of_task: tuple[Policy, ...]
    others: tuple[str, ...]  # the names of the tasks to which the others belong
    problems: tuple[str, ...]  # files that were left out, and why
    apart: tuple[dict[str, SettingValue], ...]  # of each policy: in which settings it differs from its learner's

    @property
    def files(self) -> int:
        """Count all of them."""
        return len(self.of_task) + len(self.others) + len(self.problems)


def find_policies(folder: str | Path, task: Task) -> Policies:
    """Read the policies in a folder that belong to a task; those that are damaged or do not fit it are named."""
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
    ordered: list[tuple[Policy, dict[str, SettingValue]]] = []  # by learners, settings that set them apart, and seeds
    for group in by_learner.values():
        apart = set_apart([{**_steps(path), **policy.settings} for path, policy in group.items()])
        ordered += sorted(
            zip(group.values(), apart, strict=True),
            key=lambda row: ([(isinstance(value, str), value) for value in row[1].values()], row[0].seed),
        )
    of_task, settings = zip(*ordered, strict=True) if ordered else ((), ())
    return Policies(of_task, tuple(others), tuple(problems), settings)


def _steps(path: Path) -> dict[str, int]:
    """Say how long a policy was trained, where the record of its run lies beside it."""
    try:
        return {"steps": read_record(path.parent.parent / "runs" / f"{path.stem}.json").steps}
    except HocketError:
        return {}


def load_policies(folder: str | Path, task: Task | str | Path | ShownWorld | None = None) -> list[Policy]:
    """Read the policies in a folder that belong to a task; there must be some, and none may be damaged.

    Without a task they are those of the folder's only one, which is kept there. In place of a task there may be a
    wrapped world.
    """
    if task is not None and not isinstance(task, Task | str | Path):
        digest = task.scene.digest
        paths = [path for path in listed(Path(folder), "policies/*.npz") if peek_policy(path).digest == digest]
        if not paths:
            raise FormatError("has no policies of this world in it", path=folder)
        return [replace(load_policy(path, digest), definition=task) for path in paths]
    policies = find_policies(folder, _only_task(Path(folder)) if task is None else as_task(task))
    if policies.problems:
        raise FormatError(policies.problems[0])
    if not policies.files:
        raise FormatError("has no policies in it" if exists(Path(folder)) else "is not a folder of runs", path=folder)
    if not policies.of_task:
        named = _names(policies.others)
        raise FormatError(f"its policies belong to other tasks ({named}, or another version of it)", path=folder)
    return list(policies.of_task)


def _only_task(folder: Path) -> Task:
    """Read the only task to which the policies in a folder belong."""
    named = {about.digest: about.task for about in map(peek_policy, listed(folder, "policies/*.npz"))}
    if not named:
        raise FormatError("has no policies in it" if exists(folder) else "is not a folder of runs", path=folder)
    if len(named) > 1:
        raise FormatError(f"has policies of {len(named)} tasks: say which, {_names(named.values())}", path=folder)
    for path in listed(folder, "tasks/*.toml"):
        task = read_task(path)
        if task.digest in named:
            return task
    raise FormatError(
        f"does not hold the task {_names(named.values())} itself: say where it is, or pass the wrapped world",
        path=folder,
    )


def _names(tasks: Iterable[str]) -> str:
    return printable(", ".join(sorted(set(tasks))))


def damaged_policies(
    folder: Path, records: Iterable[Record], tasks: Mapping[str, Task], stop: Event | None = None
) -> dict[str, str]:
    """Find the runs, by their keys, whose policies are missing, damaged or of something else; say what is wrong.

    A run without a summary of its tests has kept none. When `stop` is set, the others are not looked at.
    """
    readers = {mark: _reader(task) for mark, task in tasks.items()}
    problems = {}
    for record in chain.from_iterable(in_pieces(records, PIECE, stop or Event())):
        path = policy_path(folder, record)
        if record.test_summary is None and not path.exists():
            continue  # nobody asked to keep it
        try:
            policy = readers[record.digest](path)
            if (policy.learner, policy.seed, policy.settings) != (record.learner, record.seed, record.settings):
                raise FormatError("belongs to another run", path=path)
        except HocketError as error:
            problems[record.key] = f"{error}; its run is made again"
    return problems


def _reader(task: Task) -> Callable[[Path], Policy]:
    """Make what reads policies of a task, and requires that a learner could have learnt them."""
    tables, shapes = compile_task(task), shapes_on(task)

    def read(path: Path) -> Policy:
        policy = load_policy(path, task.digest, shapes=shapes)
        with located(path=path, kind=SettingsError):
            find_learner(policy.learner).check_policy(policy.arrays, policy.settings, tables)
        return replace(policy, definition=task)

    return read
