"""Install what tests need and pip does not have: browsers, MONA and zsh (as root on Debian).

python tests/set_up.py
"""

import os
import shutil
import subprocess
import sys

PACKAGES = ("chromium", "firefox-esr", "fonts-dejavu-core", "mona", "zsh")  # what is written must be seen
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser() -> str | None:
    """Find a browser of Chromium's family."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def is_complete() -> bool:
    """Say whether all is there."""
    return find_browser() is not None and all(map(shutil.which, ("firefox-esr", "mona", "zsh")))


def main() -> int:
    """Install what is not there, where that is possible."""
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


if __name__ == "__main__":
    sys.exit(main())
