"""Conditions of events: where agents have to be or to go, and sentences for them ("A1 and A2 at mat")."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hocket.errors import TaskError, known_names
from hocket.lazy import explain_kinds
from hocket.task.grid import Grid

_WHERE = re.compile(r"(?:not at|not in|at|in|enters?|leaves?|stays? at|stays? in)(?:\s+|$)")
_CONDITION = re.compile(rf"{_WHERE.pattern}|anywhere(?=\s|,|$)")
_AND = re.compile(r"(?:\s+and\s+|\s*,\s*)")
_OR = re.compile(r"\s+or\s+")
_ALL = re.compile(r"all\s+")
_BEFORE_WHERE = re.compile(r"\s+(?:not|at|in|anywhere|enters?|leaves?|stays?)\b")
_BLANKS = re.compile(r"\s*")

Named = Literal["agent", "place"]  # what a name in a sentence may stand for
Mask = tuple[NDArray[np.bool_], NDArray[np.bool_] | None]  # cells after a step, and before it, if that matters

_WORDS: dict[tuple[bool, bool | None], tuple[str, str]] = {  # (inside, was) -> for one agent, for several
    (True, None): ("at", "at"),
    (False, None): ("not at", "not at"),
    (True, False): ("enters", "enter"),
    (False, True): ("leaves", "leave"),
    (True, True): ("stays at", "stay at"),
}
_HINT_FOR_ANY = "for any of several agents, write an event for each of them, and let all lead to the same state"
_HINT_FOR_ALL = "write 'all', or join the agents' names with 'and'"
_QUANTIFIERS = {
    **dict.fromkeys(("any", "anybody", "anyone", "either", "one", "somebody", "someone"), _HINT_FOR_ANY),
    **dict.fromkeys(("both", "each", "every", "everybody", "everyone"), _HINT_FOR_ALL),
}
_MEANINGS = {word.split()[0]: meaning for meaning, words in _WORDS.items() for word in words} | {"in": (True, None)}


@explain_kinds
@dataclass(frozen=True)
class Condition:
    """Where an agent has to be for an event: at a place, not at a place, or anywhere; `|` joins alternatives.

    `was` makes it an edge, which also depends on where the agent was before the step: at a place now and not before is
    `enters`, not now but before is `leaves`, now and before is `stays at`.

    >>> print(Condition("red") | Condition("blue", inside=False) | Condition("mat", was=False))
    at red or not at blue or enters mat
    """

    place: str | None = None  # None: anywhere
    inside: bool = True
    others: tuple[Condition, ...] = ()  # alternatives
    was: bool | None = None  # whether it was inside before the step; None: either

    def __post_init__(self) -> None:
        if (self.inside, self.was) not in _WORDS or (self.place is None and self.was is not None):
            raise TaskError("a condition is: at, not at, enters, leaves or stays at a place; or anywhere", key="events")

    def __or__(self, other: Condition) -> Condition:
        ways = tuple(dict.fromkeys((*self.ways, *other.ways)))
        return ANYWHERE if ANYWHERE in ways else replace(ways[0], others=ways[1:])

    @property
    def ways(self) -> tuple[Condition, ...]:
        """All alternatives, of which one has to hold."""
        return (replace(self, others=()), *self.others) if self.others else (self,)

    @property
    def places(self) -> tuple[str, ...]:
        """The places that it names."""
        return tuple(way.place for way in self.ways if way.place is not None)

    @property
    def is_edge(self) -> bool:
        """Whether it depends on where the agent was before the step."""
        return any(way.was is not None for way in self.ways)

    def as_edge(self) -> Condition:
        """Read `at` as `enters`, and `not at` as `leaves`."""
        ways = (replace(way, was=not way.inside) if way.place and way.was is None else way for way in self.ways)
        return reduce(or_, ways)

    def masks(self, grid: Grid, key: str) -> tuple[Mask, ...]:
        """Flag for each alternative the cells in which a step has to end and, for an edge, to begin."""
        masks = {way: way._mask(grid, key) for way in self.ways}
        for way, (now, before) in masks.items():
            if way.inside and before is not None and replace(way, was=not way.was) in masks:
                masks[way] = now, grid.floor  # `enters or stays at` may begin anywhere
        return tuple(masks.values())

    def _mask(self, grid: Grid, key: str) -> Mask:
        if self.place is None:
            return grid.floor, None
        flags = np.zeros(grid.cells, np.bool_)
        flags[list(grid.place(self.place, key))] = True
        now, before = (flags if inside else grid.floor & ~flags for inside in (self.inside, self.was))
        return now, None if self.was is None else before

    def describe(self, agents: int = 1) -> str:
        """Write it as the end of a sentence about one agent or several."""
        words = ((_WORDS[way.inside, way.was][agents > 1], way.place) for way in self.ways)
        return " or ".join("anywhere" if place is None else f"{word} {place}" for word, place in words)

    def __str__(self) -> str:
        return self.describe()


ANYWHERE = Condition()


class Lexicon:
    """Names, of which the longest one at a position of a text can be found."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = dict.fromkeys(names)
        self._lengths = sorted({len(name) for name in self.names}, reverse=True)

    def at(self, text: str, begin: int) -> str | None:
        """Find the longest name that begins at a position and does not end inside of a word."""
        for length in self._lengths:
            end = begin + length
            ends = end == len(text) or (end < len(text) and (text[end].isspace() or text[end] == ","))
            if ends and text[begin:end] in self.names:
                return text[begin:end]
        return None


def parse_conditions(
    sentence: str, agents: Iterable[str] | Lexicon, places: Iterable[str] | Lexicon, key: str
) -> dict[str, Condition]:
    """Read when an event happens: "A2 and A3 at red button and A1 not at home", "all at red or blue". Names may contain
    blanks, since the longest one that matches is taken."""
    everyone, everywhere = (names if isinstance(names, Lexicon) else Lexicon(names) for names in (agents, places))
    return _Reader(sentence.strip(), everyone, everywhere, key).sentence()


def rename_in_conditions(
    sentence: str, agents: Sequence[str], places: Sequence[str], what: Named, old: str, new: str
) -> str:
    """Rename an agent or a place in a sentence; refuse names with which the sentence would be misread.

    >>> rename_in_conditions("A1 and A2 at mat or bell", ["A1", "A2"], ["mat", "bell"], "place", "mat", "red mat")
    'A1 and A2 at red mat or bell'
    """

    def renamed(kind: Named, name: str) -> str:
        return new if (kind, name) == (what, old) else name

    reader = _Reader(sentence.strip(), Lexicon(agents), Lexicon(places), "events")
    reader.sentence()
    text = reader.text
    for kind, name, begin in reversed(reader.names):
        text = f"{text[:begin]}{renamed(kind, name)}{text[begin + len(name) :]}"
    lexicons = Lexicon(renamed("agent", name) for name in agents), Lexicon(renamed("place", name) for name in places)
    again = _Reader(text, *lexicons, "events")
    with suppress(TaskError):
        again.sentence()
        if [name for _, name, _ in again.names] == [renamed(kind, name) for kind, name, _ in reader.names]:
            return text
    raise TaskError(f"the name {new!r} would be misread in {text!r}", key="events")


class _Reader:
    """Reads a sentence from left to right, and records the positions of names."""

    def __init__(self, text: str, everyone: Lexicon, places: Lexicon, key: str) -> None:
        self.text, self.everyone, self.places, self.key, self.position = text, everyone, places, key, 0
        self.names: list[tuple[Named, str, int]] = []

    @property
    def rest(self) -> str:
        return self.text[self.position :]

    def sentence(self) -> dict[str, Condition]:
        """Read a whole sentence."""
        conditions: dict[str, Condition] = {}
        while True:
            agents, condition = self.agents(), self.condition()
            for agent in agents:
                if agent in conditions:
                    raise TaskError(f"agent {agent!r} has two conditions in {self.text!r}", key=self.key)
                conditions[agent] = condition
            if not self.rest:
                return conditions
            self.match(_AND, "'and'")

    def match(self, pattern: re.Pattern[str], expected: str) -> str:
        match = pattern.match(self.text, self.position)
        if match is None:
            raise TaskError(f"expected {expected} before {self.rest!r} in {self.text!r}", key=self.key)
        self.position = match.end()
        return match[0].strip()

    def agents(self) -> list[str]:
        """Read "all", or agents joined by "and" or commas, up to the condition."""
        if _ALL.match(self.text, self.position) and self.everyone.at(self.text, self.position) is None:
            self.match(_ALL, "'all'")
            return list(self.everyone.names)
        agents = [self.name(self.everyone, "agent")]
        while not _BEFORE_WHERE.match(self.text, self.position):
            if _OR.match(self.text, self.position):
                raise TaskError(f"{self.text!r} joins agents by 'or': {_HINT_FOR_ANY}", key=self.key)
            self.match(_AND, "'and', or where the agent has to be,")
            agents.append(self.name(self.everyone, "agent"))
        self.match(_BLANKS, "a blank")
        return agents

    def condition(self) -> Condition:
        """Read where agents have to be: "at red", "enters red or blue", "at red or not at green", "anywhere"."""
        word = self.match(_CONDITION, "at, in, not at, not in, enters, leaves, stays at or anywhere")
        if word == "anywhere":
            return ANYWHERE
        condition = self.alternative(word)
        while _OR.match(self.text, self.position):
            self.match(_OR, "'or'")
            if _WHERE.match(self.text, self.position):
                word = self.match(_WHERE, "a place")
            elif self.places.at(self.text, self.position) is None and (
                agent := self.everyone.at(self.text, self.position)
            ):
                rule = f"'or' joins places of one agent, got another clause about {agent!r} in {self.text!r}"
                advice = "write two events, since each agent must be able to propose on its own"
                raise TaskError(f"{rule}; {advice}", key=self.key)
            elif word.startswith("not"):
                rest = f"'or at {self.rest}' or 'or not at {self.rest}'"
                raise TaskError(f"after 'not at' say {rest}, got 'or {self.rest}' in {self.text!r}", key=self.key)
            condition |= self.alternative(word)
        return condition

    def alternative(self, word: str) -> Condition:
        """Read the place after "at" or another word for the relation to it."""
        inside, was = _MEANINGS[word.split()[0]]
        return Condition(self.name(self.places, "place"), inside, was=was)

    def name(self, known: Lexicon, kind: Named) -> str:
        """Read the longest known name that does not end inside of a word."""
        name = known.at(self.text, self.position)
        if name is not None:
            self.names.append((kind, name, self.position))
            self.position += len(name)
            return name
        unknown = re.split(rf"\s+(?:and|or)\b|{_BEFORE_WHERE.pattern}|,", self.rest)[0]
        hint = _QUANTIFIERS.get(unknown.split(" ")[0].lower()) if kind == "agent" else None
        hint = hint or known_names(unknown, known.names)
        raise TaskError(f"{kind} {unknown!r} does not exist ({hint})", key=self.key)


def parse_option(text: str, places: Container[str], memory: Container[str]) -> tuple[str, str | None]:
    """Read an option, "red button" or "red button after Y": the place, and the event in memory that it waits for.

    >>> parse_option("hour after dawn after bell", {"hour", "hour after dawn"}, {"bell"})
    ('hour after dawn', 'bell')
    """
    if text.strip() in places:
        return text.strip(), None
    words = text.split(" after ")
    halves = [(" after ".join(words[:cut]).strip(), " after ".join(words[cut:])) for cut in range(1, len(words))]
    known = [(target, after) for target, after in halves if target in places]
    exact = [(target, after) for target, after in known if after in memory]
    trimmed = [(target, after.strip()) for target, after in known]
    return next(iter([*exact, *trimmed]), (words[0].strip(), None))


def write_conditions(conditions: Mapping[str, Condition]) -> str:
    """Write conditions of agents as a sentence, with agents that have the same condition joined."""
    agents_of: dict[Condition, list[str]] = {}
    for agent, condition in conditions.items():
        agents_of.setdefault(condition, []).append(agent)
    clauses = (f"{' and '.join(agents)} {condition.describe(len(agents))}" for condition, agents in agents_of.items())
    return " and ".join(clauses)
