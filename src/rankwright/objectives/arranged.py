"""Documents of every query by what a measure sees of their labels, prepared in runs of queries that threads share."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.blocks import query_chunks, query_of_row
from rankwright.data.order import descending
from rankwright.data.threads import Team
from rankwright.measures import Measure, Rankings

Array = npt.NDArray[Any]
RUN_DOCS = 1 << 16
"""Documents that are sorted at a time: enough for a thread, and few enough to take little memory."""


def by_worth(
    labels: Array, indptr: Array, order: Array | None, measure: Measure | None, team: Team
) -> tuple[Array, Array, Array, Array]:
    """Documents by worth, lowest first, with their worths, these highest first, and the norms of the queries.

    Parameters
    ----------
    labels, indptr : ndarray
        Labels and query boundaries.
    order : ndarray or None
        The documents, query after query, in the order in which those of equal worth stay.
    measure : Measure or None
        Says what labels are worth; None where they are the worths.
    team : Team
        The result does not depend on it.

    Examples
    --------
    >>> docs, worth, highest, _ = by_worth(np.array([2.0, 1.0, 0.0, 3.0]), np.array([0, 2, 4]), None, None, Team(1))
    >>> docs.tolist(), worth.tolist(), highest.tolist()
    ([1, 0, 2, 3], [1.0, 2.0, 0.0, 3.0], [2.0, 1.0, 3.0, 0.0])
    """
    docs, worth, highest = np.empty(len(labels), np.int64), np.empty(len(labels)), np.empty(len(labels))
    norms = np.ones(len(indptr) - 1)

    def arrange(first: int, last: int) -> None:
        start, stop = int(indptr[first]), int(indptr[last])
        bounds, values = indptr[first : last + 1] - start, labels[start:stop]
        if measure is not None:
            norms[first:last] = measure.norms(Rankings(values, bounds))
            values = np.asarray(measure.worth(values), np.float64)
        places = np.arange(stop - start) if order is None else order[start:stop] - start
        places = places[np.lexsort((values[places], query_of_row(bounds)))]
        docs[start:stop], worth[start:stop] = places + start, values[places]
        highest[start:stop] = descending(worth[start:stop], bounds)

    team.each(arrange, query_chunks(indptr, RUN_DOCS))
    return docs, worth, highest, norms
