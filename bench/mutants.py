"""Do the tests notice mistakes? Makes those of mutants.toml, one at a time in a copy, and runs the tests of its topic.

python bench/mutants.py [PATH ...]: those in files whose paths below src/hocket begin so, or all. Prints which
test noticed each. Kernels are compiled anew for each mistake in them, so all take half an hour of a processor.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 900  # seconds that tests may take, which a mistake may have made endless


class Mutant(NamedTuple):
    """A mistake, and the tests that should notice it."""

    path: str  # below src/hocket
    right: str  # occurs once
    wrong: str
    tests: str  # below tests, with options of pytest


def find_witness(folder: Path, mutant: Mutant) -> str | None:
    """Make a mistake in a copy, run its tests until one fails, undo it, and name the test."""
    path = folder / "src" / "hocket" / mutant.path
    text = path.read_text(encoding="utf-8")
    assert text.count(mutant.right) == 1, f"{mutant.path} has changed: {mutant.right}"
    surroundings = {**os.environ, "PYTHONPATH": str(folder / "src"), "NUMBA_CACHE_DIR": str(folder / "cache")}
    surroundings.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *shlex.split(mutant.tests)]
    path.write_text(text.replace(mutant.right, mutant.wrong), encoding="utf-8")
    try:
        done = subprocess.run(
            command,
            cwd=folder / "tests",
            env=surroundings,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "no end"
    finally:
        path.write_text(text, encoding="utf-8")
    assert done.returncode in (0, 1, 2), done.stdout[-2000:]  # otherwise there were no tests
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return failed[1].rpartition("::")[2] if failed else None


def main() -> int:
    """Try all mutants, or those that are asked for."""
    paths, listed = sys.argv[1:], tomllib.loads((ROOT / "bench" / "mutants.toml").read_text(encoding="utf-8"))
    mutants = [Mutant(**entry) for entry in listed["mutant"]]
    chosen = [mutant for mutant in mutants if not paths or mutant.path.startswith(tuple(paths))]
    left_out = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "runs")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(shutil.copytree(ROOT, Path(place) / "copy", ignore=left_out))
        noticed = 0
        for mutant in chosen:
            witness = find_witness(folder, mutant)
            noticed += witness is not None
            print(f"{mutant.path}: {mutant.right} -> {mutant.wrong}\n    {witness or 'NOT NOTICED'}", flush=True)
    print(f"{noticed} of {len(chosen)} mistakes were noticed")
    return noticed < len(chosen)


if __name__ == "__main__":
    sys.exit(main())
