"""Where runs train: on the processor, or on a graphics processor."""

from __future__ import annotations

from hocket.errors import require_known

DEVICES = ("cpu", "cuda")


def check_device(device: str) -> None:
    """Refuse a device that is not known."""
    require_known(device, DEVICES, "device")
