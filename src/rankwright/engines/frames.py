"""Dask DataFrames as data: each partition is a part, made by a task and used on the worker that holds it.

The driver keeps Dask's futures of the parts, so Dask recomputes a part lost with its worker from the frame's own tasks;
the driver sends no data.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rankwright.data.dataset import RankingData
from rankwright.engines.dask import DaskWorkers, import_distributed
from rankwright.engines.fleet import Fleet
from rankwright.errors import InputError
from rankwright.io.features import from_frame

__all__ = ["FrameSource", "frame_fleet", "is_dask_frame"]

_PAUSE = 0.01
_LOOK = 0.25  # seconds between checks of the cluster while waiting


class FrameSource:
    """A part made by a Dask task; a second task, pinned to the part's worker, hands it over to the actor there.

    Parameters
    ----------
    key : str
        Of the task.
    name : str
        Of the part, for messages.
    workers, future
        The cluster, and Dask's future of the part, which keeps it there; they stay where this object was made.
    """

    def __init__(self, key: str, name: str, workers: DaskWorkers | None = None, future: Any = None) -> None:
        self.key, self.name = key, name
        self._workers, self._future, self._brought = workers, future, None

    def __reduce__(self) -> Any:
        return FrameSource, (self.key, self.name)

    def bring(self, host: Any) -> None:
        """Start handing the part over to a host."""
        assert self._workers is not None
        submit = self._workers.client.submit
        self._brought = submit(_shelve, self.key, self._future, workers=[host.address], pure=False)

    def arrive(self, host: Any) -> None:
        """Wait until the host can load the part; HostLost if that host is gone."""
        assert self._workers is not None
        _wait(self._brought, self.name, partial(self._workers.check, host))
        self._brought = None

    def load(self) -> RankingData:
        """The part that was handed over: the very object that Dask has on this worker."""
        data: RankingData = _shelf().pop(self.key)
        return data


def _shelf() -> dict[str, Any]:
    """Parts handed over to this Dask worker and not yet taken."""
    shelf: dict[str, Any] = vars(import_distributed().get_worker()).setdefault("_rankwright_parts", {})
    return shelf


def _shelve(key: str, data: RankingData) -> None:
    _shelf()[key] = data


def is_dask_frame(frame: Any) -> bool:
    """Test for a Dask DataFrame without loading Dask."""
    return type(frame).__module__.startswith(("dask.dataframe", "dask_expr")) and hasattr(frame, "to_delayed")


def frame_fleet(
    frame: Any,
    workers: DaskWorkers,
    *,
    qid: str | None = None,
    label: str | None = None,
    docid: str | None = None,
    features: Sequence[str] | None = None,
    closes: bool = True,
) -> Fleet:
    """The partitions of a Dask DataFrame, each on the worker that has it; empty ones are left out.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
        One row per document; all rows of a query in one partition.
    workers : DaskWorkers
        The cluster.
    qid, label, docid, features
        The columns, as in :func:`rankwright.from_frame`.
    closes : bool
        Whether closing the fleet closes the engine.
    """
    for name in (qid, label, *(features or ())):
        if name is not None and name not in frame.columns:
            raise InputError(f"the Dask DataFrame has no column {name!r}; it has {', '.join(map(str, frame.columns))}")
    futures = _make_partitions(frame, workers, {"qid": qid, "label": label, "docid": docid, "features": features})
    client = workers.client
    sizes = client.gather([client.submit(_size, future, pure=False) for future in futures])
    filled = [part for part, size in enumerate(sizes) if size]
    if not filled:
        raise InputError("the Dask DataFrame has no rows")
    sources = [FrameSource(futures[part].key, f"partition {part}", workers, futures[part]) for part in filled]
    where = client.who_has([futures[part] for part in filled])
    workers.hosts()
    homes = {}
    for number, source in enumerate(sources):
        hosts = [workers.at(address) for address in where.get(source.key, ())]
        if any(hosts):
            homes[number] = next(host for host in hosts if host is not None)
    return Fleet(workers, sources, [sizes[part] for part in filled], homes=homes, closes=closes)


def _make_partitions(frame: Any, workers: DaskWorkers, columns: dict[str, Any]) -> list[Any]:
    """Futures of all partitions as ranking data, done."""
    import dask

    make = dask.delayed(_data_of, pure=False)
    futures: list[Any] = workers.client.compute([make(partition, columns) for partition in frame.to_delayed()])
    for part, future in enumerate(futures):
        _wait(future, f"partition {part}", workers.hosts)
    return futures


def _wait(future: Any, name: str, look: Callable[[], Any]) -> None:
    """Wait for a task while watching the cluster; InputError if it fails."""
    looked = time.monotonic()
    while future.status in ("pending", "lost"):  # Dask recomputes what was lost
        time.sleep(_PAUSE)
        if time.monotonic() - looked > _LOOK:
            look()  # raises an error where waiting is futile
            looked = time.monotonic()
    if future.status == "finished":
        return
    error = future.exception() if future.status == "error" else None
    if isinstance(error, InputError):
        raise InputError(f"{name} of the Dask DataFrame: {error.message}")
    why = f"{type(error).__name__}: {error}" if error is not None else f"it was {future.status}"
    raise InputError(f"{name} of the Dask DataFrame could not be made: {why}")


def _data_of(frame: Any, columns: dict[str, Any]) -> RankingData | None:
    """A partition as ranking data; None for an empty one."""
    return from_frame(frame, **columns) if len(frame) else None


def _size(data: RankingData | None) -> int:
    return 0 if data is None else data.n_docs
