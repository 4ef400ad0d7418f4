"""A process that works for the server: reads a request per line of standard input, writes an answer per line.

Its first line of output says that it is ready. Texts are checked here, so that a check that hangs, or that needs too
much memory, can be killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib import resources
from typing import BinaryIO, NamedTuple

from hocket.errors import FormatError, HocketError, known_names, printable
from hocket.lazy import Lazy
from hocket.machine.formats import FORMATS, toml
from hocket.machine.formats import json as json_notation
from hocket.studio.gestures import apply_gesture
from hocket.studio.pictures import Data
from hocket.studio.understanding import NESTED, cheapest_repairs, explain_log, folder_of, judge, subject_in, understand
from hocket.task.catalogue import built_in_tasks, rendezvous, source_of

NEW = "new task"
OWN_STARTS = {"from a formula": "formula.toml", "a machine alone": "machine.toml"}  # files of the page
FAMILIES = ("rendezvous-2", "rendezvous-3")
MOST_MEMORY = 6 * 1024**3  # bytes of addresses, where the system can hold a process to that

Request = Mapping[str, object]


def main() -> None:
    """Answer requests until there are no more."""
    with suppress(ImportError):  # not on every system
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    with private_output() as output:
        send(output, {"ready": True})
        for line in sys.stdin.buffer:
            request = json.loads(line)
            with at_most(request["seconds"]):
                told = answer(request)
            send(output, told)


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """End this process if it computes for longer, where the system can; time in which others compute does not count."""
    set_timer, timer = getattr(signal, "setitimer", lambda *_: None), getattr(signal, "ITIMER_PROF", None)
    set_timer(timer, seconds)
    try:
        yield
    finally:
        set_timer(timer, 0)


def send(output: BinaryIO, value: Data) -> None:
    """Write a value as a line of JSON."""
    output.write(json.dumps(value, allow_nan=False).encode() + b"\n")
    output.flush()


def answer(request: Request) -> Data:
    """Run a job; invalid input, or one that is too large for this machine, is an answer, too."""
    try:
        return JOBS[str(request["do"])].run(request)
    except HocketError as error:
        return {"refused": printable(str(error), 1_000)}
    except RecursionError:
        return {"refused": NESTED}
    except MemoryError:
        return {"refused": "this needs more memory than the studio gives it"}


def _understand(request: Request, *, wait: bool = False) -> Data:
    return understand(str(request["text"]), folder_of(request), wait=wait)


def _edit(request: Request) -> Data:
    """Apply a gesture; one that would leave a text without meaning is refused, and the reason given."""
    text = apply_gesture(str(request["text"]), request.get("gesture"))
    world = _understand({**request, "text": text})
    error = world["error"]
    return {"refused": error["message"]} if isinstance(error, dict) else {"text": text, "world": world}


# What a design can start from: a new task, a formula, and the tasks that come with hocket.


def start_names() -> list[str]:
    """List all starts."""
    return [NEW, *OWN_STARTS, *built_in_tasks(), *FAMILIES]


@cache
def start_text(name: str) -> str:
    """Return the text of a start."""
    if name in OWN_STARTS:
        return (resources.files("hocket.studio.page") / OWN_STARTS[name]).read_text(encoding="utf-8")
    if name in FAMILIES:
        return toml.unparse(rendezvous(int(name.rpartition("-")[2])).document())
    text = source_of("" if name == NEW else name or "?")
    if text is not None:
        return text
    raise FormatError(f"there is no start {name!r:.60} ({known_names(name, start_names())})")


def imported(content: str, suffix: str) -> str:
    """Write what a file of another format says as TOML, to begin with."""
    if suffix != ".json":
        return FORMATS[".toml"].write(FORMATS[suffix].read(content))
    document = json_notation.parse(content)
    if not isinstance(document, dict):
        raise FormatError("a task or a machine is a table")
    text = toml.unparse(document)
    with suppress(FormatError):
        if toml.parse(text) == document:
            return text
    raise FormatError("this has something that TOML cannot say, such as null")


@cache
def gallery() -> Data:
    """Tell all starts with a description and a map."""
    worlds = {name: understand(start_text(name)) for name in start_names()}
    keys = ("description", "map", "agents")
    return {"starts": [{"name": name} | {key: world.get(key) for key in keys} for name, world in worlds.items()]}


# The jobs.


class Job(NamedTuple):
    """What a request can ask for."""

    run: Callable[[Request], Data]
    worker: str | None  # the process that runs it for pages; None: only the server asks for it


CHECKS, SEARCHES, GAMES, RUNS = "checks", "searches", "games", "runs"  # a process each
JOBS: Mapping[str, Job] = {
    "warm": Job(lambda request: _understand({"text": start_text(NEW)}), None),
    "import": Job(lambda request: {"text": imported(str(request["text"]), str(request["suffix"]))}, None),
    "understand": Job(_understand, CHECKS),
    "edit": Job(_edit, CHECKS),
    "judge": Job(lambda request: judge(subject_in(request)), SEARCHES),
    "pictures": Job(lambda request: {"machines": _understand(request, wait=True).get("machines")}, SEARCHES),
    "repairs": Job(lambda request: cheapest_repairs(subject_in(request)), SEARCHES),
    "log": Job(explain_log, SEARCHES),
    "gallery": Job(lambda request: gallery(), SEARCHES),
    "play": Job(Lazy("hocket.studio.playing", "play"), GAMES),
    "learners": Job(Lazy("hocket.studio.playing", "learners"), GAMES),
    "runs": Job(Lazy("hocket.studio.runs", "watch_runs"), RUNS),
}


def private_output() -> BinaryIO:
    """Take standard output away from all others in this process, so that nothing comes between answers."""
    output = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    return output


if __name__ == "__main__":
    main()
