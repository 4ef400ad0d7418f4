"""Split a team's task among its agents, and prove that the parts make the whole.

The names below are the public ones. Each is loaded with its module when it is first used, so that importing hocket
costs next to nothing and asks only for what is needed.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hocket.adapters.convert import parallel
    from hocket.adapters.events import IndividualStep, RawStep
    from hocket.adapters.individual import individual_env
    from hocket.adapters.plane import Disc, Plane
    from hocket.adapters.plane_tasks import (
        buttons_plane,
        individual_in_plane,
        plane_of,
        scene_in_plane,
        team_in_plane,
    )
    from hocket.adapters.policies import play_episode, review_team
    from hocket.adapters.sb3_buffer import CounterfactualDictReplayBuffer, CounterfactualReplayBuffer
    from hocket.adapters.sb3_weights import join_weights, set_weights, split_weights, weights_of
    from hocket.adapters.team import team_env
    from hocket.adapters.vector import individual_envs
    from hocket.adapters.wrap_individual import IndividualView
    from hocket.adapters.wrap_team import WrappedTeam, wrap
    from hocket.draw.graphviz import draw_machines
    from hocket.draw.scene import Area, Scene, scene_of
    from hocket.draw.task_picture import draw_task
    from hocket.errors import (
        AssignmentError,
        FormatError,
        HocketError,
        InfeasibleError,
        LabelError,
        LabelWarning,
        MachineError,
        TaskError,
    )
    from hocket.evaluation.bounds import Evaluation
    from hocket.evaluation.evaluate import evaluate
    from hocket.evaluation.exact import solve_team
    from hocket.learn.catalogue import LEARNERS
    from hocket.learn.policies import Policy, Run, load_policy
    from hocket.learn.training import train
    from hocket.machine.algebra import distinguish, minimize, project
    from hocket.machine.assignment import Assignment, cheapest, repair
    from hocket.machine.composition import Composition, compose
    from hocket.machine.decomposition import Confusion, Counterexample, Decomposition, decompose
    from hocket.machine.formats import load_machine, save_machine
    from hocket.machine.interop import from_aalpy, from_networkx, to_aalpy, to_networkx
    from hocket.machine.reward_machine import RewardMachine
    from hocket.report.figures import draw_figures
    from hocket.report.figures.maps import draw_policy
    from hocket.report.page import write_report
    from hocket.report.summary import Summary, summarize
    from hocket.study.records import Record, Replay, Review, Trials
    from hocket.study.store import Results, load_policies, load_results, save_records
    from hocket.study.study import Study, load_study, run_study, save_runs
    from hocket.task.catalogue import load_task, rendezvous
    from hocket.task.check import Inspection, check_task
    from hocket.task.conditions import Condition
    from hocket.task.episode import IndividualEpisode, TeamEpisode
    from hocket.task.files import save_task
    from hocket.task.grid import Grid
    from hocket.task.labelling import localize
    from hocket.task.tables import Tables, compile_task
    from hocket.task.task import Agent, Option, Task

__version__ = "0.1.0"

__all__ = [
    "LEARNERS",
    "Agent",
    "Area",
    "Assignment",
    "AssignmentError",
    "Composition",
    "Condition",
    "Confusion",
    "Counterexample",
    "CounterfactualDictReplayBuffer",
    "CounterfactualReplayBuffer",
    "Decomposition",
    "Disc",
    "Evaluation",
    "FormatError",
    "Grid",
    "HocketError",
    "IndividualEpisode",
    "IndividualStep",
    "IndividualView",
    "InfeasibleError",
    "Inspection",
    "LabelError",
    "LabelWarning",
    "MachineError",
    "Option",
    "Plane",
    "Policy",
    "RawStep",
    "Record",
    "Replay",
    "Results",
    "Review",
    "RewardMachine",
    "Run",
    "Scene",
    "Study",
    "Summary",
    "Tables",
    "Task",
    "TaskError",
    "TeamEpisode",
    "Trials",
    "WrappedTeam",
    "buttons_plane",
    "cheapest",
    "check_task",
    "compile_task",
    "compose",
    "decompose",
    "distinguish",
    "draw_figures",
    "draw_machines",
    "draw_policy",
    "draw_task",
    "evaluate",
    "from_aalpy",
    "from_networkx",
    "individual_env",
    "individual_envs",
    "individual_in_plane",
    "join_weights",
    "load_machine",
    "load_policies",
    "load_policy",
    "load_results",
    "load_study",
    "load_task",
    "localize",
    "minimize",
    "parallel",
    "plane_of",
    "play_episode",
    "project",
    "rendezvous",
    "repair",
    "review_team",
    "run_study",
    "save_machine",
    "save_records",
    "save_runs",
    "save_task",
    "scene_in_plane",
    "scene_of",
    "set_weights",
    "solve_team",
    "split_weights",
    "summarize",
    "team_env",
    "team_in_plane",
    "to_aalpy",
    "to_networkx",
    "train",
    "weights_of",
    "wrap",
    "write_report",
]

_HOME = {
    name: module
    for module, names in {
        "adapters.sb3_weights": ("join_weights", "set_weights", "split_weights", "weights_of"),
        "adapters.plane": ("Disc", "Plane"),
        "adapters.plane_tasks": (
            "buttons_plane",
            "individual_in_plane",
            "plane_of",
            "scene_in_plane",
            "team_in_plane",
        ),
        "adapters.sb3_buffer": ("CounterfactualDictReplayBuffer", "CounterfactualReplayBuffer"),
        "adapters.convert": ("parallel",),
        "adapters.events": ("IndividualStep", "RawStep"),
        "adapters.wrap_individual": ("IndividualView",),
        "adapters.wrap_team": ("WrappedTeam", "wrap"),
        "adapters.individual": ("individual_env",),
        "adapters.policies": ("play_episode", "review_team"),
        "adapters.team": ("team_env",),
        "adapters.vector": ("individual_envs",),
        "machine.algebra": ("distinguish", "minimize", "project"),
        "task.catalogue": ("load_task", "rendezvous"),
        "machine.composition": ("Composition", "compose"),
        "machine.interop": ("from_aalpy", "from_networkx", "to_aalpy", "to_networkx"),
        "machine.decomposition": ("Confusion", "Counterexample", "Decomposition", "decompose"),
        "draw.graphviz": ("draw_machines",),
        "task.episode": ("IndividualEpisode", "TeamEpisode"),
        "errors": (
            "AssignmentError",
            "FormatError",
            "HocketError",
            "InfeasibleError",
            "LabelError",
            "LabelWarning",
            "MachineError",
            "TaskError",
        ),
        "evaluation.bounds": ("Evaluation",),
        "evaluation.evaluate": ("evaluate",),
        "evaluation.exact": ("solve_team",),
        "task.check": ("Inspection", "check_task"),
        "task.labelling": ("localize",),
        "learn.policies": ("Policy", "Run", "load_policy"),
        "learn.catalogue": ("LEARNERS",),
        "learn.training": ("train",),
        "machine.reward_machine": ("RewardMachine",),
        "draw.task_picture": ("draw_task",),
        "machine.formats": ("load_machine", "save_machine"),
        "study.records": ("Record", "Replay", "Review", "Trials"),
        "report.figures": ("draw_figures",),
        "report.figures.maps": ("draw_policy",),
        "report.page": ("write_report",),
        "report.summary": ("Summary", "summarize"),
        "draw.scene": ("Area", "Scene", "scene_of"),
        "study.store": ("Results", "load_policies", "load_results", "save_records"),
        "study.study": ("Study", "load_study", "run_study", "save_runs"),
        "task.tables": ("Tables", "compile_task"),
        "task.conditions": ("Condition",),
        "task.task": ("Agent", "Option", "Task"),
        "task.files": ("save_task",),
        "task.grid": ("Grid",),
        "machine.assignment": ("Assignment", "cheapest", "repair"),
    }.items()
    for name in names
}

_EXTRAS = {  # what is not always installed, and what installs it
    "gymnasium": "gym", "pettingzoo": "gym", "stable_baselines3": "deep", "torch": "deep",
}  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'hocket' has no attribute {name!r}")
    try:
        value: object = getattr(import_module(f"hocket.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        hint = f"hocket.{name} needs {error.name}, which comes with hocket[{_EXTRAS[error.name]}]"
        raise ModuleNotFoundError(hint, name=error.name) from None
    globals()[name] = value
    _meet_gymnasium()
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})


def _meet_gymnasium() -> None:
    """Register environments with Gymnasium where that is loaded; for others it is not worth loading it."""
    if "gymnasium" in sys.modules:
        import_module("hocket.adapters")


_meet_gymnasium()
