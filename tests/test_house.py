"""The rules of the house: which module may import which, what an import costs, and what the checkers say."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

import hocket as hk

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "hocket"

# The rows of the table in docs/design.md, in its order: folders, and in the first row the modules outside of folders.
TABLE = re.findall(r"^\| `(.+?)` \|", (ROOT / "docs" / "design.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
ROOMS = [tuple(name.strip("/") for name in row.split("`, `")) for row in TABLE]
TOP = ("", "__main__", "deep", "gym")  # the package, what runs it, and public names: they belong to no room
LEAVES = ("graphs", "hitting_set", "statistics")  # may import nothing of hocket but its errors
FORBIDDEN_CALLS = ("eval", "exec", "compile", "__import__")
FORBIDDEN_MODULES = ("pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib")


def module_name(path: Path) -> str:
    """Name a module of the package by its path."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


def imported(name: str) -> set[str]:
    """List the modules of hocket that a module imports, anywhere in it."""
    tree = TREES[name]
    if name == "":  # what it imports for type checkers alone does not count
        tree = ast.Module([node for node in tree.body if not is_for_type_checkers(node)], [])
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            dotted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: imports are written out in full"
            dotted = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found.update(nearest_module(path) for path in dotted if path.split(".")[0] == "hocket")
    return found


def is_for_type_checkers(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def nearest_module(dotted: str) -> str:
    """Find the module that hocket.a.b is, or is in."""
    parts = dotted.split(".")[1:]
    while ".".join(parts) not in MODULES:
        parts.pop()
    return ".".join(parts)


# The order of the rooms.

ROOM_OF = {name: number for number, room in enumerate(ROOMS) for name in room}


def room(name: str) -> int:
    """Find the row of the table that a module belongs to."""
    return ROOM_OF[name.partition(".")[0]]


def test_the_table_has_every_room_and_no_other():
    found = {name.partition(".")[0] for name in MODULES if name not in TOP}
    assert found == {*ROOM_OF}
    assert len(ROOM_OF) == sum(map(len, ROOMS))


@pytest.mark.parametrize("name", [name for name in MODULES if name not in TOP])
def test_a_module_imports_from_its_own_room_and_those_above(name):
    assert {other for other in imported(name) if other and room(other) > room(name)} == set()


def test_no_module_needs_itself():
    order = TopologicalSorter({name: imported(name) - {name, ""} for name in MODULES if name})
    assert sorted(order.static_order())  # or it says which modules go round


@pytest.mark.parametrize("name", LEAVES)
def test_a_leaf_imports_nothing_of_hocket_but_errors(name):
    assert imported(name) <= {"errors"}


# What an import costs.

LOADED = """
import sys
before = set(sys.modules)
{code}
print(*sorted({{name.partition(".")[0] for name in set(sys.modules) - before}}))
"""


def loaded_by(code: str) -> set[str]:
    """List the top-level packages that some code loads in a fresh interpreter, without those of Python itself."""
    command = [sys.executable, "-c", LOADED.format(code=code)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {name for name in done.stdout.split() if name not in sys.stdlib_module_names}


def test_importing_hocket_loads_nothing_else():
    assert loaded_by("import hocket") == {"hocket"}


@pytest.mark.parametrize(
    "code",
    [
        "import hocket as hk; hk.RewardMachine(initial='u', transitions={})",
        "import hocket as hk; hk.decompose, hk.repair, hk.compose, hk.project, hk.load_machine, hk.to_networkx",
        "import hocket.statistics",
    ],
    ids=["a machine", "the algebra", "statistics"],
)
def test_values_algebra_and_statistics_load_nothing_of_others_but_numpy(code):
    assert loaded_by(code) == {"hocket", "numpy"}


def test_an_error_loads_nothing_else():
    assert loaded_by("import hocket as hk; hk.HocketError") == {"hocket"}


# The public names.


def test_every_public_name_is_found_where_it_is_said_to_be():
    assert sorted(hk.__all__) == sorted(hk._HOME)
    for name in hk.__all__:
        value = getattr(hk, name)
        assert getattr(sys.modules[f"hocket.{hk._HOME[name]}"], name) is value
        assert name in dir(hk)


def test_type_checkers_are_told_the_same_public_names():
    (block,) = [node for node in TREES[""].body if is_for_type_checkers(node)]
    told = {
        alias.asname or alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert told == {name: f"hocket.{module}" for name, module in hk._HOME.items()}


def test_a_name_that_is_not_public_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'hocket' has no attribute 'nonsense'"):
        hk.nonsense  # noqa: B018


# What the source must not do.


def suspicious(tree: ast.Module) -> Iterator[str]:
    """Find calls that run text as code, and modules that run what they read."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=called)) if called in FORBIDDEN_CALLS:
                yield f"line {node.lineno}: {called}()"
            case ast.Import(names=names) if {alias.name.split(".")[0] for alias in names} & {*FORBIDDEN_MODULES}:
                yield f"line {node.lineno}: import"
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in FORBIDDEN_MODULES:
                yield f"line {node.lineno}: from {module}"
            case ast.keyword(arg="allow_pickle", value=value) if not (
                isinstance(value, ast.Constant) and value.value is False
            ):
                yield f"line {node.value.lineno}: allow_pickle"
            case ast.keyword(arg="shell", value=ast.Constant(value=True)):
                yield f"line {node.value.lineno}: shell=True"


@pytest.mark.parametrize("name", MODULES)
def test_a_module_neither_evaluates_text_nor_unpickles(name):
    assert list(suspicious(TREES[name])) == []


@pytest.mark.parametrize(
    "code",
    [
        "eval('1')",
        "x = [exec(line) for line in lines]",
        "import pickle",
        "def f():\n    from pickle import loads",
        "import os, marshal",
        "np.load(path, allow_pickle=True)",
        "subprocess.run(line, shell=True)",
    ],
)
def test_the_search_for_what_must_not_be_finds_it(code):
    assert list(suspicious(ast.parse(code)))


def test_the_search_for_what_must_not_be_leaves_the_rest_alone():
    assert not list(suspicious(ast.parse("ast.literal_eval(x); re.compile(y); np.load(p, allow_pickle=False)")))


# One place for each learner.


def named_in(tree: ast.Module, names: set[str]) -> list[str]:
    """Find texts in code, other than the value of DEFAULT_LEARNER, that are the name of a learner."""
    defaults = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and any(getattr(own, "id", "") == "DEFAULT_LEARNER" for own in node.targets)
    ]
    return [
        f"line {node.lineno}: {node.value!r}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in names and node not in defaults
    ]


@pytest.mark.parametrize("name", MODULES)
def test_only_a_learners_own_module_knows_its_name(name):
    own = name.removeprefix("learn.")
    assert named_in(TREES[name], {*hk.LEARNERS} - {own}) == []


def test_the_search_for_names_of_learners_finds_them():
    code = 'DEFAULT_LEARNER = "dqprm"\nif run.learner in ("iql", other):\n    """Not dqprm."""'
    assert named_in(ast.parse(code), {*hk.LEARNERS}) == ["line 2: 'iql'"]


@pytest.mark.parametrize("name", hk.LEARNERS)
def test_a_learner_has_a_module_of_its_name_and_says_what_it_is(name):
    learner = hk.LEARNERS[name]
    assert learner is import_module(f"hocket.learn.{name}").LEARNER
    assert learner.name == name
    assert learner.summary and not learner.summary.endswith(".")


# What the checkers say.

CODE = [str(ROOT / name) for name in ("src", "tests", "bench", "examples") if (ROOT / name).exists()]


@pytest.mark.parametrize(
    "arguments",
    [("ruff", "check", *CODE), ("ruff", "format", "--check", *CODE), ("mypy",)],
    ids=["ruff check", "ruff format", "mypy"],
)
def test_the_checkers_have_nothing_to_say(arguments):
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
