"""The contents of an index: words, document ids, texts and postings, as arrays mapped into memory.

Words and ids are read straight from two arrays each, so that opening an index builds nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np

from rankwright._types import Array
from rankwright.errors import InputError
from rankwright.io.container import Container, Format
from rankwright.text.reading.numbers import checked_number_names

Postings = tuple[Array, Array, Array]
"""``indptr`` (fields × terms + 1), ``docs`` and ``counts``: see :mod:`rankwright.text.index.postings`."""
Strings = tuple[Array, Array]
"""UTF-8 strings back to back, and where each starts (and the last ends)."""
Other = TypeVar("Other")
_REMEMBERED = 1 << 17
_LINE_END = ord("\n")


class Vocabulary(Mapping[str, int]):
    """The number of every word, found by bisection; lookups are cached.

    `data`: the words in UTF-8, in byte order, each followed by a line end. `offsets`: where each word starts, and where
    the last one ends. `members`: the words of ``data`` to include, numbered from 0; by default all.

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


INDEX = Format("rankwright-index", "index.json", "index", "`rankwright index`", is_folder=True, version=2)
MOST_DOCS = 2**31 - 1
MOST_FIELDS = 32


@dataclass(frozen=True, eq=False)
class Contents:
    """The arrays of an index.

    `fields`: the fields of the documents. `words`, `ids`: all words in byte order and all document ids, each followed
    by a line end. `texts`: the texts of all fields of all documents, if stored. `postings`: the postings of every field
    and word, as the file has them. `lengths`: number of words. `numbers`: the numbers of the documents by name, NaN
    where there is none.
    """

    fields: tuple[str, ...]
    words: Strings
    ids: Strings
    texts: Strings | None
    postings: Postings
    lengths: Array
    numbers: dict[str, Array]

    @cached_property
    def checked_postings(self) -> Postings:
        """The postings, all of them checked: what compiled code merges and joins.

        Every field and word has ascending documents that exist; the counts of a document add up to its length in each
        field, and its lengths stay within 32 bits.
        """
        from rankwright.text.index.postings import add_counts, first_unsound  # compiled

        indptr, docs, counts = (_plain(array) for array in self.postings)
        lengths = _plain(self.lengths)
        firsts, lasts = indptr[:, 0], indptr[:, -1]
        if firsts[0] != 0 or lasts[-1] != len(docs) or (firsts[1:] != lasts[:-1]).any():
            raise InputError("the boundaries of the postings do not cover all of them")
        if (indptr[:, 1:] < indptr[:, :-1]).any():
            raise InputError("the boundaries of the postings do not increase")
        every = np.arange(indptr.shape[1] - 1)
        for field, own in zip(indptr, lengths, strict=True):
            sums = np.zeros(len(own), np.int64)
            if first_unsound(every, field, docs, counts, len(own)) >= 0:
                raise InputError("the postings of a word are not sound; expected ascending documents and their counts")
            if not add_counts(docs[field[0] : field[-1]], counts[field[0] : field[-1]], sums) or (sums != own).any():
                raise InputError("the counts of a document do not add up to its length")
        if lengths.sum(axis=0, dtype=np.int64).max(initial=0) > MOST_DOCS:
            raise InputError("a document has more words than can be counted")
        return indptr, docs, counts

    @cached_property
    def checked_words(self) -> list[str]:
        """The words, different and in byte order."""
        words = Vocabulary(*self.words).words()
        if any(one >= two for one, two in pairwise(words)):
            raise InputError("the words are not different and in byte order")
        return words

    @cached_property
    def checked_texts(self) -> Strings | None:
        """The texts, if stored, with boundaries that increase."""
        if self.texts is not None and (self.texts[1][1:] < self.texts[1][:-1]).any():
            raise InputError("the boundaries of the texts do not increase")
        return self.texts


def load_contents(stored: Container) -> Contents:
    """Map the arrays of an index into memory and check their shapes against its header."""
    header = stored.header
    n_docs, n_terms, n_empty, n_tokens = (_number(header, key) for key in ("documents", "terms", "empty", "tokens"))
    fields = _fields(header["fields"])
    n_fields = len(fields)
    if n_docs > MOST_DOCS or n_empty > n_docs or n_terms > n_tokens:
        raise stored.damaged(f"the numbers in {INDEX.header} do not fit together")
    docs = stored.array("docs", np.int32, (None,))
    indptr = stored.array("indptr", np.int64, (n_fields, n_terms + 1))
    counts = stored.array("counts", np.int32, docs.shape)
    lengths = stored.array("lengths", np.int32, (n_fields, n_docs))
    words = _strings(stored, "terms", "term_offsets", n_terms)
    ids = _strings(stored, "doc_ids", "doc_id_offsets", n_docs)
    texts = _strings(stored, "texts", "text_offsets", n_docs * n_fields) if header["texts"] else None
    if indptr[0, 0] != 0 or indptr[-1, -1] != len(docs):
        raise stored.damaged("the boundaries of the postings do not cover all of them")
    return Contents(fields, words, ids, texts, (indptr, docs, counts), lengths, _numbers(stored, fields, n_docs))


def header_of_numbers(names: Collection[str]) -> dict[str, Any]:
    """What the header says about numbers; an index without them is as in version 1."""
    return {"version": 2, "numbers": list(names)} if names else {"version": 1}


def _numbers(stored: Container, fields: tuple[str, ...], n_docs: int) -> dict[str, Array]:
    """The numbers of an index, which it has from version 2 on."""
    names = stored.header.get("numbers", [])
    if not isinstance(names, list):
        raise InputError(f"the numbers in {INDEX.header} are not a list of names")
    checked_number_names(names, fields)
    if not names:
        return {}
    return dict(zip(names, stored.array("numbers", np.float64, (len(names), n_docs)), strict=True))


def _number(header: dict[str, Any], key: str) -> int:
    value = header[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InputError(f"{key!r} in {INDEX.header} is {value!r:.80}; expected a number of at least 0")
    return value


def _fields(names: Any) -> tuple[str, ...]:
    are_names = isinstance(names, list) and all(isinstance(name, str) and name.isprintable() for name in names)
    if not are_names or not 0 < len(names) <= MOST_FIELDS or len(set(names)) < len(names) or not all(names):
        raise InputError(f"the fields in {INDEX.header} are not a list of names")
    return tuple(names)


def _strings(stored: Container, name: str, offsets_name: str, number: int) -> Strings:
    data = stored.array(name, np.uint8, (None,))
    offsets = stored.array(offsets_name, np.int64, (number + 1,))
    if offsets[0] != 0 or offsets[-1] != len(data):
        raise stored.damaged(f"{offsets_name}.npy does not end where {name}.npy does")
    return data, offsets


def _plain(array: Array) -> Array:
    array = np.ascontiguousarray(array).view()
    array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False)
class Ids:
    """Document ids, straight from two arrays.

    `data`: the ids in UTF-8, each followed by a line end. `offsets`: where each id starts, and where the last one ends.
    `path`: the index. `checksum`: of ``data``: the same for the same documents in the same order.
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
