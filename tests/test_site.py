"""The site: it builds without a warning, asks nobody for anything, and can be searched from disk."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hocket as hk
from conftest import PATIENCE
from hocket.cli.main import Command

pytest.importorskip("myst_nb", reason="the extra `docs` is not installed")

ROOT = Path(__file__).resolve().parents[1]
TAGS = re.compile(r"<(?:script|img|iframe|source|link)\b[^>]*>")
LEFT_OUT = ("reference", "jupyter_execute", "__pycache__")  # written from the code, or by building
MODULES = {"deep", "gym", "runtime", "errors", "statistics"}
PROSE = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs", "src", "bench", "examples")
MISSPELT = "rin,appart"  # on purpose, in examples of mistakes


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site, once for all tests of this file; cells are executed."""
    folder = tmp_path_factory.mktemp("site")
    for name in ("docs", "bench", "examples", "src"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns(*LEFT_OUT))
    for path in ROOT.glob("*.md"):
        shutil.copy(path, folder)
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--quiet", "docs", "html"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "html"


def test_pages_load_nothing_from_elsewhere(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        tags = TAGS.findall(page.read_text(encoding="utf-8"))
        assert tags and not [tag for tag in tags if re.search(r'(?:src|href)="(?:[a-z]+:)?//', tag)], page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//|@import", sheet.read_text(encoding="utf-8")), sheet


def test_every_public_name_and_every_command_has_its_place(site):
    names = (site / "reference" / "api.html").read_text(encoding="utf-8")
    assert not [name for name in {*hk.__all__} - MODULES if f'id="hocket.{name}"' not in names]
    commands = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    assert all(f"hocket {command.__metadata__[0].name}" in commands for command in Command.__args__)


@pytest.mark.browser
def test_the_search_works_from_disk(site, browser):
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(f"{site.as_uri()}/search.html?q=counterexample")
    page.get_by_text("Search finished").wait_for()  # results come one by one
    found = page.locator("ul.search li a").all_inner_texts()
    page.close()
    assert any("Decomposition" in title for title in found)


def test_words_are_spelt_as_they_are():
    pytest.importorskip("codespell_lib")
    options = ["--skip", "*.svg,*.png,*.ipynb,*.js,*.csv,reference", "--ignore-words-list", MISSPELT]
    done = subprocess.run(
        [sys.executable, "-m", "codespell_lib", *options, *PROSE], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
