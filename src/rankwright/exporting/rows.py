"""Rows that try every split of a model: on its threshold, just above, just below and missing, where the split is met.

The features that lead to a split are set so that a row gets there; the others are drawn at random around the thresholds
of the model, a few of them missing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.categories import number_of
from rankwright.exporting.float32 import rounded_down
from rankwright.exporting.form import Form, placed
from rankwright.models.net import NetModel
from rankwright.models.trees.forest import Forest
from rankwright.models.trees.model import GradeModel

__all__ = ["made_rows", "query_bounds"]

Array = npt.NDArray[Any]
_RANDOM = 1000
_MOST_CELLS = 5_000_000  # rows × trees, and rows × features
_MOST_ROWS = 20_000
_MISSING = 0.03
_PER_SPLIT = 4
_QUERY = 20  # rows
_WIDEST = 1e3  # by how much features of large and small weights may differ


def made_rows(form: Form, dtype: Any = np.float32, *, missing: bool = True, seed: int = 0) -> Array:
    """Rows of all features, of finite numbers of the type but not rounded to it; the same for the same form.

    Parameters
    ----------
    form : Form
        The model.
    dtype : type
        float32 or float64: what "just above" means.
    missing : bool
        Whether features may be missing; those of weights and nets never are.
    seed : int
        Random seed.
    """
    rng = np.random.default_rng(seed)
    forests = [form.trees, *_inner_forests(form)]
    n_trees = sum(forest.n_trees for forest in forests)
    most = int(min(_MOST_ROWS, max(_PER_SPLIT, _MOST_CELLS // max(n_trees, len(form.names), 1))))
    splits = [(forest, int(node)) for forest in forests for node in np.flatnonzero(forest.feature >= 0)]
    n_random = min(_RANDOM, max(_PER_SPLIT, most // 5))
    n_tried = min(len(splits), (most - n_random) // _PER_SPLIT)
    tried = [splits[at] for at in np.unique(np.linspace(0, len(splits) - 1, n_tried).astype(np.int64))]
    X = _random_rows(form, forests, n_random + _PER_SPLIT * len(tried), rng)
    parents = {id(forest): _parents(forest) for forest in forests}
    for at, (forest, node) in enumerate(tried):
        rows = X[n_random + _PER_SPLIT * at :][:_PER_SPLIT]
        _lead_to(form, forest, parents[id(forest)], node, rows, rng)
        j = int(forest.feature[node])
        if forest.subset[node] >= 0:
            known = [number_of(value) for value in form.categories[j]]
            rows[:, j] = [*rng.choice(known, _PER_SPLIT - 2), _unknown(form.categories[j]), np.nan]
        else:
            rows[:, j] = [*_around(forest.threshold[node], dtype), np.nan]
    with np.errstate(over="ignore", invalid="ignore"):
        X[np.isinf(X.astype(dtype))] = 0.0
    most = 100 * np.max(np.abs(np.nan_to_num(X[:n_random, form.numeric])), axis=0, initial=1.0)
    X[:, form.numeric] = np.where(np.abs(X[:, form.numeric]) > most, 0.0, X[:, form.numeric])  # would hide all others
    nets = [other.places for other in form.others if isinstance(other.model, NetModel)]  # 0 times missing is missing
    whole = np.concatenate([form.numeric, *nets]) if missing else np.arange(len(form.names))
    X[:, whole] = np.nan_to_num(X[:, whole], nan=0.0)
    return X


def query_bounds(n_rows: int) -> Array:
    """Boundaries of made-up queries."""
    return np.append(np.arange(0, n_rows, _QUERY), n_rows)


def _inner_forests(form: Form) -> list[Forest]:
    """The forests of expected grades, with the features of the form; steps on scaled features have no rows to try."""
    found = []
    for other in form.others:
        for forest in other.model.forests if isinstance(other.model, GradeModel) else ():
            found.append(placed(forest, other.places))
    return found


def _around(threshold: float, dtype: Any) -> list[float]:
    """A threshold in a type, and its neighbours above and below; the extremes of the type stay."""
    limits = np.finfo(dtype)
    on = np.clip(rounded_down(threshold, dtype), limits.min, limits.max)
    with np.errstate(over="ignore", under="ignore"):
        ends = [np.nextafter(on, dtype(np.inf)), np.nextafter(on, dtype(-np.inf))]
    return [float(np.clip(value, limits.min / 2, limits.max / 2)) for value in (on, *ends)]


def _random_rows(form: Form, forests: list[Forest], n: int, rng: np.random.Generator) -> Array:
    """Values around the thresholds of each feature; of others, the smaller the larger their weight."""
    sizes = np.abs(form.weights)
    typical = float(np.median(sizes[sizes > 0])) if sizes.any() else 1.0
    with np.errstate(over="ignore", under="ignore"):
        scale = np.clip(typical / np.where(sizes > 0, sizes, typical), 1 / _WIDEST, _WIDEST)
    X = rng.normal(size=(n, len(form.names))) * scale  # so that every weight tells
    limits: dict[int, list[float]] = {}
    for forest in forests:
        for node in np.flatnonzero((forest.feature >= 0) & (forest.subset < 0) & np.isfinite(forest.threshold)):
            limits.setdefault(int(forest.feature[node]), []).append(float(forest.threshold[node]))
    for j, found in limits.items():
        ends = np.clip(np.array(found), -1e30, 1e30)
        width = (ends.max() - ends.min()) or abs(ends[0]) or 1.0
        X[:, j] = rng.choice(ends, n) + np.where(rng.random(n) < 0.3, 0.0, rng.normal(size=n) * width / 10)
    for j, values in form.categories.items():
        known = [number_of(value) for value in values]
        X[:, j] = rng.choice(known, n) if known else np.nan
    X[rng.random(X.shape) < _MISSING] = np.nan
    return X


def _parents(forest: Forest) -> Array:
    """The parent of every node, −1 for roots."""
    parents = np.full(len(forest.feature), -1)
    splits = np.flatnonzero(forest.feature >= 0)
    parents[forest.left[splits]] = splits
    parents[forest.left[splits] + 1] = splits
    return parents


def _lead_to(form: Form, forest: Forest, parents: Array, node: int, rows: Array, rng: np.random.Generator) -> None:
    """Set the features of some rows so that they reach a node, where there is such a row."""
    bounds: dict[int, tuple[float, float, bool]] = {}  # above, up to, and whether all splits send missing values there
    below, above = node, int(parents[node])
    while above >= 0:
        j, left = int(forest.feature[above]), below == forest.left[above]
        if forest.subset[above] >= 0:
            rows[:, j] = _category(form, forest, above, left)
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
    """A category that a model does not know."""
    if isinstance(values[0], str):
        return number_of("".join(values) + " and more")
    return float(np.floor(max(values)) + 1)


def _category(form: Form, forest: Forest, node: int, left: bool) -> float:
    """A category that goes to one side of a split; NaN if there is none."""
    words = forest.sets[forest.subset[node]]
    for code, value in enumerate(form.categories[int(forest.feature[node])]):
        if bool((int(words[code >> 6]) >> (code & 63)) & 1) == left:
            return number_of(value)
    return np.nan
