"""Messages of the protocol as bytes: numbers of seven bits at a time, as few as there can be."""

from __future__ import annotations

from collections.abc import Iterable

from hocket.errors import HocketError
from hocket.runtime.protocol import ACK, ASK, EVENT, LOCK, OFFER, REFUSE, Clock, Message

LARGEST_MESSAGE = 4_000_000  # bytes

# Of each kind: n is a number, i the incarnations of a lock, c a clock.
SHAPES = {OFFER: "nn", LOCK: "nnnic", REFUSE: "nn", EVENT: "nnnc", ACK: "n", ASK: "nnn"}


class MessageError(HocketError):
    """Bytes that are no message."""


def encode(message: Message) -> bytes:
    """Write a message."""
    kind, *fields = message
    assert isinstance(kind, int)
    numbers = [kind]
    for shape, value in zip(SHAPES[kind], fields, strict=True):
        if shape == "n":
            numbers.append(value)
        else:
            assert isinstance(value, tuple)
            numbers.append(len(value))
            numbers += value if shape == "i" else [number for pair in value for number in pair]
    return _pack(numbers)


def decode(data: bytes) -> Message:
    """Read a message; whatever is not one is a `MessageError`."""
    numbers = iter(_unpack(data))
    try:
        kind = next(numbers)
        message: list[object] = [kind]
        for shape in SHAPES[kind]:
            value = next(numbers)
            if shape == "n":
                message.append(value)
            elif value > len(data):
                raise MessageError("a message says that it has more in it than its bytes")
            elif shape == "i":
                message.append(tuple(next(numbers) for _ in range(value)))
            else:
                message.append(tuple((next(numbers), next(numbers)) for _ in range(value)))
        if next(numbers, None) is not None:
            raise MessageError("a message has more in it than it should")
    except (StopIteration, RuntimeError, KeyError):
        raise MessageError("a message is cut, or of no known kind") from None
    return tuple(message)


def fits(message: Message, agents: int, events: int) -> bool:
    """Say whether a message speaks of agents and events that there are."""
    kind, *fields = message
    clock: Clock = ()
    if kind in (LOCK, EVENT, ASK) and not (fields[0] < agents and fields[2] < events):
        return False
    if kind in (LOCK, EVENT):
        clock = fields[-1]
    return all(pair < agents * agents for pair, _ in clock)


def _pack(numbers: Iterable[int]) -> bytes:
    out = bytearray()
    for number in numbers:
        while number > 127:
            out.append(number & 127 | 128)
            number >>= 7
        out.append(number)
    return bytes(out)


def _unpack(data: bytes) -> list[int]:
    numbers, number, shift = [], 0, 0
    for byte in data:
        number |= (byte & 127) << shift
        if byte & 128:
            shift += 7
        else:
            numbers.append(number)
            number = shift = 0
    if shift:
        raise MessageError("a message ends in the middle of a number")
    return numbers
