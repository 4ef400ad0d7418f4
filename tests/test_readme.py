"""The README does as it says: its shell sessions, its machine file, and its test command."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_every_session_in_the_readme_prints_what_it_shows(tmp_path):
    (tmp_path / "kitchen.toml").write_text(*blocks("toml"), encoding="utf-8")
    for session in blocks("console"):
        for line, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", session, re.MULTILINE):
            typed, _, command = line.rpartition(" | ")
            command = [sys.executable, "-m", *shlex.split(command)]
            keys = typed.removeprefix("echo ") + "\n" if typed else ""
            done = subprocess.run(
                command, cwd=tmp_path, input=keys, capture_output=True, text=True, encoding="utf-8", check=False
            )
            if shown or typed or "play" not in command:
                assert done.stdout == shown, line
            assert not done.stderr, line


def test_the_readme_has_one_command_for_the_tests():
    (command,) = blocks("sh tests")
    assert command.count("\n") == 1 and "pytest" in command and "--cov" in command


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md", *(f"docs/{n.name}" for n in DOCS)])
def test_every_file_that_is_named_is_there(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    named = re.findall(r"`((?:src|tests|docs|examples|bench)/[^\s`*]+)`", text)
    linked = re.findall(r"\]\((?!https?:)([^)#\s]+)", text)
    folders = [(ROOT, path) for path in named if "NAME" not in path]
    folders += [((ROOT / name).parent, path) for path in linked]
    assert [path for folder, path in folders if not (folder / path).exists()] == []
