"""Runs as features: the scores of several systems become rows of training data (learned fusion).

Every run gives two features: ``name:score``, the score normalised within the query, and ``name:rr``, 1 / rank, where
ranks follow the tie rule. For a document that a run did not retrieve, 1 / rank is 0, and so is the score, the lowest
after ``minmax`` and ``sum``. If the run's lowest score in the query is below 0 (``zscore``, ``none``), that
is the score: 0 would put documents that were not found above those that were.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.data.order import rank_order
from rankwright.data.pool import Pool
from rankwright.data.trec import TrecTable
from rankwright.errors import InputError, InputWarning

__all__ = ["NORMALIZATIONS", "normalized", "ranks", "runs_to_data"]

Array = npt.NDArray[Any]
NORMALIZATIONS = ("minmax", "zscore", "sum", "none")
_HUGE = 1e300  # differences of larger scores may overflow


def runs_to_data(
    runs: Mapping[str, TrecTable],
    qrels: TrecTable | None = None,
    *,
    normalize: str = "minmax",
    documents: Literal["retrieved", "judged", "either"] = "retrieved",
    missing: Literal["lowest", "nan"] = "lowest",
) -> RankingData:
    """Make features from the runs of several systems.

    Parameters
    ----------
    runs : mapping of str to TrecTable
        The runs by name.
    qrels : TrecTable, optional
        Judgements: labels below 0 become 0, unjudged documents have the label 0, and unjudged queries are left out,
        with a warning. Without judgements every label is 0.
    normalize : {"minmax", "zscore", "sum", "none"}
        How the scores of a run are made comparable within a query. ``minmax``: from 0 (the lowest) to 1, and 1 if all
        are equal; ``sum``: the same divided by their sum; ``zscore``: (score − mean) / standard deviation, 0 if all are
        equal; ``none``: unchanged.
    documents : {"retrieved", "judged", "either"}
        The documents of the data: those that at least one run retrieved; only the judged ones among them; or those that
        were retrieved or judged.
    missing : {"lowest", "nan"}
        The features of a document that a run did not retrieve: ``lowest`` is 0, or the run's lowest score in the query
        if that is below 0; ``nan`` is NaN in both, for tree rankers.

    Returns
    -------
    RankingData
        Float32 features; queries in the order of the judgements, else of the runs; documents of a query sorted by id.

    Examples
    --------
    >>> a = TrecTable.from_dict({"1": {"x": 9.0, "y": 7.0, "z": 5.0}})
    >>> b = TrecTable.from_dict({"1": {"w": 0.2, "x": 0.1}})
    >>> data = runs_to_data({"a": a, "b": b}, TrecTable.from_dict({"1": {"x": 2}}))
    >>> data.feature_names, data.doc_ids.tolist(), data.labels.tolist()
    (('a:score', 'a:rr', 'b:score', 'b:rr'), ['w', 'x', 'y', 'z'], [0.0, 2.0, 0.0, 0.0])
    >>> data.X[:2].tolist()
    [[0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.5]]
    """
    _check_choice("documents", documents, ("retrieved", "judged", "either"))
    _check_choice("missing", missing, ("lowest", "nan"))
    if qrels is None and documents != "retrieved":
        raise InputError(f"documents is {documents!r}, but there are no judgements; expected qrels with it")
    tables = list(runs.values())
    pool = Pool.of(tables, qrels, with_judged=documents == "either")
    labels = np.zeros(len(pool.keys))
    if qrels is not None:
        _warn_left_out(tables, qrels, documents)
        if documents == "judged":
            pool = pool.only(pool.places(len(tables))[0])
            labels = np.zeros(len(pool.keys))
        places, rows = pool.places(len(tables))
        labels[places] = np.maximum(qrels.values[rows], 0.0)
    X = np.zeros((len(pool.keys), 2 * len(tables)), np.float32)
    for number, table in enumerate(tables):
        scores = normalized(table, normalize)
        places, rows = pool.places(number)
        if missing == "nan":
            X[:, 2 * number : 2 * number + 2] = np.nan
        else:
            floors = pool.floors(number, scores)
            if floors.any():
                X[:, 2 * number] = floors[pool.query]
        X[places, 2 * number] = scores[rows]
        X[places, 2 * number + 1] = 1.0 / ranks(table)[rows]
    names = [f"{name}:{column}" for name in runs for column in ("score", "rr")]
    return RankingData.from_arrays(
        X,
        labels,
        np.array(pool.queries, dtype=str)[pool.query],
        doc_ids=_decoded(pool.documents)[pool.document],
        feature_names=names,
        allow_missing=missing == "nan",
    )


def normalized(table: TrecTable, how: str) -> Array:
    """A run's scores, normalised within each query: see :func:`runs_to_data`."""
    _check_choice("normalize", how, NORMALIZATIONS)
    if how == "none" or not table.n_docs:
        return table.values.astype(np.float64)
    sizes = np.diff(table.indptr)
    starts, sizes = table.indptr[:-1][sizes > 0], sizes[sizes > 0]
    values = table.values.astype(np.float64)
    low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    shrink = np.where(np.maximum(np.abs(low), np.abs(high)) > _HUGE, 2.0**-4, 1.0)
    low, span = low * shrink, high * shrink - low * shrink
    with np.errstate(invalid="ignore"):
        share = (values * np.repeat(shrink, sizes) - np.repeat(low, sizes)) / np.repeat(span, sizes)
    share[np.repeat(span == 0, sizes)] = 1.0
    if how == "minmax":
        return share
    total = np.add.reduceat(share, starts)
    if how == "sum":
        return share / np.repeat(total, sizes)
    share -= np.repeat(total / sizes, sizes)
    deviation = np.sqrt(np.add.reduceat(share**2, starts) / sizes)
    return share / np.repeat(np.where(deviation > 0, deviation, 1.0), sizes)


def ranks(table: TrecTable) -> Array:
    order = rank_order(table.values, table.indptr, table.doc_ids)
    rank = np.empty(table.n_docs)
    rank[order] = np.arange(table.n_docs) - np.repeat(table.indptr[:-1], np.diff(table.indptr)) + 1
    return rank


def _decoded(documents: Array) -> Array:
    try:
        return np.char.decode(documents, "utf-8") if len(documents) else np.empty(0, "U1")
    except UnicodeDecodeError:
        raise InputError("document ids are not UTF-8 text") from None


def _warn_left_out(tables: Sequence[TrecTable], qrels: TrecTable, documents: str) -> None:
    judged, retrieved = (
        set(qrels.query_ids.tolist()),
        set(chain.from_iterable(table.query_ids.tolist() for table in tables)),
    )
    if not judged & retrieved:
        raise InputError("the runs and the judgements have no query in common")
    if retrieved - judged:
        warnings.warn(f"left out {len(retrieved - judged):,} queries without judgements", InputWarning, stacklevel=3)
    if judged - retrieved and documents != "either":
        problem = f"left out {len(judged - retrieved):,} judged queries that no run has"
        warnings.warn(problem, InputWarning, stacklevel=3)


def _check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    if value not in choices:
        raise InputError(f"{name} is {value!r}; expected one of {', '.join(choices)}")
