"""How data sets show themselves: the first documents and the numbers of labels as a table, and a plot of labels."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from rankwright.data.categories import number_of, shown_category
from rankwright.data.display import Displayed, Tabled, cell
from rankwright.data.figures import new_figure

__all__ = ["DisplayedData"]

_ROWS, _FEATURES, _LABELS = 6, 6, 8  # shown
_BINS = 30


class DisplayedData(Displayed):
    """Base of :class:`~rankwright.RankingData`."""

    def _shown_table(self) -> Tabled:
        data: Any = self
        n, ids = min(_ROWS, data.n_docs), data.doc_ids is not None
        queries = data.query_ids[np.searchsorted(data.indptr, np.arange(n), side="right") - 1]
        columns = {"query": [cell(one) for one in queries.tolist()]}
        if ids:
            columns["document"] = [_decoded(one) for one in data.doc_ids[:n].tolist()]
        columns["label"] = [f"{label:g}" for label in data.labels[:n].tolist()]
        columns |= _first_features(data, n)
        rows = tuple(zip(*columns.values(), strict=True))
        left = data.n_docs - n
        notes = [f"and {left:,} more documents"] if left else []
        notes.append(f"labels: {', '.join(f'{label:g} × {count:,}' for label, count in _labels(data)[:_LABELS])}")
        hidden = data.n_features - (len(columns) - 2 - ids)
        notes += [f"{hidden:,} features are not shown"] if hidden else []
        return Tabled(tuple(columns), rows, tuple(notes), 1 + ids, title=repr(self))

    def to_frame(self) -> Any:
        """All documents as a pandas data frame; see :func:`rankwright.to_frame`."""
        return importlib.import_module("rankwright.data.tables").to_frame(self)

    def _drawing(self) -> Callable[[], Any]:
        return lambda: _draw(self)

    def __str__(self) -> str:
        return self.to_text()


def _first_features(data: Any, n: int) -> dict[str, list[str]]:
    """The first features of the first documents; none of features that are in parts."""
    if not hasattr(data.X, "toarray") and not isinstance(data.X, np.ndarray):
        return {}
    X = data.X[:n]
    X = X[:, :_FEATURES].toarray() if data.is_sparse else X[:, :_FEATURES]
    columns: dict[str, list[str]] = {}
    for at, name in enumerate(data.names[:_FEATURES]):
        known = {number_of(value): shown_category(value) for value in data.categories.get(at, ())}
        columns[_unused(name, columns)] = [known.get(value) or cell(value) for value in X[:, at].astype(float).tolist()]
    return columns


def _unused(name: str, columns: dict[str, list[str]]) -> str:
    """A name for a column that no other has: features may be called label, too."""
    return name if name not in ("query", "document", "label", *columns) else f"{name} (feature)"


def _labels(data: Any) -> list[tuple[float, int]]:
    """How many documents have each label."""
    found, counts = np.unique(data.labels, return_counts=True)
    return list(zip(found.tolist(), counts.tolist(), strict=True))


def _decoded(one: Any) -> str:
    return one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one)


def _draw(data: Any) -> Any:
    """Documents by label, and documents per query."""
    figure = new_figure(2.4)
    left, right = figure.subplots(1, 2)
    labels = _labels(data)
    columns = left.bar(range(len(labels)), [count for _, count in labels], color="#0072b2", width=0.7)
    left.bar_label(columns, [f"{count:,}" for _, count in labels])
    left.set_xticks(range(len(labels)), [f"{label:g}" for label, _ in labels])
    left.set_xlabel("label")
    left.set_ylabel("documents")
    left.grid(axis="x", visible=False)
    sizes = np.diff(data.indptr)
    ends = (int(sizes.min(initial=0)), int(sizes.max(initial=0)) + 1)
    right.hist(sizes, bins=min(_BINS, max(1, ends[1] - ends[0])), range=ends, color="#0072b2")
    right.xaxis.get_major_locator().set_params(integer=True)
    right.set_xlabel("documents of a query")
    right.set_ylabel("queries")
    return figure
