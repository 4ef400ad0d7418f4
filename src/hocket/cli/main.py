"""The command line: parse, run a command, print errors.

Exit code 0: success; 1: the answer is no; 2: invalid input; 70: an internal error.
"""

from __future__ import annotations

import gc
import io
import os
import shlex
import sys
import traceback
from contextlib import nullcontext, redirect_stderr, suppress
from dataclasses import dataclass
from typing import Annotated, get_args

import tyro
from tyro.conf import OmitArgPrefixes, OmitSubcommandPrefixes, subcommand

from hocket import __version__
from hocket.cli.ask import Ask
from hocket.cli.bench import Bench
from hocket.cli.check import Check
from hocket.cli.completion import completion_script
from hocket.cli.evaluate import Evaluate
from hocket.cli.explore import Explore
from hocket.cli.export import ExportTeam
from hocket.cli.infer import Infer
from hocket.cli.interrupt import BY_SIGNAL, INTERRUPTED
from hocket.cli.keys import Keys
from hocket.cli.learners import ListLearners, print_settings
from hocket.cli.new import New
from hocket.cli.paper import Paper
from hocket.cli.play import PlayTask
from hocket.cli.repair import Repair
from hocket.cli.report import Report
from hocket.cli.run import RunTeam
from hocket.cli.show import Show
from hocket.cli.simulate import Simulate
from hocket.cli.studio import OpenStudio
from hocket.cli.study import RunStudy
from hocket.cli.survey import SurveyMap
from hocket.cli.tasks import ListTasks
from hocket.cli.terminal import Flag, drop, make_console, option
from hocket.cli.train import Train
from hocket.cli.verify import Verify
from hocket.errors import HocketError, known_names, printable

INVALID_INPUT, INTERNAL_ERROR = 2, 70  # the second is EX_SOFTWARE of sysexits.h
GC_THRESHOLDS = (100_000, 20, 20)  # large, since results are many objects without cycles

Command = (  # in the order in which a newcomer needs them
    Annotated[ListTasks, subcommand("tasks")]
    | Annotated[New, subcommand("new")]
    | Annotated[Check, subcommand("check")]
    | Annotated[Repair, subcommand("repair")]
    | Annotated[Show, subcommand("show")]
    | Annotated[PlayTask, subcommand("play")]
    | Annotated[OpenStudio, subcommand("studio")]
    | Annotated[ListLearners, subcommand("learners")]
    | Annotated[Train, subcommand("train")]
    | Annotated[SurveyMap, subcommand("survey")]
    | Annotated[RunStudy, subcommand("study")]
    | Annotated[Paper, subcommand("paper")]
    | Annotated[Report, subcommand("report")]
    | Annotated[Evaluate, subcommand("evaluate")]
    | Annotated[Infer, subcommand("infer")]
    | Annotated[Ask, subcommand("ask")]
    | Annotated[Explore, subcommand("explore")]
    | Annotated[ExportTeam, subcommand("export")]
    | Annotated[Simulate, subcommand("simulate")]
    | Annotated[RunTeam, subcommand("run")]
    | Annotated[Verify, subcommand("verify")]
    | Annotated[Keys, subcommand("keys")]
    | Annotated[Bench, subcommand("bench")]
)


@dataclass(frozen=True)
class Hocket:
    """Reward machines for teams: split a team task into one task per agent, prove the split sound, train and test."""

    command: Command
    version: Annotated[Flag, option(None, "-V")] = False
    """Print the version and exit."""
    completion: Annotated[str | None, option("SHELL")] = None
    """Print a completion script for SHELL (bash or zsh) and exit. Load it with eval."""


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
    except MemoryError:
        return _print_error("not enough memory")
    except (Exception, SystemExit):  # a library that exits has not answered, either
        return _print_internal_error(args)
    return code


def _dispatch(args: list[str]) -> int:
    if args in (["--version"], ["-V"]):
        print(f"hocket {__version__}")
        return 0
    if args[:1] == ["--completion"] and len(args) == 2:
        print(completion_script(args[1], Command))
        return 0
    commands = [command.__metadata__[0].name for command in get_args(Command)]
    if args and args[0].isprintable() and not args[0].startswith("-") and args[0] not in commands:
        raise HocketError(f"there is no command {args[0]!r} ({known_names(args[0], commands)})")
    try:
        parsed = _parse(args or ["--help"])
    except SystemExit as stop:  # help was asked for, or the arguments are invalid
        if stop.code == 0 and args[:1] == ["train"]:
            print_settings()
        return stop.code if isinstance(stop.code, int) else 2
    return parsed.command.run()


def _parse(args: list[str]) -> Hocket:
    """Parse arguments; control characters in them are escaped before an error message repeats them."""
    errors = io.StringIO()
    try:
        with nullcontext() if all(word.isprintable() for word in args) else redirect_stderr(errors):
            return tyro.cli(Hocket, prog="hocket", args=args, config=(OmitArgPrefixes, OmitSubcommandPrefixes))
    except SystemExit:
        make_console(stderr=True).print(errors.getvalue(), end="")
        raise


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


def _print_internal_error(args: list[str]) -> int:
    """Print the traceback, and what to report."""
    with suppress(OSError):
        make_console(stderr=True).print(traceback.format_exc(), end="")
    command = printable(shlex.join(["hocket", *args]))
    advice = f"please report the lines above, version {__version__}, and the command: {command}"
    return _print_error(f"internal error, not caused by the input; {advice}", INTERNAL_ERROR)
