"""How rankers show themselves: their parameters and, once fitted, what is known of the training."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from rankwright.data.display import Displayed, Tabled, cell
from rankwright.data.figures import look, new_figure, shown
from rankwright.errors import InputError

_LONGEST = 60  # of a value


class DisplayedRanker(Displayed):
    """Base of the estimators; printed, they are the call that makes them, as in scikit-learn."""

    def _rows(self) -> tuple[list[tuple[str, Any]], list[tuple[str, Any]]]:
        """Parameters that are not at their defaults, and facts of the training."""
        estimator: Any = self
        defaults = {name: given.default for name, given in inspect.signature(type(self)).parameters.items()}
        params = estimator.get_params(deep=False)
        changed = [(name, value) for name, value in params.items() if repr(value) != repr(defaults.get(name))]
        fitted = vars(self).get("training_")
        return changed, [] if fitted is None else list(fitted.rows())

    def _shown_table(self) -> Tabled:
        parameters, facts = self._rows()
        rows = [(name, _short(value)) for name, value in [*parameters, *facts]]
        n_left = len(self._get_param_names()) - len(parameters)  # type: ignore[attr-defined]
        notes = [f"{n_left} other parameters have their defaults"] if n_left else []
        notes += [] if facts else ["not fitted"]
        rules = frozenset({len(parameters)} if parameters and facts else ())
        return Tabled(("", "value"), tuple(rows), tuple(notes), 2, rules, type(self).__name__)

    def to_frame(self) -> Any:
        """Parameters and facts of the training as a pandas data frame of names and values."""
        parameters, facts = self._rows()
        rows = [("parameter", *row) for row in parameters] + [("training", *row) for row in facts]
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

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}


def _choice(fitted: Any) -> tuple[str, list[float], list[float], str, bool] | None:
    """What was chosen from: name, settings, values of the measure, the measure, and whether the scale is a log one."""
    measure = str(fitted.measure)
    if fitted.cross_validation is not None:
        found = fitted.cross_validation
        name = "C" if fitted.rounds is None else fitted.rounds.unit
        return name, list(found.settings), list(found.means), f"{measure}, cross-validated", fitted.rounds is None
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


def _short(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else cell(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
