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
MOST_NESTED_PARENTHESES = 100
VERSIONS = ("v1", "v1.1")
KNOWN_ITEMS = ("States:", "Start:", "AP:", "Alias:", "Acceptance:")  # of the header that say what an automaton means

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
COMMENT_DELIMITER = re.compile(r"/\*|\*/")
ALIVE = "alive"  # Spot's proposition that is true until a finite trace ends


class Alphabet:
    """The letters of traces with one event per step, as bits.

    Bit j: only proposition j is true. Bit n: no event (silence). Bit n + 1, if `alive` is a proposition: the trace has
    ended. Until then, `alive` is true as well; it is no event.
    """

    def __init__(self, propositions: tuple[str, ...]) -> None:
        self.propositions = propositions
        self.alive = propositions.index(ALIVE) if ALIVE in propositions else None
        events = [1 << j for j in range(len(propositions)) if j != self.alive]
        self.events = sum(events)
        self.silence = 1 << len(propositions)
        self.end = 0 if self.alive is None else self.silence << 1
        self.every = self.events | self.silence | self.end
        alive = 0 if self.alive is None else 1 << self.alive
        # The letters by the propositions that are true in them, as bits; other combinations never happen.
        self.letter_of_valuation = {0: self.end, alive: self.silence} | {alive | event: event for event in events}

    def letters_with(self, proposition: int) -> int:
        """Return the letters in which a proposition is true."""
        return self.every & ~self.end if proposition == self.alive else 1 << proposition

    def name_first(self, letters: int) -> str:
        """Name the first of some letters."""
        first = (letters & -letters).bit_length() - 1
        return printable(repr(self.propositions[first]), 60) if first < len(self.propositions) else "no event"


@dataclass
class HoaState:
    """A state with its edges; sets of letters are bits."""

    name: str
    is_accepting: bool
    line: int  # of the file
    targets: dict[int, int] = field(default_factory=dict)  # state -> the letters that lead to it
    defined: int = 0  # the letters that have an edge
    accepting_letters: int = 0  # those that have an accepting edge

    @property
    def quoted(self) -> str:
        return printable(repr(self.name), 60)

    def step(self, letter: int) -> int | None:
        """Return the state that a letter leads to, if it has an edge."""
        return next((target for target, letters in self.targets.items() if letters & letter), None)


class HoaParser:
    """A recursive descent parser of a file with one automaton, which looks one token ahead."""

    def __init__(self, content: str) -> None:
        self.content = content
        self.kind = self.text = ""  # of the current token
        self.begin = self.end = 0
        self.line = 1  # in which the current token begins
        self.alphabet = Alphabet(())
        self.declared_states: int | None = None
        self.start: int | None = None
        self.items = set[str]()  # of the header that have been read
        self.acceptance_set: int | None = None  # None: `t` or `f`
        self.accepts_all = False
        self.aliases: dict[str, int] = {}
        self.first_edge_lines: dict[int, int] = {}  # state -> the line of the first edge that leads to it
        self.advance()

    def advance(self) -> str:
        """Go on to the next token; return the text of the previous one."""
        previous, self.kind = self.text, "comment"
        while self.kind == "comment":
            match, begin = cast(re.Match[str], TOKEN.match(self.content, self.end)), self.begin
            self.kind = str(match.lastgroup)
            (self.begin, self.end), self.text = match.span(self.kind), match[self.kind]
            self.line += self.content.count("\n", begin, self.begin)
            if self.kind == "wrong":
                raise self.error("expected a token of the HOA format")
            if self.kind == "comment":
                depth = 0
                for delimiter in COMMENT_DELIMITER.finditer(self.content, self.begin):
                    depth += 1 if delimiter[0] == "/*" else -1
                    if depth == 0:
                        self.end = delimiter.end()
                        break
                else:
                    raise self.error("this comment is not closed", show_token=False)
        if self.text == "--ABORT--":
            raise self.error("the program that wrote this file aborted it", show_token=False)
        return previous

    def error(self, message: str, *, line: int | None = None, show_token: bool = True) -> FormatError:
        """Make an error about the current token, or about an earlier line."""
        if show_token and line is None:
            message += f", got {printable(repr(self.text), 40)}" if self.text else ", got the end of the file"
        return FormatError(message, where=f"line {line or self.line}")

    def skip(self, text: str) -> bool:
        """Skip the current token if it has this text; say whether it has."""
        if self.text != text:
            return False
        self.advance()
        return True

    def require(self, text: str) -> None:
        if not self.skip(text):
            raise self.error(f"expected {text!r}")

    def parse_number(self, expected: str) -> int:
        if self.kind != "number" or len(self.text) > 10 or int(self.text) >= 2**31:
            raise self.error(f"expected {expected}, an integer below 2,147,483,648")
        return int(self.advance())

    def parse_string(self, expected: str) -> str:
        if self.kind != "string":
            raise self.error(f"expected {expected} in quotes")
        return unquote(self.advance()[1:-1])

    def parse(self) -> tuple[Alphabet, int, list[HoaState]]:
        """Parse the file into an alphabet, the initial state, and all states."""
        self.parse_header()
        self.require("--BODY--")
        states = self.parse_states()
        self.require("--END--")
        if self.kind != "nothing":
            raise self.error("a machine file has one automaton, so nothing may follow --END--")
        if self.start is None:
            raise FormatError("has no 'Start:', so it accepts nothing")
        for number in (self.start, *self.first_edge_lines):
            if number not in states:
                where = f"line {self.first_edge_lines[number]}" if number in self.first_edge_lines else None
                raise FormatError(f"state {number} does not exist", where=where)
        if self.declared_states not in (None, len(states)):
            rule = f"as many states as 'States:' says, {self.declared_states:,}"
            raise FormatError(f"must have {rule}, got {len(states):,}")
        if max(states) >= len(states):
            raise FormatError(f"states must be numbered from 0 to {len(states) - 1:,}, got {max(states):,}")
        return self.alphabet, self.start, [states[number] for number in range(len(states))]

    # The header.

    def parse_header(self) -> None:
        if self.text != "HOA:":
            raise self.error("must begin with 'HOA: v1'")
        self.advance()
        if self.text not in VERSIONS:
            raise self.error(f"must be in version {' or '.join(VERSIONS)} of the HOA format")
        self.advance()
        while self.kind == "header":
            if self.text not in KNOWN_ITEMS and self.text[0].isupper():
                raise self.error("an item in capitals changes what the automaton means, and this one is unknown")
            self.parse_item(self.advance())
        if "Acceptance:" not in self.items:
            raise self.error("'Acceptance:' is missing, like: Acceptance: 1 Inf(0)", show_token=False)

    def parse_item(self, item: str) -> None:
        """Read an item of the header."""
        if item == "Start:" and item in self.items:
            raise self.error("must have one initial state, got two: it is not deterministic", show_token=False)
        if item in ("States:", "Acceptance:") and item in self.items:
            raise self.error(f"{item!r} must be given once", show_token=False)
        match item:
            case "States:":
                self.declared_states = self.parse_number("the number of states")
            case "Start:":
                self.start = self.parse_target("the initial state")
            case "AP:":
                self.parse_propositions()
            case "Alias:":
                if self.kind != "alias":
                    raise self.error("expected the name of an alias, like @a")
                if self.text in self.aliases:
                    raise self.error("an alias must be given once")
                name = self.advance()
                self.aliases[name] = self.parse_label()
            case "Acceptance:":
                self.parse_acceptance()
            case _:
                while self.kind in ("word", "number", "string") or self.text == "!":
                    self.advance()
        self.items.add(item)

    def parse_propositions(self) -> None:
        if "AP:" in self.items or self.aliases:
            raise self.error("'AP:' must be given once, and before 'Alias:'", show_token=False)
        line, count = self.line, self.parse_number("the number of propositions")
        if count > MOST_PROPOSITIONS:
            raise self.error(f"must have at most {MOST_PROPOSITIONS:,} propositions, got {count:,}", line=line)
        names = tuple(self.parse_string(f"the names of {count} propositions") for _ in range(count))
        if len(set(names)) < len(names):
            raise self.error("propositions must have different names", line=line)
        self.alphabet = Alphabet(names)

    def parse_acceptance(self) -> None:
        line, sets = self.line, self.parse_number("the number of acceptance sets")
        if is_supported := self.text in ("t", "f"):
            self.accepts_all = self.advance() == "t"
        elif self.skip("Inf") and self.skip("(") and self.kind == "number":
            self.acceptance_set = self.parse_number("an acceptance set")
            is_supported = self.acceptance_set < sets
            self.require(")")
        if not is_supported or self.text in ("&", "|"):
            raise self.error("the acceptance condition must be Büchi, t or f, like: Acceptance: 1 Inf(0)", line=line)

    # The body.

    def parse_states(self) -> dict[int, HoaState]:
        states: dict[int, HoaState] = {}
        while self.text == "State:":
            line = self.line
            self.advance()
            label = self.parse_bracketed_label()
            number = self.parse_number("the number of a state")
            if number in states:
                raise self.error(f"state {number} must be given once", line=line)
            name = self.parse_string("a name") if self.kind == "string" else str(number)
            states[number] = HoaState(name, self.parse_acceptance_sets() or self.accepts_all, line)
            self.parse_edges(states[number], label)
        return states

    def parse_edges(self, state: HoaState, label: int | None) -> None:
        """Read the edges of a state, whose labels are their own, that of the state, or given by their numbers."""
        count, are_numbered = 0, False
        while self.text == "[" or self.kind == "number":
            line, letters = self.line, self.parse_bracketed_label()
            if count == 0:
                are_numbered = letters is None and label is None
            if (letters is None) != (are_numbered or label is not None):
                raise self.error("a state must have a label, or all of its edges, or none", line=line)
            if letters is None:
                letters = self.alphabet.letter_of_valuation.get(count, 0) if label is None else label
            target = self.parse_target("the target of an edge")
            self.first_edge_lines.setdefault(target, line)
            if clash := letters & state.defined & ~state.targets.get(target, 0):
                edges = f"two edges from state {state.quoted} for the same letter: {self.alphabet.name_first(clash)}"
                raise self.error(f"must be deterministic, got {edges}", line=line)
            state.targets[target] = state.targets.get(target, 0) | letters
            state.defined |= letters
            state.accepting_letters |= letters if self.parse_acceptance_sets() else 0
            count += 1
        if are_numbered and count != 2 ** len(self.alphabet.propositions):
            raise self.error("edges without labels must be as many as there are sets of propositions", line=state.line)

    def parse_target(self, expected: str) -> int:
        number = self.parse_number(expected)
        if self.text == "&":
            raise self.error("universal branching cannot be read: an edge leads to one state", show_token=False)
        return number

    def parse_acceptance_sets(self) -> bool:
        """Read the acceptance sets of a state or an edge; say whether the one that counts is among them."""
        is_accepting = False
        if self.skip("{"):
            while not self.skip("}"):
                is_accepting |= self.parse_number("an acceptance set") == self.acceptance_set
        return is_accepting

    # Labels.

    def parse_bracketed_label(self) -> int | None:
        if not self.skip("["):
            return None
        label = self.parse_label()
        self.require("]")
        return label

    def parse_label(self, depth: int = 0) -> int:
        letters = 0
        while True:
            conjunction = self.parse_literal(depth)
            while self.skip("&"):
                conjunction &= self.parse_literal(depth)
            letters |= conjunction
            if not self.skip("|"):
                return letters

    def parse_literal(self, depth: int) -> int:
        alphabet, is_negated = self.alphabet, False
        while self.skip("!"):
            is_negated = not is_negated
        if self.text == "(" and depth == MOST_NESTED_PARENTHESES:
            raise self.error(f"parentheses must be at most {MOST_NESTED_PARENTHESES} deep", show_token=False)
        if self.skip("("):
            chosen = self.parse_label(depth + 1)
            self.require(")")
        elif self.kind == "number":
            line, number = self.line, self.parse_number("a proposition")
            if number >= len(alphabet.propositions):
                raise self.error(f"proposition {number} does not exist", line=line)
            chosen = alphabet.letters_with(number)
        elif self.text in ("t", "f"):
            chosen = alphabet.every if self.advance() == "t" else 0
        elif self.text in self.aliases:
            chosen = self.aliases[self.advance()]
        else:
            raise self.error("expected a label: t, f, the number of a proposition or an alias given before")
        return alphabet.every & ~chosen if is_negated else chosen
