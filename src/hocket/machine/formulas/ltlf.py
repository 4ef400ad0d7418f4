"""LTLf with past operators, and DECLARE: constraints of processes by name, each with its meaning in LTLf and in words.

`X` is the strong next of De Giacomo and Vardi: there is a next position, and there it holds. `WX` is the weak one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from hocket.errors import FormulaError, known_names, printable
from hocket.machine.formulas.syntax import LEVEL, SIGNS, TIGHTEST, WORDS, Formulas, Op, Token, quoted, tokens_of

LTLF_TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\]|\\.)*+")|(?P<word>X\[!\]|\w+)|(?P<open>\()|(?P<close>\))'
    r"|(?P<sign><->|<=>|->|=>|&&|\|\||/\\|\\/|<>|\[\]|[!~&|¬∧∨→↔⇒⇔⊤⊥○◯●◇□])",
    re.DOTALL,
)
RIGHT = frozenset(LEVEL) - {Op.AND, Op.OR, Op.IFF}  # right-associative operators


def parse_ltlf(text: str, formulas: Formulas) -> int:
    """Read a formula into a store of formulas."""
    parser = _Parser(formulas)
    expects_operand, before = True, None
    for token in tokens_of(text, LTLF_TOKEN):
        op = WORDS.get(token.text) if token.kind in ("word", "sign") else None
        expects_operand = parser.operand(token, op, before) if expects_operand else parser.operator(token, op)
        before = token
    return parser.operands[0]


class _Parser:
    def __init__(self, formulas: Formulas) -> None:
        self.formulas = formulas
        self.operands: list[int] = []
        self.pending: list[tuple[Op | None, Token]] = []  # operators that need operands; None: an open parenthesis

    def operand(self, token: Token, op: Op | None, before: Token | None) -> bool:
        """Take a token where a formula has to begin; return whether one still has to."""
        if op is Op.TRUE or op is Op.FALSE:
            self.operands.append(self.formulas.make(op))
        elif token.kind == "open" or (op is not None and op not in LEVEL):
            self.pending.append((op, token))
            return True
        elif op is None and token.kind in ("word", "string"):
            if token.kind == "word" and token.name[0].isdecimal():
                raise token.error("a name that begins with a digit must be in quotes")
            if not token.name.strip() or not token.name.isprintable():
                raise token.error("the name of an event must be text that can be read")
            self.operands.append(self.formulas.name(token.name))
        else:
            raise self.missing(token, before)
        return False

    def missing(self, token: Token, before: Token | None) -> FormulaError:
        """Say that a formula was expected, and, where a name may have been taken for an operator, how to write it."""
        message = "expected an event, an operator or '('"
        operator = before if before is not None and before.kind == "word" else token
        if operator.kind == "word" and operator.text in WORDS:
            name = printable(operator.text, 40)
            message += f' (an event called {name} is written in quotes: "{name}")'
        return token.error(message)

    def operator(self, token: Token, op: Op | None) -> bool:
        """Take a token after a complete formula; return whether another formula has to begin."""
        if op in LEVEL and op is not None:
            self.reduce(LEVEL[op] + (op in RIGHT))
            self.pending.append((op, token))
            return True
        if token.kind not in ("close", "end"):
            closing = "')' or " if any(waiting is None for waiting, _ in self.pending) else ""
            message = f"expected {closing}an operator that joins two formulas ({', '.join(SIGNS[op] for op in LEVEL)})"
            raise token.error(message if token.kind != "word" else f"{message} after the formula")
        self.reduce(1)
        if token.kind == "end" and self.pending:
            raise self.pending[-1][1].error("this parenthesis is never closed", got=False)
        if token.kind == "close":
            if not self.pending:
                raise token.error("this parenthesis was never opened", got=False)
            self.pending.pop()
        return False

    def reduce(self, level: int) -> None:
        """Apply the pending operators that bind at least as tightly as `level`, up to the last open parenthesis."""
        while self.pending and (op := self.pending[-1][0]) is not None and LEVEL.get(op, TIGHTEST) >= level:
            self.pending.pop()
            right = self.operands.pop()
            arguments = (self.operands.pop(), right) if op in LEVEL else (right,)
            self.operands.append(self.formulas.make(op, *arguments))


# DECLARE.

DECLARE_TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\]|\\.)*+")|(?P<open>[(\[])|(?P<close>[)\]])|(?P<comma>,)|(?P<word>\w+(?:[ -]+\w+)*)',
    re.DOTALL,
)
MOST_TIMES = 10_000  # that an event may have to happen
SHORT = 20  # times up to which the formula is short enough to be written, as F(a & X F a)

EXPECTED = {"a": "one event", "a, n": "an event and a number", "a, b": "two events"}


class Template(NamedTuple):
    """A DECLARE template."""

    arguments: str  # one of EXPECTED; n is 1 by default
    formula: str  # its meaning in LTLf
    sentence: str  # its meaning in words


PRECEDENCE = "(!b W a)"
ALTERNATE_RESPONSE, ALTERNATE_PRECEDENCE = "G(a -> X(!a U b))", f"{PRECEDENCE} & G(b -> WX {PRECEDENCE})"
CHAIN_RESPONSE, CHAIN_PRECEDENCE = "G(a -> X b)", "!b & G(X b -> a)"
BOTH_ALTERNATE, BOTH_CHAIN = f"{ALTERNATE_RESPONSE} & {ALTERNATE_PRECEDENCE}", f"{CHAIN_RESPONSE} & {CHAIN_PRECEDENCE}"
NOT_RESPONSE, NOT_CHAIN_RESPONSE = "G(a -> !F b)", "G(a -> !X b)"

TEMPLATES: Mapping[str, Template] = {
    "existence": Template("a, n", "F(a & X F(a & …))", "a happens at least n times"),
    "absence": Template("a, n", "!existence(a, n)", "a happens fewer than n times: not at all, if n is left out"),
    "exactly": Template("a, n", "existence(a, n) & absence(a, n + 1)", "a happens n times, no more and no less"),
    "at_most": Template("a, n", "absence(a, n + 1)", "a happens at most n times"),
    "init": Template("a", "a", "the first event is a"),
    "end": Template("a", "F(a & !X true)", "the last event is a"),
    "choice": Template("a, b", "F a | F b", "a happens or b does, or both"),
    "exclusive_choice": Template("a, b", "(F a | F b) & !(F a & F b)", "a happens or b does, but not both"),
    "responded_existence": Template("a, b", "F a -> F b", "if a happens, then b happens, too, before or after"),
    "co_existence": Template("a, b", "F a <-> F b", "either both a and b happen, or neither does"),
    "response": Template("a, b", "G(a -> F b)", "after every a, b happens some time"),
    "precedence": Template("a, b", PRECEDENCE, "b does not happen before a has happened"),
    "succession": Template("a, b", f"G(a -> F b) & {PRECEDENCE}", "response and precedence"),
    "alternate_response": Template("a, b", ALTERNATE_RESPONSE, "after every a, b happens before a does again"),
    "alternate_precedence": Template("a, b", ALTERNATE_PRECEDENCE, "before every b, a has happened since the last b"),
    "alternate_succession": Template("a, b", BOTH_ALTERNATE, "alternate response and alternate precedence"),
    "chain_response": Template("a, b", CHAIN_RESPONSE, "the event after every a is b"),
    "chain_precedence": Template("a, b", CHAIN_PRECEDENCE, "the event before every b is a"),
    "chain_succession": Template("a, b", BOTH_CHAIN, "a and b happen only together, b right after a"),
    "not_responded_existence": Template("a, b", "F a -> !F b", "if a happens, then b does not, before or after"),
    "not_co_existence": Template("a, b", "!(F a & F b)", "a and b do not both happen"),
    "not_response": Template("a, b", NOT_RESPONSE, "after a, b does not happen any more"),
    "not_precedence": Template("a, b", NOT_RESPONSE, "before b, a has not happened"),
    "not_succession": Template("a, b", NOT_RESPONSE, "b does not happen after a"),
    "not_chain_response": Template("a, b", NOT_CHAIN_RESPONSE, "the event after a is never b"),
    "not_chain_precedence": Template("a, b", NOT_CHAIN_RESPONSE, "the event before b is never a"),
    "not_chain_succession": Template("a, b", NOT_CHAIN_RESPONSE, "b never comes right after a"),
}
ALIASES = {"participation": "existence", "at_most_one": "at_most", "last": "end", "first": "init"}


def _key(name: str) -> str:
    """Normalise the spelling of a template's name: Chain Response, chain-response, ChainResponse."""
    return re.sub(r"[\W_]+", "", name).lower()


_BY_KEY = {_key(name): name for name in TEMPLATES} | {_key(alias): name for alias, name in ALIASES.items()}


def parse_declare(text: str, formulas: Formulas) -> int:
    """Read a constraint such as `response(a, b)` or `existence(a, 2)` into a store of formulas."""
    tokens = tokens_of(text, DECLARE_TOKEN)
    name = _BY_KEY.get(_key(tokens[0].text)) if tokens[0].kind == "word" else None
    if name is None:
        hint = known_names(tokens[0].text.lower().replace(" ", "_").replace("-", "_"), TEMPLATES)
        raise tokens[0].error(f"expected the name of a DECLARE constraint ({hint})")
    arguments = _arguments(tokens[1:])
    wanted = TEMPLATES[name].arguments
    if not (2 if wanted == "a, b" else 1) <= len(arguments) <= (1 if wanted == "a" else 2):
        rule = f"{name} is of {EXPECTED[wanted]}, as in {name}({wanted.replace('n', '2')})"
        raise FormulaError(f"{printable(text)}: {rule}, got {len(arguments)}")
    if wanted == "a, n":
        return _counted(name, *arguments, formulas=formulas)
    events = dict(zip("ab", (argument.name for argument in arguments), strict=False))
    if len(events) > len({*events.values()}):
        raise arguments[1]._replace(text=events["b"]).error(f"{name} is of two different events")
    for event in events.values():  # so that they are numbered in the order of the arguments
        formulas.name(event)
    formula = re.sub(r"\b[ab]\b", lambda match: quoted(events[match[0]]), TEMPLATES[name].formula)
    return parse_ltlf(formula, formulas)


NAMES = ("word", "string")
EVENT, JOINT = (NAMES, "expected an event"), (("comma", "close"), "expected ',' or ')'")
END = (("end",), "expected the end of the constraint")
FOLLOWING = {"open": EVENT, "comma": EVENT, "word": JOINT, "string": JOINT, "close": END}  # kinds that may follow one


def _arguments(tokens: list[Token]) -> list[Token]:
    """Read the arguments in parentheses."""
    kinds: tuple[str, ...] = ("open",)
    message = "expected '('"
    for token in tokens:
        if token.kind not in kinds:
            raise token.error(message)
        kinds, message = FOLLOWING.get(token.kind, END)
    return [token for token in tokens if token.kind in NAMES]


def _counted(name: str, event_token: Token, number: Token | None = None, *, formulas: Formulas) -> int:
    """Make a constraint on the number of times that an event happens."""
    event, times = formulas.name(event_token.name), 1
    if number is not None:
        if not re.fullmatch(r"[0-9]{1,6}", number.text) or not 1 <= int(number.text) <= MOST_TIMES:
            raise number.error(f"expected a number from 1 to {MOST_TIMES:,}")
        times = int(number.text)
    bounds = [_at_least(formulas, event, times)] if name in ("existence", "exactly") else []
    if name != "existence":
        bounds.append(formulas.make(Op.NOT, _at_least(formulas, event, times + (name != "absence"))))
    return formulas.join(Op.AND, bounds)


def _at_least(formulas: Formulas, event: int, times: int) -> int:
    """Make the formula that an event happens at least so many times: of many, `!a U (a & X ...)`, which leaves one
    obligation after each event, and not as many as there were events."""
    formula = formulas.make(Op.EVENTUALLY, event)
    for _ in range(times - 1):
        again = formulas.make(Op.AND, event, formulas.make(Op.NEXT, formula))
        if times <= SHORT:
            formula = formulas.make(Op.EVENTUALLY, again)
        else:
            formula = formulas.make(Op.UNTIL, formulas.make(Op.NOT, event), again)
    return formula
