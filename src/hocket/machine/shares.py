"""Independent parts and who has a share in them: what agents know of each part, and what that amounts to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from hocket.errors import AssignmentError, shown_count
from hocket.machine.composition import Composition, compose
from hocket.machine.names import Names
from hocket.machine.reward_machine import RewardMachine

LARGE = 50_000  # states above which a machine that is a composition is looked at part by part
LARGEST_SHARE = 50_000  # states of the machine of an agent that knows of several parts


def independent_parts(machine: RewardMachine | Composition) -> Mapping[str, RewardMachine] | None:
    """Find parts with no event in common whose composition a team machine is known to be; None if there are none.

    A task that is given so is decomposable if and only if each part is, with what the agents know of it: the classes of
    a projection are products of the classes of the parts, and where one part goes wrong, the others can be completed.
    """
    if isinstance(machine, Composition):
        return machine.parts if machine.is_independent else None
    if machine.meaning is None or len(machine.states) <= LARGE:
        return None
    return machine.meaning.parts or None


def is_small_team(team: Composition, agents: Iterable[str]) -> bool:
    """Say whether a composition is given agent by agent, and small enough to be enumerated.

    Then it is, so that the states of the agents' machines can be traced back to those of the team.
    """
    return team.parts.keys() == {*agents} and team.most_states <= LARGE


def shares(parts: Mapping[str, RewardMachine], known: Mapping[str, Iterable[str]]) -> dict[str, dict[str, Names]]:
    """Sort what agents know by parts: part -> agent -> events; agents that know nothing of a part are left out."""
    owner = {event: name for name, part in parts.items() for event in part.events}
    shared: dict[str, dict[str, list[str]]] = {name: {} for name in parts}
    for agent, events in known.items():
        for event in events:
            shared[owner[event]].setdefault(agent, []).append(event)
    return {name: {agent: Names(names) for agent, names in by_agent.items()} for name, by_agent in shared.items()}


def join_shares(agent: str, machines: Sequence[RewardMachine]) -> RewardMachine:
    """Put the machines of what an agent knows of each part side by side; without any there is nothing to do for it."""
    if not machines:
        return RewardMachine(initial="done", transitions={}, final={"done"})
    if len(machines) == 1:
        return machines[0]
    count = math.prod(len(machine.states) for machine in machines)
    if count > LARGEST_SHARE:
        rule = f"together at most {LARGEST_SHARE:,} states, so that its machine can be made"
        received = f"{len(machines):,} with {shown_count(count)}"
        raise AssignmentError(f"the parts that {agent} knows of must have {rule}, got {received}")
    return compose(*machines)


def notes_of(machine: RewardMachine | Composition) -> Names:
    """Collect what is worth knowing about the formulas that a team machine or its parts come from."""
    machines = machine.parts.values() if isinstance(machine, Composition) else (machine,)
    return Names(note for machine in machines if machine.meaning is not None for note in machine.meaning.notes)
