"""hocket's tasks for Gymnasium and PettingZoo, other people's worlds as tasks, and results of learners from elsewhere.

The extra `gym` installs what this needs: pip install "hocket[gym]". The public names are those of the stub beside this
file; each is loaded when it is first used.
"""

from hocket.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
