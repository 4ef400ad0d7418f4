"""The command line: parse, run a command, report. Exit code 0: all is well; 1: the answer is no; 2: bad input."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import tyro
from tyro.conf import subcommand

from hocket import __version__
from hocket.cli import design, learning, play, terminal
from hocket.errors import HocketError

Command = (
    Annotated[design.Check, subcommand("check")]
    | Annotated[design.Repair, subcommand("repair")]
    | Annotated[design.Show, subcommand("show")]
    | Annotated[learning.Train, subcommand("train")]
    | Annotated[learning.RunStudy, subcommand("study")]
    | Annotated[learning.Paper, subcommand("paper")]
    | Annotated[learning.Report, subcommand("report")]
    | Annotated[learning.Evaluate, subcommand("evaluate")]
    | Annotated[learning.Bench, subcommand("bench")]
    | Annotated[play.Play, subcommand("play")]
)


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:] if args is None else args))


def run(args: list[str]) -> int:
    """Run a command; return its exit code."""
    _prepare_streams()
    try:
        code = _obey(args)
        sys.stdout.flush()
    except HocketError as error:
        terminal.make_console(stderr=True).print(f"hocket: {error}", style="red")
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has had enough
        _drop_output()
        return 0
    except OSError as error:  # a full disk
        _drop_output()
        terminal.make_console(stderr=True).print(f"hocket: cannot write: {error.strerror}", style="red")
        return 2
    return code


def _obey(args: list[str]) -> int:
    if args in (["--version"], ["-V"]):
        print(f"hocket {__version__}")
        return 0
    description = "Split a team's task among its agents, and prove that the parts make the whole."
    try:
        command = tyro.cli(Command, prog="hocket", description=description, args=args or ["--help"])
    except SystemExit as stop:  # help was asked for, or the words were wrong
        return stop.code if isinstance(stop.code, int) else 2
    return command.run()


def _prepare_streams() -> None:
    """See to it that there is an output, and that no name ever fails to be printed."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _drop_output() -> None:
    """Keep the interpreter from failing on what is still unwritten when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
