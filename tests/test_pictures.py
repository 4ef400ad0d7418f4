"""The pictures of docs: each is shown somewhere, and drawings are what hocket draws today."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"


def load_makers():
    """Load the script that makes the pictures."""
    about = importlib.util.spec_from_file_location("make_pictures", PICTURES / "make.py")
    module = importlib.util.module_from_spec(about)
    about.loader.exec_module(module)
    return module.makers()


MAKERS = load_makers()


def what_is_drawn(path: Path) -> list[str]:
    """List all texts, titles and colours of a drawing; where they stand depends on the fonts of a machine."""
    marks = r"<title>[^<]*|>[^<\s][^<]*</text>|(?:fill|stroke)(?:=\"[^\"]*\"|: #\w+)"
    return re.findall(marks, path.read_text(encoding="utf-8"))


def test_every_picture_can_be_made_and_is_shown_on_some_page():
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    shown = {name for page in pages for name in re.findall(r"pictures/([\w.-]+)", page.read_text(encoding="utf-8"))}
    kept = {path.name for path in PICTURES.iterdir() if path.suffix in (".svg", ".png")}
    dark = {name for name in kept if name.endswith("-dark.png") and name.replace("-dark", "") in shown}
    assert kept == MAKERS.keys() == shown | dark


@pytest.mark.parametrize("name", [name for name in MAKERS if name.endswith(".svg")])
def test_a_drawing_is_what_hocket_draws_today(name, tmp_path):
    MAKERS[name](tmp_path / name)
    assert what_is_drawn(tmp_path / name) == what_is_drawn(PICTURES / name) != []
