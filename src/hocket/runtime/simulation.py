"""Simulation of the protocol under faults: every schedule follows from its seed, and a judge looks at every entry."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from hocket.errors import SettingsError, known_names
from hocket.machine.decomposition import Control, Decomposition
from hocket.runtime.judge import Judge, Violation
from hocket.runtime.plan import Plan
from hocket.runtime.protocol import Entry, Message, Output, Participant
from hocket.runtime.team import NumberedTeam
from hocket.runtime.words import describe_entry, describe_message
from hocket.task.catalogue import as_task
from hocket.task.delays import check_delays
from hocket.task.task import Task

FAULTS = ("loss", "duplication", "reordering", "delay", "partition", "kill", "freeze")
MOST_ROUNDS = 400  # of messages and ticks in which a healed team has to complete
LONGEST, SHORTEST = 70, 10  # actions while there are faults

Action = tuple[str, int, int]  # what is done, with whom or what, and after which effect the agent is killed; -1: never


class FaultSimulation:
    """A team on a simulated network. `run` plays the schedule of a seed, `replay` one that is given."""

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
        self.story: list[str] | None = None
        self.history: list[Action] | None = None

    def run(self, seed: int) -> None:
        """Play the schedule of a seed: faults for a while, then none; every agent must know, and the task complete."""
        self._begin()
        draw = _Draw(self, seed)
        for _ in range(draw.length):
            action = draw.action()
            if self.history is not None:
                self.history.append(action)
            self.act(action)
        self.heal()

    def replay(self, actions: Iterable[Action]) -> None:
        """Play a schedule that is given."""
        self._begin()
        for action in actions:
            self.act(action)
        self.heal()

    def _begin(self) -> None:
        self.net: list[tuple[int, int, Message]] = []
        self.logs: list[list[Entry]] = [[] for _ in range(self.agents)]
        self.bodies = list(self.plan.always)
        self.judge = Judge(self.plan, self.team, self.bodies)
        self.nodes: list[Participant | None] = [None] * self.agents
        self.frozen = 0  # agents, as bits
        self.side = 0  # agents on one side of a split network, as bits
        for agent in range(self.agents):
            self._restart(agent, -1)

    # What can be done.

    def act(self, action: Action) -> None:
        """Do something; what makes no sense any more, in a schedule from which something was left out, is not done."""
        what, which, cut = action
        self.counts["actions"] += 1
        if what in ("deliver", "double", "lose"):
            if self.net:
                self._deliver(what, which % len(self.net), cut)
        elif what == "split":
            self.side = which
            self._count("split", f"the network splits: {self._sides(which)}" if which else "the network is whole again")
        elif what == "restart":
            self._restart(which, cut)
        else:
            node = self.nodes[which]
            if node is None:
                return
            if what == "kill":
                self._kill(which)
            elif what == "freeze":
                self.frozen ^= 1 << which
                self._count(
                    "frozen", f"{self.plan.agents[which]} {'freezes' if self.frozen >> which & 1 else 'goes on'}"
                )
            elif not self.frozen >> which & 1:
                if what == "tick":
                    self._effects(which, node.tick(), cut)
                else:
                    self._perceive(which, node, int(what), cut)

    def _perceive(self, agent: int, node: Participant, body: int, cut: int) -> None:
        """Let an agent move, unless it holds still, and see for which events its conditions hold there."""
        if not node.holding:
            self.bodies[agent] = body | self.plan.always[agent]
            if self.story is not None:
                self._say(f"{self.plan.agents[agent]} is where it can {self._events(body & self.deciding[agent])}")
        self._effects(agent, node.perceive(self.bodies[agent]), cut)

    def _deliver(self, what: str, place: int, cut: int) -> None:
        net = self.net
        sender, agent, message = net[place]
        node = self.nodes[agent]
        if what == "lose":
            self._count("lost", f"lost: {self._letter(sender, agent, message)}")
        elif node is None or self.frozen >> agent & 1 or (self.side >> sender ^ self.side >> agent) & 1:
            return  # it is still on its way
        if what == "double":
            self._count("doubled", "")
        else:
            net[place] = net[-1]
            net.pop()
        if what != "lose" and node is not None:
            if self.story is not None:
                self._say(self._letter(sender, agent, message))
            self._effects(agent, node.receive(sender, message), cut)

    def _effects(self, agent: int, output: Output, cut: int) -> None:
        """Write the log, then send; a kill may come between any two of these, and tears the entry that it hits."""
        entries, messages = output
        if 0 <= cut <= len(entries) + len(messages):
            torn = cut < len(entries)
            entries, messages = entries[:cut], messages[: max(0, cut - len(entries))]
        else:
            torn, cut = False, -1
        log, record = self.logs[agent], self.judge.record
        for entry in entries:
            log.append(entry)
            if self.story is not None:
                self._say(f"  {describe_entry(self.plan, agent, entry)}")
            record(agent, entry)
        for receiver, message in messages:
            self.net.append((agent, receiver, message))
        if cut >= 0:
            self.counts["torn"] += torn
            self._kill(agent)

    def _kill(self, agent: int) -> None:
        self.nodes[agent] = None
        self.frozen &= ~(1 << agent)
        self._count("killed", f"{self.plan.agents[agent]} is killed")

    def _restart(self, agent: int, cut: int) -> None:
        if self.nodes[agent] is None:
            node = self.nodes[agent] = self.node.recover(self.plan, agent, self.logs[agent])
            self.judge.came_back(agent, node)
            if self.story is not None and self.logs[agent]:
                self._say(f"{self.plan.agents[agent]} comes back")
            self._effects(agent, node.start(), cut)

    # When all is well again.

    def heal(self) -> None:
        """Play without faults until everybody knows everything and the task is complete, where it still can be."""
        self.side = self.frozen = 0
        for agent in range(self.agents):
            self._restart(agent, -1)
        if self.story is not None:
            self._say("from here on, nothing goes wrong")
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

    # Words.

    def _count(self, what: str, said: str) -> None:
        self.counts[what] += 1
        if self.story is not None and said:
            self._say(said)

    def _say(self, sentence: str) -> None:
        assert self.story is not None
        self.story.append(sentence)

    def _letter(self, sender: int, agent: int, message: Message) -> str:
        return "" if self.story is None else describe_message(self.plan, sender, agent, message)

    def _sides(self, side: int) -> str:
        names = self.plan.agents
        sides = ([name for place, name in enumerate(names) if (side >> place & 1) == bit] for bit in (1, 0))
        return " | ".join(", ".join(half) for half in sides)

    def _events(self, events: int) -> str:
        names = [name for place, name in enumerate(self.plan.events) if events >> place & 1]
        return " or ".join(names) if names else "do nothing"


class _Draw:
    """Draws the actions of a schedule; how often what goes wrong is drawn first."""

    def __init__(self, simulation: FaultSimulation, seed: int) -> None:
        self.simulation, rng = simulation, Random(seed)
        self.random, self.bits = rng.random, rng.getrandbits
        faults, random = simulation.faults, rng.random
        self.loss = random() ** 2 * 0.5 if "loss" in faults else 0.0
        self.doubling = random() ** 2 * 0.4 if "duplication" in faults else 0.0
        self.kill = random() ** 2 * 0.25 if "kill" in faults else 0.0
        self.trouble = 0.1 * random() if faults & {"partition", "kill", "freeze"} else 0.0
        self.reorders = "reordering" in faults
        self.deliver = 0.35 + 0.3 * random() if "delay" in faults else 0.8
        self.length = SHORTEST + int(random() * (LONGEST - SHORTEST))

    def action(self) -> Action:
        """Draw what is done next."""
        simulation, random, drawn = self.simulation, self.random, self.random()
        cut = int(random() * 5) if self.kill and random() < self.kill else -1
        if drawn < self.deliver and simulation.net:
            place = int(random() * len(simulation.net)) if self.reorders else 0
            drawn = random()
            if drawn < self.loss:
                return "lose", place, -1
            return "double" if drawn < self.loss + self.doubling else "deliver", place, cut
        agent = int(random() * simulation.agents)
        if simulation.nodes[agent] is None:
            return "restart", agent, cut
        if random() < self.trouble:
            return self._trouble(agent)
        drawn = random()
        if drawn < 0.2:
            return "tick", agent, cut
        return str(self._body(agent, drawn)), agent, cut

    def _body(self, agent: int, drawn: float) -> int:
        """Choose for which events an agent's conditions are to hold."""
        simulation = self.simulation
        if drawn < 0.65:
            ways = simulation.team.ways[simulation.judge.team_state]
            return simulation.deciding[agent] & sum(1 << event for event in ways)
        deciding = simulation.deciding[agent]
        return deciding if drawn < 0.85 else deciding & self.bits(len(simulation.plan.events))

    def _trouble(self, agent: int) -> Action:
        faults = [fault for fault in ("partition", "kill", "freeze") if fault in self.simulation.faults]
        fault = faults[int(self.random() * len(faults))]
        if fault == "partition":
            return "split", 0 if self.simulation.side else self.bits(self.simulation.agents), -1
        return fault, agent, -1


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
        if fault not in FAULTS:
            raise SettingsError(f"fault {fault!r} does not exist ({known_names(str(fault), FAULTS)})")
    decomposition = subject if isinstance(subject, Decomposition) else as_task(subject).decomposition
    if deciders is None:
        deciders = check_delays(subject).agreed
    simulation = FaultSimulation(Plan.of(decomposition, deciders), NumberedTeam.of(decomposition), faults, node)
    report, begun = SimulationReport(), time.process_time()
    for number in range(seed, seed + schedules):
        report.schedules += 1
        try:
            simulation.run(number)
        except Violation as violation:
            report.failure = shrink(simulation, number, str(violation))
            break
    report.seconds, report.counts = time.process_time() - begun, dict(simulation.counts)
    return report


def shrink(simulation: FaultSimulation, seed: int, sentence: str) -> Failure:
    """Leave out of a failing schedule what it fails without."""
    simulation.history = []
    breaks(simulation, None, seed)
    actions, simulation.history = simulation.history, None
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
    simulation.story = []
    breaks(simulation, actions)
    story, simulation.story = tuple(simulation.story), None
    return Failure(seed, sentence, tuple(actions), story)


def breaks(simulation: FaultSimulation, actions: Iterable[Action] | None, seed: int = 0) -> str | None:
    """Play a schedule, or that of a seed; say what goes wrong in it, if anything does."""
    try:
        if actions is None:
            simulation.run(seed)
        else:
            simulation.replay(actions)
    except Violation as violation:
        return str(violation)
    return None
