"""Pages that are written from the code: the public names, and the help of every command."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import os
import re
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, get_args

from sphinx.ext.autodoc.mock import mock

import hocket
import hocket.deep
import hocket.gym
import hocket.runtime
from hocket.cli.main import Command, run

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FOLDER = Path("reference")
MODULES = (hocket, hocket.gym, hocket.deep, hocket.runtime)
TOPICS = {
    "machine": "Machines and their algebra",
    "inference": "Machines from logs",
    "task": "Tasks",
    "exploration": "Machines by experiments",
    "learn": "Learning",
    "evaluation": "Evaluation",
    "study": "Studies",
    "report": "Reports and figures",
    "draw": "Drawings",
    "adapters": "Environments",
    "runtime": "Processes and robots",
    "errors": "Errors",
    "": "Modules",
}  # room -> heading, in the order of the page
INCLUDED = {"bench/README.md": "benchmarks.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
WIDTH = 80  # columns of the command line's help
MISSING = [name for name in ("stable_baselines3", "torch") if find_spec(name) is None]  # too large for the extra `docs`


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx looks for any, and lead links out of the folder to pages of the site."""
    app.connect("config-inited", lambda app, config: config.autodoc_mock_imports.extend(MISSING))
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir) / FOLDER))
    app.connect("source-read", lead_home)
    return {"parallel_read_safe": True}


def lead_home(app: Sphinx, name: str, source: list[str]) -> None:
    """Let links to files that are pages of the site, too, lead there."""
    for path, page in INCLUDED.items():
        source[0] = source[0].replace(f"](../{path})", f"]({page})")


def write_pages(folder: Path) -> None:
    """Write all of them; one that is as it was keeps its time, so that it is not built again."""
    folder.mkdir(exist_ok=True)
    with mock(MISSING):
        pages = {"api": api_page(), "commands": commands_page()}
    for name, page in pages.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != page:
            path.write_text(page, encoding="utf-8")


def api_page() -> str:
    """List the public names of each module, by what they are about."""
    parts = ["# Python\n", "`import hocket as hk`. Names are loaded when they are first used.\n"]
    for module in MODULES:
        parts.append(f"## {module.__name__}\n")
        if module is not hocket:
            parts.append(f"{inspect.getdoc(module)}\n")
        for room, names in names_of(module).items():
            parts += [f"### {TOPICS[room]}\n"] if module is hocket else []
            parts += [directive(module, name) for name in names]
    return "\n".join(parts)


def names_of(module: ModuleType) -> dict[str, list[str]]:
    """List the names in a module's stub, which type checkers and Python both read, by the room that they come from."""
    stub = Path(inspect.getfile(module)).with_suffix(".pyi")
    found: dict[str, list[str]] = {}
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            names = [alias.asname or alias.name for alias in node.names]
            room = (node.module or "").removeprefix("hocket").strip(".").split(".")[0]
            found.setdefault(room, []).extend(name for name in names if getattr(module, name) not in MODULES)
    return {room: found[room] for room in sorted(found, key=[*TOPICS].index)}


def directive(module: ModuleType, name: str) -> str:
    """Describe a name by its docstring."""
    value = getattr(module, name)
    target = f"{module.__name__}.{name}"
    if inspect.ismodule(value):
        own = [key for key, kind in vars(value).items() if getattr(kind, "__module__", "") == value.__name__]
        described = [directive(value, key) for key in own if not key.startswith("_")]
        return "\n".join([f"#### {target}\n", f"{inspect.getdoc(value)}\n", *described])
    if inspect.isclass(value):
        return _autodoc("autoexception" if issubclass(value, Exception) else "autoclass", target, ":members:")
    return _autodoc("autofunction", target) if callable(value) else _autodoc("py:data", target)


def _autodoc(kind: str, target: str, *options: str) -> str:
    return "\n".join(["```{eval-rst}", f".. {kind}:: {target}", *(f"   {own}" for own in options if own), "```", ""])


def commands_page() -> str:
    """Show the help of hocket and of each of its commands."""
    names = [command.__metadata__[0].name for command in get_args(Command)]
    parts = ["# Command line\n", "```text", help_of([]), "```\n"]
    for name in names:
        parts += [f"## hocket {name}\n", "```text", help_of([name]), "```\n"]
    return "\n".join(parts)


def help_of(words: list[str]) -> str:
    """Ask for help, as plain text."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(WIDTH)
    try:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            run([*words, "--help"])
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    return re.sub(r"\x1b\[[0-9;]*m", "", said.getvalue()).strip()
