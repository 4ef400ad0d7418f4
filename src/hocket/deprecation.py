"""Arguments that have new names: the old ones go on working, with a warning that names the new one."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from hocket.errors import SettingsError

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def warn_deprecated(message: str) -> None:
    """Warn of an old name, at the line outside of hocket that uses it."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "hocket":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, DeprecationWarning, stacklevel=level)


def renamed_arguments(**names: str) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Let a function take arguments by their old names: old=new."""

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @wraps(function)
        def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            for old in names.keys() & kwargs.keys():
                name, new = function.__name__, names[old]
                if new in kwargs:
                    raise SettingsError(f"{name} takes {new}, or {old}, which is its old name; got both")
                warn_deprecated(f"{name}({old}=) is deprecated: use {name}({new}=)")
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate
