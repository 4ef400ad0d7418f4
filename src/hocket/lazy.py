"""Public names that are loaded when they are first used, so that an import costs next to nothing; and old names.

A public module has a stub beside it, which is all that type checkers read of it. Python reads the same stub: a line
`from hocket.task.task import Task as Task` says that `Task` is public, and where it lives. A line `old = new`, or
`old = hocket.new`, keeps a name that is deprecated.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

EXTRAS = {  # package -> the extra that installs it
    "array_api_compat": "gym", "gymnasium": "gym", "pettingzoo": "gym",
    "pysat": "infer", "stable_baselines3": "deep", "torch": "deep",
}  # fmt: skip

Made = TypeVar("Made", bound=Callable[..., Any])
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Lazy:
    """A function or class that is imported when it is first used."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def load(self) -> Any:  # noqa: ANN401 (whatever it is)
        """Import it."""
        return getattr(import_module(self.module), self.name)

    def __call__(self, *arguments: object) -> Any:  # noqa: ANN401 (whatever it returns)
        return self.load()(*arguments)


def public_names(module: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Make a module's `__getattr__`, `__dir__` and `__all__` of the stub beside its file."""
    homes, deprecated = read_stub(f"{file}i")
    functions: dict[str, object] = {}  # not in the module itself, where doctest would find their examples once more

    def load(name: str) -> object:
        if name in functions:
            return functions[name]
        if name in deprecated:
            home, new = (deprecated[name].rpartition(".")[0] or module), deprecated[name].rpartition(".")[2]
            warnings.warn(f"{module}.{name} is deprecated: use {home}.{new}", DeprecationWarning, stacklevel=2)
            return getattr(import_module(home), new)
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        try:
            value = import_module(f"hocket.{name}") if homes[name] == "hocket" else Lazy(homes[name], name).load()
        except ModuleNotFoundError as error:
            if (extra := EXTRAS.get(str(error.name))) is None:
                raise
            hint = f"{module}.{name} needs {error.name}, of the extra {extra}: in a clone, pip install '.[{extra}]'"
            raise ModuleNotFoundError(hint, name=error.name) from None
        if isinstance(value, FunctionType):
            value = explain_kinds(value)
            value.__module__, value.__qualname__ = module, name  # where pickle looks for it
            functions[name] = value
        else:
            setattr(sys.modules[module], name, value)
        register_with_gymnasium()
        return value

    register_with_gymnasium()
    return load, lambda: sorted({*vars(sys.modules[module]), *homes}), sorted(homes)


def explain_kinds(made: Made) -> Made:
    """Let a function, or the constructor of a class, name the argument of the wrong kind that made a call fail; calls
    that succeed are not checked."""
    target: Any = made
    function = target.__init__ if isinstance(made, type) else target

    @wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            from hocket.arguments import blame

            blamed = blame(error, function, args, kwargs)
            if blamed is None:
                raise
            raise blamed from error

    if isinstance(made, type):
        target.__init__ = call
        return made
    return cast("Made", call)


def read_stub(path: str) -> tuple[dict[str, str], dict[str, str]]:
    """Read where each name lives that a stub exports, and which name to use in place of each that is deprecated."""
    with open(path, encoding="utf-8") as stub:  # noqa: PTH123 - pathlib takes longer to load than all of this
        lines = ast.parse(stub.read()).body
    imports = [line for line in lines if isinstance(line, ast.ImportFrom) and line.module]
    homes = {alias.name: str(line.module) for line in imports for alias in line.names if alias.asname == alias.name}
    aliases = [line for line in lines if isinstance(line, ast.Assign)]
    return homes, {ast.unparse(line.targets[0]): ast.unparse(line.value) for line in aliases}


def show_in_notebook(value: object, form: str) -> str | None:
    """Draw a value as `svg` or `html`, by a module that is loaded only then; None if it is too large, so that notebooks
    show its text."""
    text: str | None = import_module("hocket.report.notebook").show(value, form)
    return text


def register_with_gymnasium() -> None:
    """Register environments with Gymnasium if that is loaded."""
    if "gymnasium" in sys.modules:
        import_module("hocket.adapters")


# Old names of arguments.


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
                    from hocket.errors import SettingsError

                    raise SettingsError(f"{name} takes {new}, or {old}, which is its old name; got both")
                warn_deprecated(f"{name}({old}=) is deprecated: use {name}({new}=)")
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate
