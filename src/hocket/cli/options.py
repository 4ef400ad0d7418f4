"""The options of commands: their types, and how their help shows them.

The help of an option is the comment on its line. A text below it, which takes precedence, is for help that is too long
for the line, or that differs from the help in the class from which the command inherits.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

from tyro.conf import FlagCreatePairsOff, Positional, UseAppendAction, arg
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from hocket.errors import AssignmentError, shown

LARGEST_FLOAT = 2**53  # all integers up to this are floats


def option(metavar: str | None = None, *aliases: str, name: str | None = None, help: str | None = None) -> object:
    """Describe how help shows an option: the placeholder of its value, its short names, and its default if any."""
    return arg(name=name, metavar=metavar, aliases=aliases, help=help, help_behavior_hint=_hint)


def _hint(default: str) -> str:
    return "" if default in ("", "''", "None", "False") else f"(default: {default})"


def whole_number(text: str) -> int:
    """Read a whole number, also with separators or in scientific notation.

    >>> whole_number("250,000"), whole_number("1e5"), whole_number("-3")
    (250000, 100000, -3)
    """
    plain = text.replace(",", "").replace("_", "")
    with suppress(ValueError):
        if plain.lstrip("+-").isdecimal():
            return int(plain)
        if (value := float(plain)).is_integer() and abs(value) <= LARGEST_FLOAT:
            return int(value)
    raise ValueError(f"must be a whole number, got {shown(text)}")


WHOLE = PrimitiveConstructorSpec[int | None](
    nargs=1,
    metavar="N",
    instance_from_str=lambda words: whole_number(words[0]),
    is_instance=lambda value: value is None or isinstance(value, int),
    str_from_instance=lambda value: [str(value)],
)
# For `str | None` in place of Optional, tyro would load typeguard, which takes longer than all else that it loads.
Number = Annotated[int, option("N"), WHOLE]
MaybeNumber = Annotated[Optional[int], option("N"), WHOLE]  # noqa: UP045
Flag = Annotated[FlagCreatePairsOff[bool], option()]  # an option without a value
MaybeText = Optional[str]  # noqa: UP045
MaybePath = Optional[Path]  # noqa: UP045
OutFile = Annotated[MaybePath, option("FILE", "-o")]
# Options of many commands, with their help.
Json = Annotated[Flag, option(help="Print one JSON object.")]
NamedTask = Annotated[Positional[str], option("TASK", help="A built-in name (buttons, rendezvous-3) or a file.")]
RunsFolder = Annotated[Positional[Path], option("FOLDER", help="The folder that `hocket train --out` wrote.")]
if TYPE_CHECKING:
    Words = tuple[tuple[str, ...], ...]  # an option that may be given several times, with several words each time
else:
    _APPENDED = UseAppendAction[tuple[tuple[str, ...], ...]]
    Words = Annotated[tuple, ConstructorRegistry.get_primitive_spec(PrimitiveTypeInfo.make(_APPENDED, set()))]


def flat(given: Words) -> list[str]:
    """List all words of an option."""
    return [word for words in given for word in words]


def items(given: Words, option: str) -> dict[str, str]:
    """Split words of the form KEY=VALUE."""
    values: dict[str, str] = {}
    for word in flat(given):
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise AssignmentError(f"{option} takes words of the form KEY=VALUE, got {word!r}")
        if key in values:
            raise AssignmentError(f"{option} has {key!r} twice; give all its values in one word")
        values[key] = value
    return values


def lists(given: Words, option: str) -> dict[str, tuple[str, ...]]:
    """Split words of the form KEY=NAME,NAME."""
    return {key: names(text) for key, text in items(given, option).items()}


def names(text: str) -> tuple[str, ...]:
    """Split a list of names."""
    return tuple(name.strip() for name in text.split(",") if name.strip())
