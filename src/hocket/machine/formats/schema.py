"""The schema that TOML and JSON share, as docs/format.md describes it: machines, calls, counting transitions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, cast

from hocket.documents import Document, as_any, as_number, as_table, as_text, as_texts, check_keys, entries, table_of
from hocket.errors import FormatError, MachineError, located, shown
from hocket.graphs import distances_from
from hocket.machine.composition import Composition
from hocket.machine.decomposition import enumerate_states
from hocket.machine.names import Rows, TransitionColumns, as_pairs, as_rows, invert
from hocket.machine.parts import PARTS, Labelled, rename_events, unfold
from hocket.machine.reward_machine import RewardMachine

if TYPE_CHECKING:
    from hocket.machine.formulas.build import Reading
    from hocket.machine.formulas.syntax import Limits

LANGUAGES = ("formula", "regex", "declare")  # of sentences that replace transitions
_as_rows = table_of(as_table)
TABLE_KEYS = {
    "initial": as_text, "final": as_texts, "events": as_texts, "states": as_texts, "transitions": _as_rows,
    "rewards": table_of(table_of(as_number)), "calls": _as_rows,
}  # fmt: skip
MACHINE_KEYS = (*TABLE_KEYS, *LANGUAGES, *PARTS)

MOST_CALLERS = 16  # files of which each calls the next


class Design(NamedTuple):
    """A team machine with local event sets, and the agents that control each event."""

    machine: RewardMachine | Composition  # a composition if it is a sentence with independent parts
    knows: Mapping[str, tuple[str, ...]] = {}
    control: Mapping[str, tuple[str, ...]] = {}
    reading: Reading | None = None  # of the sentence, if it is one

    def enumerated(self) -> RewardMachine:
        """Return the team machine with all its states."""
        return enumerate_states(self.machine) if self.reading is None else self.reading.machine()


@dataclass
class Files:
    """Files that the machines of a text may call: each is loaded once; all sentences take limited time together."""

    load: Callable[[str, str, Files], RewardMachine] | None = None  # by the name of a file and the key of the call
    callers: list[str] = field(default_factory=list)  # that are being loaded, of which each calls the next
    most_callers: float = MOST_CALLERS
    loaded: dict[str, RewardMachine] = field(default_factory=dict)

    @cached_property
    def limits(self) -> Limits:
        from hocket.machine.formulas.syntax import Limits  # most files have no sentence

        return Limits()

    def machine(self, name: str, where: str) -> RewardMachine:
        """Load a machine that is called; it must not call itself, directly or through others."""
        if self.load is None:
            raise FormatError(f"only a file in a folder can call another one, got {name!r}", where=where)
        if (is_cycle := name in self.callers) or len(self.callers) > self.most_callers:
            limit = f"at most {self.most_callers} files call each other"
            rule = "a machine must not call itself" if is_cycle else limit
            raise FormatError(f"{rule}, got {' > '.join([*self.callers[-4:], name])}", where=where)
        if name not in self.loaded:
            self.callers.append(name)
            self.loaded[name] = self.load(name, where, self)
            self.callers.pop()
        return self.loaded[name]


def design_from(document: object, files: Files | None = None) -> Design:
    """Build a design from nested dictionaries and lists, checking every key and type."""
    files = files or Files()
    table = as_table(document, "the document")
    check_keys(table, (*TABLE_KEYS, "knows", "control", *LANGUAGES, *PARTS))
    knows, control = (table_of(as_texts)(table.pop(key, {}), key) for key in ("knows", "control"))
    if not {*LANGUAGES} & {*table}:
        return Design(machine_from(table, files=files), knows, control)
    reading = sentence_from(table, files=files)
    machine = reading.parts(files.limits) if len(reading.groups) > 1 else reading.machine(files.limits)
    return Design(machine, knows, control, reading)


def sentence_from(table: Document, at: str = "", also: tuple[str, ...] = (), *, files: Files) -> Reading:
    """Read the sentence that replaces the transitions; `also` are keys that the caller reads."""
    from hocket.machine.formulas import read_sentence  # most files have no sentence

    language = next(key for key in LANGUAGES if key in table)
    rule = f"with {language}, only {' and '.join(('events', *also))} may be given; "
    readers = {language: as_texts if language == "declare" else as_text, "events": as_texts}
    given = entries(table, readers | dict.fromkeys(also, as_any), at, rule)
    with located(f"{at}{language}", kind=MachineError):
        return read_sentence(language, given[language], given.get("events"), files.limits)


def machine_from(value: object, where: str = "", files: Files | None = None) -> RewardMachine:
    """Build a machine from its table, which is at the key `where` of a file."""
    table, at, files = as_table(value, where), where and f"{where}.", files or Files()
    is_row = any(isinstance(table[key], dict) for key in table.keys() - {*MACHINE_KEYS})
    check_keys(table, MACHINE_KEYS, at, f"a state and its events stand in {at}transitions; " if is_row else "")
    if "calls" in table or {*PARTS} & {*table}:
        return _compound_from(table, at, files)
    if {*LANGUAGES} & {*table}:
        with located(at, kind=MachineError):
            return sentence_from(table, at, files=files).machine(files.limits)
    if "transitions" not in table:
        raise FormatError("is missing; it maps each state to its events and where they lead", where=f"{at}transitions")
    if "final" not in table and "rewards" not in table:
        raise FormatError("is missing; it lists the final states", where=f"{at}final")
    given = entries(table, TABLE_KEYS, at)
    rows, rewards = given["transitions"], given.get("rewards")
    lists: dict[str, tuple[str, ...]] = {key: given[key] for key in ("final", "events", "states") if key in given}
    initial = given.get("initial", next(chain(rows, lists.get("states", ())), None))
    if initial is None:
        raise FormatError("is missing, and there is no first state to use instead", where=f"{at}initial")
    types = set(map(type, chain.from_iterable(row.values() for row in rows.values())))
    moves = cast(CountedRows, rows)  # most files, large ones above all, have only names in their rows
    if rewards is not None or not types <= {str}:
        moves = {
            state: {event: _target(state, end, f"{at}transitions.{state}.{event}") for event, end in row.items()}
            for state, row in rows.items()
        }
    if not types <= {str}:
        ends = (end for row in moves.values() for target in row.values() for end in _ends(target))
        states = tuple(dict.fromkeys([*moves, *ends, *lists.get("states", ()), initial]))
        lists.setdefault("events", tuple(dict.fromkeys(chain.from_iterable(moves.values()))))
        counting = Counting(initial, moves, states, f"{at}transitions")
        final = lists.get("final", ())
        unknown = [state for state in final if state not in states]  # which the machine will refuse
        lists |= {"states": tuple(counting.copies_of(states)), "final": (*counting.copies_of(final), *unknown)}
        moves, rewards = counting.transitions, None if rewards is None else counting.spread(rewards)
    with located(at, kind=MachineError):
        return RewardMachine._from_rows(initial, cast(Rows[str], moves), lists, rewards)


def _compound_from(table: Document, at: str, files: Files) -> RewardMachine:
    """Build a machine that calls others, or that is made of parts."""
    rows = _as_rows(table.pop("calls", {}), f"{at}calls")
    calls = _Calls(rows, f"{at}calls.", files)
    if part := {*PARTS} & {*table}:
        check_keys(table, (*part,), at, f"with {min(part)}, only calls may be given; ")
        return calls.part(min(part), table[min(part)], at)
    if "rewards" in table:
        raise FormatError("a machine that calls others is rewarded for completion alone", where=f"{at}rewards")
    moves = as_table(table.get("transitions", {}), f"{at}transitions")
    for name, row in rows.items():
        if "to" in row:
            moves[name] = {**as_table(moves.get(name, {}), f"{at}transitions.{name}"), name: row["to"]}
    outer = machine_from({"initial": next(iter(moves), ""), **table, "transitions": moves}, at.rstrip("."))
    with located(at, kind=MachineError):
        return unfold(outer, {name: calls.machine(name) for name in rows})


class _Calls:
    """The machines that a machine calls, by their names."""

    def __init__(self, rows: Mapping[str, Document], at: str, files: Files) -> None:
        self.rows, self.at, self.files = rows, at, files
        self.called = Files(self._build, most_callers=math.inf)

    def machine(self, name: str) -> RewardMachine:
        """Build a machine that is called."""
        return self.called.machine(name, f"{self.at}{name}")

    def _build(self, name: str, where: str, _: Files) -> RewardMachine:
        row = self.rows[name]
        with located(where, kind=MachineError):
            check_keys(row, ("machine", *PARTS, "rename", "to"), f"{where}.")
            keys = [key for key in row if key not in ("rename", "to")]
            if len(keys) != 1:
                raise FormatError(f"must have a machine or one of {', '.join(PARTS)}, got {len(keys)}", where=where)
            value = row[keys[0]]
            if keys[0] != "machine":
                machine = self.part(keys[0], value, f"{where}.")
            elif isinstance(value, str):
                machine = self.files.machine(value, f"{where}.machine")
            else:
                machine = machine_from(value, f"{where}.machine", self.files)
            new = table_of(as_text)(row.get("rename", {}), f"{where}.rename")
            return rename_events(machine, new) if new else machine

    def part(self, key: str, value: object, at: str) -> RewardMachine:
        """Build a machine of parts, which are events or calls."""
        where = f"{at}{key}"
        if key not in ("repeat", "within"):
            names = as_texts(value, where)
            with located(where, kind=MachineError):
                return PARTS[key](*map(self._labelled, names))
        number = "times" if key == "repeat" else "events"
        row = entries(as_table(value, where), {"part": as_text, number: as_any}, f"{where}.")
        for required in ("part", number):
            if required not in row:
                raise FormatError(f"is missing; {key} has 'part' and '{number}'", where=f"{where}.{required}")
        with located(where, kind=MachineError):
            return PARTS[key](self._labelled(row["part"]), row[number])

    def _labelled(self, name: str) -> Labelled:
        return Labelled(name, self.machine(name) if name in self.rows else name)


def _target(state: str, value: object, where: str) -> str | Counted:
    """Read the target of a transition: a state, or a table if it counts."""
    if not isinstance(value, dict):
        return as_text(value, where)
    row = entries(value, {"to": as_text, "times": as_any, "otherwise": as_text}, f"{where}.")
    for key in ("to", "times"):
        if key not in row:
            raise FormatError("is missing; a transition that counts has 'to' and 'times'", where=f"{where}.{key}")
    times = row["times"]
    if type(times) is not int or not 1 <= times <= MOST_TIMES:
        rule = f"must be a whole number from 1 to {MOST_TIMES:,}, got {shown(times)}"
        raise FormatError(rule, where=f"{where}.times")
    return Counted(row["to"], times, row.get("otherwise", state))


def design_to(design: Design) -> Document:
    """Make the document of a design, which `design_from` reads."""
    document = machine_to(design.enumerated())
    moves: Document = {key: document.pop(key) for key in ("transitions", "rewards") if key in document}
    given = {key: lists for key, lists in (("knows", design.knows), ("control", design.control)) if lists}
    lists = {key: {name: list(names) for name, names in lists.items()} for key, lists in given.items()}
    return {**document, **lists, **moves}


def machine_to(machine: RewardMachine) -> Document:
    """Make the document of a machine, which `machine_from` reads, without keys that have their default values."""
    document: Document = {"initial": machine.initial, "final": list(machine.final)}
    if list(dict.fromkeys(chain.from_iterable(machine.moves.values()))) != list(machine.events):
        document["events"] = list(machine.events)
    if list(TransitionColumns.of_rows(machine.moves).states_from(machine.initial)) != list(machine.states):
        document["states"] = list(machine.states)  # whose order is not that of their first use
    document["transitions"] = {state: dict(row) for state, row in machine.moves.items()}
    if not machine.is_task_completion:
        document["rewards"] = as_rows({key: reward for key, reward in machine.rewards.items() if reward})
    return document


# Transitions that count lead on when their event has happened a number of times, and to another state before. The
# machine is written out with copies of its states, one for each count that still matters there.

MOST_TIMES = 1_000
MOST_COUNTERS = 16  # transitions that count, in one machine
MOST_COPIES = 10_000  # states that counting may add to a machine

Counts = tuple[int, ...]  # how often each counting transition was taken since it last led on
Copy = tuple[str, Counts]
CountedRows = Rows["str | Counted"]


class Counted(NamedTuple):
    """A transition that leads to `to` every `times`-th time, and to `otherwise` before."""

    to: str
    times: int
    otherwise: str


def _ends(target: str | Counted) -> tuple[str, ...]:
    return (target,) if isinstance(target, str) else (target.otherwise, target.to)


class Counting:
    """A machine whose transitions may count."""

    def __init__(self, initial: str, rows: CountedRows, states: Sequence[str], at: str) -> None:
        self.rows, self.states = rows, states
        self.at = at  # the key of the transitions in a file
        moves = as_pairs(rows)
        self.counters = {pair: target for pair, target in moves.items() if isinstance(target, Counted)}
        if len(self.counters) > MOST_COUNTERS:
            rule = f"at most {MOST_COUNTERS} transitions of a machine may count, got {len(self.counters):,}"
            raise FormatError(rule, where=at)
        self.number = {pair: number for number, pair in enumerate(self.counters)}
        events = [event for _, event in self.counters]
        self.labels = [event if events.count(event) == 1 else f"{event} in {state}" for state, event in self.counters]
        before = invert({pair: _ends(target) for pair, target in moves.items()}, states)
        # Of each counter: the states from which it can still be reached, so that it matters there.
        self.matters = [distances_from([to], lambda end: (pair[0] for pair in before[end])) for to, _ in self.counters]
        self.copies = self._copies(initial)

    @property
    def transitions(self) -> dict[str, dict[str, str]]:
        """The transitions between copies, in the order of the states and events."""
        return {self.name(copy): {event: self.name(end) for event, end, _ in self.follow(copy)} for copy in self.copies}

    def copies_of(self, states: Iterable[str]) -> list[str]:
        """List the names of all copies of some states."""
        wanted = {*states}
        return [self.name(copy) for copy in self.copies if copy[0] in wanted]

    def spread(self, rewards: Rows[float]) -> dict[str, dict[str, float]]:
        """Give the copies of a transition its reward; one that counts has it when it leads on."""
        spread = {}
        for copy in self.copies:
            row = rewards.get(copy[0], {})
            leading = (event for event, _, leads_on in self.follow(copy) if leads_on)
            spread[self.name(copy)] = {event: row[event] for event in leading if event in row}
        return spread

    def _copies(self, initial: str) -> list[Copy]:
        """List the states with all counts that some trace leads to, in the order of the states; each at least once."""
        none: Counts = (0,) * len(self.counters)
        reached = self._reach([(initial, none)])
        seen = {state for state, _ in reached}
        reached = self._reach([*reached, *((state, none) for state in self.states if state not in seen)])
        rank = {state: number for number, state in enumerate(self.states)}
        copies = sorted(reached, key=lambda copy: (rank[copy[0]], copy[1]))
        if len(set(map(self.name, copies))) < len(copies):
            raise FormatError("a copy of a state would have the name of another state", where=self.at)
        return copies

    def _reach(self, roots: list[Copy]) -> Iterable[Copy]:
        expanded = itertools.count(1)

        def successors(copy: Copy) -> Iterable[Copy]:
            if next(expanded) > len(self.states) + MOST_COPIES:
                rule = f"counting would add more than {MOST_COPIES:,} states to the machine"
                raise FormatError(f"{rule}: count less, or fewer things at a time", where=self.at)
            return (end for _, end, _ in self.follow(copy))

        return distances_from(roots, successors)

    def follow(self, copy: Copy) -> Iterable[tuple[str, Copy, bool]]:
        """List the events in a copy of a state, the copies to which they lead, and whether they lead on."""
        state, counts = copy
        for event, target in self.rows.get(state, {}).items():
            if isinstance(target, str):
                end, after, leads_on = target, counts, True
            else:
                number = self.number[state, event]
                leads_on = counts[number] + 1 == target.times
                end = target.to if leads_on else target.otherwise
                after = (*counts[:number], 0 if leads_on else counts[number] + 1, *counts[number + 1 :])
            kept = (count if end in states else 0 for count, states in zip(after, self.matters, strict=True))
            yield event, (end, tuple(kept)), leads_on

    def name(self, copy: Copy) -> str:
        """Name a copy after its state and what has been counted, as in "road, load 2 of 3"."""
        state, counts = copy
        rows = zip(self.labels, counts, self.counters.values(), strict=True)
        return ", ".join((state, *(f"{label} {count} of {counter.times}" for label, count, counter in rows if count)))
