"""Comments of LETOR lines that hold a document id and the text of the query, such as ``# 7555 rambo``.

Any comment of two words has this form. It counts only where the whole file bears it out: every line has such a comment,
the text is the same in all lines of a query, no id occurs twice in a query, and some query has several lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rankwright.data.columns import MAX_FIELD

__all__ = ["CommentedQueries"]

_FORM = re.compile(rb"\s*([^\s#;=]+);?\s+([^\s#=][^#=]*)")


class CommentedQueries:
    """Document ids and query texts from comments, while all of them have the form."""

    def __init__(self) -> None:
        self._is_borne_out = True
        self._has_several = False
        self._seen: set[tuple[bytes, bytes]] = set()
        self._texts: dict[bytes, bytes] = {}
        self._ids: list[bytes] = []

    def add(self, comments: Iterable[bytes] | None, qids: Iterable[bytes | None]) -> None:
        """Add the comments of some lines and their query ids."""
        if self._is_borne_out and (comments is None or not self._fits(comments, qids)):
            self._is_borne_out = False
            self._seen, self._texts, self._ids = set(), {}, []

    def _fits(self, comments: Iterable[bytes], qids: Iterable[bytes | None]) -> bool:
        for comment, qid in zip(comments, qids, strict=True):
            match = _FORM.fullmatch(comment)
            if match is None or qid is None or len(match[1]) > MAX_FIELD or (qid, match[1]) in self._seen:
                return False
            text = match[2].strip()
            self._has_several |= qid in self._texts
            if self._texts.setdefault(qid, text) != text:
                return False
            self._seen.add((qid, match[1]))
            self._ids.append(match[1])
        return True

    def doc_ids(self) -> list[str] | None:
        """The document of each line, or None if the comments are something else."""
        if not (self._is_borne_out and self._has_several):
            return None
        try:
            return [one.decode() for one in self._ids]
        except UnicodeDecodeError:
            return None

    def query_texts(self) -> dict[str, str] | None:
        """The text of each query, or None if the comments are something else."""
        if self.doc_ids() is None:
            return None
        texts = {qid.decode("utf-8", "replace"): text.decode("utf-8", "replace") for qid, text in self._texts.items()}
        return {qid: text.strip('"') for qid, text in texts.items()}
