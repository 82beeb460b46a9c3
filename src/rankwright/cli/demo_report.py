"""The results of `rankwright demo`: means by kind of query, example queries, and two plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwright.cli.printing import styled
from rankwright.evaluation.render import Table, draw
from rankwright.evaluation.significance import bootstrap_interval

if TYPE_CHECKING:
    from rankwright.data.trec import TrecTable
    from rankwright.datasets import Collection
    from rankwright.evaluation.table import Evaluation
    from rankwright.text.index.index import Index

__all__ = ["example_queries", "kinds_table", "write_plots"]

_LEARNED = "auto"
_SHOWN = 3  # documents of an example query
_WIDTH = 46  # of each of two columns
_INK, _FAINT, _GOOD, _BAD = "#1b1f24", "#8b949e", "#0072b2", "#d55e00"


def _of_kind(evaluation: Evaluation, kinds: Mapping[str, str], kind: str) -> Any:
    chosen = [kinds[str(query)] == kind for query in evaluation.query_ids]
    return evaluation.values[np.array(chosen)]


def _sorted_kinds(evaluation: Evaluation, kinds: Mapping[str, str]) -> list[str]:
    found = [kinds[str(query)] for query in evaluation.query_ids]
    return sorted(set(found), key=found.count, reverse=True)


def kinds_table(evaluations: Sequence[Evaluation], kinds: Mapping[str, str]) -> str:
    """Means of every system for each kind of query, with the best of each column marked."""
    names = _sorted_kinds(evaluations[0], kinds)
    measures = [str(measure) for measure in evaluations[0].measures]
    means = np.array([[_of_kind(one, kinds, kind).mean(axis=0) for kind in names] for one in evaluations])
    best = means.max(axis=0)
    header = ["system", *(f"{kind[:5]}. {measure}" for kind in names for measure in measures)]
    rows = []
    for one, row in zip(evaluations, means, strict=True):
        cells = [f"{value:.4f}{'*' if value == top else ' '}" for value, top in zip(row.flat, best.flat, strict=True)]
        rows.append((one.name, *cells))
    sizes = [f"{len(_of_kind(evaluations[0], kinds, kind))} {kind}" for kind in names]
    note = f"by kind of query ({' and '.join(sizes)}); * best of its column"
    return draw(Table(tuple(header), tuple(rows), (note,)))


def example_queries(
    index: Index,
    collection: Collection,
    qrels: TrecTable,
    evaluations: Sequence[Evaluation],
    runs: Mapping[str, TrecTable],
) -> str:
    """Held-out queries answered by two systems: the largest gain of each kind, and the largest loss."""
    by_name = {one.name: one for one in evaluations}
    gains = by_name[_LEARNED].values[:, 0] - by_name["bm25"].values[:, 0]
    queries = [str(query) for query in by_name["bm25"].query_ids]
    chosen = []
    for kind in _sorted_kinds(evaluations[0], collection.kinds):
        of_kind = [at for at, query in enumerate(queries) if collection.kinds[query] == kind]
        chosen.append((max(of_kind, key=lambda at: gains[at]), f"the largest gain, {kind}"))
    chosen.append((int(np.argmin(gains)), "the largest loss"))
    lines = ["Three held-out queries, by BM25 and by auto (✓ relevant):"]
    for at, why in chosen:
        query = queries[at]
        lines += ["", styled(f"“{collection.queries[query]}”", bold=True) + f"   {why}"]
        good = {document.decode() for document, _ in _ranked(qrels, query, None)}
        columns = []
        for name, system in (("BM25", "bm25"), (_LEARNED, _LEARNED)):
            shown = [f"{name}, AP {by_name[system].values[at, 0]:.2f}"]
            for rank, (document, _) in enumerate(_ranked(runs[system], query, _SHOWN), 1):
                mark = "✓" if document.decode() in good else " "
                shown.append(f"{rank}. {mark} {document.decode()}"[:_WIDTH])
            columns.append(shown)
        lines += [f"  {left:<{_WIDTH}}  {right}" for left, right in zip(*columns, strict=False)]
    return "\n".join(lines) + "\n"


def _ranked(table: TrecTable, query: str, most: int | None) -> list[tuple[bytes, float]]:
    """Documents of a query and their values, highest first."""
    from rankwright.data.order import rank_order

    q = [str(one) for one in table.query_ids].index(query)
    rows = slice(table.indptr[q], table.indptr[q + 1])
    ids, values = table.doc_ids[rows], table.values[rows]
    order = rank_order(values, np.array([0, len(values)]), ids)[:most]
    return [(ids[at], float(values[at])) for at in order]


def write_plots(evaluations: Sequence[Evaluation], kinds: Mapping[str, str], folder: Path) -> list[str]:
    """Plot means with 95 % intervals by kind of query, and differences from BM25 by query; return the file names."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from rankwright.data.files import replace_file

    style: Any = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "rankwright"}
    written = []
    with rc_context(style):
        for name, draw_on, size in (
            ("means.png", _draw_means, (8, 4.2)),
            ("differences.png", _draw_differences, (8, 3.6)),
        ):
            figure = Figure(figsize=size, dpi=150, layout="constrained")
            draw_on(figure, evaluations, kinds)
            with replace_file(folder / name) as out:
                figure.savefig(out, format="png")
            written.append(name)
    return written


def _draw_means(figure: Any, evaluations: Sequence[Evaluation], kinds: Mapping[str, str]) -> None:
    names = _sorted_kinds(evaluations[0], kinds)
    measures = [str(measure) for measure in evaluations[0].measures]
    axes = figure.subplots(len(names), len(measures), sharey=True, sharex="row", squeeze=False)
    places = np.arange(len(evaluations))[::-1]
    for row, kind in enumerate(names):
        for column, measure in enumerate(measures):
            axis = axes[row, column]
            for place, one in zip(places, evaluations, strict=True):
                values = _of_kind(one, kinds, kind)[:, column]
                low, high = bootstrap_interval(values)
                learned = one.name not in ("bm25", "best-single")
                axis.plot([low, high], [place, place], color=_GOOD if learned else _FAINT, linewidth=2)
                axis.plot(values.mean(), place, "o" if learned else "s", color=_GOOD if learned else _INK, markersize=5)
            axis.axvline(_of_kind(evaluations[0], kinds, kind)[:, column].mean(), color=_FAINT, linewidth=0.8, zorder=0)
            axis.set_yticks(places, [one.name for one in evaluations])
            axis.set_title(f"{measure}, {kind} ({len(values)})", fontsize=9, loc="left")
    figure.supxlabel("mean over held-out queries, with its 95 % bootstrap interval; the line is BM25", fontsize=8)


def _draw_differences(figure: Any, evaluations: Sequence[Evaluation], kinds: Mapping[str, str]) -> None:
    by_name = {one.name: one for one in evaluations}
    axis = figure.subplots()
    differences = by_name[_LEARNED].values[:, 0] - by_name["bm25"].values[:, 0]
    order = np.argsort(-differences)
    names = _sorted_kinds(evaluations[0], kinds)
    queries = [str(query) for query in by_name["bm25"].query_ids]
    for kind, hatch in zip(names, ("", "////"), strict=False):
        at = [place for place, query in enumerate(order.tolist()) if kinds[queries[query]] == kind]
        values = differences[order][at]
        colours = [_GOOD if value > 0 else _BAD for value in values]
        axis.bar(at, values, width=0.9, color=colours, hatch=hatch, edgecolor="white", linewidth=0.2, label=kind)
    axis.axhline(0, color=_INK, linewidth=0.8)
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    axis.set_title(
        f"auto against BM25 on {len(differences)} held-out queries: {wins} better, {losses} worse", loc="left"
    )
    axis.set_ylabel("difference of AP")
    axis.set_xlabel("queries, sorted; hatched: informational" if len(names) > 1 else "queries, sorted")
    axis.set_xticks([])
