"""Local machines over numbered states, and their simulation along traces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hocket.inference.facts import Facts, Tree
from hocket.inference.logs import Episode


class LocalMachine(NamedTuple):
    """A machine over numbered states, of which 0 is the initial one."""

    transitions: Mapping[tuple[int, str], int]
    final: frozenset[int]

    @property
    def states(self) -> list[int]:
        return sorted({0, *(state for state, _ in self.transitions), *self.transitions.values()})

    def allows(self, state: int, event: str | None) -> bool:
        """Say whether an event is defined in a state or, for None (the completion), whether the state is final."""
        return state in self.final if event is None else (state, event) in self.transitions

    def states_at_nodes(self, tree: Tree) -> list[int]:
        """List the state at each node of a tree; the machine must have a transition for every edge."""
        states = [0] * len(tree)
        for node, children in enumerate(tree.children):  # parents come before their children
            for event, child in children.items():
                states[child] = self.transitions[states[node], event]
        return states


class TeamSimulation:
    """The local machines of all agents along a trace."""

    def __init__(
        self, machines: Sequence[LocalMachine], knowers: Mapping[str, Sequence[int]], trace: Iterable[str] = ()
    ) -> None:
        self.machines, self.knowers, self.states = machines, knowers, [0] * len(machines)
        for event in trace:
            self.step(event)

    @property
    def completed(self) -> bool:
        """Whether all machines are final."""
        return all(state in machine.final for machine, state in zip(self.machines, self.states, strict=True))

    def agents_refusing(self, event: str) -> list[int]:
        """List the agents that know an event and in whose states it is undefined."""
        return [i for i in self.knowers[event] if (self.states[i], event) not in self.machines[i].transitions]

    def step(self, event: str) -> list[int]:
        """Return the agents that refuse an event; if there are none, change the states of those that know it."""
        refusing = self.agents_refusing(event)
        if not refusing:
            for index in self.knowers[event]:
                self.states[index] = self.machines[index].transitions[self.states[index], event]
        return refusing


def first_disagreement(
    facts: Facts, machines: Sequence[LocalMachine], episode: Episode, refusals_observed: bool = True
) -> int | None:
    """Return the number of attempts up to the first on which machines and an episode disagree; None if they agree."""
    team = TeamSimulation(machines, facts.knowers)
    for position, (event, accepted, done) in enumerate(episode.attempts, start=1):
        happens = not team.step(event)
        if (refusals_observed and happens != accepted) or (happens and team.completed) != done:
            return position
        if done and any(not team.agents_refusing(event) for event in facts.knowers):
            return position  # something could happen afterwards
    return None
