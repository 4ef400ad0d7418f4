"""The protocol under faults, where a judge checks every log entry: random schedules, or every schedule of a small team.

In an exhaustive search the network is the set of all messages that were ever sent, any of which may be delivered at any
time, again and again: loss, duplication, reordering and delay in one. A kill may come after any effect of any input.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar, cast

from hocket.errors import SettingsError, require_known
from hocket.machine.decomposition import Control, Decomposition
from hocket.runtime.codec import describe_entry, describe_message
from hocket.runtime.judge import Judge, Violation
from hocket.runtime.plan import NumberedTeam, Plan
from hocket.runtime.protocol import Entry, Message, Output, Participant
from hocket.task.catalogue import as_task
from hocket.task.task import Task
from hocket.task.verdict import check_delays

FAULTS = ("loss", "duplication", "reordering", "delay", "partition", "kill", "freeze")
MOST_ROUNDS = 400  # of messages and ticks, in which a team must complete after all faults have ended
LONGEST, SHORTEST = 70, 10  # actions while there are faults
MOST_STATES = 5_000_000  # that an exhaustive search visits before it gives up

Packet = tuple[int, int, Message]  # sender, receiver, message
Action = tuple[str, int, int]  # its kind, the index of what it affects, the effect after which it kills; -1: none
Protocol = type[Participant]
Copied = TypeVar("Copied", Participant, Judge)


class FaultSimulation:
    """A team on a simulated network, which plays schedules: that of a seed, or one that is given."""

    def __init__(
        self, plan: Plan, team: NumberedTeam, faults: Collection[str] = FAULTS, node: Protocol = Participant
    ) -> None:
        self.plan, self.team, self.node, self.faults = plan, team, node, frozenset(faults)
        self.agents = len(plan.agents)
        self.deciding = [  # of each agent: the events that it decides on, as bits
            sum(1 << event for event, deciders in enumerate(plan.deciders) if agent in deciders)
            for agent in range(self.agents)
        ]
        self.counts = dict.fromkeys(("actions", "lost", "doubled", "killed", "torn", "frozen", "split"), 0)
        self.history: list[Action] = []  # the actions of the schedule
        self.transcript: list[str | partial[str]] = []  # what happened, in words

    def play(self, schedule: Iterable[Action] | int) -> None:
        """Play a schedule, or that of a seed; then, without faults, until every agent knows all that concerns it."""
        self.net: list[Packet] = []
        self.logs: list[list[Entry]] = [[] for _ in range(self.agents)]
        self.conditions = list(self.plan.unconditional)  # of each agent: the events whose conditions hold, as bits
        self.judge = Judge(self.plan, self.team.start, self.team.step, self.conditions)
        self.nodes: list[Participant | None] = [None] * self.agents
        self.frozen = 0  # agents, as bits
        self.side = 0  # agents on one side of a split network, as bits
        self.history, self.transcript = [], []
        for agent in range(self.agents):
            self._restart(agent, -1)
        for action in self._draw(schedule) if isinstance(schedule, int) else schedule:
            self.history.append(action)
            self._act(action)
        self._heal()

    def _draw(self, seed: int) -> Iterator[Action]:
        """Draw the schedule of a seed while it is played; the probabilities of faults are drawn first."""
        rng, faults = Random(seed), self.faults
        random, bits = rng.random, rng.getrandbits
        largest = {"loss": 0.5, "duplication": 0.4, "kill": 0.25}
        loss, doubling, kill = (random() ** 2 * most if fault in faults else 0.0 for fault, most in largest.items())
        events = [fault for fault in ("partition", "kill", "freeze") if fault in faults]
        event_probability = 0.1 * random() if events else 0.0
        delivery = 0.35 + 0.3 * random() if "delay" in faults else 0.8
        for _ in range(SHORTEST + int(random() * (LONGEST - SHORTEST))):
            drawn = random()
            cut = int(random() * 5) if kill and random() < kill else -1
            if drawn < delivery and self.net:
                index = int(random() * len(self.net)) if "reordering" in faults else 0
                drawn = random()
                kind = "lose" if drawn < loss else "double" if drawn < loss + doubling else "deliver"
                yield kind, index, -1 if kind == "lose" else cut
                continue
            agent = int(random() * self.agents)
            if self.nodes[agent] is None:
                yield "restart", agent, cut
            elif random() < event_probability:
                fault = events[int(random() * len(events))]
                if fault == "partition":
                    yield "split", 0 if self.side else bits(self.agents), -1
                else:
                    yield fault, agent, -1
            elif (drawn := random()) < 0.2:
                yield "tick", agent, cut
            else:  # the agent moves to where its conditions hold for these events
                deciding = self.deciding[agent]
                if drawn < 0.65:
                    deciding &= sum(1 << event for event in self.team.progress[self.judge.team_state])
                elif drawn >= 0.85:
                    deciding &= bits(len(self.plan.events))
                yield str(deciding), agent, cut

    def _act(self, action: Action) -> None:
        """Perform an action; one that is not possible, since earlier ones were left out of its schedule, is skipped."""
        kind, index, cut = action
        self.counts["actions"] += 1
        if kind in ("deliver", "double", "lose"):
            if self.net:
                self._deliver(kind, index % len(self.net), cut)
        elif kind == "split":
            self.side = index
            halves = ([name for n, name in enumerate(self.plan.agents) if index >> n & 1 == bit] for bit in (1, 0))
            sides = " | ".join(", ".join(half) for half in halves)
            self._count("split", f"the network splits: {sides}" if index else "the network is whole again")
        elif kind == "restart":
            self._restart(index, cut)
        elif (node := self.nodes[index]) is None:
            return
        elif kind == "kill":
            self._kill(index)
        elif kind == "freeze":
            self.frozen ^= 1 << index
            self._count("frozen", f"{self.plan.agents[index]} {'freezes' if self.frozen >> index & 1 else 'goes on'}")
        elif not self.frozen >> index & 1:
            if kind == "tick":
                self._apply(index, node.tick(), cut)
            else:
                self._perceive(index, node, int(kind), cut)

    def _count(self, kind: str, sentence: str) -> None:
        self.counts[kind] += 1
        self.transcript.append(sentence)

    def _perceive(self, agent: int, node: Participant, conditions: int, cut: int) -> None:
        """Move an agent, unless it holds still, to where its conditions hold for some events, given as bits."""
        if not node.holding:
            self.conditions[agent] = conditions | self.plan.unconditional[agent]
            events = " or ".join(self.plan.named(conditions & self.deciding[agent])) or "do nothing"
            self.transcript.append(f"{self.plan.agents[agent]} is where it can {events}")
        self._apply(agent, node.perceive(self.conditions[agent]), cut)

    def _deliver(self, kind: str, index: int, cut: int) -> None:
        """Lose a message of the network, or deliver it where it can arrive; a doubled one also stays there."""
        net = self.net
        sender, agent, message = packet = net[index]
        node = self.nodes[agent]
        is_held_up = node is None or self.frozen >> agent & 1 or (self.side >> sender ^ self.side >> agent) & 1
        if kind != "lose" and is_held_up:
            return
        if kind == "double":
            self.counts["doubled"] += 1
        else:
            net[index] = net[-1]
            net.pop()
        self.transcript.append(partial(describe_message, self.plan, *packet, "lost: " if kind == "lose" else ""))
        if kind == "lose":
            self.counts["lost"] += 1
        elif node is not None:
            self._apply(agent, node.receive(sender, message), cut)

    def _apply(self, agent: int, output: Output, cut: int) -> None:
        """Write the log, then send; a kill may come between any two of these effects, and tears the entry it hits."""
        entries, messages = output
        is_cut = 0 <= cut <= len(entries) + len(messages)
        if is_cut:
            self.counts["torn"] += cut < len(entries)
            entries, messages = entries[:cut], messages[: max(0, cut - len(entries))]
        for entry in entries:
            self.logs[agent].append(entry)
            self.transcript.append(partial(describe_entry, self.plan, agent, entry, "  "))
            self.judge.record(agent, entry)
        self.net += [(agent, receiver, message) for receiver, message in messages]
        if is_cut:
            self._kill(agent)

    def _kill(self, agent: int) -> None:
        self.nodes[agent] = None
        self.frozen &= ~(1 << agent)
        self._count("killed", f"{self.plan.agents[agent]} is killed")

    def _restart(self, agent: int, cut: int) -> None:
        if self.nodes[agent] is None:
            node = self.nodes[agent] = self.node.recover(self.plan, agent, self.logs[agent])
            self.judge.check_recovery(agent, node)
            if self.logs[agent]:
                self.transcript.append(f"{self.plan.agents[agent]} comes back")
            self._apply(agent, node.start(), cut)

    def _heal(self) -> None:
        """Play without faults until all agents know all that concerns them and the task, if it can be, is complete."""
        self.side = self.frozen = 0
        for agent in range(self.agents):
            self._restart(agent, -1)
        self.transcript.append("from here on, nothing goes wrong")
        nodes: list[Participant] = self.nodes  # type: ignore[assignment]
        for _ in range(MOST_ROUNDS):
            events = self.team.progress[self.judge.team_state]
            self._guide(nodes, 1 << events[0] if events else 0)
            if self.net:
                packets, self.net = self.net, []
                for sender, agent, message in packets:
                    self._apply(agent, nodes[agent].receive(sender, message), -1)
            elif not events and not any(node.promise or any(node.outbox.values()) for node in nodes):
                self.judge.end(nodes)
                return
            else:
                for agent, node in enumerate(nodes):
                    self._apply(agent, node.tick(), -1)
        raise Violation("the team never completes its task, though nothing goes wrong any more")

    def _guide(self, nodes: list[Participant], events: int) -> None:
        """Move agents to where they can take part in events; those that hold still move once they are released."""
        for agent, node in enumerate(nodes):
            conditions = events & self.deciding[agent] | self.plan.unconditional[agent]
            if node.promise is not None:
                node.willing = conditions
                self.conditions[agent] = conditions | 1 << node.promise.event
            elif node.willing != conditions:
                self._perceive(agent, node, conditions, -1)


@dataclass(frozen=True)
class Failure:
    """A schedule that breaks an invariant, shortened until each of its actions is needed."""

    seed: int
    sentence: str
    actions: tuple[Action, ...]
    transcript: tuple[str, ...]


@dataclass
class SimulationReport:
    """The faults that were injected into schedules, and the first failure."""

    schedules: int = 0
    seconds: float = 0.0  # of CPU
    counts: dict[str, int] = field(default_factory=dict)
    failure: Failure | None = None

    @property
    def ok(self) -> bool:
        """Whether no schedule broke an invariant."""
        return self.failure is None


def simulate(
    subject: Task | Decomposition | str | Path,
    schedules: int = 1_000,
    *,
    seed: int = 0,
    faults: Collection[str] = FAULTS,
    deciders: Control | None = None,
    node: Protocol = Participant,
) -> SimulationReport:
    """Play schedules of a team with faults, one for each seed; stop at the first that breaks an invariant.

    Without `deciders`, as many agents agree on events as must, so that others may hear late. `node` is the protocol.
    """
    for fault in faults:
        require_known(fault, FAULTS, "fault")
    decomposition = subject if isinstance(subject, Decomposition) else as_task(subject).decomposition
    if deciders is None:
        deciders = check_delays(subject).agreed
    simulation = FaultSimulation(Plan.of(decomposition, deciders), NumberedTeam.of(decomposition), faults, node)
    report, begun = SimulationReport(), time.process_time()
    for number in range(seed, seed + schedules):
        report.schedules += 1
        if (sentence := find_violation(simulation, number)) is not None:
            report.failure = shrink(simulation, number, sentence)
            break
    report.seconds, report.counts = time.process_time() - begun, dict(simulation.counts)
    return report


def shrink(simulation: FaultSimulation, seed: int, sentence: str) -> Failure:
    """Leave out of the schedule that has just failed all actions without which it still fails."""
    actions = simulation.history
    size = max(1, len(actions) // 2)
    while size:
        index = 0
        while index < len(actions):
            shorter = actions[:index] + actions[index + size :]
            if (violation := find_violation(simulation, shorter)) is not None:
                actions, sentence = shorter, violation
            else:
                index += size
        size //= 2
    find_violation(simulation, actions)
    transcript = tuple(line if isinstance(line, str) else line() for line in simulation.transcript)
    return Failure(seed, sentence, tuple(actions), transcript)


def find_violation(simulation: FaultSimulation, schedule: Iterable[Action] | int) -> str | None:
    """Play a schedule, or that of a seed; say which invariant it breaks, if any."""
    try:
        simulation.play(schedule)
    except Violation as violation:
        return str(violation)
    return None


# Every schedule of a small team.


class _State(NamedTuple):
    """A global state: nodes, logs and network. Nothing in it is changed, so that states can share nodes."""

    nodes: tuple[Participant | None, ...]
    logs: tuple[tuple[Entry, ...], ...]
    net: frozenset[Packet]
    judge: Judge
    kills: int  # that are still allowed
    withdrawals: int  # of offers, likewise

    def key(self) -> object:
        nodes = tuple(node and node.key() for node in self.nodes)
        return nodes, self.logs, self.net, tuple(self.judge.trace), self.kills, self.withdrawals

    def after(self, agent: int, node: Participant | None, output: Output) -> _State:
        """Return the state after a node has changed, logged and sent; None means that it was killed."""
        judge = _copy(self.judge)
        for entry in output.entries:
            judge.record(agent, entry)
        return self._replace(
            nodes=(*self.nodes[:agent], node, *self.nodes[agent + 1 :]),
            logs=(*self.logs[:agent], (*self.logs[agent], *output.entries), *self.logs[agent + 1 :]),
            net=self.net | {(agent, receiver, message) for receiver, message in output.messages},
            judge=judge,
        )

    def restarted(self, agent: int, plan: Plan, node_type: Protocol) -> _State:
        """Return the state after an agent has recovered from its log."""
        node = node_type.recover(plan, agent, self.logs[agent])
        self.judge.check_recovery(agent, node)
        return self.after(agent, node, node.start())


def _copy(value: Copied) -> Copied:
    """Copy a node or a judge, so that the copy can change by itself."""
    twin = object.__new__(type(value))
    for name, part in vars(value).items():
        if isinstance(part, dict):
            part = {key: each.copy() if isinstance(each, list) else each for key, each in part.items()}
        setattr(twin, name, part.copy() if isinstance(part, list | set) else part)
    return twin


@dataclass(frozen=True)
class ExhaustiveSearch:
    """How many states a team can get into, none of which breaks an invariant; in how many the task is complete."""

    states: int
    complete: int


def search_all(
    decomposition: Decomposition,
    *,
    kills: int,
    withdrawals: int = 1,
    transactions: int = 2,
    deciders: Control | None = None,
    node: Protocol = Participant,
) -> ExhaustiveSearch:
    """Visit every state that a team can get into; the first invariant that is broken is raised as a `Violation`.

    Limits: `kills` in all, `withdrawals` of offers in all, and `transactions` that each agent begins.
    """
    chosen = check_delays(decomposition).agreed if deciders is None else deciders
    plan, team = Plan.of(decomposition, chosen), NumberedTeam.of(decomposition)
    agents = len(plan.agents)
    judge = Judge(plan, team.start, team.step, [(1 << len(plan.events)) - 1] * agents)
    state = _State((None,) * agents, ((),) * agents, frozenset(), judge, kills, withdrawals)
    for agent in range(agents):
        state = state.restarted(agent, plan, node)
    seen, waiting, complete = {state.key()}, [state], 0
    while waiting:
        state = waiting.pop()
        complete += team.is_final[state.judge.team_state]
        for successor in _successors(state, plan, node, transactions):
            if (key := successor.key()) not in seen:
                seen.add(key)
                waiting.append(successor)
        if len(seen) > MOST_STATES:
            raise SettingsError(f"this team has more than {MOST_STATES:,} states; allow fewer kills or transactions")
    return ExhaustiveSearch(len(seen), complete)


def _successors(state: _State, plan: Plan, node_type: Protocol, transactions: int) -> Iterator[_State]:
    everything = (1 << len(plan.events)) - 1
    for sender, agent, message in state.net:
        if (node := state.nodes[agent]) is not None:
            yield from _inputs(state, agent, transactions, partial(node_type.receive, sender=sender, message=message))
    for agent, node in enumerate(state.nodes):
        if node is None:
            yield state.restarted(agent, plan, node_type)
            continue
        if not node.holding and node.willing != everything:
            yield from _inputs(state, agent, transactions, lambda node: node.perceive(everything))
        if not node.holding and node.willing and state.withdrawals:
            withdrawn = state._replace(withdrawals=state.withdrawals - 1)
            yield from _inputs(withdrawn, agent, transactions, lambda node: node.perceive(0))
        yield from _inputs(state, agent, transactions, lambda node: node.tick())


def _inputs(state: _State, agent: int, transactions: int, give: Callable[[Participant], Output]) -> Iterator[_State]:
    """Give an agent an input; if kills are still allowed, also kill it after each of the effects."""
    node = _copy(cast(Participant, state.nodes[agent]))
    entries, messages = output = give(node)
    if node.number > transactions:
        return
    for cut in range(len(entries) + len(messages)) if state.kills else ():
        done = Output(entries[:cut], messages[: max(0, cut - len(entries))])
        yield state.after(agent, None, done)._replace(kills=state.kills - 1)
    yield state.after(agent, node, output)
