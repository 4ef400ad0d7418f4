"""The protocol under faults, where a judge looks at every entry: schedules by seed, or every schedule of a small team.

In an exhaustive search the network is the set of all messages that were ever sent, any of which may be delivered at any
time, again and again: loss, duplication, reordering and delay in one. A kill may come after any effect of any input.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeVar, cast

from hocket.errors import SettingsError, require_known
from hocket.machine.decomposition import Control, Decomposition
from hocket.machine.delays import find_delays
from hocket.runtime.codec import describe_entry, describe_message
from hocket.runtime.judge import Judge, Violation
from hocket.runtime.plan import NumberedTeam, Plan
from hocket.runtime.protocol import Entry, Message, Output, Participant
from hocket.task.catalogue import as_task
from hocket.task.task import Task
from hocket.task.verdict import check_delays

FAULTS = ("loss", "duplication", "reordering", "delay", "partition", "kill", "freeze")
MOST_ROUNDS = 400  # of messages and ticks in which a healed team has to complete
LONGEST, SHORTEST = 70, 10  # actions while there are faults
MOST_STATES = 5_000_000  # that an exhaustive search looks at before it gives up

Letter = tuple[int, int, Message]  # sender, receiver, message
Action = tuple[str, int, int]  # what is done, with whom or what, and after which effect the agent is killed; -1: never
Copied = TypeVar("Copied", Participant, Judge)


class FaultSimulation:
    """A team on a simulated network, which plays schedules: that of a seed, or one that is given."""

    def __init__(
        self, plan: Plan, team: NumberedTeam, faults: Collection[str] = FAULTS, node: type[Participant] = Participant
    ) -> None:
        self.plan, self.team, self.node = plan, team, node
        self.faults = frozenset(faults)
        self.agents = len(plan.agents)
        self.deciding = [
            sum(1 << event for event, deciders in enumerate(plan.deciders) if agent in deciders)
            for agent in range(self.agents)
        ]
        self.counts = dict.fromkeys(("actions", "lost", "doubled", "killed", "torn", "frozen", "split"), 0)
        self.history: list[Action] = []  # what was done in the schedule
        self.story: list[str | partial[str]] = []  # and what came of it, in words

    def play(self, schedule: Iterable[Action] | int) -> None:
        """Play a schedule, or that of a seed; then, without faults, every agent must know, and the task complete."""
        self.net: list[Letter] = []
        self.logs: list[list[Entry]] = [[] for _ in range(self.agents)]
        self.bodies = list(self.plan.always)
        self.judge = Judge(self.plan, self.team.start, self.team.step, self.bodies)
        self.nodes: list[Participant | None] = [None] * self.agents
        self.frozen = 0  # agents, as bits
        self.side = 0  # agents on one side of a split network, as bits
        self.history, self.story = [], []
        for agent in range(self.agents):
            self._restart(agent, -1)
        for action in self._drawn(schedule) if isinstance(schedule, int) else schedule:
            self.history.append(action)
            self.act(action)
        self.heal()

    def _drawn(self, seed: int) -> Iterator[Action]:
        """Draw the schedule of a seed as it is played; how often what goes wrong is drawn first."""
        rng, faults = Random(seed), self.faults
        random, bits = rng.random, rng.getrandbits
        most = {"loss": 0.5, "duplication": 0.4, "kill": 0.25}
        loss, doubling, kill = (random() ** 2 * share if fault in faults else 0.0 for fault, share in most.items())
        troubles = [fault for fault in ("partition", "kill", "freeze") if fault in faults]
        trouble = 0.1 * random() if troubles else 0.0
        deliver = 0.35 + 0.3 * random() if "delay" in faults else 0.8
        for _ in range(SHORTEST + int(random() * (LONGEST - SHORTEST))):
            drawn = random()
            cut = int(random() * 5) if kill and random() < kill else -1
            if drawn < deliver and self.net:
                place = int(random() * len(self.net)) if "reordering" in faults else 0
                drawn = random()
                what = "lose" if drawn < loss else "double" if drawn < loss + doubling else "deliver"
                yield what, place, -1 if what == "lose" else cut
                continue
            agent = int(random() * self.agents)
            if self.nodes[agent] is None:
                yield "restart", agent, cut
            elif random() < trouble:
                fault = troubles[int(random() * len(troubles))]
                if fault == "partition":
                    yield "split", 0 if self.side else bits(self.agents), -1
                else:
                    yield fault, agent, -1
            elif (drawn := random()) < 0.2:
                yield "tick", agent, cut
            else:  # for which events the agent's conditions are to hold
                deciding = self.deciding[agent]
                if drawn < 0.65:
                    deciding &= sum(1 << event for event in self.team.ways[self.judge.team_state])
                elif drawn >= 0.85:
                    deciding &= bits(len(self.plan.events))
                yield str(deciding), agent, cut

    def act(self, action: Action) -> None:
        """Do something; what makes no sense any more, in a schedule from which something was left out, is not done."""
        what, which, cut = action
        self.counts["actions"] += 1
        if what in ("deliver", "double", "lose"):
            if self.net:
                self._deliver(what, which % len(self.net), cut)
        elif what == "split":
            self.side = which
            halves = ([name for n, name in enumerate(self.plan.agents) if which >> n & 1 == bit] for bit in (1, 0))
            sides = " | ".join(", ".join(half) for half in halves)
            self._count("split", f"the network splits: {sides}" if which else "the network is whole again")
        elif what == "restart":
            self._restart(which, cut)
        elif (node := self.nodes[which]) is None:
            return
        elif what == "kill":
            self._kill(which)
        elif what == "freeze":
            self.frozen ^= 1 << which
            self._count("frozen", f"{self.plan.agents[which]} {'freezes' if self.frozen >> which & 1 else 'goes on'}")
        elif not self.frozen >> which & 1:
            if what == "tick":
                self._effects(which, node.tick(), cut)
            else:
                self._perceive(which, node, int(what), cut)

    def _count(self, what: str, said: str) -> None:
        self.counts[what] += 1
        self.story.append(said)

    def _perceive(self, agent: int, node: Participant, body: int, cut: int) -> None:
        """Let an agent move, unless it holds still, and see for which events its conditions hold there."""
        if not node.holding:
            self.bodies[agent] = body | self.plan.always[agent]
            events = " or ".join(self.plan.named(body & self.deciding[agent])) or "do nothing"
            self.story.append(f"{self.plan.agents[agent]} is where it can {events}")
        self._effects(agent, node.perceive(self.bodies[agent]), cut)

    def _deliver(self, what: str, place: int, cut: int) -> None:
        net = self.net
        sender, agent, message = letter = net[place]
        node = self.nodes[agent]
        is_on_its_way = node is None or self.frozen >> agent & 1 or (self.side >> sender ^ self.side >> agent) & 1
        if what != "lose" and is_on_its_way:
            return
        if what == "double":
            self.counts["doubled"] += 1
        else:
            net[place] = net[-1]
            net.pop()
        self.story.append(partial(describe_message, self.plan, *letter, "lost: " if what == "lose" else ""))
        if what == "lose":
            self.counts["lost"] += 1
        elif node is not None:
            self._effects(agent, node.receive(sender, message), cut)

    def _effects(self, agent: int, output: Output, cut: int) -> None:
        """Write the log, then send; a kill may come between any two of these, and tears the entry that it hits."""
        entries, messages = output
        is_cut = 0 <= cut <= len(entries) + len(messages)
        if is_cut:
            self.counts["torn"] += cut < len(entries)
            entries, messages = entries[:cut], messages[: max(0, cut - len(entries))]
        log, record = self.logs[agent], self.judge.record
        for entry in entries:
            log.append(entry)
            self.story.append(partial(describe_entry, self.plan, agent, entry, "  "))
            record(agent, entry)
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
            self.judge.came_back(agent, node)
            if self.logs[agent]:
                self.story.append(f"{self.plan.agents[agent]} comes back")
            self._effects(agent, node.start(), cut)

    def heal(self) -> None:
        """Play without faults until everybody knows everything and the task is complete, where it still can be."""
        self.side = self.frozen = 0
        for agent in range(self.agents):
            self._restart(agent, -1)
        self.story.append("from here on, nothing goes wrong")
        judge, ways = self.judge, self.team.ways
        nodes: list[Participant] = self.nodes  # type: ignore[assignment]
        for _ in range(MOST_ROUNDS):
            events = ways[judge.team_state]
            self._guide(nodes, 1 << events[0] if events else 0)
            if self.net:
                letters, self.net = self.net, []
                for sender, agent, message in letters:
                    self._effects(agent, nodes[agent].receive(sender, message), -1)
            elif not events and not any(node.promise or any(node.outbox.values()) for node in nodes):
                judge.end(nodes)
                return
            else:
                for agent, node in enumerate(nodes):
                    self._effects(agent, node.tick(), -1)
        raise Violation("the team never completes its task, though nothing goes wrong any more")

    def _guide(self, nodes: list[Participant], events: int) -> None:
        """Let agents go where they can take part in some events; whoever holds still goes as soon as it is free."""
        for agent, node in enumerate(nodes):
            body = events & self.deciding[agent] | self.plan.always[agent]
            if node.promise is not None:
                node.willing = body
                self.bodies[agent] = body | 1 << node.promise.event
            elif node.willing != body:
                self._perceive(agent, node, body, -1)


@dataclass(frozen=True)
class Failure:
    """A schedule in which an invariant was broken: the shortest that was found, in words and to be played again."""

    seed: int
    sentence: str
    actions: tuple[Action, ...]
    story: tuple[str, ...]


@dataclass
class SimulationReport:
    """What was injected into schedules, and what was found."""

    schedules: int = 0
    seconds: float = 0.0  # of CPU
    counts: dict[str, int] = field(default_factory=dict)
    failure: Failure | None = None

    @property
    def ok(self) -> bool:
        """Whether no schedule broke an invariant."""
        return self.failure is None

    @property
    def said(self) -> str:
        """What was injected, in words."""
        counts = self.counts
        messages = f"{counts['lost']:,} messages lost and {counts['doubled']:,} doubled"
        kills = f"{counts['killed']:,} kills ({counts['torn']:,} in the middle of an entry of a log)"
        return f"{messages}, {kills}, {counts['frozen']:,} freezes and thaws, {counts['split']:,} splits of the network"


def simulate(
    subject: Task | Decomposition | str | Path,
    schedules: int = 1_000,
    *,
    seed: int = 0,
    faults: Collection[str] = FAULTS,
    deciders: Control | None = None,
    node: type[Participant] = Participant,
) -> SimulationReport:
    """Play schedules of a team with faults, one for each seed; stop at the first in which something goes wrong.

    Where `deciders` are not given and events must not be heard late, those agree who have to. `node` is the protocol.
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
        if (sentence := breaks(simulation, number)) is not None:
            report.failure = shrink(simulation, number, sentence)
            break
    report.seconds, report.counts = time.process_time() - begun, dict(simulation.counts)
    return report


def shrink(simulation: FaultSimulation, seed: int, sentence: str) -> Failure:
    """Leave out of the schedule that has just failed what it fails without."""
    actions = simulation.history
    size = max(1, len(actions) // 2)
    while size:
        place = 0
        while place < len(actions):
            shorter = actions[:place] + actions[place + size :]
            if (broken := breaks(simulation, shorter)) is not None:
                actions, sentence = shorter, broken
            else:
                place += size
        size //= 2
    breaks(simulation, actions)
    story = tuple(line if isinstance(line, str) else line() for line in simulation.story)
    return Failure(seed, sentence, tuple(actions), story)


def breaks(simulation: FaultSimulation, schedule: Iterable[Action] | int) -> str | None:
    """Play a schedule, or that of a seed; say what goes wrong in it, if anything does."""
    try:
        simulation.play(schedule)
    except Violation as violation:
        return str(violation)
    return None


# Every schedule of a small team.


@dataclass(slots=True)
class _State:
    """Everything at one moment."""

    nodes: list[Participant | None]
    logs: list[tuple[Entry, ...]]
    net: frozenset[Letter]
    judge: Judge
    kills: int  # that may still come
    withdrawals: int  # of offers

    def copy(self) -> _State:
        nodes = [node and _copy(node) for node in self.nodes]
        return replace(self, nodes=nodes, logs=list(self.logs), judge=_copy(self.judge))

    def key(self) -> object:
        nodes = tuple(node and node.key() for node in self.nodes)
        return nodes, tuple(self.logs), self.net, tuple(self.judge.trace), self.kills, self.withdrawals

    def write(self, agent: int, output: Output) -> None:
        """Take note of what an agent logs and sends."""
        self.logs[agent] = (*self.logs[agent], *output.entries)
        for entry in output.entries:
            self.judge.record(agent, entry)
        self.net |= {(agent, receiver, message) for receiver, message in output.messages}


def _copy(value: Copied) -> Copied:
    """Make a node that goes its own way from here, or a judge who has seen the same."""
    twin = object.__new__(type(value))
    for name, part in vars(value).items():
        if isinstance(part, dict):
            part = {key: each.copy() if isinstance(each, list) else each for key, each in part.items()}
        setattr(twin, name, part.copy() if isinstance(part, list | set) else part)
    return twin


@dataclass(frozen=True)
class ExhaustiveSearch:
    """How many states of a team were looked at, all of them sound, and in how many the task was complete."""

    states: int
    complete: int


def search_all(
    decomposition: Decomposition,
    *,
    kills: int,
    withdrawals: int = 1,
    transactions: int = 2,
    deciders: Control | None = None,
    node: type[Participant] = Participant,
) -> ExhaustiveSearch:
    """Look at every state that a team can get into; the first invariant that is broken is raised as a `Violation`.

    At most so many kills, so many times an agent that withdraws its offers, and so many transactions begun by each.
    """
    chosen = find_delays(decomposition).agreed if deciders is None else deciders
    plan, team = Plan.of(decomposition, chosen), NumberedTeam.of(decomposition)
    agents = len(plan.agents)
    judge = Judge(plan, team.start, team.step, [(1 << len(plan.events)) - 1] * agents)
    first = _State([None] * agents, [()] * agents, frozenset(), judge, kills, withdrawals)
    for agent in range(agents):
        first.nodes[agent] = participant = node.recover(plan, agent, ())
        first.write(agent, participant.start())
    seen, waiting, complete = {first.key()}, [first], 0
    while waiting:
        state = waiting.pop()
        complete += team.is_final[state.judge.team_state]
        for after in _successors(state, plan, node, transactions):
            if (key := after.key()) not in seen:
                seen.add(key)
                waiting.append(after)
        if len(seen) > MOST_STATES:
            raise SettingsError(f"this team has more than {MOST_STATES:,} states; allow fewer kills or transactions")
    return ExhaustiveSearch(len(seen), complete)


def _successors(state: _State, plan: Plan, made: type[Participant], transactions: int) -> Iterator[_State]:
    everything = (1 << len(plan.events)) - 1
    for sender, agent, message in state.net:
        if state.nodes[agent] is not None:
            yield from _inputs(state, agent, transactions, partial(made.receive, sender=sender, message=message))
    for agent, node in enumerate(state.nodes):
        if node is None:
            after = state.copy()
            back = after.nodes[agent] = made.recover(plan, agent, state.logs[agent])
            after.judge.came_back(agent, back)
            after.write(agent, back.start())
            yield after
            continue
        if not node.holding and node.willing != everything:
            yield from _inputs(state, agent, transactions, lambda node: node.perceive(everything))
        if not node.holding and node.willing and state.withdrawals:
            withdrawn = replace(state, withdrawals=state.withdrawals - 1)
            yield from _inputs(withdrawn, agent, transactions, lambda node: node.perceive(0))
        yield from _inputs(state, agent, transactions, lambda node: node.tick())


def _inputs(state: _State, agent: int, transactions: int, give: Callable[[Participant], Output]) -> Iterator[_State]:
    """Give an agent an input, and kill it after each of the effects, if it may be killed."""
    after = state.copy()
    node = cast(Participant, after.nodes[agent])
    entries, messages = output = give(node)
    if node.number > transactions:
        return
    for cut in range(len(entries) + len(messages)) if state.kills else ():
        killed = state.copy()
        killed.nodes[agent], killed.kills = None, state.kills - 1
        killed.write(agent, Output(entries[:cut], messages[: max(0, cut - len(entries))]))
        yield killed
    after.write(agent, output)
    yield after
