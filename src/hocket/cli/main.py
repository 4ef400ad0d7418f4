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
from functools import cache, reduce
from importlib import import_module
from operator import or_
from pkgutil import get_data
from typing import Annotated, Any

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
COMMANDS = {  # in the order in which a newcomer needs them: the module and the class of each
    "tasks": "tasks.ListTasks",
    "new": "tasks.New",
    "check": "check.Check",
    "repair": "check.Repair",
    "show": "check.Show",
    "play": "play.PlayTask",
    "studio": "tasks.OpenStudio",
    "learners": "train.ListLearners",
    "train": "train.Train",
    "survey": "train.SurveyMap",
    "study": "study.RunStudy",
    "paper": "study.Paper",
    "report": "study.Report",
    "evaluate": "evaluate.Evaluate",
    "infer": "infer.Infer",
    "ask": "infer.Ask",
    "explore": "infer.Explore",
    "export": "evaluate.ExportTeam",
    "simulate": "team.Simulate",
    "run": "team.RunTeam",
    "verify": "team.Verify",
    "keys": "team.Keys",
    "bench": "train.Bench",
}
CONFIG = (OmitArgPrefixes, OmitSubcommandPrefixes)

Form = Any  # the type of a command, or of several, which tyro reads


def __getattr__(name: str) -> Form:
    """Make the type of all commands, which loads them."""
    if name == "Command":
        return _either(find_command)
    raise AttributeError(name)


def find_command(name: str) -> Form:
    """Load a command."""
    module, _, kind = COMMANDS[name].partition(".")
    try:
        return getattr(import_module(f"hocket.cli.{module}"), kind)
    except (ImportError, MemoryError) as error:  # too little memory shows in many ways while libraries are loaded
        raise _UnloadableError(str(error) or type(error).__name__) from error


class _UnloadableError(Exception):
    """A command that cannot be loaded, which is no answer, and above all not a no."""


def _either(make: Callable[[str], Form]) -> Form:
    return reduce(or_, (Annotated[make(name), subcommand(name)] for name in COMMANDS))


def _summary(name: str) -> type:
    """Make a command of the same name and summary, without loading it: help needs no more of it."""
    module, _, kind = COMMANDS[name].partition(".")
    return make_dataclass(kind, (), namespace={"__doc__": _docstrings(module)[kind]})


@cache
def _docstrings(module: str) -> dict[str, str | None]:
    source = get_data("hocket.cli", f"{module}.py") or b""
    return {node.name: ast.get_docstring(node) for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit."""
    gc.freeze()  # what is loaded stays
    gc.set_threshold(*GC_THRESHOLDS)
    code = run(sys.argv[1:] if args is None else args)
    if code >= BY_SIGNAL:  # threads may be at work still, for which nobody should have to wait
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
    except BrokenPipeError:  # the reader has had enough, and the answer stays what it is
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
    except (Exception, SystemExit):  # a library that exits has not answered, either
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

        print(completion_script(args[1], _either(find_command)))
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
    """Parse arguments; errors repeat them with control characters escaped, and help heeds the terminal and NO_COLOR."""
    errors, screen = io.StringIO(), _Screen()
    try:
        with (
            nullcontext() if all(word.isprintable() for word in args) else redirect_stderr(errors),
            redirect_stdout(screen) if sys.stdout.isatty() else nullcontext(),
        ):
            if args[0] in COMMANDS:
                return tyro.cli(find_command(args[0]), prog=f"hocket {args[0]}", args=args[1:], config=CONFIG)
            tyro.cli(_overview(), prog="hocket", args=args, config=CONFIG)
            raise HocketError("the command comes first, as in `hocket check buttons`")
    except SystemExit:
        make_console(stderr=True).print(errors.getvalue(), end="")
        if help_text := screen.getvalue():
            make_console().print(Text.from_ansi(help_text))
        raise


class _Screen(io.StringIO):
    """Keeps what is written for a terminal."""

    def isatty(self) -> bool:
        return True


def _overview() -> type:
    """Make what is parsed where no command comes first."""

    @dataclass(frozen=True)
    class Hocket:
        command: Any
        version: Annotated[Flag, option(None, "-V")] = False
        """Print the version and exit."""
        completion: Annotated[MaybeText, option("SHELL")] = None
        """Print a completion script for SHELL (bash or zsh) and exit. Load it with eval."""

    Hocket.__doc__ = SUMMARY
    Hocket.__annotations__["command"] = _either(_summary)
    return Hocket


def _prepare_streams() -> None:
    """Open missing standard streams, and replace characters that they cannot encode."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _print_error(sentence: str, code: int = INVALID_INPUT) -> int:
    """Print an error if standard error can be written; return the exit code in any case."""
    try:
        make_console(stderr=True).print(f"hocket: {sentence}", style="red")
        sys.stderr.flush()
    except OSError:
        drop(sys.stderr)
    return code
