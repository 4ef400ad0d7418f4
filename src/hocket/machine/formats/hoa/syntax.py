"""The grammar of the Hanoi Omega-Automata format (adl.github.io/hoaf), versions 1 and 1.1.

A label is worked out at once, as a set of letters, so that reading builds no formula and never nests deeper than a
few parentheses. Universal branching and acceptance conditions other than Büchi's are refused.
"""

from __future__ import annotations

from typing import NamedTuple

from hocket.errors import FormatError
from hocket.machine.formats.hoa.tokens import Tokens, line_of

MOST_PROPOSITIONS = 1_000
MOST_PARENTHESES = 100  # inside one another
VERSIONS = ("v1", "v1.1")


END_MARK = "alive"  # Spot's proposition that a finite trace goes on


class Letters:
    """The letters over some propositions; with `alive` among them, also the one after the end of a trace.

    Bit j is the letter in which proposition j alone is true, the next bit the silent letter, and the one after it, if
    there is one, the end. Before the end `alive` is true beside them, and it is no event.
    """

    def __init__(self, propositions: tuple[str, ...]) -> None:
        self.propositions = propositions
        self.alive = propositions.index(END_MARK) if END_MARK in propositions else None
        self.events = sum(1 << j for j in range(len(propositions)) if j != self.alive)
        self.silence = 1 << len(propositions)
        self.end = 0 if self.alive is None else self.silence << 1
        self.every = self.events | self.silence | self.end

    def where(self, proposition: int) -> int:
        """The letters in which a proposition is true."""
        return self.every & ~self.end if proposition == self.alive else 1 << proposition

    def numbered(self, index: int) -> int:
        """The letter, if it is one of ours, in which just the propositions in the bits of `index` are true."""
        if self.alive is None:
            return (index or self.silence) if index.bit_count() <= 1 else 0
        if not index:
            return self.end
        others = index & ~(1 << self.alive)
        if others == index or others.bit_count() > 1:
            return 0
        return others or self.silence


class Edge(NamedTuple):
    """An edge of an automaton."""

    letters: int  # a set of letters
    target: int
    is_marked: bool
    place: int  # in the file, in characters


class HoaState(NamedTuple):
    """A state as its section of the body gives it."""

    name: str
    is_marked: bool
    edges: list[Edge]
    place: int


class HoaAutomaton(NamedTuple):
    """A parsed file."""

    content: str
    letters: Letters
    start: int
    states: list[HoaState]


def parse(content: str) -> HoaAutomaton:
    """Parse a file with one automaton."""
    return _HoaParser(content).automaton()


class _HoaParser:
    """A recursive descent over the tokens."""

    def __init__(self, content: str) -> None:
        self.tokens = Tokens(content)
        self.letters: Letters | None = None
        self.size: int | None = None
        self.start: int | None = None
        self.accepting: int | None = None  # the set that counts; -1 if none does
        self.accepts_all = False
        self.aliases: dict[str, int] = {}

    def automaton(self) -> HoaAutomaton:
        tokens = self.tokens
        self.header()
        tokens.require("--BODY--")
        states = self.body()
        tokens.require("--END--")
        if tokens.kind != "nothing":
            raise tokens.error("a machine file has one automaton, so nothing may follow --END--")
        start = self.start
        if start is None:
            raise FormatError("has no 'Start:', so it accepts nothing")
        for number in (start, *(edge.target for state in states.values() for edge in state.edges)):
            if number not in states:
                self.refuse_missing(number, states)
        if self.size not in (None, len(states)):
            raise FormatError(f"must have as many states as 'States:' says, {self.size:,}, got {len(states):,}")
        if max(states) >= len(states):
            raise FormatError(f"states must be numbered from 0 to {len(states) - 1:,}, got {max(states):,}")
        return HoaAutomaton(
            tokens.content, self.known_letters, start, [states[number] for number in range(len(states))]
        )

    def refuse_missing(self, number: int, states: dict[int, HoaState]) -> None:
        edges = [edge for state in states.values() for edge in state.edges if edge.target == number]
        where = line_of(self.tokens.content, edges[0].place) if edges else None
        raise FormatError(f"state {number} does not exist", where=where)

    # The header.

    @property
    def known_letters(self) -> Letters:
        if self.letters is None:
            self.letters = Letters(())
        return self.letters

    def header(self) -> None:
        tokens = self.tokens
        if tokens.text != "HOA:":
            raise tokens.error("must begin with 'HOA: v1'")
        tokens.advance()
        if tokens.text not in VERSIONS:
            raise tokens.error(f"must be in version {' or '.join(VERSIONS)} of the HOA format")
        tokens.advance()
        readers = {
            "States:": self.states_item,
            "Start:": self.start_item,
            "AP:": self.propositions_item,
            "Alias:": self.alias_item,
            "Acceptance:": self.acceptance_item,
        }
        while tokens.kind == "header":
            reader = readers.get(tokens.text)
            if reader is None and tokens.text[0].isupper():
                raise tokens.error("an item in capitals changes what the automaton means, and this one is unknown")
            tokens.advance()
            if reader is not None:
                reader()
            while reader is None and (tokens.kind in ("word", "number", "string") or tokens.text == "!"):
                tokens.advance()
        if self.accepting is None:
            raise tokens.error("'Acceptance:' is missing, like: Acceptance: 1 Inf(0)", got=False)

    def refuse_twice(self, given: object, item: str) -> None:
        if given is not None:
            raise self.tokens.error(f"{item!r} must be given once", got=False)

    def states_item(self) -> None:
        self.refuse_twice(self.size, "States:")
        self.size = self.tokens.number("the number of states")

    def start_item(self) -> None:
        if self.start is not None:
            raise self.tokens.error("must have one initial state, got two: it is not deterministic", got=False)
        self.start = self.target("the initial state")

    def propositions_item(self) -> None:
        tokens = self.tokens
        if self.letters is not None:
            raise tokens.error("'AP:' must be given once, and before 'Alias:'", got=False)
        place, count = tokens.place, tokens.number("the number of propositions")
        if count > MOST_PROPOSITIONS:
            raise tokens.error(f"must have at most {MOST_PROPOSITIONS:,} propositions, got {count:,}", place=place)
        names = tuple(tokens.string(f"the names of {count} propositions") for _ in range(count))
        if len(set(names)) < len(names):
            raise tokens.error("propositions must have different names", place=place)
        self.letters = Letters(names)

    def alias_item(self) -> None:
        tokens = self.tokens
        name = tokens.text
        if tokens.kind != "alias":
            raise tokens.error("expected the name of an alias, like @a")
        if name in self.aliases:
            raise tokens.error("an alias must be given once")
        tokens.advance()
        self.aliases[name] = self.label()

    def acceptance_item(self) -> None:
        tokens = self.tokens
        self.refuse_twice(self.accepting, "Acceptance:")
        place, sets = tokens.place, tokens.number("the number of acceptance sets")
        accepting = sets
        if tokens.text in ("t", "f"):
            self.accepts_all, accepting = tokens.text == "t", -1
            tokens.advance()
        elif tokens.skip("Inf") and tokens.skip("(") and tokens.kind == "number":
            accepting = tokens.number("an acceptance set")
            tokens.require(")")
        if accepting >= sets or tokens.text in ("&", "|"):
            raise tokens.error("acceptance must be that of Büchi, like: Acceptance: 1 Inf(0)", place=place)
        self.accepting = accepting

    # The body.

    def body(self) -> dict[int, HoaState]:
        tokens = self.tokens
        states: dict[int, HoaState] = {}
        while tokens.text == "State:":
            place = tokens.place
            tokens.advance()
            label = self.bracketed_label()
            number = tokens.number("the number of a state")
            if number in states:
                raise tokens.error(f"state {number} must be given once", place=place)
            name = tokens.string("a name") if tokens.kind == "string" else str(number)
            is_marked = self.marks() or self.accepts_all
            states[number] = HoaState(name, is_marked, self.edges(label, place), place)
        return states

    def edges(self, label: int | None, place: int) -> list[Edge]:
        """Read a state's edges; a state's own label is that of each, and where there are none they go by number."""
        tokens, letters = self.tokens, self.known_letters
        edges: list[Edge] = []
        are_numbered = False
        while tokens.text == "[" or tokens.kind == "number":
            here, edge_label = tokens.place, self.bracketed_label()
            if not edges:
                are_numbered = edge_label is None and label is None
            if (edge_label is None) != (are_numbered or label is not None):
                raise tokens.error("labels must be on a state, on all of its edges or on none", place=here)
            if edge_label is None:
                edge_label = letters.numbered(len(edges)) if label is None else label
            edges.append(Edge(edge_label, self.target("where an edge leads to"), self.marks(), here))
        if are_numbered and len(edges) != 2 ** len(letters.propositions):
            raise tokens.error("edges without labels must be as many as there are sets of propositions", place=place)
        return edges

    def target(self, what: str) -> int:
        number = self.tokens.number(what)
        if self.tokens.text == "&":
            raise self.tokens.error("must lead to one state at a time: alternation cannot be read", got=False)
        return number

    def marks(self) -> bool:
        """Read the acceptance sets that a state or an edge is in; tell whether the one that counts is among them."""
        tokens = self.tokens
        is_marked = False
        if tokens.skip("{"):
            while not tokens.skip("}"):
                is_marked |= tokens.number("an acceptance set") == self.accepting
        return is_marked

    # Labels.

    def bracketed_label(self) -> int | None:
        if not self.tokens.skip("["):
            return None
        label = self.label()
        self.tokens.require("]")
        return label

    def label(self, depth: int = 0) -> int:
        letters = self.conjunction(depth)
        while self.tokens.skip("|"):
            letters |= self.conjunction(depth)
        return letters

    def conjunction(self, depth: int) -> int:
        letters = self.literal(depth)
        while self.tokens.skip("&"):
            letters &= self.literal(depth)
        return letters

    def literal(self, depth: int) -> int:
        tokens, letters = self.tokens, self.known_letters
        is_negated = False
        while tokens.skip("!"):
            is_negated = not is_negated
        if tokens.text == "(":
            if depth == MOST_PARENTHESES:
                raise tokens.error(f"parentheses must be at most {MOST_PARENTHESES} deep", got=False)
            tokens.advance()
            chosen = self.label(depth + 1)
            tokens.require(")")
        elif tokens.kind == "number":
            place, number = tokens.place, tokens.number("a proposition")
            if number >= len(letters.propositions):
                raise tokens.error(f"proposition {number} does not exist", place=place)
            chosen = letters.where(number)
        elif tokens.text in ("t", "f"):
            chosen = letters.every if tokens.text == "t" else 0
            tokens.advance()
        elif tokens.text in self.aliases:
            chosen = self.aliases[tokens.text]
            tokens.advance()
        else:
            raise tokens.error("expected a label: t, f, the number of a proposition or an alias given before")
        return letters.every & ~chosen if is_negated else chosen
