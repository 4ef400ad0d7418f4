"""Studies: tasks, learners, settings and seeds in all combinations, as values and as files.

A job is the run of one seed. Its result depends only on task, learner, settings and seed, so that a study that was
killed can be resumed, and one that has grown runs only the missing jobs.
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
from hocket.machine.decomposition import unreachable_notes
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
    """Jobs that differ only in their seeds."""

    def keys(self) -> dict[int, str]:
        """Compute the key of each seed's run."""
        return run_keys(self.task.digest, self.learner, self.seeds, self.steps, asdict(self.settings))

    def sample(self) -> Record:
        """Make a record that stands for those of its jobs, without test episodes."""
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

    tasks: Task | str | Path | Iterable[Task | str | Path]  # names and paths, or tasks
    learners: str | Iterable[str] = (DEFAULT_LEARNER,)
    seeds: int | Iterable[int] = 10
    steps: int | None = None  # None: the default of each learner
    # Or the name of settings: "paper".
    settings: str | Mapping[str, SettingValue | Sequence[SettingValue]] = field(default_factory=dict)
    also: tuple[Study, ...] = ()
    published: Published | None = None  # to compare with
    # World model with which training begins, or a folder of runs that has one; "survey": each task's map is surveyed.
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
        renamed = rename_settings(given, warn=True).items()
        sweeps = {name: tuple(value) if isinstance(value, list | tuple) else (value,) for name, value in renamed}
        object.__setattr__(self, "settings", MappingProxyType(sweeps))
        if not tasks or not learners:
            raise SettingsError("a study needs at least one task and one learner")
        if self.world is not None and self.world != SURVEY:
            object.__setattr__(self, "world", as_world(self.world))
        prepared = {learner: tuple(prepare_task(task, learner) for task in tasks) for learner in learners}
        object.__setattr__(self, "tasks", prepared[learners[0]])  # the same for all of them
        for name, values in sweeps.items():
            require_setting(name, learners)
            if not values:
                raise SettingsError(f"{name} needs at least one value")
        if (count := prod(map(len, sweeps.values()))) > MOST_JOBS:
            raise SettingsError(f"a study has at most {MOST_JOBS:,} combinations of settings, got {count:,}")
        if (jobs := sum(len(group.seeds) for group in self.groups())) > MOST_JOBS:
            raise SettingsError(f"a study has at most {MOST_JOBS:,} runs, got {jobs:,}")
        for group in self.groups():
            check_start(group.task, group.steps, group.world)
            check_tests(group.task, group.steps, group.settings)

    def __add__(self, other: Study) -> Study:
        return replace(self, also=(*self.also, other))

    def groups(self) -> list[JobGroup]:
        """List all jobs, in groups that differ only in their seeds."""
        tasks, learners, seeds, sweeps = cast(Parts, (self.tasks, self.learners, self.seeds, self.settings))
        groups = []
        for task, learner in product(tasks, learners):
            world = self._world_of(task)
            about = find_learner(learner)
            known, steps = declared(about.settings), about.steps if self.steps is None else self.steps
            swept = {name: values for name, values in sweeps.items() if name in known}
            for values in product(*swept.values()):
                settings = with_world(make_settings(learner, dict(zip(swept, values, strict=True))), learner, world)
                groups.append(JobGroup(task, learner, settings, seeds, steps, world=world))
        return [*groups, *(group for study in self.also for group in study.groups())]

    def _world_of(self, task: Task) -> WorldModel | None:
        if self.world != SURVEY:
            return cast(WorldModel | None, self.world)
        if task.digest not in self._surveys:
            self._surveys[task.digest] = survey(task).world
        return self._surveys[task.digest]


def _several(values: object, kind: UnionType | type) -> Iterable[Any]:
    """Return several values as they are, and a single one, of the kind or of a wrong one, as a tuple."""
    return values if isinstance(values, Iterable) and not isinstance(values, kind) else (values,)


def built_in_studies() -> list[str]:
    """List the names of the studies that come with hocket."""
    names = (Path(entry.name) for entry in resources.files("hocket.study.builtin").iterdir())
    return sorted(path.stem for path in names if path.suffix == ".toml")


def load_study(name: str | Path, seeds: int | Iterable[int] | None = None) -> Study:
    """Read a built-in study by its name, or one from a TOML file, with paths relative to it; replace its `seeds`."""
    path = Path(name)
    built_in = resources.files("hocket.study.builtin") / f"{path.name}.toml"
    is_built_in = str(name) in built_in_studies()
    if not is_built_in and not path.suffix and not exists(path):
        known = known_names(str(name), built_in_studies())
        raise FormatError(f"there is no file and no built-in study of this name ({known})", path=path)
    content = built_in.read_text(encoding="utf-8") if is_built_in else read_text(path, LIMIT)
    with located(path=path, whole="study"):
        return _study_from(toml.parse(content), path.parent, {} if seeds is None else {"seeds": seeds})


def _study_from(document: Document, folder: Path, changes: Mapping[str, object]) -> Study:
    check_keys(document, (*PART_KEYS, "parts", "published"))
    common = {key: value for key, value in document.items() if key not in ("parts", "name", "published")}
    parts = _tables_from(document.get("parts", [{}]), "parts")
    studies = [_part_from({**common, **part, **changes}, folder) for part in parts.values()]
    whole = sum(studies[1:], start=studies[0])
    return replace(whole, published=published_from(document["published"])) if "published" in document else whole


def _tables_from(value: object, where: str) -> dict[str, Document]:
    """Require a list of tables, at least one; return them by their keys."""
    if not isinstance(value, list) or not value:
        raise FormatError(f"must be tables: [[{where}]]", where=where)
    keys = [f"{where}[{number}]" for number in range(1, len(value) + 1)]
    return {key: as_table(row, key) for key, row in zip(keys, value, strict=True)}


def _part_from(table: Document, folder: Path) -> Study:
    given = entries(table, PART_KEYS)
    if "tasks" not in given:
        raise FormatError("is missing", where="tasks")
    paths = {name: folder / name for name in given["tasks"]}
    given["tasks"] = [load_task(path if path.suffix and exists(path) else name) for name, path in paths.items()]
    if given.get("world", SURVEY) != SURVEY:
        given["world"] = folder / given["world"]
    return Study(**{key: value for key, value in given.items() if key != "name"})


def _names_from(value: object, where: str) -> tuple[str, ...]:
    return (as_text(value, where),) if isinstance(value, str) else as_texts(value, where)


PART_KEYS: Mapping[str, Read] = {
    "name": as_any, "tasks": _names_from, "learners": _names_from, "seeds": as_any, "steps": as_any,
    "settings": lambda value, where: value if isinstance(value, str) else as_table(value, where), "world": as_text,
}  # fmt: skip


# Published results of the experiments, to compare with.


@dataclass(frozen=True)
class Level:
    """The final performance of a learner in softmax tests, and when it is reached; failures count as the step limit."""

    final: float  # steps: the mean over the last ten tests of the median over runs
    reached: int | None  # training steps after which the median, smoothed over ten tests, is within a tenth of `final`
    success: float  # share of the last fifty tests of all runs


@dataclass(frozen=True)
class Published:
    """Published levels, by the names of task and learner."""

    source: str  # the publication
    levels: Mapping[tuple[str, str], Level]
    notes: tuple[str, ...] = ()  # where and why measured levels differ

    def document(self) -> dict[str, object]:
        """Return the entries of a study's file."""
        rows = [{"task": task, "learner": learner, **asdict(level)} for (task, learner), level in self.levels.items()]
        known = [{key: value for key, value in row.items() if value is not None} for row in rows]
        return {"source": self.source, "notes": list(self.notes), "levels": known}


def published_from(value: object) -> Published:
    """Read published levels from a study's file, or from the `study.json` of a folder."""
    readers = {"source": as_text, "notes": as_texts, "levels": _levels_from}
    return Published(**entries({"source": None, "levels": None, **as_table(value, "published")}, readers, "published."))


def _levels_from(value: object, where: str) -> dict[tuple[str, str], Level]:
    return dict(_level_from(row, key) for key, row in _tables_from(value, where).items())


def _level_from(table: Document, where: str) -> tuple[tuple[str, str], Level]:
    readers = {"task": as_text, "learner": as_text, "final": as_number, "reached": as_any, "success": as_number}
    row = entries({**dict.fromkeys(readers), **table}, readers, f"{where}.")
    names, level = (row.pop("task"), row.pop("learner")), Level(**row)
    if level.final <= 0:
        raise FormatError(f"must be a number of steps above 0, got {level.final:g}", where=f"{where}.final")
    if not 0 <= level.success <= 1:
        raise FormatError(f"must be a share between 0 and 1, got {level.success:g}", where=f"{where}.success")
    if level.reached is not None and (type(level.reached) is not int or level.reached < 0):
        raise FormatError("must be a number of training steps", where=f"{where}.reached")
    return names, level


# Warnings before a study starts.


def warnings(study: Study) -> tuple[str, ...]:
    """Warn of runs of a study that may have nothing to learn or to show, one sentence each."""
    groups = study.groups()
    sentences: dict[str, None] = {}
    for task in {group.task.digest: group.task for group in groups}.values():
        try:
            verdict = check_task(task)
        except HocketError:
            continue  # training will raise it
        remarks = (*verdict.problems, *unreachable_notes(verdict.machine), *verdict.unrewarded_warnings)
        sentences |= dict.fromkeys(f"{task.name}: {remark}" for remark in remarks)
        sentences |= dict.fromkeys(_derived(task, {find_learner(group.learner).policy_input for group in groups}))
        for group in groups:
            if group.task == task:
                sentences |= dict.fromkeys((*_too_short(group, verdict), *_too_large(group)))
    return tuple(sentences)


def _too_short(group: JobGroup, verdict: Verdict) -> Iterator[str]:
    """Compare the steps of training with those that an episode and a test need."""
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
    """Warn if a team is too large for the reviews that its setting asks for."""
    agents = len(group.task.agents)
    if agents > 1 and getattr(group.settings, "team_review", "off") != "off" and group.task.decomposition.ok:
        tables = compile_task(group.task)
        if not is_reviewed(tables):
            yield (
                f"{group.label}: how ready teammates are is not counted (team_review) but a constant probability: "
                f"counting takes up to {MOST_AGENTS} agents and {MOST_MOVES:,} moves, got {agents:,} agents and "
                f"{count_moves(tables):,} moves."
            )


def _derived(task: Task, inputs: set[PolicyInput]) -> Iterator[str]:
    """List the memory and the options that the baselines derive, if the task does not define them."""
    for what, needed_by, derive, verb, it in (
        ("memory", {PolicyInput.MEMORY, PolicyInput.OPTION}, memory_of, "is", "it"),
        ("options", {PolicyInput.OPTION}, options_of, "are", "them"),
    ):
        of_agents = derive(task).items() if needed_by & inputs else ()
        derived = [(name, given) for name, given in of_agents if given and not getattr(task.agents[name], what)]
        if derived:
            agents = [f"{name}: {', '.join(map(str, given))}" for name, given in derived[:MOST_NAMED]]
            agents += ["..."] if len(derived) > MOST_NAMED else []
            why = "derived from their machines, as the task does not define"
            yield f"{task.name}: the {what} of agents ({'; '.join(agents)}) {verb} {why} {it}."
