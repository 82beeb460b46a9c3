"""Rank-biased overlap of two runs (Webber, Moffat and Zobel 2010): how alike they are, whatever is relevant.

With X_d documents that both have among their first d, RBO = (1 − p) Σ_d p^(d−1) X_d / d. Runs are finite: beyond their
ends the overlap goes on as it was (equation 32 of the paper). With s and l the lengths of the shorter and the longer,

    RBO = (1−p)/p · [Σ_{d≤l} p^d X_d / d + Σ_{s<d≤l} p^d X_s (d − s) / (s d)] + p^l · [(X_l − X_s) / l + X_s / s]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.pool import Pool
from rankwright.data.run_features import ranks
from rankwright.data.run_objects import Source, trec_table
from rankwright.errors import InputError

__all__ = ["RunOverlap", "rank_biased_overlap"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class RunOverlap:
    """Rank-biased overlap of two runs, query by query.

    Attributes
    ----------
    query_ids : ndarray of str
        The queries that both have.
    values : ndarray
        Overlap of each, from 0 (no document in common) to 1 (equal lists).
    p : float
        The weight of each rank relative to the one above it.
    depth : int or None
        Documents per query that were looked at; None: all.
    left_out : int
        Queries that only one of the runs has.
    """

    query_ids: Array
    values: Array
    p: float
    depth: int | None
    left_out: int

    @property
    def mean(self) -> float:
        """Mean over the queries."""
        return float(self.values.mean())


def rank_biased_overlap(run: Source, other: Source, *, p: float = 0.9, depth: int | None = None) -> RunOverlap:
    """How alike two runs are, with more weight on the first ranks.

    Parameters
    ----------
    run, other : path, TrecTable, dict, data frame, or object of ranx or ir_measures
        The runs, in any form that :func:`evaluate_run` takes.
    p : float
        How likely a reader is to go on to the next rank; 0.9 puts 86 % of the weight on the first ten.
    depth : int, optional
        Documents of each query that count; all by default.

    Examples
    --------
    >>> found = rank_biased_overlap({"1": {"a": 3, "b": 2, "c": 1}}, {"1": {"a": 3, "c": 2, "b": 1}})
    >>> round(found.mean, 4)
    0.955
    """
    if not 0 < p < 1:
        raise InputError(f"p is {p}; expected a number between 0 and 1")
    if depth is not None and depth < 1:
        raise InputError(f"depth is {depth}; expected at least 1")
    tables = [trec_table(run, "run"), trec_table(other, "run")]
    pool = Pool.of(tables)
    rank = np.full((2, len(pool.keys)), np.inf)
    for at, table in enumerate(tables):
        places, rows = pool.places(at)
        rank[at, places] = ranks(table)[rows]
    if depth is not None:
        rank[rank > depth] = np.inf
    names, values = [], []
    bounds = np.searchsorted(pool.query, np.arange(len(pool.queries) + 1))
    for q, query in enumerate(pool.queries):
        own = rank[:, bounds[q] : bounds[q + 1]]
        shorter, longer = sorted(np.isfinite(own).sum(axis=1).tolist())
        if shorter:
            names.append(query)
            values.append(_overlap(own.max(axis=0), shorter, longer, p))
    if not names:
        raise InputError("the runs have no query in common")
    return RunOverlap(np.array(names, dtype=str), np.array(values), p, depth, len(pool.queries) - len(names))


def _overlap(lower: Array, shorter: int, longer: int, p: float) -> float:
    """The overlap of one query, from the lower of the two ranks of each document; inf if only one run has it."""
    met = np.bincount(lower[np.isfinite(lower)].astype(np.int64), minlength=longer + 1)
    common = np.cumsum(met)[1:]
    d = np.arange(1, longer + 1)
    weights, at_end = p**d, common[shorter - 1]
    total = (weights * common / d).sum()
    total += (weights * at_end * np.maximum(d - shorter, 0) / (shorter * d)).sum()
    beyond = (common[-1] - at_end) / longer + at_end / shorter
    return float((1 - p) / p * total + p**longer * beyond)
