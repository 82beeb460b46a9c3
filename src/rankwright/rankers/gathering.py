"""How rankers take their input: arrays, data frames and data sets as scikit-learn's conventions have it, gathered."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.data.places import Place, place_of
from rankwright.data.threads import threads_of
from rankwright.errors import InputError
from rankwright.io.frames import frame_features, has_categories, split_qid
from rankwright.rankers.estimator import Estimator
from rankwright.rankers.inputs import MissingValuesError, are_usable, check_one_query, check_values, validation_parts


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
