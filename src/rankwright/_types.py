"""Types that the whole package shares."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
"""An array whose type of numbers depends on the data."""
Floats = npt.NDArray[np.floating[Any]]
Integers = npt.NDArray[np.integer[Any]]
