"""A process that works for the server: a job a line on standard input, its answer a line on standard output.

A first line of its own says that it is ready.

What a text means is found out here, so that a check that hangs, or that takes all memory, can be cut off.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from hocket.errors import HocketError, printable
from hocket.studio.gestures import apply_gesture
from hocket.studio.pictures import Data
from hocket.studio.repairs import cheapest_repairs
from hocket.studio.starts import NEW, gallery, imported, start_text
from hocket.studio.understanding import NESTED, subject_of, understand

MOST_MEMORY = 6 * 1024**3  # bytes of addresses, where the system can hold a process to that

Job = Mapping[str, object]


def main() -> None:
    """Work until there are no more jobs."""
    _limit_memory()
    with private_output() as output:
        tell(output, {"ready": True})
        for line in sys.stdin.buffer:
            tell(output, answer(json.loads(line)))


def tell(output: BinaryIO, value: Data) -> None:
    """Write a value on a line of its own."""
    output.write(json.dumps(value, allow_nan=False).encode() + b"\n")
    output.flush()


def answer(job: Job) -> Data:
    """Do a job; what is wrong with the user's input, or too large for this machine, is an answer, too."""
    try:
        return JOBS[str(job["do"])](job)
    except HocketError as error:
        return {"refused": printable(str(error), 1_000)}
    except RecursionError:
        return {"refused": NESTED}
    except MemoryError:
        return {"refused": "this needs more memory than the studio gives it"}


def _understand(job: Job) -> Data:
    return understand(str(job["text"]), _folder(job))


def _pictures(job: Job) -> Data:
    return {"machines": understand(str(job["text"]), _folder(job), wait=True).get("machines")}


def _repairs(job: Job) -> Data:
    return cheapest_repairs(subject_of(str(job["text"]), _folder(job)))


def _edit(job: Job) -> Data:
    """Apply a gesture; one that would leave a text without meaning is refused, and the reason given."""
    before = str(job["text"])
    text = apply_gesture(before, job.get("gesture"))
    world = understand(text, _folder(job))
    error = world["error"]
    if isinstance(error, dict):
        return {"refused": error["message"]}
    return {"text": text, "world": world}


def _play(job: Job) -> Data:
    from hocket.studio.playing import play  # loads the compiler

    return play(job, subject_of(str(job["text"]), _folder(job)))


def _learners(job: Job) -> Data:
    from hocket.studio.playing import learners

    return learners()


def _folder(job: Job) -> Path | None:
    return Path(str(job["folder"])) if job.get("folder") else None


class PageJob(NamedTuple):
    """A job that the page may ask for."""

    worker: str  # the process that does it
    answer: Callable[[Job], Data]


PAGE_JOBS = {
    "understand": PageJob("checks", _understand),
    "edit": PageJob("checks", _edit),
    "pictures": PageJob("searches", _pictures),
    "repairs": PageJob("searches", _repairs),
    "gallery": PageJob("searches", lambda job: gallery()),
    "play": PageJob("games", _play),
    "learners": PageJob("games", _learners),
}
JOBS: Mapping[str, Callable[[Job], Data]] = {
    "warm": lambda job: _understand({"text": start_text(NEW)}),
    "import": lambda job: {"text": imported(str(job["text"]), str(job["suffix"]))},
    **{name: job.answer for name, job in PAGE_JOBS.items()},
}


def private_output() -> BinaryIO:
    """Take standard output away from all others in this process, so that nothing comes between answers."""
    output = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    return output


def _limit_memory() -> None:
    try:
        import resource  # not on every system
    except ImportError:
        return
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, most))


if __name__ == "__main__":
    main()
