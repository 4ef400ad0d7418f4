"""A team's Markov chain in which states tell which events have just happened."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, dia_array

from hocket.errors import SettingsError
from hocket.evaluation import joint_chain
from hocket.evaluation.chains import Chain
from hocket.evaluation.joint_chain import EventSets, Ints, JointChain


class TeamChain(NamedTuple):
    """A team's chain in which completed states are states too, without transitions; nothing leads to its goal."""

    chain: Chain
    joint: Ints  # [states] the joint state of each; the number after the last one is the completed task
    happened: EventSets  # [states] which of the watched events happened in the step that led there

    def has_just_seen(self, bit: int) -> NDArray[np.bool_]:
        """Say of each state whether an event has happened in the step that led there."""
        return (self.happened >> np.uint64(bit) & np.uint64(1)).astype(np.bool_)


def tell_events(joint: JointChain) -> TeamChain:
    """Split joint states by the events that happened in the step that led there."""
    chain = joint.chain
    happened = joint.happened if len(joint.happened) else np.zeros(len(chain.target), np.uint64)
    sets, index = np.unique(np.append(happened, np.uint64(0)), return_inverse=True)  # the last one is the first state's
    pair = np.append(chain.target, 0).astype(np.int64) * len(sets) + index
    pairs, number = np.unique(pair, return_inverse=True)
    start = int(number[-1])
    order = np.concatenate([[start], np.arange(start), np.arange(start + 1, len(pairs))])
    renumbered = np.empty(len(pairs), np.int64)
    renumbered[order] = np.arange(len(pairs))
    of_joint, of_events = np.divmod(pairs[order], len(sets))
    begins, lengths = np.append(chain.first[:-1], 0), np.append(np.diff(chain.first), 0)
    first = np.concatenate([[0], np.cumsum(lengths[of_joint])])
    if first[-1] > joint_chain.MOST_TRANSITIONS:
        raise SettingsError(
            f"the chain whose {len(pairs):,} states tell which events have happened has {first[-1]:,} transitions; up "
            f"to {joint_chain.MOST_TRANSITIONS:,} can be solved, so ask for fewer events"
        )
    row = np.repeat(begins[of_joint] - first[:-1], lengths[of_joint]) + np.arange(first[-1])
    split = Chain(first, renumbered[number[:-1]][row], chain.chance[row])
    return TeamChain(split, of_joint, sets[of_events])


def transition_matrix(team: TeamChain) -> csr_array:
    """Add up transitions to the same state; completed states stay."""
    count = team.chain.states
    source = np.repeat(np.arange(count), np.diff(team.chain.first))
    matrix = coo_array((team.chain.chance, (source, team.chain.target)), shape=(count, count)).tocsr()
    stays = (np.diff(team.chain.first) == 0).astype(np.float64)
    total = (matrix + dia_array((stays[None], [0]), shape=(count, count))).tocsr()
    total.sort_indices()
    return total
