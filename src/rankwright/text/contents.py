"""The contents of an index: words, document ids, texts and postings, as arrays mapped into memory, and views of them.

Words and ids are read straight from two arrays each, so that opening an index builds nothing. Retrieval functions score
views.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data.order import sizes_to_indptr
from rankwright.errors import InputError
from rankwright.io.container import Container, FolderWriter, Format
from rankwright.io.roles import ROLES
from rankwright.text.analysis import Analyzer, frozen

Postings = tuple[Array, Array, Array]
"""``indptr`` (fields × terms + 1), ``docs`` and ``counts``: see :mod:`rankwright.text.postings`."""
Strings = tuple[Array, Array]
"""UTF-8 strings back to back, and where each starts (and the last ends)."""
_REMEMBERED = 1 << 17
_LINE_END = ord("\n")
_RESERVED = ",()[]"


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
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[str]:
        return iter(self.words())

    def __getitem__(self, word: str) -> int:
        number = self._find(word)
        if number < 0:
            raise KeyError(word)
        return number

    def get(self, word: str, default: Any = None, /) -> Any:
        """The number of a word, or the default; without an exception inside, as many words of queries are unknown."""
        number = self._find(word)
        return default if number < 0 else number

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self._find(word) >= 0

    def word(self, number: int) -> str:
        if not 0 <= number < self._length:
            raise IndexError(f"word number {number} is out of range; there are {self._length:,} words")
        return _decoded(self._bytes(number))

    def words(self) -> list[str]:
        words = _decoded(self._data.tobytes()).split("\n")[:-1]
        if len(words) != len(self._offsets) - 1:
            raise InputError(f"{len(words):,} words; expected {len(self._offsets) - 1:,}")
        return words if self._members is None else [words[i] for i in self._members.tolist()]

    def _bytes(self, number: int) -> bytes:
        i = number if self._members is None else self._members[number]
        return self._data[int(self._offsets[i]) : int(self._offsets[i + 1]) - 1].tobytes()

    def _find(self, word: str) -> int:
        number = self._numbers.get(word)
        if number is None:
            wanted = word.encode("utf-8", "surrogatepass")
            number = bisect_left(range(self._length), wanted, key=self._bytes)
            if number == self._length or self._bytes(number) != wanted:
                number = -1
            if len(self._numbers) >= _REMEMBERED:
                self._numbers.clear()
            self._numbers[word] = number
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
MAX_DOCS = 2**31 - 1
MAX_FIELDS = 32


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
        from rankwright.text.postings import add_counts, first_unsound  # compiled

        indptr, docs, counts = (frozen(array) for array in self.postings)
        lengths = frozen(self.lengths)
        firsts, lasts = indptr[:, 0], indptr[:, -1]
        if firsts[0] != 0 or lasts[-1] != len(docs) or (firsts[1:] != lasts[:-1]).any():
            raise InputError("the boundaries of the postings do not cover all of them")
        if (indptr[:, 1:] < indptr[:, :-1]).any():
            raise InputError("the boundaries of the postings do not increase")
        terms = np.arange(indptr.shape[1] - 1)
        for field, field_lengths in zip(indptr, lengths, strict=True):
            sums = np.zeros(len(field_lengths), np.int64)
            if first_unsound(terms, field, docs, counts, len(field_lengths)) >= 0:
                raise InputError("the postings of a word are not sound; expected ascending documents and their counts")
            if (
                not add_counts(docs[field[0] : field[-1]], counts[field[0] : field[-1]], sums)
                or (sums != field_lengths).any()
            ):
                raise InputError("the counts of a document do not add up to its length")
        if lengths.sum(axis=0, dtype=np.int64).max(initial=0) > MAX_DOCS:
            raise InputError("a document has more words than can be counted")
        return indptr, docs, counts

    @cached_property
    def checked_words(self) -> list[str]:
        """The words, different and in byte order."""
        words = Vocabulary(*self.words).words()
        if any(first >= second for first, second in pairwise(words)):
            raise InputError("the words are not different and in byte order")
        return words

    @cached_property
    def checked_texts(self) -> Strings | None:
        """The texts, if stored, with boundaries that increase."""
        if self.texts is not None and (self.texts[1][1:] < self.texts[1][:-1]).any():
            raise InputError("the boundaries of the texts do not increase")
        return self.texts


def load_contents(stored: Container) -> Contents:
    """Map the arrays of an index into memory; their shapes are checked against its header."""
    header = stored.header
    n_docs, n_terms, n_empty, n_tokens = (_number(header, key) for key in ("documents", "terms", "empty", "tokens"))
    fields = _fields(header["fields"])
    n_fields = len(fields)
    if n_docs > MAX_DOCS or n_empty > n_docs or n_terms > n_tokens:
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
    """The header entries about numbers; an index without them is as in version 1."""
    return {"version": 2, "numbers": list(names)} if names else {"version": 1}


def _numbers(stored: Container, fields: tuple[str, ...], n_docs: int) -> dict[str, Array]:
    names = stored.header.get("numbers", [])
    if not isinstance(names, list):
        raise InputError(f"the numbers in {INDEX.header} are not a list of names")
    checked_number_names(names, fields)
    if not names:
        return {}
    return dict(zip(names, stored.array("numbers", np.float64, (len(names), n_docs)), strict=True))


def checked_number_names(names: Sequence[str], fields: Collection[str] = ()) -> list[str]:
    """The names of numbers, if they are valid and different from text fields and from each other."""
    given = [names] if isinstance(names, str) else list(names)
    for name in given:
        if not isinstance(name, str) or not name.isprintable() or name != name.strip() or set(name) & set(_RESERVED):
            raise InputError(f"bad number name {name!r}; expected a printable name without commas and brackets")
        if not name or name in ROLES["id"]:
            raise InputError(f"a number cannot be called {name!r}; expected another name")
        if given.count(name) > 1:
            raise InputError(f"duplicate number {name!r}")
        if name in fields:
            raise InputError(f"{name!r} is both a text field and a number; expected different names")
    return given


def _number(header: dict[str, Any], key: str) -> int:
    value = header[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InputError(f"{key!r} in {INDEX.header} is {value!r:.80}; expected a number of at least 0")
    return value


def _fields(names: Any) -> tuple[str, ...]:
    are_names = isinstance(names, list) and all(isinstance(name, str) and name.isprintable() for name in names)
    if not are_names or not 0 < len(names) <= MAX_FIELDS or len(set(names)) < len(names) or not all(names):
        raise InputError(f"the fields in {INDEX.header} are not a list of names")
    return tuple(names)


def _strings(stored: Container, name: str, offsets_name: str, number: int) -> Strings:
    data = stored.array(name, np.uint8, (None,))
    offsets = stored.array(offsets_name, np.int64, (number + 1,))
    if offsets[0] != 0 or offsets[-1] != len(data):
        raise stored.damaged(f"{offsets_name}.npy does not end where {name}.npy does")
    return data, offsets


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
        return self.decoded(self.data[int(self.offsets[doc]) : int(self.offsets[doc + 1]) - 1])

    def decoded(self, data: Array | bytes) -> str:
        """The text in some bytes of the index; bytes that are not UTF-8 are damage."""
        try:
            return bytes(data).decode()
        except UnicodeDecodeError as error:
            problem = f"a text or an id is not valid UTF-8 ({error.reason})"
            raise INDEX.damaged(self.path, problem) from None


# Views: one field, or all of them, under one analyser, made from the postings of the index by merging the fields and
# the terms that the analyser conflates


@dataclass(frozen=True, eq=False)
class View:
    """Which documents contain which terms, and how often.

    `terms`: the number of every term. `indptr`: term ``t`` owns the postings ``indptr[t]:indptr[t+1]``. `docs`: the
    documents of the postings, ascending within a term. `counts`: how often the term occurs in the document; at least 1.
    `lengths`: number of terms in each document, with repetition. `analyze`: maps a text to its terms, as for the
    documents. `name`: ``"porter+stop"``, or ``"porter+stop,title"`` for one field. `ids`: the ids of the documents, if
    it belongs to an index.

    Notes
    -----
    The boundaries and lengths are checked here, the postings of a term when they are first used (:meth:`check`): a file
    says what it likes, and compiled code trusts what it is given.
    """

    terms: Mapping[str, int]
    indptr: Array
    docs: Array
    counts: Array
    lengths: Array
    analyze: Callable[[str], list[str]]
    name: str = ""
    ids: Ids | None = None

    def __post_init__(self) -> None:
        indptr, lengths, size = self.indptr, self.lengths, len(self.docs)
        if any(np.ndim(array) != 1 for array in (indptr, self.docs, self.counts, lengths)) or len(self.counts) != size:
            raise self._unsound("documents and counts are not one list each of the same length")
        if not len(indptr) or indptr[0] != 0 or indptr[-1] != size or (indptr[1:] < indptr[:-1]).any():
            raise self._unsound(f"the boundaries of the postings do not increase from 0 to {size:,}")
        if self.doc_counts.max(initial=0) > len(lengths):
            raise self._unsound(f"a term has more postings than the {len(lengths):,} documents")
        if lengths.min(initial=0) < 0 or self.total_length < size:
            raise self._unsound("the lengths of the documents do not fit their postings")

    def check(self, terms: Array | None = None) -> None:
        """Check the postings of some terms or of all, each once; whoever hands them to compiled code asks for this.

        Raises `InputError`: if a document does not exist, comes twice or out of order, or has a count below 1.
        """
        from rankwright.text.postings import first_unsound

        if terms is None:
            unchecked = np.flatnonzero(~self._is_checked)
        else:
            if len(terms) and not 0 <= terms.min() <= terms.max() < self.n_terms:
                raise self._unsound(f"a term has a number outside the {self.n_terms:,} terms")
            unchecked = terms[~self._is_checked[terms]]
            if len(unchecked):
                unchecked = np.unique(unchecked)
        if not len(unchecked):
            return
        first_bad = first_unsound(unchecked, *self.arrays[:3], self.n_docs)
        if first_bad >= 0:
            expected = "expected ascending documents, each with a count of at least 1"
            raise self._unsound(f"the postings of term {unchecked[first_bad]:,} are not sound; {expected}")
        self._is_checked[unchecked] = True

    @cached_property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """Boundaries, documents, counts and lengths as compiled code takes them: plain, read-only, of one type."""
        types = (np.int64, np.int32, np.int32, np.int32)
        given = (self.indptr, self.docs, self.counts, self.lengths)
        return tuple(frozen(array, dtype) for array, dtype in zip(given, types, strict=True))  # type: ignore[return-value]

    @cached_property
    def _is_checked(self) -> Array:
        return np.zeros(self.n_terms, bool)

    def _unsound(self, problem: str) -> InputError:
        return InputError(problem) if self.ids is None else INDEX.damaged(self.ids.path, problem)

    @property
    def n_docs(self) -> int:
        return len(self.lengths)

    @property
    def n_terms(self) -> int:
        return len(self.indptr) - 1

    @cached_property
    def total_length(self) -> int:
        """Number of terms in all documents, with repetition."""
        return int(self.lengths.sum(dtype=np.int64))

    @cached_property
    def doc_counts(self) -> Array:
        """Documents that contain each term."""
        return np.diff(self.indptr)

    @cached_property
    def total_counts(self) -> Array:
        """Occurrences of each term in all documents."""
        totals = np.zeros(self.n_terms, np.int64)
        used = np.flatnonzero(self.doc_counts)  # reduceat would give empty terms the next count
        if len(used):
            totals[used] = np.add.reduceat(self.counts, self.indptr[used], dtype=np.int64)
        return totals


def _merged(
    analyzer: Analyzer, words: list[str], postings: Postings, fields: Sequence[int], lengths: Array
) -> tuple[list[str], Iterator[tuple[Array, Array, Array]]]:
    """The terms of a view in byte order, and their postings in blocks; fills the lengths."""
    from rankwright.text.postings import merged, terms_by_group  # compiled: only where terms are merged

    indptr = postings[0]
    present = np.flatnonzero((np.diff(indptr[list(fields)], axis=1) > 0).any(axis=0))
    if len(present) < len(words):
        words = [words[term] for term in present.tolist()]
    if analyzer.keeps_words:
        terms, members, starts = words, np.arange(len(words)), np.arange(len(words) + 1)
    else:
        terms_of_words = analyzer.map(words)
        terms = sorted({term for term in terms_of_words if term})
        numbers: dict[str | None, int] = {term: number for number, term in enumerate(terms)}
        groups = np.array([numbers.get(term, -1) for term in terms_of_words], np.int64)
        members, starts = terms_by_group(groups, len(terms))
    return terms, merged(postings, fields, present[members], starts, lengths)


def merged_view(
    analyzer: Analyzer, name: str, words: list[str], postings: Postings, fields: Sequence[int], n_docs: int, ids: Ids
) -> View:
    """A view in memory, from the words of the index in byte order and their postings, which have been checked."""
    lengths = np.zeros(n_docs, np.int32)
    terms, blocks = _merged(analyzer, words, postings, fields, lengths)
    none = np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64)
    docs, counts, sizes = (np.concatenate(column) for column in zip(none, *blocks, strict=True))
    arrays = frozen(sizes_to_indptr(sizes)), frozen(docs), frozen(counts), frozen(lengths)
    return View(Vocabulary(*as_lines(terms)), *arrays, analyzer, name, ids)


def write_view(
    writer: FolderWriter,
    file: str,
    analyzer: Analyzer,
    words: list[str],
    postings: Postings,
    fields: Sequence[int],
    n_docs: int,
) -> None:
    """Build a view and write it block by block."""
    lengths = np.zeros(n_docs, np.int32)
    terms, blocks = _merged(analyzer, words, postings, fields, lengths)
    sizes = [np.zeros(1, np.int64)]
    with writer.open(f"{file}.docs", np.int32) as docs, writer.open(f"{file}.counts", np.int32) as counts:
        for some_docs, some_counts, some_sizes in blocks:
            docs.append(some_docs)
            counts.append(some_counts)
            sizes.append(some_sizes)
    data, offsets = as_lines(terms)
    writer.save(f"{file}.terms", data)
    writer.save(f"{file}.term_offsets", offsets)
    writer.save(f"{file}.indptr", np.cumsum(np.concatenate(sizes)))
    writer.save(f"{file}.lengths", lengths)


def stored_view(stored: Container, file: str, analyzer: Analyzer, name: str, n_docs: int, ids: Ids) -> View:
    data = stored.array(f"{file}.terms", np.uint8, (None,))
    offsets = stored.array(f"{file}.term_offsets", np.int64, (None,))
    indptr = stored.array(f"{file}.indptr", np.int64, offsets.shape)
    docs = stored.array(f"{file}.docs", np.int32, (None,))
    counts = stored.array(f"{file}.counts", np.int32, docs.shape)
    lengths = stored.array(f"{file}.lengths", np.int32, (n_docs,))
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(data) or (offsets[1:] < offsets[:-1]).any():
        raise stored.damaged(f"the boundaries in {file}.term_offsets.npy do not increase from 0 to {len(data):,}")
    return View(Vocabulary(data, offsets), indptr, docs, counts, lengths, analyzer, name, ids)


def direct_view(analyzer: Analyzer, name: str, contents: Contents, field: int, ids: Ids) -> View:
    """The plain words of one field: the postings of the index, unchanged."""
    indptr, docs, counts = contents.postings
    first, last = int(indptr[field, 0]), int(indptr[field, -1])
    starts = indptr[field] - first
    members = np.flatnonzero(np.diff(starts))
    terms = Vocabulary(*contents.words, members if len(members) < len(starts) - 1 else None)
    kept = np.append(starts[:-1][members], last - first)
    arrays = docs[first:last], counts[first:last], contents.lengths[field]
    return View(terms, frozen(kept), *arrays, analyzer, name, ids)
