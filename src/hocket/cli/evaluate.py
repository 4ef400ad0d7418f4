"""evaluate: many test episodes with what was learnt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from rich.text import Text
from tyro.conf import Positional

from hocket.cli.terminal import Flag, make_console, option, print_columns, print_json
from hocket.statistics import bootstrap_interval

if TYPE_CHECKING:
    from hocket.evaluation.bounds import Evaluation
    from hocket.evaluation.exact import Exact
    from hocket.learn.policies import Policy
    from hocket.task.task import Task

NEARLY_NONE = 1e-6  # chance of failure below which it is written out


@dataclass(frozen=True)
class Evaluate:
    """Play many test episodes with what was learnt: success, the bounds of Theorem 3, and how long it takes."""

    target: Annotated[Positional[str], option("TASK")]
    """A built-in name or a file."""
    runs: Annotated[Positional[Path], option("FOLDER")]
    """The folder that `hocket train --out` wrote."""
    episodes: Annotated[int, option("N")] = 10_000
    """Test episodes for each policy."""
    greedy: Flag = False
    """Take the best action instead of drawing by softmax."""
    exact: Flag = False
    """Also solve the team's Markov chain, with certified errors, where a learner's policies make one."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        from hocket.evaluation.evaluate import evaluate
        from hocket.task.catalogue import load_task

        task = load_task(self.target)
        policies = _usable_policies(self.runs, task)
        found = evaluate(task, policies, self.episodes, greedy=self.greedy)
        exact = _solve_all(task, policies, self.greedy) if self.exact else [None] * len(policies)
        if self.json:
            rows = zip(policies, found, exact, strict=True)
            print_json([_row(policy, own, solved) for policy, own, solved in rows])
        else:
            _print_evaluations(policies, found, exact)
            _print_notes(policies, found)
        return 0


def _usable_policies(folder: Path, task: Task) -> Sequence[Policy]:
    """Read a task's policies; say which files are left out, and how many of all are used."""
    from hocket.study.policies import find_policies, load_policies

    found = find_policies(folder, task)
    console = make_console(stderr=True)
    for problem in found.problems:
        console.print(f"hocket: left out: {problem}", style="yellow")
    if not found.of_task:
        return load_policies(folder, task)  # which says why there are none
    if found.files > len(found.of_task):
        rest = f"{len(found.others):,} of other tasks, {len(found.problems):,} left out"
        console.print(f"hocket: evaluating {len(found.of_task):,} of {found.files:,} policies ({rest})")
    return found.of_task


def _row(policy: Policy, own: Evaluation, solved: Exact | None) -> dict[str, Any]:
    return {"learner": policy.learner, "seed": policy.seed, **asdict(own), "exact": solved and asdict(solved)}


def _solve_all(task: Task, policies: Sequence[Policy], greedy: bool) -> Sequence[Exact | None]:
    """Solve the chain of each policy that makes one, and name the others; a terminal shows what is being done."""
    from hocket.evaluation.exact import has_exact_value, solve_team  # loads scipy

    console = make_console(stderr=True)
    left_out = dict.fromkeys(policy.learner for policy in policies if not has_exact_value(policy.learner))
    if left_out:
        console.print(
            f"hocket: no exact values for {', '.join(left_out)}, which go by more than cells and machine states"
        )
    with console.status("") as line:

        def solve(number: int, policy: Policy) -> Exact | None:
            if policy.learner in left_out:
                return None
            which = f"policy {number} of {len(policies)}"
            return solve_team(task, policy, greedy=greedy, progress=lambda doing: line.update(f"{which}: {doing}"))

        return [solve(number, policy) for number, policy in enumerate(policies, 1)]


def _print_evaluations(policies: Sequence[Policy], found: Sequence[Evaluation], exact: Sequence[Exact | None]) -> None:
    titles = ["learner", "seed", "V (95 %)", "lower", "upper", "steps: mean", "quartiles"]
    has_exact = any(solved is not None for solved in exact)
    if has_exact:
        titles += ["exact V", "exact mean", "if done"]
    table = [[Text(title, "dim") for title in titles]]
    for policy, own, solved in zip(policies, found, exact, strict=True):
        low, middle, high = own.quartiles
        cells = [policy.learner, str(policy.seed)]
        cells += [f"{own.success.value:.4f} ({own.success.low:.4f} to {own.success.high:.4f})"]
        cells += [f"{own.lower:.4f}", f"{own.upper:.4f}", f"{own.mean_steps:.2f}", f"{low:g}, {middle:g}, {high:g}"]
        if has_exact:
            cells += ["–"] * 3 if solved is None else _describe(solved)
        table.append([Text(cell) for cell in cells])
    print_columns(make_console(), table)


def _print_notes(policies: Sequence[Policy], found: Sequence[Evaluation]) -> None:
    """Say what the limits are over, what a failure counts as, and how good a learner's runs are together."""
    console = make_console()
    counted = ", ".join(f"{most:,}" for most in sorted({own.most_steps for own in found}))
    console.print(f"Limits are over the episodes of each run; a failed one counts as {counted} steps.", style="dim")
    for learner in dict.fromkeys(policy.learner for policy in policies):
        shares = [own.success.value for own, policy in zip(found, policies, strict=True) if policy.learner == learner]
        if len(shares) > 1:
            value, low, high = bootstrap_interval([[share] for share in shares], np.mean)
            console.print(f"{learner}, {len(shares)} runs: V = {value:.4f}, over runs {low:.4f} to {high:.4f}")


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
