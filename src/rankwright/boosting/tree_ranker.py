"""What tree rankers share: parameters, binning and growing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from rankwright._types import Array
from rankwright.boosting.forest import Forest
from rankwright.boosting.rounds import BoostedRanker
from rankwright.boosting.rows import Batches, DeviceRows, Growing, LocalRows
from rankwright.boosting.tree_model import Coding, TreeModel, counted, most_common
from rankwright.data.dataset import RankingData
from rankwright.data.places import place_of, selected
from rankwright.data.subsets import column_of
from rankwright.data.threads import threads_of
from rankwright.errors import InputError
from rankwright.rankers.base import Task
from rankwright.rankers.parameters import (
    DATA,
    DIRECTIONS,
    FEATURES,
    FLAG,
    NONE,
    POSITIVE,
    SHARE,
    TREES_AND_NETS,
    Option,
    device_parameter,
    one_of,
    parameter,
    places_of,
    read_directions,
    read_features,
    seed_of,
    seed_parameter,
    whole,
)

# The categories of features, counted where the features are.


class CategoryCounts:
    """Counts the categories of a partition."""

    def __init__(self, data: RankingData, threads: int, queries: Array) -> None:
        self._data = selected(data, queries)

    def counts(self, columns: list[int]) -> list[tuple[Array, Array, float | None]]:
        """For each column its values, how often each occurs, and one that is not a whole number, if there is one."""
        values = []
        for j in columns:
            column = column_of(self._data, j)
            odd = ~(np.isnan(column) | (column == np.rint(column)))
            values.append((*counted(column), float(column[np.argmax(odd)]) if odd.any() else None))
        return values


_MOST_LOCAL_ROWS = 1 << 30  # whose sums fit a histogram
NODE_SHARE = 0.7  # of rows and features, where nodes draw them
_CATEGORICAL = Option(
    DATA,
    "auto, lambdamart, mcrank: features that are categories, by name, or without names by number, besides text of "
    "Parquet.",
    after="columns",
    metavar="lang,3",
    read=read_features,
)
_MONOTONE = Option(
    TREES_AND_NETS,
    "lambdamart, mcrank-ordinal: features in which scores must rise (+1) or fall (-1).",
    metavar="bm25=+1,spam=-1",
    read=read_directions,
)


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
    categorical: Sequence[str | int] | None = parameter(None, FEATURES, NONE, option=_CATEGORICAL)
    monotone: Mapping[str | int, int] | None = parameter(None, DIRECTIONS, NONE, option=_MONOTONE)
    random_state: Any = seed_parameter()
    device: str = device_parameter()

    def _check_data(self, data: RankingData, valid: RankingData | None) -> None:
        if data.n_docs > _MOST_LOCAL_ROWS and not place_of(data).is_partitioned:
            raise InputError(f"{data.n_docs:,} documents; trees can be grown on at most {_MOST_LOCAL_ROWS:,}")
        named = places_of(self.categorical or (), data.names, "categorical")
        rising = places_of(self.monotone or (), data.names, "monotone")
        both = [data.names[j] for j in rising if j in named or j in data.categories]
        if both:
            raise InputError(f"monotone: the feature {both[0]!r} is categorical; its values have no order")
        self._directions = dict(zip(rising, (self.monotone or {}).values(), strict=True))
        self._coding = _coding(data, {*named, *data.categories}, self.max_bins)

    def _training_rows(self, task: Task) -> Any:
        """The rows that trees are grown on, which know how."""
        kind = LocalRows if self.device == "cpu" else DeviceRows
        return kind(task, self._growing(), self._by_tree)

    def _growing(self) -> Growing:
        share = self.randomize_nodes
        if isinstance(share, bool | np.bool_):
            share = NODE_SHARE if share else 1.0
        return Growing(
            self._coding,
            self.max_bins,
            self.max_leaves,
            self.min_rows,
            self.gain == "newton",
            self._directions,
            self.learning_rate,
            self.tree_rows,
            self.tree_features,
            float(share),
            seed_of(self.random_state),
            threads_of(self.n_jobs),
            self.device,
        )

    def _by_tree(self, valid: RankingData | None) -> Callable[[Any], Array] | None:
        """Scores of validation data, which may be in partitions, by one tree."""
        from rankwright.boosting.learner import tree_scores

        if valid is None:
            return None
        place = place_of(valid)
        if not place.is_partitioned:
            X = Batches(valid, self._coding)
            return lambda tree: np.concatenate([tree_scores(tree, rows) for rows in X])
        names, categories = self._names(), self._coding.categories

        def scores(tree: Any) -> Array:
            return place.scores(TreeModel(valid.n_features, names, Forest.of([tree]), categories=categories))

        return scores

    def _has_room(self, data: RankingData) -> bool:
        """Whether the bins of a data set fit where trees are grown; else they are grown over parts."""
        if self.device == "cpu":
            return True
        from rankwright.gpu.trees.bins import have_room

        return have_room(data.n_docs, data.n_features)

    def _grown(self, forest: Forest) -> TreeModel:
        self._trees = TreeModel(self.n_features_in_, self._names(), forest, categories=self._coding.categories)
        return self._trees

    @property
    def feature_importances_(self) -> Array:
        """How much the splits of each feature gain, normalised to sum to 1."""
        _ = self.model_  # raises if not fitted
        return np.asarray(self._trees.importance())


def _coding(data: RankingData, columns: set[int], most: int) -> Coding:
    """The most common categories of some columns; numbers in a column of data must be whole."""
    if not columns:
        return Coding({}, ())
    with place_of(data).made(CategoryCounts) as actors:
        counts = actors.ask("counts", sorted(columns))
    categories = {}
    for j, of_parts in zip(sorted(columns), zip(*counts, strict=True), strict=True):
        odd = [value for _, _, value in of_parts if value is not None]
        if j not in data.categories and odd:
            what = f"categorical: the feature {data.names[j]!r} has the value {min(odd):g}"
            raise InputError(f"{what}; expected whole numbers or text")
        values, place = np.unique(np.concatenate([own for own, _, _ in of_parts]), return_inverse=True)
        total = np.zeros(len(values), np.int64)
        np.add.at(total, place, np.concatenate([own for _, own, _ in of_parts]))
        categories[j] = most_common(values, total, data.categories.get(j), most)
    return Coding(categories, data.names)
