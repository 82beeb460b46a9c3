"""The forms in which a measure may be offered for training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rankwright._types import Array

STATE = 4
"""Rows of the table in which the functions of `Swaps` keep their state for a query."""


def read_only(values: npt.ArrayLike) -> Array:
    """A read-only float64 copy, as parameters of compiled functions must be."""
    array = np.array(values, np.float64, order="C")
    array.flags.writeable = False
    return array


class Positions(Protocol):
    """A measure as a sum over positions; see :mod:`rankwright.measures.position_sum`."""

    def worth(self, labels: Array) -> Array: ...

    def discounts(self, ranks: Array) -> Array:
        """Discount of each rank, ignoring the cutoff."""

    def credits(self, hits: Array) -> Array | None:
        """Credit of the hits-th relevant document; None: its worth counts."""

    def norms(self, rankings: Any) -> Array:
        """The divisor of each query's sum."""


@dataclass(frozen=True, eq=False)
class Oracle:
    """Finds the most violated ranking of a loss, 1 − measure; see :mod:`rankwright.measures.oracles`.

    Attributes
    ----------
    kernel : compiled function
        loss = kernel(scores, labels, order, parameters, coef, work) for one query, with labels 0 and 1.
    parameters : callable
        ``parameters(longest)``: the kernel's parameters for queries of up to ``longest`` documents.
    feature_map : {"po", "mrr", "dorm"}
        What the coefficients refer to: the partial order of all documents, the topmost relevant one, or positions.
    graded : bool
        Whether labels are the grades themselves rather than 0 and 1.
    library : callable, optional
        ``loss, coef = library(scores, labels, parameters)``: the same for queries that are not ``cheap``.
    cheap : callable, optional
        ``cheap(labels)``: whether the kernel is faster for a query than the library.
    hinge_learns : bool
        Whether the papers' hinge is the better bound: losses that count every rank. By default the ramp bound is.
    """

    kernel: Any
    parameters: Callable[[int], Array]
    feature_map: str
    graded: bool = False
    library: Callable[[Array, Array, Array], tuple[float, Array]] | None = None
    cheap: Callable[[Array], bool] | None = None
    hinge_learns: bool = False


def _no_parameters(longest: int) -> Array:
    return read_only([])


def _prepare_nothing(worth: Array, judged: Array, parameters: Array, state: Array) -> None: ...


@dataclass(frozen=True, eq=False)
class Swaps:
    """Changes by swapping two documents, as functions that training compiles.

    Both are plain functions at module level that numba can compile: numbers, arrays and loops only. Evaluation never
    loads numba, and the lambda loop is compiled once for all measures, which are handed to it as first-class functions
    of a fixed signature. They see `Measure.worth` of the labels; their results are divided by `Measure.norms`.

    Attributes
    ----------
    changes : function
        ``changes(i, worth, parameters, state, out)`` sets ``out[j]``, for every rank j > i, to the change of
        the value if the documents at ranks i and j swap; ``worth`` is in rank order.
    prepare : function
        ``prepare(worth, judged, parameters, state)`` is called first, once per ranking. ``judged`` is the worth of all
        judged documents, highest first; ``state`` has `STATE` rows and one column more than there are ranks.
    parameters : callable
        ``parameters(longest)``: a read-only array for queries of up to ``longest`` documents.
    """

    changes: Callable[[int, Array, Array, Array, Array], None]
    prepare: Callable[[Array, Array, Array, Array], None] = _prepare_nothing
    parameters: Callable[[int], Array] = _no_parameters
