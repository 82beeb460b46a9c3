"""Comments of LETOR lines that hold a document id and the text of the query, such as ``# 7555 rambo``.

Any comment of two words has this form. It counts only if the whole file agrees: every line has such a comment,
the text is the same in all lines of a query, no id occurs twice in a query, and some query has several lines.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Iterable

import numpy as np

from rankwright.data.columns import MAX_FIELD

__all__ = ["CommentedQueries", "CommentedQueriesLook", "commented_id"]

_FORM = re.compile(rb"\s*([^\s#;=]+);?\s+([^\s#=][^#=]*)")


class CommentedQueries:
    """Document ids and query texts from comments, as long as all comments have that form."""

    def __init__(self) -> None:
        self._is_borne_out = True
        self._has_several = False
        self._seen: set[tuple[bytes, bytes]] = set()
        self._texts: dict[bytes, bytes] = {}
        self._ids: list[bytes] = []

    def add(self, comments: Iterable[bytes] | None, qids: Iterable[bytes | None]) -> None:
        if self._is_borne_out and (comments is None or not self._fits(comments, qids)):
            self._is_borne_out = False
            self._seen, self._texts, self._ids = set(), {}, []

    def _fits(self, comments: Iterable[bytes], qids: Iterable[bytes | None]) -> bool:
        for comment, qid in zip(comments, qids, strict=True):
            match = _FORM.fullmatch(comment)
            if match is None or qid is None or len(match[1]) > MAX_FIELD or not self._keep(qid, match[1]):
                return False
            text = match[2].strip()
            self._has_several |= qid in self._texts
            if self._texts.setdefault(qid, text) != text:
                return False
        return True

    def _keep(self, qid: bytes, document: bytes) -> bool:
        """Keep a document of a query; False if it is a duplicate."""
        if (qid, document) in self._seen:
            return False
        self._seen.add((qid, document))
        self._ids.append(document)
        return True

    def doc_ids(self) -> list[str] | None:
        """The document of each line; None if comments have another form."""
        if not (self._is_borne_out and self._has_several):
            return None
        try:
            return [document.decode() for document in self._ids]
        except UnicodeDecodeError:
            return None

    def query_texts(self) -> dict[str, str] | None:
        """The text of each query; None if comments have another form."""
        if self.doc_ids() is None:
            return None
        texts = {qid.decode("utf-8", "replace"): text.decode("utf-8", "replace") for qid, text in self._texts.items()}
        return {qid: text.strip('"') for qid, text in texts.items()}


class CommentedQueriesLook(CommentedQueries):
    """Tests whether comments have that form, keeping 8 bytes of each and no text."""

    def __init__(self) -> None:
        super().__init__()
        self._hashes = array("Q")

    @property
    def may_fit(self) -> bool:
        return self._is_borne_out

    def fits(self) -> bool:
        """Whether all comments have the form; sorts the hashes in place."""
        hashes = np.frombuffer(self._hashes, np.uint64) if self._hashes else np.empty(0, np.uint64)
        hashes.sort()
        return self._is_borne_out and self._has_several and not bool((hashes[1:] == hashes[:-1]).any())

    def _keep(self, qid: bytes, document: bytes) -> bool:
        try:
            document.decode()
        except UnicodeDecodeError:
            return False
        digest = hashlib.blake2b(qid + b" " + document, digest_size=8).digest()
        self._hashes.append(int.from_bytes(digest, "little"))
        return True


def commented_id(comment: bytes) -> bytes:
    """The document id of a comment of that form; empty for others."""
    match = _FORM.fullmatch(comment)
    return b"" if match is None else match[1]
