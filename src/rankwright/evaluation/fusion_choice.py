"""The k of reciprocal rank fusion, chosen on judged queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rankwright.data.fusion import fuse
from rankwright.data.trec_table import TrecTable
from rankwright.errors import InputError
from rankwright.evaluation.evaluate import Judgements, evaluate_run
from rankwright.measures import Measure, parse_measure

__all__ = ["ChosenK", "choose_k"]

CHOICES = tuple(range(10, 101, 10))
"""Values of k that are tried, those of ranx."""


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
    choices: Sequence[float] = CHOICES,
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
