"""Engines by name: ``local``, ``processes``, ``dask://…``; or the engine itself."""

from __future__ import annotations

from typing import Any

from rankwright.engines.fleet import Transport
from rankwright.engines.local import Local
from rankwright.errors import InputError, shown

__all__ = ["ENGINES", "engine_of", "is_transport"]

ENGINES = "local, processes, processes:4, dask://host:port, dask://local or dask://local:4"
_DASK = "dask://"


def engine_of(engine: Any = None) -> Transport:
    """The engine with a name.

    Parameters
    ----------
    engine : str, distributed.Client or Transport, optional
        ``local``, the default, is this process; ``processes`` are worker processes on this machine, one for every core
        or as many as a number says (``processes:4``); ``dask://host:port`` is the Dask scheduler there, and
        ``dask://local`` starts a Dask cluster on this machine. What this function starts is ended by ``close``; a
        client that is given stays open.

    Examples
    --------
    >>> type(engine_of("local")).__name__, len(engine_of("processes:3").hosts())
    ('Local', 3)
    """
    from rankwright.engines.dask import DaskWorkers, connect, is_client, local_cluster
    from rankwright.engines.processes import Processes

    if engine is None:
        return Local()
    if is_client(engine):
        return DaskWorkers(engine)
    if is_transport(engine):
        transport: Transport = engine
        return transport
    if not isinstance(engine, str):
        raise InputError(f"the engine is {shown(engine)}; expected {ENGINES}, or a Dask Client")
    kind, colon, options = engine.strip().partition(":")
    if engine.strip().startswith(_DASK):
        address = engine.strip().removeprefix(_DASK).rstrip("/")
        where, _, number = address.rpartition(":")  # where may be [::1]
        if "local" in (where, address):
            return local_cluster(_count(engine, number) if where else None)
        if where and number.isascii() and number.isdecimal():
            return connect(address)
    elif kind == "local" and not colon:
        return Local()
    elif kind == "processes":
        return Processes(_count(engine, options) if colon else None)
    raise InputError(f"the engine is {shown(engine)}; expected {ENGINES}")


def is_transport(engine: Any) -> bool:
    return all(callable(getattr(engine, name, None)) for name in ("hosts", "start", "close"))


def _count(engine: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 10_000):
        raise InputError(f"the engine is {shown(engine)}; expected a number of workers from 1, as in processes:4")
    return int(text)
