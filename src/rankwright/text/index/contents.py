"""The contents of an index: words, document ids, texts and postings, as arrays mapped into memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.container import Container, Format

__all__ = ["INDEX", "Contents", "Postings", "load_contents"]

Array = npt.NDArray[Any]
Postings = tuple[Array, Array, Array]
"""``indptr`` (fields × terms + 1), ``docs`` and ``counts``: see :mod:`rankwright.text.index.postings`."""
Strings = tuple[Array, Array]
"""UTF-8 strings back to back, and where each starts (and the last ends)."""

INDEX = Format("rankwright-index", "index.json", "index", "`rankwright index`", is_folder=True)


@dataclass(frozen=True, eq=False)
class Contents:
    """The arrays of an index.

    Attributes
    ----------
    fields : tuple of str
        The fields of the documents.
    words, ids : tuple of ndarray
        All words in byte order and all document ids, each followed by a line end.
    texts : tuple of ndarray or None
        The texts of all fields of all documents, if stored.
    postings : tuple of ndarray
        The postings of every field and word.
    lengths : ndarray of int32, fields × documents
        Number of words.
    """

    fields: tuple[str, ...]
    words: Strings
    ids: Strings
    texts: Strings | None
    postings: Postings
    lengths: Array


def load_contents(stored: Container) -> Contents:
    """Map the arrays of an index into memory and check their shapes against its header."""
    header = stored.header
    fields = tuple(str(name) for name in header["fields"])
    n_docs, n_terms, n_fields = int(header["documents"]), int(header["terms"]), len(fields)
    docs = stored.array("docs", np.int32, (None,))
    indptr = stored.array("indptr", np.int64, (n_fields, n_terms + 1))
    counts = stored.array("counts", np.int32, docs.shape)
    lengths = stored.array("lengths", np.int32, (n_fields, n_docs))
    words = _strings(stored, "terms", "term_offsets", n_terms)
    ids = _strings(stored, "doc_ids", "doc_id_offsets", n_docs)
    texts = _strings(stored, "texts", "text_offsets", n_docs * n_fields) if header["texts"] else None
    if not n_fields or indptr[0, 0] != 0 or indptr[-1, -1] != len(docs):
        raise stored.damaged("the boundaries of the postings do not cover all of them")
    return Contents(fields, words, ids, texts, (indptr, docs, counts), lengths)


def _strings(stored: Container, name: str, offsets_name: str, number: int) -> Strings:
    data = stored.array(name, np.uint8, (None,))
    offsets = stored.array(offsets_name, np.int64, (number + 1,))
    if offsets[0] != 0 or offsets[-1] != len(data):
        raise stored.damaged(f"{offsets_name}.npy does not end where {name}.npy does")
    return data, offsets
