"""What features contribute: permutation importance, and plots of their contributions to scores.

Permutation importance is how much a measure drops when a feature's values change places within every query.
Shuffling within queries keeps what a query's documents share, which no ranking depends on: a feature that only tells
queries apart drops nothing. All features are shuffled alike, so that their drops can be compared, in an order of the
documents' content: the order of the rows does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright._types import Array, Features
from rankwright.data import sparse
from rankwright.data.dataset import RankingData, default_names
from rankwright.data.display import new_figure, shown, write_figure
from rankwright.data.order import query_of_row
from rankwright.data.threads import threads_of
from rankwright.errors import InputError
from rankwright.evaluation.evaluate import evaluate, mean_of
from rankwright.measures import Measure, parse_reported

__all__ = ["PermutationImportance", "permutation_importance", "plot_contributions"]


@dataclass(frozen=True, eq=False)
class PermutationImportance:
    """How much a measure drops without the order that each feature gives the documents of a query.

    Attributes
    ----------
    names : tuple of str
        The features of the model.
    measure : Measure
        What is measured.
    value : float
        Its mean over queries, with nothing shuffled.
    drop : ndarray
        By how much shuffling a feature lowers the mean, averaged over the repeats.
    error : ndarray
        Standard error of the drop over queries, whose shuffles are independent: it covers both the choice of queries
        and the shuffles. nan for a single query.
    repeats : int
        Shuffles of each feature.
    """

    names: tuple[str, ...]
    measure: Measure
    value: float
    drop: Array
    error: Array
    repeats: int

    @property
    def order(self) -> Array:
        """The features, the largest drop first."""
        return np.argsort(-self.drop, kind="stable")

    def table(self, n: int | None = None) -> str:
        """The features with the largest drops as text, one per line; all of them by default."""
        first = self.order[:n].tolist()
        width = max((len(self.names[at]) for at in first), default=0)
        lines = [f"{self.names[at]:<{width}}  {self.drop[at]:+.4f} ± {self.error[at]:.4f}" for at in first]
        return "\n".join(
            [f"{self.measure} {self.value:.4f}; drop when shuffled within queries, ± standard error", *lines]
        )


def permutation_importance(
    model: Any,
    data: RankingData,
    measure: str | Measure = "nDCG@10",
    *,
    repeats: int = 5,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PermutationImportance:
    """Shuffle each feature among the documents of every query, and see how much a measure drops.

    Unlike :func:`sklearn.inspection.permutation_importance`, which shuffles over all rows, this asks only what matters
    for a ranking. A drop near 0 means that the model does as well without the feature's order: it does not use it, it
    does not help, or others say the same.

    Parameters
    ----------
    model : model, loaded model file or fitted ranker
        What ranks the documents.
    data : RankingData
        Labelled documents, best not those it was trained on.
    measure : str or Measure
        What to measure; a query without a relevant document counts 0.
    repeats : int
        Shuffles of each feature.
    random_state : int
        Seed of the shuffles.
    n_jobs : int, optional
        Number of threads, −1 for all cores; the result does not depend on it.
    progress : callable, optional
        Called with the number of features done, and of all.

    Examples
    --------
    >>> from rankwright import LinearModel, RankingData
    >>> X = [[1.0, 0.0], [2.0, 5.0], [3.0, 1.0], [4.0, 2.0]]
    >>> data = RankingData.from_arrays(X, [0, 0, 1, 1], group=[4])
    >>> result = permutation_importance(LinearModel([1.0, 0.0]), data, "AP", repeats=20)
    >>> result.value, bool(result.drop[0] > 0.1), float(result.drop[1])
    (1.0, True, 0.0)
    """
    model = getattr(model, "model_", getattr(model, "model", model))
    wanted = parse_reported(measure)
    if not isinstance(repeats, int) or isinstance(repeats, bool) or repeats < 1:
        raise InputError(f"repeats is {repeats!r}; expected a whole number of at least 1")
    if not data.n_docs:
        raise InputError("the data has no documents; expected at least one query")
    columns = model._columns(data.n_features, data.feature_names)
    columns = np.arange(model.n_features) if columns is None else columns
    used = np.flatnonzero(model.uses())
    queries, sources = _shuffles(data, repeats, random_state)

    def values(X: Array) -> Array:
        scores = data.to_caller_order(model.score(X, data.feature_names, data.indptr))
        return evaluate(data, scores, measures=[wanted]).values[:, 0]

    def drops(column: int) -> Array:
        """For every query the drop when a column is shuffled, averaged over the shuffles."""
        shuffled_values = [values(shuffled) for shuffled in _shuffled(data.X, column, sources)]
        drops = unshuffled - np.mean(shuffled_values, axis=0) if shuffled_values else np.zeros(data.n_queries)
        return np.asarray(drops[queries])

    unshuffled = values(data.X)
    drop, error = np.zeros(model.n_features), np.zeros(model.n_features)
    with ThreadPoolExecutor(threads_of(n_jobs)) as pool:
        for done, (at, dropped) in enumerate(zip(used, pool.map(drops, columns[used].tolist()), strict=True), 1):
            drop[at] = dropped.mean()
            error[at] = dropped.std(ddof=1) / np.sqrt(len(dropped)) if len(dropped) > 1 else np.nan
            if progress is not None:
                progress(done, len(used))
    return PermutationImportance(model.names, wanted, mean_of(unshuffled), drop, error, repeats)


def _shuffles(data: RankingData, repeats: int, random_state: int) -> tuple[Array, list[Array]]:
    """An order of the queries, and for every repeat the row of its query that each row takes its value from."""
    from rankwright.data.hashes import content_order

    documents, queries = content_order(data.X, data.labels, data.indptr)
    place = np.empty(data.n_queries, np.int64)
    place[queries] = np.arange(data.n_queries)
    of_row = place[query_of_row(data.indptr)]
    canonical = documents[np.argsort(of_row[documents], kind="stable")]
    sources = []
    for repeat in range(repeats):
        keys = np.random.default_rng([random_state, repeat]).random(data.n_docs)
        source = np.empty(data.n_docs, np.int64)
        source[canonical] = canonical[np.lexsort((keys, of_row[canonical]))]
        sources.append(source)
    return queries, sources


def _shuffled(X: Array, column: int, sources: list[Array]) -> Iterator[Any]:
    """X with one column shuffled, for every shuffle; nothing if that changes nothing."""
    if sparse.issparse(X):
        by_column = X.tocsc()
        values = by_column[:, [column]].toarray()[:, 0]
    else:
        values, copy = np.array(X[:, column]), None
    if all(np.array_equal(values[source], values, equal_nan=True) for source in sources):
        return
    for source in sources:
        if sparse.issparse(X):
            new = sparse.csc_array(values[source][:, np.newaxis])
            yield sparse.hstack([by_column[:, :column], new, by_column[:, column + 1 :]], format="csr")
        else:
            copy = np.array(X) if copy is None else copy
            copy[:, column] = values[source]
            yield copy


# Plots of contributions: a swarm of documents for every feature, or the bars of one document or pair.
#
# In a swarm every document is a point; where many have similar contributions, points are spread up and down. The shade
# is the value of the feature, from the lowest to the highest, so that one sees which values raise a score.

_POINTS = 2000  # documents drawn
_BINS = 120  # of contributions, in which points are spread
_RAISES, _LOWERS = "#0072b2", "#d55e00"


def plot_contributions(
    path: str | Path, contributions: npt.ArrayLike, X: Features, names: Sequence[str] | None = None, *, n: int = 10
) -> None:
    """Draw the contributions of many documents, the features that add most on top.

    Parameters
    ----------
    path : path
        A PNG or SVG file, written whole or not at all.
    contributions : array-like of shape (rows, features) or (rows, features + 1)
        As ``predict_contributions`` gives them.
    X : array-like or scipy sparse
        The values of the same features, whose order gives the shades.
    names : sequence of str, optional
        Names of the features; f1, f2, … by default.
    n : int
        Number of features drawn.

    Examples
    --------
    >>> import tempfile
    >>> from rankwright import LinearModel
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> contributions = LinearModel([1.0, -2.0, 0.1]).predict_contributions(X, group=[20, 20])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plot_contributions(f"{folder}/swarm.svg", contributions, X, ["bm25", "length", "links"])
    """
    matrix = np.asarray(contributions, np.float64)
    values = X.toarray() if sparse.issparse(X) else np.asarray(X, np.float64)
    if matrix.ndim != 2 or values.ndim != 2 or len(matrix) != len(values) or not len(matrix):
        raise InputError(f"contributions of shape {matrix.shape}, values of shape {values.shape}; expected a row each")
    if matrix.shape[1] not in (values.shape[1], values.shape[1] + 1):
        raise InputError(
            f"contributions in {matrix.shape[1]} columns; expected {values.shape[1]} features, or one more"
        )
    names = default_names(values.shape[1]) if names is None else names
    if len(names) != values.shape[1]:
        raise InputError(f"{values.shape[1]} features but {len(names)} feature names")
    order = np.argsort(-np.abs(matrix[:, : values.shape[1]]).mean(axis=0), kind="stable")[:n]
    rows = np.linspace(0, len(matrix) - 1, min(_POINTS, len(matrix))).astype(np.int64)
    drawn = matrix[np.ix_(rows, order)], values[np.ix_(rows, order)]
    write_figure(path, lambda: _swarm(*drawn, [names[at] for at in order]))


def _swarm(contributions: Array, values: Array, names: Sequence[str]) -> Any:
    figure = new_figure(1.1 + 0.32 * len(names))
    axis = figure.subplots()
    largest = float(np.abs(contributions).max()) or 1.0
    for line, (column, value) in enumerate(zip(contributions.T, values.T, strict=True)):
        shades, is_known = _shares(value), ~np.isnan(value)
        heights = -line + _spread(column, largest)
        axis.scatter(column[~is_known], heights[~is_known], s=7, color="0.75", linewidths=0, rasterized=True)
        points = axis.scatter(
            column[is_known], heights[is_known], s=7, c=shades[is_known], cmap="cividis", vmin=0, vmax=1, linewidths=0,
            rasterized=True,
        )  # fmt: skip
    axis.axvline(0, color="0.4", lw=0.8)
    axis.set_yticks([-line for line in range(len(names))], [shown(name, 28) for name in names])
    axis.set_ylim(-len(names) + 0.4, 0.6)
    axis.set_xlabel("adds to the score, relative to the documents of the same query")
    if names:
        bar = figure.colorbar(points, ax=axis, ticks=[0, 1], aspect=30, pad=0.02)
        bar.ax.set_yticklabels(["low", "high"])
        bar.set_label("value of the feature", labelpad=-12)
        bar.outline.set_visible(False)
    return figure


def _shares(values: Array) -> Array:
    """The share of values below each, from 0 to 1; equal values have equal shares."""
    ordered = np.sort(values[~np.isnan(values)])
    if not len(ordered) or ordered[0] == ordered[-1]:
        return np.full(len(values), 0.5)
    below = np.searchsorted(ordered, values, side="left").astype(np.float64)
    return below / max(1, int(np.searchsorted(ordered, ordered[-1], side="left")))


def _spread(column: Array, largest: float) -> Array:
    """How far from its line each point is drawn: the points of a bin take turns above and below."""
    bins = np.floor((column / largest + 1) / 2 * (_BINS - 1)).astype(np.int64)
    order = np.argsort(bins, kind="stable")  # not by contribution within a bin, which would draw stripes
    starts = np.searchsorted(bins[order], np.arange(_BINS))
    place = np.empty(len(column), np.int64)
    place[order] = np.arange(len(column)) - starts[bins[order]]
    crowd = np.bincount(bins, minlength=_BINS)
    step = min(0.08, 0.8 / max(1, int(crowd.max())))
    return np.where(place % 2 == 0, 1, -1) * ((place + 1) // 2) * step


def write_bars(path: str | Path, labels: Sequence[str], contributions: Sequence[float], title: str) -> None:
    """Draw the contributions of one document or pair as bars, from top to bottom as given."""
    write_figure(path, lambda: _bars(labels, contributions, title))


def _bars(labels: Sequence[str], contributions: Sequence[float], title: str) -> Any:
    figure = new_figure(1.0 + 0.24 * max(1, len(labels)))
    axis = figure.subplots()
    places = [-line for line in range(len(labels))]
    colours = [_RAISES if number > 0 else _LOWERS for number in contributions]
    hatches = ["" if number > 0 else "////" for number in contributions]
    axis.barh(places, contributions, 0.7, color=colours, hatch=hatches, edgecolor="white", lw=0.5)
    axis.axvline(0, color="0.4", lw=0.8)
    for place, number in zip(places, contributions, strict=True):
        side = 1 if number >= 0 else -1
        axis.annotate(
            f"{number:+.3g}", (number, place), (3 * side, 0), textcoords="offset points", va="center",
            ha="left" if side > 0 else "right",
        )  # fmt: skip
    axis.set_yticks(places, [shown(label, 60) for label in labels])
    axis.margins(x=0.15)
    axis.grid(False, axis="y")
    axis.set_title(shown(title, 100))
    axis.set_xlabel("adds to the difference of the scores")
    return figure
