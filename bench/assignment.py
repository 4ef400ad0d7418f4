"""How long do repair and cheapest take, and how near are their answers to what is proved? Families of random machines.

    python bench/assignment.py [--states 100] [--events 12] [--agents 6] [--seeds 10] [--out assignment.json]

For each family: `repair` of an assignment that has nothing to do with the machine (of compositions: one from which a
few events were taken), the same with control, and `cheapest` from control alone. CPU seconds.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple

import hocket as hk


class Size(NamedTuple):
    """How large an instance is."""

    states: int
    events: int
    agents: int

    @property
    def labels(self) -> list[str]:
        return [f"e{i}" for i in range(self.events)]

    @property
    def team(self) -> list[str]:
        return [f"A{i}" for i in range(1, self.agents + 1)]


class Instance(NamedTuple):
    """A machine, who knows what, and who controls what."""

    machine: hk.RewardMachine
    knows: dict[str, set[str]]
    control: dict[str, list[str]]


def scattered(rng: Random, size: Size, per_state: float) -> hk.RewardMachine:
    """Scatter transitions around a chain of states."""
    names = [f"u{i}" for i in range(size.states)]
    transitions = {(name, rng.choice(size.labels)): after for name, after in pairwise(names)}
    for name in names[:-1]:
        for event in size.labels:
            if rng.random() < per_state / size.events:
                transitions.setdefault((name, event), rng.choice(names))
    return hk.RewardMachine(initial="u0", transitions=transitions, final=names[-1:], events=size.labels)


def ring(rng: Random, size: Size) -> hk.RewardMachine:
    """Go round in a ring, forwards and sometimes back, with an exit opposite the start."""
    names = [f"u{i}" for i in range(size.states - 1)]
    transitions = {}
    for index, name in enumerate(names):
        transitions[name, rng.choice(size.labels)] = names[(index + 1) % len(names)]
        if rng.random() < 0.5:
            transitions.setdefault((name, rng.choice(size.labels)), names[index - 1])
    transitions[names[len(names) // 2], size.labels[0]] = "done"
    return hk.RewardMachine(initial="u0", transitions=transitions, final={"done"}, events=size.labels)


def grid(rng: Random, size: Size) -> hk.RewardMachine:
    """Go from one corner of a grid to the other; each column and each row has its event."""
    width = max(2, round(size.states**0.5))
    half = size.events // 2
    across, down = ([rng.choice(labels) for _ in range(width)] for labels in (size.labels[:half], size.labels[half:]))
    transitions = {}
    for x in range(width):
        for y in range(width):
            if x + 1 < width:
                transitions[f"{x},{y}", across[x]] = f"{x + 1},{y}"
            if y + 1 < width:
                transitions[f"{x},{y}", down[y]] = f"{x},{y + 1}"
    corner = f"{width - 1},{width - 1}"
    return hk.RewardMachine(initial="0,0", transitions=transitions, final={corner}, events=size.labels)


def parts_of(rng: Random, size: Size) -> list[hk.RewardMachine]:
    """Draw a small machine for each agent, over events that it has for itself or shares."""
    own: dict[str, list[str]] = {agent: [] for agent in size.team}
    for event in size.labels:
        for agent in rng.sample(size.team, rng.choice((1, 1, 2, 2, 3))):
            own[agent].append(event)
    largest = max(2, round((20 * size.states) ** (1 / size.agents)))  # most joint states are out of reach
    parts = []
    for events in own.values():
        known = events or [rng.choice(size.labels)]
        names = [str(i) for i in range(rng.randint(2, largest))]
        transitions = {(name, rng.choice(known)): after for name, after in pairwise(names)}
        for name in names[:-1]:
            for event in known:
                if rng.random() < 0.3:
                    transitions.setdefault((name, event), rng.choice(names))
        parts.append(hk.RewardMachine(initial="0", transitions=transitions, final=names[-1:], events=known))
    return parts


def composed(rng: Random, size: Size) -> tuple[hk.RewardMachine, dict[str, set[str]]]:
    """Draw a composition of about the size that is asked for, and let some agents forget an event."""
    while True:
        parts = parts_of(rng, size)
        machine = hk.compose(*parts)
        if 0.4 * size.states <= len(machine.states) <= 1.2 * size.states:
            break
    knows = {agent: set(part.events) for agent, part in zip(size.team, parts, strict=True)}
    for agent in rng.sample(size.team, rng.choice((1, 2, 3))):
        knows[agent].discard(rng.choice(sorted(knows[agent])))
    return machine, knows


def damaged(rng: Random, size: Size) -> tuple[hk.RewardMachine, dict[str, set[str]]]:
    """Draw a composition and take transitions out of it; some of its states may be out of reach then."""
    machine, knows = composed(rng, size)
    transitions = dict(machine.transitions)
    for key in rng.sample(sorted(transitions), 3):
        del transitions[key]
    kept = {"states": machine.states, "events": machine.events}
    return hk.RewardMachine(initial=machine.initial, transitions=transitions, final=machine.final, **kept), knows


MACHINES: dict[str, Callable[[Random, Size], hk.RewardMachine]] = {
    "chain, 1.1 transitions a state": lambda rng, size: scattered(rng, size, 0.1),
    "sparse, 2 transitions a state": lambda rng, size: scattered(rng, size, 1),
    "medium, 4 transitions a state": lambda rng, size: scattered(rng, size, 3),
    "dense, 4 of 5 transitions": lambda rng, size: scattered(rng, size, 0.8 * size.events),
    "ring": ring,
    "grid": grid,
}
TEAMS: dict[str, Callable[[Random, Size], tuple[hk.RewardMachine, dict[str, set[str]]]]] = {
    "composition, events missing": composed,
    "composition, damaged": damaged,
}
QUESTIONS = ("repair", "with control", "cheapest")


def draw(family: str, seed: int, size: Size) -> Instance:
    """Draw an instance of a family."""
    rng = Random(f"{family} {seed} {size}")
    if family in TEAMS:
        machine, knows = TEAMS[family](rng, size)
    else:
        machine = MACHINES[family](rng, size)
        sharing = rng.choice((0.05, 0.15, 0.3))
        knows = {agent: set() for agent in size.team}
        for event in size.labels:
            for agent in {rng.choice(size.team), *(agent for agent in size.team if rng.random() < sharing)}:
                knows[agent].add(event)
    return Instance(machine, knows, {event: rng.sample(size.team, rng.choice((1, 1, 2))) for event in machine.events})


def measure(question: str, instance: Instance) -> tuple[float, float, float, bool]:
    """Answer a question: CPU seconds, cost, bound, and whether the answer is proved cheapest."""
    machine, knows, control = instance
    begin = time.process_time()
    if question == "cheapest":
        found = hk.cheapest_assignment(machine, knows, control)
    else:
        found = hk.repair(machine, knows, control if question == "with control" else None)
    return time.process_time() - begin, found.cost, found.bound, found.exact


def summarise(rows: Sequence[tuple[float, float, float, bool]]) -> dict[str, float]:
    """Sum up the answers to one question in one family."""
    taken, costs, bounds, exact = zip(*rows, strict=True)
    ratios = [cost / bound if bound else 1.0 if cost == 0 else float("inf") for _, cost, bound, _ in rows]
    return {
        "median_s": statistics.median(taken),
        "most_s": max(taken),
        "median_cost": statistics.median(costs),
        "median_bound": statistics.median(bounds),
        "median_ratio": statistics.median(ratios),
        "proved": sum(exact) / len(exact),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for option, default in (("states", 100), ("events", 12), ("agents", 6), ("seeds", 10)):
        parser.add_argument(f"--{option}", type=int, default=default)
    parser.add_argument("--out", type=Path, default=None, help="write the numbers as JSON")
    options = parser.parse_args()
    size = Size(options.states, options.events, options.agents)
    print(f"{size.states} states, {size.events} events, {size.agents} agents; {options.seeds} machines each")
    columns = ("median_s", "most_s", "median_cost", "median_bound", "median_ratio", "proved")
    print(f"{'family':30}  {'question':12}  " + "  ".join(f"{column:>12}" for column in columns))
    results = []
    for family in (*MACHINES, *TEAMS):
        instances = [draw(family, seed, size) for seed in range(options.seeds)]
        for question in QUESTIONS:
            row = summarise([measure(question, instance) for instance in instances])
            results.append({"family": family, "question": question, **row})
            cells = "  ".join(f"{row[column]:12.3f}" for column in columns)
            print(f"{family:30}  {question:12}  {cells}", flush=True)
    if options.out is not None:
        options.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
