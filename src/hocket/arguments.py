"""Checks of numbers, and sentences that name the argument of the wrong kind when a call has failed."""

from __future__ import annotations

import builtins
import inspect
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hocket.errors import ArgumentError, FormatError, HocketError, SettingsError, shown

MOST_ITEMS = 1_000  # of a collection that are looked at
KINDS: dict[object, tuple[type, ...]] = {int: (Integral,), float: (Real,)}  # as numpy's numbers are, too
WORDS = {"int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false"}
WORDS |= {"Path": "a path", "Callable": "a function"}


def blame(
    error: Exception, function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> HocketError | None:
    """Make an error that says why a call failed: a file, or the first argument that does not fit its annotation; None
    if all fit, if that cannot be checked, or if the error is a `HocketError` already."""
    if isinstance(error, HocketError):
        return None
    if isinstance(error, OSError) and error.filename is not None:
        return FormatError(error.strerror or type(error).__name__, path=str(error.filename))
    try:
        signature = inspect.signature(function)
        bound = signature.bind(*args, **kwargs).arguments
        hints = typing.get_type_hints(inspect.unwrap(function), {}, _Names(function))
    except (TypeError, NameError, AttributeError):
        return None
    for name, value in bound.items():
        parameter = signature.parameters[name].kind
        several = parameter is inspect.Parameter.VAR_POSITIONAL
        for each in typing.cast("tuple[object, ...]", value) if several else (value,):
            if isinstance(each, str) and "\0" in each:
                return ArgumentError(f"{name} must have no null characters, got {shown(each)}")
            if parameter is not inspect.Parameter.VAR_KEYWORD and not _fits(each, hints.get(name, Any)):
                return ArgumentError(f"{name} must be {_describe(hints[name])}, got {shown(each)}")
    return None


class _Names(dict[str, object]):
    """The values of names in annotations; one that only type checkers import is a public name of hocket, or `Any`."""

    def __init__(self, function: Callable[..., object]) -> None:
        self.scope: Mapping[str, object] = getattr(inspect.unwrap(function), "__globals__", {})

    def __missing__(self, name: str) -> object:
        if name in self.scope:
            return self.scope[name]
        package: Any = sys.modules["hocket"]  # annotations name what is public
        return getattr(builtins, name, None) or (getattr(package, name) if name in package.__all__ else Any)


def _fits(value: object, kind: Any) -> bool:  # noqa: ANN401 (an annotation is anything)
    """Say whether a value fits an annotation, as far as that can be checked."""
    origin, of = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        mappings = [each for each in of if typing.get_origin(each) is Mapping] if isinstance(value, Mapping) else []
        return any(_fits(value, each) for each in mappings or of)
    if origin is Literal:
        return value in of
    plain = origin or kind
    if kind is Any or not isinstance(plain, type):  # as a type variable
        return True
    if getattr(plain, "_is_protocol", False) and plain.__module__.startswith("hocket"):
        return all(hasattr(value, name) for name in vars(plain) if not name.startswith("_"))
    if plain in (tuple, list):  # any sequence is as good
        plain = Collection
    if plain.__name__ == "Task" and isinstance(value, str | Path):  # which are taken wherever a task is
        return True
    if not isinstance(value, KINDS.get(plain, (plain,))):
        return False
    if origin is None or not issubclass(plain, Iterable):
        return True
    if isinstance(value, Mapping) and len(of) == 2:
        return all(_fits(key, of[0]) and _fits(item, of[1]) for key, item in islice(value.items(), MOST_ITEMS))
    if isinstance(value, str | bytes):  # a text is no collection of names
        return False
    fixed = origin is tuple and of[-1:] != (...,)
    return fixed or not isinstance(value, Collection) or all(_fits(item, of[0]) for item in islice(value, MOST_ITEMS))


def _describe(kind: Any) -> str:  # noqa: ANN401 (an annotation)
    """Describe an annotation in words."""
    origin, of = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        *others, last = dict.fromkeys(_describe(each) for each in of if each is not type(None))
        return f"{', '.join(others)} or {last}" if others else last
    if origin is Literal:
        return " or ".join(map(repr, of))
    plain = origin or kind
    name = getattr(plain, "__name__", str(plain))
    if isinstance(plain, type) and issubclass(plain, Mapping):
        return "a mapping"
    if isinstance(plain, type) and origin is not None and issubclass(plain, Iterable):
        return "a collection"
    return WORDS.get(name, f"{'an' if name[:1] in 'AEIOU' else 'a'} {name}")


# Numbers: finite ones in arrays of some axes, and integers.

Numbers = NDArray[np.float64]


def numbers(values: ArrayLike, what: str, axes: int | None = None, *, least: int = 1) -> Numbers:
    """Require finite numbers, at least one, with `axes` axes, or else at least `least` axes."""
    try:
        array = np.asarray(values).astype(np.float64, casting="same_kind")
    except (TypeError, ValueError) as error:
        raise SettingsError(f"{what} must be an array of numbers, got {values!r:.60}") from error
    if array.size == 0 or (array.ndim < least if axes is None else array.ndim != axes):
        count = axes or least
        rule = f"{'' if axes else 'at least '}{'one axis' if count == 1 else f'{count} axes'}"
        raise SettingsError(f"{what} must have {rule} and not be empty, got the shape {array.shape}")
    if not np.isfinite(array).all():
        raise SettingsError(f"{what} must be finite, got {array[~np.isfinite(array)][0]}")
    return array


def whole(number: int, what: str, least: int) -> int:
    """Require an integer."""
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < least:
        raise SettingsError(f"{what} must be an integer of at least {least}, got {shown(number)}")
    return int(number)
