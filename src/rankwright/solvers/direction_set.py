"""Powell's direction-set search for the weights of a sum of scores, with an exact line search.

A ranking measure has no gradient; along a line it is piecewise constant, and
:class:`~rankwright.solvers.line_search.MeasureOnLines` finds its highest value there. The search goes along one direction
after the other, then along where a whole round of them has led.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.solvers.line_search import MeasureOnLines

__all__ = ["Found", "direction_set_search"]

Array = npt.NDArray[Any]
_GAIN = 1e-12  # what counts as better
_DRAWN = 3  # directions that are drawn in the end, times the number of components


@dataclass(frozen=True, eq=False)
class Found:
    """The best weights, of length 1, their value, and how many line searches it took."""

    weights: Array
    value: float
    n_lines: int


def direction_set_search(
    components: Array,
    measure: MeasureOnLines,
    starts: Sequence[npt.ArrayLike],
    *,
    max_rounds: int = 20,
    seed: int = 0,
    progress: Callable[[int], Any] | None = None,
) -> Found:
    """The weights w with the highest value of ``components @ w``, as far as the search finds them.

    Parameters
    ----------
    components : ndarray of shape (n_docs, n_components)
        The scores to be added.
    measure : MeasureOnLines
        What to rise.
    starts : sequence of array-like
        Weights to start from; the first of equally good ends is taken.
    max_rounds : int
        Rounds over all directions, for every start.
    seed : int
        Of the further directions that are tried where the set leads no higher.
    progress : callable, optional
        Called with the number of line searches done.
    """
    search = _Search(components, measure, progress)
    best: tuple[Array, float] | None = None
    for start in starts:
        search.begin(np.array(start, np.float64))
        search.rounds(max_rounds)
        # Where no direction of the set leads higher, others may: drawn, the same for every start.
        rng = np.random.default_rng(seed)
        tries = 0
        while tries < _DRAWN * components.shape[1]:
            tries += 1
            if search.move(rng.normal(size=components.shape[1])) > 0:
                search.rounds(max_rounds)
                tries = 0
        if best is None or search.value > best[1] + _GAIN:
            best = search.weights, search.value
    assert best is not None, "there is at least one start"
    return Found(*best, search.n_lines)


class _Search:
    """Weights on their way up."""

    def __init__(self, components: Array, measure: MeasureOnLines, progress: Callable[[int], Any] | None) -> None:
        self._components, self._measure, self._progress = components, measure, progress
        self.n_lines = 0

    def begin(self, weights: Array) -> None:
        self.weights = _unit(weights)
        self.value = self._measure.value(self._components @ self.weights)

    def move(self, direction: Array) -> float:
        """Go to the best place along a direction; what was gained."""
        self.n_lines += 1
        if self._progress is not None:
            self._progress(self.n_lines)
        t, _ = self._measure.best(self._components @ self.weights, self._components @ direction)
        moved = _unit(self.weights + t * direction)
        reached = self._measure.value(self._components @ moved)  # rounding included
        if reached <= self.value + _GAIN:
            return 0.0
        gained, self.weights, self.value = reached - self.value, moved, reached
        return gained

    def rounds(self, most: int) -> None:
        """Along one direction after the other, then where they led, until a round gains nothing."""
        directions = list(np.eye(len(self.weights)))
        for _ in range(most):
            begun = self.weights
            gains = [self.move(direction) for direction in directions]
            if not any(gains):
                return
            led = self.weights - begun
            if np.abs(led).max() > 1e-9:  # Powell: it takes the place of the direction that gained most
                self.move(led)
                directions[int(np.argmax(gains))] = led / np.linalg.norm(led)
                if np.linalg.matrix_rank(np.array(directions), tol=1e-6) < len(directions):
                    directions = list(np.eye(len(self.weights)))


def _unit(weights: Array) -> Array:
    length = np.linalg.norm(weights)
    return weights / length if length > 0 else weights
