"""Warmups: the parts of a method's training that share no code, each run on a few documents so that numba compiles it.

numba compiles one function at a time in a process, whatever the number of threads, and keeps what it compiled on disk,
so several processes can compile parts at once. A warmup uses the components of the real training: nobody keeps a list
of signatures, and what a warmup misses, the training compiles. Whether anything is left to do is read from the index
on disk of one large kernel (10 ms).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.caching import is_compiled
from rankwright.data import sparse
from rankwright.data.dataset import RankingData
from rankwright.data.statistics import Statistics
from rankwright.training.methods import METHODS, Method, parse_method

_QUERIES, _DOCS, _FEATURES = 12, 12, 3
_ALONE = ("svm-map", "svm-auc", "svm-ndcg-nc")  # trained from weights of 0


@dataclass(frozen=True)
class Warmup:
    """One part of training, to be compiled by itself.

    `name`: the same name compiles the same code, in all methods that share it. `run`: trains on data that is stored as
    the real data is. `kernel`: the largest function that it compiles, with its module: if that is on disk, so is the
    rest. `needs_form`: whether the code depends on how features are stored.
    """

    name: str
    run: Callable[[RankingData], None]
    kernel: str
    needs_form: bool = False

    def is_compiled(self) -> bool:
        """Whether code of its kernel is on disk."""
        module, name = self.kernel.split(":")
        return is_compiled(getattr(importlib.import_module(module), name))


def warmups(method: str) -> list[Warmup]:
    """The parts of a method that can be compiled apart from each other, in the order in which to begin them.

    Examples
    --------
    >>> [part.name for part in warmups("svm-map")]
    ['planes', 'statistics', 'hinge map']
    """
    parts = _of_method(parse_method(method))
    return list({part.name: part for part in sorted(parts, key=lambda part: part.needs_form)}.values())


def form_of(data: RankingData) -> str:
    """How features are stored, in a word."""
    return f"{'csr' if data.is_sparse else 'dense'}-{data.X.dtype.name}"


def few_documents(form: str) -> RankingData:
    """Data of a form: some queries of documents drawn at random, with labels from 0 to 2."""
    rng = np.random.default_rng(0)
    stored, dtype = form.split("-")
    X = rng.random((_QUERIES * _DOCS, _FEATURES)).astype(dtype)
    labels = rng.integers(0, 3, len(X))
    labels[::_DOCS], labels[1::_DOCS] = 0, 2  # every query has an order
    return RankingData.from_arrays(
        sparse.csr_array(X) if stored == "csr" else X, labels, np.repeat(np.arange(_QUERIES), _DOCS)
    )


def _of_method(method: Method) -> Iterator[Warmup]:
    yield Warmup("statistics", _statistics, "rankwright.data.kernels:carry", True)
    if method.kind == "AutoRanker":
        for name in ("svm-map", "lambdamart", "lambdarank", "svm-ndcg-nc", "rank-svm"):
            yield from _of_method(parse_method(name))
    elif method.kind in ("StructuredSVM", "RankingSVM"):
        hinge = "rankwright.maxmargin.hinge:_evaluate"
        yield Warmup("planes", _planes, "rankwright.maxmargin.smoothed:minimise")
        if method.kind == "StructuredSVM" and method.name not in _ALONE:
            yield Warmup("hinge map", partial(_hinge, METHODS["svm-map"]), hinge, True)  # the ramp bound's start
        yield Warmup(f"hinge {method.loss or method.name}", partial(_hinge, method), hinge, True)
    if method.kind in ("LambdaRank", "RankNet"):
        yield Warmup("net", _net, "rankwright.nets.training:run_groups", True)
    if method.kind in ("LambdaRank", "LambdaMART", "LambdaBoost"):
        yield Warmup("lambdas", _lambdas, "rankwright.boosting.lambdas:_queries")
    if method.kind in ("LambdaMART", "McRank"):
        yield Warmup("trees", _trees, "rankwright.boosting.histograms:look")
        yield Warmup("bins", _bins, "rankwright.boosting.predict:_masked_scores", True)


class _Hinge:
    """max(0, 1 − w·x) of a few blocks, as an objective of the bundle solver."""

    n_blocks, n_features = 2 * _QUERIES, _FEATURES

    def __init__(self) -> None:
        self._rows = np.random.default_rng(0).normal(size=(self.n_blocks, self.n_features))

    def evaluate(self, w: Array) -> Any:
        from rankwright.maxmargin.hinge import Planes

        violated = self._rows @ w < 1.0
        losses, vectors = violated.astype(np.float64), self._rows * violated[:, None]
        return Planes(losses, vectors, losses - vectors @ w)

    def sample(self) -> Array:
        return self._rows


def _statistics(data: RankingData) -> None:
    _ = Statistics.of(data).deviations


def _planes(_: RankingData) -> None:
    from rankwright.maxmargin.bundle import PlaneBook, solve

    objective = _Hinge()
    solve(objective, PlaneBook(objective.n_blocks, 16, objective.n_features), tol=1e-3, max_passes=2)


def _hinge(method: Method, data: RankingData) -> None:
    """A pass over the data: the order of documents, most violated rankings, their planes."""
    ranker: Any = method.make(C=1.0, standardize=False)
    zeros = np.zeros(data.n_features)
    vars(data)["_statistics"] = Statistics(data.n_docs, zeros, zeros + 1.0, zeros, None, None)  # another part's work
    ranker.warm_up(data)


def _lambdas(data: RankingData) -> None:
    from rankwright.boosting.rounds import LambdaSettings

    settings = LambdaSettings.of("ndcg", 100, nearness=0.03, normalize=True)
    gradients = settings.on(data.labels, data.indptr, np.ones(data.n_queries), None, 1)
    gradients.evaluate(np.zeros(data.n_docs))


@dataclass(frozen=True, eq=False)
class _NoGradients:
    """Gradients of 0, of the same types as a measure's."""

    lambdas: Any
    kernel: Any

    @property
    def indptr(self) -> Array:
        return self.lambdas.indptr

    @property
    def docs(self) -> Array:
        return self.lambdas.docs

    def space(self, longest: int) -> Any:
        return self.lambdas.space(longest)

    def one_query(self, q: int, scores: Array) -> tuple[Array, Array]:
        return np.zeros_like(scores), np.zeros_like(scores)


def _no_change(q: int, scores: Array, setup: Any, space: Any, gradients: Array, weights: Array) -> None:
    for i in range(scores.size):
        gradients[i] = weights[i] = 0.0


def _net(data: RankingData) -> None:
    """Updates of a net, with gradients of 0."""
    from rankwright.boosting.lambdas import Lambdas
    from rankwright.measures import parse_measure
    from rankwright.models.products import compiled
    from rankwright.nets.training import NetTrainer

    lambdas = Lambdas(data.labels, data.indptr, parse_measure("ndcg").resolve("letor"))
    gradients = _NoGradients(lambdas, (compiled(_no_change, lambdas.signature), lambdas.setup))
    groups, ones = np.arange(data.n_queries), np.ones(data.n_features)
    trainer = NetTrainer(data.X, gradients, groups, np.ones(data.n_queries), 0.0 * ones, ones, hidden=1)
    try:
        trainer.epoch(1)
    finally:
        trainer.close()


def _trees(data: RankingData) -> None:
    from rankwright.boosting.binning import BinnedFeatures
    from rankwright.boosting.grow import Grower, LocalHistograms
    from rankwright.boosting.learner import LocalLearner

    n = data.n_docs
    words = (np.arange(n, dtype=np.uint64) % np.uint64(2)).reshape(1, -1)
    source = LocalHistograms(BinnedFeatures(words, (np.array([0.5]),)))
    learner = LocalLearner(Grower(source, max_leaves=2, min_rows=1), np.empty((n, 1)), shrinkage=0.1, newton=True)
    try:
        learner.fit(np.arange(n) % 2 - 0.5, np.ones(n), np.zeros(n))
    finally:
        source.close()


def _bins(data: RankingData) -> None:
    from rankwright.boosting.binning import bin_features
    from rankwright.boosting.forest import Forest, Tree
    from rankwright.boosting.predict import add_scores
    from rankwright.boosting.training_rows import dense_features
    from rankwright.boosting.tree_model import Coding

    X = dense_features(data, Coding({}, ())).X
    bin_features(X, 2, order=np.arange(data.n_docs))
    numbers, thresholds = np.array([0, -1, -1], np.int32), np.array([0.5, 0.0, 0.0])
    left, values = np.array([1, 0, 0], np.int32), np.array([0.0, -1.0, 1.0])
    tree = Tree(numbers, thresholds, np.zeros(3, np.bool_), left, values, values, values)
    add_scores(Forest.of([tree]), X, np.zeros(len(X)))
