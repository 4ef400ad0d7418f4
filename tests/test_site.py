"""The site: it builds without a warning, asks nobody for anything, and can be searched from disk."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hocket as hk
from accessibility import findings, rules_of
from conftest import PATIENCE
from hocket.cli.main import Command

pytest.importorskip("myst_nb", reason="the extra `docs` is not installed")

ROOT = Path(__file__).resolve().parents[1]
TAGS = re.compile(r"<(?:script|img|iframe|source|link)\b[^>]*>")
BUILD = """
import gc, sys
gc.disable()  # it takes a quarter of the time of building
from sphinx.cmd.build import main
sys.exit(main(["--fail-on-warning", "--quiet", "docs", "html"]))
"""
LEFT_OUT = ("reference", "jupyter_execute", "__pycache__")  # written from the code, or by building
MODULES = {"deep", "gym", "runtime", "errors", "statistics"}
PROSE = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs", "src", "bench", "examples")
MISSPELT = "rin,appart,ore,ane"  # the first two on purpose, in examples of mistakes


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site, once for all tests of this file; cells are executed."""
    folder = tmp_path_factory.mktemp("site")
    for name in ("docs", "bench", "examples", "src"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns(*LEFT_OUT))
    for path in ROOT.glob("*.md"):
        shutil.copy(path, folder)
    done = subprocess.run([sys.executable, "-c", BUILD], cwd=folder, capture_output=True, text=True, check=False)
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
    names = "".join(page.read_text(encoding="utf-8") for page in (site / "reference").glob("api-*.html"))
    assert not [name for name in {*hk.__all__} - MODULES if f'id="hocket.{name}"' not in names]
    commands = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    assert all(f"hocket {command.__metadata__[0].name}" in commands for command in Command.__args__)


def test_the_reference_begins_with_what_most_programs_need(site):
    page = (site / "reference" / "api.html").read_text(encoding="utf-8")
    places = [page.index(f"hk.{name}<") for name in ("load_task", "decompose", "repair", "train")]
    assert places == sorted(places) and "Load a task by a built-in name" in page


@pytest.fixture
def open_page(site, browser):
    """Open pages of the site."""
    contexts = []

    def opened(name, **more):
        contexts.append(browser.new_context(**more))
        contexts[-1].set_default_timeout(PATIENCE)
        page = contexts[-1].new_page()
        page.goto(f"{site.as_uri()}/{name}")
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.mark.browser
@pytest.mark.parametrize(
    ("word", "title", "most"), [("counterexample", "A task that is not decomposable", 4), ("install", "Install", 2)]
)
def test_the_search_works_from_disk_and_finds_pages_before_the_changelog(open_page, word, title, most):
    page = open_page(f"search.html?q={word}")
    page.get_by_text("Search finished").wait_for()  # results come one by one
    titles = page.locator("ul.search li a").all_inner_texts()
    assert any(title in other for other in titles[:most])
    assert "Changelog" not in titles[:8]


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["index", "tutorials/repair", "results", "decomposition", "reference/api-task"])
def test_axe_finds_nothing_on_pages(open_page, name, scheme):
    assert findings(open_page(f"{name}.html", color_scheme=scheme), *rules_of(scheme)) == []


@pytest.mark.browser
def test_what_is_to_be_typed_can_be_copied_without_prompts_and_output(open_page):
    page = open_page("tutorials/repair.html", permissions=["clipboard-read", "clipboard-write"])
    block = page.locator(".highlight-console").first
    block.hover()
    block.get_by_role("button", name="Copy").click()
    block.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "hocket check kitchen.toml\n"


PAPER = """() => getComputedStyle(document.querySelector("article img")).colorScheme"""


@pytest.mark.browser
def test_drawings_follow_the_theme_that_is_chosen(open_page):
    page = open_page("index.html", color_scheme="light")
    assert page.evaluate(PAPER) == "light"
    page.evaluate("document.body.dataset.theme = 'dark'")
    assert page.evaluate(PAPER) == "dark"
    page.goto(page.locator("article img").first.evaluate("image => image.src"))
    assert page.locator("polygon").first.evaluate("paper => getComputedStyle(paper).fill") == "rgb(255, 255, 255)"
    page.emulate_media(color_scheme="dark")
    assert page.locator("polygon").first.evaluate("paper => getComputedStyle(paper).fill") == "rgb(28, 31, 35)"


@pytest.mark.browser
@pytest.mark.parametrize("name", ["index", "results", "studies", "reference/api"])
def test_tables_fit(open_page, name):
    page = open_page(f"{name}.html", viewport={"width": 1440, "height": 900})
    cut = "box => box.scrollWidth > box.clientWidth + 1"
    assert not [table.inner_text()[:60] for table in page.locator(".table-wrapper").all() if table.evaluate(cut)]


def test_words_are_spelt_as_they_are():
    pytest.importorskip("codespell_lib")
    options = ["--skip", "*.svg,*.png,*.ipynb,*.js,*.csv,reference", "--ignore-words-list", MISSPELT]
    done = subprocess.run(
        [sys.executable, "-m", "codespell_lib", *options, *PROSE], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
