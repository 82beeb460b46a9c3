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
from itertools import chain, pairwise, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.data import sparse as sp
from rankwright.data.dataset import RankingData, most_features
from rankwright.data.threads import threads_of
from rankwright.errors import InputError
from rankwright.io.files import (
    MAX_FIELD,
    OpenFile,
    Progress,
    Source,
    check_text,
    map_ahead,
    open_file,
    read_ahead,
    replace_file,
)
from rankwright.io.tables import read_fields

if TYPE_CHECKING:
    from rankwright.io.kernels import Fault, LineParser, Parsed


__all__ = ["read_letor", "write_letor"]

# Comments of LETOR lines that hold a document id and the text of the query, such as `# 7555 rambo`.
#
# Any comment of two words has this form. It counts only if the whole file agrees: every line has such a comment,
# the text is the same in all lines of a query, no id occurs twice in a query, and some query has several lines.


_FORM = re.compile(rb"\s*([^\s#;=]+);?\s+([^\s#=][^#=]*)")


class CommentedQueries:
    """Document ids and query texts from comments, as long as all comments have that form."""

    def __init__(self) -> None:
        self.is_borne_out = True
        self._has_several = False
        self._seen: set[tuple[bytes, bytes]] = set()
        self._texts: dict[bytes, bytes] = {}
        self._ids: list[bytes] = []

    def add(self, comments: Iterable[bytes] | None, qids: Iterable[bytes | None]) -> None:
        if self.is_borne_out and (comments is None or not self._fits(comments, qids)):
            self.is_borne_out = False
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
        if not (self.is_borne_out and self._has_several):
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

    def fits(self) -> bool:
        """Whether all comments have the form; sorts the hashes in place."""
        hashes = np.frombuffer(self._hashes, np.uint64) if self._hashes else np.empty(0, np.uint64)
        hashes.sort()
        return self.is_borne_out and self._has_several and not bool((hashes[1:] == hashes[:-1]).any())

    def _keep(self, qid: bytes, document: bytes) -> bool:
        try:
            document.decode()
        except UnicodeDecodeError:
            return False
        digest = hashlib.blake2b(qid + b" " + document, digest_size=8).digest()
        self._hashes.append(int.from_bytes(digest, "little"))
        return True


# Error messages for lines of LETOR text.


_NO_QID = "qid: without a query id; expected qid:Q"


def shown(text: bytes | None) -> str:
    """A piece of the file for a message: short and printable."""
    text = text or b""
    return repr((text[:40] + b"..." if len(text) > 40 else text).decode("utf-8", "replace"))


def _bad_label(token: bytes) -> str:
    return f"label {shown(token)} is not a finite number; expected label qid:Q id:value ..."


def _explain(chunk: bytes, fault: Fault, n_features: int | None, dtype: np.dtype[Any]) -> str:
    from rankwright.io import kernels as kernel

    token = re.split(rb"[\s#]", chunk[fault.at :], maxsplit=1)[0]
    name, colon, value = token.partition(b":")
    if fault.code == kernel.BAD_LABEL:
        return _bad_label(token)
    if fault.code == kernel.NO_QID:
        return _NO_QID
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

    `group`: rows per query, or a file of them; default: the file of the same name plus ``.query``. `line`: the first
    line without ``qid:``, for messages.
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
            line = int(columns.lines[wrong[0]])
            raise InputError(f"group size {sizes[wrong[0]]:g}; expected a whole number", path, line)
        chunks.append(sizes)
    return np.concatenate(chunks)


# Lines of LETOR text without their features: labels, query ids and document ids, checked as they are read.


Negative = Literal["error", "zero"]

EXPECTED = "expected lines of: label qid:Q id:value id:value ... # comment"
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DOC_ID = re.compile(rb"(?:^|\s)docid\s*=\s*([^\s#]+)|^\s*(?!docid\s*=)([^\s#]+)\s*$", re.IGNORECASE)


class LetorRows:
    """All of each row but its features, collected chunk by chunk and checked on the way.

    `first_line`: the line of the first row; 0 while there is none. `commented`: looks for comments of a document id and
    the text of the query; or whether it is known that all are of that form.
    """

    def __init__(self, path: str | Path, negative: Negative, commented: CommentedQueries | bool | None = None) -> None:
        if negative not in ("error", "zero"):
            raise InputError(f'negative is {negative!r}; expected "error" or "zero"')
        self._path, self._negative = path, negative
        self._has_qid: bool | None = None
        self.first_line = 0
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
                fault = _NO_QID if abs(label) < np.inf else _bad_label(fields[0])
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
            self._has_qid, self.first_line = qids[0] is not None, int(lines[0])
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
        if isinstance(self._commented, CommentedQueries):
            sizes = np.diff(heads, append=len(labels)).tolist()
            self._commented.add(comments, chain.from_iterable(map(repeat, qids, sizes)))

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
        labels, qid, doc_ids = self.take()
        if qid is None:
            qid = Groups(self._path, group, self.first_line).qid(0, len(labels), is_all=True)
        elif group is not None:
            raise InputError("has qid:Q in its lines, and group was given too; expected only one of them", self._path)
        documents = None if isinstance(self._commented, bool) else self._commented.doc_ids()
        if documents is not None:
            doc_ids = np.array(documents)
        return labels, qid, doc_ids if (doc_ids != "").any() else None


_TINY = 1 << 16  # bytes up to which features are always dense
_STEP = 1 << 20  # values converted at a time
_CHUNK_BYTES = 1 << 20  # a chunk and its parsed arrays stay in the cache
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
            check_text(chunk, first_line, file.path, f"; {EXPECTED}")
            rows.add_parsed(chunk, parsed, first_line)
            if parsed.fault is not None:
                line = first_line + parsed.fault.line
                raise InputError(_explain(chunk, parsed.fault, n_features, dtype), file.path, line)
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
    """Labels, query ids and document ids (None if there are none), as :func:`read_letor` reads them."""
    with open_file(path) as file:
        rows = _light_rows(file, negative, progress)
    return rows.finish(group)


def read_letor_queries(path: Source, progress: Progress | None = None) -> dict[str, str] | None:
    """Query texts from comments such as ``# 7555 rambo``; None if comments have another form."""
    commented = CommentedQueries()
    with open_file(path) as file:
        _light_rows(file, "zero", progress, commented)
    return commented.query_texts()


def _light_rows(
    file: OpenFile, negative: Negative, progress: Progress | None, commented: CommentedQueries | None = None
) -> LetorRows:
    rows = LetorRows(file.path, negative, commented)
    for _ in _added_chunks(rows, file, progress):
        pass
    return rows


def _added_chunks(rows: LetorRows, file: OpenFile, progress: Progress | None) -> Generator[None, None, None]:
    """Add the rows of a file chunk by chunk, without features."""
    first_line = 1
    with closing(_text_chunks(file, progress)) as chunks:
        for chunk, _ in chunks:
            check_text(chunk, first_line, file.path, f"; {EXPECTED}")
            rows.add_text(chunk, first_line)
            first_line += int(np.count_nonzero(np.frombuffer(chunk, np.uint8) == ord("\n")))  # faster than count
            yield


def is_commented(file: OpenFile) -> bool:
    """Whether every comment is a document id and the text of the query; keeps a few bytes a line."""
    look = CommentedQueriesLook()
    rows = LetorRows(file.path, "zero", look)
    with suppress(InputError), closing(_added_chunks(rows, file, None)) as chunks:
        for _ in chunks:
            if not look.is_borne_out:
                return False
            rows.forget()
        return look.fits()
    return False  # an error is reported by the parser of lines, unless an earlier line is wrong


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
    with closing(read_ahead(chunks(), 4) if file.is_gzip else chunks()) as pieces:
        for chunk, done, total in pieces:
            if progress is not None:  # raised here, in the caller's thread, and not by the reading one
                progress(done, total)
            if is_first:
                chunk = chunk.removeprefix(b"\xef\xbb\xbf")
            is_first = False
            yield chunk if chunk.endswith(b"\n") else chunk + b"\n", min(max(done, 1) / max(total, 1), 1.0)
    if progress is not None:
        progress(*read)


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


def is_smaller_sparse(n_rows: int, width: int, n_written: int, item: int, margin: float = 1.0) -> bool:
    """Whether features are smaller as CSR: ``n_written`` values of ``item`` bytes each, with their columns."""
    sparse_bytes = max(n_written * (item + 4) + n_rows * 4, _TINY)
    return n_rows * width * item > margin * sparse_bytes


def without_zeros(counts: Array, columns: Array, values: Array) -> tuple[Array, Array, Array]:
    """Rows, by their numbers of values and the column of each, without those that are 0."""
    nonzero = values != 0
    if nonzero.all():
        return counts, columns, values
    rows = np.repeat(np.arange(len(counts)), counts)
    return np.bincount(rows[nonzero], minlength=len(counts)), columns[nonzero], values[nonzero]


class FeatureTable:
    """Features collected chunk by chunk, dense or CSR, whichever is smaller so far."""

    def __init__(self, dtype: np.dtype[Any], n_features: int | None) -> None:
        self._dtype = dtype
        self._n_rows = self._n_written = 0
        self._width = n_features or 0
        self._is_dense = True
        self._share = 1.0
        self._values, self._columns, self._counts = _Growing(dtype), _Growing(np.int32), _Growing(np.int64)

    def add(self, counts: Array, columns: Array, values: Array, share: float) -> None:
        """Append rows, given by their numbers of features and the column and value of each.

        ``share`` is roughly the share of the file up to and including them.
        """
        self._share = share
        width = max(self._width, int(columns.max()) + 1 if len(columns) else 0)
        n_rows = self._n_rows + len(counts)
        self._n_written += len(values)
        size = (n_rows, width, self._n_written, self._dtype.itemsize)
        # A margin of a quarter in one direction keeps a borderline file from being converted back and forth.
        if self._is_dense and is_smaller_sparse(*size, margin=1.25):
            self._set_sparse()
        elif not self._is_dense and not is_smaller_sparse(*size):
            self._values.extend(self._take_sparse_as_dense(width).reshape(-1), self._share)
            self._is_dense = True
        elif self._is_dense and width > self._width and self._n_rows:
            wider = np.zeros((self._n_rows, width), self._dtype)
            wider[:, : self._width] = self._take_dense()
            self._values.extend(wider.reshape(-1), self._share)
        self._n_rows, self._width = n_rows, width
        if self._is_dense:
            self._values.extend(self._dense(counts, columns, values, width), self._share)
        else:
            self._extend_sparse(counts, columns, values)

    def finish(self, sparse: bool | None) -> Any:
        """The features: CSR if ``sparse`` is true, dense if false, the smaller form if None."""
        if sparse is None:
            sparse = is_smaller_sparse(self._n_rows, self._width, self._n_written, self._dtype.itemsize)
        if not sparse:
            try:
                return self._take_dense() if self._is_dense else self._take_sparse_as_dense(self._width)
            except MemoryError:
                text = f"a dense array of {self._n_rows} × {self._width} does not fit in memory; expected sparse=True"
                raise InputError(text) from None
        if self._is_dense:
            self._set_sparse()
        values, columns = self._values.take(), self._columns.take()
        indptr = np.zeros(self._n_rows + 1, np.int32 if len(values) < 2**31 else np.int64)
        np.cumsum(self._counts.take(), out=indptr[1:])
        return sp.csr_array((values, columns, indptr), shape=(self._n_rows, self._width))

    def _extend_sparse(self, counts: Array, columns: Array, values: Array) -> None:
        kept = without_zeros(counts, columns, values.astype(self._dtype))  # the smallest float64 are 0 in float32
        for collected, items in zip((self._counts, self._columns, self._values), kept, strict=True):
            collected.extend(items, self._share)

    def _set_sparse(self) -> None:
        X = self._take_dense()
        self._is_dense = False
        step = max(1, _STEP // max(1, X.shape[1]))
        for start in range(0, len(X), step):
            block = X[start : start + step]
            rows, columns = np.nonzero(block)
            self._extend_sparse(np.bincount(rows, minlength=len(block)), columns, block[rows, columns])

    def _dense(self, counts: Array, columns: Array, values: Array, width: int) -> Array:
        """Rows one after the other."""
        if len(values) == len(counts) * width:
            return values
        X = np.zeros((len(counts), width), self._dtype)
        X[np.repeat(np.arange(len(counts)), counts), columns] = values
        return X.reshape(-1)

    def _take_dense(self) -> Array:
        return self._values.take().reshape(self._n_rows, self._width)

    def _take_sparse_as_dense(self, width: int) -> Array:
        X = np.zeros((self._n_rows, width), self._dtype)
        counts, columns, values = self._counts.take(), self._columns.take(), self._values.take()
        stops = np.cumsum(counts)
        row = 0
        while row < len(X):
            first = int(stops[row] - counts[row])
            end = max(row + 1, int(np.searchsorted(stops, first + _STEP, side="right")))
            last = int(stops[end - 1])
            X[np.repeat(np.arange(row, end), counts[row:end]), columns[first:last]] = values[first:last]
            row = end
        return X


# Writing LETOR text: each number as the shortest text that reads back to the same value.


_NOT_AN_ID = re.compile(r"[\s#\0\ud800-\udfff]|^$")
_WRITE_ROWS = 512


def write_letor(data: RankingData, path: str | Path) -> None:
    """Write data as LETOR / SVMlight text, each number as the shortest text that reads back to the same value.

    Zeros are written for dense data and left out for sparse data; if the last column of sparse data is empty, the first
    line has a 0 there to keep the number of features. Feature names go into a comment on the first line,
    ``# features:``, separated by tabs.

    Parameters
    ----------
    data : RankingData
        The data, written in its own order.
    path : path
        The file; gzip if the name ends in ``.gz``.

    Examples
    --------
    >>> import tempfile
    >>> data = RankingData.from_arrays([[0.1, 0.0], [2.0, 3.5]], [0, 1], qid=["a", "a"], doc_ids=["x", "y"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_letor(data, Path(folder) / "data.txt")
    ...     print((Path(folder) / "data.txt").read_text(), end="")
    0 qid:a 1:0.1 2:0 # docid = x
    1 qid:a 1:2 2:3.5 # docid = y
    """
    if any(isinstance(value, str) for values in data.categories.values() for value in values[:1]):
        data.check_numbers("LETOR text", "write Parquet or a .rank folder")
    data.check_labels()
    query_ids = _checked_ids(data.query_ids, "query id")
    if len(set(query_ids)) < len(query_ids):
        raise InputError("query ids that differ only in type are the same in a text file")
    heads = [f" qid:{text} " for text in query_ids]
    queries = data.query_of_row()
    names = data.feature_names or ()
    if any(re.search(r"[\t\r\n]", name) for name in names):
        raise InputError("a feature name contains a tab or a line break; expected neither")
    with replace_file(path) as file:
        if names:
            file.write(NAMES + "\t".join(names).encode() + b"\n")
        for start in range(0, data.n_docs, _WRITE_ROWS):
            rows = slice(start, start + _WRITE_ROWS)
            texts = [
                [*map(repr, _shortest(data.labels[rows]))],
                [heads[query] for query in queries[rows].tolist()],
                _feature_texts(data, rows),
            ]
            if data.doc_ids is not None:
                doc_ids = _checked_ids(data.doc_ids[rows], "document id")
                texts.append([f"# docid = {doc}" if doc else "" for doc in doc_ids])
            file.write("".join(f"{''.join(line).rstrip()}\n" for line in zip(*texts, strict=True)).encode())


def _checked_ids(ids: Array, what: str) -> list[str]:
    texts = [*map(str, ids.tolist())]
    for text in texts:
        if _NOT_AN_ID.search(text) and not (text == "" and what == "document id"):
            raise InputError(f"{what} {text!r} cannot be written; expected no white space and no #")
    return texts


def _feature_texts(data: RankingData, rows: slice) -> list[str]:
    """``id:value id:value `` of each row."""
    X = data.X[rows]
    if not data.is_sparse:
        template = "".join(f"{column}:%r " for column in range(1, data.n_features + 1))
        return [template % tuple(row) for row in _shortest(X)]
    X = X.copy()
    X.eliminate_zeros()
    pairs: list[Any] = [None] * (2 * X.nnz)
    pairs[::2] = (X.indices.astype(np.int64) + 1).tolist()
    pairs[1::2] = _shortest(X.data)
    spans = pairwise((2 * X.indptr.astype(np.int64)).tolist())
    texts = ["%d:%r " * ((stop - start) // 2) % tuple(pairs[start:stop]) for start, stop in spans]
    if rows.start == 0 and data.n_features and not data.X.data[data.X.indices == data.n_features - 1].any():
        texts[0] += f"{data.n_features}:0 "
    return texts


def _shortest(values: Array) -> list[Any]:
    """Python numbers whose ``repr`` is the shortest text that reads back as the same value; int where possible."""
    exact = values.astype(np.float64)
    integers = (exact == np.rint(exact)) & (np.abs(exact) < 1e16)
    if values.dtype == np.float32:
        exact[~integers] = _short_decimals(exact[~integers])
    numbers = exact.astype(object)
    numbers[integers] = exact[integers].astype(np.int64)
    return numbers.tolist()


def _short_decimals(values: Array) -> Array:
    """The float64 nearest to the shortest decimal of each float32 value."""
    values = values.copy()
    unresolved = np.arange(len(values))
    for n_digits in range(6, 10):  # float32 keeps any 6 digits, and 9 tell any two float32 apart
        x = values[unresolved]
        shift = n_digits - 1 - np.floor(np.log10(np.abs(x)))
        # With an exact power there is one rounding only: this is the float64 nearest to a short decimal.
        power = 10.0 ** np.clip(np.abs(shift), 0, 22)
        short = np.where(shift >= 0, np.rint(x * power) / power, np.rint(x / power) * power)
        exact = (np.abs(shift) <= 22) & (short.astype(np.float32) == x)
        values[unresolved[exact]] = short[exact]
        unresolved = unresolved[~exact]
    values[unresolved] = [float(str(x)) for x in values[unresolved].astype(np.float32)]
    return values
