"""Messages of the protocol as bytes, numbers of seven bits at a time; and messages and log entries in words."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from hocket.errors import HocketError
from hocket.runtime.plan import Plan
from hocket.runtime.protocol import ACK, ASK, EVENT, LOCK, OFFER, REFUSE, Entry, Message

LARGEST_MESSAGE = 4_000_000  # bytes

# Of each kind: n is a number, i the incarnations of a lock, c a clock.
SHAPES = {OFFER: "nn", LOCK: "nnnic", REFUSE: "nn", EVENT: "nnnc", ACK: "n", ASK: "nnn"}


class MessageError(HocketError):
    """Bytes that are no message."""


def encode(message: Message) -> bytes:
    """Write a message."""
    kind, *fields = message
    numbers = [kind]
    for shape, value in zip(SHAPES[kind], fields, strict=True):
        if shape == "n":
            numbers.append(value)
        else:
            numbers += [len(value), *(value if shape == "i" else chain.from_iterable(value))]
    out = bytearray()
    for number in numbers:
        while number > 127:
            out.append(number & 127 | 128)
            number >>= 7
        out.append(number)
    return bytes(out)


def decode(data: bytes) -> Message:
    """Read a message; whatever is not one is a `MessageError`."""
    numbers = _unpack(data)
    try:
        kind = next(numbers)
        message: list[object] = [kind]
        for shape in SHAPES[kind]:
            value = next(numbers)  # or how many there are
            if shape == "n":
                message.append(value)
            elif shape == "i":
                message.append(tuple(next(numbers) for _ in range(value)))
            else:
                message.append(tuple((next(numbers), next(numbers)) for _ in range(value)))
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


def fits(message: Message, agents: int, events: int) -> bool:
    """Say whether a message speaks of agents and events that there are."""
    kind, *fields = message
    if kind in (LOCK, EVENT, ASK) and not (fields[0] < agents and fields[2] < events):
        return False
    return kind not in (LOCK, EVENT) or all(pair < agents * agents for pair, _ in fields[-1])


def describe_entry(plan: Plan, agent: int, entry: Entry, before: str = "") -> str:
    """Say what an agent did, as its log has it."""
    who = f"{before}{plan.agents[agent]}"
    match entry:
        case ("start", int(incarnation)):
            return f"{who} starts{'' if incarnation == 1 else ' again'}"
        case ("promise", int(first), int(number), int(event), *_):
            return f"{who} promises {plan.events[event]} (transaction {number} of {plan.agents[first]}) and holds still"
        case ("release", int(first), int(number)):
            return f"{who} is released from transaction {number} of {plan.agents[first]}"
        case ("decide", _, _, int(event), *_):
            return f"{who} decides: {plan.events[event]} has happened"
        case ("hear", int(sender), _, _, int(event), *_):
            return f"{who} hears from {plan.agents[sender]} of {plan.events[event]}"
        case ("stop",):
            return f"{who} stops"
    return f"{who} notes {entry[0]}"


def describe_message(plan: Plan, sender: int, receiver: int, message: Message, before: str = "") -> str:
    """Say what is in a message."""
    way = f"{before}{plan.agents[sender]} to {plan.agents[receiver]}"
    match message:
        case (kind, _, int(events)) if kind == OFFER:
            return f"{way}: would agree on {', '.join(plan.named(events)) or 'nothing'}"
        case (kind, int(first), int(number), int(event), *_) if kind == LOCK:
            return f"{way}: lock for {plan.events[event]} (transaction {number} of {plan.agents[first]})"
        case (kind, int(first), int(number)) if kind == REFUSE:
            return f"{way}: nothing comes of transaction {number} of {plan.agents[first]}"
        case (kind, _, _, int(event), *_) if kind == EVENT:
            return f"{way}: {plan.events[event]} has happened"
        case (kind, int(count)) if kind == ACK:
            return f"{way}: heard of {count}"
        case (kind, int(first), int(number), *_) if kind == ASK:
            return f"{way}: what became of transaction {number} of {plan.agents[first]}?"
    return f"{way}: a message"
