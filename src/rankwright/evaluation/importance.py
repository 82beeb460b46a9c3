"""Permutation importance: how much a measure drops when a feature's values change places within every query.

Shuffling within queries keeps what a query's documents share, which no ranking depends on: a feature that only tells
queries apart drops nothing. All features are shuffled alike, so that their drops can be compared, in an order of the
documents' content: the order of the rows does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data import sparse
from rankwright.data.dataset import RankingData
from rankwright.data.order import query_of_row
from rankwright.data.threads import threads_of
from rankwright.errors import InputError
from rankwright.evaluation.evaluate import evaluate, mean_of
from rankwright.measures import Measure, parse_reported

__all__ = ["PermutationImportance", "permutation_importance"]


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
        shown = self.order[:n].tolist()
        width = max((len(self.names[at]) for at in shown), default=0)
        lines = [f"{self.names[at]:<{width}}  {self.drop[at]:+.4f} ± {self.error[at]:.4f}" for at in shown]
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
    >>> found = permutation_importance(LinearModel([1.0, 0.0]), data, "AP", repeats=20)
    >>> found.value, bool(found.drop[0] > 0.1), float(found.drop[1])
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

    def values(X: Any) -> Array:
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


def _shuffled(X: Any, column: int, sources: list[Array]) -> Iterator[Any]:
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
