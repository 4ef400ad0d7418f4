"""The work behind train and evaluate."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from hocket.benchmark import measure_algebra, measure_learning
from hocket.catalogue import load_task
from hocket.commands import terminal
from hocket.errors import SettingsError, known_names
from hocket.estimates import Evaluation
from hocket.evaluation import evaluate
from hocket.learners.policies import Run
from hocket.learners.training import LEARNERS, make_settings, train
from hocket.store import load_policies
from hocket.study import save_runs
from hocket.task import Task

ALGEBRA_AGENTS = 10  # whose machine is decomposed to see how fast that is
SUMMARY_STEPS = 20_000_000  # agent-steps, at most, that estimate a learner's success for the summary
LAST_TESTS = 10  # per seed, in the summary

Changes = Mapping[str, float | int | bool]
Words = tuple[tuple[str, ...], ...]  # of an option that may be given several times with several words


def train_and_report(
    target: str,
    learners: Sequence[str],
    seeds: int,
    steps: int,
    words: Words,
    out: Path | None,
    threads: int | None,
    as_json: bool,
) -> int:
    """Train, write the runs, and sum them up. An interrupt ends training early and keeps what is there."""
    task = load_task(target)
    changes = {name: parse_changes(words, name) for name in learners}
    for name in learners:
        make_settings(name, None, changes[name])  # complain before any work
    stop = threading.Event()
    previous = signal.signal(signal.SIGINT, lambda *_: stop.set())
    try:
        runs = _train_all(task, changes, seeds, steps, threads, stop)
    finally:
        signal.signal(signal.SIGINT, previous)
    if out is not None:
        save_runs(task, runs, out)
    trained = [name for name in learners if any(run.learner == name for run in runs)]
    rows = [summary(task, [run for run in runs if run.learner == name]) for name in trained]
    if as_json:
        print(json.dumps({"task": task.name, "stopped": stop.is_set(), "learners": rows}, indent=2))
    else:
        _print_summary(rows, stop.is_set())
    return 130 if stop.is_set() else 0


def _train_all(
    task: Task, changes: Mapping[str, Changes], seeds: int, steps: int, threads: int | None, stop: threading.Event
) -> list[Run]:
    """Train learners one after the other, with a progress line on a terminal."""
    console = terminal.make_console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[speed]}"), TimeRemainingColumn())
    runs: list[Run] = []
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        for name, own in changes.items():
            total = steps * seeds * len(task.agents)
            meter = _Meter(progress, progress.add_task(f"{name} on {task.name}", total=total, speed="compiling"))
            runs += train(task, name, seeds, steps, threads=threads, progress=meter.add, stop=stop, changes=own)
            if stop.is_set():
                break
    return runs


class _Meter:
    """Counts steps from several threads and shows how fast they come."""

    def __init__(self, progress: Progress, bar: Any) -> None:  # noqa: ANN401
        self.progress, self.bar, self.done = progress, bar, 0
        self.begin, self.lock = time.perf_counter(), threading.Lock()

    def add(self, steps: int) -> None:
        with self.lock:
            self.done += steps
        speed = self.done / (time.perf_counter() - self.begin) / 1e6
        self.progress.update(self.bar, completed=self.done, speed=f"{speed:.1f} M agent-steps/s")


def _print_summary(rows: Sequence[Mapping[str, Any]], stopped: bool) -> None:
    console = terminal.make_console()
    if stopped:
        console.print("Stopped early; what was finished is kept.", style="bold")
    titles = ("learner", "seeds", "steps", "policy", "test steps: median (quartiles)", "success")
    table = [[Text(title, "dim") for title in titles]]
    for row in rows:
        for policy in ("softmax", "greedy"):
            if policy in row:
                low, middle, high = row[policy]["quartiles"]
                cells = (row["learner"], str(row["seeds"]), f"{row['steps']:,}", policy)
                shown = (*cells, f"{middle:g} ({low:g} to {high:g})", f"{row[policy]['success']:.3f}")
                table.append([Text(cell) for cell in shown])
    terminal.print_columns(console, table)
    console.print(f"The last {LAST_TESTS} tests of each run; a failed test counts as its most steps.", style="dim")
    for row in rows:
        if "bounds" in row:
            _print_bounds(console, row["learner"], row["bounds"])


def _print_bounds(console: Console, learner: str, bounds: Mapping[str, float]) -> None:
    within = f"{bounds['lower']:.3f} <= V = {bounds['success']:.3f} <= {bounds['upper']:.3f}"
    console.print(f"Theorem 3 for {learner}, over {bounds['episodes']:,} episodes of the first run: {within}")


def summary(task: Task, runs: list[Run]) -> dict[str, object]:
    """Sum up a learner's last tests, and the bounds on its success."""
    about: dict[str, object] = {"learner": runs[0].learner if runs else None, "seeds": len(runs)}
    about["steps"] = max((run.steps for run in runs), default=0)
    for policy in ("softmax", "greedy"):
        last = [trial for run in runs for trial in [t for t in run.trials if t.policy == policy][-LAST_TESTS:]]
        if last:
            steps = np.array([trial.test_steps for trial in last])
            quartiles = np.percentile(steps, (25, 50, 75)).tolist()
            about[policy] = {"quartiles": quartiles, "success": float(np.mean([trial.success for trial in last]))}
    if runs:
        longest = len(task.agents) * runs[0].settings.episode_steps
        [found] = evaluate(task, runs[0], max(10, min(1_000, SUMMARY_STEPS // longest)))
        about["bounds"] = {
            "episodes": found.episodes, "lower": found.lower, "success": found.success.value, "upper": found.upper,
        }  # fmt: skip
    return about


def parse_changes(words: Words, learner: str) -> dict[str, float | int | bool]:
    """Read NAME=VALUE words by the types of a learner's settings."""
    if learner not in LEARNERS:
        raise SettingsError(f"learner {learner!r} does not exist ({known_names(learner, LEARNERS)})")
    kinds = {field.name: type(field.default) for field in fields(LEARNERS[learner].settings)}
    changes: dict[str, float | int | bool] = {}
    for word in (word for group in words for word in group):
        name, equals, text = word.partition("=")
        name = name.replace("-", "_")
        if not equals:
            raise SettingsError(f"--set takes words of the form NAME=VALUE, got {word!r}")
        if name not in kinds:
            raise SettingsError(f"{learner} has no setting {name!r} ({known_names(name, kinds)})")
        changes[name] = _value(name, text, kinds[name])
    return changes


def _value(name: str, text: str, kind: type) -> float | int | bool:
    if kind is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise SettingsError(f"{name} must be true or false, got {text!r}")
    try:
        return int(text.replace("_", "")) if kind is int else float(text)
    except ValueError:
        raise SettingsError(f"{name} must be a {'whole ' if kind is int else ''}number, got {text!r}") from None


def evaluate_and_report(target: str, folder: Path, episodes: int, *, greedy: bool, solve: bool, as_json: bool) -> int:
    """Evaluate the policies of a folder, and solve their chains if asked."""
    task = load_task(target)
    policies = load_policies(folder, task)
    found = evaluate(task, policies, episodes, greedy=greedy)
    exact: list[dict[str, float] | None] = [None] * len(policies)
    if solve:
        from hocket.exact import solve_team  # loads scipy

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
    return 0
