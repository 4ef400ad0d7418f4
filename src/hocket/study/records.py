"""The record of a run: what was run, its tests during training, and a summary of the final tests; as plain JSON."""

from __future__ import annotations

import hashlib
import json
import math
import platform
import re
from collections import ChainMap, Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket import __version__
from hocket.errors import FormatError, SettingsError, located, shown
from hocket.files import MEGABYTE, read_text
from hocket.learn.catalogue import LEARNERS
from hocket.learn.policies import Run
from hocket.learn.settings import SettingValue, former_settings, name_value, rename_settings
from hocket.learn.testing import KINDS as KINDS
from hocket.learn.testing import TestEpisodes as TestEpisodes
from hocket.machine.names import check_name

FORMAT = "hocket run 1"
LIMIT = 256 * MEGABYTE  # of a record's file
LONGEST_SLUG = 40  # characters of a task's name in file names
MOST = 2**63 - 1  # of a number in a record
FARTHEST = 1e6  # cells from a map's corner, at which an agent may be at most
LIBRARIES = ("numpy", "numba")  # whose versions may change results

Settings = Mapping[str, SettingValue]


class Replay(NamedTuple):
    """An episode that can be watched: where the agents were, their machines' states, and the events."""

    success: bool
    points: NDArray[np.float64]  # [T + 1, N, 2]: across and down from the map's corner, in cells; the start comes first
    states: tuple[tuple[str, ...], ...]  # [T + 1][N]: of the agents' machines
    events: tuple[tuple[int, str], ...]  # the step after which an event happened


@dataclass(frozen=True)
class TestSummary:
    """The results of test episodes with the final policy."""

    __test__ = False  # tells pytest that this class is no test

    episodes: int
    successes: int  # of the team
    own_successes: tuple[int, ...]  # [N]: of each agent
    visits: NDArray[np.int64]  # [N, S]: how often each agent was in each cell; [N, 0] if there are too many cells
    replays: Mapping[str, Replay]  # softmax and greedy
    policy: str = "softmax"  # of the episodes
    returns: tuple[float, ...] = ()  # [N]: the mean return of each agent's machine; only if a task has rewards


@cache  # thousands of records may be made at a time
def made_with() -> dict[str, str]:
    """List the versions and the machine with which a record is made."""
    versions = {"hocket": __version__, "python": platform.python_version()}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return {**versions, "machine": f"{platform.system()} {platform.machine()}"}


@dataclass(frozen=True)
class Record:
    """A finished run."""

    task: str  # name
    digest: str  # of the task, or of the scene of a third-party environment
    learner: str
    seed: int
    steps: int  # of training
    settings: Settings  # all of them
    tests: Mapping[str, TestEpisodes] = field(repr=False)  # by kind of policy
    seconds: float = 0.0  # of computing
    test_summary: TestSummary | None = field(default=None, repr=False)
    made: Mapping[str, str] = field(default_factory=made_with, repr=False)  # versions and machine

    def __post_init__(self) -> None:
        for text, what in ((self.task, "a task"), (self.learner, "a learner"), (self.digest, "a task's digest")):
            check_name(text, what)
        if type(self.seed) is not int or not 0 <= self.seed <= MOST:
            raise SettingsError(f"the seed of a run must be an integer from 0 to 2^63 - 1, got {shown(self.seed)}")

    @cached_property
    def key(self) -> str:
        """Fingerprint all that determines the results; two runs with one key have the same results."""
        return self._keys[self.seed]

    @cached_property
    def kind(self) -> str:
        """Fingerprint what the run has in common with runs that differ from it only in the seed."""
        return self._keys[0]

    @cached_property
    def _keys(self) -> dict[int, str]:
        return run_keys(self.digest, self.learner, (self.seed, 0), self.steps, self.settings)

    @cached_property
    def name(self) -> str:
        """The name of the run's files."""
        return f"{slug(self.task)}-{slug(self.learner)}-{self.seed}-{self.key[:8]}"


def run_keys(digest: str, learner: str, seeds: Iterable[int], steps: int, settings: Settings) -> dict[int, str]:
    """Compute the key of each seed's run: the hash of a JSON list of everything that determines its results."""
    added = LEARNERS[learner].settings.added if learner in LEARNERS else {}
    before = json.dumps([digest, learner])[:-1]
    after = json.dumps([steps, dict(sorted(former_settings(settings, added).items()))])[1:]
    return {seed: hashlib.sha256(f"{before}, {seed}, {after}".encode()).hexdigest() for seed in seeds}


def slug(name: str) -> str:
    """Turn a name into one that every file system accepts.

    >>> slug("a/b: c")
    'a_b_c'
    """
    return re.sub(r"[^A-Za-z0-9_.+-]+", "_", name)[:LONGEST_SLUG].strip(".") or "_"


def record_of(run: Run, summary: TestSummary | None = None) -> Record:
    """Make a record of a run."""
    tests, policy = {kind: run.tests(kind) for kind in KINDS}, run.policy
    about = policy.task, policy.digest, policy.learner, policy.seed, run.steps, dict(policy.settings)
    return Record(*about, tests, round(run.seconds, 3), summary)


def task_titles(records: Iterable[Record]) -> dict[str, str]:
    """Name tasks, by their digests; tasks that share a name get a part of the digest."""
    names = {record.digest: record.task for record in records}
    tasks = Counter(names.values())
    return {digest: name if tasks[name] == 1 else f"{name} {digest[:6]}" for digest, name in names.items()}


def varied_settings(records: Sequence[Record]) -> list[dict[str, SettingValue]]:
    """List for each record the settings in which it differs from others of its task and learner."""
    groups: dict[tuple[str, str], dict[str, Record]] = {}  # thousands of runs may differ only in their seeds
    for record in records:
        groups.setdefault((record.digest, record.learner), {})[record.kind] = record
    varied: dict[str, dict[str, SettingValue]] = {}
    for kinds in groups.values():
        tables = [{"steps": record.steps, **record.settings} for record in kinds.values()]
        varied |= zip(kinds, keep_different(tables), strict=True)
    return [varied[record.kind] for record in records]


def keep_different(tables: Sequence[Mapping[str, SettingValue]]) -> list[dict[str, SettingValue]]:
    """Keep the entries of tables that differ between them; a missing setting that was added later has its old value.

    >>> keep_different([{"steps": 30, "discount": 0.9}, {"steps": 60, "discount": 0.9}])
    [{'steps': 30}, {'steps': 60}]
    """
    added = ChainMap(*(dict(learner.settings.added) for learner in LEARNERS.values()))
    whole = [{**{name: added[name] for name in chain(*tables) if name in added}, **table} for table in tables]
    names = [name for name in dict.fromkeys(chain(*tables)) if len({repr(table.get(name)) for table in whole}) > 1]
    return [{name: table[name] for name in names if name in table} for table in whole]


def group_label(learner: str, varied: Mapping[str, SettingValue]) -> str:
    """Name a group of runs by its learner and the settings that vary between groups.

    >>> group_label("dqprm", {"discount": 0.8})
    'dqprm, discount=0.8'
    """
    return ", ".join([learner, *(name_value(name, value) for name, value in varied.items())])


def write_record(record: Record) -> str:
    """Write a record as JSON."""
    document: dict[str, object] = {
        "format": FORMAT,
        **{name: getattr(record, name) for name in ("task", "digest", "learner", "seed", "steps")},
        "settings": dict(record.settings),
        "seconds": record.seconds,
        "made": dict(record.made),
        "tests": {kind: _tests_to(tests) for kind, tests in record.tests.items()},
        **({} if record.test_summary is None else {"review": _summary_to(record.test_summary)}),
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"


def _tests_to(tests: TestEpisodes) -> dict[str, object]:
    returns = {} if tests.returns is None else {"return": [float(f"{number:.12g}") for number in tests.returns]}
    return {name: getattr(tests, name).tolist() for name in ("step", "test_steps", "success")} | returns


def _summary_to(summary: TestSummary) -> dict[str, object]:
    about = {name: getattr(summary, name) for name in ("episodes", "policy", "successes", "own_successes")}
    about |= {"returns": summary.returns} if summary.returns else {}
    replays = {}
    for kind, replay in summary.replays.items():
        x, y = replay.points.transpose(2, 1, 0).tolist()
        states = [changes_of(column) for column in zip(*replay.states, strict=True)]
        replays[kind] = {"success": replay.success, "x": x, "y": y, "states": states, "events": replay.events}
    return {**about, "visits": summary.visits.tolist(), "replays": replays}


def changes_of(states: Sequence[str]) -> list[tuple[int, str]]:
    """List the steps after which a state has changed, each with the new state; the first state is after step 0."""
    return [(step, state) for step, state in enumerate(states) if step == 0 or state != states[step - 1]]


def read_record(path: Path) -> Record:
    """Read a record from a file."""
    content = read_text(path, LIMIT)
    with located(path=path, kind=FormatError):
        return parse_record(content)


def parse_record(content: str) -> Record:
    """Read a record, refusing what is damaged or not written by hocket."""
    try:
        return _record_from(json.loads(content))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError):
        raise FormatError("is not a record of a run that hocket has written") from None


def _record_from(document: Any) -> Record:  # noqa: ANN401
    if document["format"] != FORMAT:
        raise ValueError
    task, digest, learner, seed = (document[key] for key in ("task", "digest", "learner", "seed"))
    settings = rename_settings({_line(name): _setting(value) for name, value in document["settings"].items()})
    seconds = float(document["seconds"])
    made = {_line(name): _line(value) for name, value in document["made"].items()}
    tests = {kind: _tests_from(columns) for kind, columns in document["tests"].items() if kind in KINDS}
    if len(tests) != len(document["tests"]) or not math.isfinite(seconds):
        raise ValueError
    summary = _summary_from(document["review"]) if "review" in document else None
    return Record(task, digest, learner, seed, _count(document["steps"]), settings, tests, seconds, summary, made)


@lru_cache(1_000)  # thousands of runs name the same settings and libraries
def _line(value: object) -> str:
    """Require a name, which is printed and drawn as it is."""
    return check_name(value, "something")


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value <= MOST:
        raise ValueError
    return value


def _setting(value: object) -> SettingValue:
    if isinstance(value, str):
        return _line(value)
    if type(value) not in (int, float, bool) or not -MOST <= value <= MOST:  # type: ignore[operator]
        raise ValueError
    return value  # type: ignore[return-value]


def _tests_from(document: Mapping[str, list[int]]) -> TestEpisodes:
    columns = [_numbers(document[name], kind) for name, kind in (("step", int), ("test_steps", int), ("success", bool))]
    if "return" in document:
        columns.append(np.array(document["return"], np.float64))
    if len({column.shape for column in columns}) != 1 or not np.isfinite(columns[-1]).all():
        raise ValueError
    return TestEpisodes(*columns)


def _numbers(values: list[Any], kind: type) -> NDArray[Any]:
    """Require a list of numbers; a folder has millions of them, so no line of Python is run for each."""
    if type(values) is not list or not {kind}.issuperset(map(type, values)):
        raise TypeError
    if values and min(values) < 0:
        raise ValueError
    return np.array(values, np.bool_ if kind is bool else np.int64)  # which refuses numbers above MOST


def _summary_from(document: Mapping[str, Any]) -> TestSummary:
    agents = len(document["own_successes"])
    visits = np.array(document["visits"], np.int64).reshape(agents, -1)
    episodes, successes = (_count(document[name]) for name in ("episodes", "successes"))
    replays = {kind: _replay_from(replay, agents) for kind, replay in document["replays"].items() if kind in KINDS}
    counts = tuple(_count(count) for count in document["own_successes"])
    returns = tuple(float(mean) for mean in document.get("returns", ()))
    is_odd = len(returns) not in (0, agents) or not all(map(math.isfinite, returns))
    if is_odd or document["policy"] not in KINDS or (visits < 0).any() or max(successes, *counts) > episodes:
        raise ValueError
    return TestSummary(episodes, successes, counts, visits, replays, document["policy"], returns)


def _replay_from(document: Mapping[str, Any], agents: int) -> Replay:
    points = np.stack([np.array(document["x"], np.float64).T, np.array(document["y"], np.float64).T], axis=2)
    length = len(points)
    if points.shape != (length, agents, 2) or not length or not (np.abs(points) <= FARTHEST).all():
        raise ValueError
    states = [[""] * agents for _ in range(length)]
    for agent, changes in enumerate(document["states"]):
        current = {_count(step): _line(name) for step, name in changes}
        name = current[0]
        for step in range(length):
            name = states[step][agent] = current.get(step, name)
    events = tuple((_count(step), _line(name)) for step, name in document["events"])
    success = document["success"]
    is_odd = len(document["states"]) != agents or any(not 1 <= step < length for step, _ in events)
    if is_odd or type(success) is not bool:
        raise ValueError
    return Replay(success, points, tuple(map(tuple, states)), events)
