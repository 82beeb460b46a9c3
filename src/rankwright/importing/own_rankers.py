"""Rankers of users: anything with ``fit(X, y, group)``, ``fit(X, y, qid)`` or ``fit(X, y)``, and ``predict(X)``.

What was learnt becomes a model of this package where it can be read without the user's code, and scores the same: one
weight per feature (``coef_``), a booster of LightGBM, XGBoost or CatBoost, or a model of this package. Any other is
asked for its scores, and cannot be saved.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData
from rankwright.errors import InputError
from rankwright.importing.importer import model_from
from rankwright.importing.libraries import dense_rows, saved_catboost
from rankwright.measures import Measure
from rankwright.models.base import Attribution, Model
from rankwright.models.linear import LinearModel
from rankwright.plugins import PYTHON, python_class, ranker_named, what_failed
from rankwright.rankers.base import CrossValidated, Task
from rankwright.rankers.cross_validation import CrossValidation, Still
from rankwright.rankers.facts import Kind, Notice, Outcome
from rankwright.rankers.parameters import NONE, SETTINGS, Rule, common, parameter, seed_of
from rankwright.rankers.weights import Weights

__all__ = ["PythonRanker"]

_METHODS = ("fit", "predict")
_IDS = ("qid", "group_id")
RANKER = Rule(
    f"{PYTHON}FILE.py:CLASS, a registered name, or a class or object with fit(X, y, group) and predict(X)",
    lambda value: (isinstance(value, str) and bool(value)) or all(callable(getattr(value, m, None)) for m in _METHODS),
)
_CLOSE = 1e-5  # of the spread of scores: other sums, in float32


@dataclass(eq=False, repr=False)
class PythonRanker(CrossValidated):
    """A ranker of yours: it is fitted and scores, all else is as for other rankers.

    ``fit`` is given ``X`` (dense, missing values are NaN), ``y``, and what else it has of ``group`` or ``groups`` (rows
    per query), ``qid`` or ``group_id`` (a number per row), ``sample_weight`` (if there are weights), and ``eval_set``
    with ``eval_group`` or ``eval_qid`` (if there is validation data). Rows of a query are consecutive. ``predict`` is
    given any number of rows, and returns a score for each.

    Parameters
    ----------
    ranker : str, class or object
        ``"python:mine.py:MyRanker"``, the name of a ranker that was registered, or the class itself. Of an object,
        copies are fitted.
    settings : mapping, optional
        Parameters of the class.
    cv : int, optional
        Estimate its quality by cross-validation with this many folds of queries; nothing is chosen.
    eval_measure : str or Measure, optional
        Measure to report; default nDCG@10.
    random_state : int, RandomState or None
        Random seed, for a class that takes ``random_state`` or ``seed``.
    n_jobs : int, optional
        Threads, for a class that takes ``n_jobs``.

    Attributes
    ----------
    fitted_ : object
        The fitted object of your class.
    training_ : Fitted
        All facts of the training, as :meth:`fit_data` returns them.

    Examples
    --------
    >>> class ByFirst:
    ...     def fit(self, X, y, group): ...
    ...     def predict(self, X):
    ...         return X[:, 0]
    >>> ranker = PythonRanker(ByFirst).fit([[1.0], [2.0]], [0, 1], ["q", "q"])
    >>> ranker.predict([[3.0]]).tolist()
    [3.0]
    """

    _allow_missing: ClassVar[bool] = True

    ranker: Any = parameter("", RANKER)
    settings: Mapping[str, Any] | None = parameter(None, SETTINGS, NONE)
    _: KW_ONLY
    eval_measure: str | Measure | None = common("eval_measure")
    random_state: Any = common("random_state")
    n_jobs: int | None = common("n_jobs")

    def method_name(self) -> str:
        """The name of the method, as `rankwright train --method` has it."""
        return "".join(self._name().split())

    def _name(self) -> str:
        if isinstance(self.ranker, str):
            file, colon, kind = self.ranker.removeprefix(PYTHON).rpartition(":")
            return f"{PYTHON}{file.replace(chr(92), '/').rpartition('/')[2]}:{kind}" if colon else self.ranker
        return (self.ranker if isinstance(self.ranker, type) else type(self.ranker)).__name__

    def _check_together(self) -> None:
        self._made()

    def _made(self) -> Any:
        """An object of the class, not fitted."""
        kind = self.ranker
        if isinstance(kind, str):
            kind = python_class(kind) if kind.startswith(PYTHON) else ranker_named(kind)
            missing = [name for name in _METHODS if not callable(getattr(kind, name, None))]
            if missing:
                problem = f"has no {missing[0]}" if kind is not None else "is not a registered ranker"
                raise InputError(f"{self._name()} {problem}; expected a class with fit(X, y, group) and predict(X)")
        if not isinstance(kind, type):
            if self.settings:
                raise InputError(f"{self._name()} is an object, which has its settings; expected its class")
            return copy.deepcopy(kind)
        known: Mapping[str, Any] = inspect.signature(kind).parameters
        offered = {"n_jobs": self.n_jobs, "random_state": self.random_state, "seed": self.random_state}
        given = {name: value for name, value in offered.items() if name in known}
        given |= {name: seed_of(given[name]) for name in ("random_state", "seed") if name in given}
        return self._asked("is made", lambda: kind(**given | dict(self.settings or {})))

    def _asked(self, where: str, call: Callable[[], Any]) -> Any:
        """Run code of the user; its errors are one line."""
        try:
            return call()
        except Exception as error:
            problem, file, line = what_failed(error)
            raise InputError(f"{self._name()} failed when it {where}: {problem}", file, line) from error

    def _train(self, task: Task) -> Outcome:
        made = self._made()
        self.fitted_: object = made
        given, notices = _given(made.fit, task)
        rows, labels = dense_rows(task.data), np.asarray(task.data.labels)
        self._asked("is fitted", lambda: made.fit(rows, labels, **given))
        self._model = _readable(_PythonModel(task.data.n_features, self._names(), self, made), rows)
        return Outcome(notices=notices)

    def _learn_nothing(self, task: Task) -> Outcome:
        self._model = LinearModel(np.zeros(task.data.n_features), self._names())
        return Outcome()

    def _choose(
        self, data: RankingData, weights: Weights, valid: RankingData | None
    ) -> tuple[CrossValidation | None, tuple[Notice, ...]]:
        """Nothing is open, so folds are for an estimate only, if one is asked for."""
        return (None, ()) if self.cv in (None, "auto") else super()._choose(data, weights, valid)

    def _choices(self, n_queries: int) -> Sequence[int]:
        return (0,)

    def _after_round(self, setting: Any, value: float, seconds: float) -> Any:
        return None

    def _steps(self, task: Task) -> Still:
        assert task.valid is not None
        learn = self._train if task.useful.any() else self._learn_nothing
        learn(replace(task, valid=None))  # what is held out decides nothing
        return Still(self.model_, task.valid)


def _given(fit: Callable[..., Any], task: Task) -> tuple[dict[str, Any], tuple[Notice, ...]]:
    """The arguments of ``fit`` besides X and y, by the names it has, and what the user should know of them."""
    names = inspect.signature(fit).parameters

    def first(offered: Mapping[str, Any]) -> dict[str, Any]:
        return next(({name: value} for name, value in offered.items() if name in names), {})

    data, valid, queries = task.data, task.valid, task.weights.queries
    given = first(dict.fromkeys(("group", "groups"), data.sizes) | dict.fromkeys(_IDS, data.query_of_row()))
    notices: tuple[Notice, ...] = ()
    if not (queries == queries[0]).all():
        if "sample_weight" in names:
            given["sample_weight"] = np.repeat(queries, data.sizes)
        else:
            notices = (Notice(Kind.UNWEIGHTED, "fit takes no sample_weight: the weights of queries are not used"),)
    if valid is not None and names.keys() & {"eval_set", "eval_X"}:
        told = first({"eval_group": [valid.sizes], "eval_qid": [valid.query_of_row()]})
        rows, labels = dense_rows(valid), np.asarray(valid.labels)
        apart = {"eval_X": rows, "eval_y": labels}  # as LightGBM has it since 4.7
        if told or not given:
            given |= (apart if "eval_X" in names else {"eval_set": [(rows, labels)]}) | told
    return given, notices


@dataclass(frozen=True, eq=False, repr=False)
class _PythonModel(Model):
    """A fitted object of a user's class."""

    n_inputs: int
    feature_names: tuple[str, ...] | None
    ranker: PythonRanker
    made: Any

    @property
    def n_features(self) -> int:
        return self.n_inputs

    @property
    def not_saved(self) -> str:
        """Why it cannot be saved."""
        expected = "expected coef_, or a booster of LightGBM, XGBoost or CatBoost, that scores the same"
        return f"{self.ranker._name()} cannot be saved: a model file is read without your code; {expected}"

    def score(self, X: Any, feature_names: Sequence[str] | None = None, indptr: Any = None) -> Array:
        rows = self.aligned(X, feature_names)
        scores = self.ranker._asked("predicts", lambda: np.asarray(self.made.predict(rows), np.float64))
        if scores.size != len(rows) or not np.isfinite(scores).all():
            expected = f"expected {len(rows):,} finite numbers, one for each row"
            raise InputError(f"predict of {self.ranker._name()} gave {scores.size:,} values; {expected}")
        return np.asarray(scores).reshape(-1)

    def importance(self) -> Array:
        raise InputError(f"{self.ranker._name()} cannot be explained: only its class knows how it scores")

    def _attribution(self) -> Attribution:
        self.importance()  # raises
        raise NotImplementedError


def _readable(opaque: _PythonModel, rows: Array) -> Model:
    """A model that scores rows as the user's object does, up to a constant, and needs no code of the user's."""
    made, scores = opaque.made, opaque.score(rows)
    for part in (made, getattr(made, "model_", None), *getattr(made, "__dict__", {}).values()):
        try:
            model = _read(part, opaque.n_inputs)
            apart = np.inf if model is None else np.ptp(scores - model.score(rows))
        except InputError:  # a booster that a model of this package cannot hold
            continue
        if model is not None and apart <= _CLOSE * np.ptp(scores):
            return _named(model, opaque.feature_names)
    return opaque


def _read(part: Any, n_features: int) -> Any:
    """The model of an object, or of one of its attributes; None if it is none that is known."""
    library = type(part).__module__.partition(".")[0]
    if isinstance(part, Model):
        return part if part.n_features == n_features else None
    content: bytes | None = None
    if library == "lightgbm" and hasattr(booster := getattr(part, "booster_", part), "model_to_string"):
        content = booster.model_to_string().encode()
    elif library == "xgboost" and (hasattr(part, "save_raw") or hasattr(part, "get_booster")):
        content = bytes((part if hasattr(part, "save_raw") else part.get_booster()).save_raw("json"))
    elif library == "catboost" and hasattr(part, "save_model"):
        content = saved_catboost(part)
    if content is not None:
        return model_from(content, f"the model of {library}", n_features, ())
    coef = getattr(part, "coef_", None)
    is_linear = isinstance(coef, np.ndarray | list) and np.size(coef) == n_features
    return LinearModel(np.asarray(coef, np.float64).reshape(-1)) if is_linear else None


def _named(model: Any, names: tuple[str, ...] | None) -> Any:
    """The model with names of its features, if it has a place for them."""
    if hasattr(model, "parts"):
        return replace(model, parts=tuple(_named(part, names) for part in model.parts))
    return replace(model, feature_names=names)
