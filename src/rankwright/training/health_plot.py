"""The plot of the health of training: small multiples over C, and how the seconds of each loss split.

Readable in black and white: losses differ in marker and line style, parts of the time in hatches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rankwright.data.figures import look, new_figure, write_figure
from rankwright.training.health_fit import FitHealth

__all__ = ["Fits", "write_plot"]

Fits = Mapping[str, Sequence[FitHealth]]  # of every loss, by C

_PARTS = {  # of the seconds: name, shade, hatch
    "seconds_oracle": ("most violated rankings (oracle)", "0.25", ""),
    "seconds_products": ("products with the features", "0.75", "////"),
    "seconds_planes": ("problem over planes (QP)", "1.0", "...."),
    "seconds_rest": ("preparation", "0.9", "xxxx"),
}
_A_ROW = 5  # losses in a row of bars
_LEAST_BARS = 4  # room for at least this many per loss


def write_plot(fits: Fits, path: str | Path) -> None:
    """Draw the fits into a PNG or SVG file, written whole or not at all."""
    write_figure(path, lambda: _draw(fits))


def _draw(fits: Fits) -> Any:
    n_rows = -(-len(fits) // _A_ROW)
    heights = [4.3, 1.75 * n_rows + 0.35]
    figure = new_figure(sum(heights))
    above, below = list(figure.subfigures(2, 1, squeeze=False, height_ratios=heights).ravel())
    _draw_lines(above, fits)
    _draw_bars(below, fits, n_rows)
    return figure


def _draw_lines(figure: Any, fits: Fits) -> None:
    """Six panels over C, a line per loss."""
    from matplotlib.ticker import MaxNLocator, NullLocator

    axes = figure.subplots(2, 3, sharex=True).ravel()
    has_valid = any(not math.isnan(row.own_validation) for rows in fits.values() for row in rows)
    part = "validation" if has_valid else "training"
    panels: list[tuple[str, str, Callable[[FitHealth], float]]] = [
        ("Average slack", "relative to weights of 0", lambda row: row.slack_ratio),
        ("Objective", "relative to weights of 0", lambda row: row.objective_ratio),
        ("Norm of the weights", "‖w‖", lambda row: row.norm),
        ("Passes over the data", "passes", lambda row: row.passes),
        ("Training time", "seconds", lambda row: row.seconds),
        (f"Own measure, {part} data", "mean over queries", lambda row: getattr(row, f"own_{part}")),
    ]
    for axis, (title, label, value) in zip(axes, panels, strict=True):
        axis.set_title(title)
        axis.set_ylabel(label)
        columns = [[value(row) for row in rows] for rows in fits.values()]
        if label in ("‖w‖", "seconds"):
            columns = _log_axis(axis, columns)
        for number, (loss, column) in enumerate(zip(fits, columns, strict=True)):
            axis.plot([row.C for row in fits[loss]], column, label=_label(fits, loss), **look(number))
    lowest = min(min(row.slack_ratio, row.objective_ratio) for rows in fits.values() for row in rows)
    for axis in axes[:2]:
        axis.set_ylim(max(0.0, math.floor(10 * lowest - 0.5) / 10), 1.03)
    axes[3].set_ylim(bottom=0)
    axes[3].yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes[0].set_xscale("log")
    axes[0].xaxis.set_minor_locator(NullLocator())
    for axis in axes[3:]:
        axis.set_xlabel("C, the weight of ranking errors")
    lines, labels = axes[0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside upper center", ncols=min(5, len(labels)), frameon=False, handlelength=3.2)


def _label(fits: Fits, loss: str) -> str:
    own = fits[loss][0].own_measure
    return loss if own.lower() == loss else f"{loss} ({own})"


def _log_axis(axis: Any, columns: Sequence[Sequence[float]]) -> list[list[float]]:
    """A logarithmic axis with a place for 0, a decade below everything else."""
    positive = [value for column in columns for value in column if value > 0]
    if not positive:
        axis.set_ylim(-0.05, 1)
        return [list(column) for column in columns]
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    axis.set_yscale("log")
    axis.yaxis.set_minor_locator(NullLocator())
    if max(positive) < 100 * min(positive):
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if len(positive) == sum(map(len, columns)):
        return [list(column) for column in columns]
    lowest, highest = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    floor = 10.0 ** (lowest - 1)
    step = max(1, -(-(highest - lowest) // 5))
    powers = range(lowest, highest + 1, step)
    axis.yaxis.set_major_locator(FixedLocator([floor, *(10.0**power for power in powers)]))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: "0" if value <= 1.01 * floor else _power(value)))
    axis.set_ylim(floor / 2, 2 * max(positive))
    return [[value if value > 0 else floor for value in column] for column in columns]


def _draw_bars(figure: Any, fits: Fits, n_rows: int) -> None:
    """For every loss and C a bar that shows how its time splits."""
    n_columns = min(_A_ROW, max(3, len(fits)))
    axes = figure.subplots(n_rows, n_columns, sharey=True, squeeze=False)
    for axis in axes.ravel()[len(fits) :]:
        axis.set_visible(False)
    for axis, (loss, rows) in zip(axes.ravel(), fits.items(), strict=False):
        bottoms = [0.0] * len(rows)
        for part, (name, shade, hatch) in _PARTS.items():
            shares = [100 * getattr(row, part) / max(row.seconds, 1e-12) for row in rows]
            places = range(len(rows))
            axis.bar(places, shares, 0.86, bottoms, color=shade, hatch=hatch, edgecolor="0.2", lw=0.5, label=name)
            bottoms = [bottom + share for bottom, share in zip(bottoms, shares, strict=True)]
        shown = range(0, len(rows), max(1, -(-len(rows) // 4)))
        axis.set_xticks(list(shown), [_power(rows[at].C) for at in shown])
        room = 0.6 + max(0, _LEAST_BARS - len(rows)) / 2
        axis.set_xlim(-room, len(rows) - 1 + room)
        axis.grid(False, axis="x")
        axis.set_title(f"{loss}, {sum(row.seconds for row in rows):.2g} s")
        axis.set_xlabel("C")
    for axis in axes[:, 0]:
        axis.set_ylabel("% of the time")
        axis.set_ylim(0, 100)
    bars, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(bars, names, loc="outside upper center", ncols=len(names), frameon=False)


def _power(value: float) -> str:
    """A number for an axis; powers of ten as powers."""
    exponent = math.log10(value)
    if abs(exponent - round(exponent)) < 1e-9:
        return f"$10^{{{round(exponent)}}}$"
    return f"{value:.2g}"
