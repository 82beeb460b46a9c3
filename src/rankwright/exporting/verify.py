"""Whether an exported file scores as the model does: by its consumer where that is installed, else by its rule.

The rows are made from the model, or given. They are first rounded to what the consumer holds features in, as the rows
that it will see are, and the model scores the rounded rows. A row is off its path if its score differs by more than
1e-4 of the largest score: rounding of sums is far below that, another leaf usually far above.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.blocks import query_chunks
from rankwright.data.dataset import RankingData
from rankwright.errors import InputError
from rankwright.exporting.form import Form
from rankwright.exporting.rows import made_rows, query_bounds
from rankwright.exporting.target import Options, Scorer, Target, Written
from rankwright.models.base import Model
from rankwright.models.trees.model import TreeModel

__all__ = ["Rows", "Verification", "golden_rows", "rows_made", "verify"]

Array = npt.NDArray[Any]
_BLOCK_VALUES = 1 << 22
_GOLDEN, _GOLDEN_VALUES = 24, 100_000  # rows, and values in all of them


@dataclass(frozen=True)
class Verification:
    """How the scores of an exported file compare with those of the model.

    Attributes
    ----------
    rows : int
        Rows compared.
    off : int
        Rows off their path: the file does not say what the model does. An export with any is refused.
    largest : float
        The largest difference of two scores, as a share of the largest score; without those of ``unsayable``.
    unsayable : int
        Rows that differ because the target has no way to say a threshold of the model.
    rounded : int
        Rows of weights whose large terms cancel, so that the consumer's number type alone moves the score that far.
    by : str
        Who scored: a package and its version, or our model of the rule.
    moved : int
        Rows with a feature that the consumer's number type does not hold; 0 unless the rows were given.
    moved_off : int
        Rows whose score by the model moves by more than the tolerance when features are rounded to that type.
    """

    rows: int
    off: int
    largest: float
    unsayable: int
    rounded: int
    by: str
    moved: int = 0
    moved_off: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return everything, for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in the consumer's number type, and what the model says of them.

    Attributes
    ----------
    X : ndarray
        Features of the form.
    bounds : ndarray of int
        Query ``q`` owns the rows ``bounds[q]:bounds[q+1]``.
    scores : ndarray
        Scores by the model.
    given : ndarray, optional
        The rows before they were rounded.
    """

    X: Array
    bounds: Array
    scores: Array
    given: Array | None = None


def verify(
    target: Target,
    written: Written,
    model: Model,
    form: Form,
    options: Options,
    data: RankingData | None = None,
    *,
    made: Rows | None = None,
) -> Verification:
    """Compare the scores of written files with those of a model.

    Parameters
    ----------
    target : Target
        What the files were written for.
    written : Written
        The files.
    model, form : Model and Form
        What they should say.
    options : Options
        As given to the writer.
    data : RankingData, optional
        Rows to compare on; otherwise rows are made from the model.
    made : Rows, optional
        Those rows, if they are there already.
    """
    scorer, by = _scorer(target, written.files, form.names)
    if data is not None:
        blocks: Iterable[Rows] = _rows_given(target, model, form, options, data)
    else:
        blocks = [made or rows_made(target, model, form, options)]
    columns: list[list[Array]] = [[], [], [], [], [], []]
    for part in blocks:
        expected = part.scores
        got = np.asarray(scorer(part.X, part.bounds), np.float64).reshape(-1)
        said = expected if written.said is None else _said(written.said, part.X)
        given = expected if part.given is None else _scores(model, form, part.given, part.bounds)
        changed = np.zeros(len(got), bool) if part.given is None else _changed(part.X, part.given)
        found = (expected, got, said, _allowance(target, form, part.X), given, changed)
        for column, values in zip(columns, found, strict=True):
            column.append(values)
    if not columns[0]:
        return Verification(0, 0, 0.0, 0, 0, by)
    expected, got, said, allowance, given, changed = (np.concatenate(column) for column in columns)
    scale = float(np.abs(expected).max(initial=0.0)) or 1.0
    most = target.tolerance * scale
    beyond = ~(np.abs(got - said) <= most)
    rounded = beyond & (np.abs(got - said) <= allowance)
    with np.errstate(invalid="ignore"):
        differences = np.abs(got - said)
    return Verification(
        len(got),
        int((beyond & ~rounded).sum()),
        float(np.nan_to_num(differences, nan=np.inf).max(initial=0.0)) / scale,
        int((np.abs(said - expected) > most).sum()),
        int(rounded.sum()),
        by,
        int(changed.sum()),
        int((np.abs(given - expected) > most).sum()),
    )


def golden_rows(written: Written, form: Form, made: Rows) -> Rows:
    """A few of the made rows, to check an installation with.

    Rows that the target has no way to score like the model are left out.
    """
    X, scores = made.X, made.scores
    if form.scales_queries:
        bounds = made.bounds[:3]
        return Rows(X[: bounds[-1]], bounds, scores[: bounds[-1]])
    said = scores if written.said is None else _said(written.said, X)
    agreed = np.flatnonzero(np.abs(said - scores) <= 1e-12 * (np.abs(scores).max(initial=0.0) or 1.0))
    most = min(_GOLDEN, len(agreed), max(1, _GOLDEN_VALUES // max(1, len(form.used))))
    chosen = agreed[np.unique(np.linspace(0, len(agreed) - 1, most).astype(np.int64))]
    return Rows(X[chosen], np.array([0, len(chosen)]), scores[chosen])


def _scorer(target: Target, files: Mapping[str, bytes], names: tuple[str, ...]) -> tuple[Scorer, str]:
    """What scores rows by the files, and its name."""
    consumer = target.consumer
    if consumer is None or importlib.util.find_spec(consumer.package) is None:
        return target.read(files, names), target.run_by or "our model of its rule"
    by = f"{consumer.package} {importlib.import_module(consumer.package).__version__}"
    try:
        return consumer.read(files, names), by
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{by} does not read what was written for it: {reason}") from None


def rows_made(target: Target, model: Model, form: Form, options: Options) -> Rows:
    """Rows made from the model."""
    X = target.seen(made_rows(form, target.dtype, missing=not options.missing_as_zero), form)
    bounds = query_bounds(len(X))
    return Rows(X, bounds, _scores(model, form, X, bounds))


def _rows_given(target: Target, model: Model, form: Form, options: Options, data: RankingData) -> Iterator[Rows]:
    """The rows of data, in blocks of whole queries."""
    bounds = data.indptr
    for first, last in query_chunks(bounds, max(2, _BLOCK_VALUES // max(1, model.n_features))):
        rows = slice(int(bounds[first]), int(bounds[last]))
        given = Model.aligned(model, data.X[rows], data.feature_names)
        if options.missing_as_zero:
            given = np.nan_to_num(given, nan=0.0)
        X, own = target.seen(given, form), bounds[first : last + 1] - bounds[first]
        yield Rows(X, own, _scores(model, form, X, own), given)


def _scores(model: Model, form: Form, X: Array, bounds: Array) -> Array:
    return np.asarray(model.score(X, form.names if form.has_names else None, bounds), np.float64)


def _said(form: Form, X: Array) -> Array:
    trees = TreeModel(len(form.names), None, form.trees, categories=form.categories)
    return trees.score(X) + form.constant


def _changed(X: Array, given: Array) -> Array:
    """Rows with a value that rounding changed."""
    return np.asarray(((given != X) & ~(np.isnan(X) & np.isnan(given))).any(axis=1))


def _allowance(target: Target, form: Form, X: Array) -> Array:
    """How far rounding alone may move each score of weights; 0 for anything else."""
    if not form.is_linear:
        return np.zeros(len(X))
    terms = np.abs(np.nan_to_num(X[:, form.linear_features]) * form.weights[form.linear_features])
    steps = terms.shape[1] + 2
    return np.asarray(steps * np.finfo(target.dtype).eps * (terms.sum(axis=1) + abs(form.constant)))
