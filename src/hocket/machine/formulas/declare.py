"""DECLARE: constraints of processes by name, each with its meaning in LTLf and in a sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from hocket.errors import FormulaError, known_names, printable
from hocket.machine.formulas.ltlf import parse_ltlf
from hocket.machine.formulas.syntax import Formulas, Op, quoted
from hocket.machine.formulas.tokens import Token, error_at, tokens_of, unquoted

TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\]|\\.)*+")|(?P<open>[(\[])|(?P<close>[)\]])|(?P<comma>,)|(?P<word>\w+(?:[ -]+\w+)*)',
    re.DOTALL,
)
MOST_TIMES = 10_000  # that an event may have to happen
SHORT = 20  # times up to which what is left is short enough to be written, as F(a & X F a)


class Template(NamedTuple):
    """A kind of constraint."""

    arguments: str  # "a", "a, n" or "a, b"; n may be left out and is then 1
    formula: str  # its meaning in LTLf
    sentence: str  # and in words


PRECEDENCE = "(!b W a)"
ALTERNATE_PRECEDENCE = f"{PRECEDENCE} & G(b -> WX {PRECEDENCE})"
CHAIN_PRECEDENCE = "!b & G(X b -> a)"
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
    "alternate_response": Template("a, b", "G(a -> X(!a U b))", "after every a, b happens before a does again"),
    "alternate_precedence": Template("a, b", ALTERNATE_PRECEDENCE, "before every b, a has happened since the last b"),
    "alternate_succession": Template(
        "a, b", f"G(a -> X(!a U b)) & {ALTERNATE_PRECEDENCE}", "alternate response and alternate precedence"
    ),
    "chain_response": Template("a, b", "G(a -> X b)", "the event after every a is b"),
    "chain_precedence": Template("a, b", CHAIN_PRECEDENCE, "the event before every b is a"),
    "chain_succession": Template(
        "a, b", f"G(a -> X b) & {CHAIN_PRECEDENCE}", "a and b happen only together, b right after a"
    ),
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
    """Spell a template's name without what people disagree about: Chain Response, chain-response, ChainResponse."""
    return re.sub(r"[\W_]+", "", name).lower()


_BY_KEY = {_key(name): name for name in TEMPLATES} | {_key(alias): name for alias, name in ALIASES.items()}


def parse_declare(text: str, formulas: Formulas) -> int:
    """Read a constraint such as `response(a, b)` or `existence(a, 2)` into a store of formulas."""
    tokens = tokens_of(text, TOKEN)
    name = _BY_KEY.get(_key(tokens[0].text)) if tokens[0].kind == "word" else None
    if name is None:
        hint = known_names(tokens[0].text.lower().replace(" ", "_").replace("-", "_"), TEMPLATES)
        raise error_at(text, tokens[0].place, f"expected the name of a DECLARE constraint ({hint})", tokens[0].text)
    arguments = _arguments(text, tokens[1:])
    wanted = TEMPLATES[name].arguments
    if wanted != "a, b":
        return _counted(text, name, arguments, formulas)
    if len(arguments) != 2:
        raise _other_number(text, f"{name} is of two events, as in {name}(a, b)", arguments)
    first, second = (unquoted(argument.text) for argument in arguments)
    if first == second:
        raise error_at(text, arguments[1].place, f"{name} is of two different events", second)
    for event in (first, second):  # so that they are met in the order in which they stand
        formulas.name(event)
    values = {"a": quoted(first), "b": quoted(second)}
    return parse_ltlf(re.sub(r"\b[ab]\b", lambda match: values[match[0]], TEMPLATES[name].formula), formulas)


def _arguments(text: str, tokens: list[Token]) -> list[Token]:
    """Read what stands in the parentheses."""
    if tokens[0].kind != "open":
        raise error_at(text, tokens[0].place, "expected '('", tokens[0].text)
    arguments: list[Token] = []
    for index, token in enumerate(tokens[1:], start=1):
        if index % 2:
            if token.kind not in ("word", "string"):
                raise error_at(text, token.place, "expected an event", token.text)
            arguments.append(token)
        elif token.kind == "close":
            if tokens[index + 1].kind != "end":
                raise error_at(
                    text, tokens[index + 1].place, "expected the end of the constraint", tokens[index + 1].text
                )
            return arguments
        elif token.kind != "comma":
            raise error_at(text, token.place, "expected ',' or ')'", token.text)
    raise FormulaError("expected ')', got the end")  # pragma: no cover - the last token is the end, and is refused


def _other_number(text: str, rule: str, arguments: list[Token]) -> FormulaError:
    """Say that a constraint has too few or too many arguments."""
    return FormulaError(f"{printable(text)}: {rule}, got {len(arguments)}")


def _counted(text: str, name: str, arguments: list[Token], formulas: Formulas) -> int:
    """Make a constraint on how often one event happens."""
    takes_number = TEMPLATES[name].arguments == "a, n"
    if not 1 <= len(arguments) <= 1 + takes_number:
        rule = (
            f"is of an event and a number, as in {name}(a, 2)" if takes_number else f"is of one event, as in {name}(a)"
        )
        raise _other_number(text, f"{name} {rule}", arguments)
    event = formulas.name(unquoted(arguments[0].text))
    times = 1
    if len(arguments) == 2:
        number = arguments[1]
        if not re.fullmatch(r"[0-9]{1,6}", number.text) or not 1 <= int(number.text) <= MOST_TIMES:
            raise error_at(text, number.place, f"expected a number from 1 to {MOST_TIMES:,}", number.text)
        times = int(number.text)
    make = formulas.make
    match name:
        case "init":
            return event
        case "end":
            return make(Op.EVENTUALLY, make(Op.AND, event, make(Op.NOT, make(Op.NEXT, formulas.true))))
        case "existence":
            return _at_least(formulas, event, times)
        case "absence":
            return make(Op.NOT, _at_least(formulas, event, times))
        case "at_most":
            return make(Op.NOT, _at_least(formulas, event, times + 1))
    return make(Op.AND, _at_least(formulas, event, times), make(Op.NOT, _at_least(formulas, event, times + 1)))


def _at_least(formulas: Formulas, event: int, times: int) -> int:
    """Say that an event happens at least so many times.

    A large number is counted by `!a U (a & X ...)`, which leaves one thing to be shown after each event, and not as
    many as there were events.
    """
    formula = formulas.make(Op.EVENTUALLY, event)
    for _ in range(times - 1):
        again = formulas.make(Op.AND, event, formulas.make(Op.NEXT, formula))
        if times <= SHORT:
            formula = formulas.make(Op.EVENTUALLY, again)
        else:
            formula = formulas.make(Op.UNTIL, formulas.make(Op.NOT, event), again)
    return formula
