"""Reading gzip: one or more members, each checked against its checksum.

Python's own reader reads 8 KB at a time (before 3.12) and copies its output more than once; with larger pieces, only
zlib takes time.
"""

from __future__ import annotations

import zlib
from typing import IO

__all__ = ["Unpacked"]

_PIECE = 1 << 19  # packed bytes at a time: few calls of zlib and few copies
_GZIP = 31  # zlib's number for a gzip header and the largest window


class Unpacked:
    """A gzip file's content, read from its start."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._rest = b""  # packed bytes not yet unpacked
        self._member = zlib.decompressobj(_GZIP)

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes, fewer at the end.

        Raises
        ------
        EOFError
            If the file ends before it should.
        zlib.error
            If it is damaged.
        """
        pieces: list[bytes] = []
        while size > 0:
            if self._member.eof and not self._next_member():
                break
            packed = self._rest or self._raw.read(_PIECE)
            piece = self._member.decompress(packed, size)
            self._rest = self._member.unconsumed_tail
            if not (packed or piece or self._member.eof):
                raise EOFError("it ends before its last byte")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def tell(self) -> int:
        """Packed bytes read so far."""
        return self._raw.tell() - len(self._rest)

    def _next_member(self) -> bool:
        """Start the next member, if there is one; zeros fill the last block of a tape."""
        rest = self._member.unused_data.lstrip(b"\0")
        while not rest:
            more = self._raw.read(_PIECE)
            if not more:
                return False
            rest = more.lstrip(b"\0")
        self._rest, self._member = rest, zlib.decompressobj(_GZIP)
        return True
