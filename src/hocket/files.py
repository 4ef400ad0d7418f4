"""Reading and writing files: bounded, with errors that name the file, and never half-written."""

from __future__ import annotations

import os
import re
import stat
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import BinaryIO

from hocket.background import in_threads
from hocket.errors import FormatError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

HAS_LOCKS = fcntl is not None
MEGABYTE = 1_000_000
UNFINISHED = ".unfinished"  # at the end of the name of a file that is not whole yet
WRITERS = 8  # threads that write files
TOGETHER = 250  # files that get their names together
UNSYNCED = 32 * MEGABYTE  # that a file grows by, at most, until it is synchronised with the disk
LOCK_INTERVAL = 0.05  # seconds between attempts to get a lock
LONG_AGO = 60  # seconds after which no process is still writing a small file
NO_FILE = "it is a device or a pipe, and not a file"
MOST_OF_NAME = 40  # characters of a file's name in its temporary name, which must not be too long

Content = str | bytes | Iterable[bytes]
File = tuple[Path, Content]


def exists(path: Path) -> bool:
    """Say whether there is a file or a folder; if the name is not valid, there is none."""
    return os.path.exists(path)  # noqa: PTH110 (pathlib raises an error for some names)


def listed(folder: Path, pattern: str) -> list[Path]:
    """List the files in a folder whose names fit a pattern, in order; there are none where there is no folder."""
    with file_errors(folder, "read"):  # its name may not be valid, or it may not be readable
        return sorted(folder.glob(pattern))


def open_regular(path: Path, flags: int = os.O_RDONLY, done: str = "read") -> BinaryIO:
    """Open a file; a device or a pipe, which may never end or never answer, is refused."""
    with file_errors(path, done):
        handle = os.open(path, getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | flags, 0o666)
        file = os.fdopen(handle, "rb")
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            file.close()
            raise ValueError(NO_FILE)
    return file


def read_text(path: Path, limit: int, *, keep_mark: bool = False) -> str:
    """Read a text file of at most `limit` bytes in UTF-8, without its byte order mark unless that is to be kept."""
    with open_regular(path) as file, file_errors(path, "read"):
        data = file.read(limit + 1)
    if len(data) > limit:
        raise FormatError(f"must be at most {limit // MEGABYTE:,} MB in this format", path=path)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line, byte = data.count(b"\n", 0, error.start) + 1, data[error.start]
        raise FormatError(f"must be UTF-8 text, got byte 0x{byte:02x}", path=path, where=f"line {line}") from None
    return text if keep_mark else text.removeprefix(MARK)


def write_whole(path: Path, data: Content) -> None:
    """Write a file under a temporary name and rename it, so that it is there whole or not at all, whatever happens: its
    content is on the disk before its name, and its name before this returns, also if the power fails."""
    write_many([(path, data)], threads=1)


def write_many(files: Iterable[File], threads: int = WRITERS) -> None:
    """Write files as `write_whole` does, but many at a time, for which disks take hardly longer than for one."""
    remaining = iter(files)
    while batch := list(islice(remaining, TOGETHER)):
        with ExitStack() as stack:
            for file in in_threads(partial(_write_temporary, stack), batch, threads):
                with file_errors(file.path):
                    file.temporary.replace(file.path)
            for folder in {path.parent: None for path, _ in batch}:
                _sync_folder(folder)


def _write_temporary(stack: ExitStack, file: File) -> GrowingFile:
    """Write a file that has only its temporary name."""
    path, data = file
    growing = stack.enter_context(GrowingFile(path))
    with file_errors(path):
        for part in (data,) if isinstance(data, str | bytes) else data:
            growing.add(part.encode() if isinstance(part, str) else part)
    growing.seal()
    return growing


class GrowingFile:
    """A file that grows under a temporary name, and gets its name by `keep`; else it is removed. It is synchronised
    with the disk while it grows, so that `keep` is fast even if the file is large."""

    def __init__(self, path: Path, mode: int | None = None) -> None:  # by default that of the file that is replaced
        self.path, self.unsynced = path, 0
        with file_errors(path):
            self.mode = _mode_of(path) if mode is None else mode
            self.temporary = path.with_name(f".{path.name[:MOST_OF_NAME]}.{os.urandom(8).hex()}{UNFINISHED}")
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            handle = os.open(self.temporary, flags, 0o666 if mode is None else mode)
            try:
                self.file = os.fdopen(handle, "wb")
            except BaseException:
                self.temporary.unlink(missing_ok=True)
                raise

    def __enter__(self) -> GrowingFile:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # closing tries again to write data that could not be written
            self.file.close()
        self.temporary.unlink(missing_ok=True)

    def add(self, data: bytes) -> None:
        """Append data."""
        with file_errors(self.path):
            self.unsynced += self.file.write(data)
            if self.unsynced >= UNSYNCED:
                self._sync()

    def seal(self) -> None:
        """Synchronise the file with the disk and close it."""
        with file_errors(self.path):
            self._sync()
            self.file.close()
            if self.mode is not None:
                self.temporary.chmod(self.mode)

    def keep(self) -> None:
        """Give the file its name, which replaces one that has it."""
        self.seal()
        with file_errors(self.path):
            self.temporary.replace(self.path)
            _sync_folder(self.path.parent)

    def _sync(self) -> None:
        self.file.flush()
        os.fsync(self.file.fileno())
        self.unsynced = 0


@contextmanager
def file_errors(path: Path, done: str = "written") -> Iterator[None]:
    """Raise a `FormatError` if a file cannot be written, read or made; a path with a NUL is a ValueError."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise FormatError(f"cannot be {done}: {getattr(error, 'strerror', None) or error}", path=path) from None


def _mode_of(path: Path) -> int | None:
    """Return the permissions of a file that is about to be replaced, if there is one; refuse a device or a pipe. A link
    is not followed: it may lead out of a folder that another person made."""
    try:
        mode = followed = path.lstat().st_mode
    except FileNotFoundError:
        return None
    with suppress(OSError):
        followed = path.stat().st_mode
    if any(kind(followed) for kind in (stat.S_ISCHR, stat.S_ISBLK, stat.S_ISFIFO, stat.S_ISSOCK)):
        raise ValueError(NO_FILE)
    return stat.S_IMODE(mode) if stat.S_ISREG(mode) else None


def _sync_folder(folder: Path) -> None:
    """Synchronise the names in a folder with the disk; some systems cannot, and do not need to."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove_unfinished(folder: Path, *, older_than: float = 0) -> None:
    """Remove temporary files that killed processes left in a folder; with `older_than`, only those of so many seconds
    ago, because other processes may be writing."""
    for path in folder.glob(f".*{UNFINISHED}"):
        with suppress(OSError):
            if not older_than or time.time() - path.lstat().st_mtime > older_than:
                path.unlink()


@contextmanager
def locked(path: Path, *, wait: float = 0, ours_only: bool = False) -> Iterator[bool]:
    """Hold a lock between processes, waiting for it so many seconds at most; yield whether it is held.

    If the system, or the disk, has no such locks, all processes get it. A link is not followed, and devices and pipes
    are refused; `ours_only` also refuses a file of another user, who could hold it for ever.
    """
    with open_regular(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), "written") as file:
        if ours_only and hasattr(os, "geteuid") and os.fstat(file.fileno()).st_uid != os.geteuid():
            raise FormatError("cannot be written: it belongs to another user", path=path)
        yield fcntl is None or _lock(file, time.monotonic() + wait)


def _lock(file: BinaryIO, latest: float) -> bool:
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= latest:
                return False
            time.sleep(LOCK_INTERVAL)
        except OSError:
            return True  # some network disks have no locks
        else:
            return True


def make_folder(folder: Path) -> Path:
    """Make a folder and its parents, unless they exist."""
    with file_errors(folder, "made"):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def user_folder(variable: str, *usual: str) -> Path:
    """Make a folder for hocket's files that only the user can enter, in the folder that a variable of the desktop names
    or, without it, in the `usual` one of the user's home."""
    home = os.environ.get(variable) or os.environ.get("LOCALAPPDATA")
    folder = (Path(home) if home else Path.home().joinpath(*usual)) / "hocket"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


# Edits of a text keep its byte order mark and its line ends.

MARK = "\ufeff"  # the byte order mark, which some editors write
END = re.compile(r"(\r\n|\n)")  # of a line: of Windows, or plain
MOST_COMPARED = 4_000_000  # pairs of lines; in longer texts, lines are matched by their positions


def plain(text: str) -> str:
    """Remove the byte order mark, and let all lines end with a line feed.

    >>> plain("\\ufeffa\\r\\nb\\n")
    'a\\nb\\n'
    """
    return END.sub("\n", text.removeprefix(MARK))


def in_form_of(text: str, before: str) -> str:
    """Give an edited plain text the form that it had before: old lines end as they did, new ones as most lines do.

    >>> in_form_of("a\\nnew\\nb\\n", "\\ufeffa\\r\\nb\\r\\n")
    '\\ufeffa\\r\\nnew\\r\\nb\\r\\n'
    """
    mark = MARK if before.startswith(MARK) else ""
    pieces = END.split(before.removeprefix(MARK))
    old, ends = pieces[::2], pieces[1::2]
    usual = Counter(ends).most_common(1)[0][0] if ends else "\n"
    new = text.split("\n")
    if len({*ends}) <= 1:
        return mark + usual.join(new)
    kept = {number: ends[origin] for number, origin in _origins(old, new).items() if origin < len(ends)}
    *others, last = new
    return mark + "".join(line + kept.get(number, usual) for number, line in enumerate(others)) + last


def _origins(old: Sequence[str], new: Sequence[str]) -> dict[int, int]:
    """Map the number of each line that was there before to its number then."""
    begin = _count_same(old, new)
    end = _count_same(old[begin:][::-1], new[begin:][::-1])
    middle, changed = old[begin : len(old) - end], new[begin : len(new) - end]
    same = {number: number for number in range(begin)}
    same |= {len(new) - 1 - number: len(old) - 1 - number for number in range(end)}
    if len(middle) * len(changed) > MOST_COMPARED:
        return same | {begin + number: begin + number for number in range(min(len(middle), len(changed)))}
    from difflib import SequenceMatcher  # only where the lines of a text end differently

    for block in SequenceMatcher(None, middle, changed, autojunk=False).get_matching_blocks():
        same |= {begin + block.b + number: begin + block.a + number for number in range(block.size)}
    return same


def _count_same(one: Sequence[str], other: Sequence[str]) -> int:
    """Count the lines at the beginning that are the same."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
