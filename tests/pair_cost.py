"""RankNet's cost, of which lambda gradients without a measure are the derivatives, by its definition."""

import numpy as np


def ranknet_cost(scores, labels, indptr):
    """Σ log(1 + e^−(s_i − s_j)) over the pairs with z_i > z_j of every query."""
    total = 0.0
    for q in range(len(indptr) - 1):
        s, z = scores[indptr[q] : indptr[q + 1]], labels[indptr[q] : indptr[q + 1]]
        wins = z[:, None] > z[None, :]
        total += float(np.logaddexp(0.0, s[None, :] - s[:, None])[wins].sum())
    return total
