"""The random searches of the tests, gone further: python bench/laws.py [--times 20] [pytest's options]."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SEARCHES = ("searches", "strategies", "task_strategies")  # modules that say how many examples a law is tried on


def find_searches() -> list[str]:
    """List the files of tests that search at random."""
    paths = sorted((ROOT / "tests").glob("test_*.py"))
    words = [f"from {name} import" for name in SEARCHES] + ["@given("]
    return [str(path) for path in paths if any(word in path.read_text(encoding="utf-8") for word in words)]


def main() -> int:
    """Run them with many times as many examples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="how many times as many examples as in the tests")
    known, options = parser.parse_known_args()
    command = [sys.executable, "-m", "pytest", *(options or ["-n", "2"]), *find_searches()]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | {"HOCKET_SEARCH": str(known.times)}, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
