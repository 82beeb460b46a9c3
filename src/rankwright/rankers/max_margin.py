"""The max-margin rankers: StructuredSVM for AUC, MAP, nDCG and MRR, RankingSVM for pairs, on one solver.

    minimise  ½‖w‖² + (C/|Q|) Σ_q μ_q H_q(w)

`C` is the papers' C: the hinges are averaged over the queries that have something to order. For RankingSVM H_q is the
sum over the query's pairs, so C is svm_rank_learn's -c (with its default loss, -l 1).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from rankwright.data.dataset import RankingData
from rankwright.data.scaling import Standardizer
from rankwright.errors import InputError, InputWarning
from rankwright.evaluation.table import evaluate
from rankwright.measures import Measure, parse_measure
from rankwright.measures.base import Oracle, read_only
from rankwright.rankers.base import LinearRanker, weight_of_queries
from rankwright.solvers.max_margin import Check, Solution, solve

__all__ = ["RankingSVM", "StructuredSVM"]

Array = npt.NDArray[Any]
DEFAULT_GRID = tuple(10.0**power for power in range(-4, 4))
_PLANES = {"frank-wolfe": 8, "cutting-plane": 200}  # per block, at least
_PLANES_IN_ALL = 200  # at least: few blocks need more planes each
_FEW_BLOCKS = 128  # up to which every query has a block of its own
_PLANE_BYTES = 1.0  # of the features' bytes, that cached planes may take
_NO_SPREAD = 1e-10  # of the largest value: a feature that varies less is taken as constant


class _MaxMargin(LinearRanker):
    """Fitting, C paths and the certificate; subclasses say what the labels mean and which oracle to use."""

    def __init__(
        self,
        C: float | str = 1.0,
        *,
        tol: float = 1e-3,
        max_passes: int = 200,
        standardize: bool = True,
        solver: str = "frank-wolfe",
        C_grid: Sequence[float] | None = None,
        eval_measure: str | Measure | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        callback: Callable[[Check], Any] | None = None,
    ) -> None:
        self.C = C
        self.tol = tol
        self.max_passes = max_passes
        self.standardize = standardize
        self.solver = solver
        self.C_grid = C_grid
        self.eval_measure = eval_measure
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.callback = callback

    def fit(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        *,
        group: Any = None,
        sample_weight: Any = None,
        query_weight: Any = None,
        eval_set: Any = None,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : array-like, scipy sparse or RankingData
            Features; a RankingData brings its labels and queries along.
        y : array-like
            One label per row, at least 0.
        qid : array-like, optional
            Query id per row, of any type, in any order.
        group : array-like of int, optional
            Instead of ``qid``: rows per query.
        sample_weight : array-like, optional
            Weight per row; a query counts as the mean of its rows' weights, and rows of weight 0 are left out.
        query_weight : mapping or array-like, optional
            Weight of each query, as ``{qid: weight}`` or per row.
        eval_set : (X, y, qid) or RankingData, optional
            Validation data; needed for ``C="auto"``.
        """
        self._check_parameters()
        data = self._gather(X, y, qid, group, reset=True)
        weights = weight_of_queries(data, sample_weight, query_weight)
        data, weights = _without_weightless_rows(data, weights, sample_weight)
        training, labels, oracle, weights = self._orderable(data, weights)
        valid = None if eval_set is None else self._validation(eval_set)
        if self.C == "auto" and valid is None:
            raise InputError("C='auto' chooses C on validation data; give eval_set=(X, y, qid)")
        initial = self._initial(data)
        if training is None:
            return self._keep_nothing(data)
        problem = _Problem(training, labels, oracle, weights, self, initial)
        try:
            self._fit_path(problem, valid)
        finally:
            problem.close()
        return self

    def _fit_path(self, problem: _Problem, valid: RankingData | None) -> None:
        grid = sorted(float(C) for C in (DEFAULT_GRID if self.C_grid is None else self.C_grid)) if self.C == "auto" else [float(self.C)]
        measure = self._measure_to_choose_by()
        best: tuple[float, float, Array, Solution] | None = None
        rows = []
        passes = 0
        interrupted = False
        try:
            for C in grid:
                solution = problem.solve(C)
                passes += len(solution.path)
                coef = solution.w * problem.inverse
                value = float("nan")
                if valid is not None:
                    self.coef_ = coef
                    value = evaluate(valid, self.predict(valid), measures=[measure]).means[str(measure)]
                    row = {"C": C, str(measure): value, "objective": solution.objective, "gap": solution.gap}
                    rows.append({**row, "passes": len(solution.path)})
                if best is None or value > best[1]:
                    best = (C, value, coef, solution)
                if solution.interrupted:
                    interrupted = True
                    break
        except KeyboardInterrupt:
            if best is None:
                raise
            interrupted = True
        assert best is not None
        self.C_, _, self.coef_, solution = best
        self.objective_, self.gap_ = solution.objective, solution.gap
        self.n_passes_, self.path_ = len(solution.path), solution.path
        self.n_passes_total_ = passes
        self.C_path_ = rows
        self._warn(solution, interrupted)

    def _warn(self, solution: Solution, interrupted: bool) -> None:
        if interrupted:
            what = f"training was interrupted; the model is the best so far, within {self.gap_:.2g} of the optimum"
            warnings.warn(what, InputWarning, stacklevel=4)
        elif self.gap_ > self.tol and len(solution.path) >= self.max_passes:
            what = f"stopped at max_passes={self.max_passes} with a relative duality gap of {self.gap_:.2g}"
            warnings.warn(f"{what}; asked for {self.tol:g}", ConvergenceWarning, stacklevel=4)

    def _check_parameters(self) -> None:
        if self.C != "auto" and (not isinstance(self.C, Real) or not 0 < self.C < np.inf):
            raise InputError(f"C is {self.C!r}; expected a number above 0, or 'auto'")
        if self.solver not in _PLANES:
            raise InputError(f"solver is {self.solver!r}; expected one of {', '.join(_PLANES)}")
        if not self.tol > 0:
            raise InputError(f"tol is {self.tol!r}; expected a number above 0")
        if self.max_passes < 1:
            raise InputError(f"max_passes is {self.max_passes!r}; expected at least 1")
        for C in () if self.C_grid is None else self.C_grid:
            if not 0 < C < np.inf:
                raise InputError(f"C_grid holds {C!r}; expected numbers above 0")

    def _validation(self, eval_set: Any) -> RankingData:
        if isinstance(eval_set, RankingData):
            return eval_set
        X, y, qid = eval_set
        return self._gather(X, y, qid, None, reset=False)

    def _initial(self, data: RankingData) -> Array | None:
        coef = getattr(self, "_initial_coef", None)
        self._initial_coef = None
        if coef is None and self.warm_start:
            coef = getattr(self, "coef_", None)
        if coef is not None and len(coef) != data.n_features:
            raise InputError(f"{data.n_features} features but a starting model of {len(coef)}")
        return coef

    def _orderable(self, data: RankingData, weights: Array) -> tuple[RankingData | None, Array, Oracle, Array]:
        """The queries that say something about order, their labels as the oracle wants them, and the oracle."""
        labels, useful, oracle = self._targets(data)
        useful = useful & (weights > 0)
        self.n_queries_, self.n_queries_skipped_ = int(useful.sum()), int((~useful).sum())
        if not useful.any():
            return None, labels, oracle, weights
        if useful.all():
            return data, labels, oracle, weights
        kept = data.with_labels(labels).select(useful)
        return kept, kept.labels, oracle, weights[useful]

    def _targets(self, data: RankingData) -> tuple[Array, Array, Oracle]:
        raise NotImplementedError

    def _measure_to_choose_by(self) -> Measure:
        raise NotImplementedError

    def _keep_nothing(self, data: RankingData) -> Self:
        what = "no query has documents of different labels: there is nothing to order, and all weights are 0"
        warnings.warn(what, InputWarning, stacklevel=3)
        self.coef_ = np.zeros(data.n_features)
        self.C_ = float("nan") if self.C == "auto" else float(self.C)
        self.objective_ = self.gap_ = 0.0
        self.n_passes_ = self.n_passes_total_ = 0
        self.path_, self.C_path_ = (), []
        return self

    def _training_facts(self) -> dict[str, Any]:
        return {
            "C": self.C_,
            "objective": self.objective_,
            "gap": self.gap_,
            "passes": self.n_passes_,
            "queries": self.n_queries_,
            "queries_skipped": self.n_queries_skipped_,
        }


class StructuredSVM(_MaxMargin):
    """Structured SVM, trained directly for a ranking measure, with a duality gap as proof.

    Parameters
    ----------
    loss : str or Measure
        ``"map"`` (SVMmap), ``"auc"`` (SVMauc), ``"ndcg@10"`` (SVMndcg), ``"ndcg"`` (no clip), ``"mrr@10"`` (SVMmrr).
    C : float or "auto"
        Weight of the losses against ½‖w‖²: the papers' C, with the average over queries. ``"auto"``: chosen from
        ``C_grid`` on ``eval_set``.
    relevant_from : float
        Labels from this on are relevant.
    tol : float
        Relative duality gap at which training stops.
    max_passes : int
        Passes over the data at which it stops anyway, with a warning.
    standardize : bool
        Divide features by their standard deviation, folded back into ``coef_``. (Means cancel.) False is exactly the
        papers' problem on the features as they are.
    solver : {"frank-wolfe", "cutting-plane"}
        One cached set of planes per query, or the papers' 1-slack cutting plane: the same objective and certificate.
    C_grid : sequence of float, optional
        For ``C="auto"``; powers of ten from 1e-4 to 1e3 unless given.
    eval_measure : str or Measure, optional
        What C is chosen by; the loss itself unless given.
    warm_start : bool
        Start from the last fit's ``coef_``.
    n_jobs : int, optional
        Threads; 1 unless given, -1 for all cores. The model does not depend on it.
    callback : callable, optional
        Called with a :class:`~rankwright.solvers.max_margin.Check` after every pass; True stops training.

    Attributes
    ----------
    coef_ : ndarray
        Weights of the raw features; scores are ``X @ coef_``.
    objective_, gap_ : float
        Objective of the problem that was solved, and how far it may be above the optimum, relatively.
    n_passes_ : int
        Passes over the data.
    path_ : tuple of Check
        Passes, primal, dual, gap and seconds after each pass.
    C_, C_path_
        The C used; with ``C="auto"`` one row for each C that was tried.
    n_queries_, n_queries_skipped_ : int
        Queries trained on, and those without an order to learn.

    Examples
    --------
    >>> import numpy as np
    >>> X, y, qid = np.array([[1.0, 0], [0, 1], [2, 1], [0, 0]]), [1, 0, 1, 0], ["a", "a", "b", "b"]
    >>> ranker = StructuredSVM(loss="map", C=10).fit(X, y, qid)
    >>> bool(ranker.gap_ <= 1e-3), ranker.predict(X).argmax()
    (True, np.int64(2))
    """

    def __init__(
        self,
        loss: str | Measure = "map",
        C: float | str = 1.0,
        *,
        relevant_from: float = 1,
        tol: float = 1e-3,
        max_passes: int = 200,
        standardize: bool = True,
        solver: str = "frank-wolfe",
        C_grid: Sequence[float] | None = None,
        eval_measure: str | Measure | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        callback: Callable[[Check], Any] | None = None,
    ) -> None:
        super().__init__(
            C,
            tol=tol,
            max_passes=max_passes,
            standardize=standardize,
            solver=solver,
            C_grid=C_grid,
            eval_measure=eval_measure,
            warm_start=warm_start,
            n_jobs=n_jobs,
            callback=callback,
        )
        self.loss = loss
        self.relevant_from = relevant_from

    def _method(self) -> str:
        measure = parse_measure(self.loss)
        name = {"AP": "map", "RR": "mrr"}.get(measure.name, measure.name.lower())
        if measure.cutoff is not None:
            return f"svm-{name}@{measure.cutoff}"
        return f"svm-{name}-nc" if name in ("ndcg", "mrr") else f"svm-{name}"

    def _targets(self, data: RankingData) -> tuple[Array, Array, Oracle]:
        oracle = parse_measure(self.loss).oracle()
        if not self.relevant_from > 0:
            raise InputError(f"relevant_from is {self.relevant_from!r}; expected a number above 0")
        good = data.labels >= self.relevant_from
        n_good = np.add.reduceat(good.astype(np.int64), data.indptr[:-1])
        return good.astype(np.float64), (n_good > 0) & (n_good < data.sizes), oracle

    def _measure_to_choose_by(self) -> Measure:
        return parse_measure(self.eval_measure or self.loss)


class RankingSVM(_MaxMargin):
    """Ranking SVM: a hinge for every pair of documents of one query with different labels; pairs are never listed.

    Parameters
    ----------
    C : float or "auto"
        Weight of the pairs' hinges, summed within a query and averaged over queries: svm_rank_learn's -c.
    tol, max_passes, standardize, solver, C_grid, warm_start, n_jobs, callback
        As for :class:`StructuredSVM`.
    eval_measure : str or Measure, optional
        What ``C="auto"`` chooses by; nDCG@10 unless given.

    Attributes
    ----------
    coef_, objective_, gap_, n_passes_, path_, C_, C_path_, n_queries_, n_queries_skipped_
        As for :class:`StructuredSVM`.

    Examples
    --------
    >>> import numpy as np
    >>> ranker = RankingSVM(C=1).fit(np.array([[3.0], [2.0], [1.0]]), [2, 1, 0], ["q"] * 3)
    >>> bool(ranker.coef_[0] > 0)
    True
    """

    def _method(self) -> str:
        return "rank-svm"

    def _targets(self, data: RankingData) -> tuple[Array, Array, Oracle]:
        from rankwright.measures.oracles.pairs import pairs

        values, grades = np.unique(data.labels, return_inverse=True)
        low = np.minimum.reduceat(data.labels, data.indptr[:-1])
        high = np.maximum.reduceat(data.labels, data.indptr[:-1])
        table = read_only(np.concatenate([[len(values)], np.ones(len(values) ** 2)]))
        return grades.astype(np.float64), high > low, Oracle(pairs, lambda longest: table, "pairs")

    def _measure_to_choose_by(self) -> Measure:
        return parse_measure(self.eval_measure or "nDCG@10")


class _Problem:
    """One training set as the solver sees it, for a path of C values: planes are kept from one C to the next."""

    def __init__(
        self,
        data: RankingData,
        labels: Array,
        oracle: Oracle,
        weights: Array,
        ranker: _MaxMargin,
        initial: Array | None,
    ) -> None:
        from rankwright.objectives.structured import StructuredHinge, equal_blocks
        from rankwright.solvers.planes import PlaneBook

        scale = _scale(data) if ranker.standardize else np.ones(data.n_features)
        self.inverse = 1.0 / scale
        self._ranker = ranker
        self._C: float | None = None
        capacity = _PLANES[ranker.solver]
        n_blocks = 1 if ranker.solver == "cutting-plane" else _n_blocks(data, capacity)
        capacity = max(capacity, -(-_PLANES_IN_ALL // n_blocks))
        labels = labels.copy()
        labels.flags.writeable = False
        self._objective = StructuredHinge(
            data.X,
            labels,
            data.indptr,
            oracle,
            weights / data.n_queries,
            scale,
            equal_blocks(data.n_queries, n_blocks),
            _threads(ranker.n_jobs),
        )
        self._book = PlaneBook(n_blocks, capacity, data.n_features)
        if initial is not None:
            self._book.w[:] = np.where(np.isinf(scale), 0.0, initial * np.where(np.isinf(scale), 1.0, scale))

    def solve(self, C: float) -> Solution:
        """Train for one C from where the last one ended."""
        factor = C if self._C is None else C / self._C
        self._C = C
        self._objective.rescale(factor)
        self._book.rescale(factor)
        ranker = self._ranker
        return solve(
            self._objective, self._book, tol=ranker.tol, max_passes=ranker.max_passes, callback=ranker.callback
        )

    def close(self) -> None:
        """Let threads go."""
        self._objective.close()


def _scale(data: RankingData) -> Array:
    """Standard deviations; inf for features that do not vary, which leaves them out."""
    low, high = _column(data.X.min(axis=0)), _column(data.X.max(axis=0))
    spread = np.where(low < high, Standardizer.fit(data).scale, 0.0)
    return np.where(spread > _NO_SPREAD * np.maximum(np.abs(low), np.abs(high)), spread, np.inf)


def _column(values: Any) -> Array:
    return np.asarray(values.todense() if hasattr(values, "todense") else values, np.float64).ravel()


def _n_blocks(data: RankingData, capacity: int) -> int:
    """One block per query, unless there are so many that the work on planes, or their memory, would outgrow a pass."""
    size = data.X.data.nbytes * 2 if data.is_sparse else data.X.nbytes
    affordable = int(_PLANE_BYTES * size / (capacity * data.n_features * 8))
    worthwhile = max(_FEW_BLOCKS, data.n_docs // (8 * data.n_features))
    return max(1, min(data.n_queries, worthwhile, affordable))


def _threads(n_jobs: int | None) -> int:
    import os

    if n_jobs is None:
        return 1
    if n_jobs == 0:
        raise InputError("n_jobs is 0; expected a number of threads, or -1 for all cores")
    return n_jobs if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + n_jobs)


def _without_weightless_rows(data: RankingData, weights: Array, sample_weight: Any) -> tuple[RankingData, Array]:
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
    return smaller, weights[left > 0]
