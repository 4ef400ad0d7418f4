"""The work behind evaluate and bench."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.text import Text

from hocket.cli import terminal
from hocket.evaluation.bounds import Evaluation
from hocket.evaluation.evaluate import evaluate
from hocket.learn.benchmark import ROUNDS, measure_algebra, measure_learning
from hocket.study.store import load_policies
from hocket.task.catalogue import load_task

ALGEBRA_AGENTS = 10  # whose machine is decomposed to see how fast that is


def evaluate_and_report(target: str, folder: Path, episodes: int, *, greedy: bool, solve: bool, as_json: bool) -> int:
    """Evaluate the policies of a folder, and solve their chains if asked."""
    task = load_task(target)
    policies = load_policies(folder, task)
    found = evaluate(task, policies, episodes, greedy=greedy)
    exact: list[dict[str, float] | None] = [None] * len(policies)
    if solve:
        from hocket.evaluation.exact import solve_team  # loads scipy

        exact = [asdict(solve_team(task, policy, greedy=greedy)) for policy in policies]
    rows = [
        {"learner": policy.learner, "seed": policy.seed, **asdict(own), "exact": solved}
        for policy, own, solved in zip(policies, found, exact, strict=True)
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
    else:
        _print_evaluations(rows, found)
    return 0


def _print_evaluations(rows: Sequence[Mapping[str, Any]], found: Sequence[Evaluation]) -> None:
    titles = ["learner", "seed", "V (95 %)", "lower", "upper", "steps: mean", "quartiles"]
    if rows and rows[0]["exact"] is not None:
        titles += ["exact V", "exact mean"]
    table = [[Text(title, "dim") for title in titles]]
    for row, own in zip(rows, found, strict=True):
        low, middle, high = own.quartiles
        cells = [row["learner"], str(row["seed"])]
        cells += [f"{own.success.value:.4f} ({own.success.low:.4f} to {own.success.high:.4f})"]
        cells += [f"{own.lower:.4f}", f"{own.upper:.4f}", f"{own.mean_steps:.2f}", f"{low:g}, {middle:g}, {high:g}"]
        if row["exact"] is not None:
            cells += [f"{row['exact']['success']:.6f}", f"{row['exact']['mean_steps']:.4f}"]
        table.append([Text(cell) for cell in cells])
    terminal.print_columns(terminal.make_console(), table)


def benchmark_and_report(tasks: Sequence[str], *, as_json: bool) -> int:
    """Measure speeds and print them."""
    rows = [row for name in tasks for row in measure_learning(name)]
    seconds = measure_algebra(ALGEBRA_AGENTS)
    if as_json:
        speeds = [asdict(row) for row in rows]
        print(json.dumps({"learning": speeds, f"decompose rendezvous-{ALGEBRA_AGENTS} (s)": seconds}, indent=2))
        return 0
    console = terminal.make_console()
    table = [[Text(title, "dim") for title in ("M agent-steps/s", "ratio", "what, on one core")]]
    for row in rows:
        table.append([Text(cell) for cell in (f"{row.per_second / 1e6:.1f}", f"{row.ratio:.2f}", row.what)])
    terminal.print_columns(console, table)
    console.print(f"Decomposing rendezvous-{ALGEBRA_AGENTS} with all its states takes {seconds * 1000:.1f} ms.")
    load = f" The machine's load is {os.getloadavg()[0]:.1f}." if hasattr(os, "getloadavg") else ""
    console.print(
        f"Seconds of processor time; medians of {ROUNDS} rounds in which rivals take turns.{load}", style="dim"
    )
    return 0
