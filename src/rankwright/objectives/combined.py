"""Several losses at once (SVMcombo), each a `StructuredHinge` over the same data with its own oracle and feature map.

separate slacks   Σ_q Σ_l c_l H_q^l(w)     one block per loss and block of queries
shared slack      Σ_q max_l c_l H_q^l(w)   one block per block of queries, with the plane of the largest violations
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.objectives.structured import Planes, StructuredHinge

__all__ = ["SeparateSlacks", "SharedSlack"]

Array = npt.NDArray[Any]


class _Combined:
    """Shared by both: hinges with the same features, queries, scale and blocks."""

    def __init__(self, hinges: Sequence[StructuredHinge]) -> None:
        self.hinges = tuple(hinges)
        self.coefficients, self.weights = hinges[0].coefficients, hinges[0].weights

    @property
    def n_features(self) -> int:
        """Number of weights."""
        return self.hinges[0].n_features

    def rescale(self, factor: float) -> None:
        """Multiply all costs: the same problem for another C."""
        for hinge in self.hinges:
            hinge.rescale(factor)

    def close(self) -> None:
        """Shut down the thread pool."""
        for hinge in self.hinges:
            hinge.close()


class SeparateSlacks(_Combined):
    """The sum of the hinges."""

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return sum(hinge.n_blocks for hinge in self.hinges)

    def evaluate(self, w: Array) -> Planes:
        """One pass over the data for each loss."""
        parts = [hinge.evaluate(w) for hinge in self.hinges]
        return Planes(
            np.concatenate([part.losses for part in parts]),
            np.concatenate([part.vectors for part in parts]),
            np.concatenate([part.values for part in parts]),
        )


class SharedSlack(_Combined):
    """For every query the largest of its hinges.

    A pass first asks every loss how much each query violates it, then makes the planes with one loss per query.
    """

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return self.hinges[0].n_blocks

    def evaluate(self, w: Array) -> Planes:
        """One pass over the data for each loss, and one for the planes."""
        violations = np.array([hinge.violations(w) for hinge in self.hinges])
        chosen = violations.argmax(axis=0)
        parts = [hinge.evaluate(w, only=chosen == number) for number, hinge in enumerate(self.hinges)]
        return Planes(
            np.sum([part.losses for part in parts], axis=0),
            np.sum([part.vectors for part in parts], axis=0),
            np.sum([part.values for part in parts], axis=0),
        )
