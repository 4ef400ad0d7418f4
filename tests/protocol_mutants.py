"""The protocol, broken on purpose in one place each."""

from hocket.runtime.protocol import ACK, LOCK, REFUSE, Output, Participant


class NoCausalOrder(Participant):
    """Hears of events from each sender in order, whatever came before them elsewhere."""

    def _hear(self, sender, first, number, event, clock):
        pair = sender * len(self.plan.agents) + self.agent
        super()._hear(sender, first, number, event, tuple(own for own in clock if own[0] == pair))


class ClockForgotten(Participant):
    """Hears of events without taking over what they say of others."""

    def _apply(self, entry):
        if entry[0] == "hear":
            agents = len(self.plan.agents)
            entry = (*entry[:-1], tuple(own for own in entry[-1] if own[0] % agents == self.agent))
        super()._apply(entry)


class HearsTwice(Participant):
    """Does not know a copy of a message from a new one."""

    def _hear(self, sender, first, number, event, clock):
        pair = sender * len(self.plan.agents) + self.agent
        if self.promise is None and dict(clock)[pair] == self.clock.get(pair, 0):
            self.clock[pair] -= 1
        super()._hear(sender, first, number, event, clock)


class NoIncarnations(Participant):
    """Takes what was agreed with an earlier incarnation for its own."""

    def _agrees(self, event, place, incarnations, clock):
        return super()._agrees(event, place, (self.incarnation,) * len(incarnations), clock)


class PromiseNotLogged(Participant):
    """Keeps its promises in mind only."""

    def _output(self):
        output = super()._output()
        return Output([entry for entry in output.entries if entry[0] != "promise"], output.messages)


class PromiseForgotten(Participant):
    """Comes back without its promise."""

    def start(self):
        self.promise = None
        return super().start()


class AcknowledgesFirst(Participant):
    """Acknowledges at once what it writes down with the next input."""

    def _output(self):
        entries, messages = super()._output()
        late, self.late = getattr(self, "late", []), []
        if any(message[0] == ACK for _, message in messages):
            self.late = entries
            return Output(late, messages)
        return Output([*late, *entries], messages)


class OutcomeForgotten(Participant):
    """Comes back without what it has yet to tell."""

    def start(self):
        self.outbox = {}
        return super().start()


class TellsOnce(Participant):
    """Never tells again what was lost."""

    def _resend(self):
        if self.promise is not None:
            self._pass_on(self.promise)


class OffersTrusted(Participant):
    """Agrees on what it once offered."""

    def _agrees(self, event, place, incarnations, clock):
        willing, self.willing = self.willing, -1
        agrees = super()._agrees(event, place, incarnations, clock)
        self.willing = willing
        return agrees


class PromisesTwice(Participant):
    """Answers locks while it is bound by a promise."""

    def _locked(self, sender, first, number, event, incarnations, clock):
        bound = self.promise
        if bound is not None and (bound.first, bound.number) != (first, number):
            self.promise = None
        super()._locked(sender, first, number, event, incarnations, clock)
        self.promise = self.promise or bound


class Restless(Participant):
    """Moves while it should hold still."""

    @property
    def holding(self):
        return False


class HearsWhileBound(Participant):
    """Hears of other events while it is bound by a promise."""

    def _hear(self, sender, first, number, event, clock):
        bound = self.promise
        if bound is not None and (bound.first, bound.number) != (first, number):
            self.promise = None
        super()._hear(sender, first, number, event, clock)
        if bound is not None and (bound.first, bound.number) != (first, number):
            self.promise = bound


class RefusesAfterwards(Participant):
    """Refuses what it has decided, if asked again."""

    def _asked(self, sender, first, number, event):
        self._refuse(first, number, event)


class MiddleAnswers(Participant):
    """Refuses by itself what only the last decider can know."""

    def _locked(self, sender, first, number, event, incarnations, clock):
        promise = self.promise
        is_bound = promise is not None and (promise.first, promise.number) == (first, number)
        if not is_bound and self.agent in self.plan.deciders[event] and number <= self.newest.get(first, 0):
            self._refuse(first, number, event)
        else:
            super()._locked(sender, first, number, event, incarnations, clock)


class OldLocksTaken(Participant):
    """Takes a lock that it has answered before for a new one."""

    def _locked(self, sender, first, number, event, incarnations, clock):
        if self.promise is None:
            self.newest.pop(first, None)
        super()._locked(sender, first, number, event, incarnations, clock)


class NumbersReused(Participant):
    """Begins to count its transactions anew when it comes back."""

    def start(self):
        if self.promise is None:
            self.number = 0
        return super().start()


class OthersBehind(Participant):
    """Agrees though earlier deciders have not heard what it could have told them."""

    def _agrees(self, event, place, incarnations, clock):
        return super()._agrees(event, place, incarnations, tuple(self.clock.items()))


class SelfBehind(Participant):
    """Agrees though it has not heard what earlier deciders have."""

    def _is_behind(self, clock):
        return False


class MiddleDecides(Participant):
    """Decides as the second of three."""

    def _pass_on(self, promise):
        deciders = self.plan.deciders[promise.event]
        if len(deciders) > 2 and self.agent == deciders[1]:
            self.promise = None
            self._decide(promise.first, promise.number, promise.event, promise.clock)
        else:
            super()._pass_on(promise)


class TimesOut(Participant):
    """Releases itself when nobody answers."""

    def tick(self):
        if self.promise is not None:
            self.entries.append(("release", self.promise.first, self.promise.number))
            self.promise = None
        return super().tick()


class DecidesInMind(Participant):
    """Tells of decisions that it has not written down."""

    def _output(self):
        output = super()._output()
        return Output([entry for entry in output.entries if entry[0] != "decide"], output.messages)


class AcknowledgesTooMuch(Participant):
    """Acknowledges one event more than it has heard of."""

    def _output(self):
        entries, messages = super()._output()
        return Output(entries, [(to, (ACK, m[1] + 1) if m[0] == ACK else m) for to, m in messages])


class NobodyRefused(Participant):
    """Refuses without saying so."""

    def _output(self):
        entries, messages = super()._output()
        return Output(entries, [own for own in messages if own[1][0] != REFUSE])


class SkipsDeciders(Participant):
    """Sends the lock to the last decider, past those between."""

    def _pass_on(self, promise):
        self.messages.append((self.plan.deciders[promise.event][-1], (LOCK, *promise)))


MUTANTS = [
    NoCausalOrder, ClockForgotten, HearsTwice, NoIncarnations, PromiseNotLogged, PromiseForgotten, AcknowledgesFirst,
    OutcomeForgotten, TellsOnce, OffersTrusted, PromisesTwice, Restless, HearsWhileBound, RefusesAfterwards,
    MiddleAnswers, OldLocksTaken, NumbersReused, OthersBehind, SelfBehind, MiddleDecides, TimesOut, DecidesInMind,
    AcknowledgesTooMuch, NobodyRefused, SkipsDeciders,
]  # fmt: skip
