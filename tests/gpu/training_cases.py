"""A small data set for what surrounds the hinges: statistics, order, scores."""

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
