"""The health of training: slack, objective, weights and time as C grows, for one or several losses.

    average slack  s = (1/|Q|) Σ_q H_q(w) = (P(w) − ½‖w‖²) / C          P(0) = C · (slack at weights of 0)

As C grows, the slack of a healthy loss falls, and its objective drops below P(0); a loss that stays at P(0) cannot be
reduced on this data (Chakrabarti et al., KDD'08, Figures 4–6 and 8).
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from rankwright._types import Array
from rankwright.data.dataset import RankingData
from rankwright.data.display import Tabled, look, new_figure, write_figure
from rankwright.errors import InputError
from rankwright.evaluation.evaluate import Evaluation, evaluate
from rankwright.evaluation.render import figure, group_starts, rendered
from rankwright.maxmargin.cost import DEFAULT_GRID
from rankwright.maxmargin.ranking_svm import RankingSVM
from rankwright.maxmargin.structured_svm import USELESS, StructuredSVM
from rankwright.measures import Measure, parse_measure
from rankwright.models.products import FASTMATH, add_rows, kernel_form, row_scores
from rankwright.training.train import TRAINING, VALIDATION, about

__all__ = ["TrainingHealth", "training_health"]

LOSSES = ("map", "ndcg@10", "mrr@10", "auc", "pairs")
_REPEATS = 3  # of short fits and of the products; the fastest counts
_SHORT = 0.1  # seconds
_WARM_QUERIES = 8
_WARM_FITS = ((1e-6, 25), (1.0, 5))  # C and passes
_FALLS = 0.01  # of the slack: a smaller fall is not worth a larger C
_GONE = 1e-3  # of the slack at weights of 0: less counts as none
_HEADER = ("loss", "C", "slack", "obj/obj(0)", "‖w‖", "passes", "gap", "seconds", "oracle", "products", "QP", "rest")
_BRIEF = {"training": "train", "validation": "valid"}
Fits = Mapping[str, Sequence["FitHealth"]]  # of every loss, by C
_PARTS = {  # of the seconds: name, shade, hatch
    "seconds_oracle": ("most violated rankings (oracle)", "0.25", ""),
    "seconds_products": ("products with the features", "0.75", "////"),
    "seconds_planes": ("problem over planes (QP)", "1.0", "...."),
    "seconds_rest": ("preparation", "0.9", "xxxx"),
}
_A_ROW = 5  # losses in a row of bars
_LEAST_BARS = 4  # room for at least this many per loss


def ranker_for(loss: str, **settings: Any) -> Any:
    """The ranker of a loss: RankingSVM for ``"pairs"``, StructuredSVM on the papers' problem for everything else."""
    if isinstance(loss, str) and loss.strip().lower() == "pairs":
        return RankingSVM(**settings)
    feature_map = "mrr" if isinstance(loss, str) and loss.strip().lower().startswith("mrr") else None
    return StructuredSVM(loss, bound="hinge", feature_map=feature_map, **settings)


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
    tol: float = 1e-4,
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
            callback = None if progress is None else partial(_report, progress, len(rows), total)
            row, evaluations = _fit(plan, C, settings, parts, training, callback)
            rows.append(row)
            for part, evaluation in evaluations.items():
                definitions |= dict.fromkeys(evaluation.definitions)
                notes |= dict.fromkeys(f"{part}: {note}" for note in evaluation.notes)
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


def _report(progress: Callable[[int, int], None], done: int, total: int, _: Any) -> None:
    """A callback of the solver that reports how many fits are done."""
    progress(done, total)


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
        if not useful.any():
            is_of_pairs = isinstance(ranker, RankingSVM)
            needed = "documents of different labels" if is_of_pairs else "both relevant and other documents"
            raise InputError(f"no query has {needed}: there is nothing to train {name} on", TRAINING)
        n_losses = 1 if isinstance(loss, str | Measure) else len(loss)
        own = ranker.measure_to_choose_by()
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
    callback: Callable[[Any], None] | None,
) -> tuple[FitHealth, dict[str, Evaluation]]:
    ranker, seconds = _fastest(lambda: ranker_for(plan.loss, C=C, callback=callback, **settings), parts["training"])
    last = ranker.path_[-1]
    in_passes = max(0.0, last.seconds - last.seconds_planes)
    once = plan.n_losses * _products_seconds(training, ranker.coef_)
    products = min(last.passes * once, in_passes)
    figures = ranker.C_path_[0]
    evaluations = {part: evaluate(data, ranker.predict(data), measures=plan.measures) for part, data in parts.items()}
    means = {part: evaluation.means for part, evaluation in evaluations.items()}
    own = str(plan.own)
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
        own_measure=own,
        own_training=means["training"][own],
        own_validation=means["validation"][own] if "validation" in means else math.nan,
        measures=tuple((f"{part} {measure}", of[str(measure)]) for part, of in means.items() for measure in plan.asked),
    )
    return row, evaluations


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
def _products(X: Any, indptr: Array, weights: Array, coef: Array, scores: Array, plane: Array) -> None:
    for q in range(indptr.size - 1):
        start, stop = indptr[q], indptr[q + 1]
        row_scores(X, start, stop, weights, scores)
        add_rows(X, start, stop, coef, plane)


@dataclass(frozen=True)
class FitHealth:
    """One fit, of a loss and a C.

    `loss`: the loss trained for. `C`: weight of the losses. `slack`, `slack_at_zero`: mean hinge over the training
    queries, at the weights found and at weights of 0. `objective`: ½‖w‖² + C · slack. `norm`: ‖w‖ of the problem
    solved, which has standardised features unless standardising is off. `passes`: passes over the data. `gap`: how far
    the objective may be above the optimum, relative to it. `seconds`: total time of the fit. `seconds_oracle`,
    `seconds_products`, `seconds_planes`, `seconds_rest`: how the seconds split: most violated rankings, products with
    the features, the small problem over planes (the papers' QP), and preparation. `own_measure`: the measure of the
    loss; nDCG@10 for pairs. `own_training`, `own_validation`: its mean on training and validation data; NaN without
    validation data. `measures`: the measures asked for, as ``("training AP", 0.45)``.
    """

    loss: str
    C: float
    slack: float
    slack_at_zero: float
    objective: float
    norm: float
    passes: int
    gap: float
    seconds: float
    seconds_oracle: float
    seconds_products: float
    seconds_planes: float
    seconds_rest: float
    own_measure: str
    own_training: float
    own_validation: float = math.nan
    measures: tuple[tuple[str, float], ...] = ()

    @property
    def objective_at_zero(self) -> float:
        """The objective at weights of 0."""
        return self.C * self.slack_at_zero

    @property
    def objective_ratio(self) -> float:
        """The objective relative to that at weights of 0."""
        return self.objective / self.objective_at_zero if self.objective_at_zero > 0 else 1.0

    @property
    def slack_ratio(self) -> float:
        """The average slack relative to that at weights of 0."""
        return self.slack / self.slack_at_zero if self.slack_at_zero > 0 else 1.0

    def _slack_error(self) -> float:
        """How far the average slack at the optimum can be from this one.

        P is strongly convex, so weights within a gap g are within √(2gP) of the optimum, and their ½‖w‖² and P with
        them.
        """
        room = self.gap * self.objective
        return (2.0 * room + math.sqrt(2.0 * room) * self.norm) / self.C


@dataclass(frozen=True)
class TrainingHealth:
    """The health of training for every loss and C; made by :func:`rankwright.training_health`.

    Attributes
    ----------
    rows : tuple of FitHealth
        Loss by loss, by ascending C.
    standardize, tol, max_passes
        The settings of the fits.
    definitions : tuple of str
        Definitions of the measures.
    """

    rows: tuple[FitHealth, ...]
    standardize: bool = True
    tol: float = 1e-4
    max_passes: int = 200
    definitions: tuple[str, ...] = ()

    @property
    def losses(self) -> tuple[str, ...]:
        """The losses, in the order asked for."""
        return tuple(dict.fromkeys(row.loss for row in self.rows))

    def of(self, loss: str) -> tuple[FitHealth, ...]:
        """The rows of one loss, by C."""
        rows = tuple(row for row in self.rows if row.loss == loss)
        if not rows:
            raise InputError(f"{loss!r} is not in the table; expected one of {', '.join(self.losses)}")
        return rows

    @property
    def findings(self) -> tuple[str, ...]:
        """What the rows prove, in words."""
        return tuple(line for loss in self.losses for line in _findings(self.of(loss), self))

    def to_dict(self) -> dict[str, list[Any]]:
        """The table by columns: ``pandas.DataFrame(health.to_dict())``."""
        records = [_record(row) for row in self.rows]
        return {name: [record[name] for record in records] for name in records[0]}

    def render(self, kind: str = "text") -> str:
        """The table as ``text``, ``markdown``, ``latex``, ``csv`` or ``json``."""
        columns = self.to_dict()
        facts: dict[str, Any] = {"standardize": self.standardize, "tol": self.tol, "max_passes": self.max_passes}
        facts |= {"rows": [_record(row) for row in self.rows], "findings": self.findings}
        facts["definitions"] = self.definitions
        return rendered(_table(self), (list(columns), zip(*columns.values(), strict=True)), facts, kind)

    def plot(self, path: str | Path) -> None:
        """Plot the table into a ``.png`` or ``.svg`` file."""
        write_figure(path, lambda: _draw({loss: self.of(loss) for loss in self.losses}))

    def __str__(self) -> str:
        return self.render()


def _record(row: FitHealth) -> dict[str, Any]:
    values = {field.name: getattr(row, field.name) for field in dataclasses.fields(row) if field.name != "measures"}
    return values | {"objective_ratio": row.objective_ratio} | dict(row.measures)


def _table(health: TrainingHealth) -> Tabled:
    has_valid = any(not math.isnan(row.own_validation) for row in health.rows)
    asked = [name.partition(" ") for name, _ in health.rows[0].measures]
    header = (
        *_HEADER,
        "own train",
        *(["own valid"] if has_valid else []),
        *(f"{m} {_BRIEF[p]}" for p, _, m in asked),
    )
    rows = []
    for row in health.rows:
        own = [row.own_training, *([row.own_validation] if has_valid else [])]
        values = [figure(value) for value in [*own, *(value for _, value in row.measures)]]
        seconds = (row.seconds_oracle, row.seconds_products, row.seconds_planes, row.seconds_rest)
        shares = [f"{100 * part / max(row.seconds, 1e-12):.0f}%" for part in seconds]
        figures = (f"{row.C:g}", f"{row.slack:.4g}", f"{row.objective_ratio:.4f}", f"{row.norm:.3g}", str(row.passes))
        rows.append((row.loss, *figures, f"{row.gap:.1e}", f"{row.seconds:.4f}", *shares, *values))
    features = "standardised features" if health.standardize else "raw features"
    whose = ", ".join(f"{health.of(loss)[0].own_measure} for {loss}" for loss in health.losses)
    notes = (
        *health.findings,
        f"slack: mean hinge over training queries; obj(0): objective at weights of 0; ‖w‖: on {features}",
        "oracle, products with the features (at most), QP over planes, rest: shares of the seconds",
        f"own: {whose}",
        *health.definitions,
    )
    return Tabled(header, tuple(rows), notes, 1, group_starts(rows))


def _findings(rows: Sequence[FitHealth], health: TrainingHealth) -> list[str]:
    loss = rows[0].loss
    lines = (_about_use(rows, health), _about_slack(rows), _about_gap(rows, health.tol), _about_validation(rows))
    return [f"{loss}: {line}" for line in lines if line]


def _is_useless(row: FitHealth) -> bool:
    return max(row.slack_ratio, row.objective_ratio) >= USELESS


def _about_use(rows: Sequence[FitHealth], health: TrainingHealth) -> str:
    """Whether the weights are any better than 0 for any C; if not, what does learn."""
    text = _about_weights(rows, health.tol)
    if not all(_is_useless(row) for row in rows):
        return text
    if any(row.norm > 0 for row in rows):
        lowest = min(max(row.slack_ratio, row.objective_ratio) for row in rows)
        share = f"{100 * lowest:.1f} % or more of that at weights of 0"
        text = f"the weights are no better than 0 for any C: slack or objective stays at {share}"
    others = [loss for loss in health.losses if not all(_is_useless(row) for row in health.of(loss))]
    return f"{text}; {', '.join(others)} {'does' if len(others) == 1 else 'do'} learn here" if others else text


def _about_weights(rows: Sequence[FitHealth], tol: float) -> str:
    zero = [row.C for row in rows if row.norm == 0]
    if not zero:
        return ""
    where = "for C = " + ", ".join(f"{C:g}" for C in zero)
    if zero == [row.C for row in rows[: len(zero)]] and len(zero) > 1:
        where = f"for every C up to {zero[-1]:g}"
    text = f"all weights are 0 {where}, which leaves all documents tied"
    gap = max(row.gap for row in rows)
    if len(zero) < len(rows) or gap > tol:
        return text
    proof = f"no weights lower the objective by more than {100 * gap:.2g} %"
    return f"{text}: with such C this loss cannot be reduced on this data ({proof})"


def _about_slack(rows: Sequence[FitHealth]) -> str:
    last = rows[-1]
    if last.norm == 0 or all(_is_useless(row) for row in rows):
        return ""
    text = f"average slack falls to {100 * last.slack_ratio:.3g} % of that at weights of 0 by C = {last.C:g}"
    if last.slack_ratio <= _GONE:
        return f"{text}: nearly every training query is ordered with the full margin"
    before = rows[max(0, len(rows) - 2)]
    fall = before.slack - before._slack_error() - last.slack - last._slack_error()
    if fall <= _FALLS * before.slack or _is_useless(last):
        return text
    share = 100 * (1 - last.slack / before.slack)
    text = f"{text} and is still falling (by {share:.2g} % from C = {before.C:g})"
    best = max((row.own_validation for row in rows if not math.isnan(row.own_validation)), default=math.nan)
    return text if best > last.own_validation else f"{text}: a larger C may help"


def _about_gap(rows: Sequence[FitHealth], tol: float) -> str:
    left = [row for row in rows if row.gap > tol]
    if not left:
        return ""
    worst = max(left, key=lambda row: row.gap)
    which = ", ".join(f"{row.C:g}" for row in left)
    reached = f"the largest, at C = {worst.C:g}, is {worst.gap:.2g} after {worst.passes} passes"
    return f"the gap of {tol:g} was not reached for C = {which}; {reached}"


def _about_validation(rows: Sequence[FitHealth]) -> str:
    validated = [row for row in rows if not math.isnan(row.own_validation)]
    if not any(row.norm > 0 for row in validated):
        return ""
    best = max(validated, key=lambda row: row.own_validation)
    text = f"{best.own_measure} on validation data is best at C = {best.C:g} ({best.own_validation:.4f})"
    if len(validated) > 1 and best.C in (rows[0].C, rows[-1].C):
        side = "smaller" if best.C == rows[0].C else "larger"
        return f"{text}, an end of the grid: a {side} C may be better"
    return text


def _draw(fits: Fits) -> Any:
    n_rows = -(-len(fits) // _A_ROW)
    heights = [4.3, 1.75 * n_rows + 0.35]
    figure = new_figure(sum(heights))
    above, below = list(figure.subfigures(2, 1, squeeze=False, height_ratios=heights).ravel())
    _draw_lines(above, fits)
    _draw_bars(below, fits, n_rows)
    return figure


def _draw_lines(figure: Any, fits: Fits) -> None:
    """Six panels over C, a line per loss."""
    from matplotlib.ticker import MaxNLocator, NullLocator

    axes = figure.subplots(2, 3, sharex=True).ravel()
    has_valid = any(not math.isnan(row.own_validation) for rows in fits.values() for row in rows)
    part = "validation" if has_valid else "training"
    panels: list[tuple[str, str, Callable[[FitHealth], float]]] = [
        ("Average slack", "relative to weights of 0", lambda row: row.slack_ratio),
        ("Objective", "relative to weights of 0", lambda row: row.objective_ratio),
        ("Norm of the weights", "‖w‖", lambda row: row.norm),
        ("Passes over the data", "passes", lambda row: row.passes),
        ("Training time", "seconds", lambda row: row.seconds),
        (f"Own measure, {part} data", "mean over queries", lambda row: getattr(row, f"own_{part}")),
    ]
    measures = {loss: rows[0].own_measure for loss, rows in fits.items()}
    labels = [loss if own.lower() == loss else f"{loss} ({own})" for loss, own in measures.items()]
    for axis, (title, label, value) in zip(axes, panels, strict=True):
        axis.set_title(title)
        axis.set_ylabel(label)
        columns = [[value(row) for row in rows] for rows in fits.values()]
        if label in ("‖w‖", "seconds"):
            columns = _log_axis(axis, columns)
        for number, (loss, column) in enumerate(zip(fits, columns, strict=True)):
            axis.plot([row.C for row in fits[loss]], column, label=labels[number], **look(number))
    lowest = min(min(row.slack_ratio, row.objective_ratio) for rows in fits.values() for row in rows)
    for axis in axes[:2]:
        axis.set_ylim(max(0.0, math.floor(10 * lowest - 0.5) / 10), 1.03)
    axes[3].set_ylim(bottom=0)
    axes[3].yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes[0].set_xscale("log")
    axes[0].xaxis.set_minor_locator(NullLocator())
    for axis in axes[3:]:
        axis.set_xlabel("C, the weight of ranking errors")
    lines, _ = axes[0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside upper center", ncols=min(5, len(labels)), frameon=False, handlelength=3.2)


def _log_axis(axis: Any, columns: Sequence[Sequence[float]]) -> list[list[float]]:
    """A logarithmic axis with a place for 0, a decade below everything else."""
    positive = [value for column in columns for value in column if value > 0]
    if not positive:
        axis.set_ylim(-0.05, 1)
        return [list(column) for column in columns]
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    axis.set_yscale("log")
    axis.yaxis.set_minor_locator(NullLocator())
    if max(positive) < 100 * min(positive):
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if len(positive) == sum(map(len, columns)):
        return [list(column) for column in columns]
    lowest, highest = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    floor = 10.0 ** (lowest - 1)
    step = max(1, -(-(highest - lowest) // 5))
    powers = range(lowest, highest + 1, step)
    axis.yaxis.set_major_locator(FixedLocator([floor, *(10.0**power for power in powers)]))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: "0" if value <= 1.01 * floor else _power(value)))
    axis.set_ylim(floor / 2, 2 * max(positive))
    return [[value if value > 0 else floor for value in column] for column in columns]


def _draw_bars(figure: Any, fits: Fits, n_rows: int) -> None:
    """For every loss and C a bar that shows how its time splits."""
    n_columns = min(_A_ROW, max(3, len(fits)))
    axes = figure.subplots(n_rows, n_columns, sharey=True, squeeze=False)
    for axis in axes.ravel()[len(fits) :]:
        axis.set_visible(False)
    for axis, (loss, rows) in zip(axes.ravel(), fits.items(), strict=False):
        bottoms = [0.0] * len(rows)
        for part, (name, shade, hatch) in _PARTS.items():
            shares = [100 * getattr(row, part) / max(row.seconds, 1e-12) for row in rows]
            places = range(len(rows))
            axis.bar(places, shares, 0.86, bottoms, color=shade, hatch=hatch, edgecolor="0.2", lw=0.5, label=name)
            bottoms = [bottom + share for bottom, share in zip(bottoms, shares, strict=True)]
        shown = range(0, len(rows), max(1, -(-len(rows) // 4)))
        axis.set_xticks(list(shown), [_power(rows[at].C) for at in shown])
        room = 0.6 + max(0, _LEAST_BARS - len(rows)) / 2
        axis.set_xlim(-room, len(rows) - 1 + room)
        axis.grid(False, axis="x")
        axis.set_title(f"{loss}, {sum(row.seconds for row in rows):.2g} s")
        axis.set_xlabel("C")
    for axis in axes[:, 0]:
        axis.set_ylabel("% of the time")
        axis.set_ylim(0, 100)
    bars, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(bars, names, loc="outside upper center", ncols=len(names), frameon=False)


def _power(value: float) -> str:
    """A number for an axis; powers of ten as powers."""
    exponent = math.log10(value)
    if abs(exponent - round(exponent)) < 1e-9:
        return f"$10^{{{round(exponent)}}}$"
    return f"{value:.2g}"
