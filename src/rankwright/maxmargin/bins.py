"""Threshold bins: every feature becomes the 0/1 features [x ≥ t] for about fifty thresholds t (SIGIR'07).

A linear model over them is piecewise constant in every feature, so the scores of different retrieval functions need
neither share a scale nor be linear in what they measure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from rankwright._types import Array
from rankwright.data import sparse
from rankwright.data.dataset import RankingData
from rankwright.data.order import sizes_to_indptr
from rankwright.errors import InputError
from rankwright.io.frames import split_qid
from rankwright.models.linear import BinnedModel, LinearModel, steps_reached
from rankwright.rankers.estimator import Estimator, NamedFeatures
from rankwright.rankers.parameters import check_parameters, integer, one_of, parameter

if TYPE_CHECKING:  # scikit-learn has no types; with bases that may be anything, so may be the parameters

    class _Transformer(Estimator):
        def fit_transform(self, X: Any, y: Any = None) -> sparse.csr_array: ...
        def set_output(self, *, transform: str | None = None) -> Self: ...

else:
    from sklearn.base import BaseEstimator, TransformerMixin

    class _Transformer(NamedFeatures, TransformerMixin, BaseEstimator):
        pass


__all__ = ["ThresholdBins"]

_CHUNK_VALUES = 1 << 18


@dataclass(eq=False, repr=False)
class ThresholdBins(_Transformer):
    """Turn features into 0/1 features ``[x ≥ t]``, sparse float32.

    Thresholds are chosen on the training data, each half-way between two of its values, so that each separates some
    documents from others. A feature with few values gets a threshold between any two; a constant feature gets none.

    Parameters
    ----------
    n_bins : int
        Most thresholds of a feature.
    spacing : {"even", "quantile", "unit"}
        ``even``: equal steps from the lowest to the highest value, as in the data published with SIGIR'07; the steps
        are as fine among the few documents that score high as elsewhere. ``quantile``: equally many *different* values
        between thresholds, however often each occurs; for features with outliers. ``unit``: equal steps from 0 to 1,
        whatever the data: for features scaled within queries, as SVMacc3 and SVMacc4 of SIGIR'07 have them. (Only
        steps with training values on both sides are kept; those between the same two values are one.)

    Attributes
    ----------
    thresholds_ : list of ndarray
        The thresholds of every feature, ascending.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, if the training data had names.

    Notes
    -----
    The code is cumulative: a value has a one for every threshold it reaches. At half of 50 thresholds a row takes
    25 · 8 bytes per feature, 50 times its size as dense float32: 3 GB for a million rows of 15 features. With ``even``
    most documents reach few thresholds, and it is less.

    NaN is below every threshold. The zeros that sparse features leave out count like any other value.

    Examples
    --------
    >>> bins = ThresholdBins(n_bins=3).fit([[0.0], [1.0], [2.0], [4.0], [8.0]])
    >>> bins.thresholds_[0].tolist()
    [1.5, 3.0, 6.0]
    >>> bins.transform([[1.0], [2.0], [9.0]]).toarray().tolist()
    [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    >>> bins.get_feature_names_out(["bm25(porter)"]).tolist()
    ['bm25(porter)≥1.5', 'bm25(porter)≥3', 'bm25(porter)≥6']
    """

    n_bins: int = parameter(50, integer(1))
    spacing: str = parameter("even", one_of("even", "quantile", "unit"))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the thresholds.

        Parameters
        ----------
        X : array-like, scipy sparse or RankingData
            Features of the training data.
        y : optional
            Ignored.
        """
        check_parameters(self)
        if isinstance(X, RankingData):
            self._keep_names(X)
            X = X.X
        else:
            X = self._checked(X, reset=True)
        self.thresholds_ = [_thresholds(values, int(self.n_bins), self.spacing) for values in _distinct_values(X)]
        return self

    def transform(self, X: Any) -> sparse.csr_array:
        """The 0/1 features: a CSR array of float32, thresholds of the first feature first."""
        check_is_fitted(self, "thresholds_")
        return _coded(self._checked(X, reset=False), self.thresholds_)

    def transform_data(self, data: RankingData) -> RankingData:
        """The same documents with 0/1 features and their names; columns are matched by name if there are names."""
        check_is_fitted(self, "thresholds_")
        matched = data.matched_to(self.n_features_in_, self._names(), zeros_left_out=False)
        return data.with_features(_coded(matched.X, self.thresholds_), self._names_out(matched.names))

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names such as ``bm25≥3.21``, with just enough digits to tell the thresholds of a feature apart."""
        check_is_fitted(self, "thresholds_")
        return np.array(self._names_out(_check_feature_names_in(self, input_features)), dtype=object)

    def collapse(self, model: LinearModel, query_scaling: str | None = None) -> BinnedModel:
        """Turn a linear model over the bins into one over the raw features, with the same scores up to rounding.

        Parameters
        ----------
        model : LinearModel
            Trained on what :meth:`transform` or :meth:`transform_data` gave.
        query_scaling : str, optional
            If what was binned had been scaled within queries by :class:`rankwright.QueryScaler`: its kind. The model
            then scales first, too.
        """
        check_is_fitted(self, "thresholds_")
        sizes = np.array([len(limits) for limits in self.thresholds_], np.int64)
        if not isinstance(model, LinearModel) or model.query_scaling is not None:
            raise InputError("only a linear model that does not scale within queries can be collapsed")
        if model.n_features != sizes.sum():
            raise InputError(f"a model of {model.n_features:,} weights for {sizes.sum():,} bins; expected one for each")
        thresholds = np.concatenate([np.zeros(0), *self.thresholds_])
        return BinnedModel(thresholds, sizes_to_indptr(sizes), model.coef, self._names(), query_scaling)

    def _checked(self, X: Any, *, reset: bool) -> Any:
        rules = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "ensure_all_finite": "allow-nan"}
        X, _ = split_qid(X, features=None if reset else self._names())  # query ids are no feature
        with np.errstate(invalid="ignore"):  # it sums all values, which may give inf − inf
            return validate_data(self, X, reset=reset, **rules)

    def _names_out(self, names: Sequence[str]) -> list[str]:
        parts = zip(names, map(_written, self.thresholds_), strict=True)
        return [f"{name}≥{limit}" for name, limits in parts for limit in limits]


def _distinct_values(X: Array) -> Iterator[Array]:
    """For every column its different values, ascending, in float64 and without NaN."""
    if not sparse.issparse(X):
        for column in X.T:
            yield np.unique(column[~np.isnan(column)]).astype(np.float64)
        return
    columns = sparse.csc_array(X)
    for start, stop in zip(columns.indptr[:-1].tolist(), columns.indptr[1:].tolist(), strict=True):
        stored = columns.data[start:stop]
        unstored = np.zeros(1 if stop - start < X.shape[0] else 0)
        yield np.unique(np.concatenate([stored[~np.isnan(stored)].astype(np.float64), unstored]))


def _thresholds(values: Array, n_bins: int, spacing: str) -> Array:
    n_gaps = len(values) - 1
    if n_gaps < 1:
        return np.zeros(0)
    n_bins = n_bins if spacing == "unit" else min(n_bins, n_gaps)
    shares = np.arange(1, n_bins + 1) / (n_bins + 1)
    if spacing == "unit":
        above = np.searchsorted(values, shares)
        above = above[(above >= 1) & (above <= n_gaps)]
    elif n_gaps <= n_bins:
        above = np.arange(1, n_gaps + 1)
    elif spacing == "quantile":
        above = np.ceil(shares * n_gaps).astype(np.int64)
    else:
        above = np.searchsorted(values, values[0] * (1.0 - shares) + values[-1] * shares)
    above = np.unique(np.clip(above, 1, n_gaps))
    low, high = values[above - 1], values[above]
    middle = low * 0.5 + high * 0.5
    return np.where((middle > low) & (middle <= high), middle, high)  # neighbours have no number between them


def _coded(X: Array, thresholds: list[Array]) -> sparse.csr_array:
    sizes = np.array([len(limits) for limits in thresholds], np.int64)
    n_rows, n_columns = X.shape[0], int(sizes.sum())
    reached = np.zeros((n_rows, len(thresholds)), np.min_scalar_type(int(sizes.max(initial=0))))
    step = max(1, _CHUNK_VALUES // max(1, len(thresholds)))
    for start in range(0, n_rows, step):
        block = X[start : start + step]
        block = block.toarray() if sparse.issparse(block) else block
        for j, limits in enumerate(thresholds):
            reached[start : start + step, j] = steps_reached(block[:, j], limits)
    indptr = sizes_to_indptr(reached.sum(axis=1, dtype=np.int64))
    index_type = np.int32 if max(int(indptr[-1]), n_columns) <= np.iinfo(np.int32).max else np.int64
    indices = np.empty(int(indptr[-1]), index_type)
    first = sizes_to_indptr(sizes)[:-1]
    for start in range(0, n_rows, step):
        ones = reached[start : start + step].reshape(-1)
        begins = sizes_to_indptr(ones.astype(np.int64))
        places = np.tile(first, len(reached[start : start + step])) - begins[:-1]
        stop = min(start + step, n_rows)
        indices[indptr[start] : indptr[stop]] = np.arange(begins[-1]) + np.repeat(places, ones)
    ones = np.ones(len(indices), np.float32)
    return sparse.csr_array((ones, indices, indptr.astype(index_type)), shape=(n_rows, n_columns))


def _written(thresholds: Array) -> list[str]:
    """Thresholds with just enough digits to tell them apart, at least three."""
    for digits in range(3, 18):
        texts = [f"{limit:.{digits}g}" for limit in thresholds.tolist()]
        if len(set(texts)) == len(texts):
            break
    return texts
