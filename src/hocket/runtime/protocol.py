"""The protocol by which agents agree on events and tell each other: a state machine without a clock, and without I/O.

Chain commit, a linear two-phase commit. The deciders of an event are asked in the order of the agents, so that they
cannot block each other. The first logs a *promise* and sends a lock; each next one promises and passes the lock on; the
last one decides, by logging the event. An agent that has promised holds still, and hears of no other event, until the
event or a refusal comes; so all conditions hold at the instant of the decision. An event with one decider is decided at
once. All others that know an event are then told, in causal order, again and again until they acknowledge it.

An input (a message, a tick, what the agent perceives) changes the state and yields log entries and messages: entries
have to be on the disk before a message is sent. A node recovers from its log. Ticks only send again; no decision
depends on time.

Causality is kept by a matrix clock: `clock[a * N + b]` counts the events that a has told b, as far as a node knows.
What a node has heard is the column of its own number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from hocket.runtime.plan import Numbers, Plan

OFFER, LOCK, REFUSE, EVENT, ACK, ASK = range(6)  # kinds of messages
WINDOW = 4  # events that are told again at a time to an agent that does not acknowledge

Clock = tuple[tuple[int, int], ...]  # (pair of agents, count)
Message = tuple[Any, ...]
Entry = tuple[Any, ...]
# What follows the kind of a message or an entry: numbers (n), agents (a), events (e), incarnations (i) and a clock (c).
MESSAGES = {OFFER: "nn", LOCK: "aneic", REFUSE: "nn", EVENT: "anec", ACK: "n", ASK: "ane"}
ENTRIES = {"start": "n", "promise": "aneicn", "release": "an", "decide": "anecn", "hear": "aanec", "stop": ""}
EVENT_AT = {kind: 1 + shape.index("e") for kind, shape in ENTRIES.items() if "e" in shape}  # of an entry's event


class Promise(NamedTuple):
    """What an agent waits for, and what it passes on: a transaction is identified by its first decider and a number."""

    first: int
    number: int
    event: int
    incarnations: Numbers  # of the deciders, as the first one knew them
    clock: Clock  # all that the deciders so far know


class Output(NamedTuple):
    """The effects of an input: entries for the log, and then messages to agents."""

    entries: list[Entry]
    messages: list[tuple[int, Message]]


class Participant:
    """An agent's side of the protocol. Inputs are `start`, `perceive`, `receive` and `tick`."""

    def __init__(self, plan: Plan, agent: int) -> None:
        self.plan, self.agent = plan, agent
        # Restored from the log.
        self.incarnation = 0
        self.state: int = plan.machines[agent].start
        self.clock: dict[int, int] = {}  # pair of agents -> events that the one has told the other
        self.promise: Promise | None = None
        self.number = 0  # of the last transaction that it began
        self.newest: dict[int, int] = {}  # agent -> its last transaction that was promised, decided or refused here
        self.outbox: dict[int, list[tuple[int, Message]]] = {}  # agent -> what it has not acknowledged: (count, event)
        # Lost in a crash.
        self.willing = 0  # events, as bits, whose conditions hold for this agent
        self.stamp = 0  # the number of the move after which it last perceived; kept in the log
        self.spent = 0  # edges, as bits, that have happened since that move
        self.received_offers: dict[int, tuple[int, int]] = {}  # agent -> its incarnation, and what it offers, as bits
        self.sent_offers: dict[int, int] = {}  # agent -> the last offer that it was sent
        self.entries: list[Entry] = []
        self.messages: list[tuple[int, Message]] = []

    @classmethod
    def recover(cls, plan: Plan, agent: int, entries: Iterable[Entry]) -> Participant:
        """Recover a node from its log; its first input has to be `start`."""
        node = cls(plan, agent)
        for entry in entries:
            node._apply(entry)
        return node

    def key(self) -> object:
        """Return all that its behaviour depends on, except for its log."""
        unacknowledged = tuple((agent, len(notices)) for agent, notices in sorted(self.outbox.items()))
        tables = (tuple(sorted(table.items())) for table in (self.newest, self.received_offers, self.sent_offers))
        return self.incarnation, self.number, self.willing, unacknowledged, *tables

    @property
    def holding(self) -> bool:
        """Whether it has promised something and must stand still."""
        return self.promise is not None

    @property
    def is_final(self) -> bool:
        return bool(self.plan.machines[self.agent].is_final[self.state])

    # Inputs.

    def start(self) -> Output:
        """Begin a new incarnation, so that its offers are not mistaken for those of an earlier one."""
        self._log("start", self.incarnation + 1)
        self._resend()
        return self._output()

    def perceive(self, willing: int, stamp: int = 0) -> Output:
        """Take note of the events whose conditions hold while the agent stands still, and begin what it can.

        None hold if it moves, which it must not do while it is holding.
        """
        self._arrive(stamp)
        self.willing = willing & ~self.spent
        self._act()
        return self._output()

    def receive(self, sender: int, message: Message) -> Output:
        """Handle a message; one that does not fit the state is ignored."""
        kind, *fields = message
        handlers = (self._offered, self._locked, self._refused, self._hear, self._acknowledged, self._asked)
        handlers[kind](sender, *fields)
        return self._output()

    def tick(self) -> Output:
        """Send again all messages that have not been answered."""
        self._resend()
        self._act()
        return self._output()

    # Effects.

    def _arrive(self, stamp: int) -> None:
        if stamp != self.stamp:
            self.stamp, self.spent = stamp, 0

    def _happen(self, event: int) -> None:
        """Make the transition of the machine; an edge may happen once until the agent has moved again."""
        self.state = self.plan.transitions[self.agent][self.state][event]
        if self.plan.edges:
            self.spent |= self.plan.edges[self.agent] & 1 << event
            self.willing &= ~self.spent

    def _output(self) -> Output:
        output = Output(self.entries, self.messages)
        self.entries, self.messages = [], []
        return output

    def _act(self) -> None:
        """Begin the first event that can be begun; offer events to the agents that can begin them."""
        if self.promise is not None:
            return
        for event in self.plan.decided[self.agent][self.state]:
            deciders = self.plan.deciders[event]
            if self.willing >> event & 1 and deciders[0] == self.agent:
                if len(deciders) == 1:
                    self._decide(self.agent, 0, event, ())
                    break
                offers = self.received_offers  # hints: correctness does not depend on them
                if all(agent in offers and offers[agent][1] >> event & 1 for agent in deciders[1:]):
                    incarnations = (self.incarnation, *[offers[agent][0] for agent in deciders[1:]])
                    self._promise(Promise(self.agent, self.number + 1, event, incarnations, tuple(self.clock.items())))
                    return
        self._offer()

    def _promise(self, promise: Promise) -> None:
        """Log a promise, and pass the lock on."""
        self._log("promise", *promise, self.stamp)
        self._pass_on(promise)

    def _pass_on(self, promise: Promise) -> None:
        deciders = self.plan.deciders[promise.event]
        self.messages.append((deciders[deciders.index(self.agent) + 1], (LOCK, *promise)))

    def _offer(self) -> None:
        """Tell the agents that begin events what this one would agree on, if that has changed."""
        offers = dict.fromkeys(self.sent_offers, 0)
        for event in self.plan.decided[self.agent][self.state]:
            if self.willing >> event & 1 and (first := self.plan.deciders[event][0]) != self.agent:
                offers[first] = offers.get(first, 0) | 1 << event
        for first, events in offers.items():
            if self.sent_offers.get(first, 0) != events:
                self.sent_offers[first] = events
                self.messages.append((first, (OFFER, self.incarnation, events)))

    def _decide(self, first: int, number: int, event: int, clock: Clock) -> None:
        """Let an event happen: log it, apply it, tell all others that know it."""
        others = self._others(event)
        _join(self.clock, clock)
        for agent in others:
            pair = self.agent * len(self.plan.agents) + agent
            self.clock[pair] = self.clock.get(pair, 0) + 1
        self._log("decide", first, number, event, tuple(self.clock.items()), self.stamp)
        self.messages += [(agent, self.outbox[agent][-1][1]) for agent in others]

    def _others(self, event: int) -> list[int]:
        """List the agents that have to hear of an event."""
        return [agent for agent in self.plan.knowers[event] if agent != self.agent]

    def _locked(self, sender: int, first: int, number: int, event: int, incarnations: Numbers, clock: Clock) -> None:
        """Answer a lock: promise, decide or refuse; or do nothing, as it will be sent again."""
        deciders, me, promise = self.plan.deciders[event], self.agent, self.promise
        if me not in deciders or sender not in deciders:
            return
        if promise is not None and promise[:2] == (first, number):
            self._pass_on(promise)
        elif number <= self.newest.get(first, 0):
            if me == deciders[-1]:
                self._asked(sender, first, number, event)
            else:
                self.messages.append((deciders[-1], (ASK, first, number, event)))
        elif promise is not None or self._is_behind(clock):
            return  # bound by another promise, or it has yet to hear what the others have heard
        elif not self._agrees(event, deciders.index(me), incarnations, clock):
            self._refuse(first, number, event)
        elif me == deciders[-1]:
            self._decide(first, number, event, clock)
            self._act()
        else:
            joined = dict(clock)
            _join(joined, self.clock.items())
            self._promise(Promise(first, number, event, incarnations, tuple(joined.items())))

    def _is_behind(self, clock: Iterable[tuple[int, int]]) -> bool:
        """Say whether this agent was told of events, as others know, that it has not heard of yet."""
        agents, heard = len(self.plan.agents), self.clock
        return any(pair % agents == self.agent and count > heard.get(pair, 0) for pair, count in clock)

    def _agrees(self, event: int, index: int, incarnations: Numbers, clock: Clock) -> bool:
        """Say whether this incarnation is meant, offers the event, and earlier deciders have heard all it knows of."""
        if not self.willing >> event & 1 or event not in self.plan.transitions[self.agent][self.state]:
            return False
        if incarnations[index] != self.incarnation:
            return False
        agents, earlier, theirs = len(self.plan.agents), self.plan.deciders[event][:index], dict(clock)
        return all(count <= theirs.get(pair, 0) for pair, count in self.clock.items() if pair % agents in earlier)

    def _refuse(self, first: int, number: int, event: int) -> None:
        """Tell all earlier deciders that a transaction has failed; it is never agreed to again."""
        self.newest[first] = max(number, self.newest.get(first, 0))
        earlier = [agent for agent in self.plan.deciders[event] if agent < self.agent]
        self.messages += [(agent, (REFUSE, first, number)) for agent in earlier]

    def _asked(self, _: int, first: int, number: int, event: int) -> None:
        """Refuse a transaction, as its last decider; if it was decided, its event is sent again anyway."""
        if not any(message[1:3] == (first, number) for notices in self.outbox.values() for _, message in notices):
            self._refuse(first, number, event)

    def _refused(self, sender: int, first: int, number: int) -> None:
        promise = self.promise
        if promise is None or promise[:2] != (first, number):
            return
        self._log("release", first, number)
        if sender in self.received_offers:
            incarnation, offers = self.received_offers[sender]
            self.received_offers[sender] = incarnation, offers & ~(1 << promise.event)
        self._act()

    def _hear(self, sender: int, first: int, number: int, event: int, clock: Clock) -> None:
        """Hear of an event, after all that happened before it and concerns this agent."""
        pair, promise = sender * len(self.plan.agents) + self.agent, self.promise
        count, heard = dict(clock).get(pair, 0), self.clock.get(pair, 0)
        if count <= heard:
            self.messages.append((sender, (ACK, heard)))
            return
        if count != heard + 1 or (promise is not None and promise[:2] != (first, number)):
            return  # not the next one; or the agent is bound by another promise
        transitions = self.plan.transitions[self.agent][self.state]
        if event not in transitions or self._is_behind([each for each in clock if each[0] != pair]):
            return
        self._log("hear", sender, first, number, event, clock)
        self.messages.append((sender, (ACK, count)))
        self._act()

    def _acknowledged(self, sender: int, count: int) -> None:
        if notices := self.outbox.get(sender):
            self.outbox[sender] = [notice for notice in notices if notice[0] > count]

    def _offered(self, sender: int, incarnation: int, offers: int) -> None:
        if sender not in self.received_offers or incarnation >= self.received_offers[sender][0]:
            self.received_offers[sender] = incarnation, offers
            if offers:
                self._act()

    def _resend(self) -> None:
        self.messages += [(agent, message) for agent, notices in self.outbox.items() for _, message in notices[:WINDOW]]
        if self.promise is not None:
            self._pass_on(self.promise)
        else:
            offered = ((first, offers) for first, offers in self.sent_offers.items() if offers)
            self.messages += [(first, (OFFER, self.incarnation, offers)) for first, offers in offered]

    # The log.

    def _log(self, *entry: Any) -> None:  # noqa: ANN401
        """Write an entry, and apply it."""
        self.entries.append(entry)
        self._apply(entry)

    def _apply(self, entry: Entry) -> None:
        """Change the state by an entry, when it is written and in recovery."""
        match entry:
            case ("hear", _, first, number, event, clock):
                _join(self.clock, clock)
                self._happen(event)
                if self.promise is not None and self.promise[:2] == (first, number):
                    self.promise = None
            case ("decide", first, number, event, clock, stamp):
                self.clock = dict(clock)
                self._arrive(stamp)
                self._happen(event)
                if number:
                    self.newest[first] = number
                for agent in self._others(event):
                    count = self.clock[self.agent * len(self.plan.agents) + agent]
                    self.outbox.setdefault(agent, []).append((count, (EVENT, first, number, event, clock)))
            case ("promise", first, number, event, incarnations, clock, stamp):
                self.promise = Promise(first, number, event, incarnations, clock)
                self.newest[first] = number
                self._arrive(stamp)
                if first == self.agent:
                    self.number = number
            case ("release", _, _):
                self.promise = None
            case ("start", incarnation):
                self.incarnation = incarnation


def _join(clock: dict[int, int], other: Iterable[tuple[int, int]]) -> None:
    """Raise the counts of a clock to those of another one."""
    for pair, count in other:
        if count > clock.get(pair, 0):
            clock[pair] = count


def has_shape(plan: Plan, shape: str, values: Sequence[object]) -> bool:
    """Say whether the values of a message or an entry have a shape, and name agents and events of the plan."""
    ends = {"a": len(plan.agents), "e": len(plan.events)}
    for kind, value in zip(shape, values, strict=True):
        if kind == "c":
            fits = isinstance(value, tuple) and all(type(p) is tuple and [*map(type, p)] == [int, int] for p in value)
        elif kind == "i":
            fits = isinstance(value, tuple)
        else:
            fits = isinstance(value, int) and (kind == "n" or 0 <= value < ends[kind])
        if not fits:
            return False
    return True


def find_invalid(plan: Plan, entries: Iterable[Entry]) -> Entry | None:
    """Find an entry that no participant has written, if there is one."""
    for entry in entries:
        shape = ENTRIES.get(entry[0]) if entry and isinstance(entry[0], str) else None
        if shape is None or len(shape) != len(entry) - 1 or not has_shape(plan, shape, entry[1:]):
            return entry
    return None
