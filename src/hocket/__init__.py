"""Reward machines for cooperative multi-agent RL: split a team task into per-agent tasks, prove the split, train, run.

The public names are those of the stub beside this file: machines, tasks, training, studies and reports. Environments
and wrappers of third-party environments are in `hocket.gym`, networks in `hocket.deep`. Importing hocket loads none of
them; each is loaded when it is first used.
"""

from hocket.lazy import public_names

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
