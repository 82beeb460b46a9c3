"""AccuracySVM: a linear SVM that separates relevant documents from the others; its decision value is the score.

    minimise  ½(‖w‖² + b²) + (C/Σμ) Σ_i μ_i c_i max(0, 1 − y_i (w·x_i + b)),   y_i = ±1

over all documents of all queries: the baselines SVMacc, acc2, acc3 and acc4 of SIGIR'07. It ignores order,
which makes it a baseline. scikit-learn's LinearSVC (liblinear's dual coordinate descent) does the work.

liblinear shrinks the intercept b along with the weights, on features that standardising has centred; SVMlight, which
the paper used, leaves b free. That matters if relevant documents are rare: with b free (and with a large C here) the
best classifier may call everything not relevant, with weights of nearly 0 and an arbitrary order of documents.
``balance=True`` avoids that.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from rankwright._types import Array, Features
from rankwright.data import sparse
from rankwright.data.dataset import RankingData, batches, feature_bytes, rows_in, stored
from rankwright.data.scaling import QueryScaler, Standardizer
from rankwright.data.statistics import Statistics, statistics_of
from rankwright.data.threads import beside, free_memory, scratch
from rankwright.errors import InputError
from rankwright.maxmargin.cost import CostRanker, Trial, cost
from rankwright.measures import Measure, parse_measure
from rankwright.models.linear import LinearModel
from rankwright.rankers.base import Task
from rankwright.rankers.cross_validation import Steps, Still
from rankwright.rankers.facts import Kind, Notice, Outcome
from rankwright.rankers.parameters import FLAG, NONE, POSITIVE, Rule, Seed, common, integer, parameter, seed_of

__all__ = ["AccuracySVM"]

_SCALING = Rule("a name such as 'minmax'", lambda value: isinstance(value, str) and bool(QueryScaler(value)))
_VALUE_BYTES = 24  # a value in float64, and in liblinear's own form
_CHUNK_ROWS = 1 << 12
_DENSE_BYTES = 1 << 32  # that sparse features may take when standardising makes them dense
_METHODS = {
    (False, None): "svm-acc",
    (True, None): "svm-acc2",
    (False, "percentile"): "svm-acc3",
    (False, "minmax"): "svm-acc4",
}


@dataclass(eq=False, repr=False)
class AccuracySVM(CostRanker):
    """Classification SVM on relevant or not, as a ranker: SVMacc, acc2, acc3 and acc4 of SIGIR'07.

    SVMacc is the default; acc2 is ``balance=True``, acc3 ``query_scaling="percentile"``, acc4
    ``query_scaling="minmax"``. The work is done by scikit-learn's ``LinearSVC(loss="hinge")``.

    Parameters
    ----------
    C : float or "auto"
        Weight of the hinges, averaged over documents, against ½‖w‖²: LinearSVC's C is this one divided by the sum of
        the documents' weights (their number, without weights). ``"auto"`` chooses from ``C_grid`` on ``eval_set``, or
        by cross-validation.
    balance : bool
        Make a relevant document cost N/P times as much as another, for P relevant documents and N others in the
        training data.
    query_scaling : {"percentile", "minmax", "zscore"}, optional
        Scale features within each query first, in training and in ``predict``: see :class:`rankwright.QueryScaler`.
    relevant_from : float
        Lowest label that counts as relevant.
    standardize : bool
        Shift features to mean 0 and divide them by their standard deviation (after ``query_scaling``), folded back into
        ``coef_``. Makes sparse features dense. Without it LinearSVC may not converge for a large C, and may learn
        little more than the share of relevant documents for a small one.
    tol : float
        LinearSVC's: largest violation of the optimality conditions, in units of the margin.
    max_iter : int
        Most passes over the documents; training then stops with a warning.
    random_state : int, RandomState or None
        Seed of the order in which LinearSVC visits documents. The order in which they are given does not matter.
    C_grid : sequence of float, optional
        Values for ``C="auto"``; default: powers of ten from 1e-4 to 1e3.
    cv : int or "auto", optional
        As for :class:`StructuredSVM`.
    eval_measure : str or Measure, optional
        Measure to choose C by; default AP, with labels from ``relevant_from`` on as relevant.

    Attributes
    ----------
    coef_ : ndarray
        Weights of the features, after ``query_scaling``. The intercept is left out: it is the same for all documents.
    C_, C_path_
        The C used, and one row for each C tried.
    cv_ : CrossValidation or None
        What cross-validation found: its honest estimate ``value``, and out-of-fold ``scores``.
    objective_ : float
        Objective at the weights and the intercept found.
    n_iter_ : int
        Passes over the documents.
    n_docs_, n_relevant_, n_queries_ : int
        Documents trained on, the relevant ones among them, and their queries. Queries without relevant documents,
        or without others, count too.
    query_scaling_ : str or None
        The scaling that the weights were trained with.

    Notes
    -----
    A document with twice the weight of another (``sample_weight`` or ``query_weight``) counts twice in the cost,
    in Σμ, in N and in P, but not in the means and deviations of ``standardize``.

    scikit-learn's scorers (``make_scorer``) call ``predict`` without query ids: all rows are then scaled as one query.
    With ``query_scaling`` use :meth:`score`, or scale the data beforehand.

    Examples
    --------
    >>> import numpy as np
    >>> X, y, qid = np.array([[5.0], [3.0], [90.0], [10.0]]), [1, 0, 1, 0], ["a", "a", "b", "b"]
    >>> ranker = AccuracySVM(query_scaling="minmax").fit(X, y, qid)
    >>> scores = ranker.predict(X, qid)
    >>> bool(scores[0] == scores[2] > scores[1] == scores[3])
    True
    """

    C: float | str = cost()
    _: KW_ONLY
    balance: bool = parameter(False, FLAG)
    query_scaling: str | None = parameter(None, _SCALING, NONE)
    relevant_from: float = parameter(1, POSITIVE)
    standardize: bool = parameter(True, FLAG)
    tol: float = parameter(1e-4, POSITIVE)
    max_iter: int = parameter(100_000, integer(1, np.iinfo(np.int32).max))
    random_state: Seed = common("random_state")

    def _model_of(self, coef: Array) -> LinearModel:
        return LinearModel(coef, self._names(), self.query_scaling_)

    def _useful(self, data: RankingData) -> Array:
        return np.ones(data.n_queries, bool)

    def _train(self, task: Task) -> Outcome:
        good = task.data.labels >= self.relevant_from
        self.n_docs_, self.n_relevant_ = len(good), int(good.sum())
        self.query_scaling_ = self.query_scaling
        if good.any() and not good.all():
            return super()._train(task)
        which = "all documents are" if good.all() else "no document is"
        text = f"{which} relevant: there is nothing to tell apart, and all weights are 0"
        return replace(self._learn_nothing(task), notices=(Notice(Kind.NOTHING_TO_ORDER, text),))

    def _steps(self, task: Task) -> Steps:
        self.query_scaling_ = self.query_scaling
        good = task.data.labels >= self.relevant_from
        if good.any() and not good.all():
            return super()._steps(task)
        assert task.valid is not None
        return Still(self._model_of(np.zeros(task.data.n_features)), task.valid)

    def _path(self, task: Task) -> _Problem:
        data, weights = task.data, task.weights.documents
        _check_room(data, self.standardize)
        X, rows = stored(data)[0], rows_in(data)
        good = data.labels >= self.relevant_from
        if self.query_scaling is not None:
            X, rows = _scaled(QueryScaler(self.query_scaling), data), None
        statistics = statistics_of(data) if self.query_scaling is None else Statistics.of(X)
        order = _row_order(X, rows, statistics, good, weights)
        good, weights = good[order], weights[order]
        rows = order if rows is None else rows[order]
        X, scale = (
            _standardized(X, rows, statistics) if self.standardize else (_for_liblinear(X, rows), np.ones(X.shape[1]))
        )
        costs = weights / weights.sum()
        if self.balance:
            costs = costs * np.where(good, weights[~good].sum() / weights[good].sum(), 1.0)
        settings = {"tol": self.tol, "max_iter": self.max_iter, "random_state": seed_of(self.random_state)}
        return _Problem(X, good, costs, scale, settings)

    def _keep(self, solution: Mapping[str, float] | None, interrupted: bool) -> Outcome:
        figures = solution or {"objective": 0.0, "iterations": 0}
        self.objective_, self.n_iter_ = figures["objective"], int(figures["iterations"])
        notices = []
        if interrupted:
            notices.append(Notice(Kind.INTERRUPTED, "training was interrupted; the model is the best so far"))
        if self.n_iter_ >= self.max_iter:
            text = f"stopped at max_iter={self.max_iter} before the accuracy tol={self.tol:g} was reached"
            values = {"max_iter": self.max_iter, "tol": self.tol, "C": self.C_}
            notices.append(Notice(Kind.NOT_CONVERGED, f"{text} (C={self.C_:g})", values))
        return Outcome(notices=tuple(notices))

    def _own_measure(self) -> Measure:
        return parse_measure("AP").with_relevant_from(self.relevant_from)

    def method_name(self) -> str:
        """The name of the method, as `rankwright train --method` has it."""
        named = _METHODS.get((bool(self.balance), self.query_scaling_))
        return named or f"{'svm-acc2' if self.balance else 'svm-acc'}-{self.query_scaling_}"

    def _training_facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"C": self.C_, "objective": self.objective_, "iterations": self.n_iter_}
        return facts | super()._training_facts() | {"documents": self.n_docs_, "relevant": self.n_relevant_}


@dataclass(frozen=True, eq=False)
class _Problem:
    """Documents as LinearSVC takes them, for a path of C values."""

    X: Any
    good: Array
    costs: Array  # of each document, μ_i c_i / Σμ
    scale: Array  # of each feature; inf leaves it out
    settings: dict[str, Any]

    def solve(self, C: float) -> Trial:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.svm import LinearSVC

        svm = LinearSVC(loss="hinge", C=C, **self.settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # n_iter says whether it converged
            svm.fit(self.X, self.good, sample_weight=self.costs)
        w, b = svm.coef_.ravel(), float(svm.intercept_[0])
        hinges = np.maximum(0.0, 1.0 - np.where(self.good, 1.0, -1.0) * (self.X @ w + b))
        objective = 0.5 * (w @ w + b * b) + C * (self.costs @ hinges)
        figures = {"objective": float(objective), "iterations": int(np.max(svm.n_iter_))}
        return Trial(w / self.scale, figures, figures)

    def close(self) -> None: ...


def _check_room(data: RankingData, dense: bool) -> None:
    """Reject data that does not fit into memory as LinearSVC needs it."""
    n_values = data.n_docs * data.n_features if dense or not data.is_sparse else feature_bytes(data) // 4
    needed, free = n_values * _VALUE_BYTES, free_memory()
    if free is not None and needed > free:
        problem = (
            f"svm-acc takes all features into memory, {needed / 1e6:,.0f} MB here, and {free / 1e6:,.0f} MB are free"
        )
        raise InputError(f"{problem}; expected fewer documents, or a method that reads them in place, such as svm-map")


def _scaled(scaler: QueryScaler, data: RankingData) -> Any:
    """Features scaled within each query, in a file if they come from one and are large."""
    unscaled = stored(data)[0]
    if sparse.issparse(unscaled):
        return scaler.transform_arrays(data.X, data.indptr)
    X = scratch((data.n_docs, data.n_features), unscaled.dtype, beside(unscaled))
    first = 0
    for rows, indptr in batches(data, at_once=False):
        X[first : first + len(rows)] = scaler.transform_arrays(rows, indptr)
        first += len(rows)
    return X


def _row_order(X: Features, rows: Array | None, statistics: Statistics, good: Array, weights: Array) -> Array:
    """An order of the rows that depends on their content only, so that the model does not depend on the order given.

    Rows are sorted by a fixed random combination of their features, which only equal rows share.
    """
    mix = np.random.default_rng(0).uniform(0.5, 1.0, X.shape[1]) / np.maximum(
        statistics.largest, np.finfo(np.float64).tiny
    )
    scores = LinearModel(mix).score(X)
    return np.lexsort((weights, good, scores if rows is None else scores[rows]))


def _standardized(X: Features, rows: Array, statistics: Statistics) -> tuple[Array, Array]:
    """Dense rows of mean 0 and deviation 1, and the deviations; constant features become 0, their scale inf."""
    if sparse.issparse(X) and len(rows) * X.shape[1] * 8 > _DENSE_BYTES:
        size = f"{len(rows) * X.shape[1] * 8 / 1e9:,.0f} GB"
        raise InputError(f"standardising makes sparse features dense, {size} here; expected standardize=False")
    scale = statistics.scale
    flat = np.isinf(scale)
    standardizer = Standardizer(statistics.means, np.where(flat, 1.0, scale))
    standard = np.empty((len(rows), X.shape[1]))
    for start in range(0, len(rows), _CHUNK_ROWS):
        block = X[rows[start : start + _CHUNK_ROWS]]
        block = (block.toarray() if sparse.issparse(block) else block).astype(np.float64, copy=False)
        standard[start : start + _CHUNK_ROWS] = standardizer.transform(block)
    standard[:, flat] = 0.0
    return standard, scale


def _for_liblinear(X: Features, rows: Array) -> Any:
    """Rows in float64; sparse ones with the 32-bit indices that liblinear needs, if possible."""
    X = X[rows].astype(np.float64, copy=False)
    if sparse.issparse(X) and max(X.nnz, *X.shape) < np.iinfo(np.int32).max:
        arrays = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
        X = sparse.csr_matrix(arrays, shape=X.shape)
    return X
