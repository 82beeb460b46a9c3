"""LETOR / SVMlight text: ``label qid:Q id:value id:value … # comment``, one document per line, plain or gzip.

Feature ids start at 1 and increase along a line; features that a line leaves out are 0. Files without ``qid:`` take
their queries from group sizes, as LightGBM's do. A first line ``# features:`` with tab-separated names, a comment to
other programs, names the features. The parser itself is in :mod:`rankwright.data.letor_kernel`, imported only when
features are read: labels alone are read without numba.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from rankwright.data.ahead import map_ahead, read_ahead
from rankwright.data.columns import MAX_FIELD
from rankwright.data.dataset import RankingData
from rankwright.data.files import OpenFile, Progress, Source, open_file
from rankwright.data.letor_comments import CommentedQueries
from rankwright.data.letor_groups import qid_from_groups
from rankwright.data.letor_messages import NO_QID, bad_label, explain, shown
from rankwright.data.matching import most_features
from rankwright.data.threads import threads_of
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.data.letor_kernel import LineParser, Parsed
    from rankwright.data.letor_table import FeatureTable

__all__ = ["read_letor", "read_letor_labels", "read_letor_queries"]

Array = npt.NDArray[Any]
Negative = Literal["error", "zero"]

_EXPECTED = "expected lines of: label qid:Q id:value id:value ... # comment"
_CHUNK_BYTES = 1 << 20  # small enough that a chunk and what is parsed from it stay in the cache
_UNPACKED_AHEAD = 4  # chunks
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DOC_ID = re.compile(rb"(?:^|\s)docid\s*=\s*([^\s#]+)|^\s*(?!docid\s*=)([^\s#]+)\s*$", re.IGNORECASE)
NAMES = b"# features:\t"
"""The start of a first line with feature names, which tabs separate."""


def read_letor(
    path: Source,
    *,
    group: str | Path | npt.ArrayLike | None = None,
    dtype: npt.DTypeLike = np.float32,
    sparse: bool | None = None,
    negative: Negative = "error",
    null: float = 0.0,
    n_features: int | None = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> RankingData:
    """Read a LETOR / SVMlight file.

    Parameters
    ----------
    path : path
        The file, plain or gzip.
    group : path or array-like, optional
        For files without ``qid:``: rows per query, or a file with one number per line; by default the file of the same
        name plus ``.query``, if there is one.
    dtype : float32 or float64
        Type of the features.
    sparse : bool, optional
        CSR or dense; by default whichever takes less memory.
    negative : {"error", "zero"}
        Whether a label below 0 is an error or becomes 0 (for the ±1 of SVM files).
    null : float
        Value of features written as ``NULL``.
    n_features : int, optional
        Number of columns; by default as many as there are names in the first line, else the largest id in the file.
    n_jobs : int, optional
        Threads; default 1, -1 for all cores. The data does not depend on it, nor does an error. (Gzip is always
        unpacked in a thread of its own.)
    progress : callable, optional
        Called with (bytes read, total bytes).

    Returns
    -------
    RankingData
        Query ids are strings. Document ids come from comments of the form ``docid = X``, of a single word, or of a word
        and the text of the query, if all lines bear that out.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "train.txt"
    ...     _ = path.write_text("2 qid:a 1:0.5 3:1 # docid = x\\n0 qid:a 2:7 # docid = y\\n")
    ...     data = read_letor(path)
    >>> data.X.tolist(), data.labels.tolist(), data.doc_ids.tolist()
    ([[0.5, 0.0, 1.0], [0.0, 7.0, 0.0]], [2.0, 0.0], ['x', 'y'])
    """
    from rankwright.data.letor_kernel import MAX_ID, LineParser
    from rankwright.data.letor_table import FeatureTable

    wanted, threads = np.dtype(dtype), threads_of(n_jobs)
    if wanted not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise InputError(f"dtype is {wanted}; expected float32 or float64")
    if n_features is not None and not 0 <= n_features <= MAX_ID:
        raise InputError(f"n_features is {n_features}; expected a number from 0 to {MAX_ID}")
    if not np.isfinite(null):
        raise InputError(f"null is {null}; expected a finite number")
    with open_file(path) as file:
        names = _feature_names(file)
        if names is not None and n_features not in (None, len(names)):
            raise InputError(f"names {len(names)} features; expected {n_features}", file.path, 1)
        n_features = n_features if names is None else len(names)
        table, rows = FeatureTable(wanted, n_features), _Rows(file.path, negative)
        # The parser's memory is freed when this returns, before the queries are put together.
        parsers = [LineParser(wanted, n_features, null) for _ in range(1 if threads == 1 else 2 * threads + 1)]
        _parse(file, progress, parsers, threads, table, rows, n_features, wanted)
    labels, qid, doc_ids = rows.finish(group)
    return RankingData.from_arrays(table.finish(sparse), labels, qid, doc_ids=doc_ids, feature_names=names)


def _feature_names(file: OpenFile) -> list[str] | None:
    """The feature names in the first line, if it has any."""
    first = next(file.chunks(size=_CHUNK_BYTES), b"").removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0]
    if not first.startswith(NAMES):
        return None
    try:
        return first.removeprefix(NAMES).rstrip(b"\r").decode("utf-8").split("\t")
    except UnicodeDecodeError:
        raise InputError("the feature names are not UTF-8 text", file.path, 1) from None


def _parse(
    file: OpenFile,
    progress: Progress | None,
    parsers: Sequence[LineParser],
    threads: int,
    table: FeatureTable,
    rows: _Rows,
    n_features: int | None,
    dtype: np.dtype[Any],
) -> None:
    width, widest_line, n_bytes, first_line = table.width, 0, 0, 1
    with closing(_parsed_chunks(file, progress, parsers, threads)) as chunks:
        for chunk, parsed, share in chunks:
            _check_text(chunk, first_line, file.path)
            rows.add_parsed(chunk, parsed, first_line)
            if parsed.fault is not None:
                line = first_line + parsed.fault.line
                raise InputError(explain(chunk, parsed.fault, n_features, dtype), file.path, line)
            table.add(parsed.counts, parsed.columns, parsed.values, share)
            n_bytes += len(chunk)
            if table.width > width:
                row = int(np.searchsorted(np.cumsum(parsed.counts), np.argmax(parsed.columns), side="right"))
                width, widest_line = table.width, first_line + int(parsed.lines[row])
            first_line += parsed.n_lines
    most = most_features(n_bytes)
    if n_features is None and width > most:
        what = f"feature id {width}; expected at most {most:,} in {n_bytes:,} bytes of text"
        raise InputError(f"{what} (n_features allows more)", file.path, widest_line)


def _parsed_chunks(
    file: OpenFile, progress: Progress | None, parsers: Sequence[LineParser], threads: int
) -> Generator[tuple[bytes, Parsed, float], None, None]:
    """Chunks and what is parsed from them, in order: the same for any number of threads.

    A parser is used again when all others have been: what it gave before is no longer needed then.
    """

    def parse(numbered: tuple[int, tuple[bytes, float]]) -> tuple[bytes, Parsed, float]:
        number, (chunk, share) = numbered
        return chunk, parsers[number % len(parsers)].parse(chunk), share

    with closing(_text_chunks(file, progress)) as chunks:
        yield from map_ahead(parse, enumerate(chunks), threads, len(parsers) - 1)


def read_letor_labels(
    path: Source,
    *,
    group: str | Path | npt.ArrayLike | None = None,
    negative: Negative = "error",
    progress: Progress | None = None,
) -> tuple[Array, Array, Array | None]:
    """Read labels, query ids and document ids of a LETOR / SVMlight file; features are skipped.

    Parameters
    ----------
    path, group, negative, progress
        As for :func:`read_letor`.

    Returns
    -------
    labels : ndarray of float64
    qid : ndarray of str
    doc_ids : ndarray of str, or None if the file has none
        One entry per document, in the order of the file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "train.txt"
    ...     _ = path.write_text("2 qid:b 1:0.5\\n0 qid:a 2:7\\n1 qid:b 1:1\\n")
    ...     labels, qid, doc_ids = read_letor_labels(path)
    >>> labels.tolist(), qid.tolist(), doc_ids
    ([2.0, 0.0, 1.0], ['b', 'a', 'b'], None)
    """
    with open_file(path) as file:
        rows = _light_rows(file, negative, progress)
    return rows.finish(group)


def read_letor_queries(path: Source, progress: Progress | None = None) -> dict[str, str] | None:
    """Read the texts of queries from comments such as ``# 7555 rambo``; None if the comments are something else."""
    with open_file(path) as file:
        return _light_rows(file, "zero", progress).query_texts


def _light_rows(file: OpenFile, negative: Negative, progress: Progress | None) -> _Rows:
    """All rows without their features."""
    rows = _Rows(file.path, negative)
    first_line = 1
    with closing(_text_chunks(file, progress)) as chunks:
        for chunk, _ in chunks:
            _check_text(chunk, first_line, file.path)
            rows.add_text(chunk, first_line)
            first_line += int(np.count_nonzero(np.frombuffer(chunk, np.uint8) == ord("\n")))  # faster than count
    return rows


def _text_chunks(file: OpenFile, progress: Progress | None) -> Generator[tuple[bytes, float], None, None]:
    """Chunks that end with a newline, each with the share of the file read so far; gzip is unpacked ahead."""
    read = (0, 0)

    def note(done: int, total: int) -> None:
        nonlocal read
        read = (done, total)

    def chunks() -> Generator[tuple[bytes, int, int], None, None]:
        for chunk in file.chunks(note, _CHUNK_BYTES):
            yield chunk, *read

    is_first = True
    with closing(read_ahead(chunks(), _UNPACKED_AHEAD) if file.is_gzip else chunks()) as pieces:
        for chunk, done, total in pieces:
            if progress is not None:  # here, and not where it is read: in the caller's thread
                progress(done, total)
            if is_first:
                chunk = chunk.removeprefix(b"\xef\xbb\xbf")
            is_first = False
            yield chunk if chunk.endswith(b"\n") else chunk + b"\n", min(max(done, 1) / max(total, 1), 1.0)
    if progress is not None:
        progress(*read)


def _check_text(chunk: bytes, first_line: int, path: str | Path) -> None:
    binary = chunk.find(b"\0")
    if binary >= 0:
        line = first_line + chunk.count(b"\n", 0, binary)
        raise InputError(f"is not a text file (it has a NUL byte); {_EXPECTED}", path, line)


class _Rows:
    """All of each row but its features, collected chunk by chunk and checked on the way."""

    def __init__(self, path: str | Path, negative: Negative) -> None:
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
        self._commented = CommentedQueries()

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
        known: dict[bytes, float] = {}
        fault = ""
        for line, text in enumerate(chunk.split(b"\n"), first_line):
            content, _, comment = text.partition(b"#")
            fields = content.split(None, 2)
            if not fields:
                continue
            if fields[0] not in known:
                known[fields[0]] = float(fields[0]) if _NUMBER.fullmatch(fields[0]) else np.nan
            label = known[fields[0]]
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
            found = "no qid" if self._has_qid else "a qid"
            what = f"has {found}, unlike the lines before; expected qid:Q in all lines or in none"
            raise InputError(what, self._path, int(lines[mixed[0]]))
        if len(below) and self._negative == "error":
            label = labels[below[0]]
            remedy = '--negative-as-zero or negative="zero" reads it as 0'
            what = f"label {label:g} is negative; expected a number of at least 0 ({remedy})"
            raise InputError(what, self._path, int(lines[below[0]]))
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
        self._commented.add(comments, per_row)

    def _documents(self, comments: list[bytes] | None, lines: Array) -> Array:
        if comments is None:
            return np.zeros(len(lines), "U1")
        found = map(_DOC_ID.search, comments)
        ids = [b"" if match is None else match[match.lastindex or 0] for match in found]
        if max(map(len, ids)) <= MAX_FIELD:
            with suppress(UnicodeDecodeError):
                return np.array(b"\n".join(ids).decode().split("\n"))
        # One by one, to name the line.
        return np.array([*map(self._decode, ids, repeat("document id"), lines.tolist())])

    def _decode(self, text: bytes | None, what: str, line: int) -> str:
        if len(text or b"") > MAX_FIELD:
            raise InputError(f"{what} of {len(text or b''):,} bytes; expected at most {MAX_FIELD}", self._path, line)
        try:
            return (text or b"").decode()
        except UnicodeDecodeError:
            raise InputError(f"{what} {shown(text)} is not text; expected UTF-8", self._path, line) from None

    def finish(self, group: str | Path | npt.ArrayLike | None) -> tuple[Array, Array, Array | None]:
        """Labels, query ids and document ids of all rows."""
        if self._has_qid is None:
            raise InputError(f"has no documents; {_EXPECTED}", self._path)
        labels = np.concatenate(self._labels)
        if not self._has_qid:
            qid = qid_from_groups(self._path, group, len(labels), self._first_line)
        elif group is not None:
            raise InputError("has qid:Q in its lines, and group was given too; expected only one of them", self._path)
        else:
            qid = np.repeat(np.array(self._heads), np.concatenate(self._runs))
        doc_ids, others = np.concatenate(self._doc_ids), self._commented.doc_ids()
        if others is not None:
            doc_ids = np.array(others)
        return labels, qid, doc_ids if (doc_ids != "").any() else None

    @property
    def query_texts(self) -> dict[str, str] | None:
        """Texts of queries from comments, if they have the form ``# document text``."""
        return self._commented.query_texts()
