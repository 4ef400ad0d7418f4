"""The protocol, broken on purpose in one place each."""

from hocket.runtime.protocol import ACK, LOCK, REFUSE, Node, Output


class NoCausalOrder(Node):
    """Hears of events from each sender in order, whatever came before them elsewhere."""

    def _hear(self, sender, first, number, event, clock):
        pair = sender * len(self.plan.agents) + self.agent
        super()._hear(sender, first, number, event, tuple(own for own in clock if own[0] == pair))


class ClockForgotten(Node):
    """Hears of events without taking over what they say of others."""

    def _apply_hearing(self, first, number, event, clock):
        agents = len(self.plan.agents)
        super()._apply_hearing(first, number, event, tuple(own for own in clock if own[0] % agents == self.agent))


class HearsTwice(Node):
    """Does not know a copy of a message from a new one."""

    def _hear(self, sender, first, number, event, clock):
        pair = sender * len(self.plan.agents) + self.agent
        if self.promise is None and dict(clock)[pair] == self.clock.get(pair, 0):
            self.clock[pair] -= 1
        super()._hear(sender, first, number, event, clock)


class NoIncarnations(Node):
    """Takes what was agreed with an earlier incarnation for its own."""

    def _agrees(self, event, place, incarnations, clock):
        return super()._agrees(event, place, (self.incarnation,) * len(incarnations), clock)


class PromiseNotLogged(Node):
    """Keeps its promises in mind only."""

    def _output(self):
        output = super()._output()
        return Output([entry for entry in output.entries if entry[0] != "promise"], output.messages)


class PromiseForgotten(Node):
    """Comes back without its promise."""

    def start(self):
        self.promise = None
        return super().start()


class AcknowledgesFirst(Node):
    """Acknowledges at once what it writes down with the next input."""

    __slots__ = ("late",)

    def _output(self):
        entries, messages = super()._output()
        late, self.late = getattr(self, "late", []), []
        if any(message[0] == ACK for _, message in messages):
            self.late = entries
            return Output(late, messages)
        return Output([*late, *entries], messages)


class OutcomeForgotten(Node):
    """Comes back without what it has yet to tell."""

    def start(self):
        self.outbox = {}
        return super().start()


class TellsOnce(Node):
    """Never tells again what was lost."""

    def _resend(self):
        if self.promise is not None:
            self._pass_on(self.promise)


class OffersTrusted(Node):
    """Agrees on what it once offered."""

    def _agrees(self, event, place, incarnations, clock):
        willing, self.willing = self.willing, -1
        agrees = super()._agrees(event, place, incarnations, clock)
        self.willing = willing
        return agrees


class PromisesTwice(Node):
    """Answers locks while it is bound by a promise."""

    def _locked(self, sender, first, number, event, incarnations, clock):
        bound = self.promise
        if bound is not None and (bound.first, bound.number) != (first, number):
            self.promise = None
        super()._locked(sender, first, number, event, incarnations, clock)
        self.promise = self.promise or bound


class Restless(Node):
    """Moves while it should hold still."""

    @property
    def holding(self):
        return False


class HearsWhileBound(Node):
    """Hears of other events while it is bound by a promise."""

    def _hear(self, sender, first, number, event, clock):
        bound = self.promise
        if bound is not None and (bound.first, bound.number) != (first, number):
            self.promise = None
        super()._hear(sender, first, number, event, clock)
        if bound is not None and (bound.first, bound.number) != (first, number):
            self.promise = bound


class RefusesAfterwards(Node):
    """Refuses what it has decided, if asked again."""

    def _asked(self, first, number, event):
        self._refuse(first, number, event)


class MiddleAnswers(Node):
    """Refuses by itself what only the last decider can know."""

    def _locked(self, sender, first, number, event, incarnations, clock):
        promise = self.promise
        is_bound = promise is not None and (promise.first, promise.number) == (first, number)
        if not is_bound and self.agent in self.plan.deciders[event] and number <= self.newest.get(first, 0):
            self._refuse(first, number, event)
        else:
            super()._locked(sender, first, number, event, incarnations, clock)


class OldLocksTaken(Node):
    """Takes a lock that it has answered before for a new one."""

    def _locked(self, sender, first, number, event, incarnations, clock):
        if self.promise is None:
            self.newest.pop(first, None)
        super()._locked(sender, first, number, event, incarnations, clock)


class NumbersReused(Node):
    """Begins to count its transactions anew when it comes back."""

    def start(self):
        if self.promise is None:
            self.number = 0
        return super().start()


class OthersBehind(Node):
    """Agrees though earlier deciders have not heard what it could have told them."""

    def _agrees(self, event, place, incarnations, clock):
        return super()._agrees(event, place, incarnations, tuple(self.clock.items()))


class SelfBehind(Node):
    """Agrees though it has not heard what earlier deciders have."""

    def _is_behind(self, clock):
        return False


class MiddleDecides(Node):
    """Decides as the second of three."""

    def _pass_on(self, promise):
        deciders = self.plan.deciders[promise.event]
        if len(deciders) > 2 and self.agent == deciders[1]:
            self.promise = None
            self._decide(promise.first, promise.number, promise.event, promise.clock)
        else:
            super()._pass_on(promise)


class TimesOut(Node):
    """Releases itself when nobody answers."""

    def tick(self):
        if self.promise is not None:
            self.entries.append(("release", self.promise.first, self.promise.number))
            self.promise = None
        return super().tick()


class DecidesInMind(Node):
    """Tells of decisions that it has not written down."""

    def _output(self):
        output = super()._output()
        return Output([entry for entry in output.entries if entry[0] != "decide"], output.messages)


class AcknowledgesTooMuch(Node):
    """Acknowledges one event more than it has heard of."""

    def _output(self):
        entries, messages = super()._output()
        return Output(entries, [(to, (ACK, m[1] + 1) if m[0] == ACK else m) for to, m in messages])


class NobodyRefused(Node):
    """Refuses without saying so."""

    def _output(self):
        entries, messages = super()._output()
        return Output(entries, [own for own in messages if own[1][0] != REFUSE])


class SkipsDeciders(Node):
    """Sends the lock to the last decider, past those between."""

    def _pass_on(self, promise):
        self.messages.append((self.plan.deciders[promise.event][-1], (LOCK, *promise)))


MUTANTS = [
    NoCausalOrder, ClockForgotten, HearsTwice, NoIncarnations, PromiseNotLogged, PromiseForgotten, AcknowledgesFirst,
    OutcomeForgotten, TellsOnce, OffersTrusted, PromisesTwice, Restless, HearsWhileBound, RefusesAfterwards,
    MiddleAnswers, OldLocksTaken, NumbersReused, OthersBehind, SelfBehind, MiddleDecides, TimesOut, DecidesInMind,
    AcknowledgesTooMuch, NobodyRefused, SkipsDeciders,
]  # fmt: skip
