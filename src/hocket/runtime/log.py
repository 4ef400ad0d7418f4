"""Write-ahead logs: lines of JSON, each with a checksum over itself and everything before it.

An entry's first number is the time, in seconds, for people to read. A log that was cut by a crash is valid up to its
last whole line; any other change is an error. A symbolic link is not followed: its target may be any file.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

from hocket.errors import FormatError
from hocket.files import MEGABYTE, file_errors, open_regular
from hocket.runtime.protocol import Entry

LARGEST_LOG = 1_000 * MEGABYTE
SEED = "hocket log 1"  # what the first checksum begins with
WIDTH = 16  # hexadecimal digits of a checksum
sync = getattr(os, "fdatasync", os.fsync)  # waits until what was written to a file is on the disk
NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
APPENDING = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0) | NO_LINKS


@dataclass(frozen=True)
class LogContents:
    """The contents of a log."""

    header: dict[str, object]
    entries: tuple[Entry, ...]
    times: tuple[float, ...]  # of the entries
    check: str  # of all of it
    size: int  # bytes up to the end of the last whole line
    is_torn: bool  # whether it ends in a part of a line


def read_log(path: Path, largest: int = LARGEST_LOG, *, header: dict[str, object] | None = None) -> LogContents:
    """Read a log up to its last whole line; anything else that is wrong, such as another header, is an error."""
    with open_regular(path, NO_LINKS) as file, file_errors(path, "read"):
        data = file.read(largest + 1)
    if len(data) > largest:
        raise FormatError(f"is larger than {largest // MEGABYTE:,} MB", path=path)
    check, values, size = SEED, [], data.rfind(b"\n") + 1
    for number, line in enumerate(data[:size].split(b"\n")[:-1], start=1):
        payload = line[WIDTH + 1 :]
        check = _check(check, payload)
        if line[: WIDTH + 1] != check.encode() + b" ":
            raise FormatError("does not have the checksum that belongs there: the log was changed", path=path,
                              where=f"line {number}")  # fmt: skip
        try:
            values.append(_as_tuples(json.loads(payload)))
        except (ValueError, RecursionError):
            raise FormatError("is not JSON", path=path, where=f"line {number}") from None
    first, *rows = values or [{}]
    if not isinstance(first, dict) or not all(isinstance(row, tuple) and row and type(row[0]) is float for row in rows):
        raise FormatError("is not a log that hocket has written", path=path)
    if values and header not in (None, first):
        raise FormatError("belongs to another run, agent or task", path=path)
    times, entries = tuple(row[0] for row in rows), tuple(row[1:] for row in rows)
    return LogContents(first, entries, times, check, size, size < len(data))


def _as_tuples(value: object) -> Any:  # noqa: ANN401
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def _check(before: str, payload: bytes) -> str:
    return blake2b(before.encode() + payload, digest_size=WIDTH // 2).hexdigest()


class AgentLog:
    """A log to append to. If it is `durable`, entries are on the disk when `append` returns."""

    def __init__(self, path: Path, header: dict[str, object], *, durable: bool = True) -> None:
        self.path, self.durable = path, durable
        contents = read_log(path, header=header) if path.exists() else LogContents({}, (), (), SEED, 0, False)
        self.entries, self.check = contents.entries, contents.check
        with file_errors(path):
            self.file: IO[bytes] = os.fdopen(os.open(path, APPENDING, 0o666), "ab", buffering=0)
            self.file.truncate(contents.size)  # removes a line that was cut
        if not contents.header:
            self._write([header])

    def append(self, entries: Iterable[Entry]) -> None:
        """Write entries, and wait until they are on the disk."""
        now = round(time.time(), 3)
        self._write((now, *entry) for entry in entries)

    def _write(self, values: Iterable[object]) -> None:
        data = b""
        for value in values:
            payload = json.dumps(value, separators=(",", ":")).encode()
            self.check = _check(self.check, payload)
            data += self.check.encode() + b" " + payload + b"\n"
        if data:
            with file_errors(self.path):
                if self.file.write(data) != len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if self.durable:
                    sync(self.file.fileno())

    def close(self) -> None:
        self.file.close()
