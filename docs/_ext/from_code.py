"""Pages that are written from the code: the public names by topic, and the help of every command."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import os
import re
import textwrap
import tokenize
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, get_args

from docutils import nodes
from sphinx.ext.autodoc.mock import mock

import hocket
import hocket.deep
import hocket.gym
import hocket.runtime
from hocket.cli.main import Command, run

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FOLDER = Path("reference")
FIRST = ("load_task", "check_task", "decompose", "repair", "train", "evaluate", "write_report")  # what most users need
TOPICS = {
    "task": "Tasks: load, make and check them",
    "machine": "Machines: decompose, repair, compose, read and write",
    "learn": "Learning: train agents",
    "evaluation": "Evaluation: how good is a team",
    "study": "Studies: many runs, kept in a folder",
    "report": "Reports and figures",
    "draw": "Drawings of tasks and machines",
    "inference": "Machines from logs",
    "exploration": "Machines by experiments",
    "adapters": "Environments: Gymnasium and PettingZoo",
    "deep": "Networks: Stable-Baselines3",
    "runtime": "Processes and robots",
    "errors": "Errors",
    "": "Statistics and errors",
}  # package -> heading, in the order of the pages
MODULES = (hocket, hocket.gym, hocket.deep, hocket.runtime)
INCLUDED = {"bench/README.md": "benchmarks.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
WIDTH = 80  # columns of the command line's help
MISSING = [name for name in ("stable_baselines3", "torch") if find_spec(name) is None]  # too large for the extra `docs`


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx looks for any, and lead links out of the folder to pages of the site."""
    app.connect("config-inited", lambda app, config: config.autodoc_mock_imports.extend(MISSING))
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir) / FOLDER))
    app.connect("source-read", lead_home)
    app.connect("autodoc-process-docstring", add_parameters)
    app.connect("doctree-read", offer_dark_pictures)
    return {"parallel_read_safe": True}


def lead_home(app: Sphinx, name: str, source: list[str]) -> None:
    """Let links to files that are pages of the site, too, lead there."""
    for path, page in INCLUDED.items():
        source[0] = source[0].replace(f"](../{path})", f"]({page})")


def offer_dark_pictures(app: Sphinx, tree: nodes.document) -> None:
    """Show NAME-dark.png instead of NAME.png on dark pages, where there is such a file."""
    for image in [*tree.findall(nodes.image)]:
        path = Path(image["uri"])
        dark = path.with_name(f"{path.stem}-dark.png")
        if path.suffix == ".png" and (Path(app.srcdir) / dark).exists():
            other = image.deepcopy()
            other["uri"], other["candidates"] = str(dark), {"*": str(dark)}
            image["classes"].append("only-light")
            other["classes"].append("only-dark")
            image.parent.insert(image.parent.index(image) + 1, other)
            app.env.images.add_file(app.env.docname, str(dark))


def write_pages(folder: Path) -> None:
    """Write all of them; one that is as it was keeps its time, so that it is not built again."""
    folder.mkdir(exist_ok=True)
    with mock(MISSING):
        pages = {**api_pages(), "commands": commands_page()}
    for path in folder.glob("*.md"):
        if path.stem not in pages:
            path.unlink()
    for name, page in pages.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != page:
            path.write_text(page, encoding="utf-8")


# Python.


def api_pages() -> dict[str, str]:
    """Write a page for each topic, and one that lists all names with what they are for."""
    topics: dict[str, list[tuple[ModuleType, str]]] = {topic: [] for topic in TOPICS}
    for module in MODULES:
        for topic, names in names_of(module).items():
            topics[topic] += [(module, name) for name in names]
    pages = {f"api-{topic or 'modules'}": topic_page(topic, names) for topic, names in topics.items() if names}
    links = "\n".join(pages)
    first = [(hocket, name) for name in FIRST]
    parts = [
        "# Python: every name, by topic\n",
        "`import hocket as hk`. Names are loaded when they are first used. Most programs need only these:\n",
        listing(first),
        *(f"## {TOPICS[topic]}\n\n{listing(names)}" for topic, names in topics.items() if names),
        f"```{{toctree}}\n:hidden:\n\n{links}\n```\n",
    ]
    return {"api": "\n".join(parts), **pages}


def listing(names: list[tuple[ModuleType, str]]) -> str:
    """Tabulate names with the first sentences of their docstrings."""
    rows = []
    for module, name in names:
        value = getattr(module, name)
        target = f"{module.__name__}.{name}"
        first = re.split(r"\n\n|(?<=\.)\s|:$", inspect.getdoc(value) or "", maxsplit=1)[0].replace("\n", " ")
        first = "" if not (inspect.isroutine(value) or inspect.isclass(value) or inspect.ismodule(value)) else first
        link = f"`{target}`" if inspect.ismodule(value) else f"{{any}}`{short(module, name)} <{target}>`"
        rows.append(f"| {link} | {first.replace('|', chr(92) + '|')} |")
    return "\n".join(["| name | what it does |", "| --- | --- |", *rows, ""])


def short(module: ModuleType, name: str) -> str:
    return f"{module.__name__.replace('hocket', 'hk', 1)}.{name}"


def topic_page(topic: str, names: list[tuple[ModuleType, str]]) -> str:
    """Describe all names of a topic."""
    modules = dict.fromkeys(module for module, _ in names if module is not hocket)
    about = [f"`{module.__name__}`: {inspect.getdoc(module)}\n" for module in modules]
    return "\n".join([f"# {TOPICS[topic]}\n", *about, *(directive(module, name) for module, name in names)])


def names_of(module: ModuleType) -> dict[str, list[str]]:
    """List the names in a module's stub, which type checkers and Python both read, by the package they come from."""
    stub = Path(inspect.getfile(module)).with_suffix(".pyi")
    names: dict[str, list[str]] = {}
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            listed = [alias.asname or alias.name for alias in node.names]
            package = (node.module or "").removeprefix("hocket").strip(".").split(".")[0]
            topic = module.__name__.rpartition(".")[2] if module is hocket.deep else package
            names.setdefault(topic, []).extend(name for name in listed if getattr(module, name) not in MODULES)
    order = {name: place for place, name in enumerate(FIRST)}
    return {topic: sorted(listed, key=lambda name: order.get(name, len(order))) for topic, listed in names.items()}


def directive(module: ModuleType, name: str) -> str:
    """Describe a name by its docstring."""
    value = getattr(module, name)
    target = f"{module.__name__}.{name}"
    if inspect.ismodule(value):
        defined = [key for key, kind in vars(value).items() if getattr(kind, "__module__", "") == value.__name__]
        described = [directive(value, key) for key in defined if not key.startswith("_")]
        return "\n".join([f"## {target}\n", f"{inspect.getdoc(value)}\n", *described])
    if inspect.isclass(value):
        return _autodoc("autoexception" if issubclass(value, Exception) else "autoclass", target, ":members:")
    return _autodoc("autofunction", target) if callable(value) else _autodoc("py:data", target)


def _autodoc(kind: str, target: str, *options: str) -> str:
    return "\n".join(["```{eval-rst}", f".. {kind}:: {target}", *(f"   {option}" for option in options), "```", ""])


def add_parameters(app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """List parameters, or the fields of a class, with what the comments beside them say."""
    if what not in ("function", "method", "class"):
        return
    try:
        source = textwrap.dedent(inspect.getsource(value))  # type: ignore[arg-type]
        (tree,) = ast.parse(source).body
        tokens = [*tokenize.generate_tokens(io.StringIO(source).readline)]
    except (OSError, TypeError, ValueError, SyntaxError, tokenize.TokenError):
        return
    comments = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    if isinstance(tree, ast.ClassDef):
        fields = [node for node in tree.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)]
        told = {node.target.id: comments.get(node.end_lineno or 0) for node in fields}  # type: ignore[union-attr]
    elif isinstance(tree, ast.FunctionDef):
        arguments = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
        alone = {line for line in comments if sum(argument.lineno == line for argument in arguments) == 1}
        told = {argument.arg: comments[argument.lineno] for argument in arguments if argument.lineno in alone}
    else:
        return
    described = {key: comment for key, comment in told.items() if comment and not key.startswith("_")}
    if described and not any(line.startswith(":param") for line in lines):
        lines += ["", *(f":param {key}: " + re.sub(r"([*`|_])", r"\\\1", text) for key, text in described.items()), ""]


# The command line.


def commands_page() -> str:
    """Show the help of hocket and of each of its commands."""
    names = [command.__metadata__[0].name for command in get_args(Command)]
    parts = ["# Command line: every command and option\n", "```text", help_of([]), "```\n"]
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
