"""Systems against a baseline, one query at a time: the numbers behind a comparison."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from rankwright.evaluation.table import Evaluation

__all__ = ["difference_records", "differences_dict", "query_differences"]


def query_differences(
    evaluations: Sequence[Evaluation], measure: str
) -> Iterator[tuple[Any, list[float], list[float]]]:
    """The queries that count for the baseline, which comes first, and for at least one other system.

    Yields
    ------
    query : object
        Its id.
    values : list of float
        The value of every system; nan if it does not have the query.
    gains : list of float
        The difference of every system but the first from the first.
    """
    columns = [dict(zip(e.query_ids.tolist(), e.column(measure).tolist(), strict=True)) for e in evaluations]
    for query in columns[0]:
        values = [column.get(query, math.nan) for column in columns]
        gains = [value - values[0] for value in values[1:]]
        if not all(map(math.isnan, gains)):
            yield query, values, gains


def difference_records(evaluations: Sequence[Evaluation]) -> tuple[list[str], list[list[Any]]]:
    """A header, and a record for every measure, query and system but the baseline."""
    base, *others = evaluations
    records = [
        [str(measure), query, system.name, base.name, value, values[0], gain]
        for measure in base.measures
        for query, values, gains in query_differences(evaluations, str(measure))
        for system, value, gain in zip(others, values[1:], gains, strict=True)
    ]
    return ["measure", "query", "system", "baseline", "value", "baseline_value", "difference"], records


def differences_dict(evaluations: Sequence[Evaluation]) -> dict[str, dict[str, dict[str, float]]]:
    """Values by measure, query and system."""
    names = [evaluation.name for evaluation in evaluations]
    return {
        str(measure): {
            str(query): dict(zip(names, values, strict=True))
            for query, values, _ in query_differences(evaluations, str(measure))
        }
        for measure in evaluations[0].measures
    }
