"""The content of a report, computed from a folder of runs: curves, tables, bounds and episodes to watch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial, partialmethod
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.draw.scene import Scene, read_scene
from hocket.draw.task_scene import scene_of
from hocket.errors import FormatError, HocketError, counted
from hocket.evaluation.evaluate import Bounds, bound_runs
from hocket.lazy import show_in_notebook
from hocket.learn.catalogue import LEARNERS, is_reference
from hocket.learn.policies import Run
from hocket.report.performance import LAST_TESTS, NEAR, Curve, FinalPerformance, curve_of, final_of, gather_tests
from hocket.statistics import Comparison, compare, trailing_mean
from hocket.study.records import KINDS, Record, Replay, Settings, TestSummary, group_label, task_titles, varied_settings
from hocket.study.store import Results, as_results
from hocket.study.study import Level, Published, published_from
from hocket.study.testing import stall_of
from hocket.task.task import Task
from hocket.task.teamwork.check import Stall
from hocket.task.verdict import Verdict, check_task

MOSTLY = 0.5  # greedy success below which a team fails
LAST_SUCCESSES = 50  # tests of each run whose success is compared with the published one
MOST_COMPARED = 12  # groups up to which every two are compared
FAR_APART = 10  # times: groups whose learning times differ by more are drawn over a logarithmic axis

Numbers = NDArray[np.float64]


class GroupComparison(NamedTuple):
    """The runs of one group against those of another, under one kind of policy."""

    first: str  # label
    second: str
    comparison: Comparison
    policy: str


class LevelComparison(NamedTuple):
    """The published and the measured level of a learner on a task, by the same definition."""

    label: str  # of the group
    published: Level
    measured: Level

    @property
    def difference(self) -> float:
        """The relative difference of the measured final level from the published one."""
        return self.measured.final / self.published.final - 1


@dataclass(frozen=True)
class RunGroup:
    """Runs that differ only in their seeds."""

    label: str  # unique in its section: the learner and the varied settings
    learner: str
    settings: Settings
    varied: Settings  # those that vary between groups of this learner
    steps: int
    seeds: tuple[int, ...]
    seconds: float  # of computing
    curves: Mapping[str, Curve]  # by kind of policy
    finals: Mapping[str, FinalPerformance]  # likewise
    bounds: Bounds | None
    replays: Mapping[tuple[int, str], Replay]  # by seed and kind of policy
    visits: NDArray[np.int64] | None  # [N, S] summed over runs
    files: tuple[str, ...]  # names of the runs' files, without suffix
    stall: Stall | None  # of a greedy team, if most of the runs fail in the end
    policies: frozenset[str]  # names of the files of runs whose policies are in the folder

    @property
    def is_reference(self) -> bool:
        """Whether the learner computes optimal policies, with which others are compared."""
        return is_reference(self.learner)

    @property
    def team_verdict(self) -> str:
        """One sentence on how a failing team stalls; empty if it does not fail."""
        if self.stall is None:
            return ""
        final = self.finals["greedy"]
        fails = f"fails in {1 - final.success.value:.0%} of tests"
        outcome = f"earns {final.quartiles[1]:g}" if final.is_return else fails
        return f"{self.label}: the greedy team {outcome}. It stalls {self.stall}."


@dataclass(frozen=True, repr=False)
class Section:
    """A task and all groups of runs on it."""

    title: str
    digest: str
    scene: Scene | None
    groups: tuple[RunGroup, ...]  # without the reference
    reference: RunGroup | None  # drawn as a horizontal line, since it does not learn
    most_steps: int  # the step limit, as which a failed test counts
    comparisons: tuple[GroupComparison, ...]  # by kind of policy
    published_levels: tuple[LevelComparison, ...]
    task: Task | None  # None: the folder has no readable file of it

    @cached_property
    def verdict(self) -> Verdict | None:
        """The verdict on the task, without playing the team."""
        try:
            return None if self.task is None else check_task(self.task, play=False)
        except HocketError:  # too large for tables
            return None

    @property
    def all_groups(self) -> tuple[RunGroup, ...]:
        """The groups and, last, the reference, if there is one."""
        return self.groups if self.reference is None else (*self.groups, self.reference)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of policies that were tested, in the order in which they are shown."""
        return tuple(dict.fromkeys(kind for group in self.all_groups for kind in group.finals))

    @cached_property
    def colors(self) -> dict[str, int]:
        """The numbers of the groups' colours, by label; the reference has none."""
        return dict(zip((group.label for group in self.groups), line_numbers(self.groups), strict=True))

    @property
    def has_returns(self) -> bool:
        """Whether the task has rewards, so that runs are compared by their returns, where more is better."""
        return any(final.is_return for group in self.all_groups for final in group.finals.values())

    @property
    def measure(self) -> str:
        """The quantity that tests measure."""
        return "return" if self.has_returns else "test steps"

    @property
    def is_continuing(self) -> bool:
        """Whether the task has no end, so that tests have no success."""
        return self.task is not None and self.task.is_continuing

    def level(self, kind: str) -> float | None:
        """Return the steps or the return of the reference, if there is one."""
        final = self.reference.finals.get(kind) if self.reference is not None else None
        return None if final is None else final.quartiles[1]

    def __repr__(self) -> str:
        return f"<Section {self.title!r}: {', '.join(group.label for group in self.groups)}>"

    _repr_svg_ = partialmethod(show_in_notebook, "svg")
    _repr_html_ = partialmethod(show_in_notebook, "html")


@dataclass(frozen=True, repr=False)
class Summary:
    """The content of a report."""

    title: str
    sections: tuple[Section, ...]
    made: tuple[tuple[str, str], ...]  # versions, machine and times
    problems: tuple[str, ...]  # files that could not be read
    missing: int  # runs of the study that are not finished
    published: Published | None = None  # levels with which the study compares
    folder: Path | None = None  # of the runs

    def __repr__(self) -> str:
        return f"<Summary {self.title!r}: {', '.join(section.title for section in self.sections)}>"

    _repr_html_ = partialmethod(show_in_notebook, "html")


def needs_log_x(section: Section, policy: str = KINDS[0]) -> bool:
    """Tell whether groups differ so much in learning time that training steps need a logarithmic axis."""
    times = [group.finals[policy].learnt_after for group in section.groups if policy in group.finals]
    return spans([step for step in times if step is not None], FAR_APART)


def ranged(values: Sequence[int], thing: str) -> str:
    """Write the range of numbers of a thing."""
    low, high = min(values), max(values)
    return counted(high, thing) if low == high else f"{low:,} to {counted(high, thing)}"


def spans(values: Iterable[float], least: float) -> bool:
    """Tell whether the largest positive value is more than `least` times the smallest."""
    positive = [value for value in values if value > 0]
    return bool(positive) and max(positive) > least * min(positive)


def line_numbers(groups: Sequence[RunGroup]) -> list[int]:
    """Number the colours of groups: the n-th learner of hocket has the n-th, others and those with several groups the
    rest."""
    learners = [group.learner for group in groups]
    names = [learner.name for learner in LEARNERS.values() if not learner.is_reference]
    fixed = {name: names.index(name) for name in {*learners} & {*names} if learners.count(name) == 1}
    free = (number for number in range(len(fixed) + len(groups)) if number not in fixed.values())
    return [fixed[name] if name in fixed else next(free) for name in learners]


def summarize(what: Results | str | Path | Run | Iterable[Run], title: str | None = None) -> Summary:
    """Compute the content of a report on results, on a folder of runs, or on runs that `train` has returned."""
    results = as_results(what)
    scenes, problems = {digest: scene_of(task) for digest, task in results.tasks.items()}, [*results.problems]
    for path in results.scenes:
        try:
            scene = read_scene(path)
            scenes[scene.digest] = scene
        except HocketError as error:
            problems.append(str(error))
    published = None
    try:
        published = published_from(results.about["published"]) if "published" in results.about else None
    except FormatError as error:
        problems.append(f"{results.folder / 'study.json'}: {error}")
    folder = None if results.folder == Path() else results.folder
    policies = {path.stem for path in folder.glob("policies/*.npz")} if folder else set[str]()
    tasks = task_titles(results.records).items()
    sections = tuple(_section(results, digest, name, scenes.get(digest), policies, published) for digest, name in tasks)
    missing = results.about.get("missing", 0)
    title, missing = title or results.folder.resolve().name, missing if isinstance(missing, int) else 0
    return Summary(title, sections, _made(results), tuple(problems), missing, published, folder)


def measure_level(curve: Curve, most_steps: int) -> Level:
    """Measure the level of runs by the definition of published levels."""
    final = float(curve.each.median[-LAST_TESTS:].mean())
    smooth = trailing_mean(curve.each.median, LAST_TESTS)
    within = np.abs(smooth - final) <= NEAR * final
    never = final >= most_steps or not within.any()
    reached = None if never else int(curve.step[within.argmax()])
    return Level(final, reached, float(curve.each_success[-LAST_SUCCESSES:].mean()))


def _made(results: Results) -> tuple[tuple[str, str], ...]:
    about, records = results.about, results.records
    names = ("hocket", "python", "numpy", "numba", "machine", "cores")
    facts = [(name, str(about[name])) for name in names if name in about]
    if isinstance(wall := about.get("wall_seconds"), int | float):
        facts.append(("last session", f"{wall:.1f} s"))
    return (*facts, ("runs", f"{len(records):,}"), ("training steps", f"{sum(record.steps for record in records):,}"))


def _section(
    results: Results, digest: str, title: str, scene: Scene | None, policies: set[str], published: Published | None
) -> Section:
    kinds = KINDS[::-1] if published is None else KINDS  # published tests are softmax tests, which then come first
    task, records = results.tasks.get(digest), [record for record in results.records if record.digest == digest]
    parts: dict[str, tuple[Settings, list[Record]]] = {}
    for record, varied in zip(records, varied_settings(records), strict=True):
        parts.setdefault(group_label(record.learner, varied), (varied, []))[1].append(record)
    groups = [_group(label, *part, kinds, task, scene, policies) for label, part in parts.items()]
    reference = next((group for group in groups if group.is_reference), None)
    learners = tuple(group for group in groups if group is not reference)
    most = max(int(record.settings.get("max_episode_steps", 0)) for record in records)
    taken = [tests.test_steps.max() for record in records for tests in record.tests.values() if len(tests.test_steps)]
    most = most or int(max(taken, default=1))
    compared = tuple(comparison for kind in kinds for comparison in _compare(kind, learners))
    levels = tuple(
        LevelComparison(group.label, level, measure_level(group.curves[KINDS[0]], most))
        for group in learners
        if published and (level := published.levels.get((title, group.learner))) and KINDS[0] in group.curves
    )
    return Section(title, digest, scene, learners, reference, most, compared, levels, task)


def _group(
    label: str, varied: Settings, records: Sequence[Record], kinds: Sequence[str], task: Task | None,
    scene: Scene | None, policies: set[str],
) -> RunGroup:  # fmt: skip
    first = records[0]
    tested = (kind for kind in kinds if all(kind in each.tests and len(each.tests[kind].step) for each in records))
    tests = {kind: gather_tests(records, kind) for kind in tested}
    with ThreadPoolExecutor() as pool:  # most of the work releases Python's lock
        curves = pool.map(curve_of, tests.values())
        finals = pool.map(partial(final_of, is_same=is_reference(first.learner)), tests.values())
    by_kind = dict(zip(tests, finals, strict=True))
    summaries = {record.seed: record.test_summary for record in records if record.test_summary is not None}
    visits = [summary.visits for summary in summaries.values() if summary.visits.size]
    watched = ((seed, kind) for seed, summary in summaries.items() for kind in kinds if kind in summary.replays)
    replays = {(seed, kind): summaries[seed].replays[kind] for seed, kind in watched}
    seeds, files = tuple(record.seed for record in records), tuple(record.name for record in records)
    seconds = math.fsum(record.seconds for record in records)
    bounds = _bounds([summary for summary in summaries.values() if summary.episodes], scene)
    total = sum(visits[1:], start=visits[0]) if visits and len({counts.shape for counts in visits}) == 1 else None
    stall = None if task is None else _stall(by_kind.get("greedy"), replays, task)
    return RunGroup(
        label, first.learner, first.settings, varied, first.steps, seeds, seconds,
        dict(zip(tests, curves, strict=True)), by_kind, bounds, replays, total, files, stall,
        frozenset(policies.intersection(files)),
    )  # fmt: skip


def _stall(final: FinalPerformance | None, replays: Mapping[tuple[int, str], Replay], task: Task) -> Stall | None:
    """Find where a greedy team stalls, if most of its last tests fail or have no positive return."""
    if final is None or (final.quartiles[1] > 0 if final.is_return else final.success.value >= MOSTLY):
        return None
    failed = (replay for (_, kind), replay in replays.items() if kind == "greedy" and not replay.success)
    return next((stall_of(task, replay) for replay in failed), None)


def _bounds(summaries: Sequence[TestSummary], scene: Scene | None) -> Bounds | None:
    """Compute the bounds for the test episodes of all runs; returns need none, as the team's is the agents' sum."""
    if len({(len(summary.own_successes), summary.policy) for summary in summaries}) != 1 or summaries[0].returns:
        return None
    agents = len(summaries[0].own_successes)
    names: Iterable[str] = scene.agents if scene is not None else [f"agent {number + 1}" for number in range(agents)]
    shares = [np.array([summary.successes, *summary.own_successes]) / summary.episodes for summary in summaries]
    return bound_runs(summaries[0].policy, sum(summary.episodes for summary in summaries), names, np.array(shares))


def _compare(kind: str, groups: Sequence[RunGroup]) -> Iterator[GroupComparison]:
    """Compare every two groups by their runs' last tests under a kind of policy; of many, the best with all others."""
    costs = {}
    for label, final in ((group.label, group.finals[kind]) for group in groups if kind in group.finals):
        sign = -1 if final.is_return else 1  # fewer steps are better, or larger returns
        costs[label] = sign * final.mean.value, sign * np.array(final.scores)
    pairs = [*combinations(costs, 2)]
    if len(costs) > MOST_COMPARED:
        best = min(costs, key=lambda label: costs[label][0])
        pairs = [(best, other) for other in costs if other != best]
    for one, other in pairs:
        yield GroupComparison(one, other, compare(costs[one][1], costs[other][1]), kind)
