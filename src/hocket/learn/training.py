"""Train any learner on a task, with tests in between; results do not depend on threads and pieces."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Event
from typing import Any, cast

from hocket.arguments import whole
from hocket.background import take_turns
from hocket.capacity import require_memory
from hocket.errors import SettingsError, counted, shown
from hocket.lazy import renamed_arguments, warn_deprecated
from hocket.learn.actors import TrainableWorld
from hocket.learn.batches import Batch, Pace, Report, StopSignal, train_in_pieces
from hocket.learn.catalogue import LEARNERS, default_learner, find_learner, named_settings, require_setting
from hocket.learn.dqprm import LEARNER as NEEDS_NO_MAP
from hocket.learn.learner import Block, Learner, Player, PolicyInput
from hocket.learn.policies import Run
from hocket.learn.settings import MOST_STEPS, Settings, SettingValue, rename_settings, used_settings
from hocket.learn.testing import KINDS, TestLog
from hocket.learn.world import PlanningBlock, WorldBlock, WorldModel, as_world
from hocket.task.catalogue import as_task
from hocket.task.memory import with_team_machine
from hocket.task.tables import Tables, compile_task
from hocket.task.task import Task

MOST_SEEDS = 10_000_000
MOST_TESTS = 10_000_000  # that a run keeps
MOST_TEST_NUMBERS = 500_000_000  # in these tests: the steps, and the times of agents and events
LARGEST_BLOCK = 16  # seeds that train together


@renamed_arguments(policies="keep_policies")
def train(
    task: Task | str | Path | TrainableWorld,  # or a built-in name, or the path of a file
    learner: str | None = None,  # its name; sweep by default
    seeds: int | Iterable[int] = 10,  # how many, or which
    steps: int | None = None,  # of training, of each agent
    settings: Settings | Mapping[str, SettingValue] | str | None = None,  # that differ, or "paper"
    *,
    threads: int | None = None,  # all processors by default
    device: str = "cpu",  # or "cuda"
    keep_policies: int | None = None,  # of seeds below this
    world: WorldModel | str | Path | None = None,
    progress: Callable[[int], None] | None = None,  # takes how many more agent-steps are done
    stop: Event | None = None,
    views: Mapping[str, Any] | None = None,
    folder: str | Path | None = None,
    changes: Mapping[str, SettingValue] | None = None,
) -> list[Run]:
    """Train a learner on a task, with tests in between; return a run for each seed.

    `task` is a task, or the name or file of one. `seeds` is how many runs to make, or which; `steps` is how many steps
    to train, by default as many as the learner suggests. `settings` are a dictionary of those that differ from the
    defaults, the name of a collection ("paper"), or a `Settings`. Results depend only on the task, the settings and the
    seed. When `stop` is set, training ends early and returns what is finished. `device` is "cpu" or "cuda": a GPU,
    which trains thousands of seeds at once with the same results. With `keep_policies`, only runs of seeds below it
    keep their policies. The default learner is sweep, on cuda dqprm. `world` is what runs on the same map have learnt
    of it, or their folder, to begin with; then `steps` may be 0, which plans without a step. (`changes` and `policies`
    are former names of `settings` and `keep_policies`.)

    In a wrapped environment (`hocket.gym.wrap`) with discrete or hashable observations, learners train that need no
    map. The default is dqprm, which trains each agent in its view of the environment (`views`, by default made from the
    environment itself), and reviews the team in it. With `folder`, each run is written there as it finishes, as
    `save_runs` does, and runs that are already there are left out, so that the same call resumes after a kill.
    (`run_study` does so for tasks.)
    """
    if changes is not None:
        warn_deprecated("train(changes=) is deprecated: use train(settings=)")
    foreign = None if isinstance(task, Task | str | Path) or not hasattr(task, "possible_agents") else task
    if foreign is None and (views is not None or folder is not None):
        raise SettingsError("views and folder are for wrapped environments; run_study writes runs of tasks to a folder")
    usual = default_learner(device) if foreign is None else NEEDS_NO_MAP.name
    name = usual if learner is None else find_learner(learner).name
    chosen, numbers = make_settings(name, settings), check_seeds(seeds)
    if keep_policies is not None:
        whole(keep_policies, "keep_policies", 0)
    length = find_learner(name).steps if steps is None else steps
    if changes:
        chosen = make_settings(name, {**used_settings(chosen), **changes})
    if foreign is not None:
        if device != "cpu":
            raise SettingsError(f"a world that is not hocket's is on the cpu, got {device}")
        given = ("team_review",) if isinstance(settings, Settings) else (*(settings or ()), *(changes or ()))
        if "team_review" in used_settings(chosen) and "team_review" not in given:
            chosen = replace(chosen, team_review="world")  # type: ignore[call-arg]  # to find out what teammates do
        check_steps(length)
        runs = foreign.train(find_learner(name), chosen, numbers, length, views, folder, progress, stop)
        return [keeping(run, keep_policies) for run in runs]
    task = prepare_task(as_task(cast("Task", task)), name)
    kept = None if world is None else as_world(world)
    chosen = with_world(chosen, name, kept)
    check_start(task, length, kept)
    check_tests(task, length, chosen)
    tables = compile_task(task)
    find_learner(name).check(tables, chosen)
    batch = Batch(task, name, chosen, numbers, length, world=kept)

    interrupted = Event()  # set after an error or an interrupt

    def report(done: int, _: Sequence[int]) -> None:
        if progress is not None:
            progress(done)

    def stopped() -> bool:
        return interrupted.is_set() or (stop is not None and stop.is_set())

    if device == "cuda":
        from hocket.learn.cuda.training import train_batches  # loads numba.cuda, which few have

        chunks = train_batches([batch], tables, [report], stopped, keep_policies)
        return [run for chunk in chunks for part in chunk for run in part.runs]
    workers = count_workers(threads)
    shares = share_out(batch, workers)
    check_memory(shares, workers)

    def work(index: int) -> tuple[int, list[Run]]:
        return index, train_batch(shares[index], tables, report, stopped)

    finished = dict(take_turns(work, range(len(shares)), min(workers, len(shares)), interrupted))
    return [keeping(run, keep_policies) for index in sorted(finished) for run in finished[index]]


def keeping(run: Run, policies: int | None) -> Run:
    """Drop what a run has learnt, unless its seed is below `policies` or that is None."""
    is_kept = policies is None or run.seed < policies
    return run if is_kept else replace(run, policy=replace(run.policy, arrays={}), world=None)


def count_workers(threads: int | None) -> int:
    """Return the number of threads; by default, one for each core."""
    return os.cpu_count() or 1 if threads is None else whole(threads, "threads", 1)


def share_out(batch: Batch, workers: int) -> list[Batch]:
    """Divide a batch among threads; seeds of learners that are not faster together are batches of their own."""
    seeds = batch.seeds
    size = min(LARGEST_BLOCK, -(-len(seeds) // workers)) if LEARNERS[batch.learner].min_vector_seeds else 1
    parts = [seeds[begin : begin + size] for begin in range(0, len(seeds), size)]
    return [batch._replace(seeds=part, spare=max(1, workers // len(parts))) for part in parts]


def with_world(settings: Settings, learner: str, world: WorldModel | None) -> Settings:
    """Write the digest of the world that training begins with to the settings, as results depend on it."""
    if world is None:
        if getattr(settings, "world", "none") != "none":
            raise SettingsError("the setting world notes which world was given: give its folder (world=, --world)")
        return settings
    if not find_learner(learner).begins_with_world:
        able = " and ".join(name for name, each in LEARNERS.items() if each.begins_with_world)
        raise SettingsError(f"{learner} cannot begin with a world, as it does not plan ({able} do)")
    return replace(settings, world=world.digest[:16])  # type: ignore[call-arg]


def check_start(task: Task, steps: object, world: WorldModel | None) -> None:
    """Require steps of training, or a world of the same map in which all that the task needs was seen."""
    check_steps(steps, least=1 if world is None else 0)
    if world is not None:
        world.require_map(task)
        if not steps and (missing := world.missing(task)):
            more = f" (and {len(missing) - 1:,} more)" if missing[1:] else ""
            raise SettingsError(f"{task.name} cannot be planned without a step: {missing[0]}{more}")


def check_steps(steps: object, least: int = 1) -> None:
    """Require some steps of training, and not too many."""
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < least:
        hint = " (0 plans with a world that was learnt before)" if steps == 0 else ""
        raise SettingsError(f"steps must be at least {least}, got {shown(steps)}{hint}")
    if steps > MOST_STEPS:
        raise SettingsError(f"steps must be at most {MOST_STEPS:,}, got {shown(steps)}")


def prepare_task(task: Task, learner: str) -> Task:
    """Return the task as a learner trains on it: with the team machine, or with local machines if that is possible."""
    if find_learner(learner).policy_input is not PolicyInput.MACHINE:
        return with_team_machine(task)
    if task.is_single_agent or task.decomposition.ok:
        return task
    others = ", ".join(name for name, each in LEARNERS.items() if each.policy_input is not PolicyInput.MACHINE)
    advice = f"run `hocket check {shlex.quote(task.source or task.name)}`, or train a learner without local machines"
    raise SettingsError(f"{task.name} is not decomposable; {advice} ({others})")


def check_tests(task: Task, steps: int, settings: Settings) -> None:
    """Require that memory can hold the tests of a run."""
    tests = steps // settings.test_every * settings.test_episodes * len(KINDS)
    numbers = tests * (1 + len(task.agents) + len(task.events))
    if tests > MOST_TESTS:
        raise SettingsError(f"a run keeps at most {MOST_TESTS:,} tests, got {tests:,}; test_every makes them fewer")
    if numbers > MOST_TEST_NUMBERS:
        sizes = f"{tests:,} tests of {len(task.agents):,} agents and {len(task.events):,} events"
        rule = f"the tests of a run have at most {MOST_TEST_NUMBERS:,} numbers"
        raise SettingsError(f"{rule}, got {sizes}; test_every makes them fewer")


def check_memory(batches: Sequence[Batch], workers: int) -> None:
    """Require that memory can hold the largest batches that may train at the same time."""
    sizes = [len(each.seeds) * find_learner(each.learner).memory_bytes(compile_task(each.task)) for each in batches]
    largest = sorted(zip(sizes, batches, strict=True), key=lambda pair: pair[0], reverse=True)[:workers]
    for _, (task, learner, *_) in largest[:1]:
        runs = counted(sum(len(batch.seeds) for _, batch in largest), "run")
        purpose = f"to train {learner} on {task.name}, {runs} at once,"
        require_memory(sum(size for size, _ in largest), purpose, SettingsError)


def check_seeds(seeds: object) -> list[int]:
    """List the seeds: so many, or those that are given."""
    numbers: Sequence[int] = ()
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        numbers = range(min(seeds, MOST_SEEDS + 1))
    elif isinstance(seeds, Iterable) and not isinstance(seeds, str):
        numbers = list(islice(seeds, MOST_SEEDS + 1))
    if len(numbers) > MOST_SEEDS:
        raise SettingsError(f"seeds must be at most {MOST_SEEDS:,}, got {shown(seeds)}")
    if not numbers or any(type(seed) is not int or not 0 <= seed < 2**63 for seed in numbers):
        raise SettingsError(f"seeds must be at least one integer of at least 0, got {shown(seeds)}")
    return list(numbers)


def make_settings(learner: str, settings: Settings | Mapping[str, SettingValue] | str | None) -> Settings:
    """Complete a learner's settings; refuse those that it does not have."""
    kind = find_learner(learner).settings
    if isinstance(settings, Settings):
        if not isinstance(settings, kind):
            raise SettingsError(f"{learner} takes {kind.__name__}, got {type(settings).__name__}")
        return settings
    if isinstance(settings, str):
        settings = named_settings(settings, [learner])
    if not isinstance(settings, Mapping | None):
        raise SettingsError(f"settings must be a dictionary, a name, or {kind.__name__}, got {shown(settings)}")
    changes = rename_settings(settings or {}, warn=True)
    for name in changes:
        require_setting(name, [learner])
    return kind(**changes)  # type: ignore[arg-type]


def train_piece(learner: Learner, block: Block, steps: int, begin: int, count: int) -> None:
    """Train a block; a learner that keeps a world finishes it after the last of all steps."""
    block.train(begin, count)
    if learner.keeps_world and begin + count == steps:
        cast(WorldBlock, block).finish(steps)


def train_block(
    learner: Learner,
    block: Block,
    player: Player,
    settings: Settings,
    seeds: Sequence[int],
    steps: int,
    report: Report | None = None,
    stop: StopSignal | None = None,
) -> tuple[TestLog, int, float]:
    """Train and test the seeds of a block; return the tests, the steps trained, and the seconds that each seed took."""
    begin = time.perf_counter()
    tests = TestLog(settings, steps, len(seeds), len(player.finish), len(player.event_time), len(player.returns))
    test, lanes = partial(tests.add, partial(player.play_seeds, block, seeds)), len(seeds) * len(player.finish)

    def tell(piece: int, is_tested: bool) -> None:
        if report is not None:
            report(piece * lanes, tests.latest(range(len(seeds)), settings.max_episode_steps) if is_tested else [])

    train = partial(train_piece, learner, block, steps)
    done = train_in_pieces(train, test, tell, settings, steps, Pace(lanes), stop)
    if not steps:
        test()
    return tests, done, (time.perf_counter() - begin) / len(seeds)


def train_batch(
    batch: Batch, tables: Tables, report: Report | None = None, stop: StopSignal | None = None
) -> list[Run]:
    """Train the seeds of a batch."""
    _, name, settings, seeds, steps, spare, world = batch
    learner = find_learner(name)
    block = learner.block(tables, settings, seeds, spare)
    player = learner.player(tables, settings.temperature, settings.max_episode_steps)
    if world is not None:
        cast(PlanningBlock, block).begin_with(world)
    return gather_runs(batch, block, *train_block(learner, block, player, settings, seeds, steps, report, stop))


def gather_runs(batch: Batch, block: Block, tests: TestLog, steps: int, seconds: float) -> list[Run]:
    """Make the runs of a batch."""
    keeps_world, runs = find_learner(batch.learner).keeps_world, list[Run]()
    for index, seed in enumerate(batch.seeds):
        arrays = {name: array.copy() for name, array in block.arrays(index).items()}
        world = WorldModel.of(batch.task, *cast(WorldBlock, block).learnt(index)) if keeps_world else None
        tested = tests.of(index, batch.settings.max_episode_steps)
        runs.append(batch.make_run(seed, arrays, tested, steps, seconds, world))
    return runs
