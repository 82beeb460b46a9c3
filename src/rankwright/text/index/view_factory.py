"""Makes views from the postings of an index: merges the terms an analyser conflates, and the fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.container import Container
from rankwright.data.container_write import FolderWriter
from rankwright.text.analysis.analyzers import Analyzer
from rankwright.text.index.contents import Postings
from rankwright.text.index.ids import Ids
from rankwright.text.index.view import View
from rankwright.text.index.vocabulary import Vocabulary, as_lines

__all__ = ["direct_view", "merged_view", "stored_view", "view_name", "write_view"]

Array = npt.NDArray[Any]


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

    Parameters
    ----------
    analyzer : Analyzer
        Maps words to terms.
    name : str
        Name of the view.
    words : list of str
        The words of the index in byte order.
    postings : tuple of ndarray
        Their postings, checked.
    fields : sequence of int
        The fields to merge.
    n_docs : int
        Number of documents.
    ids : Ids
        The ids of the documents, with the path of the index.
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
