"""evaluate: many test episodes with what was learnt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.text import Text
from tyro.conf import Positional, arg

from hocket.cli.terminal import Flag, make_console, print_columns, print_json

if TYPE_CHECKING:
    from hocket.evaluation.bounds import Evaluation


@dataclass(frozen=True)
class Evaluate:
    """Play many test episodes with what was learnt: success, the bounds of Theorem 3, and how long it takes."""

    target: Annotated[Positional[str], arg(metavar="TASK")]
    """A built-in name or a file."""
    runs: Annotated[Positional[Path], arg(metavar="FOLDER")]
    """The folder that `hocket train --out` wrote."""
    episodes: int = 10_000
    """Test episodes for each policy."""
    greedy: Flag = False
    """Take the best action instead of drawing by softmax."""
    exact: Flag = False
    """Also solve the team's Markov chain, where it is small enough."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        from hocket.evaluation.evaluate import evaluate
        from hocket.study.store import load_policies
        from hocket.task.catalogue import load_task

        task = load_task(self.target)
        policies = load_policies(self.runs, task)
        found = evaluate(task, policies, self.episodes, greedy=self.greedy)
        exact: list[dict[str, float] | None] = [None] * len(policies)
        if self.exact:
            from hocket.evaluation.exact import solve_team  # loads scipy

            exact = [asdict(solve_team(task, policy, greedy=self.greedy)) for policy in policies]
        rows = [
            {"learner": policy.learner, "seed": policy.seed, **asdict(own), "exact": solved}
            for policy, own, solved in zip(policies, found, exact, strict=True)
        ]
        if self.json:
            print_json(rows)
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
    print_columns(make_console(), table)
