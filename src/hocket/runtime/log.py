"""Write-ahead logs: lines of JSON, each with a checksum over itself and everything before it.

An entry's first number is the time, in seconds, for people to read. A log that was cut anywhere, by a crash, is good up
to its last whole line. Any other change is found. A link is no log: what it leads to may be anything.
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
from typing import IO

from hocket.errors import FormatError
from hocket.files import MEGABYTE, open_regular, telling
from hocket.runtime.protocol import Entry

LARGEST_LOG = 1_000 * MEGABYTE
SEED = "hocket log 1"  # what the first checksum begins with
WIDTH = 16  # hexadecimal digits of a checksum
sync = getattr(os, "fdatasync", os.fsync)  # waits until what was written to a file is on the disk
NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
APPENDING = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0) | NO_LINKS


@dataclass(frozen=True)
class LogContents:
    """What is in a log."""

    header: dict[str, object]
    entries: tuple[Entry, ...]
    times: tuple[float, ...]  # of the entries
    check: str  # of all of it
    size: int  # bytes up to the end of the last whole line
    is_torn: bool  # whether there is a part of a line after it


def read_log(path: Path, largest: int = LARGEST_LOG, *, header: dict[str, object] | None = None) -> LogContents:
    """Read a log; a last line that was cut is left out; anything else that is wrong, as another header, is an error."""
    with open_regular(path, NO_LINKS) as file, telling(path, "read"):
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
            values.append(_frozen(json.loads(payload)))
        except (ValueError, RecursionError):
            raise FormatError("is not JSON", path=path, where=f"line {number}") from None
    first = values[0] if values else {}
    rows = [value for value in values[1:] if isinstance(value, tuple) and value and isinstance(value[0], float)]
    if not isinstance(first, dict) or len(rows) != max(0, len(values) - 1):
        raise FormatError("is not a log that hocket has written", path=path)
    if values and header not in (None, first):
        raise FormatError("belongs to another run, agent or task", path=path)
    times, entries = tuple(row[0] for row in rows), tuple(row[1:] for row in rows)
    return LogContents(first, entries, times, check, size, size < len(data))


def _frozen(value: object) -> object:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _check(before: str, payload: bytes) -> str:
    return blake2b(before.encode() + payload, digest_size=WIDTH // 2).hexdigest()


class AgentLog:
    """A log that grows: what was appended is on the disk when `append` returns, unless it need not be `durable`."""

    def __init__(self, path: Path, header: dict[str, object], *, durable: bool = True) -> None:
        self.path, self.durable = path, durable
        contents = read_log(path, header=header) if path.exists() else LogContents({}, (), (), SEED, 0, False)
        self.entries, self.check = contents.entries, contents.check
        with telling(path):
            self.file: IO[bytes] = os.fdopen(os.open(path, APPENDING, 0o666), "ab", buffering=0)
            self.file.truncate(contents.size)  # whatever follows was cut
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
            with telling(self.path):
                if self.file.write(data) != len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if self.durable:
                    sync(self.file.fileno())

    def close(self) -> None:
        self.file.close()
