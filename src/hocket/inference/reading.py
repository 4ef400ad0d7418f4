"""Reading logs: CSV, JSON lines and XES. Files are untrusted: errors name the file, the line and the column."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast
from xml.etree.ElementTree import Element, ParseError, iterparse

from hocket.errors import FormatError, HocketError, known_names, shown
from hocket.files import MEGABYTE, open_regular
from hocket.inference.logs import OBSERVED, Attempt, Episode, Log, LogError, Observed
from hocket.machine.names import check_name

LIMIT = 512 * MEGABYTE
LONGEST_FIELD = 100_000  # characters
TRUE, FALSE = ("1", "true", "True", True, 1), ("0", "false", "False", "", False, 0, None)
COLUMNS = ("episode", "event", "accepted", "done", "step", "agent", "time")
EVENT_NAME = "concept:name"  # XES: what a trace and an event are called


class Row(NamedTuple):
    """A line of a log."""

    episode: str
    event: str
    accepted: object
    done: object
    line: int


def read_log(path: str | Path, observed: Observed | None = None, outcome: str | None = None) -> Log:
    """Read a log of episodes from a file: .csv, .jsonl or .xes; `hocket.read_log` says what they have to be like."""
    path = Path(path)
    readers: dict[str, Callable[[Path, io.TextIOWrapper], tuple[Iterable[Row], bool]]] = {
        ".csv": _read_csv,
        ".jsonl": _read_json_lines,
        ".ndjson": _read_json_lines,
        ".xes": partial(_read_xes, outcome=outcome),
    }
    if observed is not None and observed not in OBSERVED:
        raise LogError(f"observed must be one of {', '.join(OBSERVED)}, got {shown(observed)}")
    suffix = path.suffix.lower()
    if suffix not in readers:
        raise FormatError(
            f"the format of a log is told by its suffix, got {suffix!r} ({known_names(suffix, readers)})", path=path
        )
    with _text(path) as text:
        rows, has_accepted = readers[suffix](path, text)
        return _as_log(path, rows, _observed(path, observed, has_accepted), has_accepted)


def _observed(path: Path, observed: Observed | None, has_accepted: bool) -> Observed:
    """Take the user's word for what a log shows; a log with a column `accepted` shows all attempts."""
    if observed is None and not has_accepted:
        raise FormatError(
            "has no column accepted: say what it shows, observed='reward' (refused events are ignored silently) or "
            "'effective' (accepted events only)",
            path=path,
        )
    if observed == "all" and not has_accepted:
        raise FormatError("has no column accepted, so it does not show all attempts", path=path)
    return observed or "all"


def _as_log(path: Path, rows: Iterable[Row], observed: Observed, has_accepted: bool) -> Log:
    """Put rows together to episodes, in the order in which they begin."""
    episodes: dict[str, list[Attempt]] = {}
    checked: set[str] = set()
    is_effective, knows_accepted = observed == "effective", observed != "reward" and has_accepted
    for row in rows:
        if row.event not in checked:
            checked.add(_name(path, row))
        accepted = _flag(path, row, "accepted", row.accepted) if knows_accepted else True
        done = _flag(path, row, "done", row.done)
        attempts = episodes.setdefault(row.episode, [])
        if attempts and attempts[-1].done:
            raise _error(path, row.line, "done", f"episode {row.episode} goes on after it was done")
        if done and not accepted:
            raise _error(path, row.line, "done", f"a refused event cannot complete the task, got {row.event}")
        if accepted or not is_effective:
            attempts.append(Attempt(row.event, accepted, done))
    if not any(episodes.values()):
        raise FormatError("has no events", path=path)
    return Log(tuple(Episode(name, tuple(attempts)) for name, attempts in episodes.items()), observed)


def _error(path: Path, line: int, column: str, message: str) -> FormatError:
    return FormatError(message, path=path, where=f"line {line}, column {column}")


def _name(path: Path, row: Row) -> str:
    try:
        return check_name(row.event, "an event")
    except HocketError as error:
        raise _error(path, row.line, "event", str(error)) from None


def _flag(path: Path, row: Row, column: str, value: object) -> bool:
    if value in TRUE:
        return True
    if value in FALSE:
        return False
    raise _error(path, row.line, column, f"must be 0 or 1, got {shown(value)}")


def _text(path: Path) -> io.TextIOWrapper:
    file = open_regular(path)
    if file.seek(0, io.SEEK_END) > LIMIT:
        file.close()
        raise FormatError(f"must be at most {LIMIT // MEGABYTE:,} MB", path=path)
    file.seek(0)
    return io.TextIOWrapper(file, encoding="utf-8-sig", newline="")


def _require(path: Path, line: int, names: Iterable[object]) -> None:
    """Require the columns that no log can do without."""
    known = list(names)
    for column in ("episode", "event"):
        if column not in known:
            hint = known_names(column, [str(name) for name in known])
            raise FormatError(f"needs a column {column} ({hint})", path=path, where=f"line {line}")


def _read_csv(path: Path, text: io.TextIOWrapper) -> tuple[Iterator[Row], bool]:
    csv.field_size_limit(LONGEST_FIELD)
    reader = csv.reader(text)
    try:
        header = [name.strip() for name in next(reader, [])]
    except (csv.Error, UnicodeDecodeError) as error:
        raise FormatError(f"is no CSV file: {error}", path=path, where="line 1") from None
    _require(path, 1, header)
    at = {name: header.index(name) for name in COLUMNS if name in header}

    def rows() -> Iterator[Row]:
        episode, event, accepted, done = (at.get(name) for name in COLUMNS[:4])
        assert episode is not None and event is not None
        names: dict[str, str] = {}
        try:
            for cells in reader:
                if not cells:
                    continue
                if len(cells) != len(header):
                    rule = f"has {len(cells)} fields where the header has {len(header)}"
                    raise FormatError(rule, path=path, where=f"line {reader.line_num}")
                yield Row(
                    names.setdefault(cells[episode], cells[episode]),
                    sys.intern(cells[event]),
                    None if accepted is None else cells[accepted],
                    None if done is None else cells[done],
                    reader.line_num,
                )
        except (csv.Error, UnicodeDecodeError) as error:
            where = f"line {reader.line_num + 1}"
            raise FormatError(f"is no CSV file: {error}", path=path, where=where) from None

    return rows(), "accepted" in at


def _read_json_lines(path: Path, text: io.TextIOWrapper) -> tuple[Iterator[Row], bool]:
    try:
        documents = [(number, json.loads(line)) for number, line in enumerate(text, start=1) if line.strip()]
    except (ValueError, RecursionError) as error:
        raise FormatError(f"is not one JSON object a line: {error}", path=path) from None
    if not documents:
        raise FormatError("has no events", path=path)
    for number, document in documents:
        if not isinstance(document, dict):
            raise FormatError("must be a JSON object", path=path, where=f"line {number}")
        _require(path, number, document)
    has_accepted = "accepted" in documents[0][1]

    def rows() -> Iterator[Row]:
        for number, document in documents:
            if not isinstance(document["event"], str):
                raise _error(path, number, "event", f"must be a text, got {shown(document['event'])}")
            if ("accepted" in document) != has_accepted:
                raise _error(path, number, "accepted", "must be in all lines or in none")
            yield Row(
                str(document["episode"]), document["event"], document.get("accepted"), document.get("done"), number
            )

    return rows(), has_accepted


def _read_xes(path: Path, text: io.TextIOWrapper, outcome: str | None) -> tuple[list[Row], bool]:
    """Read the traces of an XES file; the order of events is that of the file."""
    if outcome is None:
        raise FormatError(
            "of an XES log say which attribute tells that the task is complete: outcome='NAME' or 'NAME=VALUE'",
            path=path,
        )
    key, _, value = outcome.partition("=")
    rows: list[Row] = []
    number = 0
    has_outcome, accepted_in = False, set()
    _refuse_declarations(path, file := cast(BinaryIO, text.buffer))
    try:
        for _, element in iterparse(file, events=("end",)):
            if _tag(element) != "trace":
                continue
            number += 1
            trace = _attributes(element)
            episode = trace.get(EVENT_NAME, str(number))
            events = [_attributes(child) for child in element if _tag(child) == "event"]
            has_outcome = has_outcome or key in trace or any(key in event for event in events)
            for position, event in enumerate(events):
                if EVENT_NAME not in event:
                    where = f"trace {episode}, event {position + 1}"
                    raise FormatError(f"needs the attribute {EVENT_NAME}", path=path, where=where)
                is_last = position == len(events) - 1
                done = _is(event.get(key), value) or (is_last and _is(trace.get(key), value))
                accepted_in.add("accepted" in event)
                rows.append(Row(episode, event[EVENT_NAME], event.get("accepted"), done, number))
            element.clear()
    except (ParseError, UnicodeDecodeError) as error:
        raise FormatError(f"is no XES file: {error}", path=path) from None
    if not has_outcome:
        raise FormatError(f"has no attribute {shown(key)} on any trace or event", path=path)
    if len(accepted_in) > 1:
        raise FormatError("the attribute accepted must be on all events or on none", path=path)
    return rows, accepted_in == {True}


def _refuse_declarations(path: Path, file: BinaryIO) -> None:
    """Refuse a document type, which could declare entities that expand without end; no log needs one."""
    head = file.read(MEGABYTE)
    if b"<!DOCTYPE" in head or b"<!ENTITY" in head or b"\0" in head:
        raise FormatError("must be UTF-8, and must not declare entities or a document type", path=path)
    file.seek(0)


def _tag(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _attributes(element: Element) -> Mapping[str, str]:
    return {child.get("key", ""): child.get("value", "") for child in element if child.get("key") is not None}


def _is(text: str | None, value: str) -> bool:
    return text is not None and (text == value if value else text in TRUE)
