"""A ranking measure along a line of scores, exactly.

Scores move as base + t · step, or as c · base + s · step on a circle. The measure of a query changes only where two of
its documents swap places, so the values between these breakpoints are all there are. The line is cut into pieces; on
each, the swaps of every query are found and made in order (:mod:`rankwright.objectives.line_kernel`), which
costs O(1) a swap for measures that are sums over positions. For other measures the labels in rank order are valued,
many rankings at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.blocks import query_of_row
from rankwright.measures import Measure, Rankings
from rankwright.objectives import line_kernel as kernel
from rankwright.objectives import line_sweep

__all__ = ["Interval", "MeasureOnLines"]

Array = npt.NDArray[Any]
_TOGETHER = 1e-9  # breakpoints this close, relative to their size, are one
_SAME = 1e-12  # values this close are equal
_PIECES = 12  # of an infinite line
_EDGE = 1e-7  # distance of its first and last angle from where t is infinite
_SHARES = (0.5, 0.4729, 0.5381, 0.3127, 0.6911)  # of an interval, tried in this order
_ROOM = 1 << 16  # swaps on a piece of one query
_BUFFER = 1 << 16  # changes at first
_ROWS = 1 << 18  # labels valued at once
_PER_BIN = 16  # changes


@dataclass(frozen=True, eq=False)
class Interval:
    """A stretch of a line on which a measure is constant; places are as in :meth:`MeasureOnLines.widest_best`."""

    low: float
    high: float
    value: float
    ends: Array

    def inside(self) -> Iterator[tuple[float, float]]:
        """Some points (c, s): the middle and others, as documents may happen to be tied in the middle."""
        for share in _SHARES:
            place = self.low + share * (self.high - self.low)
            piece = min(int(place), len(self.ends) - 2)
            c, s = (1.0 - place + piece) * self.ends[piece] + (place - piece) * self.ends[piece + 1]
            yield float(c), float(s)


class MeasureOnLines:
    """The mean of a measure over queries, on any line through the space of scores.

    Parameters
    ----------
    labels, indptr : ndarray
        Labels and query boundaries. Documents that stay equal on a line keep the order they have here.
    measure : Measure
        Measure to compute, with its convention resolved.
    weights : ndarray, optional
        Weights of the queries.

    Attributes
    ----------
    targets : ndarray
        What every document is worth to the mean, minus the average of its query: good scores correlate with it.
    """

    def __init__(self, labels: Array, indptr: Array, measure: Measure, weights: Array | None = None) -> None:
        self.indptr, sizes = np.asarray(indptr, np.int64), np.diff(indptr)
        self._labels, self._measure = np.array(labels, np.float64), measure
        weights = np.ones(len(sizes)) if weights is None else np.asarray(weights, np.float64)
        self._weights = weights / max(weights.sum(), 1e-300)
        longest = int(sizes.max(initial=1))
        self._top = min(measure.cutoff or longest, longest)
        rankings = Rankings(self._labels, self.indptr)
        form = measure.position_sum()
        counts = measure.has_relevant(rankings) & (self._weights > 0)  # the other queries count 0
        worth = self._labels if form is None else np.array(form.worth(self._labels), np.float64)
        differ = rankings.max(worth) > -rankings.max(-worth)
        self._queries, constant = (
            np.flatnonzero(counts & differ),
            counts & ~differ,
        )  # constant: any order has the same value
        self._constant = float(self._weights[constant] @ np.asarray(measure.value(rankings))[constant])
        self._memory = kernel.space(longest, min(_ROOM, longest * (longest - 1) // 2 + 1))
        self._setup: tuple[Any, ...] | None = None
        query_weights = self._weights
        if form is not None:
            query_weights = self._weights / form.norms(rankings)
            discounts = np.zeros(longest + 2)
            discounts[: self._top] = form.discounts(np.arange(self._top))
            credits = form.credits(np.arange(longest + 2))
            credits = np.empty(0) if credits is None else credits
            self._setup = (credits, self._top, self._queries, self.indptr, worth, discounts, query_weights)
        query_weights = np.where(np.isin(np.arange(len(sizes)), self._queries), query_weights, 0.0)
        self.targets = worth * np.repeat(query_weights, sizes)
        self.targets -= np.repeat(rankings.sum(self.targets) / np.maximum(sizes, 1), sizes)
        self._usual = float(np.median(sizes[self._queries])) if len(self._queries) else 1.0
        hinted = self._top if 2 * self._top <= longest else 1
        self._hints = np.tile(np.arange(hinted), (len(self._queries), 1))
        self._at, self._change = np.empty(_BUFFER), np.empty(_BUFFER)

    @property
    def n_effective(self) -> float:
        """Number of queries that can change, or the number of equally weighted ones that would vary as much."""
        weights = self._weights[self._queries]
        return float(weights.sum() ** 2 / (weights @ weights)) if len(weights) else 0.0

    def spread(self, components: Array) -> Array:
        """The covariances of components (rows) within queries: of differences from the query's mean.

        Summed from the first document to the last: a matrix product's sums would depend on its threads.
        """
        sizes, query = np.diff(self.indptr), query_of_row(self.indptr)
        means = np.array([np.bincount(query, row, len(sizes)) for row in components]) / np.maximum(sizes, 1)
        centred = components - means[:, query]
        return np.einsum("ik,jk->ij", centred, centred) / max(1, components.shape[1])

    def value(self, scores: Array) -> float:
        """The mean value of scores; ties keep the order of the rows."""
        return self.value_of(np.ascontiguousarray(scores, np.float64)[np.newaxis], np.ones(1))

    def value_of(self, components: Array, weights: Array) -> float:
        """The mean value of Σ weight · component; the components are the rows of a C-contiguous table of float64."""
        if self._setup is not None:
            return self._constant + float(
                line_sweep.values(self._setup, components, weights, self._hints, self._memory)
            )
        order = np.lexsort((-(weights @ components), query_of_row(self.indptr)))
        values = np.asarray(self._measure.value(Rankings(self._labels[order], self.indptr)))[self._queries]
        return self._constant + float(self._weights[self._queries] @ values)

    def ends(self, low: float, high: float) -> Array:
        """Points (cos, sin) of an arc, close enough to each other for a fast search."""
        # Fewer documents matter on shorter pieces, but every piece has a fixed cost.
        piece = np.deg2rad(min(max(800.0 / max(self._usual, 1.0), 12.0), 40.0))
        angles = np.linspace(low, high, max(1, round((high - low) / piece)) + 1)
        return np.column_stack([np.cos(angles), np.sin(angles)])

    def widest_best(self, components: Array, base: Array, step: Array, ends: Array) -> Interval:
        """The widest interval where the value is highest, on a line from each end to the next.

        Parameters
        ----------
        components : ndarray
            As for :meth:`value_of`.
        base, step : ndarray
            Weights of the components.
        ends : ndarray of shape (n, 2)
            Pairs (c, s), meaning the weights c · base + s · step; less than half a turn apart. Place i + t is t of the
            way from end i to the next.
        """
        starts, at, change = self._changes(components, base, step, ends)
        bins = max(1, len(at) // (_PER_BIN * len(starts)))
        value, low, high = line_sweep.best_place(starts, at, change, np.int64(bins), _TOGETHER)
        return Interval(low, high, value, ends)

    def along(self, base: Array, step: Array) -> tuple[Array, Array]:
        """The breakpoints, ascending, and the mean value below the first, between each two, and above the last."""
        components, ends = np.array([base, step], np.float64), self._whole_line(base, step)
        starts, at, change = self._changes(components, np.array([1.0, 0.0]), np.array([0.0, 1.0]), ends)
        by_place = np.argsort(at, kind="stable")
        at, change = at[by_place], change[by_place]
        first = np.searchsorted(at, np.arange(len(starts)))
        running = np.cumsum(change)
        before = np.concatenate([[0.0], running])[first]
        piece = at.astype(np.int64)
        sums = starts[piece] + running - before[piece]
        c, s = (1.0 - at + piece) * ends[piece].T + (at - piece) * ends[piece + 1].T
        places = s / c
        separate = np.append(np.diff(places) > _TOGETHER * (1.0 + np.abs(places[1:])), np.ones(min(len(at), 1), bool))
        return places[separate], np.append(starts[0], sums[separate])

    def best(self, base: Array, step: Array) -> tuple[float, float]:
        """The t with the highest value, and that value: 0 if none is better, else the middle of the widest interval."""
        components = np.array([base, step], np.float64)
        along, across = np.array([1.0, 0.0]), np.array([0.0, 1.0])
        interval = self.widest_best(components, along, across, self._whole_line(base, step))
        best = 0.0, self.value_of(components, along)
        for c, s in interval.inside():
            if best[1] < interval.value - _SAME:
                best = s / c, self.value_of(components, np.array([1.0, s / c]))
        return best

    def _whole_line(self, base: Array, step: Array) -> Array:
        """Ends from t = −∞ to ∞ with about equally many swaps between neighbours."""
        (bb, bs), (_, ss) = self.spread(np.array([base, step], np.float64))
        a = np.sqrt(bb) if bb > 0 else 1.0
        b = bs / a
        e = np.sqrt(max(ss - b * b, 1e-6 * ss)) or 1.0
        last = np.arctan2(e, b)
        angles = np.linspace(last - np.pi + _EDGE, last - _EDGE, _PIECES + 1)
        s = np.sin(angles) / e
        return np.column_stack([(np.cos(angles) - b * s) / a, s])

    def _changes(self, components: Array, base: Array, step: Array, ends: Array) -> tuple[Array, Array, Array]:
        """The values at all ends but the last; where the value changes, in no order, and by how much."""
        starts = np.full(len(ends) - 1, self._constant)
        if self._setup is None:
            return self._changes_by_rankings(base @ components, step @ components, ends, starts)
        n_changes, n_done = 0, 0
        while n_done < len(self._queries):
            count, n_done = line_sweep.sweep(
                self._setup, components, base, step, ends, np.int64(n_done), self._hints, self._memory, starts,
                self._at[n_changes:], self._change[n_changes:],
            )  # fmt: skip
            n_changes += count
            if n_done < len(self._queries):
                self._at, self._change = (np.concatenate([memory, memory]) for memory in (self._at, self._change))
        return starts, self._at[:n_changes], self._change[:n_changes]

    def _changes_by_rankings(
        self, along: Array, across: Array, ends: Array, starts: Array
    ) -> tuple[Array, Array, Array]:
        """The same for a measure that is not a sum over positions."""
        changes = [(np.empty(0), np.empty(0))]
        for q in self._queries.tolist():
            rows = slice(self.indptr[q], self.indptr[q + 1])
            for piece in range(len(starts)):
                at, values = self._of_query(along[rows], across[rows], rows, ends[piece : piece + 2])
                starts[piece] += self._weights[q] * values[0]
                changes.append((piece + at[1:], self._weights[q] * np.diff(values)))
        at, change = (np.concatenate(parts) for parts in zip(*changes, strict=True))
        return starts, at, change

    def _of_query(self, along: Array, across: Array, rows: slice, ends: Array) -> tuple[Array, Array]:
        """Where the value of a query changes on a piece, from 0 on, and the values from there on."""
        p, q = (c * along + s * across for c, s in ends)
        count, labels = min(self._top, len(p)), self._labels[rows]
        room = max(2, _ROWS // len(p))
        at, lists = np.empty(room), np.empty((room, count))
        n = kernel.label_rows(p, q, labels, np.int64(count), self._memory, at, lists)
        if n < 0 and np.abs(ends[1] - ends[0]).max() > 1e-9:  # too many swaps at once: split in half
            middle = ends.mean(axis=0)
            halves = [
                self._of_query(along, across, rows, np.array(half)) for half in ((ends[0], middle), (middle, ends[1]))
            ]
            (first, below), (second, above) = halves
            unchanged = int(above[0] == below[-1])
            return np.append(first / 2, (1 + second[unchanged:]) / 2), np.append(below, above[unchanged:])
        n = max(n, 1)
        rankings = Rankings(np.tile(labels, n), np.arange(n + 1) * len(labels))
        ranked = Rankings(lists[:n].ravel(), np.arange(n + 1) * count, rankings)
        return at[:n], np.asarray(self._measure.value(ranked))
