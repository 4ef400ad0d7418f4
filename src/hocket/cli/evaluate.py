"""evaluate: many test episodes with trained policies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from tyro.conf import Positional

from hocket.cli.options import Flag, Number, Words, flat, option
from hocket.cli.terminal import make_console, print_json, print_table
from hocket.errors import SettingsError
from hocket.statistics import Interval, mean_interval, mean_share

if TYPE_CHECKING:
    from hocket.evaluation.bounds import Evaluation
    from hocket.evaluation.exact import Exact
    from hocket.learn.policies import Policy
    from hocket.task.task import Task
    from hocket.task.teamwork.check import Stall

MOSTLY = 0.5  # success below which a team fails in most of its episodes
NEARLY_NONE = 1e-6  # chance of failure below which it is written out


@dataclass(frozen=True)
class Evaluate:
    """Run many test episodes with trained policies: success, the bounds of Theorem 3, steps to completion, returns."""

    target: Annotated[Positional[str], option("TASK")]
    """A built-in name or a file."""
    runs: Annotated[Positional[Path], option("FOLDER")]
    """The folder that `hocket train --out` wrote."""
    episodes: Number = 10_000
    """Number of test episodes per policy."""
    greedy: Flag = False
    """Take the greedy action: the default."""
    softmax: Flag = False
    """Sample from the softmax policy instead of taking the greedy action."""
    exact: Flag = False
    """Also solve the team's Markov chain, with certified error bounds, for learners whose policies define one."""
    event: Annotated[Words, option("EVENT")] = ()
    """Also compute the exact probability that an event ever happens; includes --exact."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        from hocket.evaluation.evaluate import evaluate
        from hocket.task.catalogue import load_task
        from hocket.task.memory import with_team_machine

        task = with_team_machine(load_task(self.target))
        policies, labels = _usable_policies(self.runs, task)
        if self.greedy and self.softmax:
            raise SettingsError("--greedy and --softmax exclude each other")
        greedy, events = not self.softmax, flat(self.event)
        if events:
            from hocket.evaluation.exact import check_events

            check_events(task, events)
        evaluations = evaluate(task, policies, self.episodes, greedy=greedy)
        exact = _solve_all(task, policies, greedy, events) if self.exact or events else [None] * len(policies)
        tried = [EvaluatedPolicy(*row) for row in zip(labels, policies, evaluations, exact, strict=True)]
        if self.json:
            print_json(_as_json(task, tried))
        else:
            _print_evaluations(task, tried)
            _print_notes(task, tried)
            _print_probabilities(tried)
            _print_stalls(task, tried)
        return 0


class EvaluatedPolicy(NamedTuple):
    """A policy and its evaluation."""

    label: str  # its learner, and the settings that differ within the folder
    policy: Policy
    evaluation: Evaluation
    exact: Exact | None


def _usable_policies(folder: Path, task: Task) -> tuple[Sequence[Policy], list[str]]:
    """Read a task's policies, with a label each; print which files are skipped, and how many are used."""
    from hocket.study.policies import find_policies, load_policies
    from hocket.study.records import group_label

    stored = find_policies(folder, task)
    console = make_console(stderr=True)
    for problem in stored.problems:
        console.print(f"hocket: left out: {problem}", style="yellow")
    if not stored.of_task:
        load_policies(folder, task)  # which says why there are none
    if stored.files > len(stored.of_task):
        rest = f"{len(stored.others):,} of other tasks, {len(stored.problems):,} unreadable"
        console.print(f"hocket: evaluating {len(stored.of_task):,} of {stored.files:,} policies ({rest})")
    rows = zip(stored.of_task, stored.apart, strict=True)
    return stored.of_task, [group_label(policy.learner, apart) for policy, apart in rows]


def _as_json(task: Task, tried: Sequence[EvaluatedPolicy]) -> dict[str, Any]:
    """List every run, and the success of the runs of each label together."""
    runs = [
        {
            "label": label,
            "learner": policy.learner,
            "seed": policy.seed,
            "settings": dict(policy.settings),
            **asdict(evaluation),
            "exact": exact and asdict(exact),
            "stall": None if (stall := _stall(task, policy, evaluation)) is None else stall.as_json(),
        }
        for label, policy, evaluation, exact in tried
    ]
    what = "return" if task.has_rewards else "success"
    learners = [
        {"label": label, "runs": runs, what: asdict(share)} for label, (runs, share) in _over_runs(tried).items()
    ]
    return {"task": task.name, "runs": runs, "learners": learners}


def _over_runs(tried: Sequence[EvaluatedPolicy]) -> dict[str, tuple[int, Interval]]:
    """Give for each label the number of runs and their success rate or mean return, with confidence limits over runs.

    The limits of a single run are over its episodes.
    """
    groups: dict[str, list[Interval]] = {}
    average = mean_interval if tried and tried[0].evaluation.returns is not None else mean_share
    for row in tried:
        groups.setdefault(row.label, []).append(_value(row.evaluation))
    return {
        label: (
            len(shares),
            average([share.value for share in shares]) if shares[1:] else shares[0],
        )
        for label, shares in groups.items()
    }


def _solve_all(task: Task, policies: Sequence[Policy], greedy: bool, events: Sequence[str]) -> Sequence[Exact | None]:
    """Solve the Markov chain of each policy that defines one, and name the others; a terminal shows progress."""
    from hocket.evaluation.exact import evaluate_exact, has_exact_value  # loads scipy

    console = make_console(stderr=True)
    left_out = dict.fromkeys(policy.learner for policy in policies if not has_exact_value(policy.learner))
    if left_out:
        reason = "their policies depend on more than the cell and the machine's state"
        console.print(f"hocket: no exact values for {', '.join(left_out)}: {reason}")
    with console.status("") as line:

        def solve(number: int, policy: Policy) -> Exact | None:
            if policy.learner in left_out:
                return None
            which = f"policy {number} of {len(policies)}"
            return evaluate_exact(
                task, policy, greedy=greedy, events=events, progress=lambda doing: line.update(f"{which}: {doing}")
            )

        return [solve(number, policy) for number, policy in enumerate(policies, 1)]


def _value(evaluation: Evaluation) -> Interval:
    """V: the team's mean return, or its success where only completion pays."""
    return evaluation.success if evaluation.returns is None else evaluation.returns.value


def _print_evaluations(task: Task, tried: Sequence[EvaluatedPolicy]) -> None:
    titles = ["learner", "seed"]
    if task.has_rewards:
        titles += ["return V (95 %)", "V = sum of V_i", "quartiles"]
    if not task.is_continuing:
        titles += ["success"] if task.has_rewards else ["success V (95 %)", "Theorem 3"]
        titles += ["steps: mean", "quartiles"]
    has_exact = any(row.exact is not None for row in tried)
    if has_exact:
        titles += ["exact V"] if task.has_rewards else ["exact V", "exact mean", "if done"]
    rows = []
    for label, policy, evaluation, solved in tried:
        cells = [label, str(policy.seed), *_cells(task, evaluation)]
        if has_exact:
            described = [] if solved is None else _describe(task, solved)
            cells += described or ["–"] * (1 if task.has_rewards else 3)
        rows.append(cells)
    print_table(make_console(), titles, rows)


def _with_limits(value: Interval) -> str:
    """Write an estimate, and its limits where it has any."""
    return f"{value.value:.4f}" + ("" if value.limits is None else " ({:.4f} to {:.4f})".format(*value.limits))


def _cells(task: Task, evaluation: Evaluation) -> list[str]:
    """Format what the episodes of a policy show: returns where a task has rewards, success and steps where it ends."""
    value, cells = _value(evaluation), list[str]()
    if evaluation.returns is not None:
        parts = " + ".join(f"{share.value:.4g}" for share in evaluation.returns.agents.values())
        low, middle, high = evaluation.returns.quartiles
        cells = [_with_limits(value), parts, f"{low:g}, {middle:g}, {high:g}"]
    if task.is_continuing:
        return cells
    if evaluation.returns is not None:
        cells += [f"{evaluation.success.value:.4f}"]
    else:
        cells += [_with_limits(value)]
        cells += [f"{evaluation.lower:.4f} <= V <= {evaluation.upper:.4f}"]
    low, middle, high = evaluation.quartiles
    return [*cells, f"{evaluation.mean_steps:.2f}", f"{low:g}, {middle:g}, {high:g}"]


def _print_notes(task: Task, tried: Sequence[EvaluatedPolicy]) -> None:
    """Print what the limits are over, what a failure counts as, and the success of each learner's runs together."""
    console = make_console()
    counted = ", ".join(f"{most:,}" for most in sorted({row.evaluation.most_steps for row in tried}))
    failure = "" if task.is_continuing else f" A failure counts as {counted} steps."
    console.print(f"95 % limits are over the episodes of each run.{failure}", style="dim")
    for label, (runs, share) in _over_runs(tried).items():
        if runs > 1:
            limits = f", 95 % limits over runs {share.low:.4f} to {share.high:.4f}" if share.limits else ""
            console.print(f"{label}, {runs} runs: V = {share.value:.4f}{limits}")


def _print_probabilities(tried: Sequence[EvaluatedPolicy]) -> None:
    """Print the exact V_i of each policy, and how likely the events are that were asked for."""
    console = make_console()
    for label, policy, _, solved in tried:
        if solved is not None:
            values = solved.returns or solved.agents
            agents = [f"V_{name} = {with_error(value.value, value.error)}" for name, value in values.items()]
            events = [f"P({name}) = {with_error(value.value, value.error)}" for name, value in solved.events.items()]
            console.print(f"{label}, seed {policy.seed}, exact: {', '.join(agents + events)}")


def _stall(task: Task, policy: Policy, evaluation: Evaluation) -> Stall | None:
    """Find where the team of a policy stalls that fails in most of its episodes; None where it does not."""
    from hocket.study.testing import find_stall

    return find_stall(task, policy) if evaluation.policy == "greedy" and _fails(evaluation) else None


def _fails(evaluation: Evaluation) -> bool:
    """Say whether a team fails in most of its episodes; with rewards, whether it earns nothing."""
    return _value(evaluation).value < MOSTLY if evaluation.returns is None else _value(evaluation).value <= 0


def _print_stalls(task: Task, tried: Sequence[EvaluatedPolicy]) -> None:
    """Say how many teams fail in most episodes, or earn nothing, and where the first of them stalls."""
    failing = [row for row in tried if _fails(row.evaluation)]
    if failing and (stall := _stall(task, failing[0].policy, failing[0].evaluation)) is not None:
        what = "earn nothing" if task.has_rewards else "fail in most episodes"
        which = f"{len(failing)} of {len(tried)} teams {what}"
        team = f"{failing[0].policy.learner}, seed {failing[0].policy.seed}"
        make_console().print(f"{which}. The team of {team}, stalls {stall}.", style="bold red")


def _describe(task: Task, solved: Exact) -> list[str]:
    """Format exact values with their error bounds; what follows from the graph alone has none."""
    if task.has_rewards:
        return [with_error(solved.team_return.value, solved.team_return.error)]
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
