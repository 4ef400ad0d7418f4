"""How far random searches go: a little way whenever the tests run, far in `bench/laws.py`."""

import os

from hypothesis import settings

SCALE = int(os.environ.get("HOCKET_SEARCH", "1"))


def examples(count: int, **named: object) -> settings:
    """Try a law on some random examples."""
    return settings(max_examples=count * SCALE, deadline=None, **named)


def search(count: int) -> range:
    """List the seeds of some random examples."""
    return range(count * SCALE)
