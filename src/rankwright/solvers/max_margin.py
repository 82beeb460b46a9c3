"""Max-margin training with a certificate: passes over the data give planes, a small problem over them gives weights.

    P(w) = ½‖w‖² + Σ_b H_b(w)  ≥  optimum  ≥  D(α)

Every pass evaluates P at the current weights, exactly, and gives each block of queries its most violated plane. With
one block per query this is the n-slack cutting plane, or block-coordinate Frank–Wolfe with cached planes and all blocks
moved together; with one block for all it is the papers' 1-slack cutting plane. Training stops when (P − D)/P ≤ tol.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rankwright.solvers.planes import PlaneBook

__all__ = ["Check", "Objective", "Solution", "solve"]

Array = npt.NDArray[Any]
_LEAST_REACH = 0.1
_ACCURACY = 0.3  # of the gap at hand, to which the small problem is solved between passes


class Objective(Protocol):
    """What the solver needs: the hinge of every block at given weights, as a plane."""

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""

    @property
    def n_features(self) -> int:
        """Number of weights."""

    def evaluate(self, w: Array) -> Any:
        """Losses, vectors and values of the blocks' planes at ``w``."""


@dataclass(frozen=True)
class Check:
    """One row of the path: what was known after a pass.

    Attributes
    ----------
    passes : int
        Passes over the data so far.
    primal : float
        The lowest objective seen.
    dual : float
        The highest lower bound seen.
    gap : float
        (primal − dual) / primal, the proof of how good the weights are.
    seconds, seconds_planes : float
        Wall time so far, and the part of it spent on the small problem over the planes.
    """

    passes: int
    primal: float
    dual: float
    gap: float
    seconds: float
    seconds_planes: float


@dataclass(frozen=True, eq=False)
class Solution:
    """The best weights, their objective, and the certificate."""

    w: Array
    objective: float
    gap: float
    path: tuple[Check, ...]
    interrupted: bool = False


def solve(
    objective: Objective,
    book: PlaneBook,
    *,
    tol: float,
    max_passes: int,
    callback: Callable[[Check], Any] | None = None,
) -> Solution:
    """Train from the weights and planes in ``book`` until the certificate is reached, or ``max_passes``.

    A callback that returns True stops training; so does Ctrl-C. Either way the best weights so far are returned, with
    the gap that they have.
    """
    began = time.perf_counter()
    on_planes = 0.0
    best_w, best = book.w.copy(), np.inf
    reach = 1.0
    path: list[Check] = []
    interrupted = False
    try:
        for passes in range(1, max_passes + 1):
            # Far out the planes say little: go only part of the way from the best point while that does not pay.
            w = best_w + reach * (book.w - best_w)
            planes = objective.evaluate(w)
            primal = 0.5 * float(w @ w) + float(planes.values.sum())
            reach = min(1.0, 2.0 * reach) if primal < best else max(_LEAST_REACH, 0.5 * reach)
            if primal < best:
                best_w, best = w, primal
            # Rounding may put the bound above the objective by a hair; a gap is not negative.
            gap = max(0.0, best - book.dual) / best if best > 0 else 0.0
            check = Check(passes, best, min(book.dual, best), gap, time.perf_counter() - began, on_planes)
            path.append(check)
            stop = callback(check) if callback is not None else False
            if gap <= tol or stop is True:
                break
            started = time.perf_counter()
            book.add(planes.losses, planes.vectors)
            book.improve(best - book.dual, _ACCURACY)
            on_planes += time.perf_counter() - started
    except KeyboardInterrupt:
        if not path:
            raise
        interrupted = True
    return Solution(best_w, path[-1].primal, path[-1].gap, tuple(path), interrupted)
