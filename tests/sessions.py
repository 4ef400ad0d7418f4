"""Sessions on pages: what is typed after a prompt, and what it prints. Run them, or write down what they print now.

python tests/sessions.py README.md docs/tutorials/repair.md

A block ```toml NAME.toml is a file that the sessions after it find. Where nothing stands below a command, what it
prints is not shown; `...` stands for lines that are left out.
"""

import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import NamedTuple

from hocket.cli import main as cli

BLOCK = re.compile(r"^```(toml|console)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINE = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


class Typed(NamedTuple):
    """A command of a session."""

    line: str
    shown: str  # what the page says that it prints
    printed: str
    errors: str
    span: tuple[int, int]  # of `shown` on the page


def run_page(page: str, folder: Path) -> Iterator[Typed]:
    """Write the files of a page and run its commands, in their order."""
    for block in BLOCK.finditer(page):
        kind, name, content = block.groups()
        if kind == "toml":
            if name is not None:
                (folder / name).write_text(content, encoding="utf-8")
            continue
        for match in LINE.finditer(content):
            start = block.start(3) + match.start(2)
            yield run_line(match[1], match[2], folder, (start, start + len(match[2])))


def run_line(line: str, shown: str, folder: Path, span: tuple[int, int]) -> Typed:
    """Run `hocket ...` or `echo KEYS | hocket ...`, in this process: a new one for each would take most of the time."""
    typed, _, command = line.rpartition(" | ")
    program, *words = shlex.split(command)
    assert program == "hocket", line
    keys, out, err = (TextIOWrapper(BytesIO(), encoding="utf-8", newline="") for _ in range(3))
    keys.write(typed.removeprefix("echo ") + "\n" if typed else "")
    keys.seek(0)
    before, sys.stdin = sys.stdin, keys
    try:
        with chdir(folder), redirect_stdout(out), redirect_stderr(err), suppress(SystemExit):
            cli.run(words)
    finally:
        sys.stdin = before
    for stream in (out, err):
        stream.flush()
    return Typed(line, shown, out.buffer.getvalue().decode(), err.buffer.getvalue().decode(), span)


def agrees(shown: str, printed: str) -> bool:
    """Say whether a page shows what is printed; a line of three dots is any number of lines."""
    parts = [re.escape(part) for part in re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE)]
    return re.fullmatch("(?:.*\n)*?".join(parts), printed) is not None


def main() -> None:
    """Write down what the sessions of some pages print now."""
    for path in map(Path, sys.argv[1:]):
        page = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            found = list(run_page(page, Path(folder)))
        for own in reversed(found):
            if own.shown and not agrees(own.shown, own.printed):
                page = page[: own.span[0]] + own.printed + page[own.span[1] :]
            if own.errors:
                print(f"{path}: {own.line}: {own.errors}", end="")
        path.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
