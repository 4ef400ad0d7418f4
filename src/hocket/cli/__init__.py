"""The commands of the command line: `hocket check` is in check.py, and so on. Each is a dataclass that can `run`."""
