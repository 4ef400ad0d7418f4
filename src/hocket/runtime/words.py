"""What agents say and log, in words."""

from __future__ import annotations

from hocket.runtime.plan import Plan
from hocket.runtime.protocol import ACK, ASK, EVENT, LOCK, OFFER, REFUSE, Entry, Message


def describe_entry(plan: Plan, agent: int, entry: Entry) -> str:
    """Say what an agent did, as its log has it."""
    who = plan.agents[agent]
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


def describe_message(plan: Plan, sender: int, receiver: int, message: Message) -> str:
    """Say what is in a message."""
    way = f"{plan.agents[sender]} to {plan.agents[receiver]}"
    match message:
        case (kind, _, int(events)) if kind == OFFER:
            named = [name for place, name in enumerate(plan.events) if events >> place & 1]
            return f"{way}: would agree on {', '.join(named) or 'nothing'}"
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
