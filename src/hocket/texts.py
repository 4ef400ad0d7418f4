"""Texts that people edit (byte order mark and line ends, which an edit keeps), and counts of things in words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import takewhile

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
    for block in SequenceMatcher(None, middle, changed, autojunk=False).get_matching_blocks():
        same |= {begin + block.b + place: begin + block.a + place for place in range(block.size)}
    return same


def _count_same(one: Sequence[str], other: Sequence[str]) -> int:
    """Count the lines at the beginning that are the same."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def counted(number: int, thing: str) -> str:
    """Write how many of a thing there are.

    >>> counted(1, "run"), counted(2_000, "run")
    ('1 run', '2,000 runs')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
