"""The work behind evaluate and bench."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from hocket.cli import terminal
from hocket.evaluation.bounds import Evaluation
from hocket.evaluation.evaluate import evaluate
from hocket.learn.benchmark import measure_algebra, measure_learning
from hocket.learn.policies import Policy
from hocket.study.store import load_policies
from hocket.task.catalogue import load_task
from hocket.task.task import Task

if TYPE_CHECKING:
    from hocket.evaluation.exact import Exact

NEARLY_NONE = 1e-6  # chance of failure below which it is written out
ALGEBRA_AGENTS = 10  # whose machine is decomposed to see how fast that is


def evaluate_and_report(target: str, folder: Path, episodes: int, *, greedy: bool, solve: bool, as_json: bool) -> int:
    """Evaluate the policies of a folder, and solve their chains if asked."""
    task = load_task(target)
    policies = load_policies(folder, task)
    found = evaluate(task, policies, episodes, greedy=greedy)
    exact = _solve_all(task, policies, greedy) if solve else [None] * len(policies)
    if as_json:
        rows = [
            {"learner": policy.learner, "seed": policy.seed, **asdict(own), "exact": solved and asdict(solved)}
            for policy, own, solved in zip(policies, found, exact, strict=True)
        ]
        print(json.dumps(_without_infinities(rows), indent=2, allow_nan=False))
    else:
        _print_evaluations(policies, found, exact)
    return 0


def _solve_all(task: Task, policies: Sequence[Policy], greedy: bool) -> Sequence[Exact]:
    """Solve the chain of each policy; a terminal shows what is being done."""
    from hocket.evaluation.exact import solve_team  # loads scipy

    with terminal.make_console(stderr=True).status("") as line:

        def solve(number: int, policy: Policy) -> Exact:
            which = f"policy {number} of {len(policies)}"
            return solve_team(task, policy, greedy=greedy, progress=lambda doing: line.update(f"{which}: {doing}"))

        return [solve(number, policy) for number, policy in enumerate(policies, 1)]


def _without_infinities(value: Any) -> Any:  # noqa: ANN401
    """Replace what JSON has no number for by null."""
    if isinstance(value, Mapping):
        return {key: _without_infinities(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [_without_infinities(own) for own in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print_evaluations(policies: Sequence[Policy], found: Sequence[Evaluation], exact: Sequence[Exact | None]) -> None:
    titles = ["learner", "seed", "V (95 %)", "lower", "upper", "steps: mean", "quartiles"]
    if exact and exact[0] is not None:
        titles += ["exact V", "exact mean", "if done"]
    table = [[Text(title, "dim") for title in titles]]
    for policy, own, solved in zip(policies, found, exact, strict=True):
        low, middle, high = own.quartiles
        cells = [policy.learner, str(policy.seed)]
        cells += [f"{own.success.value:.4f} ({own.success.low:.4f} to {own.success.high:.4f})"]
        cells += [f"{own.lower:.4f}", f"{own.upper:.4f}", f"{own.mean_steps:.2f}", f"{low:g}, {middle:g}, {high:g}"]
        if solved is not None:
            cells += _describe(solved)
        table.append([Text(cell) for cell in cells])
    terminal.print_columns(terminal.make_console(), table)


def _describe(solved: Exact) -> list[str]:
    """Write exact values with their errors; what the graph decides has none."""
    if 0 < solved.failure < NEARLY_NONE:
        success = f"1 - {with_error(solved.failure, solved.failure_error)}"
    else:
        success = with_error(solved.success, solved.success_error)
    means = (solved.mean_steps, solved.mean_steps_error), (solved.mean_steps_if_done, solved.mean_steps_if_done_error)
    return [success, *(with_error(*mean) for mean in means)]


def with_error(value: float, error: float) -> str:
    """Write a number, and a bound on its error with one digit, rounded up.

    >>> with_error(26.13525314405, 2.501e-12)
    '26.135253 ± 3e-12'
    >>> with_error(1.0, 0.0), with_error(math.inf, 0.0)
    ('1', 'inf')
    """
    if error == 0 or not math.isfinite(error):
        return f"{value:.8g}" if error == 0 else f"{value:.8g} ± any"
    power = math.floor(math.log10(error))
    digit = math.ceil(error / 10.0**power)
    return f"{value:.8g} ± {digit if digit < 10 else 1}e{power + (digit == 10):+03d}"


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
