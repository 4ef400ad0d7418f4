"""Learning curves for experiment trackers: TensorBoard, MLflow, Weights & Biases.

The tags are those of CleanRL. TensorBoard and MLflow write into the folder of runs; Weights & Biases
sends to its server, unless its own settings say otherwise (WANDB_MODE=offline). A run is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from hocket.errors import needs_extra, require_known
from hocket.files import write_whole
from hocket.study.records import Record, slug

TAGS = {"softmax": "charts", "greedy": "eval"}  # kind of policy -> the group of its charts
FINISHED = "hocket.json"  # marks the log of a run as complete
PACKAGES = {"tensorboard": "tensorboardX", "mlflow": "mlflow", "wandb": "wandb"}
PROJECT = "hocket"

Scalars = Callable[[str, float, int], None]  # takes a name, a number and a step
Library = Any  # an optional dependency


def check_available(tracker: str) -> Library:
    """Import the package that writes the logs of a tracker."""
    require_known(tracker, PACKAGES, "--log")
    with needs_extra(f"a log for {tracker}", tracker):
        return import_module(PACKAGES[tracker])


def log_records(records: Iterable[Record], folder: Path, tracker: str = "tensorboard") -> None:
    """Write the logs of the runs that have none yet."""
    library = check_available(tracker)
    for record in records:
        name = f"{slug(record.task)}__{slug(record.learner)}__{record.seed}__{record.key[:8]}"
        logs = folder / tracker / name
        if not (logs / FINISHED).exists():
            logs.mkdir(parents=True, exist_ok=True)
            with OPENERS[tracker](library, record, logs, name) as log:
                _log(record, log)
            write_whole(logs / FINISHED, "{}\n")


def _log(record: Record, log: Scalars) -> None:
    rows: list[tuple[int, str, int, float]] = []
    for kind, tests in record.tests.items():
        columns = tests.step, tests.test_steps, tests.success if tests.returns is None else tests.returns
        rows += [(step, TAGS[kind], *row) for step, *row in zip(*(column.tolist() for column in columns), strict=True)]
    for step, group, length, episode_return in sorted(rows, key=lambda row: row[0]):  # some trackers need this
        log(f"{group}/episodic_length", length, step)
        log(f"{group}/episodic_return", float(episode_return), step)
    if record.seconds > 0:
        log("charts/SPS", record.steps / record.seconds, record.steps)


@contextmanager
def _tensorboard(library: Library, record: Record, logs: Path, name: str) -> Iterator[Scalars]:
    with library.SummaryWriter(logdir=str(logs), write_to_disk=True) as log:
        rows = "\n".join(f"|{name}|{value}|" for name, value in record.settings.items())
        log.add_text("hyperparameters", f"|param|value|\n|-|-|\n{rows}", 0)
        yield log.add_scalar


@contextmanager
def _mlflow(library: Library, record: Record, logs: Path, name: str) -> Iterator[Scalars]:
    library.set_tracking_uri(f"sqlite:///{logs.parent / 'mlflow.db'}")
    library.set_experiment(record.task)
    with library.start_run(run_name=name):
        library.log_params({"learner": record.learner, "seed": record.seed, **record.settings})
        yield lambda name, value, step: library.log_metric(name, value, step=step)


@contextmanager
def _wandb(library: Library, record: Record, logs: Path, name: str) -> Iterator[Scalars]:
    about = {"task": record.task, "learner": record.learner, "seed": record.seed, **record.settings}
    run = library.init(project=PROJECT, name=name, group=record.task, config=about, dir=str(logs), reinit=True)
    try:
        yield lambda name, value, step: run.log({name: value}, step=step)
    finally:
        run.finish()


OPENERS = {"tensorboard": _tensorboard, "mlflow": _mlflow, "wandb": _wandb}
