"""AccuracySVM: a linear SVM that tells relevant documents from the others, its decision value the score.

    minimise  ½(‖w‖² + b²) + (C/Σμ) Σ_i μ_i c_i max(0, 1 − y_i (w·x_i + b)),   y_i = ±1

over all documents of all queries: the baselines SVMacc, acc2, acc3 and acc4 of SIGIR'07. It knows nothing of order,
which is the point of comparing with it. scikit-learn's LinearSVC (liblinear's dual coordinate descent) does the work.

liblinear shrinks the intercept b along with the weights, on features that standardising has centred; SVMlight, which
the paper used, leaves b free. That matters where relevant documents are few: with b free (and with a large C here) the
best classifier may be one that calls everything not relevant, with weights of nearly 0, and the order of the documents
is then whatever is left. ``balance=True`` does not have that trouble.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwright.data.dataset import RankingData
from rankwright.data.scaling import QueryScaler, Standardizer
from rankwright.errors import InputError, InputWarning
from rankwright.evaluation.table import evaluate
from rankwright.measures import Measure, parse_measure
from rankwright.models.linear import LinearModel
from rankwright.rankers.base import LinearRanker, _row_weights, weight_of_queries
from rankwright.rankers.max_margin import DEFAULT_GRID

__all__ = ["AccuracySVM"]

Array = npt.NDArray[Any]
_NO_SPREAD = 1e-10  # of the largest value: a feature that varies less is taken as constant
_DENSE_BYTES = 1 << 32  # that sparse features may take when standardising makes them dense
_METHODS = {
    (False, None): "svm-acc",
    (True, None): "svm-acc2",
    (False, "percentile"): "svm-acc3",
    (False, "minmax"): "svm-acc4",
}


class AccuracySVM(LinearRanker):
    """Classification SVM on relevant or not, as a ranker: SVMacc, acc2, acc3 and acc4 of SIGIR'07.

    SVMacc is the default; acc2 is ``balance=True``, acc3 ``query_scaling="percentile"``, acc4
    ``query_scaling="minmax"``. The work is done by scikit-learn's ``LinearSVC(loss="hinge")``.

    Parameters
    ----------
    C : float or "auto"
        Weight of the hinges against ½‖w‖², with the average over documents, so that it does not depend on how many
        there are: LinearSVC's C is this one divided by the sum of the documents' weights (their number, without
        weights). ``"auto"``: chosen from ``C_grid`` on ``eval_set``.
    balance : bool
        Let a relevant document cost N/P times as much as another, where the training data has P relevant documents and
        N others.
    query_scaling : {"percentile", "minmax", "zscore"}, optional
        Scale features within each query first, in training and in ``predict``: see :class:`rankwright.QueryScaler`.
    relevant_from : float
        Labels from this on are relevant.
    standardize : bool
        Shift features to mean 0 and divide them by their standard deviation (after ``query_scaling``), folded back into
        ``coef_``. Sparse features become dense for it. Without it LinearSVC may not get to the end for a large C, and
        may learn little more than how many documents are relevant for a small one.
    tol : float
        LinearSVC's: how far the most violated condition of optimality may be off, in units of the margin.
    max_iter : int
        Passes over the documents at which training stops anyway, with a warning.
    random_state : int
        Of the order in which LinearSVC looks at documents. The order in which they were given does not matter.
    C_grid : sequence of float, optional
        For ``C="auto"``; powers of ten from 1e-4 to 1e3 unless given.
    eval_measure : str or Measure, optional
        What C is chosen by; AP unless given.

    Attributes
    ----------
    coef_ : ndarray
        Weights of the features (with ``query_scaling`` of the scaled ones). The intercept is left out: it is the same
        for all documents.
    C_, C_path_
        The C used; with ``eval_set`` one row for each C that was tried.
    objective_ : float
        The objective at the weights and the intercept that were found.
    n_iter_ : int
        Passes over the documents.
    n_docs_, n_relevant_, n_queries_ : int
        Documents trained on, the relevant ones among them, and their queries. Queries with relevant documents only, or
        with none, count as well.
    query_scaling_ : str or None
        The scaling that the weights belong to.

    Notes
    -----
    A weight of 2 (``sample_weight`` or ``query_weight``) counts a document twice in the cost, in Σμ, in N and in P, but
    not in the means and deviations of ``standardize``.

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

    __metadata_request__predict = {"qid": True}  # noqa: RUF012 - read by scikit-learn

    def __init__(
        self,
        C: float | str = 1.0,
        *,
        balance: bool = False,
        query_scaling: str | None = None,
        relevant_from: float = 1,
        standardize: bool = True,
        tol: float = 1e-4,
        max_iter: int = 100_000,
        random_state: int | None = 0,
        C_grid: Sequence[float] | None = None,
        eval_measure: str | Measure | None = None,
    ) -> None:
        self.C = C
        self.balance = balance
        self.query_scaling = query_scaling
        self.relevant_from = relevant_from
        self.standardize = standardize
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.C_grid = C_grid
        self.eval_measure = eval_measure

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
            Query id per row, of any type, in any order. Matters with ``query_scaling``, ``query_weight`` only.
        group : array-like of int, optional
            Instead of ``qid``: rows per query.
        sample_weight : array-like, optional
            Weight per row; rows of weight 0 are left out.
        query_weight : mapping or array-like, optional
            Weight of each query's documents, as ``{qid: weight}`` or per row.
        eval_set : (X, y, qid) or RankingData, optional
            Validation data; needed for ``C="auto"``.
        """
        self._check_parameters()
        data = self._gather(X, y, qid, group, reset=True)
        weights = _weight_of_documents(data, sample_weight, query_weight)
        valid = None if eval_set is None else self._validation(eval_set)
        if self.C == "auto" and valid is None:
            raise InputError("C='auto' chooses C on validation data; give eval_set=(X, y, qid)")
        kept = weights > 0
        good = data.labels[kept] >= self.relevant_from
        self.n_docs_, self.n_relevant_ = len(good), int(good.sum())
        self.n_queries_ = len(np.unique(data.query_of_row()[kept]))
        self.query_scaling_ = self.query_scaling
        if good.all() or not good.any():
            return self._keep_nothing(data, "all documents are" if good.all() else "no document is")
        problem = _Problem.of(self, data, weights)
        self._fit_path(problem, valid)
        if self.n_iter_ >= self.max_iter:
            what = f"stopped at max_iter={self.max_iter} before the weights were within tol={self.tol:g}"
            warnings.warn(f"{what} (C={self.C_:g})", ConvergenceWarning, stacklevel=2)
        return self

    def predict(self, X: Any, qid: Any = None, group: Any = None) -> Array:
        """Scores of documents, one per row in the order given, higher is better.

        Parameters
        ----------
        X : array-like, scipy sparse or RankingData
            Features; a RankingData brings its queries along.
        qid, group : array-like, optional
            Query id per row, or rows per query. They matter with ``query_scaling`` only; without them all rows are then
            one query.
        """
        check_is_fitted(self, "coef_")
        if not isinstance(X, RankingData):
            X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
            if qid is None and group is None:
                return self.model_.score(X)
            X = RankingData.from_arrays(X, np.zeros(X.shape[0]), qid, group=group)
        elif qid is not None or group is not None:
            raise InputError("a RankingData has its queries; leave out qid and group")
        return X.to_caller_order(self.model_.score(X.X, X.feature_names, X.indptr))

    @property
    def model_(self) -> LinearModel:
        """The fitted model, apart from its training."""
        plain = super().model_
        return LinearModel(plain.coef, plain.feature_names, self.query_scaling_)

    def _fit_path(self, problem: _Problem, valid: RankingData | None) -> None:
        tried = DEFAULT_GRID if self.C_grid is None else self.C_grid
        grid = sorted(float(C) for C in tried) if self.C == "auto" else [float(self.C)]
        measure = parse_measure(self.eval_measure or "AP")
        best: tuple[float, float, _Solution] | None = None
        rows = []
        for C in grid:
            solution = problem.solve(C)
            value = float("nan")
            if valid is not None:
                self.coef_ = solution.coef
                value = evaluate(valid, self.predict(valid), measures=[measure]).means[str(measure)]
                row = {"C": C, str(measure): value, "objective": solution.objective}
                rows.append({**row, "iterations": solution.n_iter})
            if best is None or value > best[1]:
                best = (C, value, solution)
        assert best is not None
        self.C_, _, solution = best
        self.coef_, self.objective_, self.n_iter_ = solution.coef, solution.objective, solution.n_iter
        self.C_path_ = rows

    def _keep_nothing(self, data: RankingData, which: str) -> Self:
        what = f"{which} relevant: there is nothing to tell apart, and all weights are 0"
        warnings.warn(what, InputWarning, stacklevel=3)
        self.coef_ = np.zeros(data.n_features)
        self.C_ = float("nan") if self.C == "auto" else float(self.C)
        self.objective_, self.n_iter_, self.C_path_ = 0.0, 0, []
        return self

    def _check_parameters(self) -> None:
        if self.C != "auto" and not _is_positive(self.C):
            raise InputError(f"C is {self.C!r}; expected a number above 0, or 'auto'")
        if self.query_scaling is not None:
            if not isinstance(self.query_scaling, str):
                raise InputError(f"query_scaling is {self.query_scaling!r}; expected a name such as 'minmax', or None")
            QueryScaler(self.query_scaling)
        for name in ("relevant_from", "tol"):
            if not _is_positive(getattr(self, name)):
                raise InputError(f"{name} is {getattr(self, name)!r}; expected a number above 0")
        if not isinstance(self.max_iter, Integral) or self.max_iter < 1:
            raise InputError(f"max_iter is {self.max_iter!r}; expected a whole number from 1")
        if self.C_grid is not None and len(self.C_grid) == 0:
            raise InputError("C_grid is empty; expected numbers above 0")
        for C in () if self.C_grid is None else self.C_grid:
            if not _is_positive(C):
                raise InputError(f"C_grid holds {C!r}; expected numbers above 0")

    def _validation(self, eval_set: Any) -> RankingData:
        if isinstance(eval_set, RankingData):
            return eval_set
        X, y, qid = eval_set
        return self._gather(X, y, qid, None, reset=False)

    def _method(self) -> str:
        named = _METHODS.get((bool(self.balance), self.query_scaling_))
        return named or f"{'svm-acc2' if self.balance else 'svm-acc'}-{self.query_scaling_}"

    def _training_facts(self) -> dict[str, Any]:
        return {
            "C": self.C_,
            "objective": self.objective_,
            "iterations": self.n_iter_,
            "queries": self.n_queries_,
            "documents": self.n_docs_,
            "relevant": self.n_relevant_,
        }


@dataclass(frozen=True)
class _Solution:
    coef: Array
    objective: float
    n_iter: int


@dataclass(frozen=True, eq=False)
class _Problem:
    """Documents as LinearSVC is given them, for a path of C values."""

    X: Any
    good: Array
    costs: Array  # of each document, μ_i c_i / Σμ
    scale: Array  # of each feature; inf leaves it out
    settings: dict[str, Any]

    @classmethod
    def of(cls, ranker: AccuracySVM, data: RankingData, weights: Array) -> _Problem:
        kept = weights > 0
        X, weights = data.X if kept.all() else data.X[kept], weights[kept]
        good = data.labels[kept] >= ranker.relevant_from
        if ranker.query_scaling is not None:
            sizes = np.bincount(data.query_of_row()[kept], minlength=data.n_queries)
            X = QueryScaler(ranker.query_scaling).transform_arrays(X, np.concatenate([[0], np.cumsum(sizes)]))
        order = _row_order(X, good, weights)
        X, good, weights = X[order], good[order], weights[order]
        X, scale = _standardized(X) if ranker.standardize else (_for_liblinear(X), np.ones(X.shape[1]))
        costs = weights / weights.sum()
        if ranker.balance:
            costs = costs * np.where(good, weights[~good].sum() / weights[good].sum(), 1.0)
        settings = {name: getattr(ranker, name) for name in ("tol", "max_iter", "random_state")}
        return cls(X, good, costs, scale, settings)

    def solve(self, C: float) -> _Solution:
        """Train for one C."""
        svm = LinearSVC(loss="hinge", C=C, **self.settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # n_iter tells
            svm.fit(self.X, self.good, sample_weight=self.costs)
        w, b = svm.coef_.ravel(), float(svm.intercept_[0])
        hinges = np.maximum(0.0, 1.0 - np.where(self.good, 1.0, -1.0) * (self.X @ w + b))
        objective = 0.5 * (w @ w + b * b) + C * (self.costs @ hinges)
        return _Solution(w / self.scale, float(objective), int(np.max(svm.n_iter_)))


def _weight_of_documents(data: RankingData, sample_weight: Any, query_weight: Any) -> Array:
    """One weight per row of the data, from weights in the caller's order of rows."""
    weights = weight_of_queries(data, None, query_weight)[data.query_of_row()]
    if sample_weight is not None:
        weights = weights * _row_weights(data, sample_weight, "sample_weight")
    if not weights.any():
        raise InputError("all weights are zero; expected a document that counts")
    return weights


def _row_order(X: Any, good: Array, weights: Array) -> Array:
    """An order of the rows that depends on what is in them only, so that the model does not depend on the order given.

    Rows are sorted by a fixed random combination of their features: only equal ones have the same.
    """
    largest = np.maximum(_largest(X), np.finfo(np.float64).tiny)
    mix = np.random.default_rng(0).uniform(0.5, 1.0, X.shape[1]) / largest
    return np.lexsort((weights, good, LinearModel(mix).score(X)))


def _standardized(X: Any) -> tuple[Array, Array]:
    """Dense features of mean 0 and deviation 1, and the deviations; what does not vary becomes 0, its scale inf."""
    if sparse.issparse(X):
        if X.shape[0] * X.shape[1] * 8 > _DENSE_BYTES:
            size = f"{X.shape[0] * X.shape[1] * 8 / 1e9:,.0f} GB"
            raise InputError(f"standardising makes sparse features dense, {size} here; expected standardize=False")
        X = X.toarray()
    X = X.astype(np.float64, copy=False)
    standardizer = Standardizer.fit(X)
    flat = (X.min(axis=0) == X.max(axis=0)) | (standardizer.scale <= _NO_SPREAD * _largest(X))
    X = standardizer.transform(X)
    X[:, flat] = 0.0
    return X, np.where(flat, np.inf, standardizer.scale)


def _for_liblinear(X: Any) -> Any:
    """Features in float64; sparse ones with the 32-bit indices that liblinear wants, where they are enough."""
    X = X.astype(np.float64, copy=False)
    if sparse.issparse(X) and max(X.nnz, *X.shape) < np.iinfo(np.int32).max:
        parts = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
        X = sparse.csr_matrix(parts, shape=X.shape)
    return X


def _largest(X: Any) -> Array:
    """The largest absolute value of each column."""
    ends = (X.min(axis=0), X.max(axis=0))
    low, high = (np.asarray(end.toarray() if sparse.issparse(end) else end, np.float64).ravel() for end in ends)
    return np.maximum(np.abs(low), np.abs(high))


def _is_positive(value: Any) -> bool:
    return isinstance(value, Real) and 0 < float(value) < np.inf
