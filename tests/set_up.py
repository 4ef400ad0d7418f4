"""Prepare the tests: install browsers, MONA and zsh (as root on Debian), and compile what all processes of tests use.

python tests/set_up.py [WHAT]    # WHAT: what to install for Python meanwhile, such as ".[test]"
"""

import ast
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import DEVNULL

PACKAGES = ("chromium-headless-shell", "firefox-esr", "fonts-dejavu-core", "mona", "zsh")  # fonts: for browsers' text
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ROOT = Path(__file__).resolve().parents[1]
PIP = (sys.executable, "-m", "pip")
SETTINGS = {
    "cert": ("SSL_CERT_FILE", " "),
    "extra-index-url": ("UV_EXTRA_INDEX_URL", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "index-url": ("UV_INDEX_URL", " "),
}  # of pip: the variable by which uv is told, and what stands between several values
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


def install_for_python(wanted: list[str]) -> int:
    """Install packages of Python: with uv, in a third of the time that pip takes, or with pip where uv can't."""
    environment = {**os.environ, "UV_INDEX_STRATEGY": "unsafe-best-match"}  # as pip
    listed = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=False).stdout
    for name, value in (line.split("=", 1) for line in listed.splitlines() if "=" in line):
        variable, separator = SETTINGS.get(name.rpartition(".")[2], ("", ""))
        if variable:
            environment.setdefault(variable, separator.join(ast.literal_eval(value).split()))
    uv = (sys.executable, "-m", "uv", "pip", "install", "--python", sys.executable)
    for commands in ([(*PIP, "install", "uv"), (*uv, *wanted)], [(*PIP, "install", "--no-compile", *wanted)]):
        if not any(subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode for command in commands):
            return 0
    return 1


def main(wanted: list[str]) -> int:
    """Install packages of Python and, at the same time, others; compile modules and kernels."""
    with ThreadPoolExecutor() as pool:
        others = pool.submit(install)
        if wanted and install_for_python(wanted):
            return 1
        share_bytecode()
        compiling = [subprocess.Popen([sys.executable, *arguments], cwd=ROOT, stdout=DEVNULL) for arguments in COMPILE]
        for process in compiling:
            process.wait()
        return others.result()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
