"""Clicks, one page each: a page with k clicks becomes k pages on which nothing else is clicked.

A click says that its document should be above all others of the page, whatever else was clicked there. A sum over
clicks, each weighted by the inverse propensity of its position, is unbiased: its mean is what it would be if everything
had been looked at (Agarwal, Takatsu, Zaitsev and Joachims: A general framework for counterfactual learning-to-rank,
2019). Pairs of a clicked document and one that was *not* clicked do not have this property: which others were clicked
depends on where they were shown. Nor does a measure normalised by the number of clicks of a page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.blocks import query_of_row, sizes_to_indptr

__all__ = ["Clicked"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Clicked:
    """A page for every click.

    Attributes
    ----------
    clicks : ndarray
        The clicked documents: labels above 0, on pages of more than one document.
    query : ndarray
        The page of each click.
    rows : ndarray
        The documents of its page, click after click.
    labels : ndarray
        1 for the click itself, 0 for the others.
    indptr : ndarray
        Click ``c`` owns ``rows[indptr[c]:indptr[c+1]]``.
    """

    clicks: Array
    query: Array
    rows: Array
    labels: Array
    indptr: Array

    @classmethod
    def of(cls, labels: Array, indptr: Array) -> Clicked:
        """Take the clicks apart.

        Examples
        --------
        >>> found = Clicked.of(np.array([1.0, 0, 1, 0, 0]), np.array([0, 3, 5]))
        >>> found.rows.tolist(), found.labels.tolist()
        ([0, 1, 2, 0, 1, 2], [1.0, 0.0, 0.0, 0.0, 0.0, 1.0])
        """
        of_row, sizes = query_of_row(indptr), np.diff(indptr)
        clicks = np.flatnonzero((labels > 0) & (sizes[of_row] > 1))
        query = of_row[clicks]
        bounds = sizes_to_indptr(sizes[query])
        rows = np.arange(bounds[-1]) + np.repeat(indptr[query] - bounds[:-1], sizes[query])
        return cls(clicks, query, rows, (rows == np.repeat(clicks, sizes[query])).astype(np.float64), bounds)
