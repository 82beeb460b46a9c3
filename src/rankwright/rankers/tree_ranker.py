"""What tree rankers share: parameters, binning and growing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.data.parts import column_of, stored
from rankwright.data.threads import threads_of
from rankwright.engines.features import is_parted
from rankwright.errors import InputError
from rankwright.models.trees.categories import Coding, common_categories, most_common
from rankwright.models.trees.forest import Forest
from rankwright.models.trees.model import TreeModel
from rankwright.rankers.base import Task
from rankwright.rankers.boosted import BoostedRanker
from rankwright.rankers.located import Batches, Located, located
from rankwright.rankers.parameters import (
    DEVICE,
    DIRECTIONS,
    FEATURES,
    FLAG,
    NONE,
    POSITIVE,
    SEED,
    SHARE,
    one_of,
    parameter,
    places_of,
    seed_of,
    whole,
)
from rankwright.rankers.parted_categories import CategoryCounts

__all__: list[str] = []

Array = npt.NDArray[Any]
NODE_SHARE = 0.7  # of rows and features, where nodes draw them
_MOST_ROWS = 1 << 30  # whose sums fit a histogram
_SEED_STEP = 1_000_003  # between the trees of two classes


@dataclass(eq=False, repr=False)
class TreeRanker(BoostedRanker):
    """Boosting with trees; subclasses say what they are fitted to."""

    _allow_missing: ClassVar[bool] = True
    _uses_categories: ClassVar[bool] = True
    _unit: ClassVar[str] = "trees"
    _nothing: ClassVar[str] = "no tree is grown"

    n_trees: int = parameter(300, whole(1))
    learning_rate: float = parameter(0.1, POSITIVE)
    max_leaves: int = parameter(10, whole(2))
    _: KW_ONLY
    gain: str = parameter("newton", one_of("newton", "squared"))
    max_bins: int = parameter(255, whole(2, 255))
    min_rows: int = parameter(20, whole(1))
    tree_rows: float = parameter(1.0, SHARE)
    tree_features: float = parameter(1.0, SHARE)
    randomize_nodes: bool | float = parameter(False, FLAG, SHARE)
    categorical: Sequence[str | int] | None = parameter(None, FEATURES, NONE)
    monotone: Mapping[str | int, int] | None = parameter(None, DIRECTIONS, NONE)
    random_state: Any = parameter(0, SEED, NONE)
    device: str = parameter("cpu", DEVICE)

    def _check_data(self, data: RankingData, valid: RankingData | None) -> None:
        if data.n_docs > _MOST_ROWS and not is_parted(data):
            raise InputError(f"{data.n_docs:,} documents; trees can be grown on at most {_MOST_ROWS:,}")
        named = places_of(self.categorical or (), data.names, "categorical")
        rising = places_of(self.monotone or (), data.names, "monotone")
        both = [data.names[j] for j in rising if j in named or j in data.categories]
        if both:
            raise InputError(f"monotone: the feature {both[0]!r} is categorical; its values have no order")
        self._directions = dict(zip(rising, (self.monotone or {}).values(), strict=True))
        self._coding = _coding(data, {*named, *data.categories}, self.max_bins)

    def _features(self, data: RankingData) -> Located:
        """Dense features, categories numbered as the trees know them."""
        return located(data, self._coding)

    def _node_share(self) -> float:
        """Share of rows and features that are drawn for each node."""
        if isinstance(self.randomize_nodes, bool | np.bool_):
            return NODE_SHARE if self.randomize_nodes else 1.0
        return float(self.randomize_nodes)

    def _grow(
        self, features: Located, order: Array, valid: RankingData | None, n_learners: int
    ) -> tuple[tuple[Any, ...], list[Any]]:
        """Learners that share a grower of trees on documents in this order, and what the caller closes."""
        from rankwright.models.trees.binning import bin_features
        from rankwright.models.trees.grow import Grower
        from rankwright.solvers.tree_learner import TreeLearner

        seed, threads, share = seed_of(self.random_state), threads_of(self.n_jobs), self._node_share()
        seeds = [seed + _SEED_STEP * at for at in range(n_learners)]
        counts = {j: len(values) for j, values in self._coding.categories.items()}
        X, order = features.X, order if features.rows is None else features.rows[order]
        X_valid = None if valid is None else Batches(valid, self._coding)
        if self.device == "cuda":
            return self._grow_on_card((X, self.max_bins, seed, threads, order, counts), X_valid, seeds)
        binned = bin_features(X, self.max_bins, seed, threads, order, counts, features.folder)
        grower = Grower(binned, self.max_leaves, self.min_rows, share, share, threads, self._directions)
        shares = {"tree_rows": self.tree_rows, "tree_features": self.tree_features}
        given = {"order": order, "X_valid": X_valid, **self._leaf_settings(), **shares}
        return (grower,), [TreeLearner(grower, X, seed=own, **given) for own in seeds]

    def _grow_on_card(self, to_bin: tuple[Any, ...], X_valid: Batches | None, seeds: list[int]) -> Any:
        """The same on the card."""
        from rankwright.gpu.trees.bins import bin_on_card
        from rankwright.gpu.trees.grower import CardGrower
        from rankwright.gpu.trees.learner import CardTrees, binned

        bins = bin_on_card(*to_bin)
        grower = CardGrower(
            bins,
            max_leaves=self.max_leaves,
            min_rows=self.min_rows,
            node_share=self._node_share(),
            directions=self._directions,
            tree_rows=self.tree_rows,
            tree_features=self.tree_features,
        )
        valid = binned(bins, X_valid)
        learners = [CardTrees(grower, seed=own, valid=valid, **self._leaf_settings()) for own in seeds]
        return tuple(learners), learners

    def _has_room(self, data: RankingData) -> bool:
        """Whether the bins of a data set fit where trees are grown; else they are grown over parts."""
        if self.device == "cpu":
            return True
        from rankwright.gpu.trees.bins import have_room

        return have_room(data.n_docs, data.n_features)

    def _leaf_settings(self) -> dict[str, Any]:
        """How leaves are set, and by what splits are chosen."""
        return {"shrinkage": self.learning_rate, "newton": self.gain == "newton"}

    def _placed(self, scores: Array) -> Any:
        """Scores where trees are grown."""
        if self.device == "cpu":
            return scores
        from rankwright.gpu.card import upload

        return upload(scores)

    def _grown(self, forest: Forest) -> TreeModel:
        """Keep the trees."""
        self._trees = TreeModel(self.n_features_in_, self._names(), forest, categories=self._coding.categories)
        return self._trees

    @property
    def feature_importances_(self) -> Array:
        """How much the splits of each feature gain, normalised to sum to 1."""
        _ = self.model_  # raises if not fitted
        return np.asarray(self._trees.importance())


@dataclass(frozen=True, eq=False)
class Ordered:
    """Training data in an order that does not depend on the one it was given in, so neither do draws and sums.

    Attributes
    ----------
    rows : ndarray
        The documents in this order.
    labels, indptr, weights : ndarray
        Labels, query boundaries and weights of the queries in this order.
    winning : ndarray or None
        Factors for the pairs that each document should win, in this order.
    """

    rows: Array
    labels: Array
    indptr: Array
    weights: Array
    winning: Array | None = None

    @classmethod
    def of(cls, task: Task, features: Located, threads: int = 1) -> Ordered:
        """Order the data by its content."""
        from rankwright.objectives.content_order import content_order

        data, weights = task.data, task.weights.queries
        starts = None if features.rows is None else features.rows[data.indptr[:-1]]
        docs, queries = content_order(features.X, data.labels, data.indptr, weights, threads, starts)
        sizes = data.sizes[queries]
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        rows = docs[np.arange(data.n_docs) + np.repeat(data.indptr[queries] - indptr[:-1], sizes)]
        winning = task.weights.winning
        return cls(rows, data.labels[rows], indptr, weights[queries], None if winning is None else winning[rows])


def _coding(data: RankingData, columns: set[int], most: int) -> Coding:
    """The most common categories of some columns; numbers in a column of data must be whole."""
    if columns and is_parted(data):
        return _coding_of_parts(data, columns, most)
    categories = {}
    for j in sorted(columns):
        column = column_of(data, j)
        odd = ~(np.isnan(column) | (column == np.rint(column)))
        if j not in data.categories and odd.any():
            raise _odd(data, j, column[np.argmax(odd)])
        categories[j] = common_categories(column, data.categories.get(j), most)
    return Coding(categories, data.names if categories else ())


def _odd(data: RankingData, j: int, value: float) -> InputError:
    what = f"categorical: the feature {data.names[j]!r} has the value {value:g}"
    return InputError(f"{what}; expected whole numbers or text")


def _coding_of_parts(data: RankingData, columns: set[int], most: int) -> Coding:
    """The same, with the values counted where the parts are."""
    X, starts = stored(data)
    crew = X.fleet.make(CategoryCounts, own=[(share.local,) for share in X.shares(starts)])
    try:
        counts = crew.ask("counts", sorted(columns))
    finally:
        crew.close()
    categories = {}
    for j, of_parts in zip(sorted(columns), zip(*counts, strict=True), strict=True):
        odd = [value for _, _, value in of_parts if value is not None]
        if j not in data.categories and odd:
            raise _odd(data, j, min(odd))
        found, place = np.unique(np.concatenate([own for own, _, _ in of_parts]), return_inverse=True)
        total = np.zeros(len(found), np.int64)
        np.add.at(total, place, np.concatenate([own for _, own, _ in of_parts]))
        categories[j] = most_common(found, total, data.categories.get(j), most)
    return Coding(categories, data.names)
