"""The memory that is available, and an error before it would be exceeded."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from hocket.errors import Refuse

MEMORY = Path("/proc/meminfo")  # of Linux; on other systems nothing is refused
GROUP = Path("/sys/fs/cgroup")  # the limits of a container
UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"))


def available_memory() -> int | None:
    """Return how many bytes are available to a process; None if that is unknown."""
    limits = [size * 1_024 for name, size in _sizes(MEMORY).items() if name == "MemAvailable:"]
    with suppress(OSError, ValueError):  # without a limit, it is "max"
        most, used = (int((GROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        sizes = _sizes(GROUP / "memory.stat")
        cache = sizes.get("active_file", 0) + sizes.get("inactive_file", 0)  # copies of files, which can be dropped
        limits.append(max(0, most - used + cache))
    return min(limits, default=None)


def _sizes(path: Path) -> dict[str, int]:
    """Read a file of lines that begin with a name and a number."""
    with suppress(OSError, ValueError, IndexError):
        rows = (line.split() for line in path.read_text().splitlines())
        return {row[0]: int(row[1]) for row in rows}
    return {}


def require_memory(needed: float, what: str, refuse: Refuse) -> None:
    """Raise an error if more bytes are needed than are available."""
    available = available_memory()
    if available is not None and needed > available:
        raise refuse(f"{what} takes about {shown_size(needed)} of memory, and {shown_size(available)} are available")


def shown_size(size: float) -> str:
    """Write a number of bytes, rounded.

    >>> shown_size(1_234_000_000), shown_size(87_654_321), shown_size(12)
    ('1.2 GB', '88 MB', '12 bytes')
    """
    for unit, name in UNITS:
        if size >= unit:
            return f"{size / unit:.1f} {name}" if size < 10 * unit else f"{size / unit:,.0f} {name}"
    return f"{size:,.0f} bytes"
