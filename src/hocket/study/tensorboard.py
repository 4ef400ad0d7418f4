"""Curves as logs for TensorBoard, under the tags that users of CleanRL look for."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from hocket.errors import SettingsError
from hocket.files import write_whole
from hocket.study.records import Record, slug

TAGS = {"softmax": "charts", "greedy": "eval"}  # kind of policy -> the group of its charts
FINISHED = "hocket.json"  # says that a run's log is whole


def check_available() -> None:
    """Require the package that writes such logs."""
    _writer()


def _writer() -> Any:  # noqa: ANN401
    try:
        return import_module("tensorboardX").SummaryWriter
    except ImportError:
        raise SettingsError("TensorBoard logs need an extra: in a clone, pip install '.[tensorboard]'") from None


def log_records(records: Iterable[Record], folder: Path) -> None:
    """Write a log for each run that has none yet: `tensorboard --logdir FOLDER` shows them."""
    writer = _writer()
    for record in records:
        logs = folder / f"{slug(record.task)}__{slug(record.learner)}__{record.seed}__{record.key[:8]}"
        if not (logs / FINISHED).exists():
            with writer(logdir=str(logs), write_to_disk=True) as log:
                _log(record, log)
            write_whole(logs / FINISHED, "{}\n")


def _log(record: Record, log: Any) -> None:  # noqa: ANN401
    rows = "\n".join(f"|{name}|{value}|" for name, value in record.settings.items())
    log.add_text("hyperparameters", f"|param|value|\n|-|-|\n{rows}", 0)
    for kind, tests in record.tests.items():
        for step, taken, success in zip(*(column.tolist() for column in tests), strict=True):
            log.add_scalar(f"{TAGS[kind]}/episodic_length", taken, step)
            log.add_scalar(f"{TAGS[kind]}/episodic_return", float(success), step)
    if record.seconds > 0:
        log.add_scalar("charts/SPS", record.steps / record.seconds, record.steps)
