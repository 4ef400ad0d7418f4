"""What kernels call the types of arrays and numbers, and how many agents they look at together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Shorts = NDArray[np.int16]
Whole = NDArray[np.signedinteger[Any]]  # as short as the task allows
Unsigned = NDArray[np.unsignedinteger[Any]]  # likewise
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Words = NDArray[np.uint32]
Index = Any  # a whole number; numba finds out of which type
Numbers = Any  # a number, or a vector of them
LANES = 16  # agents whose actions are chosen at once
SIDE_BY_SIDE = (0,) * LANES  # a tuple, whose length compiled functions know
Edges = tuple[int, ...]  # one number, or two where tasks have edges: kernels are compiled for either, and free without

u64: Any = np.uint64  # an index of this type is never taken for one from the end, which would cost time
