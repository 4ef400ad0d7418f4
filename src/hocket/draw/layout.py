"""Arrange panels on a page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate

# Lengths are in points, right and down from the page's upper left corner.
GAP = 12.0  # between panels
ASPECT = 1.6  # width to height of the page that a picture should fill

Pair = tuple[float, float]  # across the page, and down
Frame = tuple[float, float, float, float]  # left, width, top, height
Page = tuple[Pair, dict[int, Frame]]  # the lower right corner, and where each panel goes


def arrange(sizes: Sequence[Pair], leading: int) -> list[Frame]:
    """Choose the page that shows panels of some sizes large and wastes little; the first few may lead the others.

    >>> arrange([(300, 100), (140, 50), (140, 50)], leading=1)
    [(0, 300.0, 0, 100), (0, 144.0, 112.0, 50.0), (156.0, 144.0, 112.0, 50.0)]
    """
    _, frames = min(_pages(sizes, range(leading), range(leading, len(sizes))), key=_cost)
    return [frames[number] for number in range(len(sizes))]


def _cost(page: Page) -> float:
    """Weigh how much a page has to be reduced to fit against how large it is."""
    (width, height), _ = page
    return round(max(width / ASPECT, height) * math.sqrt(width * height))


def _pages(
    sizes: Sequence[Pair], leading: Sequence[int], others: Sequence[int], corner: Pair = (0, 0), least: Pair = (0, 0)
) -> Iterator[Page]:
    """List pages of at least a size from a corner on: the others on a grid, and leading panels around them.

    The first that leads is above or left of what follows; a later one may also be below or right of all that is left.
    """
    if not others or not leading:
        rest = [*leading, *others]
        yield from (_grid(sizes, rest, columns, corner, least) for columns in range(1, len(rest) + 1))
        return
    (left, top), (wide, high) = corner, least
    for one in leading:
        rest = [other for other in leading if other != one]
        width, height = sizes[one]
        lower = max(width, wide), max(0, high - height - GAP)
        narrower = max(0, wide - width - GAP), max(height, high)
        if one == leading[0]:
            for (right, bottom), frames in _pages(sizes, rest, others, (left, top + height + GAP), lower):
                yield (right, bottom), {**frames, one: (left, right - left, top, height)}
            for (right, bottom), frames in _pages(sizes, rest, others, (left + width + GAP, top), narrower):
                yield (right, bottom), {**frames, one: (left, width, top, bottom - top)}
        else:
            for (right, bottom), frames in _pages(sizes, rest, others, corner, lower):
                yield (right, bottom + GAP + height), {**frames, one: (left, right - left, bottom + GAP, height)}
            for (right, bottom), frames in _pages(sizes, rest, others, corner, narrower):
                yield (right + GAP + width, bottom), {**frames, one: (right + GAP, width, top, bottom - top)}


def _grid(sizes: Sequence[Pair], chosen: Sequence[int], columns: int, corner: Pair, least: Pair) -> Page:
    """Put some panels into columns from a corner on, stretched to at least a size in all."""
    widths = [max(sizes[one][0] for one in chosen[column::columns]) for column in range(columns)]
    heights = [max(sizes[one][1] for one in chosen[row : row + columns]) for row in range(0, len(chosen), columns)]
    across, down = _spans(widths, corner[0], least[0]), _spans(heights, corner[1], least[1])
    frames = {one: (*across[rank % columns], *down[rank // columns]) for rank, one in enumerate(chosen)}
    return (sum(across[-1]), sum(down[-1])), frames


def _spans(lengths: Sequence[float], start: float, least: float) -> list[Pair]:
    """Find where each of some lengths starts, and how long it is when all are stretched."""
    spare = max(0.0, least - sum(lengths) - GAP * (len(lengths) - 1)) / len(lengths)
    starts = accumulate(lengths[:-1], lambda at, length: at + length + spare + GAP, initial=start)
    return [(at, length + spare) for at, length in zip(starts, lengths, strict=True)]
