"""Run the command line: python -m hocket, or the script hocket."""

from __future__ import annotations

import sys

INTERNAL_ERROR = 70  # as of an error within a command


def main() -> None:
    """Load the command line and run it; if it cannot be loaded, exit with a code that is not that of the answer no."""
    try:
        from hocket.cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:  # too little memory shows in many ways while libraries are loaded
        print(f"hocket: cannot be loaded: {error or type(error).__name__}", file=sys.stderr)
        sys.exit(INTERNAL_ERROR)
    run()


if __name__ == "__main__":
    main()
