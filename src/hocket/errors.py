"""Errors of a user's input: one sentence each, which says what is wrong, the rule, and what was received."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

LONGEST_MESSAGE = 2_000  # characters
LONGEST_NAME_SHOWN = 200
LONG_NAME = re.compile(rf"'[^']{{{LONGEST_NAME_SHOWN},}}'|[^\s'`]{{{LONGEST_NAME_SHOWN + 1},}}")
JOINERS = "\u200c\u200d"


class HocketError(ValueError):
    """Bad input; every error that hocket raises on purpose is one of these. Its message may quote untrusted text: it is
    one line, without control characters, and not too long."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(cut_names(message), LONGEST_MESSAGE))


Refuse = Callable[[str], HocketError]  # makes the error of a message


class ArgumentError(HocketError, TypeError):
    """An argument of the wrong kind."""


class MachineError(HocketError):
    """A machine that breaks a rule of its definition, or to which an operation does not apply."""


class FormulaError(MachineError):
    """A formula that cannot be read, or that is no task; the message names the column if there is one."""


class AssignmentError(HocketError):
    """Agents, events or costs that do not fit a machine."""


class InfeasibleError(HocketError):
    """No assignment is valid, whatever its cost, because of the pairs that were forbidden."""


class TaskError(HocketError):
    """A task whose parts do not fit together; `key` says where."""

    def __init__(self, message: str, *, key: str) -> None:
        super().__init__(f"{printable(key)}: {message}")
        self.key = key


class SettingsError(HocketError):
    """A setting that makes no sense, alone or for this task."""


class ClusterError(HocketError):
    """A failure of a cluster to run something."""


class LabelError(HocketError):
    """A labelling function that raises, names what does not exist, or returns events on which agents could not act. Its
    argument is `step`, if there was a step. No machine has moved, and the episode may go on."""

    def __init__(self, message: str, step: object = None) -> None:
        super().__init__(message)
        self.step = step


class TrainingError(HocketError):
    """A wrapped environment or a labelling function that failed in training; `runs` are the finished ones."""

    def __init__(self, message: str, runs: Sequence[object]) -> None:
        super().__init__(message)
        self.runs = list(runs)


class LabelWarning(UserWarning):
    """The same as a `LabelError`, where the user asked for a warning."""


class FormatError(HocketError):
    """A file that cannot be read or written; names the file and, where there is one, the line or key."""

    def __init__(self, message: str, *, path: str | Path | None = None, where: str | None = None) -> None:
        location = ": ".join(printable(str(part)) for part in (path, where) if part is not None)
        super().__init__(f"{location}: {message}" if location else message)


@contextmanager
def located(
    where: str = "", path: str | Path | None = None, kind: type[HocketError] = HocketError, whole: str = ""
) -> Iterator[None]:
    """Add to the message of an error where it is: a file, a line or a key, which may end in a dot; refuse a `whole`,
    such as "task", that is nested too deeply."""
    try:
        yield
    except kind as error:
        raise FormatError(str(error), path=path, where=where.rstrip(".") or None) from None
    except RecursionError:
        if not whole:
            raise
        raise FormatError(f"is nested too deeply to be a {whole}", path=path) from None


def printable(text: str, longest: int = 200) -> str:
    """Show a text from a file or a user on one line, without control characters and not too long."""
    if len(text) > longest:
        text = f"{text[: longest // 2]}…{text[-(longest // 2) :]}"
    if text.isprintable():
        return text
    # Blanks of all scripts are kept, too, and characters that join letters.
    is_kept = (c.isprintable() or c in JOINERS or unicodedata.category(c) == "Zs" for c in text)
    return "".join(c if kept else repr(c)[1:-1] for c, kept in zip(text, is_kept, strict=True))


def cut_names(text: str) -> str:
    """Cut the middle out of long names in a sentence: quoted ones, and those without blanks.

    >>> len(cut_names(f"event '{'e' * 5_000}' does not exist"))
    222
    """
    if len(text) <= LONGEST_NAME_SHOWN:
        return text
    return LONG_NAME.sub(lambda name: printable(name[0], LONGEST_NAME_SHOWN), text)


def shown(value: object, longest: int = 60) -> str:
    """Show an untrusted value as Python writes it: on one line, not too long, and with little work.

    >>> print(shown("two\\nlines"), shown(10**400), shown(range(9)))
    'two\\nlines' an integer of about 401 digits range(0, 9)
    """
    import reprlib  # only on the way to an error message

    if isinstance(value, int) and value.bit_length() > 3 * longest:  # Python refuses to write those of many digits
        return f"an integer of about {int(value.bit_length() * math.log10(2)) + 1:,} digits"
    short = reprlib.Repr()
    short.maxstring = short.maxother = longest
    try:
        return printable(short.repr(value), longest)
    except ValueError:  # a long integer inside of it
        return f"a {type(value).__name__} that cannot be shown"


def shown_count(number: int) -> str:
    """Show a number; a very large one as a power of two.

    >>> shown_count(12_500), shown_count(3 * 2**60)
    ('12,500', '2^62')
    """
    return f"{number:,}" if number < 10**15 else f"2^{math.log2(number):.0f}"


def counted(number: int, thing: str) -> str:
    """Write a number of things.

    >>> counted(1, "run"), counted(2_000, "run")
    ('1 run', '2,000 runs')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def known_names(name: str, known: Iterable[str]) -> str:
    """Suggest names for a misspelt one: the nearest known one, or a few of all."""
    import difflib  # only on the way to an error message

    names = list(known)
    near = difflib.get_close_matches(name[:100], [known[:100] for known in names[:10_000]], n=1, cutoff=0.5)
    if near:
        return f"did you mean {printable(repr(near[0]))}?"
    if not names:
        return "there are none"
    return f"known: {', '.join(printable(known, 40) for known in names[:12])}{', …' if len(names) > 12 else ''}"


def require_known(
    name: object, known: Collection[str], what: str, refuse: Refuse = SettingsError, where: str = ""
) -> None:
    """Refuse a name that does not exist, `where` as in " in this machine", and suggest one that does."""
    if name not in known:
        raise refuse(f"{what} {name!r} does not exist{where} ({known_names(str(name), known)})")


@contextmanager
def needs_extra(what: str, extra: str) -> Iterator[None]:
    """Name the extra that installs a package which cannot be imported."""
    try:
        yield
    except ImportError:
        raise SettingsError(f"{what} needs the extra {extra}: in a clone, pip install '.[{extra}]'") from None


def parser_message(error: Exception) -> str:
    """Return the message of a parser; of a number of thousands of digits, without advice to programmers.

    >>> parser_message(ValueError("Exceeds the limit (4300 digits) for integer string conversion: ..."))
    'an integer has too many digits'
    """
    return "an integer has too many digits" if "integer string conversion" in str(error) else str(error)
