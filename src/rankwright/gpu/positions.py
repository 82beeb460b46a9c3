"""Parameters of the map of positions, computed from the labels of all documents at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["means_and_gains"]

Array = npt.NDArray[Any]


def means_and_gains(labels: Array, indptr: Array, parameters: Array) -> tuple[Array, Array]:
    """For each document, the mean weight of its grade's places in ideal rankings, and its gain over the ideal DCG.

    Parameters
    ----------
    labels, indptr : ndarray
        Labels, query after query, and boundaries.
    parameters : ndarray
        Those of `rankwright.measures.oracles.position_decay.dorm`.
    """
    longest = (len(parameters) - 2) // 2
    decay, discount = parameters[2 : 2 + longest], parameters[2 + longest :]
    sizes = np.diff(indptr)
    query = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((-labels, query))
    rank, best = np.arange(len(labels)) - np.repeat(indptr[:-1], sizes), labels[order]
    fresh = (np.diff(best, prepend=np.nan) != 0) | (rank == 0)
    group = np.cumsum(fresh) - 1
    means, gains = np.empty(len(labels)), np.empty(len(labels))
    means[order] = (np.bincount(group, decay[rank]) / np.bincount(group))[group]
    gain = 2.0**best - 1.0 if parameters[0] else best
    ideal = np.add.reduceat(gain * discount[rank], indptr[:-1])
    gains[order] = gain / np.where(ideal > 0, ideal, 1.0)[query]
    return means, gains
