"""Machines in the Hanoi Omega-Automata format, as tools for LTL over finite traces (LTLf) write it.

Propositions are events, and one happens at a time. An event that does not change the state has no transition; one after
which the formula can no longer become true, or that has no edge, leads to a dead end. A state is final if the formula
stays true whatever happens. Spot's proposition `alive` is no event: it is true until the trace ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from hocket.errors import FormatError
from hocket.graphs import components, distances_from
from hocket.hitting_set import elements_of
from hocket.machine.formats.hoa_syntax import ALIVE, MOST_PROPOSITIONS, Alphabet, HoaParser, HoaState
from hocket.machine.names import invert, make_distinct, quote
from hocket.machine.reward_machine import RewardMachine


def read(content: str) -> RewardMachine:
    """Read a machine."""
    return HoaReading(*HoaParser(content).parse()).machine()


def write(machine: RewardMachine) -> str:
    """Write a machine as a complete, deterministic automaton."""
    _check_writable(machine)
    events, states, number = list(machine.events), list(machine.states), machine.states.index
    lines = ["HOA: v1", 'tool: "hocket"', f"States: {len(states)}", f"Start: {machine.start}"]
    lines.append(" ".join((f"AP: {len(events)}", *map(quote, events))))
    lines += ["acc-name: Buchi", "Acceptance: 1 Inf(0)"]
    lines.append("properties: trans-labels explicit-labels state-acc complete deterministic")
    for proposition in range(len(events)):
        alone = "&".join(str(other) if other == proposition else f"!{other}" for other in range(len(events)))
        lines.append(f"Alias: @{proposition} {alone}")
    lines.append("--BODY--")
    for state in states:
        moves: dict[str, list[str]] = {}
        for event, target in machine.moves.get(state, {}).items():
            moves.setdefault(target, []).append(f"@{machine.events.index(event)}")
        lines.append(f"State: {number(state)} {quote(state)}{' {0}' if state in machine.final else ''}")
        lines += [f"[{'|'.join(aliases)}] {number(target)}" for target, aliases in moves.items()]
        leaving = [alias for aliases in moves.values() for alias in aliases]
        lines.append(f"[{'!(' + '|'.join(leaving) + ')' if leaving else 't'}] {number(state)}")
    return "\n".join((*lines, "--END--")) + "\n"


def _check_writable(machine: RewardMachine) -> None:
    if not machine.is_task_completion:
        raise FormatError("HOA has no place for rewards other than for completing the task; write .toml or .json")
    if ALIVE in machine.events:
        raise FormatError(f"in HOA the proposition {ALIVE!r} says that a trace goes on, so it cannot be an event")
    if len(machine.events) > MOST_PROPOSITIONS:
        raise FormatError(f"HOA is written with at most {MOST_PROPOSITIONS:,} events, got {len(machine.events):,}")
    for (state, event), target in machine.transitions.items():
        if state == target:
            rule = "in HOA an event that leaves a state as it is has no transition"
            raise FormatError(f"{rule}, got one from {state!r} on {event!r}")


# The meaning of an automaton for traces of single events: a machine, or a reason why it has none.

MOST_TRANSITIONS = 2_000_000
VIOLATED = "violated"  # the name of the dead end for events that have no edge


class HoaReading:
    """The meaning of an automaton for traces of single events."""

    def __init__(self, alphabet: Alphabet, start: int, rows: Sequence[HoaState]) -> None:
        self.alphabet, self.start, self.rows = alphabet, start, rows
        self.sources = invert({state: row.targets for state, row in enumerate(rows)}, range(len(rows)))
        self.accepting = [row.is_accepting for row in rows]
        self.marks_edges = any(row.accepting_letters for row in rows)
        if alphabet.alive is not None:
            self.accepting = self.accepted_ends()
            self.marks_edges = False
        elif self.marks_edges and any(self.accepting):
            raise FormatError("acceptance must be on states or on edges, got both")
        self.final = self.final_states()
        self.can_complete = self.leading_to(self.final)

    def error(self, state: int, message: str) -> FormatError:
        row = self.rows[state]
        return FormatError(f"state {row.quoted} {message}", where=f"line {row.line}")

    # Which states are final.

    def accepted_ends(self) -> list[bool]:
        """Say for each state whether the trace may end there: with `alive` false, it then visits marks for ever."""
        rows, end = self.rows, self.alphabet.end
        steps = [row.step(end) for row in rows]
        after = {state for state in steps if state is not None}
        component = components([[] if state is None else [state] for state in steps])
        members = Counter(component)
        marks_of = [self.alphabet.every if row.is_accepting else row.accepting_letters for row in rows]
        cyclic = (s for s, step in enumerate(steps) if members[component[s]] > 1 or step == s)
        accepted = self.leading_to((state for state in cyclic if marks_of[state] & end), end)
        near_marks = self.leading_to((state for state, marks in enumerate(marks_of) if marks), self.alphabet.every)
        for state in after:  # events must not lead to marks from there, as in Spot's encoding
            if any(letters & ~end and target in near_marks for target, letters in rows[state].targets.items()):
                rule = "rename the event if it is not Spot's mark"
                raise self.error(state, f"can be reached after {ALIVE!r} was false; {rule}")
        return [state in accepted and state not in after for state in range(len(rows))]

    def final_states(self) -> set[int]:
        """List the states from which everything is accepted, or that accept and allow nothing more."""
        events = self.alphabet.events
        accepts = self.accepting_by_edges() if self.marks_edges else self.accepting
        is_partial = [row.defined & events and events & ~row.defined for row in self.rows]
        others = {state for state in range(len(self.rows)) if is_partial[state] or not accepts[state]}
        return {*range(len(self.rows))} - others - self.leading_to(others, events | self.alphabet.silence)

    def accepting_by_edges(self) -> list[bool]:
        """Say for each state whether it accepts, by the marks on edges alone: whether a silent step is accepted or, if
        none is allowed, all events that lead there are."""
        events, silence = self.alphabet.events, self.alphabet.silence
        by_mark, otherwise = set(), {self.start}
        for row in self.rows:
            for target, letters in row.targets.items():
                if letters & events & row.accepting_letters:
                    by_mark.add(target)
                if letters & events & ~row.accepting_letters:
                    otherwise.add(target)
        entered = by_mark - otherwise
        return [
            not row.defined & (events | silence) & ~row.accepting_letters
            and (bool(row.accepting_letters & silence) or state in entered)
            for state, row in enumerate(self.rows)
        ]

    def leading_to(self, goals: Iterable[int], letters: int | None = None) -> set[int]:
        """List the states from which events, or the given letters, can lead to one of the goals."""
        letters = self.alphabet.events if letters is None else letters

        def before(state: int) -> Iterator[int]:
            return (source for source in self.sources[state] if self.rows[source].targets[state] & letters)

        return {*distances_from(goals, before)}

    # The machine.

    def kept(self) -> set[int]:
        """List the states that single events lead to, and those that no edges at all lead to."""

        def after(state: int) -> Iterator[int]:
            moves = {} if state in self.final else self.rows[state].targets
            return (target for target, letters in moves.items() if letters & self.alphabet.events)

        reached = distances_from([self.start], lambda state: self.rows[state].targets)
        unreached = (state for state in range(len(self.rows)) if state not in reached)
        return {*distances_from([self.start, *unreached], after)}

    def check(self, state: int) -> None:
        """Refuse a state in which the task is completed for a while, or that counts steps without events."""
        row, events = self.rows[state], self.alphabet.events
        by_mark = (target for target, letters in row.targets.items() if letters & events & row.accepting_letters)
        if self.accepting[state] or (self.marks_edges and any(target not in self.final for target in by_mark)):
            raise self.error(state, "is accepting but can be left; a completed task must stay completed")
        following = row.step(self.alphabet.silence)
        if following is not None and following != state and {state, following} <= self.can_complete:
            why = f"has an edge to {self.rows[following].quoted} without an event"
            raise self.error(state, f"{why}; reward machines change state on events only")

    def machine(self) -> RewardMachine:
        """Make the machine."""
        kept, propositions, events = sorted(self.kept()), self.alphabet.propositions, self.alphabet.events
        for state in (state for state in kept if state not in self.final):
            self.check(state)
        if self.final and self.final.isdisjoint(kept):
            raise FormatError("no events, one at a time, complete it")
        *names, violated = make_distinct([*(self.rows[state].name for state in kept), VIOLATED])
        name = dict(zip(kept, names, strict=True))
        triples: list[tuple[str, str, str]] = []
        for state in (state for state in kept if state not in self.final):
            targets = self.rows[state].targets.items()
            moves = {name[end]: letters & events for end, letters in targets if end in name and end != state}
            if state in self.can_complete:
                moves[violated] = events & ~self.rows[state].defined
            if len(triples) + sum(letters.bit_count() for letters in moves.values()) > MOST_TRANSITIONS:
                raise FormatError(f"must have at most {MOST_TRANSITIONS:,} transitions")
            for target, letters in moves.items():
                triples += [(name[state], propositions[j], target) for j in elements_of(letters)]
        is_violated = any(target == violated for _, _, target in triples)
        return RewardMachine(
            initial=name[self.start],
            transitions=triples,
            final=[name[state] for state in kept if state in self.final],
            events=[event for j, event in enumerate(propositions) if j != self.alphabet.alive],
            states=[*names, violated] if is_violated else names,
        )
