"""Lines of LETOR text without their features: labels, query ids and document ids, checked as they are read."""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from rankwright.data.columns import MAX_FIELD
from rankwright.data.letor_comments import CommentedQueries, commented_id
from rankwright.data.letor_groups import qid_from_groups
from rankwright.data.letor_messages import NO_QID, bad_label, shown
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.data.letor_kernel import Parsed

__all__ = ["EXPECTED", "LetorRows", "Negative"]

Array = npt.NDArray[Any]
Negative = Literal["error", "zero"]

EXPECTED = "expected lines of: label qid:Q id:value id:value ... # comment"
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DOC_ID = re.compile(rb"(?:^|\s)docid\s*=\s*([^\s#]+)|^\s*(?!docid\s*=)([^\s#]+)\s*$", re.IGNORECASE)


class LetorRows:
    """All of each row but its features, collected chunk by chunk and checked on the way.

    Parameters
    ----------
    path : path
        The file, for messages.
    negative : {"error", "zero"}
        Whether a label below 0 is an error or becomes 0.
    commented : CommentedQueries or bool, optional
        Looks for comments of a document id and the text of the query; whether it is known that all are of that form.
    """

    def __init__(self, path: str | Path, negative: Negative, commented: CommentedQueries | bool | None = None) -> None:
        if negative not in ("error", "zero"):
            raise InputError(f'negative is {negative!r}; expected "error" or "zero"')
        self._path, self._negative = path, negative
        self._has_qid: bool | None = None
        self._first_line = 0
        self._texts: dict[bytes | None, str] = {}
        self._heads: list[str] = []  # the query id of each run of rows with the same one
        self._labels: list[Array] = []
        self._runs: list[Array] = []
        self._doc_ids: list[Array] = []
        self._commented = CommentedQueries() if commented is None else commented

    def add_parsed(self, chunk: bytes, parsed: Parsed, first_line: int) -> None:
        """Add the rows that the kernel parsed; those before its fault may have an earlier one."""
        lines = parsed.lines + first_line
        heads = np.flatnonzero(parsed.qid_is_new)
        qids = [chunk[start:stop] if start >= 0 else None for start, stop in parsed.qid_spans[heads].tolist()]
        comments: list[bytes] | None = None
        if (parsed.comment_spans[:, 0] >= 0).any():
            comments = [chunk[start:stop] if start >= 0 else b"" for start, stop in parsed.comment_spans.tolist()]
        self._add(parsed.labels.copy(), heads, qids, comments, lines)

    def add_text(self, chunk: bytes, first_line: int) -> None:
        """Add rows from text, reading only label, query id and comment."""
        labels: list[float] = []
        lines: list[int] = []
        heads: list[int] = []
        qids: list[bytes | None] = []
        comments: list[bytes] = []
        labels_read: dict[bytes, float] = {}
        fault = ""
        for line, text in enumerate(chunk.split(b"\n"), first_line):
            content, _, comment = text.partition(b"#")
            fields = content.split(None, 2)
            if not fields:
                continue
            if fields[0] not in labels_read:
                labels_read[fields[0]] = float(fields[0]) if _NUMBER.fullmatch(fields[0]) else np.nan
            label = labels_read[fields[0]]
            qid = fields[1][4:] if len(fields) > 1 and fields[1].startswith(b"qid:") else None
            if not abs(label) < np.inf or qid == b"":
                fault = NO_QID if abs(label) < np.inf else bad_label(fields[0])
                break
            if not heads or qid != qids[-1]:
                heads.append(len(labels))
                qids.append(qid)
            labels.append(label)
            lines.append(line)
            comments.append(comment)
        self._add(np.array(labels), np.array(heads), qids, comments if any(comments) else None, np.array(lines))
        if fault:
            raise InputError(fault, self._path, line)

    def _add(
        self, labels: Array, heads: Array, qids: list[bytes | None], comments: list[bytes] | None, lines: Array
    ) -> None:
        """Check and keep rows; ``heads`` are those whose query id, in ``qids``, differs from the previous row."""
        if len(labels) == 0:
            return
        if self._has_qid is None:
            self._has_qid, self._first_line = qids[0] is not None, int(lines[0])
        below = np.flatnonzero(labels < 0)
        mixed = heads[[(qid is not None) != self._has_qid for qid in qids]]
        if len(mixed) and not (len(below) and self._negative == "error" and below[0] < mixed[0]):
            present = "no qid" if self._has_qid else "a qid"
            problem = f"has {present}, unlike the lines before; expected qid:Q in all lines or in none"
            raise InputError(problem, self._path, int(lines[mixed[0]]))
        if len(below) and self._negative == "error":
            label = labels[below[0]]
            remedy = '--negative-as-zero or negative="zero" reads it as 0'
            problem = f"label {label:g} is negative; expected a number of at least 0 ({remedy})"
            raise InputError(problem, self._path, int(lines[below[0]]))
        labels[below] = 0
        self._labels.append(labels)
        if self._has_qid:
            for qid, line in zip(qids, lines[heads].tolist(), strict=True):
                if qid not in self._texts:  # one string per query, however often it recurs
                    self._texts[qid] = self._decode(qid, "query id", line)
                self._heads.append(self._texts[qid])
            self._runs.append(np.diff(heads, append=len(labels)))
        self._doc_ids.append(self._documents(comments, lines))
        per_row = chain.from_iterable(map(repeat, qids, np.diff(heads, append=len(labels)).tolist()))
        if isinstance(self._commented, CommentedQueries):
            self._commented.add(comments, per_row)

    def _documents(self, comments: list[bytes] | None, lines: Array) -> Array:
        if comments is None:
            return np.zeros(len(lines), "U1")
        if self._commented is True:
            ids = [*map(commented_id, comments)]
        else:
            matches = map(_DOC_ID.search, comments)
            ids = [b"" if match is None else match[match.lastindex or 0] for match in matches]
        if max(map(len, ids)) <= MAX_FIELD:
            with suppress(UnicodeDecodeError):
                return np.array(b"\n".join(ids).decode().split("\n"))
        # one by one, to name the line
        return np.array([*map(self._decode, ids, repeat("document id"), lines.tolist())])

    def _decode(self, text: bytes | None, what: str, line: int) -> str:
        if len(text or b"") > MAX_FIELD:
            raise InputError(f"{what} of {len(text or b''):,} bytes; expected at most {MAX_FIELD}", self._path, line)
        try:
            return (text or b"").decode()
        except UnicodeDecodeError:
            raise InputError(f"{what} {shown(text)} is not text; expected UTF-8", self._path, line) from None

    @property
    def first_line(self) -> int:
        """Line of the first row; 0 while there is none."""
        return self._first_line

    def take(self) -> tuple[Array, Array | None, Array]:
        """Labels, query ids (None if lines have none) and document ids of the rows added, which are then forgotten."""
        labels, doc_ids = np.concatenate(self._labels), np.concatenate(self._doc_ids)
        qid = np.repeat(np.array(self._heads), np.concatenate(self._runs)) if self._has_qid else None
        self.forget()
        return labels, qid, doc_ids

    def forget(self) -> None:
        self._texts, self._heads, self._labels, self._runs, self._doc_ids = {}, [], [], [], []

    def finish(self, group: str | Path | npt.ArrayLike | None) -> tuple[Array, Array, Array | None]:
        if self._has_qid is None:
            raise InputError(f"has no documents; {EXPECTED}", self._path)
        labels = np.concatenate(self._labels)
        if not self._has_qid:
            qid = qid_from_groups(self._path, group, len(labels), self._first_line)
        elif group is not None:
            raise InputError("has qid:Q in its lines, and group was given too; expected only one of them", self._path)
        else:
            qid = np.repeat(np.array(self._heads), np.concatenate(self._runs))
        doc_ids = np.concatenate(self._doc_ids)
        documents = None if isinstance(self._commented, bool) else self._commented.doc_ids()
        if documents is not None:
            doc_ids = np.array(documents)
        return labels, qid, doc_ids if (doc_ids != "").any() else None

    @property
    def query_texts(self) -> dict[str, str] | None:
        """Query texts from comments of the form ``# document text``."""
        return None if isinstance(self._commented, bool) else self._commented.query_texts()
