"""Try hocket with the lowest and the newest versions of its dependencies, on each Python that is installed.

    python bench/versions.py                       every Python from 3.11 to 3.14 that is there
    python bench/versions.py --pythons 3.12 --kinds lowest

For each it makes an environment in a temporary folder, installs the core dependencies from wheels only, and runs a
small piece of everything: a check, a formula, training, evaluation and a drawing. It prints a row of the table in
CONTRIBUTING.md.
"""

import argparse
import re
import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
TRIED = """
import sys, tempfile, hocket as hk
assert hk.check_task("buttons").ok
assert len(hk.from_ltlf("F(a & X F b)").states) == 3
task = hk.rendezvous(agents=2, rows=3, columns=3)
runs = hk.train(task, seeds=2, steps=300, settings={"test_every": 100})
assert len(hk.evaluate(task, runs, episodes=5)) == 2
from hocket.__main__ import main
sys.argv = ["hocket", "show", "buttons", "-o", tempfile.mkdtemp() + "/buttons.svg"]
try:
    main()
except SystemExit as ended:
    assert ended.code == 0
"""


def requirements(kind: str) -> list[str]:
    """List the core dependencies: as they are declared, or at the newest patches of their lowest versions."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    if kind == "newest":
        return list(declared)
    lowest = [re.match(r"([\w-]+)>=([\d.]+)", line) for line in declared]
    return [f"{match[1]}~={match[2]}.0" + ".0" * ("." not in match[2]) for match in lowest if match is not None]


def environment(python: str, kind: str, folder: Path) -> tuple[Path | None, str]:
    """Make an environment; None and why, where that is not possible."""
    program = shutil.which(f"python{python}")
    if program is None or subprocess.run([program, "-c", ""], capture_output=True, check=False).returncode:
        return None, "not tried: this Python was not at hand"
    subprocess.run([program, "-m", "venv", folder], check=True, capture_output=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    installed = subprocess.run([*pip, *requirements(kind)], capture_output=True, text=True, check=False)
    if installed.returncode:
        lines = [line for line in installed.stderr.splitlines() if line.startswith("ERROR")]
        return None, (lines or ["cannot be installed"])[-1].removeprefix("ERROR: ")
    return folder / "bin" / "python", ""


def versions(python: Path) -> str:
    """Say which versions of the main dependencies are there."""
    names = ("numpy", "numba", "scipy", "matplotlib", "pygraphviz", "tyro")
    code = f"from importlib.metadata import version\nprint(*(f'{{n}} {{version(n)}}' for n in {names}), sep=', ')"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def attempt(python: str, kind: str) -> str:
    """Try one combination; return a row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        program, reason = environment(python, kind, Path(folder))
        if program is None:
            return f"| {python} | {kind} | {reason} | |"
        surroundings = {"PYTHONPATH": str(ROOT / "src"), "HOME": folder, "PATH": "/usr/bin:/bin", "MPLBACKEND": "agg"}
        ended = subprocess.run([program, "-c", TRIED], env=surroundings, capture_output=True, text=True, check=False)
        lines = ended.stderr.strip().splitlines() or [""]
        outcome = "works" if ended.returncode == 0 else f"fails: {lines[-1]:.80}"
        return f"| {python} | {kind} | {outcome} | {versions(program)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pythons", nargs="*", default=PYTHONS)
    parser.add_argument("--kinds", nargs="*", default=("lowest", "newest"), choices=("lowest", "newest"))
    asked = parser.parse_args()
    print("| Python | dependencies | outcome | versions |\n| --- | --- | --- | --- |")
    for python in asked.pythons:
        for kind in asked.kinds:
            print(attempt(python, kind), flush=True)


if __name__ == "__main__":
    main()
