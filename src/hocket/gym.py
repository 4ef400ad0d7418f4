"""Tasks as Gymnasium and PettingZoo environments, wrapped third-party environments, and results of other learners.

The extra `gym` installs what this needs: in a clone, pip install ".[gym]". The public names are those of the stub
gym.pyi; each is loaded when it is first used.
"""

from hocket.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
