"""Whether an exported file scores as the model does: by its consumer where that is installed, else by its rule.

Readers know nothing of the model: they parse the bytes written. The rows are given, or made from the model (probe
rows): for every split one row on its threshold, one just above, one just below and one without a value, led to where
the split is met. All rows are first rounded to what the consumer holds features in, as the rows that it will see are,
and the model scores the rounded rows. A row is off its path if its score differs by more than 1e-4 of the largest
score: rounding of sums is far below that, another leaf usually far above.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.boosting.float32 import rounded_down
from rankwright.boosting.forest import Forest
from rankwright.boosting.tree_model import GradeModel, TreeModel
from rankwright.data.categories import number_of
from rankwright.data.dataset import RankingData
from rankwright.data.order import query_chunks
from rankwright.errors import InputError
from rankwright.exporting.ensemble import Ensemble, in_set, placed
from rankwright.exporting.target import ExportFiles, ExportTarget, Options, Scorer
from rankwright.models.base import Model
from rankwright.nets.model import NetModel

_BLOCK_VALUES = 1 << 22
_GOLDEN, _GOLDEN_VALUES = 24, 100_000  # rows, and values in all of them


@dataclass(frozen=True)
class Verification:
    """How the scores of an exported file compare with those of the model.

    `rows`: rows compared. `off`: rows off their path: the file does not represent the model. An export with any is
    refused. `largest`: the largest difference of two scores, as a share of the largest score; without those of
    ``inexact``. `inexact`: rows that differ because the target cannot represent a threshold of the model. `rounded`:
    rows of weights whose large terms cancel, so that the consumer's number type alone moves the score that far. `by`:
    who scored: a package and its version, or our model of the rule. `moved`: rows with a feature that the consumer's
    number type does not hold; 0 unless the rows were given. `moved_off`: rows whose score by the model moves by more
    than the tolerance when features are rounded to that type.
    """

    rows: int
    off: int
    largest: float
    inexact: int
    rounded: int
    by: str
    moved: int = 0
    moved_off: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return everything, for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows in the consumer's number type, and their scores by the model.

    `X`: features of the ensemble. `bounds`: query ``q`` owns the rows ``bounds[q]:bounds[q+1]``. `scores`: scores by
    the model. `given`: the rows before they were rounded.
    """

    X: Array
    bounds: Array
    scores: Array
    given: Array | None = None


def verify(
    target: ExportTarget,
    written: ExportFiles,
    model: Model,
    ensemble: Ensemble,
    options: Options,
    data: RankingData | None = None,
    *,
    made: ScoredRows | None = None,
) -> Verification:
    """Compare the scores of written files with those of a model, on data or on rows made from the model.

    `made`: such rows, if they are there already.
    """
    scorer, by = _scorer(target, written.files, ensemble.names)
    if data is not None:
        blocks: Iterable[ScoredRows] = _rows_given(target, model, ensemble, options, data)
    else:
        blocks = [made or scored_probe_rows(target, model, ensemble, options)]
    compared = []
    for block in blocks:
        expected = block.scores
        got = np.asarray(scorer(block.X, block.bounds), np.float64).reshape(-1)
        # What a target cannot represent is an ensemble of its own, which the files must match exactly; how it differs
        # from the model is counted. So a bug is told from Solr's slack.
        represented = _represented(written, block)
        given = expected if block.given is None else _scores(model, ensemble, block.given, block.bounds)
        changed = np.zeros(len(got), bool) if block.given is None else _changed(block.X, block.given)
        compared.append((expected, got, represented, _allowance(target, ensemble, block.X), given, changed))
    if not compared:
        return Verification(0, 0, 0.0, 0, 0, by)
    expected, got, represented, allowance, given, changed = map(np.concatenate, zip(*compared, strict=True))
    scale = float(np.abs(expected).max(initial=0.0)) or 1.0
    tolerance = target.tolerance * scale
    beyond = ~(np.abs(got - represented) <= tolerance)
    rounded = beyond & (np.abs(got - represented) <= allowance)
    with np.errstate(invalid="ignore"):
        differences = np.abs(got - represented)
    return Verification(
        len(got),
        int((beyond & ~rounded).sum()),
        float(np.nan_to_num(differences, nan=np.inf).max(initial=0.0)) / scale,
        int((np.abs(represented - expected) > tolerance).sum()),
        int(rounded.sum()),
        by,
        int(changed.sum()),
        int((np.abs(given - expected) > tolerance).sum()),
    )


def golden_rows(written: ExportFiles, ensemble: Ensemble, made: ScoredRows) -> ScoredRows:
    """A few of the made rows, to check an installation with.

    Rows that the target has no way to score like the model are left out.
    """
    X, scores = made.X, made.scores
    if ensemble.scales_queries:
        bounds = made.bounds[:3]
        return ScoredRows(X[: bounds[-1]], bounds, scores[: bounds[-1]])
    agreed = np.flatnonzero(
        np.abs(_represented(written, made) - scores) <= 1e-12 * (np.abs(scores).max(initial=0.0) or 1.0)
    )
    n_golden = min(_GOLDEN, len(agreed), max(1, _GOLDEN_VALUES // max(1, len(ensemble.used))))
    chosen = agreed[np.unique(np.linspace(0, len(agreed) - 1, n_golden).astype(np.int64))]
    return ScoredRows(X[chosen], np.array([0, len(chosen)]), scores[chosen])


def _scorer(target: ExportTarget, files: Mapping[str, bytes], names: tuple[str, ...]) -> tuple[Scorer, str]:
    """A scorer of the files, and its name for the report."""
    consumer = target.consumer
    if consumer is None or importlib.util.find_spec(consumer.package) is None:
        return target.read(files, names), target.run_by or "our model of its rule"
    by = f"{consumer.package} {importlib.import_module(consumer.package).__version__}"
    try:
        return consumer.read(files, names), by
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{by} does not read what was written for it: {reason}") from None


def scored_probe_rows(target: ExportTarget, model: Model, ensemble: Ensemble, options: Options) -> ScoredRows:
    X = target.seen(probe_rows(ensemble, target.dtype, missing=not options.missing_as_zero), ensemble)
    bounds = query_bounds(len(X))
    return ScoredRows(X, bounds, _scores(model, ensemble, X, bounds))


def _rows_given(
    target: ExportTarget, model: Model, ensemble: Ensemble, options: Options, data: RankingData
) -> Iterator[ScoredRows]:
    bounds = data.indptr
    for first, last in query_chunks(bounds, max(2, _BLOCK_VALUES // max(1, model.n_features))):
        rows = slice(int(bounds[first]), int(bounds[last]))
        given = Model.aligned(model, data.X[rows], data.feature_names)
        if options.missing_as_zero:
            given = np.nan_to_num(given, nan=0.0)
        X, block_bounds = target.seen(given, ensemble), bounds[first : last + 1] - bounds[first]
        yield ScoredRows(X, block_bounds, _scores(model, ensemble, X, block_bounds), given)


def _scores(model: Model, ensemble: Ensemble, X: Array, bounds: Array) -> Array:
    return np.asarray(model.score(X, ensemble.names if ensemble.has_names else None, bounds), np.float64)


def _represented(written: ExportFiles, rows: ScoredRows) -> Array:
    """Scores of what the files represent: those of the model where a target can represent it."""
    ensemble = written.representable
    if ensemble is None:
        return rows.scores
    trees = TreeModel(len(ensemble.names), None, ensemble.trees, categories=ensemble.categories)
    return trees.score(rows.X) + ensemble.constant


def _changed(X: Array, given: Array) -> Array:
    return np.asarray(((given != X) & ~(np.isnan(X) & np.isnan(given))).any(axis=1))


def _allowance(target: ExportTarget, ensemble: Ensemble, X: Array) -> Array:
    """How far rounding alone may move each score of weights; 0 for anything else."""
    if not ensemble.is_linear:
        return np.zeros(len(X))
    terms = np.abs(np.nan_to_num(X[:, ensemble.linear_features]) * ensemble.weights[ensemble.linear_features])
    steps = terms.shape[1] + 2
    return np.asarray(steps * np.finfo(target.dtype).eps * (terms.sum(axis=1) + abs(ensemble.constant)))


_RANDOM = 1000
_MAX_CELLS = 5_000_000  # rows × trees, and rows × features
_MAX_ROWS = 20_000
_MISSING = 0.03
_PER_SPLIT = 4
_QUERY = 20  # rows
_WIDEST = 1e3  # by how much features of large and small weights may differ


def probe_rows(ensemble: Ensemble, dtype: type = np.float32, *, missing: bool = True, seed: int = 0) -> Array:
    """Rows of all features, of finite numbers of the type but not rounded to it; the same for the same ensemble.

    `dtype`: float32 or float64: what "just above" means. `missing`: whether features may be missing; those of weights
    and nets never are.
    """
    rng = np.random.default_rng(seed)
    forests = [ensemble.trees, *_inner_forests(ensemble)]
    n_trees = sum(forest.n_trees for forest in forests)
    max_rows = int(min(_MAX_ROWS, max(_PER_SPLIT, _MAX_CELLS // max(n_trees, len(ensemble.names), 1))))
    splits = [(forest, int(node)) for forest in forests for node in np.flatnonzero(forest.feature >= 0)]
    n_random = min(_RANDOM, max(_PER_SPLIT, max_rows // 5))
    n_tried = min(len(splits), (max_rows - n_random) // _PER_SPLIT)
    tried = [splits[at] for at in np.unique(np.linspace(0, len(splits) - 1, n_tried).astype(np.int64))]
    X = _random_rows(ensemble, forests, n_random + _PER_SPLIT * len(tried), rng)
    parents = {id(forest): _parents(forest) for forest in forests}
    for at, (forest, node) in enumerate(tried):
        rows = X[n_random + _PER_SPLIT * at :][:_PER_SPLIT]
        _lead_to(ensemble, forest, parents[id(forest)], node, rows, rng)
        j = int(forest.feature[node])
        if forest.subset[node] >= 0:
            numbers = [number_of(value) for value in ensemble.categories[j]]
            rows[:, j] = [*rng.choice(numbers, _PER_SPLIT - 2), _unknown(ensemble.categories[j]), np.nan]
        else:
            rows[:, j] = [*_around(forest.threshold[node], dtype), np.nan]
    with np.errstate(over="ignore", invalid="ignore"):
        X[np.isinf(X.astype(dtype))] = 0.0
    numeric = X[:, ensemble.numeric]
    largest = 100 * np.max(np.abs(np.nan_to_num(numeric[:n_random])), axis=0, initial=1.0)
    X[:, ensemble.numeric] = np.where(np.abs(numeric) > largest, 0.0, numeric)  # they would hide all others
    # All features of a net, used or not: 0 times missing is missing.
    nets = [other.places for other in ensemble.others if isinstance(other.model, NetModel)]
    never_missing = np.concatenate([ensemble.numeric, *nets]) if missing else np.arange(len(ensemble.names))
    X[:, never_missing] = np.nan_to_num(X[:, never_missing], nan=0.0)
    return X


def query_bounds(n_rows: int) -> Array:
    return np.append(np.arange(0, n_rows, _QUERY), n_rows)


def _inner_forests(ensemble: Ensemble) -> list[Forest]:
    """The forests of expected grades, on the ensemble's features; steps on scaled features have no rows to try."""
    grades = [(other.model, other.places) for other in ensemble.others if isinstance(other.model, GradeModel)]
    return [placed(forest, places) for model, places in grades for forest in model.forests]


def _around(threshold: float, dtype: type[np.floating[Any]]) -> list[float]:
    """A threshold in a type, and its neighbours above and below; the extremes of the type stay."""
    limits = np.finfo(dtype)
    on = np.clip(rounded_down(threshold, dtype), limits.min, limits.max)
    with np.errstate(over="ignore", under="ignore"):
        ends = [np.nextafter(on, dtype(np.inf)), np.nextafter(on, dtype(-np.inf))]
    return [float(np.clip(value, limits.min / 2, limits.max / 2)) for value in (on, *ends)]


def _random_rows(ensemble: Ensemble, forests: list[Forest], n: int, rng: np.random.Generator) -> Array:
    """Values around the thresholds of each feature; of others, the smaller the larger their weight."""
    sizes = np.abs(ensemble.weights)
    typical = float(np.median(sizes[sizes > 0])) if sizes.any() else 1.0
    with np.errstate(over="ignore", under="ignore"):
        scale = np.clip(typical / np.where(sizes > 0, sizes, typical), 1 / _WIDEST, _WIDEST)
    X = rng.normal(size=(n, len(ensemble.names))) * scale  # so that every weight tells
    limits: dict[int, list[float]] = {}
    for forest in forests:
        for node in np.flatnonzero((forest.feature >= 0) & (forest.subset < 0) & np.isfinite(forest.threshold)):
            limits.setdefault(int(forest.feature[node]), []).append(float(forest.threshold[node]))
    for j, thresholds in limits.items():
        ends = np.clip(np.array(thresholds), -1e30, 1e30)
        width = (ends.max() - ends.min()) or abs(ends[0]) or 1.0
        X[:, j] = rng.choice(ends, n) + np.where(rng.random(n) < 0.3, 0.0, rng.normal(size=n) * width / 10)
    for j, values in ensemble.categories.items():
        numbers = [number_of(value) for value in values]
        X[:, j] = rng.choice(numbers, n) if numbers else np.nan
    X[rng.random(X.shape) < _MISSING] = np.nan
    return X


def _parents(forest: Forest) -> Array:
    """The parent of every node, −1 for roots."""
    parents = np.full(len(forest.feature), -1)
    splits = np.flatnonzero(forest.feature >= 0)
    parents[forest.left[splits]] = splits
    parents[forest.left[splits] + 1] = splits
    return parents


def _lead_to(
    ensemble: Ensemble, forest: Forest, parents: Array, node: int, rows: Array, rng: np.random.Generator
) -> None:
    """Set the features of some rows so that they reach a node, where there is such a row."""
    bounds: dict[int, tuple[float, float, bool]] = {}  # above, up to, and whether all splits send missing values there
    below, above = node, int(parents[node])
    while above >= 0:
        j, left = int(forest.feature[above]), below == forest.left[above]
        if forest.subset[above] >= 0:
            rows[:, j] = _category(ensemble, forest, above, left)
        else:
            low, high, missing = bounds.get(j, (-np.inf, np.inf, True))
            threshold = float(forest.threshold[above])
            low, high = (low, min(high, threshold)) if left else (max(low, threshold), high)
            bounds[j] = (low, high, missing and bool(forest.missing_left[above]) == left)
        below, above = above, int(parents[above])
    for j, (low, high, missing) in bounds.items():
        rows[:, j] = _between(low, high, len(rows), rng)
        if low == np.inf or high == -np.inf or not low < high:
            rows[:, j] = np.nan
        elif missing:
            rows[rng.random(len(rows)) < 0.2, j] = np.nan


def _between(low: float, high: float, n: int, rng: np.random.Generator) -> Array:
    """Values above ``low`` and up to ``high``, as far as float32 has such."""
    if not np.isfinite(low) and not np.isfinite(high):
        return rng.normal(size=n)
    if not np.isfinite(low):
        return high - np.abs(rng.normal(size=n)) * (abs(high) or 1.0)
    if not np.isfinite(high):
        return low + np.abs(rng.normal(size=n)) * (abs(low) or 1.0)
    return low + (high - low) * rng.uniform(0.1, 0.9, n) if high - low < np.inf else np.zeros(n)


def _unknown(values: tuple[Any, ...]) -> float:
    if isinstance(values[0], str):
        return number_of("".join(values) + " and more")
    return float(np.floor(max(values)) + 1)


def _category(ensemble: Ensemble, forest: Forest, node: int, left: bool) -> float:
    """A category that goes to one side of a split; NaN if there is none."""
    words = forest.sets[forest.subset[node]]
    for code, value in enumerate(ensemble.categories[int(forest.feature[node])]):
        if in_set(words, code) == left:
            return number_of(value)
    return np.nan
