"""Do teams work that `check` calls fine? Random tasks, checked, trained and compared with the agents' joint optimum.

    python bench/team.py [--tasks 1000] [--first 0] [--train 100] [--seeds 2] [--steps 25000] [--out team.jsonl]
                         [--processes 1]

The tasks are those of tests/team_tasks.py: stations that any agent may visit, meetings in either of two places, doors
that a teammate holds open, and so on. Prints how many teams of planned policies complete their task, with constant
readiness and with counted readiness; how many steps they take against the fewest that the agents together could take
(a search through joint states, without slips); of the first `--train` tasks, how many complete after training with
default settings, and where `check` and training disagree; and how long it all took.
"""

import argparse
import json
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import hocket as hk
from hocket.errors import TaskError
from hocket.task.tables import compile_task
from hocket.task.teamwork.check import DISCOUNT, MAX_STEPS, play_planned
from hocket.task.teamwork.joint import fewest_steps, joint_space
from hocket.task.teamwork.play import TeamMoves
from hocket.task.teamwork.readiness import Readiness
from hocket.task.teamwork.search import BELIEFS, ENOUGH, TeamSearch
from team_tasks import random_team_task

MOST_JOINT_STATES = 20_000_000
EPISODES = 200


def success_alone(task: hk.Task) -> float:
    """Play the optimal policies of agents that believe in a constant readiness."""
    tables = compile_task(task)
    readiness = Readiness(tables)
    chances = readiness.believe(BELIEFS[0])
    search = TeamSearch(
        tables,
        readiness,
        DISCOUNT,
        TeamMoves.true(tables),
        MAX_STEPS,
    )
    values = np.stack([search.values(agent, chances) for agent in range(len(task.agents))])
    return search.play(values).score(MAX_STEPS)[0]


def optimum(task: hk.Task) -> int | None:
    """TeamSearch the joint states, where they are not too many."""
    try:
        return fewest_steps(joint_space(compile_task(task), MOST_JOINT_STATES))
    except TaskError:
        return None


def examine(seed: int, seeds: int, steps: int) -> dict[str, object]:
    """Check a random task, and train on it."""
    task = random_team_task(seed)
    begin = time.process_time()
    team = play_planned(task)
    row: dict[str, object] = {
        "task": seed,
        "name": task.name,
        "told": task.name.endswith("-told"),
        "slip": task.slip,
        "alone": success_alone(task),
        "success": team.success,
        "steps": team.median_steps,
        "cpu": time.process_time() - begin,
        "fewest": optimum(task),
        "stall": str(team.stall) if team.stall else None,
    }
    if seeds:
        begin = time.process_time()
        runs = hk.train(task, seeds=seeds, steps=steps, settings={"test_every": steps}, threads=1)
        evaluated = hk.evaluate(task, runs, EPISODES, greedy=True)
        row["train_cpu"] = (time.process_time() - begin) / seeds
        row["trained"] = [run.success.value for run in evaluated]
        row["trained_steps"] = [run.quartiles[1] for run in evaluated]
    return row


def share(flags: list[bool]) -> str:
    return f"{sum(flags):,} of {len(flags):,} ({np.mean(flags):.1%})" if flags else "none"


def compare(kind: str, rows: list[dict]) -> None:
    """Print how many steps teams take against the joint optimum, which knows everything and never slips."""
    for slips, group in (("", rows), (" where nobody slips", [row for row in rows if not row["slip"]])):
        ratios = np.array([row["steps"] / max(row["fewest"], 1) for row in group])
        if len(ratios):
            print(
                f"{kind}: steps over the joint optimum{slips} ({len(ratios):,} teams): "
                f"median {np.median(ratios):.3f}, within 1.25 times {np.mean(ratios <= 1.25):.1%}"
            )


def summarize(rows: list[dict]) -> None:
    """Print what came of the tasks."""
    for told in (True, False):
        group = [row for row in rows if row["told"] is told]
        if group:
            kind = "preconditions told" if told else "cheapest event sets"
            print(
                f"{kind}: complete with constant readiness {share([row['alone'] >= ENOUGH for row in group])}, "
                f"with counted readiness {share([row['success'] >= ENOUGH for row in group])}"
            )
            compare(kind, [row for row in group if row["success"] >= ENOUGH and row["fewest"] is not None])
    trained = [row for row in rows if "trained" in row]
    calls = [row for row in trained if row["success"] >= ENOUGH]
    wrong = [row for row in calls if min(row["trained"]) < ENOUGH]
    if trained:
        print(
            f"trained: of those called fine, all seeds complete {share([row not in wrong for row in calls])}; "
            f"of those refused, all seeds complete "
            f"{share([min(row['trained']) >= ENOUGH for row in trained if row not in calls])}"
        )
        for row in wrong:
            print(f"  disagree: {row['task']} {row['name']} {row['trained']}")
        print(f"CPU: training {np.mean([row['train_cpu'] for row in trained]):.2f} s a run")
    print(f"CPU: checking {np.mean([row['cpu'] for row in rows]):.2f} s a task", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--train", type=int, default=100, help="of how many tasks runs are trained")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=25_000)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None, help="append the numbers of each task as a line of JSON")
    options = parser.parse_args()
    rows: list[dict] = []
    if options.train:
        hk.train("buttons", seeds=1, steps=1_000)  # compiles before processes share the cache
    with ProcessPoolExecutor(options.processes, multiprocessing.get_context("spawn")) as pool:
        pending = [
            pool.submit(examine, options.first + number, options.seeds if number < options.train else 0, options.steps)
            for number in range(options.tasks)
        ]
        for done in as_completed(pending):
            rows.append(done.result())
            if options.out is not None:
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
            if len(rows) % 50 == 0:
                print(f"-- {len(rows):,} tasks", flush=True)
                summarize(rows)
    summarize(rows)


if __name__ == "__main__":
    main()
