"""The small problem with curvature, and the shape of the curvature."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from rankwright.data.threads import Team
from rankwright.maxmargin.bundle import FLAT, MANY_FEATURES, PlaneBook, Shape, shape_of
from rankwright.maxmargin.order import centred_sample, rows_wanted
from rankwright.maxmargin.smoothed import solve_in_place


def filled(n_blocks, n_features, n_planes=4, seed=0):
    rng = np.random.default_rng(seed)
    book = PlaneBook(n_blocks, 8, n_features)
    for _ in range(n_planes):
        vectors = rng.normal(size=(n_blocks, n_features)) / np.sqrt(n_features)
        losses = 1.0 + rng.random(n_blocks)
        book.add(losses, vectors, np.zeros(n_features))
        book.counts[:] = np.maximum(book.counts, 2)
    return book


def matrix(shape, n_features):
    sigma = shape.level * np.eye(n_features)
    sigma += shape.whole if shape.whole.size else 0.0
    return sigma + shape.rows.T @ shape.rows if shape.rows.size else sigma


def value(book, w, centre=None, curvature=0.0, shape=FLAT):
    slack = book.losses - book.vectors @ w
    slack[np.arange(slack.shape[1]) >= book.counts[:, None]] = 0.0
    found = 0.5 * w @ w + slack.max(axis=1).sum()
    if curvature:
        away = w - centre
        found += 0.5 * curvature * away @ matrix(shape, len(w)) @ away
    return found


@pytest.mark.parametrize("n_features", [6, 260, MANY_FEATURES + 40])
def test_the_minimum_over_the_planes_has_a_certificate(n_features):
    book = filled(5, n_features)
    book.improve(1.0, 1e-6, 50)
    assert value(book, book.w) - book.dual < 1e-4
    centre = np.random.default_rng(1).normal(size=n_features) / 20
    w, without = book.near(centre, 3.0, 1.0, 1e-6, 50)
    assert without == pytest.approx(value(book, w), abs=1e-9)


NONE = np.empty((0, 0))


@pytest.mark.parametrize(("n_features", "whole"), [(6, True), (260, True), (MANY_FEATURES + 40, False)])
def test_near_minimises_with_the_curvature_of_a_shape(n_features, whole):
    rng = np.random.default_rng(2)
    book = filled(5, n_features)
    root = rng.normal(size=(n_features, n_features)) / np.sqrt(n_features)
    root = root if whole else np.ascontiguousarray(np.linalg.qr(root)[0][:3] * np.array([[3.0], [2.0], [1.0]]))
    book.shape = Shape(0.1, root.T @ root, NONE) if whole else Shape(0.1, NONE, root)
    v = rng.normal(size=n_features)
    assert book.shape.square(v) == pytest.approx(v @ matrix(book.shape, n_features) @ v)
    centre = rng.normal(size=n_features) / 5
    w, _ = book.near(centre, 2.0, 1.0, 1e-7, 100)
    least = value(book, w, centre, 2.0, book.shape)
    for _ in range(200):
        move = rng.normal(size=n_features) * 10.0 ** rng.uniform(-3, 0) / np.sqrt(n_features)
        assert value(book, w + move, centre, 2.0, book.shape) > least - 1e-5


def test_products_follow_planes_that_are_added_replaced_merged_and_rescaled():
    rng = np.random.default_rng(6)
    n_features = MANY_FEATURES + 8
    book = PlaneBook(3, 6, n_features)
    book.shape = Shape(0.1, NONE, np.ascontiguousarray(np.linalg.qr(rng.normal(size=(n_features, 4)))[0].T))
    for turn in range(12):
        book.add(1.0 + rng.random(3), rng.normal(size=(3, n_features)) / 20, np.zeros(n_features))
        if turn == 5:
            book.rescale(2.0)
        if turn == 9:
            book.clear()
        book.improve(1.0, 0.1, 3)
        inner = book._inner
        block, plane = np.nonzero(inner.slots >= 0)
        assert len(block) == book.n_planes
        planes, number = book.vectors[block, plane], inner.slots[block, plane]
        assert inner.gram[np.ix_(number, number)] == pytest.approx(planes @ planes.T, abs=1e-12)
        assert inner.cross[number] == pytest.approx(planes @ book.shape.rows.T, abs=1e-12)


@pytest.mark.parametrize("n", [4, 12, 40])
def test_a_system_is_solved_in_place(n):
    rng = np.random.default_rng(7)
    rows, right = rng.normal(size=(n, n + 3)), rng.normal(size=n)
    A = np.full((n + 3, n + 3), np.nan)
    A[:n, :n] = np.where(np.triu(np.ones((n, n))) > 0, rows @ rows.T, np.nan)  # the lower half is not read
    x = right.copy()
    solve_in_place(A, x, n)
    assert rows @ rows.T @ x == pytest.approx(right, abs=1e-8)


def test_the_shape_is_the_covariance_shrunk_by_its_noise():
    rng = np.random.default_rng(3)
    root = rng.normal(size=(20, 20))
    true = root @ root.T
    true *= 20 / np.trace(true)
    rows = rng.multivariate_normal(np.zeros(20), true, size=4000)
    shape = matrix(shape_of(lambda: rows), 20)
    assert np.trace(shape) == pytest.approx(20)
    assert np.abs(shape - true).max() < 0.15 * np.abs(true).max()
    few = rng.normal(size=(60, 20))
    raw = few.T @ few / 60
    shrunk = matrix(shape_of(lambda: few), 20)
    assert np.linalg.norm(shrunk - np.eye(20)) < 0.5 * np.linalg.norm(raw - np.eye(20))


def test_of_many_features_the_directions_of_most_variance_are_kept():
    rng = np.random.default_rng(5)
    d = MANY_FEATURES + 88
    strong = np.linalg.qr(rng.normal(size=(d, 5)))[0].T * np.sqrt([[400.0], [200.0], [100.0], [50.0], [25.0]])
    rows = rng.normal(size=(3000, 5)) @ strong + rng.normal(size=(3000, d))
    shape = shape_of(lambda: rows)
    assert shape.rows.shape == (5, d)
    true = (strong.T @ strong + np.eye(d)) * d / (775 + d)
    assert np.linalg.norm(matrix(shape, d) - true) < 0.15 * np.linalg.norm(true)
    assert shape_of(lambda: rng.normal(size=(3000, d))).rows.shape == (0, d)  # noise has no direction
    assert shape_of(lambda: np.zeros((3000, d))) is FLAT
    more = rng.normal(size=(3000, 60)) @ (np.linalg.qr(rng.normal(size=(d, 60)))[0].T * 10)
    assert len(shape_of(lambda: more + rng.normal(size=(3000, d))).rows) == 60


@pytest.mark.parametrize(("per_feature", "known"), [(3, False), (5, True)])
def test_the_shape_is_known_where_there_are_enough_documents(per_feature, known):
    X = np.random.default_rng(4).normal(size=(per_feature * 20, 20))
    rows, indptr = np.arange(len(X)), np.arange(0, len(X) + 1, 10)
    shape = shape_of(lambda: centred_sample(X, rows, indptr, np.ones(20), np.arange(20), rows_wanted(len(rows), 20)))
    assert (shape is not None) == known


@pytest.mark.parametrize("sparse", [False, True])
def test_a_sample_is_centred_query_by_query_for_any_number_of_threads(sparse):
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 12, 300)
    indptr = np.append(0, np.cumsum(sizes))
    X = rng.normal(size=(indptr[-1], 6))
    rows = np.concatenate([indptr[q] + rng.permutation(size) for q, size in enumerate(sizes)])
    inverse, kept = np.array([1.0, 2.0, 0.0, 0.5, 1.0, 1.0]), np.array([0, 1, 3, 4, 5])
    team = Team(3)
    try:
        both = [
            centred_sample(csr_array(X) if sparse else X, rows, indptr, inverse, kept, 900, t) for t in (None, team)
        ]
    finally:
        team.close()
    assert np.array_equal(*both)
    draw, at = np.random.default_rng(0), 0
    for q in np.unique(np.linspace(0, 299, 113).astype(int)):
        chosen = rows[indptr[q] + draw.permutation(sizes[q])[:8]]
        part = (X * inverse)[chosen][:, kept]
        part = (part - part.mean(axis=0)) * np.sqrt(len(part) / max(1, len(part) - 1))
        assert both[0][at : at + len(part)] == pytest.approx(part, abs=1e-12)
        at += len(part)
    assert at == len(both[0])
