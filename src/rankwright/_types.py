"""Types that the whole package shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from scipy import sparse

Array = npt.NDArray[Any]
"""An array whose type of numbers depends on the data."""
Floats = npt.NDArray[np.floating[Any]]
Integers = npt.NDArray[np.integer[Any]]
Booleans = npt.NDArray[np.bool_]
Features: TypeAlias = "Array | sparse.csr_array"
"""A matrix of features, a row per document."""
Compiled = Callable[..., Any]
"""A function compiled by numba that is given to another one."""
Arguments = tuple[Any, ...]
"""Several arguments of a compiled function, in one."""
