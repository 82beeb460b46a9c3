"""Small data and losses for the hinges: made the same way by the tests and by the script on the device."""

import numpy as np

from rankwright.maxmargin.losses import _clicks, _pairs, parse_losses

LOSSES = {
    "map": ("map", None),
    "auc": ("auc", None),
    "ndcg": ("ndcg", None),
    "ndcg@3": ("ndcg@3", None),
    "ndcg@6": ("ndcg@6", None),  # more rows than threads, simulated
    "mrr@4": ("mrr@4", "po"),
    "mrr": ("mrr", "mrr"),
    "dorm": ("dorm", None),
    "dorm@3": ("dorm@3", None),
}
NAMES = (*LOSSES, "pairs", "clicks")
SIZES = (2, 9, 3, 14, 6)
N_FEATURES = 5


def oracle_of(name):
    if name == "pairs":
        table = np.tril(np.random.default_rng(1).uniform(0.5, 2.0, (7, 7)), -1)
        return _pairs(np.concatenate([[7.0], table.ravel()]))
    if name == "clicks":
        return _clicks()
    loss, feature_map = LOSSES[name]
    found = parse_losses(loss, feature_map)[0]
    return found.measure.oracle(found.feature_map)


def made(seed=0):
    """Features with equal rows, grades 0 … 6, rows of a query in any order, weights to evaluate at."""
    rng = np.random.default_rng(seed)
    indptr = np.concatenate([[0], np.cumsum(SIZES)])
    n = int(indptr[-1])
    X = rng.integers(-2, 3, (n + 4, N_FEATURES)).astype(np.float32)
    rows = np.concatenate([rng.permutation(size) + 2 + first for size, first in zip(SIZES, indptr, strict=False)])
    grades = rng.integers(0, 7, n).astype(np.float64)
    grades[indptr[:-1]], grades[indptr[:-1] + 1] = 0.0, 5.0
    weights = np.vstack([np.zeros(N_FEATURES), rng.normal(size=(2, N_FEATURES))])
    scale = rng.uniform(0.5, 2.0, N_FEATURES)
    scale[3] = np.inf
    cost = rng.uniform(0.5, 1.5, len(SIZES))
    cost[2] = 0.0
    return {
        "X": X, "rows": rows, "indptr": indptr, "grades": grades, "scale": scale, "cost": cost,
        "blocks": np.array([0, 3, 5]), "weights": weights,
    }  # fmt: skip


def labels_of(name, grades):
    """Labels as the oracle wants them."""
    if name in ("pairs", "dorm"):
        return grades
    if name == "dorm@3":
        return grades % 3
    if name == "clicks":
        return np.where(grades > 3, grades / 2, 0.0)
    return (grades > 3).astype(np.float64)


def asked(hinge, weights):
    """Everything that a solver asks a hinge for."""
    found = {}
    for at, w in enumerate(weights):
        planes = hinge.evaluate(w)
        found[f"losses {at}"] = planes.losses.copy()
        found[f"vectors {at}"] = planes.vectors.copy()
        found[f"values {at}"] = planes.values.copy()
        found[f"violations {at}"] = hinge.violations(w)
    found["sample"] = hinge.sample(12)
    if hinge.oracle.feature_map in ("po", "mrr", "dorm"):
        found["current"] = hinge.current_ranking(weights[1])
        turned = hinge.linearise(weights[1])
        found["turned"], found["same"] = turned.vector, np.array(turned.same_planes)
        planes = hinge.evaluate(weights[2])
        found["vectors turned"], found["values turned"] = planes.vectors.copy(), planes.values.copy()
        hinge.add(np.arange(len(hinge.rows)) / 7.0)
        found["added"] = hinge.evaluate(weights[1]).values.copy()
        hinge.reset()
        found["back"] = hinge.evaluate(weights[1]).values.copy()
    hinge.rescale(2.0)
    found["rescaled"] = np.array(hinge.value(weights[1]))
    return found
