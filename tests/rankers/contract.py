"""The rankers that the contract is about, and data for it."""

import inspect

import numpy as np

import rankwright.rankers
from rankwright.rankers.base import Ranker

# Class name → settings with which it trains in a moment; those it has by itself otherwise.
QUICK = {
    "AutoRanker": {"members": ["svm-map", "rank-svm"], "cv": 2},
    "LambdaBoost": {"n_rounds": 20},
    "LambdaRank": {"epochs": 8},
    "RankNet": {"epochs": 8},
    "LambdaMART": {"n_trees": 12, "max_leaves": 6, "min_rows": 2},
    "McRank": {"n_trees": 8, "max_leaves": 6, "min_rows": 2},
}
# Those with which it learns what can be learnt.
THOROUGH = {"n_rounds": 100, "epochs": 40, "n_trees": 60}


def all_rankers():
    """The public classes of the package that can be fitted."""
    public = (getattr(rankwright, name) for name in rankwright.__all__)
    classes = {item for item in public if inspect.isclass(item) and issubclass(item, Ranker)}
    classes.remove(rankwright.PythonRanker)  # which learns what its user's class does: importing/test_own_rankers.py
    return sorted(classes, key=lambda cls: cls.__name__)


def make(n_queries=15, n_docs=12, n_features=5, noise=0.0, seed=0):
    """Labels 0 and 1, decided by a linear function in every query with a margin, and by noise."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), n_docs)
    X = rng.normal(size=(len(qid), n_features))
    y = (np.arange(len(qid)) % n_docs < n_docs // 3).astype(int)
    direction = np.array([1.0, -1.0, 0.5, 0.0, 0.0])[:n_features]
    X += np.outer(3 * y - X @ direction, direction) / (direction @ direction)  # X @ direction is now 3y
    X += noise * rng.normal(size=X.shape)
    mixed = rng.permutation(len(qid))
    return X[mixed], y[mixed], qid[mixed]


def bits(array):
    return np.asarray(array).tobytes()
