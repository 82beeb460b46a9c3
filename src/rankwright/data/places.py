"""Where the features of a data set are: in this process, in partitions or on a GPU. The place computes with them.

`place_of` asks once; its callers say what they want, not where. Data in this process is one partition, whose actors are
plain objects.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData, batches, pieces, some_queries, stored
from rankwright.data.order import rank_order, rows_of, sizes_to_indptr
from rankwright.data.statistics import Statistics, statistics_of

Own = Sequence[tuple[Any, ...]] | None  # arguments of every partition's own
Orders = Callable[[slice, Array], Array]
_ON_DEVICE = "rankwright.gpu.training"  # a layer above, so found by its name
_FEW, _LONG = 16, 64  # runs of adjacent rows, or rows in one of them, that are scored where they are


@dataclass(frozen=True, eq=False)
class Share:
    """The queries of a data set that are in one partition.

    `chosen`: which queries of the data set these are, ascending. `local`: the same as numbers within the partition.
    """

    chosen: Array
    local: Array


class Actors(Protocol):
    """Objects of one kind, one beside every partition.

    `only`: the object of data that is in this process; None for partitions.
    """

    only: Any

    def call(self, method: str, *shared: Any, own: Own = None) -> list[Any]:
        """Call a method that changes nothing; results in the order of the partitions."""

    def update(self, method: str, *shared: Any, own: Own = None) -> list[Any]:
        """Call a method that changes the objects."""

    def defer(self, method: str, *shared: Any) -> None:
        """Remember a change that the next call makes itself."""

    def sum(self, method: str, *shared: Any, own: Own = None) -> Any:
        """Call a method that gives integers; their sum over all partitions."""

    def close(self) -> None:
        """Forget the objects."""


class LocalActors:
    """The one object beside data that is in this process."""

    def __init__(self, only: Any) -> None:
        self.only = only

    def call(self, method: str, *shared: Any, own: Own = None) -> list[Any]:
        return [getattr(self.only, method)(*(() if own is None else own[0]), *shared)]

    update = call

    def defer(self, method: str, *shared: Any) -> None:
        """Nothing is lost here, so nothing has to be repeated."""

    def sum(self, method: str, *shared: Any, own: Own = None) -> Any:
        return self.call(method, *shared, own=own)[0]

    def close(self) -> None:
        if hasattr(self.only, "close"):
            self.only.close()


class Place:
    """Features in this process, in memory or in a mapped file; base of all places."""

    is_partitioned: ClassVar[bool] = False

    def __init__(self, data: RankingData) -> None:
        self.data = data

    @property
    def is_here(self) -> bool:
        """Whether a call to an actor costs no trip to another process."""
        return True

    @property
    def shares(self) -> list[Share]:
        every = np.arange(self.data.n_queries)
        return [Share(every, every)]

    def rows_of(self, share: Share) -> Array:
        """The documents of a share, query after query."""
        sizes = self.data.sizes[share.chosen]
        return rows_of(self.data.indptr[:-1][share.chosen], sizes_to_indptr(sizes))

    def taken(self, values: Array, share: Share) -> Array:
        """A value per document, for those of a share."""
        return values

    def make(self, factory: Callable[..., Any], *shared: Any, own: Own = None, threads: int = 1) -> Actors:
        """Put an object beside every partition.

        `factory`: called with the data of the partition, threads, the queries of its share as numbers within the
        partition, and its own and the shared arguments; found by its name wherever it runs. `*shared`: arguments that
        are the same for all. `own`: arguments of every partition's own. `threads`: threads of each object.
        """
        (share,) = self.shares
        return LocalActors(factory(self.data, threads, share.local, *(() if own is None else own[0]), *shared))

    def made(self, factory: Callable[..., Any], *shared: Any, threads: int = 1) -> closing[Actors]:
        """The same for as long as the block of a ``with`` lasts."""
        return closing(self.make(factory, *shared, threads=threads))

    def recall(self, compute: Callable[[], Mapping[str, Array]]) -> dict[str, Array]:
        """What ``compute`` gives, or has given before a training was interrupted."""
        # In C order, as from a journal: products of matrices in another order have other bits.
        return {name: np.asarray(array, order="C") for name, array in compute().items()}

    def record_to(self, journal: Any) -> None:
        """Keep what `recall` gives in a journal; what is here is computed again instead."""

    def statistics(self, threads: int = 1, *, summed: bool = True) -> Statistics:
        """The statistics of the features, which are kept with the data; ``summed``: with means and deviations."""
        return statistics_of(self.data, threads, summed=summed)

    def scores(self, model: Any, missing_as_zero: bool = False) -> Array:
        """A model's scores in the data's own order.

        Examples
        --------
        >>> from rankwright import LinearModel
        >>> place_of(RankingData.from_arrays([[1.0], [3.0]], [0, 1], group=[2])).scores(LinearModel([2.0])).tolist()
        [2.0, 6.0]
        """
        adjacent = [] if getattr(model, "scales_queries", False) else list(pieces(self.data))
        views = [(X, None) for X in adjacent] if len(adjacent) <= max(_FEW, self.data.n_docs // _LONG) else []
        names, scores = self.data.feature_names, []
        for X, indptr in views or batches(self.data):
            given = model.with_missing(X, names) if missing_as_zero else (X, names)
            scores.append(model.score(*given, indptr))
        return np.concatenate(scores, dtype=np.float64) if scores else np.empty(0)

    def orders(self, model: Any) -> Orders:
        """The rank orders by a model, as a function of the documents of some queries and the boundaries of these."""
        scores = self.scores(model)
        return lambda docs, indptr: rank_order(scores[docs], indptr, None)

    def per_query(self, function: Callable[[RankingData], Array]) -> Array:
        """What a function of a data set, found by its name everywhere, gives for every query."""
        return function(self.data)

    def together(self) -> RankingData:
        """The same data, with features that are in this process."""
        return self.data


def place_of(data: RankingData, device: str = "cpu") -> Place:
    """Where the features of a data set are, and, if they are in this process, whether a GPU computes with them.

    Partitions use the GPUs of the machines that have them; data that does not fit on the GPU stays where it is.
    """
    partitioned = getattr(stored(data)[0], "place_of", None)
    if partitioned is not None:
        place: Place = partitioned(data)
        return place
    if device == "cuda":
        on_device = importlib.import_module(_ON_DEVICE)
        if on_device.fits(data):
            return on_device.DevicePlace(data)
    return Place(data)


def selected(data: RankingData, queries: Array) -> RankingData:
    """Some queries of a partition: the data itself if these are all, in order."""
    is_all = len(queries) == data.n_queries and bool((queries == np.arange(len(queries))).all())
    return data if is_all else some_queries(data, queries)
