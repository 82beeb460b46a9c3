"""What rankers are given: which rows are one query, which data is for validation, and whether values can be used."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.data.frames import has_qid
from rankwright.data.parts import pieces, stored
from rankwright.engines.features import PartedFeatures, is_parted
from rankwright.errors import InputError, InputWarning
from rankwright.rankers.scales import largest

__all__ = ["check_one_query", "check_size", "check_values", "validation_parts"]

Array = npt.NDArray[Any]
_LARGEST = 1e290  # absolute value of a feature: its sums over documents and pairs stay far from overflow
_LARGEST_SQUARED = 1e100  # and where it is squared before it is scaled
_EVAL_SET = "expected a RankingData, (X, y, qid), or (X, y) with eval_qid, eval_group or a column qid"
_IN_SKLEARN = (
    "in scikit-learn's functions give X as a data frame with a column qid, switch metadata routing on and pass qid, "
    "or give a function of (ranker, X, y) as scoring"
)


def check_one_query(n_rows: int, n_trained: int, stacklevel: int) -> None:
    """Say that all rows are taken as one query, because no query ids were given; refuse it if training had several.

    Parameters
    ----------
    n_rows : int
        Rows without query ids; a single row is a query in any case.
    n_trained : int
        Queries that training had; 1 if this is the training.
    stacklevel : int
        That of the warning.
    """
    if n_rows < 2:
        return
    if n_trained > 1:
        what = f"no qid: training had {n_trained:,} queries, and these {n_rows:,} rows would be taken as one"
        raise InputError(f"{what}; pass qid=…, or group=…; {_IN_SKLEARN}")
    what = f"no qid: all {n_rows:,} rows are taken as one query; pass qid=…, or group=…"
    warnings.warn(f"{what}, or a data frame with a column qid", InputWarning, stacklevel=stacklevel + 1)


def check_values(data: RankingData, what: str, allow_missing: bool) -> None:
    """Reject data with missing features, unless they are allowed, or with infinite ones: a folder may hold them."""
    if is_parted(data):
        _check_parts(stored(data)[0], what, allow_missing)
        return
    for X in pieces(data):
        values = X.data if data.is_sparse else X
        if not values.size:
            continue
        ends = [values.min(), values.max()]
        if np.isnan(ends).any():
            if not allow_missing:
                raise InputError(f"{what} has missing features (NaN), which this ranker cannot take")
            ends = [np.fmin.reduce(values, axis=None), np.fmax.reduce(values, axis=None)]
        if np.isinf(ends).any():
            raise InputError(f"{what} has infinite features; expected finite numbers")


def _check_parts(X: PartedFeatures, what: str, allow_missing: bool) -> None:
    if X.has_missing and not allow_missing:
        raise InputError(f"{what} has missing features (NaN), which this ranker cannot take")
    if np.isinf(X.largest).any():
        raise InputError(f"{what} has infinite features; expected finite numbers")


def check_size(data: RankingData, what: str, scaled: bool) -> None:
    """Reject features so large that sums of them, or unless they are scaled first, of their squares, overflow."""
    limit = _LARGEST if scaled else _LARGEST_SQUARED
    X = stored(data)[0]
    parted = isinstance(X, PartedFeatures)
    if X.dtype == np.float32 or (
        (X.largest <= limit).all()
        if parted
        else all(_size(part.data if data.is_sparse else part) <= limit for part in pieces(data))
    ):
        return
    sizes = X.largest if parted else largest(data)
    at = int(np.argmax(sizes))
    name = f"feature {at} (from 0)" if data.feature_names is None else f"feature {data.feature_names[at]!r}"
    raise InputError(f"{name} of {what} reaches {sizes[at]:.3g}; expected values up to {limit:g} (trees take any)")


def _size(values: Array) -> float:
    return max(float(values.max()), -float(values.min())) if values.size else 0.0


def validation_parts(eval_set: Any, eval_qid: Any, eval_group: Any) -> RankingData | tuple[Any, Any, Any, Any] | None:
    """Validation data in any of its forms, as a RankingData or as (X, y, qid, group); None if there is none."""
    if eval_set is None:
        if eval_qid is not None or eval_group is not None:
            name = "eval_group" if eval_qid is None else "eval_qid"
            raise InputError(f"{name} without eval_set; expected eval_set=(X, y) with it")
        return None
    if isinstance(eval_set, list) and len(eval_set) == 1:
        eval_set, eval_qid, eval_group = eval_set[0], _only(eval_qid), _only(eval_group)
    if isinstance(eval_set, RankingData):
        if eval_qid is not None or eval_group is not None:
            raise InputError("a RankingData has its queries; leave out eval_qid and eval_group")
        return eval_set
    if not isinstance(eval_set, tuple | list) or len(eval_set) not in (2, 3):
        raise InputError(f"eval_set is a {type(eval_set).__name__}; {_EVAL_SET}")
    if isinstance(eval_set[0], tuple | RankingData):
        raise InputError(f"eval_set has {len(eval_set)} validation sets; {_EVAL_SET}")
    X, y, *qid = eval_set
    given = [*qid, *(ids for ids in (eval_qid, eval_group) if ids is not None)]
    if len(given) > 1 or not (given or has_qid(X)):
        raise InputError(f"eval_set has {'query ids twice' if given else 'no query ids'}; {_EVAL_SET}")
    return X, y, given[0] if given and eval_group is None else None, eval_group


def _only(values: Any) -> Any:
    """What a list of one array holds; anything else unchanged."""
    return values[0] if isinstance(values, list) and len(values) == 1 and np.ndim(values[0]) == 1 else values
