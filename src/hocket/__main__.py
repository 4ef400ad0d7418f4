"""Run the command line: python -m hocket."""

from hocket.cli import main

if __name__ == "__main__":
    main()
