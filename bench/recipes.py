"""Do the recipes of docs/recipes.md run, each in a fresh environment?

    python bench/recipes.py [NAME ...] [--keep FOLDER]

Makes a virtual environment for each recipe, installs what its first lines say, and runs it. With --keep environments
stay in a folder, and are used again. It needs the network, or a mirror that pip knows of, and some gigabytes of disk.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
RECIPES = ("overcooked", "navigation", "locked_room", "meeting", "tune")


def requirements(script: Path) -> list[str]:
    """Read what a recipe says is to be installed."""
    line = re.search(r"^ +pip install (.*)$", script.read_text(), re.MULTILINE)
    return shlex.split(line[1]) if line else ["mpe2", ".[gym]"]


def run_recipe(name: str, folder: Path) -> bool:
    script, home = ROOT / "examples" / f"{name}.py", folder / name
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *requirements(script)], cwd=ROOT, check=True)
    begin = time.perf_counter()
    said = subprocess.run([python, "-W", "ignore", script], cwd=folder, check=False, capture_output=True, text=True)
    print(f"{name}: {'ran' if said.returncode == 0 else 'failed'} in {time.perf_counter() - begin:.0f} s")
    print("  " + (said.stdout if said.returncode == 0 else said.stderr).strip().replace(os.linesep, f"{os.linesep}  "))
    return said.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=RECIPES, help="the recipes to run; by default all")
    parser.add_argument("--keep", type=Path, default=None, help="a folder for the environments")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.keep or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        failed = [name for name in options.names if not run_recipe(name, folder)]
        return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
