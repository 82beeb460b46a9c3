"""AutoRanker: a committee of linear rankers and trees, chosen, put on one scale and checked by cross-validation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from rankwright._types import Array
from rankwright.boosting.tree_rankers import LambdaMART
from rankwright.committee.filling import Filling
from rankwright.data.dataset import RankingData, column_of, default_names, some_queries
from rankwright.data.places import place_of
from rankwright.errors import InputError
from rankwright.maxmargin.ranking_svm import RankingSVM
from rankwright.maxmargin.structured_svm import StructuredSVM
from rankwright.measures import Measure, Rankings, parse_measure
from rankwright.models.linear import LinearModel
from rankwright.models.sum import interpolate
from rankwright.nets.lambda_rank import LambdaRank
from rankwright.rankers.background import spread_within
from rankwright.rankers.base import Ranker, Task
from rankwright.rankers.cross_validation import FOLDS, Folds, by_content, cross_validate, notify, query_values
from rankwright.rankers.facts import Committee, HeldOut, Kind, LeftOut, MemberFacts, Notice, Outcome, interval_of
from rankwright.rankers.inputs import MissingValuesError, check_size, check_values
from rankwright.rankers.parameters import (
    AUTO,
    FEATURES,
    FLAG,
    NONE,
    POSITIVE,
    Option,
    Rule,
    Seed,
    common,
    integer,
    is_list,
    one_of,
    parameter,
    places_of,
    seed_of,
)

__all__ = ["AutoRanker"]

# The queries on which a committee is decided, and the value of single features on them.


@dataclass(frozen=True, eq=False)
class HeldOutQueries:
    """The queries on which all decisions are made: held-out ones of the training data, or the validation data.

    `weights`, `folds`: the weight and the fold of each. `cut`: how the training data is cut; None where validation data
    is given. `words`: what is done, such as ``5-fold cross-validation``. `values_of`: the measure of every query by
    scores.
    """

    data: RankingData
    weights: Array
    folds: Array
    cut: Folds | None
    words: str
    values_of: Callable[[Array], Array]

    @classmethod
    def of(cls, task: Task, n_folds: int | str, seed: int, measure: Measure) -> HeldOutQueries | None:
        """By validation data, or else by cross-validation; None if only one query has an order to learn."""
        if task.valid is not None:
            cut = Folds.draw(task.valid, FOLDS, seed=seed)
            folds = np.zeros(task.valid.n_queries, np.int64) if cut is None else cut.of_query
            values_of = query_values(task.valid, measure, by_content(task.valid)[0])
            return cls(task.valid, np.ones(task.valid.n_queries), folds, None, "validation data", values_of)
        cut = Folds.draw(task.data, n_folds, useful=task.useful, seed=seed)
        if cut is None:
            return None
        held_out = cut.of_query >= 0
        data = task.data if held_out.all() else some_queries(task.data, held_out)
        folds = cut.of_query[held_out]
        docs, queries = by_content(data)
        if cut.n_held_out == 1:  # decisions on one half are judged by the other
            folds = folds.copy()
            folds[queries[::2]] = 1
        return cls(data, task.weights.queries[held_out], folds, cut, cut.words, query_values(data, measure, docs))


class SingleFeatures:
    """The features as rankers: the measure of every judged query by each of them, higher is better.

    Missing values count as the mean of the feature, if they can be filled; otherwise the feature is left out.
    """

    def __init__(self, judged: HeldOutQueries, but: Sequence[int], filling: Filling | None = None) -> None:
        self._judged, self._filling = judged, filling
        self._values_of = column_of if filling is None else filling.column
        values = {}
        for column in sorted(set(range(judged.data.n_features)).difference(but)):
            scores = self._values_of(judged.data, column)
            if not np.isnan(scores).any():
                values[column] = judged.values_of(scores)
        values = values or {0: judged.values_of(np.zeros(judged.data.n_docs))}
        self._columns, self._values = np.array(list(values)), np.array(list(values.values()))

    @property
    def best(self) -> int:
        """The feature that is best on all queries, the first of equal ones."""
        return self._best(np.ones(len(self._judged.weights), bool))

    def best_model(self, names: tuple[str, ...] | None) -> LinearModel:
        """The best feature as a model."""
        at, filling = self.best, self._filling
        coef = np.eye(1, self._judged.data.n_features, at)[0]
        missing = coef * filling.means if filling is not None and at in filling.columns else None
        return LinearModel(coef, names, missing=missing)

    def _best(self, queries: Array) -> int:
        means = self._values[:, queries] @ self._judged.weights[queries]
        return int(self._columns[np.argmax(np.round(means, 9))])

    def chosen_apart(self) -> Array:
        """Scores of the held-out documents: in each fold by the feature that is best in the others."""
        data, folds = self._judged.data, self._judged.folds
        scores = np.zeros(data.n_docs)
        for fold in np.unique(folds):
            held_out = folds == fold
            rows = np.repeat(held_out, data.sizes)
            column = self._best(held_out if held_out.all() else ~held_out)
            scores[rows] = np.nan_to_num(self._values_of(data, column)[rows])
        return scores


@dataclass(frozen=True)
class _Candidate:
    name: str
    make: Callable[..., Ranker]
    settings: dict[str, Any] = field(default_factory=dict)
    linear: bool = True


CANDIDATES = (
    _Candidate("svm-map", StructuredSVM, {"loss": "map", "C": "auto"}),
    _Candidate("rank-svm", RankingSVM, {"C": "auto"}),
    _Candidate("svm-ndcg-nc", StructuredSVM, {"loss": "ndcg", "C": "auto"}),
    _Candidate("lambdarank-linear", LambdaRank, {"hidden": 0}),
    _Candidate("lambdamart-4", LambdaMART, {"max_leaves": 4, "randomize_nodes": True}, linear=False),
    _Candidate("lambdamart-10", LambdaMART, {"max_leaves": 10}, linear=False),
)
"""Rankers of which the committee is made, those that need least time first."""

_NAMES = tuple(candidate.name for candidate in CANDIDATES)
_MEMBERS = Rule(
    f"names from {', '.join(_NAMES)}", lambda value: is_list(value) and all(name in _NAMES for name in value)
)
_EXPLAINABLE = Option(AUTO, "Linear members only, so that the model is one weight per feature.")
_FILL = Option(AUTO, "Keep linear members where values are missing: their mean, and a column that says where.")
_MINUTES = Option(AUTO, "Stop after about so many minutes, with the members finished by then.", metavar="N")


@dataclass(eq=False)
class _Tried:
    name: str
    setting: str
    model: Any
    scores: Array  # of the held-out documents
    seconds: float


@dataclass(eq=False, repr=False)
class AutoRanker(Ranker):
    """The default ranker: a committee of linear rankers and trees.

    Each member is trained with what cross-validation over queries finds best for it (or ``eval_set``, if given), the
    scores of the members are put on one scale and added. Members without which the committee is better are
    dropped; a single feature that is clearly better takes its place. All of this is decided on queries that the members
    were not trained on, and so is what :attr:`committee_` promises for new queries. The result is one model: a sum, or
    a single weight vector with ``explainable``.

    Parameters
    ----------
    members : sequence of str, optional
        Rankers to choose from; default all: ``svm-map``, ``rank-svm``, ``svm-ndcg-nc``, ``lambdarank-linear``,
        ``lambdamart-4`` (4 leaves, random nodes) and ``lambdamart-10`` (10 leaves).
    explainable : bool
        Linear members only: the model is one weight per feature.
    minutes : float, optional
        Stop after about so many minutes, with the members that were finished by then.
    fill_missing : bool
        Keep linear members where features have missing values, which leave the work to trees otherwise. They see the
        mean in their place, and for each such feature a column that says where it is missing. The model takes missing
        values as they are.
    categorical : sequence of str or int, optional
        Features, by name or by number from 0, whose numbers are categories; columns of text are, anyway. Only trees use
        categories: to linear members they are 0.
    cv : int or "auto"
        Folds of the cross-validation. ``"auto"``: 5, of which only one is held out if there are 500 or more queries
        with an order to learn. With ``eval_set`` there are no folds, and a number is an error.
    eval_measure : str or Measure
        Measure to choose by, and to promise; default nDCG@10.
    random_state : int, RandomState or None
        Random seed.
    n_jobs : int, optional
        Threads; default 1, -1 for all cores. The model does not depend on it.
    device : {"cpu", "cuda"}
        Where members are trained; ``"cuda"``: on an NVIDIA GPU, all but ``lambdarank-linear``.
    callback : callable, optional
        Called after every pass, round or epoch of a member with what that member calls it with. If it has a method
        ``member``, this is called with the name, the number from 1 and the number of all members before each.

    Attributes
    ----------
    committee_ : Committee
        The members with their values on held-out queries, who stays, and what to expect.
    model_ : model
        A sum of a linear model and trees, or one of them.
    n_queries_, n_queries_skipped_ : int
        Queries trained on, and queries skipped because they have no order to learn.
    training_ : Fitted
        All facts of the training, as :meth:`fit_data` returns them.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(200, 3)), np.repeat(np.arange(20), 10)
    >>> y = (X[:, 0] + X[:, 1] > 1).astype(int)
    >>> ranker = AutoRanker(explainable=True).fit(X, y, qid)
    >>> ranker.committee_.expectation.value.value > 0.9
    True
    """

    _allow_missing: ClassVar[bool] = True
    _uses_categories: ClassVar[bool] = True
    _nothing: ClassVar[str] = "all weights are 0"

    _: KW_ONLY
    members: Sequence[str] | None = parameter(None, _MEMBERS, NONE)
    explainable: bool = parameter(False, FLAG, option=_EXPLAINABLE)
    minutes: float | None = parameter(None, POSITIVE, NONE, option=_MINUTES)
    fill_missing: bool = parameter(False, FLAG, option=_FILL)
    categorical: Sequence[str | int] | None = parameter(None, FEATURES, NONE)
    cv: int | str = parameter("auto", integer(2), one_of("auto"), set_by="--cv")
    eval_measure: str | Measure | None = common("eval_measure")
    random_state: Seed = common("random_state")
    n_jobs: int | None = common("n_jobs")
    device: str = common("device")
    callback: Callable[[Any], Any] | None = common("callback")

    def method_name(self) -> str:
        """The name of the method, as `rankwright train --method` has it."""
        return "auto"

    def _candidates(self, numbers: RankingData) -> tuple[tuple[_Candidate, ...], LeftOut | None]:
        """The members to try, given the data for linear ones, and those that cannot use it."""
        listed = [candidate for candidate in CANDIDATES if self.members is None or candidate.name in self.members]
        usable = [candidate for candidate in listed if candidate.linear or not self.explainable]
        if not usable:
            raise InputError("members names no linear ranker, but explainable allows no others; expected at least one")
        refused = _refused(numbers)
        if refused is None:
            return tuple(usable), None
        if all(candidate.linear for candidate in usable):
            raise refused
        left_out = LeftOut(tuple(candidate.name for candidate in usable if candidate.linear), _why(refused, numbers))
        return tuple(candidate for candidate in usable if not candidate.linear), left_out

    def _check_data(self, data: RankingData, valid: RankingData | None) -> None:
        if valid is not None and self.cv != "auto":
            raise InputError("cv chooses by cross-validation, eval_set by validation data; expected one of the two")

    def _categories(self, data: RankingData) -> list[int]:
        return [*data.categories, *places_of(self.categorical or (), data.names, "categorical")]

    def _numbers(self, task: Task) -> Task:
        """The task of linear members: 0 in categorical columns."""
        data, valid = task.data, task.valid
        but = self._categories(data)
        return replace(
            task, data=data.without_categories(but), valid=None if valid is None else valid.without_categories(but)
        )

    def _learn_nothing(self, task: Task) -> Outcome:
        self._model = LinearModel(np.zeros(task.data.n_features), self._names())
        return self._undecided(())

    def _train(self, task: Task) -> Outcome:
        seed = seed_of(self.random_state)
        judged = HeldOutQueries.of(task, self.cv, seed, self.measure_to_choose_by())
        clock = _Clock(self.minutes, self.callback)
        numbers = self._numbers(task)
        filling = Filling.of(numbers.data)
        filled = filling if self.fill_missing else None
        linear = numbers if filled is None else filled.task(numbers)
        candidates, left_out = self._candidates(linear.data)
        if judged is None:
            return self._without_choice(task, (linear, filled), candidates, clock, left_out)
        features = SingleFeatures(judged, self._categories(task.data), filling)
        tried: list[_Tried] = []
        notices: tuple[Notice, ...] = ()
        for number, candidate in enumerate(candidates, 1):
            notify(self.callback, "member", candidate.name, number, len(candidates))
            with clock.stopping():
                given = (linear, filled) if candidate.linear else (task, None)
                tried.append(self._try(candidate, *given, judged, seed, clock))
            if clock.stopped:
                break
        untried = [candidate.name for candidate in candidates[len(tried) :]]
        if clock.interrupted:
            holds = f"{len(tried)} of {len(candidates)} members" if tried else "the best single feature"
            problem = f"training was interrupted; the model has {holds}"
            notices = (Notice(Kind.INTERRUPTED, problem, {"finished": len(tried), "of": len(candidates)}),)
        return self._decide(judged, features, tried, (tuple(untried), left_out), notices)

    def _try(
        self,
        candidate: _Candidate,
        task: Task,
        filling: Filling | None,
        judged: HeldOutQueries,
        seed: int,
        clock: _Clock,
    ) -> _Tried:
        """Find a candidate's setting, then train with it on all data."""
        began = time.perf_counter()
        ranker = self._ranker(candidate, seed, clock, self._setting_measure(task))
        weights, data, valid = task.weights.queries, task.data, task.valid
        if judged.cut is None:
            fitted = ranker.fit_data(data, valid, weights=weights)
            scores = place_of(judged.data).scores(self._collapsed(ranker.model_, filling))
        else:
            chosen = cross_validate(ranker, data, judged.cut, weights=weights, measure=ranker.eval_measure)
            if chosen.interrupted:
                raise KeyboardInterrupt
            fitted = ranker.fit_data(data, weights=weights, choice=chosen)
            scores = chosen.scores[~np.isnan(chosen.scores)]
        if fitted.interrupted:
            raise KeyboardInterrupt
        model = self._collapsed(ranker.model_, filling)
        return _Tried(candidate.name, _setting(fitted), model, scores, time.perf_counter() - began)

    def _collapsed(self, model: Any, filling: Filling | None) -> Any:
        """A member's model over the features as they are."""
        return model if filling is None else filling.collapsed(model, self._names())

    def _setting_measure(self, task: Task) -> Measure:
        """The measure that chooses the settings of members: AP, less noisy than a measure of the first ranks.

        Where AP tells little about the labels, it is the measure that decides on the committee.
        """
        measure = self.measure_to_choose_by()
        average_precision: Any = parse_measure(f"AP(rel={getattr(measure, 'rel', 1):g})")
        rankings = Rankings(task.data.labels, task.data.indptr)
        relevant = average_precision.n_relevant(rankings)
        mixed = (relevant > 0) & (relevant < task.data.sizes)
        return average_precision if mixed.sum() * 2 >= task.useful.sum() else measure

    def _ranker(self, candidate: _Candidate, seed: int, clock: _Clock, choose_by: Measure, **changes: Any) -> Any:
        ranker = candidate.make(**candidate.settings | changes)
        shared: dict[str, Any] = {"random_state": seed, "n_jobs": self.n_jobs, "callback": clock}
        shared |= {"eval_measure": choose_by, "categorical": self.categorical, "device": self.device}
        for name, value in shared.items():
            if hasattr(ranker, name):
                setattr(ranker, name, value)
        return ranker

    def _decide(
        self,
        judged: HeldOutQueries,
        features: SingleFeatures,
        tried: list[_Tried],
        not_tried: tuple[tuple[str, ...], LeftOut | None],
        notices: tuple[Notice, ...],
    ) -> Outcome:
        names = self._names() or default_names(judged.data.n_features)
        feature = features.best_model(self._names())
        scores = np.column_stack([member.scores for member in tried]) if tried else np.zeros((judged.data.n_docs, 0))
        # One number puts each member on the common scale, so the committee is a sum, which saves, explains and ranks
        # like any model. Members weigh the same: fitted weights gained nothing that would be seen above noise.
        scales = _scales(scores, judged.data)
        held_out = HeldOut(scores / scales, features.chosen_apart(), judged.values_of, judged.weights, judged.folds)
        stay, floor, expectation = held_out.decided()
        alone = [interval_of(held_out.values((at,)), judged.weights) for at in range(len(tried))]
        members = tuple(
            MemberFacts(member.name, member.setting, alone[at], at in stay, member.seconds)
            for at, member in enumerate(tried)
        )
        self._model = feature if floor else interpolate([tried[at].model for at in stay], 1.0 / scales[list(stay)])
        self.committee_ = Committee(
            str(self.measure_to_choose_by()),
            judged.words,
            judged.data.n_queries,
            members,
            names[features.best],
            expectation,
            floor,
            *not_tried,
        )
        return Outcome(notices=notices, committee=self.committee_)

    def _without_choice(
        self,
        task: Task,
        for_linear: tuple[Task, Filling | None],
        candidates: tuple[_Candidate, ...],
        clock: _Clock,
        left_out: LeftOut | None,
    ) -> Outcome:
        """Only one query has an order, so nothing can be held out: linear members with default settings."""
        chosen = [candidate for candidate in candidates if candidate.linear] or list(candidates)
        seed, measure = seed_of(self.random_state), self.measure_to_choose_by()
        rankers = [
            self._ranker(candidate, seed, clock, measure, **({"C": 1.0} if "C" in candidate.settings else {}))
            for candidate in chosen
        ]
        models = []
        for ranker, candidate in zip(rankers, chosen, strict=True):
            given, filling = for_linear if candidate.linear else (task, None)
            ranker.fit_data(given.data, weights=task.weights.queries)
            models.append(self._collapsed(ranker.model_, filling))
        scores = np.column_stack([place_of(task.data).scores(model) for model in models])
        self._model = interpolate(models, 1.0 / _scales(scores, task.data))
        members = tuple(MemberFacts(candidate.name, "default", None, True, 0.0) for candidate in chosen)
        return self._undecided(members, left_out)

    def _undecided(self, members: tuple[MemberFacts, ...], left_out: LeftOut | None = None) -> Outcome:
        measure = str(self.measure_to_choose_by())
        self.committee_ = Committee(measure, "nothing", 0, members, None, None, False, (), left_out)
        return Outcome(committee=self.committee_)

    def _training_facts(self) -> dict[str, Any]:
        return super()._training_facts() | self.committee_.to_dict()


class _Clock:
    """Called after every step of a member: ends training when time is over, and reports progress."""

    def __init__(self, minutes: float | None, watch: Callable[[Any], Any] | None) -> None:
        self._until = None if minutes is None else time.monotonic() + 60.0 * minutes
        self._watch = watch
        self.stopped = self.interrupted = False

    def __call__(self, step: Any) -> Any:
        if self._until is not None and time.monotonic() > self._until:
            self.stopped = True
            raise KeyboardInterrupt
        return None if self._watch is None else self._watch(step)

    def fold(self, number: int, of: int, settings: Any) -> None:
        notify(self._watch, "fold", number, of, settings)

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """Let Ctrl-C, or the end of time, stop the training of a member."""
        try:
            yield
        except KeyboardInterrupt:
            self.interrupted = not self.stopped
            self.stopped = True


def _setting(fitted: Any) -> str:
    if fitted.rounds is not None:
        return f"{fitted.rounds.kept:,} {fitted.rounds.unit}"
    return f"C {fitted.C:g}"


def _why(refused: InputError, numbers: RankingData) -> str:
    """Why linear rankers cannot use the features, and what would help."""
    missing = place_of(numbers).statistics(summed=False).missing
    if not isinstance(refused, MissingValuesError):
        return refused.message
    at = int(np.argmax(missing))
    which = f"{missing[at]:,} of {numbers.n_docs:,} rows of {numbers.names[at]!r}"
    some = f"{np.count_nonzero(missing):,} of {numbers.n_features:,} features have missing values, most {which}"
    return f"{some}; --fill-missing keeps them"


def _refused(data: RankingData) -> InputError | None:
    """Why linear rankers cannot use the features; None if they can."""
    try:
        check_values(place_of(data), "the training data", allow_missing=False)
        check_size(data, "the training data", scaled=True)
    except InputError as error:
        return error
    return None


def _scales(scores: Array, data: RankingData) -> Array:
    """Standard deviation of each member's scores within queries; 1 where they are constant."""
    scales = [spread_within(column, data.indptr) for column in scores.T]
    return np.array([spread * size or 1.0 for spread, size in scales])
