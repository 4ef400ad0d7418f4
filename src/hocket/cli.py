"""The command line: parse, run a command, report. Exit code 0: all is well; 1: the answer is no; 2: bad input."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import tyro
from tyro.conf import subcommand

from hocket import __version__
from hocket.commands import design, terminal
from hocket.errors import HocketError

Command = (
    Annotated[design.Check, subcommand("check")]
    | Annotated[design.Repair, subcommand("repair")]
    | Annotated[design.Show, subcommand("show")]
)


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:] if args is None else args))


def run(args: list[str]) -> int:
    """Run a command; return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a name must never fail to be printed
    if args in (["--version"], ["-V"]):
        print(f"hocket {__version__}")
        return 0
    description = "Split a team's task among its agents, and prove that the parts make the whole."
    command = tyro.cli(Command, prog="hocket", description=description, args=args or ["--help"])
    try:
        code: int = command.run()
        sys.stdout.flush()
    except HocketError as error:
        terminal.make_console(stderr=True).print(f"hocket: {error}", style="red")
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code
