"""The rules of the house: which module may import which, what an import costs, and what the checkers say."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hocket as hk

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "hocket"

# A module may import from earlier lines only. "" is the package itself, which imports nothing until it is used.
LAYERS = (
    ("",),
    ("tasks", "studies", "adapters", "commands", "kernels", "learners", "report"),  # folders
    ("errors",),
    ("showing",),
    ("graphs",),
    ("hitting", "statistics"),
    ("draws",),
    ("kernels.compiler",),
    ("kernels.primitives",),
    ("kernels.lanes", "kernels.team"),
    ("kernels.hierarchical", "kernels.independent", "kernels.joint"),
    ("names",),
    ("machine",),
    ("conversion",),
    ("algebra",),
    ("composition",),
    ("confusion",),
    ("decomposition",),
    ("assignment",),
    ("files",),
    ("notation.design",),
    ("notation.hoa.letters", "notation.hoa.tokens"),
    ("notation.hoa.syntax",),
    ("notation.hoa.meaning",),
    ("notation.dot", "notation.hoa", "notation.json", "notation.text", "notation.toml"),
    ("notation",),
    ("pages",),
    ("drawing",),
    ("world",),
    ("shapes", "palette"),
    ("task",),
    ("landmarks",),
    ("picture", "scene"),
    ("gates", "labelling"),
    ("board", "tables"),
    ("inspection",),
    ("episode",),
    ("taskfile",),
    ("catalogue",),
    ("learners.settings",),
    ("learners.optimal", "learners.world"),
    ("learners.players", "learners.policies"),
    ("learners.blocks",),
    ("learners.training",),
    ("learners.compilation", "records"),
    ("benchmark", "estimates", "exact", "review"),
    ("adapters.alone", "adapters.frames", "adapters.observations"),
    ("adapters.individual",),
    ("adapters.team", "adapters.vector"),
    ("adapters.conversions", "adapters.noticing", "adapters.playing"),
    ("adapters.practice",),
    ("adapters.wrapping",),
    ("adapters.networks", "adapters.plane", "adapters.replay_buffer"),
    ("adapters.plane_tasks",),
    ("engines", "evaluation", "store"),
    ("study",),
    ("report.summary", "tensorboard"),
    ("report.figures.canvas", "report.page.markup"),
    ("report.figures.curves", "report.figures.panels", "report.page.encoding", "report.page.maps"),
    ("report.figures.maps", "report.page.overview", "report.page.standings"),
    ("report.figures", "report.page.sections"),
    ("report.page",),
    ("display",),
    ("commands.map",),
    ("commands.terminal",),
    ("commands.game",),
    ("commands.studies", "commands.workshop"),
    ("commands.design", "commands.learning", "commands.play"),
    ("cli",),
    ("__main__",),
)
LEAVES = ("graphs", "hitting", "statistics")  # may import nothing of hocket but its errors
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


# The order of the modules.


def test_every_module_has_its_layer_and_every_layer_its_modules():
    assert sorted(name for layer in LAYERS for name in layer) == sorted(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_from_earlier_layers_only(name):
    depth = {module: place for place, layer in enumerate(LAYERS) for module in layer}
    assert name in depth, "a new module needs a place in the list of layers"
    later = {module for module in imported(name) if depth.get(module, len(LAYERS)) >= depth[name]}
    assert later == set()


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
