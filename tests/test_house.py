"""The rules of the house: which module may import which, what an import costs, and what the checkers say."""

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

import hocket as hk
from hocket.cli.main import COMMANDS, Command
from hocket.lazy import read_stub

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "hocket"

# The rows of the table of packages in docs/design.md, in its order: folders, and in the first row the modules outside
# of folders. Below it, a section for each of them has a table of its modules.
DESIGN = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
PACKAGES, _, SECTIONS = DESIGN.partition("## The modules")
TABLE = re.findall(r"^\| `(.+?)` \|", PACKAGES, flags=re.MULTILINE)
ROOMS = [tuple(name.strip("/") for name in row.split("`, `")) for row in TABLE]
PUBLIC = ("", "deep", "gym", "runtime")  # modules of public names; like what runs the package, they belong to no room
TOP = (*PUBLIC, "__main__")
LEAVES = ("arguments", "graphs", "hitting_set", "statistics")  # may import nothing of hocket but errors and arguments
FORBIDDEN_CALLS = ("eval", "exec", "compile", "__import__")
FORBIDDEN_MODULES = ("pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib")


def module_name(path: Path) -> str:
    """Name a module of the package by its path."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def tree_of(name: str) -> ast.Module:
    """Parse a module."""
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


def imported(name: str) -> set[str]:
    """List the modules of hocket that a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.Import):
            dotted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: imports are written out in full"
            dotted = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found.update(nearest_module(path) for path in dotted if path.split(".")[0] == "hocket")
    return found


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


def test_the_page_on_design_lists_every_module_of_a_package_and_no_other():
    sections = SECTIONS.partition("\n## ")[0].split("\n### ")[1:]
    assert len(sections) == len(ROOMS)
    for (package, *others), section in zip(ROOMS, sections, strict=True):
        heading, *lines = section.splitlines()
        assert others or heading.startswith(f"`{package}/`")
        folder = PACKAGE / package
        rows = [line.split(" | ")[0] for line in lines if line.startswith("| `")]
        listed = {name.strip("/") for row in rows for name in re.findall(r"`(.+?)`", row)}
        there = {package, *others}
        if not others:
            there = {path.stem for path in folder.glob("*.py")} - {"__init__"}
            there |= {path.parent.name for path in folder.glob("*/*.*")} - {"__pycache__"}
        assert listed == there, package


@pytest.mark.parametrize("name", [name for name in MODULES if name not in TOP])
def test_a_module_imports_from_its_own_room_and_those_above(name):
    assert {other for other in imported(name) if other and room(other) > room(name)} == set()


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith(("learn", "study"))])
def test_nothing_that_computes_or_stores_draws(name):
    assert not any(other.startswith("draw") for other in imported(name))


def test_no_module_needs_itself():
    order = TopologicalSorter({name: imported(name) - {name, ""} for name in MODULES if name})
    assert sorted(order.static_order())  # or it says which modules go round


@pytest.mark.parametrize("name", LEAVES)
def test_a_leaf_imports_nothing_of_hocket_but_errors_and_arguments(name):
    assert imported(name) <= {"errors", "arguments"}


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


@pytest.mark.parametrize("code", ["import hocket", "import hocket.gym", "import hocket as hk; hk.gym, hk.deep"])
def test_importing_hocket_loads_nothing_else(code):
    assert loaded_by(code) == {"hocket"}


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


def test_a_check_and_the_help_load_neither_the_compiler_nor_what_draws():
    check = "from hocket.cli.main import run; run(['check', 'rendezvous-2']); run(['study', '--help'])"
    heavy = {"numba", "matplotlib", "scipy", "pygraphviz", "gymnasium", "torch"}
    assert loaded_by(f"import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()): {check}") & heavy == set()


def test_reports_are_written_without_the_compiler():
    code = "import hocket as hk; hk.write_report, hk.summarize; from hocket.report import figures, page, summary"
    assert "numba" not in loaded_by(code)


def test_the_learners_are_listed_without_the_compiler():
    code = "import hocket as hk; [(own.name, own.summary, own.is_reference, own.steps) for own in hk.LEARNERS.values()]"
    assert loaded_by(code) == {"hocket", "numpy"}


def test_a_report_on_a_folder_of_runs_loads_no_compiler(tmp_path):
    task = hk.rendezvous(agents=2, rows=3, columns=3)
    hk.run_study(hk.Study([task], ["sweep", "optimal"], seeds=1, steps=1_000), tmp_path)
    report = f"from hocket.cli.main import run; run(['report', {str(tmp_path)!r}])"
    loaded = loaded_by(f"import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()): {report}")
    assert loaded & {"numba", "llvmlite", "matplotlib", "scipy"} == set()
    assert (tmp_path / "report.html").is_file()


def test_a_trained_policy_acts_without_the_compiler_or_other_packages(tmp_path):
    (run,) = hk.train("rendezvous-2", learner="optimal", seeds=1)
    hk.save_runs("rendezvous-2", [run], tmp_path)
    spot = (0, hk.load_task("rendezvous-2").machines["A1"].initial)
    act = f"hk.load_policies({str(tmp_path)!r})[0].actor('A1')({spot!r})"
    assert loaded_by(f"import hocket as hk; {act}") == {"hocket", "numpy"}


def test_a_command_is_loaded_from_the_module_that_the_table_of_commands_names():
    for annotated in get_args(Command):
        command, about = get_args(annotated)
        assert f"{command.__module__}.{command.__name__}" == f"hocket.cli.{COMMANDS[about.name]}"


def test_an_error_loads_nothing_else():
    assert loaded_by("import hocket as hk; hk.HocketError") == {"hocket"}


# The public names.

STUBS, DEPRECATED = ({name: read_stub(f"{MODULES[name]}i")[part] for name in PUBLIC} for part in (0, 1))
CONTRACT = """RewardMachine project compose minimize distinguish decompose repair cheapest_assignment load_machine
save_machine load_task rendezvous train evaluate HocketError"""  # what people and scripts rely on
SHADOWS = """
import inspect
import pkgutil
from importlib import import_module
import hocket
from hocket.lazy import read_stub
for found in pkgutil.walk_packages(hocket.__path__, "hocket."):
    if found.name != "hocket.__main__":
        import_module(found.name)
for module in (hocket, hocket.deep, hocket.gym, hocket.runtime):
    for name, home in read_stub(f"{module.__file__}i")[0].items():
        meant = import_module(f"hocket.{name}") if home == "hocket" else getattr(import_module(home), name)
        if inspect.unwrap(getattr(module, name)) is not inspect.unwrap(meant):
            print(name)
"""


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_the_one_that_type_checkers_are_told_of(name):
    module = import_module(f"hocket.{name}" if name else "hocket")
    assert module.__all__ == sorted(STUBS[name])
    assert {*module.__all__} <= {*dir(module)}
    for public, home in STUBS[name].items():
        value = import_module(f"hocket.{public}") if home == "hocket" else getattr(import_module(home), public)
        assert inspect.unwrap(getattr(module, public)) is inspect.unwrap(value)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_stub_says_nothing_but_where_public_names_live(name):
    tree = ast.parse(MODULES[name].with_suffix(".pyi").read_text(encoding="utf-8"))
    said = [alias for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert {alias.name for alias in said} == {alias.asname for alias in said} == {*STUBS[name]}
    rest = [ast.unparse(node) for node in tree.body if not isinstance(node, ast.ImportFrom | ast.Import | ast.Assign)]
    assert rest == ([] if name else ["__version__: str"])


@pytest.mark.parametrize("name", PUBLIC)
def test_a_deprecated_name_works_and_its_warning_names_the_new_one(name):
    module = import_module(f"hocket.{name}" if name else "hocket")
    for old, new in DEPRECATED[name].items():
        path = new if "." in new else f"{module.__name__}.{new}"
        with pytest.warns(DeprecationWarning, match=f"{module.__name__}.{old} is deprecated: use {path}$") as said:
            value = getattr(module, old)
        home, _, public = path.rpartition(".")
        assert value is getattr(import_module(home), public)
        assert said[0].filename == __file__
        assert old not in module.__all__ and old not in dir(module)


def test_no_public_name_has_two_homes():
    everything = [public for stub in STUBS.values() for public in stub]
    everything.remove("Agent")  # of a task, and in `hocket.runtime` one that runs
    assert len(everything) == len({*everything})


def test_what_people_rely_on_is_public():
    assert {*CONTRACT.split()} <= {*hk.__all__}


def test_no_module_is_named_like_something_public():
    modules = {name for name in MODULES if "." not in name}
    assert {public for public, home in STUBS[""].items() if public in modules and home != "hocket"} == set()


def test_no_import_of_a_module_hides_a_public_name():
    command = [sys.executable, "-W", "ignore", "-c", SHADOWS]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""


@pytest.mark.parametrize("name", ["hocket", "hocket.deep", "hocket.gym"])
def test_a_name_that_is_not_public_is_an_attribute_error(name):
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nonsense'"):
        import_module(name).nonsense  # noqa: B018


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
    assert list(suspicious(tree_of(name))) == []


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


# Names.

EMPTY_NAMES = {"own", "found"}  # say nothing of what they stand for
SHARED = {"Agent"}  # of a task, and in a robot's own loop: the same agent, under the same public name


def bound(tree: ast.Module) -> set[str]:
    """List the names that a module gives to variables and arguments."""
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}


def test_no_variable_has_a_name_that_says_nothing():
    assert [name for name in MODULES if bound(tree_of(name)) & EMPTY_NAMES] == []


def test_a_class_name_has_one_meaning():
    classes = [node.name for name in MODULES for node in ast.walk(tree_of(name)) if isinstance(node, ast.ClassDef)]
    private = {name for name in classes if name.startswith("_")}
    assert {name for name in classes if classes.count(name) > 1} <= private | SHARED


def test_the_search_for_names_finds_variables_arguments_and_loops():
    code = "def f(own): pass\nfor found, x in y: pass\nz = [one for one in w]"
    assert bound(ast.parse(code)) == {"own", "found", "x", "z", "one"}


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
def test_only_a_learners_own_folder_knows_its_name(name):
    folder = name.removeprefix("learn.").partition(".")[0].replace("_", "-")
    assert named_in(tree_of(name), {*hk.LEARNERS} - {folder.replace("_", "-")}) == []


def test_the_search_for_names_of_learners_finds_them():
    code = 'DEFAULT_LEARNER = "dqprm"\nif run.learner in ("iql", other):\n    """Not dqprm."""'
    assert named_in(ast.parse(code), {*hk.LEARNERS}) == ["line 2: 'iql'"]


@pytest.mark.parametrize("name", hk.LEARNERS)
def test_a_learner_has_a_folder_of_its_name_and_says_what_it_is(name):
    learner = hk.LEARNERS[name]
    assert learner is import_module(f"hocket.learn.{name.replace('-', '_')}").LEARNER
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


def test_every_mistake_for_the_tests_to_notice_can_still_be_made():
    for mutant in tomllib.loads((ROOT / "bench" / "mutants.toml").read_text(encoding="utf-8"))["mutant"]:
        code = (PACKAGE / mutant["path"]).read_text(encoding="utf-8")
        assert code.count(mutant["right"]) == 1, (mutant["path"], mutant["right"])


def test_every_marker_of_a_test_is_declared():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    known = {line.partition(":")[0] for line in settings["markers"]}
    used = {
        name
        for path in (ROOT / "tests").glob("*.py")
        for name in re.findall(r"pytest\.mark\.(\w+)", path.read_text(encoding="utf-8"))
    }
    assert used - known == {"filterwarnings", "parametrize", "skipif", "usefixtures"}  # which are pytest's
