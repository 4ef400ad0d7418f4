"""Deep learning with Stable-Baselines3: replay buffers for counterfactual experience, and weights without pickle.

The extra `deep` installs what this needs: in a clone, pip install ".[deep]". The public names are those of the stub
deep.pyi; each is loaded when it is first used.
"""

from hocket.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
