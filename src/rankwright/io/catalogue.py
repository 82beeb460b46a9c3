"""Collections of the package ir_datasets, named ``ir_datasets:NAME`` where a file of documents or queries may stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rankwright.errors import InputError
from rankwright.io.frames import import_library

__all__ = ["PREFIX", "collection_of", "is_catalogued"]

PREFIX = "ir_datasets:"


def is_catalogued(path: object) -> bool:
    """Whether this names a collection of ir_datasets instead of a file."""
    return isinstance(path, str | Path) and str(path).startswith(PREFIX)


def collection_of(path: str | Path, part: str) -> Any:
    """A collection that has ``docs``, ``queries`` or ``qrels``; the package downloads what it lacks.

    Examples
    --------
    >>> collection_of("ir_datasets:vaswani", "docs")  # doctest: +SKIP
    Dataset(id='vaswani', provides=['docs', 'queries', 'qrels'])
    """
    package = import_library("ir_datasets")
    name = str(path).removeprefix(PREFIX)
    try:
        found = package.load(name)
    except KeyError:
        raise InputError("is not a collection of ir_datasets; expected a name of its catalogue", path) from None
    if not getattr(found, f"has_{part}")():
        raise InputError(f"has no {part}; expected a collection of ir_datasets that has them", path)
    return found
