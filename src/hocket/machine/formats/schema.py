"""The schema that TOML and JSON share.

    initial = "u0"                      the initial state; by default the first one in transitions
    final = ["u2"]                      the final states
    [transitions]                       state -> event -> state
    u0 = { a = "u1" }
    u1 = { b = "u2" }

In place of transitions, a sentence: `formula` (LTLf), `regex`, or `declare`, a list of constraints.

Optional: `events` and `states`, lists that declare more than transitions use; `rewards`, state -> event -> number,
which makes it a general machine (what is not listed is worth 0); `knows`, agent -> events; `control`, event -> agents.
A transition may count: `a = { to = "u1", times = 3, otherwise = "u0" }` (see `counting`).

A machine may call others, by an event or in a state, and may be made of parts (see `parts`):

    [calls]
    fetch = { machine = "fetch.toml", rename = { get = "get ore" } }    transitions on `fetch` run it
    deliver = { sequence = ["fetch", "put"], to = "done" }              state `deliver` runs it, then done follows
"""

from __future__ import annotations

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
from hocket.machine.names import Rows, TransitionColumns, invert
from hocket.machine.parts import PARTS, Labelled, rename_events, unfold
from hocket.machine.reward_machine import RewardMachine

if TYPE_CHECKING:
    from hocket.machine.formulas.build import Reading
    from hocket.machine.formulas.syntax import Limits

LANGUAGES = ("formula", "regex", "declare")  # of sentences
_rows = table_of(as_table)
TABLE_KEYS = {
    "initial": as_text, "final": as_texts, "events": as_texts, "states": as_texts, "transitions": _rows,
    "rewards": table_of(table_of(as_number)), "calls": _rows,
}  # fmt: skip
CALL_KEYS = ("machine", *PARTS, "rename", "to")
MACHINE_KEYS = (*TABLE_KEYS, *LANGUAGES, *PARTS)
DESIGN_KEYS = (*TABLE_KEYS, "knows", "control", *LANGUAGES, *PARTS)

MOST_CALLERS = 16  # files of which each calls the next


class Design(NamedTuple):
    """A team machine with local event sets, and the agents that control each event."""

    machine: RewardMachine | Composition  # a composition where it is a sentence that has independent parts
    knows: Mapping[str, tuple[str, ...]] = {}
    control: Mapping[str, tuple[str, ...]] = {}
    reading: Reading | None = None  # of the sentence, where it is one

    def enumerated(self) -> RewardMachine:
        """The team machine with all its states."""
        if self.reading is not None:
            return self.reading.machine()
        return enumerate_states(self.machine)


@dataclass
class Files:
    """Files that the machines of a text may call: each is loaded once; all sentences take limited time together."""

    load: Callable[[str, str, Files], RewardMachine] | None = None  # by the file's name and the key of the call
    callers: list[str] = field(default_factory=list)  # files that are being read, of which each calls the next
    loaded: dict[str, RewardMachine] = field(default_factory=dict)

    @cached_property
    def limits(self) -> Limits:
        from hocket.machine.formulas.syntax import Limits  # most files have no sentence

        return Limits()

    def machine(self, name: str, where: str) -> RewardMachine:
        """Load a machine that is called; no file may call itself, by others either."""
        if self.load is None:
            raise FormatError(f"only a file in a folder can call another one, got {name!r}", where=where)
        if name in self.callers or len(self.callers) > MOST_CALLERS:
            is_round = name in self.callers
            rule = "a machine must not call itself" if is_round else f"at most {MOST_CALLERS} files call each other"
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
    check_keys(table, DESIGN_KEYS)
    knows, control = (table_of(as_texts)(table.pop(key, {}), key) for key in ("knows", "control"))
    if not {*LANGUAGES} & {*table}:
        return Design(machine_from(table, files=files), knows, control)
    reading = sentence_from(table, files=files)
    machine = reading.parts(files.limits) if len(reading.groups) > 1 else reading.machine(files.limits)
    return Design(machine, knows, control, reading)


def sentence_from(table: Document, at: str = "", also: tuple[str, ...] = (), *, files: Files) -> Reading:
    """Read the sentence that stands in place of transitions; `also` are keys that are somebody else's."""
    from hocket.machine.formulas import read_sentence  # most files have none

    language = next(key for key in LANGUAGES if key in table)
    rule = f"with {language}, only {' and '.join(('events', *also))} may be given; "
    readers = {language: as_texts if language == "declare" else as_text, "events": as_texts}
    given = entries(table, readers | dict.fromkeys(also, as_any), at, rule)
    with located(f"{at}{language}", kind=MachineError):
        return read_sentence(language, given[language], given.get("events"), files.limits)


def machine_from(value: object, where: str = "", files: Files | None = None) -> RewardMachine:
    """Build a machine from its table; `where` says at which key of a file the table stands."""
    table, at, files = as_table(value, where), where and f"{where}.", files or Files()
    is_row = any(isinstance(table[key], dict) for key in table.keys() - {*MACHINE_KEYS})
    check_keys(table, MACHINE_KEYS, at, f"a state and its events stand in {at}transitions; " if is_row else "")
    if "calls" in table or {*PARTS} & {*table}:
        return _made_of_parts(table, at, files)
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
    moves = cast(CountedRows, rows)  # in most files, large ones above all, there are nothing but names
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
        unknown = [state for state in final if state not in states]  # the machine will say so
        lists |= {"states": tuple(counting.copies_of(states)), "final": (*counting.copies_of(final), *unknown)}
        moves, rewards = counting.transitions, None if rewards is None else counting.spread(rewards)
    with located(at, kind=MachineError):
        return RewardMachine._from_rows(initial, cast(Rows[str], moves), lists, rewards)


def _made_of_parts(table: Document, at: str, files: Files) -> RewardMachine:
    """Build a machine that calls others, or that is made of parts."""
    rows = _rows(table.pop("calls", {}), f"{at}calls")
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
    """Machines that others call, by their names; none may call itself, by others either."""

    def __init__(self, rows: Mapping[str, Document], at: str, files: Files) -> None:
        self.rows, self.at, self.files = rows, at, files
        self.made: dict[str, RewardMachine] = {}
        self.callers: list[str] = []  # that are being built, of which each calls the next

    def machine(self, name: str) -> RewardMachine:
        """Build a machine that is called."""
        where = f"{self.at}{name}"
        if name in self.callers:
            raise FormatError(f"a machine must not call itself, got {' > '.join((*self.callers, name))}", where=where)
        if name not in self.made:
            self.callers.append(name)
            with located(where, kind=MachineError):
                self.made[name] = self._build(self.rows[name], where)
            self.callers.pop()
        return self.made[name]

    def _build(self, row: Document, where: str) -> RewardMachine:
        check_keys(row, CALL_KEYS, f"{where}.")
        kinds = [key for key in row if key not in ("rename", "to")]
        if len(kinds) != 1:
            raise FormatError(f"must have a machine or one of {', '.join(PARTS)}, got {len(kinds)}", where=where)
        value = row[kinds[0]]
        if kinds[0] != "machine":
            machine = self.part(kinds[0], value, f"{where}.")
        elif isinstance(value, str):
            machine = self.files.machine(value, f"{where}.machine")
        else:
            machine = machine_from(value, f"{where}.machine", self.files)
        new = table_of(as_text)(row.get("rename", {}), f"{where}.rename")
        return rename_events(machine, new) if new else machine

    def part(self, kind: str, value: object, at: str) -> RewardMachine:
        """Build a machine of parts, which are events or calls."""
        where = f"{at}{kind}"
        if kind not in ("repeat", "within"):
            names = as_texts(value, where)
            with located(where, kind=MachineError):
                return PARTS[kind](*map(self._labelled, names))
        number = "times" if kind == "repeat" else "events"
        row = entries(as_table(value, where), {"part": as_text, number: as_any}, f"{where}.")
        for key in ("part", number):
            if key not in row:
                raise FormatError(f"is missing; {kind} has 'part' and '{number}'", where=f"{where}.{key}")
        with located(where, kind=MachineError):
            return PARTS[kind](self._labelled(row["part"]), row[number])

    def _labelled(self, name: str) -> Labelled:
        return Labelled(name, self.machine(name) if name in self.rows else name)


def _target(state: str, value: object, where: str) -> str | Counted:
    """Read where a transition leads: a state, or a table if it counts."""
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
    """Lay a design out as `design_from` reads it."""
    document = machine_to(design.enumerated())
    moves: Document = {key: document.pop(key) for key in ("transitions", "rewards") if key in document}
    given = {key: lists for key, lists in (("knows", design.knows), ("control", design.control)) if lists}
    lists = {key: {name: list(names) for name, names in lists.items()} for key, lists in given.items()}
    return {**document, **lists, **moves}


def machine_to(machine: RewardMachine) -> Document:
    """Lay a machine out as `machine_from` reads it, leaving out what goes without saying."""
    states, events, graph = tuple(machine.states), tuple(machine.events), machine.graph
    names, ends = ([*map(events.__getitem__, graph.label.tolist())], [*map(states.__getitem__, graph.target.tolist())])
    transitions: dict[str, dict[str, str]] = {}
    for state, begin, end in zip(states, graph.first[:-1].tolist(), graph.first[1:].tolist(), strict=True):
        if begin < end:
            transitions[state] = dict(zip(names[begin:end], ends[begin:end], strict=True))
    document: Document = {"initial": machine.initial, "final": list(machine.final)}
    if list(dict.fromkeys(names)) != list(events):
        document["events"] = list(events)
    if list(TransitionColumns.of_rows(transitions).states_from(machine.initial)) != list(states):
        document["states"] = list(states)  # which are numbered in this order, and not in that of their first use
    document["transitions"] = transitions
    if not machine.is_task_completion:
        rewards: dict[str, dict[str, float]] = {}
        for (state, event), reward in machine.rewards.items():
            if reward:
                rewards.setdefault(state, {})[event] = reward
        document["rewards"] = rewards
    return document


# Transitions that count: an event that has to happen k times in a state before it leads on.
#
#     shelf = { load = { to = "full", times = 3, otherwise = "road" } }
#
# The first two times `load` leads from the shelf to the road, the third time to full. A machine that counts is written
# out with copies of its states, one for each count that still matters there.

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
        self.at = at  # where in a file the transitions stand
        moves = [(state, event, target) for state, row in rows.items() for event, target in row.items()]
        self.counters = {(state, event): end for state, event, end in moves if isinstance(end, Counted)}
        if len(self.counters) > MOST_COUNTERS:
            rule = f"at most {MOST_COUNTERS} transitions of a machine may count, got {len(self.counters):,}"
            raise FormatError(rule, where=at)
        self.place = {key: place for place, key in enumerate(self.counters)}
        events = [event for _, event in self.counters]
        self.labels = [event if events.count(event) == 1 else f"{event} in {state}" for state, event in self.counters]
        sources = invert({(state, event): _ends(target) for state, event, target in moves}, states)
        # Of each counter: the states from which it can still be reached, so that it matters there.
        self.matters = [distances_from([to], lambda end: (key[0] for key in sources[end])) for to, _ in self.counters]
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
        room = iter(range(len(self.states) + MOST_COPIES))

        def ends(copy: Copy) -> Iterable[Copy]:
            if next(room, None) is None:
                rule = f"counting would add more than {MOST_COPIES:,} states to the machine"
                raise FormatError(f"{rule}: count less, or fewer things at a time", where=self.at)
            return (end for _, end, _ in self.follow(copy))

        return distances_from(roots, ends)

    def follow(self, copy: Copy) -> Iterable[tuple[str, Copy, bool]]:
        """List where events lead from a copy of a state, and whether they do not only count."""
        state, counts = copy
        for event, target in self.rows.get(state, {}).items():
            if isinstance(target, str):
                end, after, leads_on = target, counts, True
            else:
                place = self.place[state, event]
                leads_on = counts[place] + 1 == target.times
                end = target.to if leads_on else target.otherwise
                after = (*counts[:place], 0 if leads_on else counts[place] + 1, *counts[place + 1 :])
            kept = (count if end in states else 0 for count, states in zip(after, self.matters, strict=True))
            yield event, (end, tuple(kept)), leads_on

    def name(self, copy: Copy) -> str:
        """Name a copy after its state and what has been counted, as in "road, load 2 of 3"."""
        state, counts = copy
        rows = zip(self.labels, counts, self.counters.values(), strict=True)
        return ", ".join((state, *(f"{label} {count} of {counter.times}" for label, count, counter in rows if count)))
