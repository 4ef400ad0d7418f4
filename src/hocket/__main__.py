"""Run the command line: python -m hocket."""

from hocket.cli.main import main

if __name__ == "__main__":
    main()
