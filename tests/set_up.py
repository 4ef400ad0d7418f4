"""Install what tests need and pip does not have: a browser. As root on Debian and its kin; elsewhere, say how.

python tests/set_up.py
"""

import os
import shutil
import subprocess
import sys

PACKAGES = ("chromium", "fonts-dejavu-core")  # what is written must be seen
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser() -> str | None:
    """Find a browser of Chromium's family."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def main() -> int:
    """Install a browser where there is none and where that is possible."""
    if find_browser() is not None:
        return 0
    if shutil.which("apt-get") is None or not hasattr(os, "geteuid") or os.geteuid() != 0:
        print("There is no Chromium here; tests of the report's page will be skipped (Debian: apt install chromium).")
        return 0
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (("update",), ("install", "--yes", "--no-install-recommends", *PACKAGES)):
        done = subprocess.run(["apt-get", "--quiet", "--quiet", *command], env=environment, check=False)
        if done.returncode:
            return done.returncode
    return 0 if find_browser() else 1


if __name__ == "__main__":
    sys.exit(main())
