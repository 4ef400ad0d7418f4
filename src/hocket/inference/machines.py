"""Local machines over numbered states, and their runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hocket.inference.facts import Facts, Tree
from hocket.inference.logs import Episode


class LocalMachine(NamedTuple):
    """A machine over numbered states, of which 0 is the initial one."""

    moves: Mapping[tuple[int, str], int]
    final: frozenset[int]

    @property
    def states(self) -> list[int]:
        return sorted({0, *(state for state, _ in self.moves), *self.moves.values()})

    def allows(self, state: int, event: str | None) -> bool:
        """Say whether an event is defined in a state; None: whether the state is final."""
        return state in self.final if event is None else (state, event) in self.moves

    def trace_states(self, tree: Tree) -> list[int]:
        """List the state at each node of a tree, all of whose edges the machine has."""
        states = [0] * len(tree)
        for node, children in enumerate(tree.children):  # parents come before their children
            for event, child in children.items():
                states[child] = self.moves[states[node], event]
        return states


class TeamRun:
    """A run of local machines along a trace."""

    def __init__(
        self, machines: Sequence[LocalMachine], knowers: Mapping[str, Sequence[int]], trace: Iterable[str] = ()
    ) -> None:
        self.machines, self.knowers, self.states = machines, knowers, [0] * len(machines)
        for event in trace:
            self.step(event)

    @property
    def is_done(self) -> bool:
        """Whether all machines are final."""
        return all(state in machine.final for machine, state in zip(self.machines, self.states, strict=True))

    def refusing(self, event: str) -> list[int]:
        """List the agents that know an event and whose machines refuse it."""
        return [i for i in self.knowers[event] if (self.states[i], event) not in self.machines[i].moves]

    def step(self, event: str) -> list[int]:
        """Move the machines of all agents that know an event, unless some refuse it; list those."""
        refusing = self.refusing(event)
        for index in () if refusing else self.knowers[event]:
            self.states[index] = self.machines[index].moves[self.states[index], event]
        return refusing


def first_disagreement(
    facts: Facts, machines: Sequence[LocalMachine], episode: Episode, shows_refusals: bool = True
) -> int | None:
    """Count the attempts after which machines and an episode first disagree; None if they agree."""
    run = TeamRun(machines, facts.knowers)
    for position, (event, accepted, done) in enumerate(episode.attempts, start=1):
        happens = not run.step(event)
        if (shows_refusals and happens != accepted) or (happens and run.is_done) != done:
            return position
        if done and not all(map(run.refusing, facts.knowers)):
            return position  # something could happen afterwards
    return None
