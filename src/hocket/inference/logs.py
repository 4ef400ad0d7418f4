"""Logs: episodes of attempted events, each accepted or refused, and whether the task was done.

Logs are read from CSV, JSON lines and XES.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, cast, get_args
from xml.etree.ElementTree import Element, ParseError, iterparse

from hocket.errors import FormatError, HocketError, known_names, located, shown
from hocket.files import MEGABYTE, open_regular
from hocket.lazy import explain_kinds
from hocket.machine.names import Names, check_name

Observed = Literal["all", "reward", "effective"]
OBSERVED: tuple[Observed, ...] = get_args(Observed)

LIMIT = 512 * MEGABYTE
LONGEST_FIELD = 100_000  # characters
TRUE, FALSE = ("1", "true", "True", True, 1), ("0", "false", "False", "", False, 0, None)
EVENT_NAME = "concept:name"  # XES: what a trace and an event are called


class LogError(HocketError):
    """A log that breaks a rule of its format, or that no machines can explain."""


class Attempt(NamedTuple):
    """An event that was attempted in an episode."""

    event: str
    accepted: bool  # whether it happened; in a log that shows rewards only this says nothing
    done: bool = False  # whether the team's task was complete after it


class Episode(NamedTuple):
    """Attempts in their order, from the initial state of the team's task on."""

    name: str
    attempts: tuple[Attempt, ...]

    @property
    def accepted(self) -> tuple[str, ...]:
        """The events that happened: a trace of the team machine."""
        return tuple(attempt.event for attempt in self.attempts if attempt.accepted)


@explain_kinds
@dataclass(frozen=True)
class Log:
    """Episodes, and what they show: `all` (attempts, accepted or refused), `reward` (attempts and completion; a refused
    event is ignored silently), or `effective` (accepted events only)."""

    episodes: tuple[Episode, ...]
    observed: Observed = "all"

    def __post_init__(self) -> None:
        if self.observed not in OBSERVED:
            raise LogError(f"observed must be one of {', '.join(OBSERVED)}, got {shown(self.observed)}")
        for name, attempts in self.episodes:
            for attempt, following in pairwise(attempts):
                if attempt.done:
                    what = f"goes on with {following.event} after it was done by {attempt.event}"
                    raise LogError(f"episode {name} {what}")
            if attempts and attempts[-1].done and not attempts[-1].accepted:
                raise LogError(f"episode {name} is done by {attempts[-1].event}, which was refused")

    @cached_property
    def events(self) -> Names:
        """The events that were attempted, in the order in which they were first seen."""
        distinct = dict.fromkeys(attempt.event for episode in self.episodes for attempt in episode.attempts)
        return Names(check_name(event, "an event") for event in distinct)

    @property
    def attempts(self) -> int:
        return sum(len(episode.attempts) for episode in self.episodes)

    def as_csv(self) -> str:
        """Write the log as `read_log` reads it."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("episode", "event", "accepted", "done"))
        for name, attempts in self.episodes:
            writer.writerows((name, event, int(accepted), int(done)) for event, accepted, done in attempts)
        return text.getvalue()


def make_log(episodes: Iterable[Sequence[Attempt | tuple[str, bool] | tuple[str, bool, bool]]]) -> Log:
    """Make a log from lists of (event, accepted[, done]).

    >>> make_log([[("key", True), ("door", True, True)], [("door", False)]]).attempts
    3
    """
    numbered = enumerate(episodes, start=1)
    return Log(tuple(Episode(str(number), tuple(Attempt(*row) for row in rows)) for number, rows in numbered))


# Reading: files are untrusted, and errors name the file, the line and the column.

Row = tuple[int, Mapping[str, object]]  # number of a line, or of a trace of an XES log, and values by column


def read_log(
    path: str | Path, observed: Observed | None = None, outcome: str | None = None, content: bytes | None = None
) -> Log:
    """Read a log of episodes from a file (.csv, .jsonl, .xes), or from its content; `hocket.read_log` says more."""
    path = Path(path)
    if observed is not None and observed not in OBSERVED:
        raise LogError(f"observed must be one of {', '.join(OBSERVED)}, got {shown(observed)}")
    suffix, rule = path.suffix.lower(), "the format of a log is told by its suffix"
    if suffix not in READERS:
        raise FormatError(f"{rule}, got {suffix!r} ({known_names(suffix, READERS)})", path=path)
    file = open_regular(path) if content is None else io.BytesIO(content)
    with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text, located(path=path, kind=FormatError):
        if text.buffer.seek(0, io.SEEK_END) > LIMIT:
            raise FormatError(f"must be at most {LIMIT // MEGABYTE:,} MB")
        text.buffer.seek(0)
        rows, has_accepted = READERS[suffix](text, outcome)
        if observed is None and not has_accepted:
            shows = "'reward' (refused events are ignored silently) or 'effective' (accepted events only)"
            raise FormatError(f"has no column accepted: say what it shows, observed={shows}")
        if observed == "all" and not has_accepted:
            raise FormatError("has no column accepted, so it does not show all attempts")
        return _as_log(rows, observed or "all", has_accepted)


def _as_log(rows: Iterable[Row], observed: Observed, has_accepted: bool) -> Log:
    """Group rows by episode, in the order in which episodes begin."""
    episodes: dict[str, list[Attempt]] = {}
    checked: set[str] = set()
    is_effective, knows_accepted = observed == "effective", observed != "reward" and has_accepted
    for line, row in rows:
        episode, event = str(row["episode"]), sys.intern(str(row["event"]))
        if event not in checked:
            with located(f"line {line}, column event"):
                checked.add(check_name(event, "an event"))
        accepted = _flag(line, "accepted", row.get("accepted")) if knows_accepted else True
        done = _flag(line, "done", row.get("done"))
        attempts = episodes.setdefault(episode, [])
        if attempts and attempts[-1].done:
            raise _error(line, "done", f"episode {episode} goes on after it was done")
        if done and not accepted:
            raise _error(line, "done", f"a refused event cannot complete the task, got {event}")
        if accepted or not is_effective:
            attempts.append(Attempt(event, accepted, done))
    if not any(episodes.values()):
        raise FormatError("has no events")
    return Log(tuple(Episode(name, tuple(attempts)) for name, attempts in episodes.items()), observed)


def _error(line: int, column: str, message: str) -> FormatError:
    return FormatError(message, where=f"line {line}, column {column}")


def _flag(line: int, column: str, value: object) -> bool:
    if value not in TRUE and value not in FALSE:
        raise _error(line, column, f"must be 0 or 1, got {shown(value)}")
    return value in TRUE


def _require(line: int, names: Iterable[object]) -> None:
    """Require the columns of every log."""
    known = [str(name) for name in names]
    for column in ("episode", "event"):
        if column not in known:
            raise FormatError(f"needs a column {column} ({known_names(column, known)})", where=f"line {line}")


def _read_csv(text: io.TextIOWrapper, _: str | None) -> tuple[Iterator[Row], bool]:
    csv.field_size_limit(LONGEST_FIELD)
    reader = csv.reader(text)

    def lines() -> Iterator[list[str]]:
        try:
            yield from reader
        except (csv.Error, UnicodeDecodeError) as error:
            raise FormatError(f"is no CSV file: {error}", where=f"line {reader.line_num + 1}") from None

    remaining = lines()
    header = [name.strip() for name in next(remaining, [])]
    _require(1, header)
    columns = {name: header.index(name) for name in ("episode", "event", "accepted", "done") if name in header}

    def rows() -> Iterator[Row]:
        for cells in remaining:
            if not cells:
                continue
            if len(cells) != len(header):
                rule = f"has {len(cells)} fields where the header has {len(header)}"
                raise FormatError(rule, where=f"line {reader.line_num}")
            yield reader.line_num, {name: cells[column] for name, column in columns.items()}

    return rows(), "accepted" in columns


def _read_json_lines(text: io.TextIOWrapper, _: str | None) -> tuple[list[Row], bool]:
    try:
        documents = [(number, json.loads(line)) for number, line in enumerate(text, start=1) if line.strip()]
    except (ValueError, RecursionError) as error:
        raise FormatError(f"is not one JSON object a line: {error}") from None
    for number, row in documents:
        if not isinstance(row, dict):
            raise FormatError("must be a JSON object", where=f"line {number}")
        _require(number, row)
        if not isinstance(row["event"], str):
            raise _error(number, "event", f"must be a text, got {shown(row['event'])}")
        if ("accepted" in row) != ("accepted" in documents[0][1]):
            raise _error(number, "accepted", "must be in all lines or in none")
    return documents, not documents or "accepted" in documents[0][1]


def _read_xes(text: io.TextIOWrapper, outcome: str | None) -> tuple[list[Row], bool]:
    """Read the traces of an XES file; the order of events is that of the file."""
    if outcome is None:
        what = "which attribute tells that the task is complete"
        raise FormatError(f"of an XES log say {what}: outcome='NAME' or 'NAME=VALUE'")
    key, _, value = outcome.partition("=")

    def is_outcome(attributes: Mapping[str, str]) -> bool:
        return key in attributes and (attributes[key] == value if value else attributes[key] in TRUE)

    rows: list[Row] = []
    has_outcome, accepted_in = False, set()
    file = cast(BinaryIO, text.buffer)
    head = file.read(MEGABYTE)  # a document type could declare entities that expand without end; no log needs one
    if b"<!DOCTYPE" in head or b"<!ENTITY" in head or b"\0" in head:
        raise FormatError("must be UTF-8, and must not declare entities or a document type")
    file.seek(0)
    try:
        elements = (element for _, element in iterparse(file, events=("end",)))
        traces = (element for element in elements if element.tag.rpartition("}")[2] == "trace")
        for number, element in enumerate(traces, start=1):
            trace = _attributes(element)
            episode = trace.get(EVENT_NAME, str(number))
            events = [*map(_attributes, element.iterfind("{*}event"))]
            has_outcome = has_outcome or key in trace or any(key in event for event in events)
            for position, event in enumerate(events, start=1):
                if EVENT_NAME not in event:
                    raise FormatError(f"needs the attribute {EVENT_NAME}", where=f"trace {episode}, event {position}")
                done = is_outcome(event) or (position == len(events) and is_outcome(trace))
                accepted_in.add("accepted" in event)
                name, accepted = event[EVENT_NAME], event.get("accepted")
                rows.append((number, {"episode": episode, "event": name, "accepted": accepted, "done": done}))
            element.clear()
    except (ParseError, UnicodeDecodeError) as error:
        raise FormatError(f"is no XES file: {error}") from None
    if not has_outcome:
        raise FormatError(f"has no attribute {shown(key)} on any trace or event")
    if len(accepted_in) > 1:
        raise FormatError("the attribute accepted must be on all events or on none")
    return rows, accepted_in == {True}


def _attributes(element: Element) -> Mapping[str, str]:
    return {child.get("key", ""): child.get("value", "") for child in element if child.get("key") is not None}


READERS: Mapping[str, Callable[[io.TextIOWrapper, str | None], tuple[Iterable[Row], bool]]] = {
    ".csv": _read_csv, ".jsonl": _read_json_lines, ".ndjson": _read_json_lines, ".xes": _read_xes,
}  # fmt: skip
