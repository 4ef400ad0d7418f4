"""How fast are construction, projection, decomposition and repair? Rendezvous with 2 to 16 agents, in one run.

    python bench/algebra.py [--agents 2 4 8 10] [--out algebra.json]

Two rivals in the same run: a plain-Python union-find that computes the same projections and checks the same criterion,
and libFAUDES (if the package `faudes` is installed), which computes natural projections, on small sizes only.
Each size runs in a process of its own, so that its peak memory is its own. What counts is processor time; rivals take
turns, and medians of five rounds are shown (of one, from fourteen agents on).
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

import hocket as hk
from hocket.task.catalogue import rendezvous

LARGEST_FOR_FAUDES = 6  # agents; ten take minutes
LARGEST_FOR_PLAIN = 14  # agents; sixteen take a minute and more

Table = dict[tuple[int, str], int]


def in_turns(times: int, works: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Let rivals take turns; return the median of each one's processor times, in seconds."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(times):
        for name, work in works.items():
            begin = time.process_time()
            work()
            taken[name].append(time.process_time() - begin)
    return {name: median(own) for name, own in taken.items()}


def plain_classes(states: int, table: Table, known: set[str]) -> list[int]:
    """Project by union-find with a work list, in plain Python."""
    parent = list(range(states))
    moves: list[dict[str, int]] = [{} for _ in range(states)]
    work = []
    for (source, event), target in table.items():
        if event in known:
            moves[source][event] = target
        else:
            work.append((source, target))

    def find(state: int) -> int:
        while parent[state] != state:
            parent[state] = parent[parent[state]]
            state = parent[state]
        return state

    while work:
        left, right = work.pop()
        left, right = find(left), find(right)
        if left == right:
            continue
        if len(moves[left]) < len(moves[right]):
            left, right = right, left
        parent[right] = left
        for event, target in moves[right].items():
            if event in moves[left]:
                work.append((moves[left][event], target))
            else:
                moves[left][event] = target
    return [find(state) for state in range(states)]


def plain_decompose(states: int, table: Table, final: set[int], knows: Mapping[str, set[str]]) -> bool:
    """Check the linear criterion in plain Python."""
    events = {event for _, event in table}
    classes = {agent: plain_classes(states, table, own) for agent, own in knows.items()}
    enabled = {agent: {(classes[agent][state], event) for state, event in table} for agent in knows}
    knowers = {event: [agent for agent, own in knows.items() if event in own] for event in events}
    done = {agent: {classes[agent][state] for state in final} for agent in knows}
    for state in range(states):
        for event in events:
            if (state, event) not in table and all(
                (classes[agent][state], event) in enabled[agent] for agent in knowers[event]
            ):
                return False
        if state not in final and all(classes[agent][state] in done[agent] for agent in knows):
            return False
    return True


def faudes_projections(machine: hk.RewardMachine, knows: Mapping[str, tuple[str, ...]]) -> Callable[[], object] | None:
    """Prepare libFAUDES's projections, if it is there."""
    try:
        import faudes
    except ImportError:
        return None
    generator = faudes.Generator()
    for event in machine.events:
        generator.InsEvent(event)
    for name in machine.states:
        generator.InsState(name)
    for (source, event), target in machine.transitions.items():
        generator.SetTransition(source, event, target)
    generator.SetInitState(machine.initial)
    for name in machine.final:
        generator.SetMarkedState(name)

    def project() -> None:
        for own in knows.values():
            alphabet = faudes.EventSet()
            for event in own:
                alphabet.Insert(event)
            faudes.Project(generator, alphabet)

    return project


def measure(agents: int) -> dict[str, float | int | None]:
    """Measure one size."""
    times = 5 if agents <= 12 else 1
    team = rendezvous(agents)
    machine, knows = hk.compose(*team.machines.values()), {agent: tuple(own) for agent, own in team.knows.items()}
    broken = {**knows, "A1": [event for event in knows["A1"] if event != "r"]}
    works: dict[str, Callable[[], object]] = {
        "construct": lambda: hk.compose(*rendezvous(agents).machines.values()),
        "project": lambda: [hk.project(machine, own) for own in knows.values()],
        "decompose": lambda: hk.decompose(machine, knows),
        "repair": lambda: hk.repair(machine, broken),
    }
    found = in_turns(1, works)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if agents <= LARGEST_FOR_PLAIN:
        place = {state: index for index, state in enumerate(machine.states)}
        table = {(place[source], event): place[target] for (source, event), target in machine.transitions.items()}
        final = {place[state] for state in machine.final}
        sets = {agent: set(own) for agent, own in knows.items()}
        works["plain"] = lambda: plain_decompose(len(place), table, final, sets)
    if agents <= LARGEST_FOR_FAUDES and (rival := faudes_projections(machine, knows)) is not None:
        works["faudes"] = rival
    if times > 1 or len(works) > len(found):
        found = in_turns(times, works)
    size = {"agents": agents, "states": len(machine.states), "transitions": len(machine.graph.target)}
    return {**size, **found, "plain": found.get("plain"), "faudes": found.get("faudes"), "peak_mb": peak}


COLUMNS = (
    "agents",
    "states",
    "transitions",
    "construct",
    "project",
    "decompose",
    "repair",
    "peak_mb",
    "plain",
    "faudes",
)


def show(value: float | int | None) -> str:
    """Write a number in a few digits."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}" if value < 10 else f"{value:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agents", type=int, nargs="+", default=[2, 4, 6, 8, 10, 12, 14, 16])
    parser.add_argument("--out", type=Path, default=None, help="write the numbers as JSON")
    parser.add_argument("--one", type=int, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(measure(options.one)))
        return
    titles = (*COLUMNS, "plain/decompose", "us/transition/agent")
    print("seconds; rendezvous, all agents' projections\n" + "  ".join(f"{title:>11}" for title in titles))
    rows = []
    for agents in options.agents:
        output = subprocess.run(
            [sys.executable, __file__, "--one", str(agents)], capture_output=True, text=True, check=True
        )
        row = json.loads(output.stdout.splitlines()[-1])  # libFAUDES prints, too
        rows.append(row)
        cells = [show(row[column]) for column in COLUMNS]
        cells.append("-" if row["plain"] is None else f"{row['plain'] / row['decompose']:.1f}x")
        cells.append(f"{row['decompose'] / row['transitions'] / agents * 1e6:.3f}")
        print(
            "  ".join(f"{cell:>{max(11, len(title))}}" for cell, title in zip(cells, titles, strict=True)), flush=True
        )
    if options.out is not None:
        options.out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
