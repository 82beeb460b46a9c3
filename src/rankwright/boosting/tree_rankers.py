"""Rankers of trees: LambdaMART (with a background model: LambdaSMART) and McRank, and what they share.

LambdaMART boosts regression trees on lambda gradients. McRank's trees estimate the probability of every grade, and
documents are ranked by their expected grade. :mod:`rankwright.boosting.training_rows` grows the trees; it loads numba,
which importing a ranker does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rankwright._types import Array
from rankwright.boosting.forest import Forest
from rankwright.boosting.rounds import Boosted, BoostedRanker, Boosting, LambdaSettings, Run
from rankwright.boosting.tree_model import Coding, GradeModel, TreeModel, counted, expected_grade, most_common
from rankwright.data.dataset import RankingData, column_of
from rankwright.data.places import place_of, selected
from rankwright.data.threads import threads_of
from rankwright.errors import InputError
from rankwright.measures import Measure
from rankwright.rankers.background import BACKGROUND, FromBackground, Start, background_spread, compare_features
from rankwright.rankers.base import Task
from rankwright.rankers.facts import Notice, Outcome
from rankwright.rankers.parameters import (
    DATA,
    DIRECTIONS,
    FEATURES,
    FLAG,
    MEASURE,
    NONE,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    TREES_AND_NETS,
    Option,
    Seed,
    common,
    integer,
    one_of,
    parameter,
    places_of,
    read_directions,
    read_features,
    seed_of,
)

__all__ = ["LambdaMART", "McRank"]

if TYPE_CHECKING:
    from rankwright.boosting.training_rows import Growing


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

    n_trees: int = parameter(300, integer(1))
    learning_rate: float = parameter(0.1, POSITIVE)
    max_leaves: int = parameter(10, integer(2))
    _: KW_ONLY
    gain: str = parameter("newton", one_of("newton", "squared"))
    max_bins: int = parameter(255, integer(2, 255))
    min_rows: int = parameter(20, integer(1))
    tree_rows: float = parameter(1.0, SHARE)
    tree_features: float = parameter(1.0, SHARE)
    randomize_nodes: bool | float = parameter(False, FLAG, SHARE)
    categorical: Sequence[str | int] | None = parameter(None, FEATURES, NONE, option=_CATEGORICAL)
    monotone: Mapping[str | int, int] | None = parameter(None, DIRECTIONS, NONE, option=_MONOTONE)
    random_state: Seed = common("random_state")
    device: str = common("device")

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
        from rankwright.boosting.training_rows import DeviceRows, LocalRows

        kind = LocalRows if self.device == "cpu" else DeviceRows
        return kind(task, self._growing())

    def _growing(self) -> Growing:
        from rankwright.boosting.training_rows import Growing

        share = self.randomize_nodes
        if isinstance(share, bool | np.bool_):
            share = NODE_SHARE if share else 1.0
        return Growing(
            self._names(),
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

    def _outcome(self, boosted: Boosted, notices: Sequence[Notice] = ()) -> Outcome:
        self.n_trees_ = boosted.n_rounds
        return super()._outcome(boosted, notices)

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
        counts = actors.call("counts", sorted(columns))
    categories = {}
    for j, of_parts in zip(sorted(columns), zip(*counts, strict=True), strict=True):
        odd = [value for _, _, value in of_parts if value is not None]
        if j not in data.categories and odd:
            problem = f"categorical: the feature {data.names[j]!r} has the value {min(odd):g}"
            raise InputError(f"{problem}; expected whole numbers or text")
        values, place = np.unique(np.concatenate([part for part, _, _ in of_parts]), return_inverse=True)
        total = np.zeros(len(values), np.int64)
        np.add.at(total, place, np.concatenate([part for _, part, _ in of_parts]))
        categories[j] = most_common(values, total, data.categories.get(j), most)
    return Coding(categories, data.names)


@dataclass(eq=False, repr=False)
class LambdaMART(TreeRanker, FromBackground):
    """LambdaMART: every round grows a regression tree on the lambda gradients of a measure.

    Trees are grown best-first on up to 255 bins per feature; one Newton step sets the leaves. With a
    ``background``, boosting starts from its scores (LambdaSMART), and the model contains it; the scores are first
    brought to one standard deviation within queries, so their scale does not matter.

    Parameters
    ----------
    n_trees : int
        Most rounds of boosting.
    learning_rate : float
        Shrinkage of every tree.
    max_leaves : int
        Most leaves of a tree.
    measure : str or Measure
        Measure to optimise: ``"ndcg"``, ``"map"``, ``"mrr"``, any registered measure.
    truncation : int, optional
        Ignore pairs of documents that are both below this rank.
    normalize_queries : bool
        Scale the gradients of every query by log₂(1 + S)/S, S being their sum over its pairs, so that queries with many
        large ones do not outweigh the others. Where ``fit`` is given positions, a click is a query.
    nearness : float
        Divide the gradient of every pair by this number plus the difference of its scores, so that pairs of close
        scores count more; 0: all pairs count alike.
    gain : {"newton", "squared"}
        Choose splits by what a Newton step in both parts lowers the cost by, or by squared error (as in the paper).
    max_bins : int
        Most bins of a feature, up to 255.
    min_rows : int
        Fewest documents in a leaf.
    tree_rows, tree_features : float
        Share of the documents and features that each tree sees.
    randomize_nodes : bool or float
        Choose each split on a random share (True: 0.7) of the node's documents and of the features.
    categorical : sequence of str or int, optional
        Features of whole numbers that are categories, by name or by number from 0, besides the columns of text and of
        categories in a data frame. A split sends some categories left, the others right. The ``max_bins`` most common
        ones are told apart; rarer ones, unknown ones and missing values go the same way.
    monotone : mapping of str or int to 1 or -1, optional
        Features, by name or by number from 0, in which the score must rise (1) or fall (-1) if all others stay; it may
        stay the same. A missing value is exempt, and so is a ``background``. Splits are chosen by Newton gains.
    patience : int, optional
        Stop after this many rounds without a better value on ``eval_set``, or on average over the folds of ``cv``.
    cv : int or "auto", optional
        Without ``eval_set``: choose the number of trees by cross-validation with this many folds of queries,
        then train on all queries. ``"auto"``: 5 folds, of which one alone is held out from 500 queries on.
    background : fitted ranker or model, optional
        Model to start from.
    background_spread : float, optional
        Standard deviation within queries that its scores are brought to first; None: as they are (as in the paper).
    eval_measure : str or Measure, optional
        Measure to choose the number of trees by; default nDCG@10.
    random_state : int, RandomState or None
        Random seed.
    n_jobs : int, optional
        Threads; default 1, -1 for all cores. The model does not depend on it.
    device : {"cpu", "cuda"}
        Where trees are grown; ``"cuda"``: on an NVIDIA GPU, the same trees but for rounding, see the page On a GPU.
    callback : callable, optional
        Called with a :class:`~rankwright.boosting.rounds.BoostingRound` after every tree; returning True stops
        training.

    Attributes
    ----------
    n_trees_ : int
        Trees kept.
    path_ : tuple of BoostingRound
        Value on validation data and seconds after every round.
    feature_importances_ : ndarray
        How much the splits of each feature gain, normalised to sum to 1.
    cv_ : CrossValidation or None
        What cross-validation found: its honest estimate ``value``, and out-of-fold ``scores``.
    n_queries_, n_queries_skipped_ : int
        Queries trained on, and queries skipped because they have no order to learn.
    training_ : Fitted
        All facts of the training, as :meth:`fit_data` returns them.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.arange(80.0).reshape(-1, 1), np.arange(80) // 20
    >>> ranker = LambdaMART(n_trees=20, min_rows=5).fit(X, y, np.zeros(80))
    >>> ranker.predict(X).argmax() >= 60
    np.True_
    """

    _: KW_ONLY
    measure: str | Measure = parameter("ndcg", MEASURE)
    truncation: int | None = parameter(100, integer(1), NONE)
    normalize_queries: bool = parameter(True, FLAG)
    nearness: float = parameter(0.03, NOT_NEGATIVE)
    background: Any = parameter(
        None,
        BACKGROUND,
        NONE,
        option=Option(
            TREES_AND_NETS,
            "lambdamart, lambdaboost: start from this model.",
            after="monotone",
            metavar="MODEL",
            read=Path,
            alone=True,
        ),
    )
    background_spread: float | None = background_spread()

    _uses_positions: ClassVar[bool] = True
    _works_on_partitions: ClassVar[bool] = True

    def trains_in_partitions(self, data: RankingData) -> bool:
        """Whether trees are grown where the partitions are: not on a GPU that has room for all of them."""
        return self.device == "cpu" or not self._has_room(data)

    def _has_room(self, data: RankingData) -> bool:
        """Whether the bins of a data set fit the GPU; else trees are grown as on a partition."""
        from rankwright.gpu.trees.rows import have_room

        return have_room(data.n_docs, data.n_features)

    def method_name(self) -> str:
        """The name of the method, as `rankwright train --method` has it."""
        return "lambdamart"

    def _training_rows(self, task: Task) -> Any:
        """The rows that trees are grown on: in partitions, also where a GPU has no room for all of them."""
        from rankwright.boosting.training_rows import PartitionedRows

        if place_of(task.data).is_partitioned or (self.device == "cuda" and not self._has_room(task.data)):
            return PartitionedRows(task, self._growing())
        return super()._training_rows(task)

    def _run(self, task: Task) -> Run:
        start = Start.of(self.background, task.data, self.background_spread)
        rows = self._training_rows(task)
        factors = {"nearness": self.nearness, "normalize": self.normalize_queries}
        boosting = rows.boost(LambdaSettings.of(self.measure, self.truncation, **factors), start)

        def keep(boosted: Boosted) -> Outcome:
            return self._keep(boosting.learner.trees[: boosted.n_rounds], boosted, task.data, start)

        return Run(boosting, keep, (rows,))

    def _learn_nothing(self, task: Task) -> Outcome:
        start = Start.of(self.background, task.data, self.background_spread)
        return self._keep([], Boosted(0, ()), task.data, start)

    def _keep(self, trees: list[Any], boosted: Boosted, data: RankingData, start: Start) -> Outcome:
        self._model = start.with_learnt(self._grown(Forest.of(trees)), len(trees))
        return self._outcome(boosted, compare_features(start.model, data))


@dataclass(eq=False, repr=False)
class McRank(TreeRanker):
    """McRank: the score of a document is its expected grade, Σ grade · Pr(grade), from boosted trees.

    Parameters
    ----------
    n_trees : int
        Most rounds of boosting; each grows one tree per grade.
    learning_rate : float
        Shrinkage of every tree.
    max_leaves : int
        Most leaves of a tree.
    link : {"softmax", "ordinal"}
        Grades as classes, or as thresholds that a document reaches (one tree fewer per round).
    gain : {"squared", "newton"}
        Choose splits by squared error, as in the paper, or by Newton gains.
    max_bins, min_rows, tree_rows, tree_features, randomize_nodes, categorical, patience, cv
        As for :class:`LambdaMART`.
    monotone : mapping of str or int to 1 or -1, optional
        As for :class:`LambdaMART`; with the link ``"ordinal"`` only.
    eval_measure, random_state, n_jobs, device, callback
        As for :class:`LambdaMART`.

    Attributes
    ----------
    n_trees_ : int
        Rounds kept.
    grades_ : ndarray
        The grades, ascending.
    path_, feature_importances_, cv_, n_queries_, n_queries_skipped_, training_
        As for :class:`LambdaMART`.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.arange(80.0).reshape(-1, 1), np.arange(80) // 20
    >>> scores = McRank(n_trees=40, min_rows=5).fit(X, y, np.zeros(80)).predict(X)
    >>> bool(2.5 < scores[-1] <= 3.0)
    True
    """

    n_trees: int = parameter(100, integer(1))
    _: KW_ONLY
    link: str = parameter("softmax", one_of("softmax", "ordinal"))
    gain: str = parameter("squared", one_of("newton", "squared"))

    def method_name(self) -> str:
        """The name of the method, as `rankwright train --method` has it."""
        return "mcrank" if self.link == "softmax" else "mcrank-ordinal"

    def _check_together(self) -> None:
        if self.monotone and self.link != "ordinal":
            problem = "monotone does not go with the link 'softmax', whose grades compete"
            raise InputError(f"{problem}; expected link='ordinal' (mcrank-ordinal)")

    def _run(self, task: Task) -> Run:
        from rankwright.boosting.learner import TreesPerClass

        rows, valid = self._training_rows(task), task.valid
        ordered = rows.ordered
        objective = Grades(ordered.labels, np.repeat(ordered.weights, np.diff(ordered.indptr)), self.link)
        learners = rows.grow(len(objective.starts))
        boosted_for, scores = rows.classes(objective)
        valid_scores = None if valid is None else np.tile(objective.starts[:, None], valid.n_docs)

        def keep(boosted: Boosted) -> Outcome:
            forests = [Forest.of(learner.trees[: boosted.n_rounds]) for learner in learners]
            return self._keep(objective, forests, boosted)

        def score(F: Array) -> Array:
            return expected_grade(F, objective.grades, self.link)

        return Run(Boosting(boosted_for, TreesPerClass(learners), scores, valid_scores), keep, (rows,), score)

    def _learn_nothing(self, task: Task) -> Outcome:
        objective = Grades(task.data.labels, np.repeat(task.weights.queries, task.data.sizes), self.link)
        return self._keep(objective, [Forest.of([])] * len(objective.starts), Boosted(0, ()))

    def _keep(self, objective: Grades, forests: list[Forest], boosted: Boosted) -> Outcome:
        self.grades_ = objective.grades
        grown = self._grown(Forest.join(forests))
        kept = (self.grades_, tuple(forests), objective.starts, self.link)
        self._model = GradeModel(grown.n_features, grown.feature_names, *kept, categories=grown.categories)
        return self._outcome(boosted)


# Class probabilities for McRank: gradients of grades, as classes or as thresholds.
#
#     softmax   Pr(c) = e^F_c / Σ e^F      gradient of class c: [z = c] − Pr(c)
#     ordinal   Pr(z ≥ c) = 1/(1 + e^−F_c)   gradient of threshold c: [z ≥ c] − Pr(z ≥ c)
#
# Scores F have one row for each class, or each threshold above the lowest grade.


_LEAST_SHARE = 1e-6


class Grades:
    """Gradients and second derivatives of the log-likelihood of the grades.

    `labels`: labels. `weights`: weight of each document. `link` ({"softmax", "ordinal"}): see above. `grades`: the
    different labels, ascending. `codes`: the place of each document's label among them. `factor`: for second
    derivatives: of classes, whose scores sum to a constant.
    """

    def __init__(self, labels: Array, weights: Array, link: str) -> None:
        self.grades, codes = np.unique(labels, return_inverse=True)
        self.link, self.weights = link, weights
        self.codes = codes.astype(np.min_scalar_type(len(self.grades)))
        self.factor = 1.0 if link == "ordinal" else len(self.grades) / max(len(self.grades) - 1, 1)

    def target(self, row: int) -> Array:
        """Which documents are of a class, or reach a threshold."""
        return np.asarray(self.codes >= row + 1 if self.link == "ordinal" else self.codes == row)

    @property
    def starts(self) -> Array:
        """Scores that give every class its share in the data."""
        n_rows = len(self.grades) - (self.link == "ordinal")
        sums = np.array([np.where(self.target(row), self.weights, 0.0).sum() for row in range(n_rows)])
        shares = np.clip(sums / self.weights.sum(), _LEAST_SHARE, 1.0)
        if self.link == "softmax":
            return np.log(shares)
        shares = np.minimum(shares, 1.0 - _LEAST_SHARE)
        return np.asarray(np.log(shares / (1.0 - shares)))

    def evaluate(self, scores: Array) -> tuple[Iterator[Array], Iterator[Array]]:
        """Gradients and second derivatives, one row for each row of ``scores``, computed when it is asked for.

        A row of ``scores`` must not change before both have been asked for.
        """
        if self.link == "ordinal":

            def chances(row: int) -> Array:
                return np.asarray(1.0 / (1.0 + np.exp(-np.clip(scores[row], -500.0, 500.0))))

        else:
            highest, total = scores.max(axis=0), np.zeros(scores.shape[1])
            for row in scores:
                total += np.exp(row - highest)

            def chances(row: int) -> Array:
                return np.asarray(np.exp(scores[row] - highest) / total)

        def weight(row: int) -> Array:
            chance = chances(row)
            return np.asarray(self.factor * chance * (1.0 - chance) * self.weights)

        rows = range(len(scores))
        return ((self.target(row) - chances(row)) * self.weights for row in rows), map(weight, rows)
