"""The inner loops: functions over the arrays of `hocket.task.tables`, compiled by numba.

Nothing here allocates, raises, or uses Python objects. Lanes are independent, and each draws from its own stream of
random numbers, so results do not depend on threads, pieces, or other lanes.

Read `draws` and `actions` first, then `team`, the step of a team, and `iql`, the shortest learner in it; `dqprm` has
the paper's algorithm as a plain loop (`learn`) and for all states of a machine as one vector. `vectors` is for speed
alone. Indices that are never negative are converted to `u64`, as numba would check the sign of others.
"""
