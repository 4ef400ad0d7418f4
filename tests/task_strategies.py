"""Random tasks that are sound by construction, from a seed: small worlds of any shape, teams of up to three agents.

Local machines are made first and composed, so the task is decomposable. An agent may propose several events at once;
tasks in which a step would never settle are drawn again. A gate is only added where the agent's state tells whether it
is open.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

import hocket as hk
from hocket.task.conditions import parse_conditions
from hocket.task.endless import find_endless
from hocket.task.grid import ACTIONS
from hocket.task.settling import check_labelling
from searches import examples

NAMES = ("A1", "A2", "A3")
PLACES = ("red", "blue", "green room", "here and there")
EDGY = 3  # one of so many tasks has edges
CHANCES = (0.02, 0.0, 0.3, 1.0)  # of slipping

Cells = frozenset[int]
Conditions = dict[str, dict[str, hk.Condition]]  # event -> controller -> where it has to be

few = examples(12)
some = examples(25)
many = examples(80)


class Pair(NamedTuple):
    """One task in two forms."""

    lazy: hk.Task  # the team machine is a composition whose states are never listed
    listed: hk.Task  # the team machine has all its states; the agents know the same


def random_grid(rng: Random, floor: int = 2) -> hk.Grid:
    """Draw a map of 1 x 5 to 6 x 6 cells, seldom square, of which at least `floor` are not walls, with four places."""
    rows = rng.randint(1, 6)
    columns = rng.randint(5 if rows == 1 else 1 if rows >= 5 else 2, 6)
    density = rng.choice((0.0, 0.1, 0.3))
    cells = range(rows * columns)
    walls = {cell for cell in cells if rng.random() < density}
    while len(cells) - len(walls) < floor:
        walls.remove(rng.choice(sorted(walls)))
    ground = [cell for cell in cells if cell not in walls]
    sizes = (1, 1, 1, 2, 3)
    places = {name: frozenset(rng.choices(ground, k=rng.choice(sizes))) for name in PLACES}
    return hk.Grid(rows, columns, frozenset(walls), places)


def random_pair(rng: Random) -> Pair:
    """Draw a task that is decomposable, settles, and whose gates an agent can tell open from closed."""
    while True:
        pair = _random_pair(rng)
        number = int(pair.listed.digest[:8], 16)
        if number % EDGY == 0:
            pair = Pair(*(with_edges(task, number) for task in pair))
        if find_endless(pair.lazy) is None and find_endless(pair.listed) is None:
            return pair


def _random_pair(rng: Random) -> Pair:
    grid = random_grid(rng)
    names = NAMES[: rng.choice((1, 2, 2, 3, 3))]
    knowers = _random_knowers(rng, names)
    events = {event: _random_conditions(rng, grid, own) for event, own in knowers.items()}
    known = {name: [event for event, own in knowers.items() if name in own] for name in names}
    parts = {name: _random_part(rng, grid, name, known[name], events) for name in names}
    ground = [cell for cell in range(grid.cells) if cell not in grid.walls]
    agents = {name: hk.Agent(rng.choice(ground), parts[name].events) for name in names}
    team = hk.Composition(parts)
    lazy = hk.Task("random", grid, agents, events, team, slip=rng.choice(CHANCES))
    listed = replace(lazy, machine=team.machine())
    agents = {name: _furnish(rng, name, agent, lazy, listed) for name, agent in agents.items()}
    return Pair(replace(lazy, agents=agents), replace(listed, agents=agents))


def random_task(rng: Random) -> hk.Task:
    """Draw a task in any form: a composition, a listed machine, or one of which agents know more than they need."""
    lazy, listed = random_pair(rng)
    kind = rng.randrange(3)
    return lazy if kind == 0 else listed if kind == 1 else _tell_more(rng, listed)


def random_team(rng: Random) -> hk.Task:
    """Draw a task of several agents, each of whom has one event at a time and no chances of its own."""
    while True:
        task = random_task(rng)
        if len(task.agents) > 1 and check_labelling(task).ok:
            return replace(task, agents={name: replace(agent, sync={}) for name, agent in task.agents.items()})


def _random_knowers(rng: Random, names: tuple[str, ...]) -> dict[str, list[str]]:
    """Draw who knows each event: some of one agent, others shared."""
    knowers = {}
    for number, name in enumerate(names, start=1):
        for letter in "abc"[: rng.choice((1, 1, 2, 3))]:
            knowers[f"{letter}{number}"] = [name]
    for letter in "mn"[: rng.randint(0, 2) if len(names) > 1 else 0]:
        knowers[letter] = sorted(rng.sample(names, rng.randint(2, len(names))))
    events = sorted(knowers)
    rng.shuffle(events)
    return {event: knowers[event] for event in events}


def _random_conditions(rng: Random, grid: hk.Grid, knowers: list[str]) -> dict[str, hk.Condition]:
    """Draw who of those that know an event make it happen, and where; somewhere it is possible."""
    controllers = rng.sample(knowers, rng.randint(1, len(knowers)))
    conditions = {}
    for name in sorted(controllers):
        condition = hk.Condition(rng.choice(PLACES), inside=rng.random() < 0.75)
        conditions[name] = condition if cells_of(grid, condition) else hk.Condition(condition.place)
        if rng.random() < 0.1:
            conditions[name] = hk.Condition()
    return conditions


def cells_of(grid: hk.Grid, condition: hk.Condition) -> Cells:
    """List the cells in which a condition holds, by its definition."""
    ground = frozenset(range(grid.cells)) - grid.walls
    if condition.place is None:
        return ground
    return grid.places[condition.place] if condition.inside else ground - grid.places[condition.place]


def is_met(grid: hk.Grid, condition: hk.Condition, cell: int, before: int | None) -> bool:
    """Say whether a condition holds after a step from one cell to another, by the words that it is written in.

    None: there was no step.
    """
    for way in str(condition).split(" or "):
        word, _, place = way.replace("not at", "not-at").replace("stays at", "stays-at").partition(" ")
        is_in, was_in = (here is not None and here in grid.places.get(place, ()) for here in (cell, before))
        was_out = before is not None and not was_in
        if {
            "anywhere": True,
            "at": is_in,
            "not-at": not is_in and cell not in grid.walls,
            "enters": is_in and was_out,
            "leaves": not is_in and was_in,
            "stays-at": is_in and was_in,
        }[word]:
            return True
    return False


def is_edge(conditions: Mapping[str, hk.Condition]) -> bool:
    """Say whether an event happens at most once in a step, by the words of its conditions."""
    words = {word for condition in conditions.values() for word in str(condition).split()}
    return not words.isdisjoint({"enters", "leaves", "stays"})


def with_edges(task: hk.Task, seed: int) -> hk.Task:
    """Make edges of some conditions of a task, each by chance."""
    rng = Random(seed)
    words = ("at", "not at", "enters", "enters", "leaves", "stays at")

    def drawn(name: str, condition: hk.Condition) -> hk.Condition:
        if condition.place is None or rng.random() < 0.3:
            return condition
        ways = [f"{rng.choice(words)} {place}" for place in rng.sample(PLACES, rng.choice((1, 1, 2)))]
        if ways[0].startswith("stays at ") and rng.random() < 0.5:
            ways.append(ways[0].replace("stays at", "enters"))
        return parse_conditions(f"{name} {' or '.join(ways)}", [name], PLACES, "events")[name]

    events = {
        event: {name: drawn(name, condition) for name, condition in conditions.items()}
        for event, conditions in task.events.items()
    }
    return replace(task, events=events)


def _random_part(
    rng: Random, grid: hk.Grid, name: str, known: list[str], events: Mapping[str, Mapping[str, hk.Condition]]
) -> hk.RewardMachine:
    """Draw an agent's machine: a chain to a final state with detours; seldom two events of a state at the same cell."""
    where = {event: cells_of(grid, events[event].get(name, hk.Condition())) for event in known}
    states = [str(number) for number in range(rng.randint(2, 4))]
    transitions: dict[tuple[str, str], str] = {}

    def add(state: str, event: str, target: str) -> None:
        taken = [where[other] for source, other in transitions if source == state]
        if rng.random() < 0.4 or all(where[event].isdisjoint(other) for other in taken):
            transitions[state, event] = target

    for state, following in pairwise(states):
        add(state, rng.choice(known), following)
    for state in states[:-1]:
        for event in rng.sample(known, len(known)):
            if (state, event) not in transitions and rng.random() < 0.5:
                add(state, event, rng.choice(states))
    return hk.RewardMachine(
        initial="0",
        transitions=transitions,
        final={states[-1]},
        states=rng.sample(states, len(states)),
        events=rng.sample(known, len(known)),
    )


def _furnish(rng: Random, name: str, agent: hk.Agent, *forms: hk.Task) -> hk.Agent:
    """Give an agent gates that it can tell open from closed in every form of its task, memory, options and chances."""
    events = sorted(forms[0].events)
    openers = sorted(set.intersection(*(latched_events(task.machines[name]) for task in forms)))
    gates = {place: rng.choice(openers) for place in rng.sample(PLACES, rng.randint(0, 2)) if openers}
    memory = tuple(rng.sample(events, rng.randint(0, min(3, len(events)))))
    targets = rng.sample(PLACES, rng.randint(0, 3))
    options = tuple(hk.Option(place, rng.choice((None, *memory))) for place in targets)
    sync = {event: rng.choice((0.1, 0.5, 1.0)) for event in sorted(agent.knows) if rng.random() < 0.1}
    return replace(agent, gates=gates, memory=memory, options=options, sync=sync)


def latched_events(machine: hk.RewardMachine) -> set[str]:
    """List the events that can happen and of which each state tells whether they have, by trying all ways."""
    latched = set()
    for event in machine.events:
        seen = {(machine.initial, False)}
        queue = list(seen)
        for state, happened in queue:
            for (source, label), target in machine.transitions.items():
                there = (target, happened or label == event)
                if source == state and there not in seen:
                    seen.add(there)
                    queue.append(there)
        reached_with, reached_without = ({state for state, flag in seen if flag is which} for which in (True, False))
        if reached_with and reached_with.isdisjoint(reached_without):
            latched.add(event)
    return latched


def _tell_more(rng: Random, task: hk.Task) -> hk.Task:
    """Let agents know of events that they could do without, where they can still tell their events apart."""
    for name in task.agents:
        for event in rng.sample(sorted(task.events), len(task.events)):
            told = task.with_knows({name: {*task.knows[name], event}})
            sound = check_labelling(told).ok and find_endless(told) is None
            if sound and all(gates_are_told(told, other) for other in told.agents):
                task = told
    return task


def gates_are_told(task: hk.Task, name: str) -> bool:
    """Say whether an agent's state tells which of its gates are open."""
    return set(task.agents[name].gates.values()) <= latched_events(task.machines[name])


def reorder(items: Mapping[str, object], order: Iterable[str]) -> dict[str, object]:
    """List a mapping in another order."""
    return {key: items[key] for key in order}


class Guide:
    """Chooses actions that mostly lead on, so that tasks get somewhere, and sometimes anywhere."""

    def __init__(self, task: hk.Task, rng: Random, wander: float = 0.3) -> None:
        self.task, self.rng, self.wander = task, rng, wander
        self.ways: dict[tuple[str, str], np.ndarray] = {}

    def action(self, name: str, cell: int, state: str) -> str:
        """Choose an agent's action in its cell and machine state."""
        if (name, state) not in self.ways:
            self.ways[name, state] = self._way(name, state)
        action = int(self.ways[name, state][cell])
        return ACTIONS[self.rng.randrange(5) if action < 0 or self.rng.random() < self.wander else action]

    def actions(self, episode: hk.TeamEpisode) -> dict[str, str]:
        """Choose the actions of a team."""
        return {name: self.action(name, cell, episode.states[name]) for name, cell in episode.cells.items()}

    def _way(self, name: str, state: str) -> np.ndarray:
        """For each cell: the action that leads towards the next event of a shortest trace to the end, or -1."""
        machine = self.task.machines[name]
        event = next_event(machine, state)
        if event is None:
            return np.full(self.task.grid.cells, -1)
        moves = self.task.grid.outcomes(self.task.closed_cells(name)[machine.states.index(state)])[:, :, 0]
        steps = np.where(self.task.where(name, event), 0, 9_999)
        while True:
            shorter = np.minimum(steps, 1 + steps[moves].min(axis=1))
            if np.array_equal(shorter, steps):
                break
            steps = shorter
        best = steps[moves[:, [4, 0, 1, 2, 3]]].argmin(axis=1)  # staying first
        return np.where(steps < 9_999, np.array([4, 0, 1, 2, 3])[best], -1)


def next_event(machine: hk.RewardMachine, state: str) -> str | None:
    """Find the first event of a shortest trace from a state to a final one, or any event where there is none."""
    away = dict.fromkeys(machine.final, 0)
    for _ in machine.states:
        for (source, _), target in machine.transitions.items():
            if target in away:
                away[source] = min(away.get(source, len(machine.states)), 1 + away[target])
    choices = [(away.get(target, 9_999), event) for (own, event), target in machine.transitions.items() if own == state]
    return min(choices)[1] if choices else None


# Everything but the seed is derived: a shrunk task would be no simpler to read than its printed form.
seeds = st.integers(0, 2**32 - 1)


def grids() -> st.SearchStrategy[hk.Grid]:
    """Draw maps."""
    return seeds.map(lambda seed: random_grid(Random(seed)))


def pairs() -> st.SearchStrategy[Pair]:
    """Draw tasks in both forms."""
    return seeds.map(lambda seed: random_pair(Random(seed)))


def tasks() -> st.SearchStrategy[hk.Task]:
    """Draw tasks in any form."""
    return seeds.map(lambda seed: random_task(Random(seed)))


def team_tasks() -> st.SearchStrategy[hk.Task]:
    """Draw tasks of several agents, each of whom has one event at a time and no chances of its own."""
    return seeds.map(lambda seed: random_team(Random(seed)))
