"""Systems query by query, for plots: a measure by depth of the ranking, and its differences from the baseline.

The curves are those of SIGIR'06, Figure 6: nDCG@N by N, for single queries or as a mean over all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data.display import drawn, look, new_figure, shown, write_figure
from rankwright.errors import InputError
from rankwright.evaluation.evaluate import Evaluation, check_alike
from rankwright.measures import Measure, parse_measure

__all__ = ["QueryCurves", "curve_measures", "query_curves"]

DEEPEST = 30
_MARKED = (1, 5, 10, 15, 20, 25, 30)  # depths with a marker
_A_ROW = 3  # queries
_MAX_QUERIES = 12
_TIE = 1e-12
_LEGEND_SIGNS = 120  # that fit in a row of the legend


@dataclass(frozen=True, eq=False)
class QueryCurves:
    """A measure by query and by depth; made by :func:`query_curves`.

    Attributes
    ----------
    measure : Measure
        The measure of ``values``.
    systems : tuple of str
        Names of the systems, the baseline first.
    query_ids : ndarray
        The queries that all systems have and that count for all of them.
    values : ndarray of shape (systems, queries)
        The measure.
    depths : tuple of int
        Cutoffs of the curves.
    curves : ndarray of shape (systems, queries, depths)
        The measure at each of these cutoffs.
    """

    measure: Measure
    systems: tuple[str, ...]
    query_ids: Array
    values: Array
    depths: tuple[int, ...]
    curves: Array

    @property
    def means(self) -> Array:
        """Mean over the queries, of shape (systems, depths)."""
        means: Array = self.curves.mean(axis=1)
        return means

    def figure(self, queries: Sequence[Any] = ()) -> Any:
        """The plot as a matplotlib figure: mean curves, differences by query, and the curves of some queries."""
        places = self.places(queries)
        return drawn(lambda: _draw(self, places))

    def plot(self, path: str | Path, queries: Sequence[Any] = ()) -> None:
        """Write the plot into a ``.png`` or ``.svg`` file."""
        places = self.places(queries)
        write_figure(path, lambda: _draw(self, places))

    def places(self, queries: Sequence[Any]) -> list[int]:
        """The places of some queries among ``query_ids``; at most 12 are drawn."""
        if len(queries) > _MAX_QUERIES:
            raise InputError(f"{len(queries)} queries to draw; expected at most {_MAX_QUERIES}")
        positions = {str(query): at for at, query in enumerate(self.query_ids.tolist())}
        for query in queries:
            if str(query) not in positions:
                raise InputError(
                    f"query {str(query)!r} is not among the {len(positions):,} queries that all systems have"
                )
        return [positions[str(query)] for query in queries]


def curve_measures(measure: str | Measure = "nDCG@10", deepest: int = DEEPEST) -> list[Measure]:
    """The measures to evaluate for curves: one measure, and the same at every cutoff from 1 on."""
    parsed = parse_measure(measure)
    if not parsed.takes_cutoff:
        raise InputError(f"{parsed} has no cutoff, so no curve; expected a measure such as nDCG@10")
    return list(dict.fromkeys([parsed, *(replace(parsed, cutoff=k) for k in range(1, deepest + 1))]))


def query_curves(evaluations: Sequence[Evaluation], measure: str | Measure = "nDCG@10") -> QueryCurves:
    """A measure of several systems by query and by depth.

    Parameters
    ----------
    evaluations : sequence of Evaluation
        Of the measures that :func:`curve_measures` gives, the baseline first.
    measure : str or Measure
        The measure to compare single queries by.

    Examples
    --------
    >>> from rankwright import evaluate
    >>> measures = curve_measures("nDCG@2", deepest=3)
    >>> table = evaluate([1, 0, 1], [3, 2, 1], [7, 7, 7], measures=measures, name="mine")
    >>> query_curves([table], "nDCG@2").curves.round(2).tolist()
    [[[1.0, 0.61, 0.92]]]
    """
    wanted = parse_measure(measure)
    if not evaluations:
        raise InputError("nothing to plot; expected at least one evaluation")
    first = evaluations[0]
    check_alike(evaluations, first)
    columns = [m for m in first.measures if m.cutoff is not None and replace(wanted, cutoff=m.cutoff) == m]
    columns.sort(key=lambda column: column.cutoff or 0)
    if len(columns) < 2:
        raise InputError(f"{wanted} was evaluated at fewer than two cutoffs; expected the measures of curve_measures")
    position_of = [{query: at for at, query in enumerate(e.query_ids.tolist())} for e in evaluations]
    queries = [query for query in first.query_ids.tolist() if all(query in positions for positions in position_of)]
    rows = [[positions[query] for query in queries] for positions in position_of]
    values = np.array([e.column(wanted)[at] for e, at in zip(evaluations, rows, strict=True)])
    curves = np.array(
        [[e.column(column)[at] for column in columns] for e, at in zip(evaluations, rows, strict=True)]
    ).transpose(0, 2, 1)
    counted = ~(np.isnan(values).any(axis=0) | np.isnan(curves).any(axis=(0, 2)))
    if not counted.any():
        raise InputError(f"the systems have no query in common on {wanted}")
    return QueryCurves(
        wanted,
        tuple(e.name or f"system {number + 1}" for number, e in enumerate(evaluations)),
        np.array(queries, dtype=object)[counted],
        values[:, counted],
        tuple(column.cutoff or 0 for column in columns),
        curves[:, counted],
    )


# The plot


def _draw(curves: QueryCurves, places: Sequence[int]) -> Any:
    names = [f"{shown(name)}{counts}" for name, counts in zip(curves.systems, _wins(curves), strict=True)]
    n_fit = min(len(names), max(1, _LEGEND_SIGNS // (max(map(len, names)) + 10)))
    n_rows = -(-len(places) // _A_ROW)
    heights = [2.7 + 0.17 * -(-len(names) // n_fit), *([1.75 * n_rows] if n_rows else [])]
    figure = new_figure(sum(heights))
    parts = figure.subfigures(len(heights), 1, squeeze=False, height_ratios=heights).ravel()
    left, right = parts[0].subplots(1, 2)
    n_queries = f"{len(curves.query_ids):,} {'query' if len(curves.query_ids) == 1 else 'queries'}"
    _draw_curves(left, curves, curves.means)
    left.set(title=f"Mean over {n_queries}", ylabel=f"{_family(curves)}@N", xlabel="N, ranks counted")
    _draw_queries(right, curves)
    lines, _ = left.get_legend_handles_labels()
    parts[0].legend(lines, names, loc="outside upper center", ncols=n_fit, frameon=False, handlelength=3.2)
    if n_rows:
        _draw_places(parts[1], curves, places, n_rows)
    return figure


def _draw_places(figure: Any, curves: QueryCurves, places: Sequence[int], n_rows: int) -> None:
    n_columns = max(2, min(_A_ROW, len(places)))
    axes = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
    for axis, place in zip(axes.ravel(), places, strict=False):
        axis.set_title(f"Query {shown(str(curves.query_ids[place]))}")
        _draw_curves(axis, curves, curves.curves[:, place])
    for axis in axes.ravel()[len(places) :]:
        axis.set_visible(False)
    axes[0, 0].set_ylim(-0.03, 1.03 * max(1.0, float(curves.curves.max())))
    for row in axes:
        row[0].set_ylabel(f"{_family(curves)}@N")
    for axis in axes.ravel()[max(0, len(places) - n_columns) : len(places)]:
        axis.xaxis.set_tick_params(labelbottom=True)
        axis.set_xlabel("N, ranks counted")


def _family(curves: QueryCurves) -> str:
    return str(curves.measure).partition("@")[0]


def _draw_curves(axis: Any, curves: QueryCurves, rows: Array) -> None:
    marked = [at for at, depth in enumerate(curves.depths) if depth in _MARKED]
    for number, (name, row) in enumerate(zip(curves.systems, rows, strict=True)):
        axis.plot(curves.depths, row, label=shown(name), markevery=marked, **look(number))
    axis.set_xticks([depth for depth in curves.depths if depth in _MARKED])


def _draw_queries(axis: Any, curves: QueryCurves) -> None:
    """Differences from the baseline, each system's largest gain first; the values themselves if there is but one."""
    from matplotlib.ticker import MaxNLocator

    n_queries = len(curves.query_ids)
    places = np.arange(1, n_queries + 1)
    alone = len(curves.systems) == 1
    rows = curves.values if alone else curves.values[1:] - curves.values[0]
    every = max(1, n_queries // 10)
    for number, row in enumerate(rows, start=0 if alone else 1):
        style = look(number) | {"markevery": (min(number, every - 1), every)}
        axis.plot(places, np.sort(row)[::-1], drawstyle="steps-mid", **style)
    if alone:
        axis.set_title(f"{curves.measure} of every query")
        axis.set_xlabel("queries, the best one first")
        axis.set_ylim(-0.03, 1.03 * max(1.0, float(rows.max())))
    else:
        axis.axhline(0.0, color="0.3", lw=0.8)
        axis.set_title(f"{curves.measure} of every query, minus {shown(curves.systems[0], 20)}")
        axis.set_xlabel("queries, the largest gain first")
    axis.set_xlim(0.5, n_queries + 0.5)
    axis.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def _wins(curves: QueryCurves) -> list[str]:
    """How many queries each system is better and worse on than the baseline, in words."""
    apart = curves.values[1:] - curves.values[0]
    counts = [f" (better {(row > _TIE).sum():,}, worse {(row < -_TIE).sum():,})" for row in apart]
    return [" (baseline)" if counts else "", *counts]
