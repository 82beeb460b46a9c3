"""RankNet and LambdaRank: a linear model or a net with one hidden layer, trained query by query.

RankNet descends the mean of log(1 + e^−(s_i − s_j)) over a query's pairs with z_i > z_j. LambdaRank multiplies the
force of each pair by what swapping the two would change of a measure.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from rankwright.data.dataset import RankingData
from rankwright.data.scaling import Standardizer
from rankwright.errors import InputError, InputWarning
from rankwright.measures import Measure, parse_measure
from rankwright.models.linear import LinearModel
from rankwright.models.net import NetModel
from rankwright.rankers.base import Ranker, weight_of_queries
from rankwright.rankers.problem import _scale, threads_of, without_weightless_rows
from rankwright.rankers.validation import validation_data, validation_value

__all__ = ["LambdaRank", "RankNet"]

Array = npt.NDArray[Any]


class _NetRanker(Ranker):
    """Fitting a linear model or a net by gradients of pairs; subclasses say what the pairs weigh."""

    coef_: Array
    path_: tuple[Any, ...]

    def __init__(
        self,
        *,
        truncation: int | None = None,
        hidden: int = 10,
        learning_rate: float | None = None,
        epochs: int = 100,
        batch: int = 1,
        weight_decay: float = 0.0,
        standardize: bool = True,
        patience: int | None = 20,
        eval_measure: str | Measure | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
        callback: Callable[[Any], Any] | None = None,
    ) -> None:
        self.truncation = truncation
        self.hidden = hidden
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.batch = batch
        self.weight_decay = weight_decay
        self.standardize = standardize
        self.patience = patience
        self.eval_measure = eval_measure
        self.random_state = random_state
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
        eval_qid: Any = None,
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
        eval_set : (X, y, qid), (X, y) or RankingData, optional
            Validation data: the best epoch is kept. Without it, the last one is.
        eval_qid : array-like, optional
            Query ids of the validation data, where ``eval_set`` is (X, y).
        """
        self._check_parameters()
        threads = threads_of(self.n_jobs)
        data = self._gather(X, y, qid, group, reset=True)
        weights = weight_of_queries(data, sample_weight, query_weight)
        data, weights = without_weightless_rows(data, weights, sample_weight)
        valid = validation_data(self, eval_set, eval_qid)
        low = np.minimum.reduceat(data.labels, data.indptr[:-1])
        useful = (np.maximum.reduceat(data.labels, data.indptr[:-1]) > low) & (weights > 0)
        self.n_queries_, self.n_queries_skipped_ = int(useful.sum()), int((~useful).sum())
        if not useful.any():
            what = "no query has documents of different labels: there is nothing to order, and all weights are 0"
            warnings.warn(what, InputWarning, stacklevel=2)
            self.path_, self.best_epoch_ = (), 0
            units = max(self.hidden, 1)
            self._keep(np.zeros((data.n_features, units)), np.zeros(self.hidden), np.zeros(self.hidden))
            return self
        self._train(data, weights, useful, valid, threads)
        return self

    def _train(self, data: RankingData, weights: Array, useful: Array, valid: RankingData | None, threads: int) -> None:
        from rankwright.objectives.content_order import content_order
        from rankwright.objectives.lambdas import Lambdas
        from rankwright.solvers.net_training import NetTrainer, train_net

        docs, queries = content_order(data.X, data.labels, data.indptr, weights)
        lambdas = Lambdas(data.labels, data.indptr, self._lambda_measure(), self.truncation, ties=docs)
        trainer = NetTrainer(
            data.X,
            lambdas,
            queries[useful[queries]],
            self._costs(data, weights / weights[useful].mean()),
            *moments(data, self.standardize),
            hidden=self.hidden,
            batch=self.batch,
            rate=self.learning_rate,
            decay=self.weight_decay,
            seed=_seed(self.random_state),
            threads=threads,
        )
        measure = self._measure_to_choose_by()
        value = None
        if valid is not None:
            of_scores = validation_value(valid, measure)

            def value(theta: Array) -> float:
                return of_scores(self._model_of(*trainer.raw_weights(theta)).score(valid.X))

        try:
            trained = train_net(
                trainer,
                epochs=self.epochs,
                train=validation_value(data, measure),
                n_docs=data.n_docs,
                valid=value,
                patience=self.patience,
                callback=self.callback,
            )
        finally:
            trainer.close()
        self.path_, self.best_epoch_ = trained.path, trained.best_epoch
        self._keep(*trainer.raw_weights(trained.theta))
        self._warn(trained)

    def _warn(self, trained: Any) -> None:
        if trained.interrupted:
            what = f"training was interrupted; the model is that of epoch {self.best_epoch_}"
            warnings.warn(what, InputWarning, stacklevel=4)
        elif trained.overflow:
            what = f"learning_rate={self.learning_rate} is too large: the weights grew without bounds"
            if not self.path_:
                raise InputError(f"{what} in the first epoch")
            warnings.warn(f"{what}; the model is that of epoch {self.best_epoch_}", InputWarning, stacklevel=4)

    def _keep(self, inner: Array, outer: Array, constants: Array) -> None:
        self.n_epochs_ = len(self.path_)
        self._model = self._model_of(inner, outer, constants)
        if not self.hidden:
            self.coef_ = inner[:, 0].copy()
        elif hasattr(self, "coef_"):
            del self.coef_

    def _model_of(self, inner: Array, outer: Array, constants: Array) -> LinearModel | NetModel:
        names = getattr(self, "feature_names_in_", None)
        names = None if names is None else tuple(map(str, names))
        if not self.hidden:
            return LinearModel(inner[:, 0], names)
        return NetModel(inner.T, constants, outer, names)

    def _lambda_measure(self) -> Measure | None:
        raise NotImplementedError

    def _costs(self, data: RankingData, weights: Array) -> Array:
        raise NotImplementedError

    def _measure_to_choose_by(self) -> Measure:
        return parse_measure(self.eval_measure or "nDCG@10")

    def _check_parameters(self) -> None:
        for name, least in {"hidden": 0, "epochs": 1, "batch": 1, "truncation": 1, "patience": 1}.items():
            value = getattr(self, name)
            if value is None and name in ("truncation", "patience"):
                continue
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise InputError(f"{name} is {value!r}; expected a whole number from {least}")
        rate, decay = self.learning_rate, self.weight_decay
        if rate is not None and not (isinstance(rate, Real) and 0 < float(rate) < np.inf):
            raise InputError(f"learning_rate is {rate!r}; expected a number above 0, or None")
        if not (isinstance(decay, Real) and 0 <= float(decay) < np.inf):
            raise InputError(f"weight_decay is {decay!r}; expected a number of at least 0")
        for name in ("measure", "eval_measure"):
            value = getattr(self, name, None)
            optional = name == "eval_measure" or not hasattr(self, name)
            if not isinstance(value, str | Measure) and not (value is None and optional):
                raise InputError(f"{name} is {value!r}; expected a measure such as 'ndcg@10'")
        self._measure_to_choose_by()
        self._lambda_measure()
        _seed(self.random_state)

    def _training_facts(self) -> dict[str, Any]:
        facts = {"epochs": self.n_epochs_, "best_epoch": self.best_epoch_}
        facts |= {"queries": self.n_queries_, "queries_skipped": self.n_queries_skipped_}
        if self.best_epoch_ and not np.isnan(self.path_[self.best_epoch_ - 1].value):
            facts["validation"] = self.path_[self.best_epoch_ - 1].value
        return facts


class RankNet(_NetRanker):
    """RankNet: gradient steps on log(1 + e^−(s_i − s_j)) for the pairs of a query, averaged over its pairs.

    Parameters
    ----------
    truncation : int, optional
        Leave out pairs of documents that are both below this rank.
    hidden : int
        Units of the hidden layer; 0: a linear model.
    learning_rate : float, optional
        By which the gradient of an update is multiplied: plain steps. None: steps by Adam's rule with its usual rate of
        0.001, whose length does not depend on the size of the gradients.
    epochs : int
        How often every query is looked at, at most.
    batch : int
        Queries per update.
    weight_decay : float
        In every update weights shrink by this times the rate.
    standardize : bool
        Shift features to mean 0 and divide them by their standard deviation; this is folded into the first layer, so
        that the model takes features as they come. Features that do not vary are left out in any case.
    patience : int, optional
        Epochs without a better value on ``eval_set`` after which training stops.
    eval_measure : str or Measure, optional
        What the best epoch is chosen by; nDCG@10 unless given.
    random_state : int
        Seed of the first weights and of the order of queries.
    n_jobs : int, optional
        Threads; 1 unless given, -1 for all cores. They share the work of large batches; the model does not depend on
        them.
    callback : callable, optional
        Called with an :class:`~rankwright.solvers.net_training.Epoch` after every epoch; True stops training.

    Attributes
    ----------
    model_ : LinearModel or NetModel
        What was learnt.
    coef_ : ndarray
        With ``hidden=0`` only: weights of the raw features.
    n_epochs_, best_epoch_ : int
        Epochs run, and which one the model comes from.
    path_ : tuple of Epoch
        The measure on training and validation data after every epoch, and seconds.
    n_queries_, n_queries_skipped_ : int
        Queries trained on, and those without an order to learn.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[3.0], [2.0], [1.0]])
    >>> ranker = RankNet(hidden=0, epochs=10).fit(X, [2, 1, 0], ["q"] * 3)
    >>> bool(ranker.coef_[0] > 0)
    True
    """

    def _method(self) -> str:
        return "ranknet"

    def _lambda_measure(self) -> None:
        return None

    def _costs(self, data: RankingData, weights: Array) -> Array:
        return weights / np.maximum(_n_pairs(data), 1.0)


class LambdaRank(_NetRanker):
    """LambdaRank: RankNet with the force of each pair times what swapping the two would change of a measure.

    Parameters
    ----------
    measure : str or Measure
        What to rise: ``"ndcg@10"``, ``"map"``, ``"mrr"``, any registered measure.
    truncation : int, optional
        Leave out pairs of documents that are both below this rank.
    hidden, learning_rate, epochs, batch, weight_decay, standardize, patience, random_state, n_jobs, callback
        As for :class:`RankNet`.
    eval_measure : str or Measure, optional
        What the best epoch is chosen by; ``measure`` unless given.

    Attributes
    ----------
    model_, coef_, n_epochs_, best_epoch_, path_, n_queries_, n_queries_skipped_
        As for :class:`RankNet`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[3.0], [2.0], [1.0]])
    >>> ranker = LambdaRank("map", hidden=0, epochs=10).fit(X, [1, 0, 0], ["q"] * 3)
    >>> ranker.predict(X).argmax()
    np.int64(0)
    """

    def __init__(
        self,
        measure: str | Measure = "ndcg@10",
        *,
        truncation: int | None = None,
        hidden: int = 10,
        learning_rate: float | None = None,
        epochs: int = 100,
        batch: int = 1,
        weight_decay: float = 0.0,
        standardize: bool = True,
        patience: int | None = 20,
        eval_measure: str | Measure | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
        callback: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(
            truncation=truncation,
            hidden=hidden,
            learning_rate=learning_rate,
            epochs=epochs,
            batch=batch,
            weight_decay=weight_decay,
            standardize=standardize,
            patience=patience,
            eval_measure=eval_measure,
            random_state=random_state,
            n_jobs=n_jobs,
            callback=callback,
        )
        self.measure = measure

    def _method(self) -> str:
        return "lambdarank"

    def _lambda_measure(self) -> Measure:
        return parse_measure(self.measure).resolve("letor")

    def _costs(self, data: RankingData, weights: Array) -> Array:
        return weights

    def _measure_to_choose_by(self) -> Measure:
        return parse_measure(self.eval_measure or self.measure)


def _n_pairs(data: RankingData) -> Array:
    """Pairs of documents of different labels in every query."""
    _, grades = np.unique(data.labels, return_inverse=True)
    query = data.query_of_row()
    n_grades = int(grades.max()) + 1
    kinds, sizes = np.unique(query * n_grades + grades, return_counts=True)
    return np.asarray((data.sizes**2.0 - np.bincount(kinds // n_grades, sizes**2.0, data.n_queries)) / 2.0)


def moments(data: RankingData, standardize: bool) -> tuple[Array, Array]:
    """What to subtract from each feature and what to divide it by; inf for features that do not vary."""
    scale = _scale(data)
    if not standardize:
        return np.zeros(data.n_features), np.where(np.isfinite(scale), 1.0, np.inf)
    if data.is_sparse:
        return np.bincount(data.X.indices, data.X.data, data.n_features) / data.n_docs, scale
    with np.errstate(over="ignore"):
        mean = data.X.mean(axis=0, dtype=np.float64)
    return mean if np.isfinite(mean).all() else Standardizer.fit(data).mean, scale


def _seed(random_state: Any) -> int:
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
        return int(random_state)
    try:
        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    except (ValueError, TypeError):
        raise InputError(f"random_state is {random_state!r}; expected a whole number from 0") from None
