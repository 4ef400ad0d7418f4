"""The protocol by which agents agree on events and tell each other: a state machine without a clock, and without I/O.

Chain commit, a linear two-phase commit. The deciders of an event are asked in the order of the agents, so that nobody
waits in a circle. The first logs a *promise* and sends a lock; each next one promises and passes the lock on; the
last one decides, by logging the event. Whoever has promised holds still, and hears of nothing else, until the event
or a refusal comes; so all conditions hold at the instant of the decision. An event with one decider is decided at
once. Events are then told to everybody else who knows them, in causal order, again and again until acknowledged.

An input (a message, a tick, what the agent perceives) changes the state and yields log entries and messages: entries
have to be on the disk before a message leaves. A node that comes back is made of its log. Ticks only send again; no
decision depends on time.

Causality is kept by a matrix clock: `sent[a * N + b]` counts the events that a has told b, as far as a node knows.
What a node has heard is the column of its own number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from hocket.runtime.plan import Plan

OFFER, LOCK, REFUSE, EVENT, ACK, ASK = range(6)  # kinds of messages
WINDOW = 4  # events that are told again at a time to an agent that does not acknowledge

Clock = tuple[tuple[int, int], ...]  # (pair of agents, count)
Message = tuple[Any, ...]
Entry = tuple[Any, ...]
EVENT_AT = {"promise": 3, "decide": 3, "hear": 4}  # where such an entry has its event


class Promise(NamedTuple):
    """What an agent waits for: the transaction, by who began it and a number, its event, and what to pass on."""

    first: int
    number: int
    event: int
    incarnations: tuple[int, ...]  # of the deciders, as the first one knew them
    clock: Clock  # what the deciders so far have heard, told and know of


class Output(NamedTuple):
    """What comes of an input: entries for the log, and then messages to agents."""

    entries: list[Entry]
    messages: list[tuple[int, Message]]


class Participant:
    """An agent's side of the protocol. Inputs are `start`, `perceive`, `receive` and `tick`."""

    def __init__(self, plan: Plan, agent: int) -> None:
        self.plan, self.agent = plan, agent
        # What the log restores.
        self.incarnation = 0
        self.state: int = plan.machines[agent].start
        self.clock: dict[int, int] = {}  # pair of agents -> events that the one has told the other
        self.promise: Promise | None = None
        self.number = 0  # of the last transaction that it began
        self.newest: dict[int, int] = {}  # agent -> its last transaction that was promised, decided or refused here
        self.outbox: dict[int, list[tuple[int, Message]]] = {}  # agent -> what it has not acknowledged: (count, event)
        # What a crash loses, and may.
        self.willing = 0  # events, as bits, whose conditions hold for this agent
        self.stamp = 0  # of what it last perceived; kept in the log
        self.spent = 0  # edges, as bits, that have happened since it came to where it is
        self.known_offers: dict[int, tuple[int, int]] = {}  # agent -> its incarnation, and what it offers, as bits
        self.told_offers: dict[int, int] = {}  # agent -> the last offer that it was told
        self.entries: list[Entry] = []
        self.messages: list[tuple[int, Message]] = []

    @classmethod
    def recover(cls, plan: Plan, agent: int, entries: Iterable[Entry]) -> Participant:
        """Make a node of its log; it has to `start` before anything else."""
        node = cls(plan, agent)
        for entry in entries:
            node._apply(entry)
        return node

    def key(self) -> object:
        """Return all that its behaviour depends on, beside its log."""
        told = tuple((agent, len(notices)) for agent, notices in sorted(self.outbox.items()))
        known = tuple(sorted(self.known_offers.items())), tuple(sorted(self.told_offers.items()))
        return self.incarnation, self.number, self.willing, tuple(sorted(self.newest.items())), told, known

    @property
    def holding(self) -> bool:
        """Whether it has promised something and must stand still."""
        return self.promise is not None

    @property
    def is_final(self) -> bool:
        return bool(self.plan.machines[self.agent].is_final[self.state])

    # Inputs.

    def start(self) -> Output:
        """Begin a new incarnation, so that nobody takes what an earlier one has said for what this one says."""
        self._log("start", self.incarnation + 1)
        self._resend()
        return self._output()

    def perceive(self, willing: int, stamp: int = 0) -> Output:
        """Take note of the events whose conditions hold while the agent stands still, and begin what it can.

        None hold if it moves, which it must not do while it is holding.
        """
        self._come(stamp)
        self.willing = willing & ~self.spent
        self._act()
        return self._output()

    def receive(self, sender: int, message: Message) -> Output:
        """Take a message; what does not make sense is ignored."""
        kind, *fields = message
        by_kind = (self._offered, self._locked, self._refused, self._hear, self._acknowledged, self._asked)
        by_kind[kind](sender, *fields)
        return self._output()

    def tick(self) -> Output:
        """Send again what has not been answered."""
        self._resend()
        self._act()
        return self._output()

    # What they come to.

    def _come(self, stamp: int) -> None:
        if stamp != self.stamp:
            self.stamp, self.spent = stamp, 0

    def _happen(self, event: int) -> None:
        """Move on in the machine; an edge may happen once until the agent has moved again."""
        self.state = self.plan.moves[self.agent][self.state][event]
        if self.plan.edges:
            self.spent |= self.plan.edges[self.agent] & 1 << event
            self.willing &= ~self.spent

    def _output(self) -> Output:
        output = Output(self.entries, self.messages)
        self.entries, self.messages = [], []
        return output

    def _act(self) -> None:
        """Begin the first event that can be begun; offer to others what they can begin."""
        if self.promise is not None:
            return
        willing, plan = self.willing, self.plan
        for event in plan.begins[self.agent][self.state]:
            if willing >> event & 1:
                deciders = plan.deciders[event]
                if len(deciders) == 1:
                    self._decide(self.agent, 0, event, ())
                    break
                known = self.known_offers  # hints, on which nothing rests
                if all(agent in known and known[agent][1] >> event & 1 for agent in deciders[1:]):
                    incarnations = (self.incarnation, *[known[agent][0] for agent in deciders[1:]])
                    self._promise(Promise(self.agent, self.number + 1, event, incarnations, tuple(self.clock.items())))
                    return
        if plan.joins[self.agent][self.state] or self.told_offers:
            self._offer()

    def _promise(self, promise: Promise) -> None:
        """Log a promise, and pass the lock on."""
        self._log("promise", *promise, self.stamp)
        self._pass_on(promise)

    def _pass_on(self, promise: Promise) -> None:
        deciders = self.plan.deciders[promise.event]
        self.messages.append((deciders[deciders.index(self.agent) + 1], (LOCK, *promise)))

    def _offer(self) -> None:
        """Tell those who begin events what this agent would agree on, where that has changed."""
        offers = dict.fromkeys(self.told_offers, 0)
        for event in self.plan.joins[self.agent][self.state]:
            if self.willing >> event & 1:
                first = self.plan.deciders[event][0]
                offers[first] = offers.get(first, 0) | 1 << event
        for first, events in offers.items():
            if self.told_offers.get(first, 0) != events:
                self.told_offers[first] = events
                self.messages.append((first, (OFFER, self.incarnation, events)))

    def _decide(self, first: int, number: int, event: int, clock: Clock) -> None:
        """Let an event happen: log it, apply it, tell everybody else who knows it."""
        heard, others = self.clock, self._others(event)
        _join(heard, clock)
        for agent in others:
            pair = self.agent * len(self.plan.agents) + agent
            heard[pair] = heard.get(pair, 0) + 1
        self._log("decide", first, number, event, tuple(heard.items()), self.stamp)
        self.messages += [(agent, self.outbox[agent][-1][1]) for agent in others]

    def _others(self, event: int) -> list[int]:
        """List the agents that have to hear of an event."""
        return [agent for agent in self.plan.knowers[event] if agent != self.agent]

    def _locked(
        self, sender: int, first: int, number: int, event: int, incarnations: tuple[int, ...], clock: Clock
    ) -> None:
        """Answer a lock: promise or decide; refuse; or say nothing, as it will come again."""
        deciders, me, promise = self.plan.deciders[event], self.agent, self.promise
        if me not in deciders or sender not in deciders:
            return
        place = deciders.index(me)
        if promise is not None and promise[:2] == (first, number):
            self._pass_on(promise)
        elif number <= self.newest.get(first, 0):
            if me == deciders[-1]:
                self._asked(sender, first, number, event)
            else:
                self.messages.append((deciders[-1], (ASK, first, number, event)))
        elif promise is not None or self._is_behind(clock):
            return  # busy, or still to hear what the others have heard
        elif not self._agrees(event, place, incarnations, clock):
            self._refuse(first, number, event)
        elif me == deciders[-1]:
            self._decide(first, number, event, clock)
            self._act()
        else:
            joined = dict(clock)
            _join(joined, self.clock.items())
            self._promise(Promise(first, number, event, incarnations, tuple(joined.items())))

    def _is_behind(self, clock: Iterable[tuple[int, int]]) -> bool:
        """Say whether there is something that the others have heard, that concerns this agent, and that it has not."""
        agents, heard = len(self.plan.agents), self.clock
        return any(pair % agents == self.agent and count > heard.get(pair, 0) for pair, count in clock)

    def _agrees(self, event: int, place: int, incarnations: tuple[int, ...], clock: Clock) -> bool:
        """Say whether this agent offers an event, was meant, and the earlier deciders know what it could have told."""
        if not self.willing >> event & 1 or event not in self.plan.moves[self.agent][self.state]:
            return False
        if incarnations[place] != self.incarnation:
            return False
        agents, earlier, theirs = len(self.plan.agents), self.plan.deciders[event][:place], dict(clock)
        return all(count <= theirs.get(pair, 0) for pair, count in self.clock.items() if pair % agents in earlier)

    def _refuse(self, first: int, number: int, event: int) -> None:
        """Tell all earlier deciders that nothing comes of a transaction; it is never agreed to again."""
        self.newest[first] = max(number, self.newest.get(first, 0))
        earlier = [agent for agent in self.plan.deciders[event] if agent < self.agent]
        self.messages += [(agent, (REFUSE, first, number)) for agent in earlier]

    def _asked(self, _: int, first: int, number: int, event: int) -> None:
        """Say, as the last decider, that nothing came of a transaction; if it was decided, the event says so again."""
        if not any(message[1:3] == (first, number) for told in self.outbox.values() for _, message in told):
            self._refuse(first, number, event)

    def _refused(self, sender: int, first: int, number: int) -> None:
        promise = self.promise
        if promise is None or promise[:2] != (first, number):
            return
        self._log("release", first, number)
        if sender in self.known_offers:
            incarnation, offers = self.known_offers[sender]
            self.known_offers[sender] = incarnation, offers & ~(1 << promise.event)
        self._act()

    def _hear(self, sender: int, first: int, number: int, event: int, clock: Clock) -> None:
        """Hear of an event: when everything has been heard that concerns this agent and happened before."""
        agents, me, known, promise = len(self.plan.agents), self.agent, self.clock, self.promise
        pair = sender * agents + me
        count, heard = dict(clock).get(pair, 0), known.get(pair, 0)
        if count <= heard:
            self.messages.append((sender, (ACK, heard)))
            return
        if count != heard + 1 or (promise is not None and promise[:2] != (first, number)):
            return  # out of turn; or it is bound, and hears of nothing else
        if event not in self.plan.moves[me][self.state] or self._is_behind([each for each in clock if each[0] != pair]):
            return
        self._log("hear", sender, first, number, event, clock)
        self.messages.append((sender, (ACK, count)))
        self._act()

    def _acknowledged(self, sender: int, count: int) -> None:
        if told := self.outbox.get(sender):
            self.outbox[sender] = [notice for notice in told if notice[0] > count]

    def _offered(self, sender: int, incarnation: int, offers: int) -> None:
        known = self.known_offers.get(sender)
        if known is None or incarnation >= known[0]:
            self.known_offers[sender] = incarnation, offers
            if offers:
                self._act()

    def _resend(self) -> None:
        self.messages += [(agent, message) for agent, told in self.outbox.items() for _, message in told[:WINDOW]]
        if self.promise is not None:
            self._pass_on(self.promise)
        else:
            for first, offers in self.told_offers.items():
                if offers:
                    self.messages.append((first, (OFFER, self.incarnation, offers)))

    # The log.

    def _log(self, *entry: Any) -> None:  # noqa: ANN401
        """Write an entry, and do what it stands for."""
        self.entries.append(entry)
        self._apply(entry)

    def _apply(self, entry: Entry) -> None:
        """Do what an entry stands for, when it is written and when it is read again."""
        match entry:
            case ("hear", _, first, number, event, clock):
                _join(self.clock, clock)
                self._happen(event)
                if self.promise is not None and self.promise[:2] == (first, number):
                    self.promise = None
            case ("decide", first, number, event, clock, stamp):
                self.clock = dict(clock)
                self._come(stamp)
                self._happen(event)
                if number:
                    self.newest[first] = number
                for agent in self._others(event):
                    told = self.clock[self.agent * len(self.plan.agents) + agent]
                    self.outbox.setdefault(agent, []).append((told, (EVENT, first, number, event, clock)))
            case ("promise", first, number, event, incarnations, clock, stamp):
                self.promise = Promise(first, number, event, incarnations, clock)
                self.newest[first] = number
                self._come(stamp)
                if first == self.agent:
                    self.number = number
            case ("release", _, _):
                self.promise = None
            case ("start", incarnation):
                self.incarnation = incarnation


def _join(heard: dict[int, int], clock: Iterable[tuple[int, int]]) -> None:
    """Let a clock know whatever another one does."""
    for pair, count in clock:
        if count > heard.get(pair, 0):
            heard[pair] = count


def nonsense(plan: Plan, entries: Iterable[Entry]) -> Entry | None:
    """Find an entry that no participant has written; None, if all speak of agents and events that there are."""
    agents, events = range(len(plan.agents)), range(len(plan.events))
    for entry in entries:
        clock: Any = ()
        match entry:
            case ("decide", int(first), int(), int(event), tuple(clock), int()) | (
                "promise", int(first), int(), int(event), tuple(), tuple(clock), int()
            ):  # fmt: skip
                is_known = first in agents and event in events
            case ("hear", int(sender), int(first), int(), int(event), tuple(clock)):
                is_known = sender in agents and first in agents and event in events
            case ("start", int()) | ("release", int(), int()) | ("stop",):
                is_known = True
            case _:
                is_known = False
        if not is_known or not all(isinstance(pair, tuple) and [*map(type, pair)] == [int, int] for pair in clock):
            return entry
    return None
