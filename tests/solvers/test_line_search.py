"""The exact line search: its values are those of the measure everywhere, and nothing on a grid is better."""

import itertools

import numpy as np
import pytest
from scipy import optimize

from rankwright.measures import Rankings, parse_measure
from rankwright.solvers import line_search as module
from rankwright.solvers.direction_set import direction_set_search
from rankwright.solvers.line_search import MeasureOnLines, spread_within
from rankwright.solvers.line_sweep import best_place

MEASURES = ("ndcg@10", "ndcg@3", "ndcg", "map", "map@3", "mrr", "mrr@2", "P@2", "R@3", "rbp", "rbp@4", "err@5", "auc")
MANY = (
    "ndcg@3",
    "ndcg@40",
    "ndcg",
    "map",
    "map@5",
    "mrr",
    "P@7",
    "err@5",
    "AveNDCG",
)  # enough documents for every way to sort


def make(rng, whole_numbers, n_queries=6, longest=9, n_components=2, shortest=1):
    sizes = rng.integers(shortest, longest, size=n_queries)
    indptr = np.append(0, np.cumsum(sizes))
    labels = rng.integers(0, 3, size=indptr[-1]).astype(float)
    shape = (n_components, indptr[-1])
    scores = rng.integers(0, 4, size=shape).astype(float) if whole_numbers else rng.normal(size=shape)
    return labels, indptr, scores


def by_definition(labels, indptr, measure, scores):
    """The mean value: sorted query by query, equal scores as they stand."""
    queries = itertools.pairwise(indptr)
    order = np.concatenate([start + np.argsort(-scores[start:stop], kind="stable") for start, stop in queries])
    rankings = Rankings(labels[order], indptr)
    return np.where(measure.has_relevant(rankings), measure.value(rankings), 0.0).mean()


def check_values(on_lines, labels, indptr, measure, base, step, most=10**6):
    at, values = on_lines.along(base, step)
    assert len(values) == len(at) + 1
    assert (np.diff(at) > 0).all()
    edges = np.concatenate([[-100.0], at, [100.0]])
    chosen = np.arange(len(values))
    if len(chosen) > most:
        chosen = np.random.default_rng(0).choice(chosen, most, replace=False)
    for low, high, value in zip(edges[:-1][chosen], edges[1:][chosen], values[chosen], strict=True):
        if high - low > 1e-6:  # not the middle, where whole numbers may be equal
            scores = base + (low + 0.47291 * (high - low)) * step
            assert by_definition(labels, indptr, measure, scores) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("whole_numbers", [False, True])
@pytest.mark.parametrize("name", MEASURES)
def test_values_are_those_of_the_measure(name, whole_numbers):
    rng = np.random.default_rng(0)
    measure = parse_measure(name).resolve("letor")
    for _ in range(15):
        labels, indptr, (base, step) = make(rng, whole_numbers)
        check_values(MeasureOnLines(labels, indptr, measure), labels, indptr, measure, base, step)


@pytest.mark.parametrize("whole_numbers", [False, True])
@pytest.mark.parametrize("name", MANY)
def test_values_of_long_queries(name, whole_numbers):
    rng = np.random.default_rng(1)
    measure = parse_measure(name).resolve("letor")
    labels, indptr, (base, step) = make(rng, whole_numbers, n_queries=3, shortest=30, longest=110)
    if not whole_numbers:
        base[::7] = base[::7].round()  # some are equal
    check_values(MeasureOnLines(labels, indptr, measure), labels, indptr, measure, base, step, most=60)


@pytest.mark.parametrize("name", ["ndcg@3", "map", "err@5"])
def test_pieces_with_too_many_swaps_are_divided(monkeypatch, name):
    rng = np.random.default_rng(2)
    measure = parse_measure(name).resolve("letor")
    labels, indptr, (base, step) = make(rng, False, n_queries=2, shortest=70, longest=75)
    whole = MeasureOnLines(labels, indptr, measure).along(base, step)
    monkeypatch.setattr(module, "_ROOM", 65)
    monkeypatch.setattr(module, "_ROWS", 300)
    monkeypatch.setattr(module, "_BUFFER", 50)  # and room for the changes is made as they come
    for one, other in zip(whole, MeasureOnLines(labels, indptr, measure).along(base, step), strict=True):
        assert one == pytest.approx(other, abs=1e-9)


@pytest.mark.parametrize("name", ["ndcg", "map", "mrr", "err@5"])
def test_all_documents_meet_in_one_point(monkeypatch, name):
    monkeypatch.setattr(module, "_ROOM", 65)  # far less than all pairs
    measure = parse_measure(name).resolve("letor")
    labels, indptr = np.arange(40.0) % 3, np.array([0, 40])
    step = np.random.default_rng(3).permutation(40).astype(float)
    on_lines = MeasureOnLines(labels, indptr, measure)
    at, values = on_lines.along(np.zeros(40), step)
    ends = [by_definition(labels, indptr, measure, sign * step) for sign in (-1, 1)]
    assert values[[0, -1]] == pytest.approx(ends)
    assert np.abs(at).max() < 1e-6
    assert on_lines.best(np.zeros(40), step)[1] == pytest.approx(max(*ends, on_lines.value(np.zeros(40))))


@pytest.mark.parametrize("whole_numbers", [False, True])
@pytest.mark.parametrize("name", MEASURES)
def test_nothing_on_a_dense_grid_is_better(name, whole_numbers):
    rng = np.random.default_rng(4)
    for _ in range(5):
        labels, indptr, (base, step) = make(rng, whole_numbers)
        on_lines = MeasureOnLines(labels, indptr, parse_measure(name).resolve("letor"))
        t, value = on_lines.best(base, step)
        assert on_lines.value(base + t * step) == pytest.approx(value, abs=1e-12)
        grid = np.linspace(-20, 20, 401) + 1e-4  # beside the ties of whole numbers
        assert value >= max(on_lines.value(base + t * step) for t in grid) - 1e-12


@pytest.mark.parametrize("bins", [1, 7, 100])
def test_the_best_place_of_changes(bins):
    rng = np.random.default_rng(5)
    for _ in range(200):
        starts, n = rng.integers(0, 3, 3) / 4, rng.integers(0, 40)
        at = 3 * rng.random(n) * (1 - 1e-9)
        at[n // 2 :] = (8 * at[n // 2 :]).round() / 8 * (1 - 1e-9)  # several at one place
        change = rng.integers(-2, 3, n) / 4
        value, low, high = best_place(starts, at, change, np.int64(bins), 1e-9)
        edges = np.unique(np.concatenate([np.arange(4.0), at, np.arange(3 * bins) / bins]))
        kept = np.append(np.diff(edges) > 1e-9, False)
        middles = (edges[:-1] + edges[1:])[kept[:-1]] / 2
        inside = (at < middles[:, None]) & (at.astype(int) == middles.astype(int)[:, None])
        values = starts[middles.astype(int)] + inside @ change
        assert value == pytest.approx(values.max())
        assert values[np.argmin(np.abs(middles - (low + high) / 2))] == pytest.approx(value)
        assert high - low >= np.diff(edges)[kept[:-1]][values > values.max() - 1e-9].max() - 1e-8


def test_queries_that_cannot_change_count_as_they_are():
    measure = parse_measure("ndcg@10").resolve("letor")
    labels, indptr = np.array([0.0, 0.0, 1.0, 1.0, 2.0]), np.array([0, 2, 4, 5])
    on_lines = MeasureOnLines(labels, indptr, measure)
    at, values = on_lines.along(np.arange(5.0), np.ones(5))
    assert at.tolist() == []
    assert values.tolist() == [pytest.approx(2 / 3)]  # none relevant 0, all alike 1, one alone 1
    assert on_lines.best(np.arange(5.0), -np.arange(5.0)) == (0.0, pytest.approx(2 / 3))


def test_weights_of_queries():
    rng = np.random.default_rng(6)
    labels, indptr, (base, step) = make(rng, whole_numbers=False)
    measure = parse_measure("map").resolve("letor")
    first = MeasureOnLines(labels[: indptr[1]], indptr[:2], measure)
    only = MeasureOnLines(labels, indptr, measure, np.eye(len(indptr) - 1)[0])
    rows = slice(0, indptr[1])
    for one, other in zip(first.along(base[rows], step[rows]), only.along(base, step), strict=True):
        assert one == pytest.approx(other)


def test_spread_within_queries():
    rng = np.random.default_rng(7)
    components, indptr = rng.normal(size=(3, 12)), np.array([0, 5, 5, 12])
    centred = [part - part.mean(axis=1, keepdims=True) for part in (components[:, :5], components[:, 5:])]
    assert spread_within(components, indptr) == pytest.approx(np.cov(np.hstack(centred), bias=True))


def learnable(seed, n_components=3, n_queries=20, longest=12):
    labels, indptr, noise = make(np.random.default_rng(seed), False, n_queries, longest, n_components)
    return labels, indptr, (0.5 * labels + noise).T


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


def test_the_search_is_deterministic_and_says_how_far_it_is():
    labels, indptr, components = learnable(4)
    on_lines = MeasureOnLines(labels, indptr, parse_measure("ndcg@5").resolve("letor"))
    one, other = (direction_set_search(components, on_lines, [np.ones(3)]) for _ in range(2))
    assert (one.weights.tobytes(), one.value, one.n_lines) == (other.weights.tobytes(), other.value, other.n_lines)
    calls: list[int] = []
    direction_set_search(components, on_lines, [np.ones(3)], progress=calls.append)
    assert calls == list(range(1, one.n_lines + 1))
    fewer = direction_set_search(components, on_lines, [np.ones(3)], leaps=0)
    assert fewer.n_lines < one.n_lines
    assert fewer.value <= one.value
