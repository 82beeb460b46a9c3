"""The ids of the documents of an index, by number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from rankwright.text.index.contents import INDEX

__all__ = ["Ids"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Ids:
    """Document ids, straight from two arrays.

    Attributes
    ----------
    data : ndarray of uint8
        The ids in UTF-8, each followed by a line end.
    offsets : ndarray of int64
        Where each id starts, and where the last one ends.
    path : Path
        The index.
    checksum : str
        Of ``data``: the same for the same documents in the same order.
    """

    data: Array
    offsets: Array
    path: Path
    checksum: str

    def __getitem__(self, doc: int) -> str:
        """The id of a document."""
        return self.decoded(self.data[int(self.offsets[doc]) : int(self.offsets[doc + 1]) - 1])

    def of(self, docs: Iterable[int]) -> list[str]:
        """The ids of several documents."""
        return [self[int(doc)] for doc in docs]

    def decoded(self, data: Array | bytes) -> str:
        """The text in some bytes of the index; bytes that are not UTF-8 are damage."""
        try:
            return bytes(data).decode()
        except UnicodeDecodeError as error:
            what = f"a text or an id is not valid UTF-8 ({error.reason})"
            raise INDEX.damaged(self.path, what) from None
