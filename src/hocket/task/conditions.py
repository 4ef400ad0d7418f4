"""Conditions: where agents have to be for an event to happen, and the sentences that say so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hocket.errors import TaskError, known_names
from hocket.task.grid import Grid

_CONDITION = re.compile(r"(?:not at|not in|at|in)(?:\s+|$)|anywhere(?=\s|,|$)")
_AND = re.compile(r"(?:\s+and\s+|\s*,\s*)")


@dataclass(frozen=True)
class Condition:
    """Where an agent has to be for an event: at a place, not at a place, or anywhere."""

    place: str | None = None  # None: anywhere
    inside: bool = True

    def cells(self, grid: Grid, key: str) -> NDArray[np.bool_]:
        """Flag the cells in which it holds."""
        if self.place is None:
            return grid.floor
        flags = np.zeros(grid.cells, np.bool_)
        flags[list(grid.place(self.place, key))] = True
        return flags if self.inside else grid.floor & ~flags

    def __str__(self) -> str:
        return "anywhere" if self.place is None else f"{'at' if self.inside else 'not at'} {self.place}"


ANYWHERE = Condition()


def parse_conditions(sentence: str, agents: Iterable[str], places: Iterable[str], key: str) -> dict[str, Condition]:
    """Read when an event happens: "A2 and A3 at red button and A1 not at home", "all at meeting point".

    Names are matched whole and longest first, so they may contain blanks.
    """
    reader = _Reader(sentence.strip(), key)
    everyone = list(agents)
    conditions: dict[str, Condition] = {}
    while True:
        named = reader.agents(everyone)
        word = reader.match(_CONDITION, "at, in, not at, not in or anywhere")
        condition = Condition()
        if word != "anywhere":
            condition = Condition(reader.name(places, "place"), inside=not word.startswith("not"))
        for agent in named:
            if agent in conditions:
                raise TaskError(f"agent {agent!r} has two conditions in {sentence!r}", key=key)
            conditions[agent] = condition
        if reader.at_end:
            return conditions
        reader.match(_AND, "'and'")


class _Reader:
    """Reads a sentence from left to right."""

    def __init__(self, text: str, key: str) -> None:
        self.text, self.key, self.position = text, key, 0

    @property
    def at_end(self) -> bool:
        return self.position == len(self.text)

    @property
    def rest(self) -> str:
        return self.text[self.position :]

    def match(self, pattern: re.Pattern[str], expected: str) -> str:
        found = pattern.match(self.text, self.position)
        if found is None:
            raise TaskError(f"expected {expected} before {self.rest!r} in {self.text!r}", key=self.key)
        self.position = found.end()
        return found[0].strip()

    def agents(self, everyone: list[str]) -> list[str]:
        """Read "all", or agents joined by "and" or commas, up to the condition."""
        if (found := re.match(r"all\s+", self.rest)) and self.known(everyone) is None:
            self.position += found.end()
            return everyone
        named = [self.name(everyone, "agent")]
        while not re.match(r"\s+(not|at|in|anywhere)\b", self.rest):
            self.match(_AND, "'and', or where the agent has to be,")
            named.append(self.name(everyone, "agent"))
        self.position += len(self.rest) - len(self.rest.lstrip())
        return named

    def name(self, known: Iterable[str], what: str) -> str:
        """Read the longest known name that is not part of a longer word."""
        found = self.known(known)
        if found is not None:
            self.position += len(found)
            return found
        unknown = re.split(r"\s+(?:and|not|at|in|anywhere)\b|,", self.rest)[0]
        raise TaskError(f"{what} {unknown!r} does not exist ({known_names(unknown, known)})", key=self.key)

    def known(self, names: Iterable[str]) -> str | None:
        """Find the longest of some names that comes next."""
        for name in sorted(names, key=len, reverse=True):
            if self.rest.startswith(name) and re.match(r"\s|,|$", self.rest[len(name) :]):
                return name
        return None


def write_conditions(conditions: Mapping[str, Condition]) -> str:
    """Say when an event happens, agents with the same condition together."""
    together: dict[Condition, list[str]] = {}
    for agent, condition in conditions.items():
        together.setdefault(condition, []).append(agent)
    return " and ".join(f"{' and '.join(agents)} {condition}" for condition, agents in together.items())
