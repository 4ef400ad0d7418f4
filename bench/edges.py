"""What do edges cost? Training and tests of the same tasks with `at` and with `enters`, `leaves` in one run.

python bench/edges.py [--tasks buttons rendezvous-2] [--out edges.json]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

import hocket as hk
from hocket.learn.benchmark import processor_times
from hocket.learn.dqprm import LEARNER
from hocket.task.tables import compile_task

STEPS = 20_000  # of one seed, between two looks at the clock


def with_edges(task: hk.Task) -> hk.Task:
    """Read the conditions of events of one agent as edges."""
    events = {
        event: {agent: condition.as_edge() for agent, condition in row.items()} if len(row) == 1 else row
        for event, row in task.events.items()
    }
    return replace(task, events=events)


def works(task: hk.Task, label: str) -> dict[str, Callable[[], float]]:
    """What is measured of a task: training one seed and sixteen, and team tests, in agent-steps."""
    tables, settings, agents = compile_task(task), LEARNER.settings(), len(task.agents)
    one, many = (LEARNER.block(tables, settings, range(seeds), 1) for seeds in (1, 16))
    many.train(0, 10 * STEPS)
    player, arrays = LEARNER.player(tables, settings.temperature, settings.max_episode_steps), many.arrays(0)

    def train(block: object, seeds: int) -> float:
        block.train(0, STEPS)
        return STEPS * agents * seeds

    def play() -> float:
        steps = player.play_many(arrays, 0, range(500), greedy=False).steps
        return float(np.where(steps < 0, settings.max_episode_steps, steps).sum()) * agents

    return {
        f"one seed, {label}": lambda: train(one, 1),
        f"16 seeds, {label}": lambda: train(many, 16),
        f"team tests, {label}": play,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=["buttons", "rendezvous-2"])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows = []
    for name in given.tasks:
        task = hk.load_task(name)
        speeds = processor_times({**works(task, "at"), **works(with_edges(task), "edges")})
        for what in ("one seed", "16 seeds", "team tests"):
            plain, edges = speeds[f"{what}, at"], speeds[f"{what}, edges"]
            rows.append({"task": name, "what": what, "at": plain, "edges": edges, "cost": plain / edges - 1})
    print("| task | | at, M/s | edges, M/s | cost |\n| --- | --- | ---: | ---: | ---: |")
    for row in rows:
        speeds = f"{row['at'] / 1e6:.1f} | {row['edges'] / 1e6:.1f}"
        print(f"| {row['task']} | {row['what']} | {speeds} | {row['cost']:+.0%} |")
    if given.out is not None:
        given.out.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
