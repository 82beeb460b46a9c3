"""What rankers are given: which rows are one query, which data is for validation, and whether values can be used."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.data.parts import stored
from rankwright.data.places import Place, place_of
from rankwright.data.statistics import Statistics
from rankwright.errors import InputError, InputWarning
from rankwright.io.frames import has_qid

Array = npt.NDArray[Any]
_LARGEST = 1e290  # absolute value of a feature: its sums over documents and pairs stay far from overflow
_LARGEST_SQUARED = 1e100  # and where it is squared before it is scaled
_EVAL_SET = "expected a RankingData, (X, y, qid), or (X, y) with eval_qid, eval_group or a column qid"
_IN_SKLEARN = (
    "in scikit-learn's functions give X as a data frame with a column qid, switch metadata routing on and pass qid, "
    "or give a function of (ranker, X, y) as scoring"
)
_FILL = "fill them (scikit-learn's SimpleImputer, numpy.nan_to_num)"
_TREES = "train trees (LambdaMART, McRank, or AutoRanker, which has some), which take them"


class MissingValuesError(InputError):
    """Raised where a ranker computes with features and some are missing: trees can take them, or they can be filled.

    Parameters
    ----------
    what : str
        The data.
    most : str
        The feature that misses most values, in words; empty if it is not known.
    """

    def __init__(self, what: str, most: str = "") -> None:
        self.fact = f"{what} has missing features (NaN{most})"
        super().__init__(f"{self.fact}, which this ranker cannot take; {_FILL}, or {_TREES}")


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


def check_values(place: Place, what: str, allow_missing: bool, threads: int = 1, *, summed: bool = False) -> None:
    """Reject data with missing features, unless they are allowed, or with infinite ones: a folder may hold them.

    ``summed``: means and deviations will be needed, so that the features are read for both at once.
    """
    statistics = _statistics(place, threads, summed)
    if statistics.missing.any() and not allow_missing:
        at = int(np.argmax(statistics.missing))
        most = f" in {statistics.missing[at]:,} of {statistics.n_rows:,} rows of {place.data.names[at]!r}"
        raise MissingValuesError(what, most)
    if not statistics.is_finite:
        raise InputError(f"{what} has infinite features; expected finite numbers")


def are_usable(place: Place, allow_missing: bool, threads: int, *, summed: bool) -> bool:
    """Whether :func:`check_values` has nothing to reject."""
    statistics = _statistics(place, threads, summed)
    return statistics.is_finite and (allow_missing or not statistics.missing.any())


def _statistics(place: Place, threads: int, summed: bool) -> Statistics:
    # Queries without an order are left out before anything is divided by deviations: then these are read for later.
    data = place.data
    return place.statistics(threads, summed=summed and bool(data.n_docs and data.has_order.all()))


def check_size(data: RankingData, what: str, scaled: bool) -> None:
    """Reject features so large that sums of them, or unless they are scaled first, of their squares, overflow."""
    limit = _LARGEST if scaled else _LARGEST_SQUARED
    if stored(data)[0].dtype == np.float32:
        return
    sizes = place_of(data).statistics(summed=False).largest
    if (sizes <= limit).all() or not data.n_docs:
        return
    at = int(np.argmax(sizes))
    name = f"feature {at} (from 0)" if data.feature_names is None else f"feature {data.feature_names[at]!r}"
    raise InputError(f"{name} of {what} reaches {sizes[at]:.3g}; expected values up to {limit:g} (trees take any)")


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
