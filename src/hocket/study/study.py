"""Studies: tasks, learners, settings and seeds in all combinations, as values and as files.

A job is a run of one seed. What it gives depends on nothing but the task, the learner, the settings and the seed; so a
study that was killed goes on where it was, and one that has grown runs only what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import resources
from itertools import product
from math import prod
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Any, cast

import numpy as np

from hocket.documents import Document, Read, as_any, as_number, as_table, as_text, as_texts, check_keys, entries
from hocket.errors import FormatError, HocketError, SettingsError, known_names, located, shown
from hocket.files import MEGABYTE, exists, read_text
from hocket.lazy import explain_kinds
from hocket.learn.batches import Batch
from hocket.learn.catalogue import find_learner, named_settings, require_setting
from hocket.learn.learner import PolicyInput
from hocket.learn.reviews import MOST_AGENTS, MOST_MOVES, count_moves, is_reviewed
from hocket.learn.settings import DEFAULT_LEARNER, SettingValue, declared, rename_settings
from hocket.learn.survey import survey
from hocket.learn.training import check_seeds, check_start, check_tests, make_settings, prepare_task, with_world
from hocket.learn.world import WorldModel, as_world
from hocket.machine.formats import toml
from hocket.study.records import KINDS, Record, TestEpisodes, run_keys
from hocket.task.catalogue import as_task, load_task
from hocket.task.memory import memory_of, options_of
from hocket.task.tables import compile_task
from hocket.task.task import Task
from hocket.task.verdict import Verdict, check_task

LIMIT = MEGABYTE  # of a study's file
MOST_JOBS = 100_000
SURVEY = "survey"
MOST_NAMED = 5  # agents in a warning

Parts = tuple[tuple[Task, ...], tuple[str, ...], tuple[int, ...], Mapping[str, tuple[SettingValue, ...]]]  # of a study


class JobGroup(Batch):
    """Jobs that differ in nothing but their seeds."""

    def keys(self) -> dict[int, str]:
        """Give each seed the key of its run."""
        return run_keys(self.task.digest, self.learner, self.seeds, self.steps, asdict(self.settings))

    def sample(self) -> Record:
        """Make a record that stands for those of its jobs, without any test episode."""
        nothing = np.zeros(0, np.int64)
        tests = TestEpisodes(nothing, nothing, nothing.astype(bool), np.zeros(0) if self.task.has_rewards else None)
        about = (self.task.name, self.task.digest, self.learner, self.seeds[0], self.steps, asdict(self.settings))
        return Record(*about, {KINDS[0]: tests})


@explain_kinds
@dataclass(frozen=True)
class Study:
    """Which learners train on which tasks, with which settings, and how often.

    A setting with several values is swept: there are runs for every combination. A learner that lacks a setting runs
    without it. Several studies are added with `+`.
    """

    tasks: Task | str | Path | Iterable[Task | str | Path]  # by their names or paths, or as they are
    learners: str | Iterable[str] = (DEFAULT_LEARNER,)
    seeds: int | Iterable[int] = 10
    steps: int | None = None  # as many as each learner asks for
    # Or their name: "paper".
    settings: str | Mapping[str, SettingValue | Sequence[SettingValue]] = field(default_factory=dict)
    also: tuple[Study, ...] = ()
    published: Published | None = None  # to compare with
    # That training begins with, or the folder of runs that have learnt it; "survey": each task's map is surveyed.
    world: WorldModel | str | Path | None = None
    _surveys: dict[str, WorldModel] = field(default_factory=dict, init=False, repr=False, compare=False)  # by digest

    def __post_init__(self) -> None:
        tasks = tuple(map(as_task, _several(self.tasks, Task | str | Path)))
        learners = tuple(dict.fromkeys(find_learner(name).name for name in _several(self.learners, str)))
        object.__setattr__(self, "learners", learners)
        object.__setattr__(self, "seeds", tuple(dict.fromkeys(check_seeds(self.seeds))))
        given = named_settings(self.settings, learners) if isinstance(self.settings, str) else self.settings
        if not isinstance(given, Mapping):
            raise SettingsError(f"the settings of a study must be a dict or a name, got {shown(given)}")
        sweeps = {
            name: tuple(value) if isinstance(value, list | tuple) else (value,)
            for name, value in rename_settings(given, warn=True).items()
        }
        object.__setattr__(self, "settings", MappingProxyType(sweeps))
        if not tasks or not learners:
            raise SettingsError("a study needs at least one task and one learner")
        if self.world is not None and self.world != SURVEY:
            object.__setattr__(self, "world", as_world(self.world))
        prepared = {learner: tuple(prepare_task(task, learner) for task in tasks) for learner in learners}
        object.__setattr__(self, "tasks", prepared[learners[0]])  # the same for all of them
        _check_sweeps(sweeps, learners)
        if (jobs := sum(len(group.seeds) for group in self.groups())) > MOST_JOBS:
            raise SettingsError(f"a study has at most {MOST_JOBS:,} runs, got {jobs:,}")
        for group in self.groups():
            check_start(group.task, group.steps, group.world)
            check_tests(group.task, group.steps, group.settings)

    def __add__(self, other: Study) -> Study:
        return replace(self, also=(*self.also, other))

    def groups(self) -> list[JobGroup]:
        """List all jobs, those that differ in their seeds alone together."""
        tasks, learners, seeds, sweeps = cast(Parts, (self.tasks, self.learners, self.seeds, self.settings))
        groups = []
        for task, learner in product(tasks, learners):
            world = self._world_of(task)
            about = find_learner(learner)
            known, steps = declared(about.settings), about.steps if self.steps is None else self.steps
            swept = {name: values for name, values in sweeps.items() if name in known}
            for values in product(*swept.values()):
                settings = make_settings(learner, dict(zip(swept, values, strict=True)))
                settings = with_world(settings, learner, world)
                groups.append(JobGroup(task, learner, settings, seeds, steps, world=world))
        return [*groups, *(group for study in self.also for group in study.groups())]

    def _world_of(self, task: Task) -> WorldModel | None:
        """Find the world that training on a task begins with."""
        if self.world != SURVEY:
            return cast(WorldModel | None, self.world)
        if task.digest not in self._surveys:
            self._surveys[task.digest] = survey(task).world
        return self._surveys[task.digest]


def _several(values: object, kind: UnionType | type) -> Iterable[Any]:
    """Take one value of a kind as a list of it; what is neither is left to whoever takes the value."""
    return values if isinstance(values, Iterable) and not isinstance(values, kind) else (values,)


def _check_sweeps(sweeps: Mapping[str, tuple[SettingValue, ...]], learners: Sequence[str]) -> None:
    """Refuse settings that no learner has, and more combinations of them than a study may have."""
    for name, values in sweeps.items():
        require_setting(name, learners)
        if not values:
            raise SettingsError(f"{name} needs at least one value")
    if (count := prod(map(len, sweeps.values()))) > MOST_JOBS:
        raise SettingsError(f"a study has at most {MOST_JOBS:,} combinations of settings, got {count:,}")


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
    with located(path=path, whole="study"):
        return _study_from(toml.parse(content), path.parent, {} if seeds is None else {"seeds": seeds})


def _study_from(document: Document, folder: Path, changes: Mapping[str, object]) -> Study:
    check_keys(document, (*PART_KEYS, "parts", "published"))
    parts = document.get("parts", [{}])
    if not isinstance(parts, list) or not parts:
        raise FormatError("must be tables: [[parts]]", where="parts")
    common = {key: value for key, value in document.items() if key not in ("parts", "name", "published")}
    studies = [
        _part_from({**common, **as_table(part, f"parts[{number}]"), **changes}, folder)
        for number, part in enumerate(parts, start=1)
    ]
    whole = sum(studies[1:], start=studies[0])
    return replace(whole, published=published_from(document["published"])) if "published" in document else whole


def _part_from(table: Document, folder: Path) -> Study:
    given = entries(table, PART_KEYS)
    if "tasks" not in given:
        raise FormatError("is missing", where="tasks")
    beside = [(name, folder / name) for name in given["tasks"]]
    given["tasks"] = [load_task(path if path.suffix and exists(path) else name) for name, path in beside]
    if given.get("world", SURVEY) != SURVEY:
        given["world"] = folder / given["world"]
    return Study(**{key: value for key, value in given.items() if key != "name"})


def _names_from(value: object, where: str) -> tuple[str, ...]:
    return (as_text(value, where),) if isinstance(value, str) else as_texts(value, where)


PART_KEYS: Mapping[str, Read] = {
    "name": as_any, "tasks": _names_from, "learners": _names_from, "seeds": as_any, "steps": as_any,
    "settings": lambda value, where: value if isinstance(value, str) else as_table(value, where), "world": as_text,
}  # fmt: skip


# What others have published of the experiments, to be shown beside what is measured here.


@dataclass(frozen=True)
class Level:
    """How good a learner is in the end, and how soon; of softmax tests, a failed one counting as its most steps."""

    final: float  # steps: the mean over the last ten tests of the median over runs
    reached: int | None  # training steps when that median, a trailing mean of ten, is first within a tenth of it
    success: float  # share of the last fifty tests of all runs


@dataclass(frozen=True)
class Published:
    """Published levels, by the names of task and learner."""

    source: str  # who published them, and where
    levels: Mapping[tuple[str, str], Level]
    notes: tuple[str, ...] = ()  # where, and why, what is measured here differs

    def document(self) -> dict[str, object]:
        """Lay it out as in a study's file."""
        rows = [{"task": task, "learner": learner, **asdict(level)} for (task, learner), level in self.levels.items()]
        known = [{key: value for key, value in row.items() if value is not None} for row in rows]
        return {"source": self.source, "notes": list(self.notes), "levels": known}


def published_from(value: object) -> Published:
    """Read published levels from a study's file, or from what a folder says of a study."""
    readers = {"source": as_text, "notes": as_texts, "levels": _levels_from}
    return Published(**entries({"source": None, "levels": None, **as_table(value, "published")}, readers, "published."))


def _levels_from(value: object, where: str) -> dict[tuple[str, str], Level]:
    if not isinstance(value, list) or not value:
        raise FormatError(f"must be tables: [[{where}]]", where=where)
    return dict(_level_from(row, f"{where}[{number}]") for number, row in enumerate(value, start=1))


def _level_from(value: object, where: str) -> tuple[tuple[str, str], Level]:
    readers = {"task": as_text, "learner": as_text, "final": as_number, "reached": as_any, "success": as_number}
    row = entries({**dict.fromkeys(readers), **as_table(value, where)}, readers, f"{where}.")
    names, level = (row.pop("task"), row.pop("learner")), Level(**row)
    if level.final <= 0:
        raise FormatError(f"must be a number of steps above 0, got {level.final:g}", where=f"{where}.final")
    if not 0 <= level.success <= 1:
        raise FormatError(f"must be a share between 0 and 1, got {level.success:g}", where=f"{where}.success")
    if level.reached is not None and (type(level.reached) is not int or level.reached < 0):
        raise FormatError("must be a number of training steps", where=f"{where}.reached")
    return names, level


# What would make a study pointless, said before it starts.


def warnings(study: Study) -> tuple[str, ...]:
    """Say why runs of a study may have nothing to learn or to show, one sentence each."""
    groups = study.groups()
    said: dict[str, None] = {}
    for task in {group.task.digest: group.task for group in groups}.values():
        try:
            verdict = check_task(task)
        except HocketError:
            continue  # whoever compiles the task will say what is wrong
        said |= dict.fromkeys(f"{task.name}: {problem}" for problem in (*verdict.problems, *verdict.idle))
        said |= dict.fromkeys(_derived(task, {find_learner(group.learner).policy_input for group in groups}))
        for group in groups:
            if group.task == task:
                said |= dict.fromkeys((*_too_short(group, verdict), *_too_large(group)))
    return tuple(said)


def _too_short(group: JobGroup, verdict: Verdict) -> Iterator[str]:
    """Compare steps with how many an episode and a test need."""
    fewest, settings, is_trained = verdict.steps_lower_bound, group.settings, group.steps > 0
    if is_trained and group.steps < fewest and not find_learner(group.learner).is_reference:
        yield f"{group.label}: {group.steps:,} steps of training complete no episode, as each takes {fewest:,} or more."
    if settings.max_episode_steps < fewest:
        most = f"an episode ends after {settings.max_episode_steps:,} steps"
        yield f"{group.label}: {most}, and to complete the task takes {fewest:,} or more."
    if is_trained and group.steps < settings.test_every:
        first = f"the first test, which comes after {settings.test_every:,}"
        yield f"{group.label}: {group.steps:,} steps of training end before {first}."


def _too_large(group: JobGroup) -> Iterator[str]:
    """Say that a team is not reviewed though its setting asks for it."""
    agents = len(group.task.agents)
    if agents > 1 and getattr(group.settings, "team_review", "off") != "off" and group.task.decomposition.ok:
        tables = compile_task(group.task)
        if not is_reviewed(tables):
            yield (
                f"{group.label}: how ready teammates are is not counted (team_review) but a constant probability: "
                f"counting takes up to {MOST_AGENTS} agents and {MOST_MOVES:,} moves, got {agents:,} agents and "
                f"{count_moves(tables):,} moves."
            )


def _derived(task: Task, looks: set[PolicyInput]) -> Iterator[str]:
    """Say which memory and options the agents of the baselines have, if the task does not define them."""
    for what, takes, derived, verb, it in (
        ("memory", {PolicyInput.MEMORY, PolicyInput.OPTION}, memory_of, "is", "it"),
        ("options", {PolicyInput.OPTION}, options_of, "are", "them"),
    ):
        each = derived(task) if takes & looks else {}
        told = {name: given for name, given in each.items() if given and not getattr(task.agents[name], what)}
        if told:
            why = "derived from their machines, as the task does not define"
            yield f"{task.name}: the {what} of agents ({_listed(told)}) {verb} {why} {it}."


def _listed(told: Mapping[str, Sequence[object]]) -> str:
    """List what some agents have, with no more of them than one reads."""
    said = [f"{name}: {', '.join(map(str, what))}" for name, what in list(told.items())[:MOST_NAMED]]
    return "; ".join(said + ["..."] * (len(told) > MOST_NAMED))
