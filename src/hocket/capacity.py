"""How much memory there is, and a sentence for what would take more: before it is tried, not when it fails."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hocket.errors import HocketError

MEMORY = Path("/proc/meminfo")  # of Linux; nothing is refused where nobody knows
GROUP = Path("/sys/fs/cgroup")  # the limits of a container
UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"))


def available_memory() -> int | None:
    """Say how many bytes a process may still take without pushing others out; None where nobody knows."""
    limits = [limit for limit in (_of_machine(), _of_group()) if limit is not None]
    return min(limits, default=None)


def _of_machine() -> int | None:
    with suppress(OSError, ValueError, IndexError):
        for line in MEMORY.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1_024
    return None


def _of_group() -> int | None:
    with suppress(OSError, ValueError):  # where there is no limit, it is "max"
        most, used = (int((GROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        return max(0, most - used + _copies_of_files())
    return None


def _copies_of_files() -> int:
    """Say how much of what a container uses are copies of files, which make room for anything else."""
    with suppress(OSError, ValueError):
        lines = (line.split() for line in (GROUP / "memory.stat").read_text().splitlines())
        return sum(int(size) for name, size in lines if name in ("active_file", "inactive_file"))
    return 0


def require_memory(needed: float, what: str, refuse: Callable[[str], HocketError]) -> None:
    """Refuse what needs more bytes than there are."""
    there = available_memory()
    if there is not None and needed > there:
        raise refuse(f"{what} takes about {shown_size(needed)} of memory, and {shown_size(there)} are available")


def shown_size(size: float) -> str:
    """Round a number of bytes to what one reads.

    >>> shown_size(1_234_000_000), shown_size(87_654_321), shown_size(12)
    ('1.2 GB', '88 MB', '12 bytes')
    """
    for unit, name in UNITS:
        if size >= unit:
            return f"{size / unit:.1f} {name}" if size < 10 * unit else f"{size / unit:,.0f} {name}"
    return f"{size:,.0f} bytes"
