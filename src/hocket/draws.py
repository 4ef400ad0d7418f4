"""Random numbers that depend on nothing but what they are for.

Counter-based (SplitMix64, Steele, Lea and Flood 2014): a stream has a 64-bit key, and its n-th number is a hash of the
key and n. Compiled kernels compute the same numbers, so an episode is the same wherever it is played.
"""

from __future__ import annotations

GOLDEN = 0x9E3779B97F4A7C15
MIX_1, MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
MASK = (1 << 64) - 1

ACTION, SLIP, SYNC, SPARE = 0, 1, 2, 3  # what a number is for; an agent has one of each in every step
PER_STEP = 4

TRAINING, TEAM, INDIVIDUAL = 1, 2, 3  # what a stream is for


def mix(value: int) -> int:
    """Hash 64 bits to 64 bits."""
    value = ((value ^ (value >> 30)) * MIX_1) & MASK
    value = ((value ^ (value >> 27)) * MIX_2) & MASK
    return value ^ (value >> 31)


def stream_key(purpose: int, seed: int, agent: int, episode: int = 0) -> int:
    """Make the key of a stream."""
    key = mix(purpose * GOLDEN & MASK)
    for part in (seed, agent, episode):
        key = mix((key + (part & MASK) * GOLDEN + GOLDEN) & MASK)
    return key


def draw(key: int, step: int, use: int) -> float:
    """Draw evenly from [0, 1), for one use in one step (counted from 0)."""
    return (mix((key + (step * PER_STEP + use + 1) * GOLDEN) & MASK) >> 11) * 2.0**-53
