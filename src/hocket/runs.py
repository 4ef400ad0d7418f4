"""A folder of runs: what is needed to repeat them, and to draw them without hocket.

study.json      what was run: task, learners, settings, versions, machine, timings
task.toml       the task
curves.csv      a row for each test episode
policies/       what each run learnt (.npz)
"""

from __future__ import annotations

import csv
import io
import json
import platform
from collections.abc import Sequence
from pathlib import Path

from hocket import __version__
from hocket.errors import FormatError
from hocket.files import write_whole
from hocket.learners.policies import Policy, Run, load_policy
from hocket.task import Task
from hocket.taskfile import digest, save_task

COLUMNS = ("task", "learner", "seed", "step", "policy", "test_steps", "success")


def save_runs(task: Task, runs: Sequence[Run], folder: str | Path) -> None:
    """Write runs to a folder, each file whole; `study.json` comes last, so that where it is, all else is."""
    folder = Path(folder)
    try:
        (folder / "policies").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FormatError(f"cannot be made: {error.strerror or error}", path=folder) from None
    save_task(task, folder / "task.toml")
    for run in runs:
        run.policy.save(folder / "policies" / f"{run.learner}-{run.seed}.npz")
    write_whole(folder / "curves.csv", curves_csv(runs))
    write_whole(folder / "study.json", json.dumps(_about(task, runs), indent=2) + "\n")


def curves_csv(runs: Sequence[Run]) -> str:
    """Lay test episodes out as a table."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for run in runs:
        for trial in run.trials:
            row = (
                run.policy.task,
                run.learner,
                run.seed,
                trial.step,
                trial.policy,
                trial.test_steps,
                int(trial.success),
            )
            writer.writerow(row)
    return buffer.getvalue()


def _about(task: Task, runs: Sequence[Run]) -> dict[str, object]:
    learners: dict[str, dict[str, object]] = {}
    for run in runs:
        entry = learners.setdefault(run.learner, {"settings": dict(run.policy.settings), "seeds": {}})
        seeds = entry["seeds"]
        if isinstance(seeds, dict):
            seeds[str(run.seed)] = {"steps": run.steps, "seconds": round(run.seconds, 3)}
    return {
        "hocket": __version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "task": task.name,
        "digest": digest(task),
        "learners": learners,
    }


def load_policies(folder: str | Path, task: Task) -> list[Policy]:
    """Read all policies of a folder, refusing those that belong to another task."""
    paths = sorted((Path(folder) / "policies").glob("*.npz"))
    if not paths:
        raise FormatError("has no policies in it", path=folder)
    mark = digest(task)
    return [load_policy(path, mark) for path in paths]
