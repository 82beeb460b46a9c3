"""Powell's direction-set search for the weights of a sum of scores, with an exact line search.

A ranking measure has no gradient; along a line it is piecewise constant, and :class:`ValueOnLines` finds its highest
value there. Only the direction of the weights matters, so the search moves on a sphere: a line is an arc through the
current point, and angles are measured by how much scores differ, u · S v with S the spread of the components.

From a start the search looks around on the half circle towards the least-squares fit of what documents are worth, then
climbs along arcs: the axes, the direction of the last round, and random directions. From the best point found it leaps
to a point nearby and climbs again. The value is smooth near its best point apart from noise, which averages out over
independent parts: the more of them, the shorter the arcs and leaps. With two components the sphere is a circle, which
is searched completely: the result is the optimum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rankwright._types import Array

_GAIN = 1e-12  # least improvement
_ARC = np.deg2rad(100.0)  # half the length of an arc, times the root of `n_effective`
_SHORTEST, _LONGEST = np.deg2rad(2.0), np.pi / 2
_LOOKS = np.deg2rad([-60.0, -30.0, 30.0, 60.0])
_LEAP = (0.3, 1.2)  # least and greatest, in half arcs
_LINES = 20  # per component, from a start or after a leap
_FLAT = 1e-9  # directions this close to the weights are useless


class Piece(Protocol):
    """A stretch of a line on which the value is constant."""

    @property
    def value(self) -> float: ...

    def inside(self) -> Iterator[tuple[float, float]]:
        """Some points (c, s) of it: weights c · base + s · step."""


class ValueOnLines(Protocol):
    """The value that the search maximises; components are the rows of a table."""

    @property
    def targets(self) -> Array:
        """The worth of every document: good scores correlate with it."""

    @property
    def n_effective(self) -> float:
        """The number of independent, equally weighted terms that the value is the mean of."""

    def spread(self, components: Array) -> Array:
        """Covariances of the components where their differences matter."""

    def value_of(self, components: Array, weights: Array) -> float:
        """The value of Σ weight · component."""

    def ends(self, low: float, high: float) -> Array:
        """Points (cos, sin) of an arc, close enough to each other for a fast search."""

    def widest_best(self, components: Array, base: Array, step: Array, ends: Array) -> Piece:
        """The widest stretch between the ends on which the value is highest."""


@dataclass(frozen=True, eq=False)
class Found:
    """The best weights, of length 1, their value, and the number of line searches."""

    weights: Array
    value: float
    n_lines: int


def direction_set_search(
    components: Array,
    measure: ValueOnLines,
    starts: Sequence[npt.ArrayLike],
    *,
    leaps: int | None = None,
    seed: int = 0,
    progress: Callable[[int], Any] | None = None,
) -> Found:
    """Search for the weights w with the highest value of ``components @ w``.

    `components` (shape (n_docs, n_components)): the scores to add up. `measure`: value to maximise. `starts`: weights
    to start from; of equally good results the first is taken. `leaps`: leaps from the best point; by default three for
    every two starts. `seed`: random seed. `progress`: called with the number of line searches done.
    """
    search = _Search(components, measure, progress, np.random.default_rng(seed))
    for start in starts:
        search.climb(np.array(start, np.float64))
    if search.n_components > 2:
        for _ in range((3 * len(starts) + 1) // 2 if leaps is None else leaps):
            search.leap()
    weights = search.best[0]
    return Found(weights / (np.linalg.norm(weights) or 1.0), search.best[1], search.n_lines)


class _Search:
    def __init__(
        self,
        components: Array,
        measure: ValueOnLines,
        progress: Callable[[int], Any] | None,
        rng: np.random.Generator,
    ) -> None:
        self._components = np.ascontiguousarray(components.T, np.float64)
        self._measure, self._progress, self._rng = measure, progress, rng
        self.n_components = len(self._components)
        self._spread = measure.spread(self._components)
        variances, axes = np.linalg.eigh(self._spread)
        varies = variances > 1e-12 * variances.max(initial=0.0)
        self._even = axes[:, varies] / np.sqrt(variances[varies])  # makes random directions even
        towards = np.einsum("ik,k->i", self._components, measure.targets)
        self._towards = self._even @ (self._even.T @ towards)
        arc = float(np.clip(_ARC / np.sqrt(max(measure.n_effective, 1.0)), _SHORTEST, _LONGEST))
        self._arc, self._ends = arc, measure.ends(-arc, arc)
        self.n_lines = 0
        self.best = np.zeros(self.n_components), -np.inf

    def climb(self, weights: Array) -> None:
        """Climb from a start until no direction leads higher."""
        self._begin(weights)
        self._look_around()
        if self.n_components > 2:
            self._rounds()
        elif self.n_components == 2 and not self.n_lines:  # the whole circle, once
            self._move(np.array([-self._weights[-1], self._weights[0]]), self._measure.ends(-np.pi, np.pi))
        self._keep()

    def leap(self) -> None:
        """Climb from a point near the best one."""
        weights = self.best[0]
        side = self._side(weights, self._draw())
        if side is not None:
            angle = self._arc * self._rng.uniform(*_LEAP)
            self._begin(np.cos(angle) * weights + np.sin(angle) * side)
            self._rounds()
            self._keep()

    def _begin(self, weights: Array) -> None:
        self._weights, self._value = self._unit(weights), -np.inf
        self._try(weights)

    def _keep(self) -> None:
        if self._value > self.best[1] + _GAIN:
            self.best = self._weights, self._value

    def _look_around(self) -> None:
        """Move to the best of some points towards the least-squares fit and beyond."""
        weights, side = self._weights, self._side(self._weights, self._towards)
        self._try(self._towards)
        if side is not None:
            for angle in _LOOKS:
                self._try(np.cos(angle) * weights + np.sin(angle) * side)

    def _rounds(self) -> None:
        """Climb round after round while some direction leads higher."""
        failed, limit = 0, self.n_lines + _LINES * self.n_components
        for direction in self._directions():
            failed = 0 if self._move(direction, self._ends) else failed + 1
            if failed > self.n_components or self.n_lines >= limit:
                return

    def _directions(self) -> Iterator[Array]:
        """The axes, the direction they led in, and as many random ones; again and again."""
        axes = np.eye(self.n_components)
        while True:
            begun = self._weights
            yield from axes
            yield self._weights - begun
            for _ in axes:
                yield self._draw()

    def _draw(self) -> Array:
        return np.asarray(self._even @ self._rng.normal(size=self._even.shape[1]))

    def _length(self, weights: Array) -> float:
        return math.sqrt(max(float(weights @ self._spread @ weights), 0.0))

    def _unit(self, weights: Array) -> Array:
        length = self._length(weights)
        return weights / length if length > 0 else weights

    def _side(self, weights: Array, direction: Array) -> Array | None:
        """The part of a direction orthogonal to the weights, of length 1; None if there is none."""
        side = direction - (weights @ self._spread @ direction) * weights
        length = self._length(side)
        return side / length if length > _FLAT * self._length(direction) else None

    def _move(self, direction: Array, ends: Array) -> bool:
        """Move to the best point of an arc both ways in a direction; returns whether it is higher."""
        side = self._side(self._weights, direction)
        if side is None:
            return False
        self.n_lines += 1
        if self._progress is not None:
            self._progress(self.n_lines)
        piece = self._measure.widest_best(self._components, self._weights, side, ends)
        if piece.value <= self._value + _GAIN:
            return False
        old_value, weights = self._value, self._weights
        for c, s in piece.inside():
            self._try(c * weights + s * side)
            if self._value >= piece.value - _GAIN:
                break
        return self._value > old_value

    def _try(self, weights: Array) -> None:
        """Move there if it is higher by more than rounding."""
        if weights.any():
            weights = self._unit(weights)
            value = self._measure.value_of(self._components, weights)
            if value > self._value + _GAIN:
                self._weights, self._value = weights, value
