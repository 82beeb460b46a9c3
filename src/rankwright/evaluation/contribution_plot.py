"""Plots of contributions: a swarm of documents for every feature, or the bars of one document or pair.

In a swarm every document is a point; where many have similar contributions, points are spread up and down. The shade is
the value of the feature, from the lowest to the highest, so that one sees which values raise a score.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.data import sparse
from rankwright.data.dataset import default_names
from rankwright.data.display import new_figure, shown, write_figure
from rankwright.errors import InputError

__all__ = ["plot_contributions"]

_POINTS = 2000  # documents drawn
_BINS = 120  # of contributions, in which points are spread
_RAISES, _LOWERS = "#0072b2", "#d55e00"


def plot_contributions(
    path: str | Path, contributions: npt.ArrayLike, X: Any, names: Sequence[str] | None = None, *, n: int = 10
) -> None:
    """Draw the contributions of many documents, the features that add most on top.

    Parameters
    ----------
    path : path
        A PNG or SVG file, written whole or not at all.
    contributions : array-like of shape (rows, features) or (rows, features + 1)
        As ``predict_contributions`` gives them.
    X : array-like or scipy sparse
        The values of the same features, whose order gives the shades.
    names : sequence of str, optional
        Names of the features; f1, f2, … by default.
    n : int
        Number of features drawn.

    Examples
    --------
    >>> import tempfile
    >>> from rankwright import LinearModel
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> found = LinearModel([1.0, -2.0, 0.1]).predict_contributions(X, group=[20, 20])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plot_contributions(f"{folder}/swarm.svg", found, X, ["bm25", "length", "links"])
    """
    matrix = np.asarray(contributions, np.float64)
    values = X.toarray() if sparse.issparse(X) else np.asarray(X, np.float64)
    if matrix.ndim != 2 or values.ndim != 2 or len(matrix) != len(values) or not len(matrix):
        raise InputError(f"contributions of shape {matrix.shape}, values of shape {values.shape}; expected a row each")
    if matrix.shape[1] not in (values.shape[1], values.shape[1] + 1):
        raise InputError(
            f"contributions in {matrix.shape[1]} columns; expected {values.shape[1]} features, or one more"
        )
    names = default_names(values.shape[1]) if names is None else names
    if len(names) != values.shape[1]:
        raise InputError(f"{values.shape[1]} features but {len(names)} feature names")
    order = np.argsort(-np.abs(matrix[:, : values.shape[1]]).mean(axis=0), kind="stable")[:n]
    rows = np.linspace(0, len(matrix) - 1, min(_POINTS, len(matrix))).astype(np.int64)
    drawn = matrix[np.ix_(rows, order)], values[np.ix_(rows, order)]
    write_figure(path, lambda: _swarm(*drawn, [names[at] for at in order]))


def _swarm(contributions: Array, values: Array, names: Sequence[str]) -> Any:
    figure = new_figure(1.1 + 0.32 * len(names))
    axis = figure.subplots()
    largest = float(np.abs(contributions).max()) or 1.0
    for line, (column, value) in enumerate(zip(contributions.T, values.T, strict=True)):
        shades, is_known = _shares(value), ~np.isnan(value)
        heights = -line + _spread(column, largest)
        axis.scatter(column[~is_known], heights[~is_known], s=7, color="0.75", linewidths=0, rasterized=True)
        points = axis.scatter(
            column[is_known], heights[is_known], s=7, c=shades[is_known], cmap="cividis", vmin=0, vmax=1, linewidths=0,
            rasterized=True,
        )  # fmt: skip
    axis.axvline(0, color="0.4", lw=0.8)
    axis.set_yticks([-line for line in range(len(names))], [shown(name, 28) for name in names])
    axis.set_ylim(-len(names) + 0.4, 0.6)
    axis.set_xlabel("adds to the score, relative to the documents of the same query")
    if names:
        bar = figure.colorbar(points, ax=axis, ticks=[0, 1], aspect=30, pad=0.02)
        bar.ax.set_yticklabels(["low", "high"])
        bar.set_label("value of the feature", labelpad=-12)
        bar.outline.set_visible(False)
    return figure


def _shares(values: Array) -> Array:
    """The share of values below each, from 0 to 1; equal values have equal shares."""
    ordered = np.sort(values[~np.isnan(values)])
    if not len(ordered) or ordered[0] == ordered[-1]:
        return np.full(len(values), 0.5)
    below = np.searchsorted(ordered, values, side="left").astype(np.float64)
    return below / max(1, int(np.searchsorted(ordered, ordered[-1], side="left")))


def _spread(column: Array, largest: float) -> Array:
    """How far from its line each point is drawn: the points of a bin take turns above and below."""
    bins = np.floor((column / largest + 1) / 2 * (_BINS - 1)).astype(np.int64)
    order = np.argsort(bins, kind="stable")  # not by contribution within a bin, which would draw stripes
    starts = np.searchsorted(bins[order], np.arange(_BINS))
    place = np.empty(len(column), np.int64)
    place[order] = np.arange(len(column)) - starts[bins[order]]
    crowd = np.bincount(bins, minlength=_BINS)
    step = min(0.08, 0.8 / max(1, int(crowd.max())))
    return np.where(place % 2 == 0, 1, -1) * ((place + 1) // 2) * step


def write_bars(path: str | Path, labels: Sequence[str], contributions: Sequence[float], title: str) -> None:
    """Draw the contributions of one document or pair as bars, from top to bottom as given."""
    write_figure(path, lambda: _bars(labels, contributions, title))


def _bars(labels: Sequence[str], contributions: Sequence[float], title: str) -> Any:
    figure = new_figure(1.0 + 0.24 * max(1, len(labels)))
    axis = figure.subplots()
    places = [-line for line in range(len(labels))]
    colours = [_RAISES if number > 0 else _LOWERS for number in contributions]
    hatches = ["" if number > 0 else "////" for number in contributions]
    axis.barh(places, contributions, 0.7, color=colours, hatch=hatches, edgecolor="white", lw=0.5)
    axis.axvline(0, color="0.4", lw=0.8)
    for place, number in zip(places, contributions, strict=True):
        side = 1 if number >= 0 else -1
        axis.annotate(
            f"{number:+.3g}", (number, place), (3 * side, 0), textcoords="offset points", va="center",
            ha="left" if side > 0 else "right",
        )  # fmt: skip
    axis.set_yticks(places, [shown(label, 60) for label in labels])
    axis.margins(x=0.15)
    axis.grid(False, axis="y")
    axis.set_title(shown(title, 100))
    axis.set_xlabel("adds to the difference of the scores")
    return figure
