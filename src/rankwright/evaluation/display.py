"""How evaluations and comparisons show themselves: the tables of the command line, data frames and plots."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from rankwright.data.display import Displayed, look, new_figure, shown

_RENDER = "rankwright.evaluation.render"  # imports what is shown here, so it is found by name
_MAX_QUERIES = 200  # in a notebook
_NO_NAME = "scores"
_ROW = 0.3  # inches


class DisplayedEvaluation(Displayed):
    """Base of :class:`~rankwright.Evaluation`: means as a table, and query by query as a frame and a plot."""

    def _named(self) -> Any:
        evaluation: Any = self
        return evaluation if evaluation.name else dataclasses.replace(evaluation, name=_NO_NAME)

    def _shown_table(self) -> Any:
        evaluation = self._named()
        table = importlib.import_module(_RENDER).evaluation_table([evaluation])
        n_counted = int((~np.isnan(evaluation.values)).any(axis=1).sum())  # the others are left out
        counted = f"mean over {n_counted:,} {'query' if n_counted == 1 else 'queries'}"
        return dataclasses.replace(table, notes=(counted, *table.notes))

    def _more(self) -> tuple[str, Any] | None:
        evaluation = self._named()
        n_queries = len(evaluation.query_ids)
        first = dataclasses.replace(
            evaluation, query_ids=evaluation.query_ids[:_MAX_QUERIES], values=evaluation.values[:_MAX_QUERIES]
        )
        table = importlib.import_module(_RENDER).evaluation_table([first], per_query=True)
        rows, more = table.rows[:-1], n_queries - _MAX_QUERIES  # the last row is the mean
        notes = (f"and {more:,} more queries: to_frame() has all",) if more > 0 else ()
        return "query by query", dataclasses.replace(table, rows=rows, notes=notes, rules=frozenset())

    def to_frame(self) -> Any:
        """A row per query and a column per measure, as a pandas data frame."""
        evaluation, pandas = self._named(), importlib.import_module("pandas")
        index = pandas.Index(evaluation.query_ids, name="query")
        return pandas.DataFrame(np.array(evaluation.values), index=index, columns=list(map(str, evaluation.measures)))

    def _drawing(self) -> Callable[[], Any]:
        return lambda: _by_query(self._named())

    def __repr__(self) -> str:
        return self.to_text()


class DisplayedComparison(Displayed):
    """Base of :class:`~rankwright.Comparison`: differences as a table, a frame and a plot of their intervals."""

    def _shown_table(self) -> Any:
        return importlib.import_module(_RENDER).comparison_table(self)

    def to_frame(self) -> Any:
        """A row per measure and system, with all digits, as a pandas data frame."""
        comparison: Any = self
        rows = []
        for difference in comparison.differences:
            row: dict[str, Any] = {
                "measure": difference.measure,
                "system": difference.system,
                "baseline": comparison.baseline,
            }
            row |= {name: getattr(difference, name) for name in ("queries", "mean", "baseline_mean", "difference")}
            row["low"], row["high"] = difference.interval
            for kind, of in (("p", difference.p), ("p_corrected", difference.p_corrected)):
                row |= {f"{kind}_{test}": value for test, value in of.items()}
            rows.append(
                row | {name: getattr(difference, name) for name in ("wins", "ties", "losses", "queries_needed")}
            )
        return importlib.import_module("pandas").DataFrame(rows)

    def _drawing(self) -> Callable[[], Any]:
        return lambda: _intervals(self)

    def __repr__(self) -> str:
        return self.to_text()


def _by_query(evaluation: Any) -> Any:
    """The values of every measure, each sorted: how many queries are good, and how many fail."""
    figure = new_figure(2.8)
    axis = figure.subplots()
    for at, measure in enumerate(evaluation.measures):
        values = evaluation.values[:, at]
        values = np.sort(values[~np.isnan(values)])[::-1]
        mean = evaluation.means[str(measure)]
        style = look(at) | {"markevery": max(1, len(values) // 15)}
        axis.plot(range(1, len(values) + 1), values, label=f"{shown(str(measure))}, mean {mean:.4f}", **style)
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.set_xlabel("queries, the best first for each measure")
    axis.set_title(shown(evaluation.name))
    axis.legend(frameon=False)
    return figure


def _intervals(comparison: Any) -> Any:
    """The mean difference from the baseline with its interval, for every measure and system."""
    measures = list(comparison.baseline_means)
    rows = {
        measure: [difference for difference in comparison.differences if difference.measure == measure]
        for measure in measures
    }
    max_rows = max((len(of) for of in rows.values()), default=1)
    figure = new_figure(0.6 + (0.25 + _ROW * max(1, max_rows)) * len(measures))
    axes = figure.subplots(len(measures), 1, sharex=True, squeeze=False)[:, 0]
    for axis, measure in zip(axes, measures, strict=True):
        for at, difference in enumerate(rows[measure]):
            low, high = difference.interval
            ends = [[difference.difference - low], [high - difference.difference]]
            axis.errorbar([difference.difference], [at], xerr=ends, capsize=3, **look(0) | {"linestyle": "none"})
        axis.axvline(0, color="0.4", linewidth=0.8)
        axis.set_yticks(range(len(rows[measure])), [shown(difference.system) for difference in rows[measure]])
        axis.set_ylim(len(rows[measure]) - 0.5, -0.5)
        axis.grid(axis="y", visible=False)
        axis.set_title(f"{shown(measure)}: {shown(comparison.baseline)} has {comparison.baseline_means[measure]:.4f}")
    axes[-1].set_xlabel(f"mean difference from {shown(comparison.baseline)}, {comparison.confidence:.0%} interval")
    return figure
