"""A training set as the max-margin solver sees it: scale, blocks of queries, threads, and a path of C values."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData, feature_bytes
from rankwright.data.places import place_of
from rankwright.errors import InputError
from rankwright.maxmargin.cost import Trial
from rankwright.maxmargin.losses import TrainingSet

if TYPE_CHECKING:
    from rankwright.maxmargin.bundle import Check, Solution

BUNDLE, ONE_SLACK, N_SLACK, DESCENT = "bundle", "one-slack-cutting-plane", "n-slack-cutting-plane", "gd"
SOLVERS = (BUNDLE, ONE_SLACK, N_SLACK)  # with a certificate
HINGE, RAMP = "hinge", "ramp"  # bounds of a loss
RAMP_GRID = (1.0,)  # values of C: choosing among several takes noise for gain
_PLANES = {BUNDLE: 16, ONE_SLACK: 200, N_SLACK: 8, DESCENT: 16}  # per block, at least
_MIN_PLANES = 200  # at least: few blocks need more planes each,
_PER_FEATURE = 1.5  # and with many features, these for every one of them
_MAX_BLOCKS = 112  # up to this many, every query has its own block; more cost as much as the passes they save
_MIN_BLOCKS = 16  # of many features: then so many do, or twice as many as there are documents per feature
_PLANE_BYTES = 0.5  # share of the features' bytes that cached planes may take
_FEW_BYTES = 1 << 25  # bytes they may always take
_NO_GAIN = 0.01  # share of the objective: weights better than 0 by less count as 0


@dataclass(frozen=True)
class SolverSettings:
    """How a problem is solved; the fields are the parameters of the rankers.

    `rate`: the paper's η of ``"gd"``: steps are η · gradient of λ‖w‖² + Σ hinges; None: a line search.
    """

    solver: str
    tol: float
    max_passes: int
    standardize: bool
    epsilon: float = 0.01
    slack: str = "separate"
    rate: float | None = None
    threads: int = 1
    callback: Callable[[Check], Any] | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.device == "cuda" and self.solver == N_SLACK:
            problem = f"solver {N_SLACK!r} takes queries one by one, which a GPU does not speed up"
            raise InputError(f"{problem}; expected {BUNDLE!r} or {ONE_SLACK!r}, or device='cpu'")


class Problem:
    """A training set as the solver sees it, for a path of C values: planes are kept from one C to the next."""

    def __init__(self, training: TrainingSet, settings: SolverSettings, initial: Array | None) -> None:
        from rankwright.maxmargin.bundle import PlaneBook  # here because these load numba
        from rankwright.maxmargin.hinge import objective_of
        from rankwright.maxmargin.published import WorkingSets

        data, self._settings = training.data, settings
        self._n_queries = data.n_queries
        self._C: float | None = None
        self._slack_at_zero: float | None = None
        self._last: Solution | None = None
        capacity = _PLANES[settings.solver]
        n_blocks = _n_blocks(data, capacity) if settings.solver == BUNDLE else 1
        if settings.solver == N_SLACK:
            n_blocks = data.n_queries
            if place_of(data).is_partitioned:
                problem = f"solver {N_SLACK!r} takes queries one by one, which data in partitions does not allow"
                raise InputError(f"{problem}; expected {BUNDLE!r} or {ONE_SLACK!r}")
        self._objective = objective_of(
            training,
            n_blocks,
            slack=settings.slack,
            standardize=settings.standardize,
            device=settings.device,
            threads=settings.threads,
        )
        capacity = max(capacity, -(-_planes_in_all(data) // self._objective.n_blocks))
        book = WorkingSets if settings.solver == N_SLACK else PlaneBook
        self._book = book(self._objective.n_blocks, capacity, self._objective.n_features)
        if initial is not None:
            self._book.w[:] = self._objective.weights(initial)

    def solve(self, C: float) -> Trial:
        """Train for one C from where the last one ended."""
        from rankwright.maxmargin.bundle import solve
        from rankwright.maxmargin.published import WorkingSets, descend, solve_n_slack

        factor = C if self._C is None else C / self._C
        self._C = C
        self._objective.rescale(factor)
        self._book.rescale(factor)
        settings = self._settings
        rules: dict[str, Any] = {name: getattr(settings, name) for name in ("tol", "max_passes", "callback")}
        if self._slack_at_zero is None and self._book.w.any():
            self._slack_at_zero = float(self._objective.evaluate(np.zeros_like(self._book.w)).values.sum()) / C
        if settings.solver == DESCENT:
            # The objective here is the paper's over 2λ = |Q|/C.
            rate = None if settings.rate is None else settings.rate * self._n_queries / C
            solution = descend(self._objective, self._book.w, rate=rate, **rules)
            if rate is None:  # with the paper's η, every C starts from the same weights, as in its Figure 3
                self._book.w[:] = solution.w
        elif isinstance(self._book, WorkingSets):
            del rules["tol"]
            solution = solve_n_slack(self._objective, self._book, epsilon=settings.epsilon, **rules)
        else:
            solution = solve(self._objective, self._book, start=self._warm_start(C, factor), **rules)
            self._last = solution
        if self._slack_at_zero is None:  # the first pass evaluated weights of 0
            self._slack_at_zero = solution.path[0].primal / C
        return self._trial(C, solution, 0.5 * float(solution.w @ solution.w), self._slack_at_zero)

    def _trial(self, C: float, solution: Solution, square: float, *at_zero: float) -> Trial:
        """A solution in terms of the raw features, and its figures; see `fit_health` for ``square`` and ``at_zero``."""
        figures = {"objective": solution.objective, "gap": solution.gap, "passes": len(solution.path)}
        figures |= fit_health(C, solution.objective, square, solution.w, *at_zero)
        return Trial(self._objective.coefficients(solution.w), figures, solution, solution.interrupted)

    def _warm_start(self, C: float, factor: float) -> tuple[Array, float] | None:
        """The weights of the last C and their hinge for this one; None if they are no better than 0."""
        if self._last is None or self._slack_at_zero is None:
            return None
        w = self._last.w
        square = 0.5 * float(w @ w)
        hinge = factor * max(0.0, self._last.objective - square)
        return (w, hinge) if square + hinge < (1.0 - _NO_GAIN) * C * self._slack_at_zero else None

    def close(self) -> None:
        self._objective.close()


def solve_once(training: TrainingSet, settings: SolverSettings, C: float = 1.0) -> Trial:
    """Train for one C, from weights of 0."""
    with closing(Problem(training, settings, None)) as problem:
        return problem.solve(C)


def fit_health(
    C: float, objective: float, square: float, w: Array, slack_at_zero: float, square_at_zero: float = 0.0
) -> dict[str, float]:
    """Length of the weights, average slack, and slack and objective relative to weights of 0 (KDD'08).

    `objective`: square + C · slack; ``square`` is ½‖w‖², unless weights are pulled elsewhere than to 0. `w`: weights of
    the solved problem. `slack_at_zero`, `square_at_zero`: the same at weights of 0.

    Examples
    --------
    >>> fit_health(10.0, 2.5, 0.5, np.array([1.0]), 0.4)
    {'norm': 1.0, 'slack': 0.2, 'slack_ratio': 0.5, 'objective_ratio': 0.625}
    """
    slack = max(0.0, objective - square) / C
    comparable = slack_at_zero > 0
    return {
        "norm": float(np.linalg.norm(w)),
        "slack": slack,
        "slack_ratio": slack / slack_at_zero if comparable else 1.0,
        "objective_ratio": objective / (square_at_zero + C * slack_at_zero) if comparable else 1.0,
    }


def _plane_bytes(data: RankingData) -> float:
    return max(_PLANE_BYTES * feature_bytes(data) * (2 if data.is_sparse else 1), _FEW_BYTES)


def _planes_in_all(data: RankingData) -> int:
    """How many planes there is room for, at least."""
    from rankwright.maxmargin.bundle import MANY_FEATURES

    wanted = _PER_FEATURE * data.n_features if data.n_features > MANY_FEATURES else 0
    return int(max(_MIN_PLANES, min(wanted, _plane_bytes(data) / (8 * data.n_features))))


def _n_blocks(data: RankingData, capacity: int) -> int:
    """One block per query, unless the work on that many planes, or their memory, would outgrow a pass."""
    from rankwright.maxmargin.bundle import MANY_FEATURES
    from rankwright.maxmargin.order import is_enough

    affordable = int(_plane_bytes(data) / (capacity * data.n_features * 8))
    worthwhile = _MAX_BLOCKS
    if data.n_features > MANY_FEATURES and is_enough(data.n_docs, data.n_features):
        worthwhile = min(worthwhile, max(_MIN_BLOCKS, 2 * data.n_docs // data.n_features))
    return max(1, min(data.n_queries, worthwhile, affordable))
