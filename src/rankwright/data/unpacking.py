"""Reading gzip: one or more members, each checked against its sum.

Python's own reader takes its file in pieces of 8 KB (before 3.12) and copies what it unpacks more than once; given
larger pieces, zlib alone decides how long it takes.
"""

from __future__ import annotations

import zlib
from typing import IO

__all__ = ["Unpacked"]

_PIECE = 1 << 19  # packed bytes at a time: zlib is called, and its output copied, less often than with few
_GZIP = 31  # zlib's number for a gzip header and the largest window


class Unpacked:
    """The content of a gzip file, read from its start."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._rest = b""  # packed bytes that were read but not yet unpacked
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
        parts: list[bytes] = []
        while size > 0:
            if self._member.eof and not self._next_member():
                break
            packed = self._rest or self._raw.read(_PIECE)
            part = self._member.decompress(packed, size)
            self._rest = self._member.unconsumed_tail
            if not (packed or part or self._member.eof):
                raise EOFError("it ends before its last byte")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def tell(self) -> int:
        """How many packed bytes it took so far."""
        return self._raw.tell() - len(self._rest)

    def _next_member(self) -> bool:
        """Start with what follows a member, if anything does; zeros fill the last block of a tape."""
        rest = self._member.unused_data.lstrip(b"\0")
        while not rest:
            more = self._raw.read(_PIECE)
            if not more:
                return False
            rest = more.lstrip(b"\0")
        self._rest, self._member = rest, zlib.decompressobj(_GZIP)
        return True
