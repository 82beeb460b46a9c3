"""One training: a method, its settings and data in; a model and typed facts out.

A `Plan` is all that is decided before there is data, checked; `Plan.train` is the training of every command, experiment
and adaptation. Errors about the data name the part that is wrong where a file name would be: ``training data``,
``validation data``, ``starting model``.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData
from rankwright.data.display import Displayed, Tabled, cell
from rankwright.errors import InputError
from rankwright.evaluation.evaluate import Evaluation, evaluate
from rankwright.measures import Measure, parse_goal
from rankwright.models.linear import BinnedModel, LinearModel
from rankwright.rankers.cross_validation import validation_value
from rankwright.rankers.facts import Fitted, Kind, Notice, shared_notices
from rankwright.rankers.inputs import JUDGED, Clicks
from rankwright.rankers.parameters import check_value, hint
from rankwright.training.methods import BINS, Method, parse_method

if TYPE_CHECKING:
    from rankwright.maxmargin.bins import ThresholdBins
    from rankwright.rankers.cross_validation import CrossValidation, Folds

__all__ = ["Trained", "train"]

TRAINING, VALIDATION, STARTING_MODEL = "training data", "validation data", "starting model"
_FROM_0_TO_1 = ("minmax", "percentile")  # scalings whose values are


@dataclass(frozen=True, eq=False, repr=False)
class Trained(Displayed):
    """A trained model, and what is known of its training.

    Attributes
    ----------
    method : str
        What was trained, cutoff included.
    measure : Measure
        What was chosen by, and what the evaluations are of.
    model : Model
        Scores the features of the training data, threshold bins included.
    ranker : Ranker
        The fitted estimator.
    facts : Fitted
        What was chosen, the certificate, the rounds, notices, and whether training was interrupted.
    parts : dict of RankingData
        The ``training`` data, and the ``validation`` data if there is some.
    clicks : Clicks
        The weights of clicks, where labels are.
    """

    method: str
    measure: Measure
    model: Any
    ranker: Any
    facts: Fitted
    parts: Mapping[str, RankingData]
    clicks: Clicks = JUDGED

    @cached_property
    def evaluations(self) -> dict[str, Evaluation]:
        """The measure on every part; evaluated once, when first asked for."""
        return {
            part: evaluate(data, self.model.predict(data), measures=[self.measure]) for part, data in self.parts.items()
        }

    @property
    def values(self) -> dict[str, float]:
        """Mean of the measure on every part, and the estimate of cross-validation under ``cross-validated``."""
        crossed, committee = self.facts.cross_validation, self.facts.committee
        crossed_values = {} if crossed is None else {"cross-validated": crossed.value}
        if committee is not None and committee.expectation is not None and "validation" not in self.parts:
            crossed_values = {"cross-validated": committee.expectation.value.value}
        weights = self.clicks.of_parts(self.parts)
        return crossed_values | {
            part: evaluation.means[str(self.measure)] if weights[part] is None else self._of_clicks(part, weights[part])
            for part, evaluation in self.evaluations.items()
        }

    def _of_clicks(self, part: str, weights: Array | None) -> float:
        """The measure of a part whose labels are clicks."""
        data = self.parts[part]
        scores = self.model.predict(data)
        return validation_value(data, self.measure, weights)(scores if data.rows is None else scores[data.rows])

    def _shown_table(self) -> Tabled:
        table = self.ranker._shown_table()
        values = tuple((f"{self.measure}, {part}", cell(value)) for part, value in self.values.items())
        return dataclasses.replace(table, title=f"trained {self.method}", rows=table.rows + values)

    def _drawing(self) -> Any:
        return self.ranker._drawing()

    def __repr__(self) -> str:
        return f"Trained({self.method}: {self.model!r})"

    def save(self, path: str | Path) -> None:
        """Write the model to one file, with the values of the measure."""
        measures = {f"{part} {self.measure}": value for part, value in self.values.items()}
        self.ranker.save(path, measures=measures, model=self.model)


@dataclass(frozen=True, eq=False)
class Plan:
    """What to train; everything in it is checked.

    `method`: by name. `ranker`: the estimator, not fitted. `measure`: what is chosen by on validation data, and
    reported. `bins`: threshold bins per feature.
    """

    method: Method
    ranker: Any
    measure: Measure
    bins: int | None = None

    @property
    def costs(self) -> tuple[float, ...]:
        """The C of every fit, in order; none for methods without C, or where λ decides."""
        ranker = self.ranker
        if not hasattr(ranker, "C") or getattr(ranker, "lam", None) is not None:
            return ()
        return tuple(ranker.costs())

    def train(
        self,
        data: RankingData,
        valid: RankingData | None = None,
        *,
        start: Any = None,
        callback: Callable[[Any], Any] | None = None,
        choice: CrossValidation | None = None,
        clicks: Clicks = JUDGED,
    ) -> Trained:
        """Train.

        `data`, `valid`: to train on, and to choose by. `choice`: what :meth:`cross_validate` found, to be trained for.
        `start`: a linear model of the same features to continue from. `callback`: called after every pass or round;
        methods without any ignore it. `clicks`: the weights of clicks, where labels are.
        """
        with about(TRAINING):
            self.measure.resolve("letor").check_labels(data.labels)
        if valid is not None:
            with about(VALIDATION):
                valid = valid.matched_to(data.n_features, data.feature_names)
                self.measure.resolve("letor").check_labels(valid.labels)
        ranker = copy.copy(self.ranker)
        if start is not None:
            with about(STARTING_MODEL):
                self._start(ranker, start, data)
        if callback is not None and hasattr(ranker, "callback"):
            ranker.callback = callback
        if self.bins is None:
            facts = ranker.fit_data(data, valid, choice=choice, clicks=clicks)
            model = ranker.model_
        else:
            facts, model = _fit_bins(ranker, self.bins, (data, valid), choice, clicks)
        if hasattr(ranker, "callback"):
            ranker.callback = None
        parts = {"training": data} | ({} if valid is None else {"validation": valid})
        return Trained(ranker.method_name(), self.measure, model, ranker, facts, parts, clicks)

    def cross_validate(self, data: RankingData, folds: Folds) -> CrossValidation:
        """Cross-validate what is left open, without training on all data; bins are those of all data."""
        from rankwright.rankers.cross_validation import cross_validate

        self.measure.resolve("letor").check_labels(data.labels)
        ranker = copy.copy(self.ranker)
        if self.bins is not None:
            _, _, data, _ = _binned(ranker, self.bins, data, None)
        return cross_validate(ranker, data, folds)

    def _start(self, ranker: Any, start: Any, data: RankingData) -> None:
        if not hasattr(ranker, "warm_start") or self.bins is not None:
            cause = self.method.name if self.bins is None else "bins"
            raise InputError(f"{cause} cannot continue from a model; expected a max-margin method on raw features")
        ranker.start_from(_weights(getattr(start, "model", start), data))


def plan(
    method: str | Method,
    settings: Mapping[str, Any] | None = None,
    *,
    measure: str | Measure | None = None,
    validated: bool = False,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Plan:
    """Decide what to train, and check it.

    `method`: such as ``"svm-map"`` or ``"lambdamart"``. `settings`: parameters of the method by name, see
    :meth:`Method.defaults`. `measure`: what to choose by on validation data, and to report; by default what the
    estimator chooses by. `validated`: whether there is validation data: C is then chosen on it, unless C or λ is among
    the settings; and so it is by cross-validation where ``cv`` is. `random_state`: random seed, for methods that draw
    anything. `n_jobs`: number of threads, -1 for all cores; the model does not depend on it.
    """
    if isinstance(method, str):
        method = parse_method(method)
    defaults = method.defaults()
    parameters = dict(settings or {})
    unknown = [name for name in parameters if name not in defaults]
    if unknown:
        meant = hint(unknown[0], defaults) or f"expected one of {', '.join(sorted(defaults))}"
        raise InputError(f"{method.name} has no parameter {unknown[0]!r}; {meant}")
    bins = parameters.pop("bins", None)
    check_value("bins", bins, BINS.rules)
    losses = parameters.get("losses", defaults.get("losses"))
    if "losses" in defaults and not (isinstance(losses, list | tuple) and len(losses) > 1):
        raise InputError(f"{method.name} trains for several losses at once; expected losses such as map and mrr@10")
    shared: dict[str, Any] = {"n_jobs": n_jobs, "random_state": random_state}
    if measure is not None:
        shared["eval_measure"] = parse_goal(measure)
    crossed = parameters.get("cv") is not None
    if crossed and validated:
        raise InputError("cv chooses by cross-validation, but there is validation data; expected one of the two")
    if (crossed or validated) and parameters.get("lam") is None:
        shared["C"] = "auto"
    if "measure" in defaults:
        parameters["measure"] = parse_goal(parameters.get("measure", defaults["measure"]))
    ranker = method.make(**{name: value for name, value in shared.items() if name in defaults} | parameters)
    ranker.check_parameters()
    ranker.eval_measure = ranker.measure_to_choose_by()
    return Plan(method, ranker, ranker.eval_measure, bins)


def train(
    method: str | Method,
    data: RankingData,
    valid: RankingData | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    measure: str | Measure | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    start: Any = None,
    callback: Callable[[Any], Any] | None = None,
) -> Trained:
    """Train a method by name; see :func:`plan` and :meth:`Plan.train` for the parameters.

    Examples
    --------
    >>> data = RankingData.from_arrays([[1.0], [0.0], [3.0], [2.0]], [1, 0, 2, 0], ["a", "a", "b", "b"])
    >>> trained = train("svm-map", data, settings={"C": 10})
    >>> trained.values, trained.facts.certificate.reached
    ({'training': 1.0}, True)
    """
    decided = plan(
        method, settings, measure=measure, validated=valid is not None, random_state=random_state, n_jobs=n_jobs
    )
    notices: tuple[Notice, ...] = ()
    if valid is not None:
        valid, notices = held_out(data, valid)
    trained = decided.train(data, valid, start=start, callback=callback)
    return dataclasses.replace(
        trained, facts=dataclasses.replace(trained.facts, notices=notices + trained.facts.notices)
    )


def held_out(data: RankingData, valid: RankingData) -> tuple[RankingData, tuple[Notice, ...]]:
    """Validation data with the columns of the training data, and what the user should know of the two.

    Text leaves out features that are 0, so validation data without names may lack the last columns.
    """
    with about(VALIDATION):
        matched = valid.matched_to(data.n_features, data.feature_names)
    notices = shared_notices(data, matched)
    if valid.n_features < data.n_features:
        text = f"the validation data has {valid.n_features:,} of the training data's {data.n_features:,} features"
        values = {"validation": valid.n_features, "features": data.n_features}
        notices += (Notice(Kind.OTHER_FEATURES, f"{text}; the others count as 0, as text leaves zeros out", values),)
    return matched, notices


def _fit_bins(
    ranker: Any,
    n_bins: int,
    parts: tuple[RankingData, RankingData | None],
    choice: CrossValidation | None,
    clicks: Clicks,
) -> tuple[Fitted, BinnedModel]:
    """Train over threshold bins; what happened, and the model over the raw features."""
    bins, scaling, data, valid = _binned(ranker, n_bins, *parts)
    facts = ranker.fit_data(data, valid, choice=choice, clicks=clicks)
    model = bins.collapse(ranker.model_, scaling)
    if scaling is not None:
        ranker.query_scaling = ranker.query_scaling_ = scaling  # of the method
    return facts, model


def _binned(
    ranker: Any, n_bins: int, data: RankingData, valid: RankingData | None
) -> tuple[ThresholdBins, str | None, RankingData, RankingData | None]:
    """The bins, what features are scaled by first, and the data in bins.

    A ranker that scales features within queries scales them first: SVMacc3 and SVMacc4 have their thresholds evenly
    spaced between 0 and 1 (SIGIR'07).
    """
    from rankwright.data.scaling import QueryScaler
    from rankwright.maxmargin.bins import ThresholdBins

    scaling = getattr(ranker, "query_scaling", None)
    if scaling is not None:
        scaler = QueryScaler(scaling)
        data, valid = scaler.transform(data), None if valid is None else scaler.transform(valid)
        ranker.query_scaling = None  # of the 0/1 features
    bins = ThresholdBins(n_bins, "unit" if scaling in _FROM_0_TO_1 else "even").fit(data)
    return bins, scaling, bins.transform_data(data), None if valid is None else bins.transform_data(valid)


def _weights(model: Any, data: RankingData) -> Array:
    """The weights of a linear model, in the order of the data's features."""
    if not isinstance(model, LinearModel) or model.missing is not None:
        raise InputError("not a linear model over these features alone; expected one to continue from")
    names = data.feature_names
    if model.feature_names is not None and names is not None and model.feature_names != names:
        weights = dict(zip(model.feature_names, model.coef.tolist(), strict=True))
        if weights.keys() != set(names):
            raise InputError("was trained on features of other names; expected those of the training data")
        return np.array([weights[name] for name in names])
    if model.n_features != data.n_features:
        counts = f"{model.n_features:,} features, but the training data has {data.n_features:,}"
        raise InputError(f"has {counts}; expected a model of the same features")
    return model.coef


@contextmanager
def about(part: str) -> Iterator[None]:
    """Name the part that an error is about."""
    try:
        yield
    except InputError as error:
        raise InputError(error.message, part) from None
