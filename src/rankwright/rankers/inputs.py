"""What rankers are given: which rows are one query, which data is for validation, and whether values can be used."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.data.places import Place, place_of
from rankwright.data.statistics import Statistics
from rankwright.data.subsets import stored
from rankwright.data.threads import threads_of
from rankwright.errors import InputError, InputWarning
from rankwright.io.frames import frame_features, has_categories, has_qid, split_qid
from rankwright.rankers.estimator import Estimator

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

    `what`: the data. `most`: the feature that misses most values, in words; empty if it is not known.
    """

    def __init__(self, what: str, most: str = "") -> None:
        self.fact = f"{what} has missing features (NaN{most})"
        super().__init__(f"{self.fact}, which this ranker cannot take; {_FILL}, or {_TREES}")


def check_one_query(n_rows: int, n_trained: int, stacklevel: int) -> None:
    """Say that all rows are taken as one query, because no query ids were given; refuse it if training had several.

    `n_rows`: rows without query ids; a single row is a query in any case. `n_trained`: queries that training had; 1 if
    this is the training. `stacklevel`: that of the warning.
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


# How rankers take their input: arrays, data frames and data sets as scikit-learn's conventions have it, gathered.


class Gathering(Estimator):
    """Base of :class:`~rankwright.rankers.base.Ranker`: any input as a RankingData."""

    _allow_missing: ClassVar[bool] = False  # whether a feature may be NaN
    _validates: ClassVar[bool] = True  # whether there is something to choose on validation data
    _works_on_parts: ClassVar[bool] = False

    def trains_in_parts(self, data: RankingData) -> bool:
        """Whether training computes with features where their parts are; otherwise they are brought together first."""
        return self._works_on_parts

    def _checked(self, *given: Any, finite: bool = True, **settings: Any) -> Any:
        """X, or X and y, as scikit-learn checks and converts them; ``finite``: whether it looks at every value of X."""
        from sklearn.utils.validation import validate_data

        finite_ones = ("allow-nan" if self._allow_missing else True) if finite else False
        rules = {"dtype": [np.float64, np.float32], "accept_sparse": "csr", "ensure_all_finite": finite_ones}
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # it sums all values, which may give inf − inf
                return validate_data(self, *given, **rules, **settings)
        except (ValueError, OverflowError) as error:
            if "contains NaN" in str(error) and "Input X" in str(error) and not self._allow_missing:
                raise MissingValuesError("X") from None  # theirs names estimators that do not rank
            raise InputError(str(error)) from None

    def _names(self) -> tuple[str, ...] | None:
        """The names of the features, if the training data had some."""
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(map(str, names))

    def _gather(self, X: Any, y: Any, qid: Any, group: Any, *, reset: bool) -> RankingData:
        """Check the input as scikit-learn does, then gather the queries."""
        if isinstance(X, RankingData):
            if y is not None or qid is not None or group is not None:
                raise InputError("a RankingData has its labels and queries; leave out y, qid and group")
            if reset:
                place, threads = self._place(X), self._threads()
                check_values(place, "the training data", self._allow_missing, threads, summed=self._scales())
                self.n_features_in_ = X.n_features
                if X.feature_names is not None:
                    self.feature_names_in_ = np.array(X.feature_names, dtype=object)
                elif hasattr(self, "feature_names_in_"):
                    del self.feature_names_in_
                return self._in_place(X)
            return X
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        X, qid = split_qid(X, qid, group) if reset else self._split_qid(X, qid, group)
        if has_categories(X):
            return self._gather_frame(X, y, qid, group, reset)
        X, y = self._checked(X, y, reset=reset, y_numeric=True, finite=False)
        if qid is None and group is None:
            group = self._one_query(X.shape[0], reset)
        data = RankingData.from_arrays(X, y, qid, group=group, feature_names=self._names(), check_finite=False)
        place = self._place(data) if reset else place_of(data)
        if not are_usable(place, self._allow_missing, self._threads(), summed=reset and self._scales()):
            self._checked(X, reset=False)  # raises
        return data

    def _place(self, data: RankingData) -> Place:
        """Where features are read: on the GPU if training will compute with them there."""
        return place_of(data, "cpu" if self._allow_missing else getattr(self, "device", "cpu"))

    def _threads(self) -> int:
        return threads_of(getattr(self, "n_jobs", None))

    def _scales(self) -> bool:
        """Whether training divides features by their deviations."""
        return not self._allow_missing and bool(getattr(self, "standardize", False))

    def _one_query(self, n_rows: int, reset: bool) -> list[int]:
        """All rows as one query, with a warning."""
        trained = 1 if reset else getattr(self, "n_queries_", 1) + getattr(self, "n_queries_skipped_", 0)
        check_one_query(n_rows, trained, stacklevel=4)
        return [n_rows]

    def _gather_frame(self, frame: Any, y: Any, qid: Any, group: Any, reset: bool) -> RankingData:
        """The data of a frame with categories, which scikit-learn cannot check; columns are matched by name."""
        X, names, categories = frame_features(frame)
        if qid is None and group is None:
            group = self._one_query(len(X), reset)
        settings: dict[str, Any] = {"feature_names": names, "categories": categories}
        data = RankingData.from_arrays(X, y, qid, group=group, allow_missing=self._allow_missing, **settings)
        if reset:
            return self._gather(data, None, None, None, reset=True)
        return data.matched_to(self.n_features_in_, self._names())

    def _split_qid(self, X: Any, qid: Any, group: Any) -> tuple[Any, Any]:
        """Features and query ids of new data; a feature that the training data called qid stays a feature."""
        return (X, qid) if "qid" in (self._names() or ()) else split_qid(X, qid, group)

    def _validation(self, eval_set: Any, eval_qid: Any = None, eval_group: Any = None) -> RankingData | None:
        """The validation data, its columns those of the training data."""
        parts = validation_parts(eval_set, eval_qid, eval_group)
        if parts is None:
            return None
        if not self._validates:
            raise InputError(f"{type(self).__name__} has nothing to choose on validation data; leave out eval_set")
        if not isinstance(parts, RankingData):
            return self._gather(*parts, reset=False)
        try:
            valid = parts.matched_to(self.n_features_in_, self._names())
        except InputError as error:
            raise InputError(f"eval_set does not fit: {error.message}") from None
        check_values(place_of(valid), "eval_set", self._allow_missing, self._threads())
        return self._in_place(valid)

    def _in_place(self, data: RankingData) -> RankingData:
        """The data as training takes it: features in parts are brought together, unless it works on parts."""
        return data if self.trains_in_parts(data) else place_of(data).together()
