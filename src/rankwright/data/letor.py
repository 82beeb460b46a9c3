"""LETOR / SVMlight text: ``label qid:Q id:value id:value … # comment``, one document per line, plain or gzip.

Feature ids start at 1 and increase along a line; features that a line leaves out are 0. Files without ``qid:`` take
their queries from group sizes, as LightGBM's do. A first line ``# features:`` with tab-separated names, a comment to
other programs, names the features. The parser itself is in :mod:`rankwright.data.letor_kernel`, imported only when
features are read: labels alone are read without numba.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rankwright.data.ahead import map_ahead, read_ahead
from rankwright.data.dataset import RankingData
from rankwright.data.files import OpenFile, Progress, Source, open_file
from rankwright.data.letor_comments import CommentedQueriesLook
from rankwright.data.letor_messages import explain
from rankwright.data.letor_rows import EXPECTED, LetorRows, Negative
from rankwright.data.matching import most_features
from rankwright.data.threads import threads_of
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.data.letor_kernel import LineParser, Parsed

__all__ = ["is_commented", "names_in", "parsed_lines", "read_letor", "read_letor_labels", "read_letor_queries"]

Array = npt.NDArray[Any]

_CHUNK_BYTES = 1 << 20  # a chunk and its parsed arrays stay in the cache
_UNPACKED_AHEAD = 4  # chunks
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
    from rankwright.data.letor_kernel import MAX_ID
    from rankwright.data.letor_table import FeatureTable

    target, threads = np.dtype(dtype), threads_of(n_jobs)
    if target not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise InputError(f"dtype is {target}; expected float32 or float64")
    if n_features is not None and not 0 <= n_features <= MAX_ID:
        raise InputError(f"n_features is {n_features}; expected a number from 0 to {MAX_ID}")
    if not np.isfinite(null):
        raise InputError(f"null is {null}; expected a finite number")
    with open_file(path) as file:
        names = names_in(file)
        if names is not None and n_features not in (None, len(names)):
            raise InputError(f"names {len(names)} features; expected {n_features}", file.path, 1)
        n_features = n_features if names is None else len(names)
        table, rows = FeatureTable(target, n_features), LetorRows(file.path, negative)
        # The parsers' memory is freed here, before the queries are gathered.
        for parsed, share in parsed_lines(file, rows, target, n_features, null, threads, progress):
            table.add(parsed.counts, parsed.columns, parsed.values, share)
    labels, qid, doc_ids = rows.finish(group)
    return RankingData.from_arrays(table.finish(sparse), labels, qid, doc_ids=doc_ids, feature_names=names)


def names_in(file: OpenFile) -> list[str] | None:
    """Feature names in the first line, if it has any."""
    first = next(file.chunks(size=_CHUNK_BYTES), b"").removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0]
    if not first.startswith(NAMES):
        return None
    try:
        return first.removeprefix(NAMES).rstrip(b"\r").decode("utf-8").split("\t")
    except UnicodeDecodeError:
        raise InputError("the feature names are not UTF-8 text", file.path, 1) from None


def parsed_lines(
    file: OpenFile,
    rows: LetorRows,
    dtype: np.dtype[Any],
    n_features: int | None,
    null: float,
    threads: int,
    progress: Progress | None,
) -> Generator[tuple[Parsed, float], None, None]:
    """Parsed lines with the share of the file read so far; everything but features is added to ``rows``."""
    from rankwright.data.letor_kernel import LineParser

    parsers = [LineParser(dtype, n_features, null) for _ in range(1 if threads == 1 else 2 * threads + 1)]
    width, widest_line, n_bytes, first_line = n_features or 0, 0, 0, 1
    with closing(_parsed_chunks(file, progress, parsers, threads)) as chunks:
        for chunk, parsed, share in chunks:
            _check_text(chunk, first_line, file.path)
            rows.add_parsed(chunk, parsed, first_line)
            if parsed.fault is not None:
                line = first_line + parsed.fault.line
                raise InputError(explain(chunk, parsed.fault, n_features, dtype), file.path, line)
            n_bytes += len(chunk)
            if len(parsed.columns) and parsed.columns.max() >= width:
                row = int(np.searchsorted(np.cumsum(parsed.counts), np.argmax(parsed.columns), side="right"))
                width, widest_line = int(parsed.columns.max()) + 1, first_line + int(parsed.lines[row])
            yield parsed, share
            first_line += parsed.n_lines
    limit = most_features(n_bytes)
    if n_features is None and width > limit:
        problem = f"feature id {width}; expected at most {limit:,} in {n_bytes:,} bytes of text"
        raise InputError(f"{problem} (n_features allows more)", file.path, widest_line)


def _parsed_chunks(
    file: OpenFile, progress: Progress | None, parsers: Sequence[LineParser], threads: int
) -> Generator[tuple[bytes, Parsed, float], None, None]:
    """Chunks and what is parsed from them, in order: the same for any number of threads.

    Parsers take turns, and each reuses its memory: by then its previous chunk has been consumed.
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
    """Query texts from comments such as ``# 7555 rambo``; None if comments have another form."""
    with open_file(path) as file:
        return _light_rows(file, "zero", progress).query_texts


def _light_rows(file: OpenFile, negative: Negative, progress: Progress | None) -> LetorRows:
    """All rows, without their features."""
    rows = LetorRows(file.path, negative)
    first_line = 1
    with closing(_text_chunks(file, progress)) as chunks:
        for chunk, _ in chunks:
            _check_text(chunk, first_line, file.path)
            rows.add_text(chunk, first_line)
            first_line += int(np.count_nonzero(np.frombuffer(chunk, np.uint8) == ord("\n")))  # faster than count
    return rows


def is_commented(file: OpenFile) -> bool:
    """Whether every comment is a document id and the text of the query; keeps a few bytes a line."""
    look = CommentedQueriesLook()
    rows, first_line = LetorRows(file.path, "zero", look), 1
    with closing(_text_chunks(file, None)) as chunks:
        for chunk, _ in chunks:
            try:
                rows.add_text(chunk, first_line)
            except InputError:  # reported by the parser of lines, unless an earlier line is wrong
                return False
            if not look.may_fit:
                return False
            rows.forget()
            first_line += chunk.count(b"\n")
    return look.fits()


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
            if progress is not None:  # raised here, in the caller's thread, and not by the reading one
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
        raise InputError(f"is not a text file (it has a NUL byte); {EXPECTED}", path, line)
