"""The inner loops: plain functions over the arrays of `hocket.task.tables`, compiled by numba.

Nothing here allocates, raises, or knows a Python object. Work is cut into lanes that never look at each other, and a
lane's random numbers come from its own stream, so results do not depend on threads, chunks, or the lanes beside it.

Read `draws` and `actions` first, then `team`, the world of all agents, and `iql`, the shortest learner in it; `dqprm`
has the paper's algorithm twice, as a plain loop (`learn`) and for all states of a machine at once, and tests hold the
one to the other. `vectors` is about speed alone. An index is made a `u64` wherever it is known not to be negative:
numba then leaves out the question whether it counts from the end.
"""
