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
UNSAFE = 32 * MEGABYTE  # that a file grows by, at most, until it is brought to the disk
GLANCE = 0.05  # seconds after which a lock is asked for again
LONG_AGO = 60  # seconds after which nobody is still writing a small file
NO_FILE = "it is a device or a pipe, and not a file"
MOST_OF_NAME = 40  # characters of a file's name that are also in that name, which must not be too long

Content = str | bytes | Iterable[bytes]
File = tuple[Path, Content]  # what it is called, and what is to be in it


def exists(path: Path) -> bool:
    """Say whether there is a file or a folder; never so of a name that nothing can have."""
    return os.path.exists(path)  # noqa: PTH110 (pathlib raises an error for some names)


def listed(folder: Path, pattern: str) -> list[Path]:
    """List the files in a folder whose names fit a pattern, in order; there are none where there is no folder."""
    with telling(folder, "read"):  # it may have a name that nothing can have, or nobody may look into it
        return sorted(folder.glob(pattern))


def open_regular(path: Path, flags: int = os.O_RDONLY, done: str = "read") -> BinaryIO:
    """Open a file; a device or a pipe, which may never end or never answer, is refused."""
    with telling(path, done):
        handle = os.open(path, getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | flags, 0o666)
        file = os.fdopen(handle, "rb")
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            file.close()
            raise ValueError(NO_FILE)
    return file


def read_text(path: Path, limit: int) -> str:
    """Read a text file of at most `limit` bytes in UTF-8; a byte order mark is no part of its text."""
    return read_exactly(path, limit).removeprefix(MARK)


def read_exactly(path: Path, limit: int) -> str:
    """Read a text file of at most `limit` bytes in UTF-8, with its byte order mark if it has one."""
    with open_regular(path) as file, telling(path, "read"):
        data = file.read(limit + 1)
    if len(data) > limit:
        raise FormatError(f"must be at most {limit // MEGABYTE:,} MB in this format", path=path)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line, byte = data.count(b"\n", 0, error.start) + 1, data[error.start]
        raise FormatError(f"must be UTF-8 text, got byte 0x{byte:02x}", path=path, where=f"line {line}") from None


def write_whole(path: Path, data: Content) -> None:
    """Write a file under a temporary name and rename it, so that it is there whole or not at all, whatever happens.

    It is on the disk before it has its name, and the name before this returns: not even a power cut leaves an empty
    file, or the second alone of two.
    """
    write_many([(path, data)], threads=1)


def write_many(files: Iterable[File], threads: int = WRITERS) -> None:
    """Write files as `write_whole` does, but many at a time, for which disks take hardly longer than for one."""
    waiting = iter(files)
    while some := list(islice(waiting, TOGETHER)):
        with ExitStack() as begun:
            for grown in in_threads(partial(_begin, begun), some, threads):
                with telling(grown.path):
                    grown.temporary.replace(grown.path)
            for folder in {path.parent: None for path, _ in some}:
                _sync_folder(folder)


def _begin(begun: ExitStack, file: File) -> GrowingFile:
    """Bring a file to the disk, which has yet to get its name."""
    path, data = file
    grown = begun.enter_context(GrowingFile(path))
    with telling(path):
        for part in (data,) if isinstance(data, str | bytes) else data:
            grown.add(part.encode() if isinstance(part, str) else part)
    grown.seal()
    return grown


class GrowingFile:
    """A file that grows under a temporary name, piece by piece, and is given its own by `keep`; else it is removed.

    What it grows by is brought to the disk as it comes, so that to keep it takes a moment, however large it is.
    """

    def __init__(self, path: Path, mode: int | None = None) -> None:  # by default that of the file that is replaced
        self.path, self.unsafe = path, 0
        with telling(path):
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
        with suppress(OSError):  # what could not be written is tried once more
            self.file.close()
        self.temporary.unlink(missing_ok=True)

    def add(self, data: bytes) -> None:
        """Write some more."""
        with telling(self.path):
            self.unsafe += self.file.write(data)
            if self.unsafe >= UNSAFE:
                self._sync()

    def seal(self) -> None:
        """Bring all of it to the disk; nothing can be added any more."""
        with telling(self.path):
            self._sync()
            self.file.close()
            if self.mode is not None:
                self.temporary.chmod(self.mode)

    def keep(self) -> None:
        """Give the file its name, which replaces one that has it."""
        self.seal()
        with telling(self.path):
            self.temporary.replace(self.path)
            _sync_folder(self.path.parent)

    def _sync(self) -> None:
        self.file.flush()
        os.fsync(self.file.fileno())
        self.unsafe = 0


@contextmanager
def telling(path: Path, done: str = "written") -> Iterator[None]:
    """Say which file cannot be written, read or made; a path with a NUL is a ValueError."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise FormatError(f"cannot be {done}: {getattr(error, 'strerror', None) or error}", path=path) from None


def _mode_of(path: Path) -> int | None:
    """Find the permissions of a file that is about to be replaced, if there is one; a device or a pipe never is, and a
    link is not followed: it may lead out of a folder that came from somebody else."""
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
    """See to it that the names in a folder are on the disk; some systems cannot, and do not need to."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove_unfinished(folder: Path, *, older_than: float = 0) -> None:
    """Remove what writing has left in a folder when it was killed, so many seconds ago; or ever, where nobody else may
    be writing."""
    for path in folder.glob(f".*{UNFINISHED}"):
        with suppress(OSError):
            if not older_than or time.time() - path.lstat().st_mtime > older_than:
                path.unlink()


@contextmanager
def locked(path: Path, *, wait: float = 0, ours_only: bool = False) -> Iterator[bool]:
    """Hold a lock that other processes respect; say whether it is held, for which to `wait` so many seconds at most.

    Where the system, or the disk, has no such locks, everybody gets it. A link is not followed, and what is no file is
    refused; `ours_only` also refuses a file of another user, who could hold it for ever.
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
            time.sleep(GLANCE)
        except OSError:
            return True  # some disks of other machines have none
        else:
            return True


def make_folder(folder: Path) -> Path:
    """Make a folder and those around it, where they are not there yet."""
    with telling(folder, "made"):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def user_folder(variable: str, *usual: str) -> Path:
    """Make the folder for hocket's files of a kind that nobody else can enter: where a variable of the desktop's says,
    or, without it, the `usual` one in the user's home."""
    home = os.environ.get(variable) or os.environ.get("LOCALAPPDATA")
    folder = (Path(home) if home else Path.home().joinpath(*usual)) / "hocket"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


# What an edit of a text keeps: its byte order mark and its line ends.

MARK = "\ufeff"  # that some editors put before everything else
END = re.compile(r"(\r\n|\n)")  # of a line: of Windows, or plain
MOST_COMPARED = 4_000_000  # pairs of lines; in longer texts, lines are told apart by where they stand


def plain(text: str) -> str:
    """Take the byte order mark away, and let all lines end alike.

    >>> plain("\\ufeffa\\r\\nb\\n")
    'a\\nb\\n'
    """
    return END.sub("\n", text.removeprefix(MARK))


def in_form_of(text: str, before: str) -> str:
    """Give a plain text the form of what it was made from: lines that were there end as they did, new ones as most do.

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
    kept = {place: ends[origin] for place, origin in _origins(old, new).items() if origin < len(ends)}
    *others, last = new
    return mark + "".join(line + kept.get(place, usual) for place, line in enumerate(others)) + last


def _origins(old: Sequence[str], new: Sequence[str]) -> dict[int, int]:
    """Find the lines of a text that were there before, and where."""
    begin = _count_same(old, new)
    end = _count_same(old[begin:][::-1], new[begin:][::-1])
    middle, changed = old[begin : len(old) - end], new[begin : len(new) - end]
    same = {place: place for place in range(begin)}
    same |= {len(new) - 1 - place: len(old) - 1 - place for place in range(end)}
    if len(middle) * len(changed) > MOST_COMPARED:
        return same | {begin + place: begin + place for place in range(min(len(middle), len(changed)))}
    from difflib import SequenceMatcher  # only where the lines of a text end differently

    for block in SequenceMatcher(None, middle, changed, autojunk=False).get_matching_blocks():
        same |= {begin + block.b + place: begin + block.a + place for place in range(block.size)}
    return same


def _count_same(one: Sequence[str], other: Sequence[str]) -> int:
    """Count the lines at the beginning that are the same."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
