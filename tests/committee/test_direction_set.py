"""The direction-set search finds what is there to be found, and the same every time."""

import numpy as np
import pytest
from scipy import optimize

from rankwright.committee.lines import MeasureOnLines, direction_set_search
from rankwright.measures import parse_measure


def learnable(seed, n_components=3, n_queries=20, longest=12):
    rng = np.random.default_rng(seed)
    indptr = np.append(0, np.cumsum(rng.integers(1, longest, size=n_queries)))
    labels = rng.integers(0, 3, size=indptr[-1]).astype(float)
    return labels, indptr, (0.5 * labels + rng.normal(size=(n_components, indptr[-1]))).T


def test_direction_set_search_finds_at_least_what_scipy_finds():
    for seed in range(4):
        labels, indptr, components = learnable(seed)
        on_lines = MeasureOnLines(labels, indptr, parse_measure("ndcg@5").resolve("letor"))
        starts = [np.ones(3), *np.eye(3)]
        found = direction_set_search(components, on_lines, starts)
        assert on_lines.value(components @ found.weights) == pytest.approx(found.value, abs=1e-12)
        assert np.linalg.norm(found.weights) == pytest.approx(1)
        for start in starts:
            other = optimize.minimize(lambda w, c=components, m=on_lines: -m.value(c @ w), start, method="Powell")
            assert found.value >= -other.fun - 1e-12, seed


@pytest.mark.parametrize("name", ["ndcg@5", "map", "err@5"])
def test_two_components_are_searched_all_round(name):
    angles = np.linspace(-np.pi, np.pi, 1001)
    for seed in range(3):
        labels, indptr, components = learnable(seed, 2)
        on_lines = MeasureOnLines(labels, indptr, parse_measure(name).resolve("letor"))
        found = direction_set_search(components, on_lines, [[1.0, 1.0]])
        assert found.n_lines == 1
        values = [on_lines.value(components @ [np.cos(angle), np.sin(angle)]) for angle in angles]
        assert found.value >= max(values) - 1e-12
        for start in ([-1.0, 0.2], [0.0, -3.0]):
            assert direction_set_search(components, on_lines, [start]).value == pytest.approx(found.value, abs=1e-12)


def test_components_that_tell_nothing():
    labels, indptr, components = learnable(1)
    on_lines = MeasureOnLines(labels, indptr, parse_measure("map").resolve("letor"))
    best = direction_set_search(components, on_lines, [np.ones(3)]).value
    constant = np.ones((len(labels), 1))
    for more in (constant, np.repeat([[2.0], [5.0]], [indptr[1], len(labels) - indptr[1]], axis=0), components[:, :1]):
        wider = np.hstack([components, more])
        found = direction_set_search(wider, on_lines, [np.ones(4), np.eye(4)[3]])
        assert found.value >= best - 0.03
        assert np.isfinite(found.weights).all()
    for nothing in (constant, np.hstack([constant, constant]), np.zeros((len(labels), 3))):
        found = direction_set_search(nothing, on_lines, [np.ones(nothing.shape[1])])
        assert found.value == on_lines.value(np.zeros(len(labels)))
    turned = direction_set_search(-labels[:, None], on_lines, [[1.0]])
    assert turned.weights.tolist() == [-1.0]
    perfect = direction_set_search(np.column_stack([labels, components]), on_lines, np.eye(4))
    assert perfect.value == on_lines.value(labels)


@pytest.mark.parametrize("labels", [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [1.0, 0.0, 2.0]])
def test_one_query_is_enough(labels):
    components = np.array([[1.0, 2.0, 0.5], [2.0, 1.0, 3.0], [3.0, 1.5, 1.0]])
    on_lines = MeasureOnLines(np.array(labels), np.array([0, 3]), parse_measure("ndcg@10").resolve("letor"))
    found = direction_set_search(components, on_lines, [np.ones(3)])
    assert found.value == (1.0 if any(labels) else 0.0)


def test_the_search_is_deterministic_and_leaps_from_the_best_point():
    labels, indptr, components = learnable(4)
    on_lines = MeasureOnLines(labels, indptr, parse_measure("ndcg@5").resolve("letor"))
    one, other = (direction_set_search(components, on_lines, [np.ones(3)]) for _ in range(2))
    assert (one.weights.tobytes(), one.value, one.n_lines) == (other.weights.tobytes(), other.value, other.n_lines)
    fewer = direction_set_search(components, on_lines, [np.ones(3)], leaps=0)
    assert fewer.n_lines < one.n_lines
    assert fewer.value <= one.value
