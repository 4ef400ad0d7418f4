"""What a run leaves behind: a policy that can be saved, loaded, and played, and the curve of its tests."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket import __version__
from hocket.errors import FormatError
from hocket.files import write_whole
from hocket.learn.settings import Settings

COMPRESSION = 1  # of 1 to 9; the usual 6 takes twice as long and saves a twelfth
LARGEST_POLICY = 4_000_000_000  # bytes of arrays that are loaded


@dataclass(frozen=True)
class Policy:
    """Learnt arrays, and what they belong to."""

    task: str  # name
    digest: str  # of the task
    learner: str
    seed: int
    settings: Mapping[str, float | int | bool]
    arrays: Mapping[str, NDArray[np.float32]]

    def save(self, path: str | Path) -> None:
        """Write the policy to a file (.npz), without pickle."""
        write_whole(Path(path), self.packed())

    def packed(self) -> bytes:
        """Return what such a file contains."""
        about = {key: value for key, value in self.__dict__.items() if key != "arrays"}
        about = {**about, "settings": dict(self.settings), "version": __version__}
        text = np.frombuffer(json.dumps(about).encode(), np.uint8)
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=COMPRESSION) as archive:
            for name, array in {"about": text, **self.arrays}.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
        return buffer.getvalue()


def load_policy(path: str | Path, digest: str | None = None) -> Policy:
    """Read a policy; with a task's digest, refuse one that belongs to another task."""
    path = Path(path)
    try:
        policy = _read(path)
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", path=path) from None
    except NOT_A_POLICY:
        raise FormatError("is not a policy that hocket has written", path=path) from None
    if digest is not None and policy.digest != digest:
        raise FormatError(f"belongs to another task ({policy.task}, or another version of it)", path=path)
    return policy


NOT_A_POLICY = (
    ValueError, KeyError, TypeError, AttributeError, MemoryError, RecursionError, NotImplementedError, EOFError,
    zipfile.BadZipFile, zlib.error, RuntimeError,
)  # fmt: skip  # what reading damaged or foreign archives raises


def _read(path: Path) -> Policy:
    with zipfile.ZipFile(path) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > LARGEST_POLICY:
            raise ValueError
    with np.load(path, allow_pickle=False) as stored:
        about = json.loads(stored["about"].tobytes())
        arrays = {name: stored[name] for name in stored.files if name != "about"}
    kinds = {"task": str, "digest": str, "learner": str, "seed": int, "settings": dict}
    if any(type(about[key]) is not kind for key, kind in kinds.items()):
        raise TypeError
    if not arrays or any(array.dtype != np.float32 for array in arrays.values()):
        raise TypeError
    return Policy(about["task"], about["digest"], about["learner"], about["seed"], about["settings"], arrays)


class Trial(NamedTuple):
    """A test episode."""

    step: int  # of training
    policy: str  # softmax or greedy
    test_steps: int  # at most what the settings allow; that many where it failed
    success: bool
    finish: tuple[int, ...] = ()  # when each agent's own part was first done, in steps; -1: never
    event_time: tuple[int, ...] = ()  # when each event of the task first happened; empty where nobody keeps it


@dataclass(frozen=True)
class Run:
    """One seed of a learner on a task: its tests, and what it learnt."""

    trials: tuple[Trial, ...]
    policy: Policy
    settings: Settings
    steps: int
    seconds: float  # of computing; its share, where several runs went side by side

    @property
    def learner(self) -> str:
        return self.policy.learner

    @property
    def seed(self) -> int:
        return self.policy.seed

    def curve(self, policy: str = "softmax") -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the training steps at which tests were made, and the steps that each took."""
        rows = [trial for trial in self.trials if trial.policy == policy]
        return np.array([row.step for row in rows], np.int64), np.array([row.test_steps for row in rows], np.int64)
