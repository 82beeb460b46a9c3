"""Coefficients of documents: what planes are made of, and the same from nothing but the scores."""

import numpy as np
import pytest

from rankwright.maxmargin.hinge import StructuredHinge
from rankwright.measures import parse_measure

RNG = np.random.default_rng(4)
SIZES = np.array([7, 12, 3, 9])
INDPTR = np.concatenate([[0], np.cumsum(SIZES)])
N_DOCS = int(INDPTR[-1])
X = RNG.normal(size=(N_DOCS, 4))
ROWS = np.concatenate([first + RNG.permutation(size) for first, size in zip(INDPTR, SIZES, strict=False)])
SCALE = np.array([1.0, 0.5, np.inf, 2.0])
COST = np.array([0.5, 1.0, 0.0, 2.0])
GRADES = np.concatenate([np.arange(size) % 4 for size in SIZES]).astype(float)
LOSSES = {"map": "AP", "auc": "AUC", "ndcg": "nDCG", "mrr": "RR@5", "dorm": "nDCG@5", "dorm by a library": "nDCG@5"}


def hinge_of(name, features, rows, scale):
    measure = parse_measure(LOSSES[name]).resolve("letor")
    oracle = measure.oracle("dorm" if name.startswith("dorm") else None)
    labels = GRADES if oracle.graded else (GRADES > 1).astype(float)
    if name == "dorm by a library":
        cheap = oracle.cheap
        object.__setattr__(oracle, "cheap", lambda labels: len(labels) < 9 and cheap(labels))
    labels.flags.writeable = False
    return StructuredHinge(features, rows, labels, INDPTR, oracle, COST, scale, np.array([0, 2, 4]), 2)


@pytest.mark.parametrize("name", LOSSES)
def test_planes_are_sums_of_coefficients_times_rows(name):
    hinge = hinge_of(name, X, ROWS, SCALE)
    w = np.array([0.4, -0.3, 0.2])
    weights = hinge.coefficients(w)
    planes = hinge.evaluate(w)
    coef, losses = hinge.of_documents(weights, COST)
    by_document = (np.repeat(COST, SIZES) * coef)[:, None] * X[ROWS] / SCALE
    expected = np.add.reduceat(by_document, INDPTR[[0, 2]], axis=0)[:, [0, 1, 3]]
    np.testing.assert_allclose(planes.vectors, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(planes.losses, np.add.reduceat(COST * losses, [0, 2]), rtol=1e-12)
    scores = (X @ weights)[ROWS]
    of_scores = hinge_of(name, scores[:, None], np.arange(N_DOCS), np.ones(1))
    from_scores = of_scores.of_documents(np.ones(1), COST)
    np.testing.assert_allclose(from_scores[0], coef, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(from_scores[1], losses, rtol=1e-9)
    current = hinge.current_ranking(w)
    np.testing.assert_array_equal(current, hinge.of_documents(weights, COST, current=True)[0])
    turned = hinge.linearise(w).vector
    if LOSSES[name] != "RR@5":  # where one good document counts, labels change
        moved = ((np.repeat(COST, SIZES) * current)[:, None] * X[ROWS] / SCALE).sum(axis=0)[[0, 1, 3]]
        np.testing.assert_allclose(turned, moved, rtol=1e-9, atol=1e-12)
    for one in (hinge, of_scores):
        one.close()
