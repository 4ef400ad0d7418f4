"""What the states of a machine mean in the words of its formula: which conjuncts hold, are open or are broken."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce

from hocket.machine.formulas.automaton import Automaton
from hocket.machine.formulas.language import Conjunct
from hocket.machine.formulas.syntax import quoted
from hocket.machine.reward_machine import RewardMachine

DONE, VIOLATED = "done", "violated"
LONGEST_NAME = 24  # characters of a state's name that are still drawn well
LONGEST_QUOTE = 60  # characters of a conjunct in a sentence
MOST_NAMED = 8  # open conjuncts in a state's name
MOST_SHOWN = 6  # events of a trace in a state's name
MOST_QUOTED = 3  # conjuncts in a sentence


@dataclass(frozen=True)
class FormulaMeaning:
    """The conjuncts of a formula, and what is worth knowing about it."""

    events: tuple[str, ...]
    conjuncts: tuple[Conjunct, ...]
    notes: tuple[str, ...] = ()
    parts: Mapping[str, RewardMachine] = field(default_factory=dict)  # whose composition the machine is, if it is one

    @cached_property
    def _number(self) -> dict[str, int]:
        return {event: number for number, event in enumerate(self.events)}

    def follow(self, trace: Iterable[int]) -> tuple[int, ...]:
        """Take each conjunct through a trace of events by their numbers."""
        return reduce(partial(step_all, self.conjuncts), trace, (0,) * len(self.conjuncts))

    def say(self, trace: Sequence[str]) -> str:
        """Say in a sentence which conjuncts are broken after a trace or, if none is, which are still open."""
        states = self.follow(self._number[event] for event in trace)
        pairs = list(zip(self.conjuncts, states, strict=True))
        broken = [conjunct.text for conjunct, state in pairs if _is_hopeless(conjunct.automaton, state)]
        if broken:
            return f"{_listed(broken)} broken."
        open_ones = [conjunct.text for conjunct, state in pairs if not conjunct.automaton.accepts[state]]
        if open_ones:
            return f"{_listed(open_ones)} still open."
        return "All conjuncts hold."

    @cached_property
    def _labels(self) -> list[dict[int, tuple[bool, str]]]:
        return [{} for _ in self.conjuncts]

    def _label(self, index: int, state: int) -> tuple[bool, str]:
        """Say whether a conjunct is open in one of its states, and what is left of it."""
        known = self._labels[index]
        if state not in known:
            conjunct = self.conjuncts[index]
            is_open = not conjunct.automaton.accepts[state]
            text = "" if _is_still(conjunct.automaton, state) else conjunct.left(state)
            known[state] = (is_open, text or (self.way(index, state) if is_open else ""))
        return known[state]

    def name(self, states: Sequence[int]) -> str:
        """Say shortly what is left to do where the conjuncts are in these states."""
        labels = [self._label(index, state) for index, state in enumerate(states)]
        open_ones = [text for is_open, text in labels if is_open]
        if len(open_ones) > MOST_NAMED:
            return f"{len(open_ones)} left"
        kept = [text for is_open, text in labels if text and not is_open]
        for texts in ([*open_ones, *kept], open_ones):
            if not texts or sum(map(len, texts)) > LONGEST_NAME:
                continue
            name = join_texts(texts)
            if len(name) <= LONGEST_NAME:
                return name
        if len(open_ones) > 1:
            return f"{len(open_ones)} left"
        longest = next(iter([*open_ones, *kept]), "nothing")
        return longest if len(longest) <= LONGEST_NAME else longest[: LONGEST_NAME - 1] + "…"

    def way(self, index: int, state: int) -> str:
        """Write a shortest trace that makes a conjunct hold."""
        trace = self.conjuncts[index].way(state, MOST_SHOWN + 1)
        shown = [quoted(self.events[event]) for event in trace[:MOST_SHOWN]]
        return " ".join(shown) + (" …" if len(trace) > MOST_SHOWN else "")


def _is_still(automaton: Automaton, state: int) -> bool:
    return bool((automaton.move[state] == state).all())


def _is_hopeless(automaton: Automaton, state: int) -> bool:
    return not automaton.accepts[state] and _is_still(automaton, state)


def join_texts(texts: Sequence[str]) -> str:
    """Write the conjunction of some formulas."""
    return " & ".join(_bracketed(text) if len(texts) > 1 else text for text in texts)


def _bracketed(text: str) -> str:
    """Put a formula into parentheses if `&` would bind tighter than what it has outside of any."""
    outside, inner = text, ""
    while outside != inner:
        outside, inner = re.sub(r"\([^()]*\)", "", outside), outside
    return f"({text})" if " | " in outside or "->" in outside else text


def _listed(texts: Sequence[str]) -> str:
    shown = [
        f"`{text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 1] + '…'}`" for text in texts[:MOST_QUOTED]
    ]
    if len(texts) > MOST_QUOTED:
        return f"{', '.join(shown)} and {len(texts) - MOST_QUOTED} more are"
    return f"{shown[0]} is" if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]} are"


def distinct(names: Iterable[str]) -> Iterator[str]:
    """Number the names that come again: F a, F a #2, F a #3."""
    times: dict[str, int] = {}
    taken: set[str] = set()
    for name in names:
        times[name] = times.get(name, 0) + 1
        unique = name if times[name] == 1 else f"{name} #{times[name]}"
        while unique in taken:
            times[name] += 1
            unique = f"{name} #{times[name]}"
        taken.add(unique)
        yield unique


def states_of_conjuncts(conjuncts: Sequence[Conjunct], automaton: Automaton) -> list[tuple[int, ...]]:
    """Say for each state of the product of some conjuncts in which state they are after a shortest trace to it."""
    return automaton.along((0,) * len(conjuncts), partial(step_all, conjuncts))


def step_all(conjuncts: Sequence[Conjunct], states: tuple[int, ...], event: int) -> tuple[int, ...]:
    """Let each conjunct take an event."""
    return tuple([c.automaton.step(state, event) for c, state in zip(conjuncts, states, strict=True)])
