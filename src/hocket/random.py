"""Random numbers that depend only on what they are for.

Counter-based (SplitMix64: Steele, Lea and Flood 2014): a stream has a 64-bit key, and its n-th number is a hash of the
key and n. An agent has two such numbers in every step: one chooses its action; the halves of the other decide whether
it slips and whether simulated teammates are ready. A third, in another part of the stream, decides the start cell of an
episode that begins with the step. Compiled kernels compute the same numbers, so an episode is the same wherever it is
played. Keys, seeds and positions may also be arrays of 64-bit numbers, for many streams at once.
"""

from __future__ import annotations

from typing import Any, TypeVar

from numpy.typing import NDArray

GOLDEN = 0x9E3779B97F4A7C15
MIX_1, MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
MASK = (1 << 64) - 1

PER_STEP = 2  # numbers
STARTS = 1 << 62  # position of the first number that decides where an episode starts
CHANCE_BITS = 31  # of a number that is compared with a probability
ACTION_BITS = 24

TRAINING, TEAM, INDIVIDUAL, PLANNING = 1, 2, 3, 4  # what a stream is for

Bits = TypeVar("Bits", int, NDArray[Any])  # 64 of them, or an array of np.uint64


def mix(value: Bits) -> Bits:
    """Hash 64 bits to 64 bits."""
    value = ((value ^ (value >> 30)) * MIX_1) & MASK
    value = ((value ^ (value >> 27)) * MIX_2) & MASK
    return value ^ (value >> 31)  # type: ignore[no-any-return]


def stream_key(purpose: int, seed: Bits, agent: Bits, episode: Bits = 0) -> Bits:  # type: ignore[assignment]
    """Make the key of a stream."""
    key = mix((mix(purpose * GOLDEN & MASK) + spread(seed)) & MASK)
    key = mix((key + spread(agent)) & MASK)
    return mix((key + spread(episode)) & MASK)


def spread(part: Bits) -> Bits:
    """Set the parts of a key far apart; never more than 64 bits, as arrays have no more."""
    return ((part & MASK) * GOLDEN + GOLDEN) & MASK


def number(key: Bits, position: Bits) -> Bits:
    """Return a stream's number at a position, counted from 0."""
    return mix((key + spread(position)) & MASK)


def action_draw(key: int, step: int) -> float:
    """Draw evenly from [0, 1) what chooses the action in a step."""
    return (number(key, step * PER_STEP) >> (64 - ACTION_BITS)) * 2.0**-ACTION_BITS


def slip_draw(key: Bits, step: Bits) -> Bits:
    """Draw what decides whether the agent slips; to be compared with a `threshold`."""
    return number(key, step * PER_STEP + 1) >> (64 - CHANCE_BITS)


def sync_draw(key: Bits, step: Bits) -> Bits:
    """Draw what decides whether simulated teammates are ready; to be compared with a `threshold`."""
    return number(key, step * PER_STEP + 1) & ((1 << CHANCE_BITS) - 1)


def start_draw(key: Bits, step: int, count: Bits) -> Bits:
    """Draw the start cell, of `count`, of an episode that begins with a step."""
    drawn: Bits = mix((key + spread(step + STARTS)) & MASK) >> (64 - CHANCE_BITS)
    return (drawn * count) >> CHANCE_BITS  # type: ignore[no-any-return]


def threshold(probability: float) -> int:
    """Return the number that a draw is below with some probability."""
    return round(probability * (1 << CHANCE_BITS))
