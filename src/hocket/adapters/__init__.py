"""hocket's worlds and machines in the terms of other libraries.

Importing this registers the environments with Gymnasium where that is installed, as the extra `gym` does.
"""

from importlib.util import find_spec

if find_spec("gymnasium") is not None:
    from gymnasium.envs.registration import register

    register(
        "hocket/Individual-v0",
        entry_point="hocket.adapters.individual:individual_env",
        vector_entry_point="hocket.adapters.individual:individual_vector_env",
    )
