"""Plots as PNG and SVG files: one style, drawn in memory and written whole or not at all.

Readable in black and white: series differ in marker and line style, not in colour alone. matplotlib is imported only
when something is drawn, without pyplot, and its settings are changed only while drawing.
"""

from __future__ import annotations

import importlib
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from rankwright.errors import InputError

__all__ = ["HATCHES", "Picture", "check_plot_name", "drawn", "look", "new_figure", "shown", "write_figure"]

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
    """The figure that ``draw`` returns, in the usual style."""
    from matplotlib import style

    with style.context(["default", _STYLE]):
        return draw()


def write_figure(path: str | Path, draw: Callable[[], Any]) -> None:
    kind = check_plot_name(path)
    from matplotlib import style

    picture = io.BytesIO()
    metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
    with style.context(["default", _STYLE]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # a name in a script that the font lacks
        draw().savefig(picture, format=kind, dpi=160, metadata=metadata)
    # By name: files are a layer above data.
    with importlib.import_module("rankwright.data.files").replace_file(path) as out:
        out.write(picture.getvalue())


class Picture:
    """A plot that notebooks show, without further settings.

    Parameters
    ----------
    draw : callable
        Returns a matplotlib figure.
    """

    def __init__(self, draw: Callable[[], Any]) -> None:
        self.figure = drawn(draw)
        """The matplotlib figure, to be changed further."""

    def write(self, path: str | Path) -> None:
        write_figure(path, lambda: self.figure)

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        picture, width = io.BytesIO(), int(_WIDTH * _SCREEN)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing from")
            self.figure.savefig(picture, format="png", dpi=2 * _SCREEN, metadata={"Software": None})
        return picture.getvalue(), {"width": width}

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
