"""Encoding of messages as bytes (variable-length integers, LEB128), and descriptions of messages and log entries."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from hocket.errors import HocketError
from hocket.runtime import protocol
from hocket.runtime.plan import Plan
from hocket.runtime.protocol import MESSAGES, Entry, Message, has_shape

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


def decode(data: bytes, events: int = 0) -> Message:
    """Read a message of a team with so many events; bytes that are not one raise a `MessageError`."""
    numbers = _decode_numbers(data, max(63, events))  # an offer is a number with a bit for each event
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
            raise MessageError("a message is longer than its kind allows")
    except (StopIteration, RuntimeError, KeyError):  # in a generator a StopIteration becomes a RuntimeError (PEP 479)
        raise MessageError("a message is truncated or of unknown kind") from None
    return tuple(message)


def _decode_numbers(data: bytes, most_bits: int) -> Iterator[int]:
    """Yield the numbers of a message; refuse longer ones, which would take quadratic time."""
    number = shift = 0
    for byte in data:
        number |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            yield number
            number = shift = 0
        elif shift >= most_bits:
            raise MessageError("a message has a number that is too long")
    if shift:
        raise MessageError("a message ends in the middle of a number")


def names_known_agents_and_events(message: Message, plan: Plan) -> bool:
    """Say whether all agents and events of a message exist."""
    kind, *fields = message
    clock = fields[-1] if "c" in MESSAGES[kind] else ()
    return has_shape(plan, MESSAGES[kind], fields) and all(pair < len(plan.agents) ** 2 for pair, _ in clock)


def describe_entry(plan: Plan, agent: int, entry: Entry, label: str = "") -> str:
    """Describe what an agent did, by an entry of its log."""
    name = f"{label}{plan.agents[agent]}"
    match entry:
        case ("start", int(incarnation)):
            return f"{name} starts{'' if incarnation == 1 else ' again'}"
        case ("promise", int(first_decider), int(transaction), int(event), *_):
            promised = f"{plan.events[event]} (transaction {transaction} of {plan.agents[first_decider]})"
            return f"{name} promises {promised} and holds still"
        case ("release", int(first_decider), int(transaction)):
            return f"{name} is released from transaction {transaction} of {plan.agents[first_decider]}"
        case ("decide", _, _, int(event), *_):
            return f"{name} decides: {plan.events[event]} has happened"
        case ("hear", int(sender), _, _, int(event), *_):
            return f"{name} hears from {plan.agents[sender]} of {plan.events[event]}"
        case ("stop",):
            return f"{name} stops"
    return f"{name} notes {entry[0]}"


def describe_message(plan: Plan, sender: int, receiver: int, message: Message, label: str = "") -> str:
    """Describe a message."""
    route = f"{label}{plan.agents[sender]} to {plan.agents[receiver]}"
    match message:
        case (protocol.OFFER, _, int(events)):
            return f"{route}: would agree on {', '.join(plan.named(events)) or 'nothing'}"
        case (protocol.LOCK, int(first_decider), int(transaction), int(event), *_):
            return f"{route}: lock for {plan.events[event]} (transaction {transaction} of {plan.agents[first_decider]})"
        case (protocol.REFUSE, int(first_decider), int(transaction)):
            return f"{route}: transaction {transaction} of {plan.agents[first_decider]} has failed"
        case (protocol.EVENT, _, _, int(event), *_):
            return f"{route}: {plan.events[event]} has happened"
        case (protocol.ACK, int(count)):
            return f"{route}: acknowledges {count}"
    return f"{route}: was transaction {message[2]} of {plan.agents[message[1]]} decided?"
