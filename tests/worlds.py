"""Small worlds with answers worked out by hand, and what an agent or a team can do in a world, by definition."""

from collections.abc import Callable
from itertools import pairwise, product

import numpy as np

import hocket as hk
from hocket.learn.catalogue import LEARNERS
from hocket.learn.warmup import compile_kernels
from hocket.task.grid import ACTIONS, slipped_actions
from hocket.task.settling import team_label
from task_strategies import is_edge, is_met

RIGHT, LEFT, STAY = ACTIONS.index("right"), ACTIONS.index("left"), ACTIONS.index("stay")


def line(cells: int, **places: int) -> hk.Grid:
    """Lay cells in a row and name some of them."""
    return hk.Grid(1, cells, frozenset(), {name: frozenset({cell}) for name, cell in places.items()})


def at(**agents: str) -> dict[str, hk.Condition]:
    """Require agents to be at places."""
    return {name: hk.Condition(place) for name, place in agents.items()}


def corridor(cells: int, slip: float = 0.0) -> hk.Task:
    """Put an agent at one end of a corridor and let it walk to the other: worth 0.9 ** (n - 1) at n steps' distance."""
    return hk.Task(
        "corridor",
        line(cells, end=cells - 1),
        {"A1": hk.Agent(0, ("arrive",), memory=("arrive",), options=(hk.Option("end"),))},
        {"arrive": at(A1="end")},
        hk.RewardMachine(initial="on the way", transitions={("on the way", "arrive"): "there"}, final={"there"}),
        slip,
    )


def meeting(slip: float = 0.0) -> hk.Task:
    """Let A1 (3 steps away) and A2 (2 steps away) meet: in 3 steps, of which A2 waits one."""
    alike = {"memory": ("meet",), "options": (hk.Option("center"),)}
    return hk.Task(
        "meeting",
        line(6, center=3),
        {"A1": hk.Agent(0, ("meet",), **alike), "A2": hk.Agent(5, ("meet",), **alike)},
        {"meet": at(A1="center", A2="center")},
        hk.RewardMachine(initial="apart", transitions={("apart", "meet"): "together"}, final={"together"}),
        slip,
    )


def doorbell(slip: float = 0.0) -> hk.Task:
    """Let A1 come to the bell twice, and then stay there while A2 comes to the mat: in 4 steps."""
    alike = {"memory": ("ring", "meet"), "options": (hk.Option("bell"), hk.Option("mat"))}
    ring, rest, come = hk.Condition("bell", was=False), hk.Condition("bell", was=True), hk.Condition("mat", was=False)
    return hk.Task(
        "doorbell",
        line(3, bell=1, mat=2),
        {"A1": hk.Agent(0, ("ring", "meet"), **alike), "A2": hk.Agent(1, ("ring", "meet"), **alike)},
        {"ring": {"A1": ring}, "meet": {"A1": rest, "A2": come}},
        hk.RewardMachine(
            initial="0", transitions={("0", "ring"): "1", ("1", "ring"): "2", ("2", "meet"): "3"}, final={"3"}
        ),
        slip,
    )


def gatehouse(slip: float = 0.0) -> hk.Task:
    """Let A2 press a button 4 steps away, which opens the door in cell 2 to A1, which has to get from cell 0 to 4.

    A1 waits in cell 1 while A2 walks, and needs 3 more steps: 7 in all.
    """
    return hk.Task(
        "gatehouse",
        line(5, button=0, door=2, goal=4),
        {
            "A1": hk.Agent(0, ("press", "goal"), gates={"door": "press"}, memory=("press",)),
            "A2": hk.Agent(4, ("press",), memory=("press",)),
        },
        {"press": at(A2="button"), "goal": at(A1="goal")},
        hk.RewardMachine(
            initial="closed", transitions={("closed", "press"): "open", ("open", "goal"): "done"}, final={"done"}
        ),
        slip,
    )


def courtyard() -> hk.Task:
    """Put two agents on 3 x 3 cells round a pillar, where moves slip, a door waits for a teammate, and so does the end.

    A1 rings the bell at its own pace; A2 opens the door; both have to be home at once.
    """
    grid = hk.Grid(3, 3, frozenset({4}), {"bell": {2}, "door": {5}, "lever": {6}, "home": {8}})
    return hk.Task(
        "courtyard",
        grid,
        {
            "A1": hk.Agent(0, ("ring", "open", "end"), gates={"door": "open"}),
            "A2": hk.Agent(2, ("ring", "open", "end")),
        },
        {"ring": at(A1="bell"), "open": at(A2="lever"), "end": at(A1="home", A2="home")},
        hk.RewardMachine(
            initial="0", transitions={("0", "ring"): "1", ("1", "open"): "2", ("2", "end"): "3"}, final={"3"}
        ),
        slip=0.1,
    )


def turnpike(toll: float) -> hk.Task:
    """Let an agent in cell 2 choose: 0.5 at the inn in cell 1, or 1 at the market in cell 6 past a toll in cell 4."""
    return hk.Task(
        "turnpike",
        line(7, inn=1, gate=4, market=6),
        {"A1": hk.Agent(2, ("rest", "pay", "sell"))},
        {"rest": at(A1="inn"), "pay": at(A1="gate"), "sell": at(A1="market")},
        hk.RewardMachine(
            initial="out",
            transitions={("out", "rest"): "done", ("out", "pay"): "past", ("past", "sell"): "done"},
            final={"done"},
            rewards={("out", "rest"): 0.5, ("out", "pay"): -toll, ("past", "sell"): 1.0},
        ),
        slip=0.0,
    )


def gallery(slip: float = 0.0) -> hk.Task:
    """Let A1 take a vase from the shelf and hand it to A2, who sells it: 3.5 in 5 steps. If A1 smashes it, it is lost.

    The team is given as its agents' machines, with a penalty and a state in which nothing more can happen.
    """
    carrier = hk.RewardMachine(
        initial="out",
        transitions={("out", "pick"): "has", ("out", "smash"): "broken", ("has", "hand"): "done"},
        final={"done"},
        rewards={("out", "smash"): -2, ("has", "hand"): 0.5},
    )
    seller = hk.RewardMachine(
        initial="idle",
        transitions={("idle", "hand"): "holds", ("holds", "sell"): "done"},
        final={"done"},
        rewards={("holds", "sell"): 3},
    )
    return hk.Task(
        "gallery",
        line(7, vase=0, shelf=2, table=4, shop=6),
        {"A1": hk.Agent(1, ("pick", "smash", "hand")), "A2": hk.Agent(5, ("hand", "sell"))},
        {"pick": at(A1="shelf"), "smash": at(A1="vase"), "hand": at(A1="table", A2="table"), "sell": at(A2="shop")},
        hk.Composition({"A1": carrier, "A2": seller}),
        slip,
    )


def ferry(slip: float = 0.0) -> hk.Task:
    """Let A1 load a ferry that A2 takes over and back, as often as they like: 1 to load it, 0.25 for a crossing.

    They may also stop, which pays 0.1 and A1 does not notice: its machine has one state, which is final and still pays.
    """
    moves = {("empty", "load"): "laden", ("laden", "cross"): "empty", ("empty", "stop"): "closed"}
    return hk.Task(
        "ferry",
        line(5, dock=0, sea=2, rest=4),
        {"A1": hk.Agent(1, ("load",)), "A2": hk.Agent(3, ("load", "cross", "stop"))},
        {"load": at(A1="dock", A2="dock"), "cross": at(A2="sea"), "stop": at(A2="rest")},
        hk.RewardMachine(
            initial="empty",
            transitions=moves,
            final={"closed"},
            rewards={("empty", "load"): 1, ("laden", "cross"): 0.25, ("empty", "stop"): 0.1},
        ),
        slip,
    )


# An individual.


class Individual:
    """An agent with simulated teammates: where actions lead in each of its machine states, and what may happen."""

    def __init__(self, task: hk.Task, name: str, sync_probability: float = 0.3, *, literal: bool = False) -> None:
        self.task, self.name, self.machine = task, name, task.machines[name]
        self.index = list(task.agents).index(name)
        self.closed = dict(zip(self.machine.states, task.closed_cells(name), strict=True))
        leads_on = {state for state, _ in self.machine.transitions} if task.has_rewards and len(task.agents) > 1 else ()
        self.over = {state for state in self.machine.final if state not in leads_on}
        self.sync_probability, self.literal = sync_probability, literal

    def arrive(self, state: str, cell: int, action: int, outcome: int) -> int:
        """Find where an action leads."""
        return self.task.grid.neighbor(cell, slipped_actions(outcome)[action], self.closed[state])

    def settle(
        self, state: str, end: int, ready: Callable[[float], bool], before: int | None = None
    ) -> tuple[str, float]:
        """Find the machine state and the reward after a step, given whether teammates are ready by a chance."""
        if state in self.over:
            return state, 0.0
        happens = [event for event in self._possible(state, end, before) if ready(self.chance(event))]
        reward, past, edges = 0.0, list[tuple[str, list[str]]](), list[str]()
        while happens:
            past.append((state, edges))
            edges = [*edges, *(event for event in happens[:1] if is_edge(self.task.events[event]))]
            reward += self.machine.rewards[state, happens[0]]
            state = self.machine.transitions[state, happens[0]]
            possible = self._possible(state, end, before)
            happens = [event for event in possible if not self.waits(event) and event not in edges]
            if (state, edges) in past or state in self.over:
                break
        return state, reward

    def outcomes(self, state: str, end: int, before: int | None = None) -> list[tuple[float, str, float]]:
        """List what may come of a step: chance, machine state, reward."""
        chances = {self.chance(event) for event in self.task.knows[self.name]}
        borders = sorted({0.0, 1.0} | chances)
        return [
            (high - low, *self.settle(state, end, lambda chance, draw=(low + high) / 2: draw < chance, before))
            for low, high in pairwise(borders)
        ]

    def _possible(self, state: str, end: int, before: int | None) -> list[str]:
        conditions = {event: self.task.events[event].get(self.name, hk.Condition()) for event in self.machine.events}
        return [
            event
            for event in self.task.events
            if (state, event) in self.machine.transitions and is_met(self.task.grid, conditions[event], end, before)
        ]

    def waits(self, event: str) -> bool:
        """Say whether an event depends on teammates, or by the task's own word on chance."""
        others = set(self.task.agents) - {self.name}
        shared = any(event in self.task.knows[other] for other in others)
        has_part = self.literal or not others.isdisjoint(self.task.control[event])
        return event in self.task.agents[self.name].sync or (shared and has_part)

    def chance(self, event: str) -> float:
        """Return the chance that an event takes effect: the task's own, or 1 unless teammates have to be ready."""
        own = self.task.agents[self.name].sync
        return own.get(event, self.sync_probability if self.waits(event) else 1.0)


def action_values(world: Individual, discount: float = 0.9) -> np.ndarray:
    """Solve an agent's world by value iteration: [cells, actions, machine states]."""
    task, machine = world.task, world.machine
    shape = (task.grid.cells, len(ACTIONS), len(machine.states))
    slips = (1 - task.slip, task.slip / 2, task.slip / 2)
    most = 3 * (2 + len(machine.events))
    ways = np.zeros((*shape, most, 2), np.int64)  # (cell, machine state) after each slip and outcome
    odds, pay = np.zeros((*shape, most)), np.zeros((*shape, most))
    for cell, action, own in product(*map(range, shape)):
        state = tuple(machine.states)[own]
        case = 0
        for outcome, weight in enumerate(slips):
            end = world.arrive(state, cell, action, outcome)
            for chance, target, reward in world.outcomes(state, end, cell):
                at = (cell, action, own, case)
                ways[at] = end, machine.states.index(target)
                odds[at], pay[at] = weight * chance, reward
                case += 1
    goes_on = np.array([state not in world.over for state in machine.states])
    value = np.zeros((shape[0], shape[2]))
    change = 1.0
    while change > 1e-9:
        q = (odds * (pay + discount * value[ways[..., 0], ways[..., 1]])).sum(axis=3) * goes_on
        change = np.abs(q.max(axis=1) - value).max()
        value = q.max(axis=1)
    return q


# A team.


def fewest_steps(task: hk.Task) -> int:
    """Search all that a team can do without slips, breadth first, by the team's own machine and labelling function."""
    grid, names = task.grid, list(task.agents)
    closed = {name: dict(zip(task.machines[name].states, task.closed_cells(name), strict=True)) for name in names}
    start = (tuple(task.agents[name].start for name in names), task.machine.initial)
    seen, front, steps = {start}, [start], 0
    while front:
        if any(is_done(task.machine, state) for _, state in front):
            return steps
        steps += 1
        following = []
        for cells, state in front:
            own = dict(zip(names, own_states(task, state), strict=True))
            moves = [
                {grid.neighbor(cell, action, closed[name][own[name]]) for action in range(len(ACTIONS))}
                for name, cell in zip(names, cells, strict=True)
            ]
            for ends in product(*moves):
                after = settle_team(task, *(dict(zip(names, each, strict=True)) for each in (ends, cells)), state)
                if (ends, after) not in seen:
                    seen.add((ends, after))
                    following.append((ends, after))
        front = following
    raise AssertionError("the task cannot be done")


def settle_team(task: hk.Task, cells: dict[str, int], before: dict[str, int], state: object) -> object:
    """Find the team state after a step, by the team's own labelling function, round by round."""
    edges: set[str] = set()
    while events := [event for event in team_label(task, cells, state, before) if event not in edges]:
        busy: set[str] = set()
        for event in events:
            if busy.isdisjoint(task.knowers[event]):
                state = task.machine.step(state, event)
                busy.update(task.knowers[event])
                edges |= {event} if is_edge(task.events[event]) else set()
    return state


def is_done(machine: hk.RewardMachine | hk.Composition, state: object) -> bool:
    """Say whether a team machine of either kind is in a final state."""
    return machine.is_final(state) if isinstance(machine, hk.Composition) else state in machine.final


def own_states(task: hk.Task, state: object) -> tuple[str, ...]:
    """List the agents' states that stand for a state of the team machine."""
    if isinstance(task.machine, hk.Composition):
        return state
    return tuple(
        next(own for own, members in machine.members.items() if state in members) for machine in task.machines.values()
    )


# Compiling.


def warm_kernels() -> None:
    """Compile every kernel, or load it from disk, as studies do: one process at a time."""
    for name, learner in LEARNERS.items():
        for seeds in {1, learner.min_vector_seeds or 1}:
            compile_kernels(name, seeds)
