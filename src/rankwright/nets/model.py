"""A net with one hidden layer: score(x) = Σ_u outer_u · tanh(constant_u + Σ_j inner_uj · x_j) over the raw features.

As in the linear model, sums go from the first feature to the last in float64, so that a score does not depend on the
other rows or on whether X is dense or sparse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright._types import Array, Features
from rankwright.data import sparse
from rankwright.data.dataset import as_table, pick_columns
from rankwright.errors import InputError
from rankwright.models.base import Attribution, Model, pair_slopes
from rankwright.models.saving import Arrays, ModelKind, Read, bounded_numbers, names_from, names_of

__all__ = ["NetModel"]

_BLOCK_ROWS = 256
_BLOCK_VALUES = 1 << 20
_SPARSE_ROWS = 1 << 12


@dataclass(frozen=True, eq=False, repr=False)
class NetModel(Model):
    """One hidden layer of tanh units.

    Attributes
    ----------
    inner : ndarray of shape (units, features)
        Weights of the features in each unit, finite.
    constants, outer : ndarray
        The constant of each unit, and its weight in the score.
    feature_names : tuple of str or None
        One name per feature.

    Examples
    --------
    >>> model = NetModel([[1.0, -1.0], [0.0, 2.0]], [0.0, 0.0], [2.0, 1.0])
    >>> model.score([[0.0, 0.0], [50.0, 0.0], [0.0, 50.0]]).tolist()
    [0.0, 2.0, -1.0]
    """

    inner: Array
    constants: Array
    outer: Array
    feature_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name, dimensions in {"inner": 2, "constants": 1, "outer": 1}.items():
            try:
                array = np.array(getattr(self, name), np.float64, order="C")
            except (TypeError, ValueError):
                raise InputError("the weights of a net must be numbers") from None
            if array.ndim != dimensions or not np.isfinite(array).all():
                raise InputError(f"{name} of a net must be finite and have {dimensions} dimensions, got {array.shape}")
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        units = len(self.inner)
        if self.constants.shape != (units,) or self.outer.shape != (units,):
            sizes = f"{len(self.constants)} constants and {len(self.outer)} outer weights"
            raise InputError(f"a net of {units} units with {sizes}; expected one of each for every unit")
        self._check_names()

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.inner.shape[1])

    @property
    def n_units(self) -> int:
        """Number of hidden units."""
        return len(self.outer)

    def importance(self) -> Array:
        """Σ |outer · inner| over the units: the steepest possible change of the score with each feature."""
        with np.errstate(over="ignore"):
            return np.asarray(np.abs(self.outer[:, np.newaxis] * self.inner).sum(axis=0))

    def score(self, X: Features, feature_names: Sequence[str] | None = None, indptr: Any = None) -> Array:
        """Scores, higher is better, one float64 per row; see :meth:`Model.score`."""
        X = as_table(X)
        columns = self._columns(X.shape[1], feature_names)
        scores = np.zeros(X.shape[0])
        rows = max(2, min(_BLOCK_ROWS, _BLOCK_VALUES // max(1, self.n_features)))
        rows = _SPARSE_ROWS if sparse.issparse(X) else rows
        block = np.zeros((0, 0) if sparse.issparse(X) else (2, self.n_features, rows))
        for start in range(0, X.shape[0], rows):
            chunk = pick_columns(X[start : start + rows], columns)
            sums = self._sums_sparse(chunk) if sparse.issparse(chunk) else self._sums_dense(chunk, block)
            is_nan = np.where(np.isfinite(sums).all(axis=0), 0.0, np.nan)
            self._check_scores(is_nan, X[start : start + rows], feature_names, start)
            scores[start : start + rows] = self._outputs(sums)
        return scores

    def _sums_dense(self, part: Array, block: Array) -> Array:
        # Transposed blocks of one shape, whatever X is: summing their rows keeps the order of the features.
        values, products = block
        part = part.T
        values[: part.shape[0], : part.shape[1]] = part
        sums = np.empty((self.n_units, part.shape[1]))
        with np.errstate(over="ignore", invalid="ignore"):
            for unit, weights in enumerate(self.inner):
                np.multiply(values, weights[:, np.newaxis], out=products)
                sums[unit] = np.add.reduce(products, axis=0)[: part.shape[1]] + self.constants[unit]
        return sums

    def _sums_sparse(self, part: sparse.csr_array) -> Array:
        n_rows = part.shape[0]
        row = np.repeat(np.arange(n_rows), np.diff(part.indptr))
        values = part.data.astype(np.float64)
        sums = np.empty((self.n_units, n_rows))
        with np.errstate(over="ignore", invalid="ignore"):
            for unit, weights in enumerate(self.inner):
                # bincount adds in the order of its input: from the first feature to the last.
                sums[unit] = np.bincount(row, values * weights[part.indices], minlength=n_rows) + self.constants[unit]
        return sums

    def _outputs(self, sums: Array) -> Array:
        scores = np.zeros(sums.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):  # the caller reports scores that are not finite
            for weight, unit in zip(self.outer, np.tanh(sums), strict=True):
                scores += weight * unit
        return scores + 0.0  # −0 becomes 0

    def _attribution(self) -> Attribution:
        """Aumann–Shapley values: exact Shapley values would take a score for every subset of the features.

        Features go from r to x together, on a straight line, and each earns the slope of the score in it along the way:
        Σ_u outer_u inner_uj (tanh z_x − tanh z_r)/(z_x − z_r) · (x_j − r_j), z the sums of unit u.
        """

        def values(rows: Array, references: Array) -> Array:
            contributions = np.zeros(rows.shape)
            above = np.einsum("nd,ud->nu", rows, self.inner) + self.constants
            below = np.einsum("nd,ud->nu", references, self.inner) + self.constants
            steepest = self.outer[:, np.newaxis] * self.inner
            for reference, sums in zip(references, below, strict=True):
                slopes = pair_slopes(above, np.broadcast_to(sums, above.shape))
                contributions += np.einsum("nu,ud->nd", slopes, steepest) * (rows - reference)
            return contributions / len(references)

        return values


def _encode_net(model: NetModel) -> tuple[dict[str, Any], Arrays]:
    return names_of(model), {"inner": model.inner, "constants": model.constants, "outer": model.outer}


def _decode_net(facts: dict[str, Any], read: Read) -> NetModel:
    inner = bounded_numbers(read, "inner", (None, None))
    constants, outer = (bounded_numbers(read, name, (len(inner),)) for name in ("constants", "outer"))
    return NetModel(inner, constants, outer, names_from(facts))


NET = ModelKind(NetModel, _encode_net, _decode_net)
