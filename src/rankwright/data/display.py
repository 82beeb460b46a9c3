"""Objects shown as tables: as text, in notebooks as HTML, as LaTeX, as a data frame and as a plot.

HTML takes the colours of the page and adds lines of half-transparent grey, so it is readable on light and dark pages.
Everything from data is escaped. pandas and matplotlib are imported only when a frame or a plot is asked for.
"""

from __future__ import annotations

import html
import importlib
import io
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rankwright._types import Array
from rankwright.errors import InputError

# Plots as PNG and SVG files: one style, drawn in memory and written whole or not at all.
#
# Readable in black and white: series differ in marker and line style, not in colour alone. matplotlib is imported only
# when something is drawn, without pyplot, and its settings are changed only while drawing.


_SUFFIXES = (".png", ".svg")
_WIDTH = 7.6  # inches
_SCREEN = 96  # dots per inch of a page; pictures have twice as many
_STYLE = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 4.5,
    "hatch.linewidth": 0.6,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "rankwright",  # the same plot gives the same file
}
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)))
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "||||", "----")


def check_plot_name(path: str | Path) -> str:
    """Format of a plot, by its file name."""
    suffix = Path(path).suffix.lower()
    if suffix not in _SUFFIXES:
        raise InputError(f"plots end in {' or '.join(_SUFFIXES)}, not in {suffix or 'nothing'!r}", path)
    return suffix[1:]


def new_figure(height: float, layout: Literal["constrained"] | None = "constrained") -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(_WIDTH, height), layout=layout)


def drawn(draw: Callable[[], Any]) -> Any:
    """What ``draw`` returns, with the usual style of figures while it runs."""
    from matplotlib import style

    with style.context(["default", _STYLE]):
        return draw()


def _saved(figure: Any, kind: str, dpi: int) -> bytes:
    """A figure as the bytes of a file without the time and the program that made it."""
    picture = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # a name in a script that the font lacks
        figure.savefig(picture, format=kind, dpi=dpi, metadata={"Date" if kind == "svg" else "Software": None})
    return picture.getvalue()


def write_figure(path: str | Path, draw: Callable[[], Any]) -> None:
    kind = check_plot_name(path)
    content = drawn(lambda: _saved(draw(), kind, dpi=160))
    # By name: files are a layer above data.
    with importlib.import_module("rankwright.io.files").replace_file(path) as out:
        out.write(content)


class Picture:
    """A plot that notebooks show, without further settings.

    `draw`: returns a matplotlib figure.
    """

    def __init__(self, draw: Callable[[], Any]) -> None:
        self.figure = drawn(draw)
        """The matplotlib figure, to be changed further."""

    def write(self, path: str | Path) -> None:
        write_figure(path, lambda: self.figure)

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        return _saved(self.figure, "png", dpi=2 * _SCREEN), {"width": int(_WIDTH * _SCREEN)}

    def __repr__(self) -> str:
        return "Picture()"


def shown(name: str, longest: int = 40) -> str:
    """A name from a file as plot text: no formula, printable, not too long."""
    text = "".join(sign if sign.isprintable() else "�" for sign in name)
    text = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return text.replace("$", r"\$")


def look(number: int) -> dict[str, Any]:
    """Colour, marker and line of a series; every second marker is open, so that overlapping lines show."""
    colour = _COLOURS[number % len(_COLOURS)]
    return {
        "color": colour,
        "marker": _MARKERS[number % len(_MARKERS)],
        "linestyle": _LINES[number % len(_LINES)],
        "markerfacecolor": "white" if number % 2 else colour,
    }


_RENDERER = "rankwright.evaluation.render"  # draws text and LaTeX; above this layer, so it is found by name
_MOST_BARS = 25
_LINE = "border-bottom:1px solid rgba(128,128,128,.45)"
_CELL = "padding:.2em .7em;min-width:0;background:transparent;color:inherit;border:0;white-space:nowrap"
_TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.3em 0;color:inherit;border:0"
_NOTE = "opacity:.8;font-size:.9em;line-height:1.4"


@dataclass(frozen=True)
class Tabled:
    """A table as it is shown: rows of text under a header, with notes below.

    `header`, `rows`: text. `notes`: lines below the table. `text_columns`: columns from the left that are words; the
    others are numbers, to the right. `rules`: rows that a line is drawn before. `best`: cells, by row and column, that
    are bold in LaTeX. `title`: what the table is of.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    text_columns: int = 1
    rules: frozenset[int] = frozenset()
    best: frozenset[tuple[int, int]] = frozenset()
    title: str = ""


class Displayed:
    """Base of what is shown as a table; a subclass gives the table and, where it has more, a frame and a plot."""

    def _shown_table(self) -> Tabled:
        raise NotImplementedError

    def _more(self) -> tuple[str, Tabled] | None:
        """A longer table for notebooks, folded, and what it is called."""
        return None

    def to_text(self) -> str:
        """The table as text."""
        table = self._shown_table()
        title = f"{table.title}\n\n" if table.title else ""
        return _harmless(title + str(importlib.import_module(_RENDERER).draw(table)).rstrip())

    def to_latex(self) -> str:
        """The table in LaTeX, for the package booktabs."""
        return str(importlib.import_module(_RENDERER).draw(self._shown_table(), "latex"))

    def to_frame(self) -> Any:
        """The table as a pandas data frame."""
        table = self._shown_table()
        return importlib.import_module("pandas").DataFrame(list(table.rows), columns=list(table.header))

    def __str__(self) -> str:
        return self.to_text()

    def plot(self, path: str | Path | None = None) -> Picture:
        """A plot, which notebooks show; with a path it is also written, as PNG or SVG.

        `path`: a file that ends in ``.png`` or ``.svg``.
        """
        picture = Picture(self._drawing())
        if path is not None:
            picture.write(path)
        return picture

    def _drawing(self) -> Callable[[], Any]:
        raise InputError(f"{type(self).__name__} has no plot")

    def _repr_html_(self) -> str:
        more = self._more()
        folded = ""
        if more is not None:
            folded = f"<details><summary>{html.escape(more[0])}</summary>{_html_of(more[1])}</details>"
        return f'<div style="overflow-x:auto;color:inherit">{_html_of(self._shown_table())}{folded}</div>'


def _harmless(text: str) -> str:
    """Text without terminal control characters: names come from files."""
    return "".join(sign if sign.isprintable() or sign == "\n" else f"\\u{ord(sign):04x}" for sign in text)


def _html_of(table: Tabled) -> str:
    """A table as HTML, in the colours of the page."""
    blocks = []
    if table.title:
        blocks.append(f'<div style="font-weight:bold;margin-top:.5em">{html.escape(table.title)}</div>')
    head = _html_row(table.header, table.text_columns, "th", _LINE)
    body = [
        _html_row(row, table.text_columns, "td", _LINE if at + 1 in table.rules else "")
        for at, row in enumerate(table.rows)
    ]
    blocks.append(f'<table style="{_TABLE}"><thead>{head}</thead><tbody>{"".join(body)}</tbody></table>')
    blocks += [f'<div style="{_NOTE}">{html.escape(note)}</div>' for note in table.notes]
    return "".join(blocks)


def _html_row(cells: Sequence[str], text_columns: int, tag: str, line: str) -> str:
    row = []
    for at, text in enumerate(cells):
        align = "left" if at < text_columns else "right"
        row.append(f'<{tag} style="text-align:{align};{_CELL};{line}">{html.escape(text)}</{tag}>')
    return f'<tr style="background:transparent">{"".join(row)}</tr>'


def cell(value: Any) -> str:
    """The text of a cell: four digits, thousands separated, a dash for a missing value.

    Examples
    --------
    >>> cell(0.25), cell(12345), cell(None), cell("x"), cell(1e-7)
    ('0.2500', '12,345', '–', 'x', '1e-07')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e4 else f"{value:.4g}"
    return " ".join(str(value).split())


def bars(names: Sequence[str], values: Sequence[float], label: str) -> Any:
    """A figure with a horizontal bar for each of the first values, from the top."""
    names, values = list(names)[:_MOST_BARS], list(values)[:_MOST_BARS]
    figure = new_figure(0.9 + 0.2 * max(1, len(names)))
    axis = figure.subplots()
    axis.barh(range(len(names)), values, color="#0072b2", height=0.7)
    axis.set_yticks(range(len(names)), [shown(name) for name in names])
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)
    axis.set_xlabel(label)
    return figure


# Data sets, judgements and runs: what their tables of first documents have in common, and a plot of labels or scores.


SHOWN_ROWS = 6
FEW_LABELS = 8  # are counted one by one
_BINS = 30


def note_of_more(n: int) -> list[str]:
    return [f"and {n:,} more documents"] if n else []


def documents_by_label(labels: Any) -> tuple[tuple[float, int], ...]:
    """The distinct labels, lowest first, each with its number of documents."""
    values, counts = np.unique(labels, return_counts=True)
    return tuple(zip(values.tolist(), counts.tolist(), strict=True))


def counted(labels: Any) -> str:
    return ", ".join(f"{label:g} × {count:,}" for label, count in documents_by_label(labels)[:FEW_LABELS])


def decoded(document: Any) -> str:
    return document.decode("utf-8", "replace") if isinstance(document, bytes) else str(document)


def draw_values(labels: Array, indptr: Array, what: str) -> Any:
    """Documents by label, or by score where they are many, and documents per query."""
    figure = new_figure(2.4)
    left, right = figure.subplots(1, 2)
    counts = documents_by_label(labels)
    if what != "label" and len(counts) > FEW_LABELS:
        left.hist(labels, bins=_BINS, color="#0072b2")
    else:
        columns = left.bar(range(len(counts)), [count for _, count in counts], color="#0072b2", width=0.7)
        left.bar_label(columns, [f"{count:,}" for _, count in counts])
        left.set_xticks(range(len(counts)), [f"{label:g}" for label, _ in counts])
    left.set(xlabel=what, ylabel="documents")
    left.grid(axis="x", visible=False)
    sizes = np.diff(indptr)
    ends = (int(sizes.min(initial=0)), int(sizes.max(initial=0)) + 1)
    right.hist(sizes, bins=min(_BINS, max(1, ends[1] - ends[0])), range=ends, color="#0072b2")
    right.xaxis.get_major_locator().set_params(integer=True)
    right.set(xlabel="documents of a query", ylabel="queries")
    return figure
