"""Messages of the protocol as bytes (seven bits of a number in each); messages and log entries in words."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from hocket.errors import HocketError
from hocket.runtime.plan import Plan
from hocket.runtime.protocol import ACK, EVENT, LOCK, MESSAGES, OFFER, REFUSE, Entry, Message, has_shape

LARGEST_MESSAGE = 4_000_000  # bytes


class MessageError(HocketError):
    """Bytes that are not a message."""


def encode(message: Message) -> bytes:
    """Write a message."""
    kind, *fields = message
    numbers = [kind]
    for shape, value in zip(MESSAGES[kind], fields, strict=True):
        if shape in "ic":
            numbers += [len(value), *(value if shape == "i" else chain.from_iterable(value))]
        else:
            numbers.append(value)
    out = bytearray()
    for number in numbers:
        while number > 127:
            out.append(number & 127 | 128)
            number >>= 7
        out.append(number)
    return bytes(out)


def decode(data: bytes) -> Message:
    """Read a message; bytes that are not one raise a `MessageError`."""
    numbers = _unpack(data)
    try:
        kind = next(numbers)
        message: list[object] = [kind]
        for shape in MESSAGES[kind]:
            value = next(numbers)  # of a tuple: its length
            if shape == "i":
                message.append(tuple(next(numbers) for _ in range(value)))
            elif shape == "c":
                message.append(tuple((next(numbers), next(numbers)) for _ in range(value)))
            else:
                message.append(value)
        if next(numbers, None) is not None:
            raise MessageError("a message has more in it than it should")
    except (StopIteration, RuntimeError, KeyError):
        raise MessageError("a message is cut, or of no known kind") from None
    return tuple(message)


def _unpack(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data:
        number |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            yield number
            number = shift = 0
    if shift:
        raise MessageError("a message ends in the middle of a number")


def fits(message: Message, plan: Plan) -> bool:
    """Say whether all agents and events of a message exist."""
    kind, *fields = message
    clock = fields[-1] if "c" in MESSAGES[kind] else ()
    return has_shape(plan, MESSAGES[kind], fields) and all(pair < len(plan.agents) ** 2 for pair, _ in clock)


def describe_entry(plan: Plan, agent: int, entry: Entry, prefix: str = "") -> str:
    """Describe what an agent did, by an entry of its log."""
    name = f"{prefix}{plan.agents[agent]}"
    match entry:
        case ("start", int(incarnation)):
            return f"{name} starts{'' if incarnation == 1 else ' again'}"
        case ("promise", int(first), int(number), int(event), *_):
            return (
                f"{name} promises {plan.events[event]} (transaction {number} of {plan.agents[first]}) and holds still"
            )
        case ("release", int(first), int(number)):
            return f"{name} is released from transaction {number} of {plan.agents[first]}"
        case ("decide", _, _, int(event), *_):
            return f"{name} decides: {plan.events[event]} has happened"
        case ("hear", int(sender), _, _, int(event), *_):
            return f"{name} hears from {plan.agents[sender]} of {plan.events[event]}"
        case ("stop",):
            return f"{name} stops"
    return f"{name} notes {entry[0]}"


def describe_message(plan: Plan, sender: int, receiver: int, message: Message, prefix: str = "") -> str:
    """Describe a message."""
    route = f"{prefix}{plan.agents[sender]} to {plan.agents[receiver]}"
    match message:
        case (kind, _, int(events)) if kind == OFFER:
            return f"{route}: would agree on {', '.join(plan.named(events)) or 'nothing'}"
        case (kind, int(first), int(number), int(event), *_) if kind == LOCK:
            return f"{route}: lock for {plan.events[event]} (transaction {number} of {plan.agents[first]})"
        case (kind, int(first), int(number)) if kind == REFUSE:
            return f"{route}: transaction {number} of {plan.agents[first]} has failed"
        case (kind, _, _, int(event), *_) if kind == EVENT:
            return f"{route}: {plan.events[event]} has happened"
        case (kind, int(count)) if kind == ACK:
            return f"{route}: acknowledges {count}"
    return f"{route}: was transaction {message[2]} of {plan.agents[message[1]]} decided?"
