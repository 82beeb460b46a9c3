"""The papers' own algorithms for the same objective: the n-slack cutting plane and full-batch gradient descent.

Both come with the certificate of `rankwright.maxmargin.bundle`, which is the faster solver.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from rankwright._types import Array
from rankwright.maxmargin.bundle import Check, Objective, PlaneBook, Solution

# Algorithm 1 of SIGIR'07 as it stands: the n-slack cutting plane, one query after the other, to within ε.
#
#     W_i ← ∅ for every query i
#     repeat
#         for i = 1 … n:  ŷ ← the most violated ranking of query i at w
#                         if H_i(ŷ; w) > max(0, max over W_i of H_i(y; w)) + ε:
#                             W_i ← W_i ∪ {ŷ},  w ← minimum over all working sets
#     until no W_i has changed
#
# Working sets only grow. The minimum over them is found to a duality gap of a thousandth of C·ε, so that at the end the
# objective is within 1.001·C·ε of the optimum: no slack is more than ε above that of the working sets. After every
# sweep the objective is evaluated at the weights reached, for the certificate and to see whether the next sweep would
# change anything; the sweep uses what is found there until its weights change.


_CLOSE = 1e-3  # share of C·ε: how well the problem over the working sets is solved
_ACCURACY = 0.3  # share of that gap which smoothing may take, in Newton's method …
_TRIES = 3  # … that often; then an interior point method takes over
_STEPS = 20


class ByBlock(Objective, Protocol):
    """What the n-slack cutting plane needs besides: one block at a time."""

    @property
    def costs(self) -> Array:
        """What a slack of 1 costs, for every block."""

    def evaluate_block(self, w: Array, block: int) -> tuple[float, Array, float]:
        """Loss, vector and value of the plane of one block at ``w``."""


class WorkingSets(PlaneBook):
    """Planes that are never dropped."""

    _drops_planes = False

    def put(self, block: int, loss: float, vector: Array) -> None:
        place = int(self.counts[block])
        if place == self.losses.shape[1]:
            self._grow(2 * place)
        self.vectors[block, place] = vector
        self.losses[block, place] = loss
        self.alpha[block, place] = 0.0
        self.counts[block] = place + 1

    def slacks(self) -> Array:
        """max(0, max over the working set) of every block at ``w``."""
        np.einsum("bpj,j->bp", self.vectors, -self.w, out=self._slack)
        self._slack += self.losses
        in_use = np.arange(self._slack.shape[1]) < self.counts[:, None]
        return np.asarray(np.where(in_use, self._slack, 0.0).max(axis=1))

    def optimise(self, close: float) -> Array:
        """Solve the problem over the planes to a duality gap of ``close``; the slack of every block."""
        for _ in range(_TRIES):
            slacks = self.slacks()
            gap = self._value(slacks) - self.dual
            if gap <= close:
                return slacks
            self.improve(gap, _ACCURACY * close / gap, _STEPS)
        slacks = self.slacks()
        if self._value(slacks) - self.dual > close:
            self.solve_exactly(close)
            slacks = self.slacks()
        return slacks

    def _value(self, slacks: Array) -> float:
        return 0.5 * float(self.w @ self.w) + float(slacks.sum())

    def _grow(self, capacity: int) -> None:
        n_blocks, before, n_features = self.vectors.shape
        more = capacity - before
        self.vectors = np.concatenate([self.vectors, np.zeros((n_blocks, more, n_features))], axis=1)
        for name in ("losses", "alpha", "_slack", "_move"):
            setattr(self, name, np.concatenate([getattr(self, name), np.zeros((n_blocks, more))], axis=1))
        self._space_for = None


def solve_n_slack(
    objective: ByBlock,
    book: WorkingSets,
    *,
    epsilon: float,
    max_passes: int,
    callback: Callable[[Check], Any] | None = None,
) -> Solution:
    """Train from the weights and planes in ``book`` until no constraint is violated by more than ``epsilon``.

    A pass is a sweep over the queries; the first one of the path evaluates the weights to start from. A callback that
    returns True stops training; so does Ctrl-C. Either way the best weights evaluated so far are returned, with the gap
    that they have. For every C, the solution says how many constraints were added: by Theorem 1 of the paper at most
    max(2nΔ/ε, 8CΔR²/ε²), for n queries, losses up to Δ, and ‖Ψ(y*) − Ψ(y)‖ up to R.
    """
    before = book.n_planes
    run = _NSlackRun(objective, book, epsilon)
    path: list[Check] = []
    interrupted = False
    try:
        run.evaluate()
        path.append(run.check(1))
        stop = callback(path[-1]) if callback is not None else False
        while len(path) < max_passes and stop is not True and run.violated:
            run.sweep()
            run.evaluate()
            path.append(run.check(len(path) + 1))
            stop = callback(path[-1]) if callback is not None else False
    except KeyboardInterrupt:
        if run.best == np.inf:
            raise
        interrupted = True
        if not path:
            path.append(run.check(1))
    return Solution(
        run.best_w,
        path[-1].primal,
        path[-1].gap,
        tuple(path),
        interrupted,
        converged=not interrupted and not run.violated,
        constraints=book.n_planes - before,
    )


class _NSlackRun:
    """Where a training stands: the planes at the weights last evaluated, and the best of all weights evaluated."""

    def __init__(self, objective: ByBlock, book: WorkingSets, epsilon: float) -> None:
        self._began = time.perf_counter()
        self._objective, self._book = objective, book
        self._allowed = epsilon * objective.costs
        self._close = _CLOSE * float(self._allowed.sum())
        self._on_planes = 0.0
        self.best, self.best_w = np.inf, book.w.copy()
        if not book.n_planes and book.w.any():  # weights to start from: the planes there are all that is used of them
            planes = objective.evaluate(book.w)
            for block in np.flatnonzero(planes.values > self._allowed).tolist():
                book.put(block, float(planes.losses[block]), planes.vectors[block])
        self._slacks = self._optimised()
        self._planes: Any = None

    @property
    def violated(self) -> bool:
        """Whether a constraint is violated by more than ε at the weights last evaluated."""
        return bool((self._planes.values > self._slacks + self._allowed).any())

    def evaluate(self) -> None:
        book = self._book
        self._planes = self._objective.evaluate(book.w)
        value = 0.5 * float(book.w @ book.w) + float(self._planes.values.sum())
        if value <= self.best:
            self.best, self.best_w = value, book.w.copy()

    def sweep(self) -> None:
        """Lines 4 to 12: every query once, with new weights after every new constraint."""
        book, planes = self._book, self._planes
        for block in range(self._objective.n_blocks):
            if planes is not None:
                plane = planes.losses[block], planes.vectors[block], planes.values[block]
            else:
                plane = self._objective.evaluate_block(book.w, block)
            loss, vector, value = plane
            if value > self._slacks[block] + self._allowed[block]:
                book.put(block, float(loss), vector)
                self._slacks, planes = self._optimised(), None

    def check(self, passes: int) -> Check:
        """What is known now; rounding may put the bound above the objective by a hair."""
        dual = min(self._book.dual, self.best)
        gap = (self.best - dual) / self.best if self.best > 0 else 0.0
        return Check(passes, self.best, dual, gap, time.perf_counter() - self._began, self._on_planes)

    def _optimised(self) -> Array:
        started = time.perf_counter()
        slacks = self._book.optimise(self._close)
        self._on_planes += time.perf_counter() - started
        return slacks


# Full-batch gradient descent, as Ranking SVM for IR was first trained (SIGIR'06, Figure 3).
#
#     P(w) = ½‖w‖² + Σ_b H_b(w),   subgradient w − Σ_b v_b,   v_b the plane of block b at w
#
# Every pass gives a plane, and any mean of planes a lower bound of P; the best mean is updated by one line search a
# pass (Frank–Wolfe in the dual), so the result comes with a gap. The gap is valid, but descent does not need it and
# does not make it small.


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
    best seen; ``stalled`` says that the rate is too large: the last step ended above where training began. ``flat``
    says that descent ended by its own rule, short of a gap of ``tol``.
    """
    began = time.perf_counter()
    bound = _Bound(len(w))
    w = w.copy()
    best_w, best = w, np.inf
    here, gradient = np.inf, np.zeros_like(w)
    step = rate if rate is not None else 0.0
    trial = w
    path: list[Check] = []
    interrupted, flat, value = False, False, np.inf
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
            flat = _is_flat(path, tol)
            if flat or (rate is not None and not np.isfinite(value)):
                break
            if rate is not None or value <= here - _SUFFICIENT * step * float(gradient @ gradient):
                w, here, gradient = trial, value, trial - slope
                step = _next_step(step, rate, gradient)
            else:
                step *= 0.5
                flat = step < _SHORTEST
                if flat:
                    break
            trial = w - step * gradient
    except KeyboardInterrupt:
        if not path:
            raise
        interrupted = True
    stalled = rate is not None and not value <= path[0].primal
    return Solution(best_w, path[-1].primal, path[-1].gap, tuple(path), interrupted, stalled, flat=flat)


def _next_step(step: float, rate: float | None, gradient: Array) -> float:
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
