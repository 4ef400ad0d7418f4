"""Machines made of machines: sequences, any order, choices, repetitions, deadlines, and calls.

A part is an event or a task-completion machine; the result is an ordinary machine. A state inside a part is named after
it, as in "fetch › loaded", so that drawings and counterexamples show which part it belongs to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from hocket.errors import MachineError, shown
from hocket.machine.names import Names, check_name, invert, make_distinct
from hocket.machine.reward_machine import RewardMachine

INSIDE = " › "  # between the name of a part and that of a state in it
DONE, LATE = "done", "too late"
MOST_STATES = 10_000  # of a machine that is made of others
MOST_TIMES = 1_000

Key = TypeVar("Key")


class Labelled(NamedTuple):
    """A part with a name, which is in the names of its states."""

    label: str
    part: str | RewardMachine


Part = str | RewardMachine | Labelled
Machines = Sequence[tuple[str, RewardMachine]]  # with their names
States = tuple[str, ...]  # of parts that run at the same time; "" for one that can no longer be completed
Follow = Callable[[States], Iterable[tuple[str, States]]]


def sequence(*parts: Part, **named: str | RewardMachine) -> RewardMachine:
    """Make the machine of parts that have to be completed one after the other.

    >>> sequence("unlock", "open").run(("unlock", "open"), undefined="blocking").completed
    True
    >>> list(sequence("unlock", fetch=sequence("get", "put")).states)
    ['unlock', 'fetch', 'fetch › put', 'done']
    """
    return _sequence(_labelled(parts, named))


def _sequence(parts: Machines) -> RewardMachine:
    starts = [*(machine.initial for _, machine in parts), ""]  # the last one: all parts are completed

    def follow(key: tuple[int, str]) -> Iterable[tuple[str, tuple[int, str]]]:
        number, state = key
        machine = parts[number][1]
        for event, target in machine.moves.get(state, {}).items():
            yield event, (number + 1, starts[number + 1]) if target in machine.final else (number, target)

    def name(key: tuple[int, str]) -> str:
        return _inside(*parts[key[0]], key[1]) if key[0] < len(parts) else DONE

    events = (event for _, machine in parts for event in machine.events)
    return _build((0, starts[0]), follow, lambda key: key[0] == len(parts), name, events)


def any_order(*parts: Part, **named: str | RewardMachine) -> RewardMachine:
    """Make the machine of parts that all have to be completed, in any order, also at the same time.

    No two of them may have an event in common.

    >>> list(any_order("a", "b").states)
    ['a, b', 'b', 'a', 'done']
    """
    labelled = _labelled(parts, named)
    taken: set[str] = set()
    for _, machine in labelled:
        for event in machine.events:
            if event in taken:
                raise MachineError(f"parts in any order must have no event in common, got {event!r} twice")
            taken.add(event)

    def follow(key: States) -> Iterable[tuple[str, States]]:
        for index, row in enumerate(_rows(key, labelled)):
            for event, target in row.items():
                yield event, (*key[:index], target, *key[index + 1 :])

    return _parallel(labelled, follow, all, ", ")


def either(*parts: Part, **named: str | RewardMachine) -> RewardMachine:
    """Make the machine of parts of which one has to be completed; the events so far decide which still can be.

    >>> list(either("a", sequence("a", "b"), "c").moves["a or part 2 or c"].items())
    [('a', 'done'), ('c', 'done')]
    """
    labelled = _labelled(parts, named)

    def follow(key: States) -> Iterable[tuple[str, States]]:
        rows = _rows(key, labelled)
        for event in dict.fromkeys(chain(*rows)):
            yield event, tuple(row.get(event, "") for row in rows)

    return _parallel(labelled, follow, any, " or ")


def _rows(key: States, parts: Machines) -> list[Mapping[str, str]]:
    """List the transitions of each part from its state."""
    return [machine.moves.get(state, {}) for state, (_, machine) in zip(key, parts, strict=True)]


def _parallel(parts: Machines, follow: Follow, enough: Callable[[Iterable[bool]], bool], joint: str) -> RewardMachine:
    """Build the machine of parts that run at the same time; `enough` says whether it is done, by which parts are."""

    def is_done(key: States) -> bool:
        return enough(state in machine.final for state, (_, machine) in zip(key, parts, strict=True))

    def name(key: States) -> str:
        if is_done(key):
            return DONE
        active = zip(parts, key, strict=True)
        return joint.join(_inside(*part, end, ": ") for part, end in active if end and end not in part[1].final)

    events = (event for _, machine in parts for event in machine.events)
    return _build(tuple(machine.initial for _, machine in parts), follow, is_done, name, events)


def repeat(part: Part, times: int) -> RewardMachine:
    """Make the machine of a part that has to be completed so many times.

    >>> list(repeat("ring", 2).states)
    ['ring (1 of 2)', 'ring (2 of 2)', 'done']
    """
    number = _count(times, "times")
    ((label, machine),) = _labelled((part,), {})
    return _sequence([(f"{label} ({turn} of {number})", machine) for turn in range(1, number + 1)])


def within(part: Part, most_events: int, events: Iterable[str] | None = None) -> RewardMachine:
    """Make the machine of a part that has to be completed within a number of events.

    All `events` count, by default those of the part, also where the part has no transition on them.

    >>> machine = within("stop", 2, events=["stop", "go"])
    >>> [machine.run(trace, undefined="stay").completed for trace in (("go", "stop"), ("go", "go", "stop"))]
    [True, False]
    """
    most = _count(most_events, "most_events")
    ((label, machine),) = _labelled((part,), {})
    counted = Names((*machine.events, *(() if events is None else (check_name(event, "an event") for event in events))))

    def follow(key: tuple[str, int]) -> Iterable[tuple[str, tuple[str, int]]]:
        state, remaining = key
        for event in counted if remaining else ():
            yield event, (machine.moves.get(state, {}).get(event, state), remaining - 1)

    def name(key: tuple[str, int]) -> str:
        state, remaining = key
        if state in machine.final:
            return DONE
        return f"{_inside(label, machine, state, ': ')}, {remaining} left" if remaining else LATE

    return _build((machine.initial, most), follow, lambda key: key[0] in machine.final, name, machine.events)


def unfold(machine: RewardMachine, calls: Mapping[str, RewardMachine]) -> RewardMachine:
    """Replace each event that is the name of a call by a machine, which has to be completed to go on.

    Until then no other events happen. If a state has several calls and events, the first event decides between them.

    >>> trip = RewardMachine(initial="home", transitions={("home", "fetch"): "back"}, final=["back"])
    >>> list(unfold(trip, {"fetch": sequence("get", "put")}).states)
    ['home', 'fetch › put', 'back']
    """
    for name, called in calls.items():
        _require_completion(name, called)
    _require_completion("a machine that calls others", machine)
    callers = invert(machine.moves, machine.events)

    def follow(key: tuple[str, str, str]) -> Iterable[tuple[str, tuple[str, str, str]]]:
        state, name, inner = key
        rows = machine.moves.get(state, {})
        for event, target in {name: rows[name]}.items() if name else rows.items():
            if event not in calls:
                yield event, (target, "", "")
                continue
            called = calls[event]
            for first, end in called.moves.get(inner if name else called.initial, {}).items():
                yield first, (target, "", "") if end in called.final else (state, event, end)

    def name_state(key: tuple[str, str, str]) -> str:
        state, name, inner = key
        if not name:
            return state
        return f"{name if len(callers[name]) < 2 else f'{name} in {state}'}{INSIDE}{inner}"

    def is_final(key: tuple[str, str, str]) -> bool:
        return not key[1] and key[0] in machine.final

    also = [(state, "", "") for state in machine.states]
    events = (event for part in (machine, *calls.values()) for event in part.events if event not in calls)
    return _build(also[machine.start], follow, is_final, name_state, events, also)


def rename_events(machine: RewardMachine, names: Mapping[str, str]) -> RewardMachine:
    """Give events of a machine other names.

    >>> list(rename_events(sequence("get", "put"), {"get": "get ore"}).events)
    ['get ore', 'put']
    """
    for event in names:
        if event not in machine.events:
            raise MachineError(f"event {event!r} cannot be renamed, as this machine has none of this name")
    new = {event: names.get(event, event) for event in machine.events}
    if len({*new.values()}) < len(new):
        raise MachineError("two events must not get the same name")
    renamed = Names(check_name(name, "an event") for name in new.values())
    edges, reward = machine.graph[1:], machine.reward
    return RewardMachine._from_arrays(machine.states, renamed, machine.start, edges, machine.is_final, reward)


def _build(
    start: Key,
    follow: Callable[[Key], Iterable[tuple[str, Key]]],
    is_final: Callable[[Key], bool],
    name: Callable[[Key], str],
    events: Iterable[str],
    also: Iterable[Key] = (),
) -> RewardMachine:
    """Build the machine of all keys that follow from the start or others; keys with the same name are one state."""
    transitions: dict[tuple[str, str], str] = {}
    keys: dict[str, Key] = {}
    queue, later = deque([start]), deque(also)
    while queue or later:
        key = queue.popleft() if queue else later.popleft()
        state = name(key)
        if state in keys:
            if keys[state] != key and not (is_final(key) and is_final(keys[state])) and state != LATE:
                raise MachineError(f"two states would be called {state!r}: give one of the parts another name")
            continue
        if len(keys) >= MOST_STATES:
            raise MachineError(f"a machine made of others may have {MOST_STATES:,} states, and this one has more")
        keys[state] = key
        for event, end in () if is_final(key) else follow(key):
            if transitions.setdefault((state, event), name(end)) != name(end):
                raise MachineError(f"in state {state!r} two parts begin with {event!r}, and nothing says which of them")
            queue.append(end)
    events = [*events, *(event for _, event in transitions)]
    final = [state for state, key in keys.items() if is_final(key)]
    return RewardMachine(initial=name(start), transitions=transitions, final=final, events=events, states=keys)


def _labelled(parts: Sequence[Part], named: Mapping[str, str | RewardMachine]) -> Machines:
    """Make machines of parts, each with a name: the given one, its event, or its number."""
    given = [
        part if isinstance(part, Labelled) else Labelled(part if isinstance(part, str) else f"part {number}", part)
        for number, part in enumerate((*parts, *(Labelled(*pair) for pair in named.items())), start=1)
    ]
    if not given:
        raise MachineError("a machine made of parts needs at least one, got none")
    labels = make_distinct([part.label for part in given])
    return [(label, _machine(label, part.part)) for label, part in zip(labels, given, strict=True)]


def _machine(label: str, part: object) -> RewardMachine:
    if isinstance(part, str):
        event = check_name(part, "an event")
        return RewardMachine(initial=event, transitions={(event, event): DONE + event}, final=[DONE + event])
    if not isinstance(part, RewardMachine):
        raise MachineError(f"a part must be an event or a machine, got {shown(part)}")
    _require_completion(label, part)
    return part


def _require_completion(label: str, machine: RewardMachine) -> None:
    """Require a machine that can be completed, but not by the empty trace."""
    if not machine.is_task_completion:
        raise MachineError(f"{label} must be rewarded for completion alone, to be a part of another machine")
    if machine.initial in machine.final or not machine.final:
        when = "before anything has happened" if machine.final else "never"
        raise MachineError(f"{label} must have events to be completed by, got a machine that is complete {when}")


def _inside(label: str, machine: RewardMachine, state: str, joint: str = INSIDE) -> str:
    """Name a state of a part; the initial one has the name of the part."""
    return label if state == machine.initial else f"{label}{joint}{state}"


def _count(number: object, what: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MOST_TIMES:
        raise MachineError(f"{what} must be an integer from 1 to {MOST_TIMES:,}, got {shown(number)}")
    return number


PARTS: Mapping[str, Callable[..., RewardMachine]] = MappingProxyType(
    {"sequence": sequence, "any_order": any_order, "either": either, "repeat": repeat, "within": within}
)  # as files call them
