"""Views of an index: one field, or all of them, under one analyser. Retrieval functions score views.

They are made from the postings of the index: terms that an analyser conflates are merged, and fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from rankwright._types import Array
from rankwright.errors import InputError
from rankwright.io.container import Container, FolderWriter
from rankwright.text.analysis.analyzers import Analyzer
from rankwright.text.index.contents import Ids, Postings, Vocabulary, as_lines


@dataclass(frozen=True, eq=False)
class View:
    """Which documents contain which terms, and how often.

    `terms`: the number of every term. `indptr`: term ``t`` owns the postings ``indptr[t]:indptr[t+1]``. `docs`: the
    documents of the postings, ascending within a term. `counts`: how often the term occurs in the document; at least 1.
    `lengths`: number of terms in each document, with repetition. `analyze`: maps a text to its terms, as for the
    documents. `name`: ``"porter+stop"``, or ``"porter+stop,title"`` for one field. `path`: the index it belongs to.
    `ids`: the ids of the documents.

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
    path: Path | None = None
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
        from rankwright.text.index.postings import first_unsound

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
        found = first_unsound(unchecked, *self.arrays[:3], self.n_docs)
        if found >= 0:
            what = "expected ascending documents, each with a count of at least 1"
            raise self._unsound(f"the postings of term {unchecked[found]:,} are not sound; {what}")
        self._is_checked[unchecked] = True

    @cached_property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """Boundaries, documents, counts and lengths as compiled code takes them: plain, read-only, of one type."""
        types = (np.int64, np.int32, np.int32, np.int32)
        given = (self.indptr, self.docs, self.counts, self.lengths)
        made = tuple(np.ascontiguousarray(array, dtype).view() for array, dtype in zip(given, types, strict=True))
        for array in made:
            array.flags.writeable = False
        return made  # type: ignore[return-value]

    @cached_property
    def _is_checked(self) -> Array:
        return np.zeros(self.n_terms, bool)

    def _unsound(self, what: str) -> InputError:
        return InputError(what if self.path is None else f"damaged index: {what}", self.path)

    @property
    def n_docs(self) -> int:
        """Number of documents."""
        return len(self.lengths)

    @property
    def n_terms(self) -> int:
        """Number of distinct terms."""
        return len(self.indptr) - 1

    @cached_property
    def total_length(self) -> int:
        """Number of terms in all documents, with repetition."""
        return int(self.lengths.sum(dtype=np.int64))

    @cached_property
    def doc_counts(self) -> Array:
        """Number of documents that contain each term."""
        return np.diff(self.indptr)

    @cached_property
    def total_counts(self) -> Array:
        """Number of occurrences of each term in all documents."""
        totals = np.zeros(self.n_terms, np.int64)
        used = np.flatnonzero(self.doc_counts)  # reduceat would give empty terms the next count
        if len(used):
            totals[used] = np.add.reduceat(self.counts, self.indptr[used], dtype=np.int64)
        return totals


def view_name(analyzer: str, field: str | None) -> str:
    """The name of a view."""
    return analyzer if field is None else f"{analyzer},{field}"


def _merged(
    analyzer: Analyzer, words: list[str], postings: Postings, fields: Sequence[int], lengths: Array
) -> tuple[list[str], Iterator[tuple[Array, Array, Array]]]:
    """The terms of a view in byte order, and their postings in blocks; fills the lengths."""
    from rankwright.text.index.postings import merged, terms_by_group  # compiled: only where terms are merged

    indptr = postings[0]
    present = np.flatnonzero((np.diff(indptr[list(fields)], axis=1) > 0).any(axis=0))
    if len(present) < len(words):
        words = [words[term] for term in present.tolist()]
    if analyzer.keeps_words:
        terms, members, starts = words, np.arange(len(words)), np.arange(len(words) + 1)
    else:
        found = analyzer.map(words)
        terms = sorted({term for term in found if term})
        numbers: dict[str | None, int] = {term: number for number, term in enumerate(terms)}
        groups = np.array([numbers.get(term, -1) for term in found], np.int64)
        members, starts = terms_by_group(groups, len(terms))
    return terms, merged(postings, fields, present[members], starts, lengths)


def merged_view(
    analyzer: Analyzer, name: str, words: list[str], postings: Postings, fields: Sequence[int], n_docs: int, ids: Ids
) -> View:
    """A view in memory.

    `analyzer`: maps words to terms. `name`: name of the view. `words`: the words of the index in byte order.
    `postings`: their postings, checked. `fields`: the fields to merge. `n_docs`: number of documents. `ids`: the ids of
    the documents, with the path of the index.
    """
    lengths = np.zeros(n_docs, np.int32)
    terms, blocks = _merged(analyzer, words, postings, fields, lengths)
    parts = list(blocks)
    none, no_sizes = np.empty(0, np.int32), np.empty(0, np.int64)
    docs = np.concatenate([docs for docs, _, _ in parts] or [none])
    counts = np.concatenate([counts for _, counts, _ in parts] or [none])
    indptr = np.concatenate([[0], np.cumsum(np.concatenate([sizes for _, _, sizes in parts] or [no_sizes]))])
    for array in (indptr, docs, counts, lengths):
        _frozen(array)
    return View(Vocabulary(*as_lines(terms)), indptr, docs, counts, lengths, analyzer, name, ids.path, ids)


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
    """A stored view, mapped into memory."""
    data = stored.array(f"{file}.terms", np.uint8, (None,))
    offsets = stored.array(f"{file}.term_offsets", np.int64, (None,))
    indptr = stored.array(f"{file}.indptr", np.int64, offsets.shape)
    docs = stored.array(f"{file}.docs", np.int32, (None,))
    counts = stored.array(f"{file}.counts", np.int32, docs.shape)
    lengths = stored.array(f"{file}.lengths", np.int32, (n_docs,))
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(data) or (offsets[1:] < offsets[:-1]).any():
        raise stored.damaged(f"the boundaries in {file}.term_offsets.npy do not increase from 0 to {len(data):,}")
    return View(Vocabulary(data, offsets), indptr, docs, counts, lengths, analyzer, name, stored.path, ids)


def direct_view(
    analyzer: Analyzer,
    name: str,
    words: tuple[Array, Array],
    postings: Postings,
    field: int,
    lengths: Array,
    ids: Ids,
) -> View:
    """The plain words of one field: the postings of the index, unchanged."""
    indptr, docs, counts = postings
    first, last = int(indptr[field, 0]), int(indptr[field, -1])
    starts = indptr[field] - first
    members = np.flatnonzero(np.diff(starts))
    terms = Vocabulary(*words, members if len(members) < len(starts) - 1 else None)
    kept = np.append(starts[:-1][members], last - first)
    own = docs[first:last], counts[first:last], lengths[field]
    return View(terms, _frozen(kept), *own, analyzer, name, ids.path, ids)


def _frozen(array: Array) -> Array:
    """Make an array read-only, as mapped ones are."""
    array.flags.writeable = False
    return array
