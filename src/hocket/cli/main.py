"""The command line: parse, run a command, print errors.

Exit code 0: success; 1: the answer is no; 2: invalid input; 70: an internal error.
"""

from __future__ import annotations

import ast
import gc
import io
import os
import shlex
import sys
import traceback
from collections.abc import Callable
from contextlib import nullcontext, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, make_dataclass
from functools import cache
from importlib import import_module
from pkgutil import get_data
from typing import Annotated, Any, Union

import tyro
from rich.text import Text
from tyro.conf import OmitArgPrefixes, OmitSubcommandPrefixes, subcommand

from hocket import __version__
from hocket.cli.options import Flag, MaybeText, option
from hocket.cli.terminal import BY_SIGNAL, INTERRUPTED, drop, make_console
from hocket.errors import HocketError, known_names, printable

INVALID_INPUT, INTERNAL_ERROR = 2, 70  # the second is EX_SOFTWARE of sysexits.h
GC_THRESHOLDS = (100_000, 20, 20)  # large, since results are many objects without cycles

SUMMARY = "Reward machines for teams: split a team task into one task per agent, prove the split sound, train and test."
COMMANDS = {  # module and class of each, in the order in which a new user needs them
    "tasks": "tasks.ListTasks", "new": "tasks.New",
    "check": "check.Check", "repair": "check.Repair", "show": "check.Show",
    "play": "play.PlayTask", "studio": "tasks.OpenStudio",
    "learners": "train.ListLearners", "train": "train.Train", "survey": "train.SurveyMap",
    "study": "study.RunStudy", "paper": "study.Paper", "report": "study.Report", "evaluate": "evaluate.Evaluate",
    "infer": "infer.Infer", "ask": "infer.Ask", "explore": "infer.Explore", "export": "evaluate.ExportTeam",
    "simulate": "team.Simulate", "run": "team.RunTeam", "verify": "team.Verify", "keys": "team.Keys",
    "bench": "train.Bench",
}  # fmt: skip
CONFIG = (OmitArgPrefixes, OmitSubcommandPrefixes)

Form = Any  # the type of a command, or a union of several, which tyro reads


def __getattr__(name: str) -> Form:
    """Load all commands, and make the union of their types."""
    if name == "Command":
        return _union(find_command)
    raise AttributeError(name)


def find_command(name: str) -> Form:
    """Load a command."""
    module, _, class_name = COMMANDS[name].partition(".")
    try:
        return getattr(import_module(f"hocket.cli.{module}"), class_name)
    except (ImportError, MemoryError) as error:  # libraries report too little memory in many ways while they are loaded
        raise _UnloadableError(str(error) or type(error).__name__) from error


class _UnloadableError(Exception):
    """A command that cannot be loaded: an internal error."""


def _union(make: Callable[[str], Form]) -> Form:
    return Union[tuple(Annotated[make(name), subcommand(name)] for name in COMMANDS)]  # noqa: UP007


def _summary(name: str) -> type:
    """Make a class of the same name and docstring as a command, for help, without loading the command."""
    module, _, class_name = COMMANDS[name].partition(".")
    return make_dataclass(class_name, (), namespace={"__doc__": _docstrings(module)[class_name]})


@cache
def _docstrings(module: str) -> dict[str, str | None]:
    source = get_data("hocket.cli", f"{module}.py") or b""
    return {node.name: ast.get_docstring(node) for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit."""
    gc.freeze()  # modules stay loaded
    gc.set_threshold(*GC_THRESHOLDS)
    code = run(sys.argv[1:] if args is None else args)
    if code >= BY_SIGNAL:  # do not wait for threads that are still working
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


def run(args: list[str]) -> int:
    """Run a command; return its exit code."""
    _prepare_streams()
    code = 0
    try:
        code = _dispatch(args)
        sys.stdout.flush()
    except HocketError as error:
        return _print_error(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader has closed the pipe; the exit code stays that of the answer
        drop(sys.stdout)
    except OSError as error:
        if error.filename is not None:
            return _print_error(f"{printable(str(error.filename))}: {error.strerror}")
        drop(sys.stdout)  # a full disk
        return _print_error(f"cannot write: {error.strerror or error}")
    except _UnloadableError as error:
        return _print_error(f"cannot be loaded: {error}", INTERNAL_ERROR)
    except MemoryError:
        return _print_error("not enough memory")
    except (Exception, SystemExit):  # also of a library that exits
        with suppress(OSError):
            make_console(stderr=True).print(traceback.format_exc(), end="")
        command = printable(shlex.join(["hocket", *args]))
        advice = f"please report the lines above, version {__version__}, and the command: {command}"
        return _print_error(f"internal error, not caused by the input; {advice}", INTERNAL_ERROR)
    return code


def _dispatch(args: list[str]) -> int:
    if args in (["--version"], ["-V"]):
        print(f"hocket {__version__}")
        return 0
    if args[:1] == ["--completion"] and len(args) == 2:
        from hocket.cli.completion import completion_script

        print(completion_script(args[1], _union(find_command)))
        return 0
    if args and args[0].isprintable() and not args[0].startswith("-") and args[0] not in COMMANDS:
        raise HocketError(f"there is no command {args[0]!r} ({known_names(args[0], COMMANDS)})")
    try:
        command = _parse(args or ["--help"])
    except SystemExit as stop:  # help was asked for, or the arguments are invalid
        if stop.code == 0 and args[:1] == ["train"]:
            from hocket.cli.train import print_settings

            print_settings()
        return stop.code if isinstance(stop.code, int) else 2
    return int(command.run())


def _parse(args: list[str]) -> Form:
    """Parse arguments; escape control characters in errors, and print help for this terminal and NO_COLOR."""
    errors, screen = io.StringIO(), _Screen()
    try:
        with (
            nullcontext() if all(word.isprintable() for word in args) else redirect_stderr(errors),
            redirect_stdout(screen) if sys.stdout.isatty() else nullcontext(),
        ):
            if args[0] in COMMANDS:
                return tyro.cli(find_command(args[0]), prog=f"hocket {args[0]}", args=args[1:], config=CONFIG)
            tyro.cli(_overview(), prog="hocket", args=args, config=CONFIG)
            raise HocketError("the first word must be a command, as in `hocket check buttons`")
    except SystemExit:
        make_console(stderr=True).print(errors.getvalue(), end="")
        if help_text := screen.getvalue():
            make_console().print(Text.from_ansi(help_text))
        raise


class _Screen(io.StringIO):
    """A buffer that seems to be a terminal, so that help is written in colour."""

    def isatty(self) -> bool:
        return True


def _overview() -> type:
    """Make the type of the options that come without a command."""

    @dataclass(frozen=True)
    class Hocket:
        command: Any
        version: Annotated[Flag, option(None, "-V")] = False
        """Print the version and exit."""
        completion: Annotated[MaybeText, option("SHELL")] = None
        """Print a completion script for SHELL (bash or zsh) and exit. Load it with eval."""

    Hocket.__doc__ = SUMMARY
    Hocket.__annotations__["command"] = _union(_summary)
    return Hocket


def _prepare_streams() -> None:
    """Open missing standard streams, and replace characters that they cannot encode."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _print_error(sentence: str, code: int = INVALID_INPUT) -> int:
    """Print an error, if standard error can be written to; return the exit code."""
    try:
        make_console(stderr=True).print(f"hocket: {sentence}", style="red")
        sys.stderr.flush()
    except OSError:
        drop(sys.stderr)
    return code
