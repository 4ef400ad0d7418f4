"""Local labelling functions constructed from a team's by the paper's definition: the oracle for labelling checks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from hocket.machine.algebra import reachable_part
from hocket.machine.decomposition import Decomposition
from hocket.machine.reward_machine import RewardMachine
from hocket.task.settling import LabellingCheck, synchronize

TeamLabelling = Callable[[tuple[Hashable, ...], str], Iterable[str]]  # (joint state, team machine state) -> events


@dataclass(frozen=True)
class LocalLabelling:
    """Local labelling functions constructed from a team's, and whether they agree with it."""

    labels: Mapping[str, Mapping[tuple[Hashable, str], str]]  # agent -> (own state, own machine state) -> event
    check: LabellingCheck


def localize(
    label: TeamLabelling, states: Mapping[str, Sequence[Hashable]], decomposition: Decomposition
) -> LocalLabelling:
    """Construct local labelling functions from a team's by trying all joint states (the paper's Definition 5).

    An agent proposes what happens in some joint state that is the same to it. `states` lists the local
    states of each agent, in the order in which `label` expects them. For small worlds.
    """
    team = decomposition.machine
    agents = list(states)
    assert isinstance(team, RewardMachine) and set(agents) == set(decomposition.machines)
    classes = {
        agent: {member: merged for merged, members in machine.members.items() for member in members}
        for agent, machine in decomposition.machines.items()
    }
    reached = reachable_part(team).states
    seen = {(spots, state): frozenset(label(spots, state)) for spots in product(*states.values()) for state in reached}
    labels: dict[str, dict[tuple[Hashable, str], str]] = {agent: {} for agent in agents}
    check = LabellingCheck(True)
    for (spots, state), events in seen.items():
        for agent, spot in zip(agents, spots, strict=True):
            local_events = events & set(decomposition.knows[agent])
            view = (spot, classes[agent][state])
            if len(local_events) > 1 and check.ok:
                both = " and ".join(sorted(local_events))
                check = LabellingCheck(False, 1, f"in state {state}, with {agent} at {spot}, {both} happen at once")
            for event in sorted(local_events):
                known = labels[agent].setdefault(view, event)
                if known != event and check.ok:
                    said = f"in state {view[1]}, at {spot}, {agent} would propose both {known} and {event}"
                    check = LabellingCheck(False, 2, said)
    if check.ok:
        check = _check_silence(seen, agents, classes, labels, decomposition)
    return LocalLabelling(labels, check)


def _check_silence(
    seen: Mapping[tuple[tuple[Hashable, ...], str], frozenset[str]],
    agents: Sequence[str],
    classes: Mapping[str, Mapping[str, str]],
    labels: Mapping[str, Mapping[tuple[Hashable, str], str]],
    decomposition: Decomposition,
) -> LabellingCheck:
    """Check the third condition: what does not happen is ruled out by someone who knows it."""
    knowers = {
        event: tuple(agent for agent in agents if event in decomposition.knows[agent])
        for event in decomposition.machine.events
    }
    for (spots, state), events in seen.items():
        guesses = {a: labels[a].get((spot, classes[a][state])) for a, spot in zip(agents, spots, strict=True)}
        for event in synchronize(knowers, {a: () if guess is None else (guess,) for a, guess in guesses.items()}):
            if event not in events:
                said = (
                    f"in state {state} at {spots}, every agent that knows {event} proposes it, and it does not happen"
                )
                return LabellingCheck(False, 3, said)
    return LabellingCheck(True)
