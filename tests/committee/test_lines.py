"""The exact line search: its values are those of the measure everywhere, and nothing on a grid is better."""

import itertools

import numpy as np
import pytest

from every_measure import with_every_measure
from rankwright.committee import lines as module
from rankwright.committee.lines import MeasureOnLines, best_place
from rankwright.measures import Measure, Rankings, parse_measure


def make(rng, whole_numbers, n_queries=6, longest=9, n_components=2, shortest=1):
    sizes = rng.integers(shortest, longest, size=n_queries)
    indptr = np.append(0, np.cumsum(sizes))
    labels = rng.integers(0, 3, size=indptr[-1]).astype(float)
    shape = (n_components, indptr[-1])
    scores = rng.integers(0, 4, size=shape).astype(float) if whole_numbers else rng.normal(size=shape)
    return labels, indptr, scores


def by_definition(labels, indptr, measure, scores):
    """The mean value for each row of scores: sorted query by query, equal scores as they stand."""
    scores = np.atleast_2d(scores)
    n = np.arange(len(scores))[:, None]
    order = np.hstack(
        [
            start + np.argsort(-scores[:, start:stop], axis=1, kind="stable")
            for start, stop in itertools.pairwise(indptr)
        ]
    )
    rankings = Rankings(labels[order].ravel(), np.append((n * len(labels) + indptr[:-1]).ravel(), labels[order].size))
    values = np.where(measure.has_relevant(rankings), measure.value(rankings), 0.0)
    return values.reshape(len(scores), -1).mean(axis=1)


def whole_line(on_lines, base, step):
    """Ends from t = −∞ to ∞ with about equally many swaps between neighbours."""
    (bb, bs), (_, ss) = on_lines.spread(np.array([base, step]))
    a = np.sqrt(bb) if bb > 0 else 1.0
    b = bs / a
    e = np.sqrt(max(ss - b * b, 1e-6 * ss)) or 1.0
    last = np.arctan2(e, b)
    angles = np.linspace(last - np.pi + 1e-7, last - 1e-7, 13)
    s = np.sin(angles) / e
    return np.column_stack([(np.cos(angles) - b * s) / a, s])


def along(on_lines, base, step):
    """The breakpoints, ascending, and the mean value below the first, between each two, and above the last."""
    components, ends = np.array([base, step]), whole_line(on_lines, base, step)
    starts, at, change = on_lines._changes(components, np.array([1.0, 0.0]), np.array([0.0, 1.0]), ends)
    by_place = np.argsort(at, kind="stable")
    at, change = at[by_place], change[by_place]
    first = np.searchsorted(at, np.arange(len(starts)))
    running = np.cumsum(change)
    before = np.concatenate([[0.0], running])[first]
    piece = at.astype(np.int64)
    sums = starts[piece] + running - before[piece]
    c, s = (1.0 - at + piece) * ends[piece].T + (at - piece) * ends[piece + 1].T
    places = s / c
    separate = np.append(np.diff(places) > 1e-9 * (1.0 + np.abs(places[1:])), np.ones(min(len(at), 1), bool))
    return places[separate], np.append(starts[0], sums[separate])


def best(on_lines, base, step):
    """The t with the highest value, and that value: 0 if none is better, else inside the widest interval."""
    components, (one, other) = np.array([base, step]), np.eye(2)
    interval = on_lines.widest_best(components, one, other, whole_line(on_lines, base, step))
    found = 0.0, on_lines.value_of(components, one)
    for c, s in interval.inside():
        if found[1] < interval.value - 1e-12:
            found = s / c, on_lines.value_of(components, np.array([1.0, s / c]))
    return found


def check_values(on_lines, labels, indptr, measure, base, step, most=10**6):
    at, values = along(on_lines, base, step)
    assert len(values) == len(at) + 1
    assert (np.diff(at) > 0).all()
    edges = np.concatenate([[-100.0], at, [100.0]])
    chosen = np.arange(len(values))
    if len(chosen) > most:
        chosen = np.random.default_rng(0).choice(chosen, most, replace=False)
    chosen = chosen[np.diff(edges)[chosen] > 1e-6]
    places = edges[chosen] + 0.47291 * np.diff(edges)[chosen]  # not the middle, where whole numbers may be equal
    scores = base + places[:, None] * step
    assert by_definition(labels, indptr, measure, scores) == pytest.approx(values[chosen], abs=1e-12)


@pytest.mark.parametrize("whole_numbers", [False, True])
@with_every_measure(1, 3)
def test_values_are_those_of_the_measure(measure, whole_numbers):
    rng = np.random.default_rng(0)
    for _ in range(5):
        labels, indptr, (base, step) = make(rng, whole_numbers)
        check_values(MeasureOnLines(labels, indptr, measure), labels, indptr, measure, base, step)


@pytest.mark.parametrize("whole_numbers", [False, True])
@with_every_measure(5, 40, parameters=False)
def test_values_of_long_queries(measure, whole_numbers):  # enough documents for every way to sort
    rng = np.random.default_rng(1)
    labels, indptr, (base, step) = make(rng, whole_numbers, n_queries=3, shortest=30, longest=110)
    if not whole_numbers:
        base[::7] = base[::7].round()  # some are equal
    check_values(MeasureOnLines(labels, indptr, measure), labels, indptr, measure, base, step, most=60)


@pytest.mark.parametrize("name", ["ndcg@3", "map", "err@5"])
def test_pieces_with_too_many_swaps_are_divided(monkeypatch, name):
    rng = np.random.default_rng(2)
    measure = parse_measure(name).resolve("letor")
    labels, indptr, (base, step) = make(rng, False, n_queries=2, shortest=70, longest=75)
    whole = along(MeasureOnLines(labels, indptr, measure), base, step)
    monkeypatch.setattr(module, "_ROOM", 65)
    monkeypatch.setattr(module, "_ROWS", 300)
    monkeypatch.setattr(module, "_BUFFER", 50)  # and room for the changes is made as they come
    for one, other in zip(whole, along(MeasureOnLines(labels, indptr, measure), base, step), strict=True):
        assert one == pytest.approx(other, abs=1e-9)


@pytest.mark.parametrize("name", ["ndcg", "map", "mrr", "err@5"])
def test_all_documents_meet_in_one_point(monkeypatch, name):
    monkeypatch.setattr(module, "_ROOM", 65)  # far less than all pairs
    measure = parse_measure(name).resolve("letor")
    labels, indptr = np.arange(40.0) % 3, np.array([0, 40])
    step = np.random.default_rng(3).permutation(40).astype(float)
    on_lines = MeasureOnLines(labels, indptr, measure)
    at, values = along(on_lines, np.zeros(40), step)
    ends = by_definition(labels, indptr, measure, np.stack([-step, step]))
    assert values[[0, -1]] == pytest.approx(ends)
    assert np.abs(at).max() < 1e-6
    assert best(on_lines, np.zeros(40), step)[1] == pytest.approx(max(*ends, on_lines.value(np.zeros(40))))


@pytest.mark.parametrize("whole_numbers", [False, True])
@with_every_measure(3, parameters=False)
def test_nothing_on_a_dense_grid_is_better(measure, whole_numbers):
    rng = np.random.default_rng(4)
    for _ in range(5):
        labels, indptr, (base, step) = make(rng, whole_numbers)
        on_lines = MeasureOnLines(labels, indptr, measure)
        t, value = best(on_lines, base, step)
        assert on_lines.value(base + t * step) == pytest.approx(value, abs=1e-12)
        grid = np.linspace(-20, 20, 401)[:, None] + 1e-4  # beside the ties of whole numbers
        assert value >= by_definition(labels, indptr, measure, base + grid * step).max() - 1e-12


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
    at, values = along(on_lines, np.arange(5.0), np.ones(5))
    assert at.tolist() == []
    assert values.tolist() == [pytest.approx(2 / 3)]  # none relevant 0, all alike 1, one alone 1
    assert best(on_lines, np.arange(5.0), -np.arange(5.0)) == (0.0, pytest.approx(2 / 3))


class OnlyValue(Measure):
    """A newcomer that only says what its value is."""

    name = "OnlyValue"

    def value(self, rankings):
        top = rankings.top(2)
        return top.max(top.labels)


def test_a_measure_that_has_only_a_value_can_be_searched():
    rng = np.random.default_rng(8)
    for _ in range(5):
        labels, indptr, (base, step) = make(rng, whole_numbers=False)
        check_values(MeasureOnLines(labels, indptr, OnlyValue()), labels, indptr, OnlyValue(), base, step)


def test_weights_of_queries():
    rng = np.random.default_rng(6)
    labels, indptr, (base, step) = make(rng, whole_numbers=False)
    measure = parse_measure("map").resolve("letor")
    first = MeasureOnLines(labels[: indptr[1]], indptr[:2], measure)
    only = MeasureOnLines(labels, indptr, measure, np.eye(len(indptr) - 1)[0])
    rows = slice(0, indptr[1])
    for one, other in zip(along(first, base[rows], step[rows]), along(only, base, step), strict=True):
        assert one == pytest.approx(other)


def test_spread_within_queries():
    rng = np.random.default_rng(7)
    components, indptr = rng.normal(size=(3, 12)), np.array([0, 5, 5, 12])
    centred = [part - part.mean(axis=1, keepdims=True) for part in (components[:, :5], components[:, 5:])]
    on_lines = MeasureOnLines(np.zeros(12), indptr, parse_measure("map"))
    assert on_lines.spread(components) == pytest.approx(np.cov(np.hstack(centred), bias=True))
