"""Split a team's task among its agents, and prove that the parts make the whole.

The names below are the public ones. Each is loaded with its module when it is first used, so that importing hocket
costs next to nothing and asks only for what is needed.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hocket.adapters.conversions import parallel
    from hocket.adapters.individual import individual_env
    from hocket.adapters.networks import join_weights, set_weights, split_weights, weights_of
    from hocket.adapters.noticing import LoneStep, RawStep
    from hocket.adapters.plane import Disc, Plane
    from hocket.adapters.plane_tasks import (
        buttons_plane,
        individual_in_plane,
        plane_of,
        scene_in_plane,
        team_in_plane,
    )
    from hocket.adapters.playing import play_episode, review_team
    from hocket.adapters.practice import IndividualView
    from hocket.adapters.replay_buffer import CounterfactualDictReplayBuffer, CounterfactualReplayBuffer
    from hocket.adapters.team import team_env
    from hocket.adapters.vector import individual_envs
    from hocket.adapters.wrapping import WrappedTeam, wrap
    from hocket.algebra import distinguish, minimize, project
    from hocket.assignment import Assignment, cheapest, repair
    from hocket.catalogue import load_task, rendezvous
    from hocket.composition import Composition, compose
    from hocket.conversion import from_aalpy, from_networkx, to_aalpy, to_networkx
    from hocket.decomposition import Confusion, Counterexample, Decomposition, decompose
    from hocket.drawing import draw_machines
    from hocket.episode import IndividualEpisode, TeamEpisode
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
    from hocket.estimates import Evaluation
    from hocket.evaluation import evaluate
    from hocket.exact import solve_team
    from hocket.inspection import Inspection, check_task
    from hocket.labelling import localise
    from hocket.learners.policies import Policy, Run, load_policy
    from hocket.learners.training import LEARNERS, train
    from hocket.machine import RewardMachine
    from hocket.notation import load_machine, save_machine
    from hocket.picture import draw_task
    from hocket.records import Record, Replay, Review, Trials
    from hocket.report.figures import draw_figures
    from hocket.report.figures.maps import draw_policy
    from hocket.report.page import write_report
    from hocket.report.summary import Summary, summarise
    from hocket.scene import Area, Scene, scene_of
    from hocket.store import Results, load_policies, load_results, save_records
    from hocket.study import Study, load_study, run_study, save_runs
    from hocket.tables import Tables, compile_task
    from hocket.task import Agent, Condition, Option, Task
    from hocket.taskfile import save_task
    from hocket.world import Grid

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
    "IndividualView",
    "InfeasibleError",
    "Inspection",
    "LabelError",
    "LabelWarning",
    "LoneStep",
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
    "localise",
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
    "summarise",
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
        "adapters.networks": ("join_weights", "set_weights", "split_weights", "weights_of"),
        "adapters.plane": ("Disc", "Plane"),
        "adapters.plane_tasks": (
            "buttons_plane",
            "individual_in_plane",
            "plane_of",
            "scene_in_plane",
            "team_in_plane",
        ),
        "adapters.replay_buffer": ("CounterfactualDictReplayBuffer", "CounterfactualReplayBuffer"),
        "adapters.conversions": ("parallel",),
        "adapters.noticing": ("LoneStep", "RawStep"),
        "adapters.practice": ("IndividualView",),
        "adapters.wrapping": ("WrappedTeam", "wrap"),
        "adapters.individual": ("individual_env",),
        "adapters.playing": ("play_episode", "review_team"),
        "adapters.team": ("team_env",),
        "adapters.vector": ("individual_envs",),
        "algebra": ("distinguish", "minimize", "project"),
        "catalogue": ("load_task", "rendezvous"),
        "composition": ("Composition", "compose"),
        "conversion": ("from_aalpy", "from_networkx", "to_aalpy", "to_networkx"),
        "decomposition": ("Confusion", "Counterexample", "Decomposition", "decompose"),
        "drawing": ("draw_machines",),
        "episode": ("IndividualEpisode", "TeamEpisode"),
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
        "estimates": ("Evaluation",),
        "evaluation": ("evaluate",),
        "exact": ("solve_team",),
        "inspection": ("Inspection", "check_task"),
        "labelling": ("localise",),
        "learners.policies": ("Policy", "Run", "load_policy"),
        "learners.training": ("LEARNERS", "train"),
        "machine": ("RewardMachine",),
        "picture": ("draw_task",),
        "notation": ("load_machine", "save_machine"),
        "records": ("Record", "Replay", "Review", "Trials"),
        "report.figures": ("draw_figures",),
        "report.figures.maps": ("draw_policy",),
        "report.page": ("write_report",),
        "report.summary": ("Summary", "summarise"),
        "scene": ("Area", "Scene", "scene_of"),
        "store": ("Results", "load_policies", "load_results", "save_records"),
        "study": ("Study", "load_study", "run_study", "save_runs"),
        "tables": ("Tables", "compile_task"),
        "task": ("Agent", "Condition", "Option", "Task"),
        "taskfile": ("save_task",),
        "world": ("Grid",),
        "assignment": ("Assignment", "cheapest", "repair"),
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
