"""Test episodes: one by one, as columns, and as a table that takes little room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

KINDS = ("softmax", "greedy")  # of tested policies


class Trial(NamedTuple):
    """A test episode."""

    step: int  # of training
    policy: str  # softmax or greedy
    test_steps: int  # at most what the settings allow; that many where it failed
    success: bool
    finish: tuple[int, ...] = ()  # when each agent's own part was first done, in steps; -1: never
    event_time: tuple[int, ...] = ()  # when each event of the task first happened; empty where nobody keeps it


class Trials(NamedTuple):
    """Test episodes of one kind of policy, in order."""

    step: NDArray[np.int64]  # [T] of training
    test_steps: NDArray[np.int64]  # [T] a failure counts as the most steps
    success: NDArray[np.bool_]  # [T]


class TrialTable(Sequence[Trial]):
    """Test episodes as numbers, which take little room; they become trials when somebody looks at them.

    Of every test they have episodes by softmax and then greedy ones: 2 kinds, K episodes each.
    """

    def __init__(
        self,
        step: NDArray[np.int64],  # [T] of training
        taken: NDArray[np.int32],  # [T, 2, K] steps; -1: failed
        finish: NDArray[np.int32],  # [T, 2, K, N] or of nobody
        event_time: NDArray[np.int32],  # [T, 2, K, E] or of no events
        most_steps: int,  # that a failed test counts as
    ) -> None:
        self.step, self.taken, self.finish, self.event_time, self.most = step, taken, finish, event_time, most_steps

    def __len__(self) -> int:
        return self.taken.size

    @overload
    def __getitem__(self, place: int) -> Trial: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Trial, ...]: ...

    def __getitem__(self, place: int | slice) -> Trial | tuple[Trial, ...]:
        if isinstance(place, slice):
            return tuple(self[index] for index in range(*place.indices(len(self))))
        at = np.unravel_index(range(len(self))[place], self.taken.shape)
        taken = int(self.taken[at])
        times = (tuple(self.finish[at].tolist()), tuple(self.event_time[at].tolist()))
        return Trial(int(self.step[at[0]]), KINDS[at[1]], self.most if taken < 0 else taken, taken >= 0, *times)

    def columns(self, policy: str) -> Trials:
        """List the tests of one kind of policy."""
        taken = self.taken[:, KINDS.index(policy)]
        steps = np.where(taken < 0, self.most, taken).astype(np.int64)
        return Trials(np.repeat(self.step, taken.shape[1]), steps.ravel(), (taken >= 0).ravel())
