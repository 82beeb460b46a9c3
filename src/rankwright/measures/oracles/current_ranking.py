"""The ranking given by the scores themselves, in the form of the oracles: coefficients of Ψ(y*) − Ψ(ŷ), and no loss.

One kernel per feature map. Of equally scored documents the first in ``order`` ranks higher, which changes neither the
margin nor any bound.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rankwright._types import Array
from rankwright.measures.oracles.positions import _grades


@njit(cache=True)
def current_pairs(scores: Array, labels: Array, order: Array, parameters: Array, coef: Array, work: Array) -> float:
    """The map of pairs: every good with the bads above it."""
    n_good = 0
    for i in range(labels.size):
        n_good += labels[i] > 0.0
    unit = 2.0 / (n_good * (labels.size - n_good))
    goods, bads = 0, 0
    for place in order:
        if labels[place] > 0.0:
            coef[place] = unit * bads
            goods += 1
        else:
            coef[place] = -unit * (n_good - goods)
            bads += 1
    return 0.0


@njit(cache=True)
def current_first(scores: Array, labels: Array, order: Array, parameters: Array, coef: Array, work: Array) -> float:
    """The map of reciprocal rank: the topmost good with the bads above it."""
    coef[:] = 0.0
    bads = 0
    for place in order:
        if labels[place] > 0.0:
            coef[place] = bads
            break
        if labels[place] == 0.0:
            coef[place] = -1.0
            bads += 1
    return 0.0


@njit(cache=True)
def current_positions(scores: Array, labels: Array, order: Array, parameters: Array, coef: Array, work: Array) -> float:
    """The map of positions; ``parameters`` as for `dorm`."""
    n = scores.size
    decay = parameters[2:]
    values, sizes = np.empty(n), np.empty(n, np.int64)
    n_grades = _grades(labels, values, sizes)
    place = 0
    for grade in range(n_grades):
        mean = 0.0
        for rank in range(place, place + sizes[grade]):
            mean += decay[rank] / sizes[grade]
        for i in range(n):
            if labels[i] == values[grade]:
                coef[i] = mean
        place += sizes[grade]
    for rank in range(n):
        coef[order[rank]] -= decay[rank]
    return 0.0


CURRENT = {"po": current_pairs, "mrr": current_first, "dorm": current_positions}
"""The kernel of every feature map."""
