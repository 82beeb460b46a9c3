"""Display of data sets, judgements and runs: first documents as a table, and a plot of labels or scores."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from rankwright.data.categories import number_of, shown_category
from rankwright.data.display import Displayed, Tabled, cell
from rankwright.data.figures import new_figure

__all__ = ["DisplayedData", "DisplayedTable", "draw_values"]

_ROWS, _FEATURES, _LABELS = 6, 6, 8  # shown
_BINS = 30


class DisplayedData(Displayed):
    """Base of :class:`~rankwright.RankingData`."""

    def _shown_table(self) -> Tabled:
        data: Any = self
        n, ids = min(_ROWS, data.n_docs), data.doc_ids is not None
        queries = data.query_ids[np.searchsorted(data.indptr, np.arange(n), side="right") - 1]
        columns = {"query": [cell(query) for query in queries.tolist()]}
        if ids:
            columns["document"] = [_decoded(document) for document in data.doc_ids[:n].tolist()]
        columns["label"] = [f"{label:g}" for label in data.labels[:n].tolist()]
        columns |= _first_features(data, n)
        rows = tuple(zip(*columns.values(), strict=True))
        notes = [*_left(data.n_docs - n), f"labels: {_counted(data.labels)}"]
        hidden = data.n_features - (len(columns) - 2 - ids)
        notes += [f"{hidden:,} features are not shown"] if hidden else []
        return Tabled(tuple(columns), rows, tuple(notes), 1 + ids, title=repr(self))

    def to_frame(self) -> Any:
        """All documents as a pandas data frame; see :func:`rankwright.to_frame`."""
        return importlib.import_module("rankwright.io.frames").to_frame(self)

    def _drawing(self) -> Callable[[], Any]:
        data: Any = self
        return lambda: draw_values(data.labels, data.indptr, "label")

    def __str__(self) -> str:
        return self.to_text()


class DisplayedTable(Displayed):
    """Base of :class:`~rankwright.TrecTable`."""

    def _shown_table(self) -> Tabled:
        table: Any = self
        n = min(_ROWS, table.n_docs)
        queries, values = self._query_of_rows()[:n].tolist(), table.values[:n].tolist()
        documents = [_decoded(document) for document in table.doc_ids[:n].tolist()]
        integers = bool((table.values == np.rint(table.values)).all())
        texts = [f"{value:g}" if integers else cell(value) for value in values]
        rows = tuple(zip(queries, documents, texts, strict=True))
        few = len(np.unique(table.values)) <= _LABELS
        ends = "" if few else f"from {cell(float(table.values.min()))} to {cell(float(table.values.max()))}"
        notes = (*_left(table.n_docs - n), f"values: {_counted(table.values) if few else ends}")
        return Tabled(("query", "document", "value"), rows, notes, 2, title=repr(self))

    def to_frame(self) -> Any:
        """All rows as a pandas data frame with the columns query, document and value."""
        table: Any = self
        documents = [_decoded(document) for document in table.doc_ids.tolist()]
        columns = {"query": self._query_of_rows(), "document": documents, "value": table.values}
        return importlib.import_module("pandas").DataFrame(columns)

    def _query_of_rows(self) -> Any:
        table: Any = self
        return np.repeat(table.query_ids, np.diff(table.indptr))

    def _drawing(self) -> Callable[[], Any]:
        table: Any = self
        return lambda: draw_values(table.values, table.indptr, "value")

    def __repr__(self) -> str:
        table: Any = self
        name = f"{table.name!r}: " if table.name else ""
        return f"TrecTable({name}{table.n_queries} queries, {table.n_docs} documents)"

    def __str__(self) -> str:
        return self.to_text()


def _first_features(data: Any, n: int) -> dict[str, list[str]]:
    """The first features of the first documents; none for partitioned features."""
    if not hasattr(data.X, "toarray") and not isinstance(data.X, np.ndarray):
        return {}
    X = data.X[:n]
    X = X[:, :_FEATURES].toarray() if data.is_sparse else X[:, :_FEATURES]
    columns: dict[str, list[str]] = {}
    for at, name in enumerate(data.names[:_FEATURES]):
        texts = {number_of(value): shown_category(value) for value in data.categories.get(at, ())}
        columns[_unused(name, columns)] = [texts.get(value) or cell(value) for value in X[:, at].astype(float).tolist()]
    return columns


def _unused(name: str, columns: dict[str, list[str]]) -> str:
    """A name no other column has: features may be called label, too."""
    return name if name not in ("query", "document", "label", *columns) else f"{name} (feature)"


def _left(n: int) -> list[str]:
    return [f"and {n:,} more documents"] if n else []


def _labels(labels: Any) -> list[tuple[float, int]]:
    distinct, counts = np.unique(labels, return_counts=True)
    return list(zip(distinct.tolist(), counts.tolist(), strict=True))


def _counted(labels: Any) -> str:
    return ", ".join(f"{label:g} × {count:,}" for label, count in _labels(labels)[:_LABELS])


def _decoded(name: Any) -> str:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)


def draw_values(labels: Any, indptr: Any, what: str) -> Any:
    """Documents by label, or by score where they are many, and documents per query."""
    figure = new_figure(2.4)
    left, right = figure.subplots(1, 2)
    counts = _labels(labels)
    if what != "label" and len(counts) > _LABELS:
        left.hist(labels, bins=_BINS, color="#0072b2")
    else:
        columns = left.bar(range(len(counts)), [count for _, count in counts], color="#0072b2", width=0.7)
        left.bar_label(columns, [f"{count:,}" for _, count in counts])
        left.set_xticks(range(len(counts)), [f"{label:g}" for label, _ in counts])
    left.set_xlabel(what)
    left.set_ylabel("documents")
    left.grid(axis="x", visible=False)
    sizes = np.diff(indptr)
    ends = (int(sizes.min(initial=0)), int(sizes.max(initial=0)) + 1)
    right.hist(sizes, bins=min(_BINS, max(1, ends[1] - ends[0])), range=ends, color="#0072b2")
    right.xaxis.get_major_locator().set_params(integer=True)
    right.set_xlabel("documents of a query")
    right.set_ylabel("queries")
    return figure
