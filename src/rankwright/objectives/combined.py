"""Several losses at once (SVMcombo), each a `StructuredHinge` over the same data with its own oracle and feature map.

separate slacks   Σ_q Σ_l c_l H_q^l(w)     one block per loss and block of queries
shared slack      Σ_q max_l c_l H_q^l(w)   one block per block of queries, with the plane of the largest violations
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.objectives.structured import KEEP, REUSE, Planes, StructuredHinge, Turn

Array = npt.NDArray[Any]


class _Combined:
    """Shared by both: hinges with the same features, queries, scale and blocks."""

    def __init__(self, hinges: Sequence[StructuredHinge]) -> None:
        self.hinges = tuple(hinges)
        n_docs = len(hinges[0].rows)
        kept = np.empty(n_docs), np.empty(n_docs, np.int64)
        for number, hinge in enumerate(hinges):  # all are asked in this order, for the same weights
            hinge.share(REUSE if number else KEEP, *kept)
        self.coefficients, self.weights = hinges[0].coefficients, hinges[0].weights

    @property
    def n_features(self) -> int:
        return self.hinges[0].n_features

    def sample(self, wanted: int | None = None) -> Array:
        return self.hinges[0].sample(wanted)

    def rescale(self, factor: float) -> None:
        for hinge in self.hinges:
            hinge.rescale(factor)

    def turn_back(self) -> None:
        for hinge in self.hinges:
            hinge.turn_back()

    def close(self) -> None:
        for hinge in self.hinges:
            hinge.close()


class SeparateSlacks(_Combined):
    """The sum of the hinges."""

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return sum(hinge.n_blocks for hinge in self.hinges)

    @property
    def costs(self) -> Array:
        """What a hinge of 1 costs, block by block."""
        return np.concatenate([hinge.costs for hinge in self.hinges])

    def evaluate_block(self, w: Array, block: int) -> tuple[float, Array, float]:
        """Loss, vector and value of the plane of one block at the weights ``w``."""
        number, block = divmod(block, self.hinges[0].n_blocks)
        return self.hinges[number].evaluate_block(w, block)

    def evaluate(self, w: Array) -> Planes:
        """One pass over the data for each loss."""
        return _merged([hinge.evaluate(w) for hinge in self.hinges], np.concatenate)

    def value(self, w: Array) -> float:
        """The sum of all hinges."""
        return sum(hinge.value(w) for hinge in self.hinges)

    def turn(self, w: Array) -> Turn:
        """Compare from now on with the rankings that the weights ``w`` make."""
        turns = [hinge.turn(w) for hinge in self.hinges]
        return Turn(np.sum([turn.vector for turn in turns], axis=0), all(turn.same_planes for turn in turns))


class SharedSlack(_Combined):
    """For every query the largest of its hinges.

    A pass first asks every loss how much each query violates it, then makes the planes with one loss per query.
    """

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return self.hinges[0].n_blocks

    @property
    def costs(self) -> Array:
        """What a hinge of 1 costs at most, block by block."""
        return np.asarray(np.max([hinge.costs for hinge in self.hinges], axis=0))

    def evaluate_block(self, w: Array, block: int) -> tuple[float, Array, float]:
        """Loss, vector and value of the plane of one block, of one query, at the weights ``w``."""
        return max((hinge.evaluate_block(w, block) for hinge in self.hinges), key=lambda plane: plane[2])

    def evaluate(self, w: Array) -> Planes:
        """One pass over the data for each loss, and one for the planes."""
        chosen = self._violations(w).argmax(axis=0)
        planes = [hinge.evaluate(w, only=chosen == number) for number, hinge in enumerate(self.hinges)]
        return _merged(planes, partial(np.sum, axis=0))

    def value(self, w: Array) -> float:
        """The sum of the queries' largest hinges."""
        return float(self._violations(w).max(axis=0).sum())

    def _violations(self, w: Array) -> Array:
        return np.array([hinge.violations(w) for hinge in self.hinges])

    def turn(self, w: Array) -> Turn:
        """Compare from now on with the rankings that the weights ``w`` make.

        Every loss has its own v_q, so there is none for the whole query: that of the first loss that counts is taken,
        and the others get the difference.
        """
        first = np.array([hinge.cost > 0 for hinge in self.hinges]).argmax(axis=0)
        turns = [hinge.turn(w, only=first == number) for number, hinge in enumerate(self.hinges)]
        sizes = np.diff(self.hinges[0].indptr)
        own = [hinge.attained(w) * np.repeat(hinge.cost, sizes) for hinge in self.hinges]
        common = np.choose(np.repeat(first, sizes), own)
        for hinge, times_cost in zip(self.hinges, own, strict=True):
            cost = np.repeat(hinge.cost, sizes)
            hinge.add(np.divide(common - times_cost, cost, out=np.zeros_like(cost), where=cost > 0))
        return Turn(np.sum([turn.vector for turn in turns], axis=0), False)


def _merged(planes: Sequence[Planes], merge: Callable[[list[Array]], Array]) -> Planes:
    """The planes of all losses as those of one objective."""
    fields = ("losses", "vectors", "values")
    return Planes(*(merge([getattr(of_loss, field) for of_loss in planes]) for field in fields))
