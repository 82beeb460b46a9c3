"""A small data set for what surrounds the hinges: statistics, order, scores; and rows of many lengths to be scored."""

import numpy as np

from rankwright.data.dataset import RankingData


def made():
    rng = np.random.default_rng(3)
    sizes = np.array([3, 9, 1, 6, 5])
    X = (rng.normal(size=(sizes.sum(), 5)) * 10.0 ** rng.integers(-3, 4, 5)).astype(np.float32)
    X[:, 2] = 7.0
    X[1] = X[0]
    X[4, 1] = -0.0
    labels = rng.integers(0, 3, sizes.sum())
    return RankingData.from_arrays(X, labels, group=sizes), rng.normal(size=5)


def scored(many_rows, many_columns):
    """Rows of features, some of them asked for twice, with weights; features without a weight may be missing."""
    rng = np.random.default_rng(8)
    for dtype in (np.float32, np.float64):
        for n, d in zip(many_rows, many_columns, strict=True):
            X, weights = rng.normal(size=(max(1, n), d)).astype(dtype), rng.normal(size=d)
            weights[rng.random(d) < 0.3] = 0.0
            X[(rng.random(X.shape) < 0.2) & (weights == 0.0)] = np.nan
            X[::5, weights == 0.0] = np.inf
            X[-1, np.flatnonzero(weights)[:1]] = np.nan
            yield X, rng.integers(0, len(X), n), weights
