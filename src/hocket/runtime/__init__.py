"""The team outside of the simulator: each agent a process or a robot of its own, on a network, through crashes.

The stub of this module lists the public names; each is loaded when it is first used.
"""

from hocket.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
