"""The health of training: slack, objective, weights and time as C grows, for one or several losses.

    average slack  s = (1/|Q|) Σ_q H_q(w) = (P(w) − ½‖w‖²) / C          P(0) = C · (slack at weights of 0)

As C grows, the slack of a healthy loss falls, and its objective drops below P(0); a loss that stays at P(0) cannot be
reduced on this data (Chakrabarti et al., KDD'08, Figures 4–6 and 8).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from rankwright.data.dataset import RankingData
from rankwright.errors import InputError
from rankwright.evaluation.table import Evaluation, evaluate
from rankwright.measures import Measure, parse_measure
from rankwright.models.products import FASTMATH, add_rows, kernel_form, row_scores
from rankwright.rankers.cost import DEFAULT_GRID
from rankwright.rankers.max_margin import StructuredSVM
from rankwright.rankers.ranking_svm import RankingSVM
from rankwright.training.health_fit import FitHealth
from rankwright.training.health_table import TrainingHealth
from rankwright.training.train import TRAINING, VALIDATION, about

__all__ = ["LOSSES", "check_losses", "ranker_for", "training_health"]

Array = npt.NDArray[Any]
LOSSES = ("map", "ndcg@10", "mrr@10", "auc", "pairs")
_REPEATS = 3  # of short fits and of the products; the fastest counts
_SHORT = 0.1  # seconds
_WARM_QUERIES = 8
_WARM_FITS = ((1e-6, 25), (1.0, 5))  # C and passes


def ranker_for(loss: Any, **settings: Any) -> Any:
    """The ranker of a loss: RankingSVM for ``"pairs"``, StructuredSVM on the papers' problem for everything else."""
    if isinstance(loss, str) and loss.strip().lower() == "pairs":
        return RankingSVM(**settings)
    own = "mrr" if isinstance(loss, str) and loss.strip().lower().startswith("mrr") else None
    return StructuredSVM(loss, bound="hinge", feature_map=own, **settings)


def check_losses(losses: Sequence[Any], **settings: Any) -> None:
    """Reject losses and settings that cannot be trained with on any data."""
    for loss in losses:
        ranker_for(loss, **settings).check_parameters()


def training_health(
    data: Any,
    losses: Any = LOSSES,
    C_grid: Iterable[float] = DEFAULT_GRID,
    *,
    standardize: bool = True,
    tol: float = 1e-3,
    max_passes: int = 200,
    eval_set: Any = None,
    measures: Sequence[str | Measure] = (),
    progress: Callable[[int, int], None] | None = None,
) -> TrainingHealth:
    """Train for every loss and C, and record whether training is healthy.

    Every fit starts from weights of 0, so that passes and seconds do not depend on the grid.

    How the seconds are split: the small problem over planes is timed during training. A pass computes scores, most
    violated rankings and planes together, so its two products with the features are timed separately after each fit:
    scores and sums of rows of the same queries, with coefficients of ±1, the fastest of 3, times the number of passes.
    The rest of the passes is the oracle's. In training, products skip rows of coefficient 0 (most of them for MRR), so
    the products' share is an upper bound, and the oracle's a lower bound. The rest of a fit is its preparation. A fit
    of less than 0.1 s is repeated, and the fastest of three counts. Compiling is not included.

    Parameters
    ----------
    data : RankingData or (X, y, qid)
        Training data.
    losses : sequence
        Losses to train for: anything that :class:`StructuredSVM` takes as its loss, and ``"pairs"`` for
        :class:`RankingSVM`.
    C_grid : iterable of float
        Values of C; by default powers of ten from 1e-4 to 1e3.
    standardize, tol, max_passes
        As for :class:`StructuredSVM`.
    eval_set : RankingData or (X, y, qid), optional
        Validation data, to evaluate on.
    measures : sequence of str or Measure
        Measures to evaluate on training and validation data, besides each loss's own (nDCG@10 for pairs).
    progress : callable, optional
        Called with (fits done, fits in total), also during a fit.

    Returns
    -------
    TrainingHealth
        One row per loss and C; ``findings`` says in words what is certain.

    Examples
    --------
    >>> X, y, qid = np.array([[1.0, 0], [0, 1], [2, 1], [0, 0]]), [1, 0, 1, 0], ["a", "a", "b", "b"]
    >>> health = training_health((X, y, qid), losses=["map", "pairs"], C_grid=[0.1, 1, 10])
    >>> len(health.rows), health.of("map")[0].slack > health.of("map")[-1].slack
    (6, True)
    """
    data = _as_data(data)
    grid = _grid(C_grid)
    settings = {"standardize": standardize, "tol": tol, "max_passes": max_passes}
    plans = _plans(data, losses, settings, [parse_measure(measure) for measure in measures])
    parts = _checked_parts(data, eval_set, plans)
    rows: list[FitHealth] = []
    definitions: dict[str, None] = {}  # in order, each once
    notes: dict[str, None] = {}
    total = len(plans) * len(grid)
    for plan in plans:
        training = data if plan.useful.all() else data.select(plan.useful)
        _warm_up(plan, training, settings)
        for C in grid:
            row, found = _fit(plan, C, settings, parts, training, _Reporter(progress, len(rows), total))
            rows.append(row)
            for part, of in found.items():
                definitions |= dict.fromkeys(of.definitions)
                notes |= dict.fromkeys(f"{part}: {note}" for note in of.notes)
    if progress is not None:
        progress(total, total)
    return TrainingHealth(tuple(rows), standardize, tol, max_passes, (*definitions, *notes))


@dataclass(frozen=True, eq=False)
class _Plan:
    """One loss: its name, the queries it can learn from, and what is evaluated."""

    name: str
    loss: Any
    useful: Array
    n_losses: int
    own: Measure
    asked: tuple[Measure, ...]

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Its own measure, and those asked for."""
        return tuple(dict.fromkeys([self.own, *self.asked]))


class _Reporter:
    """A callback of the solver that reports how many fits are done."""

    def __init__(self, progress: Callable[[int, int], None] | None, done: int, total: int) -> None:
        self._progress, self._done, self._total = progress, done, total

    def __call__(self, _: Any) -> None:
        if self._progress is not None:
            self._progress(self._done, self._total)


def _as_data(data: Any) -> RankingData:
    if isinstance(data, RankingData):
        return data
    if not (isinstance(data, tuple | list) and len(data) == 3):
        raise InputError(f"data is a {type(data).__name__}; expected a RankingData or (X, y, qid)")
    X, y, qid = data
    return RankingData.from_arrays(X, y, qid)


def _grid(values: Iterable[float]) -> list[float]:
    grid = sorted({float(C) for C in values})
    if not grid:
        raise InputError("C_grid is empty; expected numbers above 0")
    for C in grid:
        if not 0 < C < np.inf:
            raise InputError(f"C_grid contains {C!r}; expected numbers above 0")
    return grid


def _plans(data: RankingData, losses: Any, settings: dict[str, Any], measures: Sequence[Measure]) -> list[_Plan]:
    """Every loss, all checked before the first is trained for."""
    plans: dict[str, _Plan] = {}
    losses = [losses] if isinstance(losses, str | Measure) else list(losses)
    check_losses(losses, **settings)
    for loss in losses:
        name = _name(loss)
        ranker = ranker_for(loss, **settings)
        useful = ranker._useful(data)
        n_losses = 1 if isinstance(loss, str | Measure) else len(loss)
        own = ranker.measure_to_choose_by()
        if not useful.any():
            what = (
                "documents of different labels"
                if isinstance(ranker, RankingSVM)
                else "both relevant and other documents"
            )
            message = f"no query has {what}: there is nothing to train {name} on"
            raise InputError(message, "training data")
        plans[name] = _Plan(name, loss, useful, n_losses, own, tuple(dict.fromkeys(measures)))
    if not plans:
        raise InputError("no loss given; expected for example map, ndcg@10 or pairs")
    return list(plans.values())


def _name(loss: Any) -> str:
    if isinstance(loss, str):
        return loss.strip().lower()
    return str(loss) if isinstance(loss, Measure) else "+".join(map(_name, loss))


def _checked_parts(data: RankingData, eval_set: Any, plans: Sequence[_Plan]) -> dict[str, RankingData]:
    """Training and validation data, whose labels suit all measures."""
    parts = {"training": data}
    if eval_set is not None:
        with about(VALIDATION):
            parts["validation"] = _as_data(eval_set).matched_to(data.n_features, data.feature_names)
    for part, name in zip(parts, (TRAINING, VALIDATION), strict=False):
        with about(name):
            for measure in {measure for plan in plans for measure in plan.measures}:
                measure.resolve("letor").check_labels(parts[part].labels)
    return parts


def _warm_up(plan: _Plan, training: RankingData, settings: dict[str, Any]) -> None:
    """Compile everything, or load it from disk, on a few queries from the shortest to the longest.

    At a tiny C no plane is new after a few passes, which triggers the exact solution of the small problem.
    """
    places = np.linspace(0, training.n_queries - 1, min(_WARM_QUERIES, training.n_queries)).astype(np.int64)
    few = training.select(np.argsort(training.sizes, kind="stable")[places])
    for C, max_passes in _WARM_FITS:
        _train(ranker_for(plan.loss, **settings | {"C": C, "tol": 1e-15, "max_passes": max_passes}), few)


def _train(ranker: Any, data: RankingData) -> float:
    """Fit; the seconds it took. Ctrl-C ends everything."""
    ranker._tries_others = False  # the table compares losses
    facts = ranker.fit_data(data)
    if facts.interrupted:
        raise KeyboardInterrupt
    return float(facts.seconds)


def _fastest(make: Callable[[], Any], data: RankingData) -> tuple[Any, float]:
    """A fitted ranker and its seconds; of a short fit, easily disturbed by other work, the fastest of three."""
    fits: list[tuple[Any, float]] = []
    while not fits or (len(fits) < _REPEATS and fits[-1][1] < _SHORT):
        ranker = make()
        fits.append((ranker, _train(ranker, data)))
    return min(fits, key=lambda fit: fit[1])


def _fit(
    plan: _Plan,
    C: float,
    settings: dict[str, Any],
    parts: dict[str, RankingData],
    training: RankingData,
    callback: _Reporter,
) -> tuple[FitHealth, dict[str, Evaluation]]:
    """Train for one C, and evaluate."""
    ranker, seconds = _fastest(lambda: ranker_for(plan.loss, C=C, callback=callback, **settings), parts["training"])
    last = ranker.path_[-1]
    in_passes = max(0.0, last.seconds - last.seconds_planes)
    once = plan.n_losses * _products_seconds(training, ranker.coef_)
    products = min(last.passes * once, in_passes)
    figures = ranker.C_path_[0]
    found = {part: evaluate(of, ranker.predict(of), measures=plan.measures) for part, of in parts.items()}
    row = FitHealth(
        loss=plan.name,
        C=C,
        slack=figures["slack"],
        slack_at_zero=ranker.path_[0].primal / C,
        objective=ranker.objective_,
        norm=figures["norm"],
        passes=last.passes,
        gap=ranker.gap_,
        seconds=seconds,
        seconds_oracle=in_passes - products,
        seconds_products=products,
        seconds_planes=last.seconds_planes,
        seconds_rest=max(0.0, seconds - last.seconds),
        own_measure=str(plan.own),
        own_training=found["training"].means[str(plan.own)],
        own_validation=found["validation"].means[str(plan.own)] if "validation" in found else float("nan"),
        measures=tuple((f"{part} {m}", of.means[str(m)]) for part, of in found.items() for m in plan.asked),
    )
    return row, found


def _products_seconds(data: RankingData, coef: Array) -> float:
    """Seconds of the products of one pass with the features, at their fastest."""
    rows = kernel_form(data.X)
    longest = int(data.sizes.max())
    signs, scores, plane = np.ones(longest), np.empty(longest), np.zeros(data.n_features)
    signs[::2] = -1.0
    taken = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        _products(rows, data.indptr, coef, signs, scores, plane)
        taken.append(time.perf_counter() - began)
    return min(taken)


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _products(X: Any, indptr: Any, weights: Any, coef: Any, scores: Any, plane: Any) -> None:
    """The two products of a pass, and nothing else."""
    for q in range(indptr.size - 1):
        start, stop = indptr[q], indptr[q + 1]
        row_scores(X, start, stop, weights, scores)
        add_rows(X, start, stop, coef, plane)
