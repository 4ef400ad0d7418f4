"""How many training steps until greedy teams are as good as optimal policies? The worst of ten seeds counts.

    python bench/samples.py [--seeds 10] [--tasks buttons rooms] [--steps 500 1000] [--rivals] [--out samples.json]

Prints a table for docs/results.md: for each task, learner and number of training steps per agent the largest median of
any seed over 500 greedy test episodes (a failure counts 1,000 steps), and the least success of any.
"""

import argparse
import json
from pathlib import Path

import hocket as hk
import rivals

TASKS = (
    "buttons", "rendezvous-2", "rendezvous-10", "four-buttons", "pass-the-room", "warehouse", "drawbridge", "crew",
    "rooms",
)  # fmt: skip
STEPS = (500, 1_000, 2_000, 4_000, 15_000, 25_000, 100_000)
RIVALS = {
    "sweep": ("sweep", {}),
    "sweep, flat prior": ("sweep", {"prior": "flat"}),
    "dqprm": ("dqprm", {}),
    "dqprm, decaying rate": ("dqprm", {"learning_rate_decay": 1e-4}),
}
EPISODES = 500


def worst(task: hk.Task, learner: str, changes: dict[str, float | str], seeds: int, steps: int) -> tuple[float, float]:
    """Return the largest median and the least success of any seed."""
    runs: list[hk.Run] | list[hk.Policy]
    if learner in rivals.NAMES:
        runs = [rivals.train_team(task, learner, seed, steps) for seed in range(seeds)]
    else:
        runs = hk.train(task, learner, seeds, steps, settings={"test_every": steps, **changes})
    found = hk.evaluate(task, runs, EPISODES, greedy=True)
    return max(own.quartiles[1] for own in found), min(own.success.value for own in found)


def written(median: float, success: float, level: float) -> str:
    """Write a cell of the table; bold where it is within a step of the optimum and never fails."""
    text = f"{median:g}" if success == 1 else f"{median:g} ({success:.3f})"
    return f"**{text}**" if success == 1 and median <= level + 1 else text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--rivals", action="store_true", help="also those of multiagent-rl-rm (see rivals.py); slow")
    parser.add_argument("--steps", nargs="+", type=int, default=STEPS)
    parser.add_argument("--out", type=Path, default=None, help="write the numbers as JSON")
    options = parser.parse_args()
    learners = RIVALS | ({name: (name, {}) for name in rivals.NAMES} if options.rivals else {})
    print(f"| task | optimum | learner | {' | '.join(f'{steps:,}' for steps in options.steps)} |")
    print(f"| --- | ---: | --- | {' | '.join('---:' for _ in options.steps)} |")
    rows = []
    for name in options.tasks:
        task = hk.load_task(name)
        level, _ = worst(task, "optimal", {}, 1, 1)
        for label, (learner, changes) in learners.items():
            found = [worst(task, learner, changes, options.seeds, steps) for steps in options.steps]
            cells = " | ".join(written(*own, level) for own in found)
            print(f"| {name} | {level:g} | {label} | {cells} |", flush=True)
            rows.append(
                {
                    "task": name,
                    "optimum": level,
                    "learner": label,
                    "worst": dict(zip(options.steps, found, strict=True)),
                }
            )
    if options.out is not None:
        options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
