"""scikit-learn's interface of an estimator, without importing scikit-learn, which takes as long as a small training.

Parameters are read and set here. Tags are made when scikit-learn asks for them, and whatever else it expects of an
estimator (routing of metadata, display in notebooks) is its own code, borrowed once it is imported.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import sys
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.data.display import Displayed, Tabled, cell, look, new_figure, shown
from rankwright.errors import InputError
from rankwright.rankers.parameters import hint

_LONGEST = 60  # of a value
_SHOWN = 700  # characters of a printed estimator


class NamedFeatures:
    """The number and the names of the features, as scikit-learn keeps them."""

    def _names(self) -> tuple[str, ...] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(map(str, names))

    def _keep_names(self, data: RankingData) -> None:
        self.n_features_in_ = data.n_features
        if data.feature_names is not None:
            self.feature_names_in_ = np.array(data.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_


class Estimator(NamedFeatures, Displayed):
    """Base of a dataclass of parameters that scikit-learn may clone, search over and put into a pipeline.

    Printed, an estimator is the call that makes it, as in scikit-learn; its table has what is known of the training.
    """

    def __new__(cls, *_: Any, **params: Any) -> Self:
        """An estimator without parameters yet; unknown ones are an error that names them as they are called here."""
        names = cls._get_param_names()
        unknown = next((name for name in params if name not in names), None)
        if unknown is not None:
            advice = hint(unknown, names) or f"expected one of {', '.join(names)}"
            raise TypeError(f"{cls.__name__} has no parameter {unknown!r}; {advice}")
        return super().__new__(cls)

    @classmethod
    def _get_param_names(cls) -> list[str]:
        fields: Any = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
        return sorted(field.name for field in fields if field.init)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; ``deep``: also those of parameters that are estimators, as ``name__parameter``."""
        values: dict[str, Any] = {}
        for name in self._get_param_names():
            value = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                values |= {f"{name}__{inner}": of_inner for inner, of_inner in value.get_params().items()}
            values[name] = value
        return values

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; ``name__parameter`` sets one of a parameter that is an estimator."""
        names = self._get_param_names()
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, inside, inner = key.partition("__")
            if name not in names:
                advice = hint(name, names) or f"Valid parameters are: {names!r}."
                raise ValueError(f"Invalid parameter {name!r} for estimator {self}. {advice}")
            if inside:
                nested.setdefault(name, {})[inner] = value
            else:
                setattr(self, name, value)
        for name, settings in nested.items():
            getattr(self, name).set_params(**settings)
        return self

    def _changed(self) -> dict[str, Any]:
        """The parameters that are not at their defaults."""
        defaults = {name: given.default for name, given in inspect.signature(type(self)).parameters.items()}
        params = self.get_params(deep=False)
        return {name: value for name, value in params.items() if repr(value) != repr(defaults.get(name))}

    def _facts(self) -> list[tuple[str, Any]]:
        """What is known of the training, by name; nothing before it."""
        fitted = vars(self).get("training_")
        return [] if fitted is None else list(fitted.rows())

    def __repr__(self) -> str:
        changed = [f"{name}={value!r}" for name, value in self._changed().items()]
        text = f"{type(self).__name__}({', '.join(changed)})"
        return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]}...{text[-_SHOWN // 2 :]}"

    __str__ = __repr__  # the call, as scikit-learn prints it, not the table

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def _shown_table(self) -> Tabled:
        parameters, facts = self._changed(), self._facts()
        rows = [(name, _short(value)) for name, value in [*parameters.items(), *facts]]
        n_left = len(self._get_param_names()) - len(parameters)
        notes = [f"{n_left} other parameters have their defaults"] if n_left else []
        notes += [] if facts else ["not fitted"]
        rules = frozenset({len(parameters)} if parameters and facts else ())
        return Tabled(("", "value"), tuple(rows), tuple(notes), 2, rules, title=type(self).__name__)

    def to_frame(self) -> Any:
        """Parameters and facts of the training as a pandas data frame of names and values."""
        rows = [("parameter", *row) for row in self._changed().items()] + [("training", *row) for row in self._facts()]
        return importlib.import_module("pandas").DataFrame(rows, columns=["kind", "name", "value"])

    def _drawing(self) -> Callable[[], Any]:
        fitted = vars(self).get("training_")
        if fitted is None:
            raise InputError(f"{type(self).__name__} is not fitted; there is nothing to plot yet")
        curve = _choice(fitted)
        if curve is not None:
            return lambda: _draw_choice(*curve)
        draw: Callable[[], Any] = self.model_._drawing()  # type: ignore[attr-defined]
        return draw

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        return BaseEstimator.__sklearn_tags__(self)

    if TYPE_CHECKING:  # scikit-learn's own, borrowed

        def get_metadata_routing(self) -> Any: ...
        def set_fit_request(self, **requests: bool | str | None) -> Self: ...
        def set_predict_request(self, **requests: bool | str | None) -> Self: ...
        def set_score_request(self, **requests: bool | str | None) -> Self: ...

    else:

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("__") and "sklearn.base" in sys.modules and not hasattr(type(self), name):
                lent = inspect.getattr_static(_in_full(type(self)), name, None)
                if lent is not None:
                    return lent.__get__(self, type(self)) if hasattr(type(lent), "__get__") else lent
            return object.__getattribute__(self, name)  # raises, with the error of a property if it is one


@cache
def _in_full(kind: type) -> type:
    """The class with all that scikit-learn gives to an estimator."""
    from sklearn.base import BaseEstimator

    return type(f"_{kind.__name__}", (kind, BaseEstimator), {"__module__": BaseEstimator.__module__})


def _choice(fitted: Any) -> tuple[str, list[float], list[float], str, bool] | None:
    """What was chosen from: name, settings, values of the measure, the measure, and whether the scale is a log one."""
    measure = str(fitted.measure)
    if fitted.cross_validation is not None:
        crossed = fitted.cross_validation
        name = "C" if fitted.rounds is None else fitted.rounds.unit
        return name, list(crossed.settings), list(crossed.means), f"{measure}, cross-validated", fitted.rounds is None
    if fitted.rounds is not None and not np.isnan(fitted.rounds.values).all():
        values = list(fitted.rounds.values)
        return fitted.rounds.unit, list(range(1, len(values) + 1)), values, f"{measure}, validation", False
    if len(fitted.tried) > 1 and all(measure in row for row in fitted.tried):
        tried = [(row["C"], row[measure]) for row in fitted.tried]
        return "C", [C for C, _ in tried], [value for _, value in tried], f"{measure}, validation", True
    return None


def _draw_choice(name: str, settings: list[float], values: list[float], label: str, powers: bool) -> Any:
    figure = new_figure(2.6)
    axis = figure.subplots()
    axis.plot(settings, values, **look(0) | {"markevery": max(1, len(settings) // 15)})
    best = int(np.nanargmax(values))
    axis.axvline(settings[best], color="0.4", linewidth=0.8)
    if powers:
        axis.set_xscale("log")
    else:
        axis.xaxis.get_major_locator().set_params(integer=True)
    axis.set_xlabel(name)
    axis.set_ylabel(shown(label))
    axis.set_title(f"the best of {len(settings)}: {name} {settings[best]:g}, {shown(label)} {values[best]:.4f}")
    return figure


def _short(value: float) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else cell(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def check_is_fitted(estimator: Any, attribute: str) -> None:
    """Raise scikit-learn's error if an estimator lacks what ``fit`` gives it."""
    if attribute not in vars(estimator):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(estimator, attribute)
