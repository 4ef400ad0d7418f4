"""Types of arrays and numbers in kernels, and for how many agents they choose actions at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Shorts = NDArray[np.int16]
Words = NDArray[np.int32]
Ints = NDArray[np.int64]
UInts = NDArray[np.uint32]
Keys = NDArray[np.uint64]  # of streams of random numbers
Whole = NDArray[np.signedinteger[Any]]  # as short as the task allows
UWhole = NDArray[np.unsignedinteger[Any]]  # likewise
Bools = NDArray[np.bool_]
Index = Any  # an integer, of a type that numba infers
Numbers = Any  # a number, or a vector of them
LANES = 16  # agents whose actions are chosen at once
SIMD = (0,) * LANES  # a tuple, as its length is a constant in compiled functions

u64: Any = np.uint64  # for indices: numba checks whether those of signed types are negative, which takes time
