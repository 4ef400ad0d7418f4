"""Brute force for delays, with real queues: every schedule of decisions and hearings of a small task."""

from collections.abc import Iterable, Mapping
from itertools import chain, combinations
from random import Random

import hocket as hk
from hocket.machine.decomposition import Decomposition

MOST_PENDING = 3  # events that somebody has not heard of yet

Deciders = Mapping[str, Iterable[str]]


def random_team(rng: Random) -> tuple[hk.RewardMachine, dict[str, set[str]], dict[str, set[str]]] | None:
    """Draw a decomposable task and who controls its events; None where what was drawn is not decomposable."""
    agents, events = ["A1", "A2", "A3"][: rng.randint(2, 3)], "abcd"[: rng.randint(2, 4)]
    knows: dict[str, set[str]] = {agent: set() for agent in agents}
    for event in events:
        for agent in {rng.choice(agents), *(agent for agent in agents if rng.random() < 0.5)}:
            knows[agent].add(event)
    if rng.random() < 0.5:
        parts = [_random_machine(rng, sorted(known), rng.randint(2, 3)) for known in knows.values()]
        machine = hk.compose(*parts)
    else:
        machine = _random_machine(rng, list(events), rng.randint(2, 5))
    if not hk.decompose(machine, knows).ok:
        return None
    control = {}
    for event in machine.events:
        aware = sorted(agent for agent in agents if event in knows[agent])
        control[event] = set(rng.sample(aware, rng.randint(1, len(aware)) if rng.random() < 0.3 else 1))
    return machine, knows, control


def _random_machine(rng: Random, events: list[str], states: int) -> hk.RewardMachine:
    names = [str(state) for state in range(states)]
    density = rng.choice((0.3, 0.5, 0.8))
    moves = {(name, event): rng.choice(names) for name in names[:-1] for event in events if rng.random() < density}
    return hk.RewardMachine(initial="0", transitions=moves, final=names[-1:], states=names, events=events)


def tolerates(found: Decomposition, deciders: Deciders) -> bool:
    """Try every schedule: no decision may be undefined, nor any hearing, nor any local state wrong when all is heard.

    A configuration is the team's state, the agents' states, and the events that somebody has yet to hear of: who, and
    what has to be heard before. An agent's past are the pending events that it knows of, even if only by what it heard.
    """
    machine, agents = found.machine, list(found.machines)
    members = {agent: {own: state for state, all_ in m.members.items() for own in all_} for agent, m in
               found.machines.items()}  # fmt: skip
    knowers = {event: [agent for agent in agents if event in found.knows[agent]] for event in machine.events}
    start = (machine.initial, tuple(found.machines[agent].initial for agent in agents), (), ((),) * len(agents), 0)
    seen, waiting = {start}, [start]
    while waiting:
        for after in _successors(waiting.pop(), machine, found.machines, agents, knowers, deciders):
            if after is None:
                return False
            team, states, pending, _, _ = after
            if not pending and any(members[a][team] != own for a, own in zip(agents, states, strict=True)):
                return False
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return True


def _successors(here, machine, machines, agents, knowers, deciders):
    """List what can come next: decisions and hearings; None for one that must not be."""
    team, states, pending, pasts, _ = here
    place = {agent: index for index, agent in enumerate(agents)}
    for event in machine.events:
        ends = {a: machines[a].step(states[place[a]], event) for a in deciders[event]}
        if None in ends.values() or not ends:
            continue
        past = set(chain.from_iterable(pasts[place[a]] for a in ends))
        if any(a in unheard for number, _, unheard, _ in pending if number in past for a in ends):
            continue  # somebody has to hear first of what the others have heard
        target = machine.step(team, event)
        if target is None:
            yield None
            return
        left = tuple(a for a in knowers[event] if a not in ends)
        if left and len(pending) == MOST_PENDING:
            continue
        number = min({*range(MOST_PENDING + 1)} - {own for own, *_ in pending})
        moved = tuple(ends.get(a, own) for a, own in zip(agents, states, strict=True))
        known = past | ({number} if left else set())
        told = tuple(tuple(sorted(known)) if a in ends else own for a, own in zip(agents, pasts, strict=True))
        more = ((number, event, left, tuple(sorted(past))),) if left else ()
        yield _tidy(target, moved, (*pending, *more), told)
    for number, event, unheard, before in pending:
        for agent in unheard:
            if any(agent in other for own, _, other, _ in pending if own in before):
                continue  # causal order
            index = place[agent]
            end = machines[agent].step(states[index], event)
            if end is None:
                yield None
                return
            moved = (*states[:index], end, *states[index + 1 :])
            known = tuple(sorted({*pasts[index], *before, number}))
            told = (*pasts[:index], known, *pasts[index + 1 :])
            rest = tuple(
                (own, name, tuple(a for a in other if (own, a) != (number, agent)), earlier)
                for own, name, other, earlier in pending
            )
            yield _tidy(team, moved, rest, told)


def _tidy(team, states, pending, pasts):
    """Forget the events that everybody has heard of."""
    open_ = {number for number, _, unheard, _ in pending if unheard}
    left = tuple(
        (number, event, unheard, tuple(own for own in before if own in open_))
        for number, event, unheard, before in pending
        if unheard
    )
    return team, states, left, tuple(tuple(own for own in past if own in open_) for past in pasts), 0


def fewest_pairs(found: Decomposition, deciders: Deciders) -> int:
    """Count the fewest pairs (agent, event) that make a task tolerant, by trying all sets in order of size."""
    spare = [(agent, event) for agent, known in found.knows.items() for event in known if agent not in deciders[event]]
    for size in range(len(spare) + 1):
        for pairs in combinations(spare, size):
            grown = {event: {*own, *(a for a, e in pairs if e == event)} for event, own in deciders.items()}
            if tolerates(found, grown):
                return size
    raise AssertionError("deciding on all that one knows is always tolerant")
