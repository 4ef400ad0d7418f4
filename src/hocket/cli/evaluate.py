"""evaluate and export: test episodes with trained policies, and a trained team's Markov chain for model checkers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from hocket.cli.options import Flag, Json, MaybeNumber, MaybeText, NamedTask, Number, RunsFolder, Words, flat, option
from hocket.cli.terminal import make_console, print_json, print_skipped, print_table
from hocket.errors import SettingsError
from hocket.task.catalogue import load_task

if TYPE_CHECKING:
    from hocket.evaluation.evaluate import Evaluation
    from hocket.evaluation.exact import Exact
    from hocket.learn.policies import Policy
    from hocket.statistics import Interval
    from hocket.task.task import Task
    from hocket.task.teamwork.check import Stall

MOSTLY = 0.5  # success below which a team fails in most of its episodes
NEARLY_NONE = 1e-6  # probability of failure below which it is shown instead of the success

Softmax = Annotated[Flag, option(help="Sample from the softmax policy instead of taking the greedy action.")]


@dataclass(frozen=True)
class Evaluate:
    """Run many test episodes with trained policies: success, the bounds of Theorem 3, steps to completion, returns."""

    target: NamedTask
    runs: RunsFolder
    episodes: Number = 10_000  # Number of test episodes per policy.
    greedy: Flag = False  # Take the greedy action: the default.
    softmax: Softmax = False
    exact: Flag = False
    """Also solve the team's Markov chain, with certified error bounds, for learners whose policies define one."""
    event: Annotated[Words, option("EVENT")] = ()
    """Also compute the exact probability that an event ever happens; includes --exact."""
    json: Json = False

    def run(self) -> int:
        from hocket.evaluation.evaluate import evaluate
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
        rows = [EvaluatedPolicy(task, *row) for row in zip(labels, policies, evaluations, exact, strict=True)]
        if self.json:
            measure = "return" if task.has_rewards else "success"
            means = _over_runs(rows).items()
            learners = [{"label": label, "runs": runs, measure: asdict(mean)} for label, (runs, mean) in means]
            return print_json({"task": task.name, "runs": [row.as_json() for row in rows], "learners": learners})
        _print_evaluations(task, rows)
        return 0


class EvaluatedPolicy(NamedTuple):
    """A policy and its evaluation."""

    task: Task
    label: str  # its learner, and the settings that differ within the folder
    policy: Policy
    evaluation: Evaluation
    exact: Exact | None

    @property
    def value(self) -> Interval:
        """V: the team's mean return, or its success where only completion pays."""
        returns = self.evaluation.returns
        return self.evaluation.success if returns is None else returns.value

    @property
    def fails(self) -> bool:
        """Whether a team fails in most of its episodes; with rewards, whether its mean return is not positive."""
        return self.value.value < MOSTLY if self.evaluation.returns is None else self.value.value <= 0

    def find_stall(self) -> Stall | None:
        """Find where the team stalls if it fails in most of its episodes."""
        from hocket.study.testing import find_stall

        return find_stall(self.task, self.policy) if self.evaluation.policy == "greedy" and self.fails else None

    def as_json(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        policy, stall = self.policy, self.find_stall()
        about = {"label": self.label, "learner": policy.learner, "seed": policy.seed, "settings": dict(policy.settings)}
        exact = {"exact": self.exact and asdict(self.exact)}
        return about | asdict(self.evaluation) | exact | {"stall": None if stall is None else stall.as_json()}

    def cells(self, *, with_exact: bool) -> list[tuple[str, str]]:
        """Return the cells of a table's row with their titles: returns of a task with rewards, or success; steps."""
        evaluation, value = self.evaluation, self.value
        limits = "" if value.limits is None else " ({:.4f} to {:.4f})".format(*value.limits)
        shown = f"{value.value:.4f}{limits}"
        cells = [("learner", self.label), ("seed", str(self.policy.seed))]
        if evaluation.returns is not None:
            parts = " + ".join(f"{share.value:.4g}" for share in evaluation.returns.agents.values())
            quartiles = ("quartiles", "{:g}, {:g}, {:g}".format(*evaluation.returns.quartiles))
            cells += [("return V (95 %)", shown), ("V = sum of V_i", parts), quartiles]
        if not self.task.is_continuing:
            if evaluation.returns is not None:
                cells += [("success", f"{evaluation.success.value:.4f}")]
            else:
                bounds = f"{evaluation.lower:.4f} <= V <= {evaluation.upper:.4f}"
                cells += [("success V (95 %)", shown), ("Theorem 3", bounds)]
            quartiles = ("quartiles", "{:g}, {:g}, {:g}".format(*evaluation.quartiles))
            cells += [("steps: mean", f"{evaluation.mean_steps:.2f}"), quartiles]
        if with_exact:
            titles = ["exact V"] if self.task.has_rewards else ["exact V", "exact mean", "if done"]
            values = ["–"] * len(titles) if self.exact is None else _describe(self.task, self.exact)
            cells += zip(titles, values, strict=True)
        return cells


def _usable_policies(folder: Path, task: Task) -> tuple[Sequence[Policy], list[str]]:
    """Load a task's policies and their labels; print which files are skipped, and how many are used."""
    from hocket.study.policies import find_policies, load_policies
    from hocket.study.records import group_label

    stored = find_policies(folder, task)
    print_skipped(stored.problems)
    if not stored.of_task:
        load_policies(folder, task)  # raises an error that says why there are none
    if stored.others or stored.problems:
        files = len(stored.of_task) + len(stored.others) + len(stored.problems)
        rest = f"{len(stored.others):,} of other tasks, {len(stored.problems):,} unreadable"
        used = f"evaluating {len(stored.of_task):,} of {files:,} policies"
        make_console(stderr=True).print(f"hocket: {used} ({rest})")
    rows = zip(stored.of_task, stored.varied, strict=True)
    return stored.of_task, [group_label(policy.learner, varied) for policy, varied in rows]


def _over_runs(rows: Sequence[EvaluatedPolicy]) -> dict[str, tuple[int, Interval]]:
    """Return for each label the number of runs and their mean success or return, with limits over runs if several."""
    from hocket.statistics import mean_interval, mean_share

    groups: dict[str, list[Interval]] = {}
    for row in rows:
        groups.setdefault(row.label, []).append(row.value)
    average = mean_interval if rows and rows[0].evaluation.returns is not None else mean_share
    return {
        label: (len(values), average([value.value for value in values]) if values[1:] else values[0])
        for label, values in groups.items()
    }


def _solve_all(task: Task, policies: Sequence[Policy], greedy: bool, events: Sequence[str]) -> Sequence[Exact | None]:
    """Solve the Markov chain of each policy that defines one, and name the others; show progress on a terminal."""
    from hocket.evaluation.exact import evaluate_exact, has_exact_value  # loads scipy

    console = make_console(stderr=True)
    skipped = dict.fromkeys(policy.learner for policy in policies if not has_exact_value(policy.learner))
    if skipped:
        reason = "their policies depend on more than the cell and the machine's state"
        console.print(f"hocket: no exact values for {', '.join(skipped)}: {reason}")
    with console.status("") as line:

        def solve(number: int, policy: Policy) -> Exact | None:
            if policy.learner in skipped:
                return None
            title = f"policy {number} of {len(policies)}"
            return evaluate_exact(
                task, policy, greedy=greedy, events=events, progress=lambda doing: line.update(f"{title}: {doing}")
            )

        return [solve(number, policy) for number, policy in enumerate(policies, 1)]


def _print_evaluations(task: Task, rows: Sequence[EvaluatedPolicy]) -> None:
    """Print a table of all policies, means over runs, exact values, and where a team stalls."""
    console = make_console()
    with_exact = any(row.exact is not None for row in rows)
    table = [row.cells(with_exact=with_exact) for row in rows]
    print_table(console, [title for title, _ in table[0]], [[text for _, text in cells] for cells in table])
    limits = ", ".join(f"{most:,}" for most in sorted({row.evaluation.most_steps for row in rows}))
    failure = "" if task.is_continuing else f" A failure counts as {limits} steps."
    console.print(f"95 % limits are over the episodes of each run.{failure}", style="dim")
    for label, (runs, mean) in _over_runs(rows).items():
        if runs > 1:
            limits = f", 95 % limits over runs {mean.low:.4f} to {mean.high:.4f}" if mean.limits else ""
            console.print(f"{label}, {runs} runs: V = {mean.value:.4f}{limits}")
    for row in rows:
        if (exact := row.exact) is not None:
            values = {f"V_{name}": value for name, value in (exact.returns or exact.agents).items()}
            values |= {f"P({name})": value for name, value in exact.events.items()}
            equations = ", ".join(f"{name} = {with_error(value.value, value.error)}" for name, value in values.items())
            console.print(f"{row.label}, seed {row.policy.seed}, exact: {equations}")
    failing = [row for row in rows if row.fails]
    if failing and (stall := failing[0].find_stall()) is not None:
        failure = "earn nothing" if task.has_rewards else "fail in most episodes"
        team = f"{failing[0].policy.learner}, seed {failing[0].policy.seed}"
        sentence = f"{len(failing)} of {len(rows)} teams {failure}. The team of {team}, stalls {stall}."
        console.print(sentence, style="bold red")


def _describe(task: Task, exact: Exact) -> list[str]:
    """Format exact values with their error bounds."""
    if task.has_rewards:
        return [with_error(exact.team_return.value, exact.team_return.error)]
    if 0 < exact.failure < NEARLY_NONE:
        success = f"1 - {with_error(exact.failure, exact.failure_error)}"
    else:
        success = with_error(exact.success, exact.success_error)
    mean_if_done = with_error(exact.mean_steps_if_done, exact.mean_steps_if_done_error)
    return [success, with_error(exact.mean_steps, exact.mean_steps_error), mean_if_done]


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


@dataclass(frozen=True)
class ExportTeam:
    """Write a trained team's Markov chain for a model checker: Storm (.drn) or PRISM (.tra, .lab, .sta)."""

    target: NamedTask
    runs: RunsFolder
    output: Annotated[Path, option("FILE", "-o")]  # The file to write. Of .tra, .lab and .sta all three are written.
    learner: Annotated[MaybeText, option("NAME")] = None  # The learner whose policy is exported (default: the first).
    seed: MaybeNumber = None  # The seed whose policy is exported (default: the first).
    softmax: Softmax = False
    event: Annotated[Words, option("EVENT")] = ()  # Events that are labels of states (default: all).
    json: Json = False

    def run(self) -> int:
        from hocket.evaluation.export import export_team  # loads scipy
        from hocket.study.policies import load_policies

        task = load_task(self.target)
        policies = (policy for policy in load_policies(self.runs, task) if self.learner in (None, policy.learner))
        policy = next((policy for policy in policies if self.seed in (None, policy.seed)), None)
        if policy is None:
            raise SettingsError(f"{self.runs} has no policy of this learner and seed")
        greedy, events = not self.softmax, flat(self.event) or None
        with make_console(stderr=True).status("") as line:
            written = export_team(task, policy, self.output, greedy=greedy, events=events, progress=line.update)
        kind, files = "greedy" if greedy else "softmax", [str(file) for file in written.files]
        if self.json:
            about = {"learner": policy.learner, "seed": policy.seed, "policy": kind}
            return print_json({"task": task.name, **about, **asdict(written), "files": files})
        size = f"{written.states:,} states, {written.transitions:,} transitions"
        console = make_console()
        console.print(f"Wrote {', '.join(files)}: {size}; the {kind} policy of {policy.learner}, seed {policy.seed}.")
        console.print(f"Labels: {', '.join(written.labels.values())}", style="dim")
        if written.never:
            console.print(f"In no state, so without a label: {', '.join(written.never)}", style="dim")
        return 0
