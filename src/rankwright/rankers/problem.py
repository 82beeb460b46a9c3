"""One training set as the max-margin solver sees it: scale, blocks of queries, threads, and a path of C values."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.data.scaling import Standardizer
from rankwright.errors import InputError
from rankwright.measures.forms import Oracle
from rankwright.solvers.bundle import Solution, solve
from rankwright.solvers.gradient_descent import descend

__all__ = ["SOLVERS", "Problem", "Target", "fit_health", "threads_of", "without_weightless_rows"]

Array = npt.NDArray[Any]
_PLANES = {"frank-wolfe": 16, "cutting-plane": 200}  # per block, at least
_PLANES_IN_ALL = 200  # at least: few blocks need more planes each
_FEW_BLOCKS = 112  # up to which every query has a block of its own
_PLANE_BYTES = 0.5  # of the features' bytes, that cached planes may take
_FEW_BYTES = 1 << 25  # that they may take in any case
_NO_SPREAD = 1e-10  # of the largest value: a feature that varies less is taken as constant
_NO_GAIN = 0.01  # of the objective: weights that are better than 0 by less are as good as 0
_CHUNK_VALUES = 1 << 18  # that stay in cache
SOLVERS = tuple(_PLANES)


@dataclass(frozen=True, eq=False)
class Target:
    """One loss to train for: what it makes of the labels.

    Attributes
    ----------
    labels : ndarray
        Labels as the oracle wants them.
    useful : ndarray of bool
        The queries that say something about order.
    oracle : Oracle
        The most violated ranking.
    weight : float
        Of this loss among several.
    """

    labels: Array
    useful: Array
    oracle: Oracle
    weight: float = 1.0

    def of(self, queries: Array, data: RankingData) -> Target:
        """The target for some of the queries of the data."""
        return replace(self, labels=data.with_labels(self.labels).select(queries).labels, useful=self.useful[queries])


class Problem:
    """One training set as the solver sees it, for a path of C values: planes are kept from one C to the next."""

    def __init__(
        self, data: RankingData, targets: Sequence[Target], weights: Array, ranker: Any, initial: Array | None
    ) -> None:
        from rankwright.objectives.combined import SeparateSlacks, SharedSlack
        from rankwright.objectives.structured import StructuredHinge, equal_blocks
        from rankwright.solvers.planes import PlaneBook

        scale = _scale(data) if ranker.standardize else np.ones(data.n_features)
        self._ranker = ranker
        self._C: float | None = None
        self._slack_at_zero: float | None = None
        self._last: Solution | None = None
        capacity = _PLANES.get(ranker.solver, _PLANES["frank-wolfe"])
        n_blocks = 1 if ranker.solver in ("cutting-plane", "gd") else _n_blocks(data, capacity)
        hinges = [
            StructuredHinge(
                data.X,
                _frozen(target.labels),
                data.indptr,
                target.oracle,
                target.weight * weights * target.useful / data.n_queries,
                scale,
                equal_blocks(data.n_queries, n_blocks),
                threads_of(ranker.n_jobs),
            )
            for target in targets
        ]
        together = SharedSlack if getattr(ranker, "slack", None) == "shared" else SeparateSlacks
        self._objective = hinges[0] if len(hinges) == 1 else together(hinges)
        capacity = max(capacity, -(-_PLANES_IN_ALL // self._objective.n_blocks))
        self.coefficients = self._objective.coefficients
        self._book = PlaneBook(self._objective.n_blocks, capacity, self._objective.n_features)
        if initial is not None:
            self._book.w[:] = self._objective.weights(initial)

    def solve(self, C: float) -> Solution:
        """Train for one C from where the last one ended."""
        factor = C if self._C is None else C / self._C
        self._C = C
        self._objective.rescale(factor)
        self._book.rescale(factor)
        ranker = self._ranker
        rules = {"tol": ranker.tol, "max_passes": ranker.max_passes, "callback": ranker.callback}
        if self._slack_at_zero is None and self._book.w.any():
            self._slack_at_zero = float(self._objective.evaluate(np.zeros_like(self._book.w)).values.sum()) / C
        if ranker.solver == "gd":
            solution = descend(self._objective, self._book.w, rate=ranker.rate, **rules)
            self._book.w[:] = solution.w
        else:
            solution = solve(self._objective, self._book, known=self._known(C, factor), **rules)
            self._last = solution
        if self._slack_at_zero is None:  # the first pass was there
            self._slack_at_zero = solution.path[0].primal / C
        return solution

    def _known(self, C: float, factor: float) -> tuple[Array, float] | None:
        """The weights of the last C and their hinge for this one; None where they are no better than 0."""
        if self._last is None or self._slack_at_zero is None:
            return None
        w = self._last.w
        square = 0.5 * float(w @ w)
        hinge = factor * max(0.0, self._last.objective - square)
        return (w, hinge) if square + hinge < (1.0 - _NO_GAIN) * C * self._slack_at_zero else None

    def health(self, solution: Solution) -> dict[str, float]:
        """How the last training fared, against weights of 0."""
        assert self._C is not None
        assert self._slack_at_zero is not None
        return fit_health(self._C, solution.objective, solution.w, self._slack_at_zero)

    def close(self) -> None:
        """Let threads go."""
        self._objective.close()


def fit_health(C: float, objective: float, w: Array, slack_at_zero: float) -> dict[str, float]:
    """Length of the weights, average slack, and what slack and objective are relative to weights of 0 (KDD'08).

    Parameters
    ----------
    C, objective : float
        ½‖w‖² + C · slack = objective.
    w : ndarray
        The weights of the problem that was solved.
    slack_at_zero : float
        The average slack at weights of 0, where the objective is C times that.

    Examples
    --------
    >>> fit_health(10.0, 2.5, np.array([1.0]), 0.4)
    {'norm': 1.0, 'slack': 0.2, 'slack_ratio': 0.5, 'objective_ratio': 0.625}
    """
    norm = float(np.linalg.norm(w))
    slack = max(0.0, objective - 0.5 * norm**2) / C
    known = slack_at_zero > 0
    return {
        "norm": norm,
        "slack": slack,
        "slack_ratio": slack / slack_at_zero if known else 1.0,
        "objective_ratio": objective / (C * slack_at_zero) if known else 1.0,
    }


def _frozen(labels: Array) -> Array:
    labels = labels.copy()
    labels.flags.writeable = False
    return labels


def _scale(data: RankingData) -> Array:
    """Standard deviations; inf for features that do not vary, which leaves them out."""
    low, high = _column(data.X.min(axis=0)), _column(data.X.max(axis=0))
    spread = np.where(low < high, _deviations(data), 0.0)
    return np.where(spread > _NO_SPREAD * np.maximum(np.abs(low), np.abs(high)), spread, np.inf)


def _deviations(data: RankingData) -> Array:
    """One pass, some rows at a time, shifted by the first row; the careful way only for sparse and for huge values."""
    if data.is_sparse:
        return Standardizer.fit(data).scale
    shift = data.X[0].astype(np.float64)
    total, squares = np.zeros(data.n_features), np.zeros(data.n_features)
    step = max(1, _CHUNK_VALUES // data.n_features)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, data.n_docs, step):
            rows = data.X[start : start + step] - shift
            total += rows.sum(axis=0)
            squares += np.einsum("ij,ij->j", rows, rows)
        deviations = np.sqrt(np.maximum(squares / data.n_docs - (total / data.n_docs) ** 2, 0.0))
    return deviations if np.isfinite(deviations).all() else Standardizer.fit(data).scale


def _column(values: Any) -> Array:
    return np.asarray(values.todense() if hasattr(values, "todense") else values, np.float64).ravel()


def _n_blocks(data: RankingData, capacity: int) -> int:
    """One block per query, unless there are so many that the work on planes, or their memory, would outgrow a pass."""
    size = data.X.data.nbytes * 2 if data.is_sparse else data.X.nbytes
    affordable = int(max(_PLANE_BYTES * size, _FEW_BYTES) / (capacity * data.n_features * 8))
    worthwhile = max(_FEW_BLOCKS, data.n_docs // (8 * data.n_features))
    return max(1, min(data.n_queries, worthwhile, affordable))


def threads_of(n_jobs: int | None) -> int:
    """How many threads ``n_jobs`` asks for."""
    if n_jobs is None:
        return 1
    if n_jobs == 0:
        raise InputError("n_jobs is 0; expected a number of threads, or -1 for all cores")
    return n_jobs if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + n_jobs)


def without_weightless_rows(data: RankingData, weights: Array, sample_weight: Any) -> tuple[RankingData, Array]:
    """Leave out rows whose sample weight is 0; queries keep the weight of the rows that are left."""
    if sample_weight is None:
        return data, weights
    rows = np.asarray(sample_weight, np.float64)
    rows = rows if data.rows is None else rows[data.rows]
    kept = rows > 0
    if kept.all():
        return data, weights
    query = data.query_of_row()
    left = np.bincount(query[kept], minlength=data.n_queries)
    weights = weights * data.sizes / np.maximum(left, 1)
    smaller = RankingData.from_arrays(data.X[kept], data.labels[kept], query[kept], feature_names=data.feature_names)
    return replace(smaller, query_ids=data.query_ids[left > 0]), weights[left > 0]
