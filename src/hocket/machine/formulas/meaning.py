"""The conjuncts of a task's text: the automaton of each, and what a state means: which hold, are open or broken."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce

from hocket.graphs import distances_from
from hocket.machine.formulas.automaton import Automaton, Longs, constant, distances, product
from hocket.machine.formulas.progression import LONGEST_REMAINDER, Progression, State, TooManyStates
from hocket.machine.formulas.syntax import RULES, Formulas, Limits, Op, quoted
from hocket.machine.reward_machine import RewardMachine

MOST_WRITTEN = 2_000  # states of a conjunct up to which it is written what is left to do in them
DIRECT = 2_000  # states up to which a conjunct is explored as a whole before it is taken apart

DONE, VIOLATED = "done", "violated"
LONGEST_NAME = 24  # characters of a state's name that are still drawn well
LONGEST_QUOTE = 60  # characters of a conjunct in a sentence
MOST_NAMED = 8  # open conjuncts in a state's name
MOST_SHOWN = 6  # events of a trace in a state's name
MOST_QUOTED = 3  # conjuncts in a sentence


@dataclass(frozen=True, eq=False)
class Conjunct:
    """One of the conditions that make up a task; the task is done when all of them hold."""

    text: str
    automaton: Automaton
    formulas: Formulas | None = None  # None: it is no formula
    formula: int = -1
    at_last: bool = False  # whether it is read at the last position of a trace instead of the first

    def left(self, state: int, events: Sequence[str]) -> str:
        """Write what is left to do in a state: as a formula or, where that is none or a long one, as a trace."""
        if self.automaton.is_still(state):
            return ""
        if self.formulas is not None and self.automaton.states <= MOST_WRITTEN:
            progression, reached = self._progression
            here = reached[state]
            for text, other in progression.remainders(here):
                is_short = len(text) <= LONGEST_REMAINDER
                if is_short and (other == here or progression.means(other, self.automaton, state)):
                    return text
        trace = self.way(state, MOST_SHOWN + 1)
        return " ".join(quoted(events[event]) for event in trace[:MOST_SHOWN]) + (" …" if trace[MOST_SHOWN:] else "")

    def way(self, state: int, longest: int) -> list[int]:
        """Find the first events of a shortest trace after which the conjunct holds; none where there is no such trace.

        Among shortest traces, it is the first in the order of events.
        """
        move, distance, trace = self.automaton.move, self._distance, list[int]()
        events = self.automaton.examples()
        while distance[state] > 0 and len(trace) < longest:
            kind = next(kind for kind in events if distance[move[state, kind]] == distance[state] - 1)
            trace.append(events[kind])
            state = int(move[state, kind])
        return trace

    @cached_property
    def _distance(self) -> Longs:
        return distances(self.automaton.move, self.automaton.accepts, None, Limits())

    @cached_property
    def _progression(self) -> tuple[Progression, list[State]]:
        """Take the formula along a shortest trace to each state of the automaton, all of them at once."""
        assert self.formulas is not None
        progression = Progression(self.formulas, self.formula, Limits(), at_last=self.at_last)
        return progression, self.automaton.along(progression.start(), progression.step)


class Translator:
    """Translates formulas; those that differ in nothing but the names of events are worked out once."""

    def __init__(self, formulas: Formulas, events: int, limits: Limits, *, at_last: bool = False) -> None:
        self.formulas, self.events, self.limits, self.at_last = formulas, events, limits, at_last
        self.known: dict[tuple[Op | int, ...], tuple[Automaton, list[int]]] = {}

    def conjunct(self, formula: int, text: str) -> Conjunct:
        """Translate a conjunct; `text` is how the user knows it."""
        shape, events = self.formulas.shape(formula)
        if shape not in self.known:
            self.known[shape] = self.automaton(formula), events
        automaton, known_events = self.known[shape]
        if events != known_events:
            name = dict(zip(known_events, events, strict=True))
            automaton = automaton._replace(kind={name[event]: kind for event, kind in automaton.kind.items()})
        return Conjunct(text, automaton, self.formulas, formula, self.at_last)

    def automaton(self, formula: int) -> Automaton:
        """Make an automaton: of a formula as a whole or, if that becomes large, of what it is a function of."""
        formulas = self.formulas
        takes_apart = formulas.op[formula] in RULES or formulas.op[formula] is Op.NOT
        try:
            progression = Progression(formulas, formula, self.limits, at_last=self.at_last)
            return progression.explore(self.events, DIRECT if takes_apart else None)
        except TooManyStates:
            return self.combine(formula)

    def combine(self, formula: int) -> Automaton:
        """Make the automaton of a Boolean function of temporal formulas, each of which is taken as a whole."""
        formulas, made = self.formulas, dict[int, Automaton]()

        def operands(number: int) -> tuple[int, ...]:
            op = formulas.op[number]
            return formulas.arguments[number] if op in RULES or op is Op.NOT else ()

        for number in sorted(distances_from([formula], operands)):
            op, arguments = formulas.op[number], formulas.arguments[number]
            if op is Op.NOT:
                made[number] = made[arguments[0]].complement()
            elif op in RULES:
                left, right = (made[argument] for argument in arguments)
                made[number] = product(left, right, RULES[op], self.limits, "this formula")
            elif number in (formulas.true, formulas.false):
                made[number] = constant(number == formulas.true, self.events)
            else:
                progression = Progression(formulas, number, self.limits, at_last=self.at_last)
                made[number] = progression.explore(self.events)
        return made[formula]


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
        broken = [c.text for c, state in pairs if not c.automaton.accepts[state] and c.automaton.is_still(state)]
        if broken:
            return f"{_listed(broken)} broken."
        open_ones = [conjunct.text for conjunct, state in pairs if not conjunct.automaton.accepts[state]]
        if open_ones:
            return f"{_listed(open_ones)} still open."
        return "All conjuncts hold."

    @cached_property
    def _labels(self) -> dict[tuple[int, int], tuple[bool, str]]:
        return {}  # conjunct, its state -> whether it is open there, and what is left to do

    def name(self, states: Sequence[int]) -> str:
        """Say shortly what is left to do where the conjuncts are in these states."""
        labels = self._labels
        for index, state in enumerate(states):
            if (index, state) not in labels:
                conjunct = self.conjuncts[index]
                labels[index, state] = not conjunct.automaton.accepts[state], conjunct.left(state, self.events)
        here = [labels[key] for key in enumerate(states)]
        open_ones = [text for is_open, text in here if is_open]
        if len(open_ones) > MOST_NAMED:
            return f"{len(open_ones)} left"
        kept = [text for is_open, text in here if text and not is_open]
        for texts in ([*open_ones, *kept], open_ones):
            if texts and sum(map(len, texts)) <= LONGEST_NAME and len(name := join_texts(texts)) <= LONGEST_NAME:
                return name
        if len(open_ones) > 1:
            return f"{len(open_ones)} left"
        return short(next(iter([*open_ones, *kept]), "nothing"), LONGEST_NAME)


def join_texts(texts: Sequence[str]) -> str:
    """Write the conjunction of some formulas."""
    if len(texts) == 1:
        return texts[0]
    joined = []
    for text in texts:
        outside, inner = text, ""  # what it has outside of parentheses
        while outside != inner:
            outside, inner = re.sub(r"\([^()]*\)", "", outside), outside
        joined.append(f"({text})" if " | " in outside or "->" in outside else text)  # which `&` would bind tighter than
    return " & ".join(joined)


def short(text: str, longest: int = LONGEST_QUOTE) -> str:
    """Cut off what is too long for a sentence, or for a name."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _listed(texts: Sequence[str]) -> str:
    shown = [f"`{short(text)}`" for text in texts[:MOST_QUOTED]]
    if len(texts) > MOST_QUOTED:
        return f"{', '.join(shown)} and {len(texts) - MOST_QUOTED} more are"
    return f"{shown[0]} is" if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]} are"


def distinct(names: Iterable[str]) -> Iterator[str]:
    """Number the names that come again: F a, F a #2, F a #3."""
    times: dict[str, int] = {}
    taken: set[str] = set()
    for name in names:
        unique = name
        while unique in taken:
            times[name] = times.get(name, 1) + 1
            unique = f"{name} #{times[name]}"
        taken.add(unique)
        yield unique


def states_of_conjuncts(conjuncts: Sequence[Conjunct], automaton: Automaton) -> list[tuple[int, ...]]:
    """Say for each state of the product of some conjuncts in which state they are after a shortest trace to it."""
    return automaton.along((0,) * len(conjuncts), partial(step_all, conjuncts))


def step_all(conjuncts: Sequence[Conjunct], states: tuple[int, ...], event: int) -> tuple[int, ...]:
    """Let each conjunct take an event."""
    return tuple([c.automaton.step(state, event) for c, state in zip(conjuncts, states, strict=True)])
