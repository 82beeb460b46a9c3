"""Max-margin training, and StructuredSVM: rankers for AUC, MAP, nDCG, MRR, DORM, or several of these at once.

    minimise  ½‖w‖² + (C/|Q|) Σ_q μ_q H_q(w)

`C` is the papers' C: the hinges are averaged over the queries that have something to order.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from rankwright.data.dataset import RankingData
from rankwright.errors import InputError, InputWarning
from rankwright.evaluation.table import evaluate
from rankwright.measures import Measure, parse_measure
from rankwright.rankers.base import LinearRanker, weight_of_queries
from rankwright.rankers.losses import Loss, parse_losses
from rankwright.rankers.problem import SOLVERS, Problem, Target, without_weightless_rows
from rankwright.solvers.bundle import Check, Solution

__all__ = ["StructuredSVM"]

Array = npt.NDArray[Any]
DEFAULT_GRID = tuple(10.0**power for power in range(-4, 4))


class MaxMarginRanker(LinearRanker):
    """Fitting, C paths and the certificate; subclasses say what the labels mean and which oracle to use."""

    _solvers: ClassVar[tuple[str, ...]] = SOLVERS

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
        data, weights = without_weightless_rows(data, weights, sample_weight)
        weights = self._weigh(data, weights)
        training, targets, weights = self._orderable(data, weights)
        valid = None if eval_set is None else self._validation(eval_set)
        if self.C == "auto" and valid is None:
            raise InputError("C='auto' chooses C on validation data; give eval_set=(X, y, qid)")
        initial = self._initial(data)
        if training is None:
            return self._keep_nothing(data)
        problem = Problem(training, targets, weights, self, initial)
        try:
            self._fit_path(problem, valid, self._cost(training.n_queries))
        finally:
            problem.close()
        return self

    def _cost(self, n_queries: int) -> float | None:
        """The C to train for; None: that which is best on validation data."""
        return None if self.C == "auto" else float(self.C)

    def _weigh(self, data: RankingData, weights: Array) -> Array:
        """Weights of the queries that the ranker itself wants, on top of those given."""
        return weights

    def _fit_path(self, problem: Problem, valid: RankingData | None, cost: float | None) -> None:
        tried = DEFAULT_GRID if self.C_grid is None else self.C_grid
        grid = sorted(float(C) for C in tried) if cost is None else [cost]
        measure = self._measure_to_choose_by()
        best: tuple[float, float, Array, Solution] | None = None
        rows: list[dict[str, float]] = []
        passes = 0
        interrupted = False
        try:
            for C in grid:
                solution = problem.solve(C)
                passes += len(solution.path)
                coef = problem.coefficients(solution.w)
                row, value = {"C": C}, float("nan")
                if valid is not None:
                    self.coef_ = coef
                    value = evaluate(valid, self.predict(valid), measures=[measure]).means[str(measure)]
                    row[str(measure)] = value
                row |= {"objective": solution.objective, "gap": solution.gap, "passes": len(solution.path)}
                rows.append(row | problem.health(solution))
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
        elif self.gap_ > self.tol and (solution.stalled or len(solution.path) >= self.max_passes):
            where = f"after {self.n_passes_} passes" if solution.stalled else f"at max_passes={self.max_passes}"
            what = f"stopped {where} with a relative duality gap of {self.gap_:.2g}; asked for {self.tol:g}"
            warnings.warn(what, ConvergenceWarning, stacklevel=4)

    def _check_parameters(self) -> None:
        if self.C != "auto" and (not isinstance(self.C, Real) or not 0 < self.C < np.inf):
            raise InputError(f"C is {self.C!r}; expected a number above 0, or 'auto'")
        if self.solver not in self._solvers:
            raise InputError(f"solver is {self.solver!r}; expected one of {', '.join(self._solvers)}")
        if not self.tol > 0:
            raise InputError(f"tol is {self.tol!r}; expected a number above 0")
        if self.max_passes < 1:
            raise InputError(f"max_passes is {self.max_passes!r}; expected at least 1")
        if self.C_grid is not None and len(self.C_grid) == 0:
            raise InputError("C_grid is empty; expected numbers above 0")
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

    def _orderable(self, data: RankingData, weights: Array) -> tuple[RankingData | None, Sequence[Target], Array]:
        """The queries that say something about order, and what every loss makes of them."""
        targets = self._targets(data)
        useful = np.any([target.useful for target in targets], axis=0) & (weights > 0)
        self.n_queries_, self.n_queries_skipped_ = int(useful.sum()), int((~useful).sum())
        if not useful.any():
            return None, targets, weights
        if useful.all():
            return data, targets, weights
        return data.select(useful), [target.of(useful, data) for target in targets], weights[useful]

    def _targets(self, data: RankingData) -> Sequence[Target]:
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


class StructuredSVM(MaxMarginRanker):
    """Structured SVM, trained directly for a ranking measure, with a duality gap as proof.

    Parameters
    ----------
    loss : str or Measure, or several
        ``"map"`` (SVMmap), ``"auc"`` (SVMauc), ``"ndcg@10"`` (SVMndcg), ``"ndcg"`` (no clip), ``"mrr@10"`` (SVMmrr),
        ``"dorm@10"`` (DORM: nDCG of the grades with weights for positions). A list trains for all at once (SVMcombo).
    C : float or "auto"
        Weight of the losses against ½‖w‖²: the papers' C, with the average over queries. ``"auto"``: chosen from
        ``C_grid`` on ``eval_set``.
    relevant_from : float
        Labels from this on are relevant (DORM takes the grades as they are).
    feature_map : str, optional
        What a ranking is described by, where there is a choice: ``"mrr"`` or ``"po"`` for MRR, ``"po"`` or ``"dorm"``
        for nDCG. ``"dorm:sqrt"`` and ``"dorm:log2"`` (the default decay) weight position r by 1/√(1+r) and
        1/log2(2+r); ``"dorm:sqrt@30"`` ends after 30 ranks. With several losses: a list, None where there is no choice.
    loss_weights : sequence of float, optional
        Weight of each of several losses; all 1 unless given.
    slack : {"separate", "shared"}
        Several losses: add up a query's hinges, or take the largest one.
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
        What C is chosen by; unless given the loss itself, the first of several.
    warm_start : bool
        Start from the last fit's ``coef_``.
    n_jobs : int, optional
        Threads; 1 unless given, -1 for all cores. The model does not depend on it.
    callback : callable, optional
        Called with a :class:`~rankwright.solvers.bundle.Check` after every pass; True stops training.

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
        The C used, and one row for each C that was tried: the value on ``eval_set``, if given, by the name of the
        measure; ``objective``, ``gap``, ``passes``; ``norm`` (‖w‖ of the problem that was solved), ``slack`` (average
        hinge), and ``slack_ratio``, ``objective_ratio``: relative to weights of 0.
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
        loss: str | Measure | Sequence[str | Measure] = "map",
        C: float | str = 1.0,
        *,
        relevant_from: float = 1,
        feature_map: str | Sequence[str | None] | None = None,
        loss_weights: Sequence[float] | None = None,
        slack: str = "separate",
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
        self.feature_map = feature_map
        self.loss_weights = loss_weights
        self.slack = slack

    def _losses(self) -> list[Loss]:
        return parse_losses(self.loss, self.feature_map, self.loss_weights)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not self.relevant_from > 0:
            raise InputError(f"relevant_from is {self.relevant_from!r}; expected a number above 0")
        if self.slack not in ("separate", "shared"):
            raise InputError(f"slack is {self.slack!r}; expected separate or shared")

    def _method(self) -> str:
        losses = self._losses()
        return losses[0].method if len(losses) == 1 else "svm-combo"

    def _targets(self, data: RankingData) -> Sequence[Target]:
        return [loss.target(data, self.relevant_from) for loss in self._losses()]

    def _measure_to_choose_by(self) -> Measure:
        return self._losses()[0].measure if self.eval_measure is None else parse_measure(self.eval_measure)
