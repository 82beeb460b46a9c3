"""The one way from labels, scores and query boundaries to a table with a row per query and a column per measure.

Runs are evaluated against judgements as trec_eval does: unjudged documents are not relevant; labels below 0 count as 0;
documents are ranked by score, compared in single precision, then by document id, descending; judged queries missing
from a run count 0 (trec_eval's `-c`).
"""

from __future__ import annotations

import dataclasses
import importlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import repeat
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.data.dataset import RankingData
from rankwright.data.display import Displayed, look, new_figure, shown
from rankwright.data.fusion import fuse
from rankwright.data.order import rank_order, sizes_to_indptr
from rankwright.data.trec_table import TrecTable
from rankwright.errors import InputError, InputWarning
from rankwright.io.trec import TrecSource, trec_table
from rankwright.measures import Measure, Rankings, parse_measure

__all__ = ["ChosenK", "Evaluation", "choose_k", "evaluate", "evaluate_run"]

Empty = Literal[0, 1, "skip"]
DEFAULT_MEASURES = ("AP", "nDCG@10", "RR", "P@10")
CONVENTIONS = ("trec", "letor")
_RENDER = "rankwright.evaluation.render"  # draws the tables of this module and imports it, so it is found by name
_MAX_QUERIES = 200  # in a notebook
JUDGED = "Judged@10"  # among the facts of a run: how much of its top has judgements


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Displayed):
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

    def _named(self) -> Evaluation:
        return self if self.name else replace(self, name="scores")

    def _shown_table(self) -> Any:
        evaluation = self._named()
        table = importlib.import_module(_RENDER).evaluation_table([evaluation])
        n_counted = int((~np.isnan(evaluation.values)).any(axis=1).sum())  # the others are left out
        counted = f"mean over {n_counted:,} {'query' if n_counted == 1 else 'queries'}"
        return replace(table, notes=(counted, *table.notes))

    def _more(self) -> tuple[str, Any] | None:
        evaluation = self._named()
        n_queries = len(evaluation.query_ids)
        first = replace(
            evaluation, query_ids=evaluation.query_ids[:_MAX_QUERIES], values=evaluation.values[:_MAX_QUERIES]
        )
        table = importlib.import_module(_RENDER).evaluation_table([first], per_query=True)
        rows, more = table.rows[:-1], n_queries - _MAX_QUERIES  # the last row is the mean
        notes = (f"and {more:,} more queries: to_frame() has all",) if more > 0 else ()
        return "query by query", replace(table, rows=rows, notes=notes, rules=frozenset())

    def to_frame(self) -> Any:
        """A row per query and a column per measure, as a pandas data frame."""
        evaluation, pandas = self._named(), importlib.import_module("pandas")
        index = pandas.Index(evaluation.query_ids, name="query")
        return pandas.DataFrame(np.array(evaluation.values), index=index, columns=list(map(str, evaluation.measures)))

    def _drawing(self) -> Callable[[], Any]:
        return lambda: _by_query(self._named())

    def __repr__(self) -> str:
        return self.to_text()


def _by_query(evaluation: Evaluation) -> Any:
    """The values of every measure, each sorted: how many queries are good, and how many fail."""
    figure = new_figure(2.8)
    axis = figure.subplots()
    for at, measure in enumerate(evaluation.measures):
        values = evaluation.values[:, at]
        values = np.sort(values[~np.isnan(values)])[::-1]
        mean = evaluation.means[str(measure)]
        style = look(at) | {"markevery": max(1, len(values) // 15)}
        axis.plot(range(1, len(values) + 1), values, label=f"{shown(str(measure))}, mean {mean:.4f}", **style)
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.set_xlabel("queries, the best first for each measure")
    axis.set_title(shown(evaluation.name))
    axis.legend(frameon=False)
    return figure


def mean_of(values: Array) -> float:
    """Mean of the values that are not nan; nan if there is none."""
    kept = values[~np.isnan(values)]
    return float(kept.mean()) if len(kept) else float("nan")


def shared_notes(evaluations: Sequence[Evaluation]) -> list[str]:
    """Notes shared by all systems, then the others, each with the name of its system."""
    shared = [note for note in evaluations[0].notes if all(note in evaluation.notes for evaluation in evaluations)]
    further = [f"{e.name}: {note}" for e in evaluations for note in e.notes if note not in shared]
    return shared + further


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
    data.check_labels()
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
    empty = {"0": 0, "1": 1}.get(str(empty), empty)  # type: ignore[assignment]
    if empty not in (0, 1, "skip"):
        raise InputError(f"empty is {empty!r}; expected 0, 1 or skip")
    listed = [measures] if isinstance(measures, str | Measure) else measures
    parsed = tuple(dict.fromkeys(map(parse_measure, listed)))
    if not parsed:
        raise InputError("no measures; expected at least one")
    values = np.empty((rankings.n_queries, len(parsed)))
    definitions = []
    without = np.zeros(rankings.n_queries, bool)
    for column, measure in enumerate(parsed):
        resolved = measure.resolve(convention)
        values[:, column] = resolved.value(rankings)
        if missing is not None:
            values[missing, column] = 0.0
        nothing = ~resolved.has_relevant(rankings)
        values[nothing, column] = np.nan if empty == "skip" else float(empty)
        without |= nothing
        words = filter(None, (resolved.definition(), ties, f"empty query {empty}"))  # a user's may say nothing
        definitions.append(f"{measure}: {', '.join(words)}")
    notes: tuple[str, ...] = ()
    facts = {"queries": rankings.n_queries, "without_relevant": int(without.sum())}
    if without.any():
        counted = "left out" if empty == "skip" else f"counted {empty}"
        notes = (f"queries without a relevant document: {without.sum()} of {len(without)}, {counted}",)
    return Evaluation(query_ids, parsed, values, tuple(definitions), name, notes, facts)


_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class Judgements:
    """Qrels indexed by query and document; keep it to evaluate several runs."""

    qrels: TrecTable

    @classmethod
    def of(cls, source: Judgements | TrecSource) -> Judgements:
        """From a table, a file or another form, see :func:`~rankwright.io.trec.trec_table`."""
        return source if isinstance(source, Judgements) else cls(trec_table(source, "qrels"))

    @cached_property
    def labels(self) -> Array:
        """Labels; those below 0 are 0."""
        return np.maximum(self.qrels.values, 0.0)

    @cached_property
    def judged(self) -> Rankings:
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
            has_judgement = is_judged if values.ndim == 1 else is_judged[:, None]
            return np.where(has_judgement, values[rows], otherwise) if len(values) else np.full(len(rows), otherwise)

        judged, labels = self.judged, of(self.labels, 0.0)
        assert labels is not None
        more = of(judged.grades, np.nan), of(judged.strata, -1), of(judged.subtopics, 0.0)
        return Rankings(labels, indptr, judged, is_judged, *more)


def evaluate_run(
    qrels: Judgements | TrecSource,
    run: TrecSource,
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
        The measures, or one.
    convention : {"trec", "letor"}
        The gain of nDCG if it does not say: ``label`` for ``trec``, ``2^label − 1`` for ``letor``.
    empty : {0, 1, "skip"}
        Value of a query without a relevant document.
    missing : {0, "skip"}
        Value of a judged query that is missing from the run.
    name : str, optional
        What is evaluated; by default the file's name without ``.run`` or the like, as `rankwright evaluate` has it.

    Examples
    --------
    >>> table = evaluate_run({"1": {"a": 1, "b": 0}}, {"1": {"a": 0.2, "b": 0.7}}, ["RR"])
    >>> table.means
    {'RR': 0.5}
    """
    missing = 0 if missing == "0" else missing  # as on the command line
    if missing not in (0, "skip"):
        raise InputError(f"missing is {missing!r}; expected 0 or skip")
    judged = Judgements.of(qrels)
    table = trec_table(run, "run")
    rankings, absent = _ranked(judged, table)
    query_ids = judged.qrels.query_ids
    unknown = table.n_queries - (len(absent) - int(absent.sum()))
    problem = nothing_in_common(judged, table)
    if problem:
        warnings.warn(f"{table.name or 'the run'}: {problem}, so that all values are 0", InputWarning, stacklevel=2)
    elif unknown:
        stranger = np.array([query not in judged.row_of for query in table.query_ids.tolist()])
        documents = int(np.diff(table.indptr)[stranger].sum())
        message = f"ignored {documents} documents of {unknown} unjudged queries"
        warnings.warn(f"{table.name or 'the run'}: {message}", InputWarning, stacklevel=2)
    ties = "ties by document id (scores compared in float32)"
    title = system_name(table.name) if name is None else name
    result = evaluate_rankings(rankings, query_ids, measures, convention, empty, ties, title, missing=absent)
    facts = {**result.facts, "missing_from_run": int(absent.sum()), "unjudged_queries_ignored": unknown}
    shares = parse_measure(JUDGED).value(rankings)[~absent]
    facts[JUDGED] = float(shares.mean()) if len(shares) else 0.0
    if rankings.is_judged is not None and len(rankings.is_judged) and not rankings.is_judged.any():
        problem = "none of its documents is judged, so that all values are 0; are the document ids the same?"
        warnings.warn(f"{table.name or 'the run'}: {problem}", InputWarning, stacklevel=2)
    notes, values = result.notes, result.values
    if absent.any():
        counted = "counted 0" if missing == 0 else "left out"
        notes = (*notes, f"judged queries missing from the run: {absent.sum()} of {len(absent)}, {counted}")
        if missing == "skip":
            values = np.where(absent[:, None], np.nan, values)
    return dataclasses.replace(result, values=values, notes=notes, facts=facts)


def system_name(path: str) -> str:
    """The name of a system by that of its file: without folder and common suffixes.

    Examples
    --------
    >>> system_name("runs/bm25.run.gz"), system_name("bm25(b=0.4)")
    ('bm25', 'bm25(b=0.4)')
    """
    name = path.rpartition("/")[2].removesuffix(".gz")
    stem, dot, end = name.rpartition(".")
    return stem if dot and stem and end in ("run", "txt", "scores", "trec", "res") else name


def nothing_in_common(judged: Judgements, run: TrecTable) -> str:
    """What is wrong if no query of a run is judged; empty if one is, or there are none."""
    judged_ids, ids = judged.qrels.query_ids.tolist(), run.query_ids.tolist()
    if not (judged_ids and ids) or not judged.row_of.keys().isdisjoint(ids):
        return ""
    return f"no query is judged (its first is {str(ids[0])!r}, that of the judgements {str(judged_ids[0])!r})"


def _ranked(judged: Judgements, run: TrecTable) -> tuple[Rankings, Array]:
    """Labels in rank order for every judged query, and which of these queries are missing from the run."""
    scores = np.clip(run.values, -_LARGEST, _LARGEST).astype(np.float32)
    order = rank_order(scores, run.indptr, run.doc_ids)
    bounds = run.indptr.tolist()
    place = {query: q for q, query in enumerate(run.query_ids.tolist())}
    runs: list[Array] = []
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
        runs.append(rows[order[start:stop] - start])
    ranked = np.concatenate(runs) if runs else np.zeros(0, np.int64)
    return judged.ranked(ranked, sizes_to_indptr(sizes)), absent


_CHOICES = tuple(range(10, 101, 10))  # values of k that are tried, those of ranx


@dataclass(frozen=True)
class ChosenK:
    """The k with the best mean, and the means of all that were tried."""

    k: float
    measure: Measure
    means: dict[float, float]
    queries: int


def choose_k(
    runs: Mapping[str, TrecTable] | Sequence[TrecTable],
    qrels: TrecTable,
    measure: str | Measure = "nDCG@10",
    choices: Sequence[float] = _CHOICES,
) -> ChosenK:
    """Choose the k of reciprocal rank fusion by the mean of a measure over judged queries.

    Parameters
    ----------
    runs : mapping or sequence of TrecTable
        The runs to fuse.
    qrels : TrecTable
        Judgements of queries that are not those to be tested on.
    measure : str or Measure
        What to choose by.
    choices : sequence of float
        Values to try; of equally good ones the largest is chosen.

    Examples
    --------
    >>> a = TrecTable.from_dict({"1": {"x": 9.0, "y": 7.0, "z": 5.0}})
    >>> b = TrecTable.from_dict({"1": {"w": 0.2, "z": 0.1}})
    >>> choose_k([a, b], TrecTable.from_dict({"1": {"z": 1}}), "RR").k
    100
    """
    tables = list(runs.values()) if isinstance(runs, Mapping) else list(runs)
    if not choices:
        raise InputError("no values of k; expected at least one")
    shared = [table.select(qrels.query_ids) for table in tables]
    judged = qrels.select({query for table in shared for query in table.query_ids.tolist()})
    if not judged.n_queries:
        raise InputError("the runs and the judgements have no query in common")
    wanted, judgements = parse_measure(measure), Judgements(judged)
    means = {k: evaluate_run(judgements, fuse(shared, "rrf", k=k), [wanted]).means[str(wanted)] for k in choices}
    best = max(choices, key=lambda k: (means[k], k))
    return ChosenK(best, wanted, means, judged.n_queries)
