"""LETOR / SVMlight text: ``label qid:Q id:value id:value … # comment``, one document per line, plain or gzip.

Feature ids start at 1 and increase along a line; features that a line leaves out are 0. Files without ``qid:`` take
their queries from group sizes, as LightGBM's do. A first line ``# features:`` with tab-separated names, a comment to
other programs, names the features. The parser itself is in :mod:`rankwright.io.kernels`, imported only when
features are read: labels alone are read without numba.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing, suppress
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.data import sparse as sp
from rankwright.data.dataset import RankingData, most_features
from rankwright.data.threads import threads_of
from rankwright.errors import InputError
from rankwright.io.fields import MAX_FIELD, read_fields
from rankwright.io.files import OpenFile, Progress, Source, map_ahead, open_file, read_ahead

if TYPE_CHECKING:
    from rankwright.io.kernels import Fault, LineParser, Parsed

__all__ = ["read_letor"]

# Comments of LETOR lines that hold a document id and the text of the query, such as `# 7555 rambo`.
#
# Any comment of two words has this form. It counts only if the whole file agrees: every line has such a comment,
# the text is the same in all lines of a query, no id occurs twice in a query, and some query has several lines.


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


# Error messages for lines of LETOR text.


NO_QID = "qid: without a query id; expected qid:Q"
_TOKEN = re.compile(rb"[^\s#]*")


def shown(text: bytes | None) -> str:
    """A piece of the file for a message: short and printable."""
    text = text or b""
    return repr((text[:40] + b"..." if len(text) > 40 else text).decode("utf-8", "replace"))


def bad_label(token: bytes) -> str:
    return f"label {shown(token)} is not a finite number; expected label qid:Q id:value ..."


def explain(chunk: bytes, fault: Fault, n_features: int | None, dtype: np.dtype[Any]) -> str:
    from rankwright.io import kernels as kernel

    token = _TOKEN.match(chunk, fault.at)[0]  # type: ignore[index]  # it matches the empty string
    name, colon, value = token.partition(b":")
    if fault.code == kernel.BAD_LABEL:
        return bad_label(token)
    if fault.code == kernel.NO_QID:
        return NO_QID
    if fault.code == kernel.ID_RANGE:
        if name.strip(b"0") == b"":
            return "feature id 0; ids start at 1"
        if n_features is None:
            return f"feature id {shown(name)}; expected at most {kernel.MAX_ID}"
        return f"feature id {shown(name)}; expected at most {n_features}, the n_features given"
    if fault.code == kernel.ID_ORDER:
        return f"feature id {int(name)} after {fault.before}; expected each id once, in increasing order"
    if fault.code == kernel.VALUE_RANGE:
        return f"feature {int(name)} has the value {shown(value)}; expected a number that fits {dtype}"
    if fault.code == kernel.BAD_VALUE and value:
        return f"feature {int(name)} has the value {shown(value)}; expected a finite number"
    if fault.code == kernel.BAD_VALUE:
        return f"feature {int(name)} has no value; expected id:value"
    if name == b"qid" and colon:
        return f"{shown(token)} is among the features; expected it right after the label"
    if not colon:
        return f"{shown(token)} is not a feature; expected id:value"
    return f"feature id {shown(name)}; expected a positive integer"


# Query ids from group sizes, for LETOR text without `qid:`, as LightGBM's files have them.


class Groups:
    """The groups of a file's rows.

    `path`: the file. `group`: rows per query, or a file of them; default: the file of the same name plus ``.query``.
    `line`: the first line without ``qid:``, for messages.
    """

    def __init__(self, path: str | Path, group: str | Path | npt.ArrayLike | None, line: int) -> None:
        self._path = path
        self._source: str | Path | None = None
        if group is None:
            names = [f"{path}.query", f"{str(path).removesuffix('.gz')}.query"]
            group = next((name for name in names if Path(name).is_file()), None)
            if group is None:
                problem = f"no qid, and no group sizes: expected qid:Q after the label, the file {names[-1]}, or group="
                raise InputError(problem, path, line)
        if isinstance(group, str | Path):
            self._source = group
            sizes = _read_group_sizes(group)
        else:
            sizes = np.asarray(group)
            is_whole = sizes.ndim == 1 and sizes.dtype.kind in "iuf" and bool((sizes == np.floor(sizes)).all())
            if not is_whole or (sizes < 0).any():
                raise InputError("group must contain one whole number of rows per query")
        self._n_rows = float(sizes.sum())
        self._stops = np.cumsum(sizes[sizes > 0].astype(np.float64))  # whole numbers, or inf

    def qid(self, start: int, stop: int, *, is_all: bool = False) -> Array:
        """Query ids of some rows; ``is_all`` promises that no others follow."""
        if stop > self._n_rows or (is_all and stop != self._n_rows):
            count = f"{stop} documents" if is_all else "more documents"
            raise InputError(f"group sizes add up to {self._n_rows:.0f} but {self._path} has {count}", self._source)
        number = np.searchsorted(self._stops, np.arange(start, stop), side="right") + 1
        return number.astype(str)


def _read_group_sizes(path: str | Path) -> Array:
    chunks = []
    for columns in read_fields(path, ["size"], ["size"]):
        sizes = columns.numbers("size")
        wrong = np.flatnonzero((sizes < 0) | (sizes != np.floor(sizes)))
        if len(wrong):
            raise InputError(
                f"group size {sizes[wrong[0]]:g}; expected a whole number", path, int(columns.lines[wrong[0]])
            )
        chunks.append(sizes)
    return np.concatenate(chunks)


# Lines of LETOR text without their features: labels, query ids and document ids, checked as they are read.


Negative = Literal["error", "zero"]

EXPECTED = "expected lines of: label qid:Q id:value id:value ... # comment"
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DOC_ID = re.compile(rb"(?:^|\s)docid\s*=\s*([^\s#]+)|^\s*(?!docid\s*=)([^\s#]+)\s*$", re.IGNORECASE)


class LetorRows:
    """All of each row but its features, collected chunk by chunk and checked on the way.

    `path`: the file, for messages. `negative` ({"error", "zero"}): whether a label below 0 is an error or becomes 0.
    `commented`: looks for comments of a document id and the text of the query; whether it is known that all are of that
    form.
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
            matches = map(_FORM.fullmatch, comments)
            ids = [b"" if match is None else match[1] for match in matches]
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
            qid = Groups(self._path, group, self._first_line).qid(0, len(labels), is_all=True)
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
    from rankwright.io.kernels import MAX_ID

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
    from rankwright.io.kernels import LineParser

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


# The table in which rows of LETOR text are collected, chunk by chunk, without holding the features twice.


class _Growing:
    """A one-dimensional array that grows in place.

    It starts with room for what the whole file should need (pages that are never touched cost nothing) and grows by an
    eighth if that was too little.
    """

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._array = np.empty(0, dtype)
        self.size = 0

    def extend(self, items: Array, share: float) -> None:
        """Append; ``share`` is the share of the file read so far, including these items."""
        end = self.size + len(items)
        if self.size == 0:
            self._array = np.empty(int(end / share * 1.05), self._array.dtype)
        elif end > len(self._array):
            self._array.resize(max(end, len(self._array) * 9 // 8), refcheck=False)
        self._array[self.size : end] = items
        self.size = end

    def take(self) -> Array:
        """The items, trimmed; the object is empty afterwards."""
        if len(self._array) > self.size * 9 // 8:  # from numpy 2.5 on this copies
            self._array.resize(self.size, refcheck=False)
        items, self._array, self.size = self._array[: self.size], np.empty(0, self._array.dtype), 0
        return items


class FeatureTable:
    """Features collected chunk by chunk, dense or CSR, whichever is smaller so far."""

    _TINY = 1 << 16  # bytes up to which an array is always dense
    _STEP = 1 << 20  # values converted at a time

    def __init__(self, dtype: np.dtype[Any], n_features: int | None) -> None:
        self._dtype = dtype
        self._n_rows = self._n_written = 0
        self._width = n_features or 0
        self._is_dense = True
        self._share = 1.0
        self._values, self._columns, self._counts = _Growing(dtype), _Growing(np.int32), _Growing(np.int64)

    @property
    def width(self) -> int:
        return self._width

    def add(self, counts: Array, columns: Array, values: Array, share: float) -> None:
        """Append rows, given by their numbers of features and the column and value of each.

        ``share`` is roughly the share of the file up to and including them.
        """
        self._share = share
        width = max(self._width, int(columns.max()) + 1 if len(columns) else 0)
        n_rows = self._n_rows + len(counts)
        self._n_written += len(values)
        dense_bytes, sparse_bytes = self._costs(n_rows, width)
        # A margin of a quarter in one direction keeps a borderline file from being converted back and forth.
        if self._is_dense and dense_bytes > 1.25 * sparse_bytes:
            self._set_sparse(self._take_dense())
        elif not self._is_dense and dense_bytes < sparse_bytes:
            self._values.extend(self._take_sparse_as_dense(width).reshape(-1), self._share)
            self._is_dense = True
        elif self._is_dense and width > self._width and self._n_rows:
            wider = np.zeros((self._n_rows, width), self._dtype)
            wider[:, : self._width] = self._take_dense()
            self._values.extend(wider.reshape(-1), self._share)
        self._n_rows, self._width = n_rows, width
        if not self._is_dense:
            self._extend_sparse(counts, columns, values)
        elif len(values) == len(counts) * width:
            self._values.extend(values, self._share)
        else:
            X = np.zeros((len(counts), width), self._dtype)
            X[np.repeat(np.arange(len(counts)), counts), columns] = values
            self._values.extend(X.reshape(-1), self._share)

    def finish(self, sparse: bool | None) -> Any:
        """The features: CSR if ``sparse`` is true, dense if false, the smaller form if None."""
        dense_bytes, sparse_bytes = self._costs(self._n_rows, self._width)
        if sparse is None:
            sparse = dense_bytes > sparse_bytes
        if not sparse:
            try:
                return self._take_dense() if self._is_dense else self._take_sparse_as_dense(self._width)
            except MemoryError:
                text = f"a dense array of {self._n_rows} × {self._width} does not fit in memory; expected sparse=True"
                raise InputError(text) from None
        if self._is_dense:
            self._set_sparse(self._take_dense())
        values, columns = self._values.take(), self._columns.take()
        indptr = np.zeros(self._n_rows + 1, np.int32 if len(values) < 2**31 else np.int64)
        np.cumsum(self._counts.take(), out=indptr[1:])
        return sp.csr_array((values, columns, indptr), shape=(self._n_rows, self._width))

    def _costs(self, n_rows: int, width: int) -> tuple[int, int]:
        item = self._dtype.itemsize
        return n_rows * width * item, max(self._n_written * (item + 4) + n_rows * 4, self._TINY)

    def _extend_sparse(self, counts: Array, columns: Array, values: Array) -> None:
        nonzero = values.astype(self._dtype) != 0  # the smallest float64 are 0 in float32
        if not nonzero.all():
            rows = np.repeat(np.arange(len(counts)), counts)
            counts = np.bincount(rows[nonzero], minlength=len(counts))
            columns, values = columns[nonzero], values[nonzero]
        self._counts.extend(counts, self._share)
        self._columns.extend(columns, self._share)
        self._values.extend(values, self._share)

    def _set_sparse(self, X: Array) -> None:
        self._is_dense = False
        step = max(1, self._STEP // max(1, X.shape[1]))
        for start in range(0, len(X), step):
            rows, columns = np.nonzero(X[start : start + step])
            self._counts.extend(np.bincount(rows, minlength=len(X[start : start + step])), self._share)
            self._columns.extend(columns, self._share)
            self._values.extend(X[start : start + step][rows, columns], self._share)

    def _take_dense(self) -> Array:
        return self._values.take().reshape(self._n_rows, self._width)

    def _take_sparse_as_dense(self, width: int) -> Array:
        X = np.zeros((self._n_rows, width), self._dtype)
        counts, columns, values = self._counts.take(), self._columns.take(), self._values.take()
        stops = np.cumsum(counts)
        row = 0
        while row < len(X):
            first = int(stops[row] - counts[row])
            end = max(row + 1, int(np.searchsorted(stops, first + self._STEP, side="right")))
            last = int(stops[end - 1])
            X[np.repeat(np.arange(row, end), counts[row:end]), columns[first:last]] = values[first:last]
            row = end
        return X
