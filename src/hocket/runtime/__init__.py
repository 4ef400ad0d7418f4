"""The team outside of the simulator: each agent a process or a robot of its own, on a network, through crashes.

The public names are those of the stub beside this file; each is loaded when it is first used.
"""

from hocket.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
