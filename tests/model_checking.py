"""What Storm says of a team's chain, to hold exact values to; and random teams with random policies."""

import math
from pathlib import Path
from random import Random

import numpy as np

import hocket as hk
from hocket.task.episode import TeamEpisode
from hocket.task.tables import compile_task
from task_strategies import random_task

SMALL = {"MOST_STATES": 400, "MOST_TRANSITIONS": 20_000}  # limits of random teams' chains


def random_team(seed: int) -> tuple[hk.Task, hk.Policy] | None:
    """Make a random task and a random policy with ties, slips and dead ends; None where nothing is left to do."""
    rng = Random(seed)
    task = random_task(rng)
    if TeamEpisode(task, strict=False).done:
        return None
    return task, random_policy(task, seed)


def random_forks(seed: int) -> tuple[hk.Task, hk.Policy]:
    """Make two agents, each of which reaches its goal or breaks something for ever, by a random policy.

    The agents have nothing to do with each other, so the team's success is the product of theirs.
    """
    rng = Random(seed)
    agents, events, machines = {}, {}, []
    for name in ("A1", "A2"):
        goal, broken = f"goal {name}", f"broken {name}"
        transitions = {("u0", broken): "stuck", ("u0", goal): "won"}
        machines.append(hk.RewardMachine(initial="u0", transitions=transitions, final={"won"}))
        agents[name] = hk.Agent(rng.randrange(6), {goal, broken})
        events |= {event: {name: hk.Condition(event)} for event in (goal, broken)}
    places = {event: frozenset({rng.randrange(6)}) for event in events}
    machine = hk.compose(*machines)
    task = hk.Task(
        "forks", hk.Grid(2, 3, frozenset(), places), agents, events, machine, slip=rng.choice((0.0, 0.1, 0.3))
    )
    return task, random_policy(task, seed)


def random_policy(task: hk.Task, seed: int) -> hk.Policy:
    """Give all actions random values, some of which are alike."""
    tables = compile_task(task)
    (agents, states), cells = tables.is_final.shape, tables.cells
    q = np.random.default_rng(seed).integers(0, 3, (agents, cells, 5, states)) / 4
    settings = {"temperature": 0.2, "max_episode_steps": 1000}
    return hk.Policy(task.name, task.digest, "dqprm", 0, settings, {"q": q.astype(np.float32)})


def ask_storm(stormpy, path: Path, formulas: list[str]) -> list[float]:
    """Let Storm answer formulas about a .drn file, by eliminating states instead of iterating."""
    model = stormpy.build_model_from_drn(str(path))
    environment = stormpy.Environment()
    environment.solver().set_linear_equation_solver_type(stormpy.environments.EquationSolverType.ELIMINATION)
    return [
        stormpy.model_checking(model, stormpy.parse_properties(text)[0], environment=environment).get_value(0)
        for text in formulas
    ]


def disagreement(stormpy, task: hk.Task, policy: hk.Policy, folder: Path, *, greedy: bool) -> tuple[float, int]:
    """Give the largest difference of V, every V_i, every event's probability and the mean steps.

    Also say how many of the probabilities are neither 0 nor 1.
    """
    values = hk.evaluate_exact(task, policy, greedy=greedy, events=task.events)
    written = hk.export_team(task, policy, folder / "team.drn", greedy=greedy)
    asked = {"done": values.success}
    asked |= {f"done {name}": own.value for name, own in values.agents.items()}
    asked |= {f"event {name}": own.value for name, own in values.events.items()}
    assert {meaning for meaning in asked if meaning in written.never} == {
        name for name, own in asked.items() if own == 0
    }
    formulas = {f'P=? [F "{label}"]': asked[meaning] for meaning, label in written.labels.items() if meaning in asked}
    if "done" in written.labels and math.isfinite(values.mean_steps):
        formulas['R{"steps"}=? [F "done"]'] = values.mean_steps
    answers = ask_storm(stormpy, written.files[0], list(formulas))
    pairs = zip(answers, formulas.values(), strict=True)
    return max((abs(answer - own) / max(1, own) for answer, own in pairs), default=0.0), sum(
        0 < own < 1 for own in asked.values()
    )
