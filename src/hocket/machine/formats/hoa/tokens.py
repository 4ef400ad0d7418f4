"""The tokens of the Hanoi Omega-Automata format: comments may nest, and line ends are blanks like any other."""

from __future__ import annotations

import re

from hocket.errors import FormatError, printable
from hocket.machine.names import unquote

TOKEN = re.compile(
    r"[ \t\r\n]*+(?:(?P<comment>/\*)"
    r"|(?P<part>--(?:BODY|END|ABORT)--)"
    r"|(?P<header>[A-Za-z_][0-9A-Za-z_.-]*+:)"
    r"|(?P<word>[A-Za-z_][0-9A-Za-z_.-]*+)"
    r"|(?P<alias>@[0-9A-Za-z_.-]++)"
    r"|(?P<number>[0-9]++)"
    r'|(?P<string>"(?:[^"\\]|\\.)*+")'
    r"|(?P<sign>[][(){}!&|])"
    r"|(?P<nothing>\Z))",
    re.DOTALL,
)
COMMENT_SIGN = re.compile(r"/\*|\*/")


def line_of(content: str, place: int) -> str:
    """Say in which line a place is."""
    return f"line {content.count(chr(10), 0, place) + 1}"


class Tokens:
    """The tokens of a file; one is always in view."""

    kind: str
    text: str

    def __init__(self, content: str) -> None:
        self.content = content
        self.place = self.end = 0
        self.advance()

    def advance(self) -> None:
        self.kind = "comment"
        while self.kind == "comment":
            match = TOKEN.match(self.content, self.end)
            if match is None or match.lastgroup is None:
                rest = self.content[self.end :].lstrip(" \t\r\n")
                self.place, self.text = len(self.content) - len(rest), rest[:1]
                raise self.error("expected a token of the HOA format")
            self.kind = match.lastgroup
            (self.place, self.end), self.text = match.span(self.kind), match[self.kind]
            if self.kind == "comment":
                self.end = self._end_of_comment()
        if self.text == "--ABORT--":
            raise self.error("the program that wrote this file aborted it", got=False)

    def _end_of_comment(self) -> int:
        depth = 0
        for sign in COMMENT_SIGN.finditer(self.content, self.place):
            depth += 1 if sign[0] == "/*" else -1
            if depth == 0:
                return sign.end()
        raise self.error("this comment is not closed", got=False)

    def error(self, message: str, *, place: int | None = None, got: bool = True) -> FormatError:
        """Make an error about the token in view, or about an earlier place."""
        if got and place is None:
            message += f", got {printable(repr(self.text), 40)}" if self.text else ", got the end of the file"
        return FormatError(message, where=line_of(self.content, self.place if place is None else place))

    def skip(self, sign: str) -> bool:
        """Pass by a sign, if it is the token in view."""
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
        number = int(self.text)
        self.advance()
        return number

    def string(self, what: str) -> str:
        if self.kind != "string":
            raise self.error(f"expected {what} in quotes")
        string = unquote(self.text[1:-1])
        self.advance()
        return string
