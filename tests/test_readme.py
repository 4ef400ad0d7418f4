"""The README does as it says: its shell sessions, its machine file, and its test command."""

import re
from pathlib import Path

import pytest

from sessions import agrees, run_page

ROOT = Path(__file__).resolve().parents[1]
PATHS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in PATHS if path.parent.name != "reference"
}  # those written from the code need no holding against it
README = PAGES["README.md"]


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if "```console" in page])
def test_every_session_on_a_page_prints_what_it_shows(name, tmp_path):
    for typed in run_page(PAGES[name], tmp_path):
        if typed.shown:
            assert agrees(typed.shown, typed.printed), f"{typed.line} prints\n{typed.printed}"
        assert not typed.errors, typed.line


def test_three_dots_stand_for_any_number_of_lines_and_nothing_else_does():
    assert agrees("a\n...\nb\n", "a\nb\n") and agrees("a\n...\nb\n", "a\nx\ny\nb\n")
    assert not agrees("a\n", "a\nb\n") and not agrees("a\nb\n", "a\n") and not agrees("a.c\n", "abc\n")


def test_the_readme_has_one_command_for_the_tests():
    (command,) = blocks("sh tests")
    assert command.count("\n") == 1 and "pytest" in command


@pytest.mark.parametrize("name", PAGES)
def test_every_file_that_is_named_is_there(name):
    text = PAGES[name]
    named = re.findall(r"`((?:src|tests|docs|examples|bench)/[^\s`*]+)`", text)
    linked = re.findall(r"\]\((?!https?:)([^)#\s]+)", text)
    folders = [(ROOT, path) for path in named if "NAME" not in path]
    folders += [((ROOT / name).parent, path) for path in linked]
    assert [path for folder, path in folders if not (folder / path).exists()] == []
