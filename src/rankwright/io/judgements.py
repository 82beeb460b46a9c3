"""Judgements and runs in all their forms: tables, frames, JSON, LETOR lines, BEIR folders, ir_datasets.

A query may be named by its text: its id is then the text with ``_`` between the words (:func:`query_word`), which
:func:`rankwright.read_queries` gives to queries without an id, too.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rankwright._types import Array
from rankwright.errors import InputError, InputWarning, shown
from rankwright.io.columns import MAX_FIELD
from rankwright.io.files import OpenFile, Progress, Source
from rankwright.io.frames import columns_of, import_library
from rankwright.io.roles import (
    DOCUMENT,
    LABEL,
    QUERY_ID,
    QUERY_TEXT,
    Columns,
    Layout,
    check_columns,
    find,
    find_query,
    lacking,
    listed,
    plain,
)
from rankwright.io.tables import (
    PARQUET,
    header_cells,
    is_missing,
    is_number,
    json_lines,
    json_value,
    open_table,
    start_of,
    utf8_lines,
)

# Collections of the package ir_datasets, named `ir_datasets:NAME` where a file of documents or queries may stand.


PREFIX = "ir_datasets:"


def is_catalogued(path: object) -> bool:
    """Whether this names a collection of ir_datasets instead of a file."""
    return isinstance(path, str | Path) and str(path).startswith(PREFIX)


def collection_of(path: str | Path, part: str) -> Any:
    """A collection that has ``docs``, ``queries`` or ``qrels``; the package downloads what it lacks.

    Examples
    --------
    >>> collection_of("ir_datasets:vaswani", "docs")  # doctest: +SKIP
    Dataset(id='vaswani', provides=['docs', 'queries', 'qrels'])
    """
    package = import_library("ir_datasets")
    name = str(path).removeprefix(PREFIX)
    try:
        found = package.load(name)
    except KeyError:
        raise InputError("is not a collection of ir_datasets; expected a name of its catalogue", path) from None
    if not getattr(found, f"has_{part}")():
        raise InputError(f"has no {part}; expected a collection of ir_datasets that has them", path)
    return found


What = Literal["qrels", "run"]

TREC = ("query", "iteration", "document", "label")
"""The columns of TREC's qrels, which have no header."""

_VALUES = {"qrels": ("label", "rating"), "run": ("score", "score")}  # role, and the word for it
_KNOWN = frozenset((*QUERY_ID, *QUERY_TEXT, *DOCUMENT, *LABEL))
_LISTS = ("judgmentRatings", "judgementRatings", "judgments", "judgements")


@dataclass
class Judged:
    """Judgements or a run as they are read: one entry per row in each list."""

    path: str | Path
    what: What = "qrels"
    queries: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    unrated: int = 0
    layout: str = ""

    def add(self, query: Any, document: Any, value: Any, line: int | None) -> None:
        """Add a judgement, or a document of a run; a judgement without a document or a rating is counted."""
        if document is None or not str(document).strip() or is_missing(value):
            if self.what == "run":
                raise InputError("has no document or no score; expected both in every row", self.path, line)
            self.unrated += 1
            return
        words = {"query": query_word(_text(query)), "document id": _text(document).strip()}
        for what, word in words.items():
            if not word or len(word) > MAX_FIELD:
                found = "is empty" if not word else f"has {len(word):,} characters"
                raise InputError(f"the {what} {found}; expected up to {MAX_FIELD}", self.path, line)
        if len(words["document id"].split()) != 1:
            what = f"the document id {shown(document)} contains whitespace"
            raise InputError(f"{what}; expected one word (for TREC files)", self.path, line)
        self.queries.append(words["query"])
        self.documents.append(words["document id"])
        self.values.append(_number(value, _VALUES[self.what][1], self.path, line))
        self.lines.append(line or 0)

    def finish(self) -> Judged:
        """Report what was skipped; without any row it is an error."""
        if self.what == "run" and not self.values:
            raise InputError("has no documents; expected query, document and score", self.path)
        skipped = f"{self.unrated:,} row{'s' if self.unrated > 1 else ''} without a document or a rating"
        if not self.values:
            found = f"has only {skipped}" if self.unrated else "has no judgements"
            raise InputError(f"{found}; expected query, document and rating", self.path)
        if self.unrated:
            warnings.warn(f"{self.path}: skipped {skipped}", InputWarning, stacklevel=4)
        return self


def query_word(text: str) -> str:
    """The id of a query that has only a text.

    Examples
    --------
    >>> query_word(" red  dress")
    'red_dress'
    """
    return "_".join(text.split())


def judgement_layout(
    names: Sequence[str], columns: Columns | None = None, what: What = "qrels", *, is_declared: bool = True
) -> Layout | None:
    """Find the columns of queries, documents and grades, or scores of a run; None if one of them is missing.

    Grades called ``score`` are understood as BEIR and ranx write them, beside ``corpus_id`` and ``q_id``; the latter
    only where the caller knows which of the two it is, as runs of ranx have the same columns as its judgements.

    Examples
    --------
    >>> print(judgement_layout(["Query", "docid", "rating", "comment"]))
    queries 'Query', documents 'docid', grades 'rating'; skipped 'comment'
    """
    check_columns(columns, names)
    role = _VALUES[what][0]
    query, document, value = find_query(names, columns), find(names, "docid", columns), find(names, role, columns)
    if value is None and what == "qrels" and {plain(name) for name in names} & {"corpus_id", "q_id" * is_declared}:
        value = find(names, "score")
    if query is None or document is None or value is None:
        return None
    return Layout(query, value, document, [], [name for name in names if name not in (query, document, value)])


def no_layout(names: Sequence[str], columns: Columns | None, what: What) -> str:
    """Say which columns were expected of judgements or a run, and what the missing ones may be called."""
    role, word = _VALUES[what]
    missing = lacking([str(name) for name in names], columns, "qid", "docid", role)
    return f"has the columns {listed(names)}; expected columns for query, docid and {word}; {missing}"


def judged_in(
    file: OpenFile, columns: Columns | None, progress: Progress | None, what: What = "qrels"
) -> Judged | None:
    """Read the judgements, or the run, of a file that is not TREC's (a table, JSON, LETOR lines); None if it is."""
    read = _reader_of(file, columns, what)
    if read is None:
        return None
    judged = Judged(file.path, what)
    try:
        read(file, judged, columns, progress)
    except InputError as error:
        raise error if error.path is not None else InputError(error.message, file.path) from None
    return judged.finish()


_Reader = Callable[[OpenFile, Judged, Columns | None, Progress | None], None]


def _reader_of(file: OpenFile, columns: Columns | None, what: What) -> _Reader | None:
    if file.start(len(PARQUET)) == PARQUET:
        return _table
    start = start_of(file)
    if start[:1] in (b"{", b"["):
        return _json
    lines = (line.strip() for line in start.split(b"\n"))
    first = next((line for line in lines if line and not line.startswith(b"#")), b"").decode("utf-8", "replace")
    words = first.split()
    if what == "run":
        return _table if columns or judgement_layout(header_cells(first), None, "run") else None
    if len(words) > 1 and words[1].startswith("qid:"):
        return _letor
    return _table if columns or _is_header(first) else None


def _is_header(line: str) -> bool:
    """Whether a line names columns of a table; one of TREC has four words, the last of them a number."""
    cells, words = header_cells(line), line.split()
    if len(cells) < 2 or (len(words) == len(TREC) and is_number(words[-1])):
        return False
    return any(plain(cell) in _KNOWN for cell in cells) or (len(cells) > 2 and "\t" not in line)


def beir_qrels(folder: Path) -> Path | None:
    """The judgements of a folder as BEIR has them; None if it is not one."""
    found = sorted([*folder.glob("qrels/*.tsv"), *folder.glob("qrels/*.tsv.gz")])
    if len(found) > 1:
        listed = ", ".join(path.name for path in found[:5])
        raise InputError(f"has several judgements ({listed}); expected one of them, such as {found[-1]}", folder)
    return found[0] if found else None


def in_folder(source: Source) -> Source:
    """Return the file of judgements: that of a BEIR folder, or the one given."""
    if isinstance(source, OpenFile) or not Path(source).is_dir():
        return source
    found = beir_qrels(Path(source))
    if found is None:
        raise InputError("is a folder without qrels/*.tsv; expected a file of judgements, or a BEIR folder", source)
    return found


def catalogued(path: str | Path) -> Judged:
    """Return the judgements of a collection of ir_datasets."""
    judged = Judged(path)
    for one in collection_of(path, "qrels").qrels_iter():
        judged.add(one.query_id, one.doc_id, one.relevance, None)
    return judged.finish()


def _table(file: OpenFile, judged: Judged, columns: Columns | None, progress: Progress | None) -> None:
    _add_rows(open_table(file, progress).named(), judged, columns)


def _add_rows(rows: Iterable[tuple[int | None, Mapping[str, Any]]], judged: Judged, columns: Columns | None) -> None:
    """Add rows whose columns the first one tells."""
    chosen: Layout | None = None
    for line, row in rows:
        if chosen is None:
            chosen = judgement_layout(list(row), columns, judged.what)
            if chosen is None:
                raise InputError(no_layout(list(row), columns, judged.what), judged.path, line)
            judged.layout = judged.layout or str(chosen)
        judged.add(row.get(chosen.qid), row.get(chosen.docid or ""), row.get(chosen.label), line)


def _json(file: OpenFile, judged: Judged, columns: Columns | None, progress: Progress | None) -> None:
    lines = list(utf8_lines(file, progress))
    objects = [text for _, text in lines if text.strip()]
    if len(objects) > 1 and all(text.lstrip().startswith("{") and text.rstrip().endswith("}") for text in objects[:2]):
        for line, row in json_lines(lines, file.path):
            _add_json(row, judged, columns, line)
        return
    found = json_value("\n".join(text for _, text in lines), file.path, None, "judgements")
    _add_json(found, judged, columns, None)


def _add_json(found: Any, judged: Judged, columns: Columns | None, line: int | None) -> None:
    """Add judgements in any of the forms of JSON: OpenSearch's lists, flat rows, documents by query."""
    if isinstance(found, list):
        if found and isinstance(found[0], dict) and not isinstance(found[0].get("ratings"), list):
            rows = ((line or number, row if isinstance(row, dict) else {}) for number, row in enumerate(found, 1))
            _add_rows(rows, judged, columns)
            return
        for item in found:
            _add_ratings(item, judged, line)
        return
    if not isinstance(found, dict):
        raise InputError(
            f"a JSON {type(found).__name__}; expected columns for query, docid and rating", judged.path, line
        )
    found = found["_source"] if isinstance(found.get("_source"), dict) else found
    listed = next((found[key] for key in _LISTS if isinstance(found.get(key), list)), None)
    if listed is not None:
        _add_json(listed, judged, columns, line)
    elif isinstance(found.get("ratings"), list):
        _add_ratings(found, judged, line)
    elif found and all(isinstance(value, dict) for value in found.values()):
        for query, documents in found.items():
            for document, rating in documents.items():
                judged.add(query, document, rating, line)
    else:
        _add_rows([(line, found)], judged, columns)


def _add_ratings(found: Any, judged: Judged, line: int | None) -> None:
    """Add a query of OpenSearch's judgement lists: its text, then ratings of documents."""
    ratings = found.get("ratings") if isinstance(found, dict) else None
    if not isinstance(ratings, list) or "query" not in found:
        raise InputError(f"{shown(found)}; expected a query and its ratings (docId, rating)", judged.path, line)
    _add_rows(
        ((line, {"query": found["query"], **(one if isinstance(one, dict) else {})}) for one in ratings), judged, None
    )


def _letor(file: OpenFile, judged: Judged, columns: Columns | None, progress: Progress | None) -> None:
    from rankwright.io.letor import read_letor_labels

    labels, qid, documents = read_letor_labels(file, progress=progress)
    if documents is None or (documents == "").any():
        what = "has lines without document ids"
        raise InputError(f"{what}; expected `# docid = X` or `# X query` at the end of every line", file.path)
    judged.queries, judged.documents = qid.tolist(), documents.tolist()
    judged.values, judged.lines = labels.tolist(), [0] * len(labels)
    judged.layout = "LETOR lines, with the documents that their comments name"


def _text(value: Any) -> str:
    """An id or a text; a whole number in a column of floats is written as such."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else "" if value is None else str(value)


def _number(value: Any, word: str, path: str | Path, line: int | None) -> float:
    text = str(value).strip()
    number = float(text) if is_number(text) else math.nan
    if not math.isfinite(number):
        hint = " with a decimal point" if "," in text else ", such as 0 to 4" if word == "rating" else ""
        raise InputError(f"the {word} is {shown(value)}; expected a number{hint}", path, line)
    return number


def frame_columns(frame: Any, what: What) -> tuple[Array, Array, Array]:
    """Return the queries, documents and numbers of a data frame of judgements or of a run.

    The rules are those of tables in files: rows without a document or a rating are skipped with a warning; the words of
    a query are joined.
    """
    columns = columns_of(frame)
    layout = judgement_layout(columns.names, None, what)
    if layout is None or layout.docid is None:
        raise InputError(f"the data frame of the {what} {no_layout(columns.names, None, what)}")
    if columns.number_type(layout.label) is None:
        raise InputError(f"the column {layout.label!r} of the {what} has a non-numeric value; expected numbers")
    values = {name: columns.values(name) for name in (layout.qid, layout.docid, layout.label)}
    kept = np.ones(columns.n_rows, bool)
    for name in values:
        missing = np.isnan(values[name]) if values[name].dtype.kind == "f" else columns.missing(name)
        if missing.any() and (what == "run" or name == layout.qid):
            which = f"the column {name!r} of the {what} has missing values (row {int(np.argmax(missing))}, from 0)"
            raise InputError(f"{which}; expected one in every row")
        if missing.any():
            kept &= ~missing
    if not kept.all():
        n = int((~kept).sum())
        skipped = f"skipped {n:,} row{'s' if n > 1 else ''} without a document or a rating"
        warnings.warn(f"the data frame of the {what}: {skipped}", InputWarning, stacklevel=4)
        values = {name: column[kept] for name, column in values.items()}
    queries, documents = _words(values[layout.qid], query_word), _words(values[layout.docid], str.strip)
    return queries, documents, np.asarray(values[layout.label], np.float64)


def _words(values: Array, word: Callable[[str], str]) -> Array:
    if values.dtype.kind == "f" and (values == np.floor(values)).all():
        values = values.astype(np.int64)
    if values.dtype.kind in "iu":
        return values.astype(str)
    texts = [value if isinstance(value, str) else str(value) for value in values.tolist()]
    return np.array([word(text) for text in texts], dtype=str)
