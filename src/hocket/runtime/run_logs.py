"""Logs to learn machines from: log files, and folders that `hocket train` and `hocket run` wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from hocket.errors import FormatError
from hocket.files import exists
from hocket.inference import logs
from hocket.inference.logs import Attempt, Episode, Log, Observed


def read_log(path: str | Path, observed: Observed | None = None, outcome: str | None = None) -> Log:
    """Read a log of episodes from a file (.csv, .jsonl, .xes) or from a folder of `hocket train` or `hocket run`.

    CSV and JSON lines have `episode` and `event`, `done` (1 where the task is complete) and `accepted` (0 or 1); step,
    agent and time may be there. `observed` says what the log shows: `all` attempts, accepted or refused; attempts and
    `reward` only; or `effective` events only. A log without `accepted` needs it. Of XES, `outcome` names the
    attribute of a trace or an event that is true where the task is complete, or NAME=VALUE. Folders that `hocket train`
    and `hocket run` wrote have accepted events only: the episodes that can be replayed, and the run.
    """
    path = Path(path)
    if not path.is_dir():
        return logs.read_log(path, observed, outcome)
    if observed not in (None, "effective"):
        rule = "runs keep accepted events only, so observed must be 'effective'"
        raise FormatError(f"{rule}, got {observed!r}", path=path)
    episodes = tuple(_episodes(path))
    if not any(episode.attempts for episode in episodes):
        raise FormatError("has no episodes with events", path=path)
    return Log(episodes, "effective")


def _episodes(folder: Path) -> Iterator[Episode]:
    """Read the run of a team as processes, whose logs have to agree; or the replays of trained teams."""
    if exists(folder / "run.json"):
        from hocket.runtime.recording import verify  # loads what few commands need

        if not (verification := verify(folder)).ok:
            raise FormatError(verification.explain(), path=folder)
        yield _episode(folder.name, verification.trace, verification.complete)
        return
    from hocket.study.store import load_results  # likewise

    for record in load_results(folder).records:
        for kind, replay in record.test_summary.replays.items() if record.test_summary is not None else ():
            name = f"{record.task}, {record.learner}, seed {record.seed}, {kind}"
            yield _episode(name, [event for _, event in replay.events], replay.success)


def _episode(name: str, events: Sequence[str], is_done: bool) -> Episode:
    last = len(events) - 1
    return Episode(name, tuple(Attempt(event, True, is_done and index == last) for index, event in enumerate(events)))
