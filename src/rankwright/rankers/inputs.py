"""What rankers are given: which rows are a query, validation data, values that can be used, and clicks as labels."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData, stored
from rankwright.data.places import Place, place_of
from rankwright.data.threads import threads_of
from rankwright.errors import InputError, InputWarning
from rankwright.io.frames import check_labels_apart, frame_features, has_categories, has_qid, split_qid
from rankwright.rankers.estimator import Estimator
from rankwright.rankers.facts import Kind, Notice
from rankwright.rankers.weights import in_own_order

_LARGEST = 1e290  # absolute value of a feature: its sums over documents and pairs stay far from overflow
_LARGEST_SQUARED = 1e100  # and where it is squared before it is scaled
_EVAL_SET = "expected a RankingData, (X, y, qid), or (X, y) with eval_qid, eval_group or a column qid"
_IN_SKLEARN = (
    "in scikit-learn's functions give X as a data frame with a column qid, switch metadata routing on and pass qid, "
    "or give a function of (ranker, X, y) as scoring"
)
_TO_FIT = (
    "scikit-learn passes groups to the splitter, not to fit: give X as a data frame with a column qid "
    "(pandas.DataFrame(X).assign(qid=qid)), or switch metadata routing on and pass qid"
)
_PIPELINE = "sklearn.pipeline"
_PAST_STEPS = (
    "of a pipeline, fit sees what the steps before have left: switch metadata routing on and pass qid, or let them "
    "keep a data frame with its column qid (a ColumnTransformer with remainder='passthrough' and set_output)"
)
_FILL = "fill them (scikit-learn's SimpleImputer, numpy.nan_to_num)"
_TREES = "train trees (LambdaMART, McRank, or AutoRanker, which has some), which take them"


class MissingValuesError(InputError):
    """Raised where a ranker computes with features and some are missing: trees can take them, or they can be filled.

    `most`: the feature that misses most values, in words; empty if it is not known.
    """

    def __init__(self, role: str, most: str = "") -> None:
        self.fact = f"{role} has missing features (NaN{most})"
        super().__init__(f"{self.fact}, which this ranker cannot take; {_FILL}, or {_TREES}")


def check_one_query(n_rows: int, n_trained: int, stacklevel: int) -> None:
    """Warn that all rows are taken as one query, as no query ids were given; refuse it if training had several.

    `n_trained`: queries that training had; 1 if this is the training.
    """
    if n_rows < 2:
        return
    if n_trained > 1:
        problem = f"no qid: training had {n_trained:,} queries, and these {n_rows:,} rows would be taken as one"
        raise InputError(f"{problem}; pass qid=…, or group=…; {_IN_SKLEARN}")
    refuse_in_searches(n_rows)
    problem = f"no qid: all {n_rows:,} rows are taken as one query; pass qid=…, or group=…"
    where = "; in a pipeline as STEP__qid=…, or with metadata routing" if _PIPELINE in _modules_calling() else ""
    warnings.warn(f"{problem}, or a data frame with a column qid{where}", InputWarning, stacklevel=stacklevel + 1)


def refuse_in_searches(n_rows: int) -> None:
    """Refuse rows without query ids in scikit-learn's cross-validation and searches, which choose by it."""
    modules = _modules_calling()
    if any(module.startswith("sklearn.model_selection.") for module in modules):
        remedy = _PAST_STEPS if _PIPELINE in modules else _TO_FIT
        raise InputError(f"no qid: these {n_rows:,} rows would be taken as one query; {remedy}")


def _modules_calling() -> set[str]:
    """The modules on the stack: what scikit-learn passes does not tell which of its functions calls."""
    modules, frame = set(), sys._getframe(1).f_back
    while frame is not None:
        modules.add(str(frame.f_globals.get("__name__")))
        frame = frame.f_back
    return modules


def check_values(place: Place, role: str, allow_missing: bool, threads: int = 1, *, summed: bool = False) -> None:
    """Reject data with missing features, unless they are allowed, or with infinite ones: a folder may hold them.

    ``summed``: means and deviations will be needed, so that the features are read for both at once.
    """
    # Queries without an order are left out before anything is divided by deviations: then these are read for later.
    data = place.data
    statistics = place.statistics(threads, summed=summed and bool(data.n_docs and data.has_order.all()))
    if statistics.missing.any() and not allow_missing:
        at = int(np.argmax(statistics.missing))
        most = f" in {statistics.missing[at]:,} of {statistics.n_rows:,} rows of {data.names[at]!r}"
        raise MissingValuesError(role, most)
    if not statistics.is_finite:
        raise InputError(f"{role} has infinite features; expected finite numbers")


def check_size(data: RankingData, role: str, scaled: bool) -> None:
    """Reject features so large that sums of them, or unless they are scaled first, of their squares, overflow."""
    limit = _LARGEST if scaled else _LARGEST_SQUARED
    if stored(data)[0].dtype == np.float32:
        return
    sizes = place_of(data).statistics(summed=False).largest
    if (sizes <= limit).all() or not data.n_docs:
        return
    at = int(np.argmax(sizes))
    name = f"feature {at} (from 0)" if data.feature_names is None else f"feature {data.feature_names[at]!r}"
    raise InputError(f"{name} of {role} reaches {sizes[at]:.3g}; expected values up to {limit:g} (trees take any)")


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
    return values[0] if isinstance(values, list) and len(values) == 1 and np.ndim(values[0]) == 1 else values


# How rankers take their input: arrays, data frames and data sets as scikit-learn's conventions have it, gathered.


class Gathering(Estimator):
    """Base of :class:`~rankwright.rankers.base.Ranker`: any input as a RankingData."""

    _allow_missing: ClassVar[bool] = False  # whether a feature may be NaN
    _validates: ClassVar[bool] = True  # whether there is something to choose on validation data
    _works_on_partitions: ClassVar[bool] = False

    def trains_in_partitions(self, data: RankingData) -> bool:
        """Whether training computes with features where their parts are; otherwise they are brought together first."""
        return self._works_on_partitions

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

    def _gather(self, X: Any, y: Array | None, qid: Array | None, group: Any, *, reset: bool) -> RankingData:
        if isinstance(X, RankingData):
            if y is not None or qid is not None or group is not None:
                raise InputError("a RankingData has its labels and queries; leave out y, qid and group")
            if reset:
                place, threads = self._place(X), self._threads()
                check_values(place, "the training data", self._allow_missing, threads, summed=self._scales())
                self._keep_names(X)
                return self._in_place(X)
            return X
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        X, qid = self._split_qid(X, qid, group, reset=reset)
        if reset:
            check_labels_apart(X, y)
        if has_categories(X):
            return self._gather_frame(X, y, qid, group, reset)
        X, y = self._checked(X, y, reset=reset, y_numeric=True, finite=False)
        if qid is None and group is None:
            group = self._one_query(X.shape[0], reset)
        data = RankingData.from_arrays(X, y, qid, group=group, feature_names=self._names(), check_finite=False)
        place = self._place(data) if reset else place_of(data)
        try:
            check_values(place, "X", self._allow_missing, self._threads(), summed=reset and self._scales())
        except InputError:
            self._checked(X, reset=False)  # raises, in scikit-learn's words
        return data

    def _place(self, data: RankingData) -> Place:
        """Where features are read: on the GPU if training will compute with them there."""
        return place_of(data, "cpu" if self._allow_missing else getattr(self, "device", "cpu"))

    def _threads(self) -> int:
        return threads_of(getattr(self, "n_jobs", None))

    def _scales(self) -> bool:
        return not self._allow_missing and bool(getattr(self, "standardize", False))

    def _one_query(self, n_rows: int, reset: bool) -> list[int]:
        trained = 1 if reset else getattr(self, "n_queries_", 1) + getattr(self, "n_queries_skipped_", 0)
        check_one_query(n_rows, trained, stacklevel=4)
        return [n_rows]

    def _gather_frame(self, frame: Any, y: Any, qid: Array, group: Any, reset: bool) -> RankingData:
        """The data of a frame with categories, which scikit-learn cannot check; columns are matched by name."""
        X, names, categories = frame_features(frame)
        if qid is None and group is None:
            group = self._one_query(len(X), reset)
        settings: dict[str, Any] = {"feature_names": names, "categories": categories}
        data = RankingData.from_arrays(X, y, qid, group=group, allow_missing=self._allow_missing, **settings)
        if reset:
            return self._gather(data, None, None, None, reset=True)
        return data.matched_to(self.n_features_in_, self._names())

    def _split_qid(self, X: Any, qid: Any, group: Any, *, reset: bool = False) -> tuple[Any, Any]:
        """Features and query ids; in new data, a feature that the training data called qid stays a feature."""
        return split_qid(X, qid, group, None if reset else self._names())

    def _validation(self, eval_set: Any, eval_qid: Any = None, eval_group: Any = None) -> RankingData | None:
        """The validation data, its columns those of the training data."""
        validation = validation_parts(eval_set, eval_qid, eval_group)
        if validation is None:
            return None
        if not self._validates:
            raise InputError(f"{type(self).__name__} has nothing to choose on validation data; leave out eval_set")
        if not isinstance(validation, RankingData):
            return self._gather(*validation, reset=False)
        try:
            valid = validation.matched_to(self.n_features_in_, self._names())
        except InputError as error:
            raise InputError(f"eval_set does not fit: {error.message}") from None
        check_values(place_of(valid), "eval_set", self._allow_missing, self._threads())
        return self._in_place(valid)

    def _in_place(self, data: RankingData) -> RankingData:
        """The data as training takes it: features in parts are brought together, unless it works on parts."""
        return data if self.trains_in_partitions(data) else place_of(data).together()


# Clicks as labels: a document's position gives the probability that it was looked at, and so the weight of its click.
#
# A click weighs 1/p, where p is the propensity of its position (Joachims, Swaminathan and Schnabel: Unbiased
# learning-to-rank with biased feedback, 2017). Documents that are rarely looked at count more when clicked, so on
# average clicks weigh as if everything was looked at, provided that every click counts on its own
# unbiased by inverse propensities; pairs of clicked and unclicked documents are not, as which others are clicked
# depends on where they were shown, nor is nDCG normalised by the clicks of a page. Weights are cut, as one click at a
# position that nobody looks at would outweigh all others.

MAX_WEIGHT = 100.0


@dataclass(frozen=True, eq=False)
class Clicks:
    """A weight per row for its clicks, in the caller's order of rows; None where labels are judgements.

    `pair`: a number per row of the training data, the same for rows of the same query and document.
    """

    training: Array | None = None
    validation: Array | None = None
    pair: Array | None = None
    notices: tuple[Notice, ...] = ()

    def of_validation(self, valid: RankingData | None) -> Array | None:
        return None if valid is None else in_own_order(self.validation, valid)

    def of_parts(self, parts: Mapping[str, RankingData]) -> dict[str, Array | None]:
        """The weights of the training and the validation data, each in its own order."""
        clicks = {"training": self.training, "validation": self.validation}
        return {role: in_own_order(clicks[role], data) for role, data in parts.items()}


JUDGED = Clicks()
"""No label is a click."""


def clicks_of(
    data: RankingData,
    valid: RankingData | None,
    position: Array | None,
    propensities: Any,
    pair: Array | None = None,
    eval_position: Any = None,
) -> Clicks:
    """The weights of the clicks of training data, and of validation data if there are positions for it.

    ``pair`` numbers rows of the same query and document: their clicks weigh one over the mean propensity of all
    positions at which the pair was shown, clicked or not, an estimate of the same relevance with less variance
    (Oosterhuis and de Rijke: Policy-aware counterfactual learning to rank for top-k rankings, 2020).
    """
    numbers = None if pair is None else _numbered(pair, data.n_docs)
    training, notices = inverse_propensities(data.n_docs, position, propensities, pair=numbers)
    for name, values, needed in (("pair", pair, training), ("eval_position", eval_position, training)):
        if values is not None and needed is None:
            raise InputError(f"{name} is given without position; expected the position of every row")
    if eval_position is None:
        return Clicks(training, None, numbers, notices)
    if valid is None:
        raise InputError("eval_position is given without eval_set; expected both")
    validation, also = inverse_propensities(valid.n_docs, eval_position, propensities, "eval_position")
    return Clicks(training, validation, numbers, notices or also)


def _numbered(pair: Any, n_rows: int) -> Array:
    values = np.asarray(pair)
    if values.shape != (n_rows,):
        raise InputError(f"{n_rows} rows but pair of shape {values.shape}; expected one id per row")
    return np.unique(values.astype(str) if values.dtype == object else values, return_inverse=True)[1]


def pages_together(data: RankingData, pair: Array | None) -> Array | None:
    """A number for every page, the same for pages that share a pair, even through others; None without pairs.

    Examples
    --------
    >>> data = RankingData.from_arrays(np.zeros((6, 1)), np.zeros(6), [1, 1, 2, 2, 3, 3])
    >>> pages_together(data, np.array([0, 1, 1, 2, 3, 4])).tolist()
    [0, 0, 1]
    """
    if pair is None:
        return None
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    size = data.n_queries + int(pair.max()) + 1
    ends = data.query_of_row(), data.n_queries + pair
    graph = coo_array((np.ones(len(pair)), ends), shape=(size, size))
    return np.asarray(connected_components(graph, directed=False)[1][: data.n_queries])


def inverse_propensities(
    n_rows: int, position: Array | None, propensities: Any, name: str = "position", pair: Array | None = None
) -> tuple[Array | None, tuple[Notice, ...]]:
    """A weight for every row, or None without positions; and a notice if weights were cut.

    `position`: from 1. `propensities`: how likely a position is looked at: ``{position: propensity}``, or one for each
    position from 1. `name`: what errors call the positions. `pair`: rows of the same number share the mean of their
    propensities.
    """
    if position is None:
        if propensities is not None:
            raise InputError("propensities are given without position; expected the position of every row")
        return None, ()
    if propensities is None:
        problem = "position is given without propensities"
        raise InputError(f"{problem}; expected those of the positions, such as click_model(log).propensities")
    try:
        places = np.asarray(position).astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} contains a non-numeric value; expected whole numbers from 1") from None
    if places.shape != (n_rows,):
        raise InputError(f"{n_rows} rows but {name} of shape {places.shape}; expected one position per row")
    wrong = ~((places >= 1) & (places == np.floor(places)) & (places < 1 << 53))
    if wrong.any():
        raise InputError(f"{name} is {places[np.argmax(wrong)]:g}; expected whole numbers from 1")
    values = _propensities(propensities, places.astype(np.int64))
    wrong = ~((values > 0) & (values <= 1))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(f"the propensity of position {places[at]:.0f} is {values[at]:g}; expected above 0, at most 1")
    if pair is not None:
        values = (np.bincount(pair, values) / np.maximum(np.bincount(pair), 1))[pair]
    weights = np.minimum(1.0 / values, MAX_WEIGHT)
    cut = np.unique(places[1.0 / values > MAX_WEIGHT])
    if not len(cut):
        return weights, ()
    where = ", ".join(f"{unseen:.0f}" for unseen in cut[:5]) + (", …" if len(cut) > 5 else "")
    text = f"propensities below {1 / MAX_WEIGHT:g} (positions {where}): clicks there weigh {MAX_WEIGHT:g}, not more"
    return weights, (Notice(Kind.CUT_WEIGHTS, text, {"positions": len(cut)}),)


def _propensities(given: Any, position: Array) -> Array:
    """The propensities of some positions; nan where none is given."""
    if hasattr(given, "of"):  # `rankwright.clicks.models.Propensities`
        return np.asarray(given.of(position))
    items = given.items() if isinstance(given, Mapping) else enumerate(np.ravel(np.asarray(given, object)), 1)
    try:
        table = {int(place): float(value) for place, value in items}
    except (TypeError, ValueError):
        raise InputError("propensities contain a non-numeric value; expected one number per position") from None
    if not table:
        raise InputError("propensities are empty; expected one number per position")
    distinct, number = np.unique(position, return_inverse=True)
    return np.array([table.get(place, np.nan) for place in distinct.tolist()])[number]
