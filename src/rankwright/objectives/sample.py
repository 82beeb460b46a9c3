"""A sample of documents less the means of their queries: what the curvature of a hinge is made of.

Where many pairs of documents are near the margin, the hinge bends with the squared differences of their features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.threads import Team

Array = npt.NDArray[Any]
_WORK = 20  # documents in the sample, per document and feature: then it costs a few passes over the data
_PER_FEATURE = 30  # documents in the sample, at most
_LEAST = 4  # documents per feature, for which the shape is known well enough to rely on
_FROM_QUERY = 8  # documents of a query, at least
_SMALL, _VALUES = 512, 1 << 22  # with more features than that, at most so many values: the largest part is enough
_QUERIES = 64  # whose documents a thread takes at a time
_LEAST_ROWS = 256  # so, no sample of more than 16,384 features


def is_enough(n_docs: int, n_features: int) -> bool:
    """Whether so many documents tell the shape of the curvature, at a cost of a few passes over the data."""
    return n_docs >= _LEAST * n_features and (n_features <= _SMALL or _VALUES // n_features >= _LEAST_ROWS)


def rows_wanted(n_docs: int, n_features: int) -> int:
    """How many documents a sample needs: enough for a covariance matrix, or for its largest part; 0 for no sample."""
    if n_features == 0 or not is_enough(n_docs, n_features):
        return 0
    enough = min(max(2 * n_features, _WORK * n_docs // n_features), _PER_FEATURE * n_features)
    return min(enough, n_docs, _VALUES // n_features if n_features > _SMALL else n_docs)


def drawn(indptr: Array, wanted: int) -> list[Array]:
    """About ``wanted`` documents of some queries, query by query."""
    rng = np.random.default_rng(0)
    n_queries = len(indptr) - 1
    of_query = max(_FROM_QUERY, -(-wanted // n_queries))
    chosen = []
    for q in np.unique(np.linspace(0, n_queries - 1, -(-wanted // of_query)).astype(np.int64)).tolist():
        start, stop = int(indptr[q]), int(indptr[q + 1])
        chosen.append(start + rng.permutation(stop - start)[:of_query])
    return chosen


def centred_sample(
    X: Any, rows: Array, indptr: Array, inverse: Array, kept: Array, wanted: int, team: Team | None = None
) -> Array:
    """Features times ``inverse`` of about ``wanted`` documents of some queries, less their means in the query."""
    if not wanted:
        return np.empty((0, len(kept)))
    chosen = [rows[of_query] for of_query in drawn(indptr, wanted)]
    tasks = [(chosen[at : at + _QUERIES],) for at in range(0, len(chosen), _QUERIES)]
    return np.concatenate((team or Team(1)).each(lambda part: _centred(X, part, inverse, kept), tasks))


def _centred(X: Any, chosen: list[Array], inverse: Array, kept: Array) -> Array:
    part = X[np.concatenate(chosen)]
    part = (part if isinstance(part, np.ndarray) else part.toarray())[:, kept] * inverse[kept]
    return centred(part, np.array([len(of_query) for of_query in chosen]))


def centred(part: Array, sizes: Array) -> Array:
    """The rows of some queries, less their means, and longer by as much as the means were drawn towards them."""
    means = np.add.reduceat(part, np.cumsum(sizes) - sizes, axis=0) / sizes[:, None]
    part -= np.repeat(means, sizes, axis=0)
    part *= np.repeat(np.sqrt(sizes / np.maximum(1, sizes - 1)), sizes)[:, None]
    return np.asarray(part)
