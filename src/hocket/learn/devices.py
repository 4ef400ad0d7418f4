"""Where runs train: on the processor, or on a graphics processor."""

from __future__ import annotations

from hocket.errors import SettingsError, known_names

DEVICES = ("cpu", "cuda")


def check_device(device: str) -> None:
    """Refuse a device that is not known."""
    if device not in DEVICES:
        raise SettingsError(f"device {device!r} does not exist ({known_names(device, DEVICES)})")
