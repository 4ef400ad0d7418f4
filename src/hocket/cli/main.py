"""The command line: parse, run a command, report.

Exit code 0: all is well; 1: the answer is no; 2: bad input; 70: a mistake of hocket's own.
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
from hocket.cli.bench import Bench
from hocket.cli.check import Check
from hocket.cli.completion import completion_script
from hocket.cli.evaluate import Evaluate
from hocket.cli.interrupt import BY_SIGNAL, INTERRUPTED
from hocket.cli.learners import Learners, print_settings
from hocket.cli.new import New
from hocket.cli.paper import Paper
from hocket.cli.play import Play
from hocket.cli.repair import Repair
from hocket.cli.report import Report
from hocket.cli.show import Show
from hocket.cli.studio import OpenStudio
from hocket.cli.study import RunStudy
from hocket.cli.tasks import Tasks
from hocket.cli.terminal import Flag, drop, make_console, option
from hocket.cli.train import Train
from hocket.errors import HocketError, known_names, printable

BAD_INPUT, OWN_MISTAKE = 2, 70  # the second is EX_SOFTWARE of sysexits.h, which no answer is ever mistaken for
COLLECTING = (100_000, 20, 20)  # how seldom Python looks for cycles: results are many objects and have none

Command = (  # in the order in which a newcomer needs them
    Annotated[Tasks, subcommand("tasks")]
    | Annotated[New, subcommand("new")]
    | Annotated[Check, subcommand("check")]
    | Annotated[Repair, subcommand("repair")]
    | Annotated[Show, subcommand("show")]
    | Annotated[Play, subcommand("play")]
    | Annotated[OpenStudio, subcommand("studio")]
    | Annotated[Learners, subcommand("learners")]
    | Annotated[Train, subcommand("train")]
    | Annotated[RunStudy, subcommand("study")]
    | Annotated[Paper, subcommand("paper")]
    | Annotated[Report, subcommand("report")]
    | Annotated[Evaluate, subcommand("evaluate")]
    | Annotated[Bench, subcommand("bench")]
)


@dataclass(frozen=True)
class Hocket:
    """Split a team's task among its agents, and prove that the parts make the whole."""

    command: Command
    version: Annotated[Flag, option(None, "-V")] = False
    """Say which version this is, and exit."""
    completion: Annotated[str | None, option("SHELL")] = None
    """Print what makes a shell (bash or zsh) complete commands, tasks, learners and settings: eval it, and exit."""


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit."""
    gc.freeze()  # what is loaded stays
    gc.set_threshold(*COLLECTING)
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
        code = _obey(args)
        sys.stdout.flush()
    except HocketError as error:
        return _complain(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader has had enough, and the answer stays what it is
        drop(sys.stdout)
    except OSError as error:
        if error.filename is not None:
            return _complain(f"{printable(str(error.filename))}: {error.strerror}")
        drop(sys.stdout)  # a full disk
        return _complain(f"cannot write: {error.strerror or error}")
    except MemoryError:
        return _complain("there is not enough memory for this")
    except Exception:
        return _confess(args)
    return code


def _obey(args: list[str]) -> int:
    if args in (["--version"], ["-V"]):
        print(f"hocket {__version__}")
        return 0
    if args[:1] == ["--completion"] and len(args) == 2:
        print(completion_script(args[1], Command))
        return 0
    commands = [own.__metadata__[0].name for own in get_args(Command)]
    if args and args[0].isprintable() and not args[0].startswith("-") and args[0] not in commands:
        raise HocketError(f"there is no command {args[0]!r} ({known_names(args[0], commands)})")
    try:
        words = _parse(args or ["--help"])
    except SystemExit as stop:  # help was asked for, or the words were wrong
        if stop.code == 0 and args[:1] == ["train"]:
            print_settings()
        return stop.code if isinstance(stop.code, int) else 2
    return words.command.run()


def _parse(args: list[str]) -> Hocket:
    """Turn words into a command; where they are wrong, what is said of them may be printed by any terminal."""
    said = io.StringIO()
    try:
        with nullcontext() if all(word.isprintable() for word in args) else redirect_stderr(said):
            return tyro.cli(Hocket, prog="hocket", args=args, config=(OmitArgPrefixes, OmitSubcommandPrefixes))
    except SystemExit:
        make_console(stderr=True).print(said.getvalue(), end="")
        raise


def _prepare_streams() -> None:
    """See to it that there is an output, and that no name ever fails to be printed."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _complain(sentence: str, code: int = BAD_INPUT) -> int:
    """Say what is wrong, where anybody can be told; return the exit code, which has to be right in any case."""
    try:
        make_console(stderr=True).print(f"hocket: {sentence}", style="red")
        sys.stderr.flush()
    except OSError:
        drop(sys.stderr)
    return code


def _confess(args: list[str]) -> int:
    """Show where hocket itself has gone wrong, and say what to do with it."""
    with suppress(OSError):
        make_console(stderr=True).print(traceback.format_exc(), end="")
    said = printable(shlex.join(["hocket", *args]))
    rule = "this is a mistake of hocket's own, and not of what it was given; please report the lines above"
    return _complain(f"{rule}, with version {__version__} and the command: {said}", OWN_MISTAKE)
