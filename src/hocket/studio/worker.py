"""A process that does jobs for the server, so that one that hangs or needs too much memory can be killed.

It reads a request per line of standard input and writes an answer per line; its first line says that it is ready.
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
from hocket.studio import understanding
from hocket.studio.gestures import apply_gesture
from hocket.studio.pictures import Data
from hocket.task.catalogue import built_in_tasks, rendezvous, source_of

NEW = "new task"
EXAMPLES = {"from a formula": "formula.toml", "a machine alone": "machine.toml"}  # files of the page
FAMILIES = ("rendezvous-2", "rendezvous-3")
MOST_MEMORY = 6 * 1024**3  # bytes of address space, on systems that can limit it

Request = Mapping[str, object]


def main() -> None:
    """Answer requests until the input ends."""
    with suppress(ImportError):  # on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    with private_output() as output:
        send(output, {"ready": True})
        for line in sys.stdin.buffer:
            request = json.loads(line)
            with at_most(request["seconds"]):
                result = answer(request)
            send(output, result)


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """End this process if it computes for longer, on systems that can; only its own processor time counts."""
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
    """Run a job; a refusal of invalid or too large input is an answer, too."""
    try:
        return JOBS[str(request["do"])].run(request)
    except HocketError as error:
        return {"refused": printable(str(error), 1_000)}
    except RecursionError:
        return {"refused": understanding.TOO_NESTED}
    except MemoryError:
        return {"refused": "this needs more memory than the studio gives it"}


def _describe(request: Request, *, wait: bool = False) -> Data:
    return understanding.describe_text(str(request["text"]), understanding.read_folder(request), wait_for_pictures=wait)


def _edit(request: Request) -> Data:
    """Apply a gesture; refuse one after which the text is invalid."""
    text = apply_gesture(str(request["text"]), request.get("gesture"))
    description = _describe({**request, "text": text})
    error = description["error"]
    return {"refused": error["message"]} if isinstance(error, dict) else {"text": text, "world": description}


def start_names() -> list[str]:
    """List what a design can start from: a new task, examples, and the tasks that come with hocket."""
    return [NEW, *EXAMPLES, *built_in_tasks(), *FAMILIES]


@cache
def start_text(name: str) -> str:
    """Return the text of one of `start_names`."""
    if name in EXAMPLES:
        return (resources.files("hocket.studio.page") / EXAMPLES[name]).read_text(encoding="utf-8")
    if name in FAMILIES:
        return toml.unparse(rendezvous(int(name.rpartition("-")[2])).document())
    text = source_of("" if name == NEW else name or "?")
    if text is not None:
        return text
    raise FormatError(f"there is no start {name!r:.60} ({known_names(name, start_names())})")


def converted(content: str, suffix: str) -> str:
    """Convert a file of another format to TOML."""
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
    """Return all starts, each with description and map."""
    starts = [(name, understanding.describe_text(start_text(name))) for name in start_names()]
    return {"starts": [{"name": name} | {key: start[key] for key in ("description", "map")} for name, start in starts]}


class Job(NamedTuple):
    """A job that a request can ask for."""

    run: Callable[[Request], Data]
    worker: str | None  # the process that runs it for pages; None if only the server asks for it


CHECKS, SEARCHES, GAMES, RUNS = "checks", "searches", "games", "runs"  # a process each
JOBS: Mapping[str, Job] = {
    "warm": Job(lambda request: _describe({"text": start_text(NEW)}), None),
    "import": Job(lambda request: {"text": converted(str(request["text"]), str(request["suffix"]))}, None),
    "understand": Job(_describe, CHECKS),
    "edit": Job(_edit, CHECKS),
    "judge": Job(lambda request: understanding.describe_verdict(understanding.read_subject(request)), SEARCHES),
    "pictures": Job(lambda request: {"machines": _describe(request, wait=True).get("machines")}, SEARCHES),
    "repairs": Job(lambda request: understanding.cheapest_repairs(understanding.read_subject(request)), SEARCHES),
    "log": Job(understanding.explain_log, SEARCHES),
    "gallery": Job(lambda request: gallery(), SEARCHES),
    "play": Job(Lazy("hocket.studio.playing", "play"), GAMES),
    "learners": Job(Lazy("hocket.studio.playing", "learners"), GAMES),
    "runs": Job(Lazy("hocket.studio.runs", "watch_runs"), RUNS),
}


def private_output() -> BinaryIO:
    """Return standard output, and redirect what other code prints to nowhere, so that it is not read as an answer."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return output


if __name__ == "__main__":
    main()
