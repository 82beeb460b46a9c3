"""Runs against judgements, evaluated as trec_eval does.

Unjudged documents are not relevant; labels below 0 count as 0; documents are ranked by score, compared in single
precision, then by document id, descending; judged queries missing from a run count 0 (trec_eval's `-c`).
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rankwright.data.blocks import sizes_to_indptr
from rankwright.data.order import rank_order
from rankwright.data.run_objects import Source, trec_table
from rankwright.data.trec import TrecTable
from rankwright.errors import InputError, InputWarning
from rankwright.evaluation.table import DEFAULT_MEASURES, JUDGED, Empty, Evaluation, evaluate_rankings
from rankwright.measures import Measure, Rankings, parse_measure

__all__ = ["Judgements", "evaluate_run"]

Array = npt.NDArray[Any]
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class Judgements:
    """Qrels indexed by query and document; worth keeping to evaluate several runs."""

    qrels: TrecTable

    @classmethod
    def of(cls, source: Judgements | Source) -> Judgements:
        """From a table, a file or another form, see :func:`~rankwright.data.run_objects.trec_table`."""
        return source if isinstance(source, Judgements) else cls(trec_table(source, "qrels"))

    @cached_property
    def labels(self) -> Array:
        """Labels; those below 0 are 0."""
        return np.maximum(self.qrels.values, 0.0)

    @cached_property
    def known(self) -> Rankings:
        """The judged labels of each query."""
        qrels = self.qrels
        return Rankings(self.labels, qrels.indptr, grades=qrels.values, strata=qrels.strata, subtopics=qrels.subtopics)

    @cached_property
    def row_of(self) -> dict[str, dict[bytes, int]]:
        """Row of the qrels by query and document."""
        documents, bounds = self.qrels.documents, self.qrels.indptr.tolist()
        return {
            query: dict(zip(documents[start:stop], range(start, stop), strict=True))
            for query, start, stop in zip(self.qrels.query_ids.tolist(), bounds[:-1], bounds[1:], strict=True)
        }

    def ranked(self, rows: Array, indptr: Array) -> Rankings:
        """Rankings of documents by their rows in the qrels; -1 without a judgement."""
        is_judged = rows >= 0

        def of(values: Array | None, otherwise: float) -> Array | None:
            if values is None:
                return None
            known = is_judged if values.ndim == 1 else is_judged[:, None]
            return np.where(known, values[rows], otherwise) if len(values) else np.full(len(rows), otherwise)

        known, labels = self.known, of(self.labels, 0.0)
        assert labels is not None
        more = of(known.grades, np.nan), of(known.strata, -1), of(known.subtopics, 0.0)
        return Rankings(labels, indptr, known, is_judged, *more)


def evaluate_run(
    qrels: Judgements | Source,
    run: Source,
    measures: Sequence[str | Measure] = DEFAULT_MEASURES,
    *,
    convention: str = "trec",
    empty: Empty = 0,
    missing: Literal[0, "skip"] = 0,
    name: str | None = None,
) -> Evaluation:
    """Evaluate a run against judgements.

    Parameters
    ----------
    qrels, run : path, TrecTable, dict, data frame, or object of ranx or ir_measures
        Files in TREC format, tables, or ``{query: {document: number}}``; data frames (pandas, polars, pyarrow) with the
        columns that PyTerrier gives them (``qid``, ``docno``, ``score`` or ``label``) or ir_measures (``query_id``,
        ``doc_id``, ``score`` or ``relevance``); ranx's ``Qrels`` and ``Run``; lists of ir_measures' ``Qrel`` and
        ``ScoredDoc``.
    measures : sequence of str or Measure
        The measures.
    convention : {"trec", "letor"}
        The gain of nDCG if it does not say: ``label`` for ``trec``, ``2^label − 1`` for ``letor``.
    empty : {0, 1, "skip"}
        Value of a query without a relevant document.
    missing : {0, "skip"}
        Value of a judged query that is missing from the run.

    Examples
    --------
    >>> table = evaluate_run({"1": {"a": 1, "b": 0}}, {"1": {"a": 0.2, "b": 0.7}}, ["RR"])
    >>> table.means
    {'RR': 0.5}
    """
    if missing not in (0, "skip"):
        raise InputError(f"missing is {missing!r}; expected 0 or skip")
    judged = Judgements.of(qrels)
    table = trec_table(run, "run")
    rankings, absent = _ranked(judged, table)
    query_ids = judged.qrels.query_ids
    unknown = table.n_queries - (len(absent) - int(absent.sum()))
    if unknown:
        _warn_unknown(judged, table, unknown)
    ties = "ties by document id (scores compared in float32)"
    title = table.name if name is None else name
    result = evaluate_rankings(rankings, query_ids, measures, convention, empty, ties, title, missing=absent)
    facts = {**result.facts, "missing_from_run": int(absent.sum()), "unjudged_queries_ignored": unknown}
    shares = parse_measure(JUDGED).value(rankings)[~absent]
    facts[JUDGED] = float(shares.mean()) if len(shares) else 0.0
    notes, values = result.notes, result.values
    if absent.any():
        counted = "counted 0" if missing == 0 else "left out"
        notes = (*notes, f"judged queries missing from the run: {absent.sum()} of {len(absent)}, {counted}")
        if missing == "skip":
            values = np.where(absent[:, None], np.nan, values)
    return dataclasses.replace(result, values=values, notes=notes, facts=facts)


def _ranked(judged: Judgements, run: TrecTable) -> tuple[Rankings, Array]:
    """Labels in rank order for every judged query, and which of these queries are missing from the run."""
    scores = np.clip(run.values, -_LARGEST, _LARGEST).astype(np.float32)
    order = rank_order(scores, run.indptr, run.doc_ids)
    bounds = run.indptr.tolist()
    place = {query: q for q, query in enumerate(run.query_ids.tolist())}
    found: list[Array] = []
    sizes = np.zeros(len(judged.row_of), np.int64)
    absent = np.zeros(len(judged.row_of), bool)
    for q, (query, row_of) in enumerate(judged.row_of.items()):
        at = place.get(query)
        if at is None:
            absent[q] = True
            continue
        start, stop = bounds[at], bounds[at + 1]
        sizes[q] = stop - start
        rows = np.fromiter(map(row_of.get, run.documents[start:stop], repeat(-1)), np.int64, stop - start)
        found.append(rows[order[start:stop] - start])
    ranked = np.concatenate(found) if found else np.zeros(0, np.int64)
    return judged.ranked(ranked, sizes_to_indptr(sizes)), absent


def _warn_unknown(judged: Judgements, run: TrecTable, unknown: int) -> None:
    stranger = np.array([query not in judged.row_of for query in run.query_ids.tolist()])
    documents = int(np.diff(run.indptr)[stranger].sum())
    what = f"ignored {documents} documents of {unknown} unjudged queries"
    warnings.warn(f"{run.name or 'the run'}: {what}", InputWarning, stacklevel=3)
