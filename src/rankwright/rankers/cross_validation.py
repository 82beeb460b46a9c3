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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.data.parts import some_queries
from rankwright.data.places import place_of
from rankwright.errors import InputError
from rankwright.measures import Measure, parse_goal
from rankwright.rankers.folds import Folds, by_content, places_among
from rankwright.rankers.parameters import seed_of
from rankwright.rankers.validation import query_values
from rankwright.rankers.weights import Weights, weigh

__all__ = ["CrossValidation", "Steps", "Still", "cross_validate", "crossed"]

Array = npt.NDArray[Any]
_ROUNDING = 1e-12  # of a mean


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
        """Scores of the held-out documents."""
        return place_of(self._held_out).scores(self._model)

    def model(self, number: int) -> Any:
        """The model."""
        return self._model

    def close(self) -> None:
        """Nothing to shut down."""


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
    weights: Any = None,
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
    found = crossed(ranker, data, relative, folds, ranker.measure_to_choose_by() if measure is None else measure)
    return found if kept.all() else _spread(found, kept, given)


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
        if run.folds.own:
            self.ranker.set_params(**run.folds.own[number])
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
            self._tell(0 if together else batch[0] + 1, settings)
            folds, found, interrupted = self._some(batch, settings)
            if interrupted and not (together and found):  # half a path of C says nothing of the other half
                if not done:
                    raise KeyboardInterrupt
                return done, rows, True
            done += folds
            rows = [_either(*pair) for pair in zip(rows, found, strict=True)] if rows else found
            if interrupted:
                return done, rows, True
        return done, rows, False

    def _some(self, numbers: Sequence[int], settings: Sequence[Any]) -> tuple[list[_Fold], list[Array], bool]:
        """Some folds, trained together; what they have found when they are through, or Ctrl-C ends them."""
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
            found = [fold.step() for fold in folds]
            row = np.full(self.data.n_queries, np.nan)
            for one in found:
                if one is None:
                    return
                row = _either(row, one)
            yield row
            if not self.ranker._folds_together:
                continue
            mean = _mean(row, self.weights.counted(self.data))
            if mean > highest + _ROUNDING:
                best, highest = number, mean
            stop = self.ranker._after_round(setting, mean, time.perf_counter() - began)
            if stop is True or (patience is not None and number - best >= patience):
                return

    def _tell(self, number: int, settings: Sequence[Any]) -> None:
        """Tell a callback that wants to know which fold comes next; 0: all of them, together."""
        tell = getattr(getattr(self.ranker, "callback", None), "fold", None)
        if tell is not None:
            tell(number, self.folds.n_held_out, settings)


def _cross(
    ranker: Any, data: RankingData, weights: Weights, folds: Folds, measure: Measure
) -> tuple[CrossValidation, list[Any]]:
    """What was found, and the model of every fold with the setting chosen for it; None if it had nothing to learn."""
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
    chosen = _best(values, counted)
    parts = [(fold, fold.queries) for fold in done]
    if len(done) == 1:
        held_out = queries[folds.of_query[queries] >= 0]
        parts = [(done[0], np.sort(half)) for half in (held_out[::2], held_out[1::2]) if len(half)]
    scores, of_query, used = np.full(data.n_docs, np.nan), np.full(data.n_queries, np.nan), []
    for fold, part in parts:
        others = (folds.of_query >= 0) & ~np.isin(np.arange(data.n_queries), part)
        number = _best(values[:, others], counted[others]) if counted[others].any() else chosen
        used.append(number)
        some = some_queries(data, part)
        scores[np.isin(data.query_of_row(), part)] = place_of(some).scores(fold.steps.model(number))
    of_query[folds.of_query >= 0] = _values_of(data, weights, folds, measure, docs, scores)
    models = [
        None if isinstance(fold.steps, Still) else fold.steps.model(chosen if len(done) == 1 else number)
        for fold, number in zip(done, used, strict=False)
    ]
    found = CrossValidation(
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
    return found, models


def _values_of(
    data: RankingData, weights: Weights, folds: Folds, measure: Measure, docs: Array, scores: Array
) -> Array:
    """The measure of every held-out query."""
    held_out = folds.of_query >= 0
    if held_out.all():
        return query_values(data, measure, docs, weights.winning)(scores)
    own, places = weights.winning_of(held_out, data), places_among(docs, held_out, data)
    values = query_values(some_queries(data, held_out), measure, places, own)
    return values(scores[np.repeat(held_out, data.sizes)])


def _figures(folds: Sequence[_Fold], settings: Sequence[Any]) -> tuple[dict[str, float], ...]:
    """The figures of every C, on average over folds."""
    known = [fold.steps.figures for fold in folds if hasattr(fold.steps, "figures")]
    return tuple(
        {"C": C} | {name: math.fsum(row[name] for row in rows) / len(rows) for name in rows[0]}
        for C, *rows in zip(settings, *known, strict=True)
        if rows
    )


def _best(values: Array, weights: Array) -> int:
    """The setting with the highest mean, the first of equal ones."""
    best, highest = 0, -np.inf
    for number, row in enumerate(values):
        mean = _mean(row, weights)
        if mean > highest + _ROUNDING:
            best, highest = number, mean
    return best


def _mean(values: Array, weights: Array) -> float:
    """The weighted mean of the values that are not NaN; it does not depend on the order of queries."""
    counted = ~np.isnan(values)
    if not counted.any():
        return float("nan")
    return math.fsum(values[counted] * weights[counted]) / math.fsum(weights[counted])


def _either(one: Array, other: Array) -> Array:
    """Values of which only one is a number."""
    return np.where(np.isnan(one), other, one)


def _spread(found: CrossValidation, kept: Array, data: RankingData) -> CrossValidation:
    """What was found for the queries of weights above 0, for all queries."""

    def wide(values: Array, kept: Array, empty: Any) -> Array:
        spread = np.full((*values.shape[:-1], len(kept)), empty, values.dtype)
        spread[..., kept] = values
        return spread

    return replace(
        found,
        folds=replace(found.folds, of_query=wide(found.folds.of_query, kept, -1)),
        values=wide(found.values, kept, np.nan),
        weights=wide(found.weights, kept, 0.0),
        scores=wide(found.scores, np.repeat(kept, data.sizes), np.nan),
        query_values=wide(found.query_values, kept, np.nan),
    )
