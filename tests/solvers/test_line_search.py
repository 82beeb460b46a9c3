"""The exact line search: its values are those of the measure everywhere, and nothing on a grid is better."""

import numpy as np
import pytest
from scipy import optimize

from rankwright.measures import parse_measure
from rankwright.solvers.direction_set import direction_set_search
from rankwright.solvers.line_search import MeasureOnLines

MEASURES = ("ndcg@10", "ndcg@3", "ndcg", "map", "map@3", "mrr", "mrr@2", "err@5", "P@2", "rbp")


def make(rng, whole_numbers, n_queries=6, longest=9, n_components=2):
    sizes = rng.integers(1, longest, size=n_queries)
    indptr = np.append(0, np.cumsum(sizes))
    labels = rng.integers(0, 3, size=indptr[-1]).astype(float)
    shape = (n_components, indptr[-1])
    scores = rng.integers(0, 4, size=shape).astype(float) if whole_numbers else rng.normal(size=shape)
    return labels, indptr, scores


@pytest.mark.parametrize("whole_numbers", [False, True])
@pytest.mark.parametrize("name", MEASURES)
def test_values_are_those_of_the_measure(name, whole_numbers):
    rng = np.random.default_rng(0)
    for _ in range(40):
        labels, indptr, (base, step) = make(rng, whole_numbers)
        on_lines = MeasureOnLines(labels, indptr, parse_measure(name).resolve("letor"))
        at, values = on_lines.along(base, step)
        assert len(values) == len(at) + 1
        edges = np.concatenate([[-100.0], at, [100.0]])
        for low, high, value in zip(edges[:-1], edges[1:], values, strict=True):
            if high - low > 1e-6:  # not the middle, where whole numbers may be equal
                assert on_lines.value(base + (low + 0.47291 * (high - low)) * step) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("whole_numbers", [False, True])
@pytest.mark.parametrize("name", MEASURES)
def test_nothing_on_a_dense_grid_is_better(name, whole_numbers):
    rng = np.random.default_rng(1)
    for _ in range(10):
        labels, indptr, (base, step) = make(rng, whole_numbers)
        on_lines = MeasureOnLines(labels, indptr, parse_measure(name).resolve("letor"))
        t, value = on_lines.best(base, step)
        assert on_lines.value(base + t * step) == pytest.approx(value, abs=1e-12)
        grid = np.linspace(-20, 20, 401) + 1e-4  # beside the ties of whole numbers
        assert value >= max(on_lines.value(base + t * step) for t in grid) - 1e-12


def test_queries_that_cannot_change_count_as_they_are():
    measure = parse_measure("ndcg@10").resolve("letor")
    labels, indptr = np.array([0.0, 0.0, 1.0, 1.0, 2.0]), np.array([0, 2, 4, 5])
    on_lines = MeasureOnLines(labels, indptr, measure)
    at, values = on_lines.along(np.arange(5.0), np.ones(5))
    assert at.tolist() == []
    assert values.tolist() == [pytest.approx(2 / 3)]  # none relevant 0, all alike 1, one alone 1
    assert on_lines.best(np.arange(5.0), -np.arange(5.0)) == (0.0, pytest.approx(2 / 3))


def test_weights_of_queries():
    rng = np.random.default_rng(2)
    labels, indptr, (base, step) = make(rng, whole_numbers=False)
    measure = parse_measure("map").resolve("letor")
    first = MeasureOnLines(labels[: indptr[1]], indptr[:2], measure)
    only = MeasureOnLines(labels, indptr, measure, np.eye(len(indptr) - 1)[0])
    rows = slice(0, indptr[1])
    for one, other in zip(first.along(base[rows], step[rows]), only.along(base, step), strict=True):
        assert one == pytest.approx(other)


def test_direction_set_search_finds_at_least_what_scipy_finds():
    rng = np.random.default_rng(3)
    for seed in range(4):
        labels, indptr, noise = make(rng, False, n_queries=20, longest=12, n_components=3)
        components = (0.5 * labels + noise).T
        on_lines = MeasureOnLines(labels, indptr, parse_measure("ndcg@5").resolve("letor"))
        starts = [np.ones(3), *np.eye(3)]
        found = direction_set_search(components, on_lines, starts)
        assert on_lines.value(components @ found.weights) == pytest.approx(found.value, abs=1e-12)
        assert np.linalg.norm(found.weights) == pytest.approx(1)
        for start in starts:
            other = optimize.minimize(lambda w, c=components, m=on_lines: -m.value(c @ w), start, method="Powell")
            assert found.value >= -other.fun - 1e-12, seed


def test_the_search_is_deterministic():
    labels, indptr, noise = make(np.random.default_rng(4), False, n_queries=10)
    on_lines = MeasureOnLines(labels, indptr, parse_measure("ndcg@5").resolve("letor"))
    one, other = (direction_set_search(noise.T, on_lines, [np.ones(2)]) for _ in range(2))
    assert (one.weights.tobytes(), one.value, one.n_lines) == (other.weights.tobytes(), other.value, other.n_lines)
