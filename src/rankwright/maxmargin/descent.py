"""Full-batch gradient descent on the same objective, as Ranking SVM for IR was first trained.

    P(w) = ½‖w‖² + Σ_b H_b(w),   subgradient w − Σ_b v_b,   v_b the plane of block b at w

Every pass gives a plane, and any mean of planes a lower bound of P; the best mean is updated by one line search a pass
(Frank–Wolfe in the dual), so the result comes with a gap. The gap is valid, but descent does not need it and does not
make it small.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.maxmargin.bundle import Check, Objective, Solution

_LOOK_BACK = 10  # passes
_LITTLE = 0.1  # of tol: training ends if the objective falls by less in that many passes
_SUFFICIENT = 0.1  # share of the descent promised by the gradient
_SHORTEST = 1e-12


def descend(
    objective: Objective,
    w: Array,
    *,
    rate: float | None,
    tol: float,
    max_passes: int,
    callback: Callable[[Check], Any] | None = None,
) -> Solution:
    """Descend from ``w`` until ten passes lower the objective by less than a tenth of ``tol``, relatively.

    With a ``rate`` every step is rate · gradient, as in the paper's Figure 3. Without, a step is halved until it
    descends enough, and the next one starts from twice its length; every trial is a pass. The weights returned are the
    best seen; ``stalled`` says that the rate is too large: the last step ended above where training began.
    """
    began = time.perf_counter()
    bound = _Bound(len(w))
    w = w.copy()
    best_w, best = w, np.inf
    here, gradient = np.inf, np.zeros_like(w)
    step = rate if rate is not None else 0.0
    trial = w
    path: list[Check] = []
    interrupted, value = False, np.inf
    try:
        for passes in range(1, max_passes + 1):
            planes = objective.evaluate(trial)
            slope = planes.vectors.sum(axis=0)
            with np.errstate(over="ignore", invalid="ignore"):  # a rate may be too large
                value = 0.5 * float(trial @ trial) + float(planes.values.sum())
            if np.isfinite(value):
                bound.add(float(planes.losses.sum()), slope)
            if value < best:
                best_w, best = trial.copy(), value
            gap = max(0.0, best - bound.value) / best if best > 0 else 0.0
            check = Check(passes, best, min(bound.value, best), gap, time.perf_counter() - began, 0.0)
            path.append(check)
            stop = callback(check) if callback is not None else False
            if gap <= tol or stop is True:
                break
            if _is_flat(path, tol) or (rate is not None and not np.isfinite(value)):
                break
            if rate is not None or value <= here - _SUFFICIENT * step * float(gradient @ gradient):
                w, here, gradient = trial, value, trial - slope
                step = _next_step(step, rate, w, gradient)
            else:
                step *= 0.5
                if step < _SHORTEST:
                    break
            trial = w - step * gradient
    except KeyboardInterrupt:
        if not path:
            raise
        interrupted = True
    stalled = rate is not None and not value <= path[0].primal
    return Solution(best_w, path[-1].primal, path[-1].gap, tuple(path), interrupted, stalled)


def _next_step(step: float, rate: float | None, w: Array, gradient: Array) -> float:
    if rate is not None:
        return rate
    return 2.0 * step if step > 0 else 1.0 / max(float(np.sqrt(gradient @ gradient)), 1e-300)


def _is_flat(path: list[Check], tol: float) -> bool:
    if len(path) <= _LOOK_BACK:
        return False
    before, now = path[-1 - _LOOK_BACK].primal, path[-1].primal
    return before - now <= _LITTLE * tol * now


class _Bound:
    """The best lower bound that a mean of the planes so far gives: ℓ·share − ½ share² ‖v‖², for the best share."""

    def __init__(self, n_features: int) -> None:
        self.loss, self.vector = 0.0, np.zeros(n_features)
        self.value = 0.0

    def add(self, loss: float, vector: Array) -> None:
        """Move the mean towards a plane as far as that raises ℓ − ½‖v‖²."""
        apart = vector - self.vector
        square = float(apart @ apart)
        gain = loss - self.loss - float(self.vector @ apart)
        share = min(1.0, max(0.0, gain / square)) if square > 0 else 0.0
        self.loss += share * (loss - self.loss)
        self.vector += share * apart
        self.value = max(self.value, self.loss - 0.5 * float(self.vector @ self.vector))
