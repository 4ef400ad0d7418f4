"""The parser of LTLf with past operators: an operator-precedence parser with a stack of its own.

`X` is the strong next of De Giacomo and Vardi: there is a next position, and there it holds. `WX` is the weak one.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from hocket.errors import FormulaError, printable
from hocket.machine.formulas.syntax import CONSTANTS, LEVEL, PLAIN_NAME, SIGNS, TIGHTEST, WORDS, Formulas, Op
from hocket.machine.formulas.tokens import Token, error_at, tokens_of, unquoted

TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\]|\\.)*+")|(?P<word>X\[!\]|\w+)|(?P<open>\()|(?P<close>\))'
    r"|(?P<sign><->|<=>|->|=>|&&|\|\||/\\|\\/|<>|\[\]|[!~&|¬∧∨→↔⇒⇔⊤⊥○◯●◇□])",
    re.DOTALL,
)
RIGHT = frozenset(LEVEL) - {Op.AND, Op.OR, Op.IFF}  # operators of which the right one of two binds tighter


class _Pending(NamedTuple):
    """An operator or an open parenthesis that waits for what comes after it."""

    op: Op | None  # None: a parenthesis
    level: int
    place: int


def parse_ltlf(text: str, formulas: Formulas) -> int:
    """Read a formula into a store of formulas."""
    return _Parser(text, formulas).parse()


class _Parser:
    def __init__(self, text: str, formulas: Formulas) -> None:
        self.text, self.formulas = text, formulas
        self.operands: list[int] = []
        self.pending: list[_Pending] = []

    def parse(self) -> int:
        wants_operand = True
        before: Token | None = None
        for token in tokens_of(self.text, TOKEN):
            wants_operand = self.operand(token, before) if wants_operand else self.operator(token)
            before = token
        return self.operands[0]

    def operand(self, token: Token, before: Token | None) -> bool:
        """Take a token where a formula has to begin; return whether one still has to."""
        op = WORDS.get(token.text) if token.kind in ("word", "sign") else None
        if token.kind == "open":
            self.pending.append(_Pending(None, 0, token.place))
        elif op is not None and op not in LEVEL and op not in CONSTANTS:
            self.pending.append(_Pending(op, TIGHTEST, token.place))
        elif op in CONSTANTS:
            self.operands.append(self.formulas.true if op is Op.TRUE else self.formulas.false)
            return False
        elif op is None and token.kind in ("word", "string"):
            self.operands.append(self.formulas.name(self.event(token)))
            return False
        else:
            raise self.missing(token, before)
        return True

    def event(self, token: Token) -> str:
        name = unquoted(token.text)
        if token.kind == "word" and not PLAIN_NAME.fullmatch(name):
            raise error_at(self.text, token.place, "a name that begins with a digit must be in quotes", token.text)
        if not name.strip() or not name.isprintable():
            raise error_at(self.text, token.place, "the name of an event must be text that can be read", token.text)
        return name

    def missing(self, token: Token, before: Token | None) -> FormulaError:
        """Say that a formula was expected, and, where a name may have been taken for an operator, how to write it."""
        message = "expected an event, an operator or '('"
        operator = before if before is not None and before.kind == "word" else token
        if operator.kind == "word" and operator.text in WORDS:
            name = printable(operator.text, 40)
            message += f' (an event called {name} is written in quotes: "{name}")'
        return error_at(self.text, token.place, message, token.text)

    def operator(self, token: Token) -> bool:
        """Take a token after a complete formula; return whether another formula has to begin."""
        op = WORDS.get(token.text) if token.kind in ("word", "sign") else None
        if op in LEVEL and op is not None:
            level = LEVEL[op]
            self.reduce(level + 1 if op in RIGHT else level)
            self.pending.append(_Pending(op, level, token.place))
            return True
        if token.kind == "close":
            self.reduce(1)
            if not self.pending:
                raise error_at(self.text, token.place, "this parenthesis was never opened", got=None)
            self.pending.pop()
            return False
        if token.kind == "end":
            self.reduce(1)
            if self.pending:
                raise error_at(self.text, self.pending[-1].place, "this parenthesis is never closed", got=None)
            return False
        raise error_at(self.text, token.place, self.unexpected(token), token.text)

    def unexpected(self, token: Token) -> str:
        closing = "')' or " if any(waiting.op is None for waiting in self.pending) else ""
        expected = f"expected {closing}an operator that joins two formulas ({', '.join(SIGNS[op] for op in LEVEL)})"
        return expected if token.kind != "word" else f"{expected} after the formula"

    def reduce(self, level: int) -> None:
        """Apply the pending operators that bind at least as tightly as `level`, up to the last open parenthesis."""
        while self.pending and (op := self.pending[-1].op) is not None and self.pending[-1].level >= level:
            self.pending.pop()
            right = self.operands.pop()
            arguments = (self.operands.pop(), right) if op in LEVEL else (right,)
            self.operands.append(self.formulas.make(op, *arguments))
