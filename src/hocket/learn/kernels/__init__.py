"""The inner loops: plain functions over the arrays of `hocket.task.tables`, compiled by numba.

Nothing here allocates, raises, or knows a Python object. Work is cut into lanes that never look at each other, and a
lane's random numbers come from its own stream, so results do not depend on threads, chunks, or the lanes beside it.
"""
