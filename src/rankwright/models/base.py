"""The base of all models: features found in the data, and scores in the caller's order."""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright._types import Array, Features
from rankwright.data import sparse
from rankwright.data.categories import Categories, codes_of, named, shown_category
from rankwright.data.dataset import (
    MissingFeaturesError,
    RankingData,
    add_missing,
    as_table,
    checked_names,
    default_names,
    find_columns,
    pick_columns,
    widen,
)
from rankwright.data.display import Displayed, Tabled, bars, cell
from rankwright.data.order import query_chunks
from rankwright.data.places import place_of
from rankwright.data.threads import threads_of
from rankwright.errors import InputError, InputWarning
from rankwright.io.detect import read_data
from rankwright.io.frames import frame_features, is_frame, split_qid
from rankwright.io.roles import Columns, for_scoring

__all__ = ["Model"]

# Contributions of features to scores: what each adds to score(x) − score(r), averaged over reference documents r.
#
# There is one definition for all models, so that sums of models are explained by sums of contributions. For a pair (x,
# r) contributions are Shapley values: a feature in a coalition has x's value, any other one r's, and a feature's value
# is what it adds on average over all orders in which features join. In a linear model that is coef_j · (x_j − r_j).
# Averaged over references this is the interventional Shapley value. The natural references of a ranking are the
# documents of the same query: only differences within a query matter, and properties that all its documents share
# explain nothing.


Attribution = Callable[[Array, Array], Array]
"""Of rows and reference rows, as the model sees them: one row of contributions per row, averaged over references."""

_BLOCK_VALUES = 1 << 18


def attribute(model: Any, data: RankingData, reference: RankingData | None, n_jobs: int | None) -> Array:
    """Contributions of every document, and in the last column the mean score of its references.

    Rows of a query are ordered by content, so that the order of the data does not change a bit.

    `model`: not a sum, whose parts are explained one by one. `data`: the documents to explain. `reference`: documents
    to compare with; None for those of the same query. `n_jobs`: number of threads.
    """
    X, names, indptr = data.X, data.feature_names, data.indptr
    values = model._attribution()
    scores = model.score(X, names, indptr)
    out = np.zeros((X.shape[0], model.n_features + 1))
    fixed, mean = None, 0.0
    if reference is not None:
        fixed, mean = _references(model, reference)

    def explain(chunk: tuple[int, int]) -> None:
        bounds = indptr[chunk[0] : chunk[1] + 1]
        rows = model._seen(X[bounds[0] : bounds[-1]], names, bounds - bounds[0])
        contributions = out[bounds[0] : bounds[-1]]
        if fixed is not None:
            contributions[:, :-1], contributions[:, -1] = finite(values, rows, fixed), mean
            return
        for start, stop in pairwise((bounds - bounds[0]).tolist()):
            order = _by_content(rows[start:stop])
            query = rows[start:stop][order]
            contributions[start + order, :-1] = finite(values, query, query)
            contributions[start:stop, -1] = _mean(scores[bounds[0] + start : bounds[0] + stop])

    chunks = query_chunks(indptr, max(1, _BLOCK_VALUES // max(1, model.n_features)))
    with ThreadPoolExecutor(threads_of(n_jobs)) as pool:
        list(pool.map(explain, chunks))
    return out


def finite(values: Attribution, rows: Array, references: Array) -> Array:
    """Check that contributions are finite; they are unless features are near the largest floats."""
    with np.errstate(over="ignore", invalid="ignore"):
        contributions = values(rows, references)
    if not np.isfinite(contributions).all():
        raise InputError("a contribution is not finite; features and weights are too large to explain")
    return contributions


def _references(model: Any, reference: RankingData) -> tuple[Array, float]:
    """Reference rows as the model sees them, ordered by content, and the mean of their scores."""
    if not reference.n_docs:
        raise InputError("the reference has no documents; expected at least one")
    arguments = (reference.X, reference.feature_names, reference.indptr)
    rows = model._seen(*arguments)
    return rows[_by_content(rows)], _mean(model.score(*arguments))


def _mean(scores: Array) -> float:
    """The mean, the same in any order; no sum of finite scores overflows."""
    return math.fsum(scores / len(scores))


def _by_content(rows: Array) -> Array:
    if not rows.shape[1]:
        return np.arange(len(rows))
    row_type = np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))
    return np.argsort(np.ascontiguousarray(rows).view(row_type).ravel(), kind="stable")


def pair_slopes(above: Array, below: Array) -> Array:
    """The slope of tanh, averaged from ``below`` to ``above``."""
    apart = above - below
    slope = 1.0 - np.tanh(below) ** 2
    far = np.abs(apart) > 1e-6
    np.divide(np.tanh(above) - np.tanh(below), apart, out=slope, where=far)
    return np.asarray(slope)


_SHOWN = 15  # features in the table of a model
_SHOWN_PARTS = 6
_SCALED = "features are scaled within each query"
_RELATIVE = "contributions are relative to the documents of the same query"
_FILL = "; fill missing values as for training, or train trees (LambdaMART, McRank, AutoRanker), which take them"


class MissingValueError(InputError):
    """A row lacks a feature that the model computes with; the command line words the advice itself."""

    @property
    def fact(self) -> str:
        return self.message.removesuffix(_FILL)


class Model(Displayed):
    """Turns features into scores, higher is better."""

    feature_names: tuple[str, ...] | None
    query_scaling: str | None = None

    @property
    def n_features(self) -> int:
        """The number of features."""
        raise NotImplementedError

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features; f1, f2, … if they have none."""
        return self.feature_names or default_names(self.n_features)

    @property
    def scales_queries(self) -> bool:
        """Whether scores depend on which documents are in a query: features are scaled within each."""
        return self.query_scaling is not None

    def score(self, X: Any, feature_names: Sequence[str] | None = None, indptr: npt.ArrayLike | None = None) -> Array:
        """One float64 per row of a table.

        Parameters
        ----------
        X : array-like or scipy sparse
            Features; memory-mapped arrays are read a block at a time, and float32 is never copied whole to float64.
        feature_names : sequence of str, optional
            Names of the columns. If the model has names too, columns are matched by name, and columns that the model
            does not know are ignored. Otherwise they are matched by position, and there must be as many as the model
            has features. See ``missing_as_zero`` of :meth:`predict` for data that lacks some.
        indptr : array-like of int, optional
            Query ``q`` owns the rows ``indptr[q]:indptr[q+1]``. Only used by models that scale features within each
            query; without it all rows are one query.
        """
        raise NotImplementedError

    def predict(
        self,
        X: Any,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        *,
        missing_as_zero: bool = False,
    ) -> Array:
        """One score per row, higher is better, in the caller's order.

        Parameters
        ----------
        X : RankingData, path, array-like, scipy sparse or data frame
            Features. Of a file, what :func:`rankwright.read_data` reads; a table needs no labels then. The columns of a
            data frame (pandas, polars, pyarrow) and of named data are matched by name if the model has names; other
            columns are ignored. A column ``qid`` of a data frame holds the query ids, unless the model has a feature of
            that name.
        qid, group : array-like, optional
            Query id per row in any order, or rows per query. Only used by models that scale features within each query;
            without them all rows are one query, with a warning. A RankingData has its own.
        missing_as_zero : bool
            Whether features of the model that X lacks are 0; otherwise they are an error. LETOR text leaves zeros out,
            so a file may lack the last features.
        """
        if isinstance(X, str | Path):
            if qid is not None or group is not None:
                raise InputError("a file has its queries; leave out qid and group")
            X = read_data(X, columns=self.scoring_columns())
        if isinstance(X, RankingData):
            if qid is not None or group is not None:
                raise InputError("a RankingData has its queries; leave out qid and group")
            self.check_text(X.feature_names, X.categories)
            try:
                return X.to_caller_order(place_of(X).scores(self, missing_as_zero))
            except MissingFeaturesError as error:
                raise error.or_use("missing_as_zero=True") from None
        given = qid is not None or group is not None
        X, names, qid = self._table(X, qid, group)
        if not given and (qid is None or not self.scales_queries):
            scores = self._scores(X, names, None, missing_as_zero)
            if self.scales_queries:
                warn_of_one_query(len(scores), stacklevel=2)
            return scores
        data = RankingData.from_arrays(X, None, qid, group=group, feature_names=names, allow_missing=True)
        return self.predict(data, missing_as_zero=missing_as_zero)

    def _table(self, X: Any, qid: npt.ArrayLike | None, group: Any) -> tuple[Any, Sequence[str] | None, Any]:
        """Features as a table, column names, and query ids, which may be a column of a data frame."""
        if not is_frame(X):
            return as_table(X), None, qid
        columns = self._frame_columns()
        X, qid = split_qid(X, qid, group, columns)
        X, names, categories = frame_features(X, columns, self.text_features())
        self.check_text(names, categories)
        return as_table(X), names, qid

    def _scores(self, X: Array, names: Sequence[str] | None, indptr: Any, missing_as_zero: bool) -> Array:
        """The scores; missing features are 0, or an error that says how to make them so."""
        if missing_as_zero:
            X, names = self.with_missing(X, names)
        try:
            return np.asarray(self.score(X, names, indptr), np.float64)
        except MissingFeaturesError as error:
            raise error.or_use("missing_as_zero=True") from None

    def with_missing(self, X: Features, names: Sequence[str] | None) -> tuple[Any, tuple[str, ...] | None]:
        """A table and its names, with columns of 0 for the features of the model that it lacks."""
        return add_missing(X, names, self.n_features, self.feature_names)

    def scoring_columns(self, columns: Columns | None = None) -> Columns:
        """How the columns of a table are read that this model scores: labels may be missing, features are its own."""
        return for_scoring(columns, self.feature_names or (), self.text_features())

    def takes_text(self, at: int) -> bool:
        """Whether a feature, given by its number, may be text: it is categorical, or not used."""
        return False

    def text_features(self) -> tuple[str, ...]:
        """The names of the features that hold texts, whatever a table has under them."""
        return ()

    def check_text(self, names: Sequence[str] | None, categories: Categories) -> None:
        """Reject data whose text columns are features that the model takes as numbers.

        Parameters
        ----------
        names : sequence of str or None
            The columns of the data.
        categories : mapping
            Its categorical columns, see :class:`~rankwright.RankingData`.
        """
        texts = [column for column, values in categories.items() if values and isinstance(values[0], str)]
        if names is not None and self.feature_names is not None:
            column_of = {name: at for at, name in enumerate(self.feature_names)}
            texts = [column_of[names[column]] for column in texts if names[column] in column_of]
        wrong = [at for at in texts if at < self.n_features and not self.takes_text(at)]
        if wrong:
            raise InputError(f"the model takes numbers, not text, in {named(self.names[at] for at in wrong)}")

    def importance(self) -> Array:
        """How much each feature matters; signed where it has a direction."""
        raise NotImplementedError

    def uses(self) -> Array:
        """Whether each feature can change a score."""
        return np.asarray(self.importance() != 0)

    def predict_contributions(
        self,
        X: Any,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        *,
        reference: Any = None,
        missing_as_zero: bool = False,
        n_jobs: int | None = None,
    ) -> Array:
        """How much each feature adds to every score, relative to the other documents of the query.

        A row's contributions are those of :meth:`contributions` to score(x) − score(r), averaged over the reference
        documents r: exact Shapley values for linear models, step functions, trees and their sums. Only differences
        within a query matter in a ranking, so the references are the documents of the same query, unless others are
        given.

        Parameters
        ----------
        X, qid, group
            As for :meth:`predict`, but queries always matter: without them all rows are one query, with a warning,
            unless there is a ``reference``.
        reference : RankingData, array-like, scipy sparse or data frame, optional
            Documents to compare every row with instead: the contributions then say what sets a row apart from these.
        missing_as_zero : bool
            Whether features of the model that X lacks are 0; otherwise they are an error.
        n_jobs : int, optional
            Number of threads, −1 for all cores; the result does not depend on it.

        Returns
        -------
        ndarray of shape (rows, features + 1)
            In the caller's order, one column per feature of the model (``names``); the last column is the mean score of
            the references. A row sums to its score.

        Examples
        --------
        >>> from rankwright import LinearModel
        >>> LinearModel([2.0, -1.0]).predict_contributions([[1.0, 1.0], [0.0, 3.0]], group=[2]).tolist()
        [[1.0, 1.0, -1.0], [-1.0, -1.0, -1.0]]
        """
        data = self._as_data(X, qid, group, warn=reference is None)
        rows = data if reference is None else self._as_data(reference, None, None, warn=False)
        if missing_as_zero:
            data, rows = (self._widened(table) for table in (data, rows))
        try:
            contributions = self._explained(data, None if reference is None else rows, n_jobs)
        except MissingFeaturesError as error:
            raise error.or_use("missing_as_zero=True") from None
        return data.to_caller_order(contributions)

    def _widened(self, data: RankingData) -> RankingData:
        X, names = self.with_missing(data.X, data.feature_names)
        return replace(data, X=X, feature_names=names)

    def _as_data(self, X: Any, qid: Any, group: Any, *, warn: bool) -> RankingData:
        """Rows with their queries; without query ids all rows are one query."""
        if isinstance(X, RankingData):
            if qid is not None or group is not None:
                raise InputError("a RankingData has its queries; leave out qid and group")
            self.check_text(X.feature_names, X.categories)
            return X
        X, names, qid = self._table(X, qid, group)
        if qid is None and group is None:
            group = [X.shape[0]]
            if warn:
                warn_of_one_query(X.shape[0], stacklevel=3, meaning=_RELATIVE)
        labels = np.zeros(X.shape[0])
        return RankingData.from_arrays(X, labels, qid, group=group, feature_names=names, allow_missing=True)

    def contributions(
        self, row_a: Features, row_b: Features, feature_names: Sequence[str] | None = None, query: Array | None = None
    ) -> Array:
        """How much each feature adds to score(a) − score(b), in the order of the model's features.

        These are Shapley values: features turn from b's value into a's one after the other, and a feature's value is
        how much it changes the score on average over all orders. They sum to the difference of the scores, and a
        feature of the same value in both adds nothing. For a linear model they are ``coef * (a - b)``. For a net the
        features turn gradually and together (Aumann and Shapley), and so do the sums of trees of a
        :class:`GradeModel`.

        Parameters
        ----------
        row_a, row_b : array-like or scipy sparse
            The features of two documents.
        feature_names : sequence of str, optional
            Names of the columns.
        query : array-like or scipy sparse, optional
            The features of all documents of the query, a and b among them: only needed by models that scale features
            within each query.

        Examples
        --------
        >>> from rankwright import LinearModel
        >>> LinearModel([2.0, -1.0]).contributions([1.0, 1.0], [0.0, 3.0]).tolist()
        [2.0, 2.0]
        >>> LinearModel([2.0], query_scaling="minmax").contributions([9.0], [7.0], query=[[5.0], [9.0], [7.0]]).tolist()
        [1.0]
        """
        a, b = self._aligned_pair(row_a, row_b, feature_names, query)
        return finite(self._attribution(), a[np.newaxis], b[np.newaxis])[0]

    def _explained(self, data: RankingData, reference: RankingData | None, n_jobs: int | None) -> Array:
        """The contributions, in the order of the data."""
        return attribute(self, data, reference, n_jobs)

    def joined(self, weight: float, other: Any, other_weight: float) -> Any:
        """One model for the weighted sum of this one and another of its kind and features; None if there is none."""
        return None

    def _attribution(self) -> Attribution:
        raise NotImplementedError

    def _aligned_pair(
        self, row_a: Features, row_b: Features, feature_names: Sequence[str] | None, query: Array | None
    ) -> tuple[Array, Array]:
        """Two rows as the model sees them; ``query`` holds all documents of their query."""
        a, b = (self._seen(as_row(row), feature_names)[0] for row in (row_a, row_b))
        return a, b

    def _seen(self, X: Array, feature_names: Sequence[str] | None, indptr: Array | None = None) -> Array:
        """Rows as the model computes with them, dense."""
        return self.aligned(X, feature_names, indptr)

    def aligned(
        self, X: Array, feature_names: Sequence[str] | None = None, indptr: npt.ArrayLike | None = None
    ) -> Array:
        """Rows as dense float64 with the model's features as columns, for a few rows to look at."""
        X = as_table(X)
        aligned = pick_columns(X, self._columns(X.shape[1], feature_names))
        aligned = aligned.toarray() if sparse.issparse(aligned) else aligned
        return widen(np.array(aligned, np.float64), self.n_features)

    def _frame_columns(self) -> tuple[str, ...] | None:
        """The columns of a data frame that the model uses; None for all."""
        return self.feature_names

    def _check_scores(self, scores: Array, X: Features, feature_names: Sequence[str] | None, first: int = 0) -> None:
        """Reject scores that are not finite, which only features that are missing, infinite or huge give.

        `scores`: one per row of X. `X`, `feature_names`: as given to :meth:`score`. `first`: the number of the first
        row.
        """
        finite = np.isfinite(scores)
        if finite.all():
            return
        row = int(np.argmin(finite))
        values = Model.aligned(self, X[row : row + 1], feature_names)[0]
        at = int(np.argmax(np.where(np.isnan(values), np.inf, np.abs(values))))
        if np.isnan(values[at]):
            culprit = f"row {first + row} (from 0) has no {self.names[at]!r} (NaN)"
            raise MissingValueError(f"{culprit}, which this model computes with{_FILL}")
        problem = f"the score of row {first + row} (from 0) is {scores[row]}"
        culprit = f"its feature {self.names[at]!r} is {values[at]:g}"
        raise InputError(f"{problem}: {culprit}; features and scores must be finite")

    def _check_names(self) -> None:
        """Convert the feature names to strings, one for each feature."""
        if self.feature_names is not None:
            names = checked_names([*map(str, self.feature_names)], self.n_features)
            object.__setattr__(self, "feature_names", names)

    def _columns(self, n_columns: int, feature_names: Sequence[str] | None) -> Array | None:
        """Columns of the model's features in the data; None if they are its first columns."""
        return find_columns(n_columns, feature_names, self.n_features, self.feature_names, "the model")

    def _by_importance(self) -> tuple[list[str], Array, str]:
        """Names and values of the features, the largest first, and what the values are."""
        values = np.asarray(self.importance(), np.float64)
        order = np.argsort(-np.abs(values), kind="stable")
        names = self.names
        return [names[at] for at in order.tolist()], values[order], "weight" if hasattr(self, "coef") else "importance"

    def _description(self) -> str:
        model: Any = self
        words = [f"{model.n_features:,} features"]
        forests = [model.forest] if hasattr(model, "forest") else getattr(model, "forests", ())
        if forests:
            n_leaves = sum(int((forest.feature < 0).sum()) for forest in forests)
            words += [f"{sum(len(forest.roots) for forest in forests):,} trees", f"{n_leaves:,} leaves"]
        if hasattr(model, "n_units"):
            words.append(f"{model.n_units} hidden units")
        if hasattr(model, "thresholds"):
            words.append(f"{len(model.thresholds):,} thresholds")
        if hasattr(model, "parts"):
            weighted = zip(model.weights, model.parts, strict=True)
            parts = [f"{weight:.4g} × {type(member).__name__}" for weight, member in weighted]
            words += [*parts[:_SHOWN_PARTS], *(["…"] if len(parts) > _SHOWN_PARTS else [])]
        if model.query_scaling is not None:
            words.append(f"{model.query_scaling} within queries")
        return ", ".join(words)

    def _shown_table(self) -> Tabled:
        names, values, meaning = self._by_importance()
        used = int((values != 0).sum())
        rows = tuple((name, cell(float(value))) for name, value in zip(names[:_SHOWN], values[:used], strict=False))
        notes = [f"and {used - len(rows):,} smaller"] if used > len(rows) else []
        unused = len(names) - used
        notes += [f"{unused:,} {'of weight 0' if meaning == 'weight' else 'not used'}"] if unused else []
        return Tabled(("feature", meaning), rows, tuple(notes), title=repr(self))

    def to_frame(self) -> Any:
        """All features with their weights or importances, the largest first, as a pandas data frame."""
        names, values, meaning = self._by_importance()
        return importlib.import_module("pandas").DataFrame({"feature": names, meaning: values})

    def _drawing(self) -> Callable[[], Any]:
        names, values, meaning = self._by_importance()
        used = int((values != 0).sum())
        return lambda: bars(names[:used], values[:used].tolist(), meaning)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._description()})"


def warn_of_one_query(n_rows: int, stacklevel: int, meaning: str = _SCALED) -> None:
    """Warn that all rows were taken as the documents of one query."""
    if n_rows > 1:
        problem = f"no qid: {meaning}, and all {n_rows:,} rows are taken as one"
        warnings.warn(f"{problem}; pass qid=…, or group=…", InputWarning, stacklevel=stacklevel + 1)


def as_row(row: Array) -> Any:
    """The features of one document as a table of one row."""
    if not sparse.issparse(row):
        row = np.atleast_2d(np.asarray(row))
    elif row.ndim == 1:
        row = row.reshape(1, -1)
    if row.ndim != 2 or row.shape[0] != 1:
        raise InputError(f"expected the features of one document, got an array of shape {row.shape}")
    return row


# Why document A is above document B: the contributions of all features, with their values.
#
# Contributions are Shapley values (`Model.contributions`) and sum to the difference of the scores.


@dataclass(frozen=True)
class Term:
    """The contribution of one feature to the difference of two scores.

    `feature`: name of the feature. `weight`: its weight, in linear models. `a`, `b`: its values in the two documents,
    as the model sees them; None if missing. `contribution`: what it adds to score(a) − score(b).
    """

    feature: str
    weight: float | None
    a: float | str | None
    b: float | str | None
    contribution: float


def explained_terms(model: Model, data: RankingData, query: int, a: int, b: int | None) -> list[Term]:
    """All features of a model, the largest contribution first.

    `model`: the model. `data`: the documents. `query`: number of the query that both documents belong to. `a`, `b`:
    rows of the documents; without ``b``, A is compared with all documents of the query, and the values of ``b`` are
    their means.

    Examples
    --------
    >>> from rankwright import LinearModel
    >>> data = RankingData.from_arrays([[1.0, 1.0], [0.0, 3.0]], [0, 0], group=[2], feature_names=["bm25", "length"])
    >>> model = LinearModel([2.0, -0.5], feature_names=("bm25", "length"))
    >>> [(term.feature, term.a, term.b, term.contribution) for term in explained_terms(model, data, 0, 0, 1)]
    [('bm25', 1.0, 0.0, 2.0), ('length', 1.0, 3.0, 1.0)]
    """
    whole_query = model.scales_queries or b is None  # scaling needs the whole query
    rows = list(range(*data.indptr[query : query + 2].tolist())) if whole_query else sorted({a, a if b is None else b})
    table, names, at = data.X[rows], data.feature_names, rows.index(a)
    values = model.aligned(table, names)
    if b is None:
        contributions = model._explained(data.select([query]), None, None)[at, :-1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a feature that all documents lack
            compared = np.nanmean(values, axis=0)
    else:
        contributions = model.contributions(table[[at]], table[[rows.index(b)]], names, table)
        compared = values[rows.index(b)]
    order = np.argsort(-np.abs(contributions), kind="stable").tolist()
    listed = [[None if number != number else number for number in row.tolist()] for row in (values[at], compared)]
    columns: list[list[Any]] = [*listed, contributions.tolist()]
    for feature, categories in categorical(model, data).items():
        columns[0][feature] = _category(columns[0][feature], categories)
        columns[1][feature] = None if b is None else _category(columns[1][feature], categories)
    coef = getattr(model, "coef", None)
    weights = [None] * len(order) if coef is None else coef.tolist()
    return [Term(model.names[place], weights[place], *(column[place] for column in columns)) for place in order]


def categorical(model: Model, data: RankingData) -> dict[int, tuple[Any, ...]]:
    """The model's features that are categorical in the data, with their values."""
    columns = model._columns(data.n_features, data.feature_names)
    places = range(model.n_features) if columns is None else columns.tolist()
    return {at: data.categories[column] for at, column in enumerate(places) if column in data.categories}


def _category(number: float, categories: Sequence[Any]) -> str | None:
    """The category that a number stands for, as text; None for a missing value."""
    code = int(codes_of(np.array([number]), categories)[0])
    return None if code < 0 else shown_category(categories[code])
