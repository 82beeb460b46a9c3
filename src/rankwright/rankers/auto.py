"""AutoRanker: a committee of linear rankers and trees, chosen, put on one scale and checked by cross-validation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.data.matching import default_names
from rankwright.errors import InputError
from rankwright.measures import Measure, Rankings, parse_measure
from rankwright.models.linear import LinearModel
from rankwright.models.scoring import scores_of
from rankwright.models.sum import interpolate
from rankwright.rankers.background import spread_within
from rankwright.rankers.base import Ranker, Task
from rankwright.rankers.committee import Committee, HeldOut, MemberFacts, interval_of
from rankwright.rankers.cross_validation import cross_validate
from rankwright.rankers.facts import Kind, Notice, Outcome
from rankwright.rankers.folds import by_content
from rankwright.rankers.inputs import check_size, check_values
from rankwright.rankers.judged import Judged, SingleFeatures
from rankwright.rankers.lambda_mart import LambdaMART
from rankwright.rankers.lambda_rank import LambdaRank
from rankwright.rankers.max_margin import StructuredSVM
from rankwright.rankers.parameters import (
    DEVICE,
    FEATURES,
    FLAG,
    FUNCTION,
    MEASURE,
    NONE,
    POSITIVE,
    SEED,
    THREADS,
    Rule,
    is_list,
    one_of,
    parameter,
    places_of,
    seed_of,
    whole,
)
from rankwright.rankers.ranking_svm import RankingSVM
from rankwright.rankers.validation import query_values

__all__ = ["AutoRanker"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class _Candidate:
    """A ranker that may become a member."""

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

_NAMES = tuple(one.name for one in CANDIDATES)
_MEMBERS = Rule(f"names from {', '.join(_NAMES)}", lambda value: is_list(value) and all(one in _NAMES for one in value))


@dataclass(eq=False)
class _Tried:
    """A candidate that was trained."""

    name: str
    setting: str
    model: Any
    scores: Array  # of the held-out documents
    seconds: float


@dataclass(eq=False, repr=False)
class AutoRanker(Ranker):
    """The ranker to take without knowing the others: a committee of linear rankers and trees.

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
    explainable: bool = parameter(False, FLAG)
    minutes: float | None = parameter(None, POSITIVE, NONE)
    categorical: Sequence[str | int] | None = parameter(None, FEATURES, NONE)
    cv: int | str = parameter("auto", whole(2), one_of("auto"))
    eval_measure: str | Measure | None = parameter(None, MEASURE, NONE)
    random_state: Any = parameter(0, SEED, NONE)
    n_jobs: int | None = parameter(None, THREADS, NONE)
    device: str = parameter("cpu", DEVICE)
    callback: Callable[[Any], Any] | None = parameter(None, FUNCTION, NONE)

    def method_name(self) -> str:
        """The name of the method, as `rankwright train --method` has it."""
        return "auto"

    def _candidates(self, data: RankingData) -> tuple[_Candidate, ...]:
        """What can be trained on the data."""
        wanted = [one for one in CANDIDATES if self.members is None or one.name in self.members]
        found = [one for one in wanted if one.linear or not self.explainable]
        if not found:
            raise InputError(
                "members names no linear ranker, and explainable keeps to linear ones; expected one of them"
            )
        refused = _refused(self._numbers(data))
        if refused and all(one.linear for one in found):
            raise refused
        return tuple(one for one in found if not (refused and one.linear))

    def _check_data(self, data: RankingData, valid: RankingData | None) -> None:
        if valid is not None and self.cv != "auto":
            raise InputError("cv chooses by cross-validation, eval_set by validation data; expected one of the two")

    def _categories(self, data: RankingData) -> list[int]:
        """The columns of categories."""
        return [*data.categories, *places_of(self.categorical or (), data.names, "categorical")]

    def _numbers(self, data: RankingData) -> RankingData:
        """The data for linear members: 0 in the columns of categories."""
        return data.without_categories(self._categories(data))

    def _learn_nothing(self, task: Task) -> Outcome:
        self._model = LinearModel(np.zeros(task.data.n_features), self._names())
        self.committee_ = Committee(str(self.measure_to_choose_by()), "nothing", 0, (), None, None, False, ())
        return Outcome(committee=self.committee_)

    def _train(self, task: Task) -> Outcome:
        seed = seed_of(self.random_state)
        judged = Judged.of(task, self.cv, seed)
        clock = _Clock(self.minutes, self.callback)
        candidates = self._candidates(task.data)
        if judged is None:
            return self._without_choice(task, candidates, clock)
        values_of = query_values(judged.data, self.measure_to_choose_by(), by_content(judged.data)[0])
        features = SingleFeatures.of(judged, values_of, self._categories(task.data))
        tried: list[_Tried] = []
        notices: tuple[Notice, ...] = ()
        for number, candidate in enumerate(candidates, 1):
            clock.tell(candidate.name, number, len(candidates))
            with clock.stopping():
                tried.append(self._try(candidate, task, judged, seed, clock))
            if clock.stopped:
                break
        left = [one.name for one in candidates[len(tried) :]]
        if clock.interrupted:
            holds = f"{len(tried)} of {len(candidates)} members" if tried else "the best single feature"
            what = f"training was interrupted; the model has {holds}"
            notices = (Notice(Kind.INTERRUPTED, what, {"finished": len(tried), "of": len(candidates)}),)
        return self._decide(judged, values_of, features, tried, left, notices)

    def _try(self, candidate: _Candidate, task: Task, judged: Judged, seed: int, clock: _Clock) -> _Tried:
        """Train one candidate: find its setting, then train with it on all data."""
        began = time.perf_counter()
        ranker = self._ranker(candidate, seed, clock, self._setting_measure(task))
        weights, data, valid = task.weights.queries, task.data, task.valid
        if candidate.linear:
            data, valid = self._numbers(data), None if valid is None else self._numbers(valid)
        if judged.cut is None:
            fitted = ranker.fit_data(data, valid, weights=weights)
            scores = scores_of(ranker.model_, judged.data)
        else:
            found = cross_validate(ranker, data, judged.cut, weights=weights, measure=ranker.eval_measure)
            if found.interrupted:
                raise KeyboardInterrupt
            fitted = ranker.fit_data(data, weights=weights, choice=found)
            scores = found.scores[~np.isnan(found.scores)]
        if fitted.interrupted:
            raise KeyboardInterrupt
        return _Tried(candidate.name, _setting(fitted), ranker.model_, scores, time.perf_counter() - began)

    def _setting_measure(self, task: Task) -> Measure:
        """What the settings of members are chosen by: AP, which is less noisy than a measure of the first ranks.

        Unless labels are such that AP sees little: then the measure that decides on the committee.
        """
        measure = self.measure_to_choose_by()
        average_precision: Any = parse_measure(f"AP(rel={getattr(measure, 'rel', 1):g})")
        known = Rankings(task.data.labels, task.data.indptr)
        relevant = average_precision.n_relevant(known)
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
        judged: Judged,
        values_of: Callable[[Array], Array],
        features: SingleFeatures,
        tried: list[_Tried],
        left: list[str],
        notices: tuple[Notice, ...],
    ) -> Outcome:
        """Who stays, the model, and what to expect of it."""
        names = self._names() or default_names(judged.data.n_features)
        feature = LinearModel(np.eye(1, judged.data.n_features, features.best)[0], self._names())
        scores = np.column_stack([one.scores for one in tried]) if tried else np.zeros((judged.data.n_docs, 0))
        scales = _scales(scores, judged.data)
        held_out = HeldOut(scores / scales, features.chosen_apart(judged), values_of, judged.weights, judged.folds)
        stay = held_out.stay()
        floor = held_out.is_below_feature(stay)
        members = tuple(
            MemberFacts(
                one.name, one.setting, interval_of(held_out.values((at,)), judged.weights), at in stay, one.seconds
            )
            for at, one in enumerate(tried)
        )
        self._model = feature if floor else interpolate([tried[at].model for at in stay], 1.0 / scales[list(stay)])
        self.committee_ = Committee(
            str(self.measure_to_choose_by()),
            judged.words,
            judged.data.n_queries,
            members,
            names[features.best],
            held_out.expectation(),
            floor,
            tuple(left),
        )
        return Outcome(notices=notices, committee=self.committee_)

    def _without_choice(self, task: Task, candidates: tuple[_Candidate, ...], clock: _Clock) -> Outcome:
        """One query has an order: nothing can be held out, and linear members with their default settings must do."""
        some = [one for one in candidates if one.linear] or list(candidates)
        seed, measure = seed_of(self.random_state), self.measure_to_choose_by()
        rankers = [
            self._ranker(one, seed, clock, measure, **({"C": 1.0} if "C" in one.settings else {})) for one in some
        ]
        for ranker, one in zip(rankers, some, strict=True):
            data = self._numbers(task.data) if one.linear else task.data
            ranker.fit_data(data, weights=task.weights.queries)
        models = [ranker.model_ for ranker in rankers]
        scores = np.column_stack([scores_of(model, task.data) for model in models])
        self._model = interpolate(models, 1.0 / _scales(scores, task.data))
        members = tuple(MemberFacts(one.name, "default", None, True, 0.0) for one in some)
        self.committee_ = Committee(str(self.measure_to_choose_by()), "nothing", 0, members, None, None, False, ())
        return Outcome(committee=self.committee_)

    def _training_facts(self) -> dict[str, Any]:
        return super()._training_facts() | self.committee_.to_dict()


class _Clock:
    """Called after every step of a member: ends training when time is over, and tells whoever watches."""

    def __init__(self, minutes: float | None, watch: Callable[[Any], Any] | None) -> None:
        self._until = None if minutes is None else time.monotonic() + 60.0 * minutes
        self._watch = watch
        self.stopped = self.interrupted = False

    def __call__(self, step: Any) -> Any:
        """Tell of a step; KeyboardInterrupt when time is over."""
        if self._until is not None and time.monotonic() > self._until:
            self.stopped = True
            raise KeyboardInterrupt
        return None if self._watch is None else self._watch(step)

    def fold(self, number: int, of: int, settings: Any) -> None:
        """Tell which fold comes next."""
        tell = getattr(self._watch, "fold", None)
        if tell is not None:
            tell(number, of, settings)

    def tell(self, name: str, number: int, of: int) -> None:
        """Tell which member comes next."""
        tell = getattr(self._watch, "member", None)
        if tell is not None:
            tell(name, number, of)

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """Let Ctrl-C, or the end of time, stop the training of a member."""
        try:
            yield
        except KeyboardInterrupt:
            self.interrupted = not self.stopped
            self.stopped = True


def _setting(fitted: Any) -> str:
    """What was chosen for a member, in words."""
    if fitted.rounds is not None:
        return f"{fitted.rounds.kept:,} {fitted.rounds.unit}"
    return f"C {fitted.C:g}"


def _refused(data: RankingData) -> InputError | None:
    """Why linear rankers cannot compute with the features; None if they can."""
    try:
        check_values(data, "the training data", allow_missing=False)
        check_size(data, "the training data", scaled=True)
    except InputError as error:
        return error
    return None


def _scales(scores: Array, data: RankingData) -> Array:
    """Standard deviation of each member's scores within queries; 1 where they are constant."""
    found = [spread_within(column, data.indptr) for column in scores.T]
    return np.array([spread * size or 1.0 for spread, size in found])
