"""What the rankers made of trees share: binning, growing, validation, and what is kept of a training."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from rankwright.data.dataset import RankingData
from rankwright.errors import InputError, InputWarning
from rankwright.measures import Measure, parse_measure
from rankwright.rankers.base import Ranker, weight_of_queries
from rankwright.rankers.problem import threads_of, without_weightless_rows
from rankwright.rankers.validation import validation_data, validation_value
from rankwright.solvers.boosting import Boosted, Round

__all__: list[str] = []

Array = npt.NDArray[Any]
NODE_SHARE = 0.7  # of rows and features, where nodes draw them
_SHARES = ("tree_rows", "tree_features")
_COUNTS = {
    "n_trees": (1, None),
    "max_leaves": (2, None),
    "max_bins": (2, 255),
    "min_rows": (1, None),
    "random_state": (0, None),
}
_MOST_ROWS = (1 << 24) - 1  # that a histogram can count


class TreeRanker(Ranker):
    """Fitting with trees; subclasses say what they are fitted to."""

    _allow_missing = True

    def __init__(
        self,
        n_trees: int = 300,
        learning_rate: float = 0.1,
        max_leaves: int = 20,
        *,
        max_bins: int = 255,
        min_rows: int = 20,
        tree_rows: float = 1.0,
        tree_features: float = 1.0,
        randomize_nodes: bool | float = False,
        patience: int | None = 50,
        eval_measure: str | Measure | None = None,
        random_state: int = 0,
        n_jobs: int | None = None,
        callback: Callable[[Round], Any] | None = None,
    ) -> None:
        self.n_trees = n_trees
        self.learning_rate = learning_rate
        self.max_leaves = max_leaves
        self.max_bins = max_bins
        self.min_rows = min_rows
        self.tree_rows = tree_rows
        self.tree_features = tree_features
        self.randomize_nodes = randomize_nodes
        self.patience = patience
        self.eval_measure = eval_measure
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.callback = callback

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

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
        eval_qid: Any = None,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : array-like, scipy sparse or RankingData
            Features; NaN is a missing value. A RankingData brings its labels and queries along. Sparse features are
            made dense.
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
            Validation data: the trees up to the best value are kept.
        eval_qid : array-like, optional
            Its query ids, if they are not in ``eval_set``.
        """
        self._check_parameters()
        data = self._gather(X, y, qid, group, reset=True)
        if data.n_docs > _MOST_ROWS:
            raise InputError(f"{data.n_docs:,} documents; trees can be grown on at most {_MOST_ROWS:,}")
        weights = weight_of_queries(data, sample_weight, query_weight)
        data, weights = without_weightless_rows(data, weights, sample_weight)
        valid = validation_data(self, eval_set, eval_qid)
        starts = data.indptr[:-1]
        different = np.maximum.reduceat(data.labels, starts) > np.minimum.reduceat(data.labels, starts)
        self.n_queries_, self.n_queries_skipped_ = int(different.sum()), int((~different).sum())
        if not different.any():
            what = "no query has documents of different labels: there is nothing to order, and no tree is grown"
            warnings.warn(what, InputWarning, stacklevel=2)
        self._grow_all(data, weights, valid, nothing=not different.any())
        return self

    def _grow_all(self, data: RankingData, weights: Array, valid: RankingData | None, *, nothing: bool) -> None:
        """Train on queries of these weights, and keep the model; without trees where there is nothing to order."""
        raise NotImplementedError

    def _grower(self, X: Array) -> Any:
        from rankwright.models.trees.binning import bin_features
        from rankwright.models.trees.grow import Grower

        threads = threads_of(self.n_jobs)
        share = float(self.randomize_nodes or 1.0)
        if isinstance(self.randomize_nodes, bool | np.bool_):
            share = NODE_SHARE if self.randomize_nodes else 1.0
        binned = bin_features(X, self.max_bins, self.random_state, threads)
        return Grower(binned, self.max_leaves, self.min_rows, share, share, threads)

    def _learner_settings(self, at: int = 0) -> dict[str, Any]:
        return {
            "shrinkage": self.learning_rate,
            "tree_rows": self.tree_rows,
            "tree_features": self.tree_features,
            "seed": self.random_state + 1_000_003 * at,
        }

    def _value_on(self, valid: RankingData | None) -> Callable[[Array], float] | None:
        return None if valid is None else validation_value(valid, self._measure_to_choose_by())

    def _measure_to_choose_by(self) -> Measure:
        return parse_measure(self.eval_measure or "nDCG@10")

    def _keep(self, boosted: Boosted) -> None:
        self.n_trees_ = boosted.n_rounds
        self.path_ = boosted.path
        if boosted.interrupted:
            what = f"training was interrupted; the model has the best {self.n_trees_} of {len(self.path_)} rounds"
            warnings.warn(what, InputWarning, stacklevel=4)

    @property
    def feature_importances_(self) -> Array:
        """By how much the splits of each feature lower the squared error, all in all 1."""
        return np.asarray(self._learnt().importance())

    def _learnt(self) -> Any:
        raise NotImplementedError

    def _check_parameters(self) -> None:
        for name, (least, most) in _COUNTS.items():
            check_count(name, getattr(self, name), least, most)
        if self.patience is not None:
            check_count("patience", self.patience, 1, or_none=True)
        for name in _SHARES:
            if not _is_number(getattr(self, name)) or not 0 < getattr(self, name) <= 1:
                raise InputError(f"{name} is {getattr(self, name)!r}; expected a share above 0 and up to 1")
        drawn = self.randomize_nodes
        if not isinstance(drawn, bool | np.bool_) and not (_is_number(drawn) and 0 < drawn <= 1):
            raise InputError(f"randomize_nodes is {drawn!r}; expected True, False, or a share up to 1")
        if not _is_number(self.learning_rate) or not 0 < self.learning_rate < np.inf:
            raise InputError(f"learning_rate is {self.learning_rate!r}; expected a number above 0")
        self._measure_to_choose_by()
        threads_of(self.n_jobs)

    def _training_facts(self) -> dict[str, Any]:
        values = [row.value for row in self.path_]
        best = (
            {} if not values or np.isnan(values[0]) or not self.n_trees_ else {"validation": values[self.n_trees_ - 1]}
        )
        facts = {"trees": self.n_trees_, "queries": self.n_queries_, "queries_skipped": self.n_queries_skipped_}
        return {**facts, **best}


def check_count(name: str, value: Any, least: int, most: int | None = None, *, or_none: bool = False) -> None:
    """Complain of a parameter that is no whole number from ``least`` up."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        limit = "" if most is None else f" to {most}"
        raise InputError(f"{name} is {value!r}; expected a whole number from {least}{limit}{', or None' * or_none}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def dense_features(data: RankingData) -> Array:
    """Features as a dense array, in the data's own order."""
    return np.ascontiguousarray(data.X.toarray() if sparse.issparse(data.X) else data.X)


def names_of(ranker: Ranker) -> tuple[str, ...] | None:
    """The names of the features, if the training data had some."""
    names = getattr(ranker, "feature_names_in_", None)
    return None if names is None else tuple(map(str, names))
