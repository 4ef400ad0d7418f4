"""Team and local labelling functions, synchronisation, and the conditions on labelling functions.

The paper's supplement asks that (1) at most one event happens to an agent in a step, (2) an agent's own state tells it
which event that could be, and (3) an event that does not happen is ruled out by the own state of some agent that knows
it. As a step settles in rounds (see `settling`), each of which counts as a step in which nobody moves, every task meets
(1) and (2). (3) follows from decomposability and from every event being known by those that control it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from hocket.errors import TaskError
from hocket.machine.algebra import reachable_part
from hocket.machine.decomposition import Decomposition
from hocket.machine.reward_machine import RewardMachine
from hocket.task.task import Task

LARGEST_JOINT = 50_000_000  # joint states times machine states that are enumerated


@dataclass(frozen=True)
class LabellingCheck:
    """Whether labelling functions are sound; if not, which condition fails and a witness in words."""

    ok: bool
    condition: int | None = None
    witness: str | None = None

    def as_json(self) -> dict[str, object]:
        """Give the answer as a JSON document."""
        return {"ok": self.ok, "condition": self.condition, "witness": self.witness}


def team_label(task: Task, cells: Mapping[str, int], state: object) -> tuple[str, ...]:
    """List the events that happen in a joint state: defined in the team machine's state, with all conditions met."""
    return tuple(
        event
        for event, conditions in task.events.items()
        if task.machine.step(state, event) is not None  # type: ignore[arg-type]
        and all(task.where(agent, event)[cells[agent]] for agent in conditions)
    )


def synchronize(knowers: Mapping[str, Collection[str]], proposals: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """List the events that happen: those that all who know them propose.

    `knowers` has the agents that know each event, `proposals` the events that each agent proposes.

    >>> synchronize({"meet": ("A1", "A2"), "ring": ("A1",)}, {"A1": ("meet",), "A2": ()})
    ()
    >>> synchronize({"meet": ("A1", "A2"), "ring": ("A1",)}, {"A1": ("meet",), "A2": ("meet",)})
    ('meet',)
    """
    proposed = {event for events in proposals.values() for event in events}
    return tuple(
        event
        for event, agents in knowers.items()
        if event in proposed and all(event in proposals[agent] for agent in agents)
    )


def check_labelling(task: Task) -> LabellingCheck:
    """Check the third condition, and name a witness where it fails; a step that settles meets the other two."""
    for event, controllers in task.controllers.items():
        for agent in controllers:
            if event not in task.knows[agent]:
                said = f"{agent} controls {event}, which is not in its local event set"
                return LabellingCheck(False, 3, said)
    if (
        not task.is_single_agent
        and not task.decomposition.ok
        and (example := task.decomposition.counterexample) is not None
    ):
        what = "completion" if example.event is None else example.event
        trace = ", ".join(example.trace) or "the empty trace"
        said = f"after {trace}, no agent rules out {what}: the task is not decomposable"
        return LabellingCheck(False, 3, said)
    return LabellingCheck(True)


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
    if not isinstance(team, RewardMachine):
        raise TaskError("local labelling functions need a team machine whose states are listed", key="labelling")
    if set(agents) != set(decomposition.machines):
        raise TaskError(f"states must be given for each of {', '.join(decomposition.machines)}", key="labelling")
    joint = prod(len(spots) for spots in states.values()) * len(team.states)
    if joint > LARGEST_JOINT:
        raise TaskError(f"{joint:,} joint states are more than the limit of {LARGEST_JOINT:,}", key="labelling")
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
