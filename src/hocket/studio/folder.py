"""The folder that the page may read and write: one that was named when the studio started, and nothing outside."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from hocket.errors import FormatError
from hocket.files import LONG_AGO, MEGABYTE, in_form_of, plain, read_exactly, remove_unfinished, write_whole
from hocket.machine.formats import FORMATS

LIMIT = MEGABYTE  # of a file that is edited in the page
LISTED = (".toml", ".json", ".hoa", ".dot", ".gv")  # suffixes of files that are offered; others can be named
MOST_LISTED, MOST_DEEP = 200, 3  # files, and folders below the first one
SUFFIX = ".toml"  # of what is written; all that machines and tasks are read from can be a start


class ConflictError(Exception):
    """A file that is not as it was when the page read it."""


@dataclass(frozen=True)
class Folder:
    """A folder, all links resolved."""

    root: Path
    _writing: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def path(self, name: str, suffixes: Collection[str] = (SUFFIX,)) -> Path:
        """Find a file in the folder or below; one elsewhere, also by a link, is refused."""
        try:
            path = (self.root / name).resolve()
        except (OSError, ValueError, RuntimeError):  # no name that a file can have, or links that go round
            path = self.root
        if self.root not in path.parents or path.suffix.lower() not in suffixes:
            kinds = f"{', '.join([*suffixes][:-1])} or {[*suffixes][-1]}" if len(suffixes) > 1 else SUFFIX
            raise FormatError(f"a file must be {kinds} and lie in the folder of the studio or below, got {name!r:.80}")
        return path

    def files(self) -> list[str]:
        """List what can be opened, in the folder and below, by name; hidden folders and deep ones are left out."""
        files: list[str] = []
        for folder, inner, names in os.walk(self.root):
            depth = len(Path(folder).relative_to(self.root).parts)
            inner[:] = sorted(name for name in inner if not name.startswith(".")) if depth < MOST_DEEP else []
            here = (Path(folder, name) for name in sorted(names) if Path(name).suffix.lower() in LISTED)
            files += [path.relative_to(self.root).as_posix() for path in here]
            if len(files) >= MOST_LISTED:
                break
        return files[:MOST_LISTED]

    def has(self, name: str, so: Callable[[Path], bool] = Path.exists) -> bool:
        """Say whether there is a file, or whatever else, of a name."""
        try:
            return so(self.path(name, FORMATS))
        except OSError as error:  # a name that is too long, or a folder that nobody may look into
            raise FormatError(f"cannot be read: {error.strerror}", path=name) from None

    def read(self, name: str) -> tuple[str, str]:
        """Read a file as plain as a page has it; its mark tells later whether it is still the same."""
        text = self._read(name)
        return plain(text), mark_of(text)

    def mark(self, name: str) -> str | None:
        """Tell what a file has now; None where there is none."""
        self.path(name)
        return mark_of(self._read(name)) if self.has(name, Path.is_file) else None

    def _read(self, name: str) -> str:
        path = self.path(name, FORMATS)
        try:
            return read_exactly(path, LIMIT)
        except FormatError as error:
            raise FormatError(str(error).removeprefix(f"{path}: "), path=name) from None

    def save(self, name: str, text: str, expected: str | None) -> str:
        """Write a file whole, if it is as the page has last seen it; lines that nobody touched stay byte for byte."""
        path = self.path(name)
        with self._writing:
            if self.mark(name) != expected:
                raise ConflictError
            if not path.parent.is_dir():
                raise FormatError("must lie in a folder that there is", path=name)
            remove_unfinished(path.parent, older_than=LONG_AGO)
            if expected is not None:
                text = in_form_of(text, self._read(name))
            write_whole(path, text)
        return mark_of(text)


def mark_of(text: str) -> str:
    """Fingerprint a text."""
    return hashlib.sha256(text.encode()).hexdigest()
