"""What an automaton in the HOA format means for traces of single events: a machine, or a reason why not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from hocket.errors import FormatError, printable
from hocket.graphs import distances_from
from hocket.hitting_set import elements_of
from hocket.machine.formats.hoa.syntax import END_MARK, HoaAutomaton, HoaState, Letters
from hocket.machine.formats.hoa.tokens import line_of
from hocket.machine.names import make_distinct
from hocket.machine.reward_machine import RewardMachine

MOST_TRANSITIONS = 2_000_000
VIOLATED = "violated"  # the name of the dead end for events that have no edge


class _Row(NamedTuple):
    """What a state does on each letter; sets of letters are bits."""

    targets: dict[int, int]  # target -> the letters that lead to it
    defined: int
    marked: int  # the letters that have a marked edge

    def step(self, letter: int) -> int | None:
        if not self.defined & letter:
            return None
        return next(target for target, letters in self.targets.items() if letters & letter)


def interpret(automaton: HoaAutomaton) -> RewardMachine:
    """Make the machine that an automaton means, or say why there is none."""
    return _HoaReading(automaton).machine()


class _HoaReading:
    """The meaning of an automaton for traces of single events."""

    def __init__(self, automaton: HoaAutomaton) -> None:
        self.automaton = automaton
        self.letters: Letters = automaton.letters
        self.rows = [self.row(state) for state in automaton.states]
        self.sources: list[list[int]] = [[] for _ in self.rows]  # along events and silence
        for source, row in enumerate(self.rows):
            for target in row.targets:
                self.sources[target].append(source)
        self.accepting = [state.is_marked for state in automaton.states]
        self.marks_edges = any(row.marked for row in self.rows)
        if self.letters.alive is not None:
            self.accepting = self.accepted_ends()
            self.marks_edges = False
        elif self.marks_edges and any(self.accepting):
            raise FormatError("acceptance must be on states or on edges, got both")
        self.final = self.lasting()
        self.hopeful = self.leading_to(self.final)

    def error(self, state: int, message: str) -> FormatError:
        described = self.automaton.states[state]
        name = printable(repr(described.name), 60)
        return FormatError(f"state {name} {message}", where=line_of(self.automaton.content, described.place))

    def say(self, letter: int) -> str:
        """Name the first of some letters."""
        first = (letter & -letter).bit_length() - 1
        names = self.letters.propositions
        return printable(repr(names[first]), 60) if first < len(names) else "nothing"

    def row(self, state: HoaState) -> _Row:
        targets: dict[int, int] = {}
        defined = marked = 0
        for edge in state.edges:
            if clash := edge.letters & defined & ~targets.get(edge.target, 0):
                raise FormatError(
                    f"must be deterministic, got two edges from state {printable(repr(state.name), 60)} "
                    f"for {self.say(clash)} alone",
                    where=line_of(self.automaton.content, edge.place),
                )
            if edge.letters:
                targets[edge.target] = targets.get(edge.target, 0) | edge.letters
            defined |= edge.letters
            marked |= edge.letters if edge.is_marked else 0
        return _Row(targets, defined, marked)

    # Which states are final.

    def accepted_ends(self) -> list[bool]:
        """Tell for each state whether the trace may end there: `alive` false from then on goes round by a mark."""
        states, rows, end = self.automaton.states, self.rows, self.letters.end
        nowhere = len(rows)
        steps = [row.step(end) for row in rows]
        following = np.array([*(nowhere if state is None else state for state in steps), nowhere])
        passes = [state.is_marked or bool(row.marked & end) for state, row in zip(states, rows, strict=True)]
        seen = np.array([*passes, False])  # whether a mark is passed in so many steps ...
        ahead = following  # ... which lead here; twice as many each time, until all go round
        for _ in range(len(rows).bit_length()):
            seen, ahead = seen | seen[ahead], ahead[ahead]
        after = {state for state in steps if state is not None}
        self.check_ends(after)
        return [is_accepted and state not in after for state, is_accepted in enumerate(seen[ahead][:-1].tolist())]

    def check_ends(self, ended: Iterable[int]) -> None:
        """Require that nothing comes of events in states after the end, as in Spot's encoding."""
        states, rows = self.automaton.states, self.rows
        marked = (s for s, row in enumerate(rows) if states[s].is_marked or row.marked)
        hopeful = self.leading_to(marked, self.letters.every)
        for state in ended:
            for target, letters in rows[state].targets.items():
                if letters & ~self.letters.end and target in hopeful:
                    raise self.error(
                        state, f"can be reached after {END_MARK!r} was false; rename the event if it is not Spot's mark"
                    )

    def lasting(self) -> set[int]:
        """The states from which everything is accepted, or that accept and allow nothing more."""
        events = self.letters.events
        accepts = self.accepting_by_edges() if self.marks_edges else self.accepting
        lasts = {
            state
            for state, row in enumerate(self.rows)
            if accepts[state] and not (row.defined & events and events & ~row.defined)
        }
        others = (state for state in range(len(self.rows)) if state not in lasts)
        return lasts - self.leading_to(others, events | self.letters.silence)

    def accepting_by_edges(self) -> list[bool]:
        """Tell for each state whether acceptance holds in it, by the marks on edges alone.

        Waiting tells: a silent step is accepted or not. Where none is allowed, all events that lead there must be.
        """
        events, silence = self.letters.events, self.letters.silence
        by_mark, otherwise = set(), {self.automaton.start}
        for row in self.rows:
            for target, letters in row.targets.items():
                if letters & events & row.marked:
                    by_mark.add(target)
                if letters & events & ~row.marked:
                    otherwise.add(target)
        entered = by_mark - otherwise
        return [
            not row.defined & (events | silence) & ~row.marked and (bool(row.marked & silence) or state in entered)
            for state, row in enumerate(self.rows)
        ]

    def leading_to(self, goals: Iterable[int], letters: int | None = None) -> set[int]:
        """The states from which events, or the letters given, can lead to one of the goals."""
        letters = self.letters.events if letters is None else letters

        def before(state: int) -> Iterator[int]:
            return (source for source in self.sources[state] if self.rows[source].targets[state] & letters)

        return {*distances_from(goals, before)}

    # The machine.

    def kept(self) -> set[int]:
        """The states that single events lead to; a state that no edge at all leads to is kept, too."""
        states = self.automaton.states
        led_to = distances_from([self.automaton.start], lambda state: (edge.target for edge in states[state].edges))
        roots = [self.automaton.start, *(state for state in range(len(states)) if state not in led_to)]
        return {*distances_from(roots, self.successors)}

    def successors(self, state: int) -> Iterator[int]:
        if state not in self.final:
            for target, letters in self.rows[state].targets.items():
                if letters & self.letters.events:
                    yield target

    def check_acceptance(self, state: int) -> None:
        """Refuse what is accepted for a while: a machine knows nothing of what comes after its task."""
        row, events = self.rows[state], self.letters.events
        by_mark = (target for target, letters in row.targets.items() if letters & events & row.marked)
        if self.accepting[state] or (self.marks_edges and any(target not in self.final for target in by_mark)):
            raise self.error(state, "is accepting but can be left; a completed task must stay completed")

    def check_silence(self, state: int) -> None:
        """Refuse to count steps: a machine moves on events alone."""
        following = self.rows[state].step(self.letters.silence)
        if following is None or following == state or not {state, following} <= self.hopeful:
            return
        name = printable(repr(self.automaton.states[following].name), 60)
        raise self.error(state, f"has an edge to {name} without an event; reward machines change state on events only")

    def machine(self) -> RewardMachine:
        states, propositions = self.automaton.states, self.letters.propositions
        kept = sorted(self.kept())
        for state in kept:
            if state not in self.final:
                self.check_acceptance(state)
                self.check_silence(state)
        if self.final and self.final.isdisjoint(kept):
            raise FormatError("no events, one at a time, complete it")
        names = list(make_distinct([*(states[state].name for state in kept), VIOLATED]))
        name = dict(zip(kept, names, strict=False))
        triples = self.transitions(name, names[-1])
        is_violated = any(target == names[-1] for _, _, target in triples)
        return RewardMachine(
            initial=name[self.automaton.start],
            transitions=triples,
            final=[name[state] for state in kept if state in self.final],
            events=[event for j, event in enumerate(propositions) if j != self.letters.alive],
            states=names if is_violated else names[:-1],
        )

    def transitions(self, name: dict[int, str], violated: str) -> list[tuple[str, str, str]]:
        propositions, events = self.letters.propositions, self.letters.events
        triples: list[tuple[str, str, str]] = []
        for state, source in name.items():
            if state in self.final:
                continue
            row = self.rows[state]
            moves = {name[target]: letters & events for target, letters in row.targets.items() if target in name}
            moves.pop(source, None)
            if state in self.hopeful:
                moves[violated] = events & ~row.defined
            if len(triples) + sum(letters.bit_count() for letters in moves.values()) > MOST_TRANSITIONS:
                raise FormatError(f"must have at most {MOST_TRANSITIONS:,} transitions")
            for target, letters in moves.items():
                triples += [(source, propositions[j], target) for j in elements_of(letters)]
        return triples
