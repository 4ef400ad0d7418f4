"""What would make a study pointless, said before it starts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from hocket.errors import HocketError
from hocket.learn.catalogue import find_learner
from hocket.learn.learner import PolicyInput
from hocket.learn.reviews import MOST_AGENTS, MOST_MOVES, count_moves, is_reviewed
from hocket.study.study import JobGroup, Study
from hocket.task.memory import memory_of, options_of
from hocket.task.tables import compile_task
from hocket.task.task import Task
from hocket.task.verdict import Verdict, check_task

MOST_NAMED = 5  # agents


def warnings(study: Study) -> tuple[str, ...]:
    """Say why runs of a study may have nothing to learn or to show, one sentence each."""
    groups = study.groups()
    said: dict[str, None] = {}
    for task in {group.task.digest: group.task for group in groups}.values():
        try:
            verdict = check_task(task)
        except HocketError:
            continue  # whoever compiles the task will say what is wrong
        said |= dict.fromkeys(f"{task.name}: {problem}" for problem in (*verdict.problems, *verdict.idle))
        said |= dict.fromkeys(_derived(task, {find_learner(group.learner).policy_input for group in groups}))
        for group in groups:
            if group.task == task:
                said |= dict.fromkeys((*_too_short(group, verdict), *_too_large(group)))
    return tuple(said)


def _too_short(group: JobGroup, verdict: Verdict) -> Iterator[str]:
    """Compare steps with how many an episode and a test need."""
    fewest, settings, is_trained = verdict.steps_lower_bound, group.settings, group.steps > 0
    if is_trained and group.steps < fewest and not find_learner(group.learner).is_reference:
        yield f"{group.label}: {group.steps:,} steps of training complete no episode, as each takes {fewest:,} or more."
    if settings.max_episode_steps < fewest:
        most = f"an episode ends after {settings.max_episode_steps:,} steps"
        yield f"{group.label}: {most}, and to complete the task takes {fewest:,} or more."
    if is_trained and group.steps < settings.test_every:
        first = f"the first test, which comes after {settings.test_every:,}"
        yield f"{group.label}: {group.steps:,} steps of training end before {first}."


def _too_large(group: JobGroup) -> Iterator[str]:
    """Say that a team is not reviewed though its setting asks for it."""
    agents = len(group.task.agents)
    if agents > 1 and getattr(group.settings, "team_review", "off") != "off" and group.task.decomposition.ok:
        tables = compile_task(group.task)
        if not is_reviewed(tables):
            yield (
                f"{group.label}: how ready teammates are is not counted (team_review) but a constant probability: "
                f"counting takes up to {MOST_AGENTS} agents and {MOST_MOVES:,} moves, got {agents:,} agents and "
                f"{count_moves(tables):,} moves."
            )


def _derived(task: Task, looks: Collection[PolicyInput]) -> Iterator[str]:
    """Say which memory and options the agents of the baselines have, if the task does not define them."""
    why = "derived from their machines, as the task does not define"
    if not {PolicyInput.MEMORY, PolicyInput.OPTION}.isdisjoint(looks):
        memory = {name: events for name, events in memory_of(task).items() if events and not task.agents[name].memory}
        if memory:
            yield f"{task.name}: the memory of agents ({_listed(memory)}) is {why} it."
    if PolicyInput.OPTION in looks:
        options = {
            name: choices for name, choices in options_of(task).items() if choices and not task.agents[name].options
        }
        if options:
            yield f"{task.name}: the options of agents ({_listed(options)}) are {why} them."


def _listed(told: Mapping[str, Sequence[object]]) -> str:
    """List what some agents have, with no more of them than one reads."""
    said = [f"{name}: {', '.join(map(str, what))}" for name, what in list(told.items())[:MOST_NAMED]]
    return "; ".join(said + ["..."] * (len(told) > MOST_NAMED))
