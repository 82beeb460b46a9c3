"""LightGBM, XGBoost and CatBoost as rankers: the library grows the trees, all else is as for other rankers.

The measure on validation data (or on the held-out queries of ``cv``) decides how many trees are kept, as it does for
LambdaMART, so that rows of a table differ in the trees alone. The model is read from the bytes that the library saves.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from rankwright._types import Array
from rankwright.boosting.forest import Forest
from rankwright.boosting.rounds import Boosted, BoostedRanker, Boosting, Run
from rankwright.boosting.tree_model import TreeModel
from rankwright.data.dataset import RankingData
from rankwright.data.threads import threads_of
from rankwright.errors import InputError
from rankwright.importing.importer import KINDS, model_from
from rankwright.rankers.base import Task
from rankwright.rankers.facts import Notice, Outcome
from rankwright.rankers.parameters import NONE, SETTINGS, common, one_of, parameter, seed_of

__all__ = ["LibraryRanker"]


@dataclass(frozen=True)
class _Names:
    """What a library calls the parameters that are set for it, first the name that is used."""

    rounds: str
    objective: str
    seed: str
    threads: str
    quiet: str
    n_rounds: int  # the library's default
    defaults: Mapping[str, Any]


LIBRARIES = {
    "lightgbm": _Names(
        "num_iterations num_iteration n_iter num_tree num_trees num_round num_rounds nrounds num_boost_round "
        "n_estimators max_iter",
        "objective objective_type app application loss",
        "seed random_seed random_state",
        "num_threads num_thread nthread nthreads n_jobs",
        "verbosity verbose",
        100,
        {"objective": "lambdarank", "verbosity": -1, "metric": "none", "deterministic": True, "force_row_wise": True},
    ),
    "xgboost": _Names(
        "num_boost_round n_estimators num_round",
        "objective",
        "seed random_state",
        "nthread n_jobs",
        "verbosity",
        100,
        {"objective": "rank:ndcg", "verbosity": 1},
    ),
    "catboost": _Names(
        "iterations n_estimators num_trees num_boost_round",
        "loss_function objective",
        "random_seed random_state",
        "thread_count",
        "verbose silent logging_level",
        1000,
        {"loss_function": "YetiRank", "verbose": False, "allow_writing_files": False},
    ),
}
"""The libraries, by the names of their methods."""

_STOPPING = re.compile(r"early_stopping(_rounds?)?|n_iter_no_change|od_(wait|type|pval)|use_best_model")
_WHOLE = ("dart", "gblinear")  # rounds change what earlier ones added, so none can be left out
_PLACE = re.compile(r"^\[[\d:]+\] \S+: |^\S+\.(cc|cpp|h):\d+: ")  # of a message, in the library's source


@dataclass(eq=False, repr=False)
class LibraryRanker(BoostedRanker):
    """Trees of LightGBM, XGBoost or CatBoost, which must be installed to train, and not to score.

    On validation data the number of trees is chosen by ``eval_measure``, by the rule for all rankers; training stops
    after ``patience`` rounds without a better value. (CatBoost grows all trees first; dart and gblinear keep all.)
    The model is one of this package: it is saved, explained and exported like others. Its scores are LightGBM's to the
    last bit; XGBoost's to the rounding of its sums in float32, and CatBoost's to that of sums in float64.

    Parameters
    ----------
    library : {"lightgbm", "xgboost", "catboost"}
        The library.
    settings : mapping, optional
        Parameters of the library under its own names, such as ``{"num_leaves": 15}``. Others have the library's
        defaults, but for the objective: lambdarank, rank:ndcg or YetiRank.
    patience : int, optional
        Stop after this many rounds without a better value on ``eval_set``, or on average over the folds of ``cv``.
    cv : int or "auto", optional
        Without ``eval_set``: choose the number of trees by cross-validation with this many folds of queries.
    eval_measure : str or Measure, optional
        Measure to choose the number of trees by; default nDCG@10.
    random_state : int, RandomState or None
        Random seed.
    n_jobs : int, optional
        Threads; default 1, -1 for all cores.
    callback : callable, optional
        Called with a :class:`~rankwright.boosting.rounds.BoostingRound` after every tree; returning True stops.

    Attributes
    ----------
    n_trees_ : int
        Rounds kept.
    path_ : tuple of BoostingRound
        Value on validation data and seconds after every round.
    training_ : Fitted
        All facts of the training, as :meth:`fit_data` returns them.

    Examples
    --------
    >>> X, y = np.arange(80.0).reshape(-1, 1), np.arange(80) // 20
    >>> ranker = LibraryRanker("lightgbm", {"num_leaves": 4, "num_iterations": 10}).fit(X, y, np.zeros(80))
    >>> ranker.predict(X).argmax() >= 60
    np.True_
    """

    _allow_missing: ClassVar[bool] = True
    _unit: ClassVar[str] = "trees"
    _nothing: ClassVar[str] = "no tree is grown"

    library: str = parameter("lightgbm", one_of(*LIBRARIES))
    settings: Mapping[str, Any] | None = parameter(None, SETTINGS, NONE)
    _: KW_ONLY
    random_state: Any = common("random_state")

    def method_name(self) -> str:
        """The name of the method, as `rankwright train --method` has it."""
        return self.library

    def _check_together(self) -> None:
        version_of(self.library)
        given = dict(self.settings or {})
        for name in given:
            if _STOPPING.fullmatch(name):
                raise InputError(f"{name} of {KINDS[self.library]} is patience here: rounds without a better value")
        unknown = _unknown(self.library, given)
        if unknown:
            raise InputError(f"{KINDS[self.library]} has no parameter {unknown!r}; expected one under its own name")
        if self._most() < 1:
            raise InputError(f"the number of rounds is {self._most()}; expected at least 1")

    def _most(self) -> int:
        names = LIBRARIES[self.library]
        given = [value for name, value in (self.settings or {}).items() if name in names.rounds.split()]
        if given and (isinstance(given[0], bool) or not isinstance(given[0], int)):
            raise InputError(f"the number of rounds is {given[0]!r}; expected a whole number")
        return given[0] if given else names.n_rounds

    def _params(self) -> dict[str, Any]:
        """The parameters for the library: those given, and defaults for what they leave open; no number of rounds."""
        names, given = LIBRARIES[self.library], dict(self.settings or {})
        ours = {**names.defaults, names.seed.split()[0]: seed_of(self.random_state)}
        ours[names.threads.split()[0]] = threads_of(self.n_jobs)
        for aliases in (names.objective, names.seed, names.threads, names.quiet):
            if given.keys() & set(aliases.split()):
                ours.pop(aliases.split()[0], None)
        if given.keys() & {"force_col_wise"}:
            ours.pop("force_row_wise", None)
        return ours | {name: value for name, value in given.items() if name not in names.rounds.split()}

    def _train(self, task: Task) -> Outcome:
        whole = any(value in _WHOLE for value in self._params().values() if isinstance(value, str))
        return super()._train(dataclasses.replace(task, valid=None) if whole else task)

    def _run(self, task: Task) -> Run:
        n_rounds = self._most() if task.choice is None else task.choice.setting
        learner = _LEARNERS[self.library](task, self._params(), n_rounds)
        scores = None if task.valid is None else np.zeros(task.valid.n_docs)

        def keep(boosted: Boosted) -> Outcome:
            self._model = self._empty() if not boosted.n_rounds else learner.model(boosted.n_rounds, self._names())
            return self._outcome(boosted)

        return Run(Boosting(learner, learner, np.empty(0), scores), keep, ())

    def _outcome(self, boosted: Boosted, notices: Sequence[Notice] = ()) -> Outcome:
        self.n_trees_ = boosted.n_rounds
        return super()._outcome(boosted, notices)

    def _empty(self) -> TreeModel:
        return TreeModel(self.n_features_in_, self._names(), Forest.of([]))

    def _learn_nothing(self, task: Task) -> Outcome:
        self._model = self._empty()
        return self._outcome(Boosted(0, ()))


def version_of(library: str) -> str:
    """The version of an installed library."""
    try:
        return str(importlib.import_module(library).__version__)
    except ImportError:
        problem = f"{library} trains with {KINDS[library]}, which is not installed"
        raise InputError(f"{problem}: pip install 'rankwright[{library}]'") from None


def _unknown(library: str, given: Mapping[str, Any]) -> str:
    """The first name that the library does not know; empty if there is none."""
    known = set(LIBRARIES[library].rounds.split())
    asked = {name: value for name, value in given.items() if name not in known}
    if library == "xgboost":
        import xgboost

        few = xgboost.DMatrix(np.ones((2, 1)), label=[0, 1], group=[2])
        with warnings.catch_warnings(record=True) as told, reporting(library):
            warnings.simplefilter("always")
            xgboost.train({"objective": "rank:ndcg", "nthread": 1, **asked}, few, num_boost_round=0).save_config()
        unused = [str(warning.message) for warning in told if "are not used" in str(warning.message)]
        return next((name for name in asked if any(f'"{name}"' in text for text in unused)), "")
    if library == "catboost":
        import catboost

        known |= set(inspect.signature(catboost.CatBoostRanker.__init__).parameters)
    else:
        import lightgbm.basic

        aliases: Any = getattr(lightgbm.basic, "_ConfigAliases", None)
        if aliases is None:
            return ""
        known |= {name for names in aliases._get_all_param_aliases().values() for name in names}
    return next((name for name in asked if name not in known), "")


@contextmanager
def reporting(library: str) -> Iterator[None]:
    """Turn errors of a library into one line."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        text = " ".join(_PLACE.sub("", str(error).partition("Stack trace")[0].strip()).split())
        text = text.partition(" at /")[0]
        raise InputError(f"{KINDS[library]} says: {text or type(error).__name__}") from error


class _Learner:
    """A booster of a library, as the rounds of boosting have it; it computes its own gradients."""

    library: ClassVar[str]

    def __init__(self, task: Task, params: dict[str, Any], n_rounds: int) -> None:
        self._params, self._n_rounds, self._n_grown = params, n_rounds, 0
        self._n_features = task.data.n_features
        queries = task.weights.queries
        with reporting(self.library):
            self._open(task.data, None if (queries == queries[0]).all() else queries, task.valid)

    def evaluate(self, scores: Array) -> tuple[Array, Array]:
        return scores, scores

    def fit(self, gradients: Array, weights: Array, scores: Array) -> None:
        with reporting(self.library):
            self._grow()
        self._n_grown += 1

    def add_last(self, scores: Array) -> None:
        with reporting(self.library):
            self._score(scores)

    def model(self, n_rounds: int, names: tuple[str, ...] | None) -> Any:
        with reporting(self.library):
            content = self._content(n_rounds)
        return model_from(content, f"the model of {KINDS[self.library]}", self._n_features, names or ())

    def _open(self, data: RankingData, weights: Array | None, valid: RankingData | None) -> None:
        """Hand over the data; a weight per query unless all are equal."""

    def _grow(self) -> None: ...

    def _score(self, scores: Array) -> None:
        """Set the scores of the validation data."""

    def _content(self, n_rounds: int) -> bytes:
        """What the library saves of the first rounds."""
        raise NotImplementedError


def dense_rows(data: RankingData) -> Array:
    """The features of all documents; absent ones are 0, which XGBoost would take as missing."""
    return np.asarray(data.X.toarray() if data.is_sparse else data.X)


class _LightGBM(_Learner):
    library = "lightgbm"

    def _open(self, data: RankingData, weights: Array | None, valid: RankingData | None) -> None:
        import lightgbm

        rows = None if weights is None else np.repeat(weights, data.sizes)
        train = lightgbm.Dataset(data.X, data.labels, group=data.sizes, weight=rows, params=dict(self._params))
        self._booster = lightgbm.Booster(dict(self._params), train)
        if valid is not None:
            # LightGBM's number of threads is one for the process: data without it would set it back to all cores.
            checked = train.create_valid(valid.X, valid.labels, group=valid.sizes, params=dict(self._params))
            self._booster.add_valid(checked, "valid")

    def _grow(self) -> None:
        self._booster.update()

    def _score(self, scores: Array) -> None:
        def seen(predicted: Array, _: Any) -> tuple[str, float, bool]:
            scores[:] = predicted
            return "", 0.0, True

        self._booster.eval_valid(seen)

    def _content(self, n_rounds: int) -> bytes:
        return str(self._booster.model_to_string(num_iteration=n_rounds)).encode()


class _XGBoost(_Learner):
    library = "xgboost"

    def _open(self, data: RankingData, weights: Array | None, valid: RankingData | None) -> None:
        import xgboost

        given = [data] if valid is None else [data, valid]
        tables = [xgboost.DMatrix(dense_rows(some), some.labels, group=some.sizes) for some in given]
        if weights is not None:
            by_query = str(self._params["objective"]).startswith("rank:")
            tables[0].set_weight(weights if by_query else np.repeat(weights, data.sizes))
        self._tables, self._booster = tables, xgboost.Booster(dict(self._params), tables)

    def _grow(self) -> None:
        self._booster.update(self._tables[0], self._n_grown)

    def _score(self, scores: Array) -> None:
        scores[:] = self._booster.predict(self._tables[1], output_margin=True)

    def _content(self, n_rounds: int) -> bytes:
        kept = self._booster if n_rounds == self._n_grown else self._booster[:n_rounds]
        return bytes(kept.save_raw("json"))


class _CatBoost(_Learner):
    library = "catboost"

    def _open(self, data: RankingData, weights: Array | None, valid: RankingData | None) -> None:
        import catboost

        def pool(some: RankingData, weights: Array | None) -> Any:
            rows = None if weights is None else np.repeat(weights, some.sizes)
            return catboost.Pool(dense_rows(some), some.labels, group_id=some.query_of_row(), group_weight=rows)

        self._train, self._valid = pool(data, weights), None if valid is None else pool(valid, None)
        self._model = catboost.CatBoost({**self._params, "iterations": self._n_rounds})

    def _grow(self) -> None:
        """Grow all trees at once; their scores come one after the other."""
        if not self._n_grown:
            self._model.fit(self._train)
            if self._valid is not None:
                self._staged = self._model.staged_predict(self._valid, prediction_type="RawFormulaVal")

    def _score(self, scores: Array) -> None:
        scores[:] = next(self._staged, scores)

    def _content(self, n_rounds: int) -> bytes:
        model = self._model.copy()
        if n_rounds < model.tree_count_:
            model.shrink(n_rounds)
        return saved_catboost(model)


_LEARNERS: dict[str, type[_Learner]] = {kind.library: kind for kind in (_LightGBM, _XGBoost, _CatBoost)}


def saved_catboost(model: Any) -> bytes:
    """A model of CatBoost as JSON, which it writes to files only."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        return path.read_bytes()
