"""Small worlds with answers worked out by hand, and what an agent or a team can do in a world, by definition."""

from itertools import product

import numpy as np

import hocket as hk
from hocket.learn.catalogue import LEARNERS
from hocket.learn.warmup import compile_kernels
from hocket.task.gates import closed_cells
from hocket.task.grid import ACTIONS, slipped_actions
from hocket.task.labelling import local_label, team_label

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


# An individual.


class Individual:
    """An agent with simulated teammates: where actions lead in each of its machine states, and what may happen."""

    def __init__(self, task: hk.Task, name: str, sync_probability: float = 0.3, *, literal: bool = False) -> None:
        self.task, self.name, self.machine = task, name, task.machines[name]
        self.index = list(task.agents).index(name)
        self.closed = dict(zip(self.machine.states, closed_cells(task, name), strict=True))
        self.sync_probability, self.literal = sync_probability, literal

    def arrive(self, state: str, cell: int, action: int, outcome: int) -> tuple[int, str | None]:
        """Find where an action leads, and the event that the agent then proposes."""
        end = self.task.grid.neighbor(cell, slipped_actions(outcome)[action], self.closed[state])
        return end, local_label(self.task, self.name, end, state)

    def chance(self, event: str) -> float:
        """Return the chance that an event takes effect: the task's own, or 1 unless teammates have to be ready."""
        own = self.task.agents[self.name].sync
        if event in own:
            return own[event]
        others = set(self.task.agents) - {self.name}
        shared = any(event in self.task.knows[other] for other in others)
        waits = shared and (self.literal or not others.isdisjoint(self.task.control[event]))
        return self.sync_probability if waits else 1.0


def action_values(world: Individual, discount: float = 0.9) -> np.ndarray:
    """Solve an agent's world by value iteration: [cells, actions, machine states]."""
    task, machine = world.task, world.machine
    shape = (task.grid.cells, len(ACTIONS), len(machine.states))
    slips = (1 - task.slip, task.slip / 2, task.slip / 2)
    ways = np.zeros((*shape, 6, 2), np.int64)  # (cell, machine state) after each slip, without and with the event
    odds, pay = np.zeros((*shape, 6)), np.zeros((*shape, 6))
    for cell, action, own in product(*map(range, shape)):
        state = tuple(machine.states)[own]
        for outcome, weight in enumerate(slips):
            end, event = world.arrive(state, cell, action, outcome)
            chance = 0.0 if event is None else world.chance(event)
            ways[cell, action, own, outcome] = end, own
            odds[cell, action, own, outcome] = weight * (1 - chance)
            if event is not None:
                ways[cell, action, own, 3 + outcome] = end, machine.states.index(machine.transitions[state, event])
                odds[cell, action, own, 3 + outcome] = weight * chance
                pay[cell, action, own, 3 + outcome] = machine.rewards[state, event]
    goes_on = np.array([state not in machine.final for state in machine.states])
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
    closed = {name: dict(zip(task.machines[name].states, closed_cells(task, name), strict=True)) for name in names}
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
                after = state
                for event in team_label(task, dict(zip(names, ends, strict=True)), state):
                    after = task.machine.step(after, event)
                if (ends, after) not in seen:
                    seen.add((ends, after))
                    following.append((ends, after))
        front = following
    raise AssertionError("the task cannot be done")


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
        for seeds in {1, learner.side_by_side or 1}:
            compile_kernels(name, seeds)
