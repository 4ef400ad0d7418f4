"""Runs and their policies, which can be saved, loaded, and played, also by teammates in a game."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

import numpy as np

from hocket import __version__
from hocket.errors import FormatError, SettingsError, TaskError, counted, known_names, printable, shown
from hocket.lazy import warn_deprecated
from hocket.learn.actors import PolicyActor, TeamActors, TrainableWorld, machine_values, make_actors
from hocket.learn.archives import open_archive, pack_arrays, read_about, read_array, write_archive
from hocket.learn.catalogue import find_learner, references
from hocket.learn.kernels.arrays import Floats, Ints
from hocket.learn.learner import PolicyInput, Shapes, ShapesOf
from hocket.learn.settings import Settings, SettingValue, rename_settings
from hocket.learn.testing import TestEpisodes, TestTable
from hocket.learn.world import WorldModel
from hocket.machine.names import check_name
from hocket.task.episode import TeamEpisode, Teammates
from hocket.task.grid import ACTIONS
from hocket.task.tables import compile_task
from hocket.task.task import Task

LARGEST_POLICY = 4_000_000_000  # bytes of arrays that are loaded, if their shapes are unknown
LONGEST_NAME = 60  # characters of a task's name in a message
KINDS = {"task": str, "digest": str, "learner": str, "seed": int, "settings": dict}  # types of keys in a policy file


@dataclass(frozen=True, repr=False)
class Policy:
    """Learnt arrays, with their task, learner, seed and settings."""

    task: str  # name
    digest: str  # of the task
    learner: str
    seed: int
    settings: Mapping[str, SettingValue]
    arrays: Mapping[str, Floats]
    definition: Task | TrainableWorld | None = field(default=None, compare=False)  # None if unknown

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in self.arrays.items())
        return f"<Policy of {self.learner} on {self.task!r}, seed {self.seed}: {shapes or 'not kept'}>"

    def save(self, path: str | Path) -> None:
        """Write the policy to a file (.npz), without pickle."""
        write_archive(path, "a policy", self.packed())

    def require_task(self, digest: str, path: Path | None = None) -> None:
        """Require that the policy belongs to the task with this digest; `path` is the policy's file."""
        if self.digest != digest:
            subject, name = "this policy " if path is None else "", printable(self.task, LONGEST_NAME)
            raise FormatError(f"{subject}belongs to another task ({name}, or another version of it)", path=path)

    def actor(self, agent: str, greedy: bool = True, seed: int = 0) -> PolicyActor:
        """Make a function from an observation, or (cell, state name), to an action, by what an agent has learnt.

        In a wrapped environment, given to `load_policies(folder, env)`, it takes (observation, state name). It returns
        any of the best actions at random, or draws by softmax at the temperature of training. It needs neither the
        learner nor the compiler.
        """
        actors = self.actors(greedy, seed)
        if agent not in actors:
            raise TaskError(f"agent {shown(agent)} does not exist ({known_names(str(agent), actors)})", key="agents")
        return actors[agent]

    def actors(self, greedy: bool = True, seed: int = 0) -> TeamActors:
        """Make such functions for all agents."""
        if self.definition is None:
            raise SettingsError("this policy does not know its task; those of load_policies and train do")
        temperature = self.settings.get("temperature", 0.0)
        if isinstance(temperature, str) or not (greedy or temperature > 0):
            raise SettingsError("this policy does not say how it was trained, so it can be played greedily only")
        return make_actors(self.definition, self.learner, self.arrays, None if greedy else temperature, seed)

    def packed(self) -> bytes:
        """Return what such a file contains."""
        about = {key: getattr(self, key) for key in KINDS} | {"settings": dict(self.settings), "version": __version__}
        return pack_arrays(about, self.arrays)


def load_policy(path: str | Path, digest: str | None = None, *, shapes: ShapesOf = lambda _: None) -> Policy:
    """Read a policy; with a task's digest, refuse one of another task, and by known `shapes`, refuse larger arrays."""
    path = Path(path)
    with open_archive(path, "a policy") as archive:
        about = _read_about(archive)
        if digest is not None:
            about.require_task(digest, path)
        arrays = _read_arrays(archive, shapes(about.learner))
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise FormatError("a policy's values must be finite numbers", path=path)
    return replace(about, arrays=arrays)


def peek_policy(path: str | Path) -> Policy:
    """Read a policy without its arrays."""
    with open_archive(Path(path), "a policy") as archive:
        return _read_about(archive)


def _read_about(archive: zipfile.ZipFile) -> Policy:
    about = read_about(archive)
    if any(type(about[key]) is not kind for key, kind in KINDS.items()) or not 0 <= about["seed"] < 2**63:
        raise TypeError
    if any(not isinstance(value, int | float | str) for value in about["settings"].values()):
        raise TypeError
    for key in ("task", "learner", "digest"):
        check_name(about[key], key)
    about["settings"] = rename_settings(about["settings"])
    return Policy(arrays={}, **{key: about[key] for key in KINDS})


def _read_arrays(archive: zipfile.ZipFile, shapes: Shapes | None) -> dict[str, Floats]:
    """Read the arrays of a policy, and refuse other names and larger arrays."""
    names = [name.removesuffix(".npy") for name in archive.namelist() if name != "about.npy"]
    if shapes is not None and sorted(names) != sorted(shapes):
        raise ValueError
    remaining, arrays = LARGEST_POLICY, {}
    for name in names:
        kind = np.dtype(np.uint8 if name.startswith("seen.") else np.float32)  # observations are text
        most = remaining if shapes is None else kind.itemsize * prod(shapes[name])
        arrays[name] = read_array(archive, name, kind, most)
        remaining -= arrays[name].nbytes
    if not arrays:
        raise ValueError
    return arrays


@dataclass(frozen=True, repr=False)
class Run:
    """One seed of a learner on a task: its tests, and what it has learnt."""

    all_tests: TestTable  # every test episode, of softmax and greedy policies
    policy: Policy
    settings: Settings
    steps: int
    seconds: float  # of computing; the run's share, if several trained together
    world: WorldModel | None = None  # what it has learnt of the map, if its learner keeps that

    def __repr__(self) -> str:
        tests = counted(len(self.all_tests), "test")
        return f"<Run of {self.learner} on {self.policy.task!r}, seed {self.seed}: {self.steps:,} steps, {tests}>"

    @property
    def learner(self) -> str:
        return self.policy.learner

    @property
    def seed(self) -> int:
        return self.policy.seed

    def tests(self, policy: str = "softmax") -> TestEpisodes:
        """List the tests of one kind of policy."""
        return self.all_tests.columns(policy)

    @property
    def trials(self) -> TestTable:
        """The old name of `all_tests`."""
        warn_deprecated("Run.trials is deprecated: use Run.all_tests")
        return self.all_tests

    def curve(self, policy: str = "softmax") -> tuple[Ints, Ints]:
        """Return the training step and the steps of each test."""
        tests = self.tests(policy)
        return tests.step, tests.test_steps


def reference_teammates(task: Task, learner: str) -> Teammates:
    """Make teammates that act by a reference such as optimal policies."""
    about = find_learner(learner)
    if not about.is_reference:
        raise SettingsError(f"{learner} has to learn first; without that act {', '.join(references())}")
    return _greedy(task, about.block(compile_task(task), about.settings(), (0,), 1).arrays(0)["q"])


def trained_teammates(task: Task, policies: Sequence[Policy]) -> Teammates:
    """Make teammates that act greedily by the first policy over cells and machine states."""
    usable = (policy for policy in policies if find_learner(policy.learner).policy_input is PolicyInput.MACHINE)
    policy = next(usable, policies[0])
    return _greedy(task, machine_values(task, policy.learner, policy.arrays))


def _greedy(task: Task, q: Floats) -> Teammates:
    """Take the best action by values [N, S, A, U]."""
    best = q.argmax(axis=2)  # [N, S, U]
    number = {name: {state: u for u, state in enumerate(machine.states)} for name, machine in task.machines.items()}

    def choose(episode: TeamEpisode) -> dict[str, str]:
        at = {name: (episode.cells[name], number[name][episode.states[name]]) for name in task.agents}
        return {name: ACTIONS[best[(agent, *at[name])]] for agent, name in enumerate(task.agents)}

    return choose
