"""Prepare the tests: install browsers, MONA and zsh (as root on Debian), and compile what all processes of tests use.

python tests/set_up.py [WHAT]    # WHAT: what pip is to install meanwhile, such as ".[test]"
"""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import DEVNULL

PACKAGES = ("chromium", "firefox-esr", "fonts-dejavu-core", "mona", "zsh")  # a browser without fonts shows no text
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ROOT = Path(__file__).resolve().parents[1]
BYTECODE = ROOT / ".pytest_cache" / "bytecode"
KERNELS = """
from hocket.learn.catalogue import LEARNERS
from hocket.learn.warmup import compile_kernels
for learner in LEARNERS:
    for seeds in (1, 64):
        compile_kernels(learner, seeds)
"""
COMPILE = (
    ("-m", "pytest", "--collect-only", "-qq", "--pyargs", "hocket", "tests", "README.md", "docs"),
    ("-c", KERNELS),
)


def share_bytecode() -> None:
    """Compile Python once for all processes of the tests, also where the environment forbids it to write bytecode.

    Most tests that start a process would otherwise spend most of their time on compiling what it imports.
    """
    if sys.dont_write_bytecode:
        sys.dont_write_bytecode, sys.pycache_prefix = False, str(BYTECODE)
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(BYTECODE)


def find_browser() -> str | None:
    """Find a browser of Chromium's family."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def is_complete() -> bool:
    """Say whether all is there."""
    return find_browser() is not None and all(map(shutil.which, ("firefox-esr", "mona", "zsh")))


def install() -> int:
    """Install the packages that are missing, where that is possible."""
    if is_complete():
        return 0
    if shutil.which("apt-get") is None or not hasattr(os, "geteuid") or os.geteuid() != 0:
        names = " ".join(PACKAGES)
        print(f"Without Chromium, Firefox, MONA and zsh, tests that need them are skipped (apt install {names}).")
        return 0
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (("update",), ("install", "--yes", "--no-install-recommends", *PACKAGES)):
        done = subprocess.run(["apt-get", "--quiet", "--quiet", *command], env=environment, check=False)
        if done.returncode:
            return done.returncode
    return 0 if is_complete() else 1


def main(wanted: list[str]) -> int:
    """Install packages of pip and, at the same time, others; compile modules and kernels."""
    with ThreadPoolExecutor() as pool:
        others = pool.submit(install)
        if wanted:
            pip = subprocess.run(
                [sys.executable, "-m", "pip", "install", "--no-compile", *wanted], cwd=ROOT, check=False
            )
            if pip.returncode:
                return pip.returncode
        share_bytecode()
        compiling = [subprocess.Popen([sys.executable, *arguments], cwd=ROOT, stdout=DEVNULL) for arguments in COMPILE]
        for process in compiling:
            process.wait()
        return others.result()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
