"""What a report says, computed from a folder of runs: curves, tables, bounds and episodes to watch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.draw.scene import Scene
from hocket.draw.scene_files import read_scene
from hocket.draw.task_scene import scene_of
from hocket.errors import FormatError, HocketError
from hocket.evaluation.bounds import Bounds, bound_success
from hocket.learn.catalogue import is_reference
from hocket.learn.policies import Run
from hocket.notebook_hook import shown
from hocket.statistics import (
    Comparison,
    Interval,
    Quartiles,
    Share,
    bootstrap_interval,
    compare,
    quartiles,
    reaching_step,
    trailing_mean,
    wilson,
)
from hocket.study.published import Level, Published, published_from
from hocket.study.records import KINDS, Record, Replay, record_of
from hocket.study.store import Results, differences, task_titles

LAST_TESTS = 10  # of each run: its final performance
WINDOW = 10  # tests in the trailing mean that the paper smooths its curves with
LAST_SUCCESSES = 50  # tests of each run, whose success is compared with what is published
NEAR = 0.1  # of the final level, within which a curve has reached it

Numbers = NDArray[np.float64]


class Curve(NamedTuple):
    """Test steps over training, of all runs of a group: the median and quartiles over seeds."""

    step: NDArray[np.int64]  # [T] of training
    plain: Quartiles  # [T] each
    smooth: Quartiles  # [T] each; every run smoothed by a trailing mean first
    success: Numbers  # [T] the share of runs that succeeded in this test


@dataclass(frozen=True)
class Final:
    """The final performance of a group of runs, under one kind of policy."""

    quartiles: tuple[float, float, float]  # of the test steps
    mean: Interval  # the interquartile mean of the runs' last tests, with its bootstrap interval
    success: Share  # of the last tests
    reaching: int | None  # median over runs: training steps until the curve is within a tenth of its final level
    scores: tuple[float, ...]  # each run's mean of its last tests


class Beside(NamedTuple):
    """What is published of a learner on a task, and what is measured of a group of runs, by the same definition."""

    label: str  # of the group
    published: Level
    measured: Level

    @property
    def difference(self) -> float:
        """By which share the measured level lies above the published one."""
        return self.measured.final / self.published.final - 1


@dataclass(frozen=True)
class RunGroup:
    """Runs that differ in nothing but their seeds."""

    label: str  # unique in its section: the learner, and what sets it apart
    learner: str
    settings: Mapping[str, float | int | bool]
    apart: Mapping[str, float | int | bool]  # the settings in which it differs from others of this learner
    steps: int
    seeds: tuple[int, ...]
    seconds: float  # of computing
    curves: Mapping[str, Curve]  # by kind of policy
    finals: Mapping[str, Final]  # likewise
    bounds: Bounds | None
    replays: Mapping[tuple[int, str], Replay]  # by seed and kind of policy
    visits: NDArray[np.int64] | None  # [N, S] summed over runs

    @property
    def is_reference(self) -> bool:
        """Whether nothing was learnt, so that it is there for others to be compared with."""
        return is_reference(self.learner)


@dataclass(frozen=True, repr=False)
class Section:
    """One task and all that was run on it."""

    title: str
    digest: str
    scene: Scene | None
    groups: tuple[RunGroup, ...]  # without the reference
    reference: RunGroup | None  # drawn as a line across, for nothing was learnt
    most_steps: int  # a failed test counts as that many
    comparisons: tuple[tuple[str, str, Comparison], ...]  # the first label's runs against the second's, softmax
    beside: tuple[Beside, ...] = ()  # what is published

    @property
    def all_groups(self) -> tuple[RunGroup, ...]:
        """The groups and, last, the reference, if there is one."""
        return self.groups if self.reference is None else (*self.groups, self.reference)

    def level(self, kind: str) -> float | None:
        """Say how many steps the reference takes, if there is one."""
        found = self.reference.finals.get(kind) if self.reference is not None else None
        return None if found is None else found.quartiles[1]

    def __repr__(self) -> str:
        return f"<Section {self.title!r}: {', '.join(group.label for group in self.groups)}>"

    def _repr_svg_(self) -> str | None:
        return shown(self, "svg")

    def _repr_html_(self) -> str | None:
        return shown(self, "html")


@dataclass(frozen=True, repr=False)
class Summary:
    """All that a report says."""

    title: str
    sections: tuple[Section, ...]
    made: tuple[tuple[str, str], ...]  # what it was run with, and on
    problems: tuple[str, ...]  # files that could not be read
    missing: int  # runs that the study still lacks
    published: Published | None = None  # levels that the study compares with

    def __repr__(self) -> str:
        return f"<Summary {self.title!r}: {', '.join(section.title for section in self.sections)}>"

    def _repr_html_(self) -> str | None:
        return shown(self, "html")


def summarize(results: Results | Sequence[Run], title: str | None = None) -> Summary:
    """Work out what a report says on a folder of runs, or on runs that `train` has returned."""
    if not isinstance(results, Results):
        results = Results(Path(), {}, tuple(record_of(run) for run in results), {}, (), ())
    scenes, unseen = _scenes(results)
    published, unclear = _published(results)
    sections = []
    for digest, name in task_titles(results.records).items():
        records = [record for record in results.records if record.digest == digest]
        section = _section(name, digest, scenes.get(digest), records)
        sections.append(replace(section, beside=_beside(section, published)) if published is not None else section)
    missing = results.about.get("missing", 0)
    return Summary(
        title or results.folder.resolve().name,
        tuple(sections),
        _made(results),
        (*results.problems, *unseen, *unclear),
        missing if isinstance(missing, int) else 0,
        published,
    )


def _published(results: Results) -> tuple[Published | None, tuple[str, ...]]:
    """Read which published levels a folder's study compares with, and what is wrong with them."""
    if "published" not in results.about:
        return None, ()
    try:
        return published_from(results.about["published"]), ()
    except FormatError as error:
        return None, (f"{results.folder / 'study.json'}: {error}",)


def _beside(section: Section, published: Published) -> tuple[Beside, ...]:
    """Put what is measured beside what is published of the same learner on the same task."""
    kind = KINDS[0]
    return tuple(
        Beside(group.label, found, measure_level(group.curves[kind], section.most_steps))
        for group in section.groups
        if (found := published.levels.get((section.title, group.learner))) is not None and kind in group.curves
    )


def measure_level(curve: Curve, most_steps: int) -> Level:
    """Measure how good runs are in the end, and how soon, by the definition of published levels."""
    medians = curve.plain.median
    final = float(medians[-LAST_TESTS:].mean())
    smooth = trailing_mean(medians, WINDOW)
    within = np.abs(smooth - final) <= NEAR * final
    never = final >= most_steps or not within.any()
    reached = None if never else int(curve.step[within.argmax()])
    return Level(final, reached, float(curve.success[-LAST_SUCCESSES:].mean()))


def _scenes(results: Results) -> tuple[dict[str, Scene], list[str]]:
    """Find what there is to see of each task, by its digest, and which files cannot be read."""
    scenes, problems = {digest: scene_of(task) for digest, task in results.tasks.items()}, []
    for path in results.scenes:
        try:
            scene = read_scene(path)
            scenes[scene.digest] = scene
        except HocketError as error:
            problems.append(str(error))
    return scenes, problems


def _made(results: Results) -> tuple[tuple[str, str], ...]:
    """Say with what, on what, and in how much time all this was run."""
    about, records = results.about, results.records
    found = [(name, str(about[name])) for name in ("hocket", "python", "numpy", "numba", "machine") if name in about]
    if isinstance(cores := about.get("cores"), int):
        found.append(("cores", str(cores)))
    if isinstance(wall := about.get("wall_seconds"), int | float):
        found.append(("last session", f"{wall:.1f} s"))
    return (*found, ("runs", f"{len(records):,}"), ("training steps", f"{sum(own.steps for own in records):,}"))


def _section(title: str, digest: str, scene: Scene | None, records: Sequence[Record]) -> Section:
    apart = differences(records)
    parts: dict[str, list[Record]] = {}
    for record in records:
        words = [f"{name}={value:g}" for name, value in apart[record.key].items()]
        parts.setdefault(", ".join([record.learner, *words]), []).append(record)
    groups = [_group(label, own, apart[own[0].key], scene) for label, own in parts.items()]
    reference = next((group for group in groups if group.is_reference), None)
    learners = tuple(group for group in groups if group is not reference)
    most = max((int(record.settings.get("episode_steps", 0)) for record in records), default=0)
    return Section(title, digest, scene, learners, reference, most or _largest(records), _compare(learners))


def _largest(records: Sequence[Record]) -> int:
    taken = [own.test_steps.max() for record in records for own in record.tests.values() if len(own.test_steps)]
    return int(max(taken, default=1))


def _group(label: str, records: Sequence[Record], apart: Mapping[str, float], scene: Scene | None) -> RunGroup:
    first = records[0]
    kinds = [kind for kind in KINDS if all(kind in own.tests and len(own.tests[kind].step) for own in records)]
    most = float(first.settings.get("episode_steps", 0)) or float(_largest(records))
    visits = [own.review.visits for own in records if own.review is not None and own.review.visits.size]
    return RunGroup(
        label,
        first.learner,
        first.settings,
        apart,
        first.steps,
        tuple(own.seed for own in records),
        math.fsum(own.seconds for own in records),
        {kind: _curve(records, kind) for kind in kinds},
        {kind: _final(records, kind, most) for kind in kinds},
        _bounds(records, scene),
        {
            (own.seed, kind): replay
            for own in records
            if own.review is not None
            for kind, replay in own.review.replays.items()
        },
        sum(visits[1:], start=visits[0]) if visits and len({own.shape for own in visits}) == 1 else None,
    )


def _curve(records: Sequence[Record], kind: str) -> Curve:
    """Put the runs' tests side by side, as far as all of them go; several tests at one step count as their mean."""
    rows, wins = zip(*(_by_step(record, kind) for record in records), strict=True)
    steps = sorted(set.intersection(*(set(row) for row in rows)))
    values = np.array([[row[step] for step in steps] for row in rows])
    success = np.array([[win[step] for step in steps] for win in wins]).mean(axis=0)
    return Curve(np.array(steps, np.int64), quartiles(values), quartiles(trailing_mean(values, WINDOW)), success)


def _by_step(record: Record, kind: str) -> tuple[dict[int, float], dict[int, float]]:
    step, taken, success = record.tests[kind]
    unique, index = np.unique(step, return_inverse=True)
    count = np.bincount(index)
    means = [np.bincount(index, weights=own) / count for own in (taken, success)]
    return (
        dict(zip(unique.tolist(), means[0].tolist(), strict=True)),
        dict(zip(unique.tolist(), means[1].tolist(), strict=True)),
    )


def _final(records: Sequence[Record], kind: str, most: float) -> Final:
    count = 0 if is_reference(records[0].learner) else LAST_TESTS  # 0: all, for they are all the same
    last = [record.tests[kind].test_steps[-count:] for record in records]
    wins = [record.tests[kind].success[-count:] for record in records]
    low, middle, high = np.percentile(np.concatenate(last), (25, 50, 75)).tolist()
    scores = tuple(float(own.mean()) for own in last)
    curves = [_by_step(record, kind)[0] for record in records]
    found = [reaching_step([*curve], [*curve.values()], failed=most) for curve in curves]
    reached = sorted(math.inf if step is None else step for step in found)
    middle_run = reached[(len(reached) - 1) // 2]
    return Final(
        (low, middle, high),
        bootstrap_interval(np.array(scores)[:, None]),
        wilson(int(sum(own.sum() for own in wins)), sum(len(own) for own in wins)),
        None if math.isinf(middle_run) else int(middle_run),
        scores,
    )


def _bounds(records: Sequence[Record], scene: Scene | None) -> Bounds | None:
    """Put the reviews of all runs together; the bounds hold for all their episodes at once, too."""
    reviews = [record.review for record in records if record.review is not None and record.review.episodes]
    if not reviews or len({(len(own.own_successes), own.policy) for own in reviews}) != 1:
        return None
    episodes = sum(own.episodes for own in reviews)
    own = np.array([review.own_successes for review in reviews]).sum(axis=0)
    names: Iterable[str] = scene.agents if scene is not None else [f"agent {number + 1}" for number in range(len(own))]
    successes = sum(review.successes for review in reviews)
    return bound_success(reviews[0].policy, episodes, successes, dict(zip(names, own.tolist(), strict=False)))


def _compare(groups: Sequence[RunGroup]) -> tuple[tuple[str, str, Comparison], ...]:
    """Compare every two groups by their runs' last tests."""
    kind = KINDS[0]
    able = [group for group in groups if kind in group.finals]
    return tuple(
        (one.label, other.label, compare(one.finals[kind].scores, other.finals[kind].scores))
        for number, one in enumerate(able)
        for other in able[number + 1 :]
    )
