"""Cross-validation over queries: what a ranker leaves open is chosen on queries that its models have not seen.

The queries are cut into folds. For every fold a path of models is trained on the others: one for each C, or for each
number of rounds. Every held-out query has a value for each of these settings, and the one with the highest mean over
all of them is chosen; the model is then trained on all queries with it.

That highest mean is too good an estimate, because it is the highest of several. `CrossValidation.value` is the honest
one: it takes for every fold the setting that is best on the other folds.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData, some_queries, stored
from rankwright.data.order import Clicked, query_chunks, rank_order
from rankwright.data.places import place_of, selected
from rankwright.errors import InputError
from rankwright.evaluation.evaluate import mean_of
from rankwright.measures import Measure, Rankings, parse_goal, parse_measure
from rankwright.rankers.parameters import seed_of
from rankwright.rankers.weights import Weights, click_weights, weigh

__all__ = ["CrossValidation", "cross_validate"]

# Folds of queries, drawn by content: they depend neither on the order of rows and queries nor on labels.


FOLDS = 5
"""Default number of folds."""
ONE_FROM = 500
"""Queries with an order to learn from which on only one of these folds is held out."""


@dataclass(frozen=True, eq=False)
class Folds:
    """Queries that are held out together.

    `of_query`: the fold in which each query is held out, from 0. -1 for queries that are in none, and always trained
    on; -2 - k for those that are trained on in fold k alone. `n_folds`: folds that the queries were cut into.
    `parameters`: those that the ranker has in each fold alone, such as a background that has not seen it.
    """

    of_query: Array
    n_folds: int
    parameters: tuple[Mapping[str, Any], ...] = ()

    @property
    def n_held_out(self) -> int:
        return int(self.of_query.max(initial=-1)) + 1

    def trained_on(self, number: int) -> Array:
        """The queries that a fold is trained on, as a mask."""
        of_query = self.of_query
        return (of_query != number) & ((of_query >= -1) | (of_query == -2 - number))

    @property
    def words(self) -> str:
        """A description, such as ``5-fold cross-validation``."""
        if self.n_held_out == self.n_folds:
            return f"{self.n_folds}-fold cross-validation"
        count = "one" if self.n_held_out == 1 else str(self.n_held_out)
        return f"cross-validation with {count} of {self.n_folds} folds"

    @classmethod
    def draw(
        cls,
        data: RankingData,
        n_folds: int | str = "auto",
        *,
        useful: Array | None = None,
        together: Array | None = None,
        seed: int = 0,
    ) -> Folds | None:
        """Draw folds, which depend neither on the order of rows and queries nor on labels; None if there is one query.

        `n_folds`: at most as many as there are useful queries. ``"auto"``: 5, of which only one is held out where there
        are 500 or more such queries. `useful`: queries with something to learn from, which are spread evenly over the
        folds, as are the others; default: those with an order. `together`: a number per query, from 0: queries of the
        same number are in the same fold, and count as one.
        """
        useful = data.has_order if useful is None else useful
        _, queries = by_content(data)
        groups = queries if together is None else together[queries]
        _, first, number = np.unique(groups, return_index=True, return_inverse=True)
        group = np.empty(data.n_queries, np.int64)  # numbered by content: a group comes where its first query does
        group[queries] = np.argsort(np.argsort(first))[number]
        able = np.zeros(len(first), bool)
        able[group[useful]] = True
        n_useful = int(able.sum())
        n_drawn = min(FOLDS if isinstance(n_folds, str) else int(n_folds), n_useful)
        if n_drawn <= 1:
            return None
        rng = np.random.default_rng([seed, n_drawn])
        drawn = np.concatenate([rng.permutation(np.flatnonzero(able)), rng.permutation(np.flatnonzero(~able))])
        of_group = np.empty(len(first), np.int64)
        of_group[drawn] = np.arange(len(first)) % n_drawn
        if n_folds == "auto" and n_useful >= ONE_FROM:
            of_group = np.where(of_group == 0, 0, -1)
        return cls(of_group[group], n_drawn)


def by_content(data: RankingData) -> tuple[Array, Array]:
    """The documents of each query and the queries, in an order given by content alone.

    That of the queries depends on labels only where all features of two queries are the same. Partition comes after
    partition, each in the order of its own content.
    """
    place = place_of(data)
    with place.made(ContentOrder) as actors:
        orders = actors.call("order")
    docs, queries = np.empty(data.n_docs, np.int64), []
    for share, (of_docs, of_queries) in zip(place.shares, orders, strict=True):
        rows = place.rows_of(share)
        docs[rows] = rows[of_docs]
        queries.append(share.chosen[of_queries])
    return docs, np.concatenate(queries)


class ContentOrder:
    """The order of some queries of a partition."""

    def __init__(self, data: RankingData, threads: int, queries: Array) -> None:
        self._data = selected(data, queries)

    def order(self) -> tuple[Array, Array]:
        from rankwright.data.hashes import content_order

        data = self._data
        if not data.n_queries:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        X, starts = stored(data)
        docs, queries = content_order(X, data.labels, data.indptr, starts=starts)
        places = np.empty(data.n_queries)
        places[queries] = np.arange(data.n_queries)
        return docs, content_order(X, np.zeros(data.n_docs), data.indptr, places, starts=starts)[1]


def places_among(docs: Array, queries: Array, data: RankingData) -> Array:
    """Documents, query after query, as positions in the data of some queries (a mask) alone."""
    rows = np.repeat(queries, data.sizes)
    return (np.cumsum(rows) - 1)[docs[rows]]


# The value of a measure on validation data or held-out queries, for choosing C, a round or an epoch.


_AT_ONCE = 1 << 17  # documents that are ranked together


def query_values(
    data: RankingData, measure: str | Measure, docs: Array | None = None, winning: Array | None = None
) -> Callable[[Array], Array]:
    """A measure of every query as a function of the scores, in the data's own order.

    As ``evaluate`` computes it, but faster: ideal orders and queries with relevant documents, which do not depend on
    the scores, are computed once. ``docs``: the documents, query after query, in the order that decides between equal
    scores where there are no ids. With ``winning``, a factor of every document for its clicks, every click is taken as
    the only relevant document of its page, and a page has the weighted mean over its clicks, 0 without any.
    """
    resolved = parse_measure(measure).resolve("letor")
    if docs is None or data.doc_ids is not None:  # in the order that ties keep
        docs = rank_order(np.zeros(data.n_docs), data.indptr, data.doc_ids)
    labels, indptr = data.labels[docs], data.indptr  # the functions below keep these, not the features
    if winning is None:
        return _values(resolved, docs, labels, indptr)
    apart = Clicked.of(labels, indptr)
    of_clicks = _values(resolved, docs[apart.rows], apart.labels, apart.indptr)
    weights = (labels * winning[docs])[apart.clicks]
    totals = np.bincount(apart.query, weights, data.n_queries)

    def values(scores: Array) -> Array:
        sums = np.bincount(apart.query, weights * of_clicks(scores), len(totals))
        return np.divide(sums, totals, out=np.zeros(len(totals)), where=totals > 0)

    return values


def _values(resolved: Measure, docs: Array, labels: Array, indptr: Array) -> Callable[[Array], Array]:
    """The measure of documents with these labels, query after query, some queries at a time."""
    parts = []
    for first, last in query_chunks(indptr, _AT_ONCE):
        rows = slice(int(indptr[first]), int(indptr[last]))
        parts.append(_some_values(resolved, docs[rows], labels[rows], indptr[first : last + 1] - rows.start))
    return lambda scores: np.concatenate([values(scores) for values in parts]) if parts else np.empty(0)


def _some_values(resolved: Measure, docs: Array, labels: Array, indptr: Array) -> Callable[[Array], Array]:
    judged = Rankings(labels, indptr)
    ideal = judged.ideal
    without = ~resolved.has_relevant(judged)

    def values(scores: Array) -> Array:
        order = rank_order(scores[docs], indptr)
        rankings = Rankings(labels[order], indptr, judged)
        vars(rankings)["ideal"] = ideal  # the cached property finds it here
        of_query = resolved.value(rankings)
        of_query[without] = 0.0
        return of_query

    return values


def validation_value(
    data: RankingData, measure: str | Measure, winning: Array | None = None
) -> Callable[[Array], float]:
    """The mean of a measure as a function of the scores, in the data's own order; with ``winning`` over clicks."""
    values = query_values(data, measure, winning=winning)
    if winning is None:
        return lambda scores: mean_of(values(scores))
    weights = click_weights(data, winning)
    total = math.fsum(weights)
    return lambda scores: math.fsum(weights * values(scores)) / total if total else math.nan


_ROUNDING = 1e-12  # of a mean
_CAUTION = 0.5  # standard errors


class Steps(Protocol):
    """A training that goes from one setting to the next: from C to C, or from round to round."""

    def step(self) -> Array | None:
        """Train for the next setting; scores of the held-out documents, or None if there is no further one."""

    def model(self, number: int) -> Any:
        """The model of a setting that was trained for, by its number from 0."""

    def close(self) -> None:
        """Shut down what training needed; models can be asked for all the same."""


class Still:
    """The path of a training that has nothing to learn from: one model whatever the setting."""

    def __init__(self, model: Any, held_out: RankingData) -> None:
        self._model, self._held_out = model, held_out

    def step(self) -> Array:
        return place_of(self._held_out).scores(self._model)

    def model(self, number: int) -> Any:
        return self._model

    def close(self) -> None: ...


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """What cross-validation found.

    Attributes
    ----------
    measure : Measure
        What was chosen by.
    folds : Folds
        The queries held out. A fold whose training was interrupted is in none.
    settings : tuple
        What was chosen from: the values of C, or the numbers of rounds.
    values : ndarray of shape (settings, queries)
        The measure of every held-out query, with the model of its fold for each setting; NaN for other queries.
    weights : ndarray
        Weights of the queries in means.
    setting : float or int
        The setting with the highest mean, the first of equal ones.
    fold_settings : tuple
        The settings of `scores`: for every fold the one that is best on all other folds; where only one is held out,
        those of its two halves, each the best on the other half.
    scores : ndarray
        Out-of-fold scores: of every held-out document, in the data's own order, by a model that was trained without its
        query, with the setting in ``fold_settings``; NaN for documents of other queries.
    query_values : ndarray
        The measure of every query by these scores; NaN for queries that are not held out.
    figures : tuple of mapping
        What else is known of each C, on average over folds: as in ``C_path_``; empty for methods without C.
    start : CrossValidation or None
        The same for the SVMmap from whose weights the ramp bound starts. A fold starts from its model with the setting
        in its ``fold_settings``; where only one is held out, with ``setting``.
    interrupted : bool
        Whether Ctrl-C ended it early.

    Notes
    -----
    No label of a query is used to train the models that score it, nor to evaluate the settings from which its own is
    chosen. What its labels do touch is the models of the *other* folds, which decide on that setting by their values.
    """

    measure: Measure
    folds: Folds
    settings: tuple[Any, ...]
    values: Array
    weights: Array
    setting: Any
    fold_settings: tuple[Any, ...]
    scores: Array
    query_values: Array
    figures: tuple[Mapping[str, float], ...] = ()
    start: CrossValidation | None = None
    interrupted: bool = False

    def to_dict(self) -> dict[str, Any]:
        """What JSON holds of it: the honest estimate, and the mean for every setting."""
        return {
            "how": self.folds.words,
            "folds": self.folds.n_folds,
            "held_out": self.folds.n_held_out,
            "queries": int((self.folds.of_query >= 0).sum()),
            "value": self.value,
            "settings": list(self.settings),
            "means": list(self.means),
        }

    @property
    def value(self) -> float:
        """The honest estimate: the mean of the measure of the out-of-fold scores."""
        return _mean(self.query_values, self.weights)

    @property
    def means(self) -> tuple[float, ...]:
        """The mean of the measure for each setting, by which the choice was made."""
        return tuple(_mean(row, self.weights) for row in self.values)


def cross_validate(
    ranker: Any,
    data: RankingData,
    folds: Folds | int | str = "auto",
    *,
    weights: Array | None = None,
    measure: str | Measure | None = None,
) -> CrossValidation:
    """Cross-validate what a ranker leaves open, without training on all data; the ranker itself stays as it is.

    ``ranker.fit_data(data, choice=found)`` then trains on all data with what was found.

    Parameters
    ----------
    ranker : Ranker
        With ``C="auto"``, or one that trains in rounds or epochs. One with a fixed C is evaluated only.
    data : RankingData
        The data.
    folds : Folds, int or "auto"
        The folds, or their number, as the rankers' ``cv``.
    weights : array-like, optional
        One weight per query: relative, 0 is absent. Means are weighted too.
    measure : str or Measure, optional
        What to choose by; default: what the ranker chooses by.
    """
    if not hasattr(ranker, "_steps"):
        raise InputError(f"{type(ranker).__name__} leaves nothing open; expected a ranker with a parameter cv")
    ranker = copy.copy(ranker)
    ranker.check_parameters()
    given = ranker._gather(data, None, None, None, reset=True)
    data, relative = weigh(given, queries=weights)
    kept = np.ones(given.n_queries, bool) if weights is None else np.asarray(weights) > 0
    if isinstance(folds, Folds):
        if len(folds.of_query) != given.n_queries:
            raise InputError(f"{given.n_queries} queries but folds of {len(folds.of_query)}; expected one per query")
        folds = replace(folds, of_query=folds.of_query[kept])
    else:
        drawn = Folds.draw(data, folds)
        if drawn is None:
            raise InputError("cross-validation holds out queries; expected at least two with an order to learn")
        folds = drawn
    result = crossed(ranker, data, relative, folds, ranker.measure_to_choose_by() if measure is None else measure)
    return result if kept.all() else _spread(result, kept, given)


def crossed(ranker: Any, data: RankingData, weights: Weights, folds: Folds, measure: str | Measure) -> CrossValidation:
    """The same for data whose weights are known, all above 0; KeyboardInterrupt if no fold was finished."""
    return _cross(ranker, data, weights, folds, parse_goal(measure))[0]


class _Fold:
    """One fold: its queries are held out from a training on all others."""

    def __init__(self, run: _Run, number: int) -> None:
        self.number = number
        self.queries = np.flatnonzero(run.folds.of_query == number)
        held_out = some_queries(run.data, self.queries)
        self.ranker = run.ranker._for_fold(run.seed)
        if run.folds.parameters:
            self.ranker.set_params(**run.folds.parameters[number])
        start = None if run.starts is None else run.starts[number]
        if start is not None:
            self.ranker.start_from(start.coef)
        task = self.ranker._task(*run.weights.of(run.folds.trained_on(number), run.data), held_out)
        of_fold = (run.folds.of_query == number, run.data)
        docs = places_among(run.docs, *of_fold)
        self._values = query_values(held_out, run.measure, docs, run.weights.winning_of(*of_fold))
        self._n_queries = run.data.n_queries
        self.steps: Steps = self.ranker._steps(task)

    def step(self) -> Array | None:
        """Train for the next setting; a value for every query of the data, NaN for those not held out."""
        scores = self.steps.step()
        if scores is None:
            return None
        values = np.full(self._n_queries, np.nan)
        values[self.queries] = self._values(scores)
        return values


@dataclass(eq=False)
class _Run:
    """All folds of one cross-validation; what is done with them."""

    ranker: Any
    data: RankingData
    weights: Weights
    folds: Folds
    measure: Measure
    seed: int
    docs: Array
    starts: list[Any] | None

    def train(self, settings: Sequence[Any]) -> tuple[list[_Fold], list[Array], bool]:
        """The folds that were finished, the values of their queries for each setting, and whether Ctrl-C ended it."""
        numbers = list(range(self.folds.n_held_out))
        together = self.ranker._folds_together
        done: list[_Fold] = []
        rows: list[Array] = []
        for batch in [numbers] if together else [[number] for number in numbers]:
            number = 0 if together else batch[0] + 1  # 0: all of them, together
            notify(getattr(self.ranker, "callback", None), "fold", number, self.folds.n_held_out, settings)
            folds, values, interrupted = self._some(batch, settings)
            if interrupted and not (together and values):  # half a path of C says nothing of the other half
                if not done:
                    raise KeyboardInterrupt
                return done, rows, True
            done += folds
            rows = [_either(*pair) for pair in zip(rows, values, strict=True)] if rows else values
            if interrupted:
                return done, rows, True
        return done, rows, False

    def _some(self, numbers: Sequence[int], settings: Sequence[Any]) -> tuple[list[_Fold], list[Array], bool]:
        """Some folds, trained together; their values when they are through, or Ctrl-C ends them."""
        folds: list[_Fold] = []
        rows: list[Array] = []
        try:
            for number in numbers:
                folds.append(_Fold(self, number))
            for row in self._rows(folds, settings):
                rows.append(row)  # kept where the next one is interrupted
        except KeyboardInterrupt:
            return folds, rows, True
        finally:
            for fold in folds:
                fold.steps.close()
        return folds, rows, False

    def _rows(self, folds: list[_Fold], settings: Sequence[Any]) -> Iterator[Array]:
        """The values of one setting after the other, until they have not risen for ``patience`` rounds."""
        began = time.perf_counter()
        best, highest = 0, -np.inf
        patience = getattr(self.ranker, "patience", None)
        for number, setting in enumerate(settings):
            values = [fold.step() for fold in folds]
            row = np.full(self.data.n_queries, np.nan)
            for of_fold in values:
                if of_fold is None:
                    return
                row = _either(row, of_fold)
            yield row
            if not self.ranker._folds_together:
                continue
            mean = _mean(row, self.weights.counted(self.data))
            if mean > highest + _ROUNDING:
                best, highest = number, mean
            stop = self.ranker._after_round(setting, mean, time.perf_counter() - began)
            if stop is True or (patience is not None and number - best >= patience):
                return


def notify(callback: Any, event: str, *details: Any) -> None:
    """Call the method of a callback for an event, such as the start of a fold, if it has one."""
    method = getattr(callback, event, None)
    if method is not None:
        method(*details)


def _cross(
    ranker: Any, data: RankingData, weights: Weights, folds: Folds, measure: Measure
) -> tuple[CrossValidation, list[Any]]:
    """The result, and the model of every fold with the setting chosen for it; None if it had nothing to learn."""
    start, starts = None, None
    starter = ranker._start_to_cross(data)
    if starter is not None:
        start, starts = _cross(starter, data, weights, folds, starter.measure_to_choose_by())
        folds = start.folds
    docs, queries = by_content(data)
    run = _Run(ranker, data, weights, folds, measure, seed_of(getattr(ranker, "random_state", 0)), docs, starts)
    settings = ranker._choices(int(ranker._useful(data).sum()))
    done, rows, interrupted = run.train(settings)
    if len(done) < folds.n_held_out:
        finished = np.isin(folds.of_query, [fold.number for fold in done])
        folds = replace(folds, of_query=np.where(finished, folds.of_query, -1))
    values, counted = np.array(rows), weights.counted(data)
    chosen = ranker._best(values, counted)
    scored = [(fold, fold.queries) for fold in done]
    if len(done) == 1:
        held_out = queries[folds.of_query[queries] >= 0]
        scored = [(done[0], np.sort(half)) for half in (held_out[::2], held_out[1::2]) if len(half)]
    scores, of_query, used = np.full(data.n_docs, np.nan), np.full(data.n_queries, np.nan), []
    for fold, held_out in scored:
        others = (folds.of_query >= 0) & ~np.isin(np.arange(data.n_queries), held_out)
        number = ranker._best(values[:, others], counted[others]) if counted[others].any() else chosen
        used.append(number)
        some = some_queries(data, held_out)
        scores[np.isin(data.query_of_row(), held_out)] = place_of(some).scores(fold.steps.model(number))
    of_query[folds.of_query >= 0] = _values_of(data, weights, folds, measure, docs, scores)
    models = [
        None if isinstance(fold.steps, Still) else fold.steps.model(chosen if len(done) == 1 else number)
        for fold, number in zip(done, used, strict=False)
    ]
    result = CrossValidation(
        measure,
        folds,
        tuple(settings[: len(values)]),
        values,
        counted,
        settings[chosen],
        tuple(settings[number] for number in used),
        scores,
        of_query,
        _figures(done, settings),
        start,
        interrupted or (start is not None and start.interrupted),
    )
    return result, models


def _values_of(
    data: RankingData, weights: Weights, folds: Folds, measure: Measure, docs: Array, scores: Array
) -> Array:
    held_out = folds.of_query >= 0
    if held_out.all():
        return query_values(data, measure, docs, weights.winning)(scores)
    winning, places = weights.winning_of(held_out, data), places_among(docs, held_out, data)
    values = query_values(some_queries(data, held_out), measure, places, winning)
    return values(scores[np.repeat(held_out, data.sizes)])


def _figures(folds: Sequence[_Fold], settings: Sequence[Any]) -> tuple[dict[str, float], ...]:
    figures = [fold.steps.figures for fold in folds if hasattr(fold.steps, "figures")]
    return tuple(
        {"C": C} | {name: math.fsum(row[name] for row in rows) / len(rows) for name in rows[0]}
        for C, *rows in zip(settings, *figures, strict=True)
        if rows
    )


def best_setting(values: Array, weights: Array) -> int:
    """The setting with the highest mean, the first of equal ones."""
    best, highest = 0, -np.inf
    for number, row in enumerate(values):
        mean = _mean(row, weights)
        if mean > highest + _ROUNDING:
            best, highest = number, mean
    return best


def best_beyond_first(values: Array, weights: Array | None = None) -> int:
    """The setting whose mean exceeds that of the first by most, less half the standard error of the difference.

    With few queries a gain has to be clear; the first setting is the one that needs no proof. `values`: one row for
    each setting, one column for each query.
    """
    known = ~np.isnan(values).any(axis=0)
    weights = np.ones(values.shape[1]) if weights is None else weights
    weights = weights[known] / max(math.fsum(weights[known]), 1e-300)
    best, highest = 0, _ROUNDING
    for number, row in enumerate(values[:, known] - values[0, known]):
        mean = math.fsum(weights * row)
        error = math.sqrt(math.fsum((weights * (row - mean)) ** 2))
        if mean - _CAUTION * error > highest:
            best, highest = number, mean - _CAUTION * error
    return best


def _mean(values: Array, weights: Array) -> float:
    """The weighted mean of the values that are not NaN; it does not depend on the order of queries."""
    counted = ~np.isnan(values)
    if not counted.any():
        return float("nan")
    return math.fsum(values[counted] * weights[counted]) / math.fsum(weights[counted])


def _either(first: Array, other: Array) -> Array:
    """Values of which only one is a number."""
    return np.where(np.isnan(first), other, first)


def _spread(result: CrossValidation, kept: Array, data: RankingData) -> CrossValidation:
    """The result for queries of weights above 0, spread over all queries."""

    def wide(values: Array, kept: Array, empty: float) -> Array:
        spread = np.full((*values.shape[:-1], len(kept)), empty, values.dtype)
        spread[..., kept] = values
        return spread

    return replace(
        result,
        folds=replace(result.folds, of_query=wide(result.folds.of_query, kept, -1)),
        values=wide(result.values, kept, np.nan),
        weights=wide(result.weights, kept, 0.0),
        scores=wide(result.scores, np.repeat(kept, data.sizes), np.nan),
        query_values=wide(result.query_values, kept, np.nan),
    )
