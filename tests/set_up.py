"""Install what tests need and pip does not have: a browser and MONA. As root on Debian and its kin; elsewhere, say how.

python tests/set_up.py
"""

import os
import shutil
import subprocess
import sys

PACKAGES = ("chromium", "fonts-dejavu-core", "mona")  # what is written must be seen
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser() -> str | None:
    """Find a browser of Chromium's family."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def main() -> int:
    """Install a browser and MONA where they are not there and where that is possible."""
    if find_browser() is not None and shutil.which("mona") is not None:
        return 0
    if shutil.which("apt-get") is None or not hasattr(os, "geteuid") or os.geteuid() != 0:
        print("Without Chromium and MONA, tests that need them are skipped (Debian: apt install chromium mona).")
        return 0
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (("update",), ("install", "--yes", "--no-install-recommends", *PACKAGES)):
        done = subprocess.run(["apt-get", "--quiet", "--quiet", *command], env=environment, check=False)
        if done.returncode:
            return done.returncode
    return 0 if find_browser() and shutil.which("mona") else 1


if __name__ == "__main__":
    sys.exit(main())
