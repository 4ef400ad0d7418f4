"""The commands of the command line, a module for each group; each is a dataclass with a method `run`."""
