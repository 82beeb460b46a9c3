"""RankNet and LambdaRank: a linear model or a net with one hidden layer, trained query by query.

RankNet descends the mean of log(1 + e^−(s_i − s_j)) over a query's pairs with z_i > z_j. LambdaRank multiplies the
gradient of each pair by the change of a measure if the two swapped ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData, rows_in, stored
from rankwright.data.order import query_chunks
from rankwright.data.places import place_of
from rankwright.data.statistics import statistics_of
from rankwright.data.threads import threads_of
from rankwright.errors import InputError
from rankwright.measures import Measure, parse_measure
from rankwright.models.linear import LinearModel
from rankwright.nets.model import NetModel
from rankwright.rankers.base import CrossValidated, Task
from rankwright.rankers.cross_validation import Steps, Still, validation_value
from rankwright.rankers.facts import Kind, Notice, Outcome, Rounds
from rankwright.rankers.parameters import (
    FLAG,
    MEASURE,
    NONE,
    NOT_NEGATIVE,
    POSITIVE,
    Seed,
    common,
    integer,
    parameter,
    seed_of,
)

if TYPE_CHECKING:
    from rankwright.nets.training import Epoch, NetTrainer, TrainedNet

__all__ = ["LambdaRank", "RankNet"]

_RUN_DOCS = 1 << 16  # documents whose pairs are counted at a time


@dataclass(eq=False, repr=False, kw_only=True)
class NetRanker(CrossValidated):
    """Training a linear model or a net by gradients of pairs; subclasses say what the pairs weigh."""

    truncation: int | None = parameter(None, integer(1), NONE)
    hidden: int = parameter(10, integer(0))
    learning_rate: float | None = parameter(None, POSITIVE, NONE)
    epochs: int = parameter(100, integer(1))
    batch: int = parameter(1, integer(1))
    weight_decay: float = parameter(0.0, NOT_NEGATIVE)
    standardize: bool = parameter(True, FLAG)
    patience: int | None = parameter(20, integer(1), NONE)
    eval_measure: str | Measure | None = common("eval_measure")
    random_state: Seed = common("random_state")
    n_jobs: int | None = common("n_jobs")
    callback: Callable[[Epoch], Any] | None = common("callback")

    def _trainer(self, task: Task) -> NetTrainer:
        from rankwright.boosting.lambdas import Lambdas
        from rankwright.data.hashes import content_order
        from rankwright.nets.training import NetTrainer

        data, weights = task.data, task.weights.queries
        X, starts = stored(data)
        threads = threads_of(self.n_jobs)
        docs, queries = content_order(X, data.labels, data.indptr, weights, threads, starts)
        lambdas = Lambdas(data.labels, data.indptr, self._lambda_measure(), self.truncation, order=docs)
        return NetTrainer(
            X,
            lambdas,
            queries[task.useful[queries]],
            self._costs(data, weights),
            *statistics_of(data, threads).shift_and_scale(self.standardize),
            hidden=self.hidden,
            batch=self.batch,
            rate=self.learning_rate,
            decay=self.weight_decay,
            seed=seed_of(self.random_state),
            threads=threads,
            rows=rows_in(data),
        )

    def _train(self, task: Task) -> Outcome:
        from rankwright.nets.training import train_net

        data, valid, trainer = task.data, task.valid, self._trainer(task)
        measure = self.measure_to_choose_by()
        value = None
        if valid is not None:
            of_scores = validation_value(valid, measure)

            def value(theta: Array) -> float:
                return of_scores(place_of(valid).scores(self._model_of(*trainer.raw_weights(theta))))

        try:
            trained = train_net(
                trainer,
                epochs=self.epochs if task.choice is None else task.choice.setting,
                train=validation_value(data, measure),
                valid=value,
                patience=self.patience,
                callback=self.callback,
            )
        finally:
            trainer.close()
        notices = self._notices(trained)
        return self._keep(trained.path, trained.best_epoch, trainer.raw_weights(trained.theta), notices)

    def _not_chosen(self) -> str:
        return "the last epoch is kept"

    def _choices(self, n_queries: int) -> Sequence[int]:
        return range(1, self.epochs + 1)

    def _steps(self, task: Task) -> Steps:
        if task.useful.any():
            return _NetSteps(self, task)
        assert task.valid is not None
        self._learn_nothing(task)
        return Still(self.model_, task.valid)

    def _after_round(self, setting: int, value: float, seconds: float) -> Any:
        from rankwright.nets.training import Epoch

        return None if self.callback is None else self.callback(Epoch(setting, float("nan"), value, seconds))

    def _notices(self, trained: TrainedNet) -> tuple[Notice, ...]:
        epoch = trained.best_epoch
        if trained.interrupted:
            problem = f"training was interrupted; the model is that of epoch {epoch}"
            return (Notice(Kind.INTERRUPTED, problem, {"kept": epoch, "run": len(trained.path)}),)
        if not trained.overflow:
            return ()
        problem = self._too_large()
        if not trained.path:
            raise InputError(f"{problem} in the first epoch")
        values = {"learning_rate": self.learning_rate, "kept": epoch}
        return (Notice(Kind.OVERFLOW, f"{problem}; the model is that of epoch {epoch}", values),)

    def _too_large(self) -> str:
        return f"learning_rate={self.learning_rate} is too large: the weights grew without bounds"

    def _learn_nothing(self, task: Task) -> Outcome:
        inner = np.zeros((task.data.n_features, max(self.hidden, 1)))
        return self._keep((), 0, (inner, np.zeros(self.hidden), np.zeros(self.hidden)))

    def _keep(
        self, path: tuple[Epoch, ...], best: int, weights: tuple[Array, Array, Array], notices: tuple[Notice, ...] = ()
    ) -> Outcome:
        self.path_, self.best_epoch_, self.n_epochs_ = path, best, len(path)
        self._model = self._model_of(*weights)
        if not self.hidden:
            self.coef_ = weights[0][:, 0].copy()
        elif hasattr(self, "coef_"):
            del self.coef_
        return Outcome(notices=notices, rounds=Rounds("epochs", best, tuple(float(row.value) for row in path)))

    def _model_of(self, inner: Array, outer: Array, constants: Array) -> LinearModel | NetModel:
        if not self.hidden:
            return LinearModel(inner[:, 0], self._names())
        return NetModel(inner.T, constants, outer, self._names())

    def _lambda_measure(self) -> Measure | None:
        """The measure that weighs pairs; None if all weigh the same."""
        raise NotImplementedError

    def _costs(self, data: RankingData, weights: Array) -> Array:
        raise NotImplementedError

    def _training_facts(self) -> dict[str, Any]:
        return super()._training_facts() | {"epochs": self.n_epochs_, "best_epoch": self.best_epoch_}


@dataclass(eq=False, repr=False)
class RankNet(NetRanker):
    """RankNet: gradient steps on log(1 + e^−(s_i − s_j)) for the pairs of a query, averaged over its pairs.

    Parameters
    ----------
    truncation : int, optional
        Ignore pairs of documents that are both below this rank.
    hidden : int
        Units of the hidden layer; 0 for a linear model.
    learning_rate : float, optional
        Step size of plain gradient descent. None: Adam with its usual rate of 0.001, whose steps do not depend on the
        size of the gradients.
    epochs : int
        Most passes over the queries.
    batch : int
        Queries per update.
    weight_decay : float
        Every update shrinks the weights by this times the rate.
    standardize : bool
        Shift features to mean 0 and divide them by their standard deviation, folded into the first layer: the model
        takes raw features. Constant features are always left out.
    patience : int, optional
        Stop after this many epochs without a better value on ``eval_set``, or on average over the folds of ``cv``.
    cv : int or "auto", optional
        Without ``eval_set``: choose the number of epochs by cross-validation with this many folds of queries,
        then train on all queries. ``"auto"``: 5 folds, of which one alone is held out from 500 queries on.
    eval_measure : str or Measure, optional
        Measure to choose the best epoch by; default nDCG@10.
    random_state : int, RandomState or None
        Seed of the initial weights and of the order of queries.
    n_jobs : int, optional
        Threads; default 1, -1 for all cores. They share the work of large batches. The model does not depend on it.
    callback : callable, optional
        Called with an :class:`~rankwright.nets.training.Epoch` after every epoch; returning True stops training.

    Attributes
    ----------
    model_ : LinearModel or NetModel
        The trained model.
    coef_ : ndarray
        Weights of the raw features, with ``hidden=0`` only.
    n_epochs_, best_epoch_ : int
        Epochs run, and the epoch whose model was kept.
    path_ : tuple of Epoch
        The measure on training and validation data after every epoch, and seconds.
    cv_, n_queries_, n_queries_skipped_, training_
        As for :class:`LambdaMART`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[3.0], [2.0], [1.0]])
    >>> ranker = RankNet(hidden=0, epochs=10).fit(X, [2, 1, 0], ["q"] * 3)
    >>> bool(ranker.coef_[0] > 0)
    True
    """

    def method_name(self) -> str:
        """The name of the method, as `rankwright train --method` has it."""
        return "ranknet"

    def _lambda_measure(self) -> None:
        return None

    def _costs(self, data: RankingData, weights: Array) -> Array:
        return weights / np.maximum(_n_pairs(data), 1.0)


@dataclass(eq=False, repr=False)
class LambdaRank(NetRanker):
    """LambdaRank: RankNet with the gradient of each pair times the change of a measure if the two swapped ranks.

    Parameters
    ----------
    measure : str or Measure
        Measure to optimise: ``"ndcg@10"``, ``"map"``, ``"mrr"``, any registered measure.
    truncation : int, optional
        Ignore pairs of documents that are both below this rank.
    hidden, learning_rate, epochs, batch, weight_decay, standardize, patience, cv, random_state, n_jobs, callback
        As for :class:`RankNet`.
    eval_measure : str or Measure, optional
        Measure to choose the best epoch by; default ``measure``.

    Attributes
    ----------
    model_, coef_, n_epochs_, best_epoch_, path_, cv_, n_queries_, n_queries_skipped_, training_
        As for :class:`RankNet`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[3.0], [2.0], [1.0]])
    >>> ranker = LambdaRank("map", hidden=0, epochs=10).fit(X, [1, 0, 0], ["q"] * 3)
    >>> ranker.predict(X).argmax()
    np.int64(0)
    """

    measure: str | Measure = parameter("ndcg@10", MEASURE)
    _: KW_ONLY

    def method_name(self) -> str:
        """The name of the method, as `rankwright train --method` has it."""
        return "lambdarank"

    def _lambda_measure(self) -> Measure:
        return parse_measure(self.measure).resolve("letor")

    def _costs(self, data: RankingData, weights: Array) -> Array:
        return weights

    def _own_measure(self) -> Measure:
        return parse_measure(self.measure)


class _NetSteps:
    def __init__(self, ranker: NetRanker, task: Task) -> None:
        self._ranker, self._valid, self._trainer = ranker, task.valid, ranker._trainer(task)
        self._models: list[LinearModel | NetModel] = []

    def step(self) -> Array | None:
        """One more epoch; None once the weights have grown without bounds."""
        trainer, number = self._trainer, len(self._models) + 1
        if not (trainer.epoch(number) and np.isfinite(trainer.theta).all()):
            if not self._models:
                raise InputError(f"{self._ranker._too_large()} in the first epoch")
            return None
        assert self._valid is not None
        self._models.append(self._ranker._model_of(*(part.copy() for part in trainer.raw_weights(trainer.theta))))
        return place_of(self._valid).scores(self._models[-1])

    def model(self, number: int) -> LinearModel | NetModel:
        return self._models[number]

    def close(self) -> None:
        self._trainer.close()


def _n_pairs(data: RankingData) -> Array:
    """Pairs of documents with different labels in every query."""
    grades = np.unique(data.labels)
    counts = []
    for first, last in query_chunks(data.indptr, _RUN_DOCS):
        sizes = data.sizes[first:last]
        grade_of = np.searchsorted(grades, data.labels[data.indptr[first] : data.indptr[last]])
        kinds = np.bincount(
            np.repeat(np.arange(len(sizes)), sizes) * len(grades) + grade_of, minlength=len(sizes) * len(grades)
        )
        counts.append((sizes**2.0 - (kinds.reshape(len(sizes), -1) ** 2.0).sum(axis=1)) / 2.0)
    return np.concatenate(counts)
