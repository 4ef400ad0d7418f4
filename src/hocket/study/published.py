"""What others have published of a study's experiments, to be shown beside what is measured here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from hocket.documents import Document, as_number, as_table, as_text, as_texts, check_keys
from hocket.errors import FormatError

KEYS = ("task", "learner", "final", "reached", "success")


@dataclass(frozen=True)
class Level:
    """How good a learner is in the end, and how soon; of softmax tests, a failed one counting as its most steps."""

    final: float  # steps: the mean over the last ten tests of the median over runs
    reached: int | None  # training steps when that median, a trailing mean of ten, is first within a tenth of it
    success: float  # share of the last fifty tests of all runs


@dataclass(frozen=True)
class Published:
    """Published levels, by the names of task and learner."""

    source: str  # who published them, and where
    levels: Mapping[tuple[str, str], Level]
    notes: tuple[str, ...] = ()  # where, and why, what is measured here differs

    def document(self) -> dict[str, object]:
        """Lay it out as in a study's file."""
        rows = [{"task": task, "learner": learner, **asdict(level)} for (task, learner), level in self.levels.items()]
        known = [{key: value for key, value in row.items() if value is not None} for row in rows]
        return {"source": self.source, "notes": list(self.notes), "levels": known}


def published_from(value: object) -> Published:
    """Read published levels from a study's file, or from what a folder says of a study."""
    table = as_table(value, "published")
    check_keys(table, ("source", "notes", "levels"), "published.")
    rows = table.get("levels")
    if not isinstance(rows, list) or not rows:
        raise FormatError("must be tables: [[published.levels]]", where="published.levels")
    places = [f"published.levels[{number}]" for number in range(1, len(rows) + 1)]
    levels = dict(_level_from(as_table(row, place), place) for row, place in zip(rows, places, strict=True))
    notes = as_texts(table["notes"], "published.notes") if "notes" in table else ()
    return Published(as_text(table.get("source"), "published.source"), levels, tuple(notes))


def _level_from(row: Document, where: str) -> tuple[tuple[str, str], Level]:
    check_keys(row, KEYS, f"{where}.")
    names = (as_text(row.get("task"), f"{where}.task"), as_text(row.get("learner"), f"{where}.learner"))
    final, success = (as_number(row.get(key), f"{where}.{key}") for key in ("final", "success"))
    reached = row.get("reached")
    if final <= 0:
        raise FormatError(f"must be a number of steps above 0, got {final:g}", where=f"{where}.final")
    if not 0 <= success <= 1:
        raise FormatError(f"must be a share between 0 and 1, got {success:g}", where=f"{where}.success")
    if reached is not None and (type(reached) is not int or reached < 0):
        raise FormatError("must be a number of training steps", where=f"{where}.reached")
    return names, Level(final, reached, success)
