"""Every ranking of small queries, listed one by one: losses, feature maps, hinges, and a programme over all of them.

Losses, feature maps and weights of positions are written here from their definitions; nothing of the package's measures
and oracles is used.
"""

import functools
import itertools

import numpy as np
from scipy.optimize import minimize, nnls


def random_queries(seed, n_queries=3, n_features=2, sizes=(3, 4), grades=3):
    """Queries with something to order for every loss, the first feature of some use."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), rng.integers(sizes[0], sizes[1] + 1, n_queries))
    y = rng.integers(0, grades, len(qid))
    for q in range(n_queries):
        y[rng.permutation(np.flatnonzero(qid == q))[:2]] = [0, grades - 1]
    X = rng.normal(size=(len(qid), n_features))
    X[:, 0] += y / 2
    return X, y, qid


def loss_of(name, ranked):
    """1 − measure of labels in rank order: grades for DORM, 0 and 1 for the others."""
    n, goods = len(ranked), [rank for rank, label in enumerate(ranked) if label]
    kind, _, cutoff = name.partition("@")
    k = int(cutoff or n)
    if kind == "auc":
        wrong = sum(1 for good in goods for rank in range(good) if not ranked[rank])
        return wrong / (len(goods) * (n - len(goods)))
    if kind == "map":
        return 1 - sum((i + 1) / (rank + 1) for i, rank in enumerate(goods)) / len(goods)
    if kind == "mrr":
        return 1 - (1 / (goods[0] + 1) if goods[0] < k else 0)
    gained = [sum((2**label - 1) / np.log2(2 + rank) for rank, label in enumerate(labels[:k])) for labels in
              (ranked, sorted(ranked, reverse=True))]  # fmt: skip
    return 1 - gained[0] / gained[1]


def position_weights(feature_map, n):
    profile, _, end = feature_map.partition(":")[2].partition("@")
    ranks = np.arange(n)
    weights = 1 / np.sqrt(1 + ranks) if profile == "sqrt" else 1 / np.log2(2 + ranks)
    return np.where(ranks < int(end or n), weights, 0.0)


def coefficients_of(feature_map, ranking, labels, ideal):
    """The c of δΨ = Σ c_i x_i; ``ideal``: every ideal ranking."""
    n, rank, coef = len(labels), np.argsort(ranking), np.zeros(len(labels))
    if feature_map.startswith("dorm"):
        weights = position_weights(feature_map, n)
        return np.mean([weights[np.argsort(best)] for best in ideal], axis=0) - weights[rank]
    goods, bads = [i for i in range(n) if labels[i]], [i for i in range(n) if not labels[i]]
    top = min(goods, key=lambda i: rank[i])
    for good, bad in itertools.product([top] if feature_map == "mrr" else goods, bads):
        if rank[bad] < rank[good]:
            unit = 1 if feature_map == "mrr" else 2 / (len(goods) * len(bads))
            coef[[good, bad]] += unit, -unit
    return coef


def map_of(name, feature_map):
    return feature_map or ("dorm" if name.startswith("dorm") else "po")


@functools.cache
def all_rankings(name, feature_map, labels):
    """Loss and coefficients of every ranking of one query, without those that occur twice."""
    rankings = list(itertools.permutations(range(len(labels))))
    ideal = [ranking for ranking in rankings if list(np.diff([labels[i] for i in ranking])) == sorted_falls(labels)]
    rows = set()
    for ranking in rankings:
        coef = coefficients_of(feature_map, ranking, labels, ideal)
        rows.add((loss_of(name, [labels[i] for i in ranking]), *coef.round(12)))
    table = np.array(sorted(rows))
    return table[:, 0], table[:, 1:]


def sorted_falls(labels):
    return list(np.diff(sorted(labels, reverse=True)))


def constraints(losses, maps, weights, slack, X, y, qid, relevant_from=1):
    """All (weight · loss, weight · δΨ) with the slack each belongs to: one per query and loss, or one per query."""
    rows = []
    for q in np.unique(qid):
        x = X[qid == q]
        for number, (name, feature_map, weight) in enumerate(zip(losses, maps, weights, strict=True)):
            graded = feature_map.startswith("dorm")
            labels = y[qid == q] if graded else (y[qid == q] >= relevant_from).astype(int)
            if labels.min() < labels.max():
                values, coef = all_rankings(name, feature_map, tuple(labels.tolist()))
                owner = (int(q), number if slack == "separate" else 0)
                rows += [(weight * value, weight * row @ x, owner) for value, row in zip(values, coef, strict=True)]
    owners = sorted({row[2] for row in rows})
    return (
        np.array([row[0] for row in rows]),
        np.array([row[1] for row in rows]),
        np.array([owners.index(row[2]) for row in rows]),
    )


def listed(combination):
    """What `constraints` wants, for the settings of StructuredSVM."""
    losses, maps, weights = combination
    maps = [maps] * len(losses) if maps is None or isinstance(maps, str) else maps
    return losses, [map_of(name, kind) for name, kind in zip(losses, maps, strict=True)], weights or [1.0] * len(losses)


def settings_of(combination, slack, bound="hinge"):
    losses, maps, weights = combination
    return {"loss": losses, "feature_map": maps, "loss_weights": weights, "slack": slack, "bound": bound}


def hinges(rows, w):
    losses, vectors, slack = rows
    worst = np.full(slack.max() + 1, -np.inf)
    np.maximum.at(worst, slack, losses - vectors @ w)
    return worst.sum()


def programme(rows, cost):
    """Minimise ½‖w‖² + cost Σ ξ with ξ ≥ loss − w·δΨ for all rankings; a dual point proves the answer."""
    losses, vectors, slack = rows
    d, n_slacks = vectors.shape[1], slack.max() + 1
    A = np.zeros((len(losses), d + n_slacks))
    A[:, :d], A[np.arange(len(losses)), d + slack] = vectors, 1.0
    found = minimize(
        lambda x: 0.5 * x[:d] @ x[:d] + cost * x[d:].sum(),
        np.repeat([0.0, losses.max()], [d, n_slacks]),
        jac=lambda x: np.append(x[:d], np.full(n_slacks, cost)),
        constraints={"type": "ineq", "fun": lambda x: A @ x - losses, "jac": lambda x: A},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    w = found.x[:d]
    active = A @ found.x - losses < 1e-6
    targets = np.append(w, np.full(n_slacks, cost))
    z = np.zeros(len(losses))
    z[active] = nnls(A[active].T, targets)[0]
    z *= cost / np.bincount(slack, z, n_slacks)[slack]  # feasible, so that this is a bound
    primal = 0.5 * w @ w + cost * hinges(rows, w)
    dual = z @ losses - 0.5 * np.sum((vectors.T @ z) ** 2)
    assert -1e-12 < primal - dual < 1e-8 * primal  # the judge is judged too
    return primal, w
