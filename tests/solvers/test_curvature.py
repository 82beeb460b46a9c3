"""The small problem with curvature, in feature space and over inner products, and the shape of the curvature."""

import numpy as np
import pytest

from rankwright.solvers.metric import IDENTITY, shape_of
from rankwright.solvers.planes import PlaneBook


def filled(n_blocks, n_features, inner, n_planes=4, seed=0):
    rng = np.random.default_rng(seed)
    book = PlaneBook(n_blocks, 8, n_features)
    assert (book._inner is not None) == (n_features > max(200, 2.5 * n_blocks))
    if not inner:
        book._inner = None
    for _ in range(n_planes):
        vectors = rng.normal(size=(n_blocks, n_features)) / np.sqrt(n_features)
        losses = 1.0 + rng.random(n_blocks)
        book.add(losses, vectors, np.zeros(n_features))
        book.counts[:] = np.maximum(book.counts, 2)
    return book


def value(book, w, centre=None, curvature=0.0, sigma=IDENTITY):
    slack = book.losses - book.vectors @ w
    slack[np.arange(slack.shape[1]) >= book.counts[:, None]] = 0.0
    found = 0.5 * w @ w + slack.max(axis=1).sum()
    if curvature:
        away = w - centre
        found += 0.5 * curvature * away @ (sigma @ away if sigma.size else away)
    return found


def test_inner_products_give_the_weights_of_feature_space():
    books = [filled(5, 260, inner) for inner in (False, True)]
    for book in books:
        book.improve(1.0, 1e-6, 50)
    plain, inner = books
    assert value(plain, plain.w) - plain.dual < 1e-4
    assert value(inner, inner.w) - inner.dual < 1e-4
    np.testing.assert_allclose(inner.w, plain.w, atol=1e-4)
    centre = np.random.default_rng(1).normal(size=260) / 20
    near = [book.near(centre, 3.0, 1.0, 1e-6, 50) for book in books]
    np.testing.assert_allclose(near[1][0], near[0][0], atol=1e-4)
    for book, (w, without) in zip(books, near, strict=True):
        assert without == pytest.approx(value(book, w), abs=1e-9)


def test_inner_products_follow_new_and_rescaled_planes():
    book = filled(5, 260, True, n_planes=12)  # more than a block keeps
    book.improve(1.0, 1e-6, 50)
    book.rescale(3.0)
    for _ in range(3):
        book.improve(1.0, 1e-6, 50)
    places = book._inner._places
    planes = book.vectors[places[:, 0], places[:, 1]]
    n = len(places)
    np.testing.assert_allclose(book._inner._G[:n, :n], planes @ planes.T, atol=1e-9)
    assert value(book, book.w) - book.dual < 1e-4


@pytest.mark.parametrize("n_features", [6, 260])
def test_near_minimises_with_the_curvature_of_a_metric(n_features):
    rng = np.random.default_rng(2)
    book = filled(5, n_features, True)
    root = rng.normal(size=(n_features, n_features)) / np.sqrt(n_features)
    book.metric = root @ root.T + 0.1 * np.eye(n_features)
    centre = rng.normal(size=n_features) / 5
    w, _ = book.near(centre, 2.0, 1.0, 1e-7, 100)
    least = value(book, w, centre, 2.0, book.metric)
    for _ in range(200):
        move = rng.normal(size=n_features) * 10.0 ** rng.uniform(-3, 0) / np.sqrt(n_features)
        assert value(book, w + move, centre, 2.0, book.metric) > least - 1e-5


def sampler(rows):
    return lambda wanted=None: rows if wanted is None else rows[:wanted]


def test_the_shape_is_the_covariance_shrunk_by_its_noise():
    rng = np.random.default_rng(3)
    root = rng.normal(size=(20, 20))
    true = root @ root.T
    true *= 20 / np.trace(true)
    rows = rng.multivariate_normal(np.zeros(20), true, size=4000)
    shape = shape_of(sampler(rows), 20)
    assert np.trace(shape) == pytest.approx(20)
    assert np.abs(shape - true).max() < 0.15 * np.abs(true).max()
    few = rng.normal(size=(60, 20))
    raw = few.T @ few / 60
    shrunk = shape_of(sampler(few), 20)
    assert np.linalg.norm(shrunk - np.eye(20)) < 0.5 * np.linalg.norm(raw - np.eye(20))


def test_many_features_have_a_shape_only_if_they_are_correlated():
    rng = np.random.default_rng(4)
    assert shape_of(sampler(rng.normal(size=(600, 300))), 300) is IDENTITY
    correlated = rng.normal(size=(600, 5)) @ rng.normal(size=(5, 300))
    shape = shape_of(sampler(correlated), 300)
    assert shape.shape == (300, 300)
    assert shape_of(lambda wanted=None: correlated[: wanted or 0], 300) is None
