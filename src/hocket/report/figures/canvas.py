"""Shared by all figures of a report: style, text, and files that are the same byte for byte."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import matplotlib.style
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font
from matplotlib.ft2font import FT2Font

from hocket.draw.graphviz import require_format
from hocket.draw.markup import truncate
from hocket.draw.palette import AGENT_COLORS
from hocket.errors import printable
from hocket.files import write_whole
from hocket.report.summary import RunGroup, line_numbers, ranged

FONT = "DejaVu Sans"  # which comes with matplotlib
TEXT, SMALL, TITLE = 7.0, 6.0, 8.0  # sizes of the font in points
COLUMN = 3.5  # inches: the width of a journal's column
PAGE = 7.0  # inches: the width of its page
POINTS = 72  # per inch
FINE = 10  # times larger, text is measured without the rounding of small sizes
DPI = 200  # of a PNG
INK, NOTE, FAINT, WHITE = "#222222", "#555555", "#dddddd", "#ffffff"
MISSING = "\ufffd"  # for a letter that the font does not have
LONGEST_NAME = 160  # characters of a name

TICKS = {"color": NOTE, "labelcolor": INK, "labelsize": SMALL + 0.5, "major.width": 0.6, "minor.width": 0.4}
STYLE: dict[Any, Any] = {  # parameters of matplotlib
    "font.family": [FONT], "font.size": TEXT, "text.color": INK,
    "axes.titlesize": SMALL, "axes.labelsize": TEXT, "axes.edgecolor": NOTE, "axes.labelcolor": INK,
    "axes.linewidth": 0.6, "axes.spines.top": False, "axes.spines.right": False, "axes.unicode_minus": True,
    **{f"{axis}tick.{name}": value for axis in "xy" for name, value in TICKS.items()},
    "legend.fontsize": TEXT, "legend.frameon": False, "hatch.linewidth": 0.5,
    "text.parse_math": False,  # names may contain dollars
    "svg.fonttype": "path",  # looks the same without the font
    "svg.hashsalt": "hocket",  # without one, ids in an SVG are random
    "pdf.fonttype": 42,
}  # fmt: skip
OMITTED = {".svg": "Date", ".png": "Software", ".pdf": "CreationDate"}  # metadata that would change files

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("solid", (0, (4, 1.5)), (0, (1, 1.5)), (0, (4, 1.5, 1, 1.5)))

Make = Callable[[], Figure]
_one_at_a_time = threading.RLock()  # matplotlib's settings are global


class Stroke(NamedTuple):
    """The look of a group of runs: distinct by colour, and without colours by marker and line."""

    color: str
    marker: str
    line: str | tuple[int, tuple[float, ...]]


@contextmanager
def style() -> Iterator[None]:
    """Draw in the style of the reports, whatever matplotlib's settings are."""
    with _one_at_a_time, matplotlib.style.context("default"), matplotlib.rc_context(STYLE):
        yield


def write_figure(path: str | Path, make: Make) -> None:
    """Make a figure and write it to a file whose suffix is the format; the same figure gives the same bytes."""
    write_whole(Path(path), render(make, require_format(path)))


def render(make: Make, form: str = ".svg") -> bytes:
    """Make a figure and return the content of its file."""
    buffer = io.BytesIO()
    with style():
        make().savefig(buffer, format=form[1:], dpi=DPI, metadata={OMITTED[form]: None})
    return buffer.getvalue()


def strokes(groups: Sequence[RunGroup]) -> list[Stroke]:
    """Choose the look of each group."""
    turns = [divmod(number, len(AGENT_COLORS)) for number in line_numbers(groups)]
    return [Stroke(AGENT_COLORS[index], MARKERS[index], LINES[turn % len(LINES)]) for turn, index in turns]


def count_runs(groups: Iterable[RunGroup]) -> str:
    """Write how many runs groups have."""
    return ranged([len(group.seeds) for group in groups], "run")


def literal(text: str, longest: int = LONGEST_NAME) -> str:
    """Turn any text into one line of letters that the font has.

    >>> literal("cost $5\\n"), literal("a" * 9, 4)
    ('cost $5\\\\n', 'aaa…')
    """
    _, known = _font()
    line = truncate(printable(text, len(text)), longest)
    return "".join(letter if ord(letter) in known else MISSING for letter in line)


@cache
def _font() -> tuple[FT2Font, frozenset[int]]:
    font = get_font(findfont(FONT))
    return font, frozenset(font.get_charmap())


@lru_cache(10_000)
def measure(text: str, size: float) -> float:
    """Measure the width of a line in a size of the font, both in points."""
    font, _ = _font()
    font.set_size(size, FINE * POINTS)
    font.set_text(text, 0.0)
    return font.get_width_height()[0] / 64 / FINE


def wrap(text: str, size: float, width: float) -> list[str]:
    """Break a line at spaces, or else anywhere, so that no part is wider than so many points."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if measure(longer, size) <= width:
            lines[-1] = longer
        else:
            lines[-1:] = [*filter(None, lines[-1:]), *_broken(word, size, width)]
    return lines


def shorten(text: str, size: float, width: float) -> str:
    """Cut off the end of a line that is wider than so many points."""
    first, *more = _broken(text, size, width)
    return f"{first[:-1]}…" if more else first


def _broken(word: str, size: float, width: float) -> list[str]:
    pieces = [""]
    for letter in word:
        if pieces[-1] and measure(pieces[-1] + letter, size) > width:
            pieces.append("")
        pieces[-1] += letter
    return pieces


def counted(number: float, _position: float = 0.0) -> str:
    """Write a number on an axis: with commas, and without trailing zeros.

    >>> counted(20_000), counted(0.25), counted(1e-5)
    ('20,000', '0.25', '1e-05')
    """
    return f"{number:,.0f}" if number == round(number) else f"{number:g}"
