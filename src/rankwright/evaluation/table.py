"""The one way from labels, scores and query boundaries to a table with a row per query and a column per measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.data.order import rank_order
from rankwright.errors import InputError
from rankwright.evaluation.display import DisplayedEvaluation
from rankwright.measures import Measure, Rankings, parse_measure

__all__ = ["DEFAULT_MEASURES", "Evaluation", "evaluate"]

Array = npt.NDArray[Any]
Empty = Literal[0, 1, "skip"]
DEFAULT_MEASURES = ("AP", "nDCG@10", "RR", "P@10")
CONVENTIONS = ("trec", "letor")
JUDGED = "Judged@10"  # among the facts of a run: how much of its top has judgements


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(DisplayedEvaluation):
    """One row per query, one column per measure.

    Attributes
    ----------
    query_ids : ndarray
        The queries.
    measures : tuple of Measure
        The columns, as requested.
    values : ndarray of shape (queries, measures)
        nan if a query is left out of the mean of a measure.
    definitions : tuple of str
        Full definition of each column, including what the convention filled in.
    name : str
        What was evaluated.
    notes : tuple of str
        What a reader should know, such as how many queries were missing.
    facts : dict
        The same in numbers, for programs.
    """

    query_ids: Array
    measures: tuple[Measure, ...]
    values: Array
    definitions: tuple[str, ...]
    name: str = ""
    notes: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def means(self) -> dict[str, float]:
        """Mean of every measure over the queries that count; nan if none does."""
        columns = zip(self.measures, self.values.T, strict=True)
        return {str(m): getattr(m, "mean", mean_of)(column) for m, column in columns}  # of other programs, only a name

    def column(self, measure: str | Measure) -> Array:
        """The values of one measure, query by query."""
        wanted = parse_measure(measure)
        if wanted not in self.measures:
            raise InputError(f"{wanted} was not evaluated; expected one of {', '.join(map(str, self.measures))}")
        return self.values[:, self.measures.index(wanted)]

    def only(self, measures: Sequence[str | Measure]) -> Evaluation:
        """The columns of some of the measures, in their order."""
        wanted = tuple(dict.fromkeys(parse_measure(measure) for measure in measures))
        values = np.column_stack([self.column(measure) for measure in wanted])
        definitions = tuple(self.definitions[self.measures.index(measure)] for measure in wanted)
        return replace(self, measures=wanted, values=values, definitions=definitions)


def mean_of(values: Array) -> float:
    """Mean of the values that are not nan; nan if there is none."""
    kept = values[~np.isnan(values)]
    return float(kept.mean()) if len(kept) else float("nan")


def shared_notes(evaluations: Sequence[Evaluation]) -> list[str]:
    """Notes shared by all systems, then the others, each with the name of its system."""
    shared = [note for note in evaluations[0].notes if all(note in evaluation.notes for evaluation in evaluations)]
    own = [f"{e.name}: {note}" for e in evaluations for note in e.notes if note not in shared]
    return shared + own


def check_alike(evaluations: Sequence[Evaluation], base: Evaluation) -> None:
    """Reject systems that were evaluated by other definitions than the baseline."""
    for evaluation in evaluations:
        if evaluation.definitions != base.definitions:
            pairs = zip(evaluation.definitions, base.definitions, strict=False)
            theirs, ours = next((pair for pair in pairs if pair[0] != pair[1]), ("other measures", "these"))
            raise InputError(f"{evaluation.name} was evaluated differently: {theirs!r}, the baseline {ours!r}")


def evaluate(
    labels: npt.ArrayLike | RankingData,
    scores: npt.ArrayLike,
    qid: npt.ArrayLike | None = None,
    *,
    group: npt.ArrayLike | None = None,
    measures: Sequence[str | Measure] = DEFAULT_MEASURES,
    convention: str = "letor",
    empty: Empty = 0,
    doc_ids: npt.ArrayLike | None = None,
    name: str = "",
) -> Evaluation:
    """Evaluate scores of labelled documents.

    Parameters
    ----------
    labels : array-like or RankingData
        One label per document, 0 or above.
    scores : array-like
        One score per document, higher is better, in the caller's order.
    qid : array-like, optional
        Query id per document, of any type, in any order.
    group : array-like of int, optional
        Instead of ``qid``: documents per query.
    measures : sequence of str or Measure
        The measures.
    convention : {"letor", "trec"}
        The gain of nDCG if it does not say: ``2^label − 1`` for ``letor``, ``label`` for ``trec``.
    empty : {0, 1, "skip"}
        Value of a query without a relevant document.
    doc_ids : array-like, optional
        Ids that order equal scores (descending as strings); without them, input order does.

    Examples
    --------
    >>> table = evaluate([0, 1, 1, 0], [0.1, 0.9, 0.4, 0.5], qid=[1, 1, 2, 2], measures=["AP", "nDCG@10"])
    >>> table.means["AP"]
    0.75
    """
    if isinstance(labels, RankingData):
        data = labels
    else:
        column = np.asarray(labels)
        data = RankingData.from_arrays(np.empty((len(column), 0)), column, qid, group=group, doc_ids=doc_ids)
    given = np.asarray(scores, np.float64)
    if given.shape != (data.n_docs,):
        raise InputError(f"{data.n_docs} documents but scores of shape {given.shape}; expected one score per document")
    if data.rows is not None:
        given = given[data.rows]
    order = rank_order(given, data.indptr, data.doc_ids)
    rankings = Rankings(data.labels[order], data.indptr)
    ties = "ties in input order" if data.doc_ids is None else "ties by document id"
    return evaluate_rankings(rankings, data.query_ids, measures, convention, empty, ties, name)


def evaluate_rankings(
    rankings: Rankings,
    query_ids: Array,
    measures: Sequence[str | Measure],
    convention: str,
    empty: Empty,
    ties: str,
    name: str = "",
    missing: Array | None = None,
) -> Evaluation:
    """Compute every measure on rankings; queries marked ``missing`` count 0."""
    if convention not in CONVENTIONS:
        raise InputError(f"convention is {convention!r}; expected trec or letor")
    if empty not in (0, 1, "skip"):
        raise InputError(f"empty is {empty!r}; expected 0, 1 or skip")
    asked = tuple(dict.fromkeys(parse_measure(measure) for measure in measures))
    if not asked:
        raise InputError("no measures; expected at least one")
    values = np.empty((rankings.n_queries, len(asked)))
    definitions = []
    without = np.zeros(rankings.n_queries, bool)
    for column, measure in enumerate(asked):
        resolved = measure.resolve(convention)
        values[:, column] = resolved.value(rankings)
        if missing is not None:
            values[missing, column] = 0.0
        nothing = ~resolved.has_relevant(rankings)
        values[nothing, column] = np.nan if empty == "skip" else float(empty)
        without |= nothing
        definitions.append(f"{measure}: {resolved.definition()}, {ties}, empty query {empty}")
    notes: tuple[str, ...] = ()
    facts = {"queries": rankings.n_queries, "without_relevant": int(without.sum())}
    if without.any():
        counted = "left out" if empty == "skip" else f"counted {empty}"
        notes = (f"queries without a relevant document: {without.sum()} of {len(without)}, {counted}",)
    return Evaluation(query_ids, asked, values, tuple(definitions), name, notes, facts)
