"""How runs are told apart: titles of tasks, and the settings in which runs of a learner differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from hocket.study.records import Record

Value = float | int | bool


def task_titles(records: Iterable[Record]) -> dict[str, str]:
    """Name tasks by digest; of two with the same name, both show a part of their digests."""
    names = {record.digest: record.task for record in records}
    tasks = Counter(names.values())
    return {mark: name if tasks[name] == 1 else f"{name} {mark[:6]}" for mark, name in names.items()}


def differences(records: Sequence[Record]) -> dict[str, dict[str, Value]]:
    """Find for each record, by its key, the settings in which it differs from others of its task and learner."""
    groups: dict[tuple[str, str], dict[str, dict[str, Value]]] = {}
    for record in records:
        kinds = groups.setdefault((record.digest, record.learner), {})
        if record.kind not in kinds:  # thousands of runs may differ in nothing but their seeds
            kinds[record.kind] = {"steps": record.steps, **record.settings}
    apart: dict[str, dict[str, Value]] = {}
    for kinds in groups.values():
        apart |= zip(kinds, set_apart(list(kinds.values())), strict=True)
    return {record.key: apart[record.kind] for record in records}


def set_apart(tables: Sequence[Mapping[str, Value]]) -> list[dict[str, Value]]:
    """Keep of each table what is not the same in all of them.

    >>> set_apart([{"steps": 30, "discount": 0.9}, {"steps": 60, "discount": 0.9}])
    [{'steps': 30}, {'steps': 60}]
    """
    names = [name for name in tables[0] if len({repr(table.get(name)) for table in tables}) > 1]
    return [{name: table[name] for name in names if name in table} for table in tables]


def group_label(learner: str, apart: Mapping[str, Value]) -> str:
    """Name runs of a learner by the settings that set them apart.

    >>> group_label("dqprm", {"discount": 0.8})
    'dqprm, discount=0.8'
    """
    return ", ".join([learner, *(f"{name}={value:g}" for name, value in apart.items())])
