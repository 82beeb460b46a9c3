"""Words by number and numbers by word, straight from two arrays: opening an index builds nothing."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from rankwright.errors import InputError

__all__ = ["Vocabulary", "as_lines"]

Array = npt.NDArray[Any]
Other = TypeVar("Other")
_REMEMBERED = 1 << 17
_LINE_END = ord("\n")


class Vocabulary(Mapping[str, int]):
    """The number of every word, found by bisection; lookups are cached.

    Parameters
    ----------
    data : ndarray of uint8
        The words in UTF-8, in byte order, each followed by a line end.
    offsets : ndarray of int64
        Where each word starts, and where the last one ends.
    members : ndarray of int64, optional
        The words of ``data`` to include, numbered from 0; by default all.

    Examples
    --------
    >>> words = Vocabulary(*as_lines(["apple", "pear"]))
    >>> words["pear"], "plum" in words, list(words)
    (1, False, ['apple', 'pear'])
    """

    def __init__(self, data: Array, offsets: Array, members: Array | None = None) -> None:
        self._data = data
        self._offsets = offsets
        self._members = members
        self._length = len(offsets) - 1 if members is None else len(members)
        self._known: dict[str, int] = {}

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[str]:
        return iter(self.words())

    def __getitem__(self, word: str) -> int:
        number = self._find(word)
        if number < 0:
            raise KeyError(word)
        return number

    @overload
    def get(self, word: str, /) -> int | None: ...

    @overload
    def get(self, word: str, default: int | Other, /) -> int | Other: ...

    def get(self, word: str, default: Any = None, /) -> Any:
        """The number of a word, or the default; without an exception inside, as many words of queries are unknown."""
        number = self._find(word)
        return default if number < 0 else number

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self._find(word) >= 0

    def word(self, number: int) -> str:
        """The word with this number."""
        if not 0 <= number < self._length:
            raise IndexError(f"word number {number} is out of range; there are {self._length:,} words")
        return _decoded(self._bytes(number))

    def words(self) -> list[str]:
        """All words in order."""
        every = _decoded(self._data.tobytes()).split("\n")[:-1]
        if len(every) != len(self._offsets) - 1:
            raise InputError(f"{len(every):,} words; expected {len(self._offsets) - 1:,}")
        return every if self._members is None else [every[i] for i in self._members.tolist()]

    def _bytes(self, number: int) -> bytes:
        i = number if self._members is None else self._members[number]
        return self._data[int(self._offsets[i]) : int(self._offsets[i + 1]) - 1].tobytes()

    def _find(self, word: str) -> int:
        number = self._known.get(word)
        if number is None:
            wanted = word.encode("utf-8", "surrogatepass")
            number = bisect_left(range(self._length), wanted, key=self._bytes)
            if number == self._length or self._bytes(number) != wanted:
                number = -1
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[word] = number
        return number


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"a word is not valid UTF-8 ({error.reason})") from None


def as_lines(words: Iterable[str]) -> tuple[Array, Array]:
    """Words as bytes, each followed by a line end, and where each starts (and the last ends)."""
    data = np.frombuffer(bytearray("".join([word + "\n" for word in words]).encode()), np.uint8)
    return data, np.concatenate([[0], np.flatnonzero(data == _LINE_END) + 1])
