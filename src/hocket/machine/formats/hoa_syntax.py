"""The grammar of the Hanoi Omega-Automata format (adl.github.io/hoaf), versions 1 and 1.1.

Comments may nest. A label is evaluated at once, as a set of letters, so that the parser builds no formula and recurses
only for parentheses. Universal branching and acceptance conditions other than Büchi's are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import cast

from hocket.errors import FormatError, printable
from hocket.machine.names import unquote

MOST_PROPOSITIONS = 1_000
MOST_PARENTHESES = 100  # inside one another
VERSIONS = ("v1", "v1.1")
ITEMS = ("States:", "Start:", "AP:", "Alias:", "Acceptance:")  # of the header that say what an automaton means

TOKEN = re.compile(
    r"[ \t\r\n]*+(?:(?P<comment>/\*)"
    r"|(?P<part>--(?:BODY|END|ABORT)--)"
    r"|(?P<header>[A-Za-z_][0-9A-Za-z_.-]*+:)"
    r"|(?P<word>[A-Za-z_][0-9A-Za-z_.-]*+)"
    r"|(?P<alias>@[0-9A-Za-z_.-]++)"
    r"|(?P<number>[0-9]++)"
    r'|(?P<string>"(?:[^"\\]|\\.)*+")'
    r"|(?P<sign>[][(){}!&|])"
    r"|(?P<nothing>\Z)|(?P<wrong>.))",
    re.DOTALL,
)
COMMENT_SIGN = re.compile(r"/\*|\*/")
END_MARK = "alive"  # Spot's proposition that a finite trace goes on


class Letters:
    """The letters over some propositions; with `alive` among them, also the one after the end of a trace.

    Bit j is the letter in which proposition j alone is true, the next bit the silent letter, and the one after it, if
    there is one, the end. Before the end `alive` is true as well; it is no event.
    """

    def __init__(self, propositions: tuple[str, ...]) -> None:
        self.propositions = propositions
        self.alive = propositions.index(END_MARK) if END_MARK in propositions else None
        events = [1 << j for j in range(len(propositions)) if j != self.alive]
        self.events = sum(events)
        self.silence = 1 << len(propositions)
        self.end = 0 if self.alive is None else self.silence << 1
        self.every = self.events | self.silence | self.end
        before = 0 if self.alive is None else 1 << self.alive
        # The letters by the propositions that are true in them, as bits; other combinations never happen.
        self.numbered = {0: self.end, before: self.silence} | {before | event: event for event in events}

    def where(self, proposition: int) -> int:
        """Return the letters in which a proposition is true."""
        return self.every & ~self.end if proposition == self.alive else 1 << proposition

    def name(self, letters: int) -> str:
        """Name the first of some letters."""
        first = (letters & -letters).bit_length() - 1
        return printable(repr(self.propositions[first]), 60) if first < len(self.propositions) else "nothing"


@dataclass
class HoaState:
    """A state with its edges; sets of letters are bits."""

    name: str
    is_marked: bool
    line: int  # of the file
    targets: dict[int, int] = field(default_factory=dict)  # state -> the letters that lead to it
    defined: int = 0  # the letters that have an edge
    marked: int = 0  # those that have a marked edge

    @property
    def quoted(self) -> str:
        return printable(repr(self.name), 60)

    def step(self, letter: int) -> int | None:
        """Return the state that a letter leads to, if it has an edge."""
        return next((target for target, letters in self.targets.items() if letters & letter), None)


NO_LETTERS = Letters(())


class HoaParser:
    """A recursive descent parser of a file with one automaton, which looks one token ahead."""

    def __init__(self, content: str) -> None:
        self.content = content
        self.kind = self.text = ""  # of the current token
        self.begin = self.end = 0
        self.line = 1  # in which the current token begins
        self.letters = NO_LETTERS
        self.size: int | None = None
        self.start: int | None = None
        self.accepting: int | None = None  # the set that counts; -1 if none does
        self.accepts_all = False
        self.aliases: dict[str, int] = {}
        self.targets: dict[int, int] = {}  # states that edges lead to, and the line of the first one that does
        self.advance()

    def advance(self) -> str:
        """Go on to the next token; return the text of the one before."""
        before, self.kind = self.text, "comment"
        while self.kind == "comment":
            match, begin = cast(re.Match[str], TOKEN.match(self.content, self.end)), self.begin
            self.kind = str(match.lastgroup)
            (self.begin, self.end), self.text = match.span(self.kind), match[self.kind]
            self.line += self.content.count("\n", begin, self.begin)
            if self.kind == "wrong":
                raise self.error("expected a token of the HOA format")
            if self.kind == "comment":
                depth = 0
                for sign in COMMENT_SIGN.finditer(self.content, self.begin):
                    depth += 1 if sign[0] == "/*" else -1
                    if depth == 0:
                        self.end = sign.end()
                        break
                else:
                    raise self.error("this comment is not closed", got=False)
        if self.text == "--ABORT--":
            raise self.error("the program that wrote this file aborted it", got=False)
        return before

    def error(self, message: str, *, line: int | None = None, got: bool = True) -> FormatError:
        """Make an error about the current token, or about an earlier line."""
        if got and line is None:
            message += f", got {printable(repr(self.text), 40)}" if self.text else ", got the end of the file"
        return FormatError(message, where=f"line {line or self.line}")

    def skip(self, sign: str) -> bool:
        """Skip the current token if it is this sign; say whether it is."""
        if self.text != sign:
            return False
        self.advance()
        return True

    def require(self, text: str) -> None:
        if not self.skip(text):
            raise self.error(f"expected {text!r}")

    def number(self, what: str) -> int:
        if self.kind != "number" or len(self.text) > 10:
            raise self.error(f"expected {what}, an integer below 2,147,483,648")
        return int(self.advance())

    def string(self, what: str) -> str:
        if self.kind != "string":
            raise self.error(f"expected {what} in quotes")
        return unquote(self.advance()[1:-1])

    def automaton(self) -> tuple[Letters, int, list[HoaState]]:
        """Parse the file into letters, the initial state, and all states."""
        self.header()
        self.require("--BODY--")
        states = self.body()
        self.require("--END--")
        if self.kind != "nothing":
            raise self.error("a machine file has one automaton, so nothing may follow --END--")
        if self.start is None:
            raise FormatError("has no 'Start:', so it accepts nothing")
        for number in (self.start, *self.targets):
            if number not in states:
                where = f"line {self.targets[number]}" if number in self.targets else None
                raise FormatError(f"state {number} does not exist", where=where)
        if self.size not in (None, len(states)):
            raise FormatError(f"must have as many states as 'States:' says, {self.size:,}, got {len(states):,}")
        if max(states) >= len(states):
            raise FormatError(f"states must be numbered from 0 to {len(states) - 1:,}, got {max(states):,}")
        return self.letters, self.start, [states[number] for number in range(len(states))]

    # The header.

    def header(self) -> None:
        if self.text != "HOA:":
            raise self.error("must begin with 'HOA: v1'")
        self.advance()
        if self.text not in VERSIONS:
            raise self.error(f"must be in version {' or '.join(VERSIONS)} of the HOA format")
        self.advance()
        while self.kind == "header":
            if self.text not in ITEMS and self.text[0].isupper():
                raise self.error("an item in capitals changes what the automaton means, and this one is unknown")
            self.item(self.advance())
        if self.accepting is None:
            raise self.error("'Acceptance:' is missing, like: Acceptance: 1 Inf(0)", got=False)

    def item(self, item: str) -> None:
        """Read an item of the header."""
        if item == "Start:" and self.start is not None:
            raise self.error("must have one initial state, got two: it is not deterministic", got=False)
        if (item == "States:" and self.size is not None) or (item == "Acceptance:" and self.accepting is not None):
            raise self.error(f"{item!r} must be given once", got=False)
        match item:
            case "States:":
                self.size = self.number("the number of states")
            case "Start:":
                self.start = self.target("the initial state")
            case "AP:":
                self.propositions()
            case "Alias:":
                if self.kind != "alias":
                    raise self.error("expected the name of an alias, like @a")
                if self.text in self.aliases:
                    raise self.error("an alias must be given once")
                name = self.advance()
                self.aliases[name] = self.label()
            case "Acceptance:":
                self.acceptance()
            case _:
                while self.kind in ("word", "number", "string") or self.text == "!":
                    self.advance()

    def propositions(self) -> None:
        if self.letters is not NO_LETTERS or self.aliases:
            raise self.error("'AP:' must be given once, and before 'Alias:'", got=False)
        line, count = self.line, self.number("the number of propositions")
        if count > MOST_PROPOSITIONS:
            raise self.error(f"must have at most {MOST_PROPOSITIONS:,} propositions, got {count:,}", line=line)
        names = tuple(self.string(f"the names of {count} propositions") for _ in range(count))
        if len(set(names)) < len(names):
            raise self.error("propositions must have different names", line=line)
        self.letters = Letters(names)

    def acceptance(self) -> None:
        line, sets = self.line, self.number("the number of acceptance sets")
        accepting = sets
        if self.text in ("t", "f"):
            self.accepts_all, accepting = self.advance() == "t", -1
        elif self.skip("Inf") and self.skip("(") and self.kind == "number":
            accepting = self.number("an acceptance set")
            self.require(")")
        if accepting >= sets or self.text in ("&", "|"):
            raise self.error("acceptance must be that of Büchi, like: Acceptance: 1 Inf(0)", line=line)
        self.accepting = accepting

    # The body.

    def body(self) -> dict[int, HoaState]:
        states: dict[int, HoaState] = {}
        while self.text == "State:":
            line = self.line
            self.advance()
            label = self.bracketed_label()
            number = self.number("the number of a state")
            if number in states:
                raise self.error(f"state {number} must be given once", line=line)
            name = self.string("a name") if self.kind == "string" else str(number)
            states[number] = HoaState(name, self.marks() or self.accepts_all, line)
            self.edges(states[number], label)
        return states

    def edges(self, state: HoaState, label: int | None) -> None:
        """Read the edges of a state, whose labels are their own, that of the state, or given by their numbers."""
        count, are_numbered = 0, False
        while self.text == "[" or self.kind == "number":
            line, letters = self.line, self.bracketed_label()
            if count == 0:
                are_numbered = letters is None and label is None
            if (letters is None) != (are_numbered or label is not None):
                raise self.error("labels must be on a state, on all of its edges or on none", line=line)
            if letters is None:
                letters = self.letters.numbered.get(count, 0) if label is None else label
            target = self.target("where an edge leads to")
            self.targets.setdefault(target, line)
            if clash := letters & state.defined & ~state.targets.get(target, 0):
                edges = f"two edges from state {state.quoted} for {self.letters.name(clash)} alone"
                raise self.error(f"must be deterministic, got {edges}", line=line)
            state.targets[target] = state.targets.get(target, 0) | letters
            state.defined |= letters
            state.marked |= letters if self.marks() else 0
            count += 1
        if are_numbered and count != 2 ** len(self.letters.propositions):
            raise self.error("edges without labels must be as many as there are sets of propositions", line=state.line)

    def target(self, what: str) -> int:
        number = self.number(what)
        if self.text == "&":
            raise self.error("must lead to one state at a time: alternation cannot be read", got=False)
        return number

    def marks(self) -> bool:
        """Read the acceptance sets of a state or an edge; say whether the one that counts is among them."""
        is_marked = False
        if self.skip("{"):
            while not self.skip("}"):
                is_marked |= self.number("an acceptance set") == self.accepting
        return is_marked

    # Labels.

    def bracketed_label(self) -> int | None:
        if not self.skip("["):
            return None
        label = self.label()
        self.require("]")
        return label

    def label(self, depth: int = 0) -> int:
        letters = 0
        while True:
            both = self.literal(depth)
            while self.skip("&"):
                both &= self.literal(depth)
            letters |= both
            if not self.skip("|"):
                return letters

    def literal(self, depth: int) -> int:
        letters, is_negated = self.letters, False
        while self.skip("!"):
            is_negated = not is_negated
        if self.text == "(" and depth == MOST_PARENTHESES:
            raise self.error(f"parentheses must be at most {MOST_PARENTHESES} deep", got=False)
        if self.skip("("):
            chosen = self.label(depth + 1)
            self.require(")")
        elif self.kind == "number":
            line, number = self.line, self.number("a proposition")
            if number >= len(letters.propositions):
                raise self.error(f"proposition {number} does not exist", line=line)
            chosen = letters.where(number)
        elif self.text in ("t", "f"):
            chosen = letters.every if self.advance() == "t" else 0
        elif self.text in self.aliases:
            chosen = self.aliases[self.advance()]
        else:
            raise self.error("expected a label: t, f, the number of a proposition or an alias given before")
        return letters.every & ~chosen if is_negated else chosen
