"""What a report says, computed from a folder of runs: curves, tables, bounds and episodes to watch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.draw.scene import Scene
from hocket.draw.scene_files import read_scene
from hocket.draw.task_scene import scene_of
from hocket.errors import FormatError, HocketError
from hocket.evaluation.bounds import Bounds, bound_runs
from hocket.learn.catalogue import LEARNERS, is_reference
from hocket.learn.policies import Run
from hocket.notebook_hook import shown
from hocket.statistics import (
    Comparison,
    Interval,
    Quartiles,
    bootstrap_interval,
    bootstrap_means,
    compare,
    learnt_step,
    median_or_never,
    quartiles,
    trailing_mean,
    trailing_median,
)
from hocket.study.published import Level, Published, published_from
from hocket.study.records import KINDS, Record, Replay, record_of
from hocket.study.store import Results, differences, group_label, task_titles

LAST_TESTS = 10  # of each run: its final performance, and at any time how it does
LAST_SUCCESSES = 50  # tests of each run, whose success is compared with what is published
MOST_COMPARED = 12  # groups up to which every two are compared
NEAR = 0.1  # of the final level, within which a curve has reached it
FAR_APART = 10  # times: groups whose times of learning differ by more are drawn over a logarithmic axis
ENOUGH = 0.9  # share of tests from which on a run has learnt

Numbers = NDArray[np.float64]


class Curve(NamedTuple):
    """How the runs of a group do over training: each by its last tests, and all by what is median among runs."""

    step: NDArray[np.int64]  # [T] of training
    quartiles: Quartiles  # [T] each: over runs, of the median of each run's last tests
    success: Numbers  # [T] the share of the same tests that succeeded
    each: Numbers  # [T] the median over runs of this test alone, as others publish it
    each_success: Numbers  # [T] the share of runs that succeeded in it


@dataclass(frozen=True)
class Final:
    """The final performance of a group of runs, under one kind of policy; limits are over runs."""

    quartiles: tuple[float, float, float]  # over runs, of the median steps of each run's last tests
    mean: Interval  # the interquartile mean over runs of the mean steps of each run's last tests
    success: Interval  # the mean over runs of the share of each run's last tests that succeeded
    learnt_after: int | None  # training steps, the median over all runs; None: never
    learnt: int  # runs that have learnt at all
    scores: tuple[float, ...]  # each run's mean of its last tests
    shares: tuple[float, ...]  # of each run's last tests that succeeded

    @property
    def learnt_in_words(self) -> str:
        """After how many training steps runs have learnt, and how many of them where some did and others did not."""
        when = "never" if self.learnt_after is None else f"{self.learnt_after:,}"
        runs = len(self.scores)
        return when if self.learnt in (0, runs) else f"{when} ({self.learnt} of {runs} runs)"


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
    files: tuple[str, ...]  # what the records of the runs are called, without folder and suffix
    policies: frozenset[str]  # those of them of which the folder has what was learnt

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
    folder: Path | None = None  # where the runs are kept

    def __repr__(self) -> str:
        return f"<Summary {self.title!r}: {', '.join(section.title for section in self.sections)}>"

    def _repr_html_(self) -> str | None:
        return shown(self, "html")


def needs_log_x(section: Section, policy: str = KINDS[0]) -> bool:
    """Say whether some groups learn so much sooner than others that a linear axis would not show it."""
    found = [group.finals[policy].learnt_after for group in section.groups if policy in group.finals]
    steps = [step for step in found if step]
    return bool(steps) and max(steps) > FAR_APART * min(steps)


def line_numbers(groups: Sequence[RunGroup]) -> list[int]:
    """Number the colours of groups: the n-th of our learners has the n-th one, on pages and in figures alike.

    What is not ours, or there several times, has what is left.
    """
    learners = [group.learner for group in groups]
    ours = [own.name for own in LEARNERS.values() if not own.is_reference]
    known = {own: ours.index(own) for own in {*learners} & {*ours} if learners.count(own) == 1}
    taken = {*known.values()}
    free = (number for number in range(len(taken) + len(groups)) if number not in taken)
    return [known[own] if own in known else next(free) for own in learners]


def summarize(results: Results | Sequence[Run], title: str | None = None) -> Summary:
    """Work out what a report says on a folder of runs, or on runs that `train` has returned."""
    if not isinstance(results, Results):
        results = Results(Path(), {}, tuple(record_of(run) for run in results), {}, (), ())
    scenes, unseen = _scenes(results)
    published, unclear = _published(results)
    is_kept = results.folder != Path()
    policies = frozenset(path.stem for path in results.folder.glob("policies/*.npz")) if is_kept else frozenset()
    sections = []
    for digest, name in task_titles(results.records).items():
        records = [record for record in results.records if record.digest == digest]
        section = _section(name, digest, scenes.get(digest), records, policies)
        sections.append(replace(section, beside=_beside(section, published)) if published is not None else section)
    missing = results.about.get("missing", 0)
    return Summary(
        title or results.folder.resolve().name,
        tuple(sections),
        _made(results),
        (*results.problems, *unseen, *unclear),
        missing if isinstance(missing, int) else 0,
        published,
        results.folder if is_kept else None,
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
    final = float(curve.each[-LAST_TESTS:].mean())
    smooth = trailing_mean(curve.each, LAST_TESTS)
    within = np.abs(smooth - final) <= NEAR * final
    never = final >= most_steps or not within.any()
    reached = None if never else int(curve.step[within.argmax()])
    return Level(final, reached, float(curve.each_success[-LAST_SUCCESSES:].mean()))


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


def _section(
    title: str, digest: str, scene: Scene | None, records: Sequence[Record], policies: frozenset[str]
) -> Section:
    apart = differences(records)
    parts: dict[str, list[Record]] = {}
    for record in records:
        parts.setdefault(group_label(record.learner, apart[record.key]), []).append(record)
    groups = [_group(label, own, apart[own[0].key], scene, policies) for label, own in parts.items()]
    reference = next((group for group in groups if group.is_reference), None)
    learners = tuple(group for group in groups if group is not reference)
    most = max((int(record.settings.get("episode_steps", 0)) for record in records), default=0)
    return Section(title, digest, scene, learners, reference, most or _largest(records), _compare(learners))


def _largest(records: Sequence[Record]) -> int:
    taken = [own.test_steps.max() for record in records for own in record.tests.values() if len(own.test_steps)]
    return int(max(taken, default=1))


def _group(
    label: str,
    records: Sequence[Record],
    apart: Mapping[str, float],
    scene: Scene | None,
    policies: frozenset[str],
) -> RunGroup:
    first = records[0]
    kinds = [kind for kind in KINDS if all(kind in own.tests and len(own.tests[kind].step) for own in records)]
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
        {kind: _final(records, kind) for kind in kinds},
        _bounds(records, scene),
        {
            (own.seed, kind): replay
            for own in records
            if own.review is not None
            for kind, replay in own.review.replays.items()
        },
        sum(visits[1:], start=visits[0]) if visits and len({own.shape for own in visits}) == 1 else None,
        tuple(own.name for own in records),
        frozenset(own.name for own in records) & policies,
    )


class _Tests(NamedTuple):
    """The tests of a run under one kind of policy, in order of training."""

    step: NDArray[np.int64]  # [T] all different
    taken: Numbers  # [T, K] steps of the episodes of each test
    success: NDArray[np.bool_]  # [T, K]


def _tests(record: Record, kind: str) -> _Tests:
    """Put episodes after the same step together; where some tests have more than others, as many as all have."""
    step, taken, success = record.tests[kind]
    order = np.argsort(step, kind="stable")
    unique, first, counts = np.unique(step[order], return_index=True, return_counts=True)
    place = order[first[:, None] + np.arange(counts.min())]
    return _Tests(unique, taken[place].astype(np.float64), success[place])


def _curve(records: Sequence[Record], kind: str) -> Curve:
    """Put the runs' tests side by side, as far as all of them go."""
    runs = [_tests(record, kind) for record in records]
    steps = np.array(sorted(set.intersection(*(set(own.step.tolist()) for own in runs))), np.int64)

    def together(of: Callable[[_Tests], Numbers]) -> Numbers:  # [runs, T]
        return np.array([of(own)[np.searchsorted(own.step, steps)] for own in runs])

    return Curve(
        steps,
        quartiles(together(lambda own: trailing_median(own.taken, LAST_TESTS))),
        together(lambda own: trailing_mean(own.success.mean(axis=1), LAST_TESTS)).mean(axis=0),
        np.median(together(lambda own: own.taken.mean(axis=1)), axis=0),
        together(lambda own: own.success.mean(axis=1)).mean(axis=0),
    )


def _final(records: Sequence[Record], kind: str) -> Final:
    count = 0 if is_reference(records[0].learner) else LAST_TESTS  # 0: all, for they are all the same
    runs = [_tests(record, kind) for record in records]
    low, middle, high = quartiles([np.median(own.taken[-count:]) for own in runs])
    scores = tuple(float(own.taken[-count:].mean()) for own in runs)
    shares = tuple(float(own.success[-count:].mean()) for own in runs)
    learnt = [learnt_step(*own, least=ENOUGH, tolerance=NEAR, window=LAST_TESTS) for own in runs]
    after = median_or_never(learnt)
    return Final(
        (float(low), float(middle), float(high)),
        bootstrap_interval(np.array(scores)[:, None]),
        bootstrap_means(np.array(shares)[:, None])[0],
        None if after is None else round(after),
        sum(step is not None for step in learnt),
        scores,
        shares,
    )


def _bounds(records: Sequence[Record], scene: Scene | None) -> Bounds | None:
    """Put the reviews of all runs together; the bounds hold for all their episodes at once, too."""
    reviews = [record.review for record in records if record.review is not None and record.review.episodes]
    if not reviews or len({(len(own.own_successes), own.policy) for own in reviews}) != 1:
        return None
    agents = len(reviews[0].own_successes)
    names: Iterable[str] = scene.agents if scene is not None else [f"agent {number + 1}" for number in range(agents)]
    shares = [np.array([own.successes, *own.own_successes]) / own.episodes for own in reviews]
    return bound_runs(reviews[0].policy, sum(own.episodes for own in reviews), names, np.array(shares))


def _compare(groups: Sequence[RunGroup]) -> tuple[tuple[str, str, Comparison], ...]:
    """Compare every two groups by their runs' last tests; of many groups, the best with each of the others."""
    kind = KINDS[0]
    able = [group for group in groups if kind in group.finals]
    if len(able) > MOST_COMPARED:
        best = min(able, key=lambda group: group.finals[kind].mean.value)
        pairs = [(best, other) for other in able if other is not best]
    else:
        pairs = list(combinations(able, 2))
    return tuple(
        (one.label, other.label, compare(*(own.finals[kind].scores for own in (one, other)))) for one, other in pairs
    )
