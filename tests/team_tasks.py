"""Random tasks in which teammates depend on each other, from a seed: what an agent alone cannot know of its team.

A task is made of *stages*, side by side or one after the other: stations that any of several agents may visit, loads
that any of them may fetch, meetings in either of two places, a choice that one agent or another makes for all, doors
that a teammate holds open (from both sides in turn, or without an event that says it was of use), buttons that open a
door for good, and meetings in one place. Maps are mazes of up to 16 x 8 cells, with closets behind doors. Where a task
is *told*, every agent knows the events of the stages that it takes part in and what ends the stages before it;
otherwise it knows what it controls, what its gates need, and the cheapest events that make the task decomposable.
"""

from collections import deque
from collections.abc import Mapping
from itertools import product
from random import Random
from typing import NamedTuple

import hocket as hk
from hocket.task.files import task_from
from hocket.task.verdict import check_task

KINDS = ("any", "any", "fetch", "either", "either", "choice", "held", "held", "silent", "relay", "button", "meeting")
SLIPS = (0.0, 0.02, 0.05, 0.1)


class Stage(NamedTuple):
    """A part of the team's task: a small machine over its events."""

    kind: str
    agents: tuple[str, ...]  # that take part
    machine: hk.RewardMachine
    events: Mapping[str, str]  # event -> sentence
    gates: Mapping[str, Mapping[str, object]]  # region -> agent -> gate


class Ground:
    """A maze that grows: floor cells, places in it, and closets behind doors."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        rows, columns = rng.randint(1, 8), rng.randint(5, 16)
        density = rng.choice((0.0, 0.1, 0.2, 0.3))
        cells = [*product(range(rows), range(columns))]
        walls = {cell for cell in cells if rng.random() < density}
        self.floor = _largest([cell for cell in cells if cell not in walls] or cells)
        self.places: dict[str, list[tuple[int, int]]] = {}

    def place(self, name: str) -> str:
        """Name a cell at random; some places have two."""
        self.places[name] = [self.rng.choice(self.floor) for _ in range(self.rng.choice((1, 1, 1, 2)))]
        return name

    def closet(self, door: str, inside: str) -> None:
        """Dig a corridor to the right of the maze, with a door at its entrance, and name its end."""
        taken = {row for cells in self.places.values() for row, column in cells if column > 99}
        rows = [row for row, _ in self.floor if row not in taken and row - 1 not in taken and row + 1 not in taken]
        if not rows:
            raise LookupError("no row is left for a closet")
        row = self.rng.choice(rows)
        first = max(column for own, column in self.floor if own == row) + 1
        self.places[door] = [(row, 100)]
        self.places[inside] = [(row, 100 + self.rng.randint(1, 4))]
        self.corridors = {**getattr(self, "corridors", {}), row: first}

    def document(self) -> dict[str, object]:
        """Lay the map out, closets to the right of everything."""
        corridors = getattr(self, "corridors", {})
        width = max(column for _, column in self.floor) + 1
        deepest = max((column - 99 for cells in self.places.values() for _, column in cells if column > 99), default=0)
        rows = max(row for row, _ in self.floor) + 1
        grid = [["#"] * (width + deepest) for _ in range(rows)]
        for row, column in self.floor:
            grid[row][column] = "."
        places = {
            name: [[row, column if column < 100 else width + column - 100] for row, column in cells]
            for name, cells in self.places.items()
        }
        for row, first in corridors.items():
            last = max(c for cells in places.values() for r, c in cells if r == row)
            grid[row][first : last + 1] = ["."] * (last + 1 - first)
        return {"map": "\n".join("".join(line) for line in grid) + "\n", "places": places}


def _largest(floor: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Keep the largest connected part."""
    left, best = set(floor), list[tuple[int, int]]()
    while left:
        queue, part = deque([min(left)]), [min(left)]
        left.discard(part[0])
        while queue:
            row, column = queue.popleft()
            for cell in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
                if cell in left:
                    left.discard(cell)
                    queue.append(cell)
                    part.append(cell)
        best = max(best, part, key=len)
    return sorted(best)


def random_stage(rng: Random, kind: str, name: str, team: tuple[str, ...], ground: Ground) -> Stage:
    """Draw a stage of a kind, with new places and events."""
    agents = tuple(sorted(rng.sample(team, rng.randint(2, len(team)))))
    if kind == "any":
        stations = [ground.place(f"{name} station {number}") for number in range(rng.choice((1, 2, 2, 3)))]
        events = {f"{name}{place}{agent}": (agent, place) for place in range(len(stations)) for agent in agents}
        moves = {}
        for done in product((0, 1), repeat=len(stations)):
            for event, (_, place) in events.items():
                if not done[place]:
                    after = tuple(1 if own == place else was for own, was in enumerate(done))
                    moves[f"{done}", event] = f"{after}"
        machine = _machine(f"{(0,) * len(stations)}", moves, {f"{(1,) * len(stations)}"})
        sentences = {event: f"{agent} at {stations[place]}" for event, (agent, place) in events.items()}
        return Stage(kind, agents, machine, sentences, {})
    if kind in ("either", "meeting"):
        ways = rng.choice((2, 2, 3)) if kind == "either" else 1
        places = [ground.place(f"{name} meeting {number}") for number in range(ways)]
        who = " and ".join(agents)
        sentences = {f"{name}meet{number}": f"{who} at {place}" for number, place in enumerate(places)}
        machine = _machine("apart", {("apart", event): "met" for event in sentences}, {"met"})
        return Stage(kind, agents, machine, sentences, {})
    if kind == "fetch":
        pile, dock = ground.place(f"{name} pile"), ground.place(f"{name} dock")
        sentences = {f"{name}take{agent}": f"{agent} at {pile}" for agent in agents}
        sentences |= {f"{name}drop{agent}": f"{agent} at {dock}" for agent in agents}
        moves = {("there", f"{name}take{agent}"): f"with {agent}" for agent in agents}
        moves |= {(f"with {agent}", f"{name}drop{agent}"): "brought" for agent in agents}
        return Stage(kind, agents, _machine("there", moves, {"brought"}), sentences, {})
    if kind == "choice":
        one, other = rng.sample(agents, 2)
        sentences = {f"{name}left": f"{one} at {ground.place(f'{name} left')}"}
        sentences |= {f"{name}right": f"{other} at {ground.place(f'{name} right')}"}
        sentences |= {f"{name}go{side}": f"{one} and {other} at {ground.place(f'{name} {side} end')}" for side in "lr"}
        moves = {("open", f"{name}left"): "l", ("open", f"{name}right"): "r"}
        moves |= {(side, f"{name}go{side}"): "done" for side in "lr"}
        return Stage(kind, tuple(sorted((one, other))), _machine("open", moves, {"done"}), sentences, {})
    walker, holder = rng.sample(agents, 2)
    door, token = f"{name} door", f"{name} token"
    ground.closet(door, token)
    plate = ground.place(f"{name} plate")
    if kind == "button":
        sentences = {f"{name}press": f"{holder} at {plate}", f"{name}take": f"{walker} at {token}"}
        machine = _machine("shut", {("shut", f"{name}press"): "open", ("open", f"{name}take"): "taken"}, {"taken"})
        return Stage(kind, (walker, holder), machine, sentences, {door: {walker: f"{name}press"}})
    on, off, take = f"{name}on", f"{name}off", f"{name}take"
    sentences = {on: f"{holder} at {plate}", off: f"{holder} not at {plate}", take: f"{walker} at {token}"}
    if kind == "silent":  # it may be held and let go at any time, and the walker has to come home
        home = f"{name}home"
        sentences[home] = f"{walker} at {ground.place(f'{name} home')}"
        moves = {("up", on): "down", ("down", off): "up", ("got up", on): "got down", ("got down", off): "got up"}
        moves |= {("down", take): "got down", ("up", take): "got up"}
        moves |= {("got down", home): "done down", ("got up", home): "done up"}
        gates = {door: {walker: {"open": on, "close": off}}}
        return Stage(kind, (walker, holder), _machine("up", moves, {"done down", "done up"}), sentences, gates)
    if kind == "relay":  # whoever is in the closet holds the door for the one who held it
        over, lift, end = f"{name}over", f"{name}lift", f"{name}end"
        sentences = {on: f"{holder} at {plate}", off: f"{holder} not at {plate}"}
        sentences |= {over: f"{walker} at {token}", lift: f"{walker} not at {token}"}
        sentences |= {end: f"{walker} and {holder} in {token}"}
        moves = {("up", on): "down", ("down", off): "up", ("up", over): "over", ("down", over): "both"}
        moves |= {("both", off): "over", ("over", on): "both", ("both", lift): "down", ("over", lift): "up"}
        moves |= {("over", end): "done"}
        gates = {door: {walker: {"open": on, "close": off}, holder: {"open": over, "close": lift}}}
        return Stage(kind, (walker, holder), _machine("up", moves, {"done"}), sentences, gates)
    moves = {("up", on): "down", ("down", off): "up", ("down", take): "taken"}
    if rng.random() < 0.5:  # the machine does not say that the plate has to be held; the door does
        moves["up", take] = "taken up"
    machine = _machine("up", moves, {"taken", *moves.values()} - {"up", "down"})
    return Stage(kind, (walker, holder), machine, sentences, {door: {walker: {"open": on, "close": off}}})


def _machine(initial: str, moves: Mapping[tuple[str, str], str], final: set[str]) -> hk.RewardMachine:
    return hk.RewardMachine(initial=initial, transitions=moves, final=final)


def in_sequence(first: hk.RewardMachine, second: hk.RewardMachine) -> hk.RewardMachine:
    """Let the second machine begin where the first is final."""

    def begin(state: str) -> str:
        return f"2{second.initial}" if state in first.final else f"1{state}"

    moves = {(f"1{state}", event): begin(target) for (state, event), target in first.transitions.items()}
    moves |= {(f"2{state}", event): f"2{target}" for (state, event), target in second.transitions.items()}
    return _machine(begin(first.initial), moves, {f"2{state}" for state in second.final})


def random_team_task(seed: int, told: bool | None = None, kinds: tuple[str, ...] = KINDS) -> hk.Task:
    """Draw a decomposable task of one to three stages for two to four agents."""
    rng = Random(seed)
    while True:
        try:
            task = _random_task(rng, rng.random() < 0.7 if told is None else told, kinds)
        except (hk.HocketError, LookupError):
            continue
        if task is not None:
            return task


def _random_task(rng: Random, told: bool, kinds: tuple[str, ...]) -> hk.Task | None:
    team = tuple(f"A{number + 1}" for number in range(rng.choice((2, 2, 3, 3, 4))))
    ground = Ground(rng)
    drawn = [rng.choice(kinds) for _ in range(rng.choice((1, 2, 2, 3)))]
    stages = [random_stage(rng, kind, "abc"[place], team, ground) for place, kind in enumerate(drawn)]
    machine, before = stages[0].machine, list[Stage]()
    knows: dict[str, dict[str, None]] = {agent: {} for agent in team}
    for place, stage in enumerate(stages):
        if place:
            serial = rng.random() < 0.6
            machine = in_sequence(machine, stage.machine) if serial else hk.compose(machine, stage.machine)
            if serial and told:
                for agent in team:
                    knows[agent] |= dict.fromkeys(event for old in before for event in old.events)
        before.append(stage)
        for agent in stage.agents:
            needed = [
                event
                for event, sentence in stage.events.items()
                if told
                or agent in sentence.replace(",", " ").split()
                or any(agent in own for own in stage.gates.values())
            ]
            knows[agent] |= dict.fromkeys(needed)
    events = {event: sentence for stage in stages for event, sentence in stage.events.items()}
    for agent in team:
        if not knows[agent]:  # it has a part of its own
            events[f"home{agent}"] = f"{agent} at {ground.place(f'home of {agent}')}"
            machine = hk.compose(machine, _machine("out", {("out", f"home{agent}"): "in"}, {"in"}))
            knows[agent][f"home{agent}"] = None
    document = {
        "name": "-".join((*drawn, "told" if told else "untold")),
        "slip": rng.choice(SLIPS),
        **ground.document(),
        "agents": {agent: {"start": [*rng.choice(ground.floor)], "knows": [*knows[agent]]} for agent in team},
        "events": events,
        "machine": _as_document(machine),
    }
    gates = {region: dict(own) for stage in stages for region, own in stage.gates.items()}
    if gates:
        document["gates"] = gates
    task = task_from(document)
    added = hk.repair(task.machine, task.knows, task.needs, effort=20_000)
    task = task.with_knows({agent: (*task.knows[agent], *added.get(agent, ())) for agent in team})
    return task if check_task(task, play=False).ok else None


def _as_document(machine: hk.RewardMachine) -> dict[str, object]:
    moves: dict[str, dict[str, str]] = {}
    for (state, event), target in machine.transitions.items():
        moves.setdefault(state, {})[event] = target
    return {"initial": machine.initial, "final": sorted(machine.final), "transitions": moves}
