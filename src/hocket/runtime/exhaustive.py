"""Every schedule of a small team: exhaustive search over messages, kills, ticks and withdrawn offers.

The network is the set of all messages that were ever sent, any of which may be delivered at any time, again and again:
loss, duplication, reordering and delay in one. A kill may come after any effect of any input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar, cast

from hocket.errors import SettingsError
from hocket.machine.decomposition import Control, Decomposition
from hocket.machine.delays import find_delays
from hocket.runtime.judge import Judge
from hocket.runtime.plan import NumberedTeam, Plan
from hocket.runtime.protocol import Entry, Message, Output, Participant

MOST_STATES = 5_000_000  # that are looked at before giving up

Letter = tuple[int, int, Message]  # sender, receiver, message


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


T = TypeVar("T", Participant, Judge)


def _copy(value: T) -> T:
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
    bodies = [(1 << len(plan.events)) - 1] * agents
    first = _State(
        [None] * agents, [()] * agents, frozenset(), Judge(plan, team.start, team.step, bodies), kills, withdrawals
    )
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
