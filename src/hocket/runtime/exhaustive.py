"""Every schedule of a small team: exhaustive search over messages, kills, ticks and withdrawn offers.

The network is the set of all messages that were ever sent, any of which may be delivered at any time, again and again:
loss, duplication, reordering and delay in one. A kill may come after any effect of any input.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hocket.errors import SettingsError
from hocket.machine.decomposition import Control, Decomposition
from hocket.machine.delays import find_delays
from hocket.runtime.judge import Judge
from hocket.runtime.plan import Plan
from hocket.runtime.protocol import Entry, Message, Output, Participant
from hocket.runtime.team import NumberedTeam

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
        nodes = [None if node is None else node.copy() for node in self.nodes]
        return _State(nodes, list(self.logs), self.net, self.judge.copy(), self.kills, self.withdrawals)

    def key(self) -> object:
        nodes = tuple(None if node is None else node.key() for node in self.nodes)
        return nodes, tuple(self.logs), self.net, tuple(self.judge.trace), self.kills, self.withdrawals


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
    first = _State([None] * agents, [()] * agents, frozenset(), Judge(plan, team, bodies), kills, withdrawals)
    for agent in range(agents):
        first.nodes[agent] = node.recover(plan, agent, ())
        _write(first, agent, first.nodes[agent].start())  # type: ignore[union-attr]
    seen, waiting, complete = {first.key()}, [first], 0
    while waiting:
        state = waiting.pop()
        complete += state.judge.is_complete
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
            yield from _inputs(state, agent, transactions, lambda node, s=sender, m=message: node.receive(s, m))
    for agent, node in enumerate(state.nodes):
        if node is None:
            after = state.copy()
            back = after.nodes[agent] = made.recover(plan, agent, state.logs[agent])
            after.judge.came_back(agent, back)
            _write(after, agent, back.start())
            yield after
            continue
        if not node.holding and node.willing != everything:
            yield from _inputs(state, agent, transactions, lambda node: node.perceive(everything))
        if not node.holding and node.willing and state.withdrawals:
            for after in _inputs(state, agent, transactions, lambda node: node.perceive(0)):
                after.withdrawals -= 1
                yield after
        yield from _inputs(state, agent, transactions, lambda node: node.tick())


def _inputs(state: _State, agent: int, transactions: int, give: object) -> Iterator[_State]:
    """Give an agent an input, and kill it after each of the effects, if it may be killed."""
    after = state.copy()
    node: Participant = after.nodes[agent]  # type: ignore[assignment]
    output: Output = give(node)  # type: ignore[operator]
    if node.number > transactions:
        return
    if state.kills:
        for cut in range(len(output.entries) + len(output.messages)):
            killed = state.copy()
            entries, messages = output.entries[:cut], output.messages[: max(0, cut - len(output.entries))]
            killed.nodes[agent], killed.kills = None, state.kills - 1
            _write(killed, agent, Output(entries, messages))
            yield killed
    _write(after, agent, output)
    yield after


def _write(state: _State, agent: int, output: Output) -> None:
    state.logs[agent] = (*state.logs[agent], *output.entries)
    for entry in output.entries:
        state.judge.record(agent, entry)
    state.net |= {(agent, receiver, message) for receiver, message in output.messages}
