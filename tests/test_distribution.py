"""What a stranger gets: the wheel and the source archive, installed and read, and the files about the project."""

import ast
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import hocket as hk

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SOURCE = {"src", "tests", "docs", "examples", "bench", "pyproject.toml", ".gitignore", "PKG-INFO"}
PAPERS = {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "SECURITY.md"}


def run(*command: str | Path, **options) -> subprocess.CompletedProcess[str]:
    """Run a program apart from what the tests themselves import."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, env=environment, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """Build the source archive and, from it, the wheel, without fetching anything."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    return folder


@pytest.fixture(scope="module")
def wheel(built) -> Path:
    (found,) = built.glob("*.whl")
    return found


def files_of(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


# The archives.


def test_the_wheel_is_the_package_and_nothing_else(wheel):
    package = ROOT / "src" / "hocket"
    expected = {
        path.relative_to(package.parent).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    found = files_of(wheel)
    assert {name for name in found if ".dist-info/" not in name} == expected
    for kind in (
        "py.typed",
        "__init__.pyi",
        "task/builtin/buttons.toml",
        "study/builtin/paper.toml",
        "report/page/page.html",
    ):
        assert f"hocket/{kind}" in found


def test_the_source_archive_has_the_tests_and_the_papers_and_no_more(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = [Path(name).parts for name in archive.getnames()]
    assert {parts[1] for parts in names if len(parts) > 1} == SOURCE | PAPERS
    assert not any("__pycache__" in parts for parts in names)


def test_twine_has_nothing_to_say(built):
    run(sys.executable, "-m", "twine", "check", "--strict", *built.iterdir())


def test_the_wheel_says_what_it_is(wheel):
    about = metadata(wheel)
    assert (about["Name"], about["Version"]) == ("hocket", hk.__version__)
    assert about["Requires-Python"] == PROJECT["requires-python"] == ">=3.11"
    pythons = [words.rpartition(" ")[2] for words in about.get_all("Classifier") if "Python :: 3." in words]
    assert pythons[0] == "3.11" and pythons == [f"3.{minor}" for minor in range(11, 11 + len(pythons))]
    assert {*about.get_all("Provides-Extra")} == {*PROJECT["optional-dependencies"]}


def test_the_command_works_where_nothing_else_of_the_project_is(wheel, tmp_path):
    fresh = tmp_path / "fresh"
    run(sys.executable, "-m", "venv", "--without-pip", fresh)
    programs, (packages,) = fresh / ("Scripts" if os.name == "nt" else "bin"), fresh.rglob("site-packages")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", programs / "python")
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", "--no-compile", wheel)
    (packages / "dependencies.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    where = run(programs / "python", "-c", "import hocket; print(hocket.__file__)", cwd=tmp_path).stdout
    assert Path(where.strip()).is_relative_to(fresh)
    checked = run(programs / "hocket", "check", "buttons", cwd=tmp_path).stdout
    assert checked.startswith("buttons: 3 agents") and "\nDecomposable" in checked


# The papers.


def test_what_contributors_check_with_has_one_version_each_which_the_tests_take():
    extras = {
        extra: {required.name: required for required in map(Requirement, lines)}
        for extra, lines in PROJECT["optional-dependencies"].items()
    }
    for name, required in extras["dev"].items():
        (pin,) = required.specifier
        assert pin.operator == "=="
        assert name not in extras["test"] or extras["test"][name].specifier.contains(pin.version)


def test_hooks_before_a_commit_run_the_checkers_and_fetch_nothing():
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert local["repo"] == "local" and all(hook["language"] == "system" for hook in local["hooks"])
    assert [hook["entry"] for hook in local["hooks"]] == ["ruff check", "ruff format", "mypy"]


def test_the_citation_names_this_version_and_the_paper():
    said = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    required = {"cff-version", "message", "title", "authors"}
    known = required | {
        "type",
        "abstract",
        "version",
        "license",
        "keywords",
        "references",
        "date-released",
        "doi",
        "url",
    }
    assert required <= {*said} <= known
    assert (said["cff-version"], said["type"], said["version"]) == ("1.2.0", "software", hk.__version__)
    assert said["license"] == PROJECT["license"]
    assert all({*author} == {"name"} for author in said["authors"])
    (paper,) = said["references"]
    assert paper["type"] == "conference-paper" and paper["year"] == 2021
    assert [author["family-names"] for author in paper["authors"]] == ["Neary", "Xu", "Wu", "Topcu"]
    assert paper["title"] == "Reward Machines for Cooperative Multi-Agent Reinforcement Learning"
    assert paper["url"] == PROJECT["urls"]["Paper"]


def test_every_promise_of_security_names_tests_that_are_there():
    rows = re.findall(r"^\| (?!promise|---)(.+) \| (.+) \|$", (ROOT / "SECURITY.md").read_text(encoding="utf-8"), re.M)
    assert len(rows) >= 10
    for _, held_by in rows:
        named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", held_by)
        assert named and held_by.count("::") == len(named)
        for file, test in named:
            tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
            assert test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, test
