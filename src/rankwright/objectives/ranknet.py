"""RankNet's cost of a pair, log(1 + e^−o): what lambda gradients without a measure are the derivatives of."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ranknet_cost"]

Array = npt.NDArray[Any]


def ranknet_cost(scores: Array, labels: Array, indptr: Array) -> float:
    """Σ log(1 + e^−(s_i − s_j)) over the pairs with z_i > z_j of every query, the cost RankNet minimises."""
    total = 0.0
    for q in range(len(indptr) - 1):
        s, z = scores[indptr[q] : indptr[q + 1]], labels[indptr[q] : indptr[q + 1]]
        wins = z[:, None] > z[None, :]
        total += float(np.logaddexp(0.0, s[None, :] - s[:, None])[wins].sum())
    return total
