"""A kernel for every oracle on the card: queries one after the other, a block of threads each.

They are written out because numba caches compiled code on disk only for functions of a module, not for closures.
"""

from __future__ import annotations

from typing import Any

from numba import cuda

from rankwright.gpu import attained, oracles
from rankwright.gpu.card import is_simulated
from rankwright.gpu.clipped import ndcg_at
from rankwright.gpu.query import each_query
from rankwright.gpu.table import best_table

__all__ = ["ATTAINED", "ORACLES"]

_REGISTERS = (
    80  # registers per thread instead of 108: half again as many queries run at once (MAP's pass 2.2 ms, not 2.5)
)
_kernel = cuda.jit(cache=True) if is_simulated() else cuda.jit(cache=True, max_registers=_REGISTERS)


@_kernel
def _pairs(queries: Any, data: Any, results: Any, scratch: Any, room: int) -> None:
    each_query(oracles.pairs, queries, data, results, scratch, room)


@_kernel
def _clicks(queries: Any, data: Any, results: Any, scratch: Any, room: int) -> None:
    each_query(oracles.clicks, queries, data, results, scratch, room)


@_kernel
def _auc(queries: Any, data: Any, results: Any, scratch: Any, room: int) -> None:
    each_query(oracles.auc, queries, data, results, scratch, room)


@_kernel
def _average_precision(queries: Any, data: Any, results: Any, scratch: Any, room: int) -> None:
    each_query(oracles.average_precision, queries, data, results, scratch, room)


@_kernel
def _ndcg(queries: Any, data: Any, results: Any, scratch: Any, room: int) -> None:
    each_query(oracles.ndcg, queries, data, results, scratch, room)


@_kernel
def _ndcg_at(queries: Any, data: Any, results: Any, scratch: Any, room: int) -> None:
    each_query(ndcg_at, queries, data, results, scratch, room)


@_kernel
def _first_good(queries: Any, data: Any, results: Any, scratch: Any, room: int) -> None:
    each_query(oracles.first_good, queries, data, results, scratch, room)


@_kernel
def _first_good_of_pairs(queries: Any, data: Any, results: Any, scratch: Any, room: int) -> None:
    each_query(oracles.first_good_of_pairs, queries, data, results, scratch, room)


@_kernel
def _attained_pairs(queries: Any, data: Any, results: Any, scratch: Any, room: int) -> None:
    each_query(attained.attained_pairs, queries, data, results, scratch, room)


@_kernel
def _attained_first(queries: Any, data: Any, results: Any, scratch: Any, room: int) -> None:
    each_query(attained.attained_first, queries, data, results, scratch, room)


@_kernel
def _attained_positions(queries: Any, data: Any, results: Any, scratch: Any, room: int) -> None:
    each_query(attained.attained_positions, queries, data, results, scratch, room)


@_kernel
def _sorted_positions(queries: Any, data: Any, results: Any, scratch: Any, room: int) -> None:
    each_query(attained.sorted_positions, queries, data, results, scratch, room)


@_kernel
def _table(queries: Any, data: Any, results: Any, scratch: Any, room: int) -> None:
    each_query(best_table, queries, data, results, scratch, room)


ORACLES = {
    "pairs": _pairs,
    "clicks": _clicks,
    "auc": _auc,
    "average_precision": _average_precision,
    "ndcg": _ndcg,
    "ndcg_at": _ndcg_at,
    "reciprocal_rank": _first_good,
    "reciprocal_rank_of_pairs": _first_good_of_pairs,
    "sorted": _sorted_positions,
    "table": _table,
}
"""The kernel of every oracle, by the name of the CPU's; ``sorted``, ``table``: those of `dorm`."""

ATTAINED = {"po": _attained_pairs, "mrr": _attained_first, "dorm": _attained_positions}
"""The kernel of every feature map."""
